"""Agents of several vendors, from npm, as tasks: clone, run against a stand-in of the model, commit, push."""

import json
import os
import re
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "conformance")]

from clients import Unavailable, install, install_packages, is_newer  # noqa: E402
from git_server import PASSWORD, USER, GitServer, git  # noqa: E402
from model_server import WORDS, ModelServer  # noqa: E402
from networks import FAR, networked  # noqa: E402
from rest import Rest  # noqa: E402

# `make test` has one agent, which is faster to install; `make test-all` has all.
ONE = os.environ.get("ATOLL_AGENTS") == "one"
PACKAGES = HERE / "one" if ONE else HERE
AIDER = HERE.parent.parent / "build" / "agents" / "aider"

GIT_PORT, MODEL_PORT = 8080, 8090
MODEL = f"http://two.test:{MODEL_PORT}"
KEY = "sk-test-not-a-real-key"
CODEX_CONFIG = f"""model = "test"
model_provider = "stand-in"
[model_providers.stand-in]
name = "stand-in"
base_url = "{MODEL}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
"""
OPENCODE_CONFIG = json.dumps({"provider": {"anthropic": {"options": {"baseURL": f"{MODEL}/v1"},
                                                         "models": {"test": {"name": "test", "tool_call": True}}}}})
AGENTS = {
    "claude-code": ("claude", "@anthropic-ai/claude-code-linux-x64/claude", "ANTHROPIC_API_KEY", "x-api-key", {}),
    "codex": ("codex", "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex", "OPENAI_API_KEY",
              "bearer", {"/home/user/.codex/config.toml": CODEX_CONFIG}),
    "opencode": ("opencode", "opencode-linux-x64/bin/opencode", "ANTHROPIC_API_KEY", "x-api-key",
                 {"/home/user/.config/opencode/opencode.json": OPENCODE_CONFIG}),
    # It takes no address without TLS: its model is at the usual one, where the key is put into requests outside.
    "gemini-cli": ("gemini", "@google/gemini-cli", "GEMINI_API_KEY", "outside", {}),
}
GOOGLE = "generativelanguage.googleapis.com"
MODELS = {"opencode": "anthropic/test", "gemini-cli": "gemini-2.5-pro"}


def test_versions_of_the_registry():
    """What the registry installs is what is tested here."""
    tested = json.loads((HERE / "package.json").read_text())["dependencies"]
    tested |= dict([(HERE / "aider.txt").read_text().strip().split("==")])
    registry = HERE.parent.parent / "registry"
    for path in (registry / "agents").glob("*.yaml"):
        found = dict(re.findall(r'^(package|version): "?([^"\n]+)"?$', path.read_text(), re.M))
        if not found:
            continue
        assert tested[found["package"]] == found["version"], path.name
        for file in (registry / "environments").glob("*.Dockerfile"):  # those that have the agent have this version
            versions = re.findall(rf"\s{re.escape(found['package'])}(?:@|==|(?=\s))(\S*)", file.read_text())
            assert versions in ([], [found["version"]]), (path.name, file.name)


@pytest.fixture(scope="module")
def modules():
    try:
        install_packages(PACKAGES)
    except Unavailable as e:
        pytest.skip(str(e))
    return PACKAGES / "node_modules"


@pytest.fixture(scope="module")
def world():
    AIDER.mkdir(parents=True, exist_ok=True)
    with networked(ATOLL_HOST_FOLDERS=f"{AIDER}:ro") as daemon:
        directory = daemon.networks.directory
        (directory / "git").mkdir()
        daemon.git = GitServer(daemon.networks.far.listen(FAR[0], GIT_PORT), directory / "git")
        daemon.git.make("private")
        daemon.model = ModelServer(daemon.networks.far.listen(FAR[1], MODEL_PORT))
        with (directory / "hosts").open("a") as hosts:
            hosts.write(f"{FAR[2]} {GOOGLE}\n")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(daemon.networks.authority.certificate(GOOGLE))
        google = ModelServer(context.wrap_socket(daemon.networks.far.listen(FAR[2], 443), server_side=True), daemon.model.keys)
        assert Rest(daemon.socket).post("/api/secrets", {"name": "GEMINI_API_KEY", "value": KEY}).status == 201
        yield daemon
        google.close()
        daemon.git.close()
        daemon.model.close()


