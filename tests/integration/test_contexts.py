"""Interpreters that stay: contexts in real sandboxes, over the API."""

import contextlib
import json
import shutil
import signal
import tempfile
import threading
from pathlib import Path

import pytest

from conftest import BUILD, Daemon, need_build, wait_until
from rest import Rest


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


class Context:
    def __init__(self, rest, box, **request):
        self.rest = rest
        self.box = f"/api/sandboxes/{box}"
        answer = rest.post(f"{self.box}/contexts", {"language": "python", **request})
        assert answer.status == 201, answer.body
        self.view = answer.json
        self.id = self.view["context_id"]
        self.path = f"{self.box}/contexts/{self.id}"

    def run(self, code, **request):
        answer = self.rest.post(f"{self.path}/execute", {"code": code, **request})
        assert answer.status == 200, answer.body
        return answer.json

    def text(self, code):
        got = self.run(code)
        assert got["error"] is None, got
        return got["results"][-1]["text"]

    def begin(self, code, lines=True):
        """Sends the request and leaves it under way."""
        body = json.dumps({"code": code}).encode()
        head = (f"POST {self.path}/execute HTTP/1.1\r\nHost: localhost\r\n"
                f"Content-Length: {len(body)}\r\n")
        if lines:
            head += "Accept: application/x-ndjson\r\n"
        sock = self.rest.socket(30)
        sock.sendall(head.encode() + b"\r\n" + body)
        return sock

    def exec(self):
        found = [c for c in self.rest.get(f"{self.box}/contexts").json["contexts"]
                 if c["context_id"] == self.id]
        return found[0]["exec_id"]


def read_until(sock, what):
    got = b""
    while what not in got:
        piece = sock.recv(65536)
        assert piece, got
        got += piece
    return got


@pytest.fixture
def context(rest, sandbox):
    return Context(rest, sandbox)


def test_variables_stay(context):
    got = context.run("import sys\nx = 20\nprint('out')\nprint('err', file=sys.stderr)\nx + 1")
    assert (got["stdout"], got["stderr"], got["error"]) == ("out\n", "err\n", None)
    assert got["results"][0]["text"] == "21" and got["results"][0]["is_main_result"] is True
    assert got["executionCount"] == 1
    got = context.run("x += 1\nx")
    assert got["results"][0]["text"] == "21" and got["executionCount"] == 2


def test_lines(rest, context):
    answer = rest.call("POST", f"{context.path}/execute", {"code": "print('\u00e4')\n5"},
                       {"Accept": "application/x-ndjson"})
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert [line["type"] for line in answer.lines] == [
        "number_of_executions", "stdout", "result", "end_of_execution"]
    assert answer.lines[1]["text"] == "\u00e4\n" and answer.lines[1]["timestamp"]
    answer.body.decode("ascii")


def test_errors_and_environment(context):
    got = context.run("def f():\n    raise ValueError('no')\nf()")
    assert (got["error"]["name"], got["error"]["value"]) == ("ValueError", "no")
    assert "ValueError" in got["error"]["traceback"]
    code = "import os\nos.environ.get('MINE')"
    assert context.run(code, env={"MINE": "yes"})["results"][0]["text"] == "yes"
    assert context.run(code)["results"] == []


def test_cwd_and_user(rest, sandbox):
    made = Context(rest, sandbox, cwd="/tmp", user="root")
    assert made.text("import os\n(os.getcwd(), os.getuid())") == "('/tmp', 0)"
    assert made.view["cwd"] == "/tmp" and made.view["user"] == "root"
    answer = rest.post(f"{made.box}/contexts", {"language": "python", "cwd": "/no/such"})
    assert answer.status >= 400
    assert len(rest.get(f"{made.box}/contexts").json["contexts"]) == 1


def test_much_output(rest, context):
    code = "for i in range(300):\n    print(str(i) + 'x' * 65536)"
    answer = rest.call("POST", f"{context.path}/execute", {"code": code},
                       {"Accept": "application/x-ndjson"})
    text = "".join(line.get("text", "") for line in answer.lines)
    assert len(text) == sum(len(str(i)) + 65537 for i in range(300))
    got = context.run(code)
    assert len(got["stdout"]) == 1 << 20 and got["stdout_truncated"] is True


def test_more_than_a_journal_holds():
    """Protocol output has no end; what was read is forgotten, and nothing is lost."""
    need_build()
    with own_daemon("--journal-max", "100K") as (_, rest, box):
        made = Context(rest, box)
        for _ in range(5):
            assert len(made.run("print('y' * 500000)")["stdout"]) == 500001
        kept = rest.get(f"/api/sandboxes/{box}/execs/{made.exec()}/output")
        assert kept.status == 200


