"""Sessions and the registry: real code in real sandboxes, over the API."""

import base64
import contextlib
import json
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest

from conftest import BUILD, ROOT, Daemon, need_build, wait_until
from rest import Rest


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


class Session:
    def __init__(self, rest, **request):
        self.rest = rest
        answer = rest.post("/api/sessions", request)
        assert answer.status == 201, answer.body
        self.view = answer.json
        self.id = self.view["session_id"]
        self.path = f"/api/sessions/{self.id}"

    def run(self, code, **request):
        answer = self.rest.post(f"{self.path}/execute", {"code": code, **request})
        assert answer.status == 200, answer.body
        return answer.json

    def end(self):
        return self.rest.delete(self.path).status


@contextlib.contextmanager
def session(rest, environment="Python3", **request):
    made = Session(rest, environment=environment, **request)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def python(rest):
    with session(rest) as made:
        yield made


# Making and ending one.

def test_life(rest):
    made = Session(rest, environment="Python3", provider="native", networkMode="none",
                   metadata={"team": "red"}, env={"A": "1"},
                   limits={"memoryMB": 128, "cpuCores": 1, "diskMB": 32, "timeoutSeconds": 600})
    view = made.view
    assert view["environment"] == "Python3" and view["provider"] == "native"
    assert view["url"] == made.path and view["metadata"] == {"team": "red"}
    assert view["created_at"] and view["expires_at"] and view["state"] == "running"
    limits = view["sandbox"]["limits"]
    assert (limits["memoryMB"], limits["diskMB"], limits["timeoutSeconds"]) == (128, 32, 600)
    assert rest.get(made.path).json == view
    assert made.id in [s["session_id"] for s in rest.get("/api/sessions").json["sessions"]]
    assert rest.get(f"/api/sandboxes/{view['sandbox_id']}").status == 200
    assert made.end() == 204
    assert rest.get(made.path).json["state"] == "ended"
    assert rest.get(f"/api/sandboxes/{view['sandbox_id']}").json["state"] == "ended"
    assert rest.delete(made.path).status == 404


def test_ends_with_its_sandbox(rest):
    made = Session(rest, environment="Bash")
    assert rest.delete(f"/api/sandboxes/{made.view['sandbox_id']}").status == 204
    assert rest.get(made.path).json["end"] == "request"
    assert rest.post(f"{made.path}/execute", {"code": "true"}).status == 404
    assert made.id not in [s["session_id"] for s in rest.get("/api/sessions").json["sessions"]]


def test_ends_at_its_time_limit(rest):
    made = Session(rest, environment="Bash", limits={"timeoutSeconds": 1})
    wait_until(lambda: rest.get(made.path).json["state"] == "ended", 30, lambda: "the session lives on")


def test_files_at_creation(rest):
    files = [{"path": "a.txt", "content": "text ä"},
             {"path": "deep/b.bin", "content_base64": base64.b64encode(b"\x00\xff").decode(),
              "mode": "0600"}]
    with session(rest, files=files) as made:
        got = made.run("import os\nprint(open('a.txt').read(), open('deep/b.bin','rb').read(),"
                       " oct(os.stat('deep/b.bin').st_mode & 0o777))")
        assert got["stdout"] == "text ä b'\\x00\\xff' 0o600\n"
        assert got["artifacts"] == []


def test_a_file_that_cannot_be_written_leaves_nothing(rest):
    before = len(rest.get("/api/sandboxes").json["sandboxes"])
    answer = rest.post("/api/sessions", {"environment": "Bash", "files": {"/proc/nope": "x"}})
    assert answer.status in (400, 403, 404), answer.body
    assert "/proc/nope" in answer.error["message"]
    assert len(rest.get("/api/sandboxes").json["sandboxes"]) == before


def test_a_network_limit_where_there_is_no_network(rest):
    """It is kept by nature, so that nobody has to leave it out."""
    answer = rest.post("/api/sessions", {"environment": "Bash", "limits": {"networkMbps": 10}})
    assert answer.status == 201 and answer.json["sandbox"]["networkMode"] == "none", answer.body
    rest.delete(f"/api/sessions/{answer.json['session_id']}")


