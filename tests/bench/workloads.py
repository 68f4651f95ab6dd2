# SPDX-License-Identifier: GPL-2.0
"""What is run: the workloads, the filesystems with the options of each, and the plan made of them.

A workload's steps are those of tests/guest/src/bench/work.rs, or shell commands after `sh `.
"""

import dataclasses

MIB = 1 << 20
MKFS = {
    "ext4rs": "mke2fs -q -F -t ext4 -E lazy_itable_init=0,lazy_journal_init=0",
    "ext4": "mke2fs -q -F -t ext4 -E lazy_itable_init=0,lazy_journal_init=0",
    "xfs": "mkfs.xfs -q -f",
    "btrfs": "mkfs.btrfs -q -f",
}
FSCK = {"ext4rs": "e2fsck -fn", "ext4": "e2fsck -fn", "xfs": "xfs_repair -n", "btrfs": "btrfs check"}
DISKS = {"fast": "vdb", "spindle": "vdc"}


@dataclasses.dataclass
class Workload:
    """`work` is measured after `setup`, then what `sync` names (a file, or `volume`)."""

    name: str
    work: str
    sync: str = ""
    setup: str = ""
    files: str = ""
    variants: tuple[str, ...] = ("ext4rs", "ext4", "xfs")
    """Filesystems, each with its mount options after a blank and those of mke2fs after a second."""
    limits: str = "raised"
    cold: bool = False
    direct: bool = False


ALL = ("ext4rs", "ext4", "xfs", "btrfs")
BOTH = ("ext4rs nodelalloc,dioread_lock", "ext4rs delalloc,dioread_lock",
        "ext4 nodelalloc,dioread_lock", "ext4 delalloc,dioread_lock", "xfs")


def standard(size: str) -> list[Workload]:
    """The five workloads; `size` is that of their large files."""
    total = int(size[:-1]) * {"M": 1, "G": 1024}[size[-1]]
    w1 = [Workload(f"W1-{part}M", f"write F --bytes {part}M --call 1M", "F", files="F", variants=ALL)
          for part in sorted({max(total // 4, 16), total})]
    fio = ("sh fio --name=w3 --thread --ioengine=mmap --rw=randrw --bs=4k --overwrite=1 --numjobs=8 --norandommap"
           f" --filename=/mnt/A:/mnt/B --size={total}M --io_size={max(total // 16, 4)}M --output=/dev/null")
    return w1 + [
        Workload("W2", f"write F --bytes {size} --call 4K", "F", files="F", variants=(
            "ext4rs nodelalloc,dioread_nolock", "ext4rs", "ext4 nodelalloc,dioread_nolock", "ext4", "xfs")),
        Workload("W3", fio, "volume", f"write A --bytes {total // 2}M ; write B --bytes {total // 2}M", "A,B",
                 limits="low"),
        Workload("W4", f"write F --bytes {size} --call 1M", "F", files="F", variants=("ext4rs", "ext4", *BOTH)),
        Workload("W4-again", f"write F --bytes {size} --call 1M", "F", f"write F --bytes {size} --call 1M",
                 files="F", variants=("ext4rs", "ext4", *BOTH)),
        Workload("W5", "sh tar -xf /tmp/tree.tar -C /mnt", "volume", variants=(
            *ALL, "ext4rs - ^has_journal", "ext4 - ^has_journal", "ext4rs - ^extent", "ext4 - ^extent")),
        Workload("small", "small t --count 3000 --each 8K", "volume"),
    ]


def counted(scale: float) -> list[Workload]:
    """The table of instructions; `scale` makes all sizes smaller."""
    def mib(number: int) -> str:
        return f"{max(int(number * scale), 1)}M"

    def some(number: int) -> int:
        return max(int(number * scale), 10)
    tree = f"small t --count {some(3000)} --each 8K"
    return [
        Workload("dd-1M", f"write F --bytes {mib(1024)} --call 1M", "volume"),
        Workload("writes-4K", f"write F --bytes {mib(256)} --call 4K", "volume"),
        Workload("appends-4K", f"write F --bytes {mib(64)} --call 4K", "volume"),
        Workload("writes-512", f"write F --bytes {mib(64)} --call 512", "volume"),
        Workload("random-new", f"write F --bytes {mib(128)} --call 4K --random", "volume"),
        Workload("random-over", f"write F --bytes {mib(128)} --call 4K --random", "volume",
                 f"write F --bytes {mib(128)}"),
        Workload("mmap-stores", f"stores F --bytes {mib(64)}", "volume"),
        Workload("small-files", tree, "volume"),
        Workload("empty-files", f"empty t --count {some(10000)}", "volume"),
        Workload("create-rename", f"rename t --count {some(3000)}", "volume"),
        Workload("attributes", f"attributes t --count {some(3000)}", "volume"),
        Workload("rm-rf", "remove t", "volume", tree),
        Workload("find", "list t", setup=f"empty t --count {some(10000)}", cold=True),
        Workload("read-tree", "read-tree t", setup=tree, cold=True),
        Workload("append-fsync", f"appends F --count {some(1000)}"),
        Workload("read-cold", "read F --call 1M", setup=f"write F --bytes {mib(256)}", cold=True),
        Workload("random-read-cold", "read F --call 4K --random", setup=f"write F --bytes {mib(64)}", cold=True),
    ]


def bounds(size: str) -> list[Workload]:
    """What the machine can do."""
    return [
        Workload("W4", f"write ../dev/{{dev}} --bytes {size} --call 1M --direct", variants=("raw",)),
        Workload("W4", f"write F --bytes {size} --call 1M", variants=("tmpfs",)),
    ]


def narrow(workloads: list[Workload], names: list[str], filesystems: list[str]) -> list[Workload]:
    """Those that are named (W1 stands for all W1-...), on the filesystems that are named."""
    out = []
    for workload in workloads:
        if names and workload.name not in names and workload.name.partition("-")[0] not in names:
            continue
        variants = tuple(v for v in workload.variants if not filesystems or v.split()[0] in filesystems)
        if variants:
            out.append(dataclasses.replace(workload, variants=variants))
    return out


def runs(workloads: list[Workload], disks: list[str], rounds: int, trace: bool) -> list[dict[str, str]]:
    """The plan: in each round every filesystem in turn; a round for the trace at the end, numbered 0."""
    out = []
    for disk in disks:
        for workload in workloads:
            for number in [*range(1, rounds + 1), *([0] if trace else [])]:
                out += [run(workload, variant, disk, number) for variant in workload.variants]
    for number, one in enumerate(out):
        one["id"] = str(number)
    return out


def run(workload: Workload, variant: str, disk: str, number: int) -> dict[str, str]:
    fs, options, features = [*variant.split(), "", ""][:3]
    dev = DISKS[disk]
    mkfs = MKFS.get(fs, "") + (f" -O {features}" if features else "")
    return {
        "workload": workload.name, "disk": disk, "fs": fs, "round": str(number),
        "shown": " ".join(word for word in (options, features) if word not in ("", "-")),
        "options": "" if options == "-" else options, "dev": dev,
        "mkfs": f"{mkfs} /dev/{dev}" if mkfs else "",
        "fsck": f"{FSCK.get(fs, 'true')} /dev/{dev}", "setup": workload.setup,
        "work": workload.work.replace("{dev}", dev), "sync": workload.sync, "files": workload.files,
        "limits": workload.limits, "cold": "yes" if workload.cold else "", "direct": "yes" if workload.direct else "",
        "trace": "yes" if number == 0 else "",
    }
