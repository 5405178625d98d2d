"""Every field of Daytona's request bodies with values of every wrong type: an error of Daytona's form, never one of
the server, and nothing happens."""

import re

import pytest
from rest import Rest
from test_bad_input import WRONG, nothing_is_left, rest, with_field  # noqa: F401
from test_every_route import ROUTES

BAD = {
    "text": WRONG["string"],
    "flag": WRONG["boolean"],
    "whole": WRONG["integer"],
    "minutes": ["5", True, [], {}, 1.5, 1e300],
    "seconds": ["5", True, [], {}, 1e300],
    "number": WRONG["number"],
    "texts": [*WRONG["array"], [5], [None], [[]]],
    "texts map": ["x", 5, True, ["x"], {"A": 5}, {"A": {}}],
    "object": ["x", 5, True, ["x"]],
}


def fields(**kinds):
    return {name: kind for kind, names in kinds.items() for name in names.split()}


def text(names, **more):
    return {**dict.fromkeys(names.split(), "text"), **more}


BUILD = {"buildInfo": "object", "buildInfo.dockerfileContent": "text", "buildInfo.contextHashes": "texts"}
# (path, method, a body without the field, fields with their kinds); {tool} is the toolbox of a sandbox, in which there
# are the session s, the terminal p0 and the process {process}.
BODIES = [
    ("/daytona/sandbox", "POST", {}, {
        **text("name snapshot user target networkAllowList domainAllowList outboundProxyUrl linkedSandbox"),
        **fields(flag="public networkBlockAll kvm", whole="gpu",
                 minutes="autoStopInterval autoPauseInterval autoArchiveInterval autoDeleteInterval ttlMinutes",
                 number="cpu memory disk"),
        "env": "texts map", "labels": "texts map", "volumes": "object", **BUILD}),
    ("/daytona/sandbox/{box}/labels", "PUT", {}, {"labels": "texts map"}),
    ("/daytona/sandbox/{box}/network-settings", "POST", {},
     text("networkAllowList domainAllowList", networkBlockAll="flag")),
    ("/daytona/sandbox/{box}/snapshot", "POST", {}, text("name")),
    ("/daytona/sandbox/{box}/fork", "POST", {}, text("name")),
    ("/daytona/sandbox/{box}/resize", "POST", {}, {"cpu": "number", "memory": "number", "disk": "number"}),
    ("/daytona/snapshots", "POST", {"name": "n"}, {
        **text("name imageName"), "entrypoint": "texts", "cpu": "number", "memory": "whole", "disk": "whole", **BUILD}),
    ("/daytona/volumes", "POST", {}, text("name")),
    ("{tool}/env", "POST", {}, {"set": "texts map", "unset": "texts"}),
    ("{tool}/process/execute", "POST", {"command": "true"}, text("command cwd", envs="texts map", timeout="seconds")),
    ("{tool}/process/code-run", "POST", {"code": "1"},
     text("code language", argv="texts", envs="texts map", timeout="seconds")),
    ("{tool}/process/session", "POST", {}, text("sessionId")),
    ("{tool}/process/session/s/exec", "POST", {"command": "true"},
     text("command cwd", runAsync="flag", suppressInputEcho="flag", env="texts map", envs="texts map")),
    ("{tool}/process/session/s/command/{command}/input", "POST", {"data": ""}, text("data")),
    ("{tool}/process/pty/p0/resize", "POST", {"cols": 80, "rows": 24}, fields(whole="cols rows")),
    ("{tool}/process/pty", "POST", {"id": "p"}, text("id cwd", cols="whole", rows="whole", lazyStart="flag", envs="texts map")),
    ("{tool}/process/interpreter/context", "POST", {}, text("cwd language")),
    ("{tool}/processes", "POST", {"shellCommand": "true"},
     text("shellCommand name cwd user stdin kind", argv="texts", env="texts map", timeoutMs="whole", terminal="object")),
    ("{tool}/processes/{process}/stdin", "POST", {"data": ""}, text("data", eof="flag")),
    ("{tool}/processes/{process}/signals", "POST", {"signal": "CONT"},
     text("signal escalateTo", escalateAfterMs="whole")),
    ("{tool}/processes/{process}/resize", "POST", {"cols": 80, "rows": 24}, fields(whole="cols rows")),
    ("{tool}/files/bulk-download", "POST", {}, {"paths": "texts"}),
    ("{tool}/files/replace", "POST", {"files": ["f"], "pattern": "a", "newValue": "b"},
     text("pattern newValue", files="texts")),
    *((f"{{tool}}/lsp/{what}", "POST", {"languageId": "python", "pathToProject": "p"}, text("languageId pathToProject"))
      for what in ("start", "stop")),
    *((f"{{tool}}/lsp/{what}", "POST", {"languageId": "python", "pathToProject": "p", "uri": "u"},
       text("languageId pathToProject uri")) for what in ("did-open", "did-close")),
    ("{tool}/lsp/completions", "POST", {"languageId": "python", "pathToProject": "p", "uri": "u"}, text("uri", position="object")),
    ("{tool}/git/clone", "POST", {"url": "file:///no", "path": "v"},
     text("url path branch commit_id username password", insecure_skip_tls="flag", depth="whole")),
    ("{tool}/git/init", "POST", {"path": "v"}, text("path initial_branch", bare="flag")),
    ("{tool}/git/add", "POST", {"path": "w"}, text("path", files="texts")),
    ("{tool}/git/commit", "POST", {"path": "w", "message": "m", "author": "a", "email": "a@b"},
     text("path message author email", allow_empty="flag")),
    ("{tool}/git/branches", "POST", {"path": "w", "name": "n"}, text("path name")),
    ("{tool}/git/branches", "DELETE", {"path": "w", "name": "n"}, text("path name")),
    ("{tool}/git/checkout", "POST", {"path": "w", "branch": "b"}, text("path branch")),
    ("{tool}/git/push", "POST", {"path": "w"}, text("path username password branch remote", set_upstream="flag")),
    ("{tool}/git/pull", "POST", {"path": "w"}, text("path username password branch remote")),
    ("{tool}/git/reset", "POST", {"path": "w"}, text("path mode target", files="texts")),
    ("{tool}/git/restore", "POST", {"path": "w", "files": ["f"]}, text("path source", files="texts", staged="flag")),
    ("{tool}/git/remotes", "POST", {"path": "w", "name": "n", "url": "u"}, text("path name url", fetch="flag", overwrite="flag")),
    ("{tool}/git/config", "POST", {"path": "w", "key": "a.b", "value": "v"}, text("path key value scope")),
    ("{tool}/git/config/user", "POST", {"name": "n", "email": "e"}, text("name email scope path")),
    ("{tool}/git/credentials", "POST", {"username": "u", "password": "p"}, text("username password host protocol")),
]


