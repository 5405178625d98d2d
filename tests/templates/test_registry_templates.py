"""The definitions of the registry and of examples/templates, built with packages of Debian, npm and PyPI, and
their pages in a browser. Skipped where those cannot be reached. Takes some minutes: make test-all."""

import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from conftest import ROOT, wait_until

sys.path.insert(1, str(ROOT / "tests" / "integration"))

from browser import browser  # noqa: E402
from listening import listening_daemon  # noqa: E402
from rest import Rest  # noqa: E402

NEEDED = ("http://deb.debian.org/debian/", "https://registry.npmjs.org/", "https://pypi.org/simple/")
BUILD_SECONDS = 600
EXAMPLES = ROOT / "examples" / "templates"


def need_packages():
    for url in NEEDED:
        try:
            with urllib.request.urlopen(url, timeout=20):
                pass
        except (urllib.error.URLError, TimeoutError) as e:
            pytest.skip(f"{url} cannot be reached: {e}")
    for program, package in (("mmdebstrap", "mmdebstrap"), ("chromedriver", "chromium-driver")):
        if not shutil.which(program):
            pytest.skip(f"{package} is not installed")


@pytest.fixture(scope="module")
def daemon():
    """A daemon with the template that the definitions begin with."""
    need_packages()
    with listening_daemon() as (daemon, _):
        daemon.atoll("template", "debian", "debian", check=True, timeout=BUILD_SECONDS)
        daemon.atoll("template", "tag", "debian", "bookworm", check=True)
        daemon.atoll("template", "debian", "--suite", "trixie", "debian", check=True, timeout=BUILD_SECONDS)
        daemon.atoll("template", "tag", "debian", "trixie", check=True)
        yield daemon


