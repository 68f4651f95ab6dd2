# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Random operations on two pairs of volumes at once. Each pair is one under test and a twin under
# ext4.
#
#   SEED, SEEDS   the first seed, and how many
#   STEPS         operations of each
#   SHRINK        seconds to look for fewer operations that fail alike
. "$(dirname "$0")/lib.sh"

# model PAIR ARG...
model() {
	local devices=(/dev/vdb /dev/vdc) dirs=(/mnt/own-"$1" /mnt/twin-"$1")
	[ "$1" = 1 ] || devices=(/dev/vdd /dev/vde)
	shift
	mkdir -p "${dirs[@]}"
	"$tool" model "${devices[@]}" "${dirs[@]}" --fs "$FS" --prefix model- --keep "$WORK" \
		--shrink "${SHRINK:-100}" "$@"
}

# both PAIR-1-ARGS PAIR-2-ARGS: words without blanks; what the first prints comes at once.
# shellcheck disable=SC2086
both() {
	model 2 $2 >"$scratch/second" 2>&1 &
	model 1 $1
	wait $!
	cat "$scratch/second"
}

# seeds FIRST COUNT: the odd ones on one pair, the even ones on the other.
seeds() {
	local first=$1 count=$2 step
	step="--count ${STEPS:-20000} --every 2"
	both "$step --seed $first --seeds $(((count + 1) / 2))" "$step --seed $((first + 1)) --seeds $((count / 2))"
}
