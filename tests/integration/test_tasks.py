"""Tasks: an instruction goes in, files and branches come out, whatever happens to the daemon meanwhile."""

import json
import os
import shutil
import signal
import subprocess
from urllib.parse import quote

import pytest

from daemons import BUILD, ROOT, running, wait_until
from git_server import PASSWORD, USER, GitServer, git
from networks import FAR, networked
from rest import Rest
from resting import agent_of

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="there is no git")

PORT = 8080
URL = f"http://one.test:{PORT}"


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


def run(rest, instruction, **more):
    """Starts a task of the agent `shell` and waits for its end."""
    answer = rest.call("POST", "/api/tasks", {"agent": "shell", "instruction": instruction, **more}, wait="true")
    assert answer.status == 200, answer.body
    return answer.json


def start(rest, instruction, **more):
    answer = rest.call("POST", "/api/tasks", {"agent": "shell", "instruction": instruction, **more})
    assert answer.status == 201, answer.body
    return answer.json["id"]


def get(rest, task_id, **query):
    return rest.call("GET", f"/api/tasks/{task_id}", **query).json


def log(rest, task_id):
    return rest.call("GET", f"/api/tasks/{task_id}/log").lines


def said(rest, task_id):
    return [line["message"] for line in log(rest, task_id) if line["level"] == "output"]


def test_an_instruction_in_files_out(rest):
    task = run(rest, "echo working; echo '{}' > a.json; mkdir d; echo x > d/b.json; echo y > c.txt",
               capturePatterns=["*.json", "**/*.json"])
    assert task["state"] == "succeeded", task
    assert task["output"] == "working\n" and task["exit_code"] == 0 and task["percent"] == 100
    assert {file["path"]: file["content"] for file in task["files"]} == {"a.json": "{}\n", "d/b.json": "x\n"}
    assert task["usage"]["cpu_seconds"] > 0
    assert rest.call("GET", f"/api/sandboxes/{task['sandbox_id']}", ended="false").status == 404  # it is gone
    levels = {line["level"] for line in log(rest, task["id"])}
    assert levels >= {"info", "command", "output", "success"}
    assert said(rest, task["id"]) == ["working"]


def test_what_is_captured(rest):
    """Not what .gitignore files exclude; with a diff against the start."""
    box = rest.call("POST", "/api/sandboxes", {"workdir": "/work"}).json["id"]
    rest.call("PUT", f"/api/sandboxes/{box}/files", b"one\n", path="/work/a.txt")
    rest.call("PUT", f"/api/sandboxes/{box}/files", b"gone\n", path="/work/c.txt")
    task = run(rest, "echo two >> a.txt; echo new > b.txt; rm c.txt; echo '*.log' > .gitignore; mkdir d; echo x > d/x.log",
               sandboxId=box, captureFiles=True)
    assert task["state"] == "succeeded", (task, log(rest, task["id"]))
    assert [file["path"] for file in task["files"]] == ["a.txt", "b.txt"]  # the sandbox stays, the copies are made
    assert {(c["path"], c["state"]) for c in task["changes"]} == {
        ("a.txt", "modified"), ("b.txt", "added"), ("c.txt", "deleted"), (".gitignore", "added")}
    assert "\n+two\n" in task["diff"] and "\n-gone\n" in task["diff"] and "x.log" not in task["diff"]
    assert rest.call("GET", f"/api/artifacts/{box}/{task['patch']}").body.decode() == task["diff"]
    # On demand, which replaces that.
    path = f"/api/sandboxes/{box}/capture"
    assert [f["path"] for f in rest.call("POST", path, {"patterns": ["**/*.log"]}).json["files"]] == []
    kept = rest.call("POST", path, {"patterns": ["**/*.log"], "ignored": True}).json
    assert [f["path"] for f in kept["files"]] == ["d/x.log"] and kept["complete"]
    assert rest.call("GET", f"/api/artifacts/{box}/d/x.log").body == b"x\n"
    assert rest.call("DELETE", f"/api/sandboxes/{box}").status == 204
    assert rest.call("GET", f"/api/artifacts/{box}").json["count"] == 1  # it outlives the sandbox
    assert rest.call("POST", path, {}).status == 404
    # A task that fails keeps its sandbox, and its files.
    task = run(rest, "echo half > half.txt; exit 1", capturePatterns=["*.txt"])
    assert task["state"] == "failed" and [file["path"] for file in task["files"]] == ["half.txt"], task
    rest.call("DELETE", f"/api/sandboxes/{task['sandbox_id']}")


