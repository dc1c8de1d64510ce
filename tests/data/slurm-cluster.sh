#!/bin/sh
# A Slurm of two nodes on this machine, in namespaces of its own: nothing of it outlives the command, and nothing
# of it is seen outside. Needs root, and Debian's slurmctld, slurmd, slurm-client and munge.
# Usage: slurm-cluster.sh DIR COMMAND...
set -eu

if [ "${KTAX_IN_CLUSTER:-}" != 1 ]; then
    KTAX_IN_CLUSTER=1 exec unshare --mount --pid --fork --net --uts --mount-proc -- "$0" "$@"
fi
dir=$1
shift
hostname cluster
ip link set lo up
# With 127.0.0.1 alone glibc finds no address of this host.
ip addr add 127.0.0.2/8 dev lo
mkdir -p "$dir/state" "$dir/spool1" "$dir/spool2"
# The programs read these from fixed places.
mount -t tmpfs tmpfs /run
mkdir -m 755 /run/munge
# munge's user may not be let into the directory, which can be below a home of root's.
munge=/run/munge/files
mkdir "$munge"
chown munge /run/munge "$munge"
printf '127.0.0.2 cluster\n127.0.0.1 localhost\n' >"$dir/hosts"
mount --bind "$dir/hosts" /etc/hosts
dd if=/dev/urandom of="$munge/key" bs=1024 count=1 status=none
chmod 400 "$munge/key"
chown munge "$munge/key"
su munge -s /bin/sh -c "munged --force --key-file='$munge/key' --socket=/run/munge/munge.socket.2 \
    --pid-file='$munge/pid' --log-file='$munge/log' --seed-file='$munge/seed'"
cat >"$dir/slurm.conf" <<CONF
ClusterName=ktax
SlurmctldHost=cluster(127.0.0.2)
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
JobCompType=jobcomp/none
StateSaveLocation=$dir/state
SlurmctldPidFile=$dir/ctld.pid
SlurmctldLogFile=$dir/ctld.log
SlurmdSpoolDir=$dir/spool-%n
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmdLogFile=$dir/slurmd-%n.log
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,requeue_delay=0
KillWait=5
MinJobAge=3600
NodeName=n1 NodeHostname=cluster NodeAddr=127.0.0.2 Port=17001 CPUs=2 RealMemory=16000
NodeName=n2 NodeHostname=cluster NodeAddr=127.0.0.2 Port=17002 CPUs=2 RealMemory=16000
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
CONF
export SLURM_CONF="$dir/slurm.conf"
slurmctld
slurmd -N n1
slurmd -N n2
tries=0
until [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || { cat "$dir/ctld.log" >&2; exit 70; }
    sleep 0.1
done
"$@"