@pytest.mark.parametrize("body, status, says", [
    ({}, 400, "environment is missing"),
    ({"environment": "Cobol"}, 404, "Bash, Node, Python3"),
    ({"environment": "Python3", "provider": "docker"}, 400, "native"),
    ({"environment": "Python3", "networkMode": "wild"}, 400, "none"),
    ({"environment": "Python3", "limits": {"networkMbps": -5}}, 400, "networkMbps"),
    ({"environment": "Python3", "limits": {"memoryMB": "much"}}, 400, "limits.memoryMB"),
    ({"environment": "Python3", "limits": {"memory": 5}}, 400, "memoryMB"),
    ({"environment": "Python3", "template": "host"}, 400, "omit template"),
    ({"environment": "Python3", "nonsense": 1}, 400, "nonsense"),
    ({"environment": 5}, 400, "environment must be"),
    ({"environment": "Python3", "files": 5}, 400, "files must be"),
    ({"environment": "Python3", "files": [5]}, 400, "files[0]"),
    ({"environment": "Python3", "files": [{"content": "x"}]}, 400, "files[0] needs a path"),
    ({"environment": "Python3", "files": [{"path": "x"}]}, 400, "content"),
    ({"environment": "Python3", "files": [{"path": "x", "content_base64": "?"}]}, 400, "base64"),
    ({"environment": "Python3", "files": [{"path": "x", "content": "", "mode": "999"}]}, 400,
     "octal"),
    ({"environment": "Python3", "files": {"x": 5}}, 400, "files.x"),
    ({"environment": "Python3", "env": {"A": 5}}, 400, "env.A"),
    ({"environment": "Python3", "metadata": {"a": 1}}, 400, "metadata"),
])
def test_bad_creation(rest, body, status, says):
    answer = rest.post("/api/sessions", body)
    assert (answer.status, says in answer.error["message"]) == (status, True), answer.body


# Running code.

