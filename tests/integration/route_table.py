"""One entry per route: what is asked, and what must come back. See routes.py for the parts."""

from routes import Ask, Entry

BOX = "/api/sandboxes/{id}"
EXEC = BOX + "/execs/{exec}"
SESSION = "/api/sessions/{session}"
NO_ID = {"id": "-NOT-AN-ID"}
NO_SESSION = {"session": "NOT-AN-ID"}
BAD_ALL = Ask(400, "?all=perhaps")


def has(*path, value=None):
    """The JSON has that member, and that value if one is given."""
    def check(answer, values):
        found = answer.json
        for name in path:
            found = found[name]
        return found == value if value is not None else found is not None
    return check


def shows(name):
    """The body says what that parameter stands for."""
    return lambda answer, values: values[name].encode() in answer.body


def hides(name):
    """For another tenant: the same route works, and says nothing of ours."""
    return lambda answer, values: answer.status < 300 and values[name].encode() not in answer.body


def mine(answer, values):
    return answer.json["id"] == values["id"]


def empty(answer, values):
    return answer.body == b""


def text(word):
    return lambda answer, values: word.encode() in answer.body


def file(world):
    return world.file(world.box())


def kept(world):
    box = world.box(artifacts=["f"])
    values = world.file(box)
    assert world.mine.delete(f"/api/sandboxes/{box}").status == 204
    return values


def traced(world):
    box = world.box(checkpoints="command")
    ended = world.mine.post(f"/api/sandboxes/{box}/execs", {"cmd": ["touch", "/home/user/f"]}, wait="true")
    assert ended.status == 200, ended.body
    return {"id": box}


def split(world):
    box = world.box()
    fork = world.mine.post(f"/api/sandboxes/{box}/fork", {}).json["sandboxes"][0]["id"]
    return {"id": box, "fork": fork}


def session_file(world):
    session = world.session()
    path = f"/api/sessions/{session}"
    world.mine.put(f"{path}/files", b"data", path="f")
    return {"session": session, "path": "f"}


def plain_exec(world):
    box = world.box()
    return {"id": box, "exec": world.exec(box, "cat", stdin=True)}


def ended_exec(world):
    box = world.box()
    answer = world.mine.post(f"/api/sandboxes/{box}/execs", {"cmd": ["echo", "hi"]}, wait="true")
    return {"id": box, "exec": answer.json["exec_id"]}


def preview(world):
    box = world.box()
    world.mine.post(f"/api/sandboxes/{box}/previews", {"port": 8000})
    return {"id": box, "port": "8000"}


def repository(world):
    box = world.box()
    world.sh(box, "git init -qb main w && cd w && git config user.name n && git config user.email e@x && "
             "echo 1 >f && git add f && git commit -qm one && git branch dev && git tag v1 && "
             "git clone -q --bare . ../o && git remote add origin ../o && echo 2 >f && git stash -q && "
             "echo 3 >g && git add g")
    return {"id": box}


def snapped(world):
    """A snapshot with a name of its own."""
    box = world.box()
    name = world.mine.post(f"/api/sandboxes/{box}/snapshots", {}).json["name"]
    return {"id": box, "name": name, "template": name}


def persistent(world):
    return {"id": world.box(persistent=True)}


def networked(world):
    return {"id": world.box(networkMode="bridge")}


def leased(world):
    return {"id": world.box(lifetime={"leaseSeconds": 600})}


def paused(world):
    box = world.box()
    assert world.mine.post(f"/api/sandboxes/{box}/pause", {}).status == 200
    return {"id": box}


def attribute(world):
    values = file(world)
    world.mine.put(f"/api/sandboxes/{values['id']}/files/xattrs",
                   {"path": "f", "name": "user.x", "value": "y"})
    return values


def rootfs(world):
    return {"name": "routes-made", "template": "routes-made", "archive": world.archive(**{"etc/hello": b"x"})}


def template(world):
    answer = world.admin.put("/api/templates/routes-gone", world.archive(**{"etc/hello": b"x"}))
    assert answer.status == 201, answer.body
    return {"template": "routes-gone"}


def build(world):
    made = world.mine.post("/api/builds", {"dockerfile": "FROM no-such-template"})
    assert made.status == 201, made.body
    return {"name": made.json["id"]}


def task(world):
    """A task that has failed: it waits for nothing."""
    made = world.mine.post("/api/tasks?wait=true", {"instruction": "exit 1", "autoCleanup": True})
    assert made.status == 200 and made.json["state"] == "failed", made.body
    return {"name": made.json["id"]}


def tool_call(world):
    """The record of a call that nobody needed to allow."""
    box = world.box()
    assert world.mine.post(f"/api/sandboxes/{box}/tools/LS", {"path": "/"}).status == 200
    return {"name": world.mine.get(f"/api/sandboxes/{box}/tools/calls").json["calls"][0]["id"]}


