"""What is known of a sandbox after its end: how it ended, and its commands."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

import conftest
from boxes import Box
from conftest import wait_until
from daemons import running
from rest import Rest


@pytest.fixture(scope="module")
def mortal():
    """A daemon of our own, to be killed."""
    with running(conftest.BUILD) as daemon:
        yield daemon


@pytest.fixture
def rest(mortal):
    yield Rest(mortal.socket)
    Rest(mortal.socket).delete("/api/sandboxes")


def record(rest, box):
    answer = rest.get(box.path, ended="true")
    assert answer.status == 200, answer.body
    return answer.json


def ended_ids(rest, **query):
    return [s["id"] for s in rest.get("/api/sandboxes", state="ended", **query).json["sandboxes"]]


def wait_gone(box):
    wait_until(lambda: box.rest.get(box.path).status == 404, 30, lambda: f"it is {box.view}")


def agent_of(sandbox):
    """The first process of a sandbox, by its cgroup."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            inner = [line for line in (entry / "status").read_text().splitlines()
                     if line.startswith("NSpid:")]
            if sandbox in (entry / "cgroup").read_text() and inner[0].split()[-1] == "1":
                return int(entry.name)
    pytest.skip("the agent of this sandbox cannot be told by its cgroup here")


def test_a_destroyed_sandbox_leaves_a_record(rest):
    box = Box(rest, name="witness", metadata={"task": "42"}, limits={"memoryMB": 128})
    was = box.view
    ran = box.run("echo hello; exit 3")
    box.detach("sleep 1000")
    assert rest.get(box.path, ended="true").json["state"] == "running"
    assert box.destroy() == 204
    gone = rest.get(box.path)
    assert gone.status == 404 and "ended at 20" in gone.json["error"]["message"]
    kept = record(rest, box)
    assert kept["state"] == "ended" and kept["end"] == "request" and kept["ended_by"]
    for same in ("id", "name", "created_at", "limits", "metadata", "template", "provider", "tenant",
                 "networkMode", "waived", "persistent"):
        assert kept[same] == was[same], same
    assert kept["created_at"] <= kept["ended_at"]
    assert box.id in ended_ids(rest) and box.id not in ended_ids(rest, template="other")
    assert box.id in ended_ids(rest, metadata="task=42")
    assert box.id not in ended_ids(rest, metadata="task=43")
    first, second = rest.get(f"{box.path}/execs", ended="true").json["execs"]
    assert first["cmd"] == ["sh", "-c", "echo hello; exit 3"]
    assert first["result"]["exit_code"] == 3 and first["result"]["stdout_bytes"] == 6
    assert second["state"] == "ended" and second["result"]["kind"] == "killed_by"
    one = rest.get(f"{box.path}/execs/{ran['exec_id']}", ended="true")
    assert one.json == first
    assert rest.get(f"{box.path}/execs/{'0' * 16}", ended="true").status == 404


def test_other_routes_say_that_it_has_ended(rest):
    box = Box(rest)
    assert box.destroy() == 204
    for method, path in [("GET", "/files?path=/"), ("POST", "/pause"), ("DELETE", ""),
                         ("GET", "/stats"), ("GET", "/execs")]:
        answer = rest.call(method, box.path + path)
        assert answer.status == 404, (method, path)
        assert f"{box.id} does not exist: it ended at" in answer.json["error"]["message"]
    assert rest.get(f"{box.path}/stats", ended="true").status == 404
    assert rest.get(f"{box.path}?ended=perhaps").status == 400
    never = rest.get("/api/sandboxes/" + "0" * 26, ended="true")
    assert never.status == 404 and "ended at" not in never.json["error"]["message"]


def test_its_name_is_free_and_does_not_find_it(rest):
    box = Box(rest, name="again")
    assert box.destroy() == 204
    assert rest.get("/api/sandboxes/again", ended="true").status == 404
    living = Box(rest, name="again")
    assert rest.get("/api/sandboxes/again", ended="true").json["id"] == living.id


def test_how_it_ended(rest):
    late = Box(rest, limits={"timeoutSeconds": 1})
    idle = Box(rest, lifetime={"idleSeconds": 1})
    wait_gone(late)
    wait_gone(idle)
    assert record(rest, late)["end"] == "deadline"
    assert record(rest, late)["ended_by"] == "the sandbox's time limit"
    assert record(rest, idle)["end"] == "idle"


