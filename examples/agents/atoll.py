"""What the examples share: requests to a daemon, with nothing but Python's standard library.

ATOLL_URL and ATOLL_API_KEY say where the daemon is; without them, its socket is used."""

import http.client
import json
import os
import socket
import sys
from urllib.parse import urlsplit


class SocketConnection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ.get("ATOLL_SOCKET", "/run/atoll/atoll.sock"))


def connection():
    url = os.environ.get("ATOLL_URL")
    if not url:
        return SocketConnection("localhost")
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname, parts.port)


def attempt(method, path, body=None):
    """The status and the JSON of the answer."""
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("ATOLL_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    link = connection()
    link.request(method, path, None if body is None else json.dumps(body), headers)
    answer = link.getresponse()
    text = answer.read()
    return answer.status, json.loads(text) if text else None


def call(method, path, body=None):
    """The JSON of the answer; an error of the daemon ends the example with its message."""
    status, answer = attempt(method, path, body)
    if status >= 400:
        sys.exit(f"{method} {path}: {answer['error']['message']}")
    return answer


def run(sandbox, *command):
    """The output of a command in a sandbox."""
    done = call("POST", f"/api/sandboxes/{sandbox}/execs?wait=true", {"cmd": list(command)})
    return done["stdout"]


def need_provider(name):
    """Ends the example with status 77 (skipped) if the daemon lacks the provider."""
    if name not in [provider["name"] for provider in call("GET", "/api/providers")["providers"]]:
        print(f"skipped: this daemon has no provider {name}")
        sys.exit(77)