def swarm(world, **more):
    made = world.mine.post("/api/swarms?wait=true", {"tasks": [{"instruction": "exit 1", "autoCleanup": True}], **more})
    assert made.status == 200 and made.json["state"] == "failed", made.body
    return {"name": made.json["id"]}


def build_context(world):
    archive = world.archive(**{"hello": b"x"})
    answer = world.mine.put("/api/builds/contexts/routes", archive)
    assert answer.status == 204, answer.body
    return {"name": "routes", "archive": archive}


def key(world):
    made = world.admin.post("/api/keys", {"tenant": "acme", "scope": "read"})
    return {"name": made.json["id"]}


def secret(world):
    made = world.mine.post("/api/secrets", {"name": "routes", "value": "v", "replace": True})
    assert made.status in (200, 201), made.body
    return {"secret": "routes"}


def context(world):
    box = world.box()
    made = world.mine.post(f"/api/sandboxes/{box}/contexts", {"language": "python"})
    assert made.status == 201, made.body
    return {"id": box, "name": made.json["context_id"]}


def connector(world):
    made = world.mine.call("PUT", "/api/connectors/made", {"command": "x"})
    assert made.status in (200, 201), made.body
    return {"name": "made"}


def registry(kind):
    path = f"/api/registry/{kind}"
    name = "Bash" if kind == "environments" else "one"
    return {
        f"GET {path}": Entry(Ask(200, check=text(name)), BAD_ALL),
        f"GET {path}/{{name}}": Entry(Ask(200, check=has("name", value=name)),
                                      Ask(400, at={"name": ".bad"}),
                                      given=lambda world: {"name": name}),
    }


SERVICE = {
    "GET /healthz": Entry(Ask(200, check=has("status", value="ok")), Ask(405, method="POST")),
    "GET /readyz": Entry(Ask(200), Ask(405, method="POST")),
    "GET /metrics": Entry(Ask(200, check=text("atoll_sandboxes")), Ask(405, method="DELETE")),
    "GET /api/openapi.json": Entry(Ask(200, check=has("openapi")), Ask(405, method="PUT")),
    "GET /api/host": Entry(Ask(200, check=has("checks")), BAD_ALL),
    "GET /api/quota": Entry(Ask(200, check=has("memoryMB", "used")), BAD_ALL),
    "GET /api/providers": Entry(Ask(200, check=has("providers", 0, "name", value="native")),
                                BAD_ALL),
    "GET /api/stats": Entry(Ask(200, check=shows("id")), BAD_ALL, foreign=hides("id"),
                            given=lambda world: {"id": world.box()}),
    "GET /api/health": Entry(Ask(200, check=shows("id")), BAD_ALL, foreign=hides("id"),
                             given=lambda world: {"id": world.box()}),
    "GET /api/events": Entry(
        Ask(200, "?after=0", by="stream", headers={"Accept": "text/event-stream"},
            check=lambda answer, values: answer.headers["Content-Type"] == "text/event-stream"),
        Ask(400, "?after=x")),
}

