"""Vercel's control plane: sandboxes, their sessions, snapshots and lists, by the bytes that clients send."""

import pytest
from rest import Rest

V1, V2, V3 = (f"/vercel/api/v{number}/sandboxes" for number in (1, 2, 3))


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


def create(rest, base=V3, **fields):
    answer = rest.post(base, {"projectId": "prj_1", **fields})
    assert answer.status == 200, answer.body
    return answer.json


def run(rest, made, command):
    """What a command in the sandbox prints, by our own API."""
    sid = (made.get("session") or made["sandbox"])["id"]
    box = sid.removeprefix("sbx_").split("_")[0]
    answer = rest.post(f"/api/sandboxes/{box}/execs", {"cmd": ["sh", "-c", command]}, wait="true")
    assert answer.status == 200, answer.body
    return answer.json["stdout"]


def error_of(answer):
    return answer.status, answer.json["error"]["code"]


def test_a_new_sandbox(rest):
    made = create(rest, name="new-one", ports=[3000], tags={"a": "1"}, timeout=60000)
    sandbox, session = made["sandbox"], made["session"]
    assert sandbox["name"] == "new-one" and sandbox["persistent"] is True
    assert sandbox["currentSessionId"] == session["id"]
    assert sandbox["status"] == session["status"] == "running"
    assert (session["timeout"], session["cwd"]) == (60000, "/vercel/sandbox")
    assert sandbox["tags"] == {"a": "1"}
    assert [route["port"] for route in made["routes"]] == [3000]
    assert run(rest, made, "id -un; pwd; echo $HOME; touch ~/x /vercel/sandbox/y && echo ok").split() == [
        "vercel-sandbox", "/vercel/sandbox", "/home/vercel-sandbox", "ok"]
    assert run(rest, made, "sudo id -un").split() == ["root"]
    assert rest.delete(f"{V2}/new-one").status == 200
    assert error_of(rest.get(f"{V2}/new-one")) == (404, "not_found")


def test_a_stop_keeps_the_files_for_the_next_session(rest):
    made = create(rest, name="kept")
    run(rest, made, "echo one >file")
    stopped = rest.post(f"{V2}/sessions/{made['session']['id']}/stop")
    assert stopped.status == 200, stopped.body
    assert stopped.json["session"]["status"] == "stopped"
    assert stopped.json["snapshot"]["status"] == "created"
    assert stopped.json["sandbox"]["currentSnapshotId"] == stopped.json["snapshot"]["id"]
    again = rest.get(f"{V2}/kept?resume=true").json
    assert again["resumed"] is True and again["session"]["id"] != made["session"]["id"]
    assert run(rest, again, "cat file") == "one\n"
    assert rest.get(f"{V2}/kept?resume=true").json["resumed"] is False
    first = rest.get(f"{V2}/sessions/{made['session']['id']}").json["session"]
    assert first["status"] == "stopped" and first["duration"] >= 0
    listed = rest.get(f"{V2}/sessions?name=kept").json["sessions"]
    assert [s["id"] for s in listed] == [again["session"]["id"], made["session"]["id"]]
    assert error_of(rest.post(f"{V2}/sessions/{made['session']['id']}/extend-timeout",
                              {"duration": 1000})) == (410, "sandbox_stopped")
    rest.delete(f"{V2}/kept")


def test_a_sandbox_that_keeps_nothing_starts_afresh(rest):
    made = create(rest, name="afresh", persistent=False)
    run(rest, made, "echo one >file")
    stopped = rest.post(f"{V2}/sessions/{made['session']['id']}/stop").json
    assert "snapshot" not in stopped
    again = rest.get(f"{V2}/afresh?resume=true").json
    assert run(rest, again, "ls -A; id -un; touch y") == "vercel-sandbox\n"
    rest.delete(f"{V2}/afresh")


def test_version_one(rest):
    made = create(rest, V1, runtime="node22", timeout=60000)
    sandbox = made["sandbox"]
    assert sandbox["status"] == "running" and sandbox["runtime"] == "node22"
    assert rest.get(f"{V1}/{sandbox['id']}").json["sandbox"]["id"] == sandbox["id"]
    assert sandbox["id"] in [s["id"] for s in rest.get(V1).json["sandboxes"]]
    assert rest.post(f"{V1}/{sandbox['id']}/stop").json["sandbox"]["status"] == "stopped"
    assert rest.get(f"{V1}/{sandbox['id']}").json["sandbox"]["status"] == "stopped"
    assert rest.post(f"{V1}/{sandbox['id']}/stop").json["sandbox"]["status"] == "stopped"
    assert error_of(rest.post(f"{V1}/{sandbox['id']}/extend-timeout", {"duration": 1})) == (
        410, "sandbox_stopped")


def test_more_time(rest):
    made = create(rest, timeout=60000)
    path = f"{V2}/sessions/{made['session']['id']}/extend-timeout"
    assert rest.post(path, {"duration": 30000}).json["session"]["timeout"] == 90000
    assert error_of(rest.post(path, {"duration": 10**12})) == (400, "sandbox_timeout_invalid")
    rest.delete(f"{V2}/{made['sandbox']['name']}")


def test_lists_have_filters_and_pages(rest):
    for i in range(3):
        create(rest, name=f"listed-{i}", tags={"team": "x", "i": str(i)})
    page = rest.get(f"{V2}?namePrefix=listed-&limit=2").json
    assert [s["name"] for s in page["sandboxes"]] == ["listed-2", "listed-1"]
    page = rest.get(f"{V2}?namePrefix=listed-&limit=2&cursor={page['pagination']['next']}").json
    assert [s["name"] for s in page["sandboxes"]] == ["listed-0"]
    assert page["pagination"] == {"count": 1, "next": None}
    page = rest.get(f"{V2}?tags=team:x&tags=i:1").json
    assert [s["name"] for s in page["sandboxes"]] == ["listed-1"]
    for i in range(3):
        assert rest.delete(f"{V2}/listed-{i}").status == 200
