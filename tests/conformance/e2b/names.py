"""A name server for one domain: every name in it is this machine.

E2B's clients reach a sandbox as PORT-ID.DOMAIN. No file can list such names ahead, so who is tested
gets a resolver that knows them, in a mount namespace of its own: the machine's is left alone.
"""

import socket
import struct
import threading

DOMAIN = "atoll.test"
TYPE_A, CLASS_IN = 1, 1
NO_ERROR, NO_SUCH_NAME = 0, 3


def question_of(packet):
    """(name, type, the bytes of the question) of a query's first question."""
    labels, at = [], 12
    while packet[at]:
        labels.append(packet[at + 1:at + 1 + packet[at]].decode("ascii", "replace").lower())
        at += 1 + packet[at]
    kind, _ = struct.unpack_from(">HH", packet, at + 1)
    return ".".join(labels), kind, packet[12:at + 5]


def answer_to(packet):
    name, kind, question = question_of(packet)
    known = name == DOMAIN or name.endswith("." + DOMAIN)
    answer = b""
    if known and kind == TYPE_A:
        answer = struct.pack(">HHHIH4s", 0xC00C, TYPE_A, CLASS_IN, 60, 4,
                             socket.inet_aton("127.0.0.1"))
    flags = 0x8580 | (NO_ERROR if known else NO_SUCH_NAME)
    return packet[:2] + struct.pack(">HHHHH", flags, 1, 1 if answer else 0, 0, 0) + question + answer


def serve(sock):
    while True:
        packet, client = sock.recvfrom(1500)
        try:
            sock.sendto(answer_to(packet), client)
        except (IndexError, struct.error):
            continue


def start():
    """Serves on a loopback address of its own; returns that address."""
    for last in range(1, 255):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        address = f"127.53.7.{last}"
        try:
            sock.bind((address, 53))
        except OSError:
            sock.close()
            continue
        threading.Thread(target=serve, args=(sock,), daemon=True).start()
        return address
    raise RuntimeError("no loopback address has port 53 free")
