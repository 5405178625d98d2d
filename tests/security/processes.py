"""A sandbox's processes as the host sees them."""

import contextlib
import os
import secrets
import time
from pathlib import Path


def namespace(pid, kind):
    return os.readlink(f"/proc/{pid}/ns/{kind}")


def foreign_processes():
    """Processes in another pid namespace than ours: those of sandboxes, ours or anybody's."""
    ours = namespace("self", "pid")
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if namespace(entry.name, "pid") != ours:
                    yield int(entry.name)


def find_marked(marker):
    """Pids of sandboxed processes that have the marker in their command line."""
    found = []
    for pid in foreign_processes():
        with contextlib.suppress(OSError):
            if marker.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def wait_marked(marker, seconds=30):
    """The first process with the marker, as soon as there is one."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = find_marked(marker)
        if found:
            return found[0]
        time.sleep(0.02)
    raise AssertionError("the process in the sandbox is not visible from the host")


def status(pid):
    """The fields of /proc/PID/status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.split() for key, value in (line.split(":", 1) for line in lines)}


def init_of(pid):
    """The process that is PID 1 in the pid namespace of pid."""
    wanted = namespace(pid, "pid")
    for other in foreign_processes():
        with contextlib.suppress(OSError):
            if namespace(other, "pid") == wanted and status(other)["NSpid"][-1] == "1":
                return other
    raise AssertionError(f"the pid namespace of {pid} has no init")


def marker():
    return f"marker-{secrets.token_hex(8)}"


def idle(marker):
    """A command that does nothing. A loop, because a shell execs its last command and forgets."""
    return ["sh", "-c", f": {marker}; while :; do sleep 60; done"]


def cpu_seconds(pid):
    """CPU time used so far by the whole cgroup of pid, from its v2 or v1 files."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpuacct" in controllers.split(","):
            for mount in (controllers, "cpuacct"):
                usage = Path(f"/sys/fs/cgroup/{mount}{path}/cpuacct.usage")
                if path != "/" and usage.exists():
                    return int(usage.read_text()) / 1e9
        usage = Path(f"/sys/fs/cgroup{path}/cpu.stat")
        if controllers == "" and path != "/" and usage.exists():
            return int(usage.read_text().split()[1]) / 1e6
    raise AssertionError(f"process {pid} is in no cgroup of its own that counts CPU time")
