#!/bin/sh
# Prints the licences of all that is linked into the program. Usage: third-party.sh
set -eu
cd "$(dirname "$0")/.."
registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
fail() { printf 'third-party: %s\n' "$*" >&2; exit 1; }

cat <<'HEAD'
What is linked into the program ktax, besides ktax itself, and the licence of each part.

The C library (glibc, LGPL-2.1-or-later) and the run-time library of GCC (GPL-3.0-or-later with the GCC Runtime Library
Exception) are the distribution's packages libc6-dev and libgcc-12-dev or newer, whose sources the distribution has. With
the sources of ktax you can link the program with another version of them. The standard library of Rust is under MIT or
Apache-2.0. SQLite, within libsqlite3-sys, is in the public domain.
HEAD

cargo fetch --locked --quiet
cargo tree --locked --quiet --edges normal,no-proc-macro --target "$(uname -m)-unknown-linux-gnu" --prefix none \
    --format '{p}|{l}' | sed 's/ (\*)$//' | LC_ALL=C sort -u |
while IFS='|' read -r package licence; do
    case $package in "ktax v"* | ktax-*) continue ;; esac
    name=${package%% *} version=${package#* v}
    dir=$(find "$registry" -mindepth 2 -maxdepth 2 -name "$name-${version%% *}")
    [ -d "$dir" ] || fail "the sources of $package are not below $registry"
    printf '\n%s\n%s\n\n' "======== $name ${version%% *}" "$licence"
    texts=$(find "$dir" -maxdepth 1 -type f \( -iname 'licen[sc]e*' -o -iname 'copying*' -o -iname 'notice*' \
        -o -iname 'unlicense*' -o -iname 'copyright*' \) | LC_ALL=C sort)
    if [ -z "$texts" ]; then
        case $licence in *MIT*) ;; *) fail "$package has no text of its licence" ;; esac
        echo "The crate has no text of its licence, which its manifest names. The text of MIT is in ktax's LICENSE."
        sed -n "/^authors = \[/,/\]/p" "$dir/Cargo.toml"
    fi
    printf '%s\n' "$texts" | while read -r text; do [ -z "$text" ] || cat "$text"; done
done