def test_a_slow_reader_holds_the_code_back(context):
    sock = context.begin("import time\nn = 0\nwhile n < 400:\n    print('z' * 65536)\n    n += 1")
    read_until(sock, b"number_of_executions")
    # The pipe is full long before 25 MiB: the counter stands still.
    sock2 = context.begin("n", lines=False)
    got = b""
    while b"end_of_execution" not in got[-200:]:
        piece = sock.recv(1 << 20)
        assert piece
        got += piece
    assert got.count(b'"type":"stdout"') >= 400
    assert b'"text":"400"' in read_until(sock2, b"executionCount")
    sock.close()
    sock2.close()


def test_time_limit(context):
    context.run("kept = 'yes'")
    got = context.run("print('first')\nwhile True: pass", timeoutSeconds=1.5)
    assert got["error"]["name"] == "TimedOut" and got["stdout"] == "first\n"
    assert context.text("kept") == "yes"


def test_time_limit_that_code_ignores(context):
    before = context.exec()
    got = context.run("import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
                      "while True: time.sleep(1)", timeoutSeconds=1.5)
    assert got["error"]["name"] == "TimedOut", got
    assert "variables are gone" in got["error"]["value"]
    assert context.text("1 + 1") == "2"
    assert context.exec() != before


def test_a_client_that_vanishes(rest, context):
    context.run("kept = 1")
    for i, lines in enumerate((True, False)):
        sock = context.begin(f"import time\nopen('runs{i}', 'w').close()\ntime.sleep(300)", lines)
        wait_until(lambda: rest.get(f"{context.box}/files/stat", path=f"runs{i}").status == 200, 30,
                   lambda: "it does not run")
        sock.close()
        assert context.text("kept + 1") == "2"


def test_one_after_the_other(context):
    context.run("log = []")
    results = []

    def work(i):
        results.append(context.run(f"import time\nlog.append('a')\ntime.sleep(0.1)\n"
                                   f"log.append('b')\n{i}")["results"][0]["text"])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [str(i) for i in range(5)]
    assert context.text("''.join(log)") == "ab" * 5


def test_contexts_are_apart(rest, sandbox):
    first, second = Context(rest, sandbox), Context(rest, sandbox)
    sock = first.begin("import time\nx = 1\ntime.sleep(60)")
    assert second.run("x")["error"]["name"] == "NameError"
    assert second.text("2 + 2") == "4"
    sock.close()


def test_restart_and_remove(rest, context):
    context.run("x = 1")
    sock = context.begin("import time\ntime.sleep(60)")
    read_until(sock, b"number_of_executions")
    assert rest.post(f"{context.path}/restart").status == 204
    assert b"ContextRestarting" in read_until(sock, b"end_of_execution")
    assert context.run("x")["error"]["name"] == "NameError"
    exec_id = context.exec()
    assert rest.delete(context.path).status == 204
    assert rest.delete(context.path).status == 404
    assert rest.post(f"{context.path}/restart").status == 404
    assert rest.post(f"{context.path}/execute", {"code": "1"}).status == 404
    assert rest.get(f"{context.box}/contexts").json["contexts"] == []
    record = f"{context.box}/execs/{exec_id}"
    wait_until(lambda: rest.get(record).json["state"] == "ended", 30, lambda: "it lives on")


def test_an_interpreter_that_dies(rest, context):
    context.run("x = 1")
    got = context.run("print('before', flush=True)\nimport os\nos._exit(7)")
    assert got["error"]["name"] == "ExitCode" and "7" in got["error"]["value"]
    assert "variables are gone" in got["error"]["value"]
    got = context.run("x")
    assert got["error"]["name"] == "NameError" and got["stderr"] == ""
    # Killed while it had nothing to do: the next execution says so, and runs.
    answer = rest.post(f"{context.box}/execs/{context.exec()}/signal", {"signal": "SIGKILL"})
    assert answer.status < 300, answer.body
    wait_until(lambda: context.exec() is None, 30, lambda: "its end is not seen")
    got = context.run("2")
    assert got["results"][0]["text"] == "2" and "without its variables" in got["stderr"]
    assert context.run("3")["stderr"] == ""