def test_python(python):
    got = python.run("import sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert (got["stdout"], got["stderr"], got["error"], got["exit_code"]) == \
        ("out\n", "err\n", None, 0)
    assert got["results"] == [] and got["duration_ms"] >= 0 and got["execution_count"] == 1
    record = python.rest.get(f"/api/sandboxes/{python.view['sandbox_id']}"
                             f"/execs/{got['execution_id']}").json
    assert record["state"] == "running" and record["cmd"][0] == "python3"


def test_results(python):
    got = python.run("'first'\n{'a': [1, 2]}")
    assert [r["is_main_result"] for r in got["results"]] == [True]
    assert got["results"][0]["json"] == {"a": [1, 2]} and got["stdout"] == ""


def test_environment_variables(rest):
    with session(rest, env={"PYTHONIOENCODING": "latin-1", "MINE": "x=y"}) as made:
        got = made.run("import os\nprint(os.environ['MINE'], os.environ['PYTHONIOENCODING'],"
                       " os.environ['PYTHONDONTWRITEBYTECODE'])")
        assert got["stdout"] == "x=y latin-1 1\n"
        assert "x=y" not in json.dumps(rest.get(made.path).json)


def test_files_and_variables_persist(python):
    python.run("x = 1\nopen('kept.txt', 'w').write('42')")
    assert python.run("print(open('kept.txt').read())")["stdout"] == "42\n"
    assert python.run("print(x)")["stdout"] == "1\n"
    python.run("y=2", language="bash")
    assert python.run("echo $y", language="bash")["stdout"] == "2\n"
    got = python.run("print(z)")
    assert got["error"]["name"] == "NameError"
    assert "'z' is not defined" in got["error"]["value"]


def test_modules_of_the_working_directory(python):
    got = python.run("import helper\nprint(helper.f())",
                     files={"helper.py": "def f():\n    return 'helped'\n"})
    assert got["stdout"] == "helped\n", got


def test_python_errors(python):
    got = python.run("def f():\n    raise ValueError('two\\nlines')\nf()")
    assert got["exit_code"] == 1
    assert (got["error"]["name"], got["error"]["value"]) == ("ValueError", "two\nlines")
    assert got["error"]["traceback"].startswith("Traceback (most recent call last):")
    assert ", line 2, in f" in got["error"]["traceback"]
    assert got["error"]["evidence"]["usage"] is None  # its process ran other code, too
    got = python.run("x = (")
    assert got["error"]["name"] == "SyntaxError"
    assert "shell command" not in got["error"]["value"]
    for code in ("python app.py", "pip install x", "ls -la"):
        got = python.run(code)
        assert "looks like a shell command" in got["error"]["value"], got["error"]
    got = python.run("import sys\nsys.exit(3)")
    assert (got["error"]["name"], got["error"]["value"], got["exit_code"]) == ("ExitCode", "3", 3)
    got = python.run("import os\nos.kill(os.getpid(), 11)")
    assert (got["error"]["name"], got["exit_code"]) == ("Signaled", None)
    assert "SIGSEGV" in got["error"]["value"]
    assert got["error"]["evidence"]["kind"] == "signaled"


def test_timeout(python):
    python.run("1")  # the interpreter is there
    got = python.run("print('first')\nwhile True: pass", timeout=1.5)
    assert got["error"]["name"] == "TimedOut" and got["stdout"] == "first\n"
    assert got["error"]["evidence"]["kind"] == "timed_out"
    assert 1500 <= got["duration_ms"] < 30000
    assert python.run("print('fine')")["stdout"] == "fine\n"


def test_out_of_memory(rest):
    with session(rest, limits={"memoryMB": 64}) as made:
        got = made.run("x = bytearray(512 << 20)\nprint(sum(x[::4096]))")
        assert got["error"]["name"] == "OutOfMemory", got
        assert "64 MiB" in got["error"]["value"]
        assert got["error"]["evidence"]["oom"]["limit_bytes"] == 64 << 20
        assert made.run("print('fine')")["stdout"] == "fine\n"


def test_other_languages(rest, python):
    assert python.run("echo $((6*7)); exit 2", language="bash")["exit_code"] == 2
    answer = rest.post(f"{python.path}/execute", {"code": "", "language": "cobol"})
    assert answer.status == 400 and "python" in answer.error["message"]
    with session(rest, "Bash") as bash:
        got = bash.run("echo hi; echo oh >&2; false")
        assert (got["stdout"], got["stderr"]) == ("hi\n", "oh\n")
        assert got["error"]["name"] == "ExitCode" and got["error"]["traceback"] == ""


def test_a_driver_that_cannot_start(rest):
    """Its code is run by the interpreter itself. A sanitized daemon tells at its end what was lost."""
    with session(rest, "Bash", env={"PYTHONHOME": "/nowhere"}) as made:
        contexts = rest.post(f"/api/sandboxes/{made.view['sandbox_id']}/contexts",
                             {"language": "bash"})
        assert contexts.status != 201, contexts.body
        done = made.run("echo hi | tee new.txt")
        assert done["stdout"] == "hi\n", done
        assert [a["path"] for a in done["artifacts"]] == ["new.txt"]


@pytest.mark.skipif(not Path("/usr/bin/node").exists(), reason="this host has no node in /usr/bin")
def test_node(rest):
    with session(rest, "Node") as node:
        got = node.run("console.log(require('./helper').x)", files={"helper.js": "exports.x = 7"})
        assert got["stdout"] == "7\n", got
        got = node.run("throw new TypeError('bad')")
        assert (got["error"]["name"], got["error"]["value"]) == ("TypeError", "bad")
        assert "    at " in got["error"]["traceback"]


def test_much_output_is_cut_and_says_so(python):
    got = python.run("print('x' * (3 << 20))")
    assert len(got["stdout"]) == 1 << 20 and got["stdout_truncated"] is True
    assert got["error"] is None


def test_output_that_is_no_text(python):
    got = python.run("import sys\nsys.stdout.buffer.write(b'a\\xffb')")
    assert got["stdout"] == "a\ufffdb"


def test_runs_at_the_same_time(python):
    results = {}

    def work(i):
        results[i] = python.run(f"import time\ntime.sleep(0.3)\nprint({i})")["stdout"]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: f"{i}\n" for i in range(6)}
    left = python.rest.get(f"{python.path}/files/list", path=".").json["entries"]
    assert not [e for e in left if e["name"].startswith(".atoll")]


def test_destroyed_while_it_runs(rest):
    made = Session(rest, environment="Bash")
    answers = []
    thread = threading.Thread(target=lambda: answers.append(made.run("touch runs; sleep 300")))
    thread.start()
    wait_until(lambda: rest.get(f"{made.path}/files/stat", path="runs").status == 200, 30,
               lambda: "it does not run")
    assert made.end() == 204
    thread.join(30)
    assert answers[0]["error"]["name"] == "Killed", answers
    assert answers[0]["error"]["evidence"]["kind"] == "killed_by"
    assert answers[0]["artifacts_complete"] is False


