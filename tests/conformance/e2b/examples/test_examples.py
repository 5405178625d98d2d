"""Every example does what it says, from where it is, with the clients of this suite."""

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from conftest import ROOT, wait_until

E2B = Path(__file__).resolve().parent.parent
PYTHON = ROOT / "build" / "conformance" / "e2b" / "bin" / "python"
HELLO = "largest: 39\nread 3 numbers\nsum: 42\n"


def run(*command, **environment):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=50,
                          check=False, env={**os.environ, **environment})


@pytest.fixture
def with_packages(tmp_path):
    """A copy of an example's directory that has the packages of npm beside it."""
    def copy(name):
        made = tmp_path / name
        shutil.copytree(ROOT / "examples" / name, made)
        (made / "node_modules").symlink_to(E2B / "node_modules")
        return made
    return copy


def test_e2b_javascript(with_packages):
    done = run("node", with_packages("e2b") / "hello.mjs")
    assert (done.stdout, done.stderr) == (HELLO, "")


def test_e2b_python():
    done = run(PYTHON, ROOT / "examples" / "e2b" / "hello.py")
    assert (done.stdout, done.stderr) == (HELLO, "")


def test_rest():
    done = run(ROOT / "examples" / "rest" / "hello.sh")
    answer = json.loads(done.stdout)
    assert (answer["stdout"], answer["result"]["exit_code"], done.stderr) == ("39\n", 0, "")


class WebApp:
    """The server, and who calls it."""

    def __init__(self, directory, **environment):
        kept = {k: v for k, v in os.environ.items() if not k.endswith("_URL")}
        self.process = subprocess.Popen(
            ["node", "server.mjs"], cwd=directory, stdout=subprocess.PIPE, text=True,
            env={**kept, "PORT": "0", "E2B_DOMAIN": os.environ["ATOLL_TEST_DOMAIN"], **environment})
        self.url = self.process.stdout.readline().strip()

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=40) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as e:
            return e.code, json.load(e)

    def make(self, **wish):
        return self.call("POST", "/api/sandbox", {"user": "ann", "team": "blue", **wish})

    def end(self, made):
        assert self.call("DELETE", f"/api/sandbox/{made['id']}") == (200, {"killed": True})


@pytest.fixture
def app(with_packages):
    made = WebApp(with_packages("web-app"))
    yield made
    made.process.kill()
    made.process.wait()


def test_web_app_runs_code(app):
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nopen('in.txt').read()"
    status, made = app.make(code=code, files={"in.txt": "from a file"})
    assert (status, made["stdout"], made["stderr"], made["error"]) == (200, ["out\n"], ["err\n"], None)
    assert made["results"][0]["text"] == "from a file"
    app.end(made)
    status, made = app.make(code="1/0")
    assert (status, made["error"]["name"], made["results"]) == (200, "ZeroDivisionError", [])
    app.end(made)


def test_web_app_shows_a_preview(app):
    status, made = app.make(template="base", files={"site/index.html": "<h1>hello</h1>"},
                            install="test -f site/index.html",
                            start="python3 -m http.server 8000 --directory site")
    assert status == 200
    seen = []

    def answers():
        try:
            with urllib.request.urlopen(made["url"], timeout=10) as page:
                seen.append(page.read())
        except urllib.error.HTTPError:
            return False
        return True
    wait_until(answers, 30, lambda: "no preview")
    assert seen == [b"<h1>hello</h1>"]
    listed = run(os.environ["ATOLL_TEST_CLI"], "ls", "--json")
    assert made["id"] in listed.stdout
    app.end(made)


def test_web_app_says_what_is_wrong(app):
    assert app.make()[0] == 400
    status, answer = app.make(template="no-such-template", code="1")
    assert status == 502 and "no-such-template" in answer["error"]["value"]
    assert app.make(template="base", install="exit 3", start="true")[0] == 422
