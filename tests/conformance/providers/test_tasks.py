"""The same task by every provider: a repository goes in, a command works on it, the branch comes back."""

import json
import subprocess

import pytest

from daemons import BUILD, wait_until


def git(*words, cwd):
    return subprocess.run(["git", "-c", "user.name=T", "-c", "user.email=t@example.org", *map(str, words)], cwd=cwd,
                          check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path):
    git("init", "-qb", "main", cwd=tmp_path)
    (tmp_path / "a").write_text("1\n")
    git("add", "-A", cwd=tmp_path)
    git("commit", "-qm", "first", cwd=tmp_path)
    return tmp_path


def ask(place, instruction, **more):
    answer = place.rest.post("/api/tasks", {"agent": "shell", "instruction": instruction, "autoCleanup": True,
                                            "sandbox": {"provider": place.name}, **more})
    assert answer.status == 201, answer.body
    return f"/api/tasks/{answer.json['id']}"


def has_git(place):
    with place.box() as box:
        return box.run("command -v git")["result"].get("exit_code") == 0


def test_files_come_out(place):
    path = ask(place, "echo said; echo made > a.txt; echo no > b.log", capturePatterns=["*.txt"])
    task = place.rest.get(path, wait="true").json
    assert task["state"] == "succeeded" and task["provider"] == place.name, str(task)
    assert task["output"] == "said\n"
    assert [(file["path"], file["content"]) for file in task["files"]] == [("a.txt", "made\n")]
    steps = {step["step"]: step["state"] for step in task["steps"]}
    assert steps["run"] == steps["cleanup"] == "succeeded", steps


def test_a_branch_comes_back(place, world, repository):
    if not has_git(place):
        pytest.skip(f"the template of {place.name} has no git")
    done = subprocess.run([BUILD / "atoll", "task", "run", "--repo", repository, "--branch", "work", "--provider", place.name,
                           "--json", "echo 2 >> a; echo new > b"], env=world.daemon.env, capture_output=True, text=True,
                          timeout=80, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["provider"] == place.name
    assert git("show", "work:a", cwd=repository) == "1\n2\n" and git("show", "work:b", cwd=repository) == "new\n"


def test_its_sandbox_is_lost(place):
    """The task fails at its step, and a retry begins with another sandbox."""
    path = ask(place, "echo begun; exec sleep 1000", cleanup="never")
    log = f"{path}/log"
    wait_until(lambda: "begun" in [line["message"] for line in place.rest.get(log).lines], 30, lambda: "it does not begin")
    lost = place.rest.get(path).json["sandbox_id"]
    place.end_from_outside(type("Ended", (), {"id": lost}))
    task = place.rest.get(path, wait="true").json
    assert task["state"] == "failed" and task["step"] == "run", task
    assert f"atoll task retry {task['id']}" in task["error"]["message"], task["error"]
    assert place.rest.post(f"{path}/retry", {}).status == 202

    def again():
        now = place.rest.get(path).json
        return now["step"] == "run" and now["sandbox_id"] != lost
    wait_until(again, 30, lambda: str(place.rest.get(path).json))
    place.rest.post(f"{path}/cancel")
    task = place.rest.get(path, wait="true").json
    assert task["state"] == "canceled", task
    place.rest.delete(f"/api/sandboxes/{task['sandbox_id']}")