SANDBOXES = {
    "POST /api/sandboxes": Entry(
        Ask(201, body={"limits": {"memoryMB": 64}, "metadata": {"k": "v"}},
            check=has("limits", "memoryMB", value=64)),
        Ask(400, body={"limits": {"memoryMb": 64}})),
    "GET /api/sandboxes": Entry(Ask(200, check=shows("id")), Ask(400, "?limit=0"),
                                foreign=hides("id"), given=lambda world: {"id": world.box()}),
    "DELETE /api/sandboxes": Entry(Ask(200, check=has("destroyed", value=1)), BAD_ALL,
                                   given=lambda world: {"id": world.box()}),
    f"GET {BOX}": Entry(Ask(200, check=mine), Ask(400, at=NO_ID)),
    f"DELETE {BOX}": Entry(Ask(204, check=empty), Ask(400, "?artifacts=/etc/passwd")),
    f"PATCH {BOX}": Entry(Ask(200, body={"metadata": {"k": "w"}},
                              check=has("metadata", "k", value="w")),
                          Ask(400, body={"metadata": {"k": 5}})),
    f"POST {BOX}/timeout": Entry(Ask(200, body={"seconds": 600}, check=has("expires_at")),
                                 Ask(400, body={"seconds": -1})),
    "GET /api/tools": Entry(Ask(200, check=has("tools", 0, "name", value="Bash")), Ask(400, "?format=x")),
    "GET /api/tools/policy": Entry(Ask(200), None),
    "PUT /api/tools/policy": Entry(Ask(200, body={"rules": []}), Ask(400, body={"rules": 1})),
    "DELETE /api/tools/policy": Entry(Ask(204, check=empty), None),
    "GET /api/tools/calls": Entry(Ask(200, check=has("calls")), Ask(400, "?limit=0")),
    f"GET {BOX}/tools/policy": Entry(Ask(200), Ask(400, at=NO_ID)),
    f"PUT {BOX}/tools/policy": Entry(Ask(200, body={"rules": []}), Ask(400, body={"rules": 1})),
    f"DELETE {BOX}/tools/policy": Entry(Ask(204, check=empty), Ask(400, at=NO_ID)),
    f"GET {BOX}/tools/calls": Entry(Ask(200, check=has("calls")), Ask(400, "?cursor=x")),
    "GET /api/approvals": Entry(Ask(200, check=has("approvals")), BAD_ALL),
    "GET /api/approvals/{name}": Entry(Ask(200, check=has("state", value="done")), Ask(404, at={"name": "nothing"}),
                                       foreign=404, given=tool_call),
    "POST /api/approvals/{name}": Entry(Ask(409, body={"decision": "allow"}), Ask(400, body={"decision": "x"}),
                                        foreign=404, given=tool_call),
    f"POST {BOX}/tools/{{name}}": Entry(
        Ask(200, body={"command": "echo here"}, check=has("text", value="here\n")), Ask(400, body={"cmd": "x"}),
        given=lambda world: {"id": world.box(), "name": "Bash"}),
    # test_mcp_gateway.py has a template with the program.
    f"POST {BOX}/mcp": Entry(Ask(409, body={"servers": {"time": {}}}), Ask(400, body={"servers": []})),
    "POST /mcp": Entry(Ask(200, body={"jsonrpc": "2.0", "id": 1, "method": "ping"}, check=has("result")),
                       Ask(400, body={"jsonrpc": "1.0"})),
    "GET /mcp": Entry(Ask(200, "?session=" + 32 * "0", headers={"Accept": "text/event-stream"}, by="stream"),
                      Ask(404, "?session=x")),
    "GET /.well-known/oauth-protected-resource": Entry(Ask(200, check=has("resource")), None),
    "GET /.well-known/oauth-protected-resource/mcp": Entry(Ask(200, check=has("resource")), None),
    # In the query it is an id of `atoll mcp`, which makes its own.
    "DELETE /mcp": Entry(Ask(204, "?session=" + 32 * "0", check=empty), Ask(404, headers={"Mcp-Session-Id": 32 * "0"})),
    f"POST {BOX}/heartbeat": Entry(Ask(204, check=empty), Ask(400, at=NO_ID), given=leased),
    f"POST {BOX}/pause": Entry(Ask(200, body={}, check=has("state", value="paused")),
                               Ask(400, body={"keepProcesses": "yes"})),
    f"POST {BOX}/resume": Entry(Ask(200, check=has("state", value="running")), Ask(400, at=NO_ID),
                                given=paused),
    f"POST {BOX}/stop": Entry(Ask(200, check=has("state", value="stopped")), Ask(400, at=NO_ID),
                              given=persistent),
    f"POST {BOX}/snapshot": Entry(Ask(201, body={"name": "snap"}, check=has("version")),
                                  Ask(400, body={"name": ".bad"})),
    f"POST {BOX}/snapshots": Entry(Ask(201, body={}, check=has("made", "files")),
                                   Ask(400, body={"name": ".bad"})),
    f"GET {BOX}/snapshots": Entry(Ask(200, check=shows("name")), Ask(400, at=NO_ID), given=snapped),
    f"GET {BOX}/history": Entry(Ask(200, check=has("commands", 0, "command")), Ask(400, "?limit=0"), given=traced),
    f"GET {BOX}/blame": Entry(Ask(200, "?path=/home/user/f", check=has("kind", value="added")), Ask(400), given=traced),
    f"POST {BOX}/undo": Entry(Ask(200, body={}, check=has("number", value=0)), Ask(400, body={"commands": 0}), given=traced),
    f"POST {BOX}/merge": Entry(Ask(200, body=lambda values: {"from": [values["fork"]]}, check=has("merged", value=True)), Ask(400, body={}), given=split),
    f"POST {BOX}/capture": Entry(Ask(200, body={"patterns": ["*.none"]}, check=has("count", value=0)),
                                 Ask(400, body={"patterns": ["/x"]})),
    f"POST {BOX}/try": Entry(Ask(200, body={"cmd": ["true"], "count": 1}, check=has("best", value=0)), Ask(400, body={})),
    f"GET {BOX}/diff": Entry(Ask(200, check=has("summary", "added")), Ask(400, "?format=tar")),
    f"POST {BOX}/fork": Entry(Ask(201, body={"count": 2}, check=has("sandboxes", 1, "id")),
                              Ask(400, body={"count": 101})),
    f"POST {BOX}/restore": Entry(Ask(200, body={"snapshot": "host"}, check=mine),
                                 Ask(400, body={"snapshot": "a b"})),
    "GET /api/snapshots": Entry(Ask(200, check=shows("name")), BAD_ALL, foreign=hides("name"),
                                given=snapped),
    "DELETE /api/snapshots/{template}": Entry(Ask(204, check=empty), Ask(400, at={"template": ".bad"}),
                                              foreign=404, given=snapped),
    f"GET {BOX}/stats": Entry(Ask(200, check=has("memory", "limit_bytes")), Ask(400, at=NO_ID)),
    f"GET {BOX}/health": Entry(Ask(200, check=has("status", value="ok")), Ask(400, at=NO_ID)),
    f"GET {BOX}/network": Entry(Ask(200, check=has("mode", value="none")), Ask(400, at=NO_ID)),
    f"PUT {BOX}/network": Entry(Ask(200, body={"deny": ["192.0.2.0/24"]}, check=has("rules")),
                                Ask(400, body={"deny": ["exa mple"]}), given=networked),
    f"GET {BOX}/network/connections": Entry(Ask(200, check=has("connections")), Ask(400, "?limit=0")),
}

