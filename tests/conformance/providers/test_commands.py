"""Commands: what they print, what they read, and how they end."""

import base64
import hashlib
import json

import pytest
from daemons import wait_until
from rest import WebSocket

MIB = 1 << 20
# Touches every page of what it takes.
HOG = "import sys\nhog = []\nwhile True:\n    hog.append(b'x' * (8 << 20))"


def end(box, exec_id):
    """The result of a command, once it has one."""
    lines = box.get(f"execs/{exec_id}/output", follow="true").lines
    return lines[-1]["result"]


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_exit_codes(box, code):
    ended = box.run(f"echo out; echo err >&2; exit {code}")
    assert (ended["stdout"], ended["stderr"]) == ("out\n", "err\n")
    assert (ended["result"]["kind"], ended["result"]["exit_code"]) == ("exited", code)


def test_what_cannot_start_is_an_error(box):
    answer = box.post("execs", {"cmd": ["no-such-program"]}, wait="true")
    assert answer.status == 404 and "no-such-program" in answer.error["message"], answer.body
    answer = box.post("execs", {"cmd": ["true"], "cwd": "/no/such/directory"}, wait="true")
    assert answer.status == 400 and "/no/such/directory" in answer.error["message"], answer.body
    answer = box.post("execs", {"cmd": ["true"], "user": "nobody-of-that-name"}, wait="true")
    assert answer.status in (400, 404), answer.body


def test_environment_directory_and_user(place, box):
    answer = box.out("echo $COLOUR; pwd", env={"COLOUR": "deep green"}, cwd="/tmp")
    assert answer == "deep green\n/tmp"
    assert box.out("id -u; pwd; echo $HOME") == f"{place.uid}\n{place.home}\n{place.home}"
    assert box.out("id -u", user="root") == "0"


def test_arguments_arrive_as_they_are(box):
    odd = ["a b", "", "'\"$(x)`", "äö\n", "--", "\\"]
    answer = box.post("execs", {"cmd": ["printf", "%s|", *odd]}, wait="true")
    assert answer.json["stdout"] == "".join(f"{word}|" for word in odd)


def test_output_comes_while_it_runs(place, box):
    with place.rest.websocket(f"{box.path}/execs/stream") as ws:
        ws.send({"cmd": ["sh", "-c", "echo one; read line; echo got $line; read line; exit 5"],
                 "stdin": True})
        assert "exec_id" in ws.text()
        assert ws.recv() == (WebSocket.BINARY, b"\x01one\n")
        ws.send(b"\x00two\n")
        assert ws.recv() == (WebSocket.BINARY, b"\x01got two\n")
        ws.send(b"\x00")
        *_, texts, code = ws.finish()
    assert texts[-1]["result"]["exit_code"] == 5 and code == 1000


def test_no_byte_of_much_output_is_lost(box):
    """6 MiB, each line different."""
    count = 400000
    loop = f"for (i = 1; i <= {count}; i++) printf \"line %012d\\n\", i"
    exec_id = box.detach(f"awk 'BEGIN {{ {loop} }}'")
    digest, size, last = hashlib.sha256(), 0, None
    for line in box.get(f"execs/{exec_id}/output", follow="true").lines:
        last = line
        if line.get("stream") == "stdout":
            assert line["offset"] == size
            digest.update(line["data"].encode())
            size += len(line["data"])
    assert last["result"]["kind"] == "exited" and last["result"]["stdout_bytes"] == size
    expected = "".join(f"line {i:012d}\n" for i in range(1, count + 1)).encode()
    assert (size, digest.hexdigest()) == (len(expected), hashlib.sha256(expected).hexdigest())


def test_bytes_that_are_no_text(box):
    ended = box.run(r"printf '\377\000\376'")
    assert base64.b64decode(ended["stdout_base64"]) == b"\xff\x00\xfe"


