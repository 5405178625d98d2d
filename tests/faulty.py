"""A proxy that lets a service fail as services do: refused, silent, cut off, garbage, 429 and 503.

    with Faulty(upstream, listen) as proxy:
        proxy.fail("status", times=2, status=503)

Addresses are (host, port), or the path of a unix socket. What a fault is not meant for passes, byte
by byte. A fault ends connections that were open before it, so that nobody goes on over one.
"""

import contextlib
import os
import re
import select
import socket
import threading

FOREVER = 1 << 30
REQUEST = re.compile(rb"(GET|HEAD|POST|PUT|PATCH|DELETE) \S+ HTTP/1")
REASONS = {401: "Unauthorized", 403: "Forbidden", 429: "Too Many Requests",
           500: "Internal Server Error", 503: "Service Unavailable"}


def connect(address):
    if isinstance(address, tuple):
        return socket.create_connection(address, 10)
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(address))
    return sock


class Faulty:
    def __init__(self, upstream, listen):
        self.upstream, self.listen = upstream, listen
        family = socket.AF_INET if isinstance(listen, tuple) else socket.AF_UNIX
        self.listener = socket.socket(family)
        if family == socket.AF_INET:
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(listen if isinstance(listen, tuple) else str(listen))
        self.listener.listen(128)
        self.address = self.listener.getsockname()
        self.lock = threading.Lock()
        self.open = set()
        self.kind, self.left, self.options, self.matching = None, 0, {}, b""
        self.struck = 0  # how often a fault was met
        self.wake, self.bell = os.pipe()
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.write(self.bell, b"x")
        self.thread.join()
        self.listener.close()
        self.cut()
        os.close(self.wake)
        os.close(self.bell)
        if not isinstance(self.listen, tuple):
            os.unlink(self.listen)

    def fail(self, kind, times=FOREVER, matching=b"", **options):
        """kind: hang, close, garbage, or status (status=, headers=). matching: only requests whose
        head has these bytes."""
        with self.lock:
            self.kind, self.left, self.options, self.matching = kind, times, options, matching
            self.struck = 0
        self.cut()

    def work(self):
        with self.lock:
            self.kind, self.left = None, 0
        self.cut()

    def cut(self):
        """Ends every connection there is."""
        with self.lock:
            ended, self.open = self.open, set()
        for sock in ended:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def accept(self):
        while self.wake not in select.select([self.listener, self.wake], [], [])[0]:
            client, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with contextlib.suppress(OSError), client:
            with self.lock:
                self.open.add(client)
            self.relay(client, read_head(client))
            with self.lock:
                self.open.discard(client)

    def take(self, head):
        """The fault that this request meets, if any."""
        with self.lock:
            if not self.kind or not self.left or self.matching not in head:
                return None
            self.left -= 1
            self.struck += 1
            return self.kind

    def strike(self, kind, client):
        if kind == "hang":
            while client.recv(65536):
                pass
        elif kind == "garbage":
            client.sendall(b"\x00\xff nothing that anybody speaks \r\n\r\n" * 50)
        elif kind == "status":
            client.sendall(answer(**self.options))
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):  # a reset would overtake the answer
                pass

    def relay(self, client, head):
        """Request by request, for as long as they pass."""
        fault = self.take(head)
        if not fault:
            with connect(self.upstream) as server:
                fault = self.forward(client, server, head)
        if fault:
            self.strike(fault, client)

    def forward(self, client, server, data):
        with self.lock:
            self.open.add(server)
        struck = threading.Event()
        back = threading.Thread(target=pump, args=(server, client, struck), daemon=True)
        back.start()
        fault = None
        with contextlib.suppress(OSError):
            while data and not fault:
                server.sendall(data)
                data = client.recv(65536)
                fault = self.take(data) if REQUEST.match(data) else None
            if fault:
                struck.set()
            server.shutdown(socket.SHUT_RDWR if fault else socket.SHUT_WR)
        back.join()
        with self.lock:
            self.open.discard(server)
        return fault


def read_head(client):
    head = b""
    while b"\r\n\r\n" not in head and len(head) < 65536:
        data = client.recv(65536)
        if not data:
            break
        head += data
    return head


def answer(status, headers=(), body=b'{"code":0,"message":"a fault of the test"}',
           kind="application/json"):
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Odd')}", f"Content-Type: {kind}",
             f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def pump(source, target, struck):
    """To the end of the source, which ends the target's, too, unless that is to hear more."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    if not struck.is_set():
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
