"""A sandbox with a network cannot change it, as root inside neither: not its addresses, routes and
rules, nor the sockets through which atoll-egress serves it. And it costs the host nothing that grows
with what it sends."""

import json
import os
import subprocess
from pathlib import Path

import pytest

import netlinks

PROGRAM = Path(netlinks.__file__)
PYTHON = "/usr/bin/python3"
TRACKED_AT_MOST = 5000
LOCAL = 'ip link set lo up && ip route add local 0.0.0.0/0 dev lo src 127.0.0.1 && exec "$@"'


def inside(daemon, box, *words, user=None):
    options = ["--user", user] if user else []
    done = daemon.atoll("exec", *options, box, "--", PYTHON, "-c", PROGRAM.read_text(), *words,
                        check=True)
    return json.loads(done.stdout)


def outside(*words):
    """In a network namespace of root's own where every address is local, as in a sandbox."""
    if os.geteuid() != 0:
        pytest.skip("the control needs root")
    done = subprocess.run(["unshare", "-n", "sh", "-c", LOCAL, "sh", PYTHON, PROGRAM, *words],
                          capture_output=True, text=True, timeout=90, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def box(daemon):
    name = daemon.create("--network", "bridge")
    yield name
    daemon.atoll("rm", name)


@pytest.fixture(scope="module")
def rootless_box(rootless_daemon):
    name = rootless_daemon.create("--network", "bridge", "--waive", "memory,cpu,pids")
    yield name
    rootless_daemon.atoll("rm", name)


@pytest.fixture(scope="module", params=["user", "root", "rootless"])
def attempts(request):
    if request.param == "rootless":
        return inside(request.getfixturevalue("rootless_daemon"),
                      request.getfixturevalue("rootless_box"), "attempts")
    return inside(request.getfixturevalue("daemon"), request.getfixturevalue("box"), "attempts",
                  user=request.param)


@pytest.mark.parametrize("attempt", netlinks.ATTEMPTS)
def test_it_cannot(attempts, attempt):
    assert attempts[attempt] != "done"


@pytest.fixture(scope="module")
def control():
    return outside("attempts")


@pytest.mark.parametrize("attempt", netlinks.ATTEMPTS)
def test_with_capabilities_it_could(control, attempt):
    assert control[attempt] == "done"


def test_no_connection_is_tracked(daemon, box):
    assert inside(daemon, box, "scatter") < TRACKED_AT_MOST


def test_tracked_connections_would_be_many():
    assert outside("tracked", "scatter") > TRACKED_AT_MOST
