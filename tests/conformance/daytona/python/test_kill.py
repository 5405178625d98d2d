"""kill -9 of the daemon while the SDK works: the SDK connects again, and nothing is lost."""

import contextlib
import sys
import threading
import time
from pathlib import Path

import pytest
from daytona import CreateSandboxFromSnapshotParams, Daytona, DaytonaConfig, DaytonaError

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mortal import kill_and_restart, mortal_daemon  # noqa: E402


def wait_for(condition, what, seconds=40):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


@pytest.fixture(scope="module")
def mortal():
    """A daemon of our own, and a client of it."""
    with mortal_daemon() as (daemon, url, key):
        yield daemon, Daytona(DaytonaConfig(api_url=url, api_key=key))


@pytest.fixture
def box(mortal):
    _, daytona = mortal
    sandbox = daytona.create(CreateSandboxFromSnapshotParams(labels={"kept": "yes"}, env_vars={"A": "b"}))
    sandbox.process.exec("echo kept > file")
    yield sandbox
    sandbox.delete()


def test_sandboxes_stay_what_they_are(mortal, box):
    daemon, daytona = mortal
    box.set_autostop_interval(77)
    kill_and_restart(daemon)
    again = daytona.get(box.id)
    assert again.state == "started" and again.labels["kept"] == "yes"
    assert again.auto_stop_interval == 77
    assert again.process.exec("cat file; echo $A").result.split() == ["kept", "b"]


def test_a_stopped_sandbox_stays_stopped(mortal, box):
    daemon, daytona = mortal
    box.stop()
    box.archive()
    kill_and_restart(daemon)
    assert daytona.get(box.id).state == "archived"
    box.start()
    assert box.process.exec("cat file").result.strip() == "kept"


def test_events_come_after_the_kill(mortal, box):
    """The state of the object changes by an event: it asks for nothing."""
    daemon, daytona = mortal
    kill_and_restart(daemon)
    other = daytona.get(box.id)  # subscribes to the same sandbox
    wait_for(lambda: toggled(other, box), "no event after the daemon was killed")


def toggled(other, box):
    """Stops and starts it by one object; whether the other one has seen both."""
    seen = []
    for change, state in ((other.stop, "stopped"), (other.start, "started")):
        change()
        end = time.monotonic() + 1
        while box.state != state and time.monotonic() < end:
            time.sleep(0.01)
        seen.append(box.state == state)
    return all(seen)


@pytest.mark.parametrize("call", ["exec", "stop", "start"])
def test_killed_during(mortal, box, call):
    """The call may fail, with an error of the SDK; the sandbox is in one of its states, and usable."""
    daemon, daytona = mortal
    if call == "start":
        box.stop()

    def act():
        with contextlib.suppress(DaytonaError):
            if call == "exec":
                box.process.exec("sleep 0.3; echo ran >> file", timeout=5)
            else:
                getattr(box, call)(timeout=10)

    thread = threading.Thread(target=act)
    thread.start()
    time.sleep(0.02)
    kill_and_restart(daemon)
    thread.join(30)
    assert not thread.is_alive()
    again = daytona.get(box.id)
    assert again.state in ("started", "stopped")
    again.start()
    assert again.process.exec("head -n 1 file").result.strip() == "kept"
