"""MCP servers in a sandbox, behind one endpoint: the program of the environment mcp-gateway, in a template of the host."""

import json
import threading
import urllib.parse

import pytest

from daemons import BUILD, need_build, running, wait_until
from gateways import write_gateway
from rest import Rest

# A server with the tools that NAMES has: it answers "pid", and each other tool is a way to misbehave.
SERVER = r"""
import json, os, sys, time
def say(message):
    print(json.dumps(message), flush=True)
for line in sys.stdin:
    ask = json.loads(line)
    method, params = ask.get("method"), ask.get("params", {})
    if method == "initialize":
        print("not JSON")
        say([1, 2]); say({"jsonrpc": "2.0"}); say({"id": 99999, "result": {}}); say({"id": {"a": 1}, "result": {}}); say(None)
        say({"jsonrpc": "2.0", "id": "theirs", "method": "sampling/createMessage", "params": {}})
        say({"jsonrpc": "2.0", "id": ask["id"], "result": {"protocolVersion": params["protocolVersion"], "capabilities": {}, "serverInfo": {}}})
    elif method == "tools/list":
        say({"jsonrpc": "2.0", "id": ask["id"], "result": {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in os.environ["NAMES"].split()]}})
    elif method == "tools/call":
        name = params["name"]
        if name == "die":
            print("the reason", file=sys.stderr, flush=True)
            sys.exit(3)
        if name == "flood":
            print("x" * (9 << 20), flush=True)
        if name == "wrong":
            say({"jsonrpc": "2.0", "id": ask["id"], "error": {"code": -1, "message": "it refused"}})
            continue
        if name == "slow":
            time.sleep(600)
        text = json.dumps({"pid": os.getpid(), "token": os.environ.get("TOKEN"), "own": os.environ.get("GATEWAY_ACCESS_TOKEN"), **params})
        say({"jsonrpc": "2.0", "id": ask["id"], "result": {"content": [{"type": "text", "text": text}]}})
"""


def server(names, **env):
    return {"command": "python3", "args": ["-c", SERVER], "env": {"NAMES": names, **env}}


@pytest.fixture(scope="module")
def rest(tmp_path_factory):
    registry = tmp_path_factory.mktemp("gateway") / "registry/environments"
    registry.mkdir(parents=True)
    write_gateway(registry)
    need_build()
    with running(BUILD, ATOLL_REGISTRY=str(registry.parent)) as daemon:
        client = Rest(daemon.socket)
        client.daemon = daemon
        assert client.post("/api/secrets", {"name": "TOKEN", "value": "canary-of-a-gateway"}).status == 201
        yield client


class Box:
    """A sandbox with a gateway, and its endpoint."""

    def __init__(self, rest, servers):
        self.rest = rest
        made = rest.post("/api/sandboxes", {"mcp": servers})
        assert made.status == 201, made.body
        self.id, self.mcp = made.json["id"], made.json["mcp"]

    def post(self, message, token=None, path="/mcp"):
        url = urllib.parse.urlsplit(self.mcp["url"])
        assert url.path == f"/preview/{self.id}/50005/mcp" and url.query == "key=" + self.mcp["token"]
        return self.rest.call("POST", f"/preview/{self.id}/50005{path}?key={token or self.mcp['token']}", message)

    def ask(self, method, **params):
        answer = self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        assert answer.status == 200, answer.body
        return answer.json

    def tools(self):
        return sorted(tool["name"] for tool in self.ask("tools/list")["result"]["tools"])

    def call(self, name, **arguments):
        result = self.ask("tools/call", name=name, arguments=arguments)["result"]
        text = result["content"][0]["text"]
        return text if result.get("isError") else json.loads(text)


@pytest.fixture(scope="module")
def box(rest):
    made = Box(rest, {"one": server("pid die flood same wrong slow", TOKEN="${secret.TOKEN}"), "two": server("pid2 same"),
                      "missing": {"command": "/nowhere"}})
    yield made
    rest.delete(f"/api/sandboxes/{made.id}")


def test_tools_of_all_servers_by_their_names(box):
    begun = box.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={})["result"]
    assert begun["protocolVersion"] == "2025-06-18" and "tools" in begun["capabilities"]
    assert box.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202
    assert box.tools() == ["one__die", "one__flood", "one__pid", "one__same", "one__slow", "one__wrong", "two__pid2", "two__same"]
    assert len(box.mcp["problems"]) == 1 and box.mcp["problems"][0].startswith("missing: "), box.mcp
    said = box.call("one__pid", x=1)
    assert said["name"] == "pid" and said["arguments"] == {"x": 1} and said["token"] == "canary-of-a-gateway"
    assert said["own"] is None  # the key of the gateway is not the servers'
    assert box.call("pid2")["name"] == "pid2"  # one server has it
    assert box.call("two__same")["pid"] != box.call("one__same")["pid"] == said["pid"]
    assert "there is no tool same" in box.call("same") and "missing" in box.call("nothing")
    assert "it refused" in box.call("one__wrong")