def ask(daemon, *arguments):
    done = daemon.atoll(*arguments, timeout=BUILD_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def see_page(daemon, box, port, says):
    """Waits until a browser shows a text at this port."""
    url = ask(daemon, "preview", box, str(port))
    with browser() as shown:
        shown.open(url)
        wait_until(lambda: says in shown.text(), 120, lambda: f"not on the page: {shown.text()}")


def answers(daemon, box, port):
    fetch = f"curl -sf -o /dev/null http://localhost:{port}/"
    return daemon.atoll("exec", box, "--", "sh", "-c", fetch).returncode == 0


def session_of(daemon, environment):
    return json.loads(ask(daemon, "session", "create", "--json", environment))["sandbox_id"]


@pytest.mark.parametrize("environment,command,says", [
    ("coding", "git --version && node --version && python3 --version && rg --version && gcc --version", "ripgrep"),
    ("anthropic-claude-code", "claude --version", "Claude Code"),
    ("openai-codex", "codex --version", "codex-cli"),
])
def test_programs(daemon, environment, command, says):
    box = session_of(daemon, environment)
    assert says in ask(daemon, "exec", box, "--", "sh", "-c", command)
    assert ask(daemon, "exec", box, "--", "sh", "-c", "whoami; pwd") == "user\n/home/user"
    daemon.atoll("rm", box, check=True)


@pytest.mark.parametrize("runtime,shows,has,version", [
    ("node22", "node --version", "npm pnpm yarn git", "v22."),
    ("node24", "node --version", "npm pnpm yarn git", "v24."),
    ("node26", "node --version", "npm pnpm yarn git", "v26."),
    ("python3.13", "python -c 'import platform; print(platform.python_version())'", "pip npm git", "3.13."),
])
def test_runtimes_of_vercel(daemon, runtime, shows, has, version):
    """Clients of Vercel get the template that was built for the environment."""
    daemon.atoll("rm", session_of(daemon, f"vercel-{runtime}"), check=True)
    rest = Rest(daemon.socket)
    made = rest.post("/vercel/api/v2/sandboxes", {"runtime": runtime})
    assert made.status == 200, made.body
    script = (f"set -e; id -un; pwd; {shows}; for each in {has}; do $each --version >/dev/null; done; "
              "sudo id -un; touch x ~/y; ls")
    ran = rest.post(f"/vercel/api/v2/sandboxes/sessions/{made.json['session']['id']}/cmd",
                    {"command": "sh", "args": ["-c", script], "wait": True, "logs": True})
    said = "".join(line["data"] for line in ran.lines if line.get("stream") == "stdout").split()
    assert said[:2] == ["vercel-sandbox", "/vercel/sandbox"] and said[2].startswith(version), ran.body
    assert said[3:] == ["root", "x"], ran.body
    rest.delete(f"/vercel/api/v2/sandboxes/{made.json['sandbox']['name']}")


def test_gateway(daemon):
    box = session_of(daemon, "mcp-gateway")
    config = json.dumps({"filesystem": {"paths": ["/home/user"]}, "time": {}})
    ask(daemon, "exec", "--user", "root", "--env", "GATEWAY_ACCESS_TOKEN=t0ken", box, "--", "mcp-gateway",
        "--config", config)
    call = ("curl -s -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' "
            "{} -d '{}' http://localhost:50005/mcp")
    tools = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    bearer = "-H 'Authorization: Bearer t0ken'"
    said = ask(daemon, "exec", box, "--", "sh", "-c", call.format(bearer, json.dumps(tools)))
    assert "read_text_file" in said and "get_current_time" in said
    tools |= {"method": "tools/call", "params": {"name": "get_current_time", "arguments": {"timezone": "UTC"}}}
    assert "datetime" in ask(daemon, "exec", box, "--", "sh", "-c", call.format(bearer, json.dumps(tools)))
    refused = ask(daemon, "exec", box, "--", "sh", "-c", call.format("-w '%{http_code}'", json.dumps(tools)))
    assert refused == "401"
    unknown = daemon.atoll("exec", "--user", "root", box, "--", "mcp-gateway", "--config", '{"nosuch": {}}')
    assert unknown.returncode != 0 and "nosuch" in unknown.stderr
    daemon.atoll("rm", box, check=True)


@pytest.mark.parametrize("environment,port,says", [
    ("nextjs-developer", 3000, "Get started by editing"),
    ("vue-developer", 3000, "Replace app.vue, and this page changes."),
    ("streamlit-developer", 8501, "Replace app.py, and this page changes."),
    ("gradio-developer", 7860, "Replace app.py, and this page changes."),
])
def test_pages(daemon, environment, port, says):
    box = session_of(daemon, environment)
    wait_until(lambda: answers(daemon, box, port), 120, lambda: "the server does not answer")
    see_page(daemon, box, port, says)
    daemon.atoll("rm", box, check=True)


def test_light_example(daemon):
    ask(daemon, "template", "build", "--network", "none", str(EXAMPLES / "page-preview"))
    box = ask(daemon, "create", "--template", "page-preview")
    see_page(daemon, box, 3000, "This page comes from a sandbox.")
    daemon.atoll("rm", box, check=True)


def test_nextjs_example(daemon, tmp_path):
    """node:21-slim is a template here. The components of shadcn come from its own site: they are left out."""
    (tmp_path / "Dockerfile").write_text(
        (ROOT / "registry/environments/coding.Dockerfile").read_text().partition("RUN apt-get update && DEB")[0])
    ask(daemon, "build", "-q", "-t", "node:21-slim", "--network", "bridge", str(tmp_path))
    ask(daemon, "build", "-q", "-t", "nextjs-developer", "--network", "bridge", "--build-arg", "COMPONENTS=",
        "-f", str(EXAMPLES / "nextjs-developer/e2b.Dockerfile"), "--start", "/compile_page.sh", "--ready",
        "curl -sf -o /dev/null http://localhost:3000", str(EXAMPLES / "nextjs-developer"))
    box = ask(daemon, "create", "--template", "nextjs-developer", "-m", "2G", "--disk", "4G", "--cpus", "2")
    see_page(daemon, box, 3000, "Get started by editing")
    daemon.atoll("rm", box, check=True)