def test_the_client_goes_away(rest, python):
    """What runs goes on to its end and cleans up; what is being made is taken down."""
    connection = rest.connection()
    connection.request("POST", f"{python.path}/execute", json.dumps(
        {"code": "import os, time\nopen('runs', 'w').close()\ntime.sleep(0.5)\n"
                 "os.rename('runs', 'late')"}))
    wait_until(lambda: rest.get(f"{python.path}/files/list", path=".").json["entries"], 30,
               lambda: "it does not run")
    connection.close()
    listing = f"{python.path}/files/list"
    wait_until(lambda: [e["name"] for e in rest.get(listing, path=".").json["entries"]] == ["late"],
               30, lambda: rest.get(listing, path=".").body.decode())
    before = rest.get("/api/sandboxes").json["sandboxes"]
    for delay in (0, 0.002, 0.005, 0.01, 0.02):
        connection = rest.connection()
        connection.request("POST", "/api/sessions", json.dumps({"environment": "Python3"}))
        time.sleep(delay)
        connection.sock.close()

    def only_those_before():
        # One whose answer was sent already when the client closed is an ordinary session.
        for left in rest.get("/api/sessions").json["sessions"]:
            if left["session_id"] != python.id:
                assert rest.delete(left["url"]).status in (204, 404)
        return len(rest.get("/api/sandboxes").json["sandboxes"]) == len(before)

    wait_until(only_those_before, 30, lambda: "sandboxes nobody knows of live on")


def test_the_same_request_again(rest):
    """Idempotency-Key: the second one gets the first one's answer."""
    key = {"Idempotency-Key": "sessions-1"}
    body = {"environment": "Bash"}
    first = rest.call("POST", "/api/sessions", body, key)
    second = rest.call("POST", "/api/sessions", body, key)
    assert first.status == 201 and second.json["session_id"] == first.json["session_id"]
    path = first.json["url"]
    run = {"code": "echo x >> log; wc -l < log"}
    key = {"Idempotency-Key": "sessions-2"}
    first = rest.call("POST", f"{path}/execute", run, key)
    second = rest.call("POST", f"{path}/execute", run, key)
    assert first.json["stdout"] == second.json["stdout"] == "1\n"
    assert first.json["execution_id"] == second.json["execution_id"]
    assert rest.delete(path).status == 204


def test_a_full_disk_is_told(rest):
    with session(rest, limits={"diskMB": 4}) as made:
        got = made.run("open('big', 'wb').write(b'x' * (16 << 20))")
        assert got["error"]["name"] == "OSError" and "No space left" in got["error"]["value"]
        answer = rest.put(f"{made.path}/files", b"y" * (8 << 20), path="more")
        assert answer.status == 507, answer.body


@pytest.mark.parametrize("body, says", [
    ({}, "code is missing"),
    ({"code": 5}, "code must be"),
    ({"code": "", "timeout": -1}, "timeout"),
    ({"code": "", "timeout": "long"}, "timeout"),
    ({"code": "", "session_id": "x"}, "session_id"),
    ({"code": "", "files": [{}]}, "files[0]"),
])
def test_bad_execution(python, body, says):
    answer = python.rest.post(f"{python.path}/execute", body)
    assert (answer.status, says in answer.error["message"]) == (400, True), answer.body


def test_ids(rest):
    assert rest.get("/api/sessions/nope").status == 404
    assert rest.get("/api/sessions/No-Pe").status == 400
    assert rest.get("/api/sessions/a/b").status == 404
    assert rest.get("/api/sessions/nope/artifacts/x").status == 404


# Artifacts and files.

