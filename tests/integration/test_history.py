"""Checkpoints of commands: history, undo, blame, and what kill -9 leaves of them."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

import pytest

from boxes import Box
from conftest import BUILD
from daemons import wait_until
from resting import kill_daemon, mortal_daemon, spawn_pid
from rest import Rest
from test_state import ask, layers, need_snapshots, remove, snapshot

FULL = os.environ.get("ATOLL_FAULTS") == "all"


@pytest.fixture(scope="module")
def mortal():
    with mortal_daemon() as daemon:
        need_snapshots(daemon.rest)
        yield daemon


@pytest.fixture
def box(mortal):
    made = Box(mortal.rest, checkpoints="command", env={"WORD": "swordfish"})
    yield made
    assert made.destroy() == 204
    wait_until(lambda: layers(mortal) == set(), 30, lambda: layers(mortal))


def history(box, **query):
    answer = box.get("history", **query)
    assert answer.status == 200, answer.body
    return answer.json["commands"]


def undo(box, **fields):
    answer = box.post("undo", fields)
    assert answer.status == 200, answer.body
    return answer.json["number"]


def counts(command):
    found = command["changes"]
    return found["added"], found["changed"], found["removed"], found["bytes"]


def blame(box, path):
    answer = box.get("blame", path=path)
    assert answer.status == 200, answer.body
    return answer.json["command"]["number"], answer.json["kind"]


def test_history_says_what_each_command_changed(box):
    assert box.view["checkpoints"] == "command"
    assert history(box) == []
    box.out("echo one > a; mkdir d; echo two > d/b")
    box.out("true")
    box.out("echo more >> a; rm -r d")
    found = history(box)
    assert [one["number"] for one in found] == [3, 2, 1]
    assert [counts(one) for one in found] == [(0, 1, 2, 9), (0, 0, 0, 0), (3, 0, 0, 8)]
    assert found[2]["command"] == "sh -c echo one > a; mkdir d; echo two > d/b"
    assert all(one["before"] and one["after"] and not one["shared"] for one in found)
    assert [one["number"] for one in history(box, limit=1)] == [3]
    # Numbers are moments.
    changes = box.get("diff", **{"from": "2", "to": "3"}).json["changes"]
    assert {one["path"] for one in changes} == {"/home/user/a", "/home/user/d", "/home/user/d/b"}
    assert box.get("diff", **{"from": "0", "to": "3"}).json["summary"]["added"] == 1
    assert box.get("diff", **{"from": "9"}).status == 404


def test_undo_goes_back_before_commands(box):
    box.out("echo one > note")
    box.out("echo two > note")
    box.out("rm -rf /home/user/*")
    assert undo(box) == 2
    assert box.out("cat note; echo $WORD") == "two\nswordfish"
    assert [one["number"] for one in history(box)] == [3, 2, 1]
    assert undo(box, commands=3) == 0
    assert box.out("ls") == ""
    assert [one["command"] for one in history(box)] == ["sh -c ls"]
    answer = box.post("undo", {"commands": 7})
    assert answer.status == 409 and b"history of 1" in answer.body


def test_files_that_requests_write_are_part_of_it(box):
    box.out("echo one > a")
    assert box.rest.put(f"{box.path}/files", b"uploaded", path="/home/user/up").status in (200, 201, 204)
    box.out("rm up")
    assert undo(box) == 1
    assert box.out("cat up a") == "uploadedone"


def test_undo_while_a_command_runs(box):
    box.out("echo one > a")
    running = box.detach("echo two > b; mv b a; sleep 600")
    wait_until(lambda: box.rest.get(f"{box.path}/files", path="/home/user/a").body == b"two\n", 30, lambda: history(box))
    answer = box.post("undo", {})
    assert answer.status == 409 and b"1 command runs" in answer.body and b"force" in answer.body
    assert undo(box, force=True) == 1
    ended = box.exec(running)["result"]
    assert ended["kind"] == "killed_by" and "undo" in str(ended), ended
    assert box.out("cat a") == "one"


def test_an_open_interpreter_does_not_hinder_undo(box):
    """Only code that runs in it does. A context goes on with a new interpreter and says so."""
    made = box.post("contexts", {"language": "python"})
    assert made.status == 201, made.body
    run = f"contexts/{made.json['context_id']}/execute"
    assert box.post(run, {"code": "x = 5"}).json["error"] is None
    box.out("echo one > a")
    assert undo(box) == 0
    found = box.post(run, {"code": "'x' in globals()"}).json
    assert found["results"][-1]["text"] == "False" and "undo" in found["stderr"], found
    box.out("echo one > a")
    ended = []
    thread = threading.Thread(target=lambda: ended.append(Rest(box.rest.address).post(
        f"{box.path}/{run}", {"code": "open('b', 'w').close(); import time; time.sleep(600)"}).json))
    thread.start()
    wait_until(lambda: box.rest.get(f"{box.path}/files", path="/home/user/b").status == 200, 30, lambda: history(box))
    answer = box.post("undo", {})
    assert answer.status == 409 and b"force" in answer.body
    assert undo(box, force=True) == 0
    thread.join(30)
    assert "undo" in str(ended[0]["error"]), ended
    assert box.out("ls") == ""


def test_a_start_command_does_not_hinder_undo():
    """It runs again, as after a restore."""
    with mortal_daemon() as daemon:  # of its own: layers of steps stay
        need_snapshots(daemon.rest)
        made = daemon.rest.post("/api/builds", {"name": "serves", "dockerfile": "FROM host\nRUN true",
                                                "startCommand": "date +%N > /tmp/up; sleep 1000",
                                                "readyCommand": "test -s /tmp/up"})
        assert made.status == 201, made.body
        build = f"/api/builds/{made.json['id']}"
        wait_until(lambda: daemon.rest.get(build).json["state"] == "ready", 60, lambda: daemon.rest.get(build).json)
        box = Box(daemon.rest, template="serves", checkpoints="command")
        up = lambda: box.rest.get(f"{box.path}/files", path="/tmp/up").body
        for number in range(2):
            before = up()
            box.out("echo one > a")
            assert undo(box) == number
            wait_until(lambda: up() not in (b"", before), 30, lambda: up())
            assert box.out("ls; until pgrep -x sleep >/dev/null; do :; done; pgrep -xc sleep") == "1"
        running = box.detach("sleep 600")
        answer = box.post("undo", {})
        assert answer.status == 409 and b"1 command runs" in answer.body
        kill_daemon(daemon)
        daemon.start()
        assert b"1 command runs" in box.post("undo", {}).body
        assert undo(box, force=True) == 2
        assert box.exec(running)["result"]["kind"] == "killed_by"
        box.destroy()


def test_commands_at_the_same_time_share(box):
    running = box.detach("while [ ! -e a ]; do sleep 0.05; done; echo b > b")
    box.out("sleep 0.2; echo one > a")
    wait_until(lambda: box.exec(running)["state"] == "ended", 30, lambda: box.exec(running))
    assert [one["shared"] for one in history(box)] == [True, True]
    assert [one["after"] for one in history(box)] == [True, True]


def test_blame(box):
    box.out("echo one > a; echo b > b")
    box.out("echo two > a")
    box.out("true")
    box.out("rm b")
    assert blame(box, "/home/user/a") == (2, "changed")
    assert blame(box, "/home/user/b") == (4, "removed")
    assert box.get("blame", path="/etc/passwd").status == 404
    assert box.get("blame", path="relative").status == 400


def test_a_command_that_cannot_start_leaves_no_trace(box):
    assert box.post("execs", {"cmd": ["/no/such/program"]}, wait="true").status >= 400
    box.out("true")
    assert [one["command"] for one in history(box)] == ["sh -c true"]


def test_kill_9_keeps_the_history(mortal, box):
    box.out("echo one > a")
    running = box.detach("sleep 2; echo two > a")
    kill_daemon(mortal)
    mortal.start()
    wait_until(lambda: box.exec(running)["state"] == "ended", 30, lambda: box.exec(running))
    found = history(box)
    assert [one["number"] for one in found] == [2, 1] and counts(found[0])[1] == 1
    assert undo(box) == 1
    assert box.out("cat a") == "one"


def own_layers(daemon, box):
    with contextlib.closing(sqlite3.connect(daemon.state / "atoll.db")) as db:
        return len(db.execute("SELECT layers FROM sandboxes WHERE id = ?", (box.id,)).fetchone()[0].split()) - 1


def test_undo_again_and_again(mortal, box):
    """Each of these undos goes back to a checkpoint that was made after another one. In full runs there are more than
    a stack may have layers."""
    deepest = 0
    for i in range(300 if FULL else 24):
        box.out(f"mkdir -p d; echo {i} > a; echo {i} > keep{i}; rm -rf keep{i - 3} d; mkdir d; echo {i} > d/f{i}")
        box.out("rm -rf a d keep*")
        undo(box)
        assert box.out("cat a; ls d") == f"{i}\nf{i}"
        deepest = max(deepest, own_layers(mortal, box))
    assert deepest == 8
    assert box.out("ls") == "\n".join(["a", "d", f"keep{i - 2}", f"keep{i - 1}", f"keep{i}"])
    found = history(box)
    assert counts(found[2])[:3] == (2, 1, 2)
    assert all(one.get("changes") for one in found if one["before"] and one["after"])


def test_kill_9_while_layers_become_one(mortal, box):
    """The files are those of before the undo or after it, and no layer is left (see `box`)."""
    def ask():
        with contextlib.suppress(Exception):  # it gets no answer, or one in time
            box.post("undo", {})

    def change(text):
        box.out(f"echo {text} > a; echo kept > b")
        box.out("rm a")

    for i in range(9):
        change(i)
        undo(box)
    for number, delay in enumerate((0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.1, 0.2) if FULL else (0.01, 0.04)):
        change(f"again {number}")
        asked = threading.Thread(target=ask)
        asked.start()
        time.sleep(delay)
        kill_daemon(mortal)
        asked.join()
        mortal.start()
        wait_until(lambda: box.view["state"] == "running", 30, lambda: box.view)
        assert box.out("cat a 2>/dev/null || echo gone; cat b") in (f"again {number}\nkept", "gone\nkept")
    change("last")
    undo(box)
    assert box.out("cat a b") == "last\nkept"


def test_undone_commands_add_no_layers(mortal, box):
    """The checkpoint that an undo goes back to is that before the next command. In full runs there are more undos than
    a stack may have layers."""
    box.out("echo kept > a")
    for i in range(140 if FULL else 20):
        box.out(f"echo {i} > a")
        undo(box)
    wait_until(lambda: len(layers(mortal)) <= 2, 30, lambda: layers(mortal))
    assert box.out("cat a") == "kept"
    assert len(history(box)) == 2
    # What a request writes after the undo is not in that layer.
    undo(box)
    assert box.rest.put(f"{box.path}/files", b"by a request", path="/home/user/b").status in (200, 201, 204)
    box.out("rm -f a b")
    undo(box)
    assert box.out("cat a b") == "kept\nby a request"


def test_old_checkpoints_are_thinned_out(mortal, box):
    for i in range(80):
        box.out(f"echo {i} > f")
    found = history(box, limit=100)
    assert len(found) == 80
    kept = [one["number"] for one in found if one["before"]]
    assert kept[:16] == list(range(80, 64, -1)) and len(kept) <= 64 and len(layers(mortal)) <= 130
    gone = next(one["number"] for one in found if not one["before"] and not one["after"])
    assert box.get("diff", **{"from": str(gone)}).status == 404 or gone + 1 in kept


def test_without_checkpoints(mortal):
    plain = Box(mortal.rest)
    try:
        assert plain.view["checkpoints"] == "none"
        for answer in (plain.get("history"), plain.get("blame", path="/a"), plain.post("undo", {})):
            assert answer.status == 409 and b"checkpoints" in answer.body
        assert mortal.rest.post("/api/sandboxes", {"checkpoints": "hourly"}).status == 400
    finally:
        plain.destroy()


def test_the_command_line(mortal):
    env = {**os.environ, "ATOLL_SOCKET": str(mortal.socket)}

    def atoll(*words):
        done = subprocess.run([BUILD / "atoll", *words], text=True, capture_output=True, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    box = atoll("create", "--checkpoints", "command")
    atoll("exec", box, "--", "touch", "a")
    atoll("exec", box, "--", "rm", "a")
    assert atoll("history", box).splitlines()[0].split() == ["2", "+0", "~0", "-1", "0", "rm", "a"]
    for path in ("/home/user/a", "a", "./a"):
        assert atoll("blame", box, path) == "2  removed  rm a"
    refused = subprocess.run([BUILD / "atoll", "blame", box, "/"], text=True, capture_output=True, env=env)
    assert refused.returncode != 0 and "other than /" in refused.stderr, refused.stderr
    atoll("undo", box)
    assert atoll("exec", box, "--", "ls") == "a"
    atoll("rm", box)


def test_a_checkpoint_without_room_takes_that_of_old_ones():
    """On a small disk of the daemon, where checkpoints are copies. It is as large as some of them."""
    if os.geteuid() != 0:
        pytest.skip("mounts a small file system")
    with mortal_daemon() as daemon:
        need_snapshots(daemon.rest)
        daemon.stop()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", daemon.state], check=True)
        try:
            daemon.start()
            box = Box(daemon.rest, checkpoints="command", disk={"kind": "memory"}, limits={"memoryMB": 64, "diskMB": 16})
            for number in range(12):
                box.out(f"head -c 9M /dev/urandom > f; echo {number} > n")
                assert history(box, limit=1)[0]["after"], history(box)
            found = history(box)
            assert not found[-1]["after"] and found[1]["after"] and found[0]["number"] == 12
            undo(box)
            assert box.out("cat n") == "10"
            box.destroy()
            daemon.stop()
        finally:
            subprocess.run(["umount", "-l", daemon.state], check=True)


class Ends:
    """A command that ends with status 0 when it is told to."""

    def __init__(self, box):
        self.box, self.mark = box, os.urandom(8).hex()
        self.id = box.detach(f"until [ -e go ]; do sleep 0.05; done; echo {self.mark} > out")

    def runs(self):
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if self.mark.encode() in path.read_bytes():
                    return True
        return False

    def end(self):
        """The daemon knows of its end when this returns."""
        def put():
            return self.box.rest.put(f"{self.box.path}/files", b"", path="/home/user/go").status
        assert self.runs() and put() in (200, 201, 204)
        wait_until(lambda: not self.runs(), 20, lambda: self.box.exec(self.id))
        for _ in range(2):  # the agent tells it before it answers these
            assert put() in (200, 201, 204)

    def check(self):
        """It has ended as it did, and its files are kept."""
        result = self.box.exec(self.id)["result"]
        assert (result["kind"], result.get("exit_code")) == ("exited", 0), result
        [found] = [one for one in history(self.box) if self.mark in one["command"]]
        assert found["before"] and found["after"], found
        changes = self.box.get("diff", **{"from": str(found["number"] - 1), "to": str(found["number"])}).json["changes"]
        assert "/home/user/out" in {one["path"] for one in changes}, changes


def status_of(sock):
    return int(sock.recv(65536).split(b" ", 2)[1])


def test_a_command_that_ended_before_the_turn_of_a_restore(mortal):
    box = Box(mortal.rest, checkpoints="command")
    snapshot(box, "base")
    command = Ends(box)
    spawn = spawn_pid(mortal)
    with mortal.rest.socket() as first, mortal.rest.socket() as second:
        os.kill(spawn, signal.SIGSTOP)
        try:
            ask(box, first, "snapshots", name="other")
            ask(box, second, "restore", snapshot="base")
            command.end()
        finally:
            os.kill(spawn, signal.SIGCONT)
        assert (status_of(first), status_of(second)) == (201, 200)
    command.check()
    assert box.out("ls") == ""
    assert box.destroy() == 204
    remove(mortal.rest, "other")
    remove(mortal.rest, "base")


@pytest.mark.parametrize("disks", ["plain", "cow"])
def test_a_command_that_ended_before_a_stop(disks):
    """Also while room is made for the checkpoint of another one, and by a request that does not wait for its turn."""
    with mortal_daemon(ATOLL_DISKS=disks) as daemon:
        need_snapshots(daemon.rest)
        if disks == "cow" and not (daemon.state / "pool.img").exists():
            pytest.skip("this host has no copy-on-write disks")
        box = Box(daemon.rest, checkpoints="command", persistent=True, limits={"memoryMB": 64, "diskMB": 60})
        spawn = spawn_pid(daemon)
        for with_other in (False, True):
            command = Ends(box)
            with daemon.rest.socket() as first, daemon.rest.socket() as second:
                os.kill(spawn, signal.SIGSTOP)
                try:
                    if with_other:
                        ask(box, first, "execs", cmd=["true"])
                    command.end()
                    ask(box, second, "stop")
                finally:
                    os.kill(spawn, signal.SIGCONT)
                assert status_of(second) == 200
            box.do("resume")
            command.check()
            box.out("rm go out")
        # A destroy does not wait, so there is no checkpoint.
        command = Ends(box)
        os.kill(spawn, signal.SIGSTOP)
        try:
            command.end()
            with daemon.rest.socket() as sock:
                sock.sendall(f"DELETE {box.path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                wait_until(lambda: box.exec(command.id)["result"], 20, lambda: box.exec(command.id))
                result = box.exec(command.id)["result"]
                assert (result["kind"], result.get("exit_code")) == ("exited", 0), result
        finally:
            os.kill(spawn, signal.SIGCONT)


def test_an_upload_without_room_takes_that_of_old_checkpoints():
    with mortal_daemon(ATOLL_DISKS="cow") as daemon:
        need_snapshots(daemon.rest)
        if not (daemon.state / "pool.img").exists():
            pytest.skip("this host has no copy-on-write disks")
        box = Box(daemon.rest, checkpoints="command", limits={"memoryMB": 64, "diskMB": 100})
        for script in ("head -c 40M /dev/urandom > first; sync first",
                       "rm first; head -c 40M /dev/urandom > second; sync second", "true"):
            box.out(script)
        upload = lambda: box.rest.put(f"{box.path}/files", os.urandom(130 << 20), path="/home/user/up").status
        assert upload() == 507
        wait_until(lambda: upload() in (200, 201, 204), 60, lambda: history(box))
        assert [one["before"] for one in history(box)] == [True, False, False]
        box.destroy()


def test_commands_do_not_wait_for_quota_that_checkpoints_have():
    """In the pool, blocks count for the disk while a checkpoint has them: it has room for them, and before a command
    starts, old ones go."""
    with mortal_daemon(ATOLL_DISKS="cow") as daemon:
        need_snapshots(daemon.rest)
        if not (daemon.state / "pool.img").exists():
            pytest.skip("this host has no copy-on-write disks")
        box = Box(daemon.rest, checkpoints="command", limits={"memoryMB": 64, "diskMB": 60})
        assert box.view["disk"] == {"kind": "auto", "historyMB": 60}
        assert box.get("stats").json["disk"]["limit_bytes"] == 120 << 20
        for _ in range(6):
            box.out("rm -f big; head -c 25000000 /dev/urandom > big && sync big")
        # Almost the whole disk, again and again.
        for number in range(3):
            box.out(f"rm -f big; head -c 50000000 /dev/urandom > big && sync big && echo {number} > n")
        # The oldest have gone, and the last command can be undone.
        found = history(box)
        assert not found[-1]["before"] and found[0]["before"] and found[0]["after"]
        undo(box)
        assert box.out("cat n; stat -c %s big") == "1\n50000000"
        # Forks have the same, also after the daemon has been killed.
        [made] = box.post("fork", {}).json["sandboxes"]
        assert made["disk"]["historyMB"] == 60
        assert daemon.rest.delete(f"/api/sandboxes/{made['id']}").status == 204
        kill_daemon(daemon)
        daemon.start()
        assert box.view["disk"]["historyMB"] == 60
        box.out("rm -f big; head -c 50000000 /dev/urandom > big && sync big")
        box.destroy()


def test_the_history_of_a_full_disk_outlives_the_daemon():
    with mortal_daemon(ATOLL_DISKS="cow") as daemon:
        need_snapshots(daemon.rest)
        if not (daemon.state / "pool.img").exists():
            pytest.skip("this host has no copy-on-write disks")
        box = Box(daemon.rest, checkpoints="command", limits={"memoryMB": 64, "diskMB": 60})
        box.out("head -c 56M /dev/urandom > big && sync big")
        for number in range(4):
            box.out(f"echo {number} > n")
        kill_daemon(daemon)
        daemon.start()
        box.out("echo 4 > n")
        found = history(box)
        assert len(found) == 6 and all(one["before"] and one["after"] for one in found), found
        # An undo makes the disk empty: files that requests write then are no reason to drop checkpoints.
        assert undo(box, commands=2) == 4
        assert box.rest.put(f"{box.path}/files", os.urandom(56 << 20), path="/home/user/up").status in (200, 201, 204)
        box.out("true")
        found = history(box)
        assert len(found) == 5 and all(one["before"] and one["after"] for one in found), found
        box.destroy()


def test_what_disks_of_an_earlier_version_have_for_checkpoints():
    """Nothing until they are started again, and an image never has it."""
    with mortal_daemon(ATOLL_DISKS="cow", ATOLL_TENANT_DISK="200M") as daemon:
        need_snapshots(daemon.rest)
        if not (daemon.state / "pool.img").exists():
            pytest.skip("this host has no copy-on-write disks")
        key = daemon.rest.post("/api/keys", {"tenant": "acme", "scope": "write"}).json["key"]
        rest = Rest(daemon.socket, {"X-API-Key": key})
        wanted = {"checkpoints": "command", "persistent": True, "limits": {"memoryMB": 64, "diskMB": 60}}

        def check(box, history_mb):
            assert box.view["disk"].get("historyMB", 0) == history_mb
            assert box.get("stats").json["disk"]["limit_bytes"] == (60 + history_mb) << 20
            box.out("true")
            # What is left of the quota of the tenant.
            beside = {"limits": {"memoryMB": 64, "diskMB": 200 - 60 - history_mb}}
            Box(rest, **beside).destroy()
            assert rest.post("/api/sandboxes", {"limits": {"memoryMB": 64, "diskMB": 201 - 60 - history_mb}}).status == 429

        box = Box(rest, **wanted)
        check(box, 60)
        kill_daemon(daemon)
        with contextlib.closing(sqlite3.connect(daemon.state / "atoll.db")) as db, db:
            db.execute("UPDATE sandboxes SET history_bytes = 0")
        daemon.start()
        check(box, 0)
        for _ in range(2):
            box.do("stop")
            box.do("resume")
            check(box, 60)
        box.destroy()
        # The disk of a persistent one that was made without the pool.
        kill_daemon(daemon)
        daemon.env["ATOLL_DISKS"] = "plain"
        daemon.start()
        box = Box(rest, **wanted)
        box.do("stop")
        kill_daemon(daemon)
        daemon.env["ATOLL_DISKS"] = "cow"
        daemon.start()
        box.do("resume")
        assert "historyMB" not in box.view["disk"]
        Box(rest, limits={"memoryMB": 64, "diskMB": 140}).destroy()
        box.destroy()


def test_the_quota_of_a_tenant_counts_what_checkpoints_may_have():
    with mortal_daemon(ATOLL_DISKS="cow", ATOLL_TENANT_DISK="200M") as daemon:
        need_snapshots(daemon.rest)
        if not (daemon.state / "pool.img").exists():
            pytest.skip("this host has no copy-on-write disks")
        key = daemon.rest.post("/api/keys", {"tenant": "acme", "scope": "write"}).json["key"]
        rest = Rest(daemon.socket, {"X-API-Key": key})
        box = Box(rest, checkpoints="command", limits={"memoryMB": 64, "diskMB": 70})
        wanted = {"limits": {"memoryMB": 64, "diskMB": 70}}
        refused = rest.post("/api/sandboxes", wanted)
        assert refused.status == 429 and "--tenant-disk" in refused.error["message"], refused.body
        box.destroy()
        others = [Box(rest, **wanted) for _ in range(2)]
        for other in others:
            other.destroy()
