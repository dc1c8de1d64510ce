#!/bin/sh
# Installs what the tests of pages need: a browser, a reader of PDF, and, where npm is, the rules of
# accessibility. Where it cannot, those tests say that they skip. Usage: setup-browser.sh DIR
set -eu

dir=$1
has() { command -v "$1" >/dev/null 2>&1; }
packages=
has chromium || packages="$packages chromium"
has pdftotext || packages="$packages poppler-utils"
if [ -n "$packages" ]; then
    as_root=
    [ "$(id -u)" = 0 ] || as_root="sudo -n"
    printf 'setup-browser: missing, to be installed:%s\n' "$packages"
    # Word splitting is wanted: the list is ours.
    $as_root apt-get install -q --yes --no-install-recommends $packages || {
        printf 'setup-browser: type: sudo apt-get install%s\n' "$packages" >&2
        exit 1
    }
fi
[ ! -e "$dir/package/axe.min.js" ] && has npm || exit 0
mkdir -p "$dir"
cd "$dir"
npm pack --silent axe-core@4 >/dev/null && tar -xzf axe-core-*.tgz package/axe.min.js && rm axe-core-*.tgz