def test_one_that_failed_says_why(rest):
    box = Box(rest)
    os.kill(agent_of(box.id), signal.SIGKILL)
    wait_until(lambda: box.state == "failed", 30, lambda: box.state)
    cause = box.view["cause"]
    assert box.destroy() == 204
    kept = record(rest, box)
    assert kept["end"] == "failed" and kept["cause"] == cause


def test_of_other_tenants_nothing_is_seen(mortal, rest):
    other = Rest(mortal.socket, {"X-Atoll-Tenant": "other"})
    ours, theirs = Box(rest), Box(other)
    assert ours.destroy() == theirs.destroy() == 204
    for path in ("", "/execs"):
        answer = other.get(ours.path + path, ended="true")
        assert answer.status == 404 and "ended at" not in answer.json["error"]["message"]
    assert ended_ids(other) == [theirs.id]
    assert theirs.id not in ended_ids(rest) and theirs.id in ended_ids(rest, all="true")


def test_paging(mortal):
    pager = Rest(mortal.socket, {"X-Atoll-Tenant": "pager"})
    ids = []
    for _ in range(5):
        box = Box(pager)
        assert box.destroy() == 204
        ids.append(box.id)
    got, query = [], {}
    while True:
        page = pager.get("/api/sandboxes", state="ended", limit=2, **query).json
        got += [s["id"] for s in page["sandboxes"]]
        if "next_cursor" not in page:
            break
        query = {"cursor": page["next_cursor"]}
    assert got == ids


def test_sessions(rest):
    made = rest.post("/api/sessions", {"environment": "Bash", "agent_config": {"model": "m"}}).json
    path = f"/api/sessions/{made['session_id']}"
    assert rest.post(f"{path}/execute", {"code": "true"}).status == 200
    assert rest.delete(path).status == 204
    gone = rest.get(path)
    assert gone.status == 404 and "ended at" in gone.json["error"]["message"]
    kept = rest.get(path, ended="true").json
    assert kept["session_id"] == made["session_id"] and kept["state"] == "ended"
    assert kept["environment"] == "Bash" and kept["agent_config"] == {"model": "m"}
    assert kept["end"] == "request" and kept["sandbox"]["id"] == made["sandbox_id"]
    box = rest.get(f"/api/sandboxes/{made['sandbox_id']}", ended="true").json
    assert box["session_id"] == made["session_id"] and box == kept["sandbox"]
    other = Rest(rest.address, {"X-Atoll-Tenant": "other"})
    assert other.get(path, ended="true").status == 404


def test_records_survive_the_daemon(mortal, rest):
    box, living = Box(rest), Box(rest)
    box.run("true")
    ran = living.run("echo still here")
    assert box.destroy() == 204
    before = record(rest, box), rest.get(f"{box.path}/execs", ended="true").json
    mortal.process.kill()
    mortal.process.wait()
    mortal.start()
    assert (record(rest, box), rest.get(f"{box.path}/execs", ended="true").json) == before
    assert living.state == "running" and living.output(ran["exec_id"]) == "still here\n"
    assert [x["exec_id"] for x in living.get("execs").json["execs"]] == [ran["exec_id"]]


def records(rest):
    text = rest.get("/metrics").body.decode()
    return int(float(text.split("\natoll_ended_records ")[1].split()[0]))


def test_their_number_is_bounded():
    with running(conftest.BUILD, ATOLL_ENDED_MAX="3") as daemon:
        rest, other = Rest(daemon.socket), Rest(daemon.socket, {"X-Atoll-Tenant": "other"})
        quiet = Box(other)
        quiet.run("true")
        assert quiet.destroy() == 204
        ids = []
        for _ in range(6):
            box = Box(rest)
            box.run("true")
            assert box.destroy() == 204
            ids.append(box.id)
        daemon.process.kill()
        daemon.process.wait()
        daemon.start()  # checks them at once
        wait_until(lambda: records(rest) <= 3, 30, lambda: f"there are {records(rest)}")
        # Those of the tenant that has the most were removed, the oldest first.
        assert ended_ids(rest) == ids[-2:] and ended_ids(other) == [quiet.id]


def test_none_are_kept_if_the_operator_says_so():
    with running(conftest.BUILD, ATOLL_ENDED_MAX="0") as daemon:
        rest = Rest(daemon.socket)
        box = Box(rest)
        box.run("true")
        assert box.destroy() == 204
        answer = rest.get(box.path, ended="true")
        assert answer.status == 404 and "ended at" not in answer.json["error"]["message"]
        assert ended_ids(rest) == [] and records(rest) == 0
