#!/bin/sh
# Makes a directory that is a Debian of that name with nothing but what its package manager needs, from the archive that
# this machine uses; needs root. Usage: clean-root.sh CODENAME DIR
set -eu

codename=$1 dir=$2
fail() { printf 'clean-root: %s\n' "$*" >&2; exit 1; }
command -v mmdebstrap >/dev/null 2>&1 || fail "type: sudo apt-get install mmdebstrap"
here=$(. /etc/os-release && echo "$VERSION_CODENAME")
sources=$(apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) main' \
    'Created-By: Packages' 'Component: main' 'Origin: Debian' | sort -u |
    awk -v here="$here" -v there="$codename" '
        $3 == here || $3 == here "-updates" || $3 == here "-security" { sub(here, there, $3); print }')
[ -n "$sources" ] || fail "no package lists of $here; type: sudo apt-get update"
printf '%s\n' "$sources" | mmdebstrap --quiet --variant=minbase "$codename" "$dir" -