COMMANDS = {
    f"POST {BOX}/execs": Entry(
        Ask(200, "?wait=true", body={"cmd": ["echo", "hi"]}, check=has("stdout", value="hi\n")),
        Ask(400, body={"cmd": "echo hi"})),
    f"GET {BOX}/execs": Entry(Ask(200, check=shows("exec")), Ask(400, at=NO_ID), given=plain_exec),
    f"GET {BOX}/execs/stream": Entry(Ask(101, by="ws", body={"cmd": ["cat"], "stdin": True},
                                         check=has("exec_id")),
                                     Ask(400, at=NO_ID)),
    f"GET {BOX}/pty": Entry(Ask(101, by="ws", check=has("exec_id")), Ask(400, "?cols=x")),
    f"GET {EXEC}": Entry(Ask(200, check=has("state", value="running")),
                         Ask(400, at={"exec": "NOPE"})),
    f"GET {EXEC}/output": Entry(Ask(200, check=text("hi")), Ask(400, "?stdout=-1"),
                                given=ended_exec),
    f"POST {EXEC}/stdin": Entry(Ask(204, body=b"typed", check=empty), Ask(400, "?close=perhaps"),
                                given=plain_exec),
    f"POST {EXEC}/signal": Entry(Ask(204, body={"signal": "SIGTERM"}, check=empty),
                                 Ask(400, body={"signal": "SIGNOPE"})),
    f"POST {EXEC}/resize": Entry(Ask(204, body={"cols": 100, "rows": 40}, check=empty),
                                 Ask(400, body={"cols": 0, "rows": 40})),
    "POST /api/run": Entry(
        Ask(200, body={"cmd": ["echo", "hi"]}, check=has("stdout", value="hi\n")),
        Ask(400, body={"cmd": []})),
    "GET /api/run": Entry(Ask(101, by="ws", body={"cmd": ["cat"], "stdin": True},
                              check=has("exec_id")),
                          BAD_ALL),
}

FILES = {
    f"GET {BOX}/files": Entry(Ask(200, "?path=f", check=text("data")), Ask(400), given=file),
    f"PUT {BOX}/files": Entry(Ask(200, "?path=g", body=b"bytes", check=has("size", value=5)),
                              Ask(400, "?path=g&mode=rw", body=b"bytes")),
    f"DELETE {BOX}/files": Entry(Ask(204, "?path=f", check=empty), Ask(400, "?path="), given=file),
    f"GET {BOX}/files/stat": Entry(Ask(200, "?path=f", check=has("type", value="file")), Ask(400),
                                   given=file),
    f"GET {BOX}/files/list": Entry(Ask(200, "?path=.", check=has("entries", 0, "name", value="f")),
                                   Ask(400, "?path=.&depth=65"), given=file),
    f"POST {BOX}/files/mkdir": Entry(Ask(200, "?path=a/b", check=has("type", value="directory")),
                                     Ask(400)),
    f"POST {BOX}/files/move": Entry(Ask(200, "?path=f&to=g", check=has("name", value="g")),
                                    Ask(400, "?path=f"), given=file),
    f"POST {BOX}/files/chmod": Entry(Ask(204, "?path=f&mode=0600", check=empty),
                                     Ask(400, "?path=f&mode=99"), given=file),
    f"POST {BOX}/files/chown": Entry(Ask(204, "?path=f&owner=user", check=empty),
                                     Ask(400, "?path=f"), given=file),
    f"POST {BOX}/files/symlink": Entry(Ask(204, "?path=l&target=f", check=empty),
                                       Ask(400, "?path=l")),
    f"POST {BOX}/files/batch": Entry(
        Ask(200, body={"files": [{"path": "a", "data": "x"}]}, check=has("entries", 0, "size",
                                                                         value=1)),
        Ask(400, body={"files": [{"path": "a"}]})),
    f"POST {BOX}/files/sign": Entry(Ask(200, body={"path": "f"}, check=has("url")),
                                    Ask(400, body={"path": "f", "method": "POST"}), given=file),
    f"GET {BOX}/files/watch": Entry(Ask(101, "?path=.", by="quiet"), Ask(400)),
    f"GET {BOX}/files/xattrs": Entry(Ask(200, "?path=f", check=has("attributes")), Ask(400),
                                     given=attribute),
    f"PUT {BOX}/files/xattrs": Entry(
        Ask(204, body={"path": "f", "name": "user.x", "value": "y"}, check=empty),
        Ask(400, body={"path": "f", "name": "system.x", "value": "y"}), given=file),
    f"DELETE {BOX}/files/xattrs": Entry(Ask(204, "?path=f&name=user.x", check=empty),
                                        Ask(400, "?path=f"), given=attribute),
    f"GET {BOX}/archive": Entry(Ask(200, "?path=.", check=text("ustar")), Ask(400), given=file),
    f"PUT {BOX}/archive": Entry(
        Ask(204, "?path=d", body=lambda values: values["archive"], check=empty),
        Ask(400, "?path=d&compression=rar", body=b""),
        given=lambda world: {"id": world.box(), "archive": world.archive(a=b"x")}),
}

