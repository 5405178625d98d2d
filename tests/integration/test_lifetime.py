"""What ends a sandbox besides its owner, what it may use in all, and what survives the daemon."""

import concurrent.futures
import json
import os
import re
import signal
import threading
import time
import uuid

import pytest

import conftest
from conftest import wait_until
from daemons import SLACK
from rest import Rest

SPIN = ["sh", "-c", "while :; do :; done"]


@pytest.fixture(scope="module")
def mortal():
    """A daemon of our own, to be killed."""
    with conftest.running(conftest.BUILD) as daemon:
        yield daemon


@pytest.fixture
def rest(mortal):
    yield Rest(mortal.socket)
    Rest(mortal.socket).delete("/api/sandboxes")


def kill_and_restart(daemon):
    daemon.process.kill()
    daemon.process.wait()
    daemon.start()


def create(rest, limits=None, **lifetime):
    answer = rest.post("/api/sandboxes", {"lifetime": lifetime, "limits": limits or {}})
    assert answer.status == 201, answer.body
    return answer.json["id"]


def state(rest, sandbox):
    answer = rest.get(f"/api/sandboxes/{sandbox}", ended="false")
    return answer.json["state"] if answer.status == 200 else None


def wait_gone(rest, sandbox, seconds=30):
    wait_until(lambda: state(rest, sandbox) is None, seconds,
               lambda: f"{sandbox} is still {state(rest, sandbox)}")


def start(rest, sandbox, *cmd):
    answer = rest.post(f"/api/sandboxes/{sandbox}/execs", {"cmd": cmd})
    assert answer.status == 201, answer.body
    return answer.json["exec_id"]


def run(rest, sandbox, *cmd):
    answer = rest.post(f"/api/sandboxes/{sandbox}/execs", {"cmd": cmd}, wait="true")
    assert answer.status == 200, answer.body
    return answer.json


def result(rest, sandbox, exec_id):
    """How a command ended, once it has."""
    path = f"/api/sandboxes/{sandbox}/execs/{exec_id}"
    wait_until(lambda: rest.get(path).json["state"] == "ended", 30, lambda: "it still runs")
    return rest.get(path).json["result"]


def events(rest, after=0):
    """All events that are kept, up to one that is made for that."""
    last = create(rest)
    connection = rest.connection()
    connection.request("GET", f"/api/events?after={after}", headers={"Accept": "text/event-stream"})
    response = connection.getresponse()
    found = []
    while not found or found[-1]["sandbox_id"] != last:
        line = response.readline()
        assert line, "the events have come to an end"
        if line.startswith(b"data:"):
            found.append(json.loads(line[5:]))
    connection.close()
    rest.delete(f"/api/sandboxes/{last}")
    return found[:-1]


def event(rest, kind, sandbox):
    return next((e for e in events(rest) if e["kind"] == kind and e["sandbox_id"] == sandbox), None)


# What ends a sandbox.

def test_fields_are_shown(rest):
    asked = {"idleSeconds": 100, "leaseSeconds": 200, "leaseConnection": False, "cpuSeconds": 300,
             "outputBytes": 400, "onDeadline": "pause"}
    shown = rest.get(f"/api/sandboxes/{create(rest, **asked)}").json
    assert shown["lifetime"] == asked
    assert shown["persistent"] is False
    assert shown["spent"]["outputBytes"] == 0
    plain = rest.get(f"/api/sandboxes/{create(rest)}").json["lifetime"]
    assert plain == {"idleSeconds": 0, "leaseSeconds": 0, "leaseConnection": False, "cpuSeconds": 0,
                     "outputBytes": 0, "onDeadline": "destroy"}


@pytest.mark.parametrize("lifetime, said", [
    ({"onDeadline": "sleep"}, "onDeadline"),
    ({"idleSeconds": -1}, "idleSeconds"),
    ({"idle": 1}, "idle"),
])
def test_bad_fields(rest, lifetime, said):
    answer = rest.post("/api/sandboxes", {"lifetime": lifetime})
    assert answer.status == 400 and said in answer.error["message"]


