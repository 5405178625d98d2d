"""Snapshots of sandboxes, forks of them and restores: what is in them, who may use them, what kill -9 leaves."""

import concurrent.futures
import contextlib
import json
import os
import select
import signal
import sqlite3
import threading

import pytest

from boxes import Box
from conftest import running, BUILD
from daemons import wait_until
from rest import Rest
from resting import kill_daemon, leftovers, mortal_daemon, spawn_pid

NOTE = "/home/user/note"


@pytest.fixture(scope="module", params=["plain", "cow"])
def mortal(request):
    """On each kind of disk."""
    with mortal_daemon(ATOLL_DISKS=request.param) as daemon:
        daemon.disks = request.param
        yield daemon


@pytest.fixture
def box(mortal):
    made = Box(mortal.rest, env={"WORD": "swordfish"}, metadata={"task": "7"},
               limits={"memoryMB": 128})
    yield made
    made.destroy()


def names(rest):
    return [one["name"] for one in rest.get("/api/snapshots").json["snapshots"]]


def layers(daemon):
    folder = daemon.state / "layers"
    return {path.name for path in folder.iterdir()
            if path.name.startswith("x")} if folder.exists() else set()


def need_snapshots(rest):
    """A host without a freezer has none."""
    native = next(one for one in rest.get("/api/providers").json["providers"] if one["name"] == "native")
    if "snapshots" not in native["capabilities"]:
        pytest.skip("native cannot freeze sandboxes here")


def fork(box, **fields):
    """Ids of the new sandboxes."""
    need_snapshots(box.rest)
    answer = box.post("fork", fields)
    assert answer.status == 201, answer.body
    return answer.json["sandboxes"]


def snapshot(box, name=None):
    need_snapshots(box.rest)
    answer = box.post("snapshots", {"name": name} if name else {})
    assert answer.status == 201, answer.body
    return answer.json


def remove(rest, name):
    answer = rest.delete(f"/api/snapshots/{name}")
    assert answer.status == 204, answer.body


# Snapshots.

def test_a_snapshot_has_the_files_and_the_sandbox_goes_on(mortal, box):
    box.out(f"echo one > {NOTE}; mkdir /home/user/d; ln -s note /home/user/l; rm -f /home/user/.profile")
    counter = box.detach("while :; do sleep 0.05; done")
    made = snapshot(box, "first")
    assert made["source"] == "snapshot" and made["sandbox_id"] == box.id and made["parent"] == "host"
    assert made["made"]["files"] > 0 and made["made"]["bytes"] > 0 and made["made"]["frozen_ms"] >= 0
    assert box.exec(counter)["state"] == "running"
    box.out(f"echo two > {NOTE}")
    other = Box(mortal.rest, template="first")
    try:
        assert other.out(f"cat {NOTE}; readlink /home/user/l") == "one\nnote"
        assert other.out("echo $WORD") == ""
        assert other.out("stat -c '%U %a' /home/user/note /home/user/d") == "user 644\nuser 755"
        # It is in use, and a sandbox can write to it without changing it.
        other.out(f"echo three > {NOTE}")
        assert mortal.rest.delete("/api/snapshots/first").status == 409
    finally:
        other.destroy()
    again = Box(mortal.rest, template="first")
    assert again.out(f"cat {NOTE}") == "one"
    again.destroy()
    remove(mortal.rest, "first")
    assert mortal.rest.get("/api/templates/first").status == 404
    wait_until(lambda: not layers(mortal), 20, lambda: layers(mortal))


def test_names_tags_and_history(mortal, box):
    box.out(f"echo 1 > {NOTE}")
    generated = snapshot(box)["name"]
    assert generated.startswith("snapshot-")
    first = snapshot(box, "named")
    box.out(f"echo 2 > {NOTE}")
    second = snapshot(box, "named")
    third = snapshot(box, "named:stable")
    assert first["tags"] == ["latest"] and second["tags"] == ["latest"] and third["tags"] == ["stable"]
    assert len({one["version"] for one in (first, second, third)}) == 3
    assert names(mortal.rest)[:4] == ["named", "named", "named", generated]
    mine = box.get("snapshots").json["snapshots"]
    assert {one["version"] for one in mine} >= {first["version"], second["version"]}
    old = Box(mortal.rest, template=f"named@sha256:{first['digest']}")
    assert old.out(f"cat {NOTE}") == "1"
    old.destroy()
    remove(mortal.rest, "named")
    remove(mortal.rest, generated)


