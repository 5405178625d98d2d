"""Every route of the REST API against a real daemon, with good input and with bad."""

import base64
import gzip
import io
import json
import os
import signal
import socket
import subprocess
import tarfile
import threading
import time
from pathlib import Path

import pytest
from daemons import SLACK, is_sanitized, open_directory, refusal, wait_for_room, wait_until
from rest import Rest


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture
def box(rest):
    made = rest.post("/api/sandboxes", {}).json["id"]
    yield f"/api/sandboxes/{made}"
    rest.delete(f"/api/sandboxes/{made}")


def run(rest, box, *cmd, **fields):
    answer = rest.post(f"{box}/execs", {"cmd": cmd, **fields}, wait="true")
    assert answer.status == 200, answer.body
    return answer.json


def boxes(rest):
    return {found["id"] for found in rest.get("/api/sandboxes").json["sandboxes"]}


def eventually(condition, seconds=30):
    deadline = time.monotonic() + seconds * SLACK
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


# --- the service itself


def test_health_and_host(rest):
    health = rest.get("/healthz")
    assert health.status == 200
    assert health.json["status"] == "ok" and health.json["version"]
    host = rest.get("/api/host").json
    assert host["mode"] in ("root", "rootless")
    assert {check["state"] for check in host["checks"]} <= {"ok", "missing", "warn", "info"}


def test_request_ids(rest):
    given = rest.call("GET", "/healthz", None, {"X-Request-Id": "mine-7"})
    assert given.headers["X-Request-Id"] == "mine-7"
    made = [rest.get("/healthz").headers["X-Request-Id"] for _ in range(2)]
    assert made[0] and made[0] != made[1]
    missing = rest.get("/api/sandboxes/nosuchbox")
    assert missing.error["request_id"] == missing.headers["X-Request-Id"]


@pytest.mark.parametrize("method, path, status, code", [
    ("GET", "/", 404, "not_found"),
    ("GET", "/api/nothing", 404, "not_found"),
    ("GET", "/api/sandboxes/", 404, "not_found"),
    ("PUT", "/api/sandboxes", 405, "unimplemented"),
    ("DELETE", "/healthz", 405, "unimplemented"),
    ("GET", "/api/sandboxes/-NOT-AN-ID", 400, "invalid_argument"),
    ("GET", "/api/sandboxes/nosuchbox", 404, "not_found"),
    ("DELETE", "/api/sandboxes/nosuchbox", 404, "not_found"),
    ("GET", "/api/sandboxes/nosuchbox/stats", 404, "not_found"),
    ("GET", "/api/sandboxes/nosuchbox/execs", 404, "not_found"),
    ("GET", "/api/sandboxes/nosuchbox/execs/0011", 404, "not_found"),
    ("GET", "/api/sandboxes/nosuchbox/execs/0011/output", 404, "not_found"),
    ("POST", "/api/sandboxes/nosuchbox/execs/0011/stdin", 404, "not_found"),
    ("GET", "/api/sandboxes/nosuchbox/files?path=x", 404, "not_found"),
    ("PUT", "/api/sandboxes/nosuchbox/files?path=x", 404, "not_found"),
    ("GET", "/api/sandboxes/nosuchbox/files/list?path=x", 404, "not_found"),
    ("GET", "/api/run", 400, "invalid_argument"),
    ("DELETE", "/api/templates/nosuch", 404, "not_found"),
    ("DELETE", "/api/templates/-x", 400, "invalid_argument"),
])
def test_what_is_not_there(rest, method, path, status, code):
    answer = rest.call(method, path)
    assert answer.status == status
    assert answer.error["code"] == code
    assert answer.error["message"]
    if status == 405:
        assert answer.headers["Allow"]


@pytest.mark.parametrize("body, said", [
    (b"{", "not valid JSON"),
    (b"[]", "must be a JSON object"),
    (b'{"limits":{"pids":8,"pids":9}}', "not valid JSON"),
    (b'{"metadata":' + b'{"a":' * 70 + b'1' + b'}' * 70 + b'}', "64 levels"),
    ({"limit": {}}, 'no field "limit"'),
    ({"limits": {"memoryMb": 64}}, 'no field "limits.memoryMb"'),
    ({"limits": {"memoryMB": "x"}},
     'limits.memoryMB must be a number between 8 and 1048576 (got "x")'),
    ({"limits": {"memoryMB": 1}}, "limits.memoryMB must be a number between"),
    ({"limits": {"pids": 1.5}}, "limits.pids must be a whole number"),
    ({"limits": 7}, "limits must be an object"),
    ({"template": "no such"}, "template"),
    ({"env": {"A": 1}}, "env.A must be a string"),
    ({"env": {"A=B": "x"}}, "hold no"),
    ({"metadata": {"a": []}}, "metadata.a must be a string"),
    ({"networkMode": "lan"}, "networkMode"),
    ({"waive": ["gpu"]}, "waive"),
])
def test_bad_sandboxes_are_refused(rest, body, said):
    before = boxes(rest)
    answer = rest.post("/api/sandboxes", body)
    assert answer.status == 400
    assert said in answer.error["message"]
    assert boxes(rest) == before


def test_a_template_that_does_not_exist(rest):
    assert rest.post("/api/sandboxes", {"template": "nosuch"}).status == 404


def test_a_body_that_is_too_large(rest):
    assert rest.post("/api/sandboxes", b" " * (1024 * 1024 + 1)).status == 413


# --- sandboxes


