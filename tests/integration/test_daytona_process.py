"""Processes of Daytona's toolbox: execute, code-run, sessions and their logs, terminals, contexts."""

import base64
import contextlib
import http.client
import json
import select
import signal
import time

import pytest
from daemons import wait_until
from rest import Rest, WebSocket

OUT, ERR = "\1\1\1", "\2\2\2"


class Box:
    """The toolbox of one sandbox."""

    def __init__(self, daemon, name):
        self.rest = Rest(daemon.socket)
        self.id, self.base = name, f"/daytona/toolbox/{name}"

    def call(self, method, path, body=None, headers=None, /, **query):
        return self.rest.call(method, self.base + path, body, headers, **query)

    def ok(self, method, path, body=None, status=200, /, **query):
        answer = self.call(method, path, body, **query)
        assert answer.status == status, answer.body
        return answer.json if answer.body else None

    def run(self, command, **fields):
        return self.ok("POST", "/process/execute", {"command": command, **fields})

    def session(self, name):
        self.ok("POST", "/process/session", {"sessionId": name}, 201)
        return name

    def say(self, session, command, status=200, **fields):
        return self.ok("POST", f"/process/session/{session}/exec",
                       {"command": command, **fields}, status)

    def command(self, session, cid):
        return self.ok("GET", f"/process/session/{session}/command/{cid}")

    def logs(self, session, cid):
        return self.ok("GET", f"/process/session/{session}/command/{cid}/logs")

    def socket(self, path, **headers):
        return WebSocket(self.rest.socket(), self.base + path, headers)


class Sender:
    """A request whose answer is read later."""

    def __init__(self, box, session, body):
        self.socket = box.rest.socket()
        text = json.dumps(body).encode()
        self.socket.sendall(f"POST {box.base}/process/session/{session}/exec HTTP/1.1\r\nHost: x\r\n"
                            f"Content-Length: {len(text)}\r\n\r\n".encode() + text)

    def readable(self):
        return bool(select.select([self.socket], [], [], 0)[0])

    def answer(self):
        answer = http.client.HTTPResponse(self.socket)
        answer.begin()
        result = answer.status, json.loads(answer.read())
        self.socket.close()
        return result


@pytest.fixture
def box(daemon, sandbox):
    return Box(daemon, sandbox)


def refused(answer, status, code):
    assert answer.status == status, answer.body
    assert answer.json["source"] == "DAYTONA_DAEMON" and answer.json["code"] == code, answer.json
    return answer.json["message"]


# Execute.


def test_execute_has_both_streams_in_order_and_apart(box):
    result = box.run('printf "o1\\n"; sleep .1; printf "e1\\n" >&2; sleep .1; printf "o2\\n"; exit 3')
    assert result == {"exitCode": 3, "result": "o1\ne1\no2\n", "stdout": "o1\no2\n",
                      "stderr": "e1\n"}


def test_execute_takes_directory_and_variables(box):
    assert box.run("pwd; echo $A", cwd="/tmp", envs={"A": "b c"})["result"] == "/tmp\nb c\n"
    assert box.run("nothing-of-this-name")["exitCode"] == 127
    assert box.run("kill -9 $$")["exitCode"] == 137
    assert box.run("readlink /proc/$$/exe")["result"].endswith("bash\n")


def test_execute_in_a_missing_directory_is_a_result(box):
    result = box.run("true", cwd="/nowhere")
    assert result["exitCode"] == -1 and "/nowhere" in result["result"]


def test_a_command_of_a_megabyte_runs(box):
    text = "x" * (1024 * 1024)
    assert box.run(f"v='{text}'; echo ${{#v}}")["result"] == f"{len(text)}\n"


def test_output_before_a_timeout_is_in_the_error(box):
    answer = box.call("POST", "/process/execute", {"command": "echo begun; sleep 60", "timeout": 1})
    assert refused(answer, 408, "PROCESS_EXECUTION_TIMEOUT") == "command execution timeout"
    assert answer.json["result"] == "begun\n"


def test_output_before_a_timeout_is_bounded(box):
    answer = box.call("POST", "/process/execute",
                      {"command": "head -c 6000000 /dev/zero | tr '\\0' x; sleep 60", "timeout": 3})
    refused(answer, 408, "PROCESS_EXECUTION_TIMEOUT")
    assert answer.json["truncated"] is True
    assert answer.json["result"] == answer.json["stdout"] == "x" * (4 * 1024 * 1024)


