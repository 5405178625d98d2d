"""Calls that wait for a human."""

import threading

import pytest
from daemons import BUILD, running, wait_until
from rest import Rest

POLICY = {"rules": [{"decision": "ask", "command": "git push *", "reason": "pushes are looked at"}]}


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture
def box(rest):
    made = rest.post("/api/sandboxes", {"toolPolicy": POLICY})
    assert made.status == 201, made.body
    yield made.json["id"]
    rest.delete(f"/api/sandboxes/{made.json['id']}")


class Asking:
    """A call in a thread."""

    def __init__(self, rest, box, command="git push; echo done"):
        self.answer = None

        def run():
            try:
                self.answer = rest.post(f"/api/sandboxes/{box}/tools/Bash", {"command": command})
            except OSError as error:
                self.answer = error

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def join(self):
        self.thread.join(30)
        assert not self.thread.is_alive()
        return self.answer


def waiting(rest, box):
    return [one for one in rest.get("/api/approvals").json["approvals"] if one["sandbox_id"] == box]


def asked(rest, box):
    wait_until(lambda: waiting(rest, box), 20, lambda: "nobody is asked")
    return waiting(rest, box)[0]


def calls(rest, box):
    return rest.get(f"/api/sandboxes/{box}/tools/calls").json["calls"]


def test_allow(rest, box):
    call = Asking(rest, box)
    one = asked(rest, box)
    assert one["tool"] == "Bash" and one["arguments"] == {"command": "git push; echo done"}, one
    assert one["reason"] == "pushes are looked at" and one["asked_by"] == "policy of the sandbox, rule 1"
    assert rest.get(f"/api/approvals/{one['id']}").json == one
    assert calls(rest, box)[0]["state"] == "waiting"
    said = rest.post(f"/api/approvals/{one['id']}", {"decision": "allow", "reason": "looks good"})
    assert said.status == 200, said.body
    assert "done" in call.join().json["text"]
    row = calls(rest, box)[0]
    assert row["state"] == "done" and row["decision"] == "allow" and row["decided_by"].startswith("approval: ")
    assert row["reason"] == "looks good"
    again = rest.post(f"/api/approvals/{one['id']}", {"decision": "deny"})
    assert again.status == 409 and "decided already: allow" in again.error["message"]
    assert rest.get(f"/api/approvals/{one['id']}").json["state"] == "done"


def test_deny(rest, box):
    call = Asking(rest, box)
    one = asked(rest, box)
    assert rest.post(f"/api/approvals/{one['id']}", {"decision": "deny", "reason": "not on a Friday"}).status == 200
    answer = call.join()
    assert answer.status == 403 and "not on a Friday" in answer.error["message"]
    assert calls(rest, box)[0]["state"] == "denied"


def test_nobody_answers(rest, box):
    assert rest.put(f"/api/sandboxes/{box}/tools/policy", {**POLICY, "askSeconds": 1}).status == 200
    answer = Asking(rest, box).join()
    assert answer.status == 403 and "atoll approvals" in answer.error["message"]
    assert calls(rest, box)[0]["decided_by"] == "approval: timeout"
    assert waiting(rest, box) == []


def test_a_client_that_goes(rest, box):
    connection = rest.connection()
    body = b'{"command": "git push; touch /tmp/ran"}'
    connection.request("POST", f"/api/sandboxes/{box}/tools/Bash", body, rest.headers)
    one = asked(rest, box)
    connection.close()
    wait_until(lambda: not waiting(rest, box), 20, lambda: "it still waits")
    assert rest.post(f"/api/approvals/{one['id']}", {"decision": "allow"}).status == 409
    row = calls(rest, box)[0]
    assert row["state"] == "canceled" and "did not run" in row["reason"]
    listed = rest.post(f"/api/sandboxes/{box}/tools/LS", {"path": "/tmp"})
    assert listed.status == 200 and "ran" not in listed.json["text"].split(), listed.body


