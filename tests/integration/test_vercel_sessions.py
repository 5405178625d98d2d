"""Sessions of Vercel's API where its SDKs do not look: bad input, bytes that are not text, terminals, Vercel's
host names, keys in tokens, and a daemon that is killed."""

import base64
import contextlib
import gzip
import io
import json
import os
import signal
import tarfile
import threading

import pytest
from daemons import ROOT, spawn_of, wait_until
from listening import listening_daemon
from rest import Rest, WebSocket

BASE = "/vercel/api/v2/sandboxes"


class Session:
    def __init__(self, rest, **fields):
        self.rest = rest
        made = rest.post(BASE, fields)
        assert made.status == 200, made.body
        self.name, self.id = made.json["sandbox"]["name"], made.json["session"]["id"]
        self.base = f"{BASE}/sessions/{self.id}"

    def post(self, path, body, headers=None):
        return self.rest.call("POST", self.base + path, body, headers)

    def run(self, command, *args, **fields):
        """The lines of an attached command."""
        answer = self.post("/cmd", {"command": command, "args": args, "wait": True, "logs": True, **fields})
        assert answer.status == 200, answer.body
        return [json.loads(line) for line in answer.body.splitlines() if line]

    def start(self, *args, **fields):
        answer = self.post("/cmd", {"command": args[0], "args": args[1:], **fields})
        assert answer.status == 200, answer.body
        return answer.json["command"]["id"]

    def wait(self, cid):
        return self.rest.get(f"{self.base}/cmd/{cid}", wait="true").json["command"]

    def terminal(self, token=None):
        opened = self.post("/interactive", {}).json
        path = "/" + opened["url"].split("/", 3)[3]
        return WebSocket(self.rest.socket(), f"{path}?token={token or opened['token']}", {})


@pytest.fixture
def session(daemon):
    made = Session(Rest(daemon.socket), timeout=600000)
    yield made
    made.rest.delete(f"{BASE}/{made.name}")


def text_of(lines, stream="stdout"):
    return "".join(line["data"] for line in lines if line.get("stream") == stream)


BAD = [
    ("/cmd", {}), ("/cmd", {"command": ""}), ("/cmd", {"command": 5}), ("/cmd", {"command": "true", "args": "x"}),
    ("/cmd", {"command": "true", "args": [1]}), ("/cmd", {"command": "true", "env": {"A": 1}}),
    ("/cmd", {"command": "true", "env": {"A=B": "1"}}), ("/cmd", {"command": "true", "cwd": "/no/such"}),
    ("/cmd", {"command": "true", "timeout": -1}), ("/cmd", {"command": "true", "wait": "yes"}),
    ("/cmd", {"command": "no-such-program"}), ("/cmd", {"command": "/etc/passwd"}), ("/cmd", b"{"), ("/cmd", []),
    ("/cmd", {"command": "a\0b"}), ("/cmd", {"command": "true", "args": ["a\0b"]}),
    ("/fs/mkdir", {}), ("/fs/mkdir", {"path": ""}), ("/fs/mkdir", {"path": "a" * 5000}), ("/fs/mkdir", {"path": 1}),
    ("/fs/mkdir", {"path": "/etc/passwd/x"}), ("/fs/mkdir", {"path": "/"}), ("/fs/mkdir", {"path": "x/y/z"}),
    ("/fs/read", {}), ("/fs/read", {"path": "/tmp"}), ("/fs/read", {"path": "/etc/shadow/x"}), ("/fs/read", {"path": "/dev/null"}),
    ("/extend-timeout", {"duration": -5}),
]


@pytest.mark.parametrize("path, body", BAD)
def test_bad_input_is_an_error_of_the_request(session, path, body):
    answer = session.post(path, body)
    assert 400 <= answer.status < 500, (answer.status, answer.body)
    assert set(answer.json["error"]) == {"code", "message"}


@pytest.mark.parametrize("body", [b"", b"no gzip", gzip.compress(b"no tar"), gzip.compress(bytes(512))[:-9]],
                         ids=["empty", "no gzip", "no tar", "cut"])
