#!/bin/sh
# Installs the programs that the long tests count, and what they are compared with. Where it cannot, it prints the one
# command to type and fails; those tests then say that they are skipped.
set -eu

packages=
for program in cpio gcc git make rsync sqlite3 valgrind; do
    command -v "$program" >/dev/null 2>&1 || packages="$packages $program"
done
for program in perf:linux-perf hackbench:rt-tests stress-ng:stress-ng fio:fio sysbench:sysbench; do
    command -v "${program%:*}" >/dev/null 2>&1 || packages="$packages ${program#*:}"
done
for program in node:nodejs javac:openjdk-17-jdk-headless ab:apache2-utils nginx:nginx-light psql:postgresql; do
    PATH=$PATH:/usr/sbin command -v "${program%:*}" >/dev/null 2>&1 || packages="$packages ${program#*:}"
done
for program in ip:iproute2 ping:iputils-ping nft:nftables bpf-gcc:gcc-bpf; do
    PATH=$PATH:/usr/sbin command -v "${program%:*}" >/dev/null 2>&1 || packages="$packages ${program#*:}"
done
command -v redis-server >/dev/null 2>&1 || packages="$packages redis-server redis-tools"
[ -x /usr/bin/python3 ] || packages="$packages python3"
PATH=$PATH:/usr/sbin command -v mkfs.xfs >/dev/null 2>&1 || packages="$packages xfsprogs"
PATH=$PATH:/usr/sbin command -v mkfs.btrfs >/dev/null 2>&1 || packages="$packages btrfs-progs"
[ -n "$packages" ] || exit 0
# Word splitting is wanted: the list is ours.
exec sh "$(dirname "$0")/install.sh" setup-programs $packages