def test_bad_answers(rest, box):
    call = Asking(rest, box)
    one = asked(rest, box)
    for body in ({}, {"decision": "maybe"}, {"decision": "allow", "x": 1}, {"decision": 1}):
        assert rest.post(f"/api/approvals/{one['id']}", body).status == 400, body
    assert rest.post("/api/approvals/unknown", {"decision": "allow"}).status == 404
    assert rest.get("/api/approvals/unknown").status == 404
    # Another tenant does not see it.
    other = Rest(rest.address, {"X-Atoll-Tenant": "other"})
    assert other.get("/api/approvals").json["approvals"] == []
    assert other.get(f"/api/approvals/{one['id']}").status == 404
    assert other.post(f"/api/approvals/{one['id']}", {"decision": "allow"}).status == 404
    assert rest.post(f"/api/approvals/{one['id']}", {"decision": "deny"}).status == 200
    call.join()


def test_the_queue_is_bounded(rest, box):
    connections = []
    for _ in range(64):
        connection = rest.connection()
        connection.request("POST", f"/api/sandboxes/{box}/tools/Bash", b'{"command": "git push"}', rest.headers)
        connections.append(connection)
    wait_until(lambda: len(waiting(rest, box)) == 64, 20, lambda: "not all wait")
    full = rest.post(f"/api/sandboxes/{box}/tools/Bash", {"command": "git push"})
    assert full.status == 403 and "too many calls wait" in full.error["message"]
    for connection in connections:
        connection.close()
    wait_until(lambda: not waiting(rest, box), 20, lambda: "some still wait")


def test_events(rest, box):
    call = Asking(rest, box)
    one = asked(rest, box)
    rest.post(f"/api/approvals/{one['id']}", {"decision": "deny"})
    call.join()
    connection = rest.connection()
    connection.request("GET", f"/api/events?after=0&sandbox={box}", None, rest.headers)
    response, kinds = connection.getresponse(), []
    while "approval.answered" not in str(kinds):
        line = response.readline()
        assert line
        kinds.append(line)
    connection.close()
    assert "approval.requested" in str(kinds) and one["id"] in str(kinds)


def test_the_command_line(rest, daemon, box):
    call = Asking(rest, box)
    one = asked(rest, box)
    assert one["id"] in daemon.atoll("approvals").stdout
    assert "git push; echo done" in daemon.atoll("approvals", "ls").stdout
    assert daemon.atoll("approvals", "allow", one["id"], "fine").returncode == 0
    assert "done" in call.join().json["text"]
    assert calls(rest, box)[0]["reason"] == "fine"
    call = Asking(rest, box)
    one = asked(rest, box)
    assert daemon.atoll("approvals", "deny", one["id"]).returncode == 0
    assert call.join().status == 403
    gone = daemon.atoll("approvals", "deny", one["id"])
    assert gone.returncode != 0 and "decided already" in gone.stderr


def test_restarts():
    """A call whose daemon ends is not run by the next one; one that stops says so."""
    with running(BUILD) as daemon:
        rest = Rest(daemon.socket)
        box = rest.post("/api/sandboxes", {"toolPolicy": POLICY}).json["id"]
        call = Asking(rest, box, "git push; touch /tmp/ran")
        one = asked(rest, box)
        daemon.process.kill()
        daemon.process.wait()
        daemon.start()
        call.join()
        assert waiting(rest, box) == []
        row = calls(rest, box)[0]
        assert row["state"] == "canceled" and "did not run" in row["reason"], row
        assert rest.post(f"/api/approvals/{one['id']}", {"decision": "allow"}).status == 409
        # The policy has survived, too.
        call = Asking(rest, box, "git push; touch /tmp/ran")
        asked(rest, box)
        daemon.process.terminate()
        answer = call.join()
        assert getattr(answer, "status", 403) == 403
        daemon.process.wait(30)
        daemon.start()
        row = calls(rest, box)[0]
        assert row["state"] in ("denied", "canceled") and row["result_bytes"] == 0, row
