"""Limits as the kernel has them, on cgroup v1 and v2: what is written, measured, evidence of."""

import contextlib
import os
import signal

import pytest

import conftest
from boxes import Box
from conftest import wait_until
from rest import Rest
from resting import kill_daemon, mortal_daemon, spawn_pid

MIB = 1 << 20
LIMITS = {"memoryMB": 96, "cpuCores": 0.5, "pids": 40, "diskMB": 16}
# How many processes can be made, at most 100.
FORKS = """python3 -c '
import os, signal
made = []
try:
    while len(made) < 100:
        made.append(os.fork() or signal.pause())
except BlockingIOError:
    pass
for pid in made:
    os.kill(pid, signal.SIGKILL)
print(len(made))'"""
HOG = "exec python3 -c 'b = bytearray(300 << 20)'"  # more than any limit here

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="looks at groups that root makes")


@pytest.fixture(scope="module")
def mortal():
    with mortal_daemon() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


def knobs(box_id):
    """What the files of its groups say, by what they limit."""
    names = {
        "memory": ("memory.max", "memory.limit_in_bytes"),
        "swap": ("memory.swap.max", "memory.memsw.limit_in_bytes"),
        "pids": ("pids.max",),
        "quota": ("cpu.max", "cpu.cfs_quota_us"),
        "processes": ("pids.current",),
    }
    found = {}
    for group in (path for path in conftest.cgroups() if path.name == box_id):
        for kind, files in names.items():
            for name in files:
                with contextlib.suppress(OSError):  # of the other version, or just gone
                    found[kind] = (group / name).read_text().split()[0]
    return found


def check_knobs(box_id, memory_mib, quota_us, pids):
    has = knobs(box_id)
    assert has["memory"] == str(memory_mib * MIB)
    assert has["quota"] == str(quota_us)
    assert has["pids"] == str(pids)
    # v1 counts memory and swap together; v2 counts swap by itself.
    assert has.get("swap", "0") in ("0", has["memory"])


def runs_out_of_memory(box, limit):
    ended = box.run(HOG)["result"]
    assert ended["kind"] == "oom_killed", ended
    assert ended["oom"]["limit_bytes"] == limit
    assert limit / 2 < ended["oom"]["peak_bytes"] <= limit
    assert ended["oom"]["process"] == "python3"


def test_limits_are_the_kernels(rest):
    box = Box(rest, limits=LIMITS)
    check_knobs(box.id, 96, 50000, 40)
    runs_out_of_memory(box, 96 * MIB)
    assert 20 < int(box.out(FORKS)) < 40
    assert box.out("echo alive") == "alive"  # one process was killed, not the sandbox
    assert box.destroy() == 204
    assert knobs(box.id) == {}


def test_stats_are_the_kernels(rest):
    box = Box(rest, limits=LIMITS)
    before = box.get("stats").json
    box.detach("exec sleep 60")
    box.out("python3 -c 'b = bytearray(40 << 20); sum(range(1000000))'")
    after = box.get("stats").json
    memory = after["memory"]
    assert memory["limit_bytes"] == 96 * MIB
    assert 40 * MIB < memory["peak_bytes"] <= 96 * MIB
    assert 0 < memory["used_bytes"] <= memory["peak_bytes"]
    assert after["cpu"]["used_seconds"] > before["cpu"]["used_seconds"] > 0
    assert after["processes"]["count"] == int(knobs(box.id)["processes"]) >= 2
    box.destroy()


def test_a_pooled_one_gets_its_own_limits():
    with conftest.running(conftest.BUILD) as daemon:
        daemon.process.terminate()
        daemon.process.wait()
        daemon.env["ATOLL_POOL"] = "2"
        daemon.start()
        rest, seen = Rest(daemon.socket), []

        def pooled():
            seen.append(Box(rest, limits={"memoryMB": 600, "cpuCores": 0.25, "pids": 33}))
            return seen[-1].view["pooled"]

        wait_until(pooled, 30, lambda: "none came from the pool")
        check_knobs(seen[-1].id, 600, 25000, 33)
        daemon.cgroup_parents = {path.parent for path in conftest.cgroups()
                                 if path.name == seen[-1].id}


def test_limits_outlive_the_daemon(mortal):
    box = Box(mortal.rest, limits=LIMITS)
    kill_daemon(mortal)
    check_knobs(box.id, 96, 50000, 40)
    mortal.start()
    assert box.get("stats").json["memory"]["limit_bytes"] == 96 * MIB
    runs_out_of_memory(box, 96 * MIB)
    assert box.destroy() == 204
    assert knobs(box.id) == {}


def test_a_dead_spawn_leaves_no_group(mortal):
    """Its sandboxes die with it; the next one kills what is left in their groups."""
    box = Box(mortal.rest)
    box.detach("for i in 1 2 3 4; do setsid sleep 600 & done; wait")
    assert knobs(box.id)
    os.kill(spawn_pid(mortal), signal.SIGKILL)
    wait_until(lambda: not knobs(box.id), 30, lambda: "the group is still there")
    wait_until(lambda: mortal.rest.post("/api/sandboxes", {}).status == 201, 30,
               lambda: "no new sandbox can be made")