PREVIEWS = {
    f"POST {BOX}/previews": Entry(Ask(201, body={"port": 8000}, check=has("token")),
                                  Ask(400, body={"port": 0})),
    # test_ssh.py has what works.
    f"GET {BOX}/ports/{{port}}/tunnel": Entry(Ask(400), Ask(400, at={"port": "0"}), given=preview),
    # Without --ssh-listen.
    f"POST {BOX}/ssh": Entry(Ask(501, body={}), Ask(400, body={"expires_minutes": 0})),
    f"GET {BOX}/ssh": Entry(Ask(200, check=has("tokens", value=[])), Ask(400, at=NO_ID)),
    f"DELETE {BOX}/ssh": Entry(Ask(204, check=empty), Ask(400, at=NO_ID)),
    f"DELETE {BOX}/ssh/{{name}}": Entry(Ask(404, at={"name": "none"}), Ask(400, at={**NO_ID, "name": "none"})),
    "GET /api/sandbox-token": Entry(Ask(404), None),
    f"GET {BOX}/previews": Entry(Ask(200, check=has("previews", 0, "port", value=8000)),
                                 Ask(400, at=NO_ID), given=preview),
    f"DELETE {BOX}/previews/{{port}}": Entry(Ask(204, check=empty), Ask(400, at={"port": "0"}),
                                             given=preview),
}

W = {"path": "w"}
AT = "?path=w"


def git(verb, good, bad, method="POST"):
    return {f"{method} {BOX}/git/{verb}": Entry(good, bad, given=repository)}


def git_list(verb, *path):
    return git(verb, Ask(200, AT, check=has(*path)), Ask(400, AT + "&user=" + "x" * 65), "GET")


def git_delete(verb, query):
    return git(verb, Ask(204, AT + query, check=empty), Ask(400, AT + "&timeoutSeconds=0"), "DELETE")


def git_post(verb, bad, status=204, check=empty, **fields):
    return git(verb, Ask(status, body={**W, **fields}, check=check), Ask(400, body={**W, **bad}))


GIT = {
    **git("clone", Ask(200, body={"url": "o", "path": "v"}, check=has("branch", value="main")),
          Ask(400, body={"url": "-o"})),
    **git("init", Ask(204, body={"path": "new"}, check=empty), Ask(400, body={"path": ""})),
    **git_list("status", "files", 0, "path"),
    **git_post("add", {}, files=["f"]),
    **git_post("commit", {}, 200, has("commit", "hash"), message="two"),
    **git_list("log", "commits", 0, "hash"),
    **git("diff", Ask(200, AT + "&staged=1", check=has("files", 0, "path", value="g")),
          Ask(400, AT + "&to=x"), "GET"),
    **git_post("checkout", {}, 200, has("branch", value="dev"), ref="dev"),
    **git_post("reset", {"mode": "x"}, 200, has("branch", value="main"), mode="hard"),
    **git_post("restore", {}, files=["g"], staged=True),
    **git_post("fetch", {"depth": 0}, 200, has("words")),
    **git_post("pull", {"rebase": 1}, 200, has("branch", value="main")),
    **git_post("push", {"delete": True}, 200, has("refs", 0, "state", value="up_to_date")),
    **git_list("branches", "branches", 1, "name"),
    **git_post("branches", {}, name="more"),
    **git_delete("branches", "&name=dev"),
    **git_list("remotes", "remotes", 0, "url"),
    **git_post("remotes", {"name": "x"}, name="up", url="https://example.org/r"),
    **git_delete("remotes", "&name=origin"),
    **git_list("tags", "tags", 0, "name"),
    **git_post("tags", {}, name="v2"),
    **git_delete("tags", "&name=v1"),
    **git_list("stash", "stashes", 0, "index"),
    **git_post("stash", {"untracked": 5}, message="m"),
    **git_post("stash/apply", {"index": -1}),
    **git_delete("stash", "&index=0"),
    **git_list("config", "entries", 0, "name"),
    **git("config", Ask(204, body={**W, "name": "a.b", "value": "c"}, check=empty),
          Ask(400, body={**W, "name": "a"}), "PUT"),
    **git_delete("config", "&name=user.name"),
}

