#!/bin/sh
# Installs what makes the Debian package, and clean roots to try it in. Where it cannot, it prints the one command to
# type and fails; that test then says that it is skipped.
set -eu

packages=
command -v mmdebstrap >/dev/null 2>&1 || packages="$packages mmdebstrap arch-test"
command -v dh >/dev/null 2>&1 || packages="$packages debhelper dpkg-dev"
[ -n "$packages" ] || exit 0
# Word splitting is wanted: the list is ours.
exec sh "$(dirname "$0")/install.sh" setup-roots $packages
