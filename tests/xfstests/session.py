# SPDX-License-Identifier: GPL-2.0
"""One boot of a machine that runs xfstests' `check` on tests, a batch at a time.

The guest's script asks for work with a line `@@next N`; the tests to run, or
nothing, are written into the file next-N in the machine's folder. What `check`
prints about them then comes over the guest's output: a line begins with a
test's name when the test begins, and ends with its verdict. The kernel's log
has a line `run fstests TEST` at the same moment, so what the kernel says later
belongs to that test.
"""

import re
import shutil
import time
from pathlib import Path

import results
import vm
from results import Result, Run

# From the start to the first test: the boot, two mkfs, a check of the volume.
START_SECONDS = 120
# Of a test that ended well, on its first line: "12s ...  9s", or " 9s".
PASSED = re.compile(r"\s*(?:\d+s \.\.\.)?\s*\d+s")
NOT_RUN = re.compile(r"\[not run\] *(.*)")
BEGUN = re.compile(r"\brun fstests (\S+) at ")
# A disk of the tests, mounted by a filesystem that is not under test.
FOREIGN = re.compile(r"EXT4-fs \((?:vd[bcd]|dm-\d+|loop\d+)\): (?:re-)?mounted")
GUEST_SCRIPT = "tests/xfstests/guest.sh"


