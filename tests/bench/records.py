# SPDX-License-Identifier: GPL-2.0
"""The records of runs: results.json is a list of them, and everything else is made from it.

A record is a dict with the names of what was run (`workload`, `disk`, `fs`, `options`, `round`), of the machine
(`kernel`, `accel`, `mem`, `date`), and what was measured. `failed` says why there is no result; `unbuilt` says
that the filesystem refuses this.
"""

import json
import statistics
from pathlib import Path

# What a ratio may be asked of, and its name in a table.
FIGURES = {
    "wall_s": "wall", "sys_s": "system", "user_s": "user", "sync_sys_s": "system in sync",
    "write_ios": "write requests", "write_bytes": "bytes written", "read_ios": "read requests",
    "seek_bytes": "seek", "sync_ios": "SYNC requests", "extents": "extents",
}
NOISE = 0.03


def load(path: Path) -> list[dict]:
    return json.loads(path.read_text())


def save(records: list[dict], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[\n" + ",\n".join(json.dumps(record) for record in records) + "\n]\n")


def good(record: dict) -> bool:
    return not record.get("failed") and not record.get("unbuilt")


def who(record: dict) -> str:
    return f"{record['fs']} {record['options']}".strip()


def groups(records: list[dict]) -> dict[tuple, dict[str, list[dict]]]:
    """By workload, disk and memory; in there by filesystem and options."""
    out: dict[tuple, dict[str, list[dict]]] = {}
    for record in records:
        key = (record["workload"], record["disk"], record["mem"])
        out.setdefault(key, {}).setdefault(who(record), []).append(record)
    return out


def values(records: list[dict], figure: str) -> list[float]:
    """Of the rounds; of the trace's own round (0) only what no other has."""
    found = [record for record in records if good(record) and record.get(figure) is not None]
    timed = [record for record in found if record["round"]]
    return [record[figure] for record in timed or found if timed or figure in ("seek_bytes", "sync_ios")]


def median(records: list[dict], figure: str) -> float | None:
    found = values(records, figure)
    return statistics.median(found) if found else None


def peer(variants: dict[str, list[dict]], name: str) -> str | None:
    """The run of ext4 that a variant is held against: the one with the same options, else the first."""
    same = "ext4 " + name.partition(" ")[2]
    candidates = [other for other in variants if other.split()[0] == "ext4"]
    return same.strip() if same.strip() in candidates else next(iter(candidates), None)


def ratios(mine: list[dict], other: list[dict], figure: str) -> list[float]:
    """A ratio for each round that both have."""
    theirs = {record["round"]: record[figure] for record in other if good(record) and record.get(figure)}
    return [record[figure] / theirs[record["round"]] for record in mine
            if good(record) and record.get(figure) is not None and record["round"] in theirs]
