"""Ephemeral swarms: a lease after which all of a swarm goes, and a hub, another Atoll, that has its memory."""

import contextlib
import json
import select
import signal
import socket
import ssl
import threading

import pytest

from certificates import Authority
from daemons import BUILD, need_build, running, wait_until
from listening import listening_daemon
from rest import Rest

SET = "import json, os; p = os.environ['ATOLL_SWARM_MEMORY']; m = json.load(open(p)); {}; json.dump(m, open(p, 'w'))"


def task(code, **more):
    return {"agent": "shell", "instruction": f"python3 -c \"{SET.format(code)}\"", **more}


def waiting(code, **more):
    """One that goes on when it is told to."""
    made = task(code, **more)
    return made | {"instruction": f"echo begun; while [ ! -e go ]; do sleep 0.05; done; {made['instruction']}"}


def runs(rest, task_id):
    """The sandbox of a task whose agent has begun."""
    wait_until(lambda: any((line["level"], line["message"]) == ("output", "begun") for line in rest.get(f"/api/tasks/{task_id}/log").lines), 60,
               lambda: str(rest.get(f"/api/tasks/{task_id}/log").body))
    return rest.get(f"/api/tasks/{task_id}").json["sandbox_id"]


def go_on(rest, box):
    assert rest.call("PUT", f"/api/sandboxes/{box}/files", b"", path="go").status in (200, 201)


@pytest.fixture(scope="module")
def world():
    """A hub that listens, and a daemon whose swarms have their memory there."""
    need_build()
    with listening_daemon() as (hub, address), running(BUILD) as daemon:
        hub.url = f"http://{address[0]}:{address[1]}"
        hub.rest, daemon.rest, daemon.hub = Rest(hub.socket), Rest(daemon.socket), hub
        key = (hub.state / "api-key").read_text().strip()
        assert daemon.rest.post("/api/secrets", {"name": "HUB", "value": key}).status == 201
        yield daemon


def memory_at_hub(world, **fields):
    made = world.hub.rest.post("/api/swarms", {"tasks": [], "memory": {}, "leaseSeconds": 600, **fields})
    assert made.status == 201 and made.json["state"] == "running", made.body
    return made.json["id"]


def hub(world, swarm, **more):
    return {"url": world.hub.url, "swarm": swarm, "secret": "HUB", **more}


def test_two_machines_have_one_memory(world):
    there = memory_at_hub(world, memory={"n": 1})
    done = world.rest.post("/api/swarms", {"hub": hub(world, there), "tasks": [
        waiting("m['n'] += 1", name="one"), task("m['sum'] = m['n'] + m['more']; del m['gone']", name="two", dependsOn=["one"])]})
    assert done.status == 201, done.body
    # The other machine changes it while the first agent runs, which has read the memory already.
    box = runs(world.rest, done.json["members"][0]["task_id"])
    assert world.hub.rest.call("PATCH", f"/api/swarms/{there}/memory", {"more": 40, "gone": 1}).status == 200
    go_on(world.rest, box)
    ended = world.rest.get(f"/api/swarms/{done.json['id']}", wait="true").json
    assert ended["state"] == "succeeded", ended
    assert ended["memory"] == {"n": 2, "more": 40, "sum": 42} == world.hub.rest.get(f"/api/swarms/{there}/memory").json


def test_a_hub_that_refuses(world):
    there = memory_at_hub(world)
    for wrong, why in ((hub(world, "nosuch"), "does not exist"), (hub(world, there, secret="NOPE"), "no secret NOPE"),
                       ({"url": world.hub.url, "swarm": there}, "reading the memory"),
                       (hub(world, there, url="http://127.0.0.1:1"), "the hub")):
        made = world.rest.call("POST", "/api/swarms", {"hub": wrong, "tasks": [task("m['a'] = 1")]}, wait="true").json
        assert made["state"] == "failed", made
        error = made["members"][0]["task"]["error"]["message"]
        assert why in error and "atl_" not in error, error
    assert world.hub.rest.get(f"/api/swarms/{there}/memory").json == {}


def stop_hub(world):
    world.hub.process.send_signal(signal.SIGTERM)
    assert world.hub.process.wait(60) == 0


def tried_again(rest, made):
    """The task failed for want of the hub, and succeeds now."""
    failed = rest.get(f"/api/tasks/{made}", wait="true").json
    assert failed["state"] == "failed" and failed["step"] == "run" and "the hub" in failed["error"]["message"], failed
    assert rest.call("POST", f"/api/tasks/{made}/retry", {}).status == 202
    ended = rest.get(f"/api/tasks/{made}", wait="true").json
    assert ended["state"] == "succeeded", ended


def test_a_hub_that_was_away_before_the_agent_began(world):
    there = memory_at_hub(world, memory={"n": 1})
    stop_hub(world)
    made = world.rest.post("/api/swarms", {"hub": hub(world, there), "tasks": [task("m['n'] += 1", cleanup="never")]}).json
    one = made["members"][0]["task_id"]
    assert world.rest.get(f"/api/tasks/{one}", wait="true").json["state"] == "failed"
    world.hub.start()
    tried_again(world.rest, one)
    assert world.hub.rest.get(f"/api/swarms/{there}/memory").json == {"n": 2}


