"""Isolated networks: sandboxes of one tenant that name the same network reach each other by name, and
nothing else."""

import os
import signal
import subprocess

import pytest

from daemons import wait_until
from networks import FAR, Web, networked
from rest import Rest

PORT = 8000
SERVER = ["python3", "-m", "http.server", str(PORT)]


@pytest.fixture(scope="module")
def daemon():
    with networked() as started:
        yield started


@pytest.fixture
def boxes(daemon):
    """A server, and a function that makes others."""
    made = []

    def make(name, network="team", mode="isolated"):
        made.append(daemon.create("--name", name, "--network", mode, "--network-name", network))
        return made[-1]

    make("server")
    daemon.atoll("exec", "--detach", "server", "--", *SERVER)
    wait_until(lambda: daemon.atoll("exec", "server", "--", "curl", "-sf", f"http://127.0.0.1:{PORT}/",
                                    check=False).returncode == 0, 20, lambda: "no server")
    yield make
    for box in made:
        daemon.atoll("rm", box, check=False)


def reaches(daemon, box, host, port=PORT):
    return daemon.atoll("exec", box, "--", "curl", "-sf", "-o", "/dev/null", "--max-time", "10",
                        f"http://{host}:{port}/", check=False).returncode == 0


def address_of(daemon, box, name):
    return daemon.atoll("exec", box, "--", "getent", "ahostsv4", name, check=False).stdout.split(" ")[0]


def test_sandboxes_of_one_network_reach_each_other_by_name(daemon, boxes):
    client = boxes("client")
    for host in ("server", "SERVER", "server.internal", address_of(daemon, client, "server")):
        assert reaches(daemon, client, host), host
    assert not reaches(daemon, client, "server", PORT + 1)  # where no server listens
    assert not reaches(daemon, client, "stranger")


def test_they_reach_each_other_by_id(daemon, boxes):
    client = boxes("client")
    ids = {row["name"]: row["id"] for row in Rest(daemon.socket).get("/api/sandboxes").json["sandboxes"]}
    assert reaches(daemon, client, ids["server"])


def test_another_network_reaches_neither_the_name_nor_the_address(daemon, boxes):
    member, other = boxes("member"), boxes("other", network="another")
    address = address_of(daemon, member, "server")
    assert reaches(daemon, member, address)  # control
    assert not address_of(daemon, other, "server")
    assert not reaches(daemon, other, address)


def test_another_tenant_with_the_same_network_name_reaches_nothing(daemon, boxes):
    member = boxes("member")
    address = address_of(daemon, member, "server")
    key = daemon.atoll("key", "create", "--tenant", "stranger").stdout.split()[0]
    stranger = Rest(daemon.socket, {"Authorization": f"Bearer {key}"})
    box = stranger.post("/api/sandboxes", {"network": {"mode": "isolated", "name": "team"}}).json["id"]
    done = stranger.post(f"/api/sandboxes/{box}/execs?wait=true",
                         {"cmd": ["curl", "-s", "--max-time", "5", f"http://{address}:{PORT}/"]}).json
    assert done["result"]["exit_code"] != 0
    done = stranger.post(f"/api/sandboxes/{box}/execs?wait=true", {"cmd": ["getent", "hosts", "server"]}).json
    assert done["result"]["exit_code"] != 0
    stranger.delete(f"/api/sandboxes/{box}")


def test_isolated_reaches_nothing_outside_and_bridge_with_a_name_both(daemon, boxes):
    web = Web(daemon.networks.far.listen(FAR[0], 8080), "one")
    try:
        isolated, both = boxes("inside"), boxes("both", mode="bridge")
        assert reaches(daemon, both, FAR[0], 8080)
        assert reaches(daemon, both, "server")
        assert not reaches(daemon, isolated, FAR[0], 8080)
        assert reaches(daemon, isolated, "server")
    finally:
        web.close()


def test_a_sandbox_that_leaves_the_network_is_cut_off(daemon, boxes):
    client = boxes("client")
    reader = subprocess.Popen([daemon.build / "atoll", "exec", client, "--", "bash", "-c",
                               f"exec 3<>/dev/tcp/server/{PORT}; echo open; cat <&3 2>&1; echo ended"],
                              env=daemon.env, stdout=subprocess.PIPE, text=True)
    assert reader.stdout.readline() == "open\n"
    Rest(daemon.socket).put(f"/api/sandboxes/{client}/network", {"mode": "isolated", "name": "elsewhere"})
    assert reader.communicate(timeout=20)[0].endswith("ended\n")
    assert not reaches(daemon, client, "server")


def test_a_restart_of_the_daemon_keeps_the_network(daemon, boxes):
    client = boxes("client")
    assert reaches(daemon, client, "server")
    os.kill(daemon.process.pid, signal.SIGKILL)
    daemon.process.wait()
    daemon.start()
    wait_until(lambda: reaches(daemon, client, "server"), 20, lambda: "not reached after a restart")
