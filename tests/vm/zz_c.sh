#: disks=1G boot=zz fs=ext4
echo not ok one: because; echo "WARNING: fake" >/dev/kmsg;false
