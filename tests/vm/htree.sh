#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=512M,512M timeout=900
#
# Directories with an index grow to two and three levels block for block as ext4's do, and are emptied
# again.
. "$(dirname "$0")/lib.sh"

# So that names have the same hashes on both volumes.
seed=hash_seed=01234567-89ab-cdef-0123-456789abcdef

# shape DEVICE DIRECTORY: the tree, without the numbers of inodes and blocks of the disk.
shape() {
	debugfs -R "htree_dump $2" "$1" 2>/dev/null | grep -E '^(Root|	 |Entry|Number)|Hash' |
		sed 's/phys.*//'
}

# grow NAME COUNT LEVELS MKE2FS-OPTION...: as many names as fit, at most COUNT.
grow() {
	local name=$1 count=$2 levels=$3 is want
	shift 3
	fresh /dev/vdb -b 1024 -N 1024 -E "$seed,nodiscard" "$@"
	fresh /dev/vdc -b 1024 -N 1024 -E "$seed,nodiscard" "$@"
	mark
	up /dev/vdb noatime
	is=$("$tool" crowd $dir --count "$count" --length 250)
	down "$name-grown" /dev/vdb
	up /dev/vdc noatime ext4
	want=$("$tool" crowd $dir --count "$count" --length 250)
	umount $dir
	echo "$is" >/tmp/count
	if [ "$is" = "$want" ]; then ok "$name-fits # $is names"; else not_ok "$name-fits" "$is, not $want"; fi
	shape /dev/vdb /crowd >/tmp/is
	shape /dev/vdc /crowd >/tmp/want
	same "$name-shape" /tmp/want /tmp/is
	check "$name-levels" grep -q "Indirect levels: $levels" /tmp/is
}

# crowd (the same): and then all of them removed again.
crowd() {
	local name=$1 is
	grow "$@"
	is=$(cat /tmp/count)
	up /dev/vdb ro ext4
	check "$name-in-ext4" "$tool" crowded $dir --count "$is" --length 250
	umount $dir
	up /dev/vdb noatime
	check "$name-emptied" "$tool" uncrowd $dir --count "$is" --length 250
	down "$name-emptied" /dev/vdb
}

crowd htree-two 4000 1
check htree-two-quiet sh -c "! dmesg | grep -q 'index full'"
grow htree-full 60000 1
if is_ext4rs; then
	check htree-full-said said 'EXT4RS-fs warning .*index full, reach max htree level :2'
	check htree-full-hint said 'EXT4RS-fs warning .*Large directory feature is not enabled'
fi
crowd htree-three 21000 2 -O large_dir
crowd htree-plain 3000 1 -O ^metadata_csum

finish
