#!/bin/sh
# Makes a tarball to be installed anywhere: `tar -xzf FILE -C /usr/local --strip-components=1`. One tree gives the same
# bytes with the same compilers, wherever the tree and cargo's home lie. Usage: dist.sh [DIR]
set -eu
cd "$(dirname "$0")/.."
dist=${1:-${CARGO_TARGET_DIR:-target}/dist}
mkdir -p "$dist"
dist=$(cd "$dist" && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=ktax-$version-$(uname -m)-linux

sh scripts/release.sh "$dist/build"
rm -rf "$dist/$name"
sh scripts/stage.sh "$dist/build/release/ktax" "$dist/$name"
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
# No umask, owner, time or order of this machine.
chmod -R u=rwX,go=rX "$dist/$name"
(cd "$dist" && tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=ustar \
    -cf - "$name" | gzip -9 -n >"$name.tar.gz.new")
mv "$dist/$name.tar.gz.new" "$dist/$name.tar.gz"
rm -r "${dist:?}/$name"
(cd "$dist" && sha256sum "$name.tar.gz")
