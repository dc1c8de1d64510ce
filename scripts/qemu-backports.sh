#!/bin/sh
# Unpacks the newer QEMU of the distribution's backports into a directory, beside the installed one, so that the
# tests can run on both. Nothing is installed and no root is needed. Usage: qemu-backports.sh DIR
set -eu

dir=$1
[ -x "$dir/qemu-system-x86_64" ] && exit 0
fail() { printf 'qemu-backports: %s\n' "$*" >&2; exit 1; }

# The archive that this machine already uses.
keys=/usr/share/keyrings/debian-archive-keyring.gpg
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
    "Codename: $codename" 'Component: main' | sort -u | head -n 1)
[ -n "$uri" ] || fail "no package lists of $codename; type: sudo apt-get update"

rm -rf "$dir"
mkdir -p "$dir/parts" "$dir/lists/partial" "$dir/cache/archives/partial" "$dir/debs" "$dir/root"
{
    printf 'Types: deb\nURIs: %s\nSuites: %s %s-backports\n' "$uri" "$codename" "$codename"
    printf 'Components: main\n'
    [ ! -e "$keys" ] || printf 'Signed-By: %s\n' "$keys"
} >"$dir/parts/own.sources"
apt() {
    apt-get -q -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$dir/parts" \
        -o "Dir::State::lists=$dir/lists" -o "Dir::Cache=$dir/cache" \
        -o "APT::Sandbox::User=$(id -un)" "$@"
}
dir=$(cd "$dir" && pwd)
apt update || fail "cannot read the lists of $codename-backports"
(cd "$dir/debs" && apt -t "$codename-backports" download \
    qemu-system-x86 qemu-system-common qemu-system-data seabios) || fail "cannot fetch QEMU"
for deb in "$dir"/debs/*.deb; do
    dpkg-deb -x "$deb" "$dir/root"
done
rm -r "$dir/debs" "$dir/lists" "$dir/cache"
cat >"$dir/qemu-system-x86_64" <<'WRAPPER'
#!/bin/sh
root=$(dirname "$(readlink -f "$0")")/root/usr
export QEMU_MODULE_DIR="$root/lib/$(uname -m)-linux-gnu/qemu"
exec "$root/bin/qemu-system-x86_64" -L "$root/share/qemu" -L "$root/share/seabios" "$@"
WRAPPER
chmod +x "$dir/qemu-system-x86_64"
"$dir/qemu-system-x86_64" --version | head -n 1
