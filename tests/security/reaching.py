"""Runs inside a sandbox: tries to reach servers, and prints for each attempt whether one answered.

    python3 reaching.py '[{"how": "http", "address": "203.0.113.10", "port": 8080, "name": "one.test"}]'
"""
import json
import socket
import ssl
import sys
import time

ANSWER = b"far"  # what every server of the test says
PATIENCE = 8


def answers(sock):
    seen = b""
    while ANSWER not in seen:
        piece = sock.recv(4096)
        if not piece:
            return False
        seen += piece
    return True


def http(sock, name):
    sock.sendall(f"GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
    return answers(sock)


def pieces(sock, name):
    """The head of the request in small pieces, none of which has the whole name."""
    head = f"GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode()
    for at in range(0, len(head), 8):
        sock.sendall(head[at:at + 8])
        time.sleep(0.01)
    return answers(sock)


def absolute(sock, name):
    """The name that counts for many servers is in the target, another one in Host."""
    good, bad = name.split(",")
    sock.sendall(f"GET http://{bad}/ HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\n\r\n".encode())
    return answers(sock)


def slow(sock, name):
    """Says nothing for longer than atoll-egress waits for the first bytes."""
    time.sleep(0.5)
    return http(sock, name)


def tls(sock, name):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return answers(context.wrap_socket(sock, server_hostname=name or None))


def raw(sock, name):
    sock.sendall(b"\x01")
    return answers(sock)


def banner(sock, name):
    """The server speaks first."""
    return answers(sock)


HOW = {f.__name__: f for f in (http, pieces, absolute, slow, tls, raw, banner)}


def reach(how, address, port, name="", ask=None):
    try:
        if ask:
            socket.getaddrinfo(ask, port)
        with socket.create_connection((address, port), timeout=PATIENCE) as sock:
            return HOW[how](sock, name)
    except OSError:
        return False


if __name__ == "__main__":
    print(json.dumps([reach(**attempt) for attempt in json.loads(sys.argv[1])]))
