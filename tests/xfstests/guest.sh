#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run in the guest by tests/xfstests/run.py: makes the guest one in which
# xfstests can run, then runs the tests that the host names, batch by batch.
#
#   FS             the filesystem under test: ext4rs or ext4
#   FSTYP          what xfstests takes it for: ext4, or ext4rs
#   MODULE         path of ext4rs.ko
#   MKFS_OPTIONS, EXT_MOUNT_OPTIONS      the configuration
#   RUN            this machine's folder: the host's answers come here
#   RESULT_BASE    where xfstests leaves its files
#
# /opt/xfstests is the user's tree. It is a part of the guest's root, so what is
# changed in it here is gone afterwards.
set -u

export TEST_DEV=/dev/vdb SCRATCH_DEV=/dev/vdc LOGWRITES_DEV=/dev/vdd
export TEST_DIR=/mnt/test SCRATCH_MNT=/mnt/scratch
export RESULT_BASE FSTYP MKFS_OPTIONS
# There is no udev that makes the nodes of devices.
export DM_DISABLE_UDEV=1
tree=/opt/xfstests

# program NAME: a program of our own, from standard input, before the system's.
program() {
	cat >"/usr/local/sbin/$1"
	chmod +x "/usr/local/sbin/$1"
}

make_users() {
	local name id=1001
	for name in fsgqa fsgqa2 123456-fsgqa; do
		printf '%s:x:%d:%d::/home/%s:/bin/bash\n' "$name" "$id" "$id" "$name" >>/etc/passwd
		# su(1) wants to know that the account has not expired.
		printf '%s:*:20000:0:99999:7:::\n' "$name" >>/etc/shadow
		printf '%s:x:%d:\n' "$name" "$id" >>/etc/group
		mkdir -p "/home/$name"
		chown "$id:$id" "/home/$name"
		id=$((id + 1))
	done
}

# Settling takes no time where there is nothing to settle, and nobody reads a
# system log.
make_stand_ins() {
	program udevadm <<<$'#!/bin/sh\nexit 0'
	program logger <<<$'#!/bin/sh\nexit 0'
	# Nor one that loads the driver of the disks that scsi_debug brings.
	modprobe sd_mod
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
	mkdir -p /boot
	cp "/usr/src/linux-headers-$(uname -r)/.config" "/boot/config-$(uname -r)"
}

# xfstests is to take ext4rs for ext4: mount(8) asks a helper to mount that type,
# and where xfstests compares what is mounted it is told the name that it expects.
pass_for_ext4() {
	program mount.ext4 <<<$'#!/bin/sh\nexec mount -i -t ext4rs "$@"'
	ln -sf /usr/local/sbin/mount.ext4 /sbin/mount.ext4
	# shellcheck disable=SC2016 # the variables are those of the other script
	sed -i -e '/^_fs_type()/,/^}/s/sed -e /sed -e "s:ext4rs:ext4:" -e /' \
		-e '/findmnt -rncv/s/-t \$fstype/-t $fstype,${fstype}rs/' common/rc
}

# Under its own name: the programs for that name. `fsck` calls with -n alone,
# which looks at nothing on a volume that was unmounted well.
be_plain() {
	program mkfs.ext4rs <<<$'#!/bin/sh\nexec mke2fs -t ext4 -F "$@"'
	program fsck.ext4rs <<<$'#!/bin/sh\nexec e2fsck -f "$@"'
	ln -sf /usr/local/sbin/mkfs.ext4rs /usr/local/sbin/fsck.ext4rs /sbin/
	export MOUNT_OPTIONS=${EXT_MOUNT_OPTIONS:-} TEST_FS_MOUNT_OPTS=${EXT_MOUNT_OPTIONS:-}
}

load() {
	[ "$FS" = ext4 ] || grep -q '^ext4rs ' /proc/modules || insmod "$MODULE" || refuse "the module does not load"
}

# What outlives its last mount is complained of by the kernel when it goes.
unload() {
	umount "$TEST_DIR" "$SCRATCH_MNT" 2>/dev/null
	[ "$FS" = ext4 ] || rmmod ext4rs
}

refuse() {
	printf '@@refused %s\n' "$*"
	exit 0
}

# Both volumes are made and mounted once: what this configuration asks for may
# not be built.
try_config() {
	local device
	for device in $TEST_DEV $SCRATCH_DEV; do
		# shellcheck disable=SC2086 # options, a word each
		mkfs.ext4 -q -F $MKFS_OPTIONS "$device" || refuse "mke2fs refuses $MKFS_OPTIONS"
		dmesg -C
		# shellcheck disable=SC2086
		mount -t "$FSTYP" ${EXT_MOUNT_OPTIONS:-} "$device" "$TEST_DIR" 2>/dev/null ||
			refuse "$(dmesg -t | grep -v '^\(run\|guest\)' | tail -n 1)"
		umount "$TEST_DIR"
	done
}

# next NUMBER: the host's answer, once it is there whole.
next() {
	printf '@@next %d\n' "$1"
	until [ -e "$RUN/next-$1" ]; do sleep 0.2; done
	mapfile -t tests <"$RUN/next-$1"
}

[ -z "${EXT_MOUNT_OPTIONS:-}" ] || export EXT_MOUNT_OPTIONS
mkdir -p "$TEST_DIR" "$SCRATCH_MNT"
make_users
make_stand_ins
cd "$tree" || exit
load
if [ "$FSTYP" = ext4rs ]; then
	be_plain
elif [ "$FS" = ext4rs ]; then
	pass_for_ext4
fi
try_config
batch=1
while next "$batch" && [ "${#tests[@]}" != 0 ]; do
	if [ "$batch" != 1 ]; then load; fi
	./check --exact-order "${tests[@]}" </dev/null 2>"$RUN/check.err"
	unload
	batch=$((batch + 1))
done
exit 0