def test_life_of_a_sandbox(rest):
    made = rest.post("/api/sandboxes", {
        "limits": {"memoryMB": 128, "cpuCores": 0.5, "diskMB": 64, "pids": 50,
                   "timeoutSeconds": 600},
        "env": {"GREETING": "hello"},
        "metadata": {"purpose": "test"},
    })
    assert made.status == 201
    found = made.json
    assert found["state"] == "running" and found["template"] == "host"
    assert found["limits"]["memoryMB"] == 128 and found["limits"]["cpuCores"] == 0.5
    assert found["metadata"] == {"purpose": "test"}
    assert found["networkMode"] == "none" and found["waived"] == []
    assert found["created_at"] < found["expires_at"]
    assert found["boot_ms"] > 0 and found["pooled"] is False
    box = f"/api/sandboxes/{found['id']}"
    assert found["id"] in boxes(rest)
    assert rest.get(box).json["id"] == found["id"]
    assert run(rest, box, "sh", "-c", "echo $GREETING")["stdout"] == "hello\n"
    assert rest.delete(box).status == 204
    assert rest.get(box).json["state"] == "ended"
    assert rest.delete(box).status == 404


def test_a_sandbox_without_deadline_never_expires(rest, box):
    assert rest.get(box).json["expires_at"] is None


def test_stats(rest, box):
    run(rest, box, "true")
    stats = rest.get(f"{box}/stats").json
    assert stats["memory"]["limit_bytes"] == 512 * 1024 * 1024
    assert 0 < stats["memory"]["used_bytes"] <= stats["memory"]["peak_bytes"]
    assert stats["disk"]["limit_bytes"] > 0 and stats["inodes"]["limit"] > 0
    assert stats["processes"]["count"] >= 1 and stats["processes"]["limit"] == 256
    assert stats["uptime_seconds"] >= 0 and stats["network"] == {"rx_bytes": 0, "tx_bytes": 0}
    every = {one["id"]: one for one in rest.get("/api/stats").json["sandboxes"]}
    assert set(every) == boxes(rest)
    assert "cpu" in every[box.rpartition("/")[2]]


def test_a_client_that_leaves_during_create_leaves_nothing(daemon, rest):
    before = boxes(rest)
    body = b'{"limits":{"diskMB":4096}}'
    sockets = [rest.socket() for _ in range(5)]
    os.kill(daemon.pid, signal.SIGSTOP)  # or it could be faster than the client leaves
    for sock in sockets:
        sock.sendall(b"POST /api/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
                     % (len(body), body))
        sock.close()
    os.kill(daemon.pid, signal.SIGCONT)
    eventually(lambda: boxes(rest) == before)


# --- commands


def test_waiting_for_a_command(rest, box):
    done = run(rest, box, "sh", "-c", "echo out; echo err >&2; exit 3")
    assert done["stdout"] == "out\n" and done["stderr"] == "err\n"
    assert "stdout_truncated" not in done
    result = done["result"]
    assert result["kind"] == "exited" and result["exit_code"] == 3
    assert result["stdout_bytes"] == 4 and result["stderr_bytes"] == 4
    assert result["duration_ms"] >= 0 and set(result["usage"]) == {
        "user_seconds", "system_seconds", "max_rss_bytes"}


def test_what_a_command_gets(rest, box):
    assert run(rest, box, "cat", stdin="héllo\n")["stdout"] == "héllo\n"
    assert run(rest, box, "cat")["stdout"] == ""
    assert run(rest, box, "pwd", cwd="/tmp")["stdout"] == "/tmp\n"
    assert run(rest, box, "id", "-un")["stdout"] == "user\n"
    assert run(rest, box, "id", "-un", user="root")["stdout"] == "root\n"
    assert run(rest, box, "sh", "-c", "echo $X", env={"X": "y z"})["stdout"] == "y z\n"
    assert run(rest, box, "tty", pty={"cols": 80, "rows": 24})["stdout"].startswith("/dev/pts/")


def test_output_that_is_no_text_is_not_lost(rest, box):
    done = run(rest, box, "printf", r"\377\000x")
    assert base64.b64decode(done["stdout_base64"]) == b"\xff\x00x"


def test_a_lot_of_output_is_cut_in_the_reply_only(rest, box):
    done = run(rest, box, "seq", "300000")
    assert done["stdout_truncated"] is True
    assert len(done["stdout"]) == 1024 * 1024
    assert done["result"]["stdout_bytes"] == len("".join(f"{i}\n" for i in range(1, 300001)))


def test_signals_and_timeouts_are_told_apart(rest, box):
    killed = run(rest, box, "sh", "-c", "kill -SEGV $$")["result"]
    assert killed["kind"] == "signaled" and killed["signal"] == "SIGSEGV"
    assert "exit_code" not in killed
    late = run(rest, box, "sleep", "60", timeoutSeconds=0.2)["result"]
    assert late["kind"] == "timed_out" and late["duration_ms"] >= 200


@pytest.mark.parametrize("body, status, said", [
    ({}, 400, "cmd is missing"),
    ({"cmd": []}, 400, "cmd must be an array"),
    ({"cmd": "ls"}, 400, "cmd must be an array"),
    ({"cmd": [""]}, 400, "cmd[0]"),
    ({"cmd": ["true"], "timeout": 1}, 400, 'no field "timeout"'),
    ({"cmd": ["true"], "stdin": 1}, 400, "stdin must be"),
    ({"cmd": ["true"], "stdin": True}, 400, "exclude each other"),
    ({"cmd": ["true"], "pty": {"cols": 0}}, 400, "pty.cols"),
    ({"cmd": ["true"], "timeoutSeconds": -1}, 400, "timeoutSeconds"),
    ({"cmd": ["no-such-program"]}, 404, "no-such-program"),
    ({"cmd": ["true"], "cwd": "/no/such/dir"}, 400, "/no/such/dir"),
    ({"cmd": ["true"], "user": "nobody-here"}, 400, "nobody-here"),
])
def test_commands_that_cannot_start(rest, box, body, status, said):
    answer = rest.post(f"{box}/execs", body, wait="true")
    assert answer.status == status
    assert said in answer.error["message"]
    assert rest.get(f"{box}/execs").json["execs"] == []


