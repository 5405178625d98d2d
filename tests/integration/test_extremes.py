"""Every number that a request may have, at its extremes: a bound of the host is a 4xx that names it."""
import json
from itertools import chain
from pathlib import Path

import pytest
from rest import Rest

SPEC = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text())
WIDE = (-1, 0, 1, 0.5, 2**31 - 1, 2**31, 2**32, 2**53, 2**63, 2**64, 1e308)
# What a body needs besides the number. Routes that are not here have no number in their body.
BODIES = {
    "/api/sandboxes": {},
    "/api/sandboxes/{id}/network": {"mode": "bridge"},
    "/api/sandboxes/{id}/timeout": {"seconds": 60},
    "/api/sandboxes/{id}/execs": {"cmd": ["true"]},
    "/api/sandboxes/{id}/execs/{exec}/signal": {"signal": "SIGCONT"},
    "/api/sandboxes/{id}/execs/{exec}/resize": {"cols": 80, "rows": 24},
    "/api/run": {"cmd": ["true"]},
    "/api/sandboxes/{id}/files/sign": {"path": "/tmp/x"},
    "/api/sandboxes/{id}/previews": {"port": 8080},
    "/api/sandboxes/{id}/contexts/{name}/execute": {"code": "1"},
    "/api/sandboxes/{id}/git/clone": {"url": "nowhere", "path": "x"},
    **{f"/api/sandboxes/{{id}}/git/{verb}": {"path": "/tmp"} for verb in
       ("fetch", "init", "pull", "push", "reset", "stash", "stash/apply")},
    "/api/sandboxes/{id}/git/add": {"all": True}, "/api/sandboxes/{id}/git/checkout": {"ref": "x"},
    "/api/sandboxes/{id}/git/commit": {"message": "x"}, "/api/sandboxes/{id}/git/restore": {"files": ["x"]},
    **{f"/api/sandboxes/{{id}}/git/{verb}": {"name": "x.y", "url": "x"} for verb in
       ("branches", "remotes", "tags", "config")},
    "/api/sandboxes/{id}/fork": {"count": 1},
    "/api/sandboxes/{id}/undo": {"commands": 1},
    "/api/sandboxes/{id}/capture": {}, "/api/sandboxes/{id}/ssh": {},
    "/api/sandboxes/{id}/try": {"cmd": ["true"], "count": 1},
    "/api/builds": {"dockerfile": "FROM no-such-template"},
    "/api/sandboxes/{id}/agents": {"instruction": "true", "agent": "nothing"},
    "/api/swarms": {"tasks": [{"instruction": "true", "agent": "nothing"}]},
    "/api/volumes": {"name": "extremes"},
    "/api/tasks": {"instruction": "true", "agent": "nothing"}, "/api/tasks/{name}/retry": {},
    "/api/tools/policy": {}, "/api/sandboxes/{id}/tools/policy": {},
    "/api/sessions": {"environment": "python"},
    "/api/sessions/{session}/execute": {"code": "1"},
    "/api/e2b/execute": {"session_id": "{session}", "code": "1"},
}
QUERIES = {"/api/sandboxes/{id}/files/list": {"path": "/"},
           "/api/sandboxes/{id}/files": {"path": "/etc/hostname"}}
# A WebSocket, streams without an end, and a body that is a build context.
OTHERS = {"/api/sandboxes/{id}/pty", "/api/events", "/api/templates/{name}/build"}


