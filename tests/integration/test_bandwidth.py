"""The bandwidth of a sandbox's disk: that it holds, and that it ends with the sandbox."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

import conftest
from boxes import Box
from conftest import wait_until
from rest import Rest
from resting import kill_daemon, mortal_daemon, spawn_pid, terminate_daemon

MIB = 1 << 20
RATE = 8
SIZE = 24
# Seconds that the bound implies, with room for what the kernel lets through at first.
LEAST = SIZE / RATE * 0.7
DISK = {"memoryMB": 64, "diskMB": 96}  # an image, with and without a bound
# Prints how long it took. The disk is to have it all when it ends.
WRITE = f"""python3 -c '
import mmap, os, sys, time
direct = os.O_DIRECT if "direct" in sys.argv else 0
fd = os.open("/home/user/file", os.O_RDWR | os.O_CREAT | direct, 0o600)
page = mmap.mmap(-1, {MIB})
begun = time.monotonic()
for _ in range({SIZE}):
    os.write(fd, page) if "read" not in sys.argv else os.preadv(fd, [page], _ * {MIB})
os.fsync(fd)
print(time.monotonic() - begun)' """

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="disks with a bandwidth need root")


@pytest.fixture(scope="module")
def mortal():
    """Its large disks are images without a limit, too, to compare with."""
    with mortal_daemon(ATOLL_DISKS="plain") as daemon:
        yield daemon


@pytest.fixture
def rest(mortal):
    return mortal.rest


@contextlib.contextmanager
def box_of(rest, **request):
    box = Box(rest, **request)
    try:
        yield box
    finally:
        box.destroy()


def device_of(box):
    """MAJOR:MINOR of the loop device below its disk."""
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if box.id in file.read_text():
                return (file.parents[1] / "dev").read_text().strip()
    return None


def knobs():
    """The files that bound devices, of the whole host."""
    hierarchy = Path("/sys/fs/cgroup/blkio")
    if hierarchy.exists():
        return [hierarchy, *hierarchy.glob("atoll-*")], ["blkio.throttle.read_bps_device",
                                                         "blkio.throttle.write_bps_device"]
    return [path for path in conftest.cgroups() if (path / "io.max").exists()], ["io.max"]


def bounds(device):
    """What is said about a device, in each place that says anything."""
    groups, names = knobs()
    found = []
    for file in (group / name for group in groups for name in names):
        with contextlib.suppress(OSError):
            found += [line.split(None, 1)[1] for line in file.read_text().splitlines()
                      if line.split()[0] == device]
    return found


def fresh_bounds(rest, device, **request):
    """Bounds of the device once it is that of a new sandbox: the kernel hands out the lowest free."""
    boxes = []
    try:
        for _ in range(16):
            boxes.append(Box(rest, **request))
            if device_of(boxes[-1]) == device:
                return bounds(device)
        pytest.skip("other programs of this host took the device")
    finally:
        for box in boxes:
            box.destroy()


@pytest.mark.parametrize("how", ["", "direct", "direct read"])
def test_it_holds(rest, how):
    with box_of(rest, limits={**DISK, "ioMbps": RATE}) as slow, box_of(rest, limits=DISK) as free:
        assert slow.view["limits"]["ioMbps"] == RATE
        assert "ioMbps" not in free.view["limits"]
        if "read" in how:  # there has to be something to read
            slow.out(WRITE)
            free.out(WRITE)
        assert float(slow.out(WRITE + how)) > LEAST
        # The control: the same disk without a bound is faster than the bound allows.
        assert min(float(free.out(WRITE + how)) for _ in range(3)) < LEAST


def test_a_small_disk_is_an_image_too(rest):
    with box_of(rest, limits={"diskMB": 64, "ioMbps": RATE}) as box:
        device = device_of(box)
        assert device
        assert bounds(device)
        assert float(box.out(WRITE)) > LEAST
    with box_of(rest, limits={"diskMB": 64}) as box:  # the control
        assert device_of(box) is None


