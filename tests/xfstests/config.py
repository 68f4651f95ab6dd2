# SPDX-License-Identifier: GPL-2.0
"""Configurations, by the names that kvm-xfstests gives them.

Nothing here knows what is built: the guest tries each configuration's mount
before the first test, and what the kernel refuses is said in one line.
"""

import dataclasses

import vm


@dataclasses.dataclass(frozen=True)
class Config:
    """How volumes are made and mounted."""

    mkfs: str = "-b 4096"
    mount: str = ""
    plain: bool = False
    """Under the name ext4rs, which xfstests does not know, instead of as ext4."""

    def folders(self, fs: str) -> tuple[str, ...]:
        """The folders of tests that mean something."""
        return ("generic",) if self.plain and fs == "ext4rs" else ("generic", "shared", "ext4")

    def environment(self, fs: str) -> dict[str, str]:
        """For the guest's script and for xfstests itself."""
        values = {"MKFS_OPTIONS": self.mkfs, "FSTYP": "ext4rs" if self.plain and fs == "ext4rs" else "ext4"}
        if self.mount:
            values["EXT_MOUNT_OPTIONS"] = f"-o {self.mount}"
        return values


CONFIGS = {
    "4k": Config(),
    "1k": Config(mkfs="-b 1024"),
    "nodelalloc": Config(mount="nodelalloc"),
    "dioread_lock": Config(mount="dioread_lock"),
    "nojournal": Config(mkfs="-b 4096 -O ^has_journal"),
    "ext3conv": Config(mkfs="-O ^flex_bg", mount="nodelalloc"),
    "data_writeback": Config(mount="data=writeback"),
    "plain": Config(plain=True),
}


def find(name: str) -> Config:
    if name not in CONFIGS:
        raise vm.Failure(f"no configuration {name!r}; there are {', '.join(CONFIGS)}")
    return CONFIGS[name]
