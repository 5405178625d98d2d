"""Persistent sandboxes: what survives a stop, a daemon that ends or is killed, and a dead atoll-spawn."""

import contextlib
import fcntl
import http.client
import io
import os
import random
import signal
import tarfile
import threading
import time

import pytest

import conftest
import daemons
from conftest import wait_until
from resting import (COUNTER, Box, advances, boot_id, kill_daemon, leftovers, loop_devices,
                     mortal_daemon, spawn_pid, terminate_daemon)

SECRET = "hunter2-kept-secret"
FULL = {"plain": "No space left", "cow": "Disk quota exceeded"}


KINDS = ["plain", "cow"] if os.environ.get("ATOLL_FAULTS") == "all" else ["plain"]


@pytest.fixture(scope="module", params=KINDS)
def mortal(request):
    """In a full run, on each kind of disk."""
    with mortal_daemon(ATOLL_DISKS=request.param) as daemon:
        daemon.disks = request.param
        yield daemon


@pytest.fixture
def box(mortal):
    made = Box(mortal.rest, persistent=True, env={"SECRET": SECRET}, metadata={"task": "42"})
    yield made
    made.destroy()
    assert leftovers(mortal, made.id) == []


def outside_ids(box_id):
    """First id of a running sandbox's range, as the host sees it."""
    for path in conftest.cgroups():
        if path.name == box_id and (path / "cgroup.procs").exists():
            pids = (path / "cgroup.procs").read_text().split()
            if pids:
                with open(f"/proc/{pids[0]}/uid_map", encoding="ascii") as file:
                    return int(file.read().split()[1])
    raise AssertionError(f"{box_id} does not run")


def image(daemon, box):
    """The disk, or what stands for it."""
    return daemon.state / "disks" / f"{box.id}.{'cow' if daemon.disks == 'cow' else 'img'}"


def is_mounted(box):
    """Whether its disk is an image that is mounted. A disk of the kind cow is part of a pool."""
    return loop_devices(box.id) != []


def test_nothing_is_wrong_with_a_stopped_one(box):
    for verb, state in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
        box.do(verb)
        health = box.get("health").json
        assert (health["status"], health["state"]) == ("ok", state), health
        assert ("answered_ms" in health) == (state == "running")


def test_whoever_counts_on_variables_is_told(box):
    """An interpreter ends with a stop; the next call gets a new one and hears of it."""
    context = box.post("contexts", {"language": "python"}).json["context_id"]

    def execute(code):
        return box.post(f"contexts/{context}/execute", {"code": code}).json

    assert execute("n = 1")["stderr"] == ""
    box.do("stop")
    box.do("resume")
    assert "the interpreter had ended (killed_by" in execute("n = 2")["stderr"]
    assert execute("n")["results"][0]["text"] == "2"


def test_a_stop_keeps_the_disk_and_nothing_else(mortal, box):
    before, ids = boot_id(box), outside_ids(box.id)
    box.out("echo mine > file; chmod 600 file; sudo sh -c 'echo roots > /root/file; rm /etc/hosts'")
    box.detach("exec sleep 4711")
    counter = box.detach(COUNTER)
    assert is_mounted(box) == (mortal.disks != "cow"), "its disk is an image"
    stopped = box.do("stop")
    assert stopped["state"] == "stopped" and stopped["persistent"] and "cause" not in stopped
    assert box.exec(counter)["result"]["kind"] == "killed_by"
    # Only the disk is left of it.
    assert not is_mounted(box)
    assert [path for path in conftest.cgroups() if path.name == box.id] == []
    assert {path.name for path in daemons.below(mortal.state) if path.name.startswith(box.id)
            and path.parent.name != "journal"} == {image(mortal, box).name, f"{box.id}.env"}
    started = box.do("resume")
    assert started["state"] == "running" and started["metadata"] == {"task": "42"}
    assert started["created_at"] == stopped["created_at"]
    assert outside_ids(box.id) == ids
    assert box.out("cat file; stat -c '%U %a' file; whoami") == "mine\nuser 600\nuser"
    assert box.out("sudo stat -c '%U %G' /root/file; sudo cat /root/file") == "root root\nroots"
    assert box.run("test -e /etc/hosts")["result"]["exit_code"] == 1, "its own changes stay"
    assert box.run("pgrep sleep")["result"]["exit_code"] == 1
    assert boot_id(box) != before
    assert box.out("echo $SECRET") == SECRET
    assert box.out("cat /proc/sys/kernel/hostname") == box.id
    assert box.exec(counter)["result"]["kind"] == "killed_by", "records stay"


