"""Quotas that the kernel keeps for each user of the host: a sandbox that takes all it can get of one
leaves the neighbour's and root's as they were. The control is a user namespace that root made, as
container engines do: what is taken there is missing at root.
"""

import contextlib
import json
import os
import subprocess

import pytest

import probing
from daemons import wait_until

# name, and more than any user has of it
QUOTAS = [("inotify", 1000), ("watches", 1 << 20), ("signals", 1 << 20), ("mqueue", 200),
          ("memlock", 1000), ("pipepages", 3000)]
EVERY = pytest.mark.parametrize("name, cap", QUOTAS, ids=[row[0] for row in QUOTAS])
# root's capabilities lift some of the quotas
AS_ROOT = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"]


@pytest.fixture(autouse=True)
def needs_root():
    if os.geteuid() != 0:
        pytest.skip("an ordinary user's sandboxes are charged to that user")


def root_gets(probe, directory, name, cap):
    """How much root has left on the host."""
    done = subprocess.run([*AS_ROOT, str(probe), "--bomb", name, str(cap)], cwd=directory, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True)
    return json.loads(done.stdout)["reached"]


@pytest.fixture
def boxes(daemon, probe):
    made = [daemon.create() for _ in range(2)]
    for sandbox in made:
        probing.put_probe(daemon, sandbox, probe)
    yield made
    daemon.atoll("rm", *made)


def hold_inside(daemon, sandbox, name, cap):
    started = daemon.atoll("exec", "--detach", sandbox, "--", probing.PROBE_INSIDE, "--hold", name,
                           cap, check=True)
    job = started.stdout.strip()
    wait_until(lambda: daemon.atoll("logs", sandbox, job).stdout, 60, lambda: "it holds nothing")
    return json.loads(daemon.atoll("logs", sandbox, job).stdout)["reached"]


@contextlib.contextmanager
def held_by_root(probe, directory, name, cap):
    """In a user namespace of root's."""
    command = ["unshare", "--user", "--map-root-user", *AS_ROOT, str(probe), "--hold", name, str(cap)]
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL) as holder:
        try:
            yield json.loads(holder.stdout.readline())["reached"]
        finally:
            holder.kill()


@EVERY
def test_others_keep_theirs(daemon, probe, boxes, tmp_path, name, cap):
    before = root_gets(probe, tmp_path, name, cap)
    held = hold_inside(daemon, boxes[0], name, cap)
    assert 0 < held < cap
    neighbour = probing.bomb(daemon, boxes[1], name, cap)["reached"]
    assert neighbour > held / 2, f"{held} are held, {neighbour} are left"
    after = root_gets(probe, tmp_path, name, cap)
    assert before - after < held / 2, f"{held} are held; root had {before}, and has {after}"


@EVERY
def test_a_namespace_of_root_takes_from_root(probe, tmp_path, name, cap):
    before = root_gets(probe, tmp_path, name, cap)
    with held_by_root(probe, tmp_path, name, cap) as held:
        assert before - root_gets(probe, tmp_path, name, cap) >= held / 2
