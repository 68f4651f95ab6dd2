# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the tests of this folder share. A test is sourced into nothing: it sources this file first.
#
#   MODULE      path of ext4rs.ko
#   GUEST_TOOL  path of the program in tests/guest
#   FS          the filesystem under test: ext4rs, or ext4 to prove the test itself
#
# A test prints `ok NAME` or `not ok NAME why` for everything it finds out.
set -u
: "${FS:=ext4rs}" "${MODULE:=}"
tool=${GUEST_TOOL:?}
dir=/mnt
scratch=$(mktemp -d)
failed=0

ok() { printf 'ok %s\n' "$*"; }

not_ok() {
	failed=$((failed + 1))
	printf 'not ok %s\n' "$*"
}

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
		not_ok "$name $(tail -n 1 "$scratch/output")"
		return 1
	fi
}

# cases COMMAND...: a command that prints ok lines of its own.
cases() {
	"$@" || failed=$((failed + 1))
}

# same NAME FILE FILE: ok where both files hold the same lines.
same() {
	local name=$1
	if [ -s "$2" ] && cmp -s "$2" "$3"; then
		ok "$name # $(wc -l <"$2") lines"
	else
		diff "$2" "$3" | cut -c 1-400 | head -n 12 | sed 's/^/# /'
		not_ok "$name $(diff "$2" "$3" | grep -c '^[<>]') lines differ ($(wc -l <"$2") lines in all)"
	fi
}

is_ext4rs() { [ "$FS" = ext4rs ]; }

load() {
	if is_ext4rs && ! grep -q '^ext4rs ' /proc/modules; then insmod "$MODULE"; fi
}

# fresh DEVICE MKE2FS-OPTION...: a new volume with default features.
fresh() {
	local device=$1
	shift
	mke2fs -q -F -t ext4 "$@" "$device" || {
		not_ok "mke2fs on $device with $*"
		exit 1
	}
}

# up DEVICE [OPTIONS [FILESYSTEM]]: mounts it on $dir.
up() {
	mount -t "${3:-$FS}" -o "${2:-rw}" "$1" "$dir" || {
		not_ok "mount of $1 as ${3:-$FS} with ${2:-rw}"
		dmesg | tail -n 5
		exit 1
	}
}

# fsck NAME DEVICE: the volume is consistent.
fsck() { check "$1-fsck" e2fsck -fn "$2"; }

# down NAME DEVICE: unmounts and checks it.
down() {
	umount "$dir" || {
		not_ok "$1-umount"
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
	[ "$failed" = 0 ]
	exit
}

load