def make_template(rest, name, program, binary, files):
    """A snapshot of a sandbox that has the agent."""
    box = rest.call("POST", "/api/sandboxes", {"limits": {"diskMB": 3072, "memoryMB": 1024}}).json["id"]
    if binary.is_dir():  # a package for Node
        packed = subprocess.run(["tar", "-C", binary, "-cz", "."], capture_output=True, check=True).stdout
        answer = rest.call("PUT", f"/api/sandboxes/{box}/files", packed, path="/tmp/package.tgz")
        unpack = (f"mkdir /usr/local/lib/{program} && cd /usr/local/lib/{program} && tar xzf /tmp/package.tgz && rm /tmp/package.tgz && "
                  f"chmod 755 bundle/{program}.js && ln -s $PWD/bundle/{program}.js /usr/local/bin/{program}")
        done = rest.post(f"/api/sandboxes/{box}/execs?wait=true", {"cmd": ["sh", "-ec", unpack], "user": "root"}).json
        assert done["result"]["exit_code"] == 0, done
    else:
        with binary.open("rb") as content:
            answer = rest.call("PUT", f"/api/sandboxes/{box}/files", content.read(), path=f"/usr/local/bin/{program}",
                               user="root", mode="0755")
    assert answer.status in (200, 201), answer.body
    for path, text in files.items():
        assert rest.call("PUT", f"/api/sandboxes/{box}/files", text.encode(), path=path).status in (200, 201)
    answer = rest.call("POST", f"/api/sandboxes/{box}/snapshots", {"name": name})
    assert answer.status == 201, answer.body
    rest.call("DELETE", f"/api/sandboxes/{box}")


# An MCP server with one tool, which writes the note into the directory where the agent works.
NOTES = r"""
import json, os, sys
for line in sys.stdin:
    ask = json.loads(line)
    params = ask.get("params", {})
    result = {}
    if ask.get("method") == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "notes", "version": "1"}}
    elif ask.get("method") == "tools/list":
        result = {"tools": [{"name": "note", "description": "Writes a note.", "inputSchema": {
            "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}]}
    elif ask.get("method") == "tools/call":
        with open("note.txt", "w") as file:
            file.write(params["arguments"]["text"] + " with " + os.environ["NOTES_KEY"] + "\n")
        result = {"content": [{"type": "text", "text": "written"}]}
    if "id" in ask:
        print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": result}), flush=True)
"""


def environment(variable, header):
    """Of an agent whose model has another address than usual."""
    return {} if header == "outside" else {variable: KEY, "ANTHROPIC_BASE_URL": MODEL}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("agent", list(AGENTS)[:1] if ONE else AGENTS)
