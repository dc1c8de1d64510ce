#!/bin/sh
# Installs Slurm for the test of a fleet, without starting it: the test has a cluster of its own. Where it cannot, it
# prints the one command to type and fails; that test then says that it is skipped.
set -eu

packages=
for program in slurmctld slurmd munged; do
    command -v "$program" >/dev/null 2>&1 || PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || packages=missing
done
[ -n "$packages" ] || exit 0
install='apt-get install --yes --no-install-recommends slurmctld slurmd slurm-client munge'
as_root=
[ "$(id -u)" = 0 ] || as_root="sudo -n"
printf 'setup-slurm: missing, to be installed: slurmctld slurmd slurm-client munge\n'
# What Debian asks before it starts a service.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null && $as_root chmod 755 "$policy"
    trap '$as_root rm -f "$policy"' EXIT
fi
{ $as_root apt-get update -q && $as_root $install; } || {
    printf 'setup-slurm: cannot install; type: sudo apt-get update && sudo %s\n' "$install" >&2
    exit 1
}
