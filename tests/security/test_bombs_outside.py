"""The control of test_bombs.py: on the host the same bombs reach their own cap."""

import json
import subprocess

import pytest


@pytest.mark.parametrize("name, cap", [("tcp", 400), ("udp", 400), ("netlink", 128)])
def test_sockets_hold_more(probe, tmp_path, name, cap):
    """Than the sandboxes of test_bombs.py have memory."""
    done = subprocess.run([str(probe), "--bomb", name, str(cap)], cwd=tmp_path, timeout=30,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert json.loads(done.stdout)["bytes"] > 64 << 20


@pytest.mark.parametrize("name, cap", [("fork", 300), ("threads", 300), ("disk", 64),
                                       ("inodes", 20_000), ("sparse", 1), ("fds", 15_000),
                                       ("ptys", 257), ("keys", 10)])
def test_not_stopped(probe, tmp_path, name, cap):
    done = subprocess.run([str(probe), "--bomb", name, str(cap)], cwd=tmp_path, timeout=30,
                          capture_output=True, text=True, start_new_session=True,
                          stdin=subprocess.DEVNULL)
    assert json.loads(done.stdout)["stopped_by"] == "cap"
