"""What a test of one route is made of: a call that works, one that cannot, what each answers."""

import dataclasses
import json
import re
from typing import Any, Callable

from rest import WebSocket

# docs/api.md, "Errors": what a status may be called.
CODES = {
    400: {"invalid_argument", "out_of_range"}, 401: {"unauthenticated"}, 403: {"permission_denied"},
    404: {"not_found"}, 405: {"unimplemented"}, 409: {"already_exists", "failed_precondition",
                                                     "aborted"},
    413: {"resource_exhausted"}, 426: {"failed_precondition", "invalid_argument"},
    429: {"resource_exhausted"}, 501: {"unimplemented"}, 503: {"unavailable"},
    507: {"resource_exhausted"},
}


@dataclasses.dataclass
class Ask:
    """A call: what is added to the route, and what the answer must be."""

    status: int
    query: str = ""
    body: Any = None  # a dict is sent as JSON, bytes as they are
    check: Callable = None  # given the answer, and what the parameters of the route stand for
    method: str = None  # another than the route's
    at: dict = dataclasses.field(default_factory=dict)  # other values for parameters
    headers: dict = dataclasses.field(default_factory=dict)
    by: str = "plain"  # "ws": upgraded; "quiet": likewise, and nothing comes;
    #                  "stream": no end; "quiet stream": likewise, and nothing comes at first

    def send(self, client, method, route, values):
        values = {**values, **self.at}
        path = re.sub(r"\{(\w+)\}", lambda match: str(values[match[1]]), route + self.query)
        body = self.body(values) if callable(self.body) else self.body
        if self.by in ("ws", "quiet"):
            return Upgraded(client, path, body, self.by == "quiet")
        if self.by in ("stream", "quiet stream"):
            return Streaming(client, path, self.headers, self.by == "quiet stream")
        return client.call(self.method or method, path, body, self.headers)


class Upgraded:
    """A WebSocket, its first message sent and the first one received; or the refusal."""

    def __init__(self, client, path, first, quiet):
        socket = WebSocket(client.socket(20), path, client.headers)
        self.status, self.body, self.headers = socket.status, b"", {}
        with socket:
            if self.status == 101:
                if first is not None:
                    socket.send(first)
                self.body = b"" if quiet else socket.recv()[1]
            else:
                self.body = socket.pending

    @property
    def json(self):
        return json.loads(self.body)


class Streaming:
    """The status of an answer that has no end, and its first line unless quiet; errors whole."""

    def __init__(self, client, path, headers, quiet):
        connection = client.connection(20)
        try:
            connection.request("GET", path, None, {**client.headers, **headers})
            response = connection.getresponse()
            self.status, self.headers = response.status, response.headers
            self.body = b""
            if self.status >= 400:
                self.body = response.read()
            elif not quiet:
                self.body = response.readline()
        finally:
            connection.close()

    @property
    def json(self):
        return json.loads(self.body)


@dataclasses.dataclass
class Entry:
    good: Ask
    bad: Ask  # None: it takes no input
    # What the route needs to be there: given the world, values for its parameters.
    given: Callable = None
    # What another tenant gets for the good call; None: it is the same for everybody. A callable
    # looks at the answer, and at what is ours.
    foreign: Any = None


def assert_error(route, answer, status, case):
    """The documented shape: ours, that of JSON-RPC at /mcp, those of Daytona and Vercel below /daytona
    and /vercel, or else that of E2B."""
    assert answer.status == status, (case, answer.status, answer.body[:500])
    if not answer.body:
        return  # to HEAD, or a WebSocket whose refusal has not come yet
    if route.startswith("/daytona/object-storage/contexts"):
        assert re.fullmatch(rb"<\?xml.*<Error><Code>\w+</Code><Message>.+</Message>.*</Error>", answer.body,
                            re.DOTALL), (case, answer.body)
        return
    body = answer.json
    if route.startswith("/api") or route in ("/healthz", "/readyz", "/metrics"):
        error = body["error"]
        assert set(body) == {"error"} and error["request_id"] and error["message"], case
        assert error["code"] in CODES[status], (case, error)
        assert set(error) <= {"code", "message", "request_id", "hint", "evidence"}, case
    elif route == "/mcp":
        assert body["jsonrpc"] == "2.0" and body["error"]["code"] < 0 and body["error"]["message"], (case, body)
    elif route.startswith("/vercel/"):
        assert set(body) == {"error"} and body["error"]["code"] and body["error"]["message"], (case, body)
    elif route.startswith("/daytona/"):
        assert body["statusCode"] == status and body["message"] and body["code"], (case, body)
        inside = route.startswith("/daytona/toolbox/")
        assert body["source"] == ("DAYTONA_DAEMON" if inside else "DAYTONA_API"), (case, body)
    else:
        code = str(status) if route.startswith("/volumecontent/") else status
        assert body["code"] == code and isinstance(body["message"], str), (case, body)
        assert body["message"], case