def test_artifacts(python):
    got = python.run("import os\nos.makedirs('plots/a')\nopen('plots/a/p.png','wb').write(b'PNG')\n"
                     "open('t.csv','w').write('1,2')\nos.makedirs('__pycache__')\n"
                     "open('__pycache__/x','w').close()\nos.symlink('/etc/passwd', 'link')")
    assert got["artifacts"] == [
        {"path": "plots/a/p.png", "size": 3, "mime": "image/png", "change": "created"},
        {"path": "t.csv", "size": 3, "mime": "text/csv", "change": "created"}]
    got = python.run("open('t.csv','a').write(',3')")
    assert got["artifacts"] == [
        {"path": "t.csv", "size": 5, "mime": "text/csv", "change": "modified"}]
    assert python.run("open('t.csv').read()")["artifacts"] == []
    listed = python.rest.get(f"{python.path}/artifacts").json
    assert [a["path"] for a in listed["artifacts"]] == ["plots/a/p.png", "t.csv"]
    assert python.rest.get(f"{python.path}/artifacts/plots/a/p.png").body == b"PNG"
    assert python.rest.get(f"{python.path}/artifacts/nope").status == 404
    assert python.rest.get(f"{python.path}/artifacts//etc/passwd").status == 400
    assert python.rest.get(f"{python.path}/artifacts/../../etc/passwd").status in (400, 404)


def test_files(python):
    files = f"{python.path}/files"
    assert python.rest.put(files, b"abc", path="dir/f.txt").status == 200
    assert python.run("print(open('dir/f.txt').read())")["stdout"] == "abc\n"
    assert python.rest.get(files, path="dir/f.txt").body == b"abc"
    assert python.rest.get(f"{files}/stat", path="dir/f.txt").json["size"] == 3
    assert len(python.rest.get(f"{files}/list", path="dir").json["entries"]) == 1
    assert python.rest.delete(files, path="dir/f.txt").status == 204
    assert python.rest.get(files, path="dir/f.txt").status == 404


def test_older_spellings(python):
    rest = python.rest
    answer = rest.post("/api/e2b/files",
                       {"session_id": python.id, "path": "o.txt", "content": "old"})
    assert answer.status == 200 and answer.json["size"] == 3
    answer = rest.post("/api/e2b/execute",
                       {"session_id": python.id, "code": "print(open('o.txt').read())"})
    assert answer.json["stdout"] == "old\n"
    assert [f["path"] for f in rest.get(f"/api/e2b/files/{python.id}").json["files"]] == ["o.txt"]
    for body in ({"code": ""}, {"session_id": "A/B", "code": ""}, {"session_id": 5, "code": ""}):
        assert rest.post("/api/e2b/execute", body).status == 400
    assert rest.post("/api/e2b/execute", {"session_id": "nope", "code": ""}).status == 404
    assert rest.post("/api/e2b/files", {"path": "x", "content": ""}).status == 400
    assert rest.post("/api/e2b/files",
                     {"session_id": "nope", "path": "x", "content": ""}).status == 404


def test_other_tenants_see_nothing(daemon, python):
    other = Rest(daemon.socket, {"X-Atoll-Tenant": "other"})
    unknown = {"session_id": "x" * 26, "code": ""}
    assert other.get("/api/sessions").json["sessions"] == []
    foreign = other.get(python.path)
    assert foreign.status == 404
    missing = other.get("/api/sessions/" + "x" * 26)
    assert missing.error["message"].replace("x" * 26, python.id) == foreign.error["message"]
    assert python.view["sandbox_id"] not in foreign.body.decode()
    for method, path, body in [("POST", "/execute", {"code": "true"}), ("GET", "/artifacts", None),
                               ("GET", "/artifacts/x", None), ("GET", "/files?path=x", None),
                               ("PUT", "/files?path=x", b"x"), ("DELETE", "/files?path=x", None),
                               ("GET", "/files/list?path=.", None), ("DELETE", "", None)]:
        assert other.call(method, python.path + path, body).status == 404, (method, path)
    assert other.post("/api/e2b/execute", {**unknown, "session_id": python.id}).status == 404
    assert other.get(f"/api/e2b/files/{python.id}").status == 404
    assert python.rest.get(python.path).status == 200


# The registry, with a daemon of its own.

GOOD = """template: host
language: sh
interpreters: {sh: {run: [sh, "{file}"], extension: sh}}
"""


@pytest.fixture(scope="module")
def own():
    """(daemon, client, registry directory)"""
    need_build()
    directory = Path(tempfile.mkdtemp(prefix="atoll-", dir="/tmp"))
    registry = directory / "registry"
    shutil.copytree(ROOT / "registry", registry)
    daemon = Daemon(BUILD, directory)
    daemon.env["ATOLL_REGISTRY"] = str(registry)
    daemon.start()
    yield daemon, Rest(daemon.socket), registry
    left = daemon.stop()
    shutil.rmtree(directory, ignore_errors=True)
    assert not left


