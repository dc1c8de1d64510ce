#!/bin/sh
# Installs what KVM hosts of other architectures need beyond scripts/setup.sh, in tests and in
# experiments: QEMU for each, and compilers. Where it cannot, it prints the one command to type
# and fails; those tests then say that they skip.
set -eu

packages=
# A program or a file, and the packages that have it.
need() {
    wanted=$1
    shift
    [ -e "$wanted" ] || command -v "$wanted" >/dev/null 2>&1 || packages="$packages $*"
}
need xz xz-utils
need qemu-system-ppc qemu-system-ppc
need powerpc-linux-gnu-gcc gcc-powerpc-linux-gnu
need /usr/powerpc-linux-gnu/lib/libc.a libc6-dev-powerpc-cross
need qemu-system-ppc64 qemu-system-ppc
need powerpc64le-linux-gnu-gcc gcc-powerpc64le-linux-gnu
need /usr/powerpc64le-linux-gnu/lib/libc.a libc6-dev-ppc64el-cross
need qemu-system-riscv64 qemu-system-misc
need riscv64-linux-gnu-gcc gcc-riscv64-linux-gnu
need /usr/riscv64-linux-gnu/lib/libc.a libc6-dev-riscv64-cross
need qemu-system-aarch64 qemu-system-arm
need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
need /usr/aarch64-linux-gnu/lib/libc.a libc6-dev-arm64-cross

[ -n "$packages" ] || exit 0
as_root=
[ "$(id -u)" = 0 ] || as_root="sudo -n"
install="apt-get install --yes --no-install-recommends$packages"
printf 'setup-hosts: missing, to be installed:%s\n' "$packages"
# Word splitting is wanted: the list is ours.
{ $as_root apt-get update -q && $as_root $install; } || {
    printf 'setup-hosts: cannot install; type: sudo apt-get update && sudo %s\n' "$install" >&2
    exit 1
}
