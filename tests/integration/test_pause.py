"""Pause and resume: what stands still, what goes on, what is refused, and what a dead daemon leaves."""

import json
import os
import signal
import threading
import time

import pytest

from conftest import wait_until
from resting import (COUNTER, Box, advances, agent_of, boot_id, count, freezer_state, kill_daemon,
                     leftovers, mortal_daemon, stands_still, terminate_daemon)
from rest import Rest


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture
def box(rest):
    made = Box(rest)
    yield made
    made.destroy()


def test_a_counter_stands_still_and_goes_on(box):
    counter = box.detach(COUNTER)
    advances(box, counter)  # the control: it does unless it is paused
    assert box.do("pause")["state"] == "paused"
    assert freezer_state(box.id) == "FROZEN"
    assert stands_still(box, counter)
    before = count(box, counter)
    assert box.do("resume")["state"] == "running"
    advances(box, counter)
    # The same process: not one number is missing or twice.
    numbers = box.output(counter).split()
    assert numbers == [str(i + 1) for i in range(len(numbers))] and len(numbers) > before
    assert "result" not in box.exec(counter)


def test_what_a_paused_one_refuses(box, rest):
    counter = box.detach(COUNTER)
    advances(box, counter)
    box.do("pause")
    refused = [
        box.post("pause"),
        rest.post(f"{box.path}/execs", {"cmd": ["true"]}),
        rest.get(f"{box.path}/files", path="/etc/passwd"),
        rest.put(f"{box.path}/files", b"x", path="x"),
        rest.get(f"{box.path}/stats"),
    ]
    assert [answer.status for answer in refused] == [409] * len(refused)
    assert f"sandbox {box.id} is paused; resume it first" in refused[1].error["message"]
    assert "paused already" in refused[0].error["message"]
    # What only reads its record is fine.
    assert box.state == "paused" and box.view["expires_at"] is None
    assert box.exec(counter)["state"] == "running"
    assert count(box, counter) > 0
    assert box.id in [found["id"] for found in rest.get("/api/sandboxes", state="paused")
                      .json["sandboxes"]]


def test_resuming_what_runs_is_fine_and_what_is_not_there_is_not(box, rest):
    assert box.do("resume")["state"] == "running"
    assert rest.post("/api/sandboxes/nosuchsandbox/resume").status == 404
    assert rest.post("/api/sandboxes/nosuchsandbox/pause").status == 404
    assert box.post("pause", {"keepProcesses": "no"}).status == 400


def test_only_persistent_ones_can_be_stopped(box):
    refused = box.post("stop")
    assert refused.status == 409 and "not persistent" in refused.error["message"]
    assert box.state == "running"


@pytest.mark.parametrize("keep", [True, False])
def test_a_fresh_boot_or_the_same(box, keep):
    """Without its processes a pause ends in a fresh boot; with them everything is as it was."""
    before = boot_id(box)
    box.out("setsid sleep 4711 >/dev/null 2>&1 & echo kept > file; echo tmp > /tmp/file")
    counter = box.detach(COUNTER)
    box.do("pause", {"keepProcesses": keep})
    ended = box.exec(counter)
    if keep:
        assert ended["state"] == "running"
    else:
        assert ended["result"]["kind"] == "killed_by"
        assert ended["result"]["who"] == "an API client"
    box.do("resume")
    assert (boot_id(box) == before) is keep
    found = box.run("pgrep -f 'sleep 471[1]'")["result"]["exit_code"] == 0
    assert found is keep
    assert box.out("cat file /tmp/file") == "kept\ntmp"
    assert len(boot_id(box)) == 36


def test_a_paused_one_can_be_destroyed(rest, daemon):
    made = Box(rest)
    counter = made.detach(COUNTER)
    made.do("pause")
    assert made.destroy() == 204
    assert leftovers(daemon, made.id) == []
    assert rest.get(f"{made.path}/execs/{counter}", ended="false").status == 404
    assert made.exec(counter)["result"]["kind"] == "killed_by"


def test_one_that_was_killed_meanwhile_is_not_kept(rest):
    """What is frozen does not die. It does when it is resumed, and everybody is told."""
    for _ in range(5):
        box = Box(rest)
        counter = box.detach(COUNTER)
        advances(box, counter)
        box.do("pause")
        os.kill(agent_of(box.id), signal.SIGKILL)
        assert box.state == "paused"
        box.post("resume")  # too late to be true
        wait_until(lambda: box.state == "failed", 30, lambda: f"it is {box.state}")
        assert box.exec(counter)["result"]["kind"] == "lost"
        box.destroy()


def test_time_limits_stand_still(box):
    """A pause does not count for a command's timeout; what is left of it afterwards does."""
    began = time.monotonic()
    limited = box.detach("sleep 60", timeoutSeconds=2)
    box.do("pause")
    time.sleep(1.5)
    box.do("resume")
    wait_until(lambda: box.exec(limited)["state"] == "ended", 30, lambda: "the timeout is gone")
    assert box.exec(limited)["result"]["kind"] == "timed_out"
    assert time.monotonic() - began > 3.4  # and no sooner


def test_a_paused_one_has_no_deadline(rest):
    made = Box(rest, limits={"timeoutSeconds": 2})
    assert made.view["expires_at"]
    made.do("pause")
    time.sleep(2.2)
    assert made.state == "paused" and made.view["expires_at"] is None
    assert made.do("resume")["expires_at"]  # anew, from now
    wait_until(lambda: made.state == "ended", 30, lambda: "it outlives its deadline")


