#!/bin/sh
# Builds the program without any path of this machine in it. Usage: release.sh TARGET-DIR
set -eu
cd "$(dirname "$0")/.."
cargo fetch --locked --quiet
home=${CARGO_HOME:-$HOME/.cargo} separator=$(printf '\037')
flags="--remap-path-prefix=$PWD=/ktax${separator}-Cstrip=symbols"
files="-ffile-prefix-map=$PWD=/ktax"
for registry in "$home"/registry/src/*/; do
    flags="$flags${separator}--remap-path-prefix=$registry=/crates/"
    files="$files -ffile-prefix-map=$registry=/crates/"
done
CARGO_ENCODED_RUSTFLAGS=$flags CFLAGS="${CFLAGS-} $files" cargo build --release --locked --target-dir "$1"
