"""Two sandboxes at once: neither notices the other, nor the host, through anything they share."""

import os

import pytest

import probing
import processes
from canary import LAUNCHER_ENVIRONMENT

# What a canary process in one sandbox offers, and a probe in the other must not find.
SHARED = ["fs.shm_private", "ipc.sysv", "fs.flock_channel", "sock.abstract", "net.peer_sandbox",
          "net.host_service", "net.dns"]


@pytest.fixture(scope="module")
def across(daemon, pair):
    facts = pair.facts | {"peer": pair.facts["port"]}
    return probing.run_inside(daemon, pair.first, facts, only=SHARED)


@pytest.fixture(scope="module")
def within(daemon, pair):
    """The control: the same probe beside the canary, in its own sandbox."""
    facts = pair.facts | {"peer": pair.facts["port"]}
    return probing.run_inside(daemon, pair.second, facts, only=SHARED)


@pytest.mark.parametrize("check", SHARED)
def test_neighbour_is_not_there(across, check):
    status, detail = across[check]
    assert status == "PASS", detail


@pytest.mark.parametrize("check", SHARED)
def test_canary_is_there_at_home(within, check):
    status, detail = within[check]
    assert status == "FAIL", f"the canary of the neighbour does not work: {detail}"


def test_boot_id_is_its_own(daemon, pair, host):
    path = "/proc/sys/kernel/random/boot_id"
    first, second = (daemon.atoll("exec", name, "--", "cat", path, check=True).stdout.strip()
                     for name in (pair.first, pair.second))
    assert first and first != second
    assert host.facts["boot_id"] not in (first, second)


def test_kernel_ids_differ(daemon, pair):
    seen = []
    for name in (pair.first, pair.second):
        marker = processes.marker()
        daemon.atoll("exec", "--detach", name, "--", *processes.idle(marker), check=True)
        seen.append(processes.status(processes.wait_marked(marker))["Uid"])
    assert not set(seen[0]) & set(seen[1])


def test_writes_stay_inside(daemon, pair):
    """Root may write to system directories where they are not read-only: to its own copy."""
    for directory in ("/usr/bin", "/etc", "/tmp", "/var"):
        path = f"{directory}/{processes.marker()}"
        daemon.atoll("exec", "--user", "root", pair.first, "--", "touch", path)
        assert not os.path.exists(path)
        assert daemon.atoll("exec", pair.second, "--", "test", "-e", path).returncode == 1


def test_environment_of_the_cli_stays_outside(daemon, pair):
    inherited = daemon.atoll("exec", pair.first, "--", "env", check=True).stdout
    assert next(iter(LAUNCHER_ENVIRONMENT)) not in inherited
