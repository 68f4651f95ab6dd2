#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: boot=small mem=1G disks=160M,128M timeout=100
#
# Data is charged to the control group that wrote it, whoever sends it to the disk.
. "$(dirname "$0")/lib.sh"

dev=/dev/vdc
groups=/sys/fs/cgroup
mib=8
mountpoint -q $groups || mount -t cgroup2 cgroup2 $groups
echo '+io +memory' >$groups/cgroup.subtree_control
mkdir $groups/writer $groups/other

# in_group GROUP COMMAND...
in_group() {
	(
		echo "$BASHPID" >"$groups/$1/cgroup.procs"
		shift
		"$@"
	)
}

# charged GROUP: MiB written to the device.
charged() {
	local bytes
	bytes=$(sed -n "s/^$(lsblk -dno MAJ:MIN $dev | tr -d ' ') .*wbytes=\([0-9]*\).*/\1/p" "$groups/$1/io.stat")
	echo $((${bytes:-0} >> 20))
}

fresh $dev
up $dev
in_group writer dd if=/dev/zero of=$dir/file bs=1M count=$mib status=none
in_group other sync -f $dir/file
for group in writer other; do
	want=0
	[ $group = other ] || want=$mib
	is=$(charged $group)
	if [ "$is" = $want ]; then
		ok "cgroups-$group # $is MiB"
	else
		not_ok "cgroups-$group" "$is MiB are charged, not $want"
	fi
done
down cgroups $dev
rmdir $groups/writer $groups/other

finish