def test_archives_that_are_none(session, body):
    answer = session.post("/fs/write", body, {"Content-Type": "application/gzip", "x-cwd": "/"})
    assert answer.status in (200, 400), answer.body
    assert session.run("true")[-1]["command"]["exitCode"] == 0


def test_an_archive_leaves_its_directory_with_the_rights_of_the_user_only(session):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name in ("../../etc/escaped", "/etc/absolute"):
            member = tarfile.TarInfo(name)
            tar.addfile(member, io.BytesIO())
    answer = session.post("/fs/write", out.getvalue(), {"Content-Type": "application/gzip", "x-cwd": "/tmp"})
    assert answer.status in (200, 400)
    assert session.run("ls", "/etc/escaped", "/etc/absolute")[-1]["command"]["exitCode"] == 2


def test_commands_that_do_not_exist(session):
    for cid in ("cmd_0000000000000000", "cmd_x"):
        for answer in (session.rest.get(f"{session.base}/cmd/{cid}"), session.rest.get(f"{session.base}/cmd/{cid}/logs"),
                       session.post(f"/cmd/{cid}/kill", {"signal": 9}), session.post(f"/cmd/{cid}/stdin", {"data": "x"})):
            assert answer.status == 404, (cid, answer.body)


def test_signals_and_input_of_a_command_that_has_ended(session):
    cid = session.start("true")
    assert session.wait(cid)["exitCode"] == 0
    assert session.post(f"/cmd/{cid}/kill", {"signal": 9}).status == 200
    assert session.post(f"/cmd/{cid}/stdin", {"data": "x"}).status == 409
    assert session.post(f"/cmd/{cid}/stdin", {}).status == 400
    for bad in (0, 65, -1, "SIGNONE", [9]):
        assert session.post(f"/cmd/{cid}/kill", {"signal": bad}).status == 400, bad


