# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Shared by the scripts that run on the host: where things are, and how to
# say that something went wrong. Sourced, never run.

# The checkout: the folder above qemu/.
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
lock_file=$top/qemu/lock
cache=${EXT4RS_CACHE:-${HOME:-/root}/.cache/ext4rs}

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# Values of a keyword in the lock file, one line each.
lock_values() {
	sed -n "s/^$1 \+//p" "$lock_file"
}

# The lock file names the sysroot. Comments and order of lines count too:
# simpler to explain than to parse, and it is edited rarely.
sysroot_home() {
	local key
	key=$(sha256sum "$lock_file")
	printf '%s/%s\n' "$cache" "${key:0:16}"
}

# Kbuild cannot build in a folder whose name holds a space or a colon.
check_checkout() {
	case $top in
	*[[:space:]:]*) die "the kernel's build cannot work in '$top': a space or a colon is in the name" ;;
	esac
}

need_root() {
	[ "$(id -u)" = 0 ] || die "this needs root (it makes a chroot and mounts in a mount namespace of its own)"
}
