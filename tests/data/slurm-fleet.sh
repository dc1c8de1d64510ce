#!/bin/sh
# Runs a campaign in slurm-cluster.sh: five jobs are killed, a node is drained and comes back, a job is requeued.
# Usage: slurm-fleet.sh KTAX CAMPAIGN
set -eu

ktax=$1 campaign=$2
is_empty() { [ -z "$(squeue -h -o %A)" ]; }

"$ktax" campaign sbatch "$campaign"
sh "$campaign/slurm/submit"
killed=0 seen=' ' requeued=
until is_empty; do
    for pid in $(pgrep -x ktax || :); do
        case $seen in *" $pid "*) continue ;; esac
        seen="$seen$pid "
        [ "$killed" -lt 5 ] && grep -q campaign "/proc/$pid/cmdline" 2>/dev/null || continue
        kill -9 "$pid" 2>/dev/null && killed=$((killed + 1)) || :
        [ "$killed" = 3 ] && scontrol update nodename=n2 state=drain reason=test
    done
    if [ "$killed" = 5 ] && [ -z "$requeued" ]; then
        scontrol update nodename=n2 state=resume
        job=$(squeue -h -r -t R -o '%F_%K' | head -n 1)
        [ -n "$job" ] && scontrol requeue "$job" && requeued=$job
    fi
    sleep 0.1
done
echo "killed $killed; drained n2; requeued $requeued"
# What was killed, Slurm has run again.
"$ktax" campaign status "$campaign"
