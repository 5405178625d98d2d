"""Swarms: tasks that depend on each other and share a memory."""

import pytest

from daemons import BUILD, running, wait_until
from rest import Rest

# A member of a swarm, which writes to the memory of the swarm with nothing but a shell.
SET = "python3 -c \"import json,os; p=os.environ['ATOLL_SWARM_MEMORY']; m=json.load(open(p)); {}; json.dump(m, open(p,'w'))\""


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


def run(rest, *tasks, **more):
    answer = rest.call("POST", "/api/swarms", {"tasks": tasks, **more}, wait="true")
    assert answer.status == 200, answer.body
    return answer.json


def task(instruction, **more):
    return {"agent": "shell", "instruction": instruction, "autoCleanup": True, **more}


def states(swarm):
    return {member["name"]: member["state"] for member in swarm["members"]}


def test_three_run_at_the_same_time(rest):
    """Each waits until the others have begun, which the memory of the swarm cannot tell them: the test does."""
    wait = "while [ ! -e go ]; do sleep 0.05; done; echo done"
    started = rest.call("POST", "/api/swarms", {"tasks": [task(wait) for _ in range(3)]})
    assert started.status == 201, started.body
    path = f"/api/swarms/{started.json['id']}"

    def boxes():
        tasks = [member.get("task", {}) for member in rest.call("GET", path).json["members"]]
        return [one["sandbox_id"] for one in tasks if one.get("step") == "run"]
    wait_until(lambda: len(boxes()) == 3, 60, lambda: str(rest.call("GET", path).json))
    for box in boxes():
        assert rest.call("PUT", f"/api/sandboxes/{box}/files", b"", path="go").status in (200, 201)
    swarm = rest.call("GET", path, wait="true").json
    assert swarm["state"] == "succeeded" and [m["task"]["output"] for m in swarm["members"]] == ["done\n"] * 3
    assert started.json["id"] in [one["id"] for one in rest.call("GET", "/api/swarms").json["swarms"]]


def test_tasks_with_a_config(rest):
    """As an executor of agents has them."""
    config = {"agentName": "tester", "sandboxConfig": {"limits": {"memoryMB": 64}}, "autoCleanup": True, "captureFiles": True}
    swarm = run(rest, *[{"task": f"echo {i} > file", "config": {**config, "agentName": f"agent-{i}"}} for i in range(2)])
    members = [member["task"] for member in swarm["members"]]
    assert [(m["agentName"], m["files"][0]["content"]) for m in members] == [("agent-0", "0\n"), ("agent-1", "1\n")], swarm
    for twice in ({"task": "true", "agentName": "a", "config": config}, {"task": "true", "config": 7}):
        answer = rest.call("POST", "/api/swarms", {"tasks": [twice]})
        assert answer.status == 400 and "config" in answer.error["message"], answer.body
    done = rest.call("POST", "/api/tasks", {"task": "echo hi", "config": config}, wait="true").json
    assert done["state"] == "succeeded" and done["agentName"] == "tester" and done["output"] == "hi\n", done


def test_memory_and_dependencies(rest):
    swarm = run(rest, task(SET.format("m['sum'] = m['a'] + m['b']"), name="last", dependsOn=["one", "two"]),
                task(SET.format("m['a'] = 1"), name="one"), task(SET.format("m['b'] = 2; del m['gone']"), name="two"),
                memory={"gone": True, "kept": "x"})
    assert swarm["state"] == "succeeded", swarm
    assert swarm["memory"] == {"kept": "x", "a": 1, "b": 2, "sum": 3}
    path = f"/api/swarms/{swarm['id']}/memory"
    assert rest.call("PATCH", path, {"kept": None, "new": [1]}).json == {"a": 1, "b": 2, "sum": 3, "new": [1]}
    assert rest.call("GET", path).json["new"] == [1]
    assert rest.call("PATCH", path, {"big": "x" * 300000}).status == 429


def test_a_failure(rest):
    tasks = [task("exit 1", name="bad"), task("echo x", name="after", dependsOn=["bad"]), task("echo y", name="other")]
    assert states(run(rest, *tasks)) == {"bad": "failed", "after": "skipped", "other": "succeeded"}
    swarm = run(rest, *tasks[:2], task("sleep 1000", name="other"), failFast=True)
    assert states(swarm) == {"bad": "failed", "after": "skipped", "other": "canceled"} and swarm["state"] == "failed"


def test_a_retry_of_a_member(rest):
    """Its swarm goes on, although it had failed: what depends on the member begins."""
    once = task("[ -e /tmp/again ] || { touch /tmp/again; exit 1; }", name="bad", autoCleanup=False, cleanup="success")
    after = [task("echo x", name="after", dependsOn=["bad"]), task("echo y", name="last", dependsOn=["after"])]
    for more in ({}, {"failFast": True}):
        swarm = run(rest, once, *after, **more)
        assert swarm["state"] == "failed" and states(swarm) == {"bad": "failed", "after": "skipped", "last": "skipped"}, swarm
        assert rest.call("POST", f"/api/tasks/{swarm['members'][0]['task_id']}/retry", {}).status == 202
        swarm = rest.call("GET", f"/api/swarms/{swarm['id']}", wait="true").json
        assert swarm["state"] == "succeeded" and set(states(swarm).values()) == {"succeeded"}, swarm
    # The swarm fails again with its member, and one that was cancelled stays so.
    swarm = run(rest, task("exit 1", name="bad", autoCleanup=False), *after)
    path = f"/api/swarms/{swarm['id']}"
    assert rest.call("POST", f"/api/tasks/{swarm['members'][0]['task_id']}/retry", {}).status == 202
    swarm = rest.call("GET", path, wait="true").json
    assert swarm["state"] == "failed" and states(swarm) == {"bad": "failed", "after": "skipped", "last": "skipped"}, swarm
    rest.call("DELETE", f"/api/sandboxes/{swarm['members'][0]['task']['sandbox_id']}")
    started = rest.call("POST", "/api/swarms", {"tasks": [task("sleep 1000", name="bad"), *after]}).json
    path = f"/api/swarms/{started['id']}"
    assert rest.call("POST", f"{path}/cancel").status == 202
    swarm = rest.call("GET", path, wait="true").json
    member = swarm["members"][0]["task_id"]
    assert rest.call("POST", f"/api/tasks/{member}/retry", {}).status == 202
    assert rest.call("GET", path).json["state"] == "canceled"
    rest.call("POST", f"/api/tasks/{member}/cancel")
    rest.call("GET", f"/api/tasks/{member}", wait="true")


