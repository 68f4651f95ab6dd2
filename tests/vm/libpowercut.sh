# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # lib.sh sets tool and dir
#
# What the tests of power cuts share; sourced after lib.sh. The disks are one of 24 MiB for a volume
# and a large one for its log.
#
# A run with bad states is kept in $WORK/ROUND: the volume before, the log, and what was done. In
# the guest, after `prepare_cuts`, any of its states can be looked at again; its image is kept, too:
#
#   $GUEST_TOOL powercut /dev/ram0 /dev/ram1 /mnt --replay --keep $WORK/ROUND --seed SEED --state N

prepare_cuts() {
	modprobe dm-log-writes
	# The target, the log of a recovery, and a volume on a device that is done at once.
	modprobe brd rd_nr=3 rd_size=24576
	# A flush of a device without a cache is done as soon as it is sent. Then all that is safe when
	# a mark is made is in the log before it, also where two tasks flush at the same time.
	echo 'write through' >/sys/block/vdb/queue/write_cache
}

# round NAME DEVICE SEED STATES OPTIONS MKE2FS-OPTION...: one run and states of it; OPTIONS are
# words for the test program.
round() {
	local name=$1 device=$2 seed=$3 states=$4 options=$5
	shift 5
	"$tool" fill "$device" || not_ok "powercut-$name/fill" failed
	fresh "$device" -E lazy_itable_init=1,nodiscard "$@" 2>/dev/null
	mkdir -p "$WORK/$name"
	# shellcheck disable=SC2086 # words
	cases "$tool" powercut "$device" /dev/vdc /dev/ram0 /dev/ram1 $dir --fs "$FS" \
		--prefix "powercut-$name/" --seconds "${SECONDS_OF_WORK:-6}" --states "$states" \
		--seed "$seed" --keep "$WORK/$name" $options
}
