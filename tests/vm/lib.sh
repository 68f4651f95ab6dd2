# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the tests of this folder share. A test is sourced into nothing: it sources this file first.
#
#   MODULE      path of ext4rs.ko
#   GUEST_TOOL  path of the program in tests/guest
#   FS          the filesystem under test: ext4rs, or ext4 to prove the test itself
#
# A test prints `ok NAME` or `not ok NAME: why` for everything it finds out.
set -u
: "${FS:=ext4rs}" "${MODULE:=}"
# shellcheck disable=SC2034 # the tests use it
tool=${GUEST_TOOL:?}
dir=/mnt
scratch=$(mktemp -d)

ok() { printf 'ok %s\n' "$*"; }

not_ok() { printf 'not ok %s: %s\n' "$1" "${2:-}"; }

# check NAME COMMAND...: ok where the command succeeds; else its output and its last line as the
# reason.
check() {
	local name=$1 start=$SECONDS
	shift
	if "$@" >"$scratch/output" 2>&1; then
		grep '^#' "$scratch/output"
		ok "$name # $((SECONDS - start)) s"
	else
		sed 's/^#* */# /' "$scratch/output" | tail -n 20
		not_ok "$name" "$(tail -n 1 "$scratch/output")"
		return 1
	fi
}

# cases COMMAND...: a command that prints ok lines of its own.
cases() {
	local status
	"$@" | tee "$scratch/cases"
	status=${PIPESTATUS[0]}
	if [ "$status" != 0 ] && ! grep -q '^not ok' "$scratch/cases"; then
		not_ok "$2" "status $status: $(tail -n 1 "$scratch/cases")"
	fi
}

# same NAME FILE FILE: ok where both files hold the same lines.
same() {
	local name=$1
	if [ -s "$2" ] && cmp -s "$2" "$3"; then
		ok "$name # $(wc -l <"$2") lines"
	else
		diff "$2" "$3" | cut -c 1-400 | head -n 12 | sed 's/^/# /'
		not_ok "$name" "$(diff "$2" "$3" | grep -c '^[<>]') lines differ ($(wc -l <"$2") lines in all)"
	fi
}

is_ext4rs() { [ "$FS" = ext4rs ]; }

# fresh DEVICE MKE2FS-OPTION...: a new volume with default features, on all of the device or on
# $blocks of it.
blocks=
fresh() {
	local device=$1
	shift
	mke2fs -q -F -t ext4 "$@" "$device" ${blocks:+"$blocks"} >/dev/null || {
		not_ok mke2fs "on $device with $*"
		exit 1
	}
}

# up DEVICE [OPTIONS [FILESYSTEM]]: mounts it on $dir.
up() {
	mount -t "${3:-$FS}" -o "${2:-rw}" "$1" "$dir" || {
		dmesg | tail -n 5 | sed 's/^/# /'
		not_ok mount "of $1 as ${3:-$FS} with ${2:-rw}"
		exit 1
	}
}

# turn NAME TABLE: the device-mapper device behaves so from now on. Nothing is written on the way.
turn() {
	dmsetup suspend --noflush --nolockfs "$1"
	dmsetup load "$1" --table "$2"
	dmsetup resume "$1"
}

# fsck NAME DEVICE: the volume is consistent.
fsck() { check "$1-fsck" e2fsck -fn "$2"; }

# down NAME DEVICE: unmounts and checks it.
down() {
	umount "$dir" || {
		not_ok "$1-umount" failed
		exit 1
	}
	fsck "$1" "$2"
}

# The kernel's messages from here on; `said PATTERN` looks among them.
mark() { dmesg | wc -l >"$scratch/mark"; }
since_mark() { dmesg | tail -n +"$(($(cat "$scratch/mark") + 1))"; }
said() { since_mark | grep -E -q -- "$1"; }

finish() {
	rm -rf "$scratch"
	exit 0
}
