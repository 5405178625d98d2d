"""What a program tries against the network of its namespace. Runs inside a sandbox, and outside as the
control: `python3 netlinks.py attempts` prints the outcome of each attempt as JSON, `python3
netlinks.py scatter` sends datagrams to 60,000 addresses and prints how many entries of connection
tracking its namespace has. With `tracked` in front, it first makes the kernel track connections."""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import socket
import struct
import sys

PORT = 65530  # ATOLL_NETSPACE_PORT
ROUTE, NETFILTER = 0, 12
REQUEST_ACK, CREATE = 0x5, 0x605  # NLM_F_REQUEST | NLM_F_ACK, and NLM_F_CREATE | NLM_F_EXCL
LO = 1
ADDRESSES = 60000


def attribute(kind, data):
    return (struct.pack("HH", 4 + len(data), kind) + data).ljust((len(data) + 7) & ~3, b"\0")


def message(kind, flags, body, number=1):
    return struct.pack("IHHII", 16 + len(body), kind, flags, number, 0) + body


def ask(protocol, messages):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as netlink:
        netlink.settimeout(5)
        netlink.sendto(messages, (0, 0))
        number = -struct.unpack("i", netlink.recv(4096)[16:20])[0]
    if number:
        raise OSError(number, os.strerror(number))


def add_address():
    own = bytes([10, 9, 8, 7])
    ask(ROUTE, message(20, CREATE, struct.pack("BBBBI", 2, 32, 0, 0, LO) + attribute(2, own) +
                       attribute(1, own)))


def remove_address():
    ask(ROUTE, message(21, REQUEST_ACK, struct.pack("BBBBI", 2, 8, 0, 0, LO) +
                       attribute(2, bytes([127, 0, 0, 1]))))


def add_route():
    ask(ROUTE, message(24, CREATE, struct.pack("BBBBBBBBI", 2, 32, 0, 0, 254, 4, 253, 1, 0) +
                       attribute(1, bytes([192, 0, 2, 1])) + attribute(4, struct.pack("I", LO))))


def add_device():
    ask(ROUTE, message(16, CREATE, struct.pack("BBHiII", 0, 0, 0, 0, 0, 0) +
                       attribute(18, attribute(1, b"veth\0"))))


def nft(*messages):
    batch = struct.pack(">BBH", 0, 0, 10)
    ask(NETFILTER, message(16, 1, batch) + b"".join(messages) + message(17, 1, batch, 9))


def add_rules():
    nft(message(10 << 8, 0x405, struct.pack(">BBH", 1, 0, 0) + attribute(1, b"mine\0"), 2))


def take_port(kind):
    with socket.socket(socket.AF_INET6, kind) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("::", PORT))


def transparent():
    with socket.socket(socket.AF_INET6) as taken:
        taken.setsockopt(socket.IPPROTO_IPV6, 75, 1)


def link_down():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", b"lo", 0))


def setting():
    with open("/proc/sys/net/ipv4/ip_nonlocal_bind", "w") as file:
        file.write("1")


def own_namespace():
    if ctypes.CDLL(None, use_errno=True).unshare(0x50000000) < 0:  # user and network
        raise OSError(ctypes.get_errno(), "unshare")


ATTEMPTS = {
    "add an address": add_address,
    "remove an address": remove_address,
    "add a route": add_route,
    "add a device": add_device,
    "add rules": add_rules,
    "accept connections to all addresses": transparent,
    "raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close(),
    "packet socket": lambda: socket.socket(17, socket.SOCK_RAW, 0).close(),
    "take the TCP port": lambda: take_port(socket.SOCK_STREAM),
    "take the UDP port": lambda: take_port(socket.SOCK_DGRAM),
    "set lo down": link_down,
    "change a setting": setting,
    "namespace of its own": own_namespace,
}


def outcome(attempt):
    try:
        attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "done"


def track():
    """One rule that looks at the state of connections makes the kernel track all of the namespace."""
    inet, table = struct.pack(">BBH", 1, 0, 0), attribute(1, b"track\0")
    hook = attribute(1, struct.pack(">I", 3)) + attribute(2, struct.pack(">i", 0))  # output
    state = attribute(1, struct.pack(">I", 1)) + attribute(2, struct.pack(">I", 0))
    nft(message(10 << 8, 0x401, inet + table, 2),
        message(10 << 8 | 3, 0x401, inet + table + attribute(3, b"output\0") +
                attribute(4, hook) + attribute(7, b"filter\0"), 3),
        message(10 << 8 | 6, 0xc05, inet + table + attribute(2, b"output\0") +
                attribute(4, attribute(1, attribute(1, b"ct\0") + attribute(2, state))), 4))


def scatter():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for i in range(ADDRESSES):
            for port in (53, 443):
                # Refusals of earlier datagrams, and a full queue of the resolver.
                with contextlib.suppress(OSError):
                    sender.sendto(b"x", socket.MSG_DONTWAIT,
                                  (f"198.18.{i >> 8}.{i & 255}", port))
    with open("/proc/net/stat/nf_conntrack") as file:
        return int(file.read().splitlines()[1].split()[0], 16)


def main(words):
    if words[0] == "tracked":
        track()
        words = words[1:]
    if words == ["attempts"]:
        print(json.dumps({name: outcome(attempt) for name, attempt in ATTEMPTS.items()}))
    else:
        print(scatter())


if __name__ == "__main__":
    main(sys.argv[1:])
