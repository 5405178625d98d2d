"""kill -9 of the daemon while clients of Vercel use it: sandboxes, sessions, commands and snapshots stay."""

import http.client
import json
import threading
import time

import pytest
from conftest import BUILD, need_build, running, wait_until
from rest import Rest, WebSocket

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


WAITS = "echo first; until test -e go; do sleep 0.05; done; echo last; exit 3"


class Stream:
    """The lines of an answer that has not ended."""

    def __init__(self, rest, method, path, body=None):
        self.connection = rest.connection()
        self.connection.request(method, path, body and json.dumps(body))
        self.response = self.connection.getresponse()
        assert self.response.status == 200

    def line(self):
        """The next one that is not there only to keep the connection; None: the answer has been cut."""
        while True:
            try:
                line = self.response.readline()
            except (http.client.HTTPException, OSError):
                return None
            if line.strip() or not line:
                return json.loads(line) if line.endswith(b"\n") else None


def text_of(lines):
    return "".join(line["data"] for line in lines if line.get("stream") == "stdout")


@pytest.mark.parametrize("attached", [True, False], ids=["attached", "logs"])
def test_a_stream_that_is_cut_says_no_end(mortal, attached):
    """Neither an exit status nor an end of the output; both are there when the client asks the next daemon."""
    rest = Rest(mortal.socket)
    made = create(rest)
    path = f"{V2}/sessions/{made['session']['id']}"
    command = {"command": "sh", "args": ["-c", WAITS]}
    if attached:
        stream = Stream(rest, "POST", f"{path}/cmd", {**command, "wait": True, "logs": True})
        cid = stream.line()["command"]["id"]
    else:
        cid = rest.post(f"{path}/cmd", command).json["command"]["id"]
        stream = Stream(rest, "GET", f"{path}/cmd/{cid}/logs")
    assert stream.line() == {"stream": "stdout", "data": "first\n"}
    rest = die(mortal)
    with pytest.raises(http.client.IncompleteRead):
        assert stream.response.read() == b""  # a whole answer without the end of the command would be a lie
        raise AssertionError("the answer ended as if it were whole")
    again = Stream(rest, "GET", f"{path}/cmd/{cid}/logs")
    assert again.line() == {"stream": "stdout", "data": "first\n"}
    assert rest.post(f"{path}/fs/mkdir", {"path": "/vercel/sandbox/go"}).status == 200
    assert again.line() == {"stream": "stdout", "data": "last\n"}
    assert rest.get(f"{path}/cmd/{cid}?wait=true").json["command"]["exitCode"] == 3
    assert text_of(rest.get(f"{path}/cmd/{cid}/logs").lines) == "first\nlast\n"


class Terminal(WebSocket):
    def __init__(self, rest, path):
        opened = rest.post(f"{path}/interactive", {}).json
        super().__init__(rest.socket(), f"/{opened['url'].split('/', 3)[3]}?token={opened['token']}", {})

    def start(self, script, until):
        self.send({"type": "start", "command": "sh", "args": ["-c", script], "env": []})
        while until not in self.recv()[1]:
            pass


def test_a_terminal_that_was_cut(mortal):
    """Its command continues, as every command does; it is listed and can be ended, and the next terminal works."""
    rest = Rest(mortal.socket)
    made = create(rest)
    sid = made["session"]["id"]
    path = f"{V2}/sessions/{sid}"
    with Terminal(rest, path) as terminal:
        terminal.start("echo ready; exec sleep 4321", b"ready")
        rest = die(mortal)
    box = sid.removeprefix("sbx_").split("_")[0]
    (left,) = [each for each in rest.get(f"/api/sandboxes/{box}/execs").json["execs"] if each["state"] == "running"]
    assert rest.post(f"{path}/cmd/cmd_{left['exec_id']}/kill", {"signal": 15}).status == 200
    wait_until(lambda: run(rest, sid, "ps -eo args | grep -c '[s]leep 4321' || true") == "0\n", 20, lambda: "it runs")
    with Terminal(rest, path) as terminal:
        terminal.start("echo again", b"again")


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


def cut(daemon, rest, path, body, delay, method="POST"):
    """A request whose daemon is killed; the client of the next one."""
    def ask():
        try:
            rest.call(method, path, body)
        except OSError:
            pass  # the daemon died

    asked = threading.Thread(target=ask)
    asked.start()
    time.sleep(delay)
    again = die(daemon)
    asked.join()
    return again