def test_idle(rest):
    busy = create(rest, idleSeconds=2)
    exec_id = start(rest, busy, "sh", "-c", "read line")  # no input: ends at once
    result(rest, busy, exec_id)
    start(rest, busy, "sleep", "4")
    asked = create(rest, idleSeconds=2)
    done = threading.Event()

    def ask():
        while not done.wait(0.1):
            assert rest.get(f"/api/sandboxes/{asked}/files/stat", path="/etc").status == 200

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        control, idle = create(rest), create(rest, idleSeconds=1)
        watched = create(rest, idleSeconds=1)

        # Looking at the figures is no use of it.
        def gone():
            rest.get(f"/api/sandboxes/{watched}/stats")
            return state(rest, idle) is None and state(rest, watched) is None
        wait_until(gone, 30, lambda: "idle sandboxes live")
        assert state(rest, busy) == state(rest, asked) == "running"
        wait_gone(rest, busy)  # once its command has ended
        assert state(rest, asked) == "running"
    finally:
        done.set()
        asking.join()
    wait_gone(rest, asked)
    assert state(rest, control) == "running"
    assert event(rest, "sandbox.expired", idle)["detail"] == "the sandbox's idle time"
    assert event(rest, "sandbox.expired", control) is None


KEEPING_SERVER = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"""


def test_requests_to_a_port_are_a_use(rest):
    """Each of them, though they share one connection."""
    sandbox = create(rest, idleSeconds=2)
    path = f"/api/sandboxes/{sandbox}"
    rest.put(f"{path}/files", KEEPING_SERVER.encode(), path="/home/user/server.py")
    run(rest, sandbox, "sh", "-c", "setsid python3 server.py >/dev/null 2>&1 & true")
    token = rest.post(f"{path}/previews", {"port": 8000}).json["token"]

    def visit():
        return rest.call("GET", f"/preview/{sandbox}/8000/", None,
                         {"X-Atoll-Preview-Token": token}).status

    wait_until(lambda: visit() == 200, 30, lambda: f"the server says {visit()}")
    until = time.monotonic() + 3.5
    while time.monotonic() < until:
        assert visit() == 200
        time.sleep(0.1)
    wait_gone(rest, sandbox)


LASTING_SERVER = """
import socket, threading
def serve(client):
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        head += client.recv(65536)
    if b"upgrade: test" in head.lower():
        client.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: test\\r\\n\\r\\n")
    else:
        client.sendall(b"HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n1\\r\\na\\r\\n")
    while client.recv(65536):
        pass
listener = socket.create_server(("127.0.0.1", 8000))
while True:
    threading.Thread(target=serve, args=listener.accept()[:1]).start()
