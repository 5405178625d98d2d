"""A client of the E2B sandbox plane: Connect calls and plain HTTP, as the SDKs send them."""

import base64
import contextlib
import hashlib
import json
import struct

from rest import PATIENCE, Answer, Rest

ENVD = 49983


def envelope(message, flags=0):
    body = json.dumps(message).encode()
    return struct.pack(">BI", flags, len(body)) + body


class Stream:
    """The answer to a streaming call: iterates over messages; `end` is the last envelope."""

    def __init__(self, connection):
        self.connection = connection
        self.response = connection.getresponse()
        self.status = self.response.status
        self.headers = self.response.headers
        self.end = None

    def take(self, n):
        got = b""
        while len(got) < n:
            piece = self.response.read(n - len(got))
            if not piece:
                raise EOFError("the stream was cut off")
            got += piece
        return got

    def __iter__(self):
        return self

    def __next__(self):
        if self.end is not None:
            raise StopIteration
        flags, n = struct.unpack(">BI", self.take(5))
        message = json.loads(self.take(n))
        if flags & 2:
            self.end = message
            assert not self.response.read(), "bytes behind the end"
            raise StopIteration
        return message

    def close(self):
        self.response.close()
        self.connection.close()


class Result:
    """What a process did."""

    def __init__(self, stream):
        self.pid, self.stdout, self.stderr, self.pty, self.exit = None, b"", b"", b"", None
        for message in stream:
            event = message["event"]
            if "start" in event:
                self.pid = event["start"]["pid"]
            elif "data" in event:
                for name, data in event["data"].items():
                    setattr(self, name, getattr(self, name) + base64.b64decode(data))
            elif "end" in event:
                self.exit = event["end"]
        self.error = stream.end.get("error")
        stream.close()


class Envd:
    """One sandbox of the E2B facade, addressed by headers."""

    def __init__(self, rest, sandbox):
        self.rest = rest
        self.id = sandbox["sandboxID"]
        self.token = sandbox.get("envdAccessToken")
        self.traffic_token = sandbox.get("trafficAccessToken")
        self.headers = {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": str(ENVD)}
        if self.token:
            self.headers["X-Access-Token"] = self.token

    def http(self, method, path, body=None, headers=None, /, **query):
        return self.rest.call(method, path, body, {**self.headers, **(headers or {})}, **query)

    def call_raw(self, method, message, headers=None):
        return self.http("POST", "/" + method, message,
                         {"Content-Type": "application/json", **user_header("", headers)})

    def call(self, method, message, user=None):
        answer = self.http("POST", "/" + method, message,
                           {"Content-Type": "application/json", **user_header(user)})
        assert answer.headers["content-type"] == "application/json", answer.body
        return answer

    def process(self, method, message, user=None):
        return self.call("process.Process/" + method, message, user)

    def fs(self, method, user=None, /, **message):
        return self.call("filesystem.Filesystem/" + method, message, user)

    def stream(self, method, message, user=None, headers=None, timeout=PATIENCE):
        connection = self.rest.connection(timeout)
        body = message if isinstance(message, bytes) else envelope(message)
        # An answer that comes before the whole body was sent is an answer all the same.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request("POST", "/" + method, body,
                               {**self.headers, "Content-Type": "application/connect+json",
                                "Connect-Protocol-Version": "1", **user_header(user),
                                **(headers or {})})
        return Stream(connection)

    def start(self, *argv, user=None, headers=None, process=None, **fields):
        message = {"process": {"cmd": argv[0], "args": list(argv[1:]), **(process or {})},
                   "stdin": False, **fields}
        return self.stream("process.Process/Start", message, user, headers)

    def run(self, script, **kwargs):
        return Result(self.start("/bin/bash", "-l", "-c", script, **kwargs))

    def upload(self, path, data, headers=None, /, **query):
        return self.http("POST", "/files", data,
                         {"Content-Type": "application/octet-stream", **(headers or {})},
                         path=path, **query)

    def form(self, parts, headers=None, /, **query):
        """parts: (filename or None, bytes) …, all named "file"."""
        body = b""
        for name, data in parts:
            extra = f'; filename="{name}"' if name else ""
            body += (f'--edge\r\nContent-Disposition: form-data; name="file"{extra}\r\n\r\n'
                     .encode() + data + b"\r\n")
        return self.http("POST", "/files", body + b"--edge--\r\n",
                         {"Content-Type": "multipart/form-data; boundary=edge", **(headers or {})},
                         **query)

    def download(self, path, headers=None, /, **query):
        return self.http("GET", "/files", None, headers, path=path, **query)

    def sign(self, path, operation="read", user="", expiration=None):
        text = f"{path}:{operation}:{user}:{self.token}"
        if expiration is not None:
            text += f":{expiration}"
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        query = {"path": path, "signature": "v1_" + digest}
        if user:
            query["username"] = user
        if expiration is not None:
            query["signature_expiration"] = str(expiration)
        return query

    def kill(self):
        return self.rest.delete(f"/sandboxes/{self.id}")


def user_header(user, headers=None):
    if not user:
        return headers or {}
    token = base64.b64encode(f"{user}:".encode()).decode()
    return {"Authorization": f"Basic {token}", **(headers or {})}


def create(daemon, **fields):
    rest = Rest(daemon.socket)
    answer = rest.post("/sandboxes", {"templateID": "base", "timeout": 300, "secure": True,
                                      **fields})
    assert answer.status == 201, answer.body
    return Envd(rest, answer.json)


__all__ = ["Answer", "Envd", "Result", "Stream", "create", "envelope"]