def test_a_command_in_the_background(rest, box):
    started = rest.post(f"{box}/execs", {"cmd": ["cat"], "stdin": True})
    assert started.status == 201
    one = f"{box}/execs/{started.json['exec_id']}"
    listed = rest.get(f"{box}/execs").json["execs"]
    assert [x["exec_id"] for x in listed] == [started.json["exec_id"]]
    assert listed[0]["state"] == "running" and listed[0]["cmd"] == ["cat"]
    assert rest.post(f"{one}/stdin", b"first ").status == 204
    eventually(lambda: rest.get(f"{one}/output").lines)
    assert rest.get(f"{one}/output").lines == [
        {"stream": "stdout", "offset": 0, "data": "first "}]
    assert rest.post(f"{one}/stdin", b"x" * 300000, close="true").status == 204
    lines = rest.get(f"{one}/output", follow="true", stdout=6).lines
    assert "".join(line["data"] for line in lines[:-1]) == "x" * 300000
    assert lines[0]["offset"] == 6
    assert lines[-1]["result"]["kind"] == "exited"
    assert rest.get(one).json["state"] == "ended"
    assert rest.get(one).json["result"] == lines[-1]["result"]
    # As often as wanted, after the end, too.
    assert rest.get(f"{one}/output", stdout=6).lines == lines
    assert rest.post(f"{one}/stdin", b"late").status == 409


def test_output_follows_and_keeps_characters_whole(rest, box):
    script = r"printf '\342\202'; sleep 0.2; printf '\254\n'; sleep 0.2; printf '\377' >&2"
    started = rest.post(f"{box}/execs", {"cmd": ["sh", "-c", script]}).json["exec_id"]
    lines = rest.get(f"{box}/execs/{started}/output", follow="true").lines
    text = "".join(line.get("data", "") for line in lines if line.get("stream") == "stdout")
    assert text == "€\n"
    assert {"stream": "stderr", "offset": 0, "data_base64": "/w=="} in lines
    assert "result" in lines[-1]


def test_bad_questions_about_output(rest, box):
    started = rest.post(f"{box}/execs", {"cmd": ["true"]}).json["exec_id"]
    assert rest.get(f"{box}/execs/{started}/output", stdout="-1").status == 400
    assert rest.get(f"{box}/execs/{started}/output", follow="perhaps").status == 400
    assert rest.get(f"{box}/execs/00112233/output").status == 404


def test_signals(rest, box):
    started = rest.post(f"{box}/execs", {"cmd": ["sleep", "60"]}).json["exec_id"]
    one = f"{box}/execs/{started}"
    for bad in ({}, {"signal": "SIGNOPE"}, {"signal": 99}, {"signal": "TERM", "all": True}):
        assert rest.post(f"{one}/signal", bad).status == 400
    assert rest.post(f"{one}/signal", {"signal": "SIGTERM", "tree": True}).status == 204
    result = rest.get(f"{one}/output", follow="true").lines[-1]["result"]
    assert result["signal"] == "SIGTERM" and result["kind"] in ("killed_by", "signaled")
    assert rest.post(f"{one}/signal", {"signal": 9}).status == 409


def test_terminals_are_resized(rest, box):
    started = rest.post(f"{box}/execs", {
        "cmd": ["sh", "-c", "stty size; read line; stty size"], "stdin": True,
        "pty": {"cols": 80, "rows": 24}}).json["exec_id"]
    one = f"{box}/execs/{started}"
    assert rest.post(f"{one}/resize", {"cols": 0, "rows": 1}).status == 400
    assert rest.post(f"{one}/resize", {"cols": 100}).status == 400
    eventually(lambda: rest.get(f"{one}/output").lines)
    assert rest.post(f"{one}/resize", {"cols": 100, "rows": 40}).status == 204
    assert rest.post(f"{one}/stdin", b"\n").status == 204
    lines = rest.get(f"{one}/output", follow="true").lines
    text = "".join(line.get("data", "") for line in lines)
    assert text.startswith("24 80") and "40 100" in text


def test_a_slow_reader_gets_everything(rest, box):
    started = rest.post(f"{box}/execs", {"cmd": ["seq", "400000"]}).json["exec_id"]
    sock = rest.socket()
    sock.sendall(f"GET {box}/execs/{started}/output?follow=true HTTP/1.0\r\n\r\n".encode())
    received = b""
    time.sleep(0.5)
    while piece := sock.recv(50000):
        received += piece
    lines = [json.loads(line) for line in received.partition(b"\r\n\r\n")[2].splitlines()]
    text = "".join(line.get("data", "") for line in lines)
    assert text == "".join(f"{i}\n" for i in range(1, 400001))
    assert "result" in lines[-1]


def test_destroy_tells_whoever_waits(rest):
    box = "/api/sandboxes/" + rest.post("/api/sandboxes", {}).json["id"]
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(run(rest, box, "sleep", "60")))
    waiter.start()
    eventually(lambda: rest.get(f"{box}/execs").json["execs"])
    assert rest.delete(box).status == 204
    waiter.join(30)
    assert answers[0]["result"]["kind"] == "killed_by" and answers[0]["result"]["who"]


