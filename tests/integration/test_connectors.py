"""Connectors: MCP servers that tenants store by name, and how an agent of a task gets them."""

import json
import shutil
import tomllib

import pytest

from daemons import ROOT, wait_until
from networks import FAR, Page, Web, networked
from rest import Rest

VALUE = "canary-of-a-connector-77b1"
# An MCP server of few lines, and an agent that reads its configuration, starts the servers and lists their tools.
SERVER = r"""
import json, os, sys
for line in sys.stdin:
    ask = json.loads(line)
    if "id" in ask:
        result = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}},
                  "tools/list": {"tools": [{"name": os.environ.get("TOKEN", "none") + "-" + os.getcwd(), "inputSchema": {"type": "object"}}]}}
        print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": result[ask["method"]]}), flush=True)
"""
CLIENT = r"""
import json, os, subprocess, sys
for name, server in json.load(open(sys.argv[1]))["mcpServers"].items():
    if "command" in server:
        asks = [{"jsonrpc": "2.0", "id": n, "method": m, "params": {}} for n, m in enumerate(["initialize", "tools/list"])]
        ran = subprocess.run([server["command"], *server.get("args", [])], env={**os.environ, **server.get("env", {})},
                             input="".join(json.dumps(ask) + "\n" for ask in asks), capture_output=True, text=True, check=True)
        print(name, json.loads(ran.stdout.splitlines()[1])["result"]["tools"][0]["name"])
    else:
        print(name, server["type"], server["headers"]["Authorization"])
        if sys.argv[2] == "ask":
            subprocess.run(["curl", "-sf", "-H", f"Authorization: {server['headers']['Authorization']}", server["url"]], check=True)
"""
AGENT = f"""environment: Python3
command: [python3, -c, {json.dumps(CLIENT)}]
mcp: {{form: claude, options: ["{{mcpConfig}}", "{{instruction}}"]}}
"""
LOCAL = {"command": "python3", "args": ["-c", SERVER], "env": {"TOKEN": "${secret.TOKEN}"}, "cwd": "/tmp"}
REMOTE = {"url": "https://tools.example.org/mcp?key=hidden", "headers": {"Authorization": "Bearer ${secret.TOKEN}"}}


class Noting(Page):
    def do_GET(self):
        self.server.seen.append(self.headers["Authorization"])
        super().do_GET()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    registry = tmp_path_factory.mktemp("connectors") / "registry"
    shutil.copytree(ROOT / "registry", registry)
    (registry / "agents/reading.yaml").write_text(AGENT)
    (registry / "agents/deaf.yaml").write_text("environment: Bash\ncommand: [sh, -c, '{instruction}']\n")
    for form, more in (("codex", "prepare: |\n    d=$HOME/.codex; mkdir -p $d; cat \"$0\" > $d/config.toml\n"), ("gemini", ""),
                       ("opencode", "env: {CONFIG: '{mcpConfig}'}\n")):
        (registry / f"agents/{form}-like.yaml").write_text(
            "environment: Bash\ncommand: [sh, -c, '{instruction}']\nmcp:\n  form: %s\n  %s" % (form, more))
    with networked(ATOLL_REGISTRY=str(registry)) as daemon:
        with (daemon.networks.directory / "hosts").open("a") as hosts:
            hosts.write(f"{FAR[5]} tools.example.org\n")
        daemon.web = Web(daemon.networks.far.listen(FAR[5], 443), "tools",
                         daemon.networks.authority.certificate("tools.example.org"))
        daemon.web.RequestHandlerClass = Noting
        daemon.web.seen = []
        daemon.rest = Rest(daemon.socket)
        assert daemon.rest.get("/api/registry").json["problems"] == []
        assert daemon.rest.post("/api/secrets", {"name": "TOKEN", "value": VALUE}).status == 201
        yield daemon
        daemon.web.close()


@pytest.fixture(scope="module")
def rest(world):
    return world.rest


def run(rest, agent, servers, state="succeeded", **more):
    answer = rest.call("POST", "/api/tasks", {"agent": agent, "instruction": "x", "autoCleanup": True,
                                              "mcpServers": servers, **more}, wait="true")
    assert answer.json.get("state") == state, answer.body
    return answer.json


