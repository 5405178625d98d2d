#!/usr/bin/env python3
"""An MCP server (stdio) with the tools of coding agents (Bash, Read, Edit …), carried out in one sandbox.

    mcp_proxy.py SANDBOX [OUTSIDE:INSIDE]

`atoll mcp` has more tools, with names of their own; this one keeps the names and paths that a prompt was written for."""

import json
import sys
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "agents"))
from atoll import attempt, call  # noqa: E402

SANDBOX, MAP = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None


def use(params):
    path = f"/api/sandboxes/{SANDBOX}/tools/{quote(params['name'], safe='')}"
    status, answer = attempt("POST", path + ("?map=" + quote(MAP, safe="") if MAP else ""), params.get("arguments") or {})
    text = answer["text"] if status == 200 else answer["error"]["message"]
    return {"content": [{"type": "text", "text": text}], "isError": status != 200 or answer["is_error"]}


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "sandbox", "version": "1"}}
    if method == "tools/list":
        return call("GET", "/api/tools?format=mcp")
    if method == "tools/call":
        return use(params)
    return {} if method == "ping" else None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    result = answer(message["method"], message.get("params") or {})
    reply = {"result": result} if result is not None else {"error": {"code": -32601, "message": "there is no such method"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
