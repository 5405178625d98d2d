"""A client of the REST API: HTTP and WebSocket with nothing but the standard library."""

import base64
import contextlib
import http.client
import json
import os
import socket
import struct
from urllib.parse import quote, urlencode

from daemons import SLACK

PATIENCE = 60 * SLACK  # seconds; for the next bytes of an answer


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=PATIENCE):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = connect_unix(self.path, self.timeout)


def connect_unix(path, timeout=PATIENCE):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(timeout)
    sock.connect(str(path))
    return sock


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.reason = response.reason
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]

    @property
    def lines(self):
        return [json.loads(line) for line in self.body.splitlines()]


class Rest:
    """Talks to a daemon on its unix socket, or on (host, port)."""

    def __init__(self, address, headers=None):
        self.address = address
        self.headers = headers or {}

    def connection(self, timeout=PATIENCE):
        if isinstance(self.address, tuple):
            return http.client.HTTPConnection(*self.address, timeout=timeout)
        return UnixConnection(self.address, timeout)

    def socket(self, timeout=PATIENCE):
        if isinstance(self.address, tuple):
            return socket.create_connection(self.address, timeout)
        return connect_unix(self.address, timeout)

    def call(self, method, path, body=None, headers=None, /, **query):
        """body: a dict is sent as JSON, bytes as they are."""
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        if query:
            path += "?" + urlencode(query, quote_via=quote)
        connection = self.connection()
        try:
            connection.connect()
            # An answer that comes before the whole body was sent is an answer all the same.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, body, {**self.headers, **(headers or {})})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, /, **query):
        return self.call("GET", path, **query)

    def post(self, path, body=None, /, **query):
        return self.call("POST", path, body, **query)

    def put(self, path, body, /, **query):
        return self.call("PUT", path, body, **query)

    def delete(self, path, /, **query):
        return self.call("DELETE", path, **query)

    def websocket(self, path):
        return WebSocket(self.socket(), path, self.headers)


class WebSocket:
    """RFC 6455, as much of it as a test needs."""

    TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10

    def __init__(self, sock, path, headers):
        self.sock = sock
        key = base64.b64encode(os.urandom(16)).decode()
        head = [f"GET {path} HTTP/1.1", "Host: localhost", "Connection: Upgrade",
                "Upgrade: websocket", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13",
                *(f"{name}: {value}" for name, value in headers.items())]
        sock.sendall(("\r\n".join(head) + "\r\n\r\n").encode())
        self.pending = b""
        while b"\r\n\r\n" not in self.pending:
            self.pending += self.receive()
        answer, _, self.pending = self.pending.partition(b"\r\n\r\n")
        self.status = int(answer.split()[1])
        self.headers = {name.lower(): value for name, value in
                        (line.split(": ", 1) for line in answer.decode().split("\r\n")[1:])}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def receive(self):
        received = self.sock.recv(65536)
        if not received:
            raise EOFError("the server has closed the connection")
        return received

    def take(self, n):
        while len(self.pending) < n:
            self.pending += self.receive()
        taken, self.pending = self.pending[:n], self.pending[n:]
        return taken

    def send(self, data, opcode=None):
        """A dict as JSON text, a str as text, bytes as a binary message."""
        if isinstance(data, dict):
            data = json.dumps(data)
        if opcode is None:
            opcode = self.TEXT if isinstance(data, str) else self.BINARY
        payload = data.encode() if isinstance(data, str) else data
        n = len(payload)
        length = bytes([0x80 | n]) if n < 126 else (
            b"\xfe" + struct.pack(">H", n) if n < 65536 else b"\xff" + struct.pack(">Q", n))
        # The mask of zeros is as good as any between us and a server of our own.
        self.sock.sendall(bytes([0x80 | opcode]) + length + bytes(4) + payload)

    def recv(self):
        """The next message: (opcode, bytes)."""
        while True:
            first, second = self.take(2)
            n = second & 0x7f
            if n == 126:
                n = struct.unpack(">H", self.take(2))[0]
            elif n == 127:
                n = struct.unpack(">Q", self.take(8))[0]
            opcode, payload = first & 0x0f, self.take(n)
            if opcode != self.PING:
                return opcode, payload
            self.send(payload, self.PONG)

    def text(self):
        opcode, payload = self.recv()
        assert opcode == self.TEXT, (opcode, payload)
        return json.loads(payload)

    def finish(self):
        """Reads to the end: (stdout, stderr, texts, close code)."""
        streams, texts = {1: b"", 2: b""}, []
        while True:
            opcode, payload = self.recv()
            if opcode == self.CLOSE:
                return streams[1], streams[2], texts, struct.unpack(">H", payload[:2])[0]
            if opcode == self.TEXT:
                texts.append(json.loads(payload))
            else:
                streams[payload[0]] += payload[1:]
