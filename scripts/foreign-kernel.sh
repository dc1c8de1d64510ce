#!/bin/sh
# Fetches the distribution's kernel for another architecture, with KVM's module where that is one, into a
# directory: nothing is installed, dpkg's architectures stay as they are, no root is needed.
# Usage: foreign-kernel.sh ARCHITECTURE SUITE PACKAGE DIR
set -eu

arch=$1 suite=$2 package=$3 dir=$4
[ -e "$dir/release" ] && exit 0
fail() { printf 'foreign-kernel: %s\n' "$*" >&2; exit 1; }

# The archive that this machine already uses.
keys=/usr/share/keyrings/debian-archive-keyring.gpg
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
    "Codename: $codename" 'Component: main' | sort -u | head -n 1)
[ -n "$uri" ] || fail "no package lists of $codename; type: sudo apt-get update"

rm -rf "$dir"
mkdir -p "$dir/parts" "$dir/lists/partial" "$dir/cache/archives/partial" "$dir/root"
dir=$(cd "$dir" && pwd)
{
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n' "$uri" "$suite"
    [ ! -e "$keys" ] || printf 'Signed-By: %s\n' "$keys"
} >"$dir/parts/own.sources"
: >"$dir/status"
own() {
    tool=$1
    shift
    "$tool" -q -o "APT::Architecture=$arch" -o "APT::Architectures=$arch" \
        -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$dir/parts" \
        -o "Dir::State::lists=$dir/lists" -o "Dir::State::status=$dir/status" \
        -o "Dir::Cache=$dir/cache" -o "APT::Sandbox::User=$(id -un)" "$@"
}
own apt-get update || fail "cannot read the lists of $suite for $arch"
# A package without content leads to the newest kernel.
real=$(own apt-cache depends --important "$package" |
    sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
(cd "$dir" && own apt-get download "${real:-$package}") || fail "cannot fetch ${real:-$package}"
dpkg-deb -x "$dir"/*.deb "$dir/root"
for image in "$dir"/root/boot/vmlinu[xz]-*; do
    mv "$image" "$dir/image"
done
for module in $(find "$dir/root" -path '*/kvm/kvm.ko*'); do
    mv "$module" "$dir/"
    case $module in
    *.xz) unxz "$dir/kvm.ko.xz" ;;
    esac
done
rm -r "$dir"/*.deb "$dir/lists" "$dir/cache" "$dir/parts" "$dir/root" "$dir/status"
echo "${real:-$package}" >"$dir/release"
