"""What builds may take of the disk: what a step writes, what it leaves free, caches of cache mounts and their order."""

import os
import subprocess
import uuid

import pytest
from conftest import BUILD, running, wait_until
from rest import Rest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="layers need root")


def start(daemon, dockerfile, **more):
    answer = Rest(daemon.socket).post("/api/builds", {"dockerfile": dockerfile, **more})
    assert answer.status == 201, answer.body
    return answer.json["id"]


def end_of(daemon, build_id):
    """The last line of its log, and its error."""
    lines = Rest(daemon.socket).get(f"/api/builds/{build_id}/log", follow="true").lines
    return lines[-1]["state"], " ".join(line["text"] for line in lines if line["kind"] == "error")


def layers(daemon):
    return set(os.listdir(daemon.state / "layers"))


def run(command, cache=None):
    mount = f"--mount=type=cache,id={cache},target=/c " if cache else ""
    return f"FROM host\nRUN {mount}: {uuid.uuid4().hex}; {command}\n"


@pytest.fixture(scope="module")
def small():
    with running(BUILD, ATOLL_BUILD_STEP_MAX="1M", ATOLL_BUILD_CACHES_MAX="1M") as daemon:
        yield daemon


def test_a_step_that_writes_too_much(small):
    before = layers(small)
    state, error = end_of(small, start(small, run("head -c 3000000 /dev/zero >/srv/big")))
    assert state == "failed" and "a step may write 1M" in error, error
    wait_until(lambda: layers(small) == before, 10, lambda: "the layer is still there")
    assert end_of(small, start(small, run("head -c 300000 /dev/zero >/srv/small")))[0] == "ready"


def test_steps_with_the_same_cache_take_turns(small):
    """Each fails if it sees the other one."""
    alone = "mkdir /c/taken && sleep 1 && rmdir /c/taken"
    together = [start(small, run(alone, "turns")) for _ in range(3)]
    assert [end_of(small, one) for one in together] == [("ready", "")] * 3


def kept(daemon):
    lines = Rest(daemon.socket).get("/metrics").body.decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith('atoll_kept_bytes{what="cache mounts"}'))


def caches(daemon):
    found = subprocess.run(["find", daemon.state / "caches", "-type", "f", "-printf", "%f\n"],
                           capture_output=True, text=True, check=True)
    return set(found.stdout.split())


def test_caches_are_emptied_beyond_their_limit(small):
    assert end_of(small, start(small, run("head -c 700000 /dev/zero >/c/first", "one")))[0] == "ready"
    wait_until(lambda: kept(small) > 700000, 30, lambda: "the cache is not measured")
    assert end_of(small, start(small, run("test ! -e /c/first; head -c 800000 /dev/zero >/c/second", "two")))[0] == "ready"
    wait_until(lambda: "first" not in caches(small), 30, lambda: f"the older cache is not emptied: {caches(small)}")
    assert "second" in caches(small)
    wait_until(lambda: kept(small) < 1 << 20, 10, lambda: "it is still counted")
    # A cache that was emptied works as a new one, and what is known of the others survives a restart.
    assert end_of(small, start(small, run("test ! -e /c/first", "one")))[0] == "ready"
    small.stop()
    small.start()
    wait_until(lambda: kept(small) > 700000, 30, lambda: "a new daemon does not know the cache")


def test_a_step_ends_before_the_disk_is_full():
    with running(BUILD) as daemon:
        daemon.stop()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", daemon.state], check=True)
        try:
            daemon.start()
            before = layers(daemon) if (daemon.state / "layers").exists() else set()
            filling = run("while :; do head -c 1000000 /dev/zero >>/srv/big 2>/dev/null; done")
            state, error = end_of(daemon, start(daemon, filling))
            assert state == "failed" and "disk" in error, error
            wait_until(lambda: not layers(daemon) - before, 10, lambda: "a layer is left")
            assert end_of(daemon, start(daemon, run("echo done >/srv/done")))[0] == "ready"
            daemon.stop()
        finally:
            subprocess.run(["umount", "-l", daemon.state], check=True)
