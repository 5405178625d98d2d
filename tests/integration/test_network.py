"""Sandboxes with a network: what they reach through atoll-egress, and that its death, or the daemon's,
costs open connections at most."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from daemons import (BUILD, alive, descendants, ensure_rootless_user, open_directory, spawn_of, start_time,
                     wait_until)
from networks import FAR, FAR6, NAMES, NEAR, Web, egress_of, networked
from rest import Rest

PORT = 8080
CURL = ["curl", "-sS", "--max-time", "10"]


@pytest.fixture(scope="module")
def daemon():
    with networked() as started:
        yield started


@pytest.fixture(scope="module")
def web(daemon):
    server = Web(daemon.networks.far.listen(FAR[0], PORT), "one")
    yield server
    server.close()


@pytest.fixture
def box(daemon):
    name = daemon.create("--network", "bridge")
    yield name
    daemon.atoll("rm", name)


def curl(daemon, box, url, *options, check=True):
    return daemon.atoll("exec", box, "--", *CURL, *options, url, check=check)


def reaches(daemon, box, url=f"http://{FAR[0]}:{PORT}/"):
    return curl(daemon, box, url, "--max-time", "2", check=False).stdout.startswith("one ")


def connections(daemon, box):
    return Rest(daemon.socket).get(f"/api/sandboxes/{box}/network/connections").json["connections"]


def newest(daemon, box):
    """Of connections that are told soon after."""
    wait_until(lambda: connections(daemon, box), 10, lambda: "no connection is listed")
    return connections(daemon, box)[0]


# What it reaches.

def test_it_reaches_the_internet_by_address_and_by_name(daemon, web, box):
    assert curl(daemon, box, f"http://{FAR[0]}:{PORT}/a").stdout == f"one {FAR[0]}:{PORT} /a\n"
    assert curl(daemon, box, f"http://one.test:{PORT}/b").stdout == f"one one.test:{PORT} /b\n"


def test_net_is_short_for_network(daemon, web):
    box = daemon.create("--net", "bridge")
    assert reaches(daemon, box)
    daemon.atoll("rm", box)


def test_it_reaches_ipv6(daemon, box):
    server = Web(daemon.networks.far.listen(FAR6[0], PORT), "six")
    try:
        assert curl(daemon, box, f"http://[{FAR6[0]}]:{PORT}/").stdout.startswith("six ")
    finally:
        server.close()


def test_without_a_network_it_reaches_nothing(daemon, web):
    box = daemon.create()
    assert curl(daemon, box, f"http://{FAR[0]}:{PORT}/", check=False).returncode != 0
    assert Rest(daemon.socket).get(f"/api/sandboxes/{box}/network/connections").json == {"connections": []}
    daemon.atoll("rm", box, check=True)


def test_it_does_not_reach_the_host(daemon, box):
    """An address of the host is internal, whatever range it is in."""
    server = Web(daemon.networks.near.listen(NEAR, PORT), "near")
    try:
        done = curl(daemon, box, f"http://{NEAR}:{PORT}/", check=False)
        assert done.returncode in (7, 52, 56) or "403" in done.stdout, done  # reset, or said so
        assert server.asked == []
    finally:
        server.close()
    denied = newest(daemon, box)
    assert (denied["end"], denied["address"], denied["rule"]) == ("denied", NEAR, "internal address")


def test_the_operator_can_allow_an_address_of_the_host():
    with networked(ATOLL_NETWORK_INTERNAL=f"{NEAR}:{PORT}") as daemon:
        server = Web(daemon.networks.near.listen(NEAR, PORT), "near")
        box = daemon.create("--network", "bridge")
        assert curl(daemon, box, f"http://{NEAR}:{PORT}/").stdout.startswith("near ")
        server.close()


def test_a_refused_connection_is_told(daemon, box):
    done = curl(daemon, box, f"http://{FAR[1]}:1/", check=False)
    assert done.returncode in (7, 52, 56)
    ended = newest(daemon, box)
    assert (ended["end"], ended["error"]) == ("unreachable", "Connection refused")


# The policy.

def set_network(daemon, box, **policy):
    return Rest(daemon.socket).put(f"/api/sandboxes/{box}/network", policy)


def test_a_changed_policy_holds_at_once(daemon, web, box):
    assert reaches(daemon, box)
    assert set_network(daemon, box, deny=[f"{FAR[0]}/32"]).status == 200
    assert not reaches(daemon, box)
    denied = newest(daemon, box)
    assert (denied["end"], denied["rule"]) == ("denied", f"deny {FAR[0]}")
    assert set_network(daemon, box).status == 200
    assert reaches(daemon, box)
    shown = Rest(daemon.socket).get(f"/api/sandboxes/{box}/network").json
    assert shown["mode"] == "bridge" and not shown.get("rules")


def test_what_a_changed_policy_denies_is_closed(daemon, box):
    listening = daemon.networks.far.listen(FAR[2], PORT)
    script = f"exec 3<>/dev/tcp/{FAR[2]}/{PORT} && echo open >&3 && cat <&3"
    rest = Rest(daemon.socket)
    daemon.atoll("exec", "-d", box, "--", "bash", "-c", script, check=True)
    listening.settimeout(10)
    peer, _ = listening.accept()
    with listening, peer:
        peer.settimeout(10)
        assert peer.recv(100) == b"open\n"
        assert set_network(daemon, box, allow=[FAR[2]]).status == 200  # it stays
        assert newest(daemon, box)["end"] == "open"
        assert set_network(daemon, box, deny=[FAR[2]]).status == 200
        with contextlib.suppress(ConnectionResetError):
            assert peer.recv(100) == b""
    wait_until(lambda: newest(daemon, box)["end"] == "revoked", 10,
               lambda: json.dumps(rest.get(f"/api/sandboxes/{box}/network/connections").json))


def test_a_changed_policy_survives_deaths(daemon, web, box):
    assert set_network(daemon, box, deny=[FAR[0]]).status == 200
    killed(daemon, "daemon", "worker")
    assert not reaches(daemon, box)
    killed(daemon, "worker")
    time.sleep(1)
    assert not reaches(daemon, box)
    assert set_network(daemon, box).status == 200
    wait_until(lambda: reaches(daemon, box), 5, lambda: daemon.log_tail())


def test_policies_that_are_refused(daemon, box):
    plain = daemon.create()
    refused = set_network(daemon, plain, deny=["one.test"])
    assert refused.status == 409 and "without a network" in refused.error["message"]
    daemon.atoll("rm", plain, check=True)
    assert set_network(daemon, box, mode="isolated").status == 409
    bad = set_network(daemon, box, allow=["one.test", "exa mple"])
    assert bad.status == 400 and "allow[1]" in bad.error["message"]


# The journal.

def test_connections_are_listed(daemon, web, box):
    for path in ("first", "second"):
        curl(daemon, box, f"http://one.test:{PORT}/{path}")
    wait_until(lambda: sum(c["end"] == "closed" for c in connections(daemon, box)) == 2, 10,
               lambda: json.dumps(connections(daemon, box)))
    last = connections(daemon, box)[0]
    assert (last["name"], last["address"], last["port"]) == ("one.test", FAR[0], PORT)
    assert last["rule"] == "default" and last["hint"] is None
    assert last["rx_bytes"] > 20 and last["tx_bytes"] > 20
    rest = Rest(daemon.socket)
    page = rest.get(f"/api/sandboxes/{box}/network/connections", limit=1).json
    assert [c["line"] for c in page["connections"]] == [last["line"]]
    after = rest.get(f"/api/sandboxes/{box}/network/connections", limit=1,
                     cursor=page["next_cursor"]).json
    assert after["connections"][0]["line"] < last["line"]


def test_the_command_line_shows_them(daemon, web):
    box = daemon.create("--allow", f"one.test:{PORT}")
    curl(daemon, box, f"http://one.test:{PORT}/")
    curl(daemon, box, f"http://{FAR[1]}:1/", check=False)
    wait_until(lambda: len(connections(daemon, box)) == 2, 10, lambda: "not both are listed")
    shown = daemon.atoll("net", box, check=True).stdout.splitlines()
    assert shown[0].split() == "TIME NAME ADDRESS PORT RULE IN OUT END".split()
    assert " one.test " in shown[1] and f" {FAR[0]} " in shown[1] and shown[1].endswith("closed")
    assert shown[2].endswith(f"denied; --allow {FAR[1]}:1")
    follower = subprocess.Popen([daemon.build / "atoll", "net", "-f", "--json", box], env=daemon.env,
                                stdout=subprocess.PIPE, text=True)
    with follower.stdout:
        before = [json.loads(follower.stdout.readline()) for _ in range(3)]
        assert [c["end"] for c in before] == ["open", "closed", "denied"]
        daemon.atoll("net", box, "--set", "-", input='{"allow": ["two.test"]}', check=True)
        assert not reaches(daemon, box)
        assert json.loads(follower.stdout.readline())["rule"] == "default"
        daemon.atoll("rm", box, check=True)
        assert follower.wait(10) == 0, "it ends with the sandbox"
    bad = daemon.atoll("net", box, "--set", "-", input="{")
    assert bad.returncode == 2 and "line 1" in bad.stderr


def test_stats_count_its_bytes(daemon, web, box):
    """Also those of a worker that has died meanwhile."""
    def counted():
        network = Rest(daemon.socket).get(f"/api/sandboxes/{box}/stats").json["network"]
        return network["rx_bytes"], network["tx_bytes"]

    assert counted() == (0, 0)
    curl(daemon, box, f"http://{FAR[0]}:{PORT}/")
    received, sent = counted()
    assert 60 < received < 1000 and 60 < sent < 1000
    killed(daemon, "worker")
    wait_until(lambda: reaches(daemon, box), 5, lambda: daemon.log_tail())
    after = counted()
    assert after[0] > received and after[1] > sent


def test_the_journal_goes_with_the_record(daemon, web):
    """Here records of ended sandboxes are not kept; see test_connections_of_an_ended_sandbox_can_be_read."""
    with networked(ATOLL_ENDED_MAX="0") as short:
        server = Web(short.networks.far.listen(FAR[0], PORT), "one")
        box = short.create("--network", "bridge")
        curl(short, box, f"http://{FAR[0]}:{PORT}/")
        wait_until(lambda: (short.state / "network" / box).exists(), 10, lambda: "no journal")
        short.atoll("rm", box, check=True)
        wait_until(lambda: not list((short.state / "network").glob(f"{box}*")), 10, lambda: "the journal is left")
        server.close()


# Deaths.

def killed(daemon, *names):
    """Kills those: supervisor, worker of atoll-egress, daemon. The daemon is started again."""
    processes = egress_of(daemon) | {"daemon": (daemon.pid, start_time(daemon.pid))}
    for name in processes.keys() & names:
        os.kill(processes[name][0], signal.SIGKILL)
    if "daemon" in names:
        daemon.process.wait()
        daemon.start()


@pytest.mark.parametrize("names", [("worker",), ("supervisor",), ("supervisor", "worker"), ("daemon",),
                                   ("daemon", "worker"), ("daemon", "supervisor", "worker")],
                         ids="+".join)
def test_a_death_costs_open_connections_at_most(daemon, web, box, names):
    daemon.atoll("exec", "-d", box, "--", "sleep", "1000", check=True)
    assert reaches(daemon, box)
    killed(daemon, *names)
    wait_until(lambda: reaches(daemon, box), 5, lambda: daemon.log_tail())
    daemon.atoll("exec", box, "--", "pgrep", "-x", "sleep", check=True)
    fresh = daemon.create("--network", "bridge")
    assert reaches(daemon, fresh)
    daemon.atoll("rm", fresh, check=True)


def test_health_says_when_there_is_no_network(daemon, web, box):
    rest = Rest(daemon.socket)
    assert reaches(daemon, box)
    assert rest.get("/api/health").json["network"] == {"status": "ok"}
    assert "✓ network" in daemon.atoll("doctor", check=True).stdout
    worker = egress_of(daemon)["worker"][0]
    os.kill(worker, signal.SIGSTOP)
    try:
        assert set_network(daemon, box).status == 503
        wait_until(lambda: rest.get("/api/health").json["network"]["status"] == "failed", 20,
                   lambda: "a worker that is stopped is not noticed")
        assert "! network" in daemon.atoll("doctor", check=True).stdout
        assert set_network(daemon, box, deny=[FAR[0]]).status == 503
        failed = rest.post("/api/sandboxes", {"networkMode": "bridge"})
        assert failed.status == 503 and "atoll-egress" in failed.error["message"]
    finally:
        os.kill(worker, signal.SIGCONT)
    wait_until(lambda: rest.get("/api/health").json["network"] == {"status": "ok"}, 20,
               lambda: "it does not come back")
    assert not reaches(daemon, box), "the policy that was stored does not hold"
    assert rest.get("/metrics").body.count(b"atoll_egress_up 1\n") == 1


def test_a_dead_daemon_does_not_end_the_network(daemon, web, box):
    """A command that uses the network goes on while no daemon runs, and its connections with it."""
    script = f"while sleep 0.1; do {' '.join(CURL)} http://{FAR[0]}:{PORT}/; done"
    daemon.atoll("exec", "-d", box, "--", "sh", "-c", script, check=True)
    wait_until(lambda: web.asked, 10, lambda: "nothing is asked")
    daemon.process.kill()
    daemon.process.wait()
    asked = len(web.asked)
    wait_until(lambda: len(web.asked) > asked + 3, 10, lambda: "the network ended with the daemon")
    daemon.start()
    assert reaches(daemon, box)


def test_connections_of_an_ended_sandbox_can_be_read(daemon, web):
    rest = Rest(daemon.socket)
    box = daemon.create("--network", "bridge")
    assert reaches(daemon, box)
    wait_until(lambda: rest.get(f"/api/sandboxes/{box}/network/connections").json["connections"], 10, lambda: "no line")
    daemon.atoll("rm", box, check=True)
    path = f"/api/sandboxes/{box}/network/connections"
    for _ in range(2):
        [line] = [c for c in rest.get(path).json["connections"] if not c.get("dns")]
        assert line["address"] == FAR[0] and line["end"] in ("closed", "lost"), line
        daemon.process.kill()
        daemon.process.wait()
        daemon.start()
    assert rest.get(path, ended="false").status == 404
    assert Rest(daemon.socket, {"X-Atoll-Tenant": "other"}).get(path).status == 404


def test_it_starts_again_with_its_network(daemon, web):
    box = daemon.create("--network", "bridge", "--persistent")
    assert reaches(daemon, box)
    daemon.atoll("stop", box, check=True)
    daemon.atoll("start", box, check=True)
    assert reaches(daemon, box)
    daemon.atoll("rm", "-f", box)


def test_a_pooled_sandbox_gets_its_policy_when_it_is_handed_over():
    with networked(ATOLL_POOL="2") as daemon:
        web = Web(daemon.networks.far.listen(FAR[0], PORT), "one")
        rest = Rest(daemon.socket)

        def create(**network):
            made = rest.post("/api/sandboxes", {"network": {"mode": "bridge", **network}})
            assert made.status == 201, made.body
            return made.json

        wait_until(lambda: create()["pooled"], 30, lambda: "none comes from the pool")
        seen = []
        for policy, reached in (({}, True), ({"deny": [FAR[0]]}, False), ({"allow": ["two.test"]}, False)):
            box = create(**policy)
            seen.append(box["pooled"])
            assert reaches(daemon, box["id"]) == reached, policy
        assert any(seen)
        web.close()


def test_without_root():
    """The same for a daemon of an ordinary user, which starts atoll-egress again, too."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a daemon as another user")
    user = ensure_rootless_user()
    with open_directory() as copies:
        for binary in BUILD.glob("atoll*"):
            if binary.is_file() and os.access(binary, os.X_OK):
                shutil.copy2(binary, copies)
        with networked(copies, user) as daemon:
            web = Web(daemon.networks.far.listen(FAR[0], PORT), "one")
            box = daemon.create("--network", "bridge", "--waive", "memory,cpu,pids")
            assert reaches(daemon, box, f"http://one.test:{PORT}/")
            killed(daemon, "supervisor", "worker")
            wait_until(lambda: reaches(daemon, box), 5, lambda: daemon.log_tail())
            assert not reaches(daemon, box, f"http://{NEAR}:{PORT}/")
            web.close()


def test_nothing_outlives_the_sandboxes():
    """Without a daemon atoll-egress goes on as long as atoll-spawn does, which ends with the last
    sandbox."""
    with networked() as daemon:
        daemon.create("--network", "bridge")
        spawn = spawn_of(daemon.state)
        family = [p for p in descendants(daemon.pid) if alive(*p)]
        egress = egress_of(daemon).values()
        assert len(egress) == 2
        daemon.process.kill()
        daemon.process.wait()
        time.sleep(0.5)
        assert all(alive(*p) for p in egress)
        for pid, _ in family:
            if Path(f"/proc/{pid}/comm").read_text().strip() in ("atoll-keeper", "atoll-watcher"):
                os.kill(pid, signal.SIGKILL)
        os.kill(spawn, signal.SIGKILL)
        wait_until(lambda: not any(alive(*p) for p in egress), 20, lambda: "atoll-egress stays")
        daemon.start()


assert NAMES["one.test"] == FAR[0]
