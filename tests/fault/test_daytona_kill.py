"""kill -9 of the daemon while clients of Daytona wait: what was acknowledged happens."""

import uuid

import pytest
from conftest import BUILD, need_build, running
from daemons import wait_until
from rest import Rest

SANDBOX = "/daytona/sandbox"


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


def dockerfile(command):
    return {"dockerfileContent": f"FROM host\nRUN : {uuid.uuid4().hex}; {command}\n"}


def state_of(rest, box):
    answer = rest.get(f"{SANDBOX}/{box}")
    assert answer.status == 200, answer.body
    return answer.json["state"]


def create(rest, command, **fields):
    answer = rest.post(SANDBOX, {"buildInfo": dockerfile(command), **fields})
    assert answer.status == 200, answer.body
    return answer.json


def test_a_sandbox_that_waits_for_its_build_is_made_by_the_next_daemon(mortal):
    rest = Rest(mortal.socket)
    made = create(rest, "echo built >/built; sleep 2", name="patient", labels={"a": "b"},
                  env={"TOKEN": "t0k3n"}, ttlMinutes=1000)
    wait_until(lambda: state_of(rest, made["id"]) == "building_snapshot", 60, "no build")
    rest = die(mortal)
    again = rest.get(f"{SANDBOX}/patient").json
    for name in ("id", "name", "labels", "env", "createdAt", "autoDestroyAt", "cpu", "memory", "disk"):
        assert again.get(name) == made.get(name), name
    assert again["state"] in ("pending_build", "building_snapshot")
    wait_until(lambda: state_of(rest, made["id"]) == "started", 60, "the sandbox is not made")
    ran = rest.post(f"/daytona/toolbox/{made['id']}/process/execute",
                    {"command": "cat /built; echo $TOKEN"}).json
    assert ran["result"] == "built\nt0k3n\n"
    rest = die(mortal)
    assert state_of(rest, made["id"]) == "started"
    assert rest.delete(f"{SANDBOX}/{made['id']}").status == 200
    rest = die(mortal)
    assert rest.get(f"{SANDBOX}/{made['id']}").status == 404


def test_failed_and_deleted_ones_stay_so(mortal):
    rest = Rest(mortal.socket)
    failed = create(rest, "exit 3")["id"]
    wait_until(lambda: state_of(rest, failed) == "build_failed", 60, "the build does not fail")
    why = rest.get(f"{SANDBOX}/{failed}").json["errorReason"]
    deleted = create(rest, "sleep 100")["id"]
    assert rest.delete(f"{SANDBOX}/{deleted}").status == 200
    rest = die(mortal)
    assert rest.get(f"{SANDBOX}/{failed}").json["errorReason"] == why != ""
    assert rest.get(f"{SANDBOX}/{deleted}").status == 404
    assert rest.delete(f"{SANDBOX}/{failed}").status == 200
    rest = die(mortal)
    assert rest.get(f"{SANDBOX}/{failed}").status == 404


def test_volumes_that_no_sandbox_has_mounted_stay(mortal):
    rest = Rest(mortal.socket)
    assert rest.post("/daytona/volumes", {"name": "early"}).status == 200
    assert rest.post("/daytona/volumes", {"name": "early"}).status == 409
    rest = die(mortal)
    assert [v["name"] for v in rest.get("/daytona/volumes").json] == ["early"]
    assert rest.delete("/daytona/volumes/early").status == 200
    assert rest.get("/daytona/volumes/early").status == 404
