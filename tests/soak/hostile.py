"""Clients that are broken, slow or malicious. After each the daemon has to answer others."""

import contextlib
import json
import socket
import struct
import time

import rest

SLOW_BYTES = 20_000_000


class Hostile:
    """May use the id of a sandbox of its own, for streams."""

    def __init__(self, ground, chance):
        self.ground, self.chance = ground, chance
        self.box = None

    def sock(self, tcp=None):
        tcp = self.chance.random() < 0.5 if tcp is None else tcp
        if tcp:
            return socket.create_connection(self.ground.address, 10)
        return rest.connect_unix(self.ground.daemon.socket, 10)

    def request(self, method, path, body=b"", headers=""):
        return (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}"
                f"Content-Length: {len(body)}\r\n\r\n").encode() + body

    def half_requests(self):
        whole = self.request("POST", "/api/sandboxes", b'{"template":"host"}' + b" " * 500)
        for _ in range(20):
            with self.sock(tcp=True) as s:
                s.sendall(whole[:self.chance.randint(1, len(whole) - 1)])

    def garbage(self):
        for _ in range(10):
            with self.sock() as s, contextlib.suppress(OSError):
                s.sendall(self.chance.randbytes(self.chance.randint(1, 5000)))
                s.settimeout(2)
                s.recv(1000)

    def odd_requests(self):
        odd = [b"GET / HTTP/9.9\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
               b"POST /api/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
               b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
               b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n",
               b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 2000 + b"\r\n",
               b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(100),
               self.request("POST", "/api/sandboxes", b'{"a":' * 3000),
               self.request("GET", "/api/sandboxes/../../etc/passwd"),
               self.request("GET", "/api/sandboxes", headers="X-API-Key: wrong\r\n")]
        for data in odd:
            with self.sock() as s, contextlib.suppress(OSError):
                s.sendall(data)
                s.settimeout(2)
                s.recv(10000)

    def slow_head(self):
        with self.sock() as s, contextlib.suppress(OSError):
            for byte in b"GET /healthz HTTP/1.1\r\nHost: loc":
                s.sendall(bytes([byte]))
                time.sleep(0.02)

    def flood(self):
        held = []
        try:
            for _ in range(300):
                held.append(self.sock())
        finally:
            for s in held:
                s.close()

    def pipelined(self):
        with self.sock(tcp=False) as s, contextlib.suppress(OSError):
            s.sendall(self.request("GET", "/healthz") * 200)
            s.recv(100)

    def slow_reader(self):
        """Asks for a lot, reads a little and goes."""
        body = json.dumps({"cmd": ["head", "-c", str(SLOW_BYTES), "/dev/zero"]}).encode()
        with self.sock(tcp=False) as s:
            s.sendall(self.request("POST", f"/api/sandboxes/{self.box}/execs?stream=true", body))
            s.recv(100)
            time.sleep(self.chance.uniform(0.1, 0.6))
        self.ground.unix().call("DELETE", f"/api/sandboxes/{self.box}")
        self.box = None

    def websockets_that_vanish(self):
        for what in ("execs/stream", "pty?command=sleep%205", "files/watch?path=."):
            with contextlib.suppress(OSError, EOFError):
                with rest.Rest(self.ground.daemon.socket).websocket(
                        f"/api/sandboxes/{self.box}/{what}") as ws:
                    if what == "execs/stream":
                        ws.send({"cmd": ["sh", "-c", "sleep 1; echo late"], "stdin": True})
                    ws.send(self.chance.randbytes(10), self.chance.randint(0, 15))
                    # A reset instead of an end, where there is one.
                    ws.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def broken_frames(self):
        with contextlib.suppress(OSError, EOFError):
            with rest.Rest(self.ground.daemon.socket).websocket("/api/events?after=0") as ws:
                ws.sock.sendall(self.chance.randbytes(50))
                ws.sock.settimeout(2)
                ws.sock.recv(100)

    def uploads_that_stop(self):
        head = (f"PUT /api/sandboxes/{self.box}/files?path=never HTTP/1.1\r\nHost: localhost\r\n"
                "Content-Length: 1000000\r\n\r\n").encode()
        for _ in range(5):
            with self.sock(tcp=False) as s:
                s.sendall(head + bytes(self.chance.randint(0, 300000)))
                time.sleep(0.01)

    def need_box(self):
        if self.box is None:
            made = self.ground.unix().post("/api/sandboxes", {"provider": "native",
                                                              "metadata": {"soak": "hostile"}})
            self.box = made.json["id"] if made.status == 201 else None
        elif self.ground.unix().get(f"/api/sandboxes/{self.box}").json.get("state") != "running":
            self.ground.unix().delete(f"/api/sandboxes/{self.box}")
            self.box = None
        return self.box is not None

    def strike(self):
        alone = [self.half_requests, self.garbage, self.odd_requests, self.slow_head, self.flood,
                 self.pipelined, self.broken_frames]
        boxed = [self.slow_reader, self.websockets_that_vanish, self.uploads_that_stop]
        deed = self.chance.choice(alone + boxed)
        mark = self.ground.mark()
        if deed in boxed and not self.need_box():
            return
        with contextlib.suppress(OSError):
            deed()
        answer = self.ground.unix().get("/healthz")
        if answer.status != 200 and not self.ground.disturbed(mark):
            self.ground.ledger.finding(f"after {deed.__name__}: /healthz {answer.status}")
        self.ground.ledger.count("hostile clients")

    def leave(self):
        if self.box is not None:
            self.ground.unix().sure("DELETE", f"/api/sandboxes/{self.box}")
            self.box = None
