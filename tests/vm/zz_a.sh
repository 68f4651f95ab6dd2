#: disks=1G boot=zz fs=ext4
echo ok one; echo ok two; echo foo
