"""Fixtures of the security tests: the probe, the canaries, and each run of the probe once."""

import os
import secrets
import shutil
import tempfile
from pathlib import Path

import pytest

import canary
import probing
from daemons import BUILD, need_build, wait_until

KEY = f"atoll-canary-{secrets.token_hex(6)}"

def pytest_configure():
    # Before any fixture starts a daemon: it must be born with the keyring it has to hide.
    if os.geteuid() == 0:
        canary.join_keyring(KEY)


@pytest.fixture(scope="session")
def probe():
    """The program, copied to where an ordinary user can read it too."""
    need_build()
    with tempfile.TemporaryDirectory(prefix="atoll-probe-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield Path(shutil.copy2(BUILD / "atoll-probe", directory / "probe"))


@pytest.fixture(scope="session")
def host(probe):
    if os.geteuid() != 0:
        pytest.skip("the canaries and the control need root")
    with tempfile.TemporaryDirectory(prefix="atoll-canary-") as name:
        started = canary.Host(probe, Path(name), canary.LAUNCHER_ENVIRONMENT, KEY)
        yield started
        started.close()


@pytest.fixture(scope="session")
def outside(probe, host):
    """Results of the control: the probe on the bare host, as root."""
    return probing.run_outside(probe, host, canary.LAUNCHER_ENVIRONMENT)


class Pair:
    """Two sandboxes that hold the probe. A canary process runs in `second`."""

    def __init__(self, daemon, probe):
        self.facts = canary.canary_facts()
        self.first, self.second = daemon.create(), daemon.create()
        for sandbox in (self.first, self.second):
            probing.put_probe(daemon, sandbox, probe)
        started = daemon.atoll("exec", "--detach", self.second, "--", probing.PROBE_INSIDE,
                               "--canary", *canary.as_arguments(self.facts), check=True)
        job = started.stdout.strip()
        wait_until(lambda: daemon.atoll("logs", self.second, job).stdout == "ready\n", 30,
                   lambda: "the canary process does not start")


@pytest.fixture(scope="session")
def pair(daemon, probe):
    made = Pair(daemon, probe)
    yield made
    daemon.atoll("rm", made.first, made.second)


@pytest.fixture(scope="session")
def inside(daemon, host, pair):
    """Results of the probe in a sandbox, by user."""
    assert host.facts["env"] in daemon.env  # or there would be nothing to hide
    return {user: probing.run_inside(
        daemon, pair.first,
        probing.inside_facts(host, daemon, user, pair.facts["port"]),
        user=None if user == "user" else user) for user in ("user", "root")}
