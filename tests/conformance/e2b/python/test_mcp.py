"""The option mcp: the client starts the gateway in the sandbox, and reaches its endpoint."""

import json
import urllib.error
import urllib.request

import pytest
from e2b import Sandbox

SERVER = """
import json, sys
for line in sys.stdin:
    ask = json.loads(line)
    result = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "t", "version": "1"}},
              "tools/list": {"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]},
              "tools/call": {"content": [{"type": "text", "text": "hello"}]}}.get(ask.get("method"))
    if "id" in ask:
        print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": result}), flush=True)
"""


def ask(box, method, token=None, **params):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = urllib.request.Request(box.get_mcp_url(), body, {
        "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
        "Authorization": f"Bearer {token or box.get_mcp_token()}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["result"]


def test_servers_in_the_sandbox(domain_only):
    box = Sandbox.create(mcp={"own": {"command": "python3", "args": ["-c", SERVER]}})
    try:
        assert [tool["name"] for tool in ask(box, "tools/list")["tools"]] == ["own__greet"]
        assert ask(box, "tools/call", name="greet", arguments={})["content"][0]["text"] == "hello"
        assert Sandbox.connect(box.sandbox_id).get_mcp_token() == box.get_mcp_token()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            ask(box, "tools/list", token="wrong")
    finally:
        box.kill()


def test_a_server_that_is_not_known(domain_only):
    with pytest.raises(Exception, match="MCP gateway"):
        Sandbox.create(mcp={"nosuch": {}})
