"""An earlier Atoll makes sandboxes and is killed; this one takes them over as they are."""

import signal

import pytest

from boxes import Box
from daemons import BUILD, running, wait_until
from rest import Rest

WAITS = "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo done; exit 3"


class Upgraded:
    """What was made before, and the daemon that is there now."""

    def __init__(self, daemon):
        self.rest = rest = Rest(daemon.socket)
        self.plain = Box(rest, limits={"memoryMB": 192, "pids": 77}, env={"MINE": "kept"},
                         metadata={"task": "42"})
        self.plain.run("echo text > note; echo said; exit 5")
        self.waits = self.plain.detach(WAITS)
        self.paused = Box(rest)
        self.paused.run("echo text > note")
        self.paused.do("pause")
        self.stopped = Box(rest, persistent=True)
        self.stopped.run("echo text > note")
        self.stopped.do("stop")
        self.session = rest.post("/api/sessions", {"environment": "Bash"}).json["session_id"]
        ran = rest.post(f"/api/sessions/{self.session}/execute", {"code": "echo text > note"})
        assert ran.status in (200, 201), ran.body
        self.before = {box.id: box.view for box in (self.plain, self.paused, self.stopped)}
        self.replace(daemon)

    def replace(self, daemon):
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()
        daemon.build = BUILD
        daemon.env["PATH"] = f"{BUILD}:{daemon.env['PATH']}"
        daemon.start()
        wait_until(lambda: self.plain.get("files/stat", path="/").status == 200, 30,
                   lambda: f"not reached again: {self.plain.view}")


@pytest.fixture(scope="module")
def upgraded(old_build):
    with running(old_build) as daemon:
        yield Upgraded(daemon)


def test_what_was_requested_is_still_known(upgraded):
    changing = {"expires_at", "remaining_ms", "stats", "updated_at"}
    for box in (upgraded.plain, upgraded.paused, upgraded.stopped):
        before, after = upgraded.before[box.id], box.view
        assert {key: after.get(key) for key in before if key not in changing} == \
            {key: value for key, value in before.items() if key not in changing}


def test_a_command_goes_on(upgraded):
    box = upgraded.plain
    assert "result" not in box.exec(upgraded.waits)
    box.run("touch go")
    wait_until(lambda: "result" in box.exec(upgraded.waits), 30, lambda: "it does not end")
    assert box.exec(upgraded.waits)["result"]["exit_code"] == 3
    assert box.output(upgraded.waits) == "begun\ndone\n"


def test_an_ended_command_has_its_output(upgraded):
    ended = [one for one in upgraded.plain.get("execs").json["execs"]
             if one.get("result", {}).get("exit_code") == 5]
    assert len(ended) == 1
    assert upgraded.plain.output(ended[0]["exec_id"]) == "said\n"


def test_limits_and_environment_hold(upgraded):
    assert upgraded.plain.out("cat note; echo $MINE") == "text\nkept"
    hog = upgraded.plain.run("exec python3 -c 'x = bytearray(400 << 20)'")
    assert hog["result"]["kind"] == "oom_killed", hog


def test_a_paused_one_resumes(upgraded):
    assert upgraded.paused.state == "paused"
    upgraded.paused.do("resume")
    assert upgraded.paused.out("cat note") == "text"


def test_a_stopped_one_starts(upgraded):
    assert upgraded.stopped.state == "stopped"
    upgraded.stopped.do("resume")
    assert upgraded.stopped.out("cat note") == "text"


def test_a_session_is_there(upgraded):
    path = f"/api/sessions/{upgraded.session}"
    assert upgraded.rest.get(path).status == 200
    ran = upgraded.rest.post(f"{path}/execute", {"code": "cat note"})
    assert ran.status in (200, 201) and "text" in ran.body.decode(), ran.body


def test_they_can_be_destroyed(upgraded):
    for box in (upgraded.plain, upgraded.paused, upgraded.stopped):
        assert box.destroy() == 204
    assert upgraded.rest.delete(f"/api/sessions/{upgraded.session}").status in (200, 204)