def test_a_child_outlives_its_parent(mortal, box):
    box.out(f"echo parent > {NOTE}")
    parent = snapshot(box, "parent")
    middle = Box(mortal.rest, template="parent")
    middle.out("echo child > /home/user/more")
    child = snapshot(middle, "child")
    assert child["parent"] == parent["version"]
    middle.destroy()
    remove(mortal.rest, "parent")
    last = Box(mortal.rest, template="child")
    assert last.out(f"cat {NOTE} /home/user/more") == "parent\nchild"
    last.destroy()
    assert mortal.rest.get("/api/templates/child").json["parent"] == parent["version"]
    remove(mortal.rest, "child")
    wait_until(lambda: not layers(mortal), 20, lambda: layers(mortal))


def test_removed_files_stay_removed(mortal, box):
    box.out("rm /etc/hostname 2>/dev/null; rm -r /usr/share/doc 2>/dev/null; "
            "mkdir -p /usr/local/x && echo y > /usr/local/x/y", user="root")
    snapshot(box, "less")
    other = Box(mortal.rest, template="less")
    assert other.out("cat /usr/local/x/y; test -e /usr/share/doc/bash && echo there; true") == "y"
    other.destroy()
    remove(mortal.rest, "less")


def test_paused_and_stopped(mortal):
    box = Box(mortal.rest, persistent=True)
    box.out(f"echo kept > {NOTE}")
    box.do("pause", {})
    snapshot(box, "of-paused")
    assert box.state == "paused"
    box.do("resume")
    box.do("stop")
    snapshot(box, "of-stopped")
    assert box.state == "stopped"
    box.do("resume")
    assert box.out(f"cat {NOTE}") == "kept"
    box.destroy()
    for name in ("of-paused", "of-stopped"):
        other = Box(mortal.rest, template=name)
        assert other.out(f"cat {NOTE}") == "kept"
        other.destroy()
        remove(mortal.rest, name)
    assert leftovers(mortal, box.id) == []


@pytest.mark.parametrize("body", [{"name": ".bad"}, {"name": "a/b"}, {"name": ""}, {"name": "a@sha256:" + "0" * 64},
                                  {"name": 5}, {"name": "x" * 65}, {"nam": "x"}])
def test_bad_names(box, body):
    assert box.post("snapshots", body).status == 400


def test_refusals(mortal, box):
    assert box.post("snapshots", {"name": "host"}).status == 409
    assert mortal.rest.post("/api/sandboxes/" + "a" * 26 + "/snapshots", {}).status == 404
    assert mortal.rest.delete("/api/snapshots/missing").status == 404
    assert mortal.rest.delete("/api/snapshots/host").status == 404


def test_tenants_and_quota():
    with running(BUILD, ATOLL_TENANT_SNAPSHOTS="2") as daemon:
        admin = Rest(daemon.socket)
        keys = {name: admin.post("/api/keys", {"tenant": name, "scope": "write"}).json["key"]
                for name in ("acme", "rival")}
        mine, rival = (Rest(daemon.socket, {"X-API-Key": keys[name]}) for name in ("acme", "rival"))
        box, theirs = Box(mine), Box(rival)
        snapshot(box, "mine")
        assert names(mine) == ["mine"] and names(rival) == []
        assert rival.post("/api/sandboxes", {"template": "mine"}).status == 404
        assert rival.post("/api/sandboxes", {"template": "acme/mine"}).status == 404
        assert theirs.post("restore", {"snapshot": "acme/mine"}).status == 404
        assert rival.delete("/api/snapshots/acme%2Fmine").status == 404
        assert rival.post(f"{box.path}/snapshots", {}).status == 404
        assert rival.post(f"{box.path}/fork", {}).status == 404
        assert rival.post(f"{box.path}/restore", {"snapshot": "host"}).status == 404
        snapshot(box, "second")
        refused = box.post("snapshots", {})
        assert refused.status == 429 and "--tenant-snapshots" in refused.json["error"]["message"]
        snapshot(theirs, "mine")
        assert names(admin) == [] and len(admin.get("/api/snapshots", all="true").json["snapshots"]) == 3


