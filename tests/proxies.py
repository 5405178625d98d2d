"""Proxies for tests."""

import contextlib
import socket
import threading

from networks import FAR


def relay(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


class Socks(threading.Thread):
    """A SOCKS5 proxy that wants a password (RFC 1928, 1929), and knows what it was asked for. It connects to one
    address, whatever it was asked for."""

    def __init__(self, far, to=FAR[0]):
        super().__init__(daemon=True)
        self.far, self.to, self.asked = far, to, []
        self.listening = far.listen(FAR[3])
        self.start()

    @property
    def login(self):
        """As a policy names it."""
        return {"address": f"{FAR[3]}:{self.listening.getsockname()[1]}", "username": "u", "password": "hush"}

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=self.listening.accept()[:1], daemon=True).start()

    def serve(self, client):
        stream = client.makefile("rb")
        stream.read(stream.read(2)[1])
        client.sendall(b"\5\2")
        user = stream.read(stream.read(2)[1])
        password = stream.read(stream.read(1)[0])
        if (user, password) != (b"u", b"hush"):
            client.sendall(b"\1\1")
            return client.close()
        client.sendall(b"\1\0")
        kind = stream.read(4)[3]
        host = {1: lambda: socket.inet_ntop(socket.AF_INET, stream.read(4)),
                3: lambda: stream.read(stream.read(1)[0]).decode(),
                4: lambda: socket.inet_ntop(socket.AF_INET6, stream.read(16))}[kind]()
        port = int.from_bytes(stream.read(2), "big")
        self.asked.append((host, port))
        server = self.far.inside(lambda: socket.create_connection((self.to, port), 10))
        client.sendall(b"\5\0\0\1" + bytes(6))
        threading.Thread(target=relay, args=(server, client), daemon=True).start()
        return relay(client, server)
