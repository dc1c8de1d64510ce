#!/bin/sh
# Builds the program without any path of this machine in it. Usage: release.sh TARGET-DIR
set -eu
cd "$(dirname "$0")/.."
cargo fetch --locked --quiet
home=${CARGO_HOME:-$HOME/.cargo} separator=$(printf '\037')
mkdir -p "$1"
target=$(cd "$1" && pwd)
# Of two that match the last one counts: the target directory may lie in the tree.
flags="-Cstrip=symbols${separator}--remap-path-prefix=$PWD=/ktax${separator}--remap-path-prefix=$target=/target"
files="-ffile-prefix-map=$PWD=/ktax -ffile-prefix-map=$target=/target"
for registry in "$home"/registry/src/*/; do
    flags="$flags${separator}--remap-path-prefix=$registry=/crates/"
    files="$files -ffile-prefix-map=$registry=/crates/"
done
# The path of rustc.sh would be in the hash of each symbol's name, and move what is sorted by it.
RUSTC_WORKSPACE_WRAPPER='' CARGO_ENCODED_RUSTFLAGS=$flags CFLAGS="${CFLAGS-} $files" \
    cargo rustc --release --locked --bin ktax --target-dir "$target" -- -C target-feature=+crt-static
