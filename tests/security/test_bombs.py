"""Resource exhaustion (rows 79-88): each bomb meets a limit, is recorded truthfully, and nobody
else notices. The bombs are bounded themselves, see src/tools/verify/probe/bomb.c; a limit that holds
stops them before, and test_bombs_outside.py shows that nothing else does.
"""

import json
import os
import time

import pytest

import processes
from daemons import SLACK, below, wait_until

BOMB_INSIDE = "/home/user/bomb"
BOMB = [BOMB_INSIDE, "--bomb"]
PIDS, MEMORY, DISK = 32, 64 << 20, 32 << 20
LIMITS = ["--pids", PIDS, "--memory", MEMORY, "--disk", DISK]
JOURNAL_MAX = 128 << 20  # what one exec may leave on the host's disk, with room to spare


@pytest.fixture(scope="module")
def neighbour(daemon):
    name = daemon.create()
    yield name
    daemon.atoll("rm", name)


@pytest.fixture(autouse=True)
def nobody_else_notices(daemon, neighbour):
    """Afterwards the neighbour answers, the daemon lives and the host has memory."""
    pid, before = daemon.pid, memory_in_use()
    yield
    answer = daemon.atoll("exec", neighbour, "--", "echo", "here", check=True, timeout=30)
    assert answer.stdout == "here\n"
    assert daemon.pid == pid and daemon.process.poll() is None
    assert memory_in_use() < before + (512 << 20)


def memory_in_use():
    """By programs and by the kernel for them. What is free says less: a machine that is a guest
    itself may have to give some of it back at any time."""
    with open("/proc/meminfo") as f:
        fields = dict(line.split(":") for line in f)
    kinds = ("AnonPages", "Shmem", "SUnreclaim", "KernelStack", "PageTables")
    return sum(int(fields[kind].split()[0]) << 10 for kind in kinds)


def explode(daemon, probe, name, cap, *options):
    """Runs a bomb in a sandbox of its own; returns the record of the CLI and the bomb's report."""
    done = daemon.atoll("run", "--json", *LIMITS, *options, "--file", f"{probe}:{BOMB_INSIDE}",
                        "--", *BOMB, name, cap)
    record = json.loads(done.stdout)
    assert "stdout" in record, (record, done.stderr)
    lines = record["stdout"].splitlines()
    return done, record, json.loads(lines[-1]) if lines else None


# name, cap, what may stop it, how far it may come before
STOPPED = [
    ("fork", 300, {"EAGAIN"}, PIDS),
    ("threads", 300, {"EAGAIN"}, PIDS),
    ("disk", 2 * DISK >> 20, {"ENOSPC", "EDQUOT"}, DISK >> 20),
    ("inodes", 400_000, {"ENOSPC", "EDQUOT"}, 399_999),
    ("sparse", 1, {"EFBIG"}, 0),
    ("fds", 15_000, {"EMFILE"}, 4096),
    ("inotify", 1000, {"EMFILE"}, 999),
    ("ptys", 1000, {"ENOSPC", "EMFILE", "EAGAIN"}, 256),
    ("keys", 10, {"EPERM", "ENOSYS"}, 0),
]


@pytest.mark.parametrize("name, cap, errors, most", STOPPED, ids=[row[0] for row in STOPPED])
def test_stopped(daemon, probe, name, cap, errors, most):
    _, record, report = explode(daemon, probe, name, cap)
    assert record["result"]["kind"] == "exited" and record["result"]["exit_code"] == 0
    assert report["stopped_by"] in errors
    assert report["reached"] <= most


def test_memory(daemon, probe):
    done, record, _ = explode(daemon, probe, "memory", 1024)
    result = record["result"]
    assert result["kind"] == "oom_killed"
    assert result["oom"]["limit_bytes"] == MEMORY
    assert result["oom"]["peak_bytes"] <= MEMORY
    assert done.returncode == 137
    assert "memory" in done.stderr


def test_out_of_memory_again_and_again(daemon, probe):
    """Children die of memory, the process that started them sees it and ends in peace."""
    _, record, report = explode(daemon, probe, "oomloop", 5)
    assert record["result"]["kind"] == "exited"
    assert report["reached"] == 5


# Memory without a resident page of its own: either the thing has a limit, or it is charged.
CHARGED = [("shm", 512), ("sysvshm", 512), ("pipes", 10_000), ("sockbuf", 10_000)]


@pytest.mark.parametrize("name, cap", CHARGED, ids=[row[0] for row in CHARGED])
def test_kernel_memory_is_charged(daemon, probe, name, cap):
    _, record, report = explode(daemon, probe, name, cap)
    kind = record["result"]["kind"]
    # The killer may also take init, which has pages where the bomb has none: then the end is lost.
    assert kind in ("exited", "oom_killed", "lost")
    if kind == "exited":
        assert report["stopped_by"] in ("ENOSPC", "ENOMEM", "EMFILE", "EDQUOT")
    elif kind == "oom_killed":
        assert record["result"]["oom"]["peak_bytes"] <= record["result"]["oom"]["limit_bytes"]
    else:
        assert "memory" in record["result"]["reason"]


