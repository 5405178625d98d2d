"""The daemon under attack by those it serves (rows D1 to D33): `atoll verify` makes the attacks, each
with a control, a careless stand-in that falls for the same input.
"""

import json

import pytest
from daemons import BUILD, need_build, running

ROWS = [f"D{n}" for n in range(1, 34)]


def verify(daemon, *options, **env):
    """The report, and the status of the command."""
    own = daemon.env
    daemon.env = {**own, **env}
    try:
        done = daemon.atoll("verify", "--tier", "daemon", "--json", *options, timeout=300)
    finally:
        daemon.env = own
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done.returncode


def by_row(checks):
    return {check["row"]: check for check in checks}


class Attacked:
    """A daemon at its socket and on TCP, after everything was tried."""

    def __init__(self, daemon):
        self.report, self.status = verify(daemon)
        assert [tier["tier"] for tier in self.report["tiers"]] == ["daemon"]
        self.attacks = by_row(self.report["tiers"][0]["checks"])
        self.controls = by_row(self.report["control"])
        self.sandboxes = daemon.json("ls", "--all-tenants")
        self.keys = json.loads(daemon.atoll("key", "ls", "--json", check=True).stdout)
        self.templates = json.loads(daemon.atoll("template", "ls", "--json", check=True).stdout)
        self.log = daemon.log.read_text(errors="replace")


@pytest.fixture(scope="module")
def attacked():
    need_build()
    with running(BUILD, ATOLL_LISTEN="127.0.0.1:0") as daemon:
        yield Attacked(daemon)


def test_every_row_has_an_attack_and_a_control(attacked):
    assert sorted(attacked.attacks) == sorted(attacked.controls) == sorted(ROWS)
    assert attacked.report["trouble"] == []


@pytest.mark.parametrize("row", ROWS)
def test_the_daemon_holds(attacked, row):
    check = attacked.attacks[row]
    assert check["verdict"] == "holds", f"{check['id']}: {check['evidence']}"


@pytest.mark.parametrize("row", ROWS)
def test_the_stand_in_falls(attacked, row):
    check = attacked.controls[row]
    assert check["verdict"] == "found", f"{check['id']}: {check['evidence']}"


def test_status(attacked):
    assert attacked.status == 0


def test_nothing_is_left(attacked):
    assert attacked.sandboxes == [] or attacked.sandboxes == {"sandboxes": []}
    assert "verify-" not in json.dumps(attacked.keys)
    assert "verify-" not in json.dumps(attacked.templates)


def test_no_error_in_the_log(attacked):
    """Nothing that a client does is an error of the daemon."""
    assert '"level":"error"' not in attacked.log


def test_a_careless_daemon_is_found():
    """One that lets everybody ask as often as they like."""
    need_build()
    with running(BUILD, ATOLL_LISTEN="127.0.0.1:0", ATOLL_KEY_RATE="0",
                 ATOLL_WRONG_KEY_RATE="0") as daemon:
        for check in ("api.key_guessing", "api.noisy_tenant"):
            report, status = verify(daemon, "--only", check)
            [found] = report["tiers"][0]["checks"]
            assert (found["id"], found["verdict"], status) == (check, "found", 1)


def test_with_a_key_over_tcp():
    """Without a socket less can be seen of the host; nothing more is found."""
    need_build()
    with running(BUILD, ATOLL_LISTEN="127.0.0.1:0") as daemon:
        line = next(line for line in daemon.log.read_text().splitlines() if '"ready"' in line)
        key = (daemon.state / "api-key").read_text().strip()
        for only in ("api.path", "api.smuggling", "api.key", "api.missing", "api.foreign"):
            report, _ = verify(daemon, "--only", only, ATOLL_SOCKET="", ATOLL_API_KEY=key,
                               ATOLL_URL=f"http://{json.loads(line)['listen']}")
            checks = report["tiers"][0]["checks"]
            assert checks and all(check["verdict"] == "holds" for check in checks), checks
