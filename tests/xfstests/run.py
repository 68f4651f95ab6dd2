# SPDX-License-Identifier: GPL-2.0
"""Runs xfstests on ext4rs (or the in-tree ext4) in virtual machines.

Run inside the sysroot (tests/xfstests/run brings it there). The tree is the
user's own and is not changed. A test that hangs, or in which the kernel
complains, costs a restart of its machine; the run goes on with the next test.

A line is printed for each test, and results go to build/xfstests/DATE-CONFIG:
summary.md, junit.xml, results.txt, and what the failed tests left.

Exit status: 0, 1 for a failure that neither known-failures.txt lists nor the
stored result of ext4 has, 2 where nothing could be run.
"""

import argparse
import collections
import math
import os
import subprocess
import sys
import threading
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "qemu"))
import vm  # noqa: E402  (the path above is what finds it)

import config as configs  # noqa: E402
import lists  # noqa: E402
import results  # noqa: E402
from report import Report  # noqa: E402
from results import BAD, Result, Run  # noqa: E402
from session import Session  # noqa: E402
from tree import Tree  # noqa: E402

# Where the guest finds the tree: a folder of the sysroot, so that the guest may
# change what it sees of it.
GUEST_TREE = Path("/opt/xfstests")
# Tests that a machine takes at once. After each batch the module is unloaded,
# which shows what it leaked; more tests share the start of `check`.
BATCH = 16
LONG = 300 / 90
# Boots in a row in which no test begins: it will not get better.
MOST_FRUITLESS = 2