def test_destroy_answers_whatever_is_under_way(rest):
    """Input that the command never reads, and a command that only starts, are given up."""
    box = "/api/sandboxes/" + rest.post("/api/sandboxes", {}).json["id"]
    started = rest.post(f"{box}/execs", {"cmd": ["sleep", "60"], "stdin": True}).json["exec_id"]
    answers = []
    writer = threading.Thread(target=lambda: answers.append(
        rest.post(f"{box}/execs/{started}/stdin", b"x" * 4000000)))
    writer.start()
    time.sleep(0.3)
    assert rest.delete(box).status == 204
    writer.join(30)
    assert answers and answers[0].status in (404, 409, 503)


# --- commands by WebSocket


def test_a_conversation_with_a_command(rest, box):
    with rest.websocket(f"{box}/execs/stream") as ws:
        assert ws.status == 101
        ws.send({"cmd": ["sh", "-c", "cat; echo done >&2; exit 5"], "stdin": True})
        exec_id = ws.text()["exec_id"]
        ws.send(b"\0one ")
        ws.send({})
        ws.send(b"\0two")
        ws.send(b"\0")
        out, err, texts, code = ws.finish()
    assert (out, err, code) == (b"one two", b"done\n", 1000)
    assert texts[-1]["result"]["exit_code"] == 5
    assert rest.get(f"{box}/execs/{exec_id}").json["result"] == texts[-1]["result"]


def test_attaching_to_a_running_command(rest, box):
    plain = rest.post(f"{box}/execs", {"cmd": ["sh", "-c", "sleep 1; echo alone"]}).json["exec_id"]
    with rest.websocket(f"{box}/execs/stream") as ws:
        ws.send({"cmd": ["sh", "-c", "echo before; cat"], "stdin": True})
        exec_id = ws.text()["exec_id"]
        assert ws.recv() == (ws.BINARY, b"\1before\n")
        with rest.websocket(f"{box}/execs/stream") as other:
            other.send({"exec_id": exec_id, "stdin": True})
            assert other.text()["exec_id"] == exec_id
            other.send(b"\0to both")
            other.send(b"\0")
            assert other.finish()[0] == b"to both"  # without what was there before
        assert ws.finish()[0] == b"to both"
    with rest.websocket(f"{box}/execs/stream") as ws:  # it has no input, and is not harmed by any
        ws.send({"exec_id": plain, "stdin": True})
        ws.send(b"\0unwanted")
        out, _, texts, _ = ws.finish()
    assert out == b"alone\n" and texts[-1]["result"]["exit_code"] == 0
    for message, code in (({"exec_id": "0123"}, "not_found"),
                          ({"exec_id": exec_id, "cmd": ["true"]}, "invalid_argument")):
        with rest.websocket(f"{box}/execs/stream") as ws:
            ws.send(message)
            assert ws.text()["error"]["code"] == code


def test_signals_and_sizes_by_websocket(rest, box):
    with rest.websocket(f"{box}/execs/stream") as ws:
        ws.send({"cmd": ["sh", "-c", "trap 'stty size; exit 9' INT; echo ready; "
                                     "while :; do sleep 0.05; done"],
                 "stdin": True, "pty": {"cols": 80, "rows": 24}})
        assert "exec_id" in ws.text()
        assert ws.recv() == (ws.BINARY, b"\1ready\r\n")
        ws.send({"resize": {"cols": 77, "rows": 11}})
        ws.send({"signal": "SIGINT"})
        out, _, texts, _ = ws.finish()
    assert b"11 77" in out
    assert texts[-1]["result"]["exit_code"] == 9


def test_megabytes_both_ways_by_websocket(rest, box):
    data = os.urandom(3_000_000)
    with rest.websocket(f"{box}/execs/stream") as ws:
        ws.send({"cmd": ["cat"], "stdin": True})
        assert "exec_id" in ws.text()

        def feed():
            for at in range(0, len(data), 60000):
                ws.send(b"\0" + data[at:at + 60000])
            ws.send(b"\0")

        feeder = threading.Thread(target=feed)
        feeder.start()
        out, _, texts, _ = ws.finish()
        feeder.join()
    assert out == data
    assert texts[-1]["result"]["stdout_bytes"] == len(data)


@pytest.mark.parametrize("message, code", [
    ({"cmd": []}, "invalid_argument"),
    ({"cmd": ["no-such-program"]}, "not_found"),
    ("not json", "invalid_argument"),
    (b"\0binary", "invalid_argument"),
])
def test_conversations_that_cannot_start(rest, box, message, code):
    with rest.websocket(f"{box}/execs/stream") as ws:
        ws.send(message)
        _, _, texts, closed = ws.finish()
    assert texts[0]["error"]["code"] == code and closed == 1008


def test_a_command_outlives_its_websocket(rest, box):
    with rest.websocket(f"{box}/execs/stream") as ws:
        ws.send({"cmd": ["sh", "-c", "sleep 0.3; echo still here"]})
        exec_id = ws.text()["exec_id"]
    lines = rest.get(f"{box}/execs/{exec_id}/output", follow="true").lines
    assert lines[0]["data"] == "still here\n"
    assert lines[-1]["result"]["exit_code"] == 0


# --- run


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def test_run_in_one_request(rest):
    before = boxes(rest)
    answer = rest.post("/api/run", {
        "cmd": ["sh", "-c", "./script; cat sub/data; echo $A"],
        "env": {"A": "variable"},
        "limits": {"memoryMB": 128},
        "files": [{"path": "script", "mode": "0755", "data_base64": encoded("#!/bin/sh\nid -un\n")},
                  {"path": "sub/data", "data_base64": encoded("data\n")}],
    })
    assert answer.status == 200
    assert answer.json["stdout"] == "user\ndata\nvariable\n"
    assert answer.json["result"]["exit_code"] == 0
    assert rest.get(f"/api/sandboxes/{answer.json['sandbox_id']}").json["state"] == "ended"
    assert boxes(rest) == before