def test_long_output_is_cut_and_said_so(box):
    result = box.run("head -c 9000000 /dev/zero | tr '\\0' x; echo end >&2")
    assert result["exitCode"] == 0 and result["truncated"] is True
    assert len(result["result"]) == 4 * 1024 * 1024


def test_code_runs_in_its_language(box):
    def run(code, **fields):
        return box.ok("POST", "/process/code-run", {"code": code, **fields})

    result = run('import os, sys; print(sys.argv[1:], os.environ["Z"])', language="python",
                 argv=["a b", "c"], envs={"Z": "z"})
    assert result["result"] == "['a b', 'c'] z\n" and result["exitCode"] == 0
    assert run('import sys; sys.stderr.write("E\\n"); sys.exit(4)')["exitCode"] == 4
    answer = box.call("POST", "/process/code-run", {"code": "x", "language": "cobol"})
    assert "unsupported language: cobol" in refused(answer, 400, "BAD_REQUEST")


# Sessions.


def test_a_session_keeps_its_state(box):
    session = box.session("s")
    assert box.ok("GET", "/process/session/s") == {"sessionId": "s", "commands": []}
    box.say(session, "cd /tmp; export A=1; f() { echo fun; }")
    result = box.say(session, "pwd; echo $A; f; false")
    assert result["stdout"] == "/tmp\n1\nfun\n" and result["exitCode"] == 1
    assert result["output"] == f"{OUT}/tmp\n{OUT}1\n{OUT}fun\n"
    commands = box.ok("GET", "/process/session/s")["commands"]
    assert [c["exitCode"] for c in commands] == [0, 1]
    assert commands[1] == {"id": result["cmdId"], "command": "pwd; echo $A; f; false", "exitCode": 1}
    assert refused(box.call("POST", "/process/session", {"sessionId": "s"}), 409, "CONFLICT")


def test_a_command_that_only_looks_like_one_of_a_session(box):
    """Arguments of commands are the client's: they may be fewer than those of the daemon's own."""
    session = box.session("s")
    shell = next(e for e in box.rest.get(f"/api/sandboxes/{box.id}/execs").json["execs"] if "s" in e["cmd"])
    fake = box.rest.post(f"/api/sandboxes/{box.id}/execs", {
        "cmd": ["sh", "-c", "sleep 99", "daytona-command", shell["exec_id"]]}).json["exec_id"]
    assert refused(box.call("POST", f"/process/session/s/command/{fake}/input", {"data": "x"}), 404, "PROCESS_NOT_FOUND")
    assert box.say(session, "echo here")["stdout"] == "here\n"


def test_syntax_errors_quotes_and_open_lines_do_not_break_a_session(box):
    session = box.session("s")
    assert box.say(session, "echo 'it''s'; echo \"a'b\"")["stdout"] == "its\na'b\n"
    assert box.say(session, "if then; fi (")["exitCode"] != 0
    assert box.say(session, "echo 'open")["exitCode"] != 0
    assert box.say(session, "cat <<E\nin a $((1 + 1))\nE")["stdout"] == "in a 2\n"
    assert box.say(session, "break; echo never")["exitCode"] == 0
    assert box.say(session, "continue; echo never")["exitCode"] == 0
    assert box.say(session, "return")["exitCode"] != 0
    assert box.say(session, "printf no-newline")["stdout"] == "no-newline\n"
    assert box.say(session, "cat; echo $?")["stdout"] == "0\n"  # no input for these


def test_own_directory_variables_and_time_of_a_command(box):
    session = box.session("s")
    assert box.say(session, "pwd; echo $A", cwd="/tmp", env={"A": "1"})["stdout"] == "/tmp\n1\n"
    assert box.say(session, "echo $A$PWD")["stdout"].strip() != "1/tmp"
    begin = time.monotonic()
    answer = box.call("POST", "/process/session/s/exec",
                      {"command": "echo begun; sleep 61; echo never", "timeout": 1})
    assert (answer.json["stdout"], answer.json["stderr"]) == ("begun\n", "")
    assert refused(answer, 408, "PROCESS_EXECUTION_TIMEOUT")
    logs = box.logs(session, answer.json["cmdId"])
    assert (logs["stdout"], logs["stderr"]) == ("begun\n", "")
    own = box.say(session, "echo mine >&2; kill -9 $$", cwd="/tmp")
    assert (own["exitCode"], own["stderr"]) == (137, "mine\n")
    assert "nowhere" in box.say(session, "true", cwd="/nowhere")["stderr"]
    assert box.say(session, "echo goes on")["stdout"] == "goes on\n"
    assert time.monotonic() - begin < 40
    assert "sleep 61" not in box.run("ps -eo args")["result"]