def test_retention_by_count_and_age():
    """By count at once, by age at the next start; other tenants have bounds of their own."""
    with running(BUILD, ATOLL_SNAPSHOT_KEEP="2,rival=0", ATOLL_SNAPSHOT_DAYS="30,rival=365") as daemon:
        admin = Rest(daemon.socket)
        need_snapshots(admin)
        keys = [admin.post("/api/keys", {"tenant": name, "scope": "write"}).json["key"]
                for name in ("acme", "rival")]
        mine, rival = (Rest(daemon.socket, {"X-API-Key": key}) for key in keys)
        box, theirs = Box(mine), Box(rival)
        snapshot(box, "used")
        user = Box(mine, template="used")
        for name in ("second", "third", "fourth"):
            snapshot(box, name)
            snapshot(theirs, name)
        wait_until(lambda: names(mine) == ["fourth", "third", "used"], 20, lambda: names(mine))
        assert names(rival) == ["fourth", "third", "second"]
        user.destroy()
        daemon.stop()
        with contextlib.closing(sqlite3.connect(daemon.state / "atoll.db")) as db, db:
            db.execute("UPDATE template_versions SET created_unix_ms = created_unix_ms - 31 * 86400000 "
                       "WHERE name IN ('third', 'second')")
        daemon.start()
        wait_until(lambda: names(mine) == ["fourth", "used"], 20, lambda: names(mine))
        assert names(rival) == ["fourth", "third", "second"]


@pytest.mark.parametrize("disks", ["plain", "cow"])
def test_the_bytes_of_snapshots_are_bounded(disks):
    with running(BUILD, ATOLL_TENANT_SNAPSHOT_BYTES="10M", ATOLL_DISKS=disks) as daemon:
        admin = Rest(daemon.socket)
        need_snapshots(admin)
        key = admin.post("/api/keys", {"tenant": "acme", "scope": "write"}).json["key"]
        box = Box(Rest(daemon.socket, {"X-API-Key": key}))
        box.out("head -c 4M /dev/urandom > a")
        snapshot(box, "first")
        snapshot(box, "second")
        # The third would be beyond it: each has the whole change. Nothing of it is left.
        refused = box.post("snapshots", {"name": "third"})
        assert refused.status == 429 and "--tenant-snapshot-bytes" in refused.error["message"], refused.body
        assert names(box.rest) == ["second", "first"]
        wait_until(lambda: len(layers(daemon)) == 2, 20, lambda: layers(daemon))
        # What a snapshot has below it counts as long as the snapshot has it.
        other = Box(box.rest, template="second")
        remove(box.rest, "first")
        other.out("head -c 3M /dev/urandom > b")
        snapshot(other, "child")
        other.destroy()
        remove(box.rest, "second")
        assert box.post("snapshots", {"name": "third"}).status == 429
        remove(box.rest, "child")
        snapshot(box, "third")
        # Others have a bound of their own; forks do not count.
        fork(box)


def test_snapshots_that_sandboxes_use_count_after_a_delete_by_daytona():
    with running(BUILD, ATOLL_TENANT_SNAPSHOT_BYTES="6M", ATOLL_TENANT_SNAPSHOTS="2") as daemon:
        admin = Rest(daemon.socket)
        need_snapshots(admin)
        keys = [admin.post("/api/keys", {"tenant": name, "scope": "write"}).json["key"] for name in ("acme", "rival")]
        for key, size, option in zip(keys, ("4M", "1"), ("--tenant-snapshot-bytes", "--tenant-snapshots")):
            rest = Rest(daemon.socket, {"X-API-Key": key})
            daytona = Rest(daemon.socket, {"Authorization": f"Bearer {key}"})
            box = Box(rest)
            box.out(f"head -c {size} /dev/urandom > a")
            users = []
            for name in ("one",) if size == "4M" else ("one", "two"):
                snapshot(box, name)
                users.append(Box(rest, template=name))
                assert daytona.delete(f"/daytona/snapshots/{name}").status == 200
            assert names(rest) == []
            refused = box.post("snapshots", {})
            assert refused.status == 429 and option in refused.error["message"], refused.body
            # The last user takes it with it.
            for user in users:
                user.destroy()
            wait_until(lambda: box.post("snapshots", {"name": "three"}).status == 201, 20, lambda: layers(daemon))
            box.destroy()


def refused_while_in_progress(daemon, requests, count):
    """The answers to the requests, of which `count` are refused while atoll-spawn is stopped and the others
    are in progress."""
    spawn = spawn_pid(daemon)
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        os.kill(spawn, signal.SIGSTOP)
        try:
            running_ones = [pool.submit(box.post, verb, {}) for box, verb in requests]
            wait_until(lambda: sum(one.done() for one in running_ones) >= count, 20,
                       lambda: [one.result().body for one in running_ones if one.done()])
            early = [one for one in running_ones if one.done()]
        finally:
            os.kill(spawn, signal.SIGCONT)
        answers = [one.result() for one in running_ones]
    refused = [one.result() for one in early]
    assert len(refused) == count and [one.status for one in refused] == [429] * count
    assert sorted(one.status for one in answers) == [201] * (len(requests) - count) + [429] * count
    return [one.json["error"]["message"] for one in refused]


