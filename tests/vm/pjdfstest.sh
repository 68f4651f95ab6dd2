#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=512M,512M timeout=900
#
# The POSIX calls on names, modes, owners and times, as root and as other users: every test of
# pjdfstest ends as it does under ext4.
. "$(dirname "$0")/lib.sh"

config=$PWD/$(dirname "$0")/pjdfstest.toml
export NO_COLOR=1
mkdir /tmp/other

# run FILESYSTEM WHAT [PATTERN]: tests, by a process of their own.
run() {
	(cd / && pjdfstest -c "$config" -p $dir -s /tmp/other ${3:+"$3"}) >"$WORK/$1-$2.log" 2>&1
	grep -E '^[a-z_]+::' "$WORK/$1-$2.log" | tr -s ' '
}

# conform DEVICE FILESYSTEM FILE: a line for each test, its name and how it ended.
#
# Left out is link::link_count_max: the limit that it tries is not the volume's but what the C library
# knows of a filesystem by the name of its type. The limit is tried below.
conform() {
	fresh "$1"
	up "$1" rw "$2"
	chmod 755 $dir
	# Some tests leave deleted files open, and a volume with such files cannot be made read-only:
	# the tests that do this come first, without the others.
	{
		run "$2" erofs ::erofs_
		run "$2" others | grep -v ::erofs_
	} | grep -v '^link::link_count_max ' >"$3"
	umount $dir
}

conform /dev/vdb "$FS" /tmp/is
conform /dev/vdc ext4 /tmp/want
same pjdfstest /tmp/want /tmp/is
# All there is is tried: under ext4 no test fails, and none is left out.
check pjdfstest-count test "$(grep -c ' ok$' /tmp/want)" -ge 390
check pjdfstest-all sh -c "! grep -v ' ok\$' /tmp/want"
fsck pjdfstest /dev/vdb

# A file with nearly as many links as it can have gets one more, and no other.
fresh /dev/vdc
up /dev/vdc rw ext4
touch $dir/file
umount $dir
debugfs -w -R 'sif /file links_count 64999' /dev/vdc 2>/dev/null
up /dev/vdc
check pjdfstest-link ln $dir/file $dir/last
check pjdfstest-no-link sh -c "ln $dir/file $dir/more 2>&1 | grep 'Too many links'"
check pjdfstest-links test "$(stat -c %h $dir/file)" = 65000
umount $dir
finish
