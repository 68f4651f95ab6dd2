# SPDX-License-Identifier: GPL-2.0
"""Measures ext4rs beside ext4, XFS and btrfs, on equal disks in one boot.

Records go to build/bench/results.json (every field: tests/bench/records.py), tables to build/bench/report.md.
The exit status is 1 where a run failed.
"""

import argparse
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path[1:1] = [str(TOP / "qemu"), str(TOP / "tests")]
import vm  # noqa: E402  (the path above is what finds it)

import records as rec  # noqa: E402
import report  # noqa: E402
import run as tests  # noqa: E402
import workloads  # noqa: E402
from session import Session  # noqa: E402

OUT = TOP / "build" / "bench"
QUICK = ["W1", "W2", "W4", "small"]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/bench/run", formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("--workloads", default="", metavar="W1,W4", help="only these")
    parser.add_argument("--fs", default="", metavar="ext4rs,ext4", help="only these filesystems")
    parser.add_argument("--rounds", type=int, default=0, help="rounds (default 3; 1 when quick, 2 when counting)")
    parser.add_argument("--disk", default="fast,spindle", help="fast, spindle or both (default)")
    parser.add_argument("--size", default="", help="of the large files, as 64M or 1G")
    parser.add_argument("--quick", action="store_true", help="four workloads, one round, the fast disk")
    parser.add_argument("--count", action="store_true", help="one processor, and instructions instead of time")
    parser.add_argument("--scale", type=float, default=1.0, help="with --count: make all sizes smaller")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"), help="print what changed")
    return parser.parse_args()


def words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def plan(arguments: argparse.Namespace) -> list[dict[str, str]]:
    names = words(arguments.workloads) or (QUICK if arguments.quick else [])
    disks = words(arguments.disk)
    if set(disks) - set(workloads.DISKS):
        raise vm.Failure(f"no such disk among {arguments.disk}; there are {', '.join(workloads.DISKS)}")
    size = arguments.size or "1G"
    if not (vm.parse_size(size) or 0) >= 16 << 20 or size[-1] not in "MG":
        raise vm.Failure(f"a size is 16M or more, in M or G, not {size!r}")
    rounds = arguments.rounds or (1 if arguments.quick else 2 if arguments.count else 3)
    if arguments.count:
        return select(workloads.counted(arguments.scale), names, arguments, ["fast"], rounds, trace=False)
    disks = ["fast"] if arguments.quick else disks
    return select(workloads.standard(size) + workloads.bounds(size), names, arguments, disks, rounds, trace=True)


def select(known: list, names: list[str], arguments: argparse.Namespace, disks: list[str], rounds: int,
           trace: bool) -> list[dict[str, str]]:
    chosen = workloads.narrow(known, names, words(arguments.fs))
    if not chosen:
        there = sorted({workload.name for workload in known})
        raise vm.Failure(f"no such workload or filesystem; there are {', '.join(there)}")
    return workloads.runs(chosen, disks, rounds, trace)


def main() -> int:
    arguments = parse_arguments()
    if arguments.compare:
        lines = report.compare(*(rec.load(path) for path in arguments.compare))
        print("\n".join(lines) or "nothing changed beyond the noise")
        return 0
    runs = plan(arguments)
    tests.build_guest_tool()
    large = 8 << 30 if arguments.count or not arguments.size else max(8 * (vm.parse_size(arguments.size) or 0), 2 << 30)
    memory = "4G" if arguments.count or arguments.size else "8G"
    name = "bench-count" if arguments.count else "bench"
    # What the host takes to give memory is no instruction of the guest's.
    session = Session(runs, name, memory, f"{large >> 20}M", arguments.count,
                      touch=not arguments.size and not arguments.count)
    try:
        session.run()
    finally:
        if session.records:
            rec.save(session.records, OUT / "results.json")
            (OUT / "report.md").write_text(report.markdown(session.records))
    print(f"bench: see {OUT / 'report.md'}")
    return 1 if any(record["failed"] for record in session.records) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except vm.Failure as failure:
        tests.clear_status()
        sys.exit(f"bench: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
