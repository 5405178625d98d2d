"""A task with all of its steps, and a daemon that dies at each record of them: the next one continues with the step that
the row has, the agent runs once, and the branch is on the server."""

import contextlib
import http.client
import shutil
import sqlite3

import pytest

import faults
from daemons import ROOT, wait_until
from faults import Board
from git_server import PASSWORD, USER, GitServer, git
from networks import FAR, networked
from rest import Rest

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="there is no git")

PORT = 8080
STEPS = ["sandbox", "install", "clone", "branch", "setup", "run", "check", "capture", "commit", "push", "open", "cleanup"]
POINT = "store.insert.tasks"
# What runs is counted in files that are committed.
AGENT = """environment: Bash
check: test -x /var/tmp/stepped
version: VERSION
install: |
  echo install >> /var/tmp/installs # {version}
  printf '#!/bin/sh\\necho run >> runs; cp /var/tmp/installs installs; echo "$1"\\n' > /var/tmp/stepped
  chmod 755 /var/tmp/stepped
command: [/var/tmp/stepped, "{instruction}"]
"""
# It begins in the directory of tasks.
HOOK = "#!/bin/sh\ncat >> opened\necho https://forge.test/pull/1\n"


@pytest.fixture(scope="module", name="world")
def world_with_a_board(tmp_path_factory):
    if not faults.compiled_in():
        pytest.skip("a build without -Dtest_switches=true cannot be made to fail")
    made = tmp_path_factory.mktemp("world")
    shutil.copytree(ROOT / "registry", made / "registry")
    agent = made / "registry" / "agents" / "stepped.yaml"
    agent.write_text(AGENT)
    (made / "hook").write_text(HOOK)
    (made / "hook").chmod(0o755)
    board = Board(made / "board")
    with networked(ATOLL_REGISTRY=str(made / "registry"), ATOLL_PULL_REQUEST_HOOK=str(made / "hook"),
                   ATOLL_FAULT_BOARD=str(board.path)) as daemon:
        directory = daemon.networks.directory / "git"
        directory.mkdir()
        server = GitServer(daemon.networks.far.listen(FAR[0], PORT), directory)
        server.make("private")
        daemon.agent = agent
        daemon.board, daemon.bare, daemon.rest = board, directory / "private.git", Rest(daemon.socket)
        yield daemon
        server.close()


def renew(world, version):
    """Another version of the agent, which no template has: it is installed anew."""
    assert world.rest.call("DELETE", "/api/templates/env-agent-stepped").status in (204, 404)
    world.agent.write_text(AGENT.replace("VERSION", version))
    wait_until(lambda: world.rest.call("GET", "/api/registry/agents/stepped").json["version"] == version, 30,
               lambda: "the registry has the old version")


def start(world, branch, where):
    """None: the daemon died before its answer."""
    network = {"network": {"mode": "bridge", "allow": ["one.test"]}}
    with contextlib.suppress(OSError, http.client.HTTPException):
        answer = world.rest.call("POST", "/api/tasks", {
            "agent": "stepped", "instruction": "say it", "branch": branch, "setup": "echo setup >> setups",
            "check": "grep -x run runs", "captureFiles": True, "pullRequest": True, "autoCleanup": True,
            "repo": {"url": f"http://one.test:{PORT}/private.git", "username": USER, "password": PASSWORD},
            # With a template of the request, the agent is installed in the sandbox itself.
            "sandbox": network if where == "template" else {"template": "host", **network}})
        assert answer.status == 201, answer.body
        return answer.json["id"]
    return None


def rows(world):
    with contextlib.closing(sqlite3.connect(f"file:{world.state}/atoll.db?mode=ro", uri=True)) as db:
        return db.execute("SELECT id, state, step FROM tasks WHERE kind = 'task'").fetchall()


def check(world, task, branch, repeated):
    assert task["state"] == "succeeded" and task["pushed"], task
    assert [step["step"] for step in task["steps"]] == STEPS
    assert [step["step"] for step in task["steps"] if step["tries"] > 1] == repeated, task["steps"]
    assert git("rev-parse", branch, cwd=world.bare).strip() == task["commit"]
    assert git("rev-parse", f"{branch}~1", cwd=world.bare) == git("rev-parse", "main", cwd=world.bare)
    for name in ("run", "setup", "install"):
        assert git("show", f"{branch}:{name}s", cwd=world.bare) == f"{name}\n", "it ran more than once"
    assert task["pull_request"]["url"] == "https://forge.test/pull/1"
    assert f'"{branch}"' in (world.state / "tasks" / "opened").read_text()
    assert world.rest.call("GET", "/api/sandboxes").json["sandboxes"] == [], "that of the push is left"
    assert world.rest.call("DELETE", f"/api/tasks/{task['id']}").status == 204


def record(world, where):
    """How often a task passes each point."""
    renew(world, "recorded")
    with world.board.recording() as points:
        task = start(world, where, where)
        ended = world.rest.call("GET", f"/api/tasks/{task}", wait="true").json
    check(world, ended, where, [])
    return points


def die_at(world, point, turn, where):
    """The daemon dies there, and the next one is asked what came of it."""
    name = f"{where}-{'after' if point != POINT else 'before'}-{turn}"
    renew(world, name)
    process = world.process
    world.board.wish(f"{point}@{turn}=die")
    start(world, name, where)
    wait_until(lambda: process.poll() is not None, 60, lambda: f"it was to die at {point}@{turn}: {rows(world)}")
    world.board.clear()
    found = rows(world)
    world.start()
    if not found:  # it was never accepted
        return
    (task, state, step), = found
    ended = world.rest.call("GET", f"/api/tasks/{task}", wait="true").json
    check(world, ended, name, [step] if state == "running" else [])


@pytest.mark.parametrize("where", ["sandbox", "template"])
def test_a_death_at_each_record(world, where):
    """Where the agent is installed."""
    passed = record(world, where)
    for point in (POINT, f"{POINT}.after"):
        count = passed[point] or passed[f"{point} die"]
        assert count >= len(STEPS), passed
        for turn in range(1, count + 1):
            die_at(world, point, turn, where)
