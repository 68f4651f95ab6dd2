# SPDX-License-Identifier: GPL-2.0
"""Tests the bench: the plan, the report and the comparison, on records that are known.

Prints `ok CHECK` or `not ok CHECK: why` for each check; tests/run.py counts them.
"""

import copy
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path[1:1] = [str(TOP / "qemu"), str(TOP / "tests")]

import records as rec  # noqa: E402  (the path above is what finds them)
import report  # noqa: E402
import workloads  # noqa: E402

STORED = Path(__file__).resolve().parent / "fixture.json"


def check(name: str, good: bool, reason: object = "") -> None:
    print(f"ok {name}" if good else f"not ok {name}: {reason}", flush=True)


def same(name: str, got: object, wanted: object) -> None:
    check(name, got == wanted, f"{got!r}, not {wanted!r}")


def plans() -> None:
    chosen = workloads.narrow(workloads.standard("64M"), ["W1"], ["ext4rs", "ext4"])
    runs = workloads.runs(chosen, ["fast"], 2, trace=True)
    same("plan-in-turn", [(run["workload"], run["fs"], run["round"]) for run in runs[:6]],
         [("W1-16M", fs, number) for number in "120" for fs in ("ext4rs", "ext4")])
    same("plan-traces-alone", [run["round"] for run in runs if run["trace"]], ["0"] * 4)
    same("plan-nothing", workloads.narrow(workloads.standard("64M"), ["W9"], []), [])
    odd = [run for run in workloads.runs(workloads.standard("64M"), ["fast"], 1, False) if "^extent" in run["shown"]]
    check("plan-features", len(odd) == 2 and all("-O ^extent" in run["mkfs"] and not run["options"] for run in odd), odd)


def reports(records: list[dict]) -> None:
    text = report.markdown(records)
    check("report-says-emulated", "was emulated" in text, text[:400])
    check("report-ratio", "| ext4rs | 2.00 | **2.00 (2.00-2.00)** |" in text, text)
    check("report-faster-is-plain", "| 0.50 (0.50-0.50) |" in text, text)
    check("report-not-built", "not built: no such option" in text, text)
    check("report-failed", "failed: it broke" in text, text)
    check("report-trace", "| 100.0% |" in text, text)


def comparisons(records: list[dict]) -> None:
    same("compare-equal", report.compare(records, records), [])
    near, far, broken = (copy.deepcopy(records) for _ in range(3))
    for record in near:
        record["wall_s"] = record.get("wall_s", 0) * 1.02
    same("compare-noise", report.compare(records, near), [])
    for record in far:
        if record["fs"] == "ext4rs" and record["round"] and "wall_s" in record:
            record["wall_s"] *= 1.5
    same("compare-slower", report.compare(records, far), ["W1-64M fast ext4rs: wall 2.00 -> 3.00"])
    broken[0]["failed"] = "gone"
    check("compare-broken", "W1-64M fast ext4rs: fails now" in report.compare(records, broken))


def main() -> None:
    records = rec.load(STORED)
    plans()
    reports(records)
    comparisons(records)


if __name__ == "__main__":
    main()
