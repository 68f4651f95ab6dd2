# SPDX-License-Identifier: GPL-2.0
"""Runs a command in a virtual machine with the stock kernel.

This program runs inside the sysroot (qemu/vm brings it there). The guest's
root is the sysroot itself, shared by virtiofs, read-only with a tmpfs over it;
the checkout is shared read-write at its own path. The guest's kernel talks on
a serial console that is watched and kept in a log; the command's own input and
output use a second, virtio, console, so that the two never mix.

An exit status of the command's own is passed on. Besides that:
  124  the time was up (blocked tasks are shown on the console first)
  125  the kernel complained: oops, BUG, WARNING, hung task and the like
  126  the guest ended without a status: it died or could not boot
"""

import argparse
import dataclasses
import fcntl
import json
import os
import re
import selectors
import shlex
import shutil
import socket
import subprocess
import sys
import termios
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
TIMED_OUT, COMPLAINED, DIED = 124, 125, 126

# What a healthy kernel never says.
COMPLAINT = re.compile(
    r"\bBUG\b[: ]|\bWARNING: |\bOops\b|Kernel panic|general protection fault"
    r"|unable to handle|Call Trace:|rust_kernel: panicked|UBSAN:|KASAN:|refcount_t:"
    r"|blocked for more than \d+ seconds|soft lockup|hard LOCKUP|detected stalls"
    r"|self-detected stall|possible (circular|recursive) locking|inconsistent lock state"
    r"|suspicious RCU usage|bad unlock balance|still has objects|Objects remaining"
)
# What it says when a test crashes it on purpose, and when a test asks it to.
CRASH = re.compile(r"Kernel panic|Call Trace:")
# After one of these nothing more comes from the job: do not wait for the time-out.
HOPELESS = re.compile(r"blocked for more than \d+ seconds|soft lockup|hard LOCKUP")

COMMAND_LINE = [
    "console=ttyS0,115200",
    "root=sysroot",
    "rootfstype=virtiofs",
    "ro",
    f"init={TOP}/qemu/guest-init",
    f"ext4rs.top={TOP}",
    # A boot says little; guest-init raises the level for all that follows.
    "loglevel=4",
    # An emulated timer may fail the kernel's check of it.
    "no_timer_check",
    "tsc=reliable",
    # An oops ends the machine at once.
    "oops=panic",
    "panic=-1",
    "sysrq_always_enabled",
    # Emulation on a busy host is slow, and slow is not stuck.
    "rcupdate.rcu_cpu_stall_timeout=120",
    "watchdog_thresh=60",
    # Of no use in this guest, and each costs boot time.
    "mitigations=off",
    "apparmor=0",
    "audit=0",
    "ima_appraise=off",
]


class Failure(Exception):
    """Something that the user can put right; shown without a traceback."""