def test_input(place, box):
    """Given whole, and piece by piece in a size no pipe holds."""
    assert box.out("cat", stdin="some text") == "some text"
    exec_id = box.detach("sha256sum", stdin=True)
    data = bytes(range(256)) * (3 * MIB // 256)
    path = f"{box.path}/execs/{exec_id}/stdin"
    assert place.rest.call("POST", path, data).status == 204
    assert place.rest.call("POST", path, b"the end", close="true").status == 204
    assert end(box, exec_id)["exit_code"] == 0
    assert box.output(exec_id).split()[0] == hashlib.sha256(data + b"the end").hexdigest()


def test_signals(box):
    """One from inside is told apart from one that was asked for."""
    result = box.run("kill -SEGV $$")["result"]
    assert (result["kind"], result["signal"]) == ("signaled", "SIGSEGV")
    exec_id = box.detach("trap 'echo caught; exit 7' USR1; echo ready; "
                         "while :; do sleep 0.05; done")
    wait_until(lambda: box.output(exec_id) == "ready\n", 30, lambda: "it does not start")
    assert box.post(f"execs/{exec_id}/signal", {"signal": "SIGUSR1"}).status == 204
    assert end(box, exec_id)["exit_code"] == 7
    assert box.output(exec_id) == "ready\ncaught\n"
    exec_id = box.detach("sleep 1000 & wait")
    assert box.post(f"execs/{exec_id}/signal", {"signal": "SIGKILL", "tree": True}).status == 204
    result = end(box, exec_id)
    assert (result["kind"], result["signal"]) == ("killed_by", "SIGKILL")
    assert box.post(f"execs/{exec_id}/signal", {"signal": "SIGKILL"}).status == 409


def test_timeout_ends_all_it_started(box):
    ended = box.run("sleep 4711 & echo begun; wait", timeoutSeconds=2)
    assert ended["stdout"] == "begun\n" and ended["result"]["kind"] == "timed_out"
    assert "4711" not in box.out("ps -ef 2>/dev/null || ps")


def test_out_of_memory_is_never_called_anything_else(place):
    """Who can know says so with evidence. Nobody calls it an exit."""
    waived = ["all"] if place.is_service else []
    with place.box(limits={"memoryMB": 128, "diskMB": 16}, waive=waived) as small:
        answer = small.post("execs", {"cmd": ["python3", "-c", HOG]}, wait="true")
        result = answer.json["result"]
        if place.is_service:
            # Its memory is accounted for elsewhere: that it was killed is all one can tell.
            assert result["kind"] in ("oom_killed", "signaled", "lost"), result
        elif place.name == "gvisor":
            # The limit holds for the kernel inside as a whole: mostly all ends with it.
            assert result["kind"] in ("oom_killed", "signaled"), result
            if "reason" in result:
                assert "memory" in result["reason"], result
                assert small.state == "failed" and "memory" in small.view["cause"]
        else:
            assert result["kind"] == "oom_killed", result
            assert result["oom"]["limit_bytes"] == 128 * MIB, result
            assert small.out("echo alive") == "alive"


def test_the_limit_of_processes_holds(place):
    if place.is_service:
        pytest.skip("the limit of processes is the service's")
    with place.box(limits={"pids": 24}) as small:
        ended = small.run("i=0; while [ $i -lt 80 ]; do sleep 60 & i=$((i+1)); done; echo all",
                          timeoutSeconds=20)
        assert "all" not in ended["stdout"], ended
        if place.name == "gvisor" and ended["result"]["kind"] == "lost":
            assert small.state == "failed" and small.view["cause"]  # its own threads count, too
        else:
            assert "fork" in ended["stderr"], ended


def test_terminal(place, box):
    with place.rest.websocket(f"{box.path}/pty?cols=91&rows=33&command=sh") as ws:
        assert "exec_id" in ws.text()
        ws.send(b"tty -s && stty size; echo done-$((40+2))\n")
        shown = read_until(ws, b"done-42")
        assert b"33 91" in shown
        ws.send({"resize": {"cols": 50, "rows": 20}})
        ws.send(b"stty size; echo done-$((40+3))\n")
        assert b"20 50" in read_until(ws, b"done-43")
        ws.send(b"exit 5\n")
        opcode, payload = ws.recv()
        while opcode == WebSocket.BINARY:
            opcode, payload = ws.recv()
        assert json.loads(payload)["result"]["exit_code"] == 5


def read_until(ws, text):
    shown = b""
    while text not in shown:
        opcode, payload = ws.recv()
        assert opcode == WebSocket.BINARY, payload
        shown += payload
    return shown


def test_in_a_sandbox_of_its_own(place):
    answer = place.rest.post("/api/run", {
        "provider": place.name, "cmd": ["python3", "main.py"], "env": {"WHO": "conformance"},
        "files": [{"path": "main.py", "data_base64": base64.b64encode(
            b"import os; print(6 * 7, os.environ['WHO'])").decode()}]})
    assert answer.status == 200, answer.body
    assert answer.json["stdout"] == "42 conformance\n", answer.json
    assert place.leftovers(answer.json["sandbox_id"]) == []


def test_by_the_command_line(world, place):
    done = world.daemon.atoll("run", "--provider", place.name, "--", "sh", "-c", "cat; exit 3",
                              input="through the command line")
    assert (done.returncode, done.stdout) == (3, "through the command line"), done.stderr
