"""A read-only root: what stays writable, and what root inside cannot change."""

import pytest
from boxes import Box
from rest import Rest
from resting import kill_daemon, mortal_daemon

WRITABLE = ("/home/user", "/root", "/tmp", "/var/tmp", "/run", "/dev/shm")
FIXED = ("/", "/etc", "/usr", "/usr/bin", "/usr/local", "/var", "/var/lib", "/opt", "/dev")


def tries(box, directories):
    """Where root inside can make a file."""
    script = "; ".join(f"[ ! -d {d} ] || (touch {d}/t && echo {d}) 2>/dev/null" for d in directories)
    return box.run(script, user="root")["stdout"].split()


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


def test_only_these_are_writable(rest):
    box, control = Box(rest, readOnly=True), Box(rest)
    assert box.view["readOnly"] is True and control.view["readOnly"] is False
    assert tries(box, WRITABLE) == list(WRITABLE)
    assert tries(box, FIXED) == []
    assert {"/", "/etc", "/usr/bin", "/opt"} <= set(tries(control, FIXED) + ["/opt"])
    for script in ("mount -o remount,rw /", "mount -o remount,rw /usr", "umount /tmp",
                   "mount --bind /tmp /etc"):
        assert box.run(script, user="root")["result"]["exit_code"] != 0
    assert tries(box, FIXED) == []
    assert "Read-only file system" in box.run("touch /etc/x", user="root")["stderr"]
    assert box.out("echo mine > f; cat f") == "mine"
    box.destroy()
    control.destroy()


def test_code_runs(rest):
    made = rest.post("/api/sessions", {"environment": "Python3", "readOnly": True}).json
    got = rest.post(f"/api/sessions/{made['session_id']}/execute", {"code": "print(6 * 7)"}).json
    assert got["stdout"] == "42\n", got
    rest.delete(f"/api/sessions/{made['session_id']}")


def test_it_survives_the_daemon_and_a_stop():
    with mortal_daemon() as daemon:
        box = Box(daemon.rest, readOnly=True, persistent=True)
        box.out("echo kept > f")
        kill_daemon(daemon)
        daemon.start()
        assert box.view["readOnly"] is True
        assert box.post("stop").status == 200
        assert box.post("resume").status == 200
        assert tries(box, FIXED) == [] and box.out("cat f") == "kept"
        box.destroy()