class Runner:
    """The machines, and the tests that they share."""

    def __init__(self, run: Run, arguments: argparse.Namespace) -> None:
        self.run, self.arguments = run, arguments
        self.config = configs.find(run.config)
        self.baseline = lists.Baseline(run.kernel)
        self.long = lists.long_tests()
        self.queue = collections.deque(run.left())
        self.total = len(run.tests)
        self.stream = len(run.tests) == 1
        # Tried before there are several machines.
        self.kvm = vm.kvm_works()
        self.lock = threading.Lock()
        self.took = self.ext4_took = 0.0
        self.failure: vm.Failure | None = None

    def work(self, number: int) -> None:
        """One machine's life, from boot to boot."""
        try:
            fruitless = 0
            while self.queue and not self.failure:
                session = self._boot(number)
                with self.lock:
                    self.queue.extendleft(reversed(session.left))
                if session.refused is not None:
                    raise vm.Failure(f"{self.run.fs} does not mount CONFIG={self.run.config}: {session.refused}")
                fruitless = 0 if session.tests_begun else fruitless + 1
                if session.left and fruitless >= MOST_FRUITLESS or fruitless > MOST_FRUITLESS:
                    said = "".join(f"\n    {line}" for line in session.said[-12:])
                    raise vm.Failure(f"no test begins (see {session.machine.folder}); the guest said last:{said}")
        except vm.Failure as failure:
            self.failure = self.failure or failure

    def _boot(self, number: int) -> Session:
        machine = vm.Machine(f"{self.arguments.name}-{number}", memory="2G",
                             smp=max(1, (os.cpu_count() or 1) // self.arguments.jobs),
                             timeout=120 * self.arguments.factor, kvm=self.kvm, hasty=True)
        for _ in ("TEST", "SCRATCH", "LOGWRITES"):
            machine.add_disk("4G")
        session = Session(self.run, machine, self._take, self._limit, self._begun, self._ended)
        try:
            session.run(self.config.environment(self.run.fs) | {
                "FS": self.run.fs, "MODULE": str(TOP / "build" / "stock" / "ext4rs.ko")})
        finally:
            for disk in machine.disks:
                disk.path.unlink(missing_ok=True)
        return session

    def _take(self) -> list[str]:
        """The next batch; a share of what is left when that is little."""
        with self.lock:
            share = min(BATCH, math.ceil(len(self.queue) / self.arguments.jobs))
            return [self.queue.popleft() for _ in range(share)] if not self.failure else []

    def _limit(self, test: str) -> float:
        return self.arguments.timeout * self.arguments.factor * (LONG if test in self.long else 1)

    def _begun(self, test: str, text: str | None) -> None:
        if self.stream and text is not None:
            print(text, flush=True)
        elif sys.stdout.isatty() and text is None:
            print(f"\r\033[K[{len(self.run.results) + 1:4}/{self.total}]  {test} ...", end="", flush=True)

    def _ended(self, result: Result) -> None:
        with self.lock:
            self.took += result.seconds
            self.ext4_took += self.baseline.seconds(result.test)
            word = results.NAMES[result.verdict]
            if sys.stdout.isatty():
                print("\r\033[K", end="")
            print(f"[{len(self.run.results):4}/{self.total}]  {result.test:14} {word:9} {result.seconds:5.0f} s  "
                  f"{self._time_left():14}  {result.reason[:120]}".rstrip(), flush=True)

    def _time_left(self) -> str:
        """By what ext4 took for the tests, at the pace so far."""
        left = sum(self.baseline.seconds(test) for test in self.run.left())
        if not left or not self.ext4_took:
            return ""
        minutes = round(left * self.took / self.ext4_took / self.arguments.jobs / 60)
        return f"{minutes // 60} h {minutes % 60:2} min left" if minutes >= 60 else f"{minutes} min left"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/xfstests/run", formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("--tree", type=Path, required=True, help="a built xfstests tree")
    parser.add_argument("--tests", default="-g quick", help="as for xfstests' check (default: -g quick)")
    parser.add_argument("--config", default="4k", help=f"one of {', '.join(configs.CONFIGS)} (default: 4k)")
    parser.add_argument("--fs", default="ext4rs", choices=("ext4rs", "ext4"), help="the filesystem under test")
    parser.add_argument("--jobs", type=int, default=1, help="machines that share the tests (default: 1)")
    parser.add_argument("--timeout", type=float, default=90,
                        help="seconds for a test (default 90); those in long-tests.txt have 3.3 times as long")
    parser.add_argument("--factor", type=float, default=1, help="what all time-outs are multiplied by (default 1)")
    parser.add_argument("--resume", default="", metavar="1|FOLDER",
                        help="go on with a run: the newest of this filesystem and configuration, or that of a folder")
    parser.add_argument("--folder", type=Path, help="where results go (default: build/xfstests/DATE-CONFIG)")
    parser.add_argument("--name", default="", help="the machines' folders are build/vm/NAME-1 ...")
    return parser.parse_args()


def open_run(arguments: argparse.Namespace) -> Run:
    if arguments.resume == "1":
        run = Run.newest(arguments.fs, arguments.config)
    elif arguments.resume:
        run = Run.open(Path(arguments.resume).absolute())
    else:
        tree = Tree(arguments.tree, configs.find(arguments.config).folders(arguments.fs))
        return Run.create(arguments.fs, arguments.config, vm.kernel_release(), tree.select(arguments.tests),
                          arguments.folder)
    print(f"xfstests: going on with {run.folder}: {len(run.left())} of {len(run.tests)} tests are left", flush=True)
    return run


def offer_tree(tree: Path) -> None:
    """Puts the tree where the guest finds it, in a mount namespace of this process's own: nothing stays."""
    GUEST_TREE.mkdir(exist_ok=True)
    subprocess.run(["mount", "--bind", tree, GUEST_TREE], check=True)
    needed = subprocess.run(["ldd", GUEST_TREE / "ltp" / "fsstress"], capture_output=True, text=True, check=False)
    missing = [line.split()[0] for line in needed.stdout.splitlines() if "not found" in line]
    if missing:
        raise vm.Failure(f"{tree} was built with libraries that the guest does not have: {', '.join(missing)}")


def show_failure(run: Run, test: str) -> None:
    """What one failed test left, at once."""
    for kind, lines in (("full", 40), ("dmesg", 40)):
        group, _, number = test.partition("/")
        path = run.folder / group / f"{number}.{kind}"
        if path.exists():
            text = path.read_text(errors="replace").splitlines()
            print(f"--- the end of {path}", *text[-lines:], sep="\n")
    print("--- all that it left:", *run.files(test), sep="\n    ")


def finish(run: Run) -> int:
    report = Report(run)
    report.write()
    unexpected = report.unexpected()
    if len(run.tests) == 1 and unexpected:
        show_failure(run, run.tests[0])
    for void in run.voids:
        print(f"xfstests: THIS RUN IS VOID: {void}")
    for test, passes in report.leaving().items():
        print(f"xfstests: {test} of known-failures.txt passes now ({passes} in a row)")
    for result in unexpected:
        print(f"not expected: {result.test} {results.NAMES[result.verdict]}: {result.reason}")
    print(f"xfstests: {report.counts()}; {len(unexpected)} not expected; see {run.folder / 'summary.md'}", flush=True)
    return 1 if unexpected or run.voids or any(
        result.verdict in BAD and result.reason.startswith("void:") for result in run.results.values()) else 0


def main() -> int:
    arguments = parse_arguments()
    if arguments.jobs < 1 or arguments.factor <= 0 or arguments.timeout <= 0:
        raise vm.Failure("--jobs, --factor and --timeout are more than nothing")
    run = open_run(arguments)
    arguments.name = arguments.name or f"xfstests-{run.fs}-{run.config}"
    offer_tree(arguments.tree)
    runner = Runner(run, arguments)
    workers = [threading.Thread(target=runner.work, args=(number,), daemon=True)
               for number in range(1, arguments.jobs + 1)]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            worker.join()
    except KeyboardInterrupt:
        Report(run).write()
        print(f"\nxfstests: interrupted; RESUME={run.folder} goes on", flush=True)
        # The machines end with this process's namespace.
        os._exit(130)
    status = finish(run) if run.results else 2
    if runner.failure:
        raise runner.failure
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except vm.Failure as failure:
        print(f"xfstests: {failure}", file=sys.stderr)
        sys.exit(2)
