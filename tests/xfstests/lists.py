# SPDX-License-Identifier: GPL-2.0
"""What is known about tests beforehand: the files beside this one.

  baseline-ext4.KERNEL.txt   what the in-tree ext4 makes of each test on that kernel
  known-failures.txt         what ext4rs fails beyond that, and why
  long-tests.txt             tests that may take longer
"""

import dataclasses
import re
from pathlib import Path

import vm

HERE = Path(__file__).resolve().parent
# How the stored result names its verdicts, in this program's words.
BASELINE_WORDS = {"pass": "pass", "notrun": "notrun", "timeout": "timeout", "env": "fail"}
# A test of which nothing is known, on an idle machine.
USUAL_SECONDS = 12.0


def read_lines(path: Path) -> list[str]:
    """Lines that say something; `#` begins a comment line."""
    return [line.strip() for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]


@dataclasses.dataclass(frozen=True)
class Expected:
    """What the in-tree ext4 makes of a test."""

    verdict: str
    text: str
    """The stored line without the test's name."""
    seconds: float


class Baseline:
    """The in-tree ext4's result. Empty for a kernel that has none."""

    def __init__(self, kernel: str) -> None:
        self.path = HERE / f"baseline-ext4.{kernel}.txt"
        self.tests: dict[str, Expected] = {}
        for line in read_lines(self.path) if self.path.exists() else []:
            test, verdict, *rest = line.split(" ", 2)
            if verdict not in BASELINE_WORDS:
                raise vm.Failure(f"{self.path}: no verdict {verdict!r}; there are {', '.join(BASELINE_WORDS)}")
            seconds = re.match(r"(\d+)s$", rest[0]) if rest else None
            self.tests[test] = Expected(BASELINE_WORDS[verdict], " ".join([verdict, *rest]),
                                        float(seconds[1]) if seconds else USUAL_SECONDS)

    def seconds(self, test: str) -> float:
        return self.tests[test].seconds if test in self.tests else USUAL_SECONDS


@dataclasses.dataclass(frozen=True)
class Known:
    """A failure that is known, with its reason."""

    configs: tuple[str, ...]
    reason: str


def known_failures(config: str) -> dict[str, Known]:
    """Those of a configuration: lines `TEST CONFIG[,CONFIG] REASON`."""
    found = {}
    path = HERE / "known-failures.txt"
    for line in read_lines(path):
        test, configs, *reason = line.split(None, 2)
        if not reason:
            raise vm.Failure(f"{path}: {test} has no reason")
        known = Known(tuple(configs.split(",")), reason[0])
        if config in known.configs:
            found[test] = known
    return found


def long_tests() -> frozenset[str]:
    return frozenset(line.split()[0] for line in read_lines(HERE / "long-tests.txt"))
