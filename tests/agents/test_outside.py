"""Agents that run outside, and whose tools work in a sandbox: Claude Code and the Claude Agent SDK, each with the
hook of examples/tools and with the MCP proxy there."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent / "conformance")]

from clients import Unavailable, install_packages  # noqa: E402
from daemons import BUILD, running  # noqa: E402
from model_server import COMMAND, WORDS, ModelServer  # noqa: E402
from rest import Rest  # noqa: E402

TOOLS = ROOT / "examples" / "tools"
# `make test` has the agent that test_agents.py has there; `make test-all` has the SDK, too.
ONE = os.environ.get("ATOLL_AGENTS") == "one"
PACKAGES = HERE / "one" if ONE else HERE
PROGRAM = "@anthropic-ai/claude-code-linux-x64/claude"
with_sdk = pytest.mark.skipif(ONE, reason="`make test-all` has the Agent SDK")


@pytest.fixture(scope="module")
def modules():
    try:
        install_packages(PACKAGES)
    except Unavailable as e:
        pytest.skip(str(e))
    return PACKAGES / "node_modules"


@pytest.fixture(scope="module")
def daemon():
    with running(BUILD) as started:
        yield started


@pytest.fixture
def world(daemon, tmp_path):
    """A sandbox, an empty repository outside, and the environment of an agent."""
    listening = socket.create_server(("127.0.0.1", 0))
    model = ModelServer(listening)
    rest = Rest(daemon.socket)
    made = rest.post("/api/sandboxes", {})
    box = made.json["id"]
    rest.post(f"/api/sandboxes/{box}/execs?wait=true", {"cmd": ["mkdir", "-p", "/home/user/repo"]})
    repo = tmp_path / "repo"
    repo.mkdir()
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path), "ATOLL_SOCKET": str(daemon.socket), "ATOLL_SANDBOX": box,
        "ATOLL_MAP": f"{repo}:/home/user/repo", "ANTHROPIC_API_KEY": "sk-test-not-a-real-key",
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{listening.getsockname()[1]}",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    yield {"rest": rest, "box": box, "repo": repo, "env": environment, "model": model}
    rest.delete(f"/api/sandboxes/{box}")
    model.close()


def settings(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"hooks": {"PreToolUse": [
        {"matcher": "*", "hooks": [{"type": "command", "command": f"{TOOLS / 'claude_hook.py'}"}]}]}}))
    return path


def claude(modules, world, *arguments):
    done = subprocess.run([modules / PROGRAM, "-p", "Write a note.", "--model", "test", *arguments], cwd=world["repo"],
                          env=world["env"], capture_output=True, text=True, check=False, timeout=120,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and WORDS in done.stdout, (done.stdout[-2000:], done.stderr[-2000:])


def sdk(modules, world, *arguments):
    env = {**world["env"], "CLAUDE": str(modules / PROGRAM)}
    done = subprocess.run(["node", HERE / "sdk.mjs", *arguments], cwd=world["repo"], env=env,
                          capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and WORDS in done.stdout, (done.stdout[-2000:], done.stderr[-2000:])


def proxy(world):
    return [str(TOOLS / "mcp_proxy.py"), world["box"], world["env"]["ATOLL_MAP"]]


def check(world, tool="Bash"):
    """The note is in the sandbox, not outside, and the call is recorded."""
    rest, box = world["rest"], world["box"]
    read = rest.post(f"/api/sandboxes/{box}/tools/Read?map={world['env']['ATOLL_MAP']}",
                     {"file_path": f"{world['repo']}/note.txt"})
    assert read.status == 200 and "written by the agent" in read.json["text"], read.body
    assert list(world["repo"].iterdir()) == []
    rows = rest.get(f"/api/sandboxes/{box}/tools/calls").json["calls"]
    assert any(row["tool"] == tool and row["arguments"].get("command") == COMMAND for row in rows), rows


@pytest.mark.timeout(300)
def test_claude_code_with_the_hook(modules, world, tmp_path):
    claude(modules, world, "--settings", str(settings(tmp_path)))
    check(world)


@pytest.mark.timeout(300)
def test_claude_code_with_the_mcp_proxy(modules, world):
    program, *arguments = proxy(world)
    servers = {"mcpServers": {"box": {"command": program, "args": arguments,
                                      "env": {"ATOLL_SOCKET": world["env"]["ATOLL_SOCKET"]}}}}
    claude(modules, world, "--mcp-config", json.dumps(servers), "--strict-mcp-config",
           "--allowedTools", "mcp__box__Bash", "--disallowedTools", "Bash")
    check(world)


@with_sdk
@pytest.mark.timeout(300)
def test_the_agent_sdk_with_a_hook(modules, world):
    sdk(modules, world, "hook", str(TOOLS / "claude_hook.py"))
    check(world)


@with_sdk
@pytest.mark.timeout(300)
def test_the_agent_sdk_with_the_mcp_proxy(modules, world):
    sdk(modules, world, "mcp", *proxy(world))
    check(world)


@pytest.mark.timeout(300)
def test_a_denied_call_reaches_the_model(modules, world, tmp_path):
    assert world["rest"].put(f"/api/sandboxes/{world['box']}/tools/policy",
                             {"rules": [{"decision": "deny", "command": "printf *", "reason": "no prints"}]}).status == 200
    claude(modules, world, "--settings", str(settings(tmp_path)))
    assert list(world["repo"].iterdir()) == []
    row = world["rest"].get(f"/api/sandboxes/{world['box']}/tools/calls").json["calls"][0]
    assert row["state"] == "denied" and row["reason"] == "no prints"


def test_the_hook_without_a_daemon(world):
    """Nothing runs on this machine because the sandbox is not there."""
    env = {**world["env"], "ATOLL_SOCKET": "/nonexistent"}
    for tool in ("Write", "Read"):
        done = subprocess.run([TOOLS / "claude_hook.py"], env=env, capture_output=True, text=True, check=False,
                              input=json.dumps({"tool_name": tool, "tool_input": {"file_path": "/x", "content": ""}}))
        assert done.returncode == 2 and "does not answer" in done.stderr


def test_the_hook_with_files(world):
    for tool, arguments, word in [("Write", {"file_path": f"{world['repo']}/a.txt", "content": "one\n"}, "Wrote 4 bytes"),
                                  ("Edit", {"file_path": f"{world['repo']}/a.txt", "old_string": "one",
                                            "new_string": "two"}, "Replaced 1 place"),
                                  ("Read", {"file_path": f"{world['repo']}/a.txt"}, "two"),
                                  ("Read", {"file_path": "/etc/shadow"}, "failed in the sandbox")]:
        done = subprocess.run([TOOLS / "claude_hook.py"], env=world["env"], capture_output=True, text=True, check=True,
                              input=json.dumps({"tool_name": tool, "tool_input": arguments}))
        said = json.loads(done.stdout)["hookSpecificOutput"]
        assert said["permissionDecision"] == "deny" and word in said["permissionDecisionReason"], said
    assert list(world["repo"].iterdir()) == []


def test_the_mcp_proxy(world):
    messages = [("initialize", {"protocolVersion": "2025-06-18"}), ("tools/list", {}),
                ("tools/call", {"name": "Bash", "arguments": {"command": COMMAND}}),
                ("tools/call", {"name": "Read", "arguments": {"file_path": "/etc/passwd"}}), ("nothing", {})]
    text = "".join(json.dumps({"jsonrpc": "2.0", "id": i, "method": m, "params": p}) + "\n"
                   for i, (m, p) in enumerate(messages))
    done = subprocess.run([TOOLS / "mcp_proxy.py", world["box"], world["env"]["ATOLL_MAP"]], env=world["env"], input=text,
                          capture_output=True, text=True, check=True, timeout=60)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert "Bash" in [tool["name"] for tool in answers[1]["result"]["tools"]]
    assert answers[2]["result"]["isError"] is False and answers[3]["result"]["isError"] is True
    assert answers[4]["error"]["code"] == -32601
    check(world)
