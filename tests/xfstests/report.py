# SPDX-License-Identifier: GPL-2.0
"""What a run came to: summary.md, junit.xml, and whether it is as expected."""

import xml.etree.ElementTree as xml
from pathlib import Path

import lists
import results
from results import BAD, CRASH, FAIL, NAMES, NOTRUN, PASS, TIMEOUT, Result, Run

# So many runs in a row that pass a test of known-failures.txt, and its line leaves.
PASSES_TO_LEAVE = 3
ORDER = (PASS, FAIL, CRASH, TIMEOUT, NOTRUN)


class Report:
    """Compares a run with the in-tree ext4's stored result and the known failures."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.baseline = lists.Baseline(run.kernel)
        self.known = lists.known_failures(run.config) if run.fs == "ext4rs" else {}

    def as_ext4(self, result: Result) -> bool:
        """Whether the stored result fails this test too. Nothing excuses a crash."""
        expected = self.baseline.tests.get(result.test)
        return result.verdict != CRASH and expected is not None and expected.verdict in BAD

    def is_known(self, result: Result) -> bool:
        return result.verdict != CRASH and result.test in self.known

    def unexpected(self) -> list[Result]:
        """Failures that nothing explains: the run has failed."""
        return [result for result in self.in_order()
                if result.verdict in BAD and not self.is_known(result) and not self.as_ext4(result)]

    def in_order(self) -> list[Result]:
        return [self.run.results[test] for test in self.run.tests if test in self.run.results]

    def counts(self) -> str:
        """`3 passed, 1 failed` and so on; what there is none of is left out, but for the first two."""
        numbers = {verdict: self.run.count(verdict) for verdict in ORDER}
        words = [f"{number} {NAMES[verdict]}" for verdict, number in numbers.items()
                 if number or verdict in (PASS, FAIL)]
        return ", ".join(words)

    # --- files -----------------------------------------------------------------

    def write(self) -> None:
        (self.run.folder / "summary.md").write_text("\n".join(self._summary()) + "\n")
        self._write_junit(self.run.folder / "junit.xml")

    def _summary(self) -> list[str]:
        run = self.run
        lines = [f"# xfstests: {run.fs}, {run.config}, Linux {run.kernel}", ""]
        for void in run.voids:
            lines += [f"**This run is void**: it was not {run.fs} alone that was tested. {void}", ""]
        if left := run.left():
            lines += [f"{len(left)} of {len(run.tests)} tests have not been run yet; RESUME={run.folder} goes on.", ""]
        lines += self._counts_table()
        unexpected = self.unexpected()
        bad = [result for result in self.in_order() if result.verdict in BAD]
        lines += self._results("Failures that are not expected", unexpected)
        lines += self._results("Known failures", [result for result in bad if self.is_known(result)],
                               lambda result: self.known[result.test].reason)
        lines += self._results("Failures that the stored ext4 result has too",
                               [result for result in bad if self.as_ext4(result) and not self.is_known(result)])
        lines += self._leaving()
        lines += self._difference()
        lines += self._not_run()
        return lines

    def _counts_table(self) -> list[str]:
        """Ours beside ext4's on those of the tests that the stored result knows."""
        tests = [result.test for result in self.in_order()]
        known = [self.baseline.tests[test].verdict for test in tests if test in self.baseline.tests]
        lines = [f"| | {self.run.fs} | of them known of ext4 | stored ext4 |", "|---|---|---|---|"]
        for verdict in ORDER:
            ours = sum(self.run.results[test].verdict == verdict for test in tests if test in self.baseline.tests)
            lines.append(f"| {NAMES[verdict]} | {self.run.count(verdict)} | {ours} | {known.count(verdict)} |")
        lines.append(f"| together | {len(tests)} | {len(known)} | {len(known)} |")
        return lines

    def _results(self, title: str, found: list[Result], note=None) -> list[str]:
        if not found:
            return []
        lines = ["", f"## {title} ({len(found)})", "", "| test | verdict | why | stored ext4 |", "|---|---|---|---|"]
        for result in found:
            expected = self.baseline.tests.get(result.test)
            reason = note(result) if note else result.reason
            lines.append(f"| {result.test} | {NAMES[result.verdict]} | {cell(reason)} | "
                         f"{cell(expected.text) if expected else 'not known'} |")
        return lines

    def leaving(self) -> dict[str, int]:
        """Known failures that pass: how many runs in a row."""
        return {test: results.earlier_passes(self.run, test) for test in self.known
                if test in self.run.results and self.run.results[test].verdict == PASS}

    def _leaving(self) -> list[str]:
        leaving = self.leaving()
        if not leaving:
            return []
        lines = ["", f"## Known failures that pass now ({len(leaving)})", ""]
        for test, passes in leaving.items():
            rest = PASSES_TO_LEAVE - passes
            lines.append(f"- {test}: passed {passes} runs in a row; " + (
                "remove it from known-failures.txt" if rest <= 0 else f"{rest} more, and it leaves known-failures.txt"))
        return lines

    def _difference(self) -> list[str]:
        """Tests with another verdict than the stored one."""
        if not self.baseline.tests:
            return ["", f"There is no stored ext4 result for this kernel ({self.baseline.path.name})."]
        lines = []
        for result in self.in_order():
            expected = self.baseline.tests.get(result.test)
            if expected and expected.verdict != result.verdict:
                reason = cell(result.reason)
                lines.append(f"| {result.test} | {cell(expected.text)} | {NAMES[result.verdict]} | {reason} |")
        head = [f"## Difference from the stored ext4 result ({len(lines)})", "",
                f"| test | ext4 | {self.run.fs} | why |", "|---|---|---|---|"]
        return ["", *head, *lines] if lines else []

    def _not_run(self) -> list[str]:
        reasons: dict[str, list[str]] = {}
        for result in self.in_order():
            if result.verdict == NOTRUN:
                reasons.setdefault(result.reason, []).append(result.test)
        lines = ["", f"## Not run ({self.run.count(NOTRUN)})", ""] if reasons else []
        for reason, tests in sorted(reasons.items(), key=lambda item: -len(item[1])):
            lines.append(f"- {len(tests)}: {reason}: {' '.join(tests)}")
        return lines

    def _write_junit(self, path: Path) -> None:
        done = self.in_order()
        suite = xml.Element("testsuite", name=f"xfstests {self.run.fs} {self.run.config}", tests=str(len(done)),
                            failures=str(sum(result.verdict in BAD for result in done)), errors="0",
                            skipped=str(self.run.count(NOTRUN)),
                            time=f"{sum(result.seconds for result in done):.1f}")
        for result in done:
            group, _, number = result.test.partition("/")
            case = xml.SubElement(suite, "testcase", classname=group, name=number, time=f"{result.seconds:.1f}")
            if result.verdict in BAD:
                failure = xml.SubElement(case, "failure", type=NAMES[result.verdict], message=printable(result.reason))
                failure.text = "\n".join(str(file) for file in self.run.files(result.test))
            elif result.verdict == NOTRUN:
                xml.SubElement(case, "skipped", message=printable(result.reason))
        xml.indent(suite)
        xml.ElementTree(suite).write(path, encoding="unicode", xml_declaration=True)


def cell(text: str) -> str:
    """Text that does not break a table."""
    return text.replace("|", "\\|")


def printable(text: str) -> str:
    """Without what XML has no way to say."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
