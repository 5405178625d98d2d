"""Names in sandboxes: a name server of the test is the one that the daemon's host asks."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
from boxes import Box
from daemons import BUILD, Daemon, need_build, process_files, wait_until
from name_server import NameServer
from networks import FAR, FAR6, Networks, Web, why_not
from rest import Rest

SERVER = FAR[9]
INSIDE = "10.11.12.13"  # not on the internet
RECORDS = {
    ("www.example.test", "A"): [[FAR[0]]],
    ("www.example.test", "AAAA"): [[FAR6[0]]],
    ("www.example.test", "TXT"): [["v=hello"]],
    ("www.example.test", "MX"): [[(10, "mail.example.test")]],
    ("_web._tcp.example.test", "SRV"): [[(0, 0, 80, "www.example.test")]],
    ("www.example.test", "HTTPS"): [["www.example.test"]],
    ("example.test", "A"): [[FAR[1]]],
    ("bad.example.test", "A"): [[FAR[1]]],
    ("other.test", "A"): [[FAR[2]]],
    ("db.plain.test", "A"): [[FAR[2]]],
    ("big.example.test", "TXT"): [["x" * 3000]],
    ("turn.test", "A"): [[FAR[3]], [INSIDE]],
    ("mixed.test", "A"): [[INSIDE, FAR[4], "127.0.0.1", "169.254.169.254"]],
    ("inside.test", "A"): [[INSIDE]],
    ("mapped.test", "AAAA"): [["::ffff:10.11.12.13", "64:ff9b::a0b:c0d"]],
    ("*.a.tunnel.test", "A"): [[FAR[5]]],
    ("*.a.tunnel.test", "TXT"): [["down"]],
    ("host.search.test", "A"): [[FAR[6]]],
    ("13.12.11.10.in-addr.arpa", "PTR"): [["secret.corp.test"]],
    ("10.113.0.203.in-addr.arpa", "PTR"): [["www.example.test"]],
}

# Asks one question and prints the answer as JSON: the code, whether it was cut, and the data of the records.
CLIENT = r"""
import json, socket, struct, sys
how, server, name, kind = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
labels = [label for label in name.split(".") if label]
m = b"\x12\x34\x01\0\0\1\0\0\0\0\0\0" + b"".join(bytes([len(l)]) + l.encode() for l in labels)
m += b"\0" + struct.pack("!HH", kind, 1)
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if how == "tcp" else socket.SOCK_DGRAM)
s.settimeout(20)
s.connect((server, 53))
if how == "tcp":
    s.sendall(struct.pack("!H", len(m)) + m)
    a = b""
    while len(a) < 2 or len(a) < 2 + struct.unpack("!H", a[:2])[0]:
        a += s.recv(65536)
    a = a[2:]
else:
    s.send(m)
    a = s.recv(65536)
flags, _, count = struct.unpack("!HHH", a[2:8])
at, data = len(m), []
for _ in range(count):
    length = struct.unpack("!H", a[at + 10:at + 12])[0]
    data.append(a[at + 12:at + 12 + length].hex())
    at += 12 + length