def test_events(box, rest):
    box.do("pause")
    box.do("resume")
    assert events(rest, box.id, "sandbox.resumed") == ["sandbox.created", "sandbox.paused",
                                                       "sandbox.resumed"]


def events(rest, sandbox, last):
    """Kinds of the kept events of one sandbox, up to `last`."""
    found, text = [], b""
    with rest.socket() as sock:
        sock.sendall(b"GET /api/events?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while last not in found:
            text += sock.recv(65536)
            found = [json.loads(line[line.index(b"{"):])["kind"] for line in text.split(b"\n")[:-1]
                     if b"{" in line and sandbox.encode() in line]
    return found


def test_many_at_once(box):
    """Whoever wins, nobody hangs, and it ends as something that works."""
    def storm(verb):
        for _ in range(10):
            assert box.post(verb).status in (200, 409)

    threads = [threading.Thread(target=storm, args=(verb,)) for verb in ["pause", "resume"] * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert box.do("resume")["state"] == "running"
    assert box.out("echo alive") == "alive"
    assert freezer_state(box.id) == "THAWED"


def test_pausing_while_commands_write(box):
    """Nothing of a stream is lost or twice over many pauses."""
    writer = box.detach("for i in $(seq 3000); do echo $i; done; exit 7")
    for _ in range(5):
        if box.post("pause").status == 200:
            box.do("resume")
    wait_until(lambda: box.exec(writer)["state"] == "ended", 30, lambda: "it does not end")
    assert box.exec(writer)["result"]["exit_code"] == 7
    assert box.output(writer).split() == [str(i + 1) for i in range(3000)]


# A daemon that dies.

@pytest.fixture(scope="module")
def mortal():
    with mortal_daemon() as daemon:
        yield daemon


def test_a_paused_one_survives_the_daemon(mortal):
    made = Box(mortal.rest, env={"NAME": "value"})
    counter = made.detach(COUNTER)
    advances(made, counter)
    made.do("pause")
    for _ in range(10):  # more daemons than the agent's socket has room for callers
        kill_daemon(mortal)
        mortal.start()
        assert made.state == "paused"
    assert freezer_state(made.id) == "FROZEN"
    assert stands_still(made, counter)
    assert made.post("execs", {"cmd": ["true"]}).status == 409
    made.do("resume")
    advances(made, counter)
    numbers = made.output(counter).split()
    assert numbers == [str(i + 1) for i in range(len(numbers))]
    assert made.out("echo $NAME") == "value"
    assert made.destroy() == 204
    assert leftovers(mortal, made.id) == []


def test_a_paused_one_ends_with_the_daemon_that_is_stopped(mortal):
    made = Box(mortal.rest)
    made.do("pause")
    terminate_daemon(mortal)
    assert leftovers(mortal, made.id) == []
    mortal.start()
    assert made.state == "ended"


# Where there is no freezer.

def test_without_a_freezer_it_is_refused(rootless_daemon):
    rest = Rest(rootless_daemon.socket)
    made = Box(rest, waive=["all"])
    running = made.detach("sleep 60")
    try:
        for keep in (True, False):
            refused = made.post("pause", {"keepProcesses": keep})
            assert refused.status == 501, refused.body
            assert "freezer" in refused.error["message"]
        # Nothing was weakened silently: nothing happened at all.
        assert made.state == "running" and made.exec(running)["state"] == "running"
    finally:
        made.destroy()


def test_a_persistent_one_is_refused_without_root(rootless_daemon):
    refused = Rest(rootless_daemon.socket).post(
        "/api/sandboxes", {"persistent": True, "waive": ["all"]})
    assert refused.status == 501 and "root" in refused.error["message"]
    (native,) = Rest(rootless_daemon.socket).get("/api/providers").json["providers"]
    assert "persistent" not in native["capabilities"] and "templates" in native["capabilities"]


def test_memory_of_a_paused_one_is_freed(rest, daemon):
    """Clean pages are dropped, whatever swap the host has; the sandbox goes on as if nothing was."""
    box = Box(rest, limits={"memoryMB": 512, "diskMB": 1024})  # too large a disk to be in memory
    box.out("head -c 64M /dev/urandom >file; sync file; cat file >/dev/null; sha256sum file >sum")
    counter = box.detach(COUNTER)
    advances(box, counter)
    memory = box.do("pause")["paused_memory"]
    assert memory["before_bytes"] > 48 << 20, memory
    assert memory["after_bytes"] < memory["before_bytes"] - (32 << 20), memory
    assert box.view["paused_memory"] == memory
    assert "paused_memory" not in box.do("resume")
    advances(box, counter)
    assert box.out("sha256sum -c sum") == "file: OK"
    said = daemon.atoll("pause", box.id, check=True)
    assert said.stdout == f"{box.id}\n" and f"{box.id}: memory " in said.stderr
    box.do("resume")
    box.destroy()


def test_a_resume_does_not_wait_until_memory_is_freed(rest):
    box = Box(rest)
    counter = box.detach(COUNTER)
    for _ in range(5):
        asked = threading.Thread(target=lambda: box.post("pause"))
        asked.start()
        wait_until(lambda: box.state == "paused", 20, lambda: box.state)
        assert box.do("resume")["state"] == "running"
        asked.join()
        advances(box, counter)
    box.destroy()
