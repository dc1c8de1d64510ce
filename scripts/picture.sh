#!/bin/sh
# Makes the README's picture of a page: some rows of the demo, with the bridge of one of them open. Usage: picture.sh
# KTAX FILE.png. It measures in a directory of its own; Chromium draws.
set -eu
ktax=$1 picture=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
status=0
"$ktax" compare lsm -w getppid -w read-1 -w open-close -w pipe -w fork-exit --out "$dir/run" \
    --html "$dir/page.html" >/dev/null || status=$?
[ "$status" -eq 3 ] || { echo "picture: ktax ended with $status instead of 3: nothing was slower" >&2; exit 1; }
# The first row of the table is drawn at the top; a fragment would scroll there.
sed 's/<details class="row" id="r1-2"/& open/; s/<nav id="tools" hidden/& style="display:none"/' "$dir/page.html" \
    >"$dir/open.html"
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$dir/profile" \
    --window-size=1080,1800 --screenshot="$dir/page.png" "file://$dir/open.html" 2>/dev/null
mv "$dir/page.png" "$picture"
