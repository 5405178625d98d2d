"""A name server for tests, at sockets that are open already: UDP and TCP."""

import ipaddress
import socket
import struct
import threading

TYPES = {"A": 1, "NS": 2, "CNAME": 5, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "HTTPS": 65}
TYPE_NAMES = {number: name for name, number in TYPES.items()}


def wire_name(name):
    labels = [label for label in name.split(".") if label]
    return b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"


def wire_data(kind, value):
    if kind in ("A", "AAAA"):
        return ipaddress.ip_address(value).packed
    if kind == "TXT":
        text = value.encode()
        return b"".join(bytes([len(text[at:at + 255])]) + text[at:at + 255]
                        for at in range(0, len(text), 255))
    if kind == "MX":
        return struct.pack("!H", value[0]) + wire_name(value[1])
    if kind == "SRV":
        return struct.pack("!HHH", *value[:3]) + wire_name(value[3])
    return wire_name(value)


def read_name(message, at):
    labels = []
    while message[at]:
        labels.append(message[at + 1:at + 1 + message[at]].decode())
        at += 1 + message[at]
    return ".".join(labels), at + 1


class NameServer:
    """records: {(name, type): [values, …]}; every question takes the next values, and the last stay. A
    name "*.example.test" holds for all below. `asked`: the questions, as (name, type)."""

    def __init__(self, udp, tcp, records):
        self.udp, self.tcp, self.records, self.asked = udp, tcp, dict(records), []
        for serve in self.serve_udp, self.serve_tcp:
            threading.Thread(target=serve, daemon=True).start()

    def find(self, name, kind):
        wild = "*." + name.partition(".")[2]
        for key in (name, kind), (wild, kind):
            turns = self.records.get(key)
            if turns:
                return turns.pop(0) if len(turns) > 1 else turns[0]
        known = any(other in (name, wild) for other, _ in self.records)
        return [] if known else None

    def answer(self, question, limit):
        name, at = read_name(question, 12)
        kind = TYPE_NAMES.get(struct.unpack_from("!H", question, at)[0], "?")
        self.asked.append((name.lower(), kind))
        values = self.find(name.lower(), kind)
        records = b""
        for value in values or []:
            data = wire_data(kind, value)
            records += struct.pack("!HHHIH", 0xC00C, TYPES[kind], 1, 0, len(data)) + data
        flags, count = 0x8180 | (3 if values is None else 0), len(values or [])
        if 12 + at + len(records) > limit:
            flags, count, records = flags | 0x0200, 0, b""
        return (question[:2] + struct.pack("!HHHHH", flags, 1, count, 0, 0) + question[12:at + 4] +
                records)

    def serve_udp(self):
        while True:
            try:
                question, peer = self.udp.recvfrom(4096)
            except OSError:
                return
            self.udp.sendto(self.answer(question, 512), peer)

    def serve_tcp(self):
        while True:
            try:
                connection, _ = self.tcp.accept()
            except OSError:
                return
            with connection:
                question = connection.recv(4096)[2:]
                answer = self.answer(question, 65535)
                connection.sendall(struct.pack("!H", len(answer)) + answer)

    def close(self):
        self.tcp.shutdown(socket.SHUT_RDWR)  # a thread waits in accept()
        self.tcp.close()
        self.udp.close()