def test_the_names_of_other_programs(rest):
    answer = rest.call("POST", "/api/tasks", {
        "task": "echo hello > app.js", "agentName": "backend-dev", "systemPrompt": "You are a backend developer.",
        "sandboxConfig": {"limits": {"memoryMB": 256, "cpuCores": 0.5}}, "autoCleanup": True,
        "captureFiles": True, "capturePatterns": ["*.js"]}, wait="true")
    assert answer.json["state"] == "succeeded", answer.json
    assert [file["path"] for file in answer.json["files"]] == ["app.js"]


def test_a_failing_agent(rest):
    task = run(rest, "echo before; echo trouble >&2; exit 3")
    assert task["state"] == "failed" and task["step"] == "run" and task["exit_code"] == 3
    assert "exited with status 3" in task["error"]["message"] and "trouble" in task["error"]["message"]
    # Its sandbox is kept for a retry, which runs the step again.
    assert rest.call("GET", f"/api/sandboxes/{task['sandbox_id']}").json["state"] == "running"
    assert rest.call("POST", f"/api/tasks/{task['id']}/retry", {"step": "no"}).status == 400
    assert rest.call("POST", f"/api/tasks/{task['id']}/retry", {}).status == 202
    again = get(rest, task["id"], wait="true")
    assert again["state"] == "failed" and again["attempt"] == 2 and again["sandbox_id"] == task["sandbox_id"]
    assert said(rest, task["id"]).count("before") == 2
    assert rest.call("DELETE", f"/api/sandboxes/{task['sandbox_id']}").status == 204
    assert rest.call("DELETE", f"/api/tasks/{task['id']}").status == 204
    assert rest.call("GET", f"/api/tasks/{task['id']}").status == 404


def test_steps_without_work(rest):
    """They are skipped, and the others are not."""
    task = run(rest, "true", check="true")
    states = {step["step"]: step["state"] for step in task["steps"]}
    assert [step for step in states if states[step] == "succeeded"] == ["sandbox", "run", "check", "cleanup"], states
    assert {step for step in states if states[step] == "skipped"} == {
        "install", "clone", "branch", "setup", "capture", "commit", "push", "open"}, states


@pytest.mark.parametrize("cleanup", ["success", "never"])
def test_the_sandbox_of_a_removed_task(rest, cleanup):
    """It was kept for a retry, unless the client wants to keep it."""
    task_id = start(rest, "echo begun; sleep 1000", cleanup=cleanup)
    wait_until(lambda: said(rest, task_id) == ["begun"], 30, lambda: str(log(rest, task_id)))
    assert rest.call("POST", f"/api/tasks/{task_id}/cancel").status == 202
    box = f"/api/sandboxes/{get(rest, task_id, wait='true')['sandbox_id']}"
    assert rest.call("GET", box).json["state"] == "running"
    assert rest.call("DELETE", f"/api/tasks/{task_id}").status == 204
    if cleanup == "success":
        wait_until(lambda: rest.call("GET", box, ended="false").status == 404, 30, lambda: str(rest.call("GET", box).json))
    else:
        assert rest.call("GET", box).json["state"] == "running" and rest.call("DELETE", box).status == 204


