#!/bin/sh
# Makes the Debian package of this tree. Usage: deb.sh [DIR]
set -eu
cd "$(dirname "$0")/.."
out=${1:-${CARGO_TARGET_DIR:-target}/dist}
fail() { printf 'deb: %s\n' "$*" >&2; exit 1; }
command -v dh >/dev/null 2>&1 || fail "type: sudo apt-get install debhelper dpkg-dev"
mkdir -p "$out"
out=$(cd "$out" && pwd)

# dpkg-buildpackage writes beside the tree, and dh gives the build a home of its own. Cargo and rustup keep theirs.
tree=$out/deb/ktax
rm -rf "$out/deb"
mkdir -p "$tree"
git ls-files -z | xargs -0 cp --parents --target-directory="$tree"
export CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}"
[ ! -d "$HOME/.rustup" ] || export RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}"
export CARGO_TARGET_DIR="$out/build"
# Build-dependencies that came another way, such as a Rust of rustup's, are as good.
(cd "$tree" && dpkg-buildpackage --build=binary --no-sign --no-check-builddeps)
mv "$out"/deb/ktax_*.deb "$out"
rm -r "$out/deb"
(cd "$out" && sha256sum ktax_*.deb)
