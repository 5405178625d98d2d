"""What /proc shows: the sandbox's limits and what it uses, and nothing of the host's load."""

import json
import os
import re
import time

import pytest

from boxes import Box
from conftest import wait_until
from rest import Rest

HOST_CPUS = len(os.sched_getaffinity(0))


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture
def box(rest):
    made = Box(rest, limits={"memoryMB": 192, "cpuCores": 1})
    yield made
    made.destroy()


def memory(text):
    return {name: int(kib) for name, kib in re.findall(r"^(\S+):\s+(\d+) kB$", text, re.M)}


def test_memory_is_the_limit(box):
    seen = memory(box.out("cat /proc/meminfo"))
    assert seen["MemTotal"] == 192 * 1024
    assert 0 < seen["MemFree"] <= seen["MemAvailable"] <= seen["MemTotal"]
    assert seen["SwapTotal"] == 0
    assert box.out("free -m | awk '/^Mem:/ {print $2}'").strip() == "192"


def test_memory_in_use_shows(box):
    before = memory(box.out("cat /proc/meminfo"))["MemFree"]
    box.detach("exec python3 -c 'import time; x = bytearray(64 << 20); time.sleep(300)'")
    wait_until(lambda: memory(box.out("cat /proc/meminfo"))["MemFree"] < before - 60 * 1024, 30,
               lambda: box.out("cat /proc/meminfo"))


def cpus_seen(box):
    code = ("import os, json; print(json.dumps([os.cpu_count(), len(os.sched_getaffinity(0)), "
            "open('/proc/cpuinfo').read().count('processor\\t'), "
            "sum(l[3].isdigit() for l in open('/proc/stat') if l.startswith('cpu'))]))")
    counts = json.loads(box.out(f'python3 -c "{code}"'))
    return [int(box.out("nproc")), *counts]


def test_cpus_are_the_limit(box):
    assert cpus_seen(box) == [1] * 5


@pytest.mark.skipif(HOST_CPUS < 2, reason="one CPU is all there is")
def test_part_of_a_cpu_counts_as_one_more(rest):
    box = Box(rest, limits={"cpuCores": 1.5})
    try:
        assert cpus_seen(box) == [2] * 5
    finally:
        box.destroy()


def test_more_cpus_than_there_are(rest):
    box = Box(rest, limits={"cpuCores": HOST_CPUS + 3})
    try:
        assert cpus_seen(box) == [HOST_CPUS] * 5
    finally:
        box.destroy()


@pytest.mark.skipif(HOST_CPUS < 2, reason="one CPU is all there is")
def test_sandboxes_do_not_share_one_cpu(rest):
    """Which CPU a command may use follows the scheduler, so that all of them are used."""
    box = Box(rest, limits={"cpuCores": 1})
    try:
        seen = set()
        wait_until(lambda: seen.add(box.out(
                                            "grep Cpus_allowed_list /proc/self/status").split()[-1])
                   or len(seen) > 1, 60, lambda: seen)
    finally:
        box.destroy()


def test_uptime_is_the_sandboxs(box):
    up, idle = map(float, box.out("cat /proc/uptime").split())
    with open("/proc/uptime", encoding="ascii") as f:
        host = float(f.read().split()[0])
    assert up < 60 < host or up < host / 2
    assert idle <= up + 1
    code = "import time; print(time.clock_gettime(time.CLOCK_BOOTTIME), time.monotonic())"
    boot, monotonic = map(float, box.out(f"python3 -c '{code}'").split())
    assert boot < 60 and monotonic < 60
    # Start times of processes are on the same clock: nothing has begun in the future.
    ages = box.out("sleep 1.5; ps -eo etimes=").split()
    assert ages and all(0 <= int(age) < 60 for age in ages), ages
    btime = int(re.search(r"^btime (\d+)$", box.out("cat /proc/stat"), re.M)[1])
    assert abs(time.time() - btime) < 60


def test_load_is_the_sandboxs(box):
    assert re.fullmatch(r"0\.00 0\.00 0\.00 \d+/\d+ \d+", box.out("cat /proc/loadavg"))
    box.detach("while :; do :; done")
    box.detach("while :; do :; done")
    wait_until(lambda: float(box.out("cat /proc/loadavg").split()[0]) > 0.1, 40,
               lambda: box.out("cat /proc/loadavg"))
    used = [int(n) for n in box.out("head -1 /proc/stat").split()[1:5]]
    assert used[0] > 0 and used[3] >= 0


def test_through_the_api_too(rest):
    """Without a command that ran before."""
    box = Box(rest, limits={"memoryMB": 128})
    try:
        answer = rest.get(f"/api/sandboxes/{box.id}/files", path="/proc/meminfo")
        assert memory(answer.body.decode())["MemTotal"] == 128 * 1024
    finally:
        box.destroy()


@pytest.mark.parametrize("user", ["user", "root"])
def test_nothing_inside_can_change_them(box, user):
    for name in ("loadavg", "meminfo", "stat", "uptime", "cpuinfo"):
        path = f"/proc/{name}"
        tries = (f"echo x > {path}", f"chmod 666 {path}", f"truncate -s 0 {path}", f"rm {path}",
                 f"mv {path} /tmp/x", f"umount {path}", f"ln {path} /tmp/x", f"touch {path}")
        for attempt in tries:
            assert box.run(f"({attempt}) 2>/dev/null", user=user)["result"]["exit_code"] != 0, \
                attempt
        assert box.out(f"cat {path}")
    assert memory(box.out("cat /proc/meminfo"))["MemTotal"] == 192 * 1024


def test_a_full_disk_does_not_stop_them(box):
    box.out("cat /proc/meminfo")
    box.run("head -c 1G /dev/zero > /tmp/full; head -c 1G /dev/zero > /dev/shm/full")
    box.detach("while :; do :; done")
    before = float(box.out("cat /proc/uptime").split()[0])
    wait_until(lambda: float(box.out("cat /proc/uptime").split()[0]) > before + 1, 30,
               lambda: box.out("cat /proc/uptime"))


def switches(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return sum(int(n) for n in re.findall(r"ctxt_switches:\s+(\d+)", f.read()))


def agent_of(box):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/status", encoding="ascii") as f:
                status = f.read()
            if re.search(r"^NSpid:\s+\d+\s+1$", status, re.M) and \
                    box.id in os.readlink(f"/proc/{pid}/root") + open(
                        f"/proc/{pid}/root/etc/hostname", encoding="ascii").read():
                return int(pid)
        except OSError:
            continue
    raise AssertionError("no agent")


def test_an_idle_sandbox_does_not_wake_up(box):
    box.out("true")
    agent = agent_of(box)
    time.sleep(2.5)  # one more look finds that nothing is left
    before = switches(agent)
    time.sleep(4)
    assert switches(agent) == before
