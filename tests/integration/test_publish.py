"""Published ports: TCP addresses of the host that lead to ports of sandboxes."""

import hashlib
import os
import socket
import threading

import pytest
from boxes import Box
from conftest import wait_until
from listening import free_port
from rest import Rest
from resting import kill_daemon, mortal_daemon

# Answers each connection with what it got, once the client has ended its side.
ECHO = """python3 -c '
import socket, threading
s = socket.create_server(("127.0.0.1", 7000))
def serve(c):
    got = b""
    while data := c.recv(65536):
        got += data
    c.sendall(got[::-1])
    c.close()
while True:
    threading.Thread(target=serve, args=(s.accept()[0],)).start()
'"""


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture
def box(rest):
    made = Box(rest)
    made.detach(ECHO)
    wait_until(lambda: "7000" in listening(made), 30, lambda: "no server")
    yield made
    made.destroy()


def listening(box):
    """Ports with a listener, as /proc of the sandbox shows them."""
    lines = box.out("cat /proc/net/tcp").splitlines()[1:]
    return [str(int(line.split()[1].split(":")[1], 16)) for line in lines if line.split()[3] == "0A"]


def split(address):
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def ask(address, data):
    with socket.create_connection(split(address), timeout=20) as connection:
        threading.Thread(target=lambda: (connection.sendall(data),
                                         connection.shutdown(socket.SHUT_WR))).start()
        got = b""
        while piece := connection.recv(65536):
            got += piece
        return got


def is_closed(address):
    try:
        socket.create_connection(split(address), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_bytes_arrive_both_ways(box):
    made = box.post("previews", {"port": 7000, "address": "0"})
    assert made.status == 201, made.body
    address = made.json["address"]
    assert address.startswith("127.0.0.1:") and not address.endswith(":0")
    assert ask(address, b"abc") == b"cba"
    data = os.urandom(8 << 20)
    assert hashlib.sha256(ask(address, data)).digest() == hashlib.sha256(data[::-1]).digest()
    assert [p["address"] for p in box.get("previews").json["previews"]] == [address]


def test_it_ends_with_the_preview_and_with_the_sandbox(rest, box):
    address = box.post("previews", {"port": 7000, "address": "0"}).json["address"]
    assert not is_closed(address)
    assert rest.delete(f"{box.path}/previews/7000").status == 204
    assert is_closed(address)
    address = box.post("previews", {"port": 7000, "address": "0"}).json["address"]
    assert box.destroy() == 204
    wait_until(lambda: is_closed(address), 30, lambda: "it still listens")


def test_another_address_replaces_the_first(box):
    first = box.post("previews", {"port": 7000, "address": "0"}).json["address"]
    again = box.post("previews", {"port": 7000, "address": first}).json["address"]
    assert again == first and ask(first, b"x") == b"x"
    other = box.post("previews", {"port": 7000, "address": "[::1]:0"}).json["address"]
    assert other.startswith("[::1]:") and is_closed(first) and ask(other, b"xy") == b"yx"


def test_a_port_in_use_is_an_error_and_leaves_nothing(box):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        answer = box.post("previews", {"port": 7000, "address": str(taken.getsockname()[1])})
    assert answer.status == 409 and "in use" in answer.error["message"]
    assert box.get("previews").json["previews"] == []


@pytest.mark.parametrize("address", ["", "x", "localhost:80", "127.0.0.1", "127.0.0.1:", "1.2.3:4",
                                     "[127.0.0.1]:4", "::1:4", "127.0.0.1:65536", "-1", "203.0.113.9:0"])
def test_bad_addresses(box, address):
    answer = box.post("previews", {"port": 7000, "address": address})
    assert answer.status == 400, answer.body
    assert box.get("previews").json["previews"] == []


def test_a_port_without_a_server_closes_the_connection(box):
    address = box.post("previews", {"port": 7001, "address": "0"}).json["address"]
    with socket.create_connection(split(address), timeout=20) as connection:
        try:
            assert connection.recv(1) == b""
        except ConnectionResetError:
            pass


def test_only_admins(rest):
    key = rest.post("/api/keys", {"tenant": "publishers", "scope": "write"}).json
    theirs = Rest(rest.address, {"X-API-Key": key["key"]})
    box = Box(theirs)
    answer = box.post("previews", {"port": 7000, "address": "0"})
    assert answer.status == 403 and "admin" in answer.error["message"]
    assert box.get("previews").json["previews"] == []
    assert box.post("previews", {"port": 7000}).status == 201
    box.destroy()
    assert rest.delete(f"/api/keys/{key['id']}").status == 204


def test_it_survives_the_daemon():
    with mortal_daemon() as daemon:
        box = Box(daemon.rest)
        box.detach(ECHO)
        wait_until(lambda: "7000" in listening(box), 30, lambda: "no server")
        address = box.post("previews", {"port": 7000, "address": "0"}).json["address"]
        kill_daemon(daemon)
        assert is_closed(address)
        daemon.start()
        assert ask(address, b"abc") == b"cba"
        box.destroy()


def test_the_command_line(daemon):
    port = free_port()
    box = daemon.atoll("run", "-d", "-p", f"{port}:7000", "--", "sh", "-c", ECHO,
                       check=True).stdout.strip()
    try:
        wait_until(lambda: ask_or_none(f"127.0.0.1:{port}") == b"ba", 30, lambda: "no server")
        assert f"127.0.0.1:{port}" in daemon.atoll("port", box, check=True).stdout
        with_same = daemon.atoll("create", "-p", f"{port}:80")
        assert with_same.returncode != 0 and "in use" in with_same.stderr
        assert daemon.atoll("ls", "-q", check=True).stdout.split() == [box]
    finally:
        daemon.atoll("rm", box, check=True)
    bad = daemon.atoll("run", "-p", "80:", "--", "true")
    assert bad.returncode == 2 and "HOSTPORT:PORT" in bad.stderr


def ask_or_none(address):
    try:
        return ask(address, b"ab")
    except OSError:
        return None