def test_the_sandbox_of_a_removed_task_in_which_an_agent_works(rest):
    """It is left to the agent."""
    task = run(rest, "exit 1")
    box = f"/api/sandboxes/{task['sandbox_id']}"
    agent = rest.call("POST", f"{box}/agents", {"agent": "shell", "instruction": "while [ ! -e /tmp/go ]; do sleep 0.05; done; echo done"})
    assert agent.status == 201, agent.body
    assert rest.call("DELETE", f"/api/tasks/{task['id']}").status == 204
    assert rest.call("PUT", f"{box}/files", b"", path="/tmp/go").status < 300
    ended = get(rest, agent.json["id"], wait="true")
    assert ended["state"] == "succeeded" and said(rest, ended["id"]) == ["done"], ended
    assert rest.call("GET", box).json["state"] == "running" and rest.call("DELETE", box).status == 204


def test_a_failing_check(rest):
    task = run(rest, "echo 1 > n", check="grep 2 n", autoCleanup=True)
    assert task["state"] == "failed" and task["step"] == "check"
    assert rest.call("GET", f"/api/sandboxes/{task['sandbox_id']}", ended="false").status == 404


def test_in_a_sandbox_that_exists(rest, sandbox):
    task = run(rest, "echo here > /tmp/found", sandboxId=sandbox)
    assert task["state"] == "succeeded" and task["sandbox_id"] == sandbox
    assert rest.call("GET", f"/api/sandboxes/{sandbox}/files", path="/tmp/found").body == b"here\n"


def test_its_commands_are_in_the_history_of_a_sandbox_with_checkpoints(rest):
    """What the client asked for, not what the task does for itself."""
    box = rest.call("POST", "/api/sandboxes", {"checkpoints": "command", "workdir": "/work"}).json["id"]
    task = run(rest, "echo found > f", sandboxId=box, setup="echo set > up", check="test -e up -a -e f", captureFiles=True)
    assert task["state"] == "succeeded", (task, log(rest, task["id"]))
    commands = rest.call("GET", f"/api/sandboxes/{box}/history").json["commands"]
    assert [one["command"].split()[-1] for one in commands[::2]] == ["f", "up"], commands
    assert "found" in commands[1]["command"] and len(commands) == 3
    assert rest.call("POST", f"/api/sandboxes/{box}/undo", {"commands": 2}).json["number"] == 1
    for name, status in (("up", 200), ("f", 404)):
        assert rest.call("GET", f"/api/sandboxes/{box}/files", path=f"/work/{name}").status == status
    rest.call("DELETE", f"/api/sandboxes/{box}")


def test_cancel(rest):
    task_id = start(rest, "echo begun; sleep 1000", autoCleanup=True)
    wait_until(lambda: said(rest, task_id) == ["begun"], 30, lambda: str(log(rest, task_id)))
    assert rest.call("DELETE", f"/api/tasks/{task_id}").status == 409
    assert rest.call("POST", f"/api/tasks/{task_id}/cancel").status == 202
    assert get(rest, task_id, wait="true")["state"] == "canceled"


def test_a_retry_from_the_first_step(rest, sandbox):
    """It gets another sandbox; that of the try before is removed, unless it was given."""
    task = run(rest, "[ -e again ]", sandbox={"name": "one-of-a-task"})
    first = task["sandbox_id"]
    assert rest.call("POST", f"/api/tasks/{task['id']}/retry", {"step": "sandbox"}).status == 202
    task = get(rest, task["id"], wait="true")
    assert task["state"] == "failed" and task["step"] == "run" and task["sandbox_id"] != first, task
    assert rest.call("GET", "/api/sandboxes/one-of-a-task").json["id"] == task["sandbox_id"]
    wait_until(lambda: rest.call("GET", f"/api/sandboxes/{first}", ended="false").status == 404, 30, lambda: "it runs on")
    rest.call("DELETE", f"/api/sandboxes/{task['sandbox_id']}")
    task = run(rest, "exit 1", sandboxId=sandbox)
    assert rest.call("POST", f"/api/tasks/{task['id']}/retry", {"step": "sandbox"}).status == 202
    task = get(rest, task["id"], wait="true")
    assert task["state"] == "failed" and task["step"] == "run" and task["sandbox_id"] == sandbox, task
    assert rest.call("GET", f"/api/sandboxes/{sandbox}").json["state"] == "running"


