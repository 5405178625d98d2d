"""scripts/code-interpreter-template takes minutes: it may not waste them."""

import os
import subprocess

import pytest

from conftest import ROOT

ATOLL = """#!/bin/sh
echo "$@" >> "$0.log"
case "$1 $2" in {cases} esac
"""


@pytest.fixture
def make(tmp_path):
    """Runs it with a stand-in for the command line: (its end, what that was asked to do)."""
    def run(cases, *args):
        (tmp_path / "atoll").write_text(ATOLL.format(cases=cases))
        (tmp_path / "atoll").chmod(0o755)
        done = subprocess.run([ROOT / "scripts" / "code-interpreter-template", *args], capture_output=True,
                              text=True, timeout=60, check=False,
                              env={**os.environ, "ATOLL_BUILD": str(tmp_path)})
        return done, (tmp_path / "atoll.log").read_text().splitlines()
    return run


def test_without_a_daemon_nothing_is_built(make):
    done, asked = make("'template ls') exit 1;;")
    assert done.returncode == 1 and "the daemon does not answer" in done.stderr and asked == ["template ls"]


def test_a_debian_is_made_once(make):
    build = "build -t code-interpreter-v1 -f registry/environments/code-interpreter-v1.Dockerfile --network bridge registry/environments"
    assert make("'template show') exit 1;;")[1] == [
        "template ls", "template show debian:bookworm", "template debian debian", "template tag debian bookworm", build]
    assert make("x) ;;")[1][-3:] == ["template ls", "template show debian:bookworm", build]


def test_what_cannot_be_built_is_said(make):
    assert make("'build -t') exit 1;;")[0].returncode == 1


def test_options(make):
    asked = make("x) ;;", "--minimal", "--force", "other")[1][-1]
    assert asked.startswith("build -t other ") and "--build-arg LARGE= --no-cache" in asked
