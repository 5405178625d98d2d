"""Snapshots, forks, restores, history and merges of sandboxes of gVisor, with the runsc of this host."""

import concurrent.futures
import contextlib
import http.client
import os
import shutil
import signal
import threading
from types import SimpleNamespace

import pytest

import conftest
from conftest import wait_until
from places import providers_yaml
from resting import COUNTER, Box, advances, kill_daemon, spawn_pid
from rest import Rest

pytestmark = [
    pytest.mark.skipif(shutil.which("runsc") is None, reason="no runsc here: apt install runsc"),
    pytest.mark.skipif(os.geteuid() != 0, reason="gVisor needs root"),
]

NOTE = "/home/user/note"

# Leaves a file that no program has closed or synced: written, and changed through a mapping.
UNSYNCED = f"""
import mmap, os, time
written = os.open("{NOTE}", os.O_RDWR | os.O_CREAT, 0o644)
os.write(written, b"written")
mapped = os.open("{NOTE}.mapped", os.O_RDWR | os.O_CREAT, 0o644)
os.ftruncate(mapped, 8192)
view = mmap.mmap(mapped, 8192)
view[4096:4102] = b"mapped"
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def walled(tmp_path_factory):
    conftest.need_build()
    file = tmp_path_factory.mktemp("walled") / "providers.yaml"
    file.write_text(providers_yaml({"native": {}, "gvisor": {}}))
    with conftest.running(conftest.BUILD, ATOLL_PROVIDERS=str(file)) as daemon:
        yield daemon


@pytest.fixture
def rest(walled):
    return Rest(walled.socket)


@pytest.fixture
def box(rest):
    made = Box(rest, provider="gvisor", env={"WORD": "swordfish"})
    yield made
    made.destroy()


class Fork(Box):
    def __init__(self, box):
        self.rest = box.rest
        answer = box.post("fork", {})
        assert answer.status == 201, answer.body
        self.id = answer.json["sandboxes"][0]["id"]
        self.path = f"/api/sandboxes/{self.id}"


def layers(daemon):
    """Whole and unfinished ones, of both instances of atoll-spawn."""
    made = [path.name for folder in ("layers", "gvisor/layers") for path in (daemon.state / folder).iterdir()]
    files = [path.name for path in (daemon.state / "gvisor/sandboxes").iterdir()]
    return ({name for name in made if name[0] == "x" or name.startswith("gone-")}
            | {name for name in files if name.endswith(".snap")})


def no_layers(daemon):
    wait_until(lambda: not layers(daemon), 20, lambda: layers(daemon))


def snapshot(box, name):
    answer = box.post("snapshots", {"name": name})
    assert answer.status == 201, answer.body
    return answer.json


def remove(rest, name):
    answer = rest.delete(f"/api/snapshots/{name}")
    assert answer.status == 204, answer.body


@pytest.mark.parametrize("network", ["none", "isolated"])
@pytest.mark.parametrize("disk", [64, 2048])
def test_what_was_written_and_not_synced_is_in_it(walled, rest, network, disk):
    """On a disk in memory and on an image."""
    box = Box(rest, provider="gvisor", network={"mode": network}, limits={"diskMB": disk, "memoryMB": 512},
              env={"WORD": "swordfish"})
    writer = box.detach(f"exec python3 -c '{UNSYNCED}'")
    wait_until(lambda: "up" in box.output(writer), 30, lambda: box.output(writer, "stderr"))
    box.out("mkdir d; ln -s note l; rm -f .profile; chmod 600 note.mapped; "
            "touch -d 2001-01-01T00:00:00Z old; sudo touch /usr/share/of-usr")
    box.out("mkfifo pipe")  # gVisor has it in memory
    made = snapshot(box, "unsynced")
    assert made["sandbox_id"] == box.id and made["made"]["files"] > 0, made
    assert box.exec(writer)["state"] == "running"
    box.out(f"echo later > {NOTE}")
    script = (f"cat {NOTE}; echo; tail -c 4096 {NOTE}.mapped | head -c 6; echo; readlink l; "
              "stat -c '%U %a' note d note.mapped; stat -c %Y old; ls /usr/share/of-usr; echo word=$WORD; "
              "test ! -e .profile && test ! -e pipe")
    for provider in ("gvisor", "native"):
        other = Box(rest, provider=provider, template="unsynced")
        assert other.out(script) == ("written\nmapped\nnote\nuser 644\nuser 755\nuser 600\n978307200\n"
                                     "/usr/share/of-usr\nword="), provider
        assert provider == "gvisor" or other.out("test ! -e /etc/ld.so.preload") == ""
        other.out(f"echo mine > {NOTE}")
        other.destroy()
    box.destroy()
    remove(rest, "unsynced")
    no_layers(walled)


def test_of_a_paused_one_and_of_one_on_disk(walled, rest, box):
    counter = box.detach(COUNTER)
    for how in (None, {"toDisk": True}):
        box.out(f"echo {how and 2} > {NOTE}")
        box.do("pause", how)
        snapshot(box, "resting")
        assert box.state == "paused"
        other = Box(rest, provider="gvisor", template="resting")
        assert other.out(f"cat {NOTE}; stat -c %U {NOTE}") == f"{how and 2}\nuser"
        other.destroy()
        box.do("resume")
        advances(box, counter)
    remove(rest, "resting")


def test_forks_and_restores(walled, rest):
    box = Box(rest, provider="gvisor", env={"WORD": "swordfish"})
    box.out(f"echo base > {NOTE}")
    snapshot(box, "base")
    forks = [Fork(box), Fork(box)]
    for number, other in enumerate(forks):
        assert other.view["provider"] == "gvisor"
        assert other.out(f"cat {NOTE}; echo $WORD") == "base\nswordfish"
        other.out(f"echo {number} > {NOTE}; echo {number} > other{number}")
    assert [other.out(f"cat {NOTE}") for other in forks] == ["0", "1"]
    assert box.out(f"cat {NOTE}") == "base"
    running = box.detach("while :; do sleep 0.05; done")
    box.out(f"echo later > {NOTE}; echo > more")
    box.do("restore", {"snapshot": "base"})
    assert box.exec(running)["result"]["kind"] == "killed_by"
    assert box.out(f"cat {NOTE}; echo $WORD; ls") == "base\nswordfish\nnote"
    report = box.post("merge", {"from": [forks[0].id]}).json
    assert report["merged"] and report["conflicts"] == [], report
    assert box.out(f"cat {NOTE} other0") == "0\n0"
    report = box.post("merge", {"from": [forks[1].id]}).json
    assert not report["merged"] and [one["path"] for one in report["conflicts"]] == [NOTE], report
    for other in (box, *forks):
        other.destroy()
    remove(rest, "base")
    no_layers(walled)


def test_merges_of_what_was_written_just_before(walled, rest):
    """Inside, the times of files are gVisor's; in the layers they are those of the host's file system."""
    box = Box(rest, provider="gvisor")
    box.out("echo a > f; mkdir d; echo gone > d/g; seq 20 > list")
    fork = Fork(box)
    fork.out("echo b > f; rm -r d; sed -i s/^3$/three/ list")
    box.out("sed -i s/^17$/seventeen/ list")
    report = box.post("merge", {"from": [fork.id]}).json
    assert report["merged"] and report["conflicts"] == [], report
    assert box.out("cat f; sed -n '3p;17p' list; ls") == "b\nthree\nseventeen\nf\nlist"
    fork.out("echo theirs > f")
    box.out("echo ours > f")
    report = box.post("merge", {"from": [fork.id]}).json
    assert not report["merged"] and [one["path"] for one in report["conflicts"]] == ["/home/user/f"], report
    assert box.post("merge", {"from": [fork.id], "prefer": "theirs"}).json["merged"]
    assert box.out("cat f") == "theirs"
    for one in (box, fork):
        one.destroy()
    no_layers(walled)


def test_a_destroy_does_not_wait(walled, rest):
    """The forks are refused, also those that wait for the first, and leave nothing."""
    box = Box(rest, provider="gvisor")
    spawn = spawn_pid(SimpleNamespace(state=walled.state / "gvisor"))
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
    no_layers(walled)


def test_a_sandbox_that_did_nothing_has_no_changes(rest, box):
    box.out("true")
    assert box.get("diff").json["changes"] == []


def test_history_differences_and_undo(walled, rest):
    box = Box(rest, provider="gvisor", checkpoints="command")
    box.out("echo one > a; mkdir d; echo two > d/b")
    box.out("echo more >> a; rm -r d")
    found = box.get("history").json["commands"]
    changes = [one["changes"] for one in found]
    assert [(one["added"], one["changed"], one["removed"], one["bytes"]) for one in changes] \
        == [(0, 1, 2, 9), (3, 0, 0, 8)]
    assert box.get("blame", path="/home/user/a").json["command"]["number"] == 2
    patch = box.get("diff", **{"from": "1", "to": "2", "format": "patch"}).body.decode()
    assert "+more" in patch and "-two" in patch, patch
    assert box.post("undo", {}).json["number"] == 1
    assert box.out("cat a d/b") == "one\ntwo"
    box.destroy()
    no_layers(walled)


def test_others_are_served_during_a_snapshot(walled, rest, box):
    """A snapshot takes as long as its files; the connection to atoll-spawn is shared."""
    box.out("mkdir many; for i in $(seq 41); do head -c 1000000 /dev/urandom > many/$i; done")
    made = []
    thread = threading.Thread(target=lambda: made.append(snapshot(box, "many")))
    thread.start()
    other = Box(rest, provider="gvisor")
    other.destroy()
    thread.join()
    assert made[0]["made"]["bytes"] > 40_000_000
    remove(rest, "many")


def begin_snapshot(daemon, box, name):
    """In a thread, until atoll-spawn works on it."""
    def request():
        with contextlib.suppress(OSError, http.client.HTTPException):
            box.post("snapshots", {"name": name})

    thread = threading.Thread(target=request)
    thread.start()
    unfinished = daemon.state / f"gvisor/sandboxes/{box.id}.snap"
    wait_until(lambda: unfinished.exists() or not thread.is_alive(), 30, lambda: "no snapshot is made")
    return thread


def test_what_kill_leaves_is_removed(walled, rest):
    """The daemon dies, and its sandboxes go on. atoll-spawn of gVisor dies, and they end with it."""
    box = Box(rest, provider="gvisor", limits={"diskMB": 2048})
    box.out("mkdir many; for i in $(seq 500); do head -c 100000 /dev/urandom > many/$i; done")
    thread = begin_snapshot(walled, box, "whole")
    kill_daemon(walled)
    thread.join()
    walled.start()
    assert box.out("ls many | wc -l") == "500"
    for one in rest.get("/api/snapshots").json["snapshots"]:
        remove(rest, one["name"])
    no_layers(walled)
    thread = begin_snapshot(walled, box, "never")
    os.kill(spawn_pid(SimpleNamespace(state=walled.state / "gvisor")), signal.SIGKILL)
    thread.join()
    assert box.destroy() in (204, 404)
    wait_until(lambda: walled.atoll("run", "--provider", "gvisor", "--", "true").returncode == 0, 30,
               walled.log_tail)
    for one in rest.get("/api/snapshots").json["snapshots"]:
        remove(rest, one["name"])
    no_layers(walled)


def test_without_native_they_are_refused(tmp_path):
    """Layers that are not used any more are removed by native."""
    file = tmp_path / "providers.yaml"
    file.write_text(providers_yaml({"native": {"enabled": False}, "gvisor": {}}))
    with conftest.running(conftest.BUILD, ATOLL_PROVIDERS=str(file)) as daemon:
        box = Box(Rest(daemon.socket))
        refused = box.post("snapshots", {"name": "none"})
        assert refused.status == 409 and "native" in refused.error["message"], refused.body
        assert box.post("fork", {}).status == 409
        box.destroy()
