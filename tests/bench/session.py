# SPDX-License-Identifier: GPL-2.0
"""Boots that carry out a plan: what the guest says becomes records."""

import datetime
import time

import run as tests
import vm

# A run that takes longer hangs.
RUN_SECONDS = 900
BOOT_SECONDS = 120
# In the guest: what W5 unpacks, then the runs.
SCRIPT = 'tar -cf /tmp/tree.tar -C /usr include 2>/dev/null; exec "$GUEST_TOOL" bench "$PLAN" "$MODULE" $TOUCH'


class Session:
    """Carries out runs, in as many boots as it takes: a run that ends the machine costs one."""

    def __init__(self, runs: list[dict[str, str]], name: str, memory: str, size: str, count: bool, touch: bool) -> None:
        self.left, self.total = list(runs), len(runs)
        self.name, self.memory, self.size, self.count, self.touch = name, memory, size, count, touch
        self.kvm = not count and vm.kvm_works()
        self.records: list[dict] = []
        self.current: dict | None = None
        self.rest = b""
        self.started = self.begun = time.monotonic()
        self.said: list[str] = []

    def run(self) -> list[dict]:
        while self.left:
            before = len(self.records)
            self._boot()
            if len(self.records) == before:
                raise vm.Failure("no run begins; the guest said last:\n    " + "\n    ".join(self.said[-8:]))
        return self.records

    def _boot(self) -> None:
        machine = self.machine = vm.Machine(self.name, self.memory, timeout=BOOT_SECONDS * (3 if self.count else 1), kvm=self.kvm, hasty=True,
                                            count=self.count)
        machine.add_disk(self.size)
        machine.add_disk(f"{self.size},bps=100M,iops=200")
        plan = machine.folder / "plan"
        plan.write_text("".join("\t".join(f"{name}={value}" for name, value in run.items()) + "\n"
                                for run in self.left))
        machine.run(["sh", "-c", SCRIPT], {
            "GUEST_TOOL": str(tests.GUEST_TOOL), "PLAN": str(plan), "TOUCH": "--touch" if self.touch else "",
            "MODULE": str(tests.BUILD / "stock" / "ext4rs.ko")}, self._on_output)
        for disk in machine.disks:
            if disk.ours:
                disk.path.unlink(missing_ok=True)
        if self.current:
            self._end("failed", machine.reason)

    def _on_output(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self._on_line(line.decode(errors="replace").rstrip("\r"))

    def _on_line(self, line: str) -> None:
        words = line.split(" ", 3)
        if line.startswith("@@begin ") and self.left and self.left[0]["id"] == words[1]:
            self._begin(self.left.pop(0))
        elif line.startswith("@@set ") and self.current:
            self._set(words[2], float(words[3]))
        elif line.startswith("@@end ") and self.current:
            self._end(words[2], words[3] if len(words) > 3 else "")
        else:
            self.said.append(line)

    def _begin(self, run: dict[str, str]) -> None:
        self.begun = time.monotonic()
        self.machine.deadline = self.begun + RUN_SECONDS
        accel = "tcg icount" if self.count else "kvm" if self.kvm else "tcg"
        self.current = {
            "workload": run["workload"], "disk": run["disk"], "fs": run["fs"], "options": run["shown"],
            "round": int(run["round"]), "counters": {}, "kernel": vm.kernel_release(), "accel": accel,
            "mem": self.memory, "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "failed": None}
        done = len(self.records)
        left = (self.begun - self.started) / done * (self.total - done) if done else 0
        tests.show_status(f"[{done + 1}/{self.total}] {run['workload']} {run['fs']} {run['shown']} on {run['disk']}"
                          + (f", {left / 60:.0f} min left" if done else ""))

    def _set(self, name: str, value: float) -> None:
        number = int(value) if value.is_integer() and not name.endswith("_s") else round(value, 6)
        if name.startswith("counters."):
            self.current["counters"][name.removeprefix("counters.")] = number
        else:
            self.current[name] = number

    def _end(self, word: str, why: str) -> None:
        record = self.current
        if word != "ok":
            record[word] = why or "no reason given"
        if record.get("write_ios"):
            record["mean_write_kib"] = round(record["write_bytes"] / record["write_ios"] / 1024, 1)
        self.records.append(record)
        self.current = None
        self.machine.deadline = time.monotonic() + BOOT_SECONDS
        tests.clear_status()
        what = f"{record['workload']:16} {record['fs']:6} {record['options']:26} {record['disk']:7}"
        told = (f"{word}: {why}" if word != "ok" else f"wall {record['wall_s']:7.2f} s  system {record['sys_s']:7.2f} s"
                f"  writes {record['write_ios']:6}")
        print(f"[{len(self.records):3}/{self.total}] {what} {told}"[:200], flush=True)