def test_cancel_and_concurrency(rest):
    started = rest.call("POST", "/api/swarms", {"tasks": [task("sleep 1000"), task("true")], "concurrency": 1}).json
    path = f"/api/swarms/{started['id']}"
    assert states(rest.call("GET", path).json) == {"0": "running", "1": "pending"}
    assert rest.call("POST", f"{path}/cancel").status == 202
    swarm = rest.call("GET", path, wait="true").json
    assert swarm["state"] == "canceled" and states(swarm) == {"0": "canceled", "1": "skipped"}


def test_the_report(rest):
    swarm = run(rest, task("echo one > a.txt; echo said", capturePatterns=["*.txt"]), task("echo two > b.txt", captureFiles=True))
    first, second = (member["task"] for member in swarm["members"])
    assert first["output"] == "said\n" and [file["content"] for file in first["files"]] == ["one\n"], swarm
    assert [file["content"] for file in second["files"] if file["path"] == "b.txt"] == ["two\n"], swarm
    for name in ("wall_seconds", "cpu_seconds"):
        assert swarm["usage"][name] == pytest.approx(first["usage"][name] + second["usage"][name]), swarm
    assert swarm["usage"]["input_tokens"] == 0


def test_contents_have_a_limit_together(rest):
    """More than four MiB of captured files: all are named, and some have no content."""
    make = "for i in $(seq 10); do head -c 60000 /dev/zero | tr '\\0' x > $i.txt; done"
    swarm = run(rest, *(task(make, capturePatterns=["*.txt"]) for _ in range(8)))
    files = [file for member in swarm["members"] for file in member["task"]["files"]]
    assert len(files) == 80
    assert 60 < sum("content" in file for file in files) <= (4 << 20) // 60000


def test_many_members_with_variables(rest):
    swarm = run(rest, *(task("true", env={"A": "1"}, capturePatterns=["*"]) for _ in range(20)))
    assert swarm["state"] == "succeeded", swarm


@pytest.mark.parametrize("body, words", [
    ({"tasks": [task("x", dependsOn=["0"] * 101)]}, "at most 100"),
    ({}, "tasks must be"),
    ({"tasks": [{"instruction": ""}]}, "tasks[0]"),
    ({"tasks": [task("x", dependsOn=["y"])]}, "names no task"),
    ({"tasks": [task("x", name="a", dependsOn=["b"]), task("x", name="b", dependsOn=["a"])]}, "circle"),
    ({"tasks": [task("x", name="a"), task("x", name="a")]}, "two tasks have the name"),
    ({"tasks": [task("x")], "memory": 1}, "memory must be"),
])
def test_what_cannot_be_a_swarm(rest, body, words):
    answer = rest.call("POST", "/api/swarms", body)
    assert answer.status == 400 and words in answer.error["message"], answer.body


def test_agents_in_a_sandbox(rest, sandbox):
    path = f"/api/sandboxes/{sandbox}/agents"
    answer = rest.call("POST", path, {"agent": "shell", "instruction": "echo $ATOLL_TASK; sleep 1000"})
    assert answer.status == 201 and [one["id"] for one in rest.call("GET", path).json["agents"]] == [answer.json["id"]]
    assert rest.call("DELETE", path).status == 204
    assert rest.call("GET", f"/api/tasks/{answer.json['id']}", wait="true").json["state"] == "canceled"
    assert rest.call("GET", path).json["agents"] == []
    assert rest.call("GET", f"/api/sandboxes/{sandbox}").json["state"] == "running"


def test_a_killed_daemon_continues():
    with running(BUILD) as daemon:
        rest = Rest(daemon.socket)
        started = rest.call("POST", "/api/swarms", {"tasks": [
            task("echo begun; while [ ! -e go ]; do sleep 0.05; done; " + SET.format("m['n'] = m.get('n', 0) + 1"),
                 name="first"),
            task(SET.format("m['n'] += 10"), name="second", dependsOn=["first"])]}).json
        path = f"/api/swarms/{started['id']}"

        def first():
            return rest.call("GET", path).json["members"][0]["task"]
        wait_until(lambda: first().get("step") == "run", 30, lambda: str(first()))
        daemon.process.kill()
        daemon.process.wait()
        daemon.start()
        assert rest.call("PUT", f"/api/sandboxes/{first()['sandbox_id']}/files", b"",
                         path="go").status in (200, 201)
        swarm = rest.call("GET", path, wait="true").json
        assert swarm["state"] == "succeeded" and swarm["memory"] == {"n": 11}, swarm
