"""The code interpreter as E2B's clients see it: port 49999 of a sandbox, by headers."""

import http.client
import json

import pytest

from conftest import wait_until
from listening import listening_daemon
from rest import Rest


class Interpreter:
    def __init__(self, address, key, **request):
        self.control = Rest(address, {"X-API-Key": key})
        path = "/sandboxes" if "secure" in request else "/v2/sandboxes"
        answer = self.control.post(path, {"templateID": "base", **request})
        assert answer.status == 201, answer.body
        self.view = answer.json
        self.id = self.view["sandboxID"]
        headers = {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": "49999"}
        self.bare = Rest(address, headers)
        if self.view.get("envdAccessToken"):
            headers = {**headers, "X-Access-Token": self.view["envdAccessToken"]}
        if self.view.get("trafficAccessToken"):
            headers = {**headers, "E2B-Traffic-Access-Token": self.view["trafficAccessToken"]}
        self.rest = Rest(address, headers)

    def run(self, code, **request):
        answer = self.rest.post("/execute", {"code": code, **request})
        assert answer.status == 200, answer.body
        return answer.lines

    def begin(self, code):
        connection = self.rest.connection()
        connection.request("POST", "/execute", json.dumps({"code": code}), self.rest.headers)
        return connection

    def end(self):
        return self.control.delete(f"/sandboxes/{self.id}").status


@pytest.fixture(scope="module")
def served():
    with listening_daemon() as (daemon, address):
        yield address, (daemon.state / "api-key").read_text().strip()


@pytest.fixture
def box(served):
    made = Interpreter(*served)
    yield made
    made.end()


def text(lines):
    return [line["text"] for line in lines if line["type"] == "result"]


def test_execute(box):
    assert box.rest.get("/health").status == 200
    lines = box.run("import os\nprint('\u00e4')\nx = 1\n(os.getuid(), os.getcwd())",
                    context_id=None, language=None, env_vars=None)
    assert [line["type"] for line in lines] == ["number_of_executions", "stdout", "result",
                                                "end_of_execution"]
    assert text(lines) == ["(0, '/home/user')"] and lines[1]["timestamp"]
    assert text(box.run("x + 1")) == ["2"]
    assert text(box.run("os.environ['A']", env_vars={"A": "b"})) == ["b"]
    lines = box.run("raise ValueError('v')", language="Python")
    assert {"name": "ValueError", "value": "v"}.items() <= lines[1].items()
    for language, code in (("python", "pip install x"), ("python", "ls -la"), (
            "javascript", "npm install left-pad")):
        error = box.run(code, language=language)[1]
        assert "looks like a shell command" in error["value"]
        assert error["traceback"].splitlines()[-1].startswith("Hint: ")


def test_contexts(box):
    listed = box.rest.get("/contexts").json
    assert [c["language"] for c in listed] == ["python", "javascript"]
    assert {c["cwd"] for c in listed} == {"/home/user"}
    made = box.rest.post("/contexts", {"language": "python", "cwd": "/root"}).json
    assert made["language"] == "python" and made["cwd"] == "/root"
    assert box.rest.get("/contexts").json == [*listed, made]
    assert text(box.run("import os\nos.getcwd()", context_id=made["id"])) == ["/root"]
    box.run("y = 1", context_id=made["id"])
    answer = box.rest.post(f"/contexts/{made['id']}/restart")
    assert (answer.status, answer.json) == (200, None)
    assert box.run("y", context_id=made["id"])[1]["name"] == "NameError"
    answer = box.rest.delete(f"/contexts/{made['id']}")
    assert (answer.status, answer.json) == (200, None)
    assert box.rest.get("/contexts").json == listed


@pytest.mark.parametrize("method, path, body, status, says", [
    ("POST", "/execute", {"code": "1", "context_id": "nope"}, 404, "Context nope not found"),
    ("POST", "/execute", {"code": "1", "context_id": "x", "language": "python"}, 400, "Only one"),
    ("POST", "/execute", {"code": "1", "language": "cobol"}, 500, "cobol"),
    ("POST", "/execute", {}, 400, "code"),
    ("POST", "/execute", {"code": "1", "env_vars": {"A": 5}}, 400, "env_vars.A must be"),
    ("POST", "/contexts", {"language": "cobol"}, 500, "cobol"),
    ("POST", "/contexts", {"cwd": 5}, 400, "cwd"),
    ("POST", "/contexts", {"cwd": "/nope"}, 500, "/nope"),
    ("POST", "/contexts", {"language": "a\r\nb: \u00e4"}, 500, "\u00e4"),
    ("POST", "/contexts/nope/restart", None, 404, "Context nope not found"),
    ("DELETE", "/contexts/nope", None, 404, "Context nope not found"),
    ("GET", "/nothing", None, 404, "/nothing"),
])
def test_errors_are_text(box, method, path, body, status, says):
    answer = box.rest.call(method, path, body)
    assert (answer.status, says in answer.body.decode()) == (status, True), answer.body
    assert answer.headers["Content-Type"].startswith("text/plain")
    # The SDK for JavaScript shows the status line and nothing else.
    shown = "".join(c if " " <= c <= "~" else " " if c < " " else "?" * len(c.encode())
                    for c in answer.body.decode())
    assert answer.reason == shown[:160].strip()


def test_variables_that_nobody_heard_of_losing(box):
    """Code that ignores the interrupt is killed after its client has gone; the next one is told."""
    connection = box.begin("import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                           "print('on', flush=True)\ntime.sleep(300)")
    response = connection.getresponse()
    while b"stdout" not in response.readline():
        pass
    connection.sock.close()
    response.close()
    lines = box.run("1 + 1")
    assert text(lines) == ["2"]
    assert any("without its variables" in line["text"] for line in lines if line["type"] == "stderr")


def test_interpreters_are_no_commands(box):
    """Who kills whatever commands.list() shows does not lose the variables of code."""
    box.run("x = 5")
    envd = Rest(box.rest.address, {**box.rest.headers, "E2b-Sandbox-Port": "49983",
                                   "X-Access-Token": box.view["envdAccessToken"],
                                   "Content-Type": "application/json"})
    assert envd.post("/process.Process/List", {}).json == {"processes": []}
    assert text(box.run("x")) == ["5"]


def test_traffic_token(served):
    made = Interpreter(*served, network={"allowPublicTraffic": False})
    try:
        assert made.view["trafficAccessToken"]
        for path in ("/contexts", "/health"):
            answer = made.bare.get(path)
            assert answer.status == 403 and b"traffic access token" in answer.body, answer.body
        assert made.bare.post("/execute", {"code": "1"}).status == 403
        assert text(made.run("1 + 1")) == ["2"]
    finally:
        made.end()


def test_secure_covers_code(box):
    """The id is in every preview's host name: it is no permission to run code as root."""
    for headers in ({}, {"X-Access-Token": "x" * 43}, {"X-Access-Token": ""}):
        stranger = Rest(box.rest.address, {**box.bare.headers, **headers})
        answer = stranger.post("/execute", {"code": "1"})
        assert answer.status == 401 and b"unauthorized access" in answer.body, answer.body
        assert stranger.get("/health").status == 200
    # The SDKs show no token here; but a wrong one is no mistake to pass over.
    assert box.bare.get("/contexts").status == 200
    wrong = Rest(box.rest.address, {**box.bare.headers, "X-Access-Token": "x" * 43})
    assert wrong.get("/contexts").status == 401
    assert wrong.post("/contexts", {}).status == 401
    assert text(box.run("1 + 1")) == ["2"]


def test_by_host_name_it_is_the_same(box):
    """What a browser can name is as closed as what headers name."""
    name = {"Host": f"49999-{box.id}.localhost:{box.rest.address[1]}"}
    assert Rest(box.rest.address, name).post("/execute", {"code": "1"}).status == 401
    token = {"X-Access-Token": box.view["envdAccessToken"]}
    answer = Rest(box.rest.address, {**name, **token}).post("/execute", {"code": "1 + 1"})
    assert answer.status == 200 and text(answer.lines) == ["2"]


def test_without_secure_code_is_open(served):
    """As with envd, and as E2B has it: the client asked for that."""
    made = Interpreter(*served, secure=False)
    try:
        assert "envdAccessToken" not in made.view
        assert text(made.bare.post("/execute", {"code": "1 + 1"}).lines) == ["2"]
    finally:
        made.end()


def test_the_traffic_token_runs_no_code(served):
    """Visitors of a port have it: it does not stand in for the access token."""
    made = Interpreter(*served, network={"allowPublicTraffic": False})
    try:
        visitor = Rest(made.rest.address, {
            **made.bare.headers, "E2B-Traffic-Access-Token": made.view["trafficAccessToken"]})
        assert visitor.get("/contexts").status == 200
        assert visitor.post("/execute", {"code": "1"}).status == 401
    finally:
        made.end()


def test_sandboxes_of_others_are_closed(served):
    """One made by another API can be reached with its token only."""
    address, key = served
    ours = Rest(address, {"X-API-Key": key})
    made = ours.post("/api/sandboxes", {}).json["id"]
    stranger = Rest(address, {"E2b-Sandbox-Id": made, "E2b-Sandbox-Port": "49999"})
    assert stranger.post("/execute", {"code": "1"}).status == 403
    assert ours.delete(f"/api/sandboxes/{made}").status == 204


def test_a_client_that_vanishes(box):
    box.run("1")
    connection = box.begin("import time\nprint('on', flush=True)\ntime.sleep(300)")
    response = connection.getresponse()
    response.readline()
    connection.sock.close()
    response.close()
    assert text(box.run("1 + 1")) == ["2"]


def test_killed_while_code_runs(box):
    box.run("1")
    connection = box.begin("import time\ntime.sleep(300)")
    response = connection.getresponse()
    assert b"number_of_executions" in response.readline()
    assert box.end() == 204
    with pytest.raises((ConnectionError, http.client.IncompleteRead)):
        response.read()
    connection.close()
    wait_until(lambda: box.rest.get("/health").status == 502, 30, lambda: "it is still there")
