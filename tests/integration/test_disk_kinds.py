"""Which disk a sandbox gets: what it asks for, or a clear refusal."""

import os
import signal
import uuid
from pathlib import Path

import pytest

from boxes import Box
from conftest import BUILD, running
from daemons import spawn_of, subvolume_flags, wait_until, writable_layers
from rest import Rest
from resting import kill_daemon, mortal_daemon, spawn_pid

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="without root all disks are in memory")


@pytest.fixture(scope="module")
def mortal():
    with mortal_daemon() as daemon:
        yield daemon


@pytest.fixture
def make(mortal):
    made = []

    def create(kind=None, **fields):
        made.append(Box(mortal.rest, **({"disk": {"kind": kind}} if kind else {}), **fields))
        return made[-1]

    yield create
    for box in made:
        box.destroy()


def kind_of(daemon, box):
    """Where the disk is, by what the host has of it."""
    if any((daemon.state / "sandboxes" / f"{box.id}{end}").exists() for end in (".img", ".io")):
        return "image"
    pool = Path(f"/proc/{spawn_pid(daemon)}/root/state/pool")
    return "cow" if any((pool / f"{kind}-{box.id}").exists() for kind in "dk") else "memory"


def need_pool(daemon):
    if not (daemon.state / "pool.img").exists():
        pytest.skip("this host has no disk pool")


SMALL = {"memoryMB": 256, "diskMB": 64}


@pytest.mark.parametrize("kind", ["cow", "memory", "image"])
def test_the_kind_that_is_asked_for(mortal, make, kind):
    if kind == "cow":
        need_pool(mortal)
    box = make(kind, limits=SMALL)
    assert kind_of(mortal, box) == kind and box.view["disk"] == {"kind": kind}
    # The limit holds in each.
    assert box.run("head -c 100M /dev/zero > f")["result"]["exit_code"] != 0
    box.out("rm -f f; echo x > f")


def test_the_default(mortal, make):
    box = make(limits=SMALL)
    assert kind_of(mortal, box) == "memory" and box.view["disk"] == {"kind": "auto"}


def test_checkpoints_use_the_pool(mortal, make):
    need_pool(mortal)
    assert kind_of(mortal, make(limits=SMALL, checkpoints="command")) == "cow"
    box = make("memory", limits=SMALL, checkpoints="command")
    assert kind_of(mortal, box) == "memory"
    box.out("echo x > f")
    assert box.do("undo", {"commands": 1}) and box.run("cat f")["result"]["exit_code"] != 0


def test_checkpoints_without_a_pool():
    with running(BUILD, ATOLL_DISKS="plain") as daemon:
        box = Box(Rest(daemon.socket), limits=SMALL, checkpoints="command")
        assert kind_of(daemon, box) == "memory"
        box.destroy()
        answer = Rest(daemon.socket).post("/api/sandboxes", {"disk": {"kind": "cow"}})
        assert answer.status == 409 and "--disks plain" in answer.error["message"]


def test_forks_restores_and_restarts_keep_the_kind(mortal, make):
    box = make("image", limits=SMALL)
    if box.post("snapshots", {"name": "kind"}).status == 501:
        pytest.skip("native cannot freeze sandboxes here")
    fork = box.post("fork", {}).json["sandboxes"][0]
    assert fork["disk"] == {"kind": "image"}
    kill_daemon(mortal)
    mortal.start()
    assert box.view["disk"] == {"kind": "image"}
    box.do("restore", {"snapshot": "kind"})
    assert kind_of(mortal, box) == "image"
    assert mortal.rest.delete(f"/api/sandboxes/{fork['id']}").status == 204
    box.destroy()
    assert mortal.rest.delete("/api/snapshots/kind").status == 204


@pytest.mark.parametrize("request_,status,said", [
    ({"disk": {"kind": "fast"}}, 400, "cow, memory or image"), ({"disk": "cow"}, 400, "disk"), ({"disk": {"size": 1}}, 400, "size"),
    ({"disk": {"kind": "memory"}, "limits": {"memoryMB": 64, "diskMB": 64}}, 400, "half the memory"),
    ({"disk": {"kind": "memory"}, "persistent": True}, 400, "not persistent"),
    ({"disk": {"kind": "cow"}, "limits": {"ioMbps": 10}}, 409, "disk pool")])
def test_what_cannot_be(mortal, request_, status, said):
    answer = mortal.rest.post("/api/sandboxes", request_)
    assert answer.status == status and said in answer.error["message"], answer.body


# What is written to the disk of the host.


def commits(daemon):
    """How often the file system of the pool was written."""
    with (daemon.state / "pool.img").open("rb") as image:
        image.seek(0x10020)
        name = uuid.UUID(bytes=image.read(16))
    return int(Path(f"/sys/fs/btrfs/{name}/commit_stats").read_text().split()[1])


def commits_during(daemon, prepare, end):
    """The least of three: the kernel writes now and then on its own."""
    counts = []
    for _ in range(3):
        made = prepare()
        before = commits(daemon)
        end(made)
        counts.append(commits(daemon) - before)
    return min(counts)


