"""Daemons that are told to end while much is going on: each ends in order, and what still calls back finds
all that it needs. Most is to be seen in the sanitized build."""

import contextlib
import http.client
import inspect
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

import walking
from daemons import BUILD, ROOT, SLACK, need_build, running, wait_until
from errands import ERRANDS, HOST_FOLDER
from rest import Rest
from walking import Refused

sys.path.append(str(ROOT / "tests" / "integration"))
from mcp_client import Mcp  # noqa: E402

ROUNDS = int(os.environ.get("ATOLL_END_ROUNDS", 60 if os.environ.get("ATOLL_FAULTS") == "all" else 2))
GONE = (OSError, http.client.HTTPException)
ASK = {"rules": [{"decision": "ask", "command": "touch *"}]}
SOON = "sleep 0.$((RANDOM % 5)); seq 2000; exec sleep $((RANDOM % 3 * 10))"
ENDS = "python3 -c 'import random,time; time.sleep(random.random())'; echo done"
STREAM = {"Accept": "application/json, text/event-stream"}


class Client:
    """Does one thing after the other until the daemon is gone."""

    def __init__(self, daemon, number):
        self.rest = Rest(daemon.socket)
        self.chance = random.Random(number)
        self.boxes = []

    def run(self):
        while True:
            try:
                if self.chance.random() < 0.5:
                    getattr(self, self.chance.choice(OWN))()
                else:
                    self.errand(*self.chance.choice(OTHERS))
            except GONE:
                return  # the end of the daemon
            except Refused as refused:
                if refused.status == 0:
                    return
            except (AssertionError, LookupError, TypeError, ValueError):
                pass  # several clients are in each other's way

    def errand(self, needs, function):
        client = walking.Client(self.rest.address)
        function(None, client, needs(None, client) if needs else None)

    def box(self, **more):
        if not more and self.boxes and self.chance.random() < 0.6:
            return self.chance.choice(self.boxes)
        answer = self.rest.post("/api/sandboxes", more)
        if answer.status != 201:
            raise Refused("a sandbox", 0 if answer.status == 503 else answer.status, answer.body)
        self.boxes = [*self.boxes[-3:], answer.json["id"]]
        return answer.json["id"]

    def leave(self, method, path, body=None, headers=None, **query):
        """Goes away before the answer, now and then."""
        rest = Rest(self.rest.address)
        if self.chance.random() < 0.5:
            return rest.call(method, path, body, headers, **query)
        connection = rest.connection(self.chance.random())
        try:
            connection.request(method, f"{path}{'?wait=true' if 'wait' in query else ''}",
                               json.dumps(body) if body is not None else None, headers or {})
            connection.getresponse().read()
        except TimeoutError:
            pass
        finally:
            connection.close()
        return None

    # Errands that this file has.

    def command(self):
        self.leave("POST", f"/api/sandboxes/{self.box()}/execs", {"cmd": ["bash", "-c", SOON]}, wait="true")

    def checkpoints(self):
        box = self.box(checkpoints="command")
        for n in range(3):
            self.leave("POST", f"/api/sandboxes/{box}/execs", {"cmd": ["sh", "-c", f"echo {n} >file{n}"]}, wait="true")
        self.leave("GET", f"/api/sandboxes/{box}/history")
        self.leave("POST", f"/api/sandboxes/{box}/undo", {})

    def interpreter(self):
        box = self.box()
        made = self.rest.post(f"/api/sandboxes/{box}/contexts", {"language": "python"})
        if made.status == 201:
            path = f"/api/sandboxes/{box}/contexts/{made.json['context_id']}/execute"
            self.leave("POST", path, {"code": "import time\nfor i in range(40): print(i); time.sleep(0.02)"})

    def session(self):
        made = self.rest.post("/api/sessions", {"environment": "Python"})
        if made.status in (200, 201):
            self.leave("POST", f"/api/sessions/{made.json['session_id']}/execute", {"language": "python", "code": "print(1)"})

    def fork(self):
        self.leave("POST", f"/api/sandboxes/{self.box()}/fork", {"count": 2})

    def snapshot(self):
        self.leave("POST", f"/api/sandboxes/{self.box()}/snapshots", {})

    def stop_and_resume(self):
        box = self.box(persistent=True)
        self.leave("POST", f"/api/sandboxes/{box}/{self.chance.choice(['stop', 'pause'])}")
        self.leave("POST", f"/api/sandboxes/{box}/resume")

    def files(self):
        box, size = self.box(), self.chance.choice([10, 3000000])
        self.rest.call("PUT", f"/api/sandboxes/{box}/files", b"x" * size, path="/tmp/file")
        self.leave("GET", f"/api/sandboxes/{box}/files?path=/tmp/file")
        self.leave("POST", f"/api/sandboxes/{box}/tools/Read", {"file_path": "/tmp/file"})
        self.leave("POST", f"/api/sandboxes/{box}/tools/Write", {"file_path": "/tmp/other", "content": "y" * size})

    def task(self):
        self.leave("POST", "/api/tasks", {"agent": "shell", "instruction": self.chance.choice([SOON, ENDS]),
                                          "captureFiles": True, "autoCleanup": self.chance.random() < 0.5},
                   wait="true")

    def swarm(self):
        one = {"agent": "shell", "instruction": ENDS, "autoCleanup": True}
        self.leave("POST", "/api/swarms", {"memory": {"a": 1}, "leaseSeconds": self.chance.choice([1, 60]), "tasks": [
            {**one, "name": "first"}, one, {**one, "dependsOn": ["first"]}]}, wait="true")

    def approval(self):
        box = self.box(toolPolicy=ASK)
        self.leave("POST", f"/api/sandboxes/{box}/tools/Bash", {"command": "touch x"})
        self.leave("POST", f"/api/sandboxes/{box}/tools/Bash", {"command": SOON})

    def try_three(self):
        self.leave("POST", f"/api/sandboxes/{self.box()}/try", {"count": 2, "cmd": ["sh", "-c", "echo 1 >a"]})

    def mcp(self):
        mcp = Mcp(self.rest)
        mcp.begin()
        name, arguments = self.chance.choice([
            ("run_command", {"command": SOON}), ("run_code", {"code": "import time; time.sleep(1)"}),
            ("task_run", {"instruction": SOON, "agent": "shell"}),
            ("search_files", {"pattern": "x", "path": "/usr/share"})])
        message = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {
            "name": name, "arguments": arguments, "_meta": {"progressToken": 1}}}
        self.leave("POST", "/mcp", message, {**STREAM, "Mcp-Session-Id": mcp.session})

    def listen(self):
        mcp = Mcp(self.rest)
        mcp.begin()
        self.leave("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {
            "uri": f"atoll://{self.box()}/tmp/x"}}, {"Mcp-Session-Id": mcp.session})
        self.leave("GET", "/mcp", None, {**STREAM, "Mcp-Session-Id": mcp.session})

    def events(self):
        self.leave("GET", "/api/events", None, {"Accept": "text/event-stream"})

    def destroy(self):
        self.leave("DELETE", f"/api/sandboxes/{self.box()}")