@pytest.mark.parametrize("given", [False, True], ids=["its own sandbox", "a sandbox that was given"])
def test_a_cancel_outlives_the_daemon(given):
    """The daemon dies after its answer, before the command has ended."""
    with running(BUILD) as daemon:
        rest = Rest(daemon.socket)
        where = {"sandboxId": rest.call("POST", "/api/sandboxes", {}).json["id"]} if given else {"cleanup": "never"}
        task_id = start(rest, "echo begun; sleep 1000", **where)
        wait_until(lambda: said(rest, task_id) == ["begun"], 30, lambda: str(log(rest, task_id)))
        box = get(rest, task_id)["sandbox_id"]
        agent = agent_of(box)
        os.kill(agent, signal.SIGSTOP)  # it does not hear of the cancellation
        try:
            assert rest.call("POST", f"/api/tasks/{task_id}/cancel").status == 202
            assert get(rest, task_id)["state"] == "running"
            daemon.process.kill()
            daemon.process.wait()
        finally:
            os.kill(agent, signal.SIGCONT)
        daemon.start()
        task = get(rest, task_id, wait="true")
        assert task["state"] == "canceled" and task["step"] == "run" and "_canceled_by" not in task, task
        execs = rest.call("GET", f"/api/sandboxes/{box}/execs").json["execs"]
        assert len(execs) == 1 and execs[0].get("result"), execs
        # And it can be tried again.
        assert rest.call("POST", f"/api/tasks/{task_id}/retry", {}).status == 202
        wait_until(lambda: said(rest, task_id) == ["begun"] * 2, 30, lambda: str(log(rest, task_id)))
        assert rest.call("POST", f"/api/tasks/{task_id}/cancel").status == 202
        assert get(rest, task_id, wait="true")["state"] == "canceled"


def test_silence_ends_an_agent(rest):
    task = run(rest, "sleep 1000", stallSeconds=1, autoCleanup=True)
    assert task["state"] == "failed" and "printed nothing" in task["error"]["message"]


def test_the_log_is_followed(rest):
    task_id = start(rest, "for i in 1 2 3; do echo $i; sleep 0.1; done")
    lines = rest.call("GET", f"/api/tasks/{task_id}/log", follow="true").lines
    assert [line["message"] for line in lines if line["level"] == "output"] == ["1", "2", "3"]
    assert lines[-1]["level"] == "success"
    events = rest.call("GET", f"/api/tasks/{task_id}/log", None, {"Accept": "text/event-stream"}).body.decode()
    assert events.count("data: {") == len(lines)


@pytest.mark.parametrize("body, words", [
    ({}, "instruction is missing"),
    ({"instruction": "x", "agent": "no-such-agent"}, "does not exist; there are:"),
    ({"instruction": "x", "cleanup": "maybe"}, "cleanup must be"),
    ({"instruction": "x", "repo": {}}, "either"),
    ({"instruction": "x", "repo": 7}, "repo must be"),
    ({"instruction": "x", "repo": "ftp://one.test/a"}, "https:// or http://"),
    ({"instruction": "x", "repo": "git@one.test:a.git"}, "no key for SSH"),
    ({"instruction": "x", "repo": "ssh://git@one.test/a.git"}, "no key for SSH"),
    ({"instruction": "x", "timeoutSeconds": -1}, "timeoutSeconds must be"),
    ({"instruction": "x", "sandbox": {"limits": {"memoryMB": -1}}}, "memoryMB"),
    ({"instruction": "x", "sandbox": {}, "sandboxId": "y"}, "either"),
    ({"instruction": "x", "repo": "http://x/y", "sandboxId": "y"}, "needs a sandbox of its own"),
    ({"instruction": "x", "unknown": 1}, "unknown"),
])
def test_what_cannot_be_a_task(rest, body, words):
    answer = rest.call("POST", "/api/tasks", body)
    assert answer.status in (400, 404) and words in answer.error["message"], answer.body