def resolve(schema):
    while "$ref" in schema:
        schema = SPEC["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def is_number(schema):
    kinds = schema.get("type")
    return bool({"integer", "number"} & {*(kinds if isinstance(kinds, list) else [kinds])})


def numbers(schema, path=()):
    """Each number in a body: where it is, and its schema."""
    schema = resolve(schema)
    if is_number(schema):
        yield path, schema
    for part in chain.from_iterable(schema.get(key, []) for key in ("oneOf", "anyOf", "allOf")):
        yield from numbers(part, path)
    for name, part in schema.get("properties", {}).items():
        yield from numbers(part, (*path, name))


def extremes(schema):
    own = [schema[key] for key in ("minimum", "maximum") if key in schema]
    return [*own, *(bound + step for bound in own for step in (-1, 1)), *WIDE]


def operations():
    for path, methods in SPEC["paths"].items():
        for method, operation in methods.items():
            if isinstance(operation, dict) and path not in OTHERS:
                yield method, path, operation


def in_bodies():
    for method, path, operation in operations():
        content = operation.get("requestBody", {}).get("content", {})
        for where, schema in numbers(content.get("application/json", {}).get("schema", {})):
            yield pytest.param(method, path, where, extremes(schema),
                               id=f"{method} {path} {'.'.join(where)}")


def in_queries():
    for method, path, operation in operations():
        for parameter in operation.get("parameters", []):
            if "$ref" in parameter:
                name = parameter["$ref"].rpartition("/")[2]
                parameter = SPEC["components"]["parameters"][name]
            schema = resolve(parameter.get("schema", {}))
            if parameter["in"] == "query" and is_number(schema) and method == "get":
                yield pytest.param(path, parameter["name"], extremes(schema),
                                   id=f"{path} {parameter['name']}")


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture(scope="module")
def names(rest):
    """A sandbox with a command and an interpreter, and a session."""
    made = rest.post("/api/sandboxes", {}).json["id"]
    box = f"/api/sandboxes/{made}"
    command = rest.post(f"{box}/execs", {"cmd": ["sleep", "1000"]}).json["exec_id"]
    context = rest.post(f"{box}/contexts", {"language": "bash"})
    session = rest.post("/api/sessions", {"environment": "python"})
    assert context.status == session.status == 201, (context.body, session.body)
    yield {"id": made, "exec": command, "name": context.json["context_id"],
           "session": session.json["session_id"]}
    rest.delete(box)


def with_number(body, where, value):
    body = json.loads(json.dumps(body))
    at = body
    for name in where[:-1]:
        at = at.setdefault(name, {})
    at[where[-1]] = value
    return body


def clear_away(rest, answer):
    if answer.status in (200, 201) and "id" in answer.json:
        rest.delete(f"/api/sandboxes/{answer.json['id']}")
    if answer.status in (200, 201) and "session_id" in answer.json:
        rest.delete(f"/api/sessions/{answer.json['session_id']}")


def is_fine(answer):
    # A feature that this host lacks for all requests does not depend on the number; a short timeout may pass.
    return answer.status < 500 or answer.status in (501, 504)


@pytest.mark.parametrize("method, path, where, values", in_bodies())
def test_in_a_body(rest, names, method, path, where, values):
    base = json.loads(json.dumps(BODIES[path]).replace("{session}", names["session"]))
    for value in values:
        answer = rest.call(method.upper(), path.format(**names), with_number(base, where, value))
        assert is_fine(answer), (value, answer.status, answer.body)
        clear_away(rest, answer)


@pytest.mark.parametrize("path, name, values", in_queries())
def test_in_a_query(rest, names, path, name, values):
    for value in values:
        query = {**QUERIES.get(path, {}), name: value}
        answer = rest.get(path.format(**names), **query)
        assert is_fine(answer), (value, answer.status, answer.body)


def test_more_files_than_the_host_allows(rest):
    answer = rest.post("/api/sandboxes", {"limits": {"openFiles": 1048576}})
    if answer.status == 201:
        rest.delete(f"/api/sandboxes/{answer.json['id']}")
        pytest.skip("this host allows as many as can be asked for")
    assert answer.status == 400, answer.body
    most = int(answer.error["message"].split("at most ")[1].split()[0])
    made = rest.post("/api/sandboxes", {"limits": {"openFiles": most}})
    assert made.status == 201, made.body
    box = f"/api/sandboxes/{made.json['id']}"
    seen = rest.post(f"{box}/execs", {"cmd": ["sh", "-c", "ulimit -n"]}, wait="true")
    assert seen.json["stdout"] == f"{most}\n"
    rest.delete(box)
