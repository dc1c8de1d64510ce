#!/bin/sh
# Installs packages, or prints the one command to type and fails. Usage: install.sh FOR PACKAGE...
set -eu

for=$1
shift
as_root=
[ "$(id -u)" = 0 ] || as_root="sudo -n"
printf '%s: missing, to be installed: %s\n' "$for" "$*"
$as_root apt-get install -q --yes --no-install-recommends "$@" || {
    printf '%s: type: sudo apt-get install %s\n' "$for" "$*" >&2
    exit 1
}
