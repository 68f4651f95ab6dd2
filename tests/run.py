# SPDX-License-Identifier: GPL-2.0
"""Runs the tests and adds them up: `N passed, N failed` is the last line.

Three kinds:

tests/NAME/Cargo.toml    a crate whose `cargo test` runs here, on the host.
                         Each of its tests counts.
tests/NAME/selftest.py   a program that tests a part of the tests themselves, given
                         --fs; it prints what a script for the virtual machine does.
tests/vm/NAME.sh         a script that bash runs as root in the virtual machine
                         (files named lib* are for sourcing). It prints a line
                         `ok CHECK` or `not ok CHECK: why` for each check, and
                         each counts. To exit with another status than 0, to
                         make no check at all, to run out of time or to make the
                         kernel complain is a failure too.

A script finds in its environment:
  FS           the filesystem to test: ext4rs, or ext4 to test the test
  MODULE       the path of ext4rs.ko; loaded already, unless FS is ext4
  GUEST_TOOL   the program of tests/guest
  WORK         an empty folder that stays on the host, for what is worth keeping
  /dev/vdb ... the disks that its header asks for; /dev/vda is for scratch
  what --set gives: SEED and the like, for those that do random things

Lines `#: key=value ...` at its head say what it needs:
  disks=4G,2G  disks (as for qemu/vm --disk, less options)      default: 2G
  mem=1G       memory                                           default: 1G
  timeout=300  seconds without the boot                         default: 300
  fs=ext4rs    filesystems for which it means something         default: ext4rs,ext4
  boot=GROUP   share one boot with the others of this name      default: its own
  load=no      do not load the module first                     default: yes
  panic=ok     it may end by a panic or a reset of the machine  default: no
  long=yes     only with --long, or by name                     default: no
"""

import argparse
import dataclasses
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "qemu"))
import vm  # noqa: E402  (the path above is what finds it)

BUILD = TOP / "build"
# Room for a boot on a busy machine.
BOOT_SECONDS = 60
# So many failures of one test are shown one by one.
MOST_FAILURES = 12
GUEST_TOOL = BUILD / "cargo" / "guest" / "release" / "guest"


@dataclasses.dataclass
class Case:
    """A test script for the virtual machine, as its header describes it."""

    name: str
    disks: list[str]
    memory: str = "1G"
    timeout: int = 300
    filesystems: tuple[str, ...] = ("ext4rs", "ext4")
    boot: str = ""
    load: bool = True
    panic_ok: bool = False
    long: bool = False

    KEYS = ("disks", "mem", "timeout", "fs", "boot", "load", "panic", "long")

    @classmethod
    def read(cls, path: Path) -> "Case":
        values: dict[str, str] = {}
        for line in path.read_text().splitlines():
            if line.startswith("#: "):
                values |= dict(word.partition("=")[::2] for word in line[3:].split())
        for key in values:
            if key not in cls.KEYS:
                raise vm.Failure(f"{path}: no key {key!r} in a header; there are {', '.join(cls.KEYS)}")
        return cls(
            name=path.stem,
            disks=values.get("disks", "2G").split(","),
            memory=values.get("mem", "1G"),
            timeout=int(values.get("timeout", "300")),
            filesystems=tuple(values.get("fs", "ext4rs,ext4").split(",")),
            boot=values.get("boot", path.stem),
            load=values.get("load", "yes") == "yes",
            panic_ok=values.get("panic", "no") == "ok",
            long=values.get("long", "no") == "yes",
        )


@dataclasses.dataclass
class Outcome:
    """What became of one test."""

    passed: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0

    def note(self, line: str) -> None:
        """Counts a line of a test's output that is about a check."""
        if line.startswith("ok "):
            self.passed += 1
        elif line.startswith("not ok "):
            self.failures.append(line)

    def end(self, status: int) -> None:
        """A test that says nothing of a failure may be one all the same."""
        if status and not self.failures:
            self.failures.append(f"the test ended with status {status}")
        elif not self.passed and not self.failures:
            self.failures.append("the test made no check")