@pytest.mark.parametrize("delay", [0, 0.01, 0.03, 0.1])
@pytest.mark.parametrize("what", ["stop", "snapshot"])
def test_an_end_of_a_session_that_the_daemon_does_not_survive(mortal, what, delay):
    """Whatever it had done of it, the files are there and the next session has them, as have forks and each snapshot
    that is listed."""
    rest = Rest(mortal.socket)
    made = create(rest, name="torn")
    run(rest, made["session"]["id"], "echo one >file && sync")
    rest = cut(mortal, rest, f"{V2}/sessions/{made['session']['id']}/{what}", {}, delay)
    if rest.get(f"{V2}/torn").json["sandbox"]["status"] == "stopped":
        fork = rest.post(f"{V2}/torn/fork", {"name": "fork"})
        assert fork.status == 200, fork.body
        assert run(rest, fork.json["session"]["id"], "cat file") == "one\n"
    view = rest.get(f"{V2}/torn?resume=true")
    assert view.status == 200, view.body
    assert view.json["session"]["status"] == "running"
    assert run(rest, view.json["session"]["id"], "cat file") == "one\n"
    for snapshot in rest.get(f"{V2}/snapshots?name=torn").json["snapshots"]:
        other = create(rest, source={"type": "snapshot", "snapshotId": snapshot["id"]})
        assert run(rest, other["session"]["id"], "cat file") == "one\n"
    assert rest.delete(f"{V2}/torn?deleteOrphanSnapshots=true").status == 200


@pytest.mark.parametrize("delay", [0, 0.01, 0.03, 0.1])
def test_a_fork_that_the_daemon_does_not_survive(mortal, delay):
    """It first takes a snapshot of its source. Its name is free, or it is that of a sandbox with the files."""
    rest = Rest(mortal.socket)
    made = create(rest, name="source")
    run(rest, made["session"]["id"], "echo one >file && sync")
    assert rest.post(f"/api/sandboxes/{made['session']['id'].removeprefix('sbx_')}/stop").status == 200
    rest = cut(mortal, rest, f"{V2}/source/fork", {"name": "torn"}, delay)
    view = rest.get(f"{V2}/torn?resume=true")
    if view.status == 404:
        view = rest.post(f"{V2}/source/fork", {"name": "torn"})
    assert view.status == 200, view.body
    assert run(rest, view.json["session"]["id"], "cat file") == "one\n"
    again = rest.get(f"{V2}/source?resume=true").json
    assert run(rest, again["session"]["id"], "cat file") == "one\n"


@pytest.mark.parametrize("delay", [0, 0.01, 0.05])
def test_a_create_that_the_daemon_does_not_survive(mortal, delay):
    """The name is free, or it is that of a sandbox that works."""
    rest = Rest(mortal.socket)
    rest = cut(mortal, rest, V2, {"name": "torn"}, delay)
    view = rest.get(f"{V2}/torn?resume=true")
    if view.status == 404:
        view = rest.post(V2, {"name": "torn"})
    assert view.status == 200, view.body
    assert run(rest, view.json["session"]["id"], "echo works") == "works\n"


def snapshots(rest):
    return [each["id"] for each in rest.get(f"{V2}/snapshots").json["snapshots"] if each["status"] == "created"]


@pytest.mark.parametrize("delay", [0, 0.01, 0.03, 0.1, None])
def test_a_delete_that_the_daemon_does_not_survive(mortal, delay):
    """What is left of it goes: also a snapshot whose sandbox is gone, with the next sandbox that is deleted, at the
    latest within a minute. delay None: it had destroyed the sandbox, and nothing more."""
    rest = Rest(mortal.socket)
    made = create(rest, name="torn")
    create(rest, name="other")
    assert rest.post(f"{V2}/sessions/{made['session']['id']}/stop").status == 200
    assert len(snapshots(rest)) == 1
    if delay is None:
        assert rest.delete(f"/api/sandboxes/{made['session']['id'].removeprefix('sbx_')}").status == 204
        rest = die(mortal)
        assert len(snapshots(rest)) == 1
    else:
        rest = cut(mortal, rest, f"{V2}/torn", None, delay, "DELETE")
    wait_until(lambda: rest.delete(f"{V2}/torn").status == 404, 20, lambda: "it is not gone")
    assert rest.delete(f"{V2}/other").status == 200
    wait_until(lambda: snapshots(rest) == [], 20, lambda: str(snapshots(rest)))
