"""providers.yaml read again: new, changed and removed providers, and files that are wrong."""

import copy
import json
import os
import signal

import pytest
from daemons import wait_until
from fake_world import world_of


@pytest.fixture(scope="module")
def shared():
    with world_of() as made:
        yield made


@pytest.fixture
def world(shared):
    before = copy.deepcopy(shared.settings)
    yield shared
    shared.fail()
    shared.rest.delete("/api/sandboxes")
    shared.settings, shared.placement = before, None
    assert shared.reload()["in_force"] is True
    wait_until(lambda: names(shared) == ["fake", "native"], 30, lambda: f"left: {names(shared)}")
    shared.settle()


def names(world):
    return [entry["name"] for entry in world.rest.get("/api/providers").json["providers"]]


def log_lines(world, event):
    lines = [json.loads(line) for line in world.daemon.log.read_text().splitlines()
             if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


def second(world, **more):
    return {"kind": "fake", "enabled": True, "check_seconds": 0.2,
            "control": str(world.directory / "other"), **more}


def test_several_of_one_kind_and_one_more_later(world):
    world.settings["second"] = second(world, order=2)
    assert world.reload()["in_force"] is True
    assert names(world) == ["fake", "second", "native"]
    world.wait_state("up", "second")
    assert world.facts("second")["kind"] == "fake"
    box = world.box(provider="second")
    assert box.view["provider"] == "second" and box.out("echo hello") == "hello"
    assert (world.daemon.state / "fake-second" / box.id).exists()
    world.fail("create 0 unavailable")  # of the first alone
    assert world.box().view["provider"] == "second"
    world.fail()
    # Both are there again after a crash.
    world.restart()
    assert box.out("echo still") == "still"
    assert box.view["provider"] == "second"


def test_settings_of_the_engine_change_in_place(world):
    box = world.box(provider="fake")
    closed = len(log_lines(world, "provider closed"))
    world.settings["fake"] |= {"order": 500, "max_sandboxes": 1}
    world.settings["native"] = {"defaults": {"memoryMB": 128}}
    assert world.reload()["in_force"] is True
    assert names(world) == ["native", "fake"]
    made = world.box()
    assert made.view["provider"] == "native" and made.view["limits"]["memoryMB"] == 128
    assert box.out("echo here") == "here"
    answer = world.rest.post("/api/sandboxes", {"provider": "fake", "waive": ["all"]})
    assert answer.status == 429, answer.body
    assert len(log_lines(world, "provider closed")) == closed


def test_one_that_is_removed_keeps_what_it_has(world):
    box = world.box(provider="fake")
    exec_id = box.detach("read line; echo got $line", stdin=True)
    del world.settings["fake"]
    assert world.reload()["in_force"] is True
    facts = world.facts("fake")
    assert facts["removed"] is True and facts["sandboxes"] == 1
    answer = world.rest.post("/api/sandboxes", {"provider": "fake", "waive": ["all"]})
    assert answer.status == 400 and "there are: native" in answer.error["message"], answer.body
    assert box.out("echo still here") == "still here"
    answer = world.rest.call("POST", f"{box.path}/execs/{exec_id}/stdin", b"it\n")
    assert answer.status == 204, answer.body
    assert box.output(exec_id, follow="true") == "got it\n"
    assert box.destroy() == 204
    wait_until(lambda: names(world) == ["native"], 30, lambda: f"still there: {names(world)}")


def test_one_that_is_removed_is_out_of_reach_for_the_next_daemon(world):
    box = world.box(provider="fake")
    kept = world.settings.pop("fake")
    world.reload()
    world.restart()
    assert box.state == "unreachable" and "not configured" in box.view["cause"]
    refused = world.rest.post(f"{box.path}/execs", {"cmd": ["true"]})
    assert refused.status == 503 and "out of reach" in refused.error["message"], refused.body
    assert str(world.daemon.state / "providers.yaml") in refused.error["hint"], refused.body
    # And there again without a restart, once it is named again.
    world.settings["fake"] = kept
    assert world.reload()["in_force"] is True
    wait_until(lambda: box.state == "running", 30, lambda: f"not taken over: {box.view}")
    assert box.out("echo back") == "back"
    wait_until(lambda: names(world) == ["fake", "native"], 30, lambda: f"{names(world)}")


def test_changed_settings_and_the_same_sandboxes(world):
    """Another control file is another provider; what the old one made goes over to it."""
    box = world.box(provider="fake")
    exec_id = box.detach("for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.1; done")
    new = world.directory / "new-control"
    new.write_text("create 0 unavailable\n")
    world.settings["fake"]["control"] = str(new)
    assert world.reload()["in_force"] is True
    wait_until(lambda: names(world) == ["fake", "native"], 30, lambda: f"{names(world)}")
    assert box.view["provider"] == "fake" and box.out("echo on") == "on"
    assert box.output(exec_id, follow="true") == "".join(f"{i}\n" for i in range(1, 10))
    answer = world.rest.post("/api/sandboxes", {"provider": "fake", "waive": ["all"]})
    assert answer.status == 503 and "create is to fail" in answer.error["message"], answer.body
    new.unlink()
    # Its agent is found by the new one, too.
    os.kill(int((world.daemon.state / "fake" / box.id / "pid").read_text()), signal.SIGKILL)
    wait_until(lambda: box.state == "failed", 30, lambda: f"nobody noticed: {box.view}")


def test_one_that_is_being_made_stays_where_it_is_made(world):
    world.fail("create 1500 ok")
    body = json.dumps({"provider": "fake", "waive": ["all"]})
    connection = world.rest.connection()
    connection.request("POST", "/api/sandboxes", body)
    wait_until(lambda: world.rest.get("/api/sandboxes").json["sandboxes"], 30, lambda: "none made")
    world.settings["fake"]["control"] = str(world.directory / "none")
    world.reload()
    answer = connection.getresponse()
    made = json.loads(answer.read())
    assert answer.status == 201, made
    wait_until(lambda: names(world) == ["fake", "native"], 30, lambda: f"{names(world)}")
    assert world.rest.get(f"/api/sandboxes/{made['id']}").json["state"] == "running"
    assert world.rest.post(f"/api/sandboxes/{made['id']}/execs", {"cmd": ["true"]},
                           wait="true").json["result"]["exit_code"] == 0


@pytest.mark.parametrize("change, said", [
    ({"fake": {"enabled": True, "order": "first"}}, "fake.order"),
    ({"native": {"enabled": False}}, "provider native cannot be removed"),
    ({"gvisor": {}}, "provider gvisor cannot be added"),
    ({"e2b": {"api_key_file": "/no/such/file"}}, "provider e2b"),
    ({"docker2": {}}, 'docker2 needs a "kind"'),
])
def test_a_file_that_is_wrong_changes_nothing(world, change, said):
    before = names(world)
    good = dict(world.settings)
    world.settings = {**world.settings, **change}
    loaded = world.reload()
    assert loaded["in_force"] is False and loaded["error"].startswith("providers.yaml:1"), loaded
    assert said in loaded["error"] and str(world.directory) not in loaded["error"]
    line = log_lines(world, "providers not reloaded")[-1]
    assert line["level"] == "error" and said in line["error"]
    assert names(world) == before
    assert world.box(provider="fake").out("echo as before") == "as before"
    shown = world.daemon.atoll("providers", check=True)
    assert said in shown.stderr
    world.settings = good
    assert world.reload() == {"at": world.loaded["at"], "in_force": True}


# Readiness.

def ready(world):
    answer = world.rest.get("/readyz")
    return answer.status, {one["name"]: one for one in answer.json["providers"]}, answer.json


def test_ready_while_one_can(world):
    world.wait_state("up")
    status, one, whole = ready(world)
    assert status == 200 and whole["reasons"] == []
    assert one == {"fake": {"name": "fake", "ready": True},
                   "native": {"name": "native", "ready": True}}
    world.fail("health 0 unavailable")
    world.wait_state("down")
    status, one, whole = ready(world)
    assert status == 200 and one["native"]["ready"] is True
    assert one["fake"]["ready"] is False and "health is to fail" in one["fake"]["reason"]
    # One that is full cannot either.
    world.settings["native"] = {"max_sandboxes": 1}
    world.reload()
    box = world.box(provider="native")
    status, one, whole = ready(world)
    assert status == 503 and whole["status"] == "unavailable", whole
    assert "maximum number of sandboxes" in one["native"]["reason"] and len(whole["reasons"]) == 2, whole
    assert box.destroy() == 204
    assert ready(world)[0] == 200


# Whose request it was.

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_calls_of_providers_say_whose_request_it_was(world):
    headers = {"traceparent": TRACE, "X-Request-Id": "mine-1"}
    made = world.rest.call("POST", "/api/sandboxes", {"provider": "fake", "waive": ["all"]}, headers)
    assert made.status == 201, made.body
    path = f"/api/sandboxes/{made.json['id']}"
    assert world.rest.call("DELETE", path, None, {**headers, "X-Request-Id": "mine-2"}).status == 204
    calls = {line["op"]: line for line in log_lines(world, "provider call")
             if line["sandbox"] == made.json["id"]}
    assert calls["create"]["request_id"] == "mine-1" and calls["destroy"]["request_id"] == "mine-2"
    spans = {call["span_id"] for call in calls.values()}
    assert len(spans) == len(calls) and TRACE.split("-")[2] not in spans
    assert {call["trace_id"] for call in calls.values()} == {TRACE.split("-")[1]}
    # Nobody asked for the checks.
    checks = [line for line in log_lines(world, "provider call")
              if line["op"] == "health" and line["provider"] == "fake"]
    assert checks and all(line["request_id"] == "" for line in checks)


def test_nothing_is_said_of_a_file_that_was_read_once():
    with world_of() as world:
        assert "reload" not in world.rest.get("/api/providers").json


def test_going_elsewhere_says_so_too(world):
    world.fail("create 0 unavailable")
    made = world.rest.call("POST", "/api/sandboxes", {"waive": ["all"]},
                           {"traceparent": TRACE, "X-Request-Id": "mine-3"})
    assert made.json["provider"] == "native", made.body
    line = log_lines(world, "create moves to another provider")[-1]
    assert (line["request_id"], line["trace_id"]) == ("mine-3", TRACE.split("-")[1])
    calls = [line for line in log_lines(world, "provider call")
             if line["sandbox"] == made.json["id"] and line["op"] == "create"]
    assert [call["provider"] for call in calls] == ["fake"] * 4 + ["native"]
    assert {call["request_id"] for call in calls} == {"mine-3"}
    assert len({call["span_id"] for call in calls}) == 5


@pytest.mark.parametrize("placement, expected", [
    ("order", ["fake"] * 6),
    ("spread", ["fake", "second"] * 3),
    ("weight", ["second", "fake", "second"] * 2),
])
def test_sandboxes_are_divided_as_the_file_says(world, placement, expected):
    world.settings["second"] = second(world, order=2, weight=2)
    world.settings["native"] = {"named_only": True}
    world.placement = placement
    assert world.reload()["in_force"] is True
    world.wait_state("up", "second")
    assert [world.box().view["provider"] for _ in expected] == expected


def test_a_placement_that_does_not_exist_is_refused(world):
    world.placement = "best"
    told = world.reload()
    assert told["in_force"] is False and "placement" in told["error"], told