def test_run_can_keep_its_sandbox(rest):
    kept = rest.post("/api/run", {"cmd": ["touch", "kept"], "keep": True}).json
    box = f"/api/sandboxes/{kept['sandbox_id']}"
    assert rest.get(f"{box}/files/stat", path="kept").status == 200
    assert rest.get(f"{box}/execs/{kept['exec_id']}").json["state"] == "ended"
    assert rest.delete(box).status == 204


@pytest.mark.parametrize("body, status, said", [
    ({"cmd": ["no-such-program"], "keep": True}, 404, "no-such-program"),
    ({"cmd": ["true"], "stdin": True}, 400, "WebSocket"),
    ({"cmd": ["true"], "file": []}, 400, 'no field "file"'),
    ({"cmd": ["true"], "files": {}}, 400, "files must be an array"),
    ({"cmd": ["true"], "files": [{"path": "x"}]}, 400, "files[0] needs"),
    ({"cmd": ["true"], "files": [{"path": "x", "data_base64": "?"}]}, 400, "not valid base64"),
    ({"cmd": ["true"], "files": [{"path": "x", "mode": "rw", "data_base64": ""}]}, 400, "files[0].mode"),
    ({"cmd": ["true"], "files": [{"path": "/proc/x", "data_base64": ""}]}, None, ""),
])
def test_runs_that_cannot_start_leave_nothing(rest, body, status, said):
    before = boxes(rest)
    answer = rest.post("/api/run", body)
    assert answer.status == status or (status is None and 400 <= answer.status < 500)
    assert said in answer.error["message"]
    assert boxes(rest) == before


def test_run_ends_with_its_client(rest):
    before = boxes(rest)
    sock = rest.socket()
    body = json.dumps({"cmd": ["sleep", "60"]})
    sock.sendall(f"POST /api/run HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
                 f"{body}".encode())
    eventually(lambda: boxes(rest) != before)
    sock.close()
    eventually(lambda: boxes(rest) == before)


def test_run_by_websocket(rest):
    before = boxes(rest)
    with rest.websocket("/api/run") as ws:
        ws.send({"cmd": ["cat"], "stdin": True, "limits": {"memoryMB": 64}})
        told = ws.text()
        assert set(told) == {"sandbox_id", "exec_id"}
        assert told["sandbox_id"] in boxes(rest)
        ws.send(b"\0ping")
        assert ws.recv() == (ws.BINARY, b"\1ping")
        ws.send(b"\0")
        _, _, texts, code = ws.finish()
        assert texts[-1]["result"]["exit_code"] == 0 and code == 1000
        # The result comes last of all.
        assert boxes(rest) == before


def test_run_by_websocket_ends_with_its_client(rest):
    before = boxes(rest)
    with rest.websocket("/api/run") as ws:
        ws.send({"cmd": ["sleep", "60"]})
        assert "sandbox_id" in ws.text()
    eventually(lambda: boxes(rest) == before)
    with rest.websocket("/api/run") as ws:
        ws.send({"cmd": ["sleep", "60"], "stdin": True})
        ws.text()
        ws.send(b"\0" + b"x" * 900000)  # never read: the way in is full
    eventually(lambda: boxes(rest) == before)


def test_run_by_websocket_with_keep_stays(rest):
    with rest.websocket("/api/run") as ws:
        ws.send({"cmd": ["sleep", "60"], "keep": True})
        told = ws.text()
    time.sleep(0.2)
    box = f"/api/sandboxes/{told['sandbox_id']}"
    assert rest.get(f"{box}/execs/{told['exec_id']}").json["state"] == "running"
    assert rest.delete(box).status == 204


# --- files


def test_files_in_and_out(rest, box):
    data = os.urandom(2_500_000)
    put = rest.put(f"{box}/files", data, path="a/b/c.bin", mode="0600")
    assert put.status == 200
    entry = put.json
    assert entry["path"] == "/home/user/a/b/c.bin" and entry["name"] == "c.bin"
    assert entry["type"] == "file" and entry["mode"] == "0600" and entry["size"] == len(data)
    assert entry["owner"] == "user" and entry["mtime"].endswith("Z")
    got = rest.get(f"{box}/files", path="/home/user/a/b/c.bin")
    assert got.body == data
    assert got.headers["Content-Type"] == "application/octet-stream"
    assert got.headers["Content-Length"] == str(len(data))
    assert got.headers["X-Content-Type-Options"] == "nosniff"
    assert got.headers["Content-Disposition"] == "attachment; filename*=UTF-8''c.bin"
    assert rest.get(f"{box}/files/stat", path="a/b/c.bin").json == entry
    head = rest.call("HEAD", f"{box}/files", path="a/b/c.bin")
    assert head.headers["Content-Length"] == str(len(data)) and head.body == b""


def test_an_empty_file_and_odd_names(rest, box):
    name = 'odd "name"\r\n ü%&?.txt'
    assert rest.put(f"{box}/files", b"", path=name).json["size"] == 0
    got = rest.get(f"{box}/files", path=name)
    assert got.status == 200 and got.body == b""
    assert "%22name%22%0D%0A" in got.headers["Content-Disposition"]


def test_chunked_upload(rest, box):
    connection = rest.connection()
    pieces = [b"x" * 70000, b"y" * 10]
    connection.request("PUT", f"{box}/files?path=c", body=iter(pieces), encode_chunked=True,
                       headers={"Transfer-Encoding": "chunked"})
    assert connection.getresponse().status == 200
    assert rest.get(f"{box}/files", path="c").body == b"".join(pieces)


