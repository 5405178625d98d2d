"""The examples for other providers, with an engine of Docker and a service that speaks E2B's API."""

import subprocess

import places
import pytest
from daemons import ROOT

WHAT = {"docker": "In the container: Linux\n", "e2b": "At E2B: Linux\n"}


@pytest.fixture(scope="module")
def world():
    with places.world(["native", *WHAT]) as made:
        yield made


@pytest.mark.parametrize("name", WHAT)
def test_an_example(world, name):
    if name in world.missing:
        pytest.skip(world.missing[name])
    done = subprocess.run(["/usr/bin/python3", ROOT / "examples" / "agents" / f"{name}.py"],
                          env=world.daemon.env | {"IMAGE": places.IMAGE, "PYTHONDONTWRITEBYTECODE": "1"},
                          capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, WHAT[name]), done.stdout + done.stderr
    assert world.rest.get("/api/sandboxes").json["sandboxes"] == []
