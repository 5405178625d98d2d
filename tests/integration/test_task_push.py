"""Pushes with credentials: from a sandbox of their own, which does not outlive the push."""

import contextlib
import threading
from types import SimpleNamespace

import pytest

from daemons import wait_until
from git_server import PASSWORD, USER, GitServer, git
from networks import FAR, networked
from rest import Rest

PORT = 8080
REPO = {"url": f"http://one.test:{PORT}/private.git", "username": USER, "password": PASSWORD}


@contextlib.contextmanager
def with_server(**environment):
    with networked(**environment) as daemon:
        directory = daemon.networks.directory / "git"
        directory.mkdir()
        daemon.git = GitServer(daemon.networks.far.listen(FAR[0], PORT), directory)
        daemon.work = daemon.git.make("private")
        daemon.bare, daemon.rest = directory / "private.git", Rest(daemon.socket)
        yield daemon
        daemon.git.close()


@pytest.fixture(scope="module")
def world():
    with with_server() as daemon:
        yield daemon


@pytest.fixture
def held(world):
    """The server does not answer the push until it is released."""
    reached, released = threading.Event(), threading.Event()

    def serving(path):
        if "git-receive-pack" in path:
            reached.set()
            released.wait(60)

    world.git.serving = serving
    yield reached, released
    released.set()
    world.git.serving = lambda path: None


def start(world, branch, instruction="echo 1 > new", **more):
    answer = world.rest.call("POST", "/api/tasks", {
        "agent": "shell", "instruction": instruction, "branch": branch, "repo": REPO, "cleanup": "never",
        "sandbox": {"network": {"mode": "bridge"}}, **more})
    assert answer.status == 201, answer.body
    return answer.json["id"]


def ended(world, task_id):
    return world.rest.call("GET", f"/api/tasks/{task_id}", wait="true").json


def sandboxes(world):
    return sorted(one["id"] for one in world.rest.call("GET", "/api/sandboxes").json["sandboxes"])


def remove(world, task):
    assert world.rest.delete(f"/api/sandboxes/{task['sandbox_id']}").status == 204


def test_a_cancel_ends_the_push(world, held):
    reached, _ = held
    task_id = start(world, "canceled")
    assert reached.wait(60), ended(world, task_id)
    assert len(sandboxes(world)) == 2
    assert world.rest.call("POST", f"/api/tasks/{task_id}/cancel").status == 202
    task = ended(world, task_id)
    assert task["state"] == "canceled" and sandboxes(world) == [task["sandbox_id"]], task
    remove(world, task)


def test_a_daemon_that_dies_while_it_pushes(world, held):
    """The next one pushes from another sandbox, and removes the first one."""
    reached, released = held
    task_id = start(world, "killed")
    assert reached.wait(60), ended(world, task_id)
    before = sandboxes(world)
    world.process.kill()
    world.process.wait()
    released.set()
    world.start()
    task = ended(world, task_id)
    assert task["state"] == "succeeded" and task["pushed"], task
    assert len(before) == 2 and sandboxes(world) == [task["sandbox_id"]]
    assert git("rev-parse", "killed", cwd=world.bare).strip() == task["commit"]
    remove(world, task)


def test_a_daemon_that_dies_after_a_cancel(world, held):
    """The next one begins no step, and removes the sandbox."""
    reached, released = held
    task_id = start(world, "dead")
    assert reached.wait(60), ended(world, task_id)
    world.rest.call("POST", f"/api/tasks/{task_id}/cancel")
    world.process.kill()
    world.process.wait()
    released.set()
    world.start()
    task = ended(world, task_id)
    assert task["state"] == "canceled" and sandboxes(world) == [task["sandbox_id"]], task
    remove(world, task)


def test_a_snapshot_is_not_where_it_is_pushed(world, held):
    """An agent may have changed it: the template below it is used."""
    reached, released = held
    native = next(one for one in world.rest.get("/api/providers").json["providers"] if one["name"] == "native")
    if "snapshots" not in native["capabilities"]:
        pytest.skip("native cannot freeze sandboxes here")
    box = world.rest.post("/api/sandboxes", {}).json["id"]
    answer = world.rest.post(f"/api/sandboxes/{box}/snapshots", {"name": "changed"})
    assert answer.status == 201, answer.body
    assert world.rest.delete(f"/api/sandboxes/{box}").status == 204
    task_id = start(world, "of-a-snapshot", sandbox={"template": "changed", "network": {"mode": "bridge"}})
    assert reached.wait(60), ended(world, task_id)
    templates = {one["id"]: one["template"] for one in world.rest.get("/api/sandboxes").json["sandboxes"]}
    released.set()
    task = ended(world, task_id)
    assert task["state"] == "succeeded" and task["pushed"], task
    assert templates.pop(task["sandbox_id"]) == "changed" and list(templates.values()) == ["host"]
    remove(world, task)


