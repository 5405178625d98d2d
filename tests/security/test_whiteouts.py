"""Whiteouts are the only device nodes that a sandbox can make: they are no devices."""

import json
import os
import stat

import pytest

SCRIPT = r"""
import ctypes, errno, json, os, stat, sys
libc = ctypes.CDLL(None, use_errno=True)

def make(path, mode, device):
    # mknodat(2) by its number: no library checks or shortens the arguments.
    number = {"x86_64": 259, "aarch64": 33}[os.uname().machine]
    made = libc.syscall(ctypes.c_long(number), ctypes.c_long(-100), path.encode(),
                        ctypes.c_long(mode), ctypes.c_ulong(device))
    if made < 0:
        return errno.errorcode[ctypes.get_errno()]
    number = os.lstat(path).st_rdev
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        opened = "opened"
    except OSError as e:
        opened = errno.errorcode[e.errno]
    os.unlink(path)
    return [number, opened]

where = sys.argv[1]
print(json.dumps({
    "whiteout": make(where + "/w", stat.S_IFCHR | 0o666, 0),
    "null": make(where + "/n", stat.S_IFCHR | 0o666, os.makedev(1, 3)),
    "major": make(where + "/m", stat.S_IFCHR | 0o666, os.makedev(1, 0)),
    "minor": make(where + "/i", stat.S_IFCHR | 0o666, os.makedev(0, 1)),
    "long": make(where + "/l", stat.S_IFCHR | 0o666, (1 << 32) | os.makedev(1, 3)),
    "upper": make(where + "/u", stat.S_IFCHR | 0o666, 1 << 32),
    "block": make(where + "/b", stat.S_IFBLK | 0o666, 0),
}))
"""


def made_in(daemon, sandbox, where):
    done = daemon.atoll("exec", "--user", "root", sandbox, "--", "python3", "-c", SCRIPT, where, check=True)
    return json.loads(done.stdout)


def test_only_whiteouts_can_be_made(daemon, sandbox):
    """Where the file system is no overlay. The kernel reads 32 bits of the number."""
    made = made_in(daemon, sandbox, "/dev/shm")
    assert made["whiteout"][0] == 0 and made["whiteout"][1] != "opened"
    assert made["upper"][0] == 0 and made["upper"][1] != "opened"
    assert {name: made[name] for name in ("null", "major", "minor", "long", "block")} == dict.fromkeys(
        ("null", "major", "minor", "long", "block"), "EPERM")


def test_none_in_the_root(daemon, sandbox):
    """A whiteout in the writable layer would be a removed file that is not recorded as such."""
    made = made_in(daemon, sandbox, "/tmp")
    assert set(map(str, made.values())) == {"EPERM"}, made


def test_outside_the_same_call_makes_a_device(tmp_path):
    """The control."""
    if os.geteuid() != 0:
        pytest.skip("only root makes devices")
    path = tmp_path / "null"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this host makes no devices, even as root")
    assert os.lstat(path).st_rdev == os.makedev(1, 3)
