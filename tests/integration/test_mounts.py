"""What a sandbox mounts: how many file systems it makes, and that those that are parts of one keep
what they promise."""

import pytest

from boxes import Box
from rest import Rest

# Made by the kernel for each ipc namespace, and not in the list of mounts.
MQUEUE = 1


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture
def box(rest):
    made = Box(rest)
    yield made
    made.destroy()


def mounts(text):
    """{mount point: (device, type, options)} of a mountinfo."""
    found = {}
    for line in text.splitlines():
        own, _, rest_of = line.partition(" - ")
        fields = own.split()
        found[fields[4]] = (fields[2], rest_of.split()[0], fields[5].split(","))
    return found


def own_file_systems(text):
    """Devices of file systems that were made for this sandbox: a device node may be the host's."""
    return {device for device, kind, _ in mounts(text).values() if kind != "devtmpfs"}


def test_a_sandbox_makes_at_most_six_file_systems(box):
    text = box.out("cat /proc/self/mountinfo")
    assert len(own_file_systems(text)) + MQUEUE <= 6, text


def test_a_sandbox_of_a_user_makes_at_most_six(rootless_daemon):
    name = rootless_daemon.create("--waive", "memory,cpu,pids")
    try:
        text = rootless_daemon.atoll("exec", name, "--", "cat", "/proc/self/mountinfo",
                                     check=True).stdout
        assert len(own_file_systems(text)) + MQUEUE <= 6, text
    finally:
        rootless_daemon.atoll("rm", name)


def test_a_disk_that_is_an_image_takes_one_more(rest):
    box = Box(rest, limits={"memoryMB": 128, "diskMB": 256})
    try:
        text = box.out("cat /proc/self/mountinfo")
        assert len(own_file_systems(text)) + MQUEUE <= 7, text
        assert mounts(text)["/dev/shm"][1] == "tmpfs"
        assert int(box.out("stat -f -c '%b' /dev/shm")) * 4096 <= (64 << 20) + 65536
    finally:
        box.destroy()


def test_flags_of_the_parts(box):
    found = mounts(box.out("cat /proc/self/mountinfo"))
    assert {"ro", "nosuid", "noexec"} <= set(found["/dev"][2])
    assert {"rw", "nosuid", "nodev", "noexec"} <= set(found["/dev/shm"][2])
    covers = [options for point, (_, kind, options) in found.items()
              if point.startswith("/proc/") and kind == "tmpfs"]
    assert covers and all({"ro", "nosuid", "noexec"} <= set(options) for options in covers)


def test_devices_work(box):
    assert box.out("echo gone > /dev/null; head -c 3 /dev/zero | od -An -tx1") == "00 00 00"
    assert box.out("stat -c '%a %U' /dev/shm /dev") == "1777 root\n755 root"
    assert box.run("echo x > /dev/file", user="root")["result"]["exit_code"] != 0


def test_shared_memory_is_bounded_by_the_disk(rest):
    box = Box(rest, limits={"memoryMB": 256, "diskMB": 32})
    try:
        assert box.run("head -c 48m /dev/zero > /dev/shm/big")["result"]["exit_code"] != 0
        assert 8 << 20 < int(box.out("stat -c %s /dev/shm/big")) <= 32 << 20
        # It is the same room as that of files, and is given back.
        assert box.run("head -c 16m /dev/zero > /tmp/more")["result"]["exit_code"] != 0
        assert box.out("rm /dev/shm/big; head -c 16m /dev/zero > /tmp/more && echo fits") == "fits"
    finally:
        box.destroy()


def test_shared_memory_of_a_persistent_sandbox_ends_with_its_run(rest):
    box = Box(rest, persistent=True)
    try:
        assert box.out("echo kept > kept; echo gone > /dev/shm/gone; cat /dev/shm/gone") == "gone"
        box.do("stop")
        box.do("resume")
        assert box.out("cat kept; ls -A /dev/shm") == "kept"
    finally:
        box.destroy()
