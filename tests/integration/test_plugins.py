"""Providers that are programs of the operator's: their answers, their ends, their lies."""

import json
import os
import signal
import shutil
import tempfile
from pathlib import Path

import pytest
from boxes import Box
from daemons import BUILD, Daemon, need_build, wait_until
from places import providers_yaml
from rest import Rest

PROGRAM = Path(__file__).with_name("plugin_program.py")


def make_daemon(directory, **settings):
    daemon = Daemon(BUILD, directory)
    daemon.state.mkdir(mode=0o700)
    (daemon.state / "providers.yaml").write_text(providers_yaml({"mine": {
        "kind": "plugin", "program": str(PROGRAM), "check_seconds": 0.2, **settings}}))
    return daemon


@pytest.fixture
def directory():
    need_build()
    path = Path(tempfile.mkdtemp(prefix="atoll-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


class World:
    def __init__(self, daemon):
        self.daemon = daemon
        self.rest = Rest(daemon.socket)
        self.place = daemon.state / "plugin-mine"

    def order(self, *lines):
        (self.place / "orders").write_text("\n".join(lines) + "\n")

    def facts(self):
        listed = self.rest.get("/api/providers").json["providers"]
        return next(entry for entry in listed if entry["name"] == "mine")

    def pid(self):
        wait_until(lambda: self.facts()["detail"].startswith("pid "), 30, self.facts)
        return int(self.facts()["detail"].split()[1])

    def post(self):
        return self.rest.post("/api/sandboxes", {"provider": "mine", "waive": ["all"]})


@pytest.fixture
def world(directory):
    daemon = make_daemon(directory)
    daemon.start()
    made = World(daemon)
    yield made
    made.order()
    made.rest.delete("/api/sandboxes")
    left = daemon.stop()
    assert not left, left


def test_a_stream_may_come_as_a_descriptor(world):
    box = Box(world.rest, provider="mine", waive=["all"])
    assert box.out("echo $((6*7))") == "42"
    assert (box.view["provider"], box.view["isolation"]) == ("mine", "none")
    assert box.destroy() == 204
    assert not (world.place / box.id).exists()


def test_a_program_that_ends_is_started_again(world):
    box = Box(world.rest, provider="mine", waive=["all"])
    first = world.pid()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: world.pid() != first and world.facts()["state"] == "up", 30, world.facts)
    assert box.out("echo still here") == "still here"
    assert box.destroy() == 204


def test_the_death_of_the_daemon_loses_nothing(world):
    box = Box(world.rest, provider="mine", waive=["all"])
    first = world.pid()
    world.daemon.process.kill()
    world.daemon.process.wait()
    wait_until(lambda: not Path(f"/proc/{first}").exists(), 30, lambda: "the program goes on")
    world.daemon.start()
    wait_until(lambda: box.state == "running", 30, lambda: box.view)
    assert box.out("echo adopted") == "adopted"


@pytest.mark.parametrize("order, status, words", [
    ({"error": {"kind": "resource_exhausted", "message": "no more of these"}}, 429, "no more of"),
    ({"error": {"kind": "invalid_argument", "message": "not like that"}}, 400, "not like that"),
    ({"error": {"message": "secret trouble"}}, 500, "internal error"),
    ({"result": {"connect": "tcp:127.0.0.1:1"}}, 500, "internal error"),
    ({"result": {"connect": "unix:relative"}}, 500, "internal error"),
    ({"result": {"fd": True}}, 500, "internal error"),
    ({"nothing": 1}, 500, "internal error"),
])
def test_what_it_answers_is_checked(world, order, status, words):
    world.order(f"create {json.dumps(order)}")
    answer = world.post()
    assert answer.status == status and words in answer.error["message"], answer.body
    world.order()
    assert world.rest.get("/api/sandboxes").json["sandboxes"] == []


def test_one_that_dies_at_each_create_is_unavailable(world):
    world.order("create die")
    answer = world.post()
    assert answer.status == 503 and "plugin's program" in answer.error["message"], answer.body
    world.order()
    wait_until(lambda: world.facts()["state"] == "up", 60, world.facts)
    assert world.post().status == 201


def test_a_silent_one_holds_up_no_other(world):
    world.order("health silent")
    assert world.post().status == 201


@pytest.mark.parametrize("settings, words", [
    ({"program": "/no/such/program"}, "cannot be started"),
    ({"program": "relative.py"}, "absolute path"),
    ({"settings": {"version": "2"}}, "does not speak version 1"),
    ({"program": "/bin/true"}, "ended before it answered"),
])
def test_one_that_cannot_be_used_is_told_at_the_start(directory, settings, words):
    daemon = make_daemon(directory, **settings)
    with pytest.raises(Exception):
        daemon.start()
    assert words in daemon.log.read_text()


def test_a_task_says_what_its_network_may_be(directory):
    """The provider cannot restrict a network to the hosts that the task needs: whether it may reach all is for the client to say."""
    daemon = make_daemon(directory, settings={"networks": "none bridge"})
    daemon.start()
    rest = Rest(daemon.socket)

    def run(**more):
        return rest.post("/api/tasks", {"instruction": "true", "cleanup": "always", "repo": "http://127.0.0.1:1/x.git",
                                        "steps": {"clone": {"tries": 1}}, **more}, wait="true").json
    task = run(provider="mine")
    assert task["state"] == "failed" and task["step"] == "sandbox", task
    assert "mine cannot enforce a network policy" in task["error"]["message"], task
    assert '"mode": "bridge"' in task["error"]["message"] and "--network bridge" in task["error"]["message"], task
    # With all of the network its sandbox is made; the directory cannot be made in it, by any user.
    task = run(provider="mine", sandbox={"network": {"mode": "bridge"}, "waive": ["all"], "workdir": "/proc/none"})
    assert task["provider"] == "mine" and "/proc/none" in task["error"]["message"], task
    for body in ({"provider": "mine", "sandbox": {"provider": "native"}}, {"provider": "mine", "sandboxId": "x"}, {"provider": 7}):
        refused = rest.post("/api/tasks", {"instruction": "true", **body})
        assert refused.status == 400 and "provider" in refused.error["message"], refused.body
    assert not daemon.stop()
