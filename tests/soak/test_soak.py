"""The soak for a short while, and what it would see if something were left behind."""

import os
import subprocess
import sys
from pathlib import Path

import places
import pytest
from daemons import in_pool, wait_until

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "integration"), str(HERE)]

from census import Census, descriptors  # noqa: E402
from ground import Ground, Ledger  # noqa: E402
from soak import Soak  # noqa: E402

SECONDS = float(os.environ.get("SOAK_SECONDS") or 15)


@pytest.fixture
def root():
    if os.geteuid() != 0:
        pytest.skip("looks at processes and cgroups of sandboxes from outside")


@pytest.mark.timeout(SECONDS * 2 + 600)
def test_soak(root):
    done = subprocess.run([sys.executable, HERE / "soak.py"], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, check=False,
                          env={**os.environ, "SOAK_SECONDS": str(SECONDS)})
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-4000:]


def test_it_sees_what_is_left(root):
    """Each kind of thing, planted."""
    with places.world(["native"]) as world:
        ground = Ground(world, Ledger(), {"key": "", "e2b_key": ""})
        census = Census(ground, "soak-canary", 0, 0)
        box = world.places["native"].create(env={"SOAK_RUN": "soak-canary"}, persistent=True)
        census.ids.add(box.id)
        begun = box.detach("echo begun; sleep 1000")
        wait_until(lambda: box.output(begun) == "begun\n", 20, lambda: "it does not begin")
        seen = census.leftovers()
        for what in ("process ", "child ", "cgroup ",
                     "disk pool k-" if in_pool(world.daemon.state) else "loop", "file disks/", "file journal/",
                     "file sandboxes/", "row of sandboxes", "row of execs", "sandboxes shows"):
            assert has_all(seen, [what]), (what, seen)
        assert box.destroy() == 204
        assert census.settle(20) == []
        stray = subprocess.Popen(["sleep", "1000"], env={"SOAK_RUN": "soak-canary"})
        planted = world.daemon.state / "journal" / "planted"
        group = Path("/sys/fs/cgroup/memory")
        try:
            planted.touch()
            wanted = ["file journal/planted", f"process {stray.pid}"]
            if group.is_dir():
                group = group / census.instance() / "planted"
                group.mkdir(parents=True)
                wanted.append(f"cgroup {group}")
            wait_until(lambda: has_all(census.leftovers(), wanted), 10,
                       lambda: f"only {census.leftovers()}")
        finally:
            stray.kill()
            stray.wait()
            planted.unlink()
            if group.name == "planted":
                group.rmdir()
        assert census.settle(20) == []


def test_it_sees_what_exceeds_its_bound(root, monkeypatch):
    with places.world(["native"]) as world:
        ledger = Ledger()
        ground = Ground(world, ledger, {"key": "", "e2b_key": ""})
        run = Soak(ground, Census(ground, "soak-canary", 0, 0), 1, "", ["native"])
        run.judge_bounds()
        assert ledger.findings == []
        assert {"database", "write-ahead log", "journals", "artifacts", "audit",
                "sandboxes"} <= run.most.keys()
        monkeypatch.setattr("census.DATABASE_MAX", 1)
        run.judge_bounds()
        assert [finding.split(":")[0] for finding in ledger.findings] == ["database"]


def test_sockets_of_networks_count_when_their_sandbox_is_gone(root):
    with places.world(["native"]) as world:
        ground = Ground(world, Ledger(), {"key": "", "e2b_key": ""})
        census = Census(ground, "soak-canary", 0, 0)

        def sockets(*without):
            return descriptors(ground.spawn(), *without)["socket"]

        if "bridge" not in world.places["native"].facts["networks"]:
            pytest.skip("sandboxes have no network here")
        before = sockets(census.network_sockets)
        box = world.places["native"].create(networkMode="bridge")
        wait_until(lambda: sockets(census.network_sockets) == before, 10, lambda: "other sockets")
        assert sockets() == before + 2  # leaked ones would be seen like this
        assert box.destroy() == 204
        assert sockets() == before


def has_all(found, wanted):
    return all(any(one.startswith(text) for one in found) for text in wanted)