"""


def test_a_connection_to_a_port_is_a_use_until_its_end(rest):
    """A long answer, and a connection that was upgraded."""
    boxes, open_ones = [create(rest, idleSeconds=2) for _ in range(2)], []
    for sandbox, status, header in zip(boxes, (200, 101), ("", "Connection: Upgrade\r\nUpgrade: test\r\n")):
        path = f"/api/sandboxes/{sandbox}"
        rest.put(f"{path}/files", LASTING_SERVER.encode(), path="/home/user/server.py")
        run(rest, sandbox, "sh", "-c", "setsid python3 server.py >/dev/null 2>&1 & true")
        token = rest.post(f"{path}/previews", {"port": 8000}).json["token"]
        request = f"GET /preview/{sandbox}/8000/ HTTP/1.1\r\nHost: a\r\nX-Atoll-Preview-Token: {token}\r\n{header}\r\n"

        def is_open():
            made = rest.socket(20)
            made.sendall(request.encode())
            if made.recv(65536).startswith(f"HTTP/1.1 {status} ".encode()):
                open_ones.append(made)
                return True
            made.close()
            return False

        wait_until(is_open, 30, lambda: "the server does not answer")
    wait_gone(rest, create(rest, idleSeconds=2))  # which was used after both
    assert [state(rest, sandbox) for sandbox in boxes] == ["running", "running"]
    for connection, sandbox in zip(open_ones, boxes):
        connection.close()
        wait_gone(rest, sandbox)


def test_a_lease_needs_heartbeats(rest):
    control, kept = create(rest), create(rest, leaseSeconds=2)
    forgotten = create(rest, leaseSeconds=2)
    answers = []
    waiting = threading.Thread(
        target=lambda: answers.append(run(rest, forgotten, "sleep", "60")))
    waiting.start()
    beat = f"/api/sandboxes/{kept}/heartbeat"

    def gone():
        assert rest.post(beat).status == 204
        return state(rest, forgotten) is None

    wait_until(gone, 30, lambda: "it outlives its lease")
    waiting.join()
    assert answers[0]["result"]["kind"] == "killed_by"
    assert answers[0]["result"]["who"] == "the lease ran out"
    assert state(rest, kept) == "running"
    wait_gone(rest, kept)
    assert state(rest, control) == "running"
    assert rest.post(f"/api/sandboxes/{control}/heartbeat").status == 409
    assert rest.post(beat).status == 404


def test_a_heartbeat_in_time_counts_when_the_daemon_was_stopped(mortal, rest):
    """It was sent before the lease ran out, and is read after; the deadline of the sandbox likewise."""
    leased = create(rest, leaseSeconds=3)
    bounded = create(rest, limits={"timeoutSeconds": 3})
    asks = [lambda: rest.post(f"/api/sandboxes/{leased}/heartbeat"),
            lambda: rest.post(f"/api/sandboxes/{bounded}/timeout", {"seconds": 60})]
    os.kill(mortal.pid, signal.SIGSTOP)
    try:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            answers = [pool.submit(ask) for ask in asks]
            time.sleep(5)
            os.kill(mortal.pid, signal.SIGCONT)
            assert [answer.result(30).status for answer in answers] == [204, 200]
    finally:
        os.kill(mortal.pid, signal.SIGCONT)
    assert state(rest, leased) == state(rest, bounded) == "running"
    wait_gone(rest, leased)
    rest.delete(f"/api/sandboxes/{bounded}")


def create_on(connection, path="/api/sandboxes", **body):
    connection.request("POST", path, json.dumps({"lifetime": {"leaseConnection": True}, **body}))
    answer = connection.getresponse()
    made = json.loads(answer.read())
    assert answer.status in (200, 201), made
    return made


def test_a_lease_of_the_connection(rest):
    mine, other = rest.connection(), rest.connection()
    first, second = create_on(mine)["id"], create_on(mine)["id"]
    run_kept = create_on(mine, "/api/run", cmd=["true"], keep=True)["sandbox_id"]
    control = create_on(other)["id"]
    mine.request("GET", f"/api/sandboxes/{first}")  # the connection goes on being used
    assert json.loads(mine.getresponse().read())["lifetime"]["leaseConnection"] is True
    rest.delete(f"/api/sandboxes/{second}")
    third = create_on(mine)["id"]
    for sandbox in (first, third, run_kept):
        assert state(rest, sandbox) == "running"
    mine.close()
    for sandbox in (first, third, run_kept):
        wait_gone(rest, sandbox)
    assert event(rest, "sandbox.expired", first)["detail"] == "its lease: the connection closed"
    assert state(rest, control) == "running"
    other.close()
    wait_gone(rest, control)


def test_sessions_have_a_lifetime_too(rest):
    mine = rest.connection()
    leased = create_on(mine, "/api/sessions", environment="Bash")["sandbox_id"]
    idle = rest.post("/api/sessions", {"environment": "Bash", "lifetime": {"idleSeconds": 1}}).json
    control = rest.post("/api/sessions", {"environment": "Bash"}).json
    assert idle["sandbox"]["lifetime"]["idleSeconds"] == 1
    wait_gone(rest, idle["sandbox_id"])
    assert rest.get(f"/api/sessions/{idle['session_id']}").json["end"] == "idle"
    assert state(rest, leased) == "running"
    mine.close()
    wait_gone(rest, leased)
    assert state(rest, control["sandbox_id"]) == "running"


def test_the_deadline(rest):
    short, control = create(rest, {"timeoutSeconds": 1}), create(rest, {"timeoutSeconds": 60})
    wait_gone(rest, short)
    assert event(rest, "sandbox.expired", short)["detail"] == "the sandbox's time limit"
    assert state(rest, control) == "running"


@pytest.mark.parametrize("why", ["deadline", "idle"])
def test_pause_instead_of_destroy(rest, why):
    limits, lifetime = ({"timeoutSeconds": 1}, {}) if why == "deadline" else ({}, {"idleSeconds": 1})
    sandbox = create(rest, limits, onDeadline="pause", **lifetime)
    files = f"/api/sandboxes/{sandbox}/files"

    def awake(ask):
        """The answer of one that runs, which is not for long."""
        while (answer := ask()).status == 409:
            assert rest.post(f"/api/sandboxes/{sandbox}/resume").status in (200, 204)
        return answer

    assert awake(lambda: rest.put(files, b"kept", path="/home/user/file")).status == 200
    wait_until(lambda: state(rest, sandbox) == "paused", 30, lambda: "it is not paused")
    assert awake(lambda: rest.get(files, path="/home/user/file")).body == b"kept"
    # Its time runs anew.
    wait_until(lambda: state(rest, sandbox) == "paused", 30, lambda: "it is not paused again")


def test_ends_are_counted(rest):
    text = rest.get("/metrics").body.decode()
    for cause in ("idle", "lease", "connection", "deadline", "request"):
        found = re.search(rf'atoll_sandboxes_ended_total{{cause="{cause}",how="destroyed"}} (\d+)', text)
        assert found and int(found[1]) > 0, cause


# Budgets.

def test_a_cpu_budget(rest):
    budget = max(2, round(SLACK / 2))  # not spent before the second command is there
    sandbox, control = create(rest, cpuSeconds=budget), create(rest, cpuSeconds=1000)
    rest.put(f"/api/sandboxes/{sandbox}/files", b"kept", path="/home/user/file")
    calm = start(rest, control, "sh", "-c", "while :; do :; done")
    # What a command left behind burns on, and is ended too.
    run(rest, sandbox, "sh", "-c", "(setsid sh -c 'unset ATOLL_EXEC; while :; do :; done' &) ; true")
    ended = run(rest, sandbox, *SPIN)["result"]
    assert ended["kind"] == "killed_by"
    assert ended["who"] == f"the sandbox's CPU budget of {budget} s is spent"
    refused = rest.post(f"/api/sandboxes/{sandbox}/execs", {"cmd": ["true"]})
    assert refused.status == 429 and refused.error["code"] == "resource_exhausted"
    assert f"CPU budget of {budget} s" in refused.error["message"] and "hint" in refused.error
    assert rest.get(f"/api/sandboxes/{sandbox}/files", path="/home/user/file").body == b"kept"
    wait_until(lambda: rest.get(f"/api/sandboxes/{sandbox}/stats").json["processes"]["count"] <= 1,
               30, lambda: "something still runs")
    shown = rest.get(f"/api/sandboxes/{sandbox}").json
    assert shown["state"] == "running" and shown["spent"]["cpuSeconds"] >= budget
    assert "CPU budget" in event(rest, "sandbox.budget_spent", sandbox)["detail"]
    assert rest.get(f"/api/sandboxes/{control}/execs/{calm}").json["state"] == "running"
    assert event(rest, "sandbox.budget_spent", control) is None


def test_a_cpu_budget_where_the_host_does_not_measure(rootless_daemon):
    rest = Rest(rootless_daemon.socket)
    answer = rest.post("/api/sandboxes", {"lifetime": {"cpuSeconds": 1}, "waive": ["all"]})
    sandbox = answer.json["id"]
    assert "CPU budget" in run(rest, sandbox, *SPIN)["result"]["who"]
    assert rest.post(f"/api/sandboxes/{sandbox}/execs", {"cmd": ["true"]}).status == 429
    rest.delete(f"/api/sandboxes/{sandbox}")


def test_an_output_budget(rest):
    sandbox, control = create(rest, outputBytes=10000), create(rest, outputBytes=10**9)
    first = run(rest, sandbox, "head", "-c", "6000", "/dev/zero")
    assert first["result"]["kind"] == "exited"
    ended = run(rest, sandbox, "sh", "-c", "yes; sleep 60")["result"]
    assert ended["kind"] == "killed_by"
    assert ended["who"] == "the sandbox's output budget of 10000 bytes is spent"
    assert rest.post(f"/api/sandboxes/{sandbox}/execs", {"cmd": ["true"]}).status == 429
    # What was said before can still be read.
    path = f"/api/sandboxes/{sandbox}/execs/{first['exec_id']}"
    assert rest.get(path).json["result"]["stdout_bytes"] == 6000
    assert rest.get(f"/api/sandboxes/{sandbox}").json["spent"]["outputBytes"] > 10000
    assert run(rest, control, "head", "-c", "60000", "/dev/zero")["result"]["kind"] == "exited"


def test_exactly_the_output_budget_is_fine(rest):
    sandbox = create(rest, outputBytes=5000)
    assert run(rest, sandbox, "head", "-c", "5000", "/dev/zero")["result"]["kind"] == "exited"
    assert rest.post(f"/api/sandboxes/{sandbox}/execs", {"cmd": ["true"]}).status == 429


# After the death of a daemon.

def test_after_a_crash(mortal, rest):
    control, idle, lease = create(rest), create(rest, idleSeconds=2), create(rest, leaseSeconds=2)
    deadline = create(rest, {"timeoutSeconds": 1})
    output = create(rest, outputBytes=1000)
    run(rest, output, "head", "-c", "2000", "/dev/zero")
    cpu = create(rest, cpuSeconds=1)
    run(rest, cpu, *SPIN)
    connection = rest.connection()
    bound = create_on(connection)["id"]
    kill_and_restart(mortal)
    wait_gone(rest, bound)
    for sandbox in (output, cpu):
        assert rest.post(f"/api/sandboxes/{sandbox}/execs", {"cmd": ["true"]}).status == 429
        assert state(rest, sandbox) == "running"
    assert rest.get(f"/api/sandboxes/{output}").json["spent"]["outputBytes"] >= 1000
    for sandbox in (idle, lease, deadline):
        wait_gone(rest, sandbox)
    assert state(rest, control) == "running"


def test_a_lease_begins_anew_after_a_crash(mortal, rest):
    """Whoever holds it needs time to come back."""
    sandbox = create(rest, leaseSeconds=3)
    time.sleep(1)
    began = time.monotonic()
    kill_and_restart(mortal)
    wait_gone(rest, sandbox)
    assert time.monotonic() - began > 2.8


def test_a_run_whose_daemon_died_is_gone(mortal, rest):
    """Nobody was told its id."""
    connection = rest.connection()
    connection.request("POST", "/api/run", json.dumps({"cmd": ["sleep", "60"]}))
    wait_until(lambda: rest.get("/api/sandboxes").json["sandboxes"], 30, lambda: "it does not run")
    kill_and_restart(mortal)
    wait_until(lambda: not rest.get("/api/sandboxes").json["sandboxes"], 30, lambda: "it lives on")


def test_events_go_on(mortal, rest):
    seen = {}
    for number in range(4):
        sandbox = create(rest)
        for _ in range(3):
            run(rest, sandbox, "true")
        for e in events(rest):  # what was told once is told the same again
            assert seen.setdefault(e["id"], e) == e
        if number % 2:
            rest.delete(f"/api/sandboxes/{sandbox}")
        kill_and_restart(mortal)
    again = events(rest)
    ids = [e["id"] for e in again]
    assert ids == list(range(ids[0], ids[-1] + 1))
    assert {e["id"]: e for e in again if e["id"] in seen} == seen
    last = max(seen)
    after = [e["id"] for e in events(rest, last)]
    assert [i for i in after if i <= ids[-1]] == [i for i in ids if i > last]
    create(rest)
    assert events(rest, ids[-1])[0]["id"] == ids[-1] + 1


def test_a_key_that_is_sent_again_after_a_crash(mortal, rest):
    key = {"Idempotency-Key": uuid.uuid4().hex}
    first = rest.call("POST", "/api/sandboxes", {"metadata": {"a": "b"}}, key)
    assert first.status == 201
    sandbox = first.json["id"]
    path = f"/api/sandboxes/{sandbox}/execs"
    command = rest.call("POST", path, {"cmd": ["sh", "-c", "echo once >> file; cat file"]}, key,
                        wait="true")
    large = rest.call("POST", path, {"cmd": ["seq", "100000"]}, key | {"Idempotency-Key": "large"},
                      wait="true")
    assert command.json["stdout"] == "once\n" and large.status == 200
    kill_and_restart(mortal)
    again = rest.call("POST", "/api/sandboxes", {"metadata": {"a": "b"}}, key)
    assert again.status == 201 and again.json == first.json
    assert again.headers["Idempotency-Replayed"] == "true"
    again = rest.call("POST", path, {"cmd": ["sh", "-c", "echo once >> file; cat file"]}, key,
                      wait="true")
    assert again.json == command.json
    # Too large to keep on disk: it is not done twice all the same.
    again = rest.call("POST", path, {"cmd": ["seq", "100000"]}, {"Idempotency-Key": "large"},
                      wait="true")
    assert again.status == 409
    assert len(rest.get(path).json["execs"]) == 2
    other = rest.call("POST", "/api/sandboxes", {"metadata": {"a": "c"}}, key)
    assert other.status == 409
    new = rest.call("POST", "/api/sandboxes", {"metadata": {"a": "b"}}, {"Idempotency-Key": "new"})
    assert new.status == 201 and new.json["id"] != sandbox
