"""The relay of the agent program over HTTP: streams to a unix socket, byte for byte."""

import http.client
import os
import secrets
import signal
import socket
import struct
import subprocess
import threading

import pytest
from conftest import BUILD
from daemons import wait_until

OPENED, OUTPUT, ALIVE, END = 1, 2, 3, 4


class Echo:
    """A server at a unix socket that sends back what it gets, and its end."""

    def __init__(self, path):
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(path))
        self.server.listen(16)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                conn, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.echo, args=(conn,), daemon=True).start()

    @staticmethod
    def echo(conn):
        with conn:
            while data := conn.recv(65536):
                conn.sendall(data)


class Relay:
    def __init__(self, directory):
        self.file, self.socket = directory / "relay", directory / "agent.sock"
        self.pid_file = directory / "pid"
        self.start()

    def start(self):
        command = [BUILD / "atoll-agent", "--relay", str(self.socket), "--http", str(self.file),
                   "--detach", "--pid-file", str(self.pid_file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        word, port, self.token = done.stdout.split()
        assert word == "atoll-relay"
        self.port = int(port)
        return done.stdout

    def stop(self):
        os.kill(int(self.pid_file.read_text()), signal.SIGKILL)

    def ask(self, method, path, body=None, token=None):
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        conn.request(method, path, body, {"Stream-Token": token or self.token})
        return conn.getresponse()

    def post(self, path, body=b"", token=None):
        return self.ask("POST", path, body, token)


class Stream:
    def __init__(self, relay):
        self.relay, self.id, self.offset = relay, secrets.token_hex(16), 0
        self.answer = relay.ask("GET", f"/open/{self.id}")
        self.first = self.frame()[0] if self.answer.status == 200 else None

    def frame(self):
        head = self.answer.read(5)
        if not head:
            return None, b""
        kind, n = struct.unpack(">BI", head)
        return kind, self.answer.read(n) if n else b""  # read(0) waits for the next chunk

    def output(self, n):
        got = b""
        while len(got) < n:
            kind, data = self.frame()
            assert kind in (OUTPUT, ALIVE), kind
            got += data
        return got

    def input(self, data, offset=None):
        at = self.offset if offset is None else offset
        status = self.relay.post(f"/input/{self.id}", struct.pack(">Q", at) + data).status
        if status == 204 and offset is None:
            self.offset += len(data)
        return status

    def order(self, verb):
        return self.relay.post(f"/{verb}/{self.id}", struct.pack(">Q", self.offset)).status


@pytest.fixture
def relay(tmp_path):
    made = Relay(tmp_path)
    made.echo = Echo(made.socket)
    yield made
    made.stop()


def test_bytes_and_ends(relay):
    stream, data = Stream(relay), os.urandom(300000)
    assert stream.first == OPENED
    for at in range(0, len(data), 65536):
        piece = data[at:at + 65536]
        assert stream.input(piece) == 204
        assert stream.output(len(piece)) == piece
    assert stream.order("end") == 204
    assert stream.frame() == (END, b"")
    assert stream.answer.read() == b""
    wait_until(lambda: stream.input(b"late") == 404, 20, lambda: "the stream stays")


def test_a_repeated_request_adds_nothing(relay):
    stream = Stream(relay)
    assert stream.input(b"abc") == 204
    assert stream.input(b"abc", offset=0) == 204
    assert stream.input(b"cde", offset=2) == 204  # a part is new
    assert stream.input(b"x", offset=9) == 409
    assert stream.output(5) == b"abcde"


def test_streams_are_apart_and_can_be_closed(relay):
    one, two = Stream(relay), Stream(relay)
    assert one.input(b"1") == two.input(b"2") == 204
    assert (one.output(1), two.output(1)) == (b"1", b"2")
    assert one.order("close") == 204
    assert one.frame() == (END, b"")
    assert two.input(b"more") == 204 and two.output(4) == b"more"
    assert relay.ask("GET", f"/open/{two.id}").status == 409


def test_a_client_that_is_gone_ends_the_stream(relay):
    stream = Stream(relay)
    stream.answer.close()
    wait_until(lambda: stream.input(b"x") == 404, 20, lambda: "the stream stays")
    wait_until(lambda: not list(relay.file.parent.glob("relay.*")), 20, lambda: "a socket stays")


def test_requests_that_are_refused(relay):
    token = relay.token
    assert relay.post("/open/" + "a" * 32, token="x" * len(token)).status == 403
    assert relay.post("/open/" + "a" * 32, token=token[:-1]).status == 403
    for path in ("/", "/open/", "/open/short", "/open/../x", "/other/" + "a" * 32):
        assert relay.ask("GET", path).status == 404, path
    assert relay.post("/open/" + "a" * 32).status == 404
    assert relay.post("/input/" + "a" * 32, b"12345678x").status == 404
    assert relay.post("/input/" + "a" * 32, b"short").status == 400
    assert relay.post("/input/" + "a" * 32, bytes(3 << 20)).status == 411
    with socket.create_connection(("127.0.0.1", relay.port), 20) as conn:
        conn.sendall(b"\0" * 20000)
        assert b" 400 " in conn.recv(100)


def test_one_relay_for_a_file(relay):
    line = f"atoll-relay {relay.port} {relay.token}\n"
    assert relay.start() == line
    assert relay.file.read_text() == line and relay.file.stat().st_mode & 0o777 == 0o600


def test_a_new_relay_has_a_new_token(relay):
    before = relay.token
    relay.stop()
    wait_until(lambda: relay.start() and relay.token != before, 20, lambda: "the old token stays")
    assert relay.post("/open/" + "a" * 32, token=before).status == 403


def test_without_an_agent(tmp_path):
    relay = Relay(tmp_path)
    try:
        assert Stream(relay).first == END  # an end without a beginning
    finally:
        relay.stop()
