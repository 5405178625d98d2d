"""Sandboxes on stacks of layers: kept disks, rows of earlier versions, and what a crash leaves."""

import sqlite3

import pytest

import docker_engine
from resting import Box, kill_daemon, leftovers, mortal_daemon, terminate_daemon

TEMPLATE = "stacked"
# Marks a directory as opaque, and leaves a whiteout.
REPLACE = "rm -rf /var /mnt; mkdir /var; echo kept > /var/file"
LOOK = "ls /var; ls /mnt 2>/dev/null; cat /var/file"


@pytest.fixture(scope="module")
def mortal():
    with mortal_daemon(ATOLL_DISKS="plain") as daemon:  # as earlier versions had them
        assert daemon.rest.put(f"/api/templates/{TEMPLATE}",
                               docker_engine.busybox_root()).status == 201
        yield daemon
        assert daemon.rest.delete(f"/api/templates/{TEMPLATE}").status == 204


@pytest.fixture
def box(mortal):
    made = Box(mortal.rest, persistent=True, template=TEMPLATE)
    yield made
    made.destroy()
    assert leftovers(mortal, made.id) == []


def rows(daemon, box, change=None):
    """The columns of its layers; change: to write to them first, while no daemon runs."""
    with sqlite3.connect(daemon.state / "atoll.db") as store:
        if change:
            store.execute(f"UPDATE sandboxes SET {change} WHERE id = ?", (box.id,))
        return store.execute("SELECT layer, layers FROM sandboxes WHERE id = ?",
                             (box.id,)).fetchone()


def has_user_marks(box):
    return "userxattr" in next(line for line in box.out("cat /proc/mounts").splitlines()
                               if line.split()[1] == "/")


def as_root(box, script):
    return box.out(f"sudo sh -c '{script}'")


def test_a_new_one_has_a_stack(mortal, box):
    layer, layers = rows(mortal, box)
    assert layer == "" and (mortal.state / "layers" / layers).is_dir()
    assert has_user_marks(box)


def test_what_is_removed_stays_removed(mortal, box):
    as_root(box, REPLACE)
    for end in (terminate_daemon, kill_daemon):
        box.do("stop")
        end(mortal)
        mortal.start()
        box.do("resume")
        assert as_root(box, LOOK).split() == ["file", "kept"]


def test_one_of_an_earlier_version_keeps_its_marks(mortal, box):
    """Its row has one layer, and its disk has trusted.* attributes, which a stack does not read."""
    _, stack = rows(mortal, box)
    box.do("stop")
    terminate_daemon(mortal)
    assert rows(mortal, box, f"layer = '{stack}', layers = ''") == (stack, "")
    mortal.start()
    box.do("resume")
    assert not has_user_marks(box)
    as_root(box, REPLACE)
    box.do("stop")
    kill_daemon(mortal)
    mortal.start()
    box.do("resume")
    assert as_root(box, LOOK).split() == ["file", "kept"]
    assert rows(mortal, box) == (stack, "")


def test_its_layers_stay_while_it_is_stopped(mortal, box):
    """The next daemon removes layers that are not in use."""
    _, stack = rows(mortal, box)
    unused = mortal.state / "layers" / ("f" * 64)
    box.do("stop")
    terminate_daemon(mortal)
    unused.mkdir()
    mortal.start()
    box.do("resume")
    assert (mortal.state / "layers" / stack).is_dir() and not unused.exists()


def test_a_missing_layer_is_said(mortal, box):
    _, stack = rows(mortal, box)
    box.do("stop")
    terminate_daemon(mortal)
    rows(mortal, box, f"layers = '{stack} {'e' * 64}'")
    mortal.start()
    answer = box.post("resume")
    assert answer.status >= 400 and b"layer" in answer.body, answer.body
    terminate_daemon(mortal)
    rows(mortal, box, f"layers = '{stack}'")
    mortal.start()
    box.do("resume")