def test_they_are_stored_and_values_stay_inside(world, rest):
    made = rest.post("/api/connectors", {"name": "kept", "command": "x", "args": ["-v"], "env": {"A": VALUE}})
    assert made.status == 201 and made.json["env"] == ["A"] and made.json["type"] == "stdio", made.body
    assert rest.post("/api/connectors", {"name": "kept", "command": "y"}).status == 409
    changed = rest.call("PUT", "/api/connectors/kept", {**REMOTE, "headers": {"X": VALUE}})
    assert changed.status == 200 and changed.json["url"] == "https://tools.example.org/mcp", changed.body
    assert changed.json["headers"] == ["X"] and "command" not in changed.json
    assert VALUE not in rest.get("/api/connectors").body.decode() + rest.get("/api/connectors/kept").body.decode()
    world.stop()
    stored = b"".join(path.read_bytes() for path in world.state.iterdir() if path.is_file() and path.suffix != ".img")
    assert b"tools.example.org" not in stored and b"kept" in stored and VALUE.encode() not in stored
    world.start()
    assert rest.get("/api/connectors/kept").json == changed.json
    assert "kept" in world.atoll("connector", "ls", check=True).stdout
    assert rest.delete("/api/connectors/kept").status == 204
    assert rest.get("/api/connectors/kept").status == 404 and rest.delete("/api/connectors/kept").status == 404


@pytest.mark.parametrize("definition, reason", [
    ({}, 'either "command"'), ({"command": "x", "url": "https://a"}, 'either "command"'),
    ({"command": ""}, "bad.command must be a program"), ({"command": "x", "args": "y"}, "bad.args must be a list"),
    ({"command": "x", "args": ["a\x1bb"]}, "bad.args must be a list"),
    ({"command": "x", "env": {"A=B": "c"}}, "bad.env must be an object"),
    ({"command": "x", "env": {"A": "${secret."}}, "bad.env must be an object"),
    ({"command": "x", "env": {"A": 1}}, "bad.env must be an object"),
    ({"command": "x", "headers": {}}, 'does not go together with "command"'),
    ({"url": "https://a", "cwd": "/"}, 'does not go together with "url"'),
    ({"url": "ftp://a"}, "bad.url must be an http or https URL"), ({"url": "https:///x"}, "bad.url must be"),
    ({"url": "https://u:p@a/"}, "without a password"), ({"url": "https://a", "type": "stdio"}, "bad.type must be"),
    ({"command": "x", "type": "http"}, "bad.type must be"), ({"command": "x", "colour": 1}, "bad.colour; known are"),
    ({"command": "x", "args": ["y" * 3000] * 30}, "at most 64 KiB"),
])
def test_bad_definitions(rest, definition, reason):
    for answer in (rest.post("/api/connectors", {"name": "bad", **definition}),
                   rest.post("/api/tasks", {"agent": "reading", "instruction": "x", "mcpServers": {"bad": definition}})):
        assert answer.status == 400 and reason in answer.json["error"]["message"], answer.body


def test_bad_requests(rest):
    for name in ("", "a.b", "a b", "ä", "x" * 65, 5, None):
        assert rest.post("/api/connectors", {"name": name, "command": "x"}).status == 400
    assert rest.post("/api/connectors", {"name": "x", "command": "x", "replace": 1}).status == 400
    for servers, status, reason in ((5, 400, "mcpServers must be"), ([5], 400, "the name of a connector"),
                                    ({"a.b": "x"}, 400, "a name has"), (["nope"], 404, "no connector nope"),
                                    ({"x": {"command": "x", "env": {"A": "${secret.NOPE}"}}}, 409, "the secret NOPE"),
                                    ({f"s{n}": {"command": "x"} for n in range(17)}, 400, "at most 16")):
        answer = rest.post("/api/tasks", {"agent": "reading", "instruction": "x", "mcpServers": servers})
        assert answer.status == status and reason in answer.json["error"]["message"], answer.body
    deaf = rest.post("/api/tasks", {"agent": "deaf", "instruction": "x", "mcpServers": {"x": {"command": "x"}}})
    assert deaf.status == 409 and "takes no MCP servers" in deaf.json["error"]["message"], deaf.body
    # Without any, agents need not know of them.
    assert run(rest, "deaf", {}, instruction="true")


def test_the_number_is_limited(rest):
    for number in range(100):
        assert rest.post("/api/connectors", {"name": f"many-{number}", "command": "x"}).status == 201
    full = rest.post("/api/connectors", {"name": "more", "command": "x"})
    assert full.status == 429 and "at most 100" in full.json["error"]["message"]
    assert rest.post("/api/connectors", {"name": "many-7", "command": "y", "replace": True}).status == 200
    for number in range(100):
        assert rest.delete(f"/api/connectors/many-{number}").status == 204