class Report:
    """Prints one line for each test and keeps the sum."""

    def __init__(self) -> None:
        self.passed = self.failed = 0

    def add(self, name: str, outcome: Outcome, details: str = "") -> None:
        self.passed += outcome.passed
        self.failed += len(outcome.failures)
        word = "FAILED" if outcome.failures else "ok"
        count = f"{outcome.passed} passed"
        if outcome.failures:
            count += f", {len(outcome.failures)} failed"
        clear_status()
        print(f"{word:6}  {name:24}  {count:24}  {outcome.seconds:6.1f} s", flush=True)
        for failure in outcome.failures[:MOST_FAILURES]:
            print(f"            {cut(failure)}")
        if len(outcome.failures) > MOST_FAILURES:
            print(f"            ... and {len(outcome.failures) - MOST_FAILURES} more")
        if outcome.failures and details:
            print(details, end="" if details.endswith("\n") else "\n", flush=True)

    def finish(self) -> int:
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed or not self.passed else 0


def show_status(text: str) -> None:
    """What is going on, on a terminal: a line that the next one replaces."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text[:shutil.get_terminal_size().columns - 1]}", end="", flush=True)


def clear_status() -> None:
    show_status("")


def cut(line: str) -> str:
    return line if len(line) <= 200 else line[:199] + "…"


def indent(text: str, lines: int) -> str:
    return "".join(f"    | {cut(line)}\n" for line in text.splitlines()[-lines:])


# --- tests on the host --------------------------------------------------------

def cargo(arguments: list[str], crate: Path, log: Path) -> tuple[int, str]:
    """Runs cargo on a crate under tests/, its output in `log` and returned."""
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"CARGO_TARGET_DIR": str(BUILD / "cargo" / crate.name), "CARGO_TERM_COLOR": "never"}
    command = ["cargo", *arguments, "--manifest-path", str(crate / "Cargo.toml")]
    with open(log, "w+") as file:
        status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                env=environment, check=False).returncode
        file.seek(0)
        return status, file.read()


def run_crate(crate: Path, report: Report) -> None:
    show_status(f"run     {crate.name} (cargo test)")
    start = time.monotonic()
    log = BUILD / "test" / f"{crate.name}.log"
    status, output = cargo(["test", "--locked", "--no-fail-fast"], crate, log)
    outcome = Outcome(seconds=time.monotonic() - start)
    outcome.passed = sum(int(count) for count in re.findall(r"^test result: .*? (\d+) passed", output, re.M))
    outcome.failures = re.findall(r"^test (\S+) .*\.\.\. FAILED", output, re.M)
    if status and not outcome.failures:
        outcome.failures = [f"cargo test ended with status {status}"]
    elif not status and not outcome.passed:
        outcome.failures = ["cargo test ran no test"]
    report.add(crate.name, outcome, indent(output, 40) + f"    the whole output: {log}\n")


def run_program(program: Path, fs: str, report: Report, stream: bool) -> None:
    """Runs a selftest.py; its lines count as those of a script in the virtual machine."""
    name = program.parent.name
    log = BUILD / "test" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    outcome, start, output = Outcome(), time.monotonic(), ""
    with open(log, "w") as file, subprocess.Popen(
            [sys.executable, program, "--fs", fs], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            file.write(line)
            output += line
            if stream:
                print(line, end="", flush=True)
            else:
                show_status(f"run     {name} {time.monotonic() - start:5.0f} s  {line.rstrip()}")
            outcome.note(line.rstrip("\n"))
    outcome.seconds = time.monotonic() - start
    outcome.end(process.returncode)
    report.add(name, outcome, "" if stream else indent(output, 40) + f"    the whole output: {log}\n")


def build_guest_tool() -> None:
    crate = TOP / "tests" / "guest"
    if not (crate / "Cargo.toml").exists():
        return
    show_status("building the guest's test program")
    log = BUILD / "test" / "guest-build.log"
    status, output = cargo(["build", "--release", "--locked"], crate, log)
    clear_status()
    if status:
        raise vm.Failure(f"the guest's test program does not build:\n{indent(output, 40)}    the whole output: {log}")


# --- tests in the virtual machine ---------------------------------------------

class Boot:
    """One boot, in which the cases of a group run one after the other."""

    def __init__(self, cases: list[Case], fs: str, stream: bool, settings: dict[str, str]) -> None:
        self.cases, self.fs, self.stream, self.settings = cases, fs, stream, settings
        name = cases[0].boot if fs == "ext4rs" else f"{cases[0].boot}-{fs}"
        self.machine = vm.Machine(
            name,
            memory=max((case.memory for case in cases), key=lambda text: vm.parse_size(text) or 0),
            timeout=BOOT_SECONDS,
            panic_ok=any(case.panic_ok for case in cases),
            kvm=vm.kvm_works())
        widest = max((case.disks for case in cases), key=len)
        for index in range(len(widest)):
            sizes = [case.disks[index] for case in cases if index < len(case.disks)]
            self.machine.add_disk(max(sizes, key=lambda text: vm.parse_size(text) or 0))
        self.outcomes = {case.name: Outcome() for case in cases}
        self.output = {case.name: "" for case in cases}
        self.done: set[str] = set()
        self.current: str | None = None
        self.started = 0.0
        self.rest = b""

    def run(self, report: Report) -> None:
        shutil.rmtree(self.machine.folder / "work", ignore_errors=True)
        words = [word for case in self.cases
                 for word in (case.name, str(case.timeout), "yes" if case.load else "no")]
        environment = {
            "FS": self.fs,
            "MODULE": str(BUILD / "stock" / "ext4rs.ko"),
            "GUEST_TOOL": str(GUEST_TOOL),
            "RUN": str(self.machine.folder),
        } | self.settings
        show_status(f"run     {self.cases[0].boot}: booting")
        status = self.machine.run(["bash", "tests/run-guest", *words], environment, self._on_output)
        self._settle(status)
        for case in self.cases:
            log = self.machine.folder / f"{case.name}.log"
            log.write_text(self.output[case.name])
            details = f"{indent(self.output[case.name], 20)}    the whole output: {log}\n"
            if status in (vm.TIMED_OUT, vm.COMPLAINED, vm.DIED) and case.name in (self.current, self.cases[-1].name):
                details += f"    the console ({self.machine.console_log}):\n{self.machine.console_end()}"
            report.add(case.name, self.outcomes[case.name], "" if self.stream else details)

    def _on_output(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        for raw in lines:
            self._on_line(raw.decode(errors="replace").rstrip("\r"))

    def _on_line(self, line: str) -> None:
        words = line.split()
        if line.startswith("@@begin "):
            self.current = words[1]
            self.started = time.monotonic()
            timeout = next(case.timeout for case in self.cases if case.name == self.current)
            # The guest's own time limit acts first, unless the guest hangs.
            self.machine.deadline = self.started + timeout + 20
            show_status(f"run     {self.current}")
            return
        if line.startswith("@@end ") and self.current == words[1]:
            self._end(int(words[2]))
            return
        if self.current is None:
            return
        self.output[self.current] += line + "\n"
        if self.stream:
            print(line, flush=True)
        else:
            show_status(f"run     {self.current} {time.monotonic() - self.started:5.0f} s  {line}")
        self.outcomes[self.current].note(line)

    def _end(self, status: int) -> None:
        outcome = self.outcomes[self.current]
        outcome.seconds = time.monotonic() - self.started
        if status in (124, 137):
            outcome.failures.append("the test ran out of its time")
        outcome.end(status)
        self.done.add(self.current)
        self.current = None
        self.machine.deadline = time.monotonic() + BOOT_SECONDS

    def _settle(self, status: int) -> None:
        """Lays what befell the machine at the door of a test."""
        for case in self.cases:
            outcome = self.outcomes[case.name]
            if case.name in self.done:
                continue
            if case.name == self.current:
                outcome.seconds = time.monotonic() - self.started
                if status == 0 and case.panic_ok:
                    if not outcome.passed and not outcome.failures:
                        outcome.failures.append("the test made no check")
                    continue
                outcome.failures.append(self.machine.reason)
            else:
                outcome.failures.append(f"did not run: {self.machine.reason}")
        # The kernel may complain and go on; then all the tests have an end.
        if status and self.done == set(self.outcomes):
            self.outcomes[self._blamed()].failures.append(self.machine.reason)

    def _blamed(self) -> str:
        """The test during or after which the kernel complained."""
        name = self.cases[0].name
        for line in self.machine.console_log.read_text(errors="replace").splitlines():
            begins = re.search(r"\] test (\S+) begins", line)
            if begins and begins[1] in self.outcomes:
                name = begins[1]
            if line.strip() == self.machine.complaint:
                return name
        return self.cases[-1].name


# --- choice -------------------------------------------------------------------

def find_crates() -> list[Path]:
    return sorted(path.parent for path in (TOP / "tests").glob("*/Cargo.toml"))


def find_programs() -> list[Path]:
    return sorted((TOP / "tests").glob("*/selftest.py"))


def find_cases() -> list[Case]:
    return [Case.read(path) for path in sorted((TOP / "tests" / "vm").glob("*.sh"))
            if not path.name.startswith("lib")]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/run", formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("--only", metavar="NAME", help="run this test alone, its output shown as it comes")
    parser.add_argument("--fs", default="ext4rs", choices=("ext4rs", "ext4"), help="the filesystem under test")
    parser.add_argument("--long", action="store_true", help="the long tests too")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="for the scripts")
    parser.add_argument("--list", action="store_true", help="the tests' names")
    return parser.parse_args()


def build_module() -> None:
    show_status("building the module")
    log = BUILD / "test" / "module-build.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w") as file:
        status = subprocess.run(["bash", "qemu/build.sh", "modules"], cwd=TOP, stdin=subprocess.DEVNULL,
                                stdout=file, stderr=subprocess.STDOUT, check=False).returncode
    clear_status()
    if status:
        raise vm.Failure(f"the module does not build:\n{indent(log.read_text(), 40)}    the whole output: {log}")


def main() -> int:
    arguments = parse_arguments()
    crates, programs, cases = find_crates(), find_programs(), find_cases()
    names = [path.name for path in crates] + [path.parent.name for path in programs] + [case.name for case in cases]
    if arguments.list:
        print("\n".join(names))
        return 0
    if arguments.only:
        if arguments.only not in names:
            raise vm.Failure(f"no test is named {arguments.only!r}; there are: {' '.join(names)}")
        crates = [crate for crate in crates if crate.name == arguments.only]
        programs = [program for program in programs if program.parent.name == arguments.only]
        cases = [case for case in cases if case.name == arguments.only]
        for case in cases:
            if arguments.fs not in case.filesystems:
                raise vm.Failure(f"{case.name} means nothing for {arguments.fs}; it is for {', '.join(case.filesystems)}")
    else:
        cases = [case for case in cases
                 if arguments.fs in case.filesystems and (arguments.long or not case.long)]
    report = Report()
    for crate in crates:
        run_crate(crate, report)
    if arguments.fs == "ext4rs" and (programs or cases):
        build_module()
    for program in programs:
        run_program(program, arguments.fs, report, stream=bool(arguments.only))
    if cases:
        build_guest_tool()
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.boot, []).append(case)
    settings = dict(item.partition("=")[::2] for item in arguments.set)
    for group in groups.values():
        Boot(group, arguments.fs, bool(arguments.only), settings).run(report)
    return report.finish()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except vm.Failure as failure:
        clear_status()
        sys.exit(f"test: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