def test_snapshots_in_progress_count_for_the_quota():
    with running(BUILD, ATOLL_TENANT_SNAPSHOTS="2") as daemon:
        rest = Rest(daemon.socket)
        need_snapshots(rest)
        boxes = [Box(rest) for _ in range(4)]
        # A fork does not count as a snapshot.
        requests = [(box, "snapshots") for box in boxes[:3]] + [(boxes[3], "fork")]
        [message] = refused_while_in_progress(daemon, requests, 1)
        assert "--tenant-snapshots" in message
        assert len(names(rest)) == 2


def test_a_tenant_leaves_places_to_others():
    """At most 8 snapshots and forks of one tenant are in progress."""
    with running(BUILD) as daemon:
        admin = Rest(daemon.socket)
        need_snapshots(admin)
        keys = [admin.post("/api/keys", {"tenant": name, "scope": "write"}).json["key"]
                for name in ("acme", "rival")]
        mine, rival = (Rest(daemon.socket, {"X-API-Key": key}) for key in keys)
        boxes, theirs = [Box(mine) for _ in range(10)], Box(rival)
        requests = [(box, ("snapshots", "fork")[i % 2]) for i, box in enumerate(boxes)]
        messages = refused_while_in_progress(daemon, [*requests, (theirs, "snapshots")], 2)
        assert all("of tenant acme are in progress or wait" in one and "try again" in one for one in messages)
        assert 'atoll_quota_refused_total{what="captures"} 2' in admin.get("/metrics").body.decode()
        # The places are free again.
        snapshot(boxes[0])
        fork(boxes[1])


def test_captures_of_one_sandbox_take_turns(mortal, box):
    """Snapshots and forks that are asked for at the same time: as many as a tenant may have, each with its answer."""
    need_snapshots(box.rest)
    spawn = spawn_pid(mortal)
    with concurrent.futures.ThreadPoolExecutor(9) as pool:
        os.kill(spawn, signal.SIGSTOP)
        try:
            asked = [pool.submit(box.post, ("snapshots", "fork")[i % 2], {}) for i in range(9)]
            wait_until(lambda: any(one.done() for one in asked), 20, lambda: box.view)
        finally:
            os.kill(spawn, signal.SIGCONT)
        answers = [one.result() for one in asked]
    assert sorted(one.status for one in answers) == [201] * 8 + [429], [one.body for one in answers]
    [refused] = [one.error["message"] for one in answers if one.status == 429]
    assert refused.startswith("8 operations on files of sandboxes of tenant "), refused
    for answer in answers:
        if answer.status == 201 and "name" not in answer.json:
            assert mortal.rest.delete(f"/api/sandboxes/{answer.json['sandboxes'][0]['id']}").status == 204
        elif answer.status == 201:
            remove(mortal.rest, answer.json["name"])


