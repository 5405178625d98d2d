"""scripts/code-interpreter-template takes minutes: it may not waste them, nor what there was before."""

import os
import subprocess

import pytest

from conftest import ROOT

ATOLL = """#!/bin/sh
echo "$@" >> "$0.log"
[ "$2" != ls ] || {answer}
"""
OLD = """echo '{"templates":[{"name":"code-interpreter-v1","digest":"old"}]}'"""


@pytest.fixture
def make(tmp_path):
    """Runs it with stand-ins: (its end, what the command line was asked to do, whether it began)."""
    def run(answer, building):
        for name, text in {"atoll": ATOLL.format(answer=answer),
                           "mmdebstrap": f"#!/bin/sh\ntouch {tmp_path}/began\n{building}\n"}.items():
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
        done = subprocess.run(
            [ROOT / "scripts" / "code-interpreter-template"], capture_output=True, text=True,
            timeout=60, check=False,
            env={**os.environ, "ATOLL_BUILD": str(tmp_path), "HOME": str(tmp_path),
                 "XDG_CACHE_HOME": str(tmp_path / "cache"),
                 "PATH": f"{tmp_path}:{os.environ['PATH']}"})
        asked = [line.split()[1] for line in (tmp_path / "atoll.log").read_text().splitlines()]
        return done, asked, (tmp_path / "began").exists()
    return run


def test_without_a_daemon_nothing_is_built(make):
    done, _, began = make("exit 1", "true")
    assert done.returncode == 1 and "the daemon does not answer" in done.stderr and not began


def test_what_cannot_be_built_does_not_cost_what_there_was(make):
    done, asked, began = make(OLD, "exit 1")
    assert done.returncode != 0 and began and asked == ["ls"]


def test_the_new_one_takes_the_place_of_the_old(make):
    done, asked, _ = make(OLD, "true")
    assert done.returncode == 0, done.stderr
    assert asked == ["ls", "rm", "import", "ls"]