def test_what_a_stopped_one_refuses(box, mortal):
    box.do("stop")
    assert box.do("stop")["state"] == "stopped"  # as often as one likes
    refused = mortal.rest.post(f"{box.path}/execs", {"cmd": ["true"]})
    assert refused.status == 409
    assert f"sandbox {box.id} is stopped; resume it first" in refused.error["message"]
    assert box.post("pause").status == 409
    assert mortal.rest.get(f"{box.path}/files", path="file").status == 409
    listed = mortal.rest.get("/api/sandboxes", state="stopped").json["sandboxes"]
    assert [found["id"] for found in listed] == [box.id]


def test_a_paused_one_can_be_stopped(box):
    box.out("echo data > file")
    box.do("pause")
    assert box.do("stop")["state"] == "stopped"
    box.do("resume")
    assert box.out("cat file") == "data"


def test_secrets_are_in_no_file(mortal, box):
    box.do("stop")
    held = [path for path in daemons.below(mortal.state)
            if path.is_file() and path.stat().st_size < 1 << 24
            and path.parent.name != "ended"  # what commands of other sandboxes printed
            and SECRET.encode() in path.read_bytes()]
    assert held == []
    sealed = (mortal.state / "disks" / f"{box.id}.env").stat()
    assert sealed.st_mode & 0o777 == 0o600 and sealed.st_uid == 0
    assert image(mortal, box).stat().st_mode & 0o777 == 0o600
    assert SECRET not in mortal.log.read_text()


def test_figures_of_the_disk_are_its_own(mortal):
    """Those of a pool are of all disks in it. The file system of an image takes some of its size."""
    made = Box(mortal.rest, persistent=True, limits={"diskMB": 64})

    def disk():
        return mortal.rest.get(f"/api/sandboxes/{made.id}/stats").json["disk"]

    try:
        before = disk()
        assert before["limit_bytes"] == pytest.approx(64 << 20, rel=0 if mortal.disks == "cow" else 0.3)
        made.out("head -c 16M /dev/urandom > file; sync file")
        assert 16 << 20 <= disk()["used_bytes"] - before["used_bytes"] <= 18 << 20
        made.run("head -c 64M /dev/zero > big")
        assert disk()["used_bytes"] == pytest.approx(before["limit_bytes"], rel=0.1)
    finally:
        made.destroy()


def test_a_full_disk_is_507(mortal):
    made = Box(mortal.rest, persistent=True, limits={"diskMB": 32})
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo("a")
        entry.size = 64 << 20
        tar.addfile(entry, io.BytesIO(bytes(entry.size)))
    try:
        for route, body in (("files", bytes(64 << 20)), ("archive", packed.getvalue())):
            answer = mortal.rest.put(f"/api/sandboxes/{made.id}/{route}", body, path=f"in-{route}")
            assert answer.status == 507 and "diskMB" in answer.error["hint"], answer.body
            made.out("rm -rf in-*")
    finally:
        made.destroy()


def test_the_disk_has_a_limit(mortal):
    made = Box(mortal.rest, persistent=True, limits={"diskMB": 32, "memoryMB": 256})
    try:
        full = made.run("head -c 64M /dev/zero > big")
        assert full["result"]["exit_code"] != 0 and FULL[mortal.disks] in full["stderr"]
        size = int(made.out("stat -c %s big"))
        assert 20 << 20 < size <= 32 << 20
        made.do("stop")
        made.do("resume")
        assert int(made.out("stat -c %s big")) == size
    finally:
        made.destroy()
    assert leftovers(mortal, made.id) == []


def test_a_stopped_one_can_be_destroyed(mortal):
    made = Box(mortal.rest, persistent=True, env={"A": "b"})
    made.do("stop")
    assert leftovers(mortal, made.id) != []
    assert made.destroy() == 204
    assert leftovers(mortal, made.id) == []


def test_ids_stay_reserved(mortal, box):
    """Nobody else gets the ids that own the files of a stopped sandbox, after a restart neither."""
    ids = outside_ids(box.id)
    box.do("stop")
    for _ in range(2):
        others = [Box(mortal.rest) for _ in range(3)]
        assert ids not in [outside_ids(other.id) for other in others]
        for other in others:
            other.destroy()
        terminate_daemon(mortal)
        mortal.start()
    box.do("resume")
    assert outside_ids(box.id) == ids


