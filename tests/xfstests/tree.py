# SPDX-License-Identifier: GPL-2.0
"""The user's xfstests tree: which tests it has, and which of them are meant.

TESTS is written as for xfstests' own `check`, and means the same:

  -g GROUP[,GROUP]   all tests of a group, or of one folder's group (ext4/quick)
  -x GROUP[,GROUP]   but none of this group
  -e TEST[,TEST]     but not these
  -E FILE            but none of those in a file (one a line, # begins a comment)
  generic/013        a test; generic/01? a pattern. They run in the order given.
"""

import fnmatch
import re
import shlex
from pathlib import Path

import vm

TEST = re.compile(r"\d{3}-?[\w-]*")


class Tree:
    """A built tree; `folders` are those of its tests that mean something here."""

    def __init__(self, path: Path, folders: tuple[str, ...]) -> None:
        self.path = path
        self.folders = folders
        self.groups: dict[str, frozenset[str]] = {}
        for folder in folders:
            self._read_groups(path / "tests" / folder / "group.list")
        if not self.groups:
            raise vm.Failure(f"{path} has no tests for this (looked in {', '.join(folders)})")

    def _read_groups(self, path: Path) -> None:
        """Lines `013 auto quick rw`: a test, and its groups."""
        if not path.exists():
            return
        for line in path.read_text().splitlines():
            words = line.partition("#")[0].split()
            if words and TEST.fullmatch(words[0]):
                self.groups[f"{path.parent.name}/{words[0]}"] = frozenset(words[1:])

    def group(self, name: str) -> list[str]:
        folder, _, group = name.rpartition("/")
        found = [test for test, groups in self.groups.items()
                 if (group == "all" or group in groups) and folder in ("", test.partition("/")[0])]
        if not found:
            raise vm.Failure(f"no test of {', '.join(self.folders)} is in a group {name!r}")
        return found

    def named(self, pattern: str) -> list[str]:
        found = fnmatch.filter(self.groups, pattern.removeprefix("tests/"))
        if not found:
            raise vm.Failure(f"no test {pattern!r} in {self.path} (looked in {', '.join(self.folders)})")
        return found

    def select(self, text: str) -> list[str]:
        """The tests that TESTS names, each once."""
        wanted: list[str] = []
        unwanted: set[str] = set()
        words = iter(shlex.split(text))
        for word in words:
            if word not in ("-g", "-x", "-e", "-E"):
                if word.startswith("-"):
                    raise vm.Failure(f"TESTS: no option {word!r}; there are -g, -x, -e and -E")
                wanted += self.named(word)
                continue
            value = next(words, None)
            if value is None:
                raise vm.Failure(f"TESTS: {word} wants a value")
            if word == "-g":
                wanted += [test for name in value.split(",") for test in self.group(name)]
            elif word == "-x":
                unwanted |= {test for name in value.split(",") for test in self.group(name)}
            elif word == "-e":
                unwanted |= set(value.replace(",", " ").split())
            else:
                unwanted |= {line.split()[0] for line in Path(value).read_text().splitlines()
                             if line.partition("#")[0].strip()}
        tests = [test for test in dict.fromkeys(wanted) if test not in unwanted]
        if not tests:
            raise vm.Failure(f"TESTS={text!r} leaves no test to run")
        return tests
