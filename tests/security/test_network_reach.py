"""A sandbox reaches what its policy allows and nothing else, whatever its programs say about where they
go. Every attempt is made in a sandbox without a policy, too, where it must succeed."""

import json
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest

import reaching
from daemons import wait_until
from networks import FAR, FAR6, NAMES, Web, networked
from rest import Rest

PROGRAM = Path(reaching.__file__).read_text()
HTTP, TLS, RAW, BANNER = 8080, 8443, 7000, 7001
METADATA, PRIVATE = "169.254.169.254", "10.9.9.9"
ONE, TWO, THREE, BELOW, DEEP = (NAMES[name] for name in
                                ("one.test", "two.test", "three.test", "www.one.test", "deep.www.one.test"))


class Server:
    """Says `far`: at once, after TLS, or when it was sent something."""

    def __init__(self, listening, kind, context=None):
        self.listening, self.kind, self.context = listening, kind, context
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                sock, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(sock,), daemon=True).start()

    def answer(self, sock):
        try:
            with sock:
                if self.kind == TLS:
                    sock = self.context.wrap_socket(sock, server_side=True)
                if self.kind == RAW:
                    sock.recv(1)
                sock.sendall(reaching.ANSWER)
                while sock.recv(4096):
                    pass
        except OSError:
            pass


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certificate")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-subj", "/CN=far", "-days", "2", "-keyout", directory / "key.pem",
                    "-out", directory / "cert.pem"], check=True, capture_output=True)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(directory / "cert.pem", directory / "key.pem")
    return made


@pytest.fixture(scope="module")
def daemon(context):
    with networked() as started:
        far = started.networks.far
        for address in (METADATA, PRIVATE):
            far.ip("addr", "add", f"{address}/32", "dev", "lo")
        servers = []
        for address in (*FAR[:5], FAR6[0], METADATA, PRIVATE):
            servers.append(Web(far.listen(address, HTTP), "far"))
            servers += [Server(far.listen(address, port), port, context) for port in (TLS, RAW, BANNER)]
        yield started


def reached(daemon, box, *attempts):
    done = daemon.atoll("exec", box, "--", "/usr/bin/python3", "-c", PROGRAM, json.dumps(attempts),
                        check=True)
    return json.loads(done.stdout)


def attempt(how, address, name="", **more):
    port = {"tls": TLS, "raw": RAW, "banner": BANNER}.get(how, HTTP)
    return {"how": how, "address": address, "port": port, "name": name, **more}


