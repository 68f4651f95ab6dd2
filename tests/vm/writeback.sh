#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=2G disks=1G timeout=200
#
# The write-back path: allocations, requests and pages, counted.
. "$(dirname "$0")/lib.sh"

own=()
if is_ext4rs; then own=(--own); fi

# round NAME BLOCK-SIZE MIB OPTIONS MORE...
round() {
	fresh /dev/vdb -b "$2" -E lazy_itable_init=0
	cases "$tool" writeback /dev/vdb $dir --fs "$FS" --options "$4" --mib "$3" --prefix "$1/" \
		"${own[@]}" "${@:5}"
	fsck "$1" /dev/vdb
}

# --lazy: nothing but fsync may send data.
round writeback-4k 4096 256 "" --lazy
round writeback-1k 1024 64 "" --lazy
# Written blocks, whose data the commit sends before it is done; and blocks given at write time.
round writeback-dioread_lock 4096 256 dioread_lock --lazy
round writeback-nodelalloc 4096 256 nodelalloc
round writeback-nodelalloc-dioread_lock 4096 256 nodelalloc,dioread_lock
finish
