"""The agent protocol from the daemon's side, as little of it as the tests need."""
import socket
import struct

REPLY, ERROR, PART, OUTPUT, EXIT = 1, 2, 3, 4, 5
HELLO, TUNNEL, EXEC_START, EXEC_RESUME, EXEC_LIST = 32, 33, 40, 45, 46
FDS = 1


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<I", len(raw)) + raw + b"\0"


def frame(kind: int, number: int, payload: bytes = b"") -> bytes:
    return struct.pack("<IHHI", len(payload), kind, 0, number) + payload


def hello(features: int = FDS) -> bytes:
    return struct.pack("<IIIq", 1, features, 0, 0)


def exec_start(number: int, command: str) -> bytes:
    argv = ["/bin/sh", "-c", command]
    return (
        struct.pack("<QI", number, 0) + text("") + text("/")
        + struct.pack("<I", len(argv)) + b"".join(text(arg) for arg in argv)
        + struct.pack("<I", 0) + struct.pack("<IIII", 0, 0, 0, 0)
    )


def tunnel(port: int) -> bytes:
    return struct.pack("<I", port) + text("") + text("")


class Wire:
    """A stream of frames over anything with read(n) and write(bytes)."""

    def __init__(self, reader, writer):
        self.reader, self.writer, self.last = reader, writer, 0
        self.events = []

    def read_exactly(self, n: int) -> bytes:
        data = b""
        while len(data) < n:
            more = self.reader(n - len(data))
            if not more:
                raise EOFError(f"the stream ended after {len(data)} of {n} bytes")
            data += more
        return data

    def receive(self):
        length, kind, _, number = struct.unpack("<IHHI", self.read_exactly(12))
        return kind, number, self.read_exactly(length)

    def ask(self, kind: int, payload: bytes = b""):
        """The final answer; events that come before it are kept."""
        self.last += 1
        self.writer(frame(kind, self.last, payload))
        while True:
            got, number, answer = self.receive()
            if number == self.last and got in (REPLY, ERROR):
                return got, answer
            self.events.append((got, answer))

    def event(self, kind: int) -> bytes:
        while True:
            for at, (got, payload) in enumerate(self.events):
                if got == kind:
                    del self.events[at]
                    return payload
            got, _, payload = self.receive()
            self.events.append((got, payload))


def of_socket(path) -> tuple[Wire, socket.socket]:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(20)
    sock.connect(str(path))
    return Wire(sock.recv, sock.sendall), sock