CONTEXTS = {
    f"POST {BOX}/contexts": Entry(Ask(201, body={"language": "python"}, check=has("context_id")),
                                  Ask(400, body={"language": 5})),
    f"GET {BOX}/contexts": Entry(Ask(200, check=shows("name")), Ask(400, at=NO_ID), given=context),
    f"DELETE {BOX}/contexts/{{name}}": Entry(Ask(204, check=empty), Ask(400, at={"name": ".x"}),
                                             given=context),
    f"POST {BOX}/contexts/{{name}}/restart": Entry(Ask(204, check=empty),
                                                   Ask(400, at={"name": ".x"}), given=context),
    f"POST {BOX}/contexts/{{name}}/execute": Entry(
        Ask(200, body={"code": "print(6*7)"}, check=has("stdout", value="42\n")),
        Ask(400, body={"code": 5}), given=context),
}

ARTIFACTS = {
    "GET /api/artifacts": Entry(Ask(200, check=shows("id")), Ask(400, "?sandbox=A/B"),
                                foreign=hides("id"), given=kept),
    "GET /api/artifacts/{id}": Entry(Ask(200, check=has("files", 0, "path", value="f")),
                                     Ask(400, at=NO_ID), given=kept),
    "DELETE /api/artifacts/{id}": Entry(Ask(204, check=empty), Ask(400, at=NO_ID), given=kept),
    "GET /api/artifacts/{id}/{path}": Entry(Ask(200, check=text("data")),
                                            Ask(404, at={"path": "0"}), given=kept),
}