def test_lines_of_any_kind(rest):
    """What an agent prints is hostile: values of other types than its rules expect, long lines, many empty ones."""
    said_by_it = ('{"type":"result","is_error":"x"}', '{"type":7,"is_error":[]}', '{"type":"result","is_error":false,"result":"ok"}')
    fake = "\n".join(f"echo '{line}'" for line in said_by_it)
    box = rest.call("POST", "/api/sandboxes", {}).json["id"]
    script = f"#!/bin/sh\nhead -c 300000 /dev/zero | tr '\\0' x; echo\nyes '' | head -n 200000\n{fake}\n"
    assert rest.call("PUT", f"/api/sandboxes/{box}/files", script.encode(), path="/usr/local/bin/claude", user="root",
                     mode="0755").status in (200, 201)
    task = rest.call("POST", f"/api/sandboxes/{box}/agents", {
        "agent": "claude-code", "instruction": "x", "env": {"ANTHROPIC_API_KEY": "x"}}, wait="true").json
    assert task["state"] == "succeeded" and task["output"] == "ok", task
    assert task["log_bytes"] < 40 << 20 and all("level" in line for line in log(rest, task["id"]))
    rest.call("DELETE", f"/api/sandboxes/{box}")


def test_a_request_that_is_too_large(rest):
    answer = rest.call("POST", "/api/tasks", {"instruction": "x", "env": {f"A{i}": "x" * 30000 for i in range(40)}})
    assert answer.status == 400 and "1024 KiB" in answer.error["message"], answer.body


def test_a_key_that_is_missing(rest):
    answer = rest.call("POST", "/api/tasks", {"instruction": "x", "agent": "claude-code", "environment": "Bash"})
    assert answer.status == 409 and "atoll secret create ANTHROPIC_API_KEY" in answer.error["message"], answer.body


def test_a_local_repository(daemon, tmp_path):
    """It goes in as a bundle, and the branch comes back, without any network."""
    git("init", "-qb", "main", tmp_path)
    (tmp_path / "a").write_text("1\n")
    git("add", "-A", cwd=tmp_path)
    git("commit", "-qm", "first", cwd=tmp_path)
    done = daemon.atoll("task", "run", "--repo", tmp_path, "--branch", "work", "--agent", "shell",
                        "--capture", "b", "--cleanup", "never", "--json",
                        "--instruction", "echo 2 >> a; echo new > b", timeout=90)
    assert done.returncode == 0, done.stderr
    task = json.loads(done.stdout)
    assert "+2\n" in task["diff"] and [file["path"] for file in task["files"]] == ["b"]
    assert git("show", "work:a", cwd=tmp_path) == "1\n2\n" and git("show", "work:b", cwd=tmp_path) == "new\n"
    assert git("rev-parse", "work~1", cwd=tmp_path) == git("rev-parse", "main", cwd=tmp_path)
    message = git("log", "-1", "--format=%B", "work", cwd=tmp_path)
    assert message.startswith("echo 2 >> a; echo new > b") and "Atoll-Task: " in message
    listed = daemon.atoll("task", "ls").stdout
    assert "succeeded" in listed
    task_id = listed.splitlines()[1].split()[0]
    assert "succeeded" in daemon.atoll("task", "show", task_id).stdout
    assert "waiting for the repository" in daemon.atoll("task", "logs", task_id).stdout