# Options, what must be reached, what must not.
POLICIES = {
    "a domain": (
        ["--allow", "one.test"],
        [attempt("http", "one.test", "one.test"), attempt("http", ONE, "one.test"),
         attempt("tls", ONE, "one.test"), attempt("pieces", ONE, "one.test"),
         attempt("slow", "one.test", "one.test"),
         attempt("raw", ONE, ask="one.test"), attempt("banner", "one.test")],
        [attempt("http", "two.test", "two.test"),                      # the name does not resolve
         attempt("http", TWO, "two.test"), attempt("tls", TWO, "two.test"),
         attempt("http", TWO, "one.test"), attempt("tls", TWO, "one.test"),  # the name is not its own
         attempt("http", ONE, "two.test"), attempt("tls", ONE, "two.test"),  # another name, same address
         attempt("pieces", ONE, "two.test"), attempt("slow", "one.test", "two.test"),
         attempt("absolute", ONE, "one.test,two.test"),
         attempt("http", TWO, TWO), attempt("raw", TWO), attempt("banner", TWO)]),
    "names below a domain": (
        ["--allow", "*.one.test"],
        [attempt("http", "www.one.test", "www.one.test"), attempt("tls", DEEP, "deep.www.one.test")],
        [attempt("http", ONE, "one.test"), attempt("tls", TWO, "evilone.test"),
         attempt("tls", TWO, "one.test.two.test")]),
    "a range": (
        ["--allow", "203.0.113.10/31"],
        [attempt("raw", ONE), attempt("http", TWO, "three.test"), attempt("tls", ONE)],
        [attempt("raw", THREE), attempt("http", THREE, "one.test"), attempt("raw", FAR6[0])]),
    "an IPv6 address": (
        ["--allow", FAR6[0]],
        [attempt("raw", FAR6[0]), attempt("tls", FAR6[0])],
        [attempt("raw", ONE), attempt("raw", f"::ffff:{ONE}")]),
    "a port": (
        ["--allow", f"one.test:{TLS}"],
        [attempt("tls", ONE, "one.test")],
        [attempt("http", ONE, "one.test"), attempt("raw", ONE, ask="one.test")]),
    "a denied domain": (
        ["--network", "bridge", "--deny", "two.test"],
        [attempt("http", "one.test", "one.test"), attempt("tls", THREE, "three.test"), attempt("raw", ONE)],
        [attempt("http", "two.test", "two.test"), attempt("http", TWO, "two.test"),
         attempt("tls", TWO, "two.test")]),
    "a denied range": (
        ["--network", "bridge", "--deny", "203.0.113.10/31"],
        [attempt("raw", THREE), attempt("tls", FAR6[0])],
        [attempt("raw", ONE), attempt("tls", TWO, "three.test"), attempt("raw", f"::ffff:{ONE}")]),
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy(daemon, name):
    options, allowed, denied = POLICIES[name]
    box = daemon.create(*options)
    assert reached(daemon, box, *allowed) == [True] * len(allowed)
    assert reached(daemon, box, *denied) == [False] * len(denied)
    daemon.atoll("rm", box, check=True)


def test_without_a_policy_all_of_it_is_reached(daemon):
    """The control of test_a_policy."""
    box = daemon.create("--network", "bridge")
    attempts = [one for _, allowed, denied in POLICIES.values() for one in (*allowed, *denied)
                if one["how"] != "absolute"]  # without a policy: whatever the server makes of it
    for one, result in zip(attempts, reached(daemon, box, *attempts), strict=True):
        assert result, one
    daemon.atoll("rm", box, check=True)


INTERNAL = [attempt("http", METADATA, "metadata"), attempt("raw", PRIVATE), attempt("tls", PRIVATE, "one.test"),
            attempt("raw", f"::ffff:{PRIVATE}")]


@pytest.mark.parametrize("options", [[], ["--allow", PRIVATE, "--allow", METADATA], ["--allow", "*"]],
                         ids=["no policy", "addresses", "everything"])
def test_internal_addresses_are_not_reached(daemon, options):
    box = daemon.create("--network", "bridge", *options)
    assert reached(daemon, box, *INTERNAL) == [False] * len(INTERNAL)
    daemon.atoll("rm", box, check=True)


def test_internal_addresses_are_there(daemon):
    """The control: the daemon's host reaches them."""
    attempts = json.dumps(INTERNAL)
    done = subprocess.run(["nsenter", "-t", str(daemon.networks.near.holder.pid), "-n",
                           "/usr/bin/python3", "-c", PROGRAM, attempts],
                          capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [True] * len(INTERNAL)


def test_sandboxes_do_not_reach_each_other(daemon):
    serve = ("import socket; s = socket.create_server(('', 7000))\n"
             "while True: c, _ = s.accept(); c.sendall(b'far'); c.close()")
    one, other = (daemon.create("--network", "bridge") for _ in range(2))
    daemon.atoll("exec", "-d", one, "--", "/usr/bin/python3", "-c", serve, check=True)
    own = [attempt("banner", address) | {"port": RAW} for address in ("127.0.0.1", "100.64.0.1")]
    wait_until(lambda: all(reached(daemon, one, *own)), 20, lambda: "it does not reach itself")
    assert reached(daemon, other, *own) == [False, False]
    for box in (one, other):
        daemon.atoll("rm", box, check=True)


def test_a_changed_policy_holds_at_once(daemon):
    """Connections are made all the time; from the answer on, none is alive or made that it denies."""
    flood = ("import socket, sys, time\nopen_ = []\n"
             "while True:\n"
             "    for address in sys.argv[1:]:\n"
             "        try:\n"
             f"            open_.append(socket.create_connection((address, {BANNER}), timeout=5))\n"
             "        except OSError: pass\n"
             "    while len(open_) > 100: open_.pop(0).close()\n"
             "    time.sleep(0.002)\n")
    box = daemon.create("--network", "bridge")
    daemon.atoll("exec", "-d", box, "--", "/usr/bin/python3", "-c", flood, ONE, TWO, check=True)

    def established(address):
        """Connections of atoll-egress to a server."""
        done = subprocess.run(["nsenter", "-t", str(daemon.networks.far.holder.pid), "-n", "ss", "-Htn",
                               "state", "established", f"src {address}:{BANNER}"],
                              capture_output=True, text=True, check=True)
        return len(done.stdout.splitlines())

    wait_until(lambda: established(ONE) > 20 and established(TWO) > 20, 20, lambda: "no connections")
    answer = Rest(daemon.socket).put(f"/api/sandboxes/{box}/network",
                                     {"mode": "bridge", "deny": [f"{TWO}/32"]})
    assert answer.status in (200, 204), answer.body
    for _ in range(20):
        assert established(TWO) == 0
        assert established(ONE) > 0
        time.sleep(0.05)
    daemon.atoll("rm", box, check=True)


MOVE = """
import socket, sys, threading, time
address, port, direction, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
moved = []

def one():
    sock, end = socket.create_connection((address, port), timeout=1), time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            moved.append(len(sock.recv(65536)) if direction == "down" else sock.send(bytes(65536)))
        except TimeoutError:
            pass

threads = [threading.Thread(target=one) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sum(moved))
"""


class Peer:
    """Sends all the time, or counts what it receives."""

    def __init__(self, listening, direction):
        self.listening, self.direction, self.received = listening, direction, 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            sock, _ = self.listening.accept()
            threading.Thread(target=self.move, args=(sock,), daemon=True).start()

    def move(self, sock):
        try:
            while self.direction == "down":
                sock.sendall(bytes(65536))
            while piece := sock.recv(65536):
                self.received += len(piece)
        except OSError:
            pass


@pytest.mark.parametrize(("direction", "port"), [("down", 7005), ("up", 7006)])
def test_bandwidth_is_bounded(daemon, direction, port):
    """In each direction, for all connections of the sandbox together."""
    mbps, seconds = 24, 5
    peer = Peer(daemon.networks.far.listen(ONE, port), direction)
    box = daemon.create("--network", "bridge", "--mbps", mbps)
    begun = time.monotonic()
    done = daemon.atoll("exec", box, "--", "/usr/bin/python3", "-c", MOVE, ONE, port, direction, seconds,
                        check=True)
    moved = int(done.stdout) if direction == "down" else peer.received
    assert 8 * moved <= mbps * 1e6 * (time.monotonic() - begun) * 1.05
    assert 8 * moved >= mbps * 1e6 * seconds * 0.5  # a busy machine may be slower
    daemon.atoll("rm", box, check=True)