def test_a_command_that_runs_is_followed_and_fed(box):
    session = box.session("s")
    cid = box.say(session, "while read x; do echo \"got $x\"; [ $x = end ] && break; done",
                  202, runAsync=True)["cmdId"]
    assert "exitCode" not in box.command(session, cid)
    with box.socket(f"/process/session/s/command/{cid}/logs?follow=true") as socket:
        assert socket.status == 101
        box.ok("POST", f"/process/session/s/command/{cid}/input", {"data": "one\n"}, 204)
        seen = b""
        while b"got one\n" not in seen:
            seen += socket.recv()[1]
        box.ok("POST", f"/process/session/s/command/{cid}/input", {"data": "end"}, 204)
        while (message := socket.recv())[0] != 8:
            seen += message[1]
        assert int.from_bytes(message[1][:2], "big") == 1000
    lines = [f"{OUT}one\n", f"{OUT}got one\n", f"{OUT}end\n", f"{OUT}got end\n"]
    assert seen.decode() == "".join(lines) == box.logs(session, cid)["output"]
    assert box.command(session, cid)["exitCode"] == 0
    answer = box.call("POST", f"/process/session/s/command/{cid}/input", {"data": "x"})
    assert refused(answer, 410, "COMMAND_ALREADY_COMPLETED")


def test_input_is_not_shown_if_the_client_does_not_want_it(box):
    session = box.session("s")
    cid = box.say(session, "read x; echo got $x", 202, runAsync=True,
                  suppressInputEcho=True)["cmdId"]
    box.ok("POST", f"/process/session/s/command/{cid}/input", {"data": "secret"}, 204)
    wait_until(lambda: "exitCode" in box.command(session, cid), 20, lambda: "it runs")
    assert box.logs(session, cid)["output"] == f"{OUT}got secret\n"


def test_logs_over_http_and_for_old_sdks(box):
    session = box.session("s")
    cid = box.say(session, "echo o; echo e >&2; printf rest")["cmdId"]
    path = f"/process/session/s/command/{cid}/logs"
    follow = box.call("GET", path, follow="true")
    assert follow.headers["transfer-encoding"] == "chunked"
    assert sorted(follow.body.decode().splitlines()) == sorted([f"{OUT}o", f"{ERR}e", f"{OUT}rest"])
    old = box.call("GET", path, None, {"X-Daytona-SDK-Version": "0.150.0"})
    assert old.headers["content-type"].startswith("text/plain") and OUT in old.body.decode()
    older = box.call("GET", path, None, {"X-Daytona-SDK-Version": "0.20.1"})
    assert "\1" not in older.body.decode()


def test_exit_ends_a_session(box):
    session = box.session("s")
    assert box.say(session, "echo bye; exit 7")["exitCode"] == 7
    answer = box.call("POST", "/process/session/s/exec", {"command": "true"})
    assert refused(answer, 410, "SESSION_ENDED") == "session process has exited"
    assert box.ok("GET", "/process/session/s")["commands"][0]["exitCode"] == 7
    box.ok("DELETE", "/process/session/s", None, 204)
    assert refused(box.call("GET", "/process/session/s"), 404, "PROCESS_NOT_FOUND")


def test_a_killed_shell_ends_its_commands(box):
    session = box.session("s")
    cid = box.say(session, "kill -9 $$; sleep 60", 202, runAsync=True)["cmdId"]
    wait_until(lambda: "exitCode" in box.command(session, cid), 20, lambda: "it runs")
    assert box.command(session, cid)["exitCode"] == 137
    with box.socket(f"/process/session/s/command/{cid}/logs?follow=true") as socket:
        while socket.recv()[0] != 8:
            pass


