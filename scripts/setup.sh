#!/bin/sh
# Installs what the build and the exact engine need from the distribution's packages, and nothing else.
# Says what it installs; where it cannot, it prints the one command to type and fails.
set -eu

oldest_rust=1.85

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

as_root=
can_install() {
    has apt-get || return 1
    [ "$(id -u)" = 0 ] && return 0
    as_root="sudo -n"
    has sudo && sudo -n true 2>/dev/null
}

# Kernels and packages are looked up in these lists.
if has apt-cache && ! apt-cache show linux-image-cloud-amd64 >/dev/null 2>&1; then
    can_install || fail "apt has no package lists; type: sudo apt-get update"
    say "apt has no package lists, to be fetched"
    $as_root apt-get update -q
fi

packages=
has qemu-system-x86_64 || packages="$packages qemu-system-x86"
has gcc || packages="$packages gcc"
# Kernels from source, small ones in the tests, are read with git and built with make.
for tool in git make flex bison bc ccache; do
    has "$tool" || packages="$packages $tool"
done
[ -e /usr/include/gelf.h ] || packages="$packages libelf-dev"
# libc.a is what a static guest links with.
[ -e "/usr/lib/$(uname -m)-linux-gnu/libc.a" ] || packages="$packages libc6-dev"

if [ -n "$packages" ]; then
    has apt-get || fail "install with your package manager:$packages"
    command="apt-get install --yes --no-install-recommends$packages"
    say "missing, to be installed:$packages"
    can_install || fail "cannot install as this user; type: sudo apt-get update && sudo $command"
    $as_root apt-get update -q
    # Word splitting is wanted: the list is ours.
    $as_root $command
fi

# Debian 12 has a current Rust under names of its own.
rust_packages="cargo rustfmt rust-clippy"
if has apt-cache && apt-cache show cargo-web >/dev/null 2>&1; then
    rust_packages="cargo-web rustfmt-web rust-web-clippy"
fi
rust_help="type: sudo apt-get install $rust_packages"
has cargo && has rustc || fail "Rust $oldest_rust or newer is missing; $rust_help"
rust=$(rustc --version | cut -d' ' -f2)
older=$(printf '%s\n%s\n' "$oldest_rust" "$rust" | sort -V | head -n 1)
[ "$older" = "$oldest_rust" ] || fail "Rust $rust is older than $oldest_rust; $rust_help"
say "everything is there: $(qemu-system-x86_64 --version | head -n 1); rustc $rust"