def test_a_daemon_that_is_stopped_stops_it(mortal, box):
    ephemeral = Box(mortal.rest)
    box.out("echo data > file")
    counter = box.detach(COUNTER)
    terminate_daemon(mortal)
    assert leftovers(mortal, ephemeral.id) == [] and not is_mounted(box)
    mortal.start()
    assert mortal.rest.get(ephemeral.path).json["state"] == "ended"
    assert box.state == "stopped"
    ended = box.exec(counter)["result"]
    assert ended["kind"] == "killed_by" and ended["who"] == "the daemon was stopped"
    box.do("resume")
    assert box.out("cat file; echo $SECRET") == f"data\n{SECRET}"


def test_nobody_takes_its_ids_meanwhile(mortal, box):
    """While its daemon is away its block of ids becomes the one that is unused for longest, which
    the next instance takes, unless files belong to these ids."""
    box.out("echo data > file")
    terminate_daemon(mortal)
    daemons.wait_for_room(3)  # in need somebody may take what is kept for another
    block = (mortal.state / "id-block").read_text()
    os.utime(f"/run/atoll/ids-{block}", (1, 1))
    with daemons.running(conftest.BUILD) as other:
        assert (other.state / "id-block").read_text() != block
        assert other.atoll("run", "--", "true").returncode == 0
        mortal.start()
        box.do("resume")
        assert box.out("cat file; stat -c %U file") == "data\nuser"


def test_a_killed_daemon_changes_nothing(mortal, box):
    box.out("echo data > file")
    counter = box.detach(COUNTER)
    before = boot_id(box)
    kill_daemon(mortal)
    mortal.start()
    assert box.state == "running" and boot_id(box) == before
    advances(box, counter)
    box.do("stop")
    kill_daemon(mortal)
    mortal.start()
    assert box.state == "stopped"
    box.do("resume")
    assert box.out("cat file; echo $SECRET") == f"data\n{SECRET}"


def test_a_killed_spawn_is_a_stop_with_a_cause(mortal, box):
    """In the middle of writing: the disk mounts again, and what was synced is there."""
    box.out("echo data > file; sync file")
    writer = box.detach("i=0; while :; do i=$((i+1)); echo $i > n-$i; dd if=/dev/zero of=big bs=64k "
                        "count=16 conv=fsync 2>/dev/null; echo $i; done")
    advances(box, writer)
    ephemeral = Box(mortal.rest)
    os.kill(spawn_pid(mortal), signal.SIGKILL)
    wait_until(lambda: box.state == "stopped", 30, lambda: f"it is {box.state}")
    assert "atoll-spawn" in box.view["cause"]
    assert box.exec(writer)["result"]["kind"] == "lost"
    wait_until(lambda: ephemeral.state == "failed", 30, lambda: f"it is {ephemeral.state}")
    ephemeral.destroy()
    resumed = box.do("resume")
    assert resumed["state"] == "running" and "cause" not in resumed
    assert box.out("cat file; cat n-1; echo $SECRET") == f"data\n1\n{SECRET}"
    assert box.out("touch more && echo writable") == "writable"


def test_a_killed_spawn_and_daemon(mortal, box):
    """As after a crash of the host: nobody was there to see it end."""
    box.out("echo data > file; sync file")
    counter = box.detach(COUNTER)
    spawn = spawn_pid(mortal)
    kill_daemon(mortal)
    os.kill(spawn, signal.SIGKILL)
    mortal.start()
    wait_until(lambda: box.state == "stopped", 30, lambda: f"it is {box.state}")
    assert box.view["cause"] and box.exec(counter)["result"]["kind"] == "lost"
    box.do("resume")
    assert box.out("cat file; echo $SECRET") == f"data\n{SECRET}"


def test_a_paused_one_and_a_killed_spawn(mortal, box):
    """Frozen processes cannot die before they are thawed: the next atoll-spawn does that."""
    box.out("echo data > file; sync file")
    box.do("pause")
    os.kill(spawn_pid(mortal), signal.SIGKILL)
    wait_until(lambda: box.state == "stopped", 30, lambda: f"it is {box.state}")
    box.do("resume")
    assert box.out("cat file") == "data"


def test_a_first_process_that_dies_is_a_stop_too(mortal, box):
    box.out("echo data > file; sync file")
    outside = [int(pid) for path in conftest.cgroups() if path.name == box.id
               for pid in (path / "cgroup.procs").read_text().split()]
    os.kill(min(outside), signal.SIGKILL)
    wait_until(lambda: box.state == "stopped", 30, lambda: f"it is {box.state}")
    assert "signal 9" in box.view["cause"]
    box.do("resume")
    assert box.out("cat file") == "data"


