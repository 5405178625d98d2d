"""What no client should send: each is one documented error, and nothing happens.

Fields and their types are taken from the API's own description, so that a new one is here at once.
"""

import json
import re

import pytest
from rest import Rest

DEEP = 100_000


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture(scope="module")
def document(rest):
    return rest.get("/api/openapi.json").json


@pytest.fixture
def box(rest):
    made = rest.post("/api/sandboxes", {}).json["id"]
    yield f"/api/sandboxes/{made}"
    rest.delete(f"/api/sandboxes/{made}")


@pytest.fixture(autouse=True)
def nothing_is_left(rest):
    """Whatever is sent, the daemon goes on, and no sandbox comes of it."""
    before = len(rest.get("/api/sandboxes").json["sandboxes"])
    yield
    assert rest.get("/healthz").json["status"] == "ok"
    assert len(rest.get("/api/sandboxes").json["sandboxes"]) <= before


def refused(answer, case, says=""):
    assert answer.status == 400, (case, answer.status, answer.body[:300])
    error = answer.error
    assert error["code"] == "invalid_argument" and error["request_id"], (case, error)
    assert says in error["message"], (case, error)


# Values of every wrong type for every field.

WRONG = {
    "string": [5, 1.5, True, [], {}, ["x"]],
    "number": ["5", True, [], {}, -1e300, 1e300],
    "integer": ["5", True, [], {}, 1.5, -1, 1e300],
    "boolean": ["true", 1, 0, [], {}],
    "array": ["x", 5, True, {}, {"0": "x"}],
    "object": ["x", 5, True, [], [{}]],
}


def resolved(document, schema):
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def bad_fields(document, schema, where=()):
    """(path of the field, value) for each field and each type it does not have."""
    for name, field in resolved(document, schema).get("properties", {}).items():
        field = resolved(document, field)
        kinds = field.get("type", [])
        kinds = {kinds} if isinstance(kinds, str) else set(kinds)
        if not kinds or len(kinds) > 1:
            continue
        kind = kinds.pop()
        for value in WRONG[kind]:
            yield (*where, name), value
        if kind == "object":
            yield from bad_fields(document, field, (*where, name))
            if field.get("additionalProperties") is not True:
                yield (*where, name), {"no such field": 1}


def with_field(base, path, value):
    body = json.loads(json.dumps(base))
    at = body
    for name in path[:-1]:
        at = at.setdefault(name, {})
    at[path[-1]] = value
    return body


@pytest.mark.parametrize("schema, path, base", [
    ("SandboxRequest", "/api/sandboxes", {}),
    ("SessionRequest", "/api/sessions", {"environment": "Bash"}),
    ("RunRequest", "/api/run", {"cmd": ["true"]}),
    ("ExecRequest", "{box}/execs", {"cmd": ["true"]}),
    ("ExecuteRequest", "{session}/execute", {"code": "true"}),
    ("FileBatch", "{box}/files/batch", {"files": []}),
    ("SignRequest", "{box}/files/sign", {"path": "x"}),
    ("PreviewRequest", "{box}/previews", {"port": 80}),
    ("KeyRequest", "/api/keys", {"tenant": "t", "scope": "read"}),
    ("Signal", "{box}/execs/{exec}/signal", {"signal": 15}),
    ("Size", "{box}/execs/{exec}/resize", {"cols": 80, "rows": 24}),
    ("Timeout", "{box}/timeout", {"seconds": 5}),
    ("SandboxPatch", "{box}", {"metadata": {}}),
    ("GitCloneRequest", "{box}/git/clone", {"url": "https://h/r"}),
    ("GitCommitRequest", "{box}/git/commit", {"message": "m"}),
    ("GitPushRequest", "{box}/git/push", {}),
    ("GitStashApplyRequest", "{box}/git/stash/apply", {}),
])
def test_every_field_of_every_wrong_type(rest, document, box, schema, path, base):
    made = rest.post("/api/sessions", {"environment": "Bash"}).json
    session = f"/api/sessions/{made['session_id']}"
    exec_id = rest.post(f"{box}/execs", {"cmd": ["cat"], "stdin": True}).json["exec_id"]
    path = path.replace("{box}", box).replace("{session}", session).replace("{exec}", exec_id)
    tried = 0
    for field, value in bad_fields(document, document["components"]["schemas"][schema]):
        method = "PATCH" if schema == "SandboxPatch" else "POST"
        answer = rest.call(method, path, with_field(base, field, value))
        # The error names the field, or what in it is wrong.
        refused(answer, (schema, field, value))
        assert field[-1] in answer.error["message"] or field[0] in answer.error["message"], (
            field, value, answer.error)
        tried += 1
    assert tried > 0
    refused(rest.call("PATCH" if schema == "SandboxPatch" else "POST", path,
                      {**base, "no such field": 1}), schema, "no such field")
    assert rest.delete(session).status == 204