def test_commands_that_wait_for_a_busy_shell_are_bounded(box):
    session = box.session("busy")
    first = box.say(session, "read x; echo $x", 202, runAsync=True)["cmdId"]
    fill = {"command": ": " + "x" * 200000, "runAsync": True}  # more than the pipe to the shell holds
    senders = [Sender(box, session, fill) for _ in range(80)]
    answers = []

    def take():
        for sender in [sender for sender in senders if sender.readable()]:
            senders.remove(sender)
            answers.append(sender.answer())
        return [body for status, body in answers if status == 429]

    wait_until(take, 30, "no command is refused")
    assert "another session" in take()[0]["message"]
    box.ok("POST", f"/process/session/{session}/command/{first}/input", {"data": "go"}, 204)
    answers += [sender.answer() for sender in senders]
    assert {status for status, _ in answers} == {202, 429}
    assert sum(status == 202 for status, _ in answers) >= 64
    assert box.say(session, "echo again")["stdout"] == "again\n", "no command is cut or mixed with another"


def test_delete_ends_what_a_session_started(box):
    session = box.session("s")
    box.say(session, "sleep 62 & (setsid sleep 63 &) ; disown -a", 202, runAsync=True)
    wait_until(lambda: "sleep 63" in box.run("ps -eo args")["result"], 20, lambda: "not started")
    box.ok("DELETE", "/process/session/s", None, 204)
    assert box.ok("GET", "/process/session") == []
    left = box.run("ps -eo args")["result"]
    assert "sleep 62" not in left and "sleep 63" not in left
    box.session("s")  # the id can be used again
    assert box.ok("GET", "/process/session/s")["commands"] == []


def test_the_entrypoint_is_a_session(box):
    session = box.ok("GET", "/process/session/entrypoint")
    assert session["sessionId"] == "entrypoint" and len(session["commands"]) == 1
    assert box.ok("GET", "/process/session/entrypoint/logs") == {"output": "", "stdout": "",
                                                                "stderr": ""}
    assert refused(box.call("POST", "/process/session", {"sessionId": "entrypoint"}), 400,
                   "BAD_REQUEST")


# Terminals.


def terminal(box, query, *protocols):
    return box.socket("/process/pty/create-connect?" + query,
                      **{"Sec-WebSocket-Protocol": ",".join(protocols)})


def read_until(socket, text):
    """Output up to the text; control messages in a list."""
    seen, control = b"", []
    while text not in seen:
        kind, data = socket.recv()
        assert kind != 8, (seen, data)
        if kind == 1:
            control.append(json.loads(data))
        else:
            seen += data
    return seen, control


def test_a_terminal_is_made_connected_resized_and_left(box):
    envs = base64.urlsafe_b64encode(json.dumps({"A": "~?"}).encode()).decode().rstrip("=")
    with terminal(box, "id=t&cols=90&rows=30", f"X-Daytona-Pty-Envs~{envs}",
                  "X-Daytona-Pty-Exit-Control") as socket:
        assert socket.status == 101
        assert socket.headers["sec-websocket-protocol"] == "X-Daytona-Pty-Exit-Control"
        assert json.loads(socket.recv()[1]) == {"type": "control", "status": "connected"}
        socket.send(b"echo $A $((40 + 2)); stty size\n")
        seen, _ = read_until(socket, b"30 90")
        assert b"~? 42" in seen
        info = box.ok("GET", "/process/pty/t")
        assert info["cols"] == 90 and info["active"] and info["envs"]["A"] == ""
        assert info["cwd"].startswith("/") and info["lazyStart"] is False
        assert box.ok("POST", "/process/pty/t/resize", {"cols": 100, "rows": 40})["cols"] == 100
        socket.send(b"stty size\n")
        read_until(socket, b"40 100")
        with box.socket("/process/pty/t/connect") as second:
            assert second.status == 101
            second.send(b"exit 3\n")
            while (message := second.recv())[0] != 8:
                last = message
            assert json.loads(last[1])["exitCode"] == 3
            assert int.from_bytes(message[1][:2], "big") == 1011
            assert json.loads(message[1][2:]) == {"exitCode": 3}
    wait_until(lambda: box.call("GET", "/process/pty/t").status == 404, 20, lambda: "it runs")


def test_an_id_of_a_terminal_is_used_once(box):
    with terminal(box, "id=t", "X-Daytona-Pty-Exit-Control") as socket:
        assert socket.status == 101
        socket.recv()
        with terminal(box, "id=t", "X-Daytona-Pty-Exit-Control") as second:
            assert second.status == 409
        assert [p["id"] for p in box.ok("GET", "/process/pty")["sessions"]] == ["t"]
        box.ok("DELETE", "/process/pty/t")
        while (message := socket.recv())[0] != 8:
            last = message
        end = json.loads(last[1])
        assert end["exitCode"] == 137 and end["exitReason"] == "SIGKILL"
    assert refused(box.call("GET", "/process/pty/t"), 404, "PROCESS_NOT_FOUND")