class Session:
    """One boot. After `run` every test that it took has a result or is in `left`."""

    def __init__(self, run: Run, machine: vm.Machine, take, limit, begun, ended) -> None:
        """`take()` gives a batch of tests, at last an empty one; `limit(test)` the seconds a test may take.

        `begun(test, text)` is told of a test that begins and of each line that it prints, `ended(result)`
        of one that is done.
        """
        self.results, self.machine = run, machine
        self.take, self.limit, self.begun, self.ended = take, limit, begun, ended
        self.output_folder = machine.folder / "results"
        self.left: list[str] = []
        self.current: str | None = None
        self.started = 0.0
        self.log: list[str] = []
        self.result: Result | None = None
        self.said: list[str] = []
        """What the guest said outside of any test."""
        self.refused: str | None = None
        """Why the configuration cannot be mounted."""
        self.tests_begun = 0
        self.tests_done: list[str] = []
        self.on_console: str | None = None
        """The test that the kernel's log is at."""
        self.blamed: str | None = None
        self.foreign: str | None = None
        self.rest = b""

    def run(self, environment: dict[str, str]) -> None:
        shutil.rmtree(self.output_folder, ignore_errors=True)
        for path in self.machine.folder.glob("next-*"):
            path.unlink()
        self.output_folder.mkdir()
        environment |= {"RUN": str(self.machine.folder), "RESULT_BASE": str(self.output_folder)}
        status = self.machine.run(["bash", GUEST_SCRIPT], environment, self._on_output, self._on_console)
        if self.machine.complaint or self.machine.timed_out or status == vm.DIED:
            self._lay_blame(status)
        elif self.current:
            self._end(self.result or Result(self.current, results.FAIL, 0, "check ended in the middle of it"))

    # --- what the guest says ----------------------------------------------

    def _on_output(self, data: bytes) -> None:
        # What comes once the machine is condemned is not the tests' doing.
        if self.machine.timed_out or self.machine.complaint:
            return
        *lines, self.rest = (self.rest + data).split(b"\n")
        for raw in lines:
            self._on_line(raw.decode(errors="replace").rstrip("\r"))
        # A test's name comes alone; its line is ended when the test is.
        name = self._begins(self.rest.decode(errors="replace"))
        if name and name != self.current:
            self._begin(name)

    def _begins(self, line: str) -> str | None:
        """The test that a line of `check` begins with, if it is one that is due."""
        name, blank, _ = line.partition(" ")
        return name if blank and (name in self.left or name == self.current) else None

    def _on_line(self, line: str) -> None:
        if line.startswith("@@"):
            self._on_message(*line[2:].split(" ", 1))
            return
        name = self._begins(line)
        if name and name != self.current:
            self._begin(name)
        if not self.current:
            self.said.append(line)
            return
        self.log.append(line)
        self.begun(self.current, line)
        if name and not self.result:
            self.result = self._judge(line[len(name):])

    def _on_message(self, word: str, text: str = "") -> None:
        if word == "refused":
            self.refused = text
        elif word == "next":
            self._settle()
            # A check that gave up before its tests were done: begin anew, on new disks.
            batch = [] if self.left else self.take()
            self.left = list(batch)
            self._set_limit(START_SECONDS)
            name = self.machine.folder / f"next-{text}"
            name.with_suffix(".new").write_text("".join(f"{test}\n" for test in batch))
            name.with_suffix(".new").rename(name)

    def _on_console(self, line: str) -> None:
        if found := BEGUN.search(line):
            self.on_console = found[1]
        if self.machine.complaint and not self.blamed:
            self.blamed = self.on_console
        if self.results.fs == "ext4rs" and FOREIGN.search(line) and not self.foreign:
            self.foreign = f"{self.on_console or 'before any test'}: the in-tree ext4 was there: {line.strip()}"

    # --- one test -----------------------------------------------------------

    def _set_limit(self, seconds: float) -> None:
        self.machine.deadline = time.monotonic() + seconds

    def _begin(self, test: str) -> None:
        self._settle()
        self.left.remove(test)
        self.current, self.started, self.log, self.result = test, time.monotonic(), [], None
        self.tests_begun += 1
        self._set_limit(self.limit(test))
        self.begun(test, None)

    def _judge(self, text: str) -> Result:
        """The verdict in what `check` printed behind a test's name."""
        seconds = time.monotonic() - self.started
        if not_run := NOT_RUN.search(text):
            return Result(self.current, results.NOTRUN, seconds, not_run[1].strip())
        if PASSED.fullmatch(text):
            return Result(self.current, results.PASS, seconds)
        return Result(self.current, results.FAIL, seconds, text.strip())

    def _settle(self) -> None:
        """Ends the test that was running, if there is one."""
        if self.current:
            self._end(self.result or Result(self.current, results.FAIL, 0, "it ended without a verdict"))

    def _end(self, result: Result) -> None:
        if self.foreign:
            result = Result(result.test, results.FAIL, result.seconds, f"void: {self.foreign}")
            self.results.voids.append(self.foreign)
            self.foreign = None
        if result.verdict == results.FAIL:
            result = Result(result.test, results.FAIL, result.seconds, why(result.reason, self.log))
        if result.verdict in results.BAD:
            log = "".join(f"{line}\n" for line in self.log)
            self.results.keep(result.test, self.output_folder, log, self._kernel_said(result.test))
        self.results.add(result)
        self.tests_done.append(result.test)
        self.current = None
        self.ended(result)

    # --- the machine's end ----------------------------------------------------

    def _lay_blame(self, status: int) -> None:
        """The machine came to a bad end: whose fault it is, and who has to run again."""
        if status == vm.TIMED_OUT:
            if self.current:
                self._end(Result(self.current, results.TIMEOUT, time.monotonic() - self.started,
                                 f"over {self.limit(self.current):.0f} s"))
            return
        test = self.blamed or self.current
        if self.current and self.current != test:
            self.left.insert(0, self.current)
        reason = re.sub(r"\[ *[\d.]+\] *", "", self.machine.reason.removeprefix("the kernel complained: "))
        if test:
            if test in self.left:
                self.left.remove(test)
            if test != self.current:
                self.log = []
            self._end(Result(test, results.CRASH, time.monotonic() - self.started, reason))
        else:
            self.said.append(self.machine.reason)
        self.current = None

    def _kernel_said(self, test: str) -> str:
        """The kernel's log from a test's beginning to the next one's."""
        lines: list[str] = []
        inside = False
        for line in self.machine.console_log.read_text(errors="replace").splitlines(keepends=True):
            if found := BEGUN.search(line):
                inside = found[1] == test
                if inside:
                    lines = []
            if inside:
                lines.append(line)
        return "".join(lines)


def why(text: str, log: list[str]) -> str:
    """A failed test's reason in a line: what `check` says, and the first line that differs."""
    text = re.sub(r"^(\d+s \.\.\. *)?(- )?", "", re.sub(r" *\(see \S+\)", "", text.strip()))
    differing = next((line.strip() for line in log
                      if re.match(r" {4}[+-][^+-]", line)), "")
    return " ".join(f"{text}: {differing}".strip(": ").split())[:200]