SESSIONS = {
    "POST /api/sessions": Entry(Ask(201, body={"environment": "Bash"}, check=has("session_id")),
                                Ask(400, body={"environment": 5})),
    "GET /api/sessions": Entry(Ask(200, check=shows("session")), Ask(400, "?cursor=x"),
                               foreign=hides("session"),
                               given=lambda world: {"session": world.session()}),
    f"GET {SESSION}": Entry(Ask(200, check=shows("session")), Ask(400, at=NO_SESSION)),
    f"DELETE {SESSION}": Entry(Ask(204, check=empty), Ask(400, "?artifacts=..")),
    f"POST {SESSION}/execute": Entry(
        Ask(200, body={"code": "echo hi"}, check=has("stdout", value="hi\n")), Ask(400, body={})),
    f"GET {SESSION}/artifacts": Entry(Ask(200, check=has("artifacts", 0, "path", value="f")),
                                      Ask(400, at=NO_SESSION), given=session_file),
    f"GET {SESSION}/artifacts/{{path}}": Entry(Ask(200, check=text("data")),
                                               Ask(400, at={"path": "/etc/passwd"}),
                                               given=session_file),
    f"GET {SESSION}/files": Entry(Ask(200, "?path=f", check=text("data")), Ask(400),
                                  given=session_file),
    f"PUT {SESSION}/files": Entry(Ask(200, "?path=g", body=b"x", check=has("size", value=1)),
                                  Ask(400, body=b"x")),
    f"DELETE {SESSION}/files": Entry(Ask(204, "?path=f", check=empty), Ask(400),
                                     given=session_file),
    f"GET {SESSION}/files/stat": Entry(Ask(200, "?path=f", check=has("size", value=4)), Ask(400),
                                       given=session_file),
    f"GET {SESSION}/files/list": Entry(Ask(200, "?path=.", check=has("entries", 0, "name")),
                                       Ask(400), given=session_file),
    "POST /api/e2b/execute": Entry(
        Ask(200, body=lambda values: {"session_id": values["session"], "code": "echo hi"},
            check=has("stdout", value="hi\n")),
        Ask(400, body={"code": "x"}), foreign=404,
        given=lambda world: {"session": world.session()}),
    "GET /api/e2b/files": Entry(
        Ask(200, "?session_id={session}",
            check=has("files", 0, "path", value="f")),
        Ask(400, "?path=x"), foreign=404, given=session_file),
    "POST /api/e2b/files": Entry(
        Ask(200, body=lambda values: {"session_id": values["session"], "path": "x",
                                      "content": "y"}, check=has("size", value=1)),
        Ask(400, body={"path": "x", "content": "y"}), foreign=404,
        given=lambda world: {"session": world.session()}),
    "GET /api/e2b/files/{session}": Entry(Ask(200, check=has("files", 0, "path", value="f")),
                                          Ask(400, at=NO_SESSION), given=session_file),
    "POST /api/builds": Entry(
        Ask(201, body={"dockerfile": "FROM no-such-template"}, check=has("state", value="waiting")),
        Ask(400, body={"dockerfile": "FROM"})),
    "POST /api/sandboxes/{id}/agents": Entry(
        Ask(201, body={"instruction": "true"}, check=has("id")), Ask(400, body={"instruction": ""})),
    "GET /api/sandboxes/{id}/agents": Entry(Ask(200, check=has("agents")), Ask(400, at=NO_ID)),
    "DELETE /api/sandboxes/{id}/agents": Entry(Ask(204, check=empty), Ask(400, at=NO_ID)),
    "POST /api/swarms": Entry(
        Ask(201, body={"tasks": [{"instruction": "true", "autoCleanup": True}]}, check=has("members", 0, "name")),
        Ask(400, body={"tasks": []})),
    "GET /api/swarms": Entry(Ask(200, check=shows("name")), BAD_ALL, foreign=hides("name"), given=swarm),
    "GET /api/swarms/{name}": Entry(Ask(200, check=has("state", value="failed")), Ask(404, at={"name": "nothing"}),
                                    given=swarm),
    "POST /api/swarms/{name}/cancel": Entry(Ask(202, check=has("id")), Ask(404, at={"name": "nothing"}), given=swarm),
    "POST /api/swarms/{name}/heartbeat": Entry(Ask(200, check=has("lease_ends_at")), Ask(404, at={"name": "nothing"}),
                                               given=lambda world: swarm(world, leaseSeconds=600)),
    "GET /api/swarms/{name}/memory": Entry(Ask(200), Ask(404, at={"name": "nothing"}), given=swarm),
    "PATCH /api/swarms/{name}/memory": Entry(Ask(200, body={"x": 1}, check=has("x", value=1)), Ask(400, body=b"["),
                                             given=swarm),
    "POST /api/tasks": Entry(
        Ask(201, body={"instruction": "true", "autoCleanup": True}, check=has("id")), Ask(400, body={"instruction": ""})),
    "GET /api/tasks": Entry(Ask(200, check=shows("name")), BAD_ALL, foreign=hides("name"), given=task),
    "GET /api/tasks/{name}": Entry(Ask(200, check=has("state", value="failed")), Ask(404, at={"name": "nothing"}),
                                   given=task),
    "GET /api/tasks/{name}/log": Entry(Ask(200), Ask(400, "?offset=-1"), given=task),
    "POST /api/tasks/{name}/cancel": Entry(Ask(202, check=has("id")), Ask(404, at={"name": "nothing"}), given=task),
    "POST /api/tasks/{name}/retry": Entry(Ask(202, body={}, check=has("attempt", value=2)),
                                          Ask(400, body={"step": "nothing"}), given=task),
    "POST /api/tasks/{name}/source": Entry(Ask(409), Ask(404, at={"name": "nothing"}), given=task),
    "DELETE /api/tasks/{name}": Entry(Ask(204, check=empty), Ask(404, at={"name": "nothing"}), given=task),
    "GET /api/builds": Entry(Ask(200, check=shows("name")), BAD_ALL, foreign=hides("name"), given=build),
    "GET /api/builds/{name}": Entry(Ask(200, check=has("id")), Ask(404, at={"name": "nothing"}), given=build),
    "GET /api/builds/{name}/log": Entry(Ask(200), Ask(400, "?offset=-1"), given=build),
    "DELETE /api/builds/{name}": Entry(Ask(204, check=empty), Ask(404, at={"name": "nothing"}), given=build),
    "GET /api/builds/contexts/{name}": Entry(Ask(204, check=empty), Ask(404, at={"name": "nothing"}),
                                             given=build_context),
    "PUT /api/builds/contexts/{name}": Entry(
        Ask(204, body=lambda values: values["archive"], check=empty), Ask(400, body=b"junk"), given=build_context),
}

