#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run inside the sysroot by qemu/setup.sh: picks the kernel and installs all
# packages. Can be run again after it was cut short.
#
#   packages.sh VERSION RELEASE SERIES PACKAGE...
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive

version=$1 release=$2 series=$3
shift 3

kernel_packages() {
	printf '%s\n' "linux-source-$series" "linux-binary-$1" "linux-modules-$1" "linux-headers-$1"
}

# Whether the archive has every kernel package of release $1 in version $2.
archive_has() {
	local package
	for package in $(kernel_packages "$1"); do
		apt-cache madison "$package" | awk -F ' *[|] *' -v v="$2" '$2 == v { found = 1 } END { exit !found }' || return 1
	done
}

# Lines "VERSION RELEASE" of the series' cloud kernels that are there whole.
available_kernels() {
	local package rel ver
	apt-cache pkgnames "linux-binary-$series." |
		sed -n '/^linux-binary-[0-9.]*+deb13-cloud-amd64$/p' | sort -V |
		while read -r package; do
			rel=${package#linux-binary-}
			apt-cache madison "$package" | awk -F ' *[|] *' '{ print $2 }' | sort -uV |
				while read -r ver; do
					if archive_has "$rel" "$ver"; then printf '%s %s\n' "$ver" "$rel"; fi
				done
		done
}

choose_kernel() {
	local newest
	rm -f /etc/ext4rs-kernel.note
	archive_has "$release" "$version" && return
	newest=$(available_kernels | tail -n 1)
	if [ -z "$newest" ]; then
		echo "The archive has neither the kernel $version nor another $series kernel for the cloud."
		echo "Supported: Debian's cloud kernels $series.x of trixie-backports; pinned and tested: $version."
		exit 1
	fi
	echo "setup: kernel $version has left the archive; using ${newest% *}, the newest $series.x there" |
		tee /etc/ext4rs-kernel.note
	read -r version release <<<"$newest"
}

install_all() {
	local package wanted=()
	for package in $(kernel_packages "$release"); do wanted+=("$package=$version"); done
	apt-get -q -y -o APT::Status-Fd=3 -o Dpkg::Use-Pty=0 --no-install-recommends install \
		"${wanted[@]}" "$@" 3>&1
}

# One version throughout: modules of one build do not load into another, and
# headers of one do not describe another.
check_versions() {
	local package got
	for package in $(kernel_packages "$release"); do
		got=$(dpkg-query -W -f '${Version}' "$package")
		if [ "$got" != "$version" ]; then
			echo "$package is of version $got, not $version: all kernel packages must be of one version"
			exit 1
		fi
	done
}

dpkg --configure -a
apt-get -q update
choose_kernel
install_all "$@"
check_versions
printf 'KERNEL_VERSION=%s\nKERNEL_RELEASE=%s\nKERNEL_SOURCE=/usr/src/linux-source-%s\n' \
	"$version" "$release" "$series" >/etc/ext4rs-kernel
apt-get clean
