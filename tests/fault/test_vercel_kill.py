"""kill -9 of the daemon while clients of Vercel use it: sandboxes, sessions, commands and snapshots stay."""

import threading
import time

import pytest
from conftest import BUILD, need_build, running
from rest import Rest

V2 = "/vercel/api/v2/sandboxes"


@pytest.fixture
def mortal():
    need_build()
    with running(BUILD) as daemon:
        yield daemon


def die(daemon):
    daemon.process.kill()
    daemon.process.wait()
    daemon.start()
    return Rest(daemon.socket)


def create(rest, **fields):
    answer = rest.post(V2, fields)
    assert answer.status == 200, answer.body
    return answer.json


def run(rest, sid, script):
    answer = rest.post(f"{V2}/sessions/{sid}/cmd", {"command": "sh", "args": ["-c", script], "wait": True,
                                                    "logs": True})
    assert answer.status == 200, answer.body
    return "".join(line["data"] for line in answer.lines if line.get("stream") == "stdout")


def test_a_session_and_its_command_continue(mortal):
    rest = Rest(mortal.socket)
    made = create(rest, name="lasting", tags={"a": "b"}, ports=[3000], networkPolicy={"mode": "deny-all"})
    sid = made["session"]["id"]
    path = f"{V2}/sessions/{sid}"
    command = rest.post(f"{path}/cmd", {"command": "sh", "args": [
        "-c", "echo first; until test -e go; do sleep 0.05; done; echo last"]}).json["command"]
    rest = die(mortal)
    again = rest.get(f"{V2}/lasting").json
    for name in ("sandbox", "session", "routes"):
        assert again[name] == made[name]
    assert rest.post(f"{path}/fs/mkdir", {"path": "/vercel/sandbox/go"}).status == 200
    ended = rest.get(f"{path}/cmd/{command['id']}?wait=true").json["command"]
    assert ended["exitCode"] == 0
    logs = rest.get(f"{path}/cmd/{command['id']}/logs").lines
    assert "".join(line["data"] for line in logs) == "first\nlast\n"


def test_stopped_sandboxes_and_snapshots_stay(mortal):
    rest = Rest(mortal.socket)
    made = create(rest, name="kept")
    run(rest, made["session"]["id"], "echo one >file")
    snapshot = rest.post(f"{V2}/sessions/{made['session']['id']}/stop").json["snapshot"]
    rest = die(mortal)
    assert rest.get(f"{V2}/kept").json["sandbox"]["currentSnapshotId"] == snapshot["id"]
    assert rest.get(f"{V2}/snapshots/{snapshot['id']}").json["snapshot"] == snapshot
    resumed = rest.get(f"{V2}/kept?resume=true").json
    assert resumed["resumed"] is True
    assert run(rest, resumed["session"]["id"], "cat file") == "one\n"
    assert len(rest.get(f"{V2}/sessions?name=kept").json["sessions"]) == 2


@pytest.mark.parametrize("delay", [0, 0.01, 0.03, 0.1])
def test_a_stop_that_the_daemon_does_not_survive(mortal, delay):
    """Whatever it had done of the stop, the files are there and the next session has them."""
    rest = Rest(mortal.socket)
    made = create(rest, name="torn")
    path = f"{V2}/sessions/{made['session']['id']}"
    run(rest, made["session"]["id"], "echo one >file && sync")

    def stop():
        try:
            rest.post(f"{path}/stop")
        except OSError:
            pass  # the daemon died

    asked = threading.Thread(target=stop)
    asked.start()
    time.sleep(delay)
    rest = die(mortal)
    asked.join()
    view = rest.get(f"{V2}/torn?resume=true")
    assert view.status == 200, view.body
    assert view.json["session"]["status"] == "running"
    assert run(rest, view.json["session"]["id"], "cat file") == "one\n"
    assert rest.delete(f"{V2}/torn?deleteOrphanSnapshots=true").status == 200


@pytest.mark.parametrize("delay", [0, 0.01, 0.05])
def test_a_create_that_the_daemon_does_not_survive(mortal, delay):
    """The name is free, or it is that of a sandbox that works."""
    rest = Rest(mortal.socket)

    def make():
        try:
            rest.post(V2, {"name": "torn"})
        except OSError:
            pass  # the daemon died

    asked = threading.Thread(target=make)
    asked.start()
    time.sleep(delay)
    rest = die(mortal)
    asked.join()
    view = rest.get(f"{V2}/torn?resume=true")
    if view.status == 404:
        view = rest.post(V2, {"name": "torn"})
    assert view.status == 200, view.body
    assert run(rest, view.json["session"]["id"], "echo works") == "works\n"