def test_a_start_that_fails_costs_nothing(mortal, box):
    box.out("echo data > file")
    box.do("stop")
    hidden = image(mortal, box).with_suffix(".away")
    image(mortal, box).rename(hidden)
    failed = box.post("resume")
    assert failed.status >= 500 and box.state == "stopped"
    hidden.rename(image(mortal, box))
    box.do("resume")
    assert box.out("cat file") == "data"


def test_a_disk_is_never_mounted_twice(mortal, box):
    """The lock is what a loop device holds; a start waits for it."""
    if mortal.disks == "cow":
        pytest.skip("the pool is mounted once for all")
    box.do("stop")
    with image(mortal, box).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        starting = threading.Thread(target=lambda: box.post("resume"))
        starting.start()
        wait_until(lambda: box.state == "creating", 30, lambda: f"it is {box.state}")
        time.sleep(0.3)
        assert loop_devices(box.id) == [] and box.state == "creating"
        fcntl.flock(held, fcntl.LOCK_UN)
        starting.join(30)
    assert box.state == "running" and len(loop_devices(box.id)) == 1
    with image(mortal, box).open("rb") as taken, pytest.raises(BlockingIOError):
        fcntl.flock(taken, fcntl.LOCK_SH | fcntl.LOCK_NB)  # the control


def test_destroyed_while_it_is_started_or_stopped(mortal):
    for verb, first in (("stop", "running"), ("resume", "stopped")) * 3:
        made = Box(mortal.rest, persistent=True)
        if first == "stopped":
            made.do("stop")
        changing = threading.Thread(target=lambda made=made, verb=verb: made.post(verb))
        changing.start()
        assert made.destroy() == 204
        changing.join(30)
        assert not changing.is_alive()
        assert made.state == "ended"
        assert leftovers(mortal, made.id) == []


def test_a_daemon_killed_in_the_middle(mortal, box):
    """Of a pause, a stop or a start: the next one finds something that can go on, disk included."""
    box.out("echo data > file; sync file")
    random.seed(7)
    for verb in ("pause", "resume", "stop", "resume") * 3:
        changing = threading.Thread(target=attempt, args=(box, verb))
        changing.start()
        time.sleep(random.random() * 0.04)
        kill_daemon(mortal)
        changing.join(30)
        mortal.start()
        assert box.state in ("running", "paused", "stopping", "stopped")
        if random.random() < 0.5:
            box.do("resume")
            assert box.out("cat file; echo $SECRET") == f"data\n{SECRET}"
    box.do("resume")
    assert box.out("cat file; echo $SECRET") == f"data\n{SECRET}"


def attempt(box, verb):
    with contextlib.suppress(OSError, http.client.HTTPException):
        box.post(verb)


def test_disks_of_nobody_are_swept(mortal, box):
    box.do("stop")
    kill_daemon(mortal)
    orphan = mortal.state / "disks" / ("a" * 26 + image(mortal, box).suffix)
    orphan.write_bytes(b"x")
    orphan.with_suffix(".env").write_bytes(b"x\0")
    mortal.start()
    wait_until(lambda: not orphan.exists() and not orphan.with_suffix(".env").exists(), 30,
               lambda: "it is still there")
    assert image(mortal, box).exists()  # the control


# Sessions.

def execute(rest, session, code):
    answer = rest.post(f"/api/sessions/{session}/execute", {"code": code})
    assert answer.status == 200, answer.body
    return answer.json


def test_a_persistent_session(mortal):
    rest = mortal.rest
    made = rest.post("/api/sessions", {"environment": "Bash", "persistent": True})
    assert made.status == 201, made.body
    assert made.json["persistent"] is True
    session, sandbox = made.json["session_id"], made.json["sandbox_id"]
    try:
        execute(rest, session, "echo kept > file")
        assert rest.post(f"/api/sandboxes/{sandbox}/stop").status == 200
        assert rest.get(f"/api/sessions/{session}").json["state"] == "stopped"
        assert execute(rest, session, "cat file")["stdout"] == "kept\n"
        terminate_daemon(mortal)
        mortal.start()
        assert rest.get(f"/api/sessions/{session}").json["state"] == "stopped"
        # Two at once: started once, both run.
        results = []
        threads = [threading.Thread(target=lambda: results.append(
            execute(rest, session, "cat file")["stdout"])) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert results == ["kept\n"] * 2
    finally:
        rest.delete(f"/api/sessions/{session}")
    assert leftovers(mortal, sandbox) == []