@pytest.fixture(scope="module")
def sandbox_id(daemon):
    control = Rest(daemon.socket)
    made = control.post("/daytona/sandbox", {}).json["id"]
    assert control.post(f"/daytona/toolbox/{made}/process/session", {"sessionId": "s"}).status == 201
    assert control.post(f"/daytona/toolbox/{made}/process/pty", {"id": "p0"}).status == 201
    yield made
    control.delete(f"/daytona/sandbox/{made}")


@pytest.fixture(scope="module")
def places(daemon, sandbox_id):
    """What the paths of the table name."""
    control, tool = Rest(daemon.socket), f"/daytona/toolbox/{sandbox_id}"
    command = control.post(f"{tool}/process/session/s/exec", {"command": "cat", "runAsync": True})
    process = control.post(f"{tool}/processes", {"argv": ["cat"], "stdin": "pipe", "terminal": {"cols": 80, "rows": 24}})
    assert command.status in (200, 202) and process.status in (200, 201), (command.body, process.body)
    return {"box": sandbox_id, "tool": tool, "command": command.json["cmdId"], "process": process.json["id"]}


# Routes that take no JSON: their input is in the path or the query, is a file or a form, or is not looked at.
NO_JSON = re.compile("|".join((
    "/daytona/sandbox/{id}/(start|stop|pause|recover|archive|backup|last-activity|ssh-access|signing-key/rotate)",
    "/daytona/sandbox/{id}/(auto(stop|pause|archive|delete)|ttl|public)/{item}",
    "/daytona/sandbox/{id}/ports/{port}/signed-preview-url/{item}/expire", "/daytona/snapshots/{key}/(de)?activate",
    "/daytona/object-storage/.*", "{tool}/(init|proxy/.*|computeruse/.*)",
    "{tool}/files/(folder|move|permissions|upload|upload-v2|bulk-upload)",
    "/daytona/(secret|warm-pools)(/{key})?", "/daytona/sandbox/{id}/secrets")))


def test_every_route_with_a_body_is_in_the_table():
    def shown(path):
        path = re.sub(r"/(session|pty)/(s|p0)/", r"/\1/{key}/", path.replace("{box}", "{id}"))
        return re.sub(r"{(command|process)}", "{item}", path)
    listed = [(method, path.replace("/daytona/toolbox/{id}", "{tool}")) for method, path, _ in ROUTES
              if path.startswith("/daytona/") and method in ("POST", "PUT", "PATCH")]
    served = {f"{method} {path}" for method, path in listed
              if not NO_JSON.fullmatch(path) and not path.startswith("{tool}/toolbox/")}  # which are the same
    tested = {f"{method} {shown(path)}" for path, method, *_ in BODIES}
    assert served <= tested, sorted(served - tested)
    assert tested - served == {"DELETE {tool}/git/branches"}  # the only DELETE with a body


@pytest.mark.parametrize("path, method, base, kinds", BODIES, ids=[f"{method} {path}" for path, method, *_ in BODIES])
def test_every_field_of_every_wrong_type(rest, places, path, method, base, kinds):  # noqa: F811
    path = path.format(**places)
    accepted = []
    for name, kind in kinds.items():
        for value in BAD[kind]:
            answer = rest.call(method, path, with_field(base, name.split("."), value))
            if answer.status < 400:
                accepted.append((name, value))
                continue
            said = answer.json
            assert answer.status in (400, 422), (name, value, answer.body)
            assert said["statusCode"] == answer.status and said["message"] and said["code"] and said["path"] == path, said
    assert not accepted
