"""Persistent sandboxes that could not be destroyed: nothing but that becomes of them any more."""

import os
import signal

import pytest

from boxes import Box
from daemons import spawn_of, wait_until
from walking import native_walker  # noqa: F401: the fixture "walker"


@pytest.fixture
def box(walker):
    """One whose destruction has failed."""
    made = Box(walker.rest, persistent=True)
    walker.board.wish("provider.native.destroy=EIO")
    assert made.destroy() == 500
    assert made.state == "failed" and "could not be removed" in made.view["cause"]
    yield made
    made.destroy()


def is_gone(walker, box):
    wait_until(lambda: walker.rest.get(box.path, ended="false").status == 404, 30, lambda: f"it is {box.view}")
    assert not walker.files("disks")
    assert not walker.rows("sandboxes")


def test_it_can_be_tried_again(walker, box):
    assert box.destroy() == 204
    is_gone(walker, box)


def test_it_cannot_be_stopped_instead(walker, box):
    assert box.post("stop").status == 409
    assert box.state == "failed" and "could not be removed" in box.view["cause"]


def test_the_next_daemon_tries_again(walker, box):
    walker.restart()
    is_gone(walker, box)


def test_the_next_daemon_tries_again_after_a_change(walker, box):
    answer = walker.rest.call("PATCH", box.path, {"metadata": {"a": "b"}})
    assert answer.status == 200, answer.body
    walker.restart()
    is_gone(walker, box)


def test_at_the_end_of_a_daemon(walker, box):
    walker.terminate()
    walker.start()
    is_gone(walker, box)


def test_at_the_end_of_atoll_spawn(walker, box):
    os.kill(spawn_of(walker.state), signal.SIGKILL)
    is_gone(walker, box)
