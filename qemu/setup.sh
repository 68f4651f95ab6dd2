#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Makes the sysroot: Debian trixie with the tools and the stock kernel's
# packages of qemu/lock, and the kernel's source prepared for building modules
# against that kernel. It is kept in a cache folder outside the checkout
# (EXT4RS_CACHE, else ~/.cache/ext4rs), keyed by the lock file; on the host
# itself only mmdebstrap is installed, where it is missing.
#
# Each step leaves a stamp when it is done. A set-up that was cut short goes on
# at the step that has none.
#
#   qemu/setup.sh            make what is missing; silent and quick if nothing is
#   qemu/setup.sh --tests    also the programs from crates.io that tests run
#   EXT4RS_MIRROR=URL        a Debian mirror (default http://deb.debian.org/debian)
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

tests=
case ${1:-} in
'') ;;
--tests) tests=yes ;;
*) die "no option $1; there is --tests" ;;
esac

home=$(sysroot_home)
sys=$home/sys
logs=$home/log
mirror=${EXT4RS_MIRROR:-http://deb.debian.org/debian}

# Runs one step: its output goes to a log file, and while it runs the last line
# of that log is shown, in place on a terminal and every 15 seconds elsewhere.
# A step that fails names itself and its log.
step() {
	local name=$1 what=$2 log=$logs/$1.log start=$SECONDS pid tick=15 rc=0
	shift 2
	if [ -t 1 ]; then tick=1; fi
	printf 'setup: %s\n' "$what"
	# In a process group of its own, so that an interrupt ends all of it.
	set -m
	"$@" >"$log" 2>&1 </dev/null &
	pid=$!
	set +m
	trap 'kill -- "-$pid" 2>/dev/null; wait "$pid" 2>/dev/null; exit 130' INT TERM HUP
	while kill -0 "$pid" 2>/dev/null; do
		sleep 1
		if (((SECONDS - start) % tick == 0)); then progress "$log" $((SECONDS - start)); fi
	done
	wait "$pid" || rc=$?
	trap - INT TERM HUP
	if [ -t 1 ]; then printf '\r\033[K'; fi
	if [ "$rc" != 0 ]; then
		printf 'setup: step "%s" failed (%s). The last lines of its log:\n' "$name" "$what" >&2
		tail -n 12 "$log" | readable | sed 's/^/    /' >&2
		printf 'setup: the whole log: %s\n' "$log" >&2
		exit 1
	fi
	printf 'setup: %s: done, %d s\n' "$name" $((SECONDS - start))
	touch "$home/done.$name"
}

# apt's machine-readable status lines, "dlstatus:NUMBER:PERCENT:TEXT", as people read them.
readable() {
	sed -E 's/^(dl|pm)status:[^:]*:([0-9]+)[^:]*:/\2 %: /'
}

progress() {
	local line
	line=$(tail -n 1 "$1" | readable | tr -d '\r' | cut -c 1-"$((${COLUMNS:-80} - 12))")
	if [ -t 1 ]; then
		printf '\r\033[K  %4d s  %s' "$2" "$line"
	else
		printf '  %4d s  %s\n' "$2" "$line"
	fi
}

install_mmdebstrap() {
	# An earlier run may have been cut short in the middle of this.
	dpkg --configure -a
	apt-get -q update
	DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install mmdebstrap
}

# The host's way to the network (proxy, and whether archive dates are checked)
# holds in the sysroot too.
host_apt_settings() {
	apt-config dump | grep -E '^Acquire::(https?::[^ ]*[Pp]roxy|Check-Valid-Until|Check-Date|Retries) ' || true
}

make_base() {
	local suite settings
	suite=$(lock_values suite)
	settings=$home/apt.conf
	host_apt_settings >"$settings"
	rm -rf --one-file-system "$sys" "$sys.new"
	# Manuals and translations are of no use here and cost a fifth of the time.
	mmdebstrap --mode=root --variant=apt --skip=cleanup/apt/lists \
		--aptopt="$settings" \
		--aptopt='Acquire::Retries "3"' \
		--aptopt='Acquire::Languages "none"' \
		--aptopt='APT::Install-Recommends "false"' \
		--aptopt='APT::Sandbox::User "root"' \
		--dpkgopt=force-unsafe-io \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-include=/usr/share/doc/*/copyright' \
		"$suite" "$sys.new" \
		"deb $mirror $suite main" \
		"deb $mirror $suite-updates main" \
		"deb $mirror $suite-backports main"
	mv "$sys.new" "$sys"
}

install_packages() {
	# shellcheck disable=SC2046 # one word per package
	EXT4RS_SETTING_UP=packages "$top/qemu/enter" bash "$top/qemu/packages.sh" $(lock_values kernel) "$(lock_values kernel-series)" $(lock_values package)
}

prepare_kernel() {
	"$top/qemu/enter" bash "$top/qemu/prepare-kernel.sh"
}

install_crates() {
	# shellcheck disable=SC2046 # two words per crate
	"$top/qemu/enter" bash "$top/qemu/crates.sh" $(lock_values crate)
}

main() {
	need_root
	check_checkout
	# Tells qemu/enter to take the sysroot as it is.
	export EXT4RS_SETTING_UP=1
	mkdir -p "$logs"
	# Two set-ups at once: the second waits, then finds the work done.
	exec 9>"$home/lock"
	if ! flock -n 9; then
		echo "setup: another set-up is running; waiting for it"
		flock 9
	fi
	if ! command -v mmdebstrap >/dev/null; then
		step mmdebstrap "installing mmdebstrap on this machine" install_mmdebstrap
	fi
	[ -e "$home/done.base" ] || step base "making a Debian $(lock_values suite) folder in $sys" make_base
	if [ ! -e "$home/done.packages" ]; then
		step packages "downloading and installing the tools and the kernel's packages" install_packages
		if [ -e "$sys/etc/ext4rs-kernel.note" ]; then cat "$sys/etc/ext4rs-kernel.note"; fi
	fi
	[ -e "$home/done.kernel" ] || step kernel "preparing the kernel's source for module builds" prepare_kernel
	if [ -n "$tests" ] && [ ! -e "$home/done.crates" ]; then
		step crates "building the programs that tests run" install_crates
	fi
}

home_is_ready() {
	[ -e "$home/done.base" ] && [ -e "$home/done.packages" ] && [ -e "$home/done.kernel" ] || return
	[ -z "$tests" ] || [ -e "$home/done.crates" ]
}

home_is_ready || main
