#!/bin/sh
# Within a clean root: installs ktax from /given in one way, and prints what it counts. Usage: in-root.sh WAY [QEMU]
set -eu
way=$1 qemu=${2:-qemu-system-x86_64}
export DEBIAN_FRONTEND=noninteractive HOME=/root
# Each way measures anew.
export KTAX_STORE= KTAX_CACHE="/tmp/cache-$way"
[ -e /var/cache/apt/pkgcache.bin ] || apt-get update -qq >&2
get() { apt-get install -qq --yes --no-install-recommends "$@"; }
# So that a file of another way is not found.
! command -v ktax || { echo "ktax is there already" >&2; exit 1; }

case $way in
deb) get /given/ktax.deb ;;
tarball)
    get qemu-system-x86
    tar -xzf /given/ktax.tar.gz -C /usr/local --strip-components=1
    ;;
source)
    rust="cargo rustc"
    [ -z "$(apt-cache search --names-only '^cargo-web$')" ] || rust="cargo-web rustc-web"
    # Word splitting is wanted: the list is ours.
    get $rust gcc libc6-dev qemu-system-x86
    mkdir -p /tmp/source
    tar -xzf /given/source.tar.gz -C /tmp/source
    # The crates that it needs, and no network.
    mkdir -p "$HOME/.cargo"
    cp /given/cargo/config.toml "$HOME/.cargo/config.toml"
    (cd /tmp/source && cargo install --quiet --offline --locked --path . --root /usr/local)
    ;;
esac >&2

{
    man=/usr/share/man/man1/ktax-compare.1.gz
    [ "$way" = source ] || ls /usr/local/share/man/man1/ktax-compare.1.gz || ls $man
    ktax doctor --qemu "$qemu"
} >&2
out=$(mktemp -d)/run
ktax compare --kernel /given/vmlinuz --base-boot-line lsm=capability -w getppid -w open-close -w fork-exit \
    --qemu "$qemu" --out "$out" >&2 || [ $? = 3 ]
cat "$out/comparison.json"

case $way in
deb) apt-get purge -qq --yes ktax ;;
tarball) tar -tzf /given/ktax.tar.gz | sed -n 's|^[^/]*/||; /[^/]$/p' | (cd /usr/local && xargs rm) ;;
source) cargo uninstall --root /usr/local ktax ;;
esac >&2
