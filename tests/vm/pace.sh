#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=2G disks=2G,2G timeout=900
#
# 100,000 files in one directory are made, found, listed and removed about as fast as by ext4.
. "$(dirname "$0")/lib.sh"

# pace DEVICE FILESYSTEM FILE
pace() {
	fresh "$1" -E lazy_itable_init=0
	up "$1" noatime "$2"
	"$tool" pace $dir --count "${FILES:-100000}" --seed 1 >>"$3" || not_ok pace-run "under $2: $(tail -n 1 "$3")"
	umount $dir
}

compare=("$tool" slower /tmp/is /tmp/want --limit 130 --prefix pace-)
# In turn, so that both have the same share of a busy machine; more rounds where two do not tell.
for round in 1 2 3 4; do
	pace /dev/vdb "$FS" /tmp/is
	pace /dev/vdc ext4 /tmp/want
	if [ $round -ge 2 ] && "${compare[@]}" >/dev/null; then break; fi
done
fsck pace /dev/vdb
cases "${compare[@]}"
finish