def test_hostile_code(context):
    """Code that finds the wire and lies on it fools nobody but itself."""
    got = context.run(
        "import os\nfor fd in range(3, 40):\n    try:\n"
        "        os.write(fd, b'\\n{\"type\":\"end_of_execution\",\"id\":1}\\nnonsense\\n')\n"
        "    except OSError:\n        pass\nprint('real')")
    assert "real" in got["stdout"] or got["error"], got
    assert context.text("1 + 1") == "2"


def test_sandbox_destroyed_while_code_runs(rest, daemon):
    name = daemon.create()
    made = Context(rest, name)
    sock = made.begin("import time\ntime.sleep(60)")
    read_until(sock, b"number_of_executions")
    assert rest.delete(made.box).status == 204
    with contextlib.suppress(ConnectionResetError):
        while sock.recv(65536):
            pass
    sock.close()
    assert rest.get(f"{made.box}/contexts").status == 404


def test_paused_and_resumed(rest, context):
    """A paused sandbox keeps its contexts; time limits stand still with it."""
    context.run("x = 'kept'")
    sock = context.begin("import time\nprint('on')\ntime.sleep(0.5)\nprint('done')")
    read_until(sock, b"on")
    answer = rest.post(f"{context.box}/pause")
    if answer.status == 501:
        pytest.skip("this host has no cgroup freezer")
    assert answer.status == 200, answer.body
    assert len(rest.get(f"{context.box}/contexts").json["contexts"]) == 1
    assert rest.post(f"{context.box}/resume").status == 200
    assert b"done" in read_until(sock, b"end_of_execution")
    assert context.text("x") == "kept"
    assert rest.post(f"{context.box}/pause", {"keepProcesses": False}).status == 200
    assert rest.post(f"{context.box}/resume").status == 200
    got = context.run("1 + 1")
    assert got["results"][0]["text"] == "2" and "without its variables" in got["stderr"], got


@pytest.mark.parametrize("body, status, says", [
    ({"language": "cobol"}, 400, "python"),
    ({"language": 5}, 400, "language"),
    ({"nonsense": 5}, 400, "nonsense"),
    ({"cwd": ""}, 400, "cwd"),
])
def test_bad_creation(rest, sandbox, body, status, says):
    answer = rest.post(f"/api/sandboxes/{sandbox}/contexts", body)
    assert (answer.status, says in answer.error["message"]) == (status, True), answer.body


@pytest.mark.parametrize("body, says", [
    ({}, "code is missing"),
    ({"code": 5}, "code must be"),
    ({"code": "", "timeoutSeconds": -1}, "timeoutSeconds"),
    ({"code": "", "env": {"A": 5}}, "env.A"),
])
def test_bad_execution(rest, context, body, says):
    answer = rest.post(f"{context.path}/execute", body)
    assert (answer.status, says in answer.error["message"]) == (400, True), answer.body


def test_no_sandbox(rest):
    assert rest.post("/api/sandboxes/nope/contexts", {}).status == 404
    assert rest.get("/api/sandboxes/nope/contexts").status == 404
    assert rest.delete("/api/sandboxes/nope/contexts/x").status == 404


# A daemon of one's own.

@contextlib.contextmanager
def own_daemon(*options):
    directory = Path(tempfile.mkdtemp(prefix="atoll-", dir="/tmp"))
    daemon = Daemon(BUILD, directory)
    for name, value in zip(options[::2], options[1::2]):
        daemon.env["ATOLL_" + name[2:].replace("-", "_").upper()] = value
    try:
        daemon.start()
        yield daemon, Rest(daemon.socket), daemon.create()
    finally:
        left = daemon.stop() if daemon.process.poll() is None else []
        shutil.rmtree(directory, ignore_errors=True)
    assert not left


def kill_and_start(daemon):
    daemon.process.send_signal(signal.SIGKILL)
    daemon.process.wait()
    daemon.start()


def test_survives_the_daemon():
    need_build()
    with own_daemon() as (daemon, rest, box):
        first, busy_one = Context(rest, box, cwd="/tmp"), Context(rest, box)
        first.run("x = 'still here'")
        busy_one.run("y = 'here too'")
        sock = busy_one.begin("import time\nprint('on')\ntime.sleep(300)")
        read_until(sock, b"on")
        before = rest.get(f"/api/sandboxes/{box}/contexts").json
        kill_and_start(daemon)
        assert rest.get(f"/api/sandboxes/{box}/contexts").json == before
        assert first.text("x") == "still here"
        # What ran for a client that is gone was interrupted; its variables are there.
        got = busy_one.run("y")
        assert got["results"][0]["text"] == "here too" and got["stdout"] == "", got
        kill_and_start(daemon)
        assert first.text("x") == "still here"
        assert rest.delete(f"/api/sandboxes/{box}").status == 204
        kill_and_start(daemon)
        assert rest.get(f"/api/sandboxes/{box}/contexts").status == 404


