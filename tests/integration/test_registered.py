"""Tools and prompts of the registry: called by REST and by MCP, in a sandbox, with arguments as they are."""

import json

import pytest
from daemons import BUILD, ROOT, need_build, running, wait_until
from mcp_client import Mcp
from rest import Rest

HOSTILE = "$(touch /tmp/pwned); `id` {other} 'x' \"y\" -rf\n;{{name}}"

TOOLS = {
    "echo-args": """
description: Prints its arguments, one per line, its variable and its input.
parameters:
  type: object
  properties:
    text: {type: string}
    many: {type: array, items: {type: string}}
    count: {type: integer, minimum: 1}
    other: {type: string}
  required: [text]
command: [python3, -c, "import os, sys, json; print(json.dumps([sys.argv[1:], os.environ.get('WORD'), sys.stdin.read()]))", "{text}", "--count={count}", "{many}", "{other}"]
env: {WORD: "<{text}>"}
stdin: json
""",
    "fails": "description: Fails.\ncommand: [sh, -c, 'echo reason >&2; exit 3']\n",
    "slow": "description: Takes too long.\ncommand: [sleep, '600']\ntimeoutSeconds: 0.2\n",
    "in-node": "description: Where.\nenvironment: Node\ncommand: [hostname]\n",
    "run_command": "description: The built-in one is used.\ncommand: [echo, mine]\n",
}
PROMPTS = {
    "greet": "description: d\ntext: 'Hello {name}, {{name}} and {\"json\": 1}{mark}'\n"
             "variables: {name: {required: true, description: Who.}, mark: {default: '!'}, more: {}}\n",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    registry = tmp_path_factory.mktemp("registered") / "registry"
    (registry / "environments").mkdir(parents=True)
    for name in ("Bash", "Node", "Python3"):
        (registry / "environments" / f"{name}.yaml").write_bytes(
            (ROOT / "registry/environments" / f"{name}.yaml").read_bytes())
    for kind, files in (("tools", TOOLS), ("prompts", PROMPTS)):
        (registry / kind).mkdir()
        for name, text in files.items():
            (registry / kind / f"{name}.yaml").write_text(text)
    need_build()
    with running(BUILD, ATOLL_REGISTRY=str(registry)) as daemon:
        rest = Rest(daemon.socket)
        assert rest.get("/api/registry").json["problems"] == []
        yield rest, registry


@pytest.fixture(scope="module")
def rest(world):
    return world[0]


@pytest.fixture(scope="module")
def box(rest):
    return rest.post("/api/sandboxes", {}).json["id"]


@pytest.fixture
def mcp(rest):
    client = Mcp(rest)
    client.begin()
    yield client
    rest.call("DELETE", "/mcp", None, {"Mcp-Session-Id": client.session})


def test_a_tool_by_rest(rest, box):
    listed = {tool["name"]: tool for tool in rest.get("/api/tools").json["tools"]}
    assert listed["echo-args"]["input_schema"]["required"] == ["text"]
    assert "sandbox" not in listed["echo-args"]["input_schema"]["properties"]
    path = f"/api/sandboxes/{box}/tools/echo-args"
    given = {"text": HOSTILE, "many": ["a b", "-c"], "count": 2}
    ran = rest.post(path, given)
    assert ran.status == 200 and not ran.json["is_error"], ran.body
    # Arguments are whole arguments; one that was not given is left out.
    argv, word, stdin = json.loads(ran.json["data"]["stdout"])
    assert argv == [HOSTILE, "--count=2", "a b", "-c"]
    assert word == f"<{HOSTILE}>" and json.loads(stdin) == given
    assert rest.post(f"/api/sandboxes/{box}/tools/Bash", {"command": "ls /tmp/pwned"}).json["is_error"]
    assert json.loads(rest.post(path, {"text": ""}).json["data"]["stdout"])[0] == [""]
    for bad, reason in (({}, "text is missing"), ({"text": 1}, "text must be a string"),
                        ({"text": "x", "count": 0}, "count must be at least 1"),
                        ({"text": "x", "nope": 1}, "nope is not known"),
                        ({"text": "x", "sandbox": box}, "sandbox is not known")):
        refused = rest.post(path, bad)
        assert refused.status == 400 and reason in refused.json["error"]["message"], refused.body
    assert rest.post(path, {"text": "x", "many": ["y"] * 2000}).status == 400


def test_how_a_tool_ends(rest, box):
    failed = rest.post(f"/api/sandboxes/{box}/tools/fails", {}).json
    assert failed["is_error"] and failed["text"] == "reason\nexit code 3\n"
    slow = rest.post(f"/api/sandboxes/{box}/tools/slow", {}).json
    assert slow["is_error"] and slow["data"]["state"] == "timed_out"


def test_a_tool_by_mcp(rest, box, mcp):
    tools = {tool["name"]: tool for tool in mcp.ask("tools/list")["result"]["tools"]}
    assert "sandbox" in tools["echo-args"]["inputSchema"]["properties"]
    assert tools["run_command"]["description"].startswith("Runs a shell command")
    for arguments in ({"text": "x"}, {"text": "x", "sandbox": box}):
        result = mcp.tool("echo-args", **arguments)
        assert json.loads(result["structuredContent"]["stdout"])[0] == ["x"] and not result["isError"]
        assert json.loads(json.loads(result["structuredContent"]["stdout"])[2]) == {"text": "x"}
    wrong = mcp.ask("tools/call", name="echo-args", arguments={"text": 5})
    assert wrong["error"]["code"] == -32602 and "text must be a string" in wrong["error"]["message"]
    # A tool of an environment has a sandbox of its own, which ends with the session.
    assert not mcp.tool("in-node")["isError"]
    name = f"mcp-{mcp.session[:16]}-Node"
    assert rest.get(f"/api/sandboxes/{name}").status == 200
    assert rest.call("DELETE", "/mcp", None, {"Mcp-Session-Id": mcp.session}).status == 204
    wait_until(lambda: rest.get(f"/api/sandboxes/{name}").status == 404, 20, lambda: "it is still there")


def test_a_tool_that_changes(world, box):
    rest, registry = world
    file = registry / "tools/changing.yaml"
    file.write_text("description: d\ncommand: [sh, -c, 'sleep 0.3; echo one']\n")
    wait_until(lambda: "changing" in rest.get("/api/registry").json["tools"], 20, lambda: "not loaded")
    connection = rest.connection()
    connection.request("POST", f"/api/sandboxes/{box}/tools/changing", "{}", {"Content-Type": "application/json"})
    file.unlink()
    wait_until(lambda: "changing" not in rest.get("/api/registry").json["tools"], 20, lambda: "still loaded")
    assert json.loads(connection.getresponse().read())["text"] == "one\n"
    assert rest.post(f"/api/sandboxes/{box}/tools/changing", {}).status == 404


def test_prompts(rest, mcp):
    listed = mcp.ask("prompts/list")["result"]["prompts"]
    assert listed == [{"name": "greet", "description": "d", "arguments": [
        {"name": "name", "description": "Who.", "required": True}, {"name": "mark", "required": False},
        {"name": "more", "required": False}]}]
    expected = 'Hello {mark}, {name} and {"json": 1}!'  # a value is not looked at again
    got = mcp.ask("prompts/get", name="greet", arguments={"name": "{mark}"})["result"]
    assert got["messages"] == [{"role": "user", "content": {"type": "text", "text": expected}}]
    rendered = rest.post("/api/prompts/greet/render", {"variables": {"name": "{mark}"}})
    assert rendered.status == 200 and rendered.json == {"name": "greet", "text": expected}
    for body, reason in (({}, "variable name of the prompt greet is missing"),
                         ({"variables": {"name": "x", "who": "y"}}, "has no variable who"),
                         ({"variables": {"name": 5}}, "must be a text"),
                         ({"variables": []}, "variables must be an object")):
        refused = rest.post("/api/prompts/greet/render", body)
        assert refused.status == 400 and reason in refused.json["error"]["message"], refused.body
    assert rest.post("/api/prompts/nope/render", {}).status == 404
    assert mcp.ask("prompts/get", name="nope")["error"]["code"] == -32602
    assert mcp.ask("prompts/get", name="greet", arguments=[])["error"]["code"] == -32602
    assert mcp.ask("prompts/get", name="greet")["error"]["code"] == -32602
