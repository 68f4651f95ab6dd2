# SPDX-License-Identifier: GPL-2.0
"""A run's folder, build/xfstests/DATE-CONFIG: what is known of it, and going on with it.

  run.json       what the run is: filesystem, configuration, kernel, tests in order
  results.txt    a line for each test that is done: TEST VERDICT SECONDS REASON;
                 of two for one test the later holds
  generic/013.*  what a test that failed left: out.bad, full, dmesg, log (what
                 `check` printed), notrun
  summary.md, junit.xml
"""

import dataclasses
import json
import shutil
import threading
import time
from pathlib import Path

import vm

BUILD = vm.TOP / "build" / "xfstests"
PASS, FAIL, TIMEOUT, CRASH, NOTRUN = "pass", "fail", "timeout", "crash", "notrun"
# As they are called in tables.
NAMES = {PASS: "passed", FAIL: "failed", TIMEOUT: "timed out", CRASH: "crashed", NOTRUN: "not run"}
BAD = (FAIL, TIMEOUT, CRASH)


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of one test."""

    test: str
    verdict: str
    seconds: float = 0.0
    reason: str = ""

    def line(self) -> str:
        return f"{self.test} {self.verdict} {self.seconds:.1f} {self.reason}".rstrip() + "\n"

    @classmethod
    def parse(cls, line: str) -> "Result":
        test, verdict, seconds, *reason = line.rstrip("\n").split(" ", 3)
        return cls(test, verdict, float(seconds), *reason)


def read_results(path: Path) -> dict[str, Result]:
    """A results.txt; its last line may have been cut short."""
    found: dict[str, Result] = {}
    if path.exists():
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                result = Result.parse(line)
                found[result.test] = result
    return found


class Run:
    """One run and its folder. Several machines add to it at once."""

    def __init__(self, folder: Path, fs: str, config: str, kernel: str, tests: list[str]) -> None:
        self.folder, self.fs, self.config, self.kernel, self.tests = folder, fs, config, kernel, tests
        self.results: dict[str, Result] = {}
        self.voids: list[str] = []
        """Why the run says nothing about the filesystem under test, if it does not."""
        self.lock = threading.Lock()

    @classmethod
    def create(cls, fs: str, config: str, kernel: str, tests: list[str], folder: Path | None = None) -> "Run":
        name = config if fs == "ext4rs" else f"{config}-{fs}"
        folder = folder or BUILD / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{name}"
        folder.mkdir(parents=True)
        run = cls(folder, fs, config, kernel, tests)
        (folder / "run.json").write_text(json.dumps(
            {"fs": fs, "config": config, "kernel": kernel, "tests": tests}, indent=1) + "\n")
        return run

    @classmethod
    def open(cls, folder: Path) -> "Run":
        """A run that was begun before."""
        try:
            stored = json.loads((folder / "run.json").read_text())
        except (OSError, ValueError):
            raise vm.Failure(f"{folder} is not the folder of a run (no run.json)") from None
        run = cls(folder, stored["fs"], stored["config"], stored["kernel"], stored["tests"])
        run.results = read_results(folder / "results.txt")
        # A line that was cut short would swallow the next one.
        (folder / "results.txt").write_text("".join(result.line() for result in run.results.values()))
        return run

    @classmethod
    def newest(cls, fs: str, config: str) -> "Run":
        for folder in sorted(BUILD.glob("*/run.json"), reverse=True):
            run = json.loads(folder.read_text())
            if (run["fs"], run["config"]) == (fs, config):
                return cls.open(folder.parent)
        raise vm.Failure(f"there is no run of {fs} with CONFIG={config} to go on with")

    def left(self) -> list[str]:
        """The tests that have no result yet."""
        return [test for test in self.tests if test not in self.results]

    def add(self, result: Result) -> None:
        with self.lock:
            self.results[result.test] = result
            with open(self.folder / "results.txt", "a") as file:
                file.write(result.line())

    def keep(self, test: str, source: Path, log: str, dmesg: str) -> None:
        """Keeps what a failed test left in `source`, its folder of results."""
        group, _, number = test.partition("/")
        (self.folder / group).mkdir(exist_ok=True)
        for path in (source / group).glob(f"{number}.*"):
            if path.is_file():
                shutil.copyfile(path, self.folder / group / path.name)
        for name, text in (("log", log), ("dmesg", dmesg)):
            (self.folder / group / f"{number}.{name}").write_text(text)

    def files(self, test: str) -> list[Path]:
        group, _, number = test.partition("/")
        return sorted((self.folder / group).glob(f"{number}.*"))

    def count(self, verdict: str) -> int:
        return sum(result.verdict == verdict for result in self.results.values())


def earlier_passes(run: Run, test: str) -> int:
    """How many runs in a row, this one the last, passed a test in this configuration."""
    passes = 0
    for path in sorted(BUILD.glob("*/run.json"), reverse=True):
        stored = json.loads(path.read_text())
        if (stored["fs"], stored["config"]) != (run.fs, run.config):
            continue
        result = read_results(path.parent / "results.txt").get(test)
        if result and result.verdict != PASS:
            break
        passes += result is not None
    return passes
