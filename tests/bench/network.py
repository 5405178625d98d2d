"""The network of sandboxes: what a create with one costs, and atoll-egress next to HAProxy."""

import http.client
import json
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import atoll
import helpers
import scale
from dockerd import last_words
from helpers import BenchError

PROXY = """global
    maxconn 4000
defaults
    mode tcp
    option splice-auto
    timeout connect 5s
    timeout client 60s
    timeout server 60s
listen bench
    bind {address}:{port}
    server one {address}:{server}
"""

# Runs on the host and in a sandbox; prints JSON. Asks a server for bytes (the first line says how many), measures
# connections with a byte each way, and how many are open at a time.
CLIENT = r"""
import json, socket, statistics, sys, time
address, port, total, rounds, many = sys.argv[1], *map(int, sys.argv[2:6])

def dial(text):
    s = socket.create_connection((address, port), 30)
    s.sendall(text)
    return s

def speed():
    s, buffer, got = dial(b"%d\n" % total), bytearray(1 << 20), 0
    start = time.perf_counter()
    while n := s.recv_into(buffer):
        got += n
    assert got == total, got
    return total / (time.perf_counter() - start) / 1e6

def latency():
    start = time.perf_counter()
    with dial(b"1\n") as s:
        assert s.recv(1)
    return (time.perf_counter() - start) * 1e3

def opened():
    held = []
    try:
        for _ in range(many):
            held.append(dial(b"-\n"))
        return sum(s.recv(1) == b"-" for s in held)
    except OSError:
        return len(held)

result = {"mb_per_second": max(speed() for _ in range(3)) if total else 0,
          "latency_ms": statistics.median(latency() for _ in range(rounds)) if rounds else 0}
result["open"] = opened() if many else 0
print(json.dumps(result))
"""

SERVER = r"""
import socket, sys, threading
listener = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=1024)
block = memoryview(bytes(1 << 20))

def serve(s):
    with s:
        text = s.makefile("rb").readline().strip()
        if text == b"-":
            s.sendall(b"-")
            s.recv(1)
            return
        left = int(text or 0)
        while left:
            left -= s.send(block[:min(left, len(block))])

while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


class Api:
    """The REST API over the daemon's socket, on one connection."""

    def __init__(self, path: Path):
        self.http = http.client.HTTPConnection("localhost", timeout=60)
        self.http.sock = socket.socket(socket.AF_UNIX)
        self.http.sock.connect(str(path))

    def call(self, method: str, path: str, body=None):
        self.http.request(method, path, json.dumps(body) if body is not None else None,
                          {"Content-Type": "application/json"})
        answer = self.http.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise BenchError(f"{method} {path}: {answer.status} {text[:200].decode()}")
        return json.loads(text) if text else None

    def create(self, network: str) -> str:
        return self.call("POST", "/api/sandboxes", {"networkMode": network})["id"]

    def destroy(self, sandbox: str) -> None:
        self.call("DELETE", f"/api/sandboxes/{sandbox}")


def own_address() -> str:
    """An address of this host that is not on its loopback interface, which sandboxes have their own of."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("198.51.100.1", 9))  # sends nothing
            return s.getsockname()[0]
        except OSError as e:
            raise BenchError("this host has no network address") from e


def create_ms(api: Api, rounds: int) -> dict:
    """In turns."""
    samples = {"none": [], "bridge": []}
    for _ in range(rounds):
        for network, values in samples.items():
            start = time.perf_counter()
            sandbox = api.create(network)
            values.append((time.perf_counter() - start) * 1e3)
            api.destroy(sandbox)
    return {network: statistics.median(values) for network, values in samples.items()}


def memory_each(api: Api, network: str, count: int) -> float:
    before, _ = scale.settled_memory()
    made = [api.create(network) for _ in range(count)]
    after, _ = scale.settled_memory()
    for sandbox in made:
        api.destroy(sandbox)
    return (before - after) / count


def on_host(address: str, port: int, total: int, rounds: int) -> dict:
    done = subprocess.run([sys.executable, "-c", CLIENT, address, str(port), str(total), str(rounds), "0"],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"the client on the host: {done.stderr[-300:]}")
    return json.loads(done.stdout)


def inside(api: Api, sandbox: str, address: str, port: int, total: int, rounds: int, many: int) -> dict:
    done = api.call("POST", f"/api/sandboxes/{sandbox}/execs?wait=true",
                    {"cmd": ["/usr/bin/python3", "-c", CLIENT, address, str(port), str(total),
                                 str(rounds), str(many)]})
    if done["result"].get("exit_code") != 0:
        raise BenchError(f"the client in the sandbox: {done['stderr'][-300:]}")
    return json.loads(done["stdout"])


def start(stack, command: list, log: Path, name: str) -> None:
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    stack.callback(helpers.stop, process)
    time.sleep(0.5)
    if process.poll() is not None:
        raise BenchError(f"{name} could not start: {last_words(log)}")


def measure_network(fleet, total: int, rounds: int, many: int, count: int) -> dict:
    directory = fleet.tmp / "network"
    directory.mkdir()
    address, server, proxy = own_address(), helpers.free_port(), helpers.free_port()
    daemon = atoll.Daemon(directory / "atoll", "--network-internal", address)
    fleet.stack.callback(daemon.stop)
    start(fleet.stack, [sys.executable, "-c", SERVER, address, str(server)], directory / "server", "the server")
    config = directory / "haproxy.cfg"
    config.write_text(PROXY.format(address=address, port=proxy, server=server))
    start(fleet.stack, [helpers.need_tool("haproxy"), "-f", config], directory / "haproxy", "haproxy")
    api = Api(daemon.socket)
    api.destroy(api.create("bridge"))
    create = create_ms(api, rounds)
    sandbox = api.create("bridge")
    direct = on_host(address, server, total, rounds)
    through = on_host(address, proxy, total, rounds)
    ours = inside(api, sandbox, address, server, total, rounds, many)
    api.destroy(sandbox)
    plain, networked = memory_each(api, "none", count), memory_each(api, "bridge", count)
    return {"create_ms": create, "create_ratio": create["bridge"] / create["none"],
            "mb_per_second": {"egress": ours["mb_per_second"], "haproxy": through["mb_per_second"],
                              "direct": direct["mb_per_second"]},
            "speed_ratio": ours["mb_per_second"] / through["mb_per_second"],
            "latency_ms": {"egress": ours["latency_ms"], "haproxy": through["latency_ms"],
                           "direct": direct["latency_ms"]},
            "added_ms": ours["latency_ms"] - direct["latency_ms"],
            "open": ours["open"], "asked": many, "memory_bytes": networked - plain}