def vercel_run(rest, made, script):
    box = made["session"]["id"][4:].split("_")[0]
    return rest.post(f"/api/sandboxes/{box}/execs", {"cmd": ["sh", "-c", script]}, wait="true").json["stdout"]


def vercel_session(rest, **fields):
    made = rest.post("/vercel/api/v3/sandboxes", fields).json
    assert vercel_run(rest, made, "echo x > f; cat f") == "x\n"
    return made


def vercel_stop(rest, made):
    answer = rest.post(f"/vercel/api/v2/sandboxes/sessions/{made['session']['id']}/stop")
    assert answer.status == 200 and answer.json["session"]["status"] == "stopped", answer.body
    return answer.json


def test_what_ends_with_its_sandbox_is_not_written():
    with running(BUILD) as daemon:
        need_pool(daemon)
        rest = Rest(daemon.socket)

        def prepare(**fields):
            box = Box(rest, disk={"kind": "cow"}, limits=SMALL, **fields)
            box.out("echo x > f")
            return box

        assert commits_during(daemon, prepare, Box.destroy) == 0
        stop = commits_during(daemon, lambda: prepare(persistent=True), lambda box: box.do("stop"))
        kept, lost = (commits_during(daemon, lambda: vercel_session(rest, persistent=keeps),
                                     lambda made: vercel_stop(rest, made)) for keeps in (True, False))
        assert lost < kept and lost < stop


def test_a_stop_without_the_snapshot_that_belongs_to_it():
    """Then the disk is written, and the next session has it."""
    with running(BUILD, ATOLL_TENANT_SNAPSHOTS="1") as daemon:
        need_pool(daemon)
        rest = Rest(daemon.socket)
        if Box(rest, limits=SMALL).post("snapshots", {"name": "only"}).status == 501:
            pytest.skip("native cannot freeze sandboxes here")
        made = vercel_session(rest)
        assert "snapshot" not in vercel_stop(rest, made)
        whole, part = (commits_during(daemon, lambda: vercel_session(rest, persistent=kept),
                                      lambda session: vercel_stop(rest, session)) for kept in (True, False))
        assert whole > part
        again = rest.get(f"/vercel/api/v2/sandboxes/{made['sandbox']['name']}", resume="true").json
        assert vercel_run(rest, again, "cat f") == "x\n"


def test_by_the_command_line(mortal):
    box = mortal.atoll("create", "--disk-kind", "image", check=True).stdout.strip()
    assert mortal.rest.get(f"/api/sandboxes/{box}").json["disk"] == {"kind": "image"}
    mortal.atoll("rm", box, check=True)
    failed = mortal.atoll("create", "--disk-kind", "fast")
    assert failed.returncode != 0 and "--disk-kind" in failed.stderr


def test_a_disk_is_flushed_if_much_is_not_written(mortal, make):
    need_pool(mortal)
    box = make("cow", limits=SMALL)
    for script, flushed in [("echo x > f", False), ("head -c 4M /dev/urandom > f", True), ("echo x > f", False)]:
        box.out(script)
        made = box.post("snapshots", {"name": "much"}).json["made"]
        assert (made["flush_ms"] > 0) == flushed, (script, made)
        assert made["frozen_ms"] > 0
    box.destroy()
    assert mortal.rest.delete("/api/snapshots/much").status == 204


def only_layer(daemon):
    """Its subvolume."""
    pool = Path(f"/proc/{spawn_pid(daemon)}/root/state/pool")
    found = [one for one in pool.iterdir() if one.name.startswith("l-")]
    assert len(found) == 1, found
    return found[0]


def test_a_layer_is_whole_after_the_host_lost_power(mortal, make):
    """Its link is on the host's disk, and what was done to the snapshot before that is not."""
    need_pool(mortal)
    box = make("cow", limits=SMALL)
    box.out("echo kept > /home/user/f", user="root")
    box.out("echo kept > /usr/local/f", user="root")
    assert box.post("snapshots", {"name": "power"}).status == 201
    box.destroy()
    layer = only_layer(mortal)
    wait_until(lambda: not writable_layers(mortal.state), 30, lambda: "it does not become read-only")
    assert os.listdir(layer) == ["u"]
    subvolume_flags(layer, 0)
    (layer / "u/usr").rename(layer / "u.usr")
    for made in ("u/usr", "w", "w/work"):
        (layer / made).mkdir()
    (layer / "u/etc").mkdir(exist_ok=True)
    (layer / "u/etc/hosts").write_text("of another sandbox")
    spawn = spawn_pid(mortal)
    os.kill(spawn, signal.SIGKILL)
    wait_until(lambda: spawn_of(mortal.state) not in (None, spawn) and mortal.rest.get("/readyz").status == 200, 30,
               mortal.log_tail)
    layer = only_layer(mortal)
    assert not (layer / "w").exists() and not (layer / "u.usr").exists() and not (layer / "u/etc/hosts").exists()
    box = make("cow", template="power", limits=SMALL)
    assert box.out("cat /home/user/f /usr/local/f") == "kept\nkept"
    wait_until(lambda: not writable_layers(mortal.state), 30, lambda: "it does not become read-only")
    box.destroy()
    assert mortal.rest.delete("/api/snapshots/power").status == 204