def test_a_repository_of_a_server():
    with networked() as daemon:
        directory = daemon.networks.directory
        (directory / "git").mkdir()
        server = GitServer(daemon.networks.far.listen(FAR[0], PORT), directory / "git")
        server.make("private")
        rest = Rest(daemon.socket)
        repo = {"url": f"{URL}/private.git", "username": USER, "password": PASSWORD}
        task = run(rest, "echo done > result; grep -rl p%40ss . ~ /tmp /etc 2>/dev/null || true", repo=repo,
                   branch="agent/one", sandbox={"network": {"mode": "bridge"}})
        assert task["state"] == "succeeded", (task, log(rest, task["id"]))
        assert task["pushed"] and task["branch"] == "agent/one"
        assert [change["path"] for change in task["changes"]] == ["result"]
        assert git("show", "agent/one:result", cwd=directory / "git" / "private.git") == "done\n"
        assert git("rev-parse", "agent/one", cwd=directory / "git" / "private.git").strip() == task["commit"]
        assert PASSWORD not in str(task) and PASSWORD not in str(log(rest, task["id"]))
        # The agent sends the branch elsewhere: it goes to the repository of the request. In the URL, the password is not shown.
        other = GitServer(daemon.networks.far.listen(FAR[1], PORT), directory / "git")
        task = run(rest, f"git remote set-url origin http://two.test:{PORT}/private.git; echo 2 > result",
                   repo=f"http://{USER}:{quote(PASSWORD, safe='')}@one.test:{PORT}/private.git",
                   sandbox={"network": {"mode": "bridge"}}, autoCleanup=True)
        assert task["state"] == "succeeded" and task["repo"] == f"{URL}/private.git", task
        assert other.offered == [] and server.offered
        assert git("rev-parse", task["branch"], cwd=directory / "git" / "private.git").strip() == task["commit"]
        other.close()
        # Nothing changed: nothing is pushed.
        task = run(rest, "true", repo=repo, branch="agent/two", sandbox={"network": {"mode": "bridge"}})
        assert task["state"] == "succeeded" and "commit" not in task and "pushed" not in task
        # A wrong password fails at the clone, and says so.
        task = run(rest, "true", repo={**repo, "password": "wrong"}, autoCleanup=True,
                   sandbox={"network": {"mode": "bridge"}})
        assert task["state"] == "failed" and task["step"] == "clone", task
        server.close()


def test_a_killed_daemon_continues(tmp_path):
    """The agent runs once, and its output is in the log once."""
    with running(BUILD) as daemon:
        rest = Rest(daemon.socket)
        task_id = start(rest, "echo begun; echo run >> runs; while [ ! -e go ]; do sleep 0.05; done; cat runs")
        wait_until(lambda: said(rest, task_id) == ["begun"], 30, lambda: str(log(rest, task_id)))
        box = get(rest, task_id)["sandbox_id"]
        daemon.process.kill()
        daemon.process.wait()
        daemon.start()
        assert get(rest, task_id)["state"] == "running"
        assert rest.call("PUT", f"/api/sandboxes/{box}/files", b"", path="go").status in (200, 201)
        task = get(rest, task_id, wait="true")
        assert task["state"] == "succeeded" and task["output"] == "begun\nrun\n", task
        assert said(rest, task_id) == ["begun", "run"]


def stop_and_start(daemon):
    daemon.process.send_signal(signal.SIGTERM)
    daemon.process.wait()
    daemon.start()