def test_a_hub_that_goes_away_while_the_agent_runs(world):
    there = memory_at_hub(world, memory={"n": 1})
    made = world.rest.post("/api/swarms", {"hub": hub(world, there), "tasks": [waiting("m['n'] += 1", cleanup="never")]}).json
    one = made["members"][0]["task_id"]
    box = runs(world.rest, one)
    stop_hub(world)
    go_on(world.rest, box)
    assert world.rest.get(f"/api/tasks/{one}", wait="true").json["state"] == "failed"
    world.hub.start()
    tried_again(world.rest, one)
    assert world.hub.rest.get(f"/api/swarms/{there}/memory").json == {"n": 2}


class Relay:
    """Takes TLS connections for the hub, of HTTP/2 only, and passes them on. `begun` has their first bytes."""

    def __init__(self, directory, hub):
        self.begun, self.authority = [], Authority(directory)
        self.inward = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.inward.load_cert_chain(self.authority.certificate("localhost"))
        self.inward.set_alpn_protocols(["h2"])
        self.outward = ssl.create_default_context(cafile=hub.state / "tls" / "ca.pem")
        self.outward.set_alpn_protocols(["h2"])
        self.hub = ("localhost", tls_port(hub))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://localhost:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.relay, args=[self.listener.accept()[0]], daemon=True).start()

    def relay(self, plain):
        with contextlib.suppress(OSError), self.inward.wrap_socket(plain, server_side=True) as client:
            assert client.selected_alpn_protocol() == "h2"
            with self.outward.wrap_socket(socket.create_connection(self.hub), server_hostname="localhost") as hub_:
                first = client.recv(65536)
                self.begun.append(first)
                hub_.sendall(first)
                pump(client, hub_)


def pump(one, other):
    """By one thread: a TLS connection is not for two."""
    while True:
        ready = [end for end in (one, other) if end.pending()] or select.select([one, other], [], [])[0]
        for source in ready:
            source.settimeout(0)
            try:
                some = source.recv(65536)
            except ssl.SSLWantReadError:
                continue
            finally:
                source.settimeout(None)
            if not some:
                return
            (other if source is one else one).sendall(some)


def tls_port(daemon):
    for line in daemon.log.read_text().splitlines():
        if line.startswith("{") and (address := json.loads(line).get("tls_listen")):
            return int(address.rpartition(":")[2])
    raise AssertionError(daemon.log_tail())


def test_a_hub_with_tls_is_asked_by_http2(tmp_path):
    with listening_daemon(ATOLL_TLS_LISTEN="127.0.0.1:0") as (far, _):
        relay = Relay(tmp_path, far)
        far.rest = Rest(far.socket)
        there = far.rest.post("/api/swarms", {"tasks": [], "memory": {"n": 1}, "leaseSeconds": 600}).json["id"]
        key = (far.state / "api-key").read_text().strip()
        with running(BUILD, SSL_CERT_FILE=str(relay.authority.cert)) as daemon:
            rest = Rest(daemon.socket)
            assert rest.post("/api/secrets", {"name": "HUB", "value": key}).status == 201
            swarm = rest.call("POST", "/api/swarms", {"hub": {"url": relay.url, "swarm": there, "secret": "HUB"},
                                                      "tasks": [task("m['n'] += 1")]}, wait="true").json
            assert swarm["state"] == "succeeded", swarm
        assert far.rest.get(f"/api/swarms/{there}/memory").json == {"n": 2}
        assert relay.begun and all(first.startswith(b"PRI * HTTP/2.0\r\n") for first in relay.begun)
        # Without the authority the certificate is refused, and the hub is not asked.
        with running(BUILD) as daemon:
            rest, before = Rest(daemon.socket), len(relay.begun)
            swarm = rest.call("POST", "/api/swarms", {"hub": {"url": relay.url, "swarm": there}, "tasks": [task("pass")]}, wait="true").json
            error = swarm["members"][0]["task"]["error"]["message"]
            assert swarm["state"] == "failed" and "certificate" in error and len(relay.begun) == before, error
        relay.listener.close()


def test_other_tenants_reach_only_what_is_public(world):
    key = world.rest.post("/api/keys", {"tenant": "other", "scope": "write"}).json["key"]
    other = Rest(world.socket, {"Authorization": f"Bearer {key}"})
    made = other.call("POST", "/api/swarms", {"hub": {"url": world.hub.url, "swarm": "x"}, "tasks": [task("m['a'] = 1")]},
                      wait="true").json
    assert made["state"] == "failed", made
    assert "address" in made["members"][0]["task"]["error"]["message"], made