def send_and_leave(daemon, session, path, fields):
    """A request whose client is gone before the daemon can answer it."""
    body = json.dumps(fields)
    sock = session.rest.socket()
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        target = path if path.startswith(BASE) else session.base + path
        sock.sendall(f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        sock.close()
    finally:
        daemon.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("how", [{}, {"wait": True, "logs": True}], ids=["detached", "attached"])
def test_a_command_whose_answer_was_lost_is_not_started_again(daemon, session, how):
    fields = {"command": "sh", "args": ["-c", "echo x >> started; cat started"], **how}
    send_and_leave(daemon, session, "/cmd", fields)
    wait_until(lambda: text_of(session.run("cat", "started")) == "x\n", 10, lambda: "the command did not start")
    again = session.post("/cmd", fields)
    assert again.status == 200, again.body
    first = json.loads(again.body.splitlines()[0])["command"]["id"]
    assert session.wait(first)["exitCode"] == 0
    assert text_of(session.run("cat", "started")) == "x\n"
    # The answer has arrived now: the same request is a new command.
    session.wait(json.loads(session.post("/cmd", fields).body.splitlines()[0])["command"]["id"])
    assert text_of(session.run("cat", "started")) == "x\nx\n"


def test_more_time_whose_answer_was_lost_is_given_once(daemon, session):
    before = session.rest.get(session.base).json["session"]["timeout"]
    send_and_leave(daemon, session, "/extend-timeout", {"duration": 60000})
    wait_until(lambda: session.rest.get(session.base).json["session"]["timeout"] == before + 60000, 10, lambda: "no more time")
    assert session.post("/extend-timeout", {"duration": 60000}).json["session"]["timeout"] == before + 60000
    assert session.post("/extend-timeout", {"duration": 60000}).json["session"]["timeout"] == before + 120000


def test_a_snapshot_whose_answer_was_lost_is_taken_once(daemon, session):
    send_and_leave(daemon, session, "/snapshot", {})
    wait_until(lambda: session.rest.get(session.base).json["session"]["status"] != "running", 10, lambda: "the session runs")
    again = session.post("/snapshot", {})
    assert again.status == 200, again.body
    listed = session.rest.get(f"{BASE}/snapshots", name=session.name).json["snapshots"]
    assert [s["id"] for s in listed] == [again.json["snapshot"]["id"]]
    assert session.post("/snapshot", {}).json["error"]["code"] == "sandbox_stopped"


@contextlib.contextmanager
def standing_still(daemon):
    """Nothing is started or ended meanwhile: what ends sandboxes and copies their disks waits."""
    spawn = spawn_of(daemon.state)
    os.kill(spawn, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(spawn, signal.SIGCONT)


def refused(session, status):
    """Requests to a session in that state; after which one that resumes it is refused as well."""
    wait_until(lambda: session.rest.get(session.base).json["session"]["status"] == status, 20, lambda: f"not {status}")
    answers = [session.post("/cmd", {"command": "true"}), session.post("/fs/mkdir", {"path": "x"}),
               session.post("/extend-timeout", {"duration": 1000})]
    return {(answer.status, answer.json["error"]["code"]) for answer in answers}


def test_a_session_that_is_stopping(daemon, session):
    stop = threading.Thread(target=lambda: session.post("/stop", {}))
    with standing_still(daemon):
        stop.start()
        assert refused(session, "stopping") == {(422, "sandbox_stopping")}
        resume = session.rest.get(f"{BASE}/{session.name}", resume="true")
        assert (resume.status, resume.json["error"]["code"]) == (422, "sandbox_stopping")
    stop.join()
    assert session.rest.get(session.base).json["session"]["status"] == "stopped"


def test_a_session_whose_snapshot_is_being_made(daemon, session):
    assert session.post("/stop", {}).status == 200
    box = session.id.removeprefix("sbx_")
    snapshot = threading.Thread(target=lambda: session.rest.post(f"/api/sandboxes/{box}/snapshots", {}))
    with standing_still(daemon):
        snapshot.start()
        assert refused(session, "snapshotting") == {(422, "sandbox_snapshotting")}
    snapshot.join()
    assert session.post("/cmd", {"command": "true"}).json["error"]["code"] == "sandbox_stopped"


def box_of(session):
    return f"/api/sandboxes/{session.id.removeprefix('sbx_').split('_')[0]}"


def reach_the_timeout(session):
    assert session.rest.post(f"{box_of(session)}/timeout", {"seconds": 1}).status == 200
    wait_until(lambda: session.rest.get(session.base).json["session"]["status"] == "stopped", 20, lambda: "it runs")


def resume(session):
    """The session that a client gets after an answer of 410."""
    answer = session.rest.get(f"{BASE}/{session.name}", resume="true")
    assert answer.status == 200, answer.body
    session.id = answer.json["session"]["id"]
    session.base = f"{BASE}/sessions/{session.id}"
    return answer.json


def forked(session, name):
    answer = session.rest.post(f"{BASE}/{session.name}/fork", {"name": name})
    assert answer.status == 200, answer.body
    box = answer.json["session"]["id"].removeprefix("sbx_")
    done = session.rest.post(f"/api/sandboxes/{box}/execs", {"cmd": ["cat", "/vercel/sandbox/file"]}, wait="true").json
    assert session.rest.delete(f"{BASE}/{name}").status == 200
    return done["stdout"], answer.json["session"].get("sourceSnapshotId")


def test_a_session_that_reaches_its_timeout(session):
    """It is stopped without a snapshot. A fork makes one, and a resume starts the disk itself."""
    session.run("sh", "-c", "echo one >file")
    reach_the_timeout(session)
    for path in ("/cmd", "/fs/mkdir", "/extend-timeout"):
        answer = session.post(path, {"command": "true", "path": "x", "duration": 1000})
        assert (answer.status, answer.json["error"]["code"]) == (410, "sandbox_stopped")
    view = session.rest.get(f"{BASE}/{session.name}").json
    assert view["sandbox"]["status"] == "stopped" and "currentSnapshotId" not in view["sandbox"]
    assert "snapshottedAt" not in view["session"]
    text, source = forked(session, f"{session.name}-fork")
    assert text == "one\n"
    view = session.rest.get(f"{BASE}/{session.name}").json
    assert view["sandbox"]["currentSnapshotId"] == source and view["session"]["snapshottedAt"] > 0
    assert resume(session)["resumed"] is True
    assert text_of(session.run("cat", "file")) == "one\n"


def test_a_snapshot_from_before_the_timeout_is_not_needed(session):
    """The disk is newer: forks have its files, also while it runs again, and the old snapshot may be gone."""
    session.run("sh", "-c", "echo one >file")
    old = session.post("/snapshot", {}).json["snapshot"]["id"]
    assert resume(session)["session"]["sourceSnapshotId"] == old
    session.run("sh", "-c", "echo two >file")
    assert forked(session, f"{session.name}-old") == ("one\n", old)
    reach_the_timeout(session)
    assert session.rest.delete(f"{BASE}/snapshots/{old}").status == 200
    assert "sourceSnapshotId" not in resume(session)["session"]
    assert text_of(session.run("cat", "file")) == "two\n"
    text, source = forked(session, f"{session.name}-new")
    assert text == "two\n" and source not in (None, old)
    session.run("sh", "-c", "echo three >file")
    assert forked(session, f"{session.name}-again") == ("two\n", source)


def test_a_snapshot_that_is_chosen_after_the_timeout_counts(session):
    """The files of the session that reached its timeout are given up, by forks as by the next session."""
    session.run("sh", "-c", "echo one >file")
    chosen = session.post("/snapshot", {}).json["snapshot"]["id"]
    resume(session)
    session.run("sh", "-c", "echo two >file")
    reach_the_timeout(session)
    assert session.rest.call("PATCH", f"{BASE}/{session.name}", {"currentSnapshotId": chosen}).status == 200
    assert forked(session, f"{session.name}-stopped") == ("one\n", chosen)
    assert resume(session)["session"]["sourceSnapshotId"] == chosen
    assert text_of(session.run("cat", "file")) == "one\n"
    session.run("sh", "-c", "echo three >file")
    assert forked(session, f"{session.name}-running") == ("one\n", chosen)


def test_forks_at_the_same_time_after_a_timeout(session):
    """One snapshot serves both."""
    session.run("sh", "-c", "echo one >file")
    reach_the_timeout(session)
    got = []
    threads = [threading.Thread(target=lambda i=i: got.append(forked(session, f"{session.name}-{i}"))) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [text for text, _ in got] == ["one\n"] * 2 and len({source for _, source in got}) == 1


def test_a_paused_sandbox_is_resumed_in_its_session(session):
    cid = session.start("sh", "-c", "until [ -e go ]; do sleep .05; done; echo done")
    assert session.rest.post(f"{box_of(session)}/pause").status == 200
    answer = session.post("/cmd", {"command": "true"})
    assert (answer.status, answer.json["error"]["code"]) == (410, "sandbox_stopped")
    before = session.id
    again = resume(session)
    assert again["session"]["id"] == before and again["session"]["status"] == "running"
    assert again["resumed"] is False  # what a client starts in a new session still runs
    session.run("touch", "go")
    assert session.wait(cid)["exitCode"] == 0


def test_a_silent_command_has_bytes_that_keep_its_connection(session):
    """A line feed comes before the end; then the command is told to end."""
    cid = session.start("sh", "-c", "until [ -e go ]; do sleep .1; done; echo done")
    ways = {f"/cmd/{cid}/logs": None, f"/cmd/{cid}?wait=true": None}
    for path in ways:
        connection = session.rest.connection()
        connection.request("GET", session.base + path)
        ways[path] = connection, connection.getresponse
    answers = {path: answer() for path, (_, answer) in ways.items()}
    assert [answer.read(1) for answer in answers.values()] == [b"\n", b"\n"]
    session.run("touch", "go")
    ends = {path: answer.read() for path, answer in answers.items()}
    for connection, _ in ways.values():
        connection.close()
    assert json.loads(ends[f"/cmd/{cid}/logs"].strip().splitlines()[-1]) == {"stream": "stdout", "data": "done\n"}
    assert json.loads(ends[f"/cmd/{cid}?wait=true"])["command"]["exitCode"] == 0


@pytest.mark.parametrize("path", ["", "/{name}/fork"], ids=["create", "fork"])
def test_a_sandbox_whose_answer_was_lost_can_be_made_again(daemon, session, path):
    """The name is free for the repeated request, and there is one sandbox of it."""
    name = f"again-{session.id[-8:]}"
    target = BASE + path.format(name=session.name)
    send_and_leave(daemon, session, target, {"name": name})
    again = session.rest.post(target, {"name": name})
    assert again.status == 200, again.body
    listed = session.rest.get(BASE, namePrefix=name).json["sandboxes"]
    assert [s["currentSessionId"] for s in listed] == [again.json["session"]["id"]]
    assert session.rest.delete(f"{BASE}/{name}").status == 200


def test_errors_lead_to_the_page_about_them(session):
    page = (ROOT / "docs/troubleshooting.md").read_text()
    gone = f"{BASE}/sessions/sbx_{'a' * 26}"
    answers = [(session.rest.get(f"{BASE}/nosuch"), "Sandbox not found"), (session.rest.get(gone), "Sandbox not found"),
               (session.rest.post(f"{BASE}/nosuch/fork", {}), "Sandbox not found"),
               (session.rest.post(f"{gone}/cmd", {"command": "true"}), "Sandbox not found"),
               (session.post("/cmd", {"command": "no-such-program"}), "Module or program not found"),
               (session.rest.post(BASE, {"source": {"type": "git", "url": "http://127.0.0.1:9/x.git"}}), "Git operations fail")]
    for answer, heading in answers:
        assert 400 <= answer.status < 500 and "docs/troubleshooting.md" in answer.json["error"]["message"], answer.body
        assert f"## {heading}\n" in page


def test_errors_say_what_to_do(session):
    answer = session.rest.post(BASE, {"name": session.name})
    assert answer.status == 409
    assert "(choose another name, or remove what is there)" in answer.json["error"]["message"]


def test_bytes_that_are_not_text(session):
    lines = session.run("printf", r"ok\n\377\376\n")
    data = base64.b64decode("".join(line["data_base64"] for line in lines if "data_base64" in line))
    assert b"\xff\xfe" in data
    # A character that comes in two pieces is not torn.
    assert text_of(session.run("sh", "-c", r"printf '\303'; sleep .1; printf '\274\n'")) == "ü\n"


def test_a_terminal(session):
    with session.terminal() as socket:
        socket.send({"type": "start", "command": "sh", "args": ["-c", "stty size; read x; stty size; exit 4"],
                     "env": ["A=1"], "cwd": "/tmp", "cols": 100, "rows": 30})
        shown = b""
        while b"30 100" not in shown:
            shown += socket.recv()[1]
        socket.send({"type": "resize", "cols": 90, "rows": 20})
        socket.send(b"\n")
        texts = []
        while True:
            opcode, payload = socket.recv()
            if opcode == socket.CLOSE:
                break
            if opcode == socket.TEXT:
                texts.append(json.loads(payload))
            else:
                shown += payload
        assert b"20 90" in shown and texts == [{"type": "exit", "code": 4}]


def test_a_terminal_ends_with_its_connection(session):
    with session.terminal() as socket:
        socket.send({"type": "start", "command": "sleep", "args": ["4321"], "env": []})
        wait_until(lambda: "sleep 4321" in text_of(session.run("ps", "-eo", "args")), 20, lambda: "not started")
    wait_until(lambda: "sleep 4321" not in text_of(session.run("ps", "-eo", "args")), 20, lambda: "it runs")


@pytest.mark.parametrize("message", ["{", "[]", {"type": "start"}, {"type": "start", "command": 5},
                                     {"type": "start", "command": "true", "env": ["no value"]}])
def test_bad_messages_end_a_terminal(session, message):
    with session.terminal() as socket:
        socket.send(message)
        assert socket.recv()[0] == socket.CLOSE
    assert session.run("true")[-1]["command"]["exitCode"] == 0


def test_a_program_that_a_terminal_cannot_start(session):
    with session.terminal() as socket:
        socket.send({"type": "start", "command": "no-such-program", "args": [], "env": []})
        assert b"no-such-program" in socket.recv()[1]
        assert socket.text() == {"type": "exit", "code": 127}


def test_a_terminal_needs_its_token(session):
    with session.terminal(token="x" * 43) as socket:
        assert socket.status == 404


def test_a_killed_daemon_loses_no_output_and_no_end(daemon):
    session = Session(Rest(daemon.socket), timeout=600000)
    cid = session.start("sh", "-c", "for i in $(seq 150); do echo line $i; sleep .01; done; exit 5")
    daemon.process.send_signal(signal.SIGKILL)
    daemon.process.wait()
    daemon.start()
    assert session.wait(cid)["exitCode"] == 5
    logs = session.rest.get(f"{session.base}/cmd/{cid}/logs")
    lines = [json.loads(line) for line in logs.body.splitlines() if line]
    assert text_of(lines) == "".join(f"line {i}\n" for i in range(1, 151))
    session.rest.delete(f"{BASE}/{session.name}")


# Names of Vercel, and keys.


@pytest.fixture(scope="module")
def remote():
    with listening_daemon() as (daemon, address):
        yield daemon, address, (daemon.state / "api-key").read_text().strip()


def test_the_api_at_its_own_names(remote):
    _, address, key = remote
    rest = Rest(address, {"Authorization": f"Bearer {key}"})
    for host, path in (("vercel.com", "/api/v2/sandboxes"), ("api.vercel.com", "/v1/sandboxes"),
                       ("vercel.com:443", "/api/v2/user"), ("vercel.com", "/health")):
        assert rest.call("GET", path, None, {"Host": host}).status == 200, (host, path)
    for host, path in (("vercel.com", "/v2/sandboxes"), ("vercel.com.example.com", "/api/v2/sandboxes"),
                       ("x.vercel.com", "/api/v2/sandboxes")):
        assert rest.call("GET", path, None, {"Host": host}).status >= 400, (host, path)


def test_ports_by_name_are_the_public_ones(remote):
    _, address, key = remote
    rest = Rest(address, {"Authorization": f"Bearer {key}"})
    session = Session(rest, ports=[3000])
    session.start("python3", "-m", "http.server", "3000")
    session.start("python3", "-m", "http.server", "3001")
    box = session.id.removeprefix("sbx_")
    visitor = Rest(address)

    def visit(name, header="Host"):
        return visitor.call("GET", "/", None, {header: name}).status

    wait_until(lambda: visit(f"3000-{box}.vercel.run") == 200, 20, lambda: "no server")
    assert visit(f"3000-{box}.vercel.run", "X-Atoll-Host") == 200
    for name in (f"3001-{box}.vercel.run", "3000-nosuch.vercel.run", "www.vercel.run"):
        assert visit(name) == visit(name, "X-Atoll-Host") == 404, name
    for name in (f"3000-{box}.vercel.run.example.com", "vercel.run"):
        assert visit(name) >= 400 and visit(name, "X-Atoll-Host") >= 400, name
    assert rest.call("PATCH", f"{BASE}/{session.name}", {"ports": [3001]}).status == 200
    assert visit(f"3000-{box}.vercel.run") == 404
    rest.delete(f"{BASE}/{session.name}")


def test_a_key_in_an_oidc_token(remote):
    _, address, key = remote
    claims = base64.urlsafe_b64encode(b'{"owner_id":"a","project_id":"b"}').decode().rstrip("=")

    def status(token):
        return Rest(address, {"Authorization": f"Bearer {token}"}).get(BASE).status

    assert status(f"eyJhbGciOiJub25lIn0.{claims}.{key}") == 200
    other = key[:-1] + ("x" if key[-1] != "x" else "y")
    for token in (f"eyJhbGciOiJub25lIn0.{claims}.", f"eyJhbGciOiJub25lIn0.{claims}.{other}", f"a.b.c.{key}",
                  f"{claims}.{key}", f".{key}"):
        assert status(token) == 401, token
