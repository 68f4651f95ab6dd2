# SPDX-License-Identifier: GPL-2.0
"""report.md: a table for each workload."""

import records as rec


def number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) and abs(value) < 1000 else f"{value:.0f}"


def ratio(mine: list[dict], other: list[dict], figure: str) -> str:
    """The median of the ratios, bold where ext4rs is behind, with the spread where there are rounds."""
    found = sorted(rec.ratios(mine, other, figure))
    if not found:
        return ""
    middle = found[len(found) // 2]
    spread = f" ({found[0]:.2f}-{found[-1]:.2f})" if len(found) > 1 else ""
    text = f"{middle:.2f}{spread}"
    return f"**{text}**" if middle > 1 + rec.NOISE else text


def head(records: list[dict]) -> list[str]:
    first = records[0]
    lines = ["# ext4rs beside other filesystems", "",
             f"Kernel {first['kernel']}, accelerator {first['accel']}, begun {first['date']}.", ""]
    if "icount" in first["accel"]:
        lines += ["The guest's clock counts instructions: one second of system time is 1,000 million of them. Ratios of "
                  "system time carry over to other machines; wall times mean nothing here.", ""]
    elif first["accel"] == "tcg":
        lines += ["The machine was emulated: that makes the processor dear and disks cheap. Only ratios within one "
                  "table mean anything; counts of requests carry over.", ""]
    return lines + ["Ratios are to ext4 in the same round, with the same options where there is such a run; bold: more "
                    "than ext4. Medians of the rounds, the spread in brackets.", ""]


FIGURES = ("wall_s", "sys_s", "sync_sys_s", "write_ios", "write_bytes")


def table(variants: dict[str, list[dict]]) -> list[str]:
    lines = ["| filesystem | wall s | ratio | system s | ratio | of it in sync | writes | ratio | MiB written | mean KiB "
             "| extents |", "|---|---|---|---|---|---|---|---|---|---|---|"]
    for name, all_runs in variants.items():
        timed = [run for run in all_runs if run["round"]]
        bad = [run for run in all_runs if not rec.good(run)]
        if bad:
            word = "failed" if bad[0].get("failed") else "not built"
            why = (bad[0].get("failed") or bad[0].get("unbuilt")).replace("|", "/")
            lines.append(f"| {name} | {word}: {why} |" + " |" * 9)
            continue
        other = variants.get(rec.peer(variants, name) or "", [])
        wall, system, sync, ios, size = (rec.median(timed, figure) for figure in FIGURES)
        cells = [name, number(wall), ratio(timed, other, "wall_s"), number(system), ratio(timed, other, "sys_s"),
                 number(sync), number(ios), ratio(timed, other, "write_ios"),
                 number(size / (1 << 20) if size is not None else None),
                 number(rec.median(timed, "mean_write_kib")), number(rec.median(timed, "extents"))]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def traced(variants: dict[str, list[dict]]) -> list[str]:
    """What the trace's own round told."""
    runs = {name: run for name, all_runs in variants.items() for run in all_runs
            if run["round"] == 0 and rec.good(run) and "sync_ios" in run}
    if not runs:
        return []
    lines = ["", "| traced | seek MiB | SYNC writes | data requests | of them SYNC | by the journal | data in 512 KiB and more |",
             "|---|---|---|---|---|---|---|"]
    for name, run in runs.items():
        share = f"{run['data_large_bytes'] / run['data_bytes']:.1%}" if run.get("data_bytes") else ""
        lines.append(f"| {name} | {run['seek_bytes'] / (1 << 20):.0f} | {run['sync_ios']} | {run['data_ios']} | "
                     f"{run['data_sync_ios']} | {run['data_journal_ios']} | {share} |")
    return lines


def markdown(records: list[dict]) -> str:
    lines = head(records)
    for (workload, disk, memory), variants in rec.groups(records).items():
        lines += [f"## {workload}, {disk} disk, {memory}", "", *table(variants), *traced(variants), ""]
    return "\n".join(lines)


def compare(old: list[dict], new: list[dict], noise: float = rec.NOISE) -> list[str]:
    """What changed by more than the noise: the share given, or the spread of the rounds where that is more."""
    lines = []
    before, after = rec.groups(old), rec.groups(new)
    for key, variants in after.items():
        for name, runs in variants.items():
            past = before.get(key, {}).get(name)
            if past is None:
                continue
            for figure, words in rec.FIGURES.items():
                a, b = rec.values(past, figure), rec.values(runs, figure)
                if a and b and changed(a, b, noise):
                    lines.append(f"{key[0]} {key[1]} {name}: {words} {number(sorted(a)[len(a) // 2])} -> "
                                 f"{number(sorted(b)[len(b) // 2])}")
            if all(map(rec.good, past)) != all(map(rec.good, runs)):
                lines.append(f"{key[0]} {key[1]} {name}: {'works' if all(map(rec.good, runs)) else 'fails'} now")
    return lines


def changed(a: list[float], b: list[float], noise: float) -> bool:
    """Two sets of values are apart: all of one above all of the other, by more than the noise."""
    low, high = (a, b) if min(b) >= max(a) else (b, a)
    return min(high) > max(low) * (1 + noise)