# Bodies that are no JSON, or more than JSON.

BODIES = {
    "not JSON": b"{nope", "half": b'{"metadata":', "empty list": b"[]", "a string": b'"x"',
    "a number": b"5", "null": b"null", "two": b"{}{}", "a comma too many": b'{"metadata":{},}',
    "a comment": b"{/**/}", "twice": b'{"metadata":{},"metadata":{}}', "a BOM": b"\xef\xbb\xbf{}",
    "no UTF-8": b'{"template":"\xff"}', "half a character": b'{"template":"\xc3"}',
    "a surrogate": b'{"template":"\\ud800"}', "a NUL": b'{"template":"a\\u0000b"}',
    "a raw NUL": b'{"template":"a\0b"}', "a raw newline": b'{"template":"a\nb"}',
    "NaN": b'{"limits":{"memoryMB":NaN}}', "infinite": b'{"limits":{"memoryMB":1e999}}',
    "a huge integer": b'{"limits":{"pids":99999999999999999999999}}',
    "hex": b'{"limits":{"pids":0x10}}', "deep arrays": b'{"metadata":' + b"[" * DEEP,
    "deep objects": b'{"metadata":' + b'{"a":' * DEEP, "65 deep": b"[" * 65 + b"]" * 65,
    "deep in a field": b'{"metadata":' + b"[" * 64 + b"]" * 64 + b"}",
    "single quotes": b"{'template':'host'}", "only blanks": b"   ",
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(rest, box, name):
    for path in ("/api/sandboxes", "/api/sessions", "/api/run", f"{box}/execs", f"{box}/timeout"):
        refused(rest.call("POST", path, BODIES[name]), (name, path))


def test_texts_with_a_nul(rest, box):
    """They would be cut short where C begins."""
    for path, body in [(f"{box}/execs", {"cmd": ["echo", "a\0b"]}),
                       (f"{box}/execs", {"cmd": ["true"], "cwd": "/\0"}),
                       (f"{box}/execs", {"cmd": ["true"], "env": {"A": "x\0y"}}),
                       ("/api/sandboxes", {"artifacts": ["a\0b"]}),
                       ("/api/sandboxes", {"metadata": {"k": "a\0b"}})]:
        refused(rest.post(path, body), (path, body))


# Ids and paths.

@pytest.mark.parametrize("name", ["..", "%2e%2e", "a%2fb", "a%2Fb", "%00", "A", "a_b", "a.b", "a b",
                                  "a%20b", "x" * 33, "x" * 5000, "%", "%zz", "%c3%a4", "*", "-",
                                  "'", "a;b", "a:b", "a%0d%0ab"])
def test_ids(rest, box, name):
    for path in (f"/api/sandboxes/{name}", f"/api/sandboxes/{name}/files?path=x",
                 f"/api/sessions/{name}", f"/api/artifacts/{name}", f"{box}/execs/{name}"):
        answer = raw(rest, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        assert answer[0] in (400, 404, 414), (path, answer)


@pytest.mark.parametrize("path", ["/api/../api/host", "/api/./host", "/api/%2e%2e/x", "//api/host",
                                  "/api//host", "/api/host/", "/api/host/%2e%2e", "/api%2fhost"])
def test_paths_that_lead_elsewhere(rest, path):
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
    assert raw(rest, request)[0] in (400, 404), path


@pytest.mark.parametrize("path", ["../../../etc/shadow", "/etc/shadow", "/proc/1/root/etc/shadow",
                                  "/proc/self/root/../etc/shadow", "a/../../../../etc/shadow"])
def test_paths_stay_inside(rest, box, path):
    """They are the sandbox's own: what is there is not the host's, and not for its user."""
    answer = rest.get(f"{box}/files", path=path)
    assert answer.status in (400, 403, 404), (path, answer.body[:200])
    assert answer.error["code"] in ("invalid_argument", "permission_denied", "not_found")


# HTTP that two parsers could read differently, or that has no end.

def raw(rest, request):
    """(status, body as JSON or None, whether the server closed the connection)"""
    with rest.socket(10) as sock:
        sock.sendall(request)
        received = b""
        while b"\r\n\r\n" not in received and (piece := sock.recv(65536)):
            received += piece
        head, _, body = received.partition(b"\r\n\r\n")
        if not head:
            return 0, None, True
        length = re.search(rb"(?i)^content-length: (\d+)", head, re.MULTILINE)
        while length and len(body) < int(length[1]) and (piece := sock.recv(65536)):
            body += piece
        closes = b"connection: close" in head.lower()
        if closes:
            assert sock.recv(1) == b"", "said to be closed, and is not"
    parsed = json.loads(body) if body.startswith(b"{") else None
    return int(head.split()[1]), parsed, closes


HEAD = b"POST /api/sandboxes HTTP/1.1\r\nHost: x\r\n"
SMUGGLED = b"DELETE /api/sandboxes HTTP/1.1\r\nHost: x\r\n\r\n"

REQUESTS = {
    "both lengths": HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both, the other way":
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
    "a list of lengths": HEAD + b"Content-Length: 2, 3\r\n\r\n{} ",
    "a signed length": HEAD + b"Content-Length: +2\r\n\r\n{}",
    "a hex length": HEAD + b"Content-Length: 0x2\r\n\r\n{}",
    "a negative length": HEAD + b"Content-Length: -1\r\n\r\n{}",
    "a huge length": HEAD + b"Content-Length: 99999999999999999999\r\n\r\n{}",
    "an unknown coding": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "not chunked at last": HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "a coding in disguise": HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a folded header": HEAD + b"X-A: b\r\n c\r\n\r\n",
    "no colon": HEAD + b"nonsense\r\n\r\n",
    "a header without a name": HEAD + b": x\r\n\r\n",
    "a NUL in a header": HEAD + b"X-A: a\0b\r\n\r\n",
    "bare line ends": b"GET /api/host HTTP/1.1\nHost: x\n\n",
    "a bare return": HEAD + b"X-A: b\rX-B: c\r\n\r\n",
    "no host": b"GET /api/host HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /api/host HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "no version": b"GET /api/host\r\n\r\n",
    "an unknown version": b"GET /api/host HTTP/3.7\r\nHost: x\r\n\r\n",
    "no target": b"GET  HTTP/1.1\r\nHost: x\r\n\r\n",
    "a method there is not": b"BREW /api/host HTTP/1.1\r\nHost: x\r\n\r\n",
    "noise": bytes(range(256)) * 4 + b"\r\n\r\n",
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100 + b"\r\n\r\n",
    "a chunk that is no number": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "a signed chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
    "a chunk of half the world":
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}\r\n0\r\n\r\n",
    "a chunk without its end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}xx0\r\n\r\n",
    "a chunk longer than said": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
}
LONG = {
    "a huge header": HEAD + b"X-A: " + b"x" * 100_000 + b"\r\n\r\n",
    "many headers": HEAD + b"".join(b"X-%d: y\r\n" % i for i in range(1000)) + b"\r\n",
    "a huge name": HEAD + b"X" * 100_000 + b": y\r\n\r\n",
    "a huge target": b"GET /api/sandboxes/" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a huge query": b"GET /api/sandboxes?a=" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.mark.parametrize("name", REQUESTS)
def test_requests(rest, box, name):
    """One error, and the connection is closed: what follows is never taken for a request."""
    status, body, closed = raw(rest, REQUESTS[name] + SMUGGLED)
    assert status in (400, 405, 501, 505), (name, status, body)
    assert closed, name
    assert body["error"]["code"] and body["error"]["message"], (name, body)
    assert rest.get(box).status == 200, "the smuggled request was served"


@pytest.mark.parametrize("name", LONG)
def test_requests_that_are_too_long(rest, name):
    status, body, closed = raw(rest, LONG[name])
    assert status in (400, 414, 431) and closed, (name, status)
    assert body["error"]["code"] and body["error"]["message"], (name, body)


def test_a_body_that_never_comes_costs_nobody_anything(rest):
    with rest.socket(10) as sock:
        sock.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
        assert rest.get("/healthz").status == 200


def test_bodies_that_are_too_large(rest, box):
    for path, size in [("/api/sandboxes", 1 << 20), (f"{box}/execs", 1 << 20),
                       ("/api/run", 16 << 20)]:
        answer = rest.call("POST", path, b" " * (size + 1))
        assert (answer.status, answer.error["code"]) == (413, "resource_exhausted"), path
        assert f"larger than {size >> 20} MiB" in answer.error["message"] and answer.error["hint"]


def test_an_archive_that_is_none(rest):
    """It is refused in the middle; the error was a part of what is freed then."""
    answer = rest.call("PUT", "/api/templates/none", b"\xff" * (8 << 20))
    assert (answer.status, answer.error["code"]) == (400, "invalid_argument"), answer.body