def test_a_stopped_daemon_begins_again():
    """Its stop ends the sandboxes: the next daemon begins their tasks again, but not those that need a client."""
    wait = "echo begun; until [ -e go ]; do sleep 0.05; done; ls"
    with running(BUILD) as daemon:
        rest = Rest(daemon.socket)
        box = rest.call("POST", "/api/sandboxes", {"workdir": "/work"}).json["id"]
        task_id, there = start(rest, wait), start(rest, wait, sandboxId=box)
        sent = start(rest, "true", repo={"upload": True})
        for each in (task_id, there):
            wait_until(lambda each=each: said(rest, each) == ["begun"], 30, lambda each=each: str(log(rest, each)))
        wait_until(lambda: get(rest, sent)["wants_source"], 30, lambda: str(get(rest, sent)))
        before = get(rest, task_id)
        stop_and_start(daemon)
        for each, step, words in ((there, "run", f"atoll task retry {there}` "), (sent, "clone", "--repo DIR")):
            task = get(rest, each, wait="true")
            assert task["state"] == "failed" and task["step"] == step and task["error"]["code"] == "aborted", task
            assert "the daemon was stopped" in task["error"]["message"] and words in task["error"]["message"], task
        wait_until(lambda: said(rest, task_id) == ["begun", "begun"], 60, lambda: str(log(rest, task_id)))
        task = get(rest, task_id)
        assert task["state"] == "running" and task["attempt"] == 2 and task["sandbox_id"] != before["sandbox_id"], task
        lines = [line["message"] for line in log(rest, task_id)]
        assert any("begins again" in line and "atoll reload" in line for line in lines), lines
        path = f"/api/sandboxes/{task['sandbox_id']}/files"
        assert rest.call("PUT", path, b"", path="go").status in (200, 201)
        task = get(rest, task_id, wait="true")
        assert task["state"] == "succeeded" and task["output"] == "begun\ngo\n", task


def test_a_repository_that_was_sent(tmp_path):
    """The next daemon does not ask for it again."""
    git("init", "-qb", "main", tmp_path)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=tmp_path)
    git("bundle", "create", "-q", tmp_path / "bundle", "HEAD", "main", cwd=tmp_path)
    with running(BUILD) as daemon:
        rest = Rest(daemon.socket)
        task_id = start(rest, "git log --format=%s", repo={"upload": True})
        wait_until(lambda: get(rest, task_id)["wants_source"], 30, lambda: str(get(rest, task_id)))
        box = get(rest, task_id)["sandbox_id"]
        content = (tmp_path / "bundle").read_bytes()
        assert rest.call("PUT", f"/api/sandboxes/{box}/files", content, path="/tmp/.atoll-task.bundle").status in (200, 201)
        agent = agent_of(box)
        os.kill(agent, signal.SIGSTOP)  # the clone does not begin
        try:
            assert rest.call("POST", f"/api/tasks/{task_id}/source").status == 204
            daemon.process.kill()
            daemon.process.wait()
        finally:
            os.kill(agent, signal.SIGCONT)
        daemon.start()
        wait_until(lambda: get(rest, task_id)["wants_source"] or get(rest, task_id)["state"] != "running", 60,
                   lambda: str(get(rest, task_id)))
        task = get(rest, task_id)
        assert task["state"] == "succeeded" and task["output"] == "first\n", (task, log(rest, task_id))


def test_files_of_a_removed_task(tmp_path):
    """A daemon that dies while it removes a task leaves its files to the next one."""
    with running(BUILD) as daemon:
        rest = Rest(daemon.socket)
        task = run(rest, "echo kept")
        folder = daemon.state / "tasks"
        left = [folder / f"{'x' * len(task['id'])}{suffix}" for suffix in (".log", ".pr.md")]
        daemon.process.kill()
        daemon.process.wait()
        for path in (*left, folder / "notes.log"):
            path.write_text("x\n")
        daemon.start()
        assert not any(path.exists() for path in left) and (folder / "notes.log").exists()
        assert get(rest, task["id"])["log_bytes"] == (folder / f"{task['id']}.log").stat().st_size > 0
        assert said(rest, task["id"]) == ["kept"]


def test_the_examples(daemon):
    """Those for other providers say that they are skipped."""
    done = subprocess.run([ROOT / "examples" / "agents" / "run"], env=daemon.env, capture_output=True, text=True,
                          check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    for words in ("Files created: app.js, package.json", "rule 1): Command blocked for safety", "is not below /repo",
                  "recorded: Write done", "review: succeeded", "'review': '3 results'", "oom_killed",
                  "timed_out", "No space left on device", "config/a.json 3", "no provider docker", "hello\n"):
        assert words in done.stdout, done.stdout
