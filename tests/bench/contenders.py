"""The contenders of the round-robin: each opens a Helper that runs its rounds."""

import json
import os
import random
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import helpers
from helpers import BenchError, Helper

SYMLINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}


@dataclass
class Contender:
    name: str
    label: str
    open: Callable  # (stack, bench) -> Helper; what it needs besides goes on the stack
    batch: int = 1  # rounds per turn: more for the short ones, so that p95 means something
    settle_s: float = 0.01  # lets the kernel finish tearing down before the next one's turn
    samples: list = field(default_factory=list)
    hello: str = ""


def open_floor(stack, bench) -> Helper:
    directory = bench.tmp / "floor"
    directory.mkdir()
    return Helper([bench.tmp / "floor-bin", "--dir", directory])


def open_spawn(stack, bench) -> Helper:
    return bench.stopwatch(["/usr/bin/true"])


def bwrap_command() -> list:
    command = [helpers.need_tool("bwrap"), "--unshare-all", "--ro-bind", "/usr", "/usr",
               "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for link, target in SYMLINKS.items():
        if Path("/" + target).exists():
            command += ["--symlink", target, "/" + link]
    return command + ["/usr/bin/true"]


def open_bwrap(stack, bench) -> Helper:
    return bench.stopwatch(bwrap_command())


def runc_config(cgroup: str) -> dict:
    """What `runc spec` would give, with the host's /usr, the limits of a sandbox and no network."""
    common = ["nosuid", "noexec", "nodev"]
    mounts = [
        {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]},
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
         "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
        {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
         "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
         "options": common + ["mode=1777", "size=65536k"]},
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"]},
    ]
    spaces = ["pid", "network", "ipc", "uts", "mount", "cgroup"]
    masked = ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sysrq-trigger"]
    return {
        "ociVersion": "1.0.2",
        "process": {"terminal": False, "user": {"uid": 0, "gid": 0}, "args": ["/usr/bin/true"],
                    "env": ["PATH=/usr/bin"], "cwd": "/", "noNewPrivileges": True},
        "root": {"path": "rootfs", "readonly": True},
        "hostname": "bench",
        "mounts": mounts,
        "linux": {
            "cgroupsPath": "/" + cgroup,
            "resources": {"memory": {"limit": 256 << 20}, "pids": {"limit": 256},
                          "cpu": {"quota": 100000, "period": 100000}},
            "namespaces": [{"type": s} for s in spaces],
            "maskedPaths": masked,
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"],
        },
    }


def open_runc(stack, bench) -> Helper:
    runc = helpers.need_tool("runc")
    bundle = bench.tmp / "runc"
    for directory in ("usr", "proc", "dev", "tmp"):
        (bundle / "rootfs" / directory).mkdir(parents=True)
    for link, target in SYMLINKS.items():
        (bundle / "rootfs" / link).symlink_to(target)
    cgroup = f"atoll-bench-runc-{os.getpid()}"
    (bundle / "config.json").write_text(json.dumps(runc_config(cgroup)))
    stack.callback(helpers.remove_cgroup, cgroup)
    command = [runc, "--root", bench.tmp / "runc-state", "run", "--bundle", bundle, "atoll-bench"]
    return bench.stopwatch(command)


class Bench:
    """Where the helpers are, and the state the contenders share."""

    def __init__(self, tmp: Path):
        self.tmp = tmp
        self.notes = []
        self.problems = {}  # name of a measurement -> why it could not be made
        binaries = tmp / "bin"
        binaries.mkdir()
        helpers.build(binaries)
        for name in helpers.PROGRAMS:
            (binaries / name).rename(tmp / f"{name}-bin")
        self.static_true = binaries / "true"

    def stopwatch(self, command: list, env: dict = None) -> Helper:
        return Helper([self.tmp / "spawn-bin", "--", *command], env)

    def client(self, socket: Path, mode: str) -> Helper:
        return Helper([self.tmp / "client-bin", "--socket", socket, mode])

    def failed(self, name: str, why) -> None:
        self.problems.setdefault(name, str(why))


def round_robin(contenders: list, turns: int, stack, bench: Bench) -> None:
    """Takes turns in an order shuffled anew each time: nobody always runs after the slowest."""
    running = {}
    for c in contenders:
        try:
            helper = c.open(stack, bench)
            stack.callback(helper.close)
            running[c.name] = (c, helper)
            c.hello = helper.hello
            helper.rounds(1)  # warm up: page cache, lazy set-up; not a sample
        except (BenchError, OSError, subprocess.SubprocessError) as e:
            running.pop(c.name, None)
            bench.failed(c.name, e)
    order = random.Random(1)
    for _ in range(turns):
        names = sorted(running)
        order.shuffle(names)
        for name in names:
            c, helper = running[name]
            try:
                c.samples += helper.rounds(c.batch)
            except (BenchError, OSError) as e:
                del running[name]
                bench.failed(name, e)
            time.sleep(c.settle_s)