@dataclasses.dataclass
class Disk:
    """A raw disk: `size` bytes at least (None: as the file is)."""

    path: Path
    size: int | None
    options: dict[str, str]
    ours: bool
    """Made for one run, in the run's folder; removed after it, unless it failed."""

    OPTIONS = ("serial", "bps", "iops", "block")

    @classmethod
    def parse(cls, text: str, default: Path) -> "Disk":
        """From `[FILE:]SIZE[,OPTION=VALUE...]` or `FILE[,OPTION=VALUE...]`."""
        head, *rest = text.split(",")
        options = dict(item.partition("=")[::2] for item in rest)
        for name in options:
            if name not in cls.OPTIONS:
                raise Failure(f"disk {text!r}: no option {name!r}; there are {', '.join(cls.OPTIONS)}")
        name, _, size = head.rpartition(":")
        if parse_size(size) is None:
            name, size = head, ""
        if name:
            path = Path(name).absolute()
            if not size and not path.exists():
                raise Failure(f"disk {text!r}: no such file, and no size to make it with")
        else:
            path = default
            path.unlink(missing_ok=True)
        return cls(path, parse_size(size), options, ours=not name)

    def prepare(self) -> None:
        """Makes the file, sparse, or lengthens it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab") as file:
            if self.size is not None and file.tell() < self.size:
                file.truncate(self.size)

    def arguments(self, letter: str) -> list[str]:
        # The guest's flushes need not reach the host's disk: what a test may
        # lose is the guest, never the host.
        drive = f"file={self.path},format=raw,if=none,id=vd{letter},cache=unsafe,discard=unmap"
        for option, name in (("bps", "throttling.bps-total"), ("iops", "throttling.iops-total")):
            if option in self.options:
                value = parse_size(self.options[option])
                if value is None:
                    raise Failure(f"disk option {option}={self.options[option]}: not a number")
                drive += f",{name}={value}"
        device = f"virtio-blk-pci,drive=vd{letter},serial={self.options.get('serial', f'vd{letter}')}"
        if "block" in self.options:
            size = self.options["block"]
            device += f",logical_block_size={size},physical_block_size={size}"
        return ["-drive", drive, "-device", device]


def parse_size(text: str) -> int | None:
    """`512`, `64K`, `256M`, `4G` in bytes; None for anything else."""
    match = re.fullmatch(r"(\d+)([KMGT]?)", text)
    return int(match[1]) << (10 * " KMGT".index(match[2] or " ")) if match else None


def kernel_release() -> str:
    for line in Path("/etc/ext4rs-kernel").read_text().splitlines():
        name, _, value = line.partition("=")
        if name == "KERNEL_RELEASE":
            return value
    raise Failure("the sysroot does not say which kernel it holds")


class Machine:
    """One run of one virtual machine, with its folder build/vm/NAME."""

    def __init__(self, name: str, memory: str = "1G", smp: int = 2, timeout: float = 300,
                 append: str = "", panic_ok: bool = False, kvm: bool = False, hasty: bool = False,
                 count: bool = False) -> None:
        if not re.fullmatch(r"[\w.-]+", name):
            raise Failure(f"{name!r} cannot be a machine's name: letters, digits, - . _")
        self.folder = TOP / "build" / "vm" / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.name, self.memory, self.smp, self.timeout = name, memory, smp, timeout
        self.append, self.panic_ok, self.kvm = append, panic_ok, kvm
        # The guest's clock is a count of its instructions: one processor, and no KVM.
        self.count = count
        if count:
            self.smp, self.kvm = 1, False
        # The first complaint of the kernel ends the run, even if the job could go on.
        self.hasty = hasty
        # vda is for whatever a test wants to keep aside (unformatted, sparse);
        # the disks under test are vdb and those after it.
        self.disks = [Disk.parse("16G", self.folder / "vda.img")]
        self.console_log = self.folder / "console.log"
        self.complaint: str | None = None
        # The time is up; what the guest still says is its end, not its work.
        self.timed_out = False
        self.status: int | None = None
        self.reason = ""
        self.processes: list[subprocess.Popen] = []
        self.lock = open(self.folder / "lock", "w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Failure(f"a machine named {name!r} is running in this checkout; choose another --name") from None

    def add_disk(self, text: str) -> None:
        letter = "abcdefghijklmnop"[len(self.disks)]
        self.disks.append(Disk.parse(text, self.folder / f"vd{letter}.img"))

    def run(self, command: list[str], environment: dict[str, str], on_output=None, on_console=None) -> int:
        """Boots, runs `command` in the guest, and returns the exit status.

        `on_output` gets the command's output in pieces, as bytes. Without it
        the command is given this process's terminal. `on_console` gets what the
        kernel says, line by line. Both may move `deadline`. The machine's name
        is free again when this returns.
        """
        self._write_job(command, environment)
        for disk in self.disks:
            disk.prepare()
        (self.folder / "status").unlink(missing_ok=True)
        terminal = termios.tcgetattr(0) if on_output is None and os.isatty(0) else None
        try:
            self._start(interactive=on_output is None)
            self.status = self._watch(on_output, on_console)
        finally:
            self._stop()
            self.lock.close()
            if terminal:
                termios.tcsetattr(0, termios.TCSADRAIN, terminal)
        return self.status

    def _write_job(self, command: list[str], environment: dict[str, str]) -> None:
        lines = ["#!/bin/bash"]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
        # The console passes bytes on as they are, unless a person sits at it.
        lines += ["[ -n \"${INTERACTIVE:-}\" ] || stty raw -echo", f"cd {shlex.quote(str(TOP))}"]
        lines += [f"exec {shlex.join(command)}", ""]
        (self.folder / "job").write_text("\n".join(lines))

    def _start(self, interactive: bool) -> None:
        # Announced, a mount inside it (the checkout) would be closed to overlayfs.
        self._share("sysroot", "/", "--readonly", "--cache=always", "--no-announce-submounts")
        self._share("checkout", str(TOP), "--cache=auto")
        self.console, console = socket.socketpair()
        self.monitor, monitor = socket.socketpair()
        command_line = COMMAND_LINE + [f"ext4rs.run={self.folder}", self.append]
        arguments = [
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-machine", "q35,memory-backend=memory",
            "-object", f"memory-backend-memfd,id=memory,size={self.memory},share=on",
            "-m", self.memory, "-smp", str(self.smp),
            *self._accelerator(),
            "-kernel", f"/usr/lib/modules/{kernel_release()}/vmlinuz",
            "-append", " ".join(command_line),
            "-chardev", f"socket,id=console,fd={console.fileno()}", "-serial", "chardev:console",
            "-chardev", f"socket,id=monitor,fd={monitor.fileno()}", "-mon", "chardev=monitor,mode=control",
            "-chardev", "stdio,id=job,signal=off" + (",mux=on" if interactive else ""),
            "-device", "virtio-serial-pci", "-device", "virtconsole,chardev=job",
            "-device", "virtio-rng-pci",
        ]
        for tag in ("sysroot", "checkout"):
            arguments += ["-chardev", f"socket,id={tag},path={self._socket(tag)}",
                          "-device", f"vhost-user-fs-pci,chardev={tag},tag={tag}"]
        for letter, disk in zip("abcdefghijklmnop", self.disks):
            arguments += disk.arguments(letter)
        (self.folder / "qemu.command").write_text(shlex.join(arguments) + "\n")
        with open(self.folder / "qemu.log", "w") as log:
            self.qemu = subprocess.Popen(
                arguments, stderr=log, pass_fds=(console.fileno(), monitor.fileno()),
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=None if interactive else subprocess.PIPE)
        self.processes.append(self.qemu)
        console.close()
        monitor.close()
        self.monitor.sendall(b'{"execute":"qmp_capabilities"}\n')

    def _accelerator(self) -> list[str]:
        if self.count:
            return ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=on", "-cpu", "max"]
        return ["-accel", "kvm", "-cpu", "host"] if self.kvm else ["-accel", "tcg,thread=multi", "-cpu", "max"]

    def _socket(self, tag: str) -> Path:
        # /run is this process namespace's own.
        return Path(f"/run/{self.name}-{tag}.socket")

    def _share(self, tag: str, folder: str, *options: str) -> None:
        path = self._socket(tag)
        path.unlink(missing_ok=True)
        log = self.folder / f"virtiofsd-{tag}.log"
        with open(log, "w") as file:
            process = subprocess.Popen(
                ["/usr/libexec/virtiofsd", f"--socket-path={path}", f"--shared-dir={folder}",
                 "--sandbox=none", "--inode-file-handles=never", "--log-level=error", *options],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        self.processes.append(process)
        deadline = time.monotonic() + 10
        while not path.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"virtiofsd did not start; see {log}")
            time.sleep(0.01)

    def _watch(self, on_output, on_console) -> int:
        self.deadline = time.monotonic() + self.timeout
        selector = selectors.DefaultSelector()
        selector.register(self.console, selectors.EVENT_READ, "console")
        if on_output:
            selector.register(self.qemu.stdout, selectors.EVENT_READ, "output")
        rest = b""
        with open(self.console_log, "wb", buffering=0) as log:
            # The console closes when QEMU ends; what came before is read first.
            while selector.get_map():
                for key, _ in selector.select(max(0.0, self.deadline - time.monotonic())):
                    data = os.read(key.fd, 65536) if key.data == "output" else self._read_console()
                    if not data:
                        selector.unregister(key.fileobj)
                    elif key.data == "output":
                        on_output(data)
                    else:
                        log.write(data)
                        *lines, rest = (rest + data).split(b"\n")
                        # What a time-out made the kernel show is no complaint.
                        for line in lines if not self.timed_out else ():
                            text = line.decode(errors="replace")
                            hopeless = self._judge(text)
                            if on_console:
                                on_console(text)
                            if hopeless:
                                self.deadline = min(self.deadline, time.monotonic() + 5)
                if selector.get_map() and time.monotonic() >= self.deadline:
                    if self.timed_out:
                        self.qemu.kill()
                    else:
                        # Let the kernel say who waits for what, then end it.
                        self.timed_out = True
                        self._ask_kernel("w")
                        self._ask_kernel("l")
                    self.deadline = time.monotonic() + 5
        self.qemu.wait()
        return self._verdict()

    def _read_console(self) -> bytes:
        try:
            return self.console.recv(65536)
        except ConnectionResetError:
            return b""

    def _judge(self, line: str) -> bool:
        """Notes the first complaint; tells whether waiting on is of no use."""
        if COMPLAINT.search(line) and not (self.panic_ok and CRASH.search(line)):
            self.complaint = self.complaint or line.strip()
            return self.hasty or bool(HOPELESS.search(line))
        return False

    def _ask_kernel(self, key: str) -> None:
        """A sysrq key: a break on the serial line, then the letter."""
        try:
            self.monitor.sendall(json.dumps(
                {"execute": "chardev-send-break", "arguments": {"id": "console"}}).encode() + b"\n")
            time.sleep(0.3)
            self.console.sendall(key.encode())
            time.sleep(0.3)
        except OSError:
            pass

    def _verdict(self) -> int:
        if self.complaint:
            self.reason = f"the kernel complained: {self.complaint}"
            return COMPLAINED
        if self.timed_out:
            self.reason = "the time was up"
            return TIMED_OUT
        try:
            status = int((self.folder / "status").read_text())
        except (OSError, ValueError):
            if self.panic_ok:
                return 0
            self.reason = "the guest ended without an exit status"
            return DIED
        self.reason = f"exit status {status}"
        if status == 0:
            self._remove_disks()
        return status

    def _remove_disks(self) -> None:
        for disk in self.disks:
            if disk.ours:
                disk.path.unlink(missing_ok=True)

    def _stop(self) -> None:
        for process in reversed(self.processes):
            if process.poll() is None:
                process.kill()
            process.wait()

    def console_end(self, count: int = 30) -> str:
        """The console's last lines, or those around the kernel's complaint.

        After a time-out, more of them: there the kernel shows who waits for what.
        """
        lines = self.console_log.read_text(errors="replace").splitlines() if self.console_log.exists() else []
        if not self.complaint and self.status == TIMED_OUT:
            count = 100
        lines = lines or (self.folder / "qemu.log").read_text(errors="replace").splitlines()
        start = max(0, len(lines) - count)
        for number, line in enumerate(lines):
            if self.complaint and line.strip() == self.complaint:
                start = min(start, max(0, number - 5))
                break
        return "".join(f"    {line}\n" for line in lines[start:start + count])


def kvm_works() -> bool:
    """Whether a guest boots under KVM here: tried once, then remembered.

    That /dev/kvm exists says little: under nested virtualisation it may be
    there and stop at the first instruction that it cannot emulate.
    """
    wish = os.environ.get("EXT4RS_KVM", "auto")
    if wish != "auto":
        return wish == "yes"
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    model = re.search(r"^model name.*$", Path("/proc/cpuinfo").read_text(), re.M)
    key = f"{os.uname().release} {model[0] if model else ''}"
    memory = Path("/var/cache/ext4rs-kvm")
    if memory.exists():
        known, _, answer = memory.read_text().rpartition("\n")
        if known == key:
            return answer == "yes"
    print("vm: trying whether KVM works here (15 s at most) ...", flush=True)
    answer = Machine(f"kvm-trial-{os.getpid()}", timeout=10, kvm=True).run(["true"], {}, lambda data: None) == 0
    shutil.rmtree(TOP / "build" / "vm" / f"kvm-trial-{os.getpid()}")
    print(f"vm: KVM {'works' if answer else 'does not work here; emulating'}", flush=True)
    memory.write_text(f"{key}\n{'yes' if answer else 'no'}")
    return answer


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="qemu/vm", formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__)
    parser.add_argument("--name", default="run", help="the run's folder is build/vm/NAME (default: run)")
    parser.add_argument("--mem", default="1G", help="memory (default 1G)")
    parser.add_argument("--smp", type=int, default=2, help="processors (default 2)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds, the boot included (default 300)")
    parser.add_argument("--disk", action="append", default=[], metavar="[FILE:]SIZE[,OPTION=VALUE...]",
                        help="a disk: the first is vdb. Without FILE a new sparse one in the run's folder. "
                        "Options: serial=TEXT, bps=SIZE and iops=N (throttling), block=512|4096 (sector size)")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="for the command")
    parser.add_argument("--append", default="", help="more words for the kernel's command line")
    parser.add_argument("--panic-ok", action="store_true",
                        help="a panic or reset is a good end (a test that pulls the plug)")
    parser.add_argument("--count", action="store_true",
                        help="emulate one processor, whose clock counts instructions: 1 ns each")
    parser.add_argument("--interactive", action="store_true", help="give the command this terminal")
    parser.add_argument("command", nargs="+", help="what to run in the guest, in the checkout's folder")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    machine = Machine(arguments.name, arguments.mem, arguments.smp, arguments.timeout,
                      arguments.append, arguments.panic_ok, not arguments.count and kvm_works(),
                      count=arguments.count)
    for disk in arguments.disk:
        machine.add_disk(disk)
    environment = dict(item.partition("=")[::2] for item in arguments.env)
    if arguments.interactive:
        environment |= {"INTERACTIVE": "1", "TERM": os.environ.get("TERM", "dumb")}
        status = machine.run(arguments.command, environment)
    else:
        with open(machine.folder / "output.log", "wb") as log:
            def on_output(data: bytes) -> None:
                log.write(data)
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            status = machine.run(arguments.command, environment, on_output)
    if status in (TIMED_OUT, COMPLAINED, DIED):
        print(f"vm: FAILED: {machine.reason}\nvm: the console's last lines ({machine.console_log}):\n"
              f"{machine.console_end()}", file=sys.stderr, end="")
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"vm: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
