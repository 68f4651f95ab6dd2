# SPDX-License-Identifier: GPL-2.0
"""Tests the runner: on the tree in fixture/, whose tests pass, fail, hang and bring the kernel down.

Prints `ok CHECK` or `not ok CHECK: why` for each check; tests/run.py counts them.
"""

import argparse
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path.insert(0, str(TOP / "qemu"))
import vm  # noqa: E402  (the path above is what finds it)

import results  # noqa: E402
from session import PASSED, why  # noqa: E402
from tree import Tree  # noqa: E402

FIXTURE = HERE / "fixture"
EXPECTED = {"generic/001": "pass", "generic/002": "fail", "generic/003": "timeout", "generic/004": "crash"}
# What hangs costs this much; a boot and the start of the others have to fit.
SECONDS = 30


def check(name: str, good: bool, reason: object = "") -> None:
    print(f"ok {name}" if good else f"not ok {name}: {reason}", flush=True)


def same(name: str, got: object, wanted: object) -> None:
    check(name, got == wanted, f"{got!r}, not {wanted!r}")


def select_tests() -> None:
    tree = Tree(FIXTURE, ("generic", "ext4"))
    same("select-group", tree.select("-g quick"), ["generic/001", "generic/002"])
    same("select-less", tree.select("-g auto -x quick -e generic/004"), ["generic/003"])
    same("select-order", tree.select("generic/004 generic/00[12]"), ["generic/004", "generic/001", "generic/002"])
    for text in ("-g nothing", "generic/999", "-z", "generic/001 -e generic/001"):
        try:
            same(f"select-refuses {text}", tree.select(text), "a failure")
        except vm.Failure:
            check(f"select-refuses {text}", True)


def read_lines_of_check() -> None:
    for text, passed in (("        5s", True), (" 7s ...  12s", True), (" 7s ... [failed, exit status 1]", False),
                         ("       _check_dmesg: something found in dmesg", False), ("       ", False)):
        same(f"line-passed {text.strip()!r}", bool(PASSED.fullmatch(text)), passed)
    log = ["--- a.out", "    @@ -1 +1 @@", "    -one", "    +two"]
    same("line-why", why(" 7s ... - output mismatch (see /a/b.out.bad)", log), "output mismatch: -one")


def refuse_trees(folder: Path) -> None:
    """A tree that is not there or not built is said in one line."""
    unbuilt = folder / "unbuilt"
    (unbuilt / "tests" / "generic").mkdir(parents=True)
    (unbuilt / "check").touch()
    for path, words in ((folder / "nowhere", "there is no folder"), (folder, "not an xfstests tree"),
                        (unbuilt, "not built")):
        done = subprocess.run(["bash", HERE / "run", path], capture_output=True, text=True, check=False)
        check(f"refused {words}", done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1,
              f"status {done.returncode}: {done.stderr}")


def run(fs: str, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, HERE / "run.py", "--tree", FIXTURE, "--fs", fs, "--name", f"xfstests-fixture-{fs}",
         "--timeout", str(SECONDS), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print("".join(f"# {line}\n" for line in done.stdout.splitlines()), end="", flush=True)
    return done.returncode, done.stdout


def run_fixture(fs: str, folder: Path) -> None:
    """The worst first: each costs a machine, and the next test runs on another."""
    status, output = run(fs, "--tests", "generic/004 generic/003 generic/002 generic/001",
                         "--jobs", "2", "--folder", str(folder))
    same("fixture-status", status, 1)
    verdicts = {test: result.verdict for test, result in results.read_results(folder / "results.txt").items()}
    for test, verdict in EXPECTED.items():
        same(f"fixture-{verdict}", verdicts.get(test), verdict)
    check("fixture-counts", "1 passed, 1 failed, 1 crashed, 1 timed out; 3 not expected" in output, output[-300:])
    check_files(folder)


def check_files(folder: Path) -> None:
    if not (folder / "summary.md").exists():
        check("fixture-summary", False, "there is none")
        return
    summary = (folder / "summary.md").read_text()
    for verdict in ("passed", "failed", "crashed", "timed out"):
        check(f"fixture-summary-{verdict}", f"| {verdict} | 1 |" in summary, summary[:400])
    suite = xml.parse(folder / "junit.xml").getroot()
    same("fixture-junit", [suite.get("tests"), suite.get("failures")], ["4", "3"])
    for name, pattern in (("002.out.bad", "two and two are five"), ("002.full", "what else it did"),
                          ("003.dmesg", "run fstests generic/003"), ("004.dmesg", "Kernel panic")):
        path = folder / "generic" / name
        found = path.exists() and re.search(pattern, path.read_text())
        check(f"fixture-kept-{name}", bool(found), f"no {pattern!r} in it")
    check("fixture-not-kept-001", not list((folder / "generic").glob("001.*")), "it passed")


def resume(fs: str, folder: Path) -> None:
    """A run that was cut short in the middle of a line goes on with what is left."""
    lines = [line for line in (folder / "results.txt").read_text().splitlines(keepends=True) if "/001" not in line]
    (folder / "results.txt").write_text("".join(lines) + "generic/001 pa")
    status, output = run(fs, "--resume", str(folder))
    check("resume-left", "1 of 4 tests are left" in output, output[:200])
    same("resume-status", status, 1)
    same("resume-all", len(results.read_results(folder / "results.txt")), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fs", default="ext4rs", choices=("ext4rs", "ext4"))
    fs = parser.parse_args().fs
    # Not build/xfstests: these are not runs that anybody wants to go on with.
    folder = TOP / "build" / "test" / "xfstests" / f"{fs}-{int(time.time())}"
    folder.mkdir(parents=True)
    select_tests()
    read_lines_of_check()
    refuse_trees(folder)
    run_fixture(fs, folder / "run")
    resume(fs, folder / "run")


if __name__ == "__main__":
    main()
