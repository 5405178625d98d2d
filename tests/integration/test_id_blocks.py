"""An instance takes further blocks of id ranges as it needs them, and gives empty ones back. Blocks of
four ranges, at most two of them (ATOLL_WEAKEN=id_ranges), stand in for 28 of 2,048."""

import os
from pathlib import Path

import pytest

import conftest
import daemons
import faults
from conftest import wait_until
from rest import Rest
from resting import Box, kill_daemon, spawn_pid, terminate_daemon

RANGES = 4
BLOCK_BITS = 27

pytestmark = pytest.mark.skipif(not faults.compiled_in(),
                                reason="a build without -Dtest_switches=true has large blocks")


@pytest.fixture
def daemon():
    daemons.wait_for_room(2)
    with daemons.running(conftest.BUILD, ATOLL_WEAKEN="id_ranges") as made:
        made.rest = Rest(made.socket)
        yield made


def held(daemon):
    """Blocks that this instance has locked."""
    inodes = {path.stat().st_ino: int(path.name.partition("-")[2])
              for path in Path("/run/atoll").glob("ids-*")}
    pid = str(spawn_pid(daemon))
    return sorted(inodes[int(line.split()[-3].rpartition(":")[2])]
                  for line in Path("/proc/locks").read_text().splitlines()
                  if " FLOCK " in line and line.split()[4] == pid
                  and int(line.split()[-3].rpartition(":")[2]) in inodes)


def range_of(daemon, box):
    """First id of a running sandbox, as the host sees it."""
    for path in conftest.cgroups():
        if path.name == box.id and (path / "cgroup.procs").exists():
            pids = (path / "cgroup.procs").read_text().split()
            if pids:
                return int(Path(f"/proc/{pids[0]}/uid_map").read_text().split()[1])
    raise AssertionError(f"{box.id} does not run")


def test_another_block_is_taken_and_given_back(daemon):
    first = held(daemon)
    assert len(first) == 1
    boxes = [Box(daemon.rest) for _ in range(2 * RANGES)]
    blocks = held(daemon)
    assert len(blocks) == 2 and set(first) < set(blocks)
    ranges = [range_of(daemon, box) for box in boxes]
    assert len(set(ranges)) == len(ranges)
    assert {first_id >> BLOCK_BITS for first_id in ranges} == set(blocks)
    for box in boxes:
        box.destroy()
    wait_until(lambda: held(daemon) == first, 10, lambda: f"{held(daemon)} are held")
    assert not (daemon.state / "id-blocks").exists()


def test_when_no_block_is_left_it_is_said(daemon):
    boxes = [Box(daemon.rest) for _ in range(2 * RANGES)]
    refused = daemon.rest.post("/api/sandboxes", {})
    assert refused.status == 429
    said = refused.json["error"]["message"]
    assert "blocks" in said and "instances" in said
    ready = daemon.rest.get("/readyz")
    assert ready.status == 503 and "id ranges" in " ".join(ready.json["reasons"])
    boxes.pop().destroy()
    wait_until(lambda: daemon.rest.get("/readyz").status == 200, 10, "not ready again")
    boxes.append(Box(daemon.rest))
    for box in boxes:
        box.destroy()


def test_a_killed_daemon_finds_its_blocks_again(daemon):
    boxes = [Box(daemon.rest) for _ in range(2 * RANGES - 1)]
    ranges = {range_of(daemon, box) for box in boxes}
    kill_daemon(daemon)
    daemon.start()
    boxes.append(Box(daemon.rest))
    assert range_of(daemon, boxes[-1]) not in ranges
    assert len(held(daemon)) == 2
    for box in boxes:
        box.destroy()


@pytest.mark.parametrize("end", [terminate_daemon, lambda daemon: os.kill(spawn_pid(daemon), 9)],
                         ids=["stopped", "spawn killed"])
def test_a_persistent_one_keeps_its_ids_in_a_further_block(daemon, end):
    others = [Box(daemon.rest) for _ in range(RANGES)]
    box = Box(daemon.rest, persistent=True)
    box.out("echo data > file")
    before = range_of(daemon, box)
    assert before >> BLOCK_BITS != range_of(daemon, others[0]) >> BLOCK_BITS
    for other in others:
        other.destroy()
    end(daemon)
    if end is terminate_daemon:
        daemon.start()
    wait_until(lambda: box.state == "stopped", 20, lambda: f"it is {box.state}")
    box.do("resume")
    assert range_of(daemon, box) == before
    assert box.out("cat file; stat -c %U file") == "data\nuser"
    box.destroy()
    wait_until(lambda: len(held(daemon)) == 1, 10, lambda: f"{held(daemon)} are held")