def test_it_goes_with_the_sandbox(rest):
    with box_of(rest, limits={**DISK, "ioMbps": RATE}) as box:
        device = device_of(box)
        assert bounds(device)
    assert fresh_bounds(rest, device, limits=DISK) == []


def test_what_others_left_on_the_device_does_not_matter(rest):
    hierarchy = Path("/sys/fs/cgroup/blkio")
    if not hierarchy.exists():
        pytest.skip("on cgroup v2 a bound goes with the group")
    with box_of(rest, limits=DISK) as box:
        device = device_of(box)
    knob = hierarchy / "blkio.throttle.write_bps_device"
    knob.write_text(f"{device} {MIB}")
    try:
        assert fresh_bounds(rest, device, limits=DISK) == []
    finally:
        knob.write_text(f"{device} 0")


def test_it_goes_with_a_killed_spawn(mortal):
    box = Box(mortal.rest, limits={**DISK, "ioMbps": RATE})
    device = device_of(box)
    assert bounds(device)
    os.kill(spawn_pid(mortal), signal.SIGKILL)
    wait_until(lambda: box.state == "failed", 30, lambda: box.view)
    wait_until(lambda: not bounds(device), 30, lambda: bounds(device))
    box.destroy()


def test_it_outlives_the_daemon_and_a_stop(mortal):
    with box_of(mortal.rest, persistent=True, limits={**DISK, "ioMbps": RATE}) as box:
        kill_daemon(mortal)
        mortal.start()
        assert box.view["limits"]["ioMbps"] == RATE
        assert bounds(device_of(box))
        box.do("stop")
        box.do("resume")
        assert bounds(device_of(box))
        assert float(box.out(WRITE)) > LEAST


def test_the_daemon_has_a_default(mortal):
    terminate_daemon(mortal)
    mortal.env["ATOLL_IO_MBPS"] = "5"
    try:
        mortal.start()
        with box_of(mortal.rest, limits={"diskMB": 64}) as box:
            assert box.view["limits"]["ioMbps"] == 5
            assert bounds(device_of(box))
        with box_of(mortal.rest, limits={"diskMB": 64, "ioMbps": 7}) as box:
            assert box.view["limits"]["ioMbps"] == 7
    finally:
        terminate_daemon(mortal)
        del mortal.env["ATOLL_IO_MBPS"]
        mortal.start()


@pytest.mark.parametrize("value", [0, 0.5, -1, 1e9, "8", True])
def test_bad_values(rest, value):
    answer = rest.post("/api/sandboxes", {"limits": {"ioMbps": value}})
    assert answer.status == 400, answer.body
    assert "ioMbps" in answer.json["error"]["message"]


def test_the_command_line(daemon):
    made = daemon.atoll("create", "--io-mbps", "8", "--disk", "64M")
    assert made.returncode == 0, made.stderr
    box = Rest(daemon.socket).get(f"/api/sandboxes/{made.stdout.strip()}").json
    assert box["limits"]["ioMbps"] == 8
    daemon.atoll("rm", box["id"])
    refused = daemon.atoll("create", "--io-mbps", "0.1")
    assert refused.returncode != 0
    assert "--io-mbps" in refused.stderr


def test_it_is_refused_where_it_cannot_hold(rootless_daemon):
    rest = Rest(rootless_daemon.socket)
    request = {"limits": {"ioMbps": RATE}, "waive": ["memory", "cpu", "pids"]}
    refused = rest.post("/api/sandboxes", request)
    assert refused.status == 409, refused.body
    assert "cannot enforce these limits: io" in refused.json["error"]["message"]
    request["waive"].append("io")
    with box_of(rest, **request) as box:
        assert "io" in box.view["waived"]
    # The control: it is waived only where it was asked for.
    del request["limits"]
    with box_of(rest, **request) as box:
        assert "io" not in box.view["waived"]