codes = {0: "NOERROR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}
print(json.dumps({"code": codes[flags & 15], "cut": bool(flags & 0x200), "data": data}))
"""
TYPES = {"A": 1, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "HTTPS": 65, "NULL": 10}


def greet(server):
    """A protocol in which the server speaks first, and nothing has a name."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            connection.sendall(b"hello")


class Place(Networks):
    """A daemon whose host asks the name server of the test."""

    def __init__(self, directory):
        super().__init__(directory)
        udp = self.far.inside(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind((SERVER, 53))
        self.names = NameServer(udp, self.far.listen(SERVER, 53), RECORDS)
        self.web = Web(self.far.listen(FAR[1], 80), "web")
        self.banners = [self.far.listen(at, 5432) for at in FAR[1:3]]
        for server in self.banners:
            threading.Thread(target=greet, args=(server,), daemon=True).start()
        self.resolv = directory / "resolv.conf"
        self.resolv.write_text(f"search search.test\nnameserver {SERVER}\n")

    @property
    def launcher(self):
        return [*super().launcher, "sh", "-ec", 'mount --bind "$0" /etc/resolv.conf && exec "$@"',
                str(self.resolv)]

    def on_host(self, *command):
        """Runs a command that sees what the daemon sees."""
        return subprocess.run([*self.launcher, *command], capture_output=True, text=True, check=False)

    def close(self):
        self.names.close()
        self.web.close()
        for server in self.banners:
            server.shutdown(socket.SHUT_RDWR)
            server.close()
        super().close()


@pytest.fixture(scope="module")
def place():
    if why_not():
        pytest.skip(why_not())
    need_build()
    directory = Path(tempfile.mkdtemp(prefix="atoll-", dir="/tmp"))
    directory.chmod(0o755)
    made = Place(directory)
    daemon = Daemon(BUILD, directory)
    daemon.launcher = made.launcher
    made.daemon, made.rest, left = daemon, Rest(daemon.socket), []
    try:
        daemon.start()
        yield made
        left = daemon.stop()
    finally:
        made.close()
        if not left:
            shutil.rmtree(directory, ignore_errors=True)
    assert not left, left


class NamedBox(Box):
    def ask(self, name, kind="A", how="udp", server="100.64.0.1"):
        ended = self.post("execs", {"cmd": ["python3", "-c", CLIENT, how, server, name,
                                            str(TYPES[kind])]}, wait="true").json
        assert ended["result"].get("exit_code") == 0, ended
        answer = json.loads(ended["stdout"])
        if kind in ("A", "AAAA"):
            family = socket.AF_INET if kind == "A" else socket.AF_INET6
            answer["data"] = [socket.inet_ntop(family, bytes.fromhex(data)) for data in answer["data"]]
        return answer

    def denied(self, name):
        """The newest line of the journal about questions for this name that were not answered."""
        def find():
            lines = self.get("network/connections").json["connections"]
            found[:] = [line for line in lines if line["kind"] == "dns" and line["name"] == name]
            return found

        found = []
        wait_until(find, 10, lambda: f"no event of {name}")
        return found[0]


@pytest.fixture
def make(place):
    made = []

    def create(**network):
        made.append(NamedBox(place.rest, network={"mode": "bridge", **network}))
        return made[-1]

    yield create
    for box in made:
        box.destroy()


def test_answers(place, make):
    box = make()
    assert box.ask("WWW.example.test") == {"code": "NOERROR", "cut": False, "data": [FAR[0]]}
    assert box.ask("www.example.test", "AAAA")["data"] == [FAR6[0]]
    assert box.ask("www.example.test", how="tcp")["data"] == [FAR[0]]
    # Whichever server is asked.
    assert box.ask("www.example.test", server="192.0.2.53")["data"] == [FAR[0]]
    assert box.ask("nowhere.test")["code"] == "NXDOMAIN"
    assert box.denied("nowhere.test")["end"] == "unresolved"
    assert box.out("getent hosts www.example.test").split()[0] in (FAR[0], FAR6[0])
    page = box.out("python3 -c 'import urllib.request as u; "
                   "print(u.urlopen(\"http://example.test/\").read().decode())'")
    assert page == "web example.test /"


def test_other_types_are_passed_through(make):
    box = make()
    assert bytes.fromhex(box.ask("www.example.test", "TXT")["data"][0]) == b"\x07v=hello"
    assert b"mail" in bytes.fromhex(box.ask("www.example.test", "MX")["data"][0])
    assert box.ask("_web._tcp.example.test", "SRV")["data"][0].startswith("000000000050")
    assert box.ask("10.113.0.203.in-addr.arpa", "PTR")["data"]
    cut = box.ask("big.example.test", "TXT")
    assert cut["cut"] and not cut["data"]
    whole = box.ask("big.example.test", "TXT", how="tcp")
    assert bytes.fromhex(whole["data"][0]).count(b"x") == 3000
    # No HTTPS records, so that clients use neither ECH nor QUIC; no types that only tunnels use.
    assert box.ask("www.example.test", "HTTPS") == {"code": "NOERROR", "cut": False, "data": []}
    assert box.ask("www.example.test", "NULL")["code"] == "NOTIMP"


def test_denied_names_do_not_exist(place, make):
    box = make(allow=["*.example.test"], deny=["bad.example.test"])
    before = len(place.names.asked)
    assert box.ask("www.example.test")["data"] == [FAR[0]]
    for name, rule in (("other.test", "default"), ("example.test", "default"),
                       ("bad.example.test", "deny bad.example.test"),
                       ("secret-as-a-name.evil.test", "default")):
        for kind in "A", "AAAA", "TXT":
            assert box.ask(name, kind) == {"code": "NXDOMAIN", "cut": False, "data": []}
        event = box.denied(name)
        assert (event["end"], event["rule"], event["hint"]) == ("denied", rule, name)
    # Nothing of it left the host.
    assert {name for name, _ in place.names.asked[before:]} <= {"www.example.test"}
    # The control: the same names exist for a sandbox that may have them, and then leave the host.
    free = make()
    assert free.ask("other.test")["data"] == [FAR[2]]
    assert free.ask("secret-as-a-name.evil.test")["code"] == "NXDOMAIN"
    assert ("secret-as-a-name.evil.test", "A") in place.names.asked


def test_a_changed_policy_counts_at_once(place, make):
    box = make()
    assert box.ask("other.test")["data"] == [FAR[2]]
    answer = place.rest.call("PUT", f"{box.path}/network", {"allow": ["www.example.test"]})
    assert answer.status in (200, 204), answer.body
    assert box.ask("other.test")["code"] == "NXDOMAIN"
    assert box.ask("www.example.test")["data"] == [FAR[0]]


def worker_of(place):
    """The process of atoll-egress that serves: the child of the other one."""
    state, pids = str(place.daemon.state), {}
    for path in process_files("cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
            status = (path.parent / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if words[0].endswith("atoll-egress") and state in words:
            pids[int(path.parent.name)] = int(status[1])
    return next((pid for pid, parent in pids.items() if parent in pids), None)


def kill_worker(place):
    worker = worker_of(place)
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: worker_of(place) not in (None, worker), 20, lambda: "no new worker")


def test_rebinding(place, make):
    box = make()
    assert box.ask("mixed.test")["data"] == [FAR[4]]
    for name, kind in ("inside.test", "A"), ("mapped.test", "AAAA"):
        assert box.ask(name, kind) == {"code": "NOERROR", "cut": False, "data": []}
        event = box.denied(name)
        assert (event["end"], event["rule"]) == ("denied", "internal address")
    # The control: that is what the name server says.
    assert INSIDE in place.on_host("getent", "ahosts", "inside.test").stdout

    # A name that is outside first, and inside then.
    assert box.ask("turn.test")["data"] == [FAR[3]]
    kill_worker(place)  # and with it its cache
    assert box.ask("turn.test") == {"code": "NOERROR", "cut": False, "data": []}
    assert ("turn.test", "A") in place.names.asked
    assert box.denied("turn.test")["rule"] == "internal address"


def test_names_of_the_host_are_not_shown(place, make):
    box = make()
    assert box.ask("localhost")["data"] == ["127.0.0.1"]
    assert box.ask("app.localhost", "AAAA")["data"] == ["::1"]
    for name in "host", "metadata.google.internal", "10.11.12.13", "2130706433":
        assert box.ask(name)["code"] == "NXDOMAIN", name
    assert box.ask("13.12.11.10.in-addr.arpa", "PTR")["code"] == "NXDOMAIN"
    # The controls: the host itself finds a name by its search list, and asks for the pointer.
    assert FAR[6] in place.on_host("getent", "ahosts", "host").stdout
    assert ("13.12.11.10.in-addr.arpa", "PTR") not in place.names.asked
    place.on_host("getent", "hosts", INSIDE)
    assert ("13.12.11.10.in-addr.arpa", "PTR") in place.names.asked


def test_tunnels(place, make):
    """Only addresses are allowed, so that any name may be asked for, but not to tell a story."""
    box = make(allow=["203.0.113.0/24", "*.listed.test"])
    long = "x" * 41
    script = ("import socket\nfor i in range(30):\n"
              "    try:\n        socket.getaddrinfo(f'n{i}.a.tunnel.test', 80, socket.AF_INET)\n"
              "    except OSError:\n        print(i)\n")
    place.names.asked.clear()
    refused = box.post("execs", {"cmd": ["python3", "-c", script]}, wait="true").json["stdout"].split()
    assert refused == [str(i) for i in range(20, 30)]
    assert box.ask("more.b.tunnel.test")["code"] == "REFUSED"
    assert box.ask(f"{long}.quiet.test")["code"] == "REFUSED"
    assert box.ask("n1.a.tunnel.test", "TXT")["code"] == "REFUSED"
    event = box.denied("more.b.tunnel.test")
    assert (event["end"], event["rule"]) == ("limited", "limit of DNS names")
    told = {name for name, _ in place.names.asked}
    assert len(told) == 20 and all(name.endswith(".a.tunnel.test") for name in told)
    # The controls: a listed domain is not limited, nor are thirty names where everything is allowed.
    assert box.ask(f"{long}.listed.test")["code"] == "NXDOMAIN"
    assert (f"{long}.listed.test", "A") in place.names.asked
    free = make()
    assert not free.post("execs", {"cmd": ["python3", "-c", script]}, wait="true").json["stdout"]
    assert free.ask("n1.a.tunnel.test", "TXT")["code"] == "NOERROR"


def test_a_flood_is_bounded(place, make):
    """Thousands of names a second of one sandbox: most do not leave the host, and another sandbox is
    answered meanwhile."""
    box, other = make(), make()
    place.names.asked.clear()
    flood = box.detach("exec python3 -c 'import socket, itertools\n"
                       "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                       "for i in range(20000):\n"
                       "    n = str(i).encode()\n"
                       "    s.sendto(b\"\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\" + bytes([len(n)]) + n +"
                       " b\"\\6tunnel\\4test\\0\\0\\1\\0\\1\", (\"100.64.0.1\", 53))'")
    assert other.ask("www.example.test")["data"] == [FAR[0]]
    wait_until(lambda: "result" in box.exec(flood), 60, lambda: "the flood does not end")
    assert other.ask("other.test")["data"] == [FAR[2]]
    assert len({name for name, _ in place.names.asked if name.endswith(".tunnel.test")}) <= 1000


def test_plain_connections_follow_names(place, make):
    """A protocol without names in its bytes: the name is the one that the sandbox resolved."""
    script = ("import socket, sys\ns = socket.create_connection((sys.argv[1], 5432), 20)\n"
              "print(s.recv(5).decode())")

    def connect(box, to):
        return box.post("execs", {"cmd": ["python3", "-c", script, to]}, wait="true").json["stdout"]

    box = make(allow=["*.plain.test"])
    assert "hello" not in connect(box, FAR[2])  # the address has no name yet
    assert box.ask("db.plain.test")["data"] == [FAR[2]]
    assert "hello" in connect(box, FAR[2])
    assert "hello" not in connect(box, FAR[1])
    assert "hello" in connect(make(), FAR[1])  # the control
    # A program that holds the address goes on when atoll-egress dies.
    kill_worker(place)
    wait_until(lambda: "hello" in connect(box, FAR[2]), 20, lambda: "the name is forgotten")
    assert "hello" not in connect(box, FAR[1])
    assert "hello" not in connect(make(allow=["*.plain.test"]), FAR[2])