def test_uploads_are_whole_or_nothing(rest, box):
    rest.put(f"{box}/files", b"old", path="f")
    sock = rest.socket()
    sock.sendall(f"PUT {box}/files?path=f HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nnew"
                 .encode())
    time.sleep(0.1)
    sock.close()
    time.sleep(0.1)
    assert rest.get(f"{box}/files", path="f").body == b"old"
    eventually(lambda: ".atoll" not in run(rest, box, "ls", "-A")["stdout"])
    assert rest.get(f"{box}/files", path="f").body == b"old"


def test_directories(rest, box):
    assert rest.post(f"{box}/files/mkdir", path="d/e").json["type"] == "directory"
    rest.put(f"{box}/files", b"1", path="d/e/one")
    run(rest, box, "ln", "-s", "/etc/passwd", "d/link")
    entries = rest.get(f"{box}/files/list", path="d").json["entries"]
    assert {(e["name"], e["type"]) for e in entries} == {("e", "directory"), ("link", "symlink")}
    assert [e["target"] for e in entries if e["type"] == "symlink"] == ["/etc/passwd"]
    deep = rest.get(f"{box}/files/list", path="d", depth=2).json["entries"]
    assert "/home/user/d/e/one" in [e["path"] for e in deep]
    moved = rest.post(f"{box}/files/move", path="d/e/one", to="d/two")
    assert moved.json["path"] == "/home/user/d/two"
    assert rest.post(f"{box}/files/chmod", path="d/two", mode="0711").status == 204
    assert rest.get(f"{box}/files/stat", path="d/two").json["mode"] == "0711"
    assert rest.delete(f"{box}/files", path="d").status == 409
    assert rest.delete(f"{box}/files", path="d", recursive="true").status == 204
    assert rest.get(f"{box}/files/stat", path="d").status == 404


def test_names_that_are_no_text(rest, box):
    run(rest, box, "python3", "-c", "open(b'\\xff', 'w').write('odd')")
    entry = rest.get(f"{box}/files/list", path=".").json["entries"]
    odd = [e for e in entry if "name_base64" in e][0]
    assert base64.b64decode(odd["name_base64"]) == b"\xff"
    assert rest.get(f"{box}/files?path=%FF").body == b"odd"


@pytest.mark.parametrize("method, path, query, status", [
    ("GET", "/files", {}, 400),
    ("GET", "/files", {"path": ""}, 400),
    ("GET", "/files", {"path": "x" * 5000}, 400),
    ("GET", "/files", {"path": "nope"}, 404),
    ("GET", "/files", {"path": "/home/user"}, 400),
    ("GET", "/files", {"path": "/etc/shadow"}, (403, 404)),
    ("GET", "/files", {"path": "x", "user": "nobody-here"}, (400, 404)),
    ("PUT", "/files", {"path": "x", "mode": "999"}, 400),
    ("PUT", "/files", {"path": "/usr/x"}, 403),
    ("PUT", "/files", {"path": "/home/user"}, (400, 409)),
    ("DELETE", "/files", {"path": "nope"}, 404),
    ("DELETE", "/files", {"path": "x", "recursive": "da"}, 400),
    ("GET", "/files/stat", {"path": "nope"}, 404),
    ("GET", "/files/list", {"path": "nope"}, 404),
    ("GET", "/files/list", {"path": ".", "depth": 0}, 400),
    ("POST", "/files/mkdir", {}, 400),
    ("POST", "/files/move", {"path": "nope"}, 400),
    ("POST", "/files/move", {"path": "nope", "to": "x"}, 404),
    ("POST", "/files/chmod", {"path": "."}, 400),
    ("POST", "/files/chmod", {"path": "nope", "mode": "0644"}, 404),
])
def test_bad_file_requests(rest, box, method, path, query, status):
    answer = rest.call(method, box + path, **query)
    assert answer.status in (status if isinstance(status, tuple) else (status,)), answer.body
    assert answer.error["message"]


def test_a_full_disk_is_507(rest):
    made = rest.post("/api/sandboxes", {"limits": {"diskMB": 16}}).json["id"]
    box = f"/api/sandboxes/{made}"
    answer = rest.put(f"{box}/files", b"x" * 40_000_000, path="big")
    assert answer.status == 507
    assert answer.error["code"] == "resource_exhausted" and "diskMB" in answer.error["hint"]
    assert rest.get(f"{box}/files/stat", path="big").status == 404
    assert rest.put(f"{box}/files", b"small", path="ok").status == 200
    rest.delete(box)