@pytest.mark.parametrize("name", ["tcp", "udp"])
def test_sockets_hold_no_more_than_their_share(daemon, probe, name):
    """cgroup v1 counts TCP and UDP apart from memory: 2 GiB fit into a sandbox of 64 MiB before."""
    _, record, report = explode(daemon, probe, name, 4000)
    kind = record["result"]["kind"]
    assert kind in ("exited", "oom_killed", "lost")
    assert kind != "exited" or report["bytes"] <= MEMORY


def test_answers_of_netlink_are_bounded(daemon, probe):
    """No cgroup charges them: 400 sockets held 369 MB before."""
    _, record, report = explode(daemon, probe, "netlink", 400)
    assert record["result"]["kind"] == "exited"
    assert report["stopped_by"] == "ENOBUFS"
    assert report["bytes"] <= MEMORY


def test_zombies_are_reaped(daemon, probe):
    _, record, report = explode(daemon, probe, "zombies", 4 * PIDS)
    assert record["result"]["kind"] == "exited"
    assert (report["stopped_by"], report["zombies"]) == ("cap", 0)


def copy_bomb(daemon, probe, *options):
    sandbox = daemon.create(*LIMITS, *options)
    daemon.atoll("cp", probe, f"{sandbox}:{BOMB_INSIDE}", check=True)
    return sandbox


def test_cpu(daemon, probe):
    """Four spinning processes get half a CPU together, by the host's account."""
    sandbox, marker = copy_bomb(daemon, probe, "--cpus", "0.5"), processes.marker()
    daemon.atoll("exec", "--detach", sandbox, "--", *BOMB, "spin", marker, check=True)
    pid = processes.wait_marked(marker)
    used, start = processes.cpu_seconds(pid), time.monotonic()
    time.sleep(2)
    wait_until(lambda: processes.cpu_seconds(pid) - used > 0.2, 30, lambda: "it does not spin")
    share = (processes.cpu_seconds(pid) - used) / (time.monotonic() - start)
    daemon.atoll("rm", sandbox, check=True)
    assert share < 0.65


def disk_usage(path):
    """Bytes on this file system below path; what is mounted there belongs to somebody else."""
    total = 0
    for directory, children, names in os.walk(path):
        children[:] = [c for c in children if not os.path.ismount(os.path.join(directory, c))]
        for name in names:
            try:
                total += os.lstat(os.path.join(directory, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def json_of_logs(daemon, sandbox):
    """The record of its only command."""
    return daemon.json("logs", sandbox)["execs"][0]


def test_endless_output(daemon, probe):
    """Nobody reads it, so it ends up in the journal, which has a maximum."""
    sandbox = copy_bomb(daemon, probe)
    before = disk_usage(daemon.state)
    daemon.atoll("exec", "--detach", "--timeout", 3, sandbox, "--", *BOMB, "flood", 0,
                 check=True)
    wait_until(lambda: json_of_logs(daemon, sandbox)["state"] == "ended", 60,
               lambda: "it has no end")
    grown = disk_usage(daemon.state) - before
    daemon.atoll("rm", sandbox, check=True)
    assert grown < JOURNAL_MAX


@pytest.mark.parametrize("name, cap", [("deepdir", 3000), ("names", 255), ("dentries", 200_000)])
def test_destroy_of_an_awkward_tree(daemon, probe, name, cap):
    sandbox = copy_bomb(daemon, probe)
    done = daemon.atoll("exec", sandbox, "--", *BOMB, name, cap, check=True)
    assert json.loads(done.stdout)["stopped_by"] == "cap"
    daemon.atoll("rm", sandbox, check=True, timeout=30)
    # Output of its commands stays for some time.
    assert not [path for path in below(daemon.state)
                if sandbox in path.name and path.parent.name != "ended"]


def test_timeout_kills_what_ignores_signals(daemon, probe):
    sandbox, marker = copy_bomb(daemon, probe), processes.marker()
    start = time.monotonic()
    done = daemon.atoll("exec", "--json", "--timeout", 1, sandbox, "--",
                        *BOMB, "stubborn", marker)
    took = time.monotonic() - start
    assert done.returncode == 124
    assert json.loads(done.stdout)["result"]["kind"] == "timed_out"
    assert took < 30 * SLACK
    answer = daemon.atoll("exec", sandbox, "--", "echo", "here")
    assert answer.stdout == "here\n"
    daemon.atoll("rm", sandbox, check=True)
    assert processes.find_marked(marker) == []


def test_destroy_kills_daemons(daemon, probe):
    """A process of its own session, double-forked, deaf to signals: destroyed with the sandbox."""
    sandbox, marker = copy_bomb(daemon, probe), processes.marker()
    daemon.atoll("exec", "--detach", sandbox, "--", *BOMB, "stubborn", marker, check=True)
    processes.wait_marked(marker)
    wait_until(lambda: len(processes.find_marked(marker)) == 3, 30, lambda: "not all are there")
    daemon.atoll("rm", sandbox, check=True, timeout=30)
    assert processes.find_marked(marker) == []