def test_an_agent_uses_a_local_server(world, rest):
    world.atoll("connector", "create", "local", "--replace", "-e", "TOKEN=${secret.TOKEN}", "--cwd", "/tmp", "--",
                "python3", "-c", SERVER, check=True)
    assert run(rest, "reading", ["local"])["output"] == f"local {VALUE}-/tmp\n"
    both = run(rest, "reading", {"inline": {**LOCAL, "env": {}}, "again": "local"})
    assert both["output"] == f"inline none-/tmp\nagain {VALUE}-/tmp\n"
    # Neither the log nor the view nor the list of commands has the value.
    kept = run(rest, "codex-like", ["local"], autoCleanup=False, instruction="true")
    log = rest.get(f"/api/tasks/{kept['id']}/log").body.decode()
    execs = rest.get(f"/api/sandboxes/{kept['sandbox_id']}/execs").body.decode()
    assert VALUE not in json.dumps(kept) + log + execs
    rest.delete(f"/api/sandboxes/{kept['sandbox_id']}")
    printed = world.atoll("task", "run", "--agent", "reading", "--mcp", "local", "x", check=True).stdout
    assert f"local {VALUE}-/tmp" in printed


def test_credentials_of_a_remote_server_stay_outside(world, rest):
    assert rest.call("PUT", "/api/connectors/remote", REMOTE).status in (200, 201)
    task = run(rest, "reading", ["remote"], instruction="ask")
    assert "remote http kept-outside-by-atoll\n" in task["output"] and task["mcp_outside"] == ["remote"], task
    assert world.web.seen == [f"Bearer {VALUE}"]
    # By choice, or where a rule cannot reach it, the agent has it.
    assert run(rest, "reading", ["remote"], keys="environment")["output"] == f"remote http Bearer {VALUE}\n"
    plain = {"plain": {**REMOTE, "url": "http://tools.example.org/mcp"}}
    assert run(rest, "reading", plain)["output"] == f"plain http Bearer {VALUE}\n"


def test_what_each_program_reads(rest):
    servers = {"local": {"command": "srv", "args": ["a \"b\"", "ö"], "env": {"K": "v"}},
               "far": {"url": "http://h/x", "headers": {"X-Key": "w"}}, "old": {"url": "http://h/sse", "type": "sse"}}
    toml = tomllib.loads(run(rest, "codex-like", servers, instruction="cat ~/.codex/config.toml")["output"])
    assert toml["mcp_servers"] == {"local": {"command": "srv", "args": ["a \"b\"", "ö"], "env": {"K": "v"}},
                                   "far": {"url": "http://h/x", "http_headers": {"X-Key": "w"}}, "old": {"url": "http://h/sse"}}
    show = "stat -c %a /tmp/.atoll-mcp.json >&2; cat /tmp/.atoll-mcp.json"
    gemini = json.loads(run(rest, "gemini-like", servers, instruction=show)["output"])["mcpServers"]
    assert gemini["far"] == {"httpUrl": "http://h/x", "headers": {"X-Key": "w"}, "trust": True}
    assert gemini["old"] == {"url": "http://h/sse", "trust": True} and gemini["local"]["command"] == "srv"
    opencode = json.loads(run(rest, "opencode-like", servers, instruction="cat $CONFIG")["output"])["mcp"]
    assert opencode["local"] == {"type": "local", "enabled": True, "command": ["srv", "a \"b\"", "ö"], "environment": {"K": "v"}}
    assert opencode["far"] == {"type": "remote", "enabled": True, "url": "http://h/x", "headers": {"X-Key": "w"}}


def retry(rest, task):
    assert rest.post(f"/api/tasks/{task}/retry", {"step": "run"}).status == 202
    ended = lambda: rest.get(f"/api/tasks/{task}").json["state"] in ("succeeded", "failed")
    wait_until(ended, 30, lambda: "it has not ended")
    return rest.get(f"/api/tasks/{task}").json


def test_a_connector_that_is_gone_at_retry(rest):
    rest.call("PUT", "/api/connectors/passing", {"command": "/nowhere"})
    failed = run(rest, "reading", ["passing"], state="failed", autoCleanup=False)
    rest.delete("/api/connectors/passing")
    again = retry(rest, failed["id"])
    assert again["state"] == "failed" and "no connector passing" in again["error"]["message"], again
    # A new one is taken.
    rest.call("PUT", "/api/connectors/passing", LOCAL)
    again = retry(rest, failed["id"])
    assert again["state"] == "succeeded" and VALUE in again["output"], again
