"""Fixtures for every test that needs a running daemon.

`daemon` and `rootless_daemon` start the real binaries (ATOLL_BUILD, default build/) on a state
directory of their own; `sandbox` is the id of a fresh sandbox. When a daemon stops, the fixture
looks for what it left behind, so any test that uses it is a leak test too.
"""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from daemons import (BUILD, ROOT, Daemon, alive, cgroups, descendants, ensure_rootless_user,
                     need_build, running, start_time, wait_until)

# Tests may say `from conftest import ...` for all of these.
__all__ = ["BUILD", "ROOT", "Daemon", "alive", "cgroups", "descendants", "need_build", "running",
           "running_rootless",
           "start_time", "wait_until"]


def as_long_as_room_allows(fixture_name, config):
    """Where several run tests, each has a daemon for one file at a time: ids of a host are few."""
    return "module" if "PYTEST_XDIST_WORKER" in os.environ else "session"


@pytest.fixture(scope=as_long_as_room_allows)
def daemon():
    need_build()
    with running(BUILD) as started:
        yield started


@pytest.fixture
def sandbox(daemon):
    name = daemon.create()
    yield name
    daemon.atoll("rm", name)


@contextlib.contextmanager
def running_rootless(**environment):
    """A daemon of an ordinary user. The binaries are copied to where that user can run them."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a daemon as another user")
    need_build()
    user = ensure_rootless_user()
    copies = Path(tempfile.mkdtemp(prefix="atoll-bin-", dir="/tmp"))
    copies.chmod(0o755)
    try:
        for binary in BUILD.glob("atoll*"):
            if binary.is_file() and os.access(binary, os.X_OK):
                shutil.copy2(binary, copies)
        with running(copies, user, **environment) as started:
            yield started
    finally:
        shutil.rmtree(copies, ignore_errors=True)


@pytest.fixture(scope="session")
def rootless_daemon():
    with running_rootless() as started:
        yield started