OPERATORS = {
    "GET /api/templates": Entry(Ask(200, check=has("templates", 0, "name")), BAD_ALL),
    "PUT /api/templates/{template}": Entry(
        Ask(201, body=lambda values: values["archive"], check=has("name", value="routes-made")),
        Ask(400, body=b"", at={"template": ".bad"}), given=rootfs),
    "POST /api/templates/{name}/build": Entry(
        Ask(501, body=lambda values: values["archive"], at={"name": "routes-built"}),
        Ask(400, "?network=isolated", body=b""), given=rootfs),
    # Everybody's, so not for this key; admins remove them in test_cli.py.
    "DELETE /api/templates/{template}": Entry(Ask(403), Ask(400, at={"template": ".bad"}), given=template),
    "GET /api/templates/{template}": Entry(
        Ask(200, check=has("layers", 0, "size_bytes")), Ask(400, at={"template": ".bad"}), given=template),
    "GET /api/templates/{template}/versions": Entry(
        Ask(200, check=has("versions", 0, "tags", 0, value="latest")),
        Ask(404, at={"template": "nothing"}), given=template),
    "GET /api/templates/{template}/diff": Entry(
        Ask(200, "?with=routes-gone", check=has("changed", value={})), Ask(400), given=template),
    "GET /api/templates/{template}/log": Entry(
        Ask(404), Ask(400, at={"template": ".bad"}), given=template),
    "GET /api/templates/{template}/sbom": Entry(
        Ask(200, check=has("bomFormat", value="CycloneDX")), Ask(400, at={"template": ".bad"}), given=template),
    "POST /api/templates/{template}/tags": Entry(
        Ask(403, body={"tag": "x"}), Ask(400, body={}), given=template),
    "PUT /api/templates/{template}/shares": Entry(
        Ask(403, body={"public": True}), Ask(400, body={"public": 1}), given=template),
    # test_image_export.py has a registry to push to.
    "POST /api/templates/{template}/push": Entry(
        Ask(403, body={"image": "localhost:1/x:1"}), Ask(400, body={}), given=template),
    "GET /api/templates/{template}/archive": Entry(
        Ask(200, check=text("oci-layout")), Ask(400, at={"template": ".bad"}), given=template),
    "POST /api/templates/gc": Entry(Ask(200, check=has("versions", value=0)), BAD_ALL),
    # test_images.py has a registry to pull from; tenants may not name those of this host.
    "GET /api/images": Entry(Ask(200, check=has("images")), BAD_ALL),
    "PUT /api/images": Entry(Ask(400, body=b"not an archive"), Ask(400, "?name=.bad", body=b"x")),
    "POST /api/images/pull": Entry(Ask(403, body={"image": "localhost:1/x"}), Ask(400, body={"image": "-x"})),
    # Tenants have no volumes unless the operator permits it: see test_volumes.py.
    "GET /api/volumes": Entry(Ask(200, check=has("volumes")), Ask(400, "?provider=nobody")),
    "POST /api/volumes": Entry(Ask(403, body={"name": "x"}), Ask(400, body={"name": "a/b"})),
    "DELETE /api/volumes/{name}": Entry(Ask(404), Ask(400, at={"name": ".bad"})),
    **{f"{method} /api/volumes/{{name}}/files{what}": Entry(
        Ask(404, "?path=f" + more, body=b"x" if method == "PUT" else None), Ask(400, at={"name": ".bad"}))
       for method, what, more in (
           ("GET", "", ""), ("PUT", "", ""), ("DELETE", "", ""), ("GET", "/stat", ""), ("GET", "/list", ""),
           ("POST", "/mkdir", ""), ("POST", "/move", "&to=g"), ("POST", "/chmod", "&mode=0644"),
           ("POST", "/chown", "&owner=root"), ("POST", "/symlink", "&target=g"))},
    "GET /api/keys": Entry(Ask(200, check=has("keys", 0, "id")), BAD_ALL),
    "POST /api/keys": Entry(Ask(201, body={"tenant": "acme", "scope": "read"}, check=has("key")),
                            Ask(400, body={"tenant": "acme", "scope": "all"})),
    "DELETE /api/keys/{name}": Entry(Ask(204, check=empty), Ask(400, at={"name": ".bad"}),
                                     given=key),
    "GET /api/secrets": Entry(Ask(200, check=shows("secret")), BAD_ALL,
                              foreign=hides("secret"), given=secret),
    "POST /api/secrets": Entry(Ask(201, body={"name": "made", "value": "v"}, check=has("version", value=1)),
                               Ask(400, body={"name": "made", "value": ""})),
    "DELETE /api/secrets/{secret}": Entry(Ask(204, check=empty), Ask(400, at={"secret": "b@d"}),
                                          foreign=404, given=secret),
    "GET /api/registry": Entry(Ask(200, check=text("Bash")), BAD_ALL),
    **registry("environments"), **registry("agents"), **registry("tools"), **registry("prompts"),
    "POST /api/connectors": Entry(
        Ask(200, body={"name": "made", "command": "x", "replace": True}, check=has("type", value="stdio")),
        Ask(400, body={"name": "made"}), given=connector),
    "GET /api/connectors": Entry(Ask(200, check=shows("name")), None, given=connector, foreign=hides("name")),
    "GET /api/connectors/{name}": Entry(Ask(200, check=has("name", value="made")), Ask(404, at={"name": "none"}),
                                        given=connector, foreign=404),
    "PUT /api/connectors/{name}": Entry(
        Ask(200, body={"url": "https://mcp.example.org/mcp"}, check=has("type", value="http")),
        Ask(400, body={"url": "ftp://x"}), given=connector),
    "DELETE /api/connectors/{name}": Entry(Ask(204, check=empty), Ask(404, at={"name": "none"}), given=connector, foreign=404),
    "POST /api/connectors/{name}/login": Entry(
        Ask(409, body={"code": "x", "state": "y"}), Ask(400, body={"code": "x"}), given=connector),
    "POST /api/prompts/{name}/render": Entry(
        Ask(200, body={"variables": {}}, check=has("text", value="hello")),
        Ask(400, body={"variables": {"x": "1"}}), given=lambda world: {"name": "one"}),
}

TABLE = {**SERVICE, **SANDBOXES, **COMMANDS, **FILES, **PREVIEWS, **GIT, **CONTEXTS, **ARTIFACTS,
         **SESSIONS, **OPERATORS}
