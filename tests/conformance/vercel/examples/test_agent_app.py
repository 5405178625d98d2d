"""The server code of an application for coding agents, vercel-labs/coding-agent-template, as it is: from the sandbox
to the push. It needs a checkout: the directory ATOLL_AGENT_APP, or coding-agent-template beside this repository.
Without one this is skipped, and ../javascript/agent-app.test.mjs makes the same calls.

Its git server and the site that it gets the agent from are servers of the test, in the internet of its daemon."""

import http.server
import json
import os
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TESTS = HERE.parents[2]
sys.path[:0] = [str(TESTS), str(TESTS / "integration")]

from git_server import GitServer, git  # noqa: E402
from listening import free_port  # noqa: E402
from networks import FAR, networked  # noqa: E402

BESIDE = TESTS.parents[1] / "coding-agent-template"
APP = os.environ.get("ATOLL_AGENT_APP") or (str(BESIDE) if (BESIDE / "lib" / "sandbox").is_dir() else None)
GIT_PORT = 8080
SITE = "claude.ai"
FILES = {
    "package.json": json.dumps({"name": "app", "version": "1.0.0", "scripts": {"dev": "node server.js"}}),
    "server.js": "require('http').createServer((q, a) => a.end('a page of the app')).listen(3000, () => console.log('up'))",
}
AGENT = r"""#!/bin/sh
case "$1" in --version) echo 9.9.9; exit;; --help|mcp) exit;; esac
for instruction; do :; done
echo '{"type":"system","subtype":"init","session_id":"s-1"}'
echo "$instruction" >answer.txt
echo '{"type":"assistant","message":{"content":[{"type":"text","text":"I do it"}]}}'
sleep 0.3
echo 'a line that is not JSON'
echo '{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Write","input":{"path":"answer.txt"}}]}}'
echo '{"type":"result","session_id":"s-1"}'
"""
INSTALLER = f"""cat >/tmp/claude <<'END'
{AGENT}END
sudo install -m 755 /tmp/claude /usr/local/bin/claude
"""

pytestmark = pytest.mark.skipif(not APP, reason=(
    "no checkout of the application: git clone https://github.com/vercel-labs/coding-agent-template beside this "
    "repository, or set ATOLL_AGENT_APP to one"))


class Site(http.server.BaseHTTPRequestHandler):
    """Where the application gets its agent from."""

    def do_GET(self):
        body = INSTALLER.encode() if self.path == "/install.sh" else b""
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve_site(networks):
    listening = networks.far.listen(FAR[5], 443)
    server = http.server.ThreadingHTTPServer(listening.getsockname()[:2], Site, bind_and_activate=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(networks.authority.certificate(SITE))
    server.socket.close()
    server.socket = context.wrap_socket(listening, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with (networks.directory / "hosts").open("a") as hosts:
        hosts.write(f"{FAR[5]} {SITE}\n")
    return server


@pytest.fixture(scope="module")
def world():
    port = free_port()
    with networked(ATOLL_LISTEN=f"127.0.0.1:{port}") as daemon:
        networks = daemon.networks
        (networks.directory / "git").mkdir()
        daemon.git = GitServer(networks.far.listen(FAR[0], GIT_PORT), networks.directory / "git")
        daemon.git.make("public/app", FILES)
        site = serve_site(networks)
        daemon.url = f"http://127.0.0.1:{port}"
        yield daemon
        site.shutdown()
        site.server_close()
        daemon.git.close()


def run_app(daemon, *command):
    """In the network of the daemon, with the variables that `atoll vercel env` prints."""
    variables = json.loads(daemon.atoll("vercel", "env", "--json", "--url", daemon.url, check=True).stdout)
    names = {f"SANDBOX_{name}": variables[name] for name in ("VERCEL_TOKEN", "VERCEL_TEAM_ID", "VERCEL_PROJECT_ID")}
    environment = {**os.environ, **variables, **names, "AI_GATEWAY_API_KEY": "k-" + "0" * 30}
    done = subprocess.run([*daemon.networks.launcher, *map(str, command)], env=environment, capture_output=True,
                          text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_application_itself(world):
    bundle = HERE.parent / "node_modules" / "agent-app.mjs"
    app = HERE.parent / "agent-app"
    subprocess.run(["node", app / "bundle.mjs", Path(APP).resolve(), bundle], check=True, cwd=HERE.parent)
    said = json.loads(run_app(world, "node", app / "task.mjs", bundle,
                              f"http://one.test:{GIT_PORT}/public/app.git").splitlines()[-1])
    assert said["branch"] == "agent/work" and said["page"] == "a page of the app", said
    assert said["result"]["success"] and said["result"]["changesDetected"], said
    assert said["result"]["sessionId"] == "s-1"
    assert "I do it" in said["message"] and "Editing answer.txt" in said["message"]
    assert said["pushed"] == {"success": True} and said["shut"] == {"success": True}, said
    assert said["status"] == "stopped"
    assert [line for line in said["logs"] if line.startswith("error")] == []
    bare = world.git.root / "public" / "app.git"
    assert git("show", "agent/work:answer.txt", cwd=bare) == "add the answer\n"
    assert git("log", "-1", "--format=%an %ae %s", "agent/work", cwd=bare) == "Ann ann@example.org the agent's work\n"