@pytest.mark.parametrize("gone", ["below", "own"])
def test_the_template_is_retired(world, held, gone):
    """It is deleted while sandboxes use it, so that it has no name any more: the default template is used."""
    reached, released = held
    tenant = SimpleNamespace(rest=Rest(world.socket, {"X-Atoll-Tenant": "retiring"}))
    native = next(one for one in world.rest.get("/api/providers").json["providers"] if one["name"] == "native")
    if "snapshots" not in native["capabilities"]:
        pytest.skip("native cannot freeze sandboxes here")
    built, changed = f"built-{gone}", f"changed-{gone}"
    build = tenant.rest.post("/api/builds", {"dockerfile": "FROM host\nRUN echo 1 > /usr/local/share/built\n", "name": built}).json["id"]
    assert tenant.rest.get(f"/api/builds/{build}/log", follow="true").lines[-1].get("state") == "ready"
    box = tenant.rest.post("/api/sandboxes", {"template": built}).json["id"]
    assert tenant.rest.post(f"/api/sandboxes/{box}/snapshots", {"name": changed}).status == 201
    retire = {"below": built, "own": changed}[gone]
    go = "while [ ! -e /tmp/go ]; do sleep 0.05; done; cat /usr/local/share/built > new"
    task_id = start(tenant, f"retired-{gone}", go, sandbox={"template": changed, "network": {"mode": "bridge"}})
    path = f"/api/tasks/{task_id}"
    wait_until(lambda: tenant.rest.call("GET", path).json["step"] == "run", 60, lambda: str(tenant.rest.call("GET", path).json))
    assert tenant.rest.call("DELETE", f"/daytona/snapshots/{retire}").status == 200
    assert retire not in [one["name"] for one in tenant.rest.get("/api/templates").json["templates"]]
    own = tenant.rest.call("GET", path).json["sandbox_id"]
    assert tenant.rest.call("PUT", f"/api/sandboxes/{own}/files", b"", path="/tmp/go").status < 300
    assert reached.wait(60), ended(tenant, task_id)
    templates = {one["id"]: one["template"] for one in tenant.rest.get("/api/sandboxes").json["sandboxes"]}
    released.set()
    task = ended(tenant, task_id)
    assert task["state"] == "succeeded" and task["pushed"], task
    assert [templates[one] for one in templates if one not in (box, own)] == ["host"], templates
    remove(tenant, task)
    assert tenant.rest.delete(f"/api/sandboxes/{box}").status == 204


@pytest.mark.parametrize("depth", [{}, {"depth": 1}])
def test_what_the_server_has_meanwhile(world, depth):
    """Commits of the server are taken in; the task's own sandbox keeps its commit."""
    branch = f"meanwhile{len(depth)}"
    git("commit", "-q", "--allow-empty", "-m", "second", cwd=world.work)
    git("push", "-q", world.bare, "main", cwd=world.work)
    go = "while [ ! -e /tmp/go ]; do sleep 0.05; done; git log --oneline | wc -l; echo mine > new"
    task_id = start(world, branch, go, repo={**REPO, **depth})
    path = f"/api/tasks/{task_id}"
    wait_until(lambda: world.rest.call("GET", path).json["step"] == "run", 30, lambda: str(world.rest.call("GET", path).json))
    git("checkout", "-qB", branch, cwd=world.work)
    (world.work / branch).write_text("theirs\n")
    git("add", "-A", cwd=world.work)
    git("commit", "-q", "-m", "theirs", cwd=world.work)
    git("push", "-q", world.bare, branch, cwd=world.work)
    theirs = git("rev-parse", "HEAD", cwd=world.work).strip()
    git("checkout", "-q", "main", cwd=world.work)
    box = world.rest.call("GET", path).json["sandbox_id"]
    world.rest.call("PUT", f"/api/sandboxes/{box}/files", b"", path="/tmp/go")
    task = ended(world, task_id)
    assert task["step"] == "push" and "lacks" in task["error"]["message"], task
    assert (task["output"].strip() == "1") == bool(depth)
    assert world.rest.post(f"{path}/retry", {"step": "push"}).status == 202
    task = ended(world, task_id)
    assert task["state"] == "succeeded" and task["pushed"], task
    assert git("rev-parse", branch, f"{branch}~1", cwd=world.bare).split() == [task["commit"], theirs]
    remove(world, task)


def test_a_shallow_clone(world):
    task = ended(world, start(world, "thin", repo={**REPO, "depth": 1}))
    assert task["state"] == "succeeded" and task["pushed"], task
    assert git("rev-parse", "thin", "thin~1", cwd=world.bare).split() == [
        task["commit"], git("rev-parse", "main", cwd=world.bare).strip()]
    remove(world, task)


def test_objects_of_the_agent_are_checked(world):
    """What is malformed is not pushed."""
    bad = """id=$(git rev-parse HEAD:README); printf '100644 .git\\0' > /tmp/t
python3 -c 'import sys; sys.stdout.buffer.write(bytes.fromhex(sys.argv[1]))' $id >> /tmp/t
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
bad=$(git commit-tree -p HEAD -m bad $(git hash-object -t tree -w --literally /tmp/t))
git reset -q --soft $(git commit-tree -p $bad -m good $(git rev-parse HEAD^{tree})); echo 1 > new"""
    task = ended(world, start(world, "bad", bad))
    assert task["state"] == "failed" and task["step"] == "push" and "hasDotgit" in task["error"]["message"], task
    assert sandboxes(world) == [task["sandbox_id"]]
    remove(world, task)


def test_no_room_for_another_sandbox():
    """The step says so, and the retry works when there is room."""
    with with_server(ATOLL_MAX_SANDBOXES="2") as world:
        other = world.rest.call("POST", "/api/sandboxes", {}).json["id"]
        task = ended(world, start(world, "full", steps={"push": {"tries": 1}}))
        assert task["state"] == "failed" and task["step"] == "push", task
        assert task["error"]["code"] == "resource_exhausted", task
        for words in ("needs a further sandbox", f"atoll task retry {task['id']} push"):
            assert words in task["error"]["message"], task
        assert world.rest.delete(f"/api/sandboxes/{other}").status == 204
        assert world.rest.post(f"/api/tasks/{task['id']}/retry", {}).status == 202
        task = ended(world, task["id"])
        assert task["state"] == "succeeded" and task["pushed"], task
        remove(world, task)