OWN = [name for name, member in vars(Client).items()
       if callable(member) and name not in ("__init__", "run", "errand", "box", "leave")]
# Those of the walk that need no more of it than a client.
OTHERS = [(needs, function) for needs, function, world in ERRANDS.values() if world == "plain" and not any(
    "walk." in inspect.getsource(one) for one in (needs, function) if one)]


def ends(daemon, what):
    """In order, and without a word of a sanitizer."""
    daemon.process.send_signal(signal.SIGTERM)
    try:
        status = daemon.process.wait(60 * SLACK)
    except subprocess.TimeoutExpired:
        daemon.process.send_signal(signal.SIGABRT)
        daemon.process.wait(10)
        status = "nothing: it did not end"
    assert status == 0 and not daemon.reports(), f"{what}: it ended with {status}:\n{daemon.log_tail(80)}"


def unheard(ask, *args, **kwargs):
    """Requests until the end of the daemon prevents the answer."""
    with contextlib.suppress(*GONE, AssertionError, KeyError, ValueError):
        while True:
            ask(*args, **kwargs)


def end_in_the_middle(daemon, number):
    """Its clients are stopped by its end."""
    chance = random.Random(number)
    clients = [Client(daemon, number * 100 + i) for i in range(8)]
    threads = [threading.Thread(target=client.run, daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    time.sleep(chance.random() * 3 * SLACK)  # the moment is the test
    ends(daemon, f"round {number}")
    for thread in threads:
        thread.join(90 * SLACK)


@pytest.fixture
def daemon():
    need_build()
    # What is not freed at such an end is no fault.
    with running(BUILD, ATOLL_DISKS="auto", ATOLL_HOST_FOLDERS=HOST_FOLDER, ASAN_OPTIONS="detect_leaks=0") as started:
        yield started


def test_a_tool_waits_for_a_task(daemon):
    """The call outlived the API that it was of."""
    rest = Rest(daemon.socket)
    mcp = Mcp(rest)
    mcp.begin()
    call = threading.Thread(target=unheard, args=(mcp.tool, "task_run"),
                            kwargs={"instruction": "sleep 60", "agent": "shell"})
    call.start()
    wait_until(lambda: [one for one in rest.get("/api/tasks").json["tasks"] if one["step"] == "run"], 30,
               lambda: rest.get("/api/tasks").body)
    ends(daemon, "a tool that waits for a task")
    call.join(30 * SLACK)


def test_files_are_read(daemon):
    """Workers that read a file ended after all that waited for it was freed."""
    for _ in range(2):
        rest = Rest(daemon.socket)
        box = rest.post("/api/sandboxes", {}).json["id"]
        assert rest.call("PUT", f"/api/sandboxes/{box}/files", b"x" * 7900000, path="/tmp/file").status == 200
        mcp = Mcp(rest)
        mcp.begin()
        readers = [threading.Thread(target=unheard, args=(mcp.ask, "resources/read"),
                                    kwargs={"uri": f"atoll://{box}/tmp/file"}) for _ in range(6)]
        for reader in readers:
            reader.start()
        time.sleep(0.3 * SLACK)  # the moment is the test
        ends(daemon, "readers of files")
        for reader in readers:
            reader.join(30 * SLACK)
        daemon.start()


def test_at_any_moment(daemon):
    first = int(os.environ.get("ATOLL_END_FIRST", random.randrange(1 << 20)))
    for number in range(first, first + ROUNDS):
        end_in_the_middle(daemon, number)
        daemon.env["ATOLL_POOL"] = str(number % 3)
        daemon.start()