def ask(box, sock, verb, headers=None, **body):
    """Sends the request, which is in progress or waits when this returns: the daemon has read it."""
    text = json.dumps(body)
    more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    sock.sendall(f"POST {box.path}/{verb} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 f"{more}Content-Length: {len(text)}\r\n\r\n{text}".encode())
    for _ in range(2):  # its loop serves requests in the order in which they come
        assert box.state == "running"


def test_a_pause_and_a_restore_wait_for_a_snapshot(mortal):
    box = Box(mortal.rest)
    snapshot(box, "base")
    spawn = spawn_pid(mortal)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        for verb, body in (("restore", {"snapshot": "base"}), ("pause", {})):
            with mortal.rest.socket() as sock:
                os.kill(spawn, signal.SIGSTOP)
                try:
                    ask(box, sock, "snapshots", name=f"before-{verb}")
                    asked = pool.submit(box.post, verb, body)
                finally:
                    os.kill(spawn, signal.SIGCONT)
                assert asked.result().status == 200, asked.result().body
                assert b" 201 " in sock.recv(65536)
    assert box.state == "paused" and box.destroy() == 204
    for name in ("before-pause", "before-restore", "base"):
        remove(mortal.rest, name)


def test_captures_beside_commands(mortal):
    """The checkpoints of commands delay snapshots, forks, pauses and undos of others, and make none of them fail."""
    box = Box(mortal.rest, checkpoints="command")
    need_snapshots(box.rest)
    stop = threading.Event()

    def commands():
        statuses = []
        while not stop.is_set():
            statuses.append(box.post("execs", {"cmd": ["sh", "-c", f"echo x >> {NOTE}"]}, wait="true").status)
        return statuses

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        loop = pool.submit(commands)
        try:
            answers = [one.result() for _ in range(4) for one in
                       [pool.submit(box.post, "snapshots", {}), pool.submit(box.post, "snapshots", {}),
                        pool.submit(box.get, "diff")]]
            forks = [box.post("fork", {}) for _ in range(2)]
            paused = []
            for _ in range(3):
                paused += [box.post("pause", {}).status, box.post("resume", {}).status]
        finally:
            stop.set()
        ran = loop.result()
    assert {one.status for one in answers} <= {200, 201}, [one.body for one in answers]
    assert [one.status for one in forks] == [201, 201], [one.body for one in forks]
    assert paused == [200] * 6
    assert set(ran) <= {200, 409} and 200 in ran  # 409: it was asked for while the sandbox was paused
    for answer in forks:
        assert mortal.rest.delete(f"/api/sandboxes/{answer.json['sandboxes'][0]['id']}").status == 204
    for answer in answers:
        if answer.status == 201:
            remove(mortal.rest, answer.json["name"])
    assert box.destroy() == 204
    wait_until(lambda: not layers(mortal), 20, lambda: layers(mortal))


def test_a_client_that_goes_away_gives_up_its_turn(mortal, box):
    need_snapshots(box.rest)
    spawn = spawn_pid(mortal)
    with mortal.rest.socket() as first:
        os.kill(spawn, signal.SIGSTOP)
        try:
            ask(box, first, "snapshots", name="first")
            with contextlib.ExitStack() as stack:
                clients = [stack.enter_context(mortal.rest.socket()) for _ in range(8)]
                for client in clients:
                    ask(box, client, "snapshots")
                # There are places for eight.
                ready = select.select(clients, [], [], 20)[0]
                assert len(ready) == 1 and b" 429 " in ready[0].recv(65536), ready
            gone = 'method="POST",route="/api/sandboxes/{id}/snapshots",status="499"} 7'
            wait_until(lambda: gone in mortal.rest.get("/metrics").body.decode(), 20,
                       lambda: mortal.rest.get("/metrics").body.decode())
        finally:
            os.kill(spawn, signal.SIGCONT)
        assert b" 201 " in first.recv(65536)
    assert names(mortal.rest) == ["first"]
    remove(mortal.rest, "first")


def test_what_waits_for_its_turn_is_answered_when_the_daemon_stops():
    with running(BUILD) as daemon:
        rest = Rest(daemon.socket)
        box = Box(rest, persistent=True)
        need_snapshots(rest)
        spawn = spawn_pid(daemon)
        with contextlib.ExitStack() as stack:
            first, compare, repeat, pause = (stack.enter_context(rest.socket()) for _ in range(4))
            os.kill(spawn, signal.SIGSTOP)
            try:
                ask(box, first, "snapshots", name="first")
                compare.sendall(f"GET {box.path}/diff HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                ask(box, repeat, "snapshots", headers={"Idempotency-Key": "again"}, name="second")
                ask(box, pause, "pause")
                daemon.process.send_signal(signal.SIGTERM)
                for waiting in (compare, repeat, pause):
                    waiting.settimeout(30)
                    answer = waiting.recv(65536)
                    assert b" 503 " in answer and b"the daemon is stopping" in answer, answer
            finally:
                os.kill(spawn, signal.SIGCONT)
            first.settimeout(30)
            assert b" 201 " in first.recv(65536)
        assert daemon.process.wait(30) == 0
        # The one in progress was made.
        daemon.start()
        assert names(rest) == ["first"]
        assert box.destroy() == 204
        remove(rest, "first")


@pytest.mark.parametrize("clients", [1, 4])
def test_captures_do_not_keep_a_sandbox_beyond_its_deadline(mortal, clients):
    """However many wait for their turn, and if one client asks again and again."""
    box = Box(mortal.rest, limits={"timeoutSeconds": 2, "memoryMB": 128})
    need_snapshots(box.rest)
    gone = threading.Event()

    def compare():
        while not gone.is_set():
            Rest(mortal.socket).get(f"{box.path}/diff")

    threads = [threading.Thread(target=compare) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: mortal.rest.get(box.path, ended="false").status == 404, 60, lambda: box.view)
    finally:
        gone.set()
        for thread in threads:
            thread.join()
    wait_until(lambda: not layers(mortal), 20, lambda: layers(mortal))


# Forks.

def test_forks_have_the_files_the_environment_and_the_limits(mortal, box):
    box.out(f"echo base > {NOTE}")
    made = fork(box, count=3)
    assert len({one["id"] for one in made}) == 3
    forks = [Box.__new__(Box) for _ in made]
    for other, one in zip(forks, made):
        other.rest, other.id, other.path = mortal.rest, one["id"], f"/api/sandboxes/{one['id']}"
        assert one["metadata"] == {"task": "7"} and one["limits"] == box.view["limits"]
        assert other.out(f"cat {NOTE}; echo $WORD") == "base\nswordfish"
        other.out(f"echo {one['id']} > {NOTE}")
    assert [other.out(f"cat {NOTE}") for other in forks] == [other.id for other in forks]
    assert box.out(f"cat {NOTE}") == "base"
    # The version of a fork is in no list, and goes with its last sandbox.
    assert names(mortal.rest) == []
    assert not [one for one in mortal.rest.get("/api/templates").json["templates"]
                if one["name"].startswith("fork-")]
    for other in forks:
        assert layers(mortal)
        other.destroy()
    wait_until(lambda: not layers(mortal), 20, lambda: layers(mortal))


def known(rest, sandbox_id):
    """One that is there already."""
    made = Box.__new__(Box)
    made.rest, made.id, made.path = rest, sandbox_id, f"/api/sandboxes/{sandbox_id}"
    return made


def test_forks_of_a_stopped_one(mortal):
    box = Box(mortal.rest, persistent=True, env={"WORD": "swordfish"})
    box.out(f"echo kept > {NOTE}")
    box.do("stop")
    others = [known(mortal.rest, one["id"]) for one in fork(box, count=2)]
    assert box.state == "stopped"
    for other in others:
        assert other.out(f"cat {NOTE}; echo $WORD") == "kept\nswordfish"
        other.destroy()
    box.do("resume")
    assert box.out(f"cat {NOTE}; echo $WORD") == "kept\nswordfish"
    box.destroy()
    wait_until(lambda: not layers(mortal), 20, lambda: layers(mortal))


def test_a_snapshot_and_a_fork_of_a_full_disk(mortal):
    """The disk of the sandbox is at its limit: what it has is in them, and it stays as it is."""
    box = Box(mortal.rest, limits={"memoryMB": 64, "diskMB": 48})
    written = box.run("echo kept > note; cat /dev/zero > big")
    assert written["result"]["exit_code"] != 0
    assert {"plain": "No space left", "cow": "quota exceeded"}[mortal.disks] in written["stderr"], written
    size = box.out("sync; stat -c %s big")
    snapshot(box, "full")
    others = [Box(mortal.rest, template="full", limits={"memoryMB": 64, "diskMB": 48}),
              *(known(mortal.rest, one["id"]) for one in fork(box))]
    for other in others:
        assert other.out("cat note; stat -c %s big") == f"kept\n{size}"
        other.out("echo more > more")  # its disk is its own
        other.destroy()
    assert box.out("cat note; stat -c %s big") == f"kept\n{size}"
    box.destroy()
    remove(mortal.rest, "full")
    wait_until(lambda: not layers(mortal), 20, lambda: layers(mortal))


def test_forks_of_sandboxes_that_have_just_been_made(mortal):
    """Their top directories are so new that they are copied twice."""
    for _ in range(5):
        box = Box(mortal.rest)
        made = fork(box, count=1)
        assert mortal.rest.delete(f"/api/sandboxes/{made[0]['id']}").status == 204
        box.destroy()


def test_a_sandbox_that_is_ending_is_not_forked(mortal):
    """It is 409 until it is gone, and 404 then."""
    box = Box(mortal.rest)
    need_snapshots(box.rest)
    spawn = spawn_pid(mortal)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        os.kill(spawn, signal.SIGSTOP)
        try:
            destroyed = pool.submit(box.destroy)
            wait_until(lambda: box.state != "running", 20, lambda: box.view)
            answers = [box.post(verb, {}) for verb in ("fork", "snapshots")]
        finally:
            os.kill(spawn, signal.SIGCONT)
        assert destroyed.result() == 204
    for answer in answers:
        assert answer.status == 409, answer.body
        assert f"sandbox {box.id} is " in answer.json["error"]["message"], answer.body
    assert [box.post(verb, {}).status for verb in ("fork", "snapshots")] == [404, 404]
    assert not layers(mortal)


def test_a_sandbox_that_is_destroyed_while_it_is_forked(mortal):
    """The destroy does not wait; the forks are refused, also those that wait for the first, and leave nothing."""
    box = Box(mortal.rest)
    need_snapshots(box.rest)
    spawn = spawn_pid(mortal)
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        os.kill(spawn, signal.SIGSTOP)
        try:
            forks = [pool.submit(box.post, "fork", {}) for _ in range(9)]
            # One more than there may be: then the others are in progress, or wait.
            wait_until(lambda: any(one.done() for one in forks), 20, lambda: box.view)
            destroyed = pool.submit(box.destroy)
            wait_until(lambda: box.state != "running", 20, lambda: box.view)
        finally:
            os.kill(spawn, signal.SIGCONT)
        assert destroyed.result() == 204
        answers = [one.result() for one in forks]
    assert sorted(one.status for one in answers) == [409] * 8 + [429], [one.body for one in answers]
    assert mortal.rest.get("/api/sandboxes").json["sandboxes"] == []
    wait_until(lambda: not layers(mortal), 20, lambda: layers(mortal))


def test_a_fork_of_a_fork(mortal, box):
    box.out(f"echo 1 > {NOTE}")
    first = fork(box)[0]["id"]
    path = f"/api/sandboxes/{first}"
    second = mortal.rest.post(f"{path}/fork", {"count": 1, "timeoutSeconds": 500}).json["sandboxes"][0]
    assert mortal.rest.delete(path).status == 204
    answer = mortal.rest.post(f"/api/sandboxes/{second['id']}/execs", {"cmd": ["cat", NOTE]}, wait="true")
    assert answer.json["stdout"] == "1\n"
    assert second["expires_at"]
    assert mortal.rest.delete(f"/api/sandboxes/{second['id']}").status == 204
    wait_until(lambda: not layers(mortal), 20, lambda: layers(mortal))


@pytest.mark.parametrize("body", [{"count": 0}, {"count": 101}, {"count": 1000}, {"count": -1}, {"count": "2"},
                                  {"timeoutSeconds": -1}, {"cont": 2}, {"memory": 1}, {"memory": True, "count": 0}])
def test_bad_forks(box, body):
    assert box.post("fork", body).status == 400


def test_forks_with_memory_are_refused_by_name(mortal, box):
    before = len(mortal.rest.get("/api/sandboxes").json["sandboxes"])
    refused = box.post("fork", {"memory": True, "count": 3})
    assert refused.status == 501 and refused.error["code"] == "unimplemented", refused.body
    assert all(word in refused.error["message"] for word in ("native", "CRIU", "pid namespace", "without memory"))
    said = mortal.atoll("fork", "--memory", box.id)
    assert said.returncode != 0 and "CRIU" in said.stderr and not said.stdout
    assert len(mortal.rest.get("/api/sandboxes").json["sandboxes"]) == before
    assert mortal.rest.post("/api/sandboxes/" + "a" * 26 + "/fork", {"memory": True}).status == 404
    copy = fork(box, memory=False)[0]["id"]
    assert mortal.rest.delete(f"/api/sandboxes/{copy}").status == 204
    wait_until(lambda: not layers(mortal), 20, lambda: layers(mortal))


def test_forks_are_all_or_none():
    with running(BUILD, ATOLL_TENANT_SANDBOXES="3") as daemon:
        rest = Rest(daemon.socket)
        box = Box(rest)
        need_snapshots(rest)
        refused = box.post("fork", {"count": 3})
        assert refused.status == 429 and "--tenant-sandboxes" in refused.json["error"]["message"]
        assert len(rest.get("/api/sandboxes").json["sandboxes"]) == 1
        assert not layers(daemon)
        assert box.post("fork", {"count": 2}).status == 201
        box.do("pause", {})
        assert box.post("fork", {}).status == 409


# Restores.

def test_restore_keeps_the_sandbox_and_ends_its_commands(mortal, box):
    box.rest.call("PATCH", box.path, {"name": "keeper"})
    box.out(f"echo good > {NOTE}")
    snapshot(box, "good")
    box.out(f"echo bad > {NOTE}; touch /home/user/extra")
    running_one = box.detach("sleep 1000")
    view = box.do("restore", {"snapshot": "good"})
    assert view["id"] == box.id and view["state"] == "running" and view["name"] == "keeper"
    assert box.out(f"cat {NOTE}; ls /home/user/extra 2>/dev/null; echo $WORD") == "good\nswordfish"
    result = box.exec(running_one)["result"]
    assert result["kind"] == "killed_by" and result["who"] == "restore", result
    assert events(mortal.rest, box.id, "sandbox.restored") == ["sandbox.created", "sandbox.snapshot",
                                                               "sandbox.restored"]
    # Once more, and to what it was made from.
    box.do("restore", {"snapshot": "good"})
    box.do("restore", {"snapshot": "host"})
    assert box.out(f"cat {NOTE} 2>/dev/null; true") == ""
    remove(mortal.rest, "good")


def events(rest, sandbox, last):
    """Kinds of the kept events of one sandbox, without those of its commands, up to `last`."""
    found, text = [], b""
    with rest.socket() as sock:
        sock.sendall(b"GET /api/events?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while last not in found:
            text += sock.recv(65536)
            found = [json.loads(line[line.index(b"{"):])["kind"] for line in text.split(b"\n")[:-1]
                     if b"{" in line and sandbox.encode() in line]
    return [kind for kind in found if kind.startswith("sandbox.")]


def test_restore_of_a_persistent_one(mortal):
    box = Box(mortal.rest, persistent=True, env={"WORD": "kept"})
    box.out(f"echo good > {NOTE}")
    snapshot(box, "disk")
    box.out(f"echo bad > {NOTE}")
    box.do("restore", {"snapshot": "disk"})
    box.out("echo more > /home/user/more")
    box.do("stop")
    box.do("resume")
    assert box.out(f"cat {NOTE} /home/user/more; echo $WORD") == "good\nmore\nkept"
    box.destroy()
    assert leftovers(mortal, box.id) == []
    remove(mortal.rest, "disk")


@pytest.mark.parametrize("body", [{}, {"snapshot": ""}, {"snapshot": "a b"}, {"snapshot": 5}, {"snap": "x"}])
def test_bad_restores(box, body):
    assert box.post("restore", body).status == 400


def test_refused_restores(box):
    assert box.post("restore", {"snapshot": "missing"}).status == 404
    box.do("pause", {})
    assert box.post("restore", {"snapshot": "host"}).status == 409
    box.do("resume")
    assert box.out("echo $WORD") == "swordfish"


# Daemons that die.

def test_snapshots_survive_a_daemon(mortal, box):
    box.out(f"echo kept > {NOTE}")
    made = snapshot(box, "survivor")
    copy = fork(box)[0]["id"]
    kill_daemon(mortal)
    mortal.start()
    shown = mortal.rest.get("/api/snapshots").json["snapshots"]
    assert [one["version"] for one in shown] == [made["version"]]
    assert shown[0]["sandbox_id"] == box.id and shown[0]["parent"] == "host"
    box.do("restore", {"snapshot": "survivor"})
    assert box.out(f"cat {NOTE}; echo $WORD") == "kept\nswordfish"
    answer = mortal.rest.post(f"/api/sandboxes/{copy}/execs", {"cmd": ["cat", NOTE]}, wait="true")
    assert answer.json["stdout"] == "kept\n"
    assert mortal.rest.delete(f"/api/sandboxes/{copy}").status == 204
    box.do("restore", {"snapshot": "host"})
    remove(mortal.rest, "survivor")
    wait_until(lambda: not layers(mortal), 20, lambda: layers(mortal))


def test_a_restore_that_a_dead_daemon_began_is_completed(mortal, box):
    """The row says restoring: as a daemon leaves it that dies after it has stored the new stack."""
    box.out(f"echo bad > {NOTE}")
    kill_daemon(mortal)
    with contextlib.closing(sqlite3.connect(mortal.state / "atoll.db")) as db, db:
        assert db.execute("UPDATE sandboxes SET state = 100 WHERE id = ?", (box.id,)).rowcount == 1
    mortal.start()
    wait_until(lambda: box.state == "running", 20, lambda: box.view)
    assert box.out(f"cat {NOTE} 2>/dev/null; echo there") == "there"


def test_half_of_a_fork_is_removed(mortal, box):
    """The version says forking: as a daemon leaves it that dies before the last sandbox of a fork."""
    copy = fork(box)[0]["id"]
    kill_daemon(mortal)
    with contextlib.closing(sqlite3.connect(mortal.state / "atoll.db")) as db, db:
        assert db.execute("UPDATE template_versions SET source = 'forking' WHERE source = 'fork'").rowcount == 1
    mortal.start()
    path = f"/api/sandboxes/{copy}"
    wait_until(lambda: mortal.rest.get(path).json["state"] == "ended", 20, lambda: mortal.rest.get(path).body)
    wait_until(lambda: not layers(mortal), 20, lambda: layers(mortal))
    assert box.out("echo $WORD") == "swordfish"