@pytest.mark.parametrize("fields, why", [
    ({"hub": {"url": "quic://hub.example:1", "swarm": "x"}}, "quic:// is not supported; a hub is another Atoll"),
    ({"hub": {"url": "ftp://x", "swarm": "x"}}, "https://HOST:PORT"), ({"hub": {"url": "https://a@b", "swarm": "x"}}, "https://HOST:PORT"),
    ({"hub": {"url": "https://a?b", "swarm": "x"}}, "https://HOST:PORT"), ({"hub": {"url": "https://", "swarm": "x"}}, "https://HOST:PORT"),
    ({"hub": {}}, "hub must have"), ({"hub": {"url": "https://a"}}, "hub must have"), ({"hub": {"url": "https://a", "swarm": "../x"}}, "hub must have"),
    ({"hub": {"url": "https://a", "swarm": "x", "secret": "a b"}}, "hub.secret"), ({"hub": "https://a"}, "hub"),
    ({"leaseSeconds": 0}, "leaseSeconds"), ({"leaseSeconds": 1e9}, "leaseSeconds"), ({"lifetimeSeconds": "x"}, "lifetimeSeconds"),
    ({"tasks": []}, "may be empty"),
])
def test_bad_input(world, fields, why):
    refused = world.rest.post("/api/swarms", {"tasks": [task("pass")], **fields})
    assert refused.status == 400 and why in refused.json["error"]["message"], refused.body


def left(rest, swarm, tasks, box):
    paths = [f"/api/swarms/{swarm}", f"/api/artifacts/{box}", *(f"/api/tasks/{one}" for one in tasks)]
    boxes = [one["id"] for one in rest.get("/api/sandboxes").json["sandboxes"]]
    return [path for path in paths if rest.get(path).status != 404] + boxes


def test_when_the_lease_ends_everything_goes():
    with running(BUILD) as daemon:
        rest = Rest(daemon.socket)
        # One task has ended, one runs, one waits for it; files are kept.
        made = rest.post("/api/swarms", {"leaseSeconds": 3, "memory": {"k": 1}, "tasks": [
            {"instruction": "echo x > kept", "name": "done", "cleanup": "never", "captureFiles": True},
            {"instruction": "sleep 1000", "name": "runs"}, {"instruction": "true", "dependsOn": ["runs"]}]})
        assert made.status == 201 and made.json["lease_ends_at"], made.body
        path = f"/api/swarms/{made.json['id']}"

        def member(number):
            return rest.get(path).json["members"][number]
        wait_until(lambda: rest.post(f"{path}/heartbeat").status == 200 and member(0)["state"] == "succeeded"
                   and member(1).get("task", {}).get("step") == "run", 60, lambda: str(rest.get(path).json))
        before = rest.get(path).json["lease_ends_at"]
        box, tasks = member(0)["task"]["sandbox_id"], [member(0)["task_id"], member(1)["task_id"]]
        wait_until(lambda: rest.post(f"{path}/heartbeat").json["lease_ends_at"] > before, 10, lambda: "it is not renewed")
        # The next daemon knows of the lease.
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()
        daemon.start()
        wait_until(lambda: not left(rest, made.json["id"], tasks, box), 60, lambda: str(left(rest, made.json["id"], tasks, box)))
        assert rest.get("/api/swarms").json["swarms"] == [] and rest.get("/api/tasks").json["tasks"] == []


def test_a_lifetime_and_no_lease(world):
    rest = world.rest
    made = rest.post("/api/swarms", {"lifetimeSeconds": 1, "tasks": [{"instruction": "sleep 1000"}]}).json
    refused = rest.post(f"/api/swarms/{made['id']}/heartbeat")
    assert refused.status in (404, 409) and (refused.status == 404 or "has no lease" in refused.json["error"]["message"])
    wait_until(lambda: rest.get(f"/api/swarms/{made['id']}").status == 404, 60, lambda: "it is still there")


def test_the_newest_is_first(world):
    made = [world.rest.post("/api/swarms", {"tasks": [{"instruction": "true"}]}).json["id"] for _ in range(3)]
    listed = [one["id"] for one in world.rest.get("/api/swarms").json["swarms"]]
    times = [one["created_at"] for one in world.rest.get("/api/swarms").json["swarms"]]
    assert set(listed[:3]) == set(made) and times == sorted(times, reverse=True)


def test_the_end_of_the_daemon_interrupts_a_hub_that_does_not_answer():
    asked, came = [], threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as silent, running(BUILD) as daemon:
        def take():
            while True:
                try:
                    asked.append(silent.accept()[0])
                except OSError:
                    return
                came.set()
        threading.Thread(target=take, daemon=True).start()
        rest = Rest(daemon.socket)
        away = {"url": f"http://127.0.0.1:{silent.getsockname()[1]}", "swarm": "x"}
        assert rest.post("/api/swarms", {"hub": away, "tasks": [task("pass")]}).status == 201
        assert came.wait(60)
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(60) == 0
        assert len(asked) == 1, "it waited for the answer, and asked again"
        silent.shutdown(socket.SHUT_RDWR)
        daemon.start()
        wait_until(lambda: rest.get("/api/tasks").json["tasks"][0]["state"] == "failed", 60, lambda: rest.get("/api/tasks").body)
    for one in asked:
        one.close()