def test_a_terminal_of_old_sdks(box):
    assert box.ok("POST", "/process/pty", {"id": "old", "cols": 70, "rows": 20, "lazyStart": True},
                  201) == {"sessionId": "old"}
    with box.socket("/process/pty/old/connect") as socket:
        socket.send(b"echo $((6 * 7))\n")
        read_until(socket, b"42\r\n")
    box.ok("DELETE", "/process/pty/old")


# Contexts.


def execute(box, **request):
    """The messages of an execution and its close code."""
    with box.socket("/process/interpreter/execute") as socket:
        assert socket.status == 101
        socket.send(json.dumps(request))
        messages = []
        while (message := socket.recv())[0] != 8:
            messages.append(json.loads(message[1]))
        return messages, int.from_bytes(message[1][:2], "big")


def text_of(messages, kind="stdout"):
    return "".join(m["text"] for m in messages if m["type"] == kind)


def test_contexts_keep_variables_apart(box):
    messages, code = execute(box, code="x = 1; print(x + 1)")
    assert text_of(messages) == "2\n" and code == 1000
    assert messages[-1] == {"type": "control", "text": "completed"}
    context = box.ok("POST", "/process/interpreter/context", {})
    assert context["language"] == "python" and context["active"] and context["cwd"][0] == "/"
    assert [c["id"] for c in box.ok("GET", "/process/interpreter/context")["contexts"]] == [
        context["id"]]
    messages, _ = execute(box, code="print(x)", contextId=context["id"])
    assert messages[0]["name"] == "NameError"
    messages, _ = execute(box, code="import os; print(os.environ['Q'])", envs={"Q": "7"},
                          contextId=context["id"])
    assert text_of(messages) == "7\n"
    box.ok("DELETE", f"/process/interpreter/context/{context['id']}")
    assert execute(box, code="1", contextId=context["id"])[1] == 1008


def test_code_that_takes_too_long_is_interrupted(box):
    messages, code = execute(box, code="import time; print('a', flush=True); time.sleep(60)",
                             timeout=1)
    assert code == 4008 and text_of(messages) == "a\n"
    assert messages[-1] == {"type": "control", "text": "interrupted"}
    assert not [m for m in messages if m["type"] == "error"]
    assert text_of(execute(box, code="print('again')")[0]) == "again\n"


# Processes.


def events(box, path):
    """The Server-Sent Events of a stream: (event, data)."""
    body = box.call("GET", path).body.decode()
    blocks = [dict(line.split(": ", 1) for line in block.splitlines() if line and line[0] != ":")
              for block in body.split("\n\n")]
    return [(block["event"], json.loads(block["data"])) for block in blocks if "event" in block]


@contextlib.contextmanager
def follow(box, path):
    """The same of a stream that goes on: an iterator, which ends with the stream."""
    connection = box.rest.connection()
    connection.request("GET", box.base + path, headers={"Accept": "text/event-stream"})
    response = connection.getresponse()
    assert response.status == 200

    def read():
        event = None
        for line in response:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                event = value
            elif name == "data":
                yield event, json.loads(value)

    yield read()
    connection.close()


def test_a_process_is_found_again_with_all_of_its_output(box):
    made = box.ok("POST", "/processes", {"shellCommand": "echo a; echo b >&2; read x; echo $x; exit 3",
                                         "stdin": "pipe", "name": "job", "env": {"E": "1"}}, 201)
    path = f"/processes/{made['id']}"
    assert made["state"] == "running" and made["kind"] == "exec"
    assert box.ok("GET", "/processes", name="job")[0]["id"] == made["id"]
    assert box.ok("GET", path + "/wait", timeoutMs=10) == {"reason": "timed_out"}
    wait_until(lambda: len(box.ok("GET", path + "/logs")["frames"]) == 2, 20, lambda: "no output")
    first = box.ok("GET", path + "/logs", limit=1)
    assert len(first["frames"]) == 1 and not first["eof"]
    box.ok("POST", path + "/stdin", {"data": "ä\n", "eof": True}, 204)
    assert box.ok("GET", path + "/wait") == {"exitCode": 3, "reason": "exited"}
    rest = box.ok("GET", path + "/logs", cursor=first["nextCursor"])
    assert rest["eof"] and rest["truncatedHead"] is False
    text = {"stdout": "", "stderr": ""}
    for frame in first["frames"] + rest["frames"]:
        text[frame["channel"]] += frame["data"]
    assert text == {"stdout": "a\nä\n", "stderr": "b\n"}
    seen = events(box, path + "/logs?follow=true&encoding=base64&cursor=" + first["nextCursor"])
    assert [name for name, _ in seen][-2:] == ["state", "eof"] and seen[-2][1]["exitCode"] == 3
    assert base64.b64decode(seen[-3][1]["data"]) == "ä\n".encode()
    box.ok("DELETE", path, None, 204)
    assert refused(box.call("GET", path), 404, "PROCESS_NOT_FOUND")


