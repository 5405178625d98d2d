"""Tasks by the command line: with repositories of a server, and with those of this machine."""

import shutil

import pytest

from daemons import wait_until
from git_server import PASSWORD, USER, GitServer, git
from networks import FAR, networked
from rest import Rest

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="there is no git")

PORT = 8080
URL = f"http://one.test:{PORT}/private.git"
# The agent that fails until there is a file "again" in its directory.
FAILS = "[ -e again ]"


@pytest.fixture(scope="module", name="world")
def networked_world():
    with networked() as daemon:
        directory = daemon.networks.directory / "git"
        directory.mkdir()
        server = GitServer(daemon.networks.far.listen(FAR[0], PORT), directory)
        server.make("private")
        daemon.bare = directory / "private.git"
        daemon.env["ATOLL_GIT_PASSWORD"] = PASSWORD
        daemon.rest = Rest(daemon.socket)
        yield daemon
        server.close()


@pytest.fixture(name="local")
def local_repository(tmp_path):
    """With another branch than the one that is checked out."""
    git("init", "-qb", "main", tmp_path)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=tmp_path)
    git("checkout", "-qb", "other", cwd=tmp_path)
    (tmp_path / "other").write_text("1\n")
    git("add", "-A", cwd=tmp_path)
    git("commit", "-qm", "second", cwd=tmp_path)
    git("checkout", "-q", "main", cwd=tmp_path)
    return tmp_path


def newest(world):
    return world.rest.call("GET", "/api/tasks").json["tasks"][0]


def write(world, task, path):
    assert world.rest.call("PUT", f"/api/sandboxes/{task['sandbox_id']}/files", b"", path=path).status in (200, 201)


def run(world, *words):
    return world.atoll("task", "run", "--agent", "shell", *words, timeout=120)


def test_a_repository_of_a_server(world):
    done = run(world, "--repo", URL, "--username", USER, "--branch", "by/cli", "--author", "Ann <ann@example.org>",
               "echo 1 > new; echo said")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("said") and "branch by/cli, commit " in done.stdout
    assert git("log", "-1", "--format=%an <%ae>", "by/cli", cwd=world.bare) == "Ann <ann@example.org>\n"
    assert git("show", "by/cli:new", cwd=world.bare) == "1\n" and newest(world)["repo"] == URL
    done = run(world, "--repo", URL, "--author", "Ann", "true")
    assert done.returncode != 0 and "--author must be" in done.stderr


def test_the_text_of_a_pull_request(world, tmp_path, monkeypatch):
    """Without a program of the operator it is a file in the current directory."""
    monkeypatch.chdir(tmp_path)
    done = run(world, "--repo", URL, "--username", USER, "--branch", "pr", "--pr", "--pr-title", "A note",
               "echo 1 > new; echo I wrote it")
    assert done.returncode == 0, done.stderr
    file = tmp_path / f"pull-request-{newest(world)['id']}.md"
    text = file.read_text()
    assert text.startswith("# A note\n\n") and "I wrote it" in text and "- added `new`" in text, text
    assert file.name in done.stderr


def test_cancel_retry_rm(world):
    started = run(world, "--detach", "echo begun; sleep 1000")
    task = started.stdout.strip()
    assert started.returncode == 0 and task == newest(world)["id"]
    wait_until(lambda: "begun" in world.atoll("task", "logs", task).stdout, 30, lambda: str(newest(world)))
    done = world.atoll("task", "rm", task)
    assert done.returncode != 0 and "cancel it first" in done.stderr, done.stderr
    assert world.atoll("task", "cancel", task).returncode == 0
    view = world.rest.call("GET", f"/api/tasks/{task}", wait="true").json
    assert view["state"] == "canceled", view
    assert world.atoll("task", "retry", task, "run", "--budget", "wallSeconds=1").returncode == 0
    view = world.rest.call("GET", f"/api/tasks/{task}", wait="true").json
    assert view["state"] == "failed" and view["attempt"] == 2 and view["error"]["code"] == "resource_exhausted", view
    done = world.atoll("task", "retry", task, "no-such-step")
    assert done.returncode != 0 and "no step" in done.stderr, done.stderr
    assert world.atoll("task", "rm", task).returncode == 0
    assert world.rest.call("GET", f"/api/tasks/{task}").status == 404
    world.rest.call("DELETE", f"/api/sandboxes/{view['sandbox_id']}")


def test_a_repository_that_no_task_can_have(world, local, tmp_path):
    """It is refused before anything is made."""
    before = newest(world)["id"]
    for repo, words in (("/nonexistent", "a directory of this machine"), ("git@one.test:a.git", "https://"),
                        ("ftp://one.test/a", "https://")):
        done = run(world, "--repo", repo, "true")
        assert done.returncode != 0 and words in done.stderr and repo in done.stderr, done.stderr
    done = run(world, "--repo", local, "--branch", "main", "true")
    assert done.returncode != 0 and "main is checked out" in done.stderr, done.stderr
    assert newest(world)["id"] == before


def test_options_of_the_request(world):
    """They go into the request as they are."""
    done = run(world, "--trailer", "Reviewed-by: Ann <ann@example.org>", "--resume", "last", "--keys", "environment", "--priority", "7",
               "--repo", URL, "--username", USER, "--branch", "options", "echo 1 > options; printf \"$ATOLL_RESUME\"")
    assert done.returncode == 0 and done.stdout.startswith("last\nbranch options, commit "), (done.stdout, done.stderr)
    assert "Reviewed-by: Ann <ann@example.org>" in git("log", "-1", "--format=%B", "options", cwd=world.bare)
    assert newest(world)["priority"] == 7


