#!/bin/sh
# Lays out what is installed: the program, its manual pages, completions, the schema of its JSON, documents and licences,
# below a prefix such as /usr. Usage: stage.sh KTAX PREFIX
set -eu
cd "$(dirname "$0")/.."
ktax=$1 prefix=$2 share=$2/share
doc=$share/doc/ktax

install -D -m 755 "$ktax" "$prefix/bin/ktax"
# Markers for programs that are counted.
install -D -m 644 guest/ktax-mark.h "$prefix/include/ktax-mark.h"
mkdir -p "$share/man/man1"
"$ktax" man --out "$share/man/man1"
gzip -9 -n "$share"/man/man1/*.1
completions() {
    mkdir -p "$(dirname "$share/$2")"
    "$ktax" completions "$1" >"$share/$2"
}
completions bash bash-completion/completions/ktax
completions zsh zsh/vendor-completions/_ktax
completions fish fish/vendor_completions.d/ktax.fish
mkdir -p "$share/ktax"
"$ktax" report --schema >"$share/ktax/result.schema.json"

mkdir -p "$doc/docs" "$doc/campaigns"
cp README.md METHODOLOGY.md CHANGELOG.md LICENSE "$doc"
cp -r docs/. "$doc/docs"
cp campaigns/*.toml "$doc/campaigns"
sh scripts/third-party.sh >"$doc/THIRD-PARTY"
# The plugin's licence wants its sources beside it; the program carries the patches as they are.
cp -r plugin "$doc/plugin"
cp crates/ktax-model/src/counters/table.rs crates/ktax-engine/build.rs "$doc/plugin"