def until(rest, condition):
    wait_until(lambda: condition(rest.get("/api/registry").json), 30,
               lambda: str(rest.get("/api/registry").json))


def test_registry(rest):
    view = rest.get("/api/registry").json
    assert view["environments"] == sorted(
        path.stem for path in (ROOT / "registry" / "environments").glob("*.yaml"))
    assert {"Bash", "Node", "Python3", "base", "code-interpreter-v1", "coding"} <= {*view["environments"]}
    assert view["problems"] == []
    for kind in ("agents", "tools", "prompts"):
        assert view[kind] == sorted(path.stem for path in (ROOT / "registry" / kind).glob("*.yaml"))
    listed = rest.get("/api/registry/environments").json["environments"]
    assert [e["name"] for e in listed] == view["environments"]
    assert rest.get("/api/registry/environments/Bash").json["language"] == "bash"
    assert rest.get("/api/registry/environments/Nope").status == 404
    for kind in ("agents", "tools", "prompts"):
        assert [item["name"] for item in rest.get(f"/api/registry/{kind}").json[kind]] == view[kind]
        assert rest.get(f"/api/registry/{kind}/x").status == 404
    assert rest.get("/api/registry/others").status == 404


def test_reload(own):
    daemon, rest, registry = own
    file = registry / "environments" / "Mine.yaml"
    file.write_text(GOOD + "env: {GREETING: hello}\n")
    until(rest, lambda r: "Mine" in r["environments"])
    with session(rest, "Mine") as made:
        assert made.run("echo $GREETING")["stdout"] == "hello\n"
        # Broken: what it said stays in force, and log and API say what is wrong with it.
        file.write_text(GOOD + "limits:\n  memoryMB: lots\n")
        until(rest, lambda r: r["problems"])
        problem = rest.get("/api/registry").json["problems"][0]
        assert problem["message"].startswith("environments/Mine.yaml:5:13: limits.memoryMB")
        assert problem["in_force"] == "last good version"
        assert "environments/Mine.yaml:5:13" in daemon.log.read_text()
        assert made.run("echo $GREETING")["stdout"] == "hello\n"
        file.unlink()
        until(rest, lambda r: "Mine" not in r["environments"] and not r["problems"])
        answer = rest.post(f"{made.path}/execute", {"code": "true"})
        assert answer.status == 409 and "Mine" in answer.error["message"]
        assert rest.post("/api/sessions", {"environment": "Mine"}).status == 404


def test_what_an_environment_lacks(own):
    _, rest, registry = own
    environments = registry / "environments"
    (environments / "Lacking.yaml").write_text(
        GOOD + "requires: [{program: no-such-program, install: brew it}]\n")
    (environments / "Imaged.yaml").write_text(GOOD.replace("template: host", "image: registry.invalid/x:1"))
    (environments / "Elsewhere.yaml").write_text(GOOD.replace("host", "nope"))
    until(rest, lambda r: {"Lacking", "Imaged", "Elsewhere"} <= set(r["environments"]))
    for name, status, says in [("Lacking", 409, "brew it"), ("Imaged", 503, "image registry.invalid/x:1"),
                               ("Elsewhere", 404, "nope")]:
        answer = rest.post("/api/sessions", {"environment": name})
        assert (answer.status, says in answer.error["message"]) == (status, True), answer.body
    assert rest.get("/api/sandboxes").json["sandboxes"] == []


def test_start_command_and_default_timeout(own):
    _, rest, registry = own
    (registry / "environments" / "Started.yaml").write_text(
        GOOD + "start: [sh, -c, 'echo up > started; exec sleep 100']\nexecuteTimeoutSeconds: 1\n")
    (registry / "environments" / "Stuck.yaml").write_text(GOOD + "start: [/no/such/thing]\n")
    until(rest, lambda r: {"Started", "Stuck"} <= set(r["environments"]))
    with session(rest, "Started") as made:
        got = made.run("while ! [ -s started ]; do :; done; cat started", timeout=30)
        assert got["stdout"] == "up\n"
        exec_id = made.view["start_execution_id"]
        record = rest.get(f"/api/sandboxes/{made.view['sandbox_id']}/execs/{exec_id}").json
        assert record["state"] == "running"
        assert made.run("sleep 30")["error"]["name"] == "TimedOut"
        assert made.run("sleep 1.2", timeout=0)["error"] is None
    answer = rest.post("/api/sessions", {"environment": "Stuck"})
    assert answer.status >= 400 and "start command" in answer.error["message"]
    assert rest.get("/api/sandboxes").json["sandboxes"] == []


