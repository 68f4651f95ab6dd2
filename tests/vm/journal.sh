#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=96M,96M timeout=300
#
# Journals: those that others left are recovered, or refused by name; what fsync promised is there
# when the machine stops.
. "$(dirname "$0")/lib.sh"

# The whole disk as a partition: reading the disk itself then shows what is on it, where reading
# the device that is mounted would first write its cached blocks to their places.
disk=/dev/vdb
dev=/dev/vdb1
copy=/dev/vdc
"$tool" partition $disk

# left_by FILESYSTEM MKE2FS-OPTION...: $copy is as if the machine had stopped while a volume was
# mounted and in use.
left_by() {
	local fs=$1
	shift
	fresh $dev "$@"
	up $dev "commit=300" "$fs"
	"$tool" populate $dir/tree --files 30 --bytes 3M --fragments 30 >/dev/null
	sync
	# A commit that nothing has been written to its place of.
	echo late >$dir/late
	mkdir $dir/directory
	sync $dir/late
	"$tool" copy $disk $copy
	umount $dir
}

tree() { "$tool" verify "$dir/tree" --files 30 --bytes 3M --fragments 30; }

recovered() {
	left_by ext4
	check journal-left-dirty sh -c "dumpe2fs -h $copy 2>/dev/null | grep -q needs_recovery"
	"$tool" copy $copy $dev
	up $dev ro,noload,noatime
	# The test tests something: without recovery the late file is not there.
	check journal-noload-shows-the-past [ ! -e $dir/late ]
	umount $dir
	check journal-noload-leaves-it sh -c "dumpe2fs -h $dev 2>/dev/null | grep -q needs_recovery"
	for mode in rw ro; do
		"$tool" copy $copy $dev
		up $dev $mode,noatime
		check "journal-recovered-$mode" [ "$(cat $dir/late)" = late ]
		check "journal-recovered-$mode-tree" tree
		down "journal-recovered-$mode" $dev
	done
}

# What ext4rs synced is there for ext4 and for e2fsck after a stop.
durable() {
	for block in 1024 4096; do
		left_by "$FS" -b $block
		"$tool" copy $copy $dev
		up $dev noatime ext4
		check "journal-durable-$block" [ "$(cat $dir/late)" = late ]
		check "journal-durable-$block-tree" tree
		down "journal-durable-$block" $dev
		e2fsck -fp $copy >"$scratch/fsck" 2>&1
		check "journal-durable-$block-e2fsck" [ $? -le 1 ]
		fsck "journal-durable-$block-after-e2fsck" $copy
	done
}

# A journal with fast commits is not cut short, nor is anything of it replayed.
fast_commit() {
	left_by ext4 -O fast_commit
	mark
	for mode in ro rw; do
		if mount -t "$FS" -o $mode $copy $dir 2>/dev/null; then
			umount $dir
			not_ok "journal-fast-commit-refused-$mode" "it was mounted"
		else
			ok "journal-fast-commit-refused-$mode"
		fi
	done
	check journal-fast-commit-named said 'fast.commit'
}

# orphans NAME MKE2FS-OPTION...: files that were open and had no name when the machine stopped.
orphans() {
	local name=$1
	shift
	fresh $dev "$@"
	up $dev rw ext4
	echo kept >$dir/kept
	echo gone >$dir/gone
	exec 9<$dir/gone
	rm $dir/gone
	sync
	"$tool" copy $disk $copy
	exec 9<&-
	umount $dir
	mark
	up $copy rw
	check "$name-said" said 'orphan'
	check "$name-writable" touch "$dir/new"
	check "$name-readable" [ "$(cat $dir/kept)" = kept ]
	umount $dir
	fsck "$name" $copy
	check "$name-none-left" sh -c "! dumpe2fs -h $copy 2>&1 | grep -E 'orphan_present|First orphan'"
}

recovered
durable
if is_ext4rs; then fast_commit; fi
orphans journal-orphan-file
orphans journal-orphan-list -O ^orphan_file
finish