def test_a_process_that_runs_is_followed_from_a_cursor_on(box):
    """The client of the first stream goes away; the second one begins behind what that one read."""
    made = box.ok("POST", "/processes", {"shellCommand": "echo a; read x; echo $x", "stdin": "pipe"}, 201)
    path = f"/processes/{made['id']}"
    with follow(box, path + "/logs?follow=true") as stream:
        name, first = next(stream)
        assert name == "log" and first["data"] == "a\n"
    with follow(box, f"{path}/logs?follow=true&cursor={first['cursor']}") as stream:
        box.ok("POST", path + "/stdin", {"data": "b\n"}, 204)
        seen = list(stream)
    assert [name for name, _ in seen] == ["log", "state", "eof"]
    assert seen[0][1]["data"] == "b\n" and seen[1][1]["exitCode"] == 0


def test_a_signal_escalates(box):
    made = box.ok("POST", "/processes", {"shellCommand": "trap '' TERM; echo set; while :; do sleep .1; done"},
                  201)
    path = f"/processes/{made['id']}"
    wait_until(lambda: box.ok("GET", path + "/logs")["frames"], 20, lambda: "not started")
    box.ok("POST", path + "/signals", {"signal": "SIGTERM", "escalateAfterMs": 200}, 204)
    end = box.ok("GET", path + "/wait")
    assert end == {"exitCode": 137, "reason": "signaled", "signal": "SIGKILL"}
    answer = box.call("DELETE", "/processes/" + box.ok("POST", "/processes", {"argv": ["sleep", "9"]},
                                                       201)["id"])
    assert refused(answer, 409, "CONFLICT")


def test_kill_of_the_daemon_during_execute_and_a_process(daemon, sandbox):
    """The connection breaks; the process goes on, and its output is all there."""
    box = Box(daemon, sandbox)
    made = box.ok("POST", "/processes", {"shellCommand": "for i in $(seq 100); do echo $i; sleep .02; done"},
                  201)
    connection = box.rest.connection()
    connection.request("POST", box.base + "/process/execute",
                       json.dumps({"command": "sleep 1; echo done > finished"}))
    wait_until(lambda: "sleep 1" in box.run("ps -eo args")["result"], 20, lambda: "not started")
    daemon.process.send_signal(signal.SIGKILL)
    daemon.process.wait()
    with pytest.raises((OSError, http.client.HTTPException)):
        connection.getresponse()
    connection.close()
    daemon.start()
    seen = events(box, f"/processes/{made['id']}/logs?follow=true")
    text = "".join(data["data"] for name, data in seen if name == "log")
    assert text == "".join(f"{i}\n" for i in range(1, 101)) and seen[-1][0] == "eof"
    wait_until(lambda: box.call("GET", "/files/download", path="finished").body == b"done\n", 20,
               lambda: "the command did not go on")


# A daemon that is killed.


def test_kill_of_the_daemon_loses_no_session_and_no_terminal(daemon, sandbox):
    box = Box(daemon, sandbox)
    session = box.session("s")
    box.say(session, "cd /tmp; export KEPT=yes")
    cid = box.say(session, "for i in $(seq 200); do echo line $i; sleep .02; done; exit 5",
                  202, runAsync=True)["cmdId"]
    box.ok("POST", "/process/pty", {"id": "t"}, 201)
    daemon.process.send_signal(signal.SIGKILL)
    daemon.process.wait()
    daemon.start()
    assert box.ok("GET", "/process/session")[0]["commands"][-1]["id"] == cid
    with box.socket(f"/process/session/s/command/{cid}/logs?follow=true") as socket:
        seen = b""
        while (message := socket.recv())[0] != 8:
            seen += message[1]
    assert seen.decode() == "".join(f"{OUT}line {i}\n" for i in range(1, 201))
    wait_until(lambda: "exitCode" in box.command(session, cid), 20, lambda: "it runs")
    assert box.command(session, cid)["exitCode"] == 5
    with box.socket("/process/pty/t/connect?from=0") as socket:
        socket.send(b"echo $((6 * 7))\n")
        read_until(socket, b"42\r\n")
    box.ok("DELETE", "/process/pty/t")


