"""Test switches (src/base/switches.h) exist only in a build with -Dtest_switches=true: no environment
variable makes a release build fail or omit a layer."""

import re

import pytest
from daemons import BUILD, need_build
from faults import compiled_in

SWITCH = re.compile(rb"ATOLL_(?:TEST|FAULT|WEAKEN)[A-Z_]*")
OPTION = b"ATOLL_MAX_SANDBOXES"  # of atolld, in every build


def contents(program):
    need_build()
    return (BUILD / program).read_bytes()


@pytest.mark.parametrize("program", ["atoll", "atolld", "atoll-spawn", "atoll-agent", "atoll-sudo",
                                     "atoll-unpack", "atoll-copy", "atoll-diff", "atoll-preload.so", "libatoll.so"])
def test_a_release_build_knows_no_switch(program):
    if compiled_in():
        pytest.skip("a build with -Dtest_switches=true")
    assert not set(SWITCH.findall(contents(program)))


def test_names_of_variables_are_visible_in_a_program():
    """The control: that the test above finds nothing means something."""
    daemon = contents("atolld")
    assert OPTION in daemon
    assert bool(SWITCH.search(daemon)) == compiled_in()