def test_output_across_the_daemons_death():
    """What was printed into the void is thrown away, however much; the next answer is clean."""
    need_build()
    with own_daemon() as (daemon, rest, box):
        made = Context(rest, box)
        sock = made.begin("for i in range(200):\n    print('v' * 65536)\nx = 1\n"
                          "import time\ntime.sleep(300)")
        read_until(sock, b"vvv")
        kill_and_start(daemon)
        got = made.run("print('clean')")
        assert (got["stdout"], got["stderr"], got["error"]) == ("clean\n", "", None)
        assert made.exec() == made.view["exec_id"]


def test_an_interpreter_that_dies_without_a_daemon():
    need_build()
    with own_daemon() as (daemon, rest, box):
        made = Context(rest, box)
        made.run("import os, threading\nthreading.Timer(0.5, lambda: os._exit(1)).start()")
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()
        # Its record shows the end once a daemon is there; it is gone within a second.
        daemon.start()
        wait_until(lambda: made.exec() is None, 30, lambda: "its end is not seen")
        got = made.run("4")
        assert got["results"][0]["text"] == "4" and "without its variables" in got["stderr"]


def test_broken_drivers_are_told():
    need_build()
    directory = Path(tempfile.mkdtemp(prefix="atoll-drivers-", dir="/tmp"))
    (directory / "manifest.json").write_text("{}")
    try:
        with own_daemon("--drivers", str(directory)) as (_, rest, box):
            answer = rest.post(f"/api/sandboxes/{box}/contexts", {"language": "python"})
            assert answer.status == 400 and "none" in answer.error["message"]
        (directory / "manifest.json").write_text('{"toy": {"file": "toy.sh"}}')
        with pytest.raises(AssertionError, match="manifest.json: toy"), \
                own_daemon("--drivers", str(directory)):
            pass
    finally:
        shutil.rmtree(directory)


TOY = r"""
trap '' INT
echo '{"type":"ready"}'
while IFS= read -r line; do
    id=${line#*'"id":'}; id=${id%%,*}
    [ "$id" = "$line" ] && continue
    case $line in
    *silent*) exec sleep 1000 ;;
    *die*) exit 3 ;;
    *garbage*) head -c 100000 /dev/urandom; echo ;;
    *lie*) echo "{\"id\":1,\"type\":\"end_of_execution\"}" ;;
    esac
    echo "{\"id\":$id,\"type\":\"number_of_executions\",\"execution_count\":1}"
    echo "{\"id\":$id,\"type\":\"stdout\",\"text\":\"toy\",\"surplus\":1}"
    echo "{\"id\":$id,\"type\":\"end_of_execution\"}"
done
"""


def test_a_driver_that_misbehaves():
    need_build()
    directory = Path(tempfile.mkdtemp(prefix="atoll-drivers-", dir="/tmp"))
    (directory / "toy.sh").write_text(TOY)
    (directory / "manifest.json").write_text(json.dumps({
        "toy": {"file": "toy.sh", "run": ["sh", "{driver}"], "requires": ["sh"], "install": "-"},
        "lost": {"file": "toy.sh", "run": ["sh", "{driver}"], "requires": ["no-such-program"],
                 "install": "brew it"},
        "mute": {"file": "toy.sh", "run": ["sh", "-c", "echo sorry >&2; exit 1", "{driver}"],
                 "install": "-"}}))
    try:
        with own_daemon("--drivers", str(directory)) as (_, rest, box):
            for language, says in (("lost", "brew it"), ("mute", "sorry")):
                answer = rest.post(f"/api/sandboxes/{box}/contexts", {"language": language})
                assert answer.status == 409 and says in answer.error["message"], answer.body
            made = Context(rest, box, language="toy")
            assert made.run("fine")["stdout"] == "toy"
            assert made.run("lie")["stdout"] == "toy"
            got = made.run("garbage")
            assert got["stdout"] == "toy" and "invalid line" in got["stderr"]
            assert made.run("die")["error"]["name"] == "ExitCode"
            assert made.run("fine")["stdout"] == "toy"
            got = made.run("silent", timeoutSeconds=0.2)
            assert got["error"]["name"] == "TimedOut"
            assert made.run("fine")["stdout"] == "toy"
    finally:
        shutil.rmtree(directory)
