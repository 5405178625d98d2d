"""Stops of persistent sandboxes that fail: the disk is there, and so is the way back to it."""

import pytest

from boxes import Box
from daemons import wait_until
from walking import native_walker  # noqa: F401: the fixture "walker"

FAULT = "provider.native.stop=EIO"


@pytest.fixture
def box(walker):
    made = Box(walker.rest, persistent=True)
    made.out("echo mine > file")
    yield made
    made.destroy()


def fail_to_stop(walker, box):
    walker.board.wish(FAULT)
    assert box.post("stop").status == 500
    assert box.state == "failed" and "could not be stopped" in box.view["cause"]


def is_whole(box):
    wait_until(lambda: box.state == "stopped", 30, lambda: f"it is {box.view}")
    assert "cause" not in box.view
    box.do("resume")
    assert box.out("cat file") == "mine"


def test_it_can_be_tried_again(walker, box):
    fail_to_stop(walker, box)
    box.do("stop")
    is_whole(box)


def test_the_next_daemon_tries_again(walker, box):
    fail_to_stop(walker, box)
    walker.restart()
    is_whole(box)


def test_the_next_daemon_fails_too(walker, box):
    fail_to_stop(walker, box)
    walker.board.wish(FAULT)
    walker.restart()
    wait_until(lambda: box.state == "failed", 30, lambda: f"it is {box.view}")
    assert walker.board.struck
    walker.restart()
    is_whole(box)


def test_at_the_end_of_a_daemon(walker, box):
    walker.board.wish(FAULT)
    walker.daemon.process.terminate()
    assert walker.daemon.process.wait(30) == 0
    assert walker.board.struck
    walker.start()
    is_whole(box)