def test_a_file_that_shrinks_is_never_taken_for_whole(rest, box):
    rest.put(f"{box}/files", b"x" * 8_000_000, path="f")
    sock = rest.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.sendall(f"GET {box}/files?path=f HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    received = sock.recv(1000)
    assert b"Content-Length: 8000000" in received
    run(rest, box, "truncate", "-s", "10", "f")
    total = len(received)
    try:
        while piece := sock.recv(1 << 20):
            total += len(piece)
    except ConnectionResetError:
        pass
    assert total < 8_000_000


# --- templates


def archive(compress=lambda data: data):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("etc", "tmp", "home", "usr"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        entry = tarfile.TarInfo("etc/marker")
        entry.size = 7
        tar.addfile(entry, io.BytesIO(b"marker\n"))
    return compress(out.getvalue())


@pytest.mark.parametrize("compress", [lambda data: data, gzip.compress], ids=["plain", "gzip"])
def test_templates(rest, compress):
    answer = rest.put("/api/templates/from-tar", archive(compress))
    assert answer.status == 201, answer.body
    assert answer.json["name"] == "from-tar" and answer.json["kind"] == "rootfs"
    assert answer.json["digest"] and answer.json["size_bytes"] > 0
    listed = {t["name"]: t for t in rest.get("/api/templates").json["templates"]}
    assert listed["from-tar"]["digest"] == answer.json["digest"]
    assert listed["host"]["kind"] == "host"
    made = rest.post("/api/sandboxes", {"template": "from-tar"})
    assert made.status == 201, made.body
    box = f"/api/sandboxes/{made.json['id']}"
    assert rest.get(f"{box}/files", path="/etc/marker").body == b"marker\n"
    assert rest.delete("/api/templates/from-tar").status == 409
    assert rest.delete(box).status == 204
    assert rest.delete("/api/templates/from-tar").status == 204
    assert rest.delete("/api/templates/from-tar").status == 404


def test_an_archive_whose_end_comes_late(rest):
    """tar is done with it before whoever sends it is."""
    connection = rest.connection()

    def pieces():
        yield archive()
        time.sleep(0.7)
        yield bytes(10240)
    connection.request("PUT", "/api/templates/late", pieces(), encode_chunked=True,
                       headers={"Transfer-Encoding": "chunked"})
    answer = connection.getresponse()
    assert answer.status == 201, answer.read()
    connection.close()
    assert rest.delete("/api/templates/late").status == 204


def test_an_archive_in_place_of_another(rest, daemon):
    """The layer of the one before is gone, unless a sandbox is on it."""
    def layers():
        return {path.name for path in (daemon.state / "layers").iterdir()}

    before = layers()
    first = rest.put("/api/templates/twice", archive()).json["digest"]
    assert layers() == before | {first}
    second = rest.put("/api/templates/twice", archive(gzip.compress)).json["digest"]
    assert second != first
    wait_until(lambda: layers() == before | {second}, 30, lambda: f"left behind: {layers()}")
    assert rest.delete("/api/templates/twice").status == 204
    assert layers() == before


def test_an_archive_for_a_template_that_is_used_meanwhile(rest, daemon):
    """The sandbox keeps the version that it was made from; the name means the new one."""
    layers = set((daemon.state / "layers").iterdir())
    first = rest.put("/api/templates/used", archive()).json["digest"]
    connection, made = rest.connection(), []

    def pieces():
        yield archive(gzip.compress)
        made.append(rest.post("/api/sandboxes", {"template": "used"}).json["id"])
    connection.request("PUT", "/api/templates/used", pieces(), encode_chunked=True,
                       headers={"Transfer-Encoding": "chunked"})
    answer = connection.getresponse()
    second = json.loads(answer.read())["digest"]
    assert answer.status == 201 and second != first
    connection.close()
    box = f"/api/sandboxes/{made[0]}"
    assert rest.get(f"{box}/files", path="/etc/marker").body == b"marker\n"
    refused = rest.delete("/api/templates/used")
    assert refused.status == 409 and "in use" in refused.error["message"]
    assert (daemon.state / "layers" / first).exists()
    assert rest.delete(box).status == 204
    wait_until(lambda: not (daemon.state / "layers" / first).exists(), 30, lambda: "the old layer stays")
    assert rest.delete("/api/templates/used").status == 204
    assert set((daemon.state / "layers").iterdir()) == layers


def test_bad_archives(rest):
    before = boxes(rest)
    assert rest.put("/api/templates/broken", b"this is no archive" * 100).status == 400
    assert rest.put("/api/templates/empty", b"").status == 400
    assert rest.put("/api/templates/host", archive()).status in (400, 409)
    sock = rest.socket()
    sock.sendall(b"PUT /api/templates/half HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n"
                 + archive()[:2000])
    time.sleep(0.2)
    sock.close()
    names = {t["name"] for t in rest.get("/api/templates").json["templates"]}
    assert not names & {"broken", "empty", "half"}
    assert boxes(rest) == before
    assert rest.delete("/api/templates/host").status == 409


# --- the daemon as a process


class Atolld:
    """A daemon of this test's own."""

    def __init__(self, daemon, directory, *args):
        self.socket = directory / "own.sock"
        self.state = directory / "own"
        self.log = directory / "own.log"
        self.command = [*daemon.prefix, str(daemon.build / "atolld"), "--state", str(self.state),
                        "--socket", str(self.socket), *args]
        self.env = {"PATH": daemon.env["PATH"], "HOME": daemon.home}
        self.rest = Rest(self.socket)
        self.process = None

    def __enter__(self):
        wait_for_room()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(self.command, env=self.env, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True)
        eventually(lambda: self.event("ready") or self.process.poll() is not None)
        assert self.event("ready"), self.log.read_text()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        assert self.process.wait(30) == 0, self.log.read_text()

    def event(self, name):
        for line in self.log.read_text().splitlines():
            if line.startswith("{") and json.loads(line).get("event") == name:
                return json.loads(line)
        return None


def test_tcp_needs_the_key(daemon, tmp_path):
    with Atolld(daemon, tmp_path, "--listen", "127.0.0.1:0") as own:
        host, _, port = own.event("ready")["listen"].rpartition(":")
        address = (host, int(port))
        key_file = own.state / "api-key"
        assert key_file.stat().st_mode & 0o7777 == 0o600
        assert own.state.stat().st_mode & 0o7777 == 0o700
        key = key_file.read_text().strip()
        assert key.startswith("atl_") and len(key) == 44

        nobody = Rest(address)
        assert nobody.get("/healthz").status == 200
        refused = nobody.get("/api/sandboxes")
        assert refused.status == 401 and refused.error["code"] == "unauthenticated"
        assert refused.headers["WWW-Authenticate"] == "Bearer"
        assert "api-key" in refused.error["hint"]
        # Which routes there are is nobody's business either.
        assert nobody.get("/api/nothing").status == 401
        assert nobody.put("/api/sandboxes", b"").status == 401
        assert nobody.websocket("/api/run").status == 401
        for headers in ({"Authorization": "Bearer " + key[:-1]}, {"Authorization": key},
                        {"X-API-Key": key + "x"}, {"X-API-Key": ""}):
            assert Rest(address, headers).get("/api/sandboxes").status == 401
        for headers in ({"Authorization": "Bearer " + key}, {"Authorization": "bearer " + key},
                        {"X-API-Key": key}):
            assert Rest(address, headers).get("/api/sandboxes").status == 200
        with Rest(address, {"X-API-Key": key}).websocket("/api/run") as ws:
            ws.send({"cmd": ["echo", "hi"]})
            assert ws.finish()[0] == b"hi\n"
        assert own.rest.get("/api/sandboxes").status == 200
        assert key not in own.log.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_the_socket_is_for_its_owner_and_root(daemon):
    def status_as(uid, path):
        code = ("import os,socket,sys;os.setgid(%d);os.setuid(%d);s=socket.socket(socket.AF_UNIX);"
                "s.connect(%r);s.sendall(b'GET /api/sandboxes HTTP/1.0\\r\\n\\r\\n');"
                "print(s.recv(4000).split()[1].decode())" % (uid, uid, str(path)))
        done = subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True, text=True)
        return done.stdout.strip() or done.stderr.strip().rpartition("\n")[2]

    with open_directory() as directory, Atolld(daemon, directory) as own:
        assert "Permission denied" in status_as(65534, own.socket)
        own.socket.chmod(0o666)
        assert status_as(65534, own.socket) == "403"
        assert status_as(0, own.socket) == "200"


def test_one_daemon_per_state_directory(daemon, tmp_path):
    with Atolld(daemon, tmp_path) as own:
        second = subprocess.run([*own.command[:-1], str(tmp_path / "second.sock")], env=own.env,
                                capture_output=True, text=True, timeout=20)
        assert second.returncode == 1
        assert f"pid {own.process.pid}" in second.stderr and "--state" in second.stderr
        assert own.rest.get("/healthz").status == 200
    with Atolld(daemon, tmp_path) as again:
        assert again.rest.get("/healthz").status == 200


@pytest.mark.parametrize("args, said", [
    (["--nonsense"], "no option"),
    (["--pool", "many"], "--pool must be a whole number"),
    (["--config", "/nowhere"], "/nowhere"),
    (["--listen", "nonsense"], ""),
])
def test_bad_options(daemon, tmp_path, args, said):
    status, words = refusal([str(daemon.build / "atolld"), "--state", str(tmp_path / "s"),
                             "--socket", str(tmp_path / "k"), *args], tmp_path / "said")
    assert status == 2 and said in words
    # atoll-spawn may have logged a line before.
    assert any(line.startswith("atolld: ") for line in words.splitlines()), words


def test_help_and_version(daemon):
    helped = subprocess.run([daemon.build / "atolld", "--help"], capture_output=True, text=True)
    assert helped.returncode == 0
    for option in ("--state", "--socket", "--listen", "--pool", "--waive", "--log-level"):
        assert option in helped.stdout
    version = subprocess.run([daemon.build / "atolld", "--version"], capture_output=True, text=True)
    assert version.returncode == 0 and version.stdout.startswith("atolld ")


def test_the_daemon_holds_no_privilege(daemon):
    threads = list(Path(f"/proc/{daemon.pid}/task").iterdir())
    assert len(threads) > 1
    weakened = daemon.env.get("ATOLL_WEAKEN", "")
    for thread in threads:
        status = dict(line.split(":", 1) for line in open(thread / "status"))
        for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
            assert int(status[name], 16) == 0, name
        if os.geteuid() == 0:
            assert int(status["CapBnd"], 16) == 0
        assert status["NoNewPrivs"].strip() == "1"
        if not is_sanitized(daemon.build) and "own_filter" not in weakened:
            assert status["Seccomp"].strip() == "2"


def test_the_daemon_changes_files_in_its_state_directory_alone(daemon, tmp_path):
    """Not even by a way that somebody laid from there to elsewhere."""
    with Atolld(daemon, tmp_path, "--disks", "plain") as own:
        want = {"cmd": ["true"], "limits": {"memoryMB": 64, "diskMB": 300}}
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (own.state / "images").symlink_to(elsewhere)
        refused = own.rest.post("/api/run", want)
        assert refused.status == 500 and "Permission denied" in own.log.read_text()
        assert not any(elsewhere.iterdir())
        (own.state / "images").unlink()
        assert own.rest.post("/api/run", want).json["result"]["kind"] == "exited"


def test_an_ordinary_users_daemon(rootless_daemon):
    rest = Rest(rootless_daemon.socket)
    assert rest.get("/api/host").json["mode"] == "rootless"
    answer = rest.post("/api/run", {"cmd": ["id", "-un"], "waive": ["all"]})
    assert answer.status == 200, answer.body
    assert answer.json["stdout"] == "user\n"


def test_a_stopped_daemon_tells_its_clients(daemon, tmp_path):
    with Atolld(daemon, tmp_path) as own:
        with own.rest.websocket("/api/run") as ws:
            ws.send({"cmd": ["sleep", "60"]})
            ws.text()
            own.process.send_signal(signal.SIGTERM)
            _, _, texts, _ = ws.finish()
        assert texts[-1]["result"]["kind"] == "killed_by"
        assert own.process.wait(30) == 0


def test_destroying_all(daemon, tmp_path):
    """Last, and on a daemon of its own: others have sandboxes on the shared one."""
    with Atolld(daemon, tmp_path) as own:
        for _ in range(3):
            assert own.rest.post("/api/sandboxes", {}).status == 201
        assert own.rest.delete("/api/sandboxes").json == {"destroyed": 3}
        assert boxes(own.rest) == set()
        assert own.rest.delete("/api/sandboxes").json == {"destroyed": 0}
