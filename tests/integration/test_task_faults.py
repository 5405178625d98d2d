"""Tasks that go wrong: each has a step that failed, a message that says what to do, and a retry that works."""

import json
import os
import shutil
from datetime import datetime, timedelta

import pytest

from daemons import BUILD, ROOT, running, wait_until
from git_server import PASSWORD, USER, GitServer, git
from networks import FAR, Web, networked
from rest import Rest

PORT = 8080
# It fails in the words of real agents.
FLAKY = """environment: Bash
command: [sh, -c, "{instruction}"]
keys: [OPENAI_API_KEY]
failures: [{text: "plan has ended", is: rate}]
output:
  - match: {type: usage}
    inputTokens: tokens
    costUsd: cost
  - match: {type: text}
    outputPart: text
  - match: {type: call}
    outputEnds: true
"""
# Its status does not say whether it has succeeded.
MUTE = """environment: Bash
command: [sh, -c, "{instruction}; exit 0"]
keys: [OPENAI_API_KEY]
verdicts:
  - {line: "Tokens: ", is: success, needed: true}
  - {line: "litellm.", is: failure}
  - {match: {type: error}, is: failure}
"""
INSTALLED = """environment: Bash
check: command -v layered
install: |
  printf '#!/bin/sh\\necho "layered $*"\\n' > /usr/local/bin/layered
  chmod 755 /usr/local/bin/layered
command: [layered, "{instruction}"]
options:
  allowedTools: [--tools, "{allowedTools}"]
  resume: [--resume, "{resume}"]
"""
# Its program is a page of another server.
FETCHED = """environment: Bash
check: test -e /opt/fetched
install: curl -sf --max-time 20 http://two.test/program > /tmp/fetched && mv /tmp/fetched /opt/fetched
installHosts: [two.test]
hosts: [one.test]
command: [sh, -c, 'cat /opt/fetched; echo "$1"', sh, "{instruction}"]
"""
ABSENT = "environment: Bash\ncheck: command -v no-such-agent\ncommand: [no-such-agent]\n"
# Its environment is built by a script.
BUILT = "environment: Built\ncommand: [cat, /usr/local/share/built]\n"
UNCHECKED = "environment: Bash\ncommand: [sh, -c, 'exec no-such-agent']\n"
# What installs dependencies is a file of the registry, too: here a page of another server is one. The second one would
# install the same.
SETUPS = {"got": """group: pages
order: 1
files: [pages.lock]
command: curl -sf --max-time 20 http://two.test/page > got.txt
hosts: [two.test]
""", "other": """group: pages
order: 2
files: [pages.txt, pages.lock]
command: echo other >> got.txt
"""}
# It begins in the directory of tasks, and can write only below the state directory.
HOOK = """#!/bin/sh
cat > input.json || exit 1
[ -e fails ] && { rm fails; echo "no token" >&2; exit 1; }
echo "made it"
echo "https://forge.test/pull/7"
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = tmp_path_factory.mktemp("world")
    registry, hook = made / "registry", made / "hook"
    shutil.copytree(ROOT / "registry", registry)
    for name, text in {"flaky": FLAKY, "mute": MUTE, "layered": INSTALLED, "fetched": FETCHED, "absent": ABSENT, "built": BUILT, "unchecked": UNCHECKED}.items():
        (registry / "agents" / f"{name}.yaml").write_text(text)
    (registry / "environments" / "Built.Dockerfile").write_text("FROM host\nRUN echo made > /usr/local/share/built\n")
    (registry / "environments" / "Built.yaml").write_text("dockerfile: Built.Dockerfile\nlanguage: sh\ninterpreters:\n  sh:\n    run: [sh, \"{file}\"]\n    extension: sh\n")
    (registry / "runtimes" / "any.yaml").write_text("provides: [any]\nenvironment: Bash\n")
    (registry / "setups").mkdir(exist_ok=True)
    for name, text in SETUPS.items():
        (registry / "setups" / f"{name}.yaml").write_text(text)
    hook.write_text(HOOK)
    hook.chmod(0o755)
    with networked(ATOLL_REGISTRY=str(registry), ATOLL_PULL_REQUEST_HOOK=str(hook)) as daemon:
        directory = daemon.networks.directory
        (directory / "git").mkdir()
        daemon.git = GitServer(daemon.networks.far.listen(FAR[0], PORT), directory / "git")
        daemon.git.make("private")
        daemon.bare = directory / "git" / "private.git"
        daemon.hook = daemon.state / "tasks"
        daemon.rest = Rest(daemon.socket)
        yield daemon
        daemon.git.close()


def run(world, instruction, agent="shell", **more):
    answer = world.rest.call("POST", "/api/tasks", {"agent": agent, "instruction": instruction, **more}, wait="true")
    assert answer.status == 200, answer.body
    return answer.json


def failed(task, step, code, *words):
    assert task["state"] == "failed" and task["step"] == step, task
    assert task["error"]["code"] == code, task["error"]
    for word in (*words, f"atoll task retry {task['id']}"):
        assert word in task["error"]["message"], task["error"]
    return task


def retry(world, task, **body):
    assert world.rest.call("POST", f"/api/tasks/{task['id']}/retry", body).status == 202
    return world.rest.call("GET", f"/api/tasks/{task['id']}", wait="true").json


def remove(world, task):
    world.rest.call("DELETE", f"/api/sandboxes/{task['sandbox_id']}")


@pytest.mark.parametrize("words, code, advice", [
    ("API Error: 401 invalid x-api-key", "unauthenticated", "atoll secret create --replace"),
    ("Error: 429 Too Many Requests", "resource_exhausted", "wait"),
    ("your plan has ended", "resource_exhausted", "wait"),
    ("connect ECONNREFUSED 192.0.2.1:443", "unavailable", "was not reached"),
    ("I give up", "failed_precondition", "log of the task"),
    ("ModuleNotFoundError: no x", "failed_precondition", "log of the task"),
])
def test_what_an_agent_says(world, words, code, advice):
    """The cause of its failure is known by its words; when that is gone, a retry succeeds."""
    fails = f"if [ ! -e /tmp/better ]; then touch /tmp/better; echo '{words}' >&2; exit 1; fi"
    task = run(world, fails, "flaky", env={"OPENAI_API_KEY": "x"})
    failed(task, "run", code, advice, words)
    task = retry(world, task)
    assert task["state"] == "succeeded" and task["attempt"] == 2, task


@pytest.mark.parametrize("says, code, words", [
    ("echo 'litellm.AuthenticationError: no'", "unauthenticated", "litellm.AuthenticationError: no"),
    ("echo 'Tokens: 5'; echo 'litellm.RateLimitError: slow down'", "resource_exhausted", "slow down"),
    ("echo 'litellm.APIError: Retrying'; echo 'Tokens: 5 sent'", None, None),
    ("echo hello", "failed_precondition", "hello"),
    ("echo 'Tokens: 5'; echo '{\"type\": \"error\"}'", "failed_precondition", "error"),
    ("echo 'no Tokens: 5'; true", "failed_precondition", "status 0, but did not succeed"),
])
def test_an_agent_whose_status_says_nothing(world, says, code, words):
    task = run(world, says, "mute", env={"OPENAI_API_KEY": "x"}, cleanup="always")
    assert task["exit_code"] == 0, task
    if code:
        failed(task, "run", code, words, "did not succeed")
    else:
        assert task["state"] == "succeeded" and "agent_error" not in task, task


def test_an_output_in_parts(world):
    lines = [{"type": "text", "text": "I will"}, {"type": "call"}, {"type": "text", "text": "It is "}, {"type": "text", "text": "done."}, {"type": "x"}]
    says = "\n".join(f"echo '{json.dumps(line)}'" for line in lines)
    assert run(world, says, "flaky", env={"OPENAI_API_KEY": "x"})["output"] == "It is done."


@pytest.mark.parametrize("agent, step", [("absent", "install"), ("unchecked", "run")])
def test_an_agent_that_is_missing(world, agent, step):
    task = failed(run(world, "x", agent), step, "failed_precondition", "template")
    box = task["sandbox_id"]
    assert world.rest.call("PUT", f"/api/sandboxes/{box}/files", b"#!/bin/sh\necho here\n", path="/usr/local/bin/no-such-agent",
                           user="root", mode="0755").status in (200, 201)
    assert retry(world, task)["output"] == "here\n"


def test_an_agent_is_installed_once(world):
    """It becomes a template of its own, in which the next task finds it."""
    first = run(world, "one", "layered", allowedTools=["Read", "Edit"], resume="s1")
    assert first["state"] == "succeeded" and first["output"] == "layered one --resume s1 --tools Read,Edit\n", first
    assert first["agent_template"] == "env-agent-layered"
    log = world.rest.call("GET", f"/api/tasks/{first['id']}/log").body.decode()
    assert "building a template with the agent" in log
    second = run(world, "two", "layered")
    log = world.rest.call("GET", f"/api/tasks/{second['id']}/log").body.decode()
    assert second["output"] == "layered two\n" and "building" not in log
    # In a sandbox that exists, it is installed there, by root.
    box = world.rest.call("POST", "/api/sandboxes", {}).json["id"]
    answer = world.rest.call("POST", f"/api/sandboxes/{box}/agents", {"agent": "layered", "instruction": "x"}, wait="true")
    assert answer.json["state"] == "succeeded" and answer.json["output"] == "layered x\n", answer.json
    world.rest.call("DELETE", f"/api/sandboxes/{box}")


def test_an_agent_is_installed_in_the_sandbox_of_the_task(world):
    """The hosts that this takes become part of a policy that the task has made; with another one, the error names them."""
    web = Web(world.networks.far.listen(FAR[1], 80), "agent")

    def install(**sandbox):
        return run(world, "one", "fetched", sandbox={"template": "host", **sandbox}, cleanup="always")
    task = install()
    log = world.rest.call("GET", f"/api/tasks/{task['id']}/log").body.decode()
    assert task["state"] == "succeeded" and task["output"] == "agent two.test /program\none\n", (task, log)
    assert "may reach two.test, for installing the agent" in log and "agent_template" not in task
    for sandbox, words in (({"network": {"mode": "bridge", "allow": ["one.test"]}}, "does not allow two.test"),
                           ({"network": {"mode": "none"}}, "has no network")):
        task = install(**sandbox)
        assert task["state"] == "failed" and task["step"] == "install" and words in task["error"]["message"], task
    web.close()


@pytest.mark.parametrize("budget, instruction, agent", [
    ({"tokens": 100}, 'while :; do echo "{\\"type\\":\\"usage\\",\\"tokens\\":60}"; sleep 0.1; done', "flaky"),
    ({"costUsd": 0.5}, 'while :; do echo "{\\"type\\":\\"usage\\",\\"cost\\":0.3}"; sleep 0.1; done', "flaky"),
    ({"cpuSeconds": 0.2}, "while :; do :; done", "shell"),
    ({"wallSeconds": 0.5}, "sleep 1000", "shell"),
])
def test_a_budget_ends_a_task(world, budget, instruction, agent):
    instruction = f"if [ -e /tmp/again ]; then exit 0; fi; touch /tmp/again; {instruction}"
    task = run(world, instruction, agent, budget=budget, env={"OPENAI_API_KEY": "x"})
    name = next(iter(budget))
    assert task["state"] == "failed" and task["error"]["code"] == "resource_exhausted", task
    assert f"--budget {name}=N {task['id']}" in task["error"]["message"] and task["usage"]["wall_seconds"] > 0
    task = retry(world, task, budget={name: 1000})
    assert task["state"] == "succeeded" and task["budget"] == {name: 1000}, task


def test_a_silent_agent_that_works_is_not_stalled(world):
    """It uses CPU time until the test ends that; then it is idle."""
    answer = world.rest.call("POST", "/api/tasks", {
        "instruction": "while [ ! -e /tmp/idle ]; do :; done; sleep 1000", "stallSeconds": 1, "stallCpuPercent": 3})
    task_id = answer.json["id"]
    path = f"/api/tasks/{task_id}"
    wait_until(lambda: world.rest.call("GET", path).json["step"] == "run", 30, lambda: "it does not run")
    box = world.rest.call("GET", path).json["sandbox_id"]

    def cpu():
        return world.rest.call("GET", f"/api/sandboxes/{box}/stats").json["cpu"]["used_seconds"]
    wait_until(lambda: cpu() > 3, 60, lambda: f"{cpu()} s")
    assert world.rest.call("GET", path).json["state"] == "running"
    assert world.rest.call("PUT", f"/api/sandboxes/{box}/files", b"", path="/tmp/idle").status in (200, 201)
    task = world.rest.call("GET", path, wait="true").json
    failed(task, "run", "deadline_exceeded", "printed nothing", "stallCpuPercent")
    remove(world, task)


def test_an_agent_with_too_little_time(world):
    """A retry can give it more, and runs it in the same sandbox."""
    waits = "echo one; echo two; until [ -e go ]; do sleep 0.05; done"
    task = failed(run(world, waits, timeoutSeconds=3), "run", "deadline_exceeded", "longer than 3 s (timeoutSeconds)", "--timeout", "one\ntwo")
    for change, words in (({"timeoutSeconds": "1"}, "timeoutSeconds must be"), ({"limits": {"memoryMB": "x"}}, "limits.memoryMB"),
                          ({"limits": 7}, "limits"), ({"time": 7}, "time")):
        answer = world.rest.call("POST", f"/api/tasks/{task['id']}/retry", change)
        assert answer.status == 400 and words in answer.error["message"], answer.body
    assert world.rest.call("PUT", f"/api/sandboxes/{task['sandbox_id']}/files", b"", path="go").status in (200, 201)
    done = world.atoll("task", "retry", "--timeout", "9m", task["id"])
    assert done.returncode == 0, done.stderr
    after = world.rest.call("GET", f"/api/tasks/{task['id']}", wait="true").json
    assert after["state"] == "succeeded" and after["timeoutSeconds"] == 540 and after["sandbox_id"] == task["sandbox_id"], after


def test_an_agent_with_too_little_memory(world):
    """Whether it is killed itself, or its program is; a retry gives it more."""
    eat = "head -c 100m /dev/zero | tail -c 100m | wc -c"
    for instruction in (f"sh -c '{eat}; exit 137'", f"{eat}; exit 137"):
        task = run(world, instruction, sandbox={"limits": {"memoryMB": 32}})
        failed(task, "run", "resource_exhausted", "limits.memoryMB is 32", "--memory")
        remove(world, task)
    task = run(world, f"[ $({eat}) = 104857600 ] || exit 137", sandbox={"limits": {"memoryMB": 32}})
    failed(task, "run", "resource_exhausted", "limits.memoryMB is 32", "--memory")
    answer = world.rest.call("POST", f"/api/tasks/{task['id']}/retry", {"limits": {"diskMB": 900}})
    assert answer.status == 409 and "limits.diskMB" in answer.error["message"], answer.body
    done = world.atoll("task", "retry", "--memory", "400M", task["id"])
    assert done.returncode == 0, done.stderr
    after = world.rest.call("GET", f"/api/tasks/{task['id']}", wait="true").json
    assert after["state"] == "succeeded" and after["sandbox_id"] == task["sandbox_id"], after
    task = run(world, "exit 1", sandbox={"limits": {"diskMB": 50}})
    after = retry(world, task, step="sandbox", limits={"diskMB": 90})
    assert after["sandbox_id"] != task["sandbox_id"], (task, after)
    assert world.rest.call("GET", f"/api/sandboxes/{after['sandbox_id']}").json["limits"]["diskMB"] == 90
    remove(world, after)


def test_the_log_of_a_build(world):
    """It says what is built before the sandbox, and when it is built; a later task finds it built."""
    words = ["building the environment Built, for this task and later ones", "the environment Built is built"]
    for said in (words, []):
        task = run(world, "x", "built")
        assert task["state"] == "succeeded" and task["output"] == "made\n", task
        lines = [line["message"] for line in world.rest.call("GET", f"/api/tasks/{task['id']}/log").lines]
        assert [line for line in lines if "environment Built" in line] == said, lines


def test_a_provider_that_is_not_set_up(world):
    """The task says how it is set up, as an answer to POST /api/sandboxes does."""
    task = run(world, "true", provider="docker")
    assert task["step"] == "sandbox" and "there is no provider docker" in task["error"]["message"], task
    assert "docker is not set up" in task["error"]["hint"] and "providers.yaml" in task["error"]["hint"], task["error"]
    done = world.atoll("task", "run", "--provider", "docker", "true")
    assert done.returncode != 0 and "docker is not set up" in done.stderr, done.stderr
    answer = world.rest.call("POST", "/api/sandboxes", {"provider": "e2b", "e2b": {"apiKey": "x", "templateId": "python3"}})
    assert answer.status == 400 and answer.error["message"] == "there is no provider e2b", answer.body
    assert "e2b is not set up" in answer.error["hint"], answer.body


def test_a_step_has_its_own_time_and_record(world):
    task = run(world, "true", check="sleep 1000", steps={"check": {"timeoutSeconds": 0.5}})
    assert task["state"] == "failed" and task["step"] == "check" and "took longer than" in task["error"]["message"], task
    steps = {one["step"]: one for one in task["steps"]}
    assert steps["run"]["state"] == "succeeded" and steps["check"]["state"] == "failed", steps
    assert steps["check"]["log_offset"] > steps["run"]["log_offset"] and steps["check"]["error"] == "deadline_exceeded"
    begin = world.rest.call("GET", f"/api/tasks/{task['id']}/log", offset=str(steps["check"]["log_offset"])).lines
    assert begin[0]["step"] == "check" and begin[0]["message"] == "sleep 1000"
    remove(world, task)


def test_the_sandbox_outlives_its_steps(world):
    """It ends no earlier than a step that runs, and is there for two hours after a failure, unless the request gives its time."""
    def ended(**sandbox):
        task = run(world, "true", check="exit 1", timeoutSeconds=60, steps={"check": {"timeoutSeconds": 9000}}, sandbox=sandbox)
        assert task["state"] == "failed" and task["step"] == "check", task
        box = world.rest.call("GET", f"/api/sandboxes/{task['sandbox_id']}").json
        steps = {one["step"]: one for one in task["steps"]}
        remove(world, task)
        begun, done = (datetime.fromisoformat(box[name]).timestamp() for name in ("created_at", "expires_at"))
        return done - begun, done - steps["check"]["started_ms"] / 1000
    lifetime, after_check = ended()
    assert after_check >= 9000, (lifetime, after_check)
    lifetime, _ = ended(limits={"timeoutSeconds": 600})
    assert lifetime <= 601, lifetime
    task = run(world, "exit 1", timeoutSeconds=60)
    box = world.rest.call("GET", f"/api/sandboxes/{task['sandbox_id']}").json
    assert datetime.fromisoformat(box["expires_at"]) >= datetime.fromisoformat(task["ended_at"]) + timedelta(seconds=7199), (box, task)
    remove(world, task)


def test_a_step_is_tried_again(world):
    """As often as the request says; by default an agent runs once."""
    says = "echo >> /tmp/count; echo 'connect ECONNREFUSED' >&2; [ $(wc -l < /tmp/count) = 2 ]"
    task = run(world, says, "flaky", env={"OPENAI_API_KEY": "x"}, steps={"run": {"tries": 2}})
    assert task["state"] == "succeeded", task
    assert {one["step"]: one["tries"] for one in task["steps"]}["run"] == 2


def test_the_usage_of_all_tries(world):
    """They count together: in the answer also those before a retry, in a budget not."""
    says = ("echo >> /tmp/count; echo '{\"type\": \"usage\", \"tokens\": 60, \"cost\": 0.5}'; echo 'connect ECONNREFUSED' >&2; "
            "[ $(wc -l < /tmp/count) = 4 ]")
    task = run(world, says, "flaky", env={"OPENAI_API_KEY": "x"}, steps={"run": {"tries": 2}}, budget={"tokens": 130})
    assert task["state"] == "failed" and task["error"]["code"] == "unavailable", task
    assert task["usage"]["input_tokens"] == 120 and task["usage"]["cost_usd"] == 1, task
    task = retry(world, task)
    assert task["state"] == "succeeded" and task["usage"]["input_tokens"] == 240 and task["usage"]["cost_usd"] == 2, task
    task = run(world, says, "flaky", env={"OPENAI_API_KEY": "x"}, steps={"run": {"tries": 2}}, budget={"tokens": 100})
    assert task["state"] == "failed" and task["error"]["code"] == "resource_exhausted", task
    assert task["usage"]["input_tokens"] == 120, task
    remove(world, task)


def test_a_branch_that_moved(world):
    """The push is refused; the retry puts the commit on top, or says what conflicts."""
    repo = {"url": f"http://one.test:{PORT}/private.git", "username": USER, "password": PASSWORD}

    def moved(branch, name, text):
        clone = world.networks.directory / f"clone-{branch}"
        git("clone", "-q", world.bare, clone)
        git("checkout", "-qB", branch, cwd=clone)
        (clone / name).write_text(text)
        git("add", "-A", cwd=clone)
        git("commit", "-qm", "theirs", cwd=clone)
        git("push", "-qf", "origin", branch, cwd=clone)
        return git("rev-parse", branch, cwd=world.bare).strip()

    def race(branch, name):
        """The task's agent waits while the server's branch moves."""
        begun = world.rest.call("POST", "/api/tasks", {
            "agent": "shell", "branch": branch, "repo": repo, "sandbox": {"network": {"mode": "bridge"}},
            "instruction": f"while [ ! -e /tmp/go ]; do sleep 0.05; done; echo mine > {name}"}).json["id"]
        path = f"/api/tasks/{begun}"
        wait_until(lambda: world.rest.call("GET", path).json["step"] == "run", 30, lambda: str(world.rest.call("GET", path).json))
        theirs = moved(branch, "theirs", "x\n")
        box = world.rest.call("GET", path).json["sandbox_id"]
        world.rest.call("PUT", f"/api/sandboxes/{box}/files", b"", path="/tmp/go")
        return failed(world.rest.call("GET", path, wait="true").json, "push", "failed_precondition", "lacks"), theirs

    task, theirs = race("moved", "mine")
    task = retry(world, task, step="push")
    assert task["state"] == "succeeded" and task["pushed"], task
    assert git("rev-parse", "moved", cwd=world.bare).strip() == task["commit"]
    assert git("rev-parse", "moved~1", cwd=world.bare).strip() == theirs
    task, theirs = race("conflict", "theirs")
    task = failed(retry(world, task), "push", "aborted", "conflict", f"atoll shell {task['sandbox_id']}")
    box = task["sandbox_id"]
    ended = world.rest.call("POST", f"/api/sandboxes/{box}/execs", {"cmd": ["sh", "-c", "git fetch 2>&1; git status"]}, wait="true")
    assert "nothing to commit" in str(ended.json), ended.body
    # They are merged with the server's branch, which is there.
    merge = "git rev-parse origin/conflict; git -c user.name=a -c user.email=a@b merge -q -s ours -m both origin/conflict"
    ended = world.rest.call("POST", f"/api/sandboxes/{box}/execs", {"cmd": ["sh", "-ec", merge]}, wait="true")
    assert ended.json["result"]["exit_code"] == 0 and ended.json["stdout"].strip() == theirs, ended.body
    task = retry(world, task)
    assert task["state"] == "succeeded" and git("rev-parse", "conflict^2", cwd=world.bare).strip() == theirs, task
    remove(world, task)


def test_dependencies_are_installed(world):
    """The hosts that this takes become part of a policy that the task has made, after the files of the repository are
    known; with a policy of the request, the log says what it lacks."""
    world.git.make("public/locked")
    clone = world.networks.directory / "locked"
    git("clone", "-q", world.networks.directory / "git" / "public" / "locked.git", clone)
    (clone / "pages.lock").write_text("page\n")
    git("add", "-A", cwd=clone)
    git("commit", "-qm", "locked", cwd=clone)
    git("push", "-q", "origin", "HEAD", cwd=clone)
    web = Web(world.networks.far.listen(FAR[1], 80), "pages")

    def install(**more):
        task = run(world, "cat got.txt || true; curl -s --max-time 20 http://three.test/ || echo denied", autoCleanup=True, push=False,
                   repo=f"http://one.test:{PORT}/public/locked.git", **more)
        assert task["state"] == "succeeded", task
        return task["output"], world.rest.call("GET", f"/api/tasks/{task['id']}/log").body.decode()
    output, log = install()
    assert output == "pages two.test /page\ndenied\n" and "may reach two.test" in log, log
    output, log = install(sandbox={"network": {"mode": "bridge", "allow": ["one.test"]}})
    assert output == "denied\n" and "does not allow two.test" in log, log
    output, log = install(setup="none")
    assert output == "denied\n" and "two.test" not in log
    web.close()


def test_a_server_that_wants_no_password(world):
    world.git.make("public/open")
    task = run(world, "echo 1 > new", repo=f"http://one.test:{PORT}/public/open.git", branch="open",
               sandbox={"network": {"mode": "bridge"}})
    assert task["state"] == "succeeded" and task["pushed"], task


@pytest.mark.parametrize("branch, trailer", [
    ("said", "Reviewed-by: Bo <bo@example.org>"), ("ended", "Reviewed-by: Bo <bo@example.org>\n"),
    ("two", "Reviewed-by: Bo <bo@example.org>\nTested-by: Cy <cy@example.org>")])
def test_what_the_commit_says(world, branch, trailer):
    repo = {"url": f"http://one.test:{PORT}/private.git", "username": USER, "password": PASSWORD}
    task = run(world, "echo x > said", repo=repo, branch=branch, sandbox={"network": {"mode": "bridge"}}, commit={
        "message": "Say it", "authorName": "Ann", "authorEmail": "ann@example.org", "trailer": trailer})
    assert task["state"] == "succeeded", task
    assert git("log", "-1", "--format=%an <%ae>%n%s", branch, cwd=world.bare) == "Ann <ann@example.org>\nSay it\n"
    trailers = git("log", "-1", "--format=%(trailers:only,unfold)", branch, cwd=world.bare).split("\n")
    assert [line for line in trailers if line] == [*trailer.strip().split("\n"), f"Atoll-Task: {task['id']}"]


def test_a_pull_request(world):
    repo = {"url": f"http://one.test:{PORT}/private.git", "username": USER, "password": PASSWORD}
    (world.hook / "fails").touch()
    task = run(world, "echo pr > pr.txt; echo I wrote it", repo=repo, branch="pr", check="grep pr pr.txt",
               pullRequest={"title": "A note", "base": "main", "draft": True}, sandbox={"network": {"mode": "bridge"}})
    failed(task, "open", "failed_precondition", "no token", "the branch is pushed")
    task = retry(world, task)
    assert task["state"] == "succeeded" and task["pull_request"]["url"] == "https://forge.test/pull/7", task
    given = json.loads((world.hook / "input.json").read_text())
    assert given["title"] == "A note" and given["branch"] == "pr" and given["base"] == "main" and given["draft"] is True
    assert given["commit"] == task["commit"] and given["repo"] == repo["url"] and PASSWORD not in str(given)
    with open(given["body_file"], encoding="utf-8") as file:
        assert file.read() == given["body"] == task["pull_request"]["body"]
    for words in ("I wrote it", "- added `pr.txt`", "Checked with `grep pr pr.txt`", f"Atoll-Task: {task['id']}"):
        assert words in given["body"], given["body"]
    assert world.rest.call("DELETE", f"/api/tasks/{task['id']}").status == 204
    assert not os.path.exists(given["body_file"])


def test_a_pull_request_of_a_long_output(world):
    """The text is cut between characters: half of one could not be stored."""
    lines = "printf x; for i in $(seq 600); do for k in 0 1 2 3 4 5 6 7 8 9; do printf '\\303\\251'; done; printf '\\n\\n'; done"
    task = run(world, f"echo 1 > new; {lines}", branch="long", pullRequest=True,
               repo={"url": f"http://one.test:{PORT}/private.git", "username": USER, "password": PASSWORD},
               sandbox={"network": {"mode": "bridge"}})
    assert task["state"] == "succeeded" and len(task["output"].encode()) > 8192, task
    assert "é\n" in task["pull_request"]["body"] and world.rest.call("GET", f"/api/tasks/{task['id']}").json["branch"] == "long"


def test_a_runtime_is_chosen(world):
    task = run(world, "python3 -c 'print(1)'", type="data", requirements=["python"], resources={"memoryMB": 256})
    assert task["state"] == "succeeded" and task["runtime"]["name"] == "python", task
    assert task["runtime"]["environment"] == "Python3" and "for the type data" in task["runtime"]["why"]
    task = run(world, "true", metadata={"type": "script", "requirements": ["git"], "resources": {"memoryMB": 128}})
    assert task["runtime"]["name"] == "shell" and task["resources"] == {"memoryMB": 128}
    task = run(world, "true", resources={"memoryMB": 128})
    assert task["state"] == "succeeded" and "name" not in task["runtime"] and "resources alone" in task["runtime"]["why"], task
    task = run(world, "true", type="nosuch", requirements=["any"])
    assert task["runtime"]["name"] == "any" and "for all types, and thus for nosuch" in task["runtime"]["why"], task
    answer = world.rest.call("POST", "/api/tasks", {"instruction": "x", "requirements": ["cobol"]})
    assert answer.status == 409 and "does not provide cobol" in answer.error["message"], answer.body


def test_lists_are_filtered(world):
    run(world, "true", type="web", agentName="lister", autoCleanup=True)
    listed = world.rest.call("GET", "/api/tasks", agentName="lister").json["tasks"]
    assert len(listed) == 1 and listed[0]["type"] == "web" and "steps" not in listed[0]
    assert world.rest.call("GET", "/api/tasks", agentName="lister", agent="claude-code").json["tasks"] == []
    assert world.rest.call("GET", "/api/tasks", type="web", state="failed").json["tasks"] == []


@pytest.mark.parametrize("member", [
    {"budget": {"tokens": 0}}, {"budget": {"words": 1}}, {"budget": 7}, {"steps": {"no": {}}}, {"steps": {"run": {"tries": 99}}},
    {"priority": "high"}, {"pullRequest": {"title": 7}}, {"pullRequest": 7}, {"stallCpuPercent": -1}, {"resources": 7},
    {"requirements": 7}, {"resources": {"memoryMB": -1}}, {"budget": {"tokens": 5}}, {"budget": {"costUsd": 5}},
    {"agent": "flaky", "model": "m"}, {"agent": "flaky", "systemPrompt": "s"}, {"agent": "aider", "resume": "s"},
    {"agent": "codex", "allowedTools": ["Read"]},
])
def test_what_is_refused(world, member):
    assert world.rest.call("POST", "/api/tasks", {"instruction": "x", **member}).status == 400


def test_the_most_urgent_is_first(tmp_path):
    """Of those that wait for a place. One that waits keeps the sandbox that it is for."""
    with running(BUILD) as daemon:
        rest = Rest(daemon.socket)
        failed = rest.call("POST", "/api/tasks", {"instruction": "exit 1"}, wait="true").json
        body = {"instruction": "while [ ! -e /tmp/go ]; do sleep 0.2; done", "autoCleanup": True,
                "sandbox": {"limits": {"memoryMB": 32}}}
        swarm = [rest.call("POST", "/api/tasks", body).json["id"] for _ in range(64)]
        late = rest.call("POST", "/api/tasks", {"instruction": "true", "autoCleanup": True}).json["id"]
        urgent = rest.call("POST", "/api/tasks", {"instruction": "true", "autoCleanup": True, "priority": 5}).json["id"]
        guest = rest.call("POST", "/api/tasks", {"instruction": "true", "sandboxId": failed["sandbox_id"][:8]}).json["id"]
        for waiting in (late, guest):
            assert rest.call("GET", f"/api/tasks/{waiting}").json["state"] == "waiting"
        assert rest.call("DELETE", f"/api/tasks/{failed['id']}").status == 204
        rest.call("POST", f"/api/tasks/{swarm[0]}/cancel")
        first, second = (rest.call("GET", f"/api/tasks/{one}", wait="true").json for one in (urgent, late))
        assert first["started_at"] <= second["started_at"], (first, second)
        task = rest.call("GET", f"/api/tasks/{guest}", wait="true").json
        assert task["state"] == "succeeded" and task["sandbox_id"] == failed["sandbox_id"], task
        for one in swarm[1:]:
            rest.call("POST", f"/api/tasks/{one}/cancel")
        for one in swarm:
            rest.call("GET", f"/api/tasks/{one}", wait="true")


def test_two_daemons_die(tmp_path):
    """The agent runs once all the same."""
    with running(BUILD) as daemon:
        rest = Rest(daemon.socket)
        task_id = rest.call("POST", "/api/tasks", {
            "instruction": "echo run >> runs; while [ ! -e go ]; do sleep 0.05; done; cat runs",
            "check": "while [ ! -e checked ]; do sleep 0.05; done"}).json["id"]
        path = f"/api/tasks/{task_id}"
        for step, name in (("run", "go"), ("check", "checked")):
            wait_until(lambda at=step: rest.call("GET", path).json["step"] == at, 30, lambda: str(rest.call("GET", path).json))
            box = rest.call("GET", path).json["sandbox_id"]
            daemon.process.kill()
            daemon.process.wait()
            daemon.start()
            assert rest.call("PUT", f"/api/sandboxes/{box}/files", b"", path=name).status in (200, 201)
        task = rest.call("GET", path, wait="true").json
        assert task["state"] == "succeeded" and task["output"] == "run\n", task