def test_a_branch_that_does_not_come_back(world, local):
    """Another one has its name: the task keeps it. What is not committed does not go in."""
    git("branch", "work", "other", cwd=local)
    (local / "dirty").touch()
    done = run(world, "--repo", local, "--branch", "work", "ls; echo x > new")
    task = newest(world)
    assert done.returncode != 0 and f"atoll task take {task['id']} --repo {local}" in done.stderr, done.stderr
    assert "changes that are not committed do not go in" in done.stderr and "dirty" not in task.get("output", ""), (done.stderr, task)
    git("branch", "-qm", "work", "mine", cwd=local)
    done = world.atoll("task", "take", task["id"], "--repo", local)
    assert done.returncode == 0, done.stderr
    assert git("show", "work:new", cwd=local) == "x\n"


def test_another_branch_of_a_local_repository(world, local):
    done = run(world, "--repo", local, "--base", "other", "--branch", "work", "echo 2 >> other")
    assert done.returncode == 0, done.stderr
    assert git("show", "work:other", cwd=local) == "1\n2\n"
    assert git("rev-parse", "work~1", cwd=local) == git("rev-parse", "other", cwd=local)
    before = newest(world)["id"]
    done = run(world, "--repo", local, "--base", "none", "true")
    assert done.returncode != 0 and "no branch none" in done.stderr, done.stderr
    git("init", "-qb", "main", local / "empty")
    done = run(world, "--repo", local / "empty", "true")
    assert done.returncode != 0 and "no commit" in done.stderr, done.stderr
    assert newest(world)["id"] == before  # nothing was started


@pytest.mark.parametrize("where", ["current", "named", "bare", "git directory"])
def test_a_directory_of_a_local_repository(world, local, monkeypatch, where):
    """The repository in which the directory is goes in; nothing is left in its tree."""
    (local / "deep" / "er").mkdir(parents=True)
    (local / "deep" / "er" / "file").write_text("1\n")
    git("add", "-A", cwd=local)
    git("commit", "-qm", "third", cwd=local)
    repo = {"current": ".", "named": local / "deep" / "er", "git directory": local / ".git"}.get(where)
    if where == "bare":
        git("clone", "-q", "--bare", local, local / ".git" / "bare")
        repo = local = local / ".git" / "bare"
    else:
        monkeypatch.chdir(local / "deep" / "er")
    done = run(world, "--repo", repo, "--branch", "work", "echo 2 >> deep/er/file")
    assert done.returncode == 0 and "branch work, commit " in done.stdout, done.stderr
    assert git("show", "work:deep/er/file", cwd=local) == "1\n2\n"
    if where != "bare":
        assert git("status", "--porcelain", cwd=local) == ""


@pytest.mark.parametrize("step", ["run", "sandbox"])
def test_a_retry_with_a_local_repository(world, local, step):
    """The repository is sent again if the sandbox is another one; the branch comes back."""
    done = run(world, "--repo", local, "--base", "other", "--branch", "work", f"{FAILS} || [ $(cat other) = 2 ]; echo x > new")
    task = newest(world)
    assert done.returncode != 0 and done.stderr.count(f"atoll task retry {task['id']} --repo {local}`") == 1, done.stderr
    assert "changes that are not" not in done.stderr, done.stderr
    done = world.atoll("task", "retry", task["id"])
    assert done.returncode != 0 and f"atoll task retry {task['id']} --repo DIR" in done.stderr, done.stderr
    done = world.atoll("task", "take", task["id"], "--repo", local)
    assert done.returncode != 0 and "failed" in done.stderr, done.stderr
    if step == "run":
        write(world, task, "again")
    else:
        git("checkout", "-q", "other", cwd=local)
        (local / "other").write_text("2\n")
        git("commit", "-qam", "third", cwd=local)
        git("checkout", "-q", "main", cwd=local)
    done = world.atoll("task", "retry", task["id"], step, "--repo", local, timeout=120)
    assert done.returncode == 0 and "branch work, commit " in done.stdout, done.stderr
    assert git("show", "work:new", cwd=local) == "x\n"
    assert git("rev-parse", "work~1", cwd=local) == git("rev-parse", "other", cwd=local)
    # It can be taken once more.
    git("branch", "-qD", "work", cwd=local)
    done = world.atoll("task", "take", task["id"], "--repo", local)
    assert done.returncode == 0 and "branch work, commit " in done.stdout, done.stderr
    assert git("show", "work:new", cwd=local) == "x\n"


def test_a_retry_of_a_task_without_a_local_repository(world, local):
    done = run(world, "exit 3")
    task = newest(world)
    assert done.returncode != 0 and "--repo" not in done.stderr, done.stderr
    done = world.atoll("task", "retry", task["id"], "--repo", local)
    assert done.returncode != 0 and "leave out --repo" in done.stderr, done.stderr
    done = world.atoll("task", "take", task["id"], "--repo", local)
    assert done.returncode != 0 and "has no branch" in done.stderr, done.stderr
    world.rest.call("DELETE", f"/api/sandboxes/{task['sandbox_id']}")
