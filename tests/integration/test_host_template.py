"""What programs and people expect of a sandbox that shows the host's /usr."""

import shutil

import pytest

from boxes import Box
from rest import Rest

BIND = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 80)); print('bound')"


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture(scope="module")
def box(rest):
    made = Box(rest)
    yield made
    made.destroy()


@pytest.mark.skipif(not shutil.which("python3"), reason="the host has no Python")
def test_python_without_a_version(box):
    assert box.out("python -c 'print(6*7)'") == "42"


@pytest.mark.skipif(not shutil.which("python3"), reason="the host has no Python")
def test_low_ports_can_be_bound(rest):
    # The network of the second is prepared before it is asked for.
    for made in (Box(rest), Box(rest)):
        assert made.out(f'sudo python3 -c "{BIND}"') == "bound"
        assert made.out(f'python3 -c "{BIND}"') == "bound"
        made.destroy()


def test_root_becomes_another_user(box):
    assert box.out("sudo su user -c 'id -un'") == "user"


def test_pip_may_install_for_the_system(box):
    assert box.out("echo $PIP_BREAK_SYSTEM_PACKAGES") == "1"
    assert box.out("sudo sh -c 'touch /usr/lib/probe && echo written'") == "written"
