#!/bin/sh
# Installs what makes the Debian package, and clean roots to try it in. Where it cannot, it prints the one command to
# type and fails; that test then says that it is skipped.
set -eu

packages=
command -v mmdebstrap >/dev/null 2>&1 || packages="$packages mmdebstrap arch-test"
command -v dh >/dev/null 2>&1 || packages="$packages debhelper dpkg-dev"
[ -n "$packages" ] || exit 0
as_root=
[ "$(id -u)" = 0 ] || as_root="sudo -n"
printf 'setup-roots: missing, to be installed:%s\n' "$packages"
# Word splitting is wanted: the list is ours.
$as_root apt-get install -q --yes --no-install-recommends $packages || {
    printf 'setup-roots: type: sudo apt-get install%s\n' "$packages" >&2
    exit 1
}
