"""sandbox.git, method by method, with both clients and a repository in the sandbox in place of a server."""

import pytest
from daytona import DaytonaConflictError, DaytonaError, DaytonaNotFoundError

ANN = ("Ann", "ann@example.org")


class Repository:
    """A bare `origin`, with one commit that came from the work tree `first`."""

    def __init__(self, sandbox):
        self.sandbox, self.git = sandbox, sandbox.git
        self.git.init("origin", bare=True, initial_branch="main")
        self.git.init("first", initial_branch="main")
        self.run("echo one > first/README")
        self.git.add("first", ["README"])
        self.git.commit("first", "one", *ANN)
        self.git.remote_add("first", "origin", "../origin")
        self.git.push("first", branch="main", remote="origin", set_upstream=True)
        self.url = f"file://{self.run('pwd')}/origin"

    def run(self, command):
        done = self.sandbox.process.exec(command)
        assert done.exit_code == 0, done.result
        return done.result.strip()


@pytest.fixture(scope="module")
def repository(client):
    sandbox = client.create()
    yield Repository(sandbox)
    sandbox.delete()


def test_clone_status_commit_push_and_pull(repository):
    git, run = repository.git, repository.run
    git.clone(repository.url, "work")
    run("echo two >> work/README; echo new > work/new")
    status = git.status("work")
    assert (status.current_branch, status.ahead, status.behind, status.branch_published) == ("main", 0, 0, True)
    assert sorted((f.name, f.staging, f.worktree) for f in status.file_status) == [
        ("README", "Unmodified", "Modified"), ("new", "Untracked", "Untracked")]
    git.add("work", ["."])
    sha = git.commit("work", "two", *ANN).sha
    assert run("git -C work log -1 --format='%H %s %an %ae'") == f"{sha} two Ann ann@example.org"
    assert git.status("work").ahead == 1
    git.push("work")
    git.pull("first")
    assert run("cat first/new") == "new"
    with pytest.raises(DaytonaError):
        git.commit("work", "none", *ANN)
    assert git.commit("work", "none", *ANN, allow_empty=True).sha != sha


def test_clone_of_a_branch_of_a_commit_and_of_the_last_commits(repository):
    git, run = repository.git, repository.run
    run("cd first && git checkout -q -b side && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m side"
        " && git push -q origin side && git checkout -q main")
    git.clone(repository.url, "side", branch="side", depth=1)
    assert git.status("side").current_branch == "side" and run("git -C side rev-list --count HEAD") == "1"
    root = run("git -C first rev-list --max-parents=0 HEAD")
    git.clone(repository.url, "old", commit_id=root)
    assert run("git -C old rev-parse HEAD") == root
    for url, branch in ((repository.url, "no-such"), ("file:///no-such", None)):
        with pytest.raises(DaytonaNotFoundError):
            git.clone(url, "none", branch=branch)


def test_branches(repository):
    git = repository.git
    git.create_branch("first", "dev")
    with pytest.raises(DaytonaConflictError):
        git.create_branch("first", "dev")
    git.checkout_branch("first", "dev")
    assert git.status("first").current_branch == "dev"
    git.checkout_branch("first", "main")
    assert "dev" in git.branches("first").branches
    git.delete_branch("first", "dev")
    assert "dev" not in git.branches("first").branches


def test_restore_and_reset(repository):
    git, run = repository.git, repository.run
    git.init("undone", initial_branch="main")
    run("echo kept > undone/file")
    git.add("undone", ["."])
    git.commit("undone", "kept", *ANN)
    run("echo changed > undone/file")
    git.restore("undone", ["file"])
    assert run("cat undone/file") == "kept"
    run("echo changed > undone/file")
    git.add("undone", ["file"])
    git.reset("undone")
    assert git.status("undone").file_status[0].staging == "Unmodified"
    git.reset("undone", mode="hard", target="HEAD")
    assert not git.status("undone").file_status


def test_remotes_and_configuration(repository):
    git, run = repository.git, repository.run
    git.remote_add("first", "second", "https://example.org/r")
    assert git.remote_get("first", "second") == "https://example.org/r" and not git.remote_get("first", "none")
    assert {remote.name for remote in git.remotes("first").remotes} == {"origin", "second"}
    git.set_config("core.editor", "true", scope="local", path="first")
    assert git.get_config("core.editor", scope="local", path="first") == "true"
    assert not git.get_config("core.none", scope="local", path="first")
    git.configure_user("Bob", "bob@example.org")
    assert run("git config --global user.email") == "bob@example.org"
    git.dangerously_authenticate("bob", "word", host="git.test")
    assert "password=word" in run("printf 'protocol=https\\nhost=git.test\\n\\n' | git credential fill")
