#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=24M,1G timeout=300
#
# The power goes while the volume is written to. What fsync, O_SYNC, sync and the like had promised
# is there afterwards, and nothing of what the device held before shows.
. "$(dirname "$0")/lib.sh"

modprobe dm-log-writes
modprobe brd rd_nr=1 rd_size=24576

# round NAME BLOCK-SIZE SEED
round() {
	"$tool" fill /dev/vdb
	fresh /dev/vdb -b "$2" -E lazy_itable_init=1,nodiscard
	cases "$tool" powercut /dev/vdb /dev/vdc /dev/ram0 $dir --fs "$FS" --prefix "powercut-$1/" \
		--seconds "${SECONDS_OF_WORK:-4}" --states "${STATES:-12}" --seed "$3"
}

round 4k 4096 "${SEED:-1}"
round 1k 1024 "${SEED:-2}"
finish