def test_who_may_ask(box):
    assert box.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, token="wrong").status == 401
    assert box.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, path="/other").status == 404
    assert box.ask("ping")["result"] == {}
    assert box.ask("nothing")["error"]["code"] == -32601
    assert box.post([1]).json["error"]["code"] == -32600
    assert box.post({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": 5}).json["error"]["code"] == -32602
    assert box.post(b"{").status == 400


@pytest.mark.parametrize("tool, why", [("die", "the reason"), ("flood", "more than 8 MiB")])
def test_a_server_that_ends_is_started_again(box, tool, why):
    wait_until(lambda: isinstance(box.call("one__pid"), dict), 90, lambda: box.call("one__pid"))
    before, other = box.call("one__pid")["pid"], box.call("two__pid2")["pid"]
    assert why in box.call(f"one__{tool}")
    again = box.call("one__pid")  # not at once
    assert isinstance(again, dict) or ("is started again in" in again and why in again), again
    wait_until(lambda: isinstance(box.call("one__pid"), dict), 90, lambda: box.call("one__pid"))
    assert box.call("one__pid")["pid"] != before and box.call("two__pid2")["pid"] == other


def test_calls_run_beside_each_other(rest):
    box = Box(rest, {"one": server("pid slow"), "two": server("pid")})
    slow = threading.Thread(target=lambda: box.post({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
                                                     "params": {"name": "one__slow"}}))
    slow.start()
    assert box.call("two__pid")["name"] == "pid"
    # Another gateway takes the place of this one, and its servers end.
    pid = box.call("two__pid")["pid"]
    replaced = rest.post(f"/api/sandboxes/{box.id}/mcp", {"servers": {"three": server("pid")}})
    assert replaced.status == 201 and replaced.json["problems"] == [], replaced.body
    assert box.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}).status == 401
    box.mcp = replaced.json
    assert box.tools() == ["three__pid"]
    gone = rest.post(f"/api/sandboxes/{box.id}/tools/Bash", {"command": f"! kill -0 {pid}"})
    assert not gone.json["is_error"], gone.body
    slow.join()
    assert rest.delete(f"/api/sandboxes/{box.id}").status == 204


def test_connectors_as_servers(rest):
    assert rest.call("PUT", "/api/connectors/mine", server("pid", TOKEN="${secret.TOKEN}")).status == 201
    printed = rest.daemon.atoll("create", "--mcp", "mine", check=True).stdout.split()
    assert rest.get(f"/api/sandboxes/{printed[0]}").status == 200 and "/mcp?key=" in printed[1] and len(printed) == 3
    rest.delete(f"/api/sandboxes/{printed[0]}")
    box = Box(rest, ["mine"])
    assert box.call("mine__pid")["token"] == "canary-of-a-gateway"
    execs = rest.get(f"/api/sandboxes/{box.id}/execs").body.decode()
    assert "canary-of-a-gateway" not in execs and box.mcp["token"] not in execs
    rest.delete(f"/api/sandboxes/{box.id}")


@pytest.mark.parametrize("servers, status, why", [
    ({}, 400, "give 1 to 32"), (5, 400, "give 1 to 32"), ([5], 400, "the server ? must be"), ({"x": 5}, 400, "the server x must be"),
    ({f"s{n}": {} for n in range(33)}, 400, "give 1 to 32"), (["nope"], 404, "no connector nope"),
    ({"x": {"url": "https://a"}}, 400, "is not in the sandbox"), ({"x": {"command": "y", "env": {"A": "${secret.NO}"}}}, 409, "the secret NO"),
    ({"x": {"command": "y", "env": {"A": 1}}}, 409, "not a text"),
    ({"nosuch": {}}, 409, 'there is no server "nosuch"; known are context7'), ({"a b": {"command": "x"}}, 409, "a name of letters"),
    ({"x": {"command": "y", "npm": "z"}}, 409, "one of command, npm and pypi"), ({"x": {"command": "y", "colour": 1}}, 409, "x.colour"),
    ({"x": {"npm": "--unsafe"}}, 409, "the name of a package"), ({"x": {"pypi": "a; b"}}, 409, "the name of a package"),
    ({"github/a": {"runCmd": "x"}}, 409, "github/OWNER/REPOSITORY"),
    ({"x": {"command": "/nowhere"}}, 409, "nowhere"), ({"x": {"command": "true"}}, 409, "x: "),
    ({"x": {"command": "sh", "args": ["-c", "echo why >&2; exit 1"]}}, 409, "why"),
])
def test_bad_input_leaves_no_sandbox(rest, servers, status, why):
    refused = rest.post("/api/sandboxes", {"mcp": servers, "name": "refused"})
    assert refused.status == status and why in refused.json["error"]["message"], refused.body
    wait_until(lambda: rest.get("/api/sandboxes/refused").status == 404, 20, lambda: "the sandbox is still there")


def test_sandboxes_without_the_program(rest):
    refused = rest.post("/api/sandboxes", {"mcp": {"time": {}}, "template": "host"})
    assert refused.status == 409 and "has no program mcp-gateway" in refused.json["error"]["message"], refused.body
    for more in ({"getOrCreate": True, "name": "x"}, {"lifetime": {"leaseConnection": True}}):
        assert rest.post("/api/sandboxes", {"mcp": {"time": {}}, **more}).status == 400
    assert rest.post("/api/sessions", {"mcp": {}}).status == 400