def test_an_agent_uses_a_connector(world, modules, agent):
    """The tool of an MCP server that the tenant has stored, with a secret in its environment."""
    program, binary, variable, header, files = AGENTS[agent]
    rest = Rest(world.socket)
    make_template(rest, f"tools-{program}", program, modules / binary, files)
    assert rest.post("/api/secrets", {"name": "NOTES_KEY", "value": "the-key", "replace": True}).status in (200, 201)
    stored = rest.post("/api/connectors", {"name": "notes", "command": "python3", "args": ["-c", NOTES], "replace": True,
                                           "env": {"NOTES_KEY": "${secret.NOTES_KEY}"}})
    assert stored.status in (200, 201), stored.body
    task = rest.call("POST", "/api/tasks", {
        "agent": agent, "instruction": "Write a note.", "model": MODELS.get(agent, "test"), "mcpServers": ["notes"],
        "sandbox": {"template": f"tools-{program}", "network": {"mode": "bridge"},
                    "limits": {"diskMB": 3072, "memoryMB": 2048}},
        "env": environment(variable, header), "captureFiles": True, "timeoutSeconds": 200}, wait="true").json
    log = rest.call("GET", f"/api/tasks/{task['id']}/log").body.decode()
    assert task["state"] == "succeeded", (task, log[-3000:])
    assert task["output"] == WORDS
    assert [file["content"] for file in task["files"] if file["path"] == "note.txt"] == ["written by the agent with the-key\n"], log[-3000:]
    rest.call("DELETE", f"/api/templates/tools-{program}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("agent", list(AGENTS)[:1] if ONE else AGENTS)
def test_an_agent_writes_and_pushes(world, modules, agent):
    program, binary, variable, header, files = AGENTS[agent]
    rest = Rest(world.socket)
    make_template(rest, f"with-{program}", program, modules / binary, files)
    answer = rest.call("POST", "/api/tasks", {
        "agent": agent, "instruction": "Write a note.", "model": MODELS.get(agent, "test"), "branch": f"by-{program}",
        "repo": {"url": f"http://one.test:{GIT_PORT}/private.git", "username": USER, "password": PASSWORD},
        "sandbox": {"template": f"with-{program}", "network": {"mode": "bridge"},
                    "limits": {"diskMB": 3072, "memoryMB": 2048}},
        "env": environment(variable, header), "check": "grep written note.txt",
        "timeoutSeconds": 200}, wait="true")
    task = answer.json
    log = rest.call("GET", f"/api/tasks/{task['id']}/log").body.decode()
    assert task["state"] == "succeeded", (task, log[-3000:])
    assert task["output"] == WORDS and task["agent_session"], task
    assert task["usage"]["input_tokens"] > 0 and task["usage"]["output_tokens"] > 0
    bare = world.networks.directory / "git" / "private.git"
    assert git("show", f"by-{program}:note.txt", cwd=bare) == "written by the agent\n"
    assert (f"Bearer {KEY}" if header == "bearer" else KEY) in world.model.keys
    assert KEY not in log and KEY not in str(task)
    rest.call("DELETE", f"/api/templates/with-{program}")


REFUSALS = {  # of the model's server, and the code of the task
    "key": ((401, "authentication_error", "invalid x-api-key"), "unauthenticated"),
    "limit": ((429, "rate_limit_error", "This request would exceed the rate limit of your organization."), "resource_exhausted"),
    "away": (None, "unavailable"),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("why", REFUSALS)
def test_a_model_that_refuses(world, modules, why):
    """The task says what it was, as docs/agents.md has it; when the server accepts it again, a retry succeeds."""
    agent = "claude-code"
    refusal, code = REFUSALS[why]
    program, binary, variable, header, files = AGENTS[agent]
    rest = Rest(world.socket)
    make_template(rest, f"refused-{why}", program, modules / binary, files)
    # Nothing listens at the other port.
    away = {"ANTHROPIC_BASE_URL": f"http://two.test:{MODEL_PORT + 1}"} if why == "away" else {}
    world.model.refusal = refusal
    try:
        task = rest.call("POST", "/api/tasks", {
            "agent": agent, "instruction": "Write a note.", "model": "test",
            "sandbox": {"template": f"refused-{why}", "network": {"mode": "bridge"}, "limits": {"diskMB": 3072, "memoryMB": 2048}},
            "env": {**environment(variable, header), **away, "CLAUDE_CODE_MAX_RETRIES": "1"}, "timeoutSeconds": 200}, wait="true").json
    finally:
        world.model.refusal = None
    log = rest.call("GET", f"/api/tasks/{task['id']}/log").body.decode()
    assert (task["state"], task["step"], task["error"]["code"]) == ("failed", "run", code), (task, log[-3000:])
    assert f"atoll task retry {task['id']}" in task["error"]["message"] and KEY not in log and KEY not in str(task)
    if not away:
        assert rest.call("POST", f"/api/tasks/{task['id']}/retry", {}).status == 202
        task = rest.call("GET", f"/api/tasks/{task['id']}", wait="true").json
        assert task["state"] == "succeeded" and task["output"] == WORDS, task
    rest.call("DELETE", f"/api/sandboxes/{task['sandbox_id']}")
    rest.call("DELETE", f"/api/templates/refused-{why}")


@pytest.mark.timeout(600)
@pytest.mark.skipif(ONE, reason="in `make test-all`")
def test_aider(world):
    """From PyPI: 700 MB, which the sandbox has as a folder of the host."""
    try:
        if not is_newer(AIDER / "installed", HERE / "aider.txt"):
            install("aider", sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "-q", "--upgrade",
                    "--target", str(AIDER), "-r", str(HERE / "aider.txt"), seconds=400)
            (AIDER / "installed").touch()
    except Unavailable as e:
        pytest.skip(str(e))
    rest = Rest(world.socket)
    starter = "#!/bin/sh\nPYTHONPATH=/opt/aider exec python3 -m aider \"$@\"\n"
    box = rest.call("POST", "/api/sandboxes", {}).json["id"]
    assert rest.call("PUT", f"/api/sandboxes/{box}/files", starter.encode(), path="/usr/local/bin/aider", user="root",
                     mode="0755").status in (200, 201)
    assert rest.call("POST", f"/api/sandboxes/{box}/snapshots", {"name": "with-aider"}).status == 201
    rest.call("DELETE", f"/api/sandboxes/{box}")

    def run(branch):
        return rest.call("POST", "/api/tasks", {
            "agent": "aider", "instruction": "Write a note.", "model": "openai/test", "branch": branch, "cleanup": "always",
            "repo": {"url": f"http://one.test:{GIT_PORT}/private.git", "username": USER, "password": PASSWORD},
            "sandbox": {"template": "with-aider", "network": {"mode": "bridge"}, "limits": {"diskMB": 1024, "memoryMB": 2048},
                        "volumes": [{"hostPath": str(AIDER), "path": "/opt/aider", "mode": "ro"}]},
            "env": {"OPENAI_API_KEY": KEY, "OPENAI_API_BASE": f"{MODEL}/v1"}, "timeoutSeconds": 300}, wait="true").json
    task = run("by-aider")
    log = rest.call("GET", f"/api/tasks/{task['id']}/log").body.decode()
    assert task["state"] == "succeeded", (task, log[-3000:])
    assert WORDS in task["output"] and KEY not in log
    bare = world.networks.directory / "git" / "private.git"
    assert git("show", "by-aider:note.txt", cwd=bare) == "written by the agent\n"
    assert git("diff", "--name-only", "main", "by-aider", cwd=bare) == "note.txt\n"
    # It exits with status 0 if the model refuses its key, too.
    world.model.refusal = REFUSALS["key"][0]
    try:
        task = run("refused")
    finally:
        world.model.refusal = None
    assert (task["state"], task["step"], task["error"]["code"]) == ("failed", "run", "unauthenticated"), task
    rest.call("DELETE", "/api/templates/with-aider")