DRAW = """
import sys, matplotlib.pyplot as plt
print("before", sys.argv[1:])
plt.title("Growth"); plt.xlabel("Year")
plt.plot([1, 2, 3], label="a")
plt.show()
fig, (left, right) = plt.subplots(1, 2)
left.bar(["x", "y"], [1, 2]); right.pie([1, 3], labels=["p", "q"])
plt.show()
print("after")
"""


def test_charts_of_code_are_artifacts(box):
    done = box.ok("POST", "/process/code-run", {"code": DRAW, "language": "python", "argv": ["one"]})
    assert done["exitCode"] == 0 and done["result"] == done["stdout"] == "before ['one']\nafter\n"
    line, both = done["artifacts"]["charts"]
    assert (line["type"], line["title"], line["x_label"]) == ("line", "Growth", "Year")
    assert line["elements"] == [{"label": "a", "points": [[0, 1], [1, 2], [2, 3]]}]
    assert base64.b64decode(line["png"]).startswith(b"\x89PNG")
    assert both["type"] == "composite_chart"
    assert [part["type"] for part in both["elements"]] == ["bar", "pie"]


def test_code_that_draws_fails_like_other_code(box):
    def run(code):
        return box.ok("POST", "/process/code-run", {"code": "import matplotlib\n" + code, "language": "python"})

    failed = run("def f():\n    1 / 0\nf()\n")
    assert failed["exitCode"] == 1 and "artifacts" not in failed
    lines = failed["stderr"].splitlines()
    assert lines[-1] == "ZeroDivisionError: division by zero" and 'File "<stdin>", line 4' in lines[1]
    assert run("raise SystemExit(4)")["exitCode"] == 4
    assert "SyntaxError" in run("def")["stderr"]
    assert run("print('dtn_artifact_k39fd2:no JSON')\nprint(__name__)")["result"] == "__main__\n"


def test_typescript_is_code(box):
    code = "interface A { b: number }\nconst a: A = { b: 5 }\nconsole.log(a.b, process.argv.slice(2))"
    done = box.ok("POST", "/process/code-run", {"code": code, "language": "typescript", "argv": ["x"]})
    assert (done["exitCode"], done["result"]) == (0, "5 [ 'x' ]\n"), done


def test_commands_are_in_the_history_of_a_sandbox_with_checkpoints(daemon):
    rest = Rest(daemon.socket)
    made = rest.post("/api/sandboxes", {"checkpoints": "command"})
    assert made.status == 201, made.body
    path = f"/api/sandboxes/{made.json['id']}"
    box = Box(daemon, made.json["id"])

    def commands():
        return [one["command"] for one in rest.get(f"{path}/history").json["commands"]]

    try:
        box.run("echo one > a")
        name = box.session("s")
        assert box.say(name, "echo two > a")["exitCode"] == 0
        cid = box.say(name, "sleep 0.2; echo three > a", 202, runAsync=True)["cmdId"]
        wait_until(lambda: box.command(name, cid).get("exitCode") == 0, 30, lambda: box.command(name, cid))
        box.ok("POST", "/processes", {"shellCommand": "echo four > a"}, 201)
        wait_until(lambda: len(commands()) == 4 and rest.get(f"{path}/history").json["commands"][0]["after"], 30, commands)
        box.ok("POST", "/process/pty", {"id": "t"}, 201)
        assert commands() == ["echo four > a", "sleep 0.2; echo three > a", "echo two > a", "bash -c echo one > a"]
        box.ok("DELETE", "/process/pty/t")
        for text in ("three", "two", "one"):
            wait_until(lambda: rest.post(f"{path}/undo", {}).status == 200, 30, commands)
            assert rest.get(f"{path}/files", path="/home/user/a").body == f"{text}\n".encode()
    finally:
        rest.delete(path)
