"""What the tests of paused and stopped sandboxes share: a daemon to be killed, and a look at the host."""

import contextlib
import time
from pathlib import Path

import pytest

import conftest
import daemons
from boxes import Box
from conftest import wait_until
from rest import Rest

__all__ = ["Box"]


def boot_id(box):
    return box.out("cat /proc/sys/kernel/random/boot_id")


def count(box, exec_id):
    """How far a counter got, by the journal."""
    return len(box.output(exec_id).split())


def advances(box, exec_id, seconds=30):
    before = count(box, exec_id)
    wait_until(lambda: count(box, exec_id) > before, seconds, lambda: "the counter stands still")


def stands_still(box, exec_id, seconds=20):
    """Whether it comes to a stop: what was on its way when it was frozen may still come in."""
    until = time.monotonic() + seconds
    before = count(box, exec_id)
    while time.monotonic() < until:
        time.sleep(0.3)
        if (now := count(box, exec_id)) == before:
            return True
        before = now
    return False


COUNTER = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done"


@contextlib.contextmanager
def mortal_daemon(**environment):
    """A daemon of our own, to be stopped and killed, with a client. Leaks are looked for at its end."""
    with conftest.running(conftest.BUILD, **environment) as daemon:
        daemon.rest = Rest(daemon.socket)
        yield daemon


def kill_daemon(daemon):
    daemon.process.kill()
    daemon.process.wait()


def terminate_daemon(daemon):
    daemon.process.terminate()
    assert daemon.process.wait(30) == 0


def spawn_pid(daemon):
    """The atoll-spawn that serves the daemon's state directory."""
    found = daemons.spawn_of(daemon.state)
    assert found, "no atoll-spawn found"
    return found


def loop_devices(name):
    """Loop devices whose image has that in its name. Those of others come and go meanwhile."""
    found = []
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if name in file.read_text():
                found.append(file.parts[3])
    return found


def agent_of(box_id):
    """The first process of a sandbox, on the host. Ids of processes start over, so it may not be the
    lowest of its cgroup."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            inner = [line for line in (entry / "status").read_text().splitlines()
                     if line.startswith("NSpid:")]
            if box_id in (entry / "cgroup").read_text() and inner[0].split()[-1] == "1":
                return int(entry.name)
    pytest.skip("the agent of this sandbox cannot be told by its cgroup here")


def freezer_state(box_id):
    """FROZEN or THAWED, on v1 and v2."""
    states = (daemons.freezer_state(path) for path in conftest.cgroups() if path.name == box_id)
    return next(filter(None, states), None)


def leftovers(daemon, box_id):
    """What of a destroyed sandbox the host still has."""
    left = [str(path) for path in conftest.cgroups() if path.name == box_id]
    left += [str(path) for path in daemons.below(daemon.state) if path.name.startswith(box_id)
             and path.parent.name != "ended"]
    left += loop_devices(box_id)
    left += [f"pool/{name}" for name in daemons.in_pool(daemon.state) if box_id in name]
    return left