def test_kinds_for_later(own):
    _, rest, registry = own
    for kind, text in [("agents", "environment: Python3\nmodel: m\nprompt: p\n"),
                       ("tools", "description: d\ncommand: [x]\nparameters: {type: object}\n"),
                       ("prompts", "text: hello\n")]:
        (registry / kind).mkdir(exist_ok=True)
        (registry / kind / "one.yaml").write_text(text)
        (registry / kind / "two.yaml").write_text("nonsense: 1\n")
    until(rest, lambda r: len(r["problems"]) == 3)
    for kind in ("agents", "tools", "prompts"):
        names = [i["name"] for i in rest.get(f"/api/registry/{kind}").json[kind]]
        assert "one" in names and "two" not in names
        assert rest.get(f"/api/registry/{kind}/one").json["name"] == "one"


def test_survives_the_daemon(own):
    daemon, rest, _ = own
    made = Session(rest, environment="Python3", env={"KEPT": "yes"})
    made.run("mark = 'set'\nopen('f', 'w').write('still here')")
    gone = Session(rest, environment="Bash")
    assert rest.delete(f"/api/sandboxes/{gone.view['sandbox_id']}").status == 204
    connection = rest.connection()
    connection.request("POST", f"{made.path}/execute",
                       json.dumps({"code": "import time\ntime.sleep(60)\nprint('ran on')"}))
    time.sleep(0.5)
    daemon.process.send_signal(signal.SIGKILL)
    daemon.process.wait()
    connection.close()
    daemon.start()
    assert [s["session_id"] for s in rest.get("/api/sessions").json["sessions"]] == [made.id]
    got = made.run("import os\nprint(open('f').read(), os.environ['KEPT'])")
    assert got["stdout"] == "still here yes\n"
    # What ran for a client that is gone was interrupted, by the same interpreter; its variables live.
    execs = f"/api/sandboxes/{made.view['sandbox_id']}/execs"
    assert [e["state"] for e in rest.get(execs).json["execs"]] == ["running"]
    assert made.run("print(mark)")["stdout"] == "set\n"
    left = rest.get(f"{made.path}/files/list", path=".").json["entries"]
    assert [e["name"] for e in left] == ["f"]
    assert made.end() == 204


def test_agent_config_is_kept(daemon, rest):
    config = {"type": "code_executor", "tools": ["a", "b"]}
    made = rest.post("/api/sessions", {"environment": "Bash", "agent_config": config}).json
    path = f"/api/sessions/{made['session_id']}"
    assert made["agent_config"] == rest.get(path).json["agent_config"] == config
    assert rest.delete(path).status == 204
    answer = rest.post("/api/sessions", {"environment": "Bash", "agent_config": "x"})
    assert answer.status == 400 and "agent_config" in answer.json["error"]["message"]


def test_files_by_session_id(rest):
    made = rest.post("/api/sessions", {"environment": "Bash", "files": {"f": "text"}}).json
    session = made["session_id"]
    listed = rest.get("/api/e2b/files", session_id=session).json["files"]
    assert [one["path"] for one in listed] == ["f"]
    assert rest.get("/api/e2b/files", session_id=session, path="f").body == b"text"
    wrong = rest.delete(f"/api/sessions/{session}", sandbox_id="xyz")
    assert wrong.status == 400 and "sandbox_id" in wrong.json["error"]["message"]
    assert rest.delete(f"/api/sessions/{session}", sandbox_id=made["sandbox_id"]).status == 204


def test_an_image_is_no_unknown_environment(rest):
    # The request is understood; its registry does not exist.
    answer = rest.post("/api/sessions", {"environment": "registry.invalid/python:latest"})
    assert "environment" not in answer.json["error"]["message"], answer.body
    assert "image" in answer.json["error"]["message"]
