#: disks=1G,2G boot=zz timeout=5 fs=ext4
echo ok one; lsblk; sleep 10
