"""The E2B sandbox plane with plain HTTP: addressing, access, processes, files, watching."""

import base64
import gzip
import http.client
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from envd import Result, create, envelope
from listening import listening_daemon
from rest import Rest


@pytest.fixture(scope="module")
def box(daemon):
    envd = create(daemon, envVars={"GLOBAL": "yes"})
    yield envd
    envd.kill()


@pytest.fixture
def own(daemon):
    envd = create(daemon)
    yield envd
    envd.kill()


def until(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


class TestAddressing:
    def test_both_headers_are_needed(self, box):
        for name in box.headers:
            if name == "X-Access-Token":
                continue
            headers = {k: v for k, v in box.headers.items() if k != name}
            answer = box.rest.call("GET", "/health", None, headers)
            assert answer.status == 400 and b"missing header" in answer.body

    @pytest.mark.parametrize("headers", [
        {"E2b-Sandbox-Id": "UPPER", "E2b-Sandbox-Port": "49983"},
        {"E2b-Sandbox-Id": "../../x", "E2b-Sandbox-Port": "49983"},
        {"E2b-Sandbox-Id": "abc", "E2b-Sandbox-Port": "0"},
        {"E2b-Sandbox-Id": "abc", "E2b-Sandbox-Port": "65536"},
        {"E2b-Sandbox-Id": "abc", "E2b-Sandbox-Port": "x"},
    ])
    def test_malformed_headers(self, box, headers):
        assert box.rest.call("GET", "/health", None, headers).status == 400

    def test_an_old_id_with_a_suffix_is_the_same(self, box):
        headers = {**box.headers, "E2b-Sandbox-Id": box.id + "-6532622b"}
        assert box.rest.call("GET", "/health", None, headers).status == 204

    def test_unknown_sandboxes_are_502(self, box):
        headers = {"E2b-Sandbox-Id": "nosuchsandbox", "E2b-Sandbox-Port": "49983"}
        answer = box.rest.call("GET", "/health", None, headers)
        assert answer.status == 502
        assert answer.json == {"sandboxId": "nosuchsandbox", "code": 502,
                               "message": "The sandbox was not found"}

    def test_a_killed_sandbox_is_502(self, daemon):
        envd = create(daemon)
        assert envd.http("GET", "/health").status == 204
        assert envd.kill().status == 204
        assert envd.http("GET", "/health").status == 502

    def test_browsers_get_a_page(self, box):
        headers = {"E2b-Sandbox-Id": "gone", "E2b-Sandbox-Port": "80", "Accept": "text/html"}
        answer = box.rest.call("GET", "/", None, headers)
        assert answer.status == 502 and answer.headers["content-type"].startswith("text/html")

    def test_internal_routes_are_not_there(self, box):
        for path in ("/init", "/freeze", "/unfreeze", "/collapse", "/upgrade"):
            assert box.http("POST", path, {}).status == 404

    def test_cors(self, box):
        answer = box.http("OPTIONS", "/process.Process/Start", None, {
            "Origin": "http://example.com", "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type,x-access-token"})
        assert answer.status == 204
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "x-access-token" in answer.headers["access-control-allow-headers"]
        assert answer.headers["access-control-max-age"] == "7200"
        answer = box.http("GET", "/health", None, {"Origin": "http://example.com"})
        assert answer.headers["access-control-allow-origin"] == "*"


@pytest.fixture(scope="module")
def over_tcp():
    with listening_daemon() as (daemon, address):
        envd = create(daemon)
        yield envd, Rest(address), address[1], daemon
        envd.kill()


class TestHosts:
    def test_headers_count_on_our_own_names_only(self, over_tcp):
        envd, tcp, port, _ = over_tcp
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"sandbox.localhost:{port}"):
            assert tcp.call("GET", "/health", None, {**envd.headers, "Host": host}).status == 204
        for host in ("rebound.example.com", f"x.localhost:{port}"):
            answer = tcp.call("GET", "/health", None, {**envd.headers, "Host": host})
            assert answer.status in (404, 421)
        query = envd.sign("nothing.txt")
        assert tcp.call("GET", "/files", None, {"Host": "rebound.example.com"}, **query).status == 421
        assert tcp.call("GET", "/files", None, {"Host": "localhost"}, **query).status == 404

    def test_hosts_of_sandboxes(self, over_tcp):
        envd, tcp, port, daemon = over_tcp
        token = {"X-Access-Token": envd.token}

        def get(name, path="/health", headers=None):
            return tcp.call("GET", path, None, {"Host": f"{name}.localhost:{port}",
                                                **(headers or {})})

        assert get(f"49983-{envd.id}").status == 204
        assert get(f"49983-{envd.id}-6532622b").status == 204
        assert get(f"49983-{envd.id}", "/envs").status == 401
        assert get(f"49983-{envd.id}", "/envs", token).status == 200
        answer = get(f"8123-{envd.id}")
        assert answer.status == 502 and answer.json["port"] == 8123
        # The headers of one sandbox do not lead out of the host of another.
        assert get(f"8123-{envd.id}", "/health", envd.headers).status == 502
        # One of another facade stays with previews, and so does what never was.
        other = daemon.create()
        assert get(f"49983-{other}").status == get("49983-" + "a" * 26).status == 404
        daemon.atoll("rm", other)

    def test_a_killed_one_is_remembered(self, over_tcp):
        _, tcp, port, daemon = over_tcp
        envd = create(daemon)
        host = {"Host": f"3000-{envd.id}.localhost:{port}"}
        assert tcp.call("GET", "/", None, host).json["message"].startswith("The sandbox is running")
        envd.kill()
        answer = tcp.call("GET", "/", None, host)
        assert answer.status == 502
        assert answer.json == {"sandboxId": envd.id, "code": 502,
                               "message": "The sandbox was not found"}

    def test_so_is_one_that_is_killed_at_once(self, over_tcp):
        _, tcp, port, daemon = over_tcp
        for _ in range(40):
            envd = create(daemon)
            envd.kill()
            answer = tcp.call("GET", "/", None, {"Host": f"3000-{envd.id}.localhost:{port}"})
            assert answer.status == 502


class TestAccess:
    def test_the_token_is_needed(self, box):
        for headers in ({}, {"X-Access-Token": "wrong"}, {"X-Access-Token": box.token[:-1] + "!"}):
            answer = box.rest.call("POST", "/process.Process/List", {}, {
                "E2b-Sandbox-Id": box.id, "E2b-Sandbox-Port": "49983",
                "Content-Type": "application/json", **headers})
            assert answer.status == 401
            assert answer.json == {
                "code": 401, "message": "unauthorized access, please provide a valid access token "
                                        "or method signing if supported"}

    def test_a_token_is_of_one_sandbox(self, box, own):
        answer = own.http("POST", "/process.Process/List", {}, {
            "X-Access-Token": box.token, "Content-Type": "application/json"})
        assert answer.status == 401

    def test_health_is_open(self, box):
        headers = {"E2b-Sandbox-Id": box.id, "E2b-Sandbox-Port": "49983"}
        assert box.rest.call("GET", "/health", None, headers).status == 204

    def test_without_secure_there_is_no_token(self, daemon):
        envd = create(daemon, secure=False)
        try:
            envd.headers.pop("X-Access-Token", None)
            assert envd.run("echo open").stdout == b"open\n"
        finally:
            envd.kill()

    def test_signed_urls(self, box):
        """They name no sandbox: the signature says which one."""
        box.upload("signed.txt", b"signed")
        rest = box.rest
        assert rest.get("/files", **box.sign("signed.txt")).body == b"signed"
        future = int(time.time()) + 100
        assert rest.get("/files", **box.sign("signed.txt", expiration=future)).body == b"signed"
        answer = rest.get("/files", **box.sign("signed.txt", user="root"))
        assert answer.status == 404  # that of root, below /root
        answer = rest.get("/files", **box.sign("signed.txt", expiration=1000))
        assert answer.json == {"code": 401, "message": "signature is already expired"}
        query = {**box.sign("signed.txt"), "path": "other.txt"}
        assert rest.get("/files", **query).json == {"code": 401, "message": "invalid signature"}
        # One for reading does not write.
        answer = rest.call("POST", "/files", b"x", {"Content-Type": "application/octet-stream"},
                           **box.sign("signed.txt"))
        assert answer.status == 401
        answer = rest.call("POST", "/files", b"new", {"Content-Type": "application/octet-stream"},
                           **box.sign("signed.txt", "write"))
        assert answer.status == 200
        assert box.download("signed.txt").body == b"new"

    def test_signatures_with_the_address(self, box):
        headers = {"E2b-Sandbox-Id": box.id, "E2b-Sandbox-Port": "49983"}
        box.upload("addressed.txt", b"1")
        call = box.rest.call
        assert call("GET", "/files", None, headers, **box.sign("addressed.txt")).status == 200
        assert call("GET", "/files", None, headers, path="addressed.txt").json == {
            "code": 401, "message": "missing signature query parameter"}
        assert call("GET", "/files", None, {**headers, "X-Access-Token": "no"},
                    path="addressed.txt").json == {
            "code": 401, "message": "access token present in header but does not match"}


class TestProcesses:
    def test_output_and_end(self, box):
        result = box.run("echo out; echo err >&2; exit 3")
        assert (result.stdout, result.stderr) == (b"out\n", b"err\n")
        assert result.exit == {"exitCode": 3, "exited": True, "status": "exit status 3",
                               "error": "exit status 3"}
        assert result.error is None
        assert box.run("true").exit == {"exitCode": 0, "exited": True, "status": "exit status 0"}

    def test_environment(self, box):
        result = box.run("env; pwd; id -un", process={"envs": {"MINE": "1=2"}})
        lines = result.stdout.decode().splitlines()
        assert {"E2B_SANDBOX=true", f"E2B_SANDBOX_ID={box.id}", "E2B_TEMPLATE_ID=base",
                "GLOBAL=yes", "MINE=1=2", "HOME=/home/user", "USER=user", "LOGNAME=user",
                "/home/user", "user"} <= set(lines)
        assert box.http("GET", "/envs").json == {
            "E2B_SANDBOX": "true", "E2B_SANDBOX_ID": box.id, "E2B_TEMPLATE_ID": "base",
            "GLOBAL": "yes"}

    def test_users(self, box):
        assert box.run("id -un; pwd", user="root").stdout == b"root\n/root\n"
        result = box.run("true", user="nosuch")
        assert result.error == {"code": "unauthenticated", "message": "invalid username: 'nosuch'"}

    @pytest.mark.parametrize("process, code, message", [
        ({"cwd": "/nowhere"}, "invalid_argument", "cwd '/nowhere' does not exist"),
        ({"cmd": "/nowhere"}, "invalid_argument", "error starting process: command not found: "
                                                  "/nowhere"),
        ({"cmd": ""}, "invalid_argument", None),
        ({"args": [1]}, "invalid_argument", "args must be strings"),
        ({"envs": {"A": 1}}, "invalid_argument", "envs must be strings"),
    ])
    def test_what_cannot_start(self, box, process, code, message):
        stream = box.start("/bin/true", process=process)
        assert stream.status == 200
        error = Result(stream).error
        assert error["code"] == code
        assert message is None or error["message"] == message

    @pytest.mark.parametrize("size", [131071, 131072, 200000, 250000])
    def test_a_script_longer_than_an_argument(self, box, size):
        """Linux takes 128 KiB in one argument. The \u00e4 lie across the border of parts."""
        before, after = "read line; : '", "'; echo \"$0 $# $line\"; exit 7"
        filling = size - len(before + after)
        script = before + "x" * (filling % 2) + "\u00e4" * (filling // 2) + after
        assert len(script.encode()) == size
        stream = box.start("/bin/bash", "-l", "-c", script, stdin=True)
        pid = next(stream)["event"]["start"]["pid"]
        box.process("SendInput", {"process": {"pid": pid}, "input": {
            "stdin": base64.b64encode(b"typed\n").decode()}})
        result = Result(stream)
        assert result.stdout == b"/bin/bash 0 typed\n" and result.exit["exitCode"] == 7
        whole = "printf %s '" + "\u00e4" * (size // 2 - 20) + "' | wc -c"
        assert int(box.run(whole).stdout) == 2 * (size // 2 - 20)

    def test_cwd_is_below_home(self, box):
        box.fs("MakeDir", path="work")
        assert box.run("pwd", process={"cwd": "work"}).stdout == b"/home/user/work\n"

    def test_killed(self, box):
        stream = box.start("/bin/sleep", "100")
        pid = next(stream)["event"]["start"]["pid"]
        listed = box.process("List", {}).json["processes"]
        assert [p["config"] for p in listed if p["pid"] == pid] == [
            {"cmd": "/bin/sleep", "args": ["100"]}]
        answer = box.process("SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})
        assert answer.status == 200 and answer.json == {}
        result = Result(stream)
        assert result.exit == {"exitCode": -1, "exited": False, "status": "signal: killed",
                               "error": "signal: killed"}
        assert box.run(f"kill -0 {pid}").exit["exitCode"] != 0
        assert pid not in [p["pid"] for p in box.process("List", {}).json["processes"]]
        answer = box.process("SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})
        assert answer.status == 404
        assert answer.json == {"code": "not_found", "message": f"process with pid {pid} not found"}

    def test_other_signals_are_unimplemented(self, box):
        stream = box.start("/bin/sleep", "100")
        pid = next(stream)["event"]["start"]["pid"]
        answer = box.process("SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGHUP"})
        assert answer.status == 501 and answer.json["code"] == "unimplemented"
        box.process("SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGTERM"})
        assert Result(stream).exit["status"] == "signal: terminated"

    def test_a_killed_process_is_gone_with_the_answer(self, box):
        for _ in range(40):
            stream = box.start("sleep", "600")
            pid = next(iter(stream))["event"]["start"]["pid"]
            box.process("SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})
            listed = box.process("List", {}).json.get("processes", [])
            stream.close()
            assert pid not in [one["pid"] for one in listed]

    def test_the_deadline_kills(self, box):
        result = Result(box.start("/bin/sleep", "100", headers={"Connect-Timeout-Ms": "1500"}))
        assert result.error["code"] == "deadline_exceeded"
        assert result.exit is None
        assert box.run(f"kill -0 {result.pid}").exit["exitCode"] != 0

    def test_tags_and_connect(self, box):
        stream = box.start("/bin/bash", "-c", "echo before; read; echo after; exit 5", tag="t1",
                           stdin=True, process={"envs": {"X": "y"}})
        pid = next(stream)["event"]["start"]["pid"]
        assert base64.b64decode(next(stream)["event"]["data"]["stdout"]) == b"before\n"
        listed = [p for p in box.process("List", {}).json["processes"] if p["pid"] == pid]
        assert listed[0]["tag"] == "t1" and listed[0]["config"]["envs"] == {"X": "y"}
        second = box.stream("process.Process/Connect", {"process": {"tag": "t1"}})
        assert next(second) == {"event": {"start": {"pid": pid}}}
        stream.close()  # whoever goes away leaves the process alone
        assert box.process("SendInput", {
            "process": {"pid": pid},
            "input": {"stdin": base64.b64encode(b"\n").decode()}}).status == 200
        result = Result(second)
        assert result.stdout == b"after\n"  # and nothing from before
        assert result.exit["exitCode"] == 5
        # The end can be asked for a while longer.
        late = Result(box.stream("process.Process/Connect", {"process": {"pid": pid}}))
        assert late.exit["exitCode"] == 5 and late.stdout == b""
        unknown = Result(box.stream("process.Process/Connect", {"process": {"pid": 999999}}))
        assert unknown.error == {"code": "not_found", "message": "process with pid 999999 not found"}

    def test_stdin(self, box):
        stream = box.start("/bin/bash", "-c", "cat; sleep 1", stdin=True)
        pid = next(stream)["event"]["start"]["pid"]
        big = bytes(range(256)) * 1000
        for data in (b"one\n", big):
            answer = box.process("SendInput", {
                "process": {"pid": pid}, "input": {"stdin": base64.b64encode(data).decode()}})
            assert answer.status == 200
        for _ in range(2):  # twice is once
            assert box.process("CloseStdin", {"process": {"pid": pid}}).json == {}
        assert Result(stream).stdout == b"one\n" + big

    def test_stdin_that_is_not_open(self, box):
        stream = box.start("/bin/sleep", "100")
        pid = next(stream)["event"]["start"]["pid"]
        answer = box.process("SendInput", {"process": {"pid": pid}, "input": {"stdin": "eA=="}})
        assert answer.status == 500 and answer.json["code"] == "internal"
        assert answer.json["message"].startswith("error writing to stdin: ")
        box.process("SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})
        stream.close()

    def test_input_as_a_stream(self, box):
        stream = box.start("/bin/cat", stdin=True)
        pid = next(stream)["event"]["start"]["pid"]
        body = envelope({"start": {"process": {"pid": pid}}})
        for i in range(100):
            data = base64.b64encode(f"{i}\n".encode() * 500).decode()
            body += envelope({"data": {"input": {"stdin": data}}}) + envelope({"keepalive": {}})
        answer = box.stream("process.Process/StreamInput", body)
        assert list(answer) == [{}] and answer.end == {}
        box.process("CloseStdin", {"process": {"pid": pid}})
        assert Result(stream).stdout == b"".join(f"{i}\n".encode() * 500 for i in range(100))
        refused = box.stream("process.Process/StreamInput",
                             envelope({"data": {"input": {"stdin": "eA=="}}}))
        assert list(refused) == [] and refused.end["error"]["code"] == "invalid_argument"

    def test_terminals(self, box):
        stream = box.start("/bin/bash", "--norc", "-i", pty={"size": {"cols": 80, "rows": 24}},
                           process={"envs": {"TERM": "xterm", "PS1": ""}})
        pid = next(stream)["event"]["start"]["pid"]

        def send(text):
            data = base64.b64encode(text.encode()).decode()
            assert box.process("SendInput", {"process": {"pid": pid},
                                             "input": {"pty": data}}).status == 200

        answer = box.process("CloseStdin", {"process": {"pid": pid}})
        assert answer.status == 400
        # Before its first prompt, readline reads the size of the terminal and sets it again.
        shown = b""
        while b"?2004h" not in shown:
            shown += base64.b64decode(next(stream)["event"]["data"]["pty"])
        answer = box.process("Update", {"process": {"pid": pid},
                                        "pty": {"size": {"cols": 133, "rows": 30}}})
        assert answer.json == {}
        send("stty size\nexit 4\n")
        result = Result(stream)
        assert b"30 133" in result.pty and result.exit["exitCode"] == 4

    def test_a_process_without_a_terminal_has_no_size(self, box):
        stream = box.start("/bin/sleep", "100")
        pid = next(stream)["event"]["start"]["pid"]
        answer = box.process("Update", {"process": {"pid": pid},
                                        "pty": {"size": {"cols": 1, "rows": 1}}})
        assert answer.status == 500 and answer.json["code"] == "internal"
        box.process("SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})
        stream.close()

    def test_keepalive(self, box):
        stream = box.start("/bin/sleep", "100", headers={"Keepalive-Ping-Interval": "1"})
        pid = next(stream)["event"]["start"]["pid"]
        assert next(stream) == {"event": {"keepalive": {}}}
        box.process("SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})
        stream.close()

    def test_a_slow_reader_gets_everything(self, box):
        stream = box.start("/bin/bash", "-c", "head -c 20000000 /dev/zero; sleep 0.1")
        next(stream)
        time.sleep(0.5)  # it must wait for us, not in memory
        total = 0
        for message in stream:
            data = message["event"].get("data", {})
            total += len(base64.b64decode(data.get("stdout", "")))
        assert total == 20000000

    def test_a_killed_sandbox_cuts_its_streams(self, daemon):
        envd = create(daemon)
        streams = [envd.start("/bin/sleep", "100"),
                   envd.stream("filesystem.Filesystem/WatchDir", {"path": "/tmp"})]
        for stream in streams:
            next(stream)
        envd.kill()
        for stream in streams:
            with pytest.raises((EOFError, http.client.IncompleteRead, ConnectionError)):
                list(stream)
            assert stream.end is None

    def test_the_journal_has_it_too(self, box):
        before = {e["exec_id"] if "exec_id" in e else e["id"]
                  for e in box.rest.get(f"/api/sandboxes/{box.id}/execs").json["execs"]}
        box.run("echo kept")
        execs = box.rest.get(f"/api/sandboxes/{box.id}/execs").json["execs"]
        new = [e for e in execs if (e.get("exec_id") or e.get("id")) not in before]
        assert len(new) == 1
        name = new[0].get("exec_id") or new[0].get("id")
        lines = box.rest.get(f"/api/sandboxes/{box.id}/execs/{name}/output").lines
        assert lines[0]["data"] == "kept\n"

    @pytest.mark.parametrize("body", [
        b"", b"\0\0\0", b"\1\0\0\0\2{}", b"\0\xff\xff\xff\xff", envelope({}) + envelope({}),
        b"\0\0\0\0\2[]", b"\0\0\0\0\1{",
    ])
    def test_malformed_streams(self, box, body):
        stream = box.stream("process.Process/Start", body)
        assert stream.status == 200
        assert list(stream) == []
        assert stream.end["error"]["code"] == "invalid_argument"

    def test_messages_that_are_too_large(self, box):
        """In the form of the protocol, and with the limit."""
        error = Result(box.start("/bin/echo", "x" * 3_000_000)).error
        assert error["code"] == "resource_exhausted" and "1 MiB" in error["message"]
        answer = box.process("List", {"x": "y" * 3_000_000})
        assert (answer.status, answer.json["code"]) == (429, "resource_exhausted")
        assert "1 MiB" in answer.json["message"]

    def test_content_types(self, box):
        answer = box.http("POST", "/process.Process/List", b"", {"Content-Type": "application/proto"})
        assert answer.status == 415
        answer = box.http("POST", "/process.Process/Start", {}, {"Content-Type": "application/json"})
        assert answer.status == 415

    def test_a_server_does_not_keep_others_from_being_forgotten(self, own):
        """4096 commands are remembered; the first one here runs for ever."""
        stream = own.start("/bin/sleep", "1000")
        next(stream)

        def one(i):
            result = Result(own.start("/bin/true"))
            assert result.exit, (i, result.error)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(one, range(4100)))
        assert len(own.process("List", {}).json["processes"]) == 1
        stream.close()

    def test_many_at_once(self, box):
        results = {}

        def one(i):
            results[i] = box.run(f"echo {i}").stdout

        threads = [threading.Thread(target=one, args=(i,)) for i in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == {i: f"{i}\n".encode() for i in range(20)}


class TestFilesystem:
    def test_stat(self, box):
        box.upload("stat.txt", b"12345")
        entry = box.fs("Stat", path="stat.txt").json["entry"]
        modified = entry.pop("modifiedTime")
        assert modified.endswith("Z")
        assert entry == {"name": "stat.txt", "type": "FILE_TYPE_FILE", "size": "5", "mode": 0o644,
                         "path": "/home/user/stat.txt", "permissions": "-rw-r--r--",
                         "owner": "user", "group": "user"}
        answer = box.fs("Stat", path="/no/such")
        assert answer.status == 404 and answer.json["code"] == "not_found"
        assert answer.json["message"].startswith("file not found: lstat /no/such")
        for path in ("stat.txt/below", "stat.txt/below/more"):  # exists() is to say no
            answer = box.fs("Stat", path=path)
            assert (answer.status, answer.json["code"]) == (404, "not_found")
            assert answer.json["message"].startswith(f"file not found: lstat /home/user/{path}")
            assert box.fs("MakeDir", path=path).json["code"] == "invalid_argument"
            assert box.fs("ListDir", path=path).json["code"] == "invalid_argument"
        assert box.fs("Stat", path="stat.txt/").json["entry"]["type"] == "FILE_TYPE_FILE"
        assert box.fs("Stat", path="~/stat.txt").json["entry"]["path"] == "/home/user/stat.txt"
        assert box.fs("Stat", path="~other/x").status == 400
        assert box.fs("Stat", path="").json["entry"]["path"] == "/home/user"

    def test_make_dir(self, box):
        entry = box.fs("MakeDir", path="made/deep").json["entry"]
        assert (entry["type"], entry["permissions"]) == ("FILE_TYPE_DIRECTORY", "drwxr-xr-x")
        # JSON omits 0, which is the size of an empty directory on some file systems.
        assert entry["owner"] == "user" and int(entry.get("size", "0")) >= 0
        again = box.fs("MakeDir", path="made/deep")
        assert again.status == 409
        assert again.json == {"code": "already_exists",
                              "message": "directory already exists: /home/user/made/deep"}
        box.upload("made/file", b"")
        assert box.fs("MakeDir", path="made/file").status == 400
        # Root's access, the user's directory.
        assert box.fs("MakeDir", path="/by-root/x").json["entry"]["owner"] == "user"

    def test_move(self, box):
        box.upload("move.txt", b"m")
        entry = box.fs("Move", source="move.txt", destination="new/way/moved.txt").json["entry"]
        assert entry["path"] == "/home/user/new/way/moved.txt"
        missing = box.fs("Move", source="move.txt", destination="x")
        assert missing.status == 404
        assert missing.json["message"].startswith("source file not found: ")

    def test_list(self, box):
        box.run("mkdir -p tree/b/c tree/a && touch tree/z tree/a/1 && ln -s tree tree-link")

        def names(**kwargs):
            return [e["path"] for e in box.fs("ListDir", **kwargs).json["entries"]]

        base = "/home/user/tree"
        assert names(path="tree") == [base + "/a", base + "/b", base + "/z"]
        assert names(path="tree", depth=0) == names(path="tree")
        assert names(path="tree", depth=2) == [base + "/a", base + "/a/1", base + "/b",
                                               base + "/b/c", base + "/z"]
        assert names(path="tree-link") == ["/home/user/tree-link/" + n for n in "abz"]
        assert box.fs("ListDir", path="nowhere").status == 404
        answer = box.fs("ListDir", path="tree/z")
        assert answer.status == 400 and answer.json["message"] == "path is not a directory: tree/z"

    def test_links(self, box):
        box.run("mkdir -p l && cd l && touch target && chmod 600 target && ln -sf target link && "
                "ln -sfn .. up && ln -sf nowhere broken && ln -sf loop loop")
        found = {e["name"]: e for e in box.fs("ListDir", path="l").json["entries"]}
        assert found["link"]["type"] == "FILE_TYPE_FILE" and found["link"]["mode"] == 0o600
        assert found["link"]["symlinkTarget"] == "/home/user/l/target"
        assert found["link"]["permissions"] == "Lrwxrwxrwx"
        assert found["up"]["type"] == "FILE_TYPE_DIRECTORY"
        assert found["up"]["symlinkTarget"] == "/home/user"
        assert found["broken"]["type"] == found["loop"]["type"] == "FILE_TYPE_UNSPECIFIED"
        assert "symlinkTarget" not in found["target"]

    def test_remove(self, box):
        box.run("mkdir -p gone/deep && touch gone/deep/f")
        for _ in range(2):
            assert box.fs("Remove", path="gone").json == {}
        assert box.fs("Stat", path="gone").status == 404

    def test_unknown_users(self, box):
        answer = box.fs("Stat", "nosuch", path="x")
        assert answer.status == 401
        assert answer.json == {"code": "unauthenticated", "message": "invalid username: 'nosuch'"}

    def test_root_reaches_everything(self, box):
        box.run("echo secret > /root/s; chmod 600 /root/s", user="root")
        assert box.fs("Stat", path="/root/s").json["entry"]["owner"] == "root"
        assert box.download("/root/s").body == b"secret\n"
        assert box.fs("Stat", "root", path="s").json["entry"]["path"] == "/root/s"


def leave(box, free):
    """Fills the disk but for so many bytes."""
    disk = box.http("GET", "/metrics").json
    size = disk["disk_total"] - disk["disk_used"] - free
    assert box.run(f"fallocate -l {size} ballast").exit["exitCode"] == 0


class TestFiles:
    def test_plain(self, box):
        answer = box.upload("plain.bin", bytes(range(256)))
        assert answer.json == [{"name": "plain.bin", "path": "/home/user/plain.bin", "type": "file"}]
        answer = box.download("plain.bin")
        assert answer.body == bytes(range(256))
        assert answer.headers["content-length"] == "256"
        assert answer.headers["content-disposition"].startswith("inline")
        assert box.upload("plain.bin", b"x").status == 200
        assert box.download("plain.bin").body == b"x"  # truncated

    def test_empty(self, box):
        assert box.upload("empty", b"").status == 200
        answer = box.download("empty")
        assert answer.status == 200 and answer.headers["content-length"] == "0"

    def test_errors(self, box):
        assert box.download("nope").json == {
            "code": 404, "message": "path '/home/user/nope' does not exist"}
        assert box.download("/tmp").json == {"code": 400, "message": "path '/tmp' is a directory"}
        assert box.upload("/tmp", b"x").json == {"code": 400, "message": "path is a directory: /tmp"}
        assert box.download("x", None, username="nosuch").json == {
            "code": 401, "message": "error looking up user 'nosuch': user: unknown user nosuch"}
        assert box.http("POST", "/files", b"x", {"Content-Type": "text/plain"}, path="x").status == 400
        assert box.http("POST", "/files", b"x", {"Content-Type": "application/octet-stream"}
                        ).status == 400

    def test_forms(self, box):
        answer = box.form([("one", b"1" * 100000), ("/form-root/two", b"\r\n--edg"),
                           ("sub/three", b"")])
        assert [e["path"] for e in answer.json] == ["/home/user/one", "/form-root/two",
                                                    "/home/user/sub/three"]
        assert box.download("one").body == b"1" * 100000
        assert box.download("/form-root/two").body == b"\r\n--edg"
        assert box.fs("Stat", path="/form-root").json["entry"]["owner"] == "user"
        assert box.form([(None, b"named")], path="by-query").json[0]["path"] == "/home/user/by-query"
        assert box.form([("same", b"1"), ("same", b"2")]).status == 400
        assert box.form([(None, b"nameless")]).status == 400
        broken = box.http("POST", "/files", b"--edge\r\n\r\nhello", {
            "Content-Type": "multipart/form-data; boundary=edge"}, path="x")
        assert broken.status == 400

    def test_chunked(self, box):
        connection = box.rest.connection()
        connection.request("POST", "/files?path=chunked", iter([b"a" * 70000] * 30), {
            **box.headers, "Content-Type": "application/octet-stream"}, encode_chunked=True)
        assert connection.getresponse().status == 200
        connection.close()
        assert box.download("chunked").body == b"a" * 2100000

    def test_gzip(self, box):
        data = b"pack me " * 100000
        packed = gzip.compress(data[:400]) + gzip.compress(data[400:])  # two members
        assert box.upload("packed", packed, {"Content-Encoding": "gzip"}).status == 200
        assert box.download("packed").body == data
        assert box.upload("packed", b"no gzip", {"Content-Encoding": "gzip"}).status == 400
        assert box.upload("packed", packed[:-9], {"Content-Encoding": "gzip"}).status == 400
        assert box.upload("packed", b"x", {"Content-Encoding": "br"}).status == 400

    def test_a_bomb_fills_only_its_disk(self, own):
        leave(own, 200 << 20)
        packed = gzip.compress(bytes(3 * 1024 * 1024 * 1024 // 2 // 64)) * 64
        answer = own.upload("bomb", packed, {"Content-Encoding": "gzip"})
        assert answer.status == 507
        assert re.match("attempted to write at least [0-9]+ bytes: not enough disk space available",
                        answer.json["message"])
        assert own.http("GET", "/health").status == 204

    def test_half_a_file_does_not_stay(self, own):
        """It would fill the disk, and pass for a whole one."""
        leave(own, 200 << 20)
        own.upload("old", b"x")
        size = 300 << 20
        for path, left in (("new", 404), ("old", 200)):
            answer = own.upload(path, bytes(size))
            assert (answer.status, answer.json["message"]) == (
                507, f"attempted to write {size} bytes: not enough disk space available")
            assert own.fs("Stat", path=path).status == left
        assert own.fs("Stat", path="old").json["entry"].get("size", "0") == "0"
        assert own.upload("fits", bytes(100 << 20)).status == 200

    def test_ranges(self, box):
        box.upload("range", b"0123456789")
        for asked, status, body in [("bytes=2-4", 206, b"234"), ("bytes=7-", 206, b"789"),
                                    ("bytes=-3", 206, b"789"), ("bytes=0-99", 206, b"0123456789"),
                                    ("bytes=10-", 416, None), ("bytes=1-2,4-5", 200, b"0123456789"),
                                    ("lines=1", 200, b"0123456789")]:
            answer = box.download("range", {"Range": asked})
            assert answer.status == status, asked
            assert body is None or answer.body == body
        assert box.download("range", {"Range": "bytes=2-4"}).headers["content-range"] == "bytes 2-4/10"
        modified = box.download("range").headers["last-modified"]
        assert box.download("range", {"If-Modified-Since": modified}).status == 304

    def test_metadata(self, box):
        answer = box.upload("md", b"x", {"X-Metadata-Author": "me", "X-Metadata-k2": "v 2"})
        assert answer.json[0]["metadata"] == {"author": "me", "k2": "v 2"}
        assert box.fs("Stat", path="md").json["entry"]["metadata"] == {"author": "me", "k2": "v 2"}
        # Commands see it and add to it; moving keeps it.
        script = ("import os; print(os.getxattr('md', 'user.e2b.author').decode()); "
                  "os.setxattr('md', 'user.e2b.inside', b'1')")
        result = box.run(f'python3 -c "{script}"')
        assert result.stdout == b"me\n", result.stderr
        entry = box.fs("Move", source="md", destination="md2").json["entry"]
        assert entry["metadata"] == {"author": "me", "k2": "v 2", "inside": "1"}
        listed = {e["name"]: e for e in box.fs("ListDir", path=".").json["entries"]}
        assert listed["md2"]["metadata"]["inside"] == "1"
        # Each upload replaces all of it.
        box.upload("md2", b"y", {"X-Metadata-only": "this"})
        assert box.fs("Stat", path="md2").json["entry"]["metadata"] == {"only": "this"}
        assert box.upload("md2", b"z").json == [{"name": "md2", "path": "/home/user/md2",
                                                 "type": "file"}]
        assert "metadata" not in box.fs("Stat", path="md2").json["entry"]
        assert box.upload("md3", b"", {"X-Metadata-" + "k" * 247: "v"}).status == 400
        assert box.upload("md3", b"", {"X-Metadata-k": "v" * 5000}).status == 400

    def test_kernel_files_are_read_to_their_end(self, box):
        answer = box.download("/proc/sys/kernel/random/boot_id")
        assert len(answer.body) == 37
        assert answer.body == box.run("cat /proc/sys/kernel/random/boot_id").stdout
        rest = box.rest.get(f"/api/sandboxes/{box.id}/files", path="/proc/version")
        assert rest.body.startswith(b"Linux version")

    def test_compose(self, box):
        box.form([("c1", b"one,"), ("c2", b"two")])
        answer = box.http("POST", "/files/compose", {"source_paths": ["c1", "c2"],
                                                     "destination": "c/all"})
        assert answer.status == 200 and answer.json["path"] == "/home/user/c/all"
        assert box.download("c/all").body == b"one,two"
        assert box.download("c1").status == box.download("c2").status == 404
        assert box.http("POST", "/files/compose", {"source_paths": []}).status == 400

    def test_metrics(self, box):
        figures = box.http("GET", "/metrics").json
        assert figures["mem_total"] > 0 and figures["disk_total"] > 0
        assert abs(figures["ts"] - time.time()) < 60
        assert {"cpu_count", "cpu_used_pct", "mem_used", "mem_cache", "mem_total_mib",
                "mem_used_mib", "disk_used"} <= set(figures)


class TestClientsThatGoAway:
    """Nothing of theirs is left, and nobody else notices."""

    def send(self, envd, path, head, body):
        sock = envd.rest.socket()
        lines = [f"{k}: {v}" for k, v in {**envd.headers, **head}.items()]
        sock.sendall("\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", *lines, "", ""])
                     .encode() + body)
        return sock

    def test_in_the_middle(self, own):
        octets = {"Content-Length": "1000000",
                  "Content-Type": "application/octet-stream"}
        form = {"Content-Length": "1000000",
                "Content-Type": "multipart/form-data; boundary=b"}
        part = b'--b\r\nContent-Disposition: form-data; name="file"; filename="half2"\r\n\r\n'
        stream = {"Content-Type": "application/connect+json"}
        message = envelope({"process": {"cmd": "/bin/sleep", "args": ["0.3"]}, "stdin": False})
        for wait in (0, 0.05):
            socks = [
                self.send(own, "/files?path=half", octets, b"x" * 50000),
                self.send(own, "/files", form, part + b"y" * 50000),
                self.send(own, "/files", form, part[:20]),
                self.send(own, "/process.Process/Start",
                          {**stream, "Content-Length": str(len(message))}, message),
                self.send(own, "/filesystem.Filesystem/WatchDir",
                          {**stream, "Content-Length": "20"}, b'\0\0\0\0\x0e{"path":'),
            ]
            time.sleep(wait)
            for sock in socks:
                sock.close()
        assert own.run("echo fine").stdout == b"fine\n"
        until(lambda: own.process("List", {}).json["processes"] == [])
        # The handles inside were given back: far more uploads than there are of them.
        for i in range(100):
            assert own.upload("many", b"z").status == 200


class TestWatching:
    def test_a_small_upload_is_three_events(self, box):
        box.fs("MakeDir", path="w1")
        stream = box.stream("filesystem.Filesystem/WatchDir", {"path": "w1"})
        assert next(stream) == {"start": {}}
        box.form([("w1/new.txt", b"hello")])
        box.fs("Remove", path="w1/new.txt")
        seen = [next(stream)["filesystem"] for _ in range(4)]
        assert [(e["type"], e["name"]) for e in seen] == [
            ("EVENT_TYPE_CREATE", "new.txt"), ("EVENT_TYPE_CHMOD", "new.txt"),
            ("EVENT_TYPE_WRITE", "new.txt"), ("EVENT_TYPE_REMOVE", "new.txt")]
        stream.close()

    def test_recursive_with_entries(self, box):
        box.fs("MakeDir", path="w2/sub")
        stream = box.stream("filesystem.Filesystem/WatchDir",
                            {"path": "w2", "recursive": True, "includeEntry": True})
        next(stream)
        box.upload("w2/sub/f", b"1")
        box.fs("Move", source="w2/sub/f", destination="w2/g")
        seen = [next(stream)["filesystem"] for _ in range(5)]
        assert [(e["type"][11:], e["name"]) for e in seen] == [
            ("CREATE", "sub/f"), ("CHMOD", "sub/f"), ("WRITE", "sub/f"), ("RENAME", "sub/f"),
            ("CREATE", "g")]
        assert seen[4]["entry"]["path"] == "/home/user/w2/g"
        assert "entry" not in seen[3]
        stream.close()

    def test_errors_and_deadline(self, box):
        missing = box.stream("filesystem.Filesystem/WatchDir", {"path": "nowhere"})
        assert list(missing) == [] and missing.end["error"]["code"] == "not_found"
        box.upload("w-file", b"")
        wrong = box.stream("filesystem.Filesystem/WatchDir", {"path": "w-file"})
        assert list(wrong) == [] and wrong.end["error"]["code"] == "invalid_argument"
        short = box.stream("filesystem.Filesystem/WatchDir", {"path": "/tmp"},
                           headers={"Connect-Timeout-Ms": "1500"})
        assert list(short) == [{"start": {}}]
        assert short.end["error"]["code"] == "deadline_exceeded"

    def test_polling(self, box):
        box.fs("MakeDir", path="w3")
        watcher = box.fs("CreateWatcher", path="w3", includeEntry=True).json["watcherId"]
        assert watcher.startswith("w")
        box.upload("w3/f", b"1")
        seen = []

        def enough():
            seen.extend(box.fs("GetWatcherEvents", watcherId=watcher).json["events"])
            return len(seen) >= 3

        until(enough)
        assert [e["type"] for e in seen] == ["EVENT_TYPE_CREATE", "EVENT_TYPE_CHMOD",
                                             "EVENT_TYPE_WRITE"]
        assert seen[0]["entry"]["path"] == "/home/user/w3/f"
        assert box.fs("GetWatcherEvents", watcherId=watcher).json == {"events": []}
        assert box.fs("RemoveWatcher", watcherId=watcher).json == {}
        for method in ("GetWatcherEvents", "RemoveWatcher"):
            answer = box.fs(method, watcherId=watcher)
            assert answer.status == 404 and answer.json["code"] == "not_found"

    def test_watchers_are_of_one_sandbox(self, box, own):
        watcher = box.fs("CreateWatcher", path="/tmp").json["watcherId"]
        assert own.fs("GetWatcherEvents", watcherId=watcher).status == 404
        box.fs("RemoveWatcher", watcherId=watcher)


class TestPorts:
    # It is ready, and listens as soon as it is told to.
    SERVER = ("import http.server,sys\n"
              "print('ready', flush=True); sys.stdin.readline()\n"
              "class H(http.server.BaseHTTPRequestHandler):\n"
              "  def do_GET(s):\n"
              "    b=repr(sorted((k.lower(),v) for k,v in s.headers.items())).encode()\n"
              "    s.send_response(200); s.send_header('Content-Length',str(len(b)))\n"
              "    s.end_headers(); s.wfile.write(b)\n"
              "http.server.HTTPServer(('127.0.0.1',8080),H).serve_forever()\n")

    def serve(self, envd):
        stream = envd.start("/usr/bin/python3", "-c", self.SERVER, stdin=True)
        pid = next(stream)["event"]["start"]["pid"]
        next(stream)
        stream.close()
        envd.process("SendInput", {"process": {"pid": pid}, "input": {"stdin": "Cg=="}})

    def get(self, envd, port=8080, headers=None):
        return envd.rest.call("GET", "/x", None, {
            "E2b-Sandbox-Id": envd.id, "E2b-Sandbox-Port": str(port), **(headers or {})})

    def test_a_server_that_was_just_started(self, own):
        self.serve(own)
        answer = self.get(own, headers={"X-Access-Token": own.token, "X-Mine": "1"})
        assert answer.status == 200
        seen = dict(eval(answer.body))  # what the server printed
        assert seen["x-mine"] == "1" and seen["host"] == "localhost:8080"
        assert not {"x-access-token", "e2b-sandbox-id", "e2b-sandbox-port"} & set(seen)

    def test_websockets(self, own):
        script = ("import socket\n"
                  "s=socket.create_server(('127.0.0.1',8081)); print('up', flush=True)\n"
                  "c,_=s.accept()\n"
                  "while b'\\r\\n\\r\\n' not in c.recv(65536): pass\n"
                  "c.sendall(b'HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\n'\n"
                  "          b'Upgrade: websocket\\r\\n\\r\\n')\n"
                  "c.sendall(c.recv(65536)[::-1])\n")
        stream = own.start("/usr/bin/python3", "-c", script)
        next(stream)
        next(stream)
        sock = own.rest.socket()
        sock.sendall((f"GET /ws HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: {own.id}\r\n"
                      "E2b-Sandbox-Port: 8081\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                      "\r\n").encode())
        answer = sock.recv(65536)
        assert answer.startswith(b"HTTP/1.1 101 ")
        sock.sendall(b"hello")
        assert sock.recv(65536) == b"olleh"
        sock.close()
        stream.close()

    def test_closed_ports(self, own):
        answer = self.get(own, 8099)
        assert answer.status == 502
        assert answer.json == {"sandboxId": own.id, "port": 8099, "code": 502,
                               "message": "The sandbox is running but port is not open"}

    def test_the_traffic_token(self, daemon):
        envd = create(daemon, network={"allowPublicTraffic": False,
                                       "maskRequestHost": "masked.example:${PORT}"})
        try:
            self.serve(envd)
            answer = self.get(envd)
            assert answer.status == 403
            assert answer.body == (b"Sandbox is secured with traffic access token. Token header "
                                   b"'e2b-traffic-access-token' is missing")
            assert self.get(envd, headers={"E2B-Traffic-Access-Token": "no"}).status == 403
            token = {"E2B-Traffic-Access-Token": envd.traffic_token}
            until(lambda: self.get(envd, headers=token).status == 200)
            answer = self.get(envd, headers=token)
            seen = dict(eval(answer.body))
            assert seen["host"] == "masked.example:8080"
            assert "e2b-traffic-access-token" not in seen
            assert envd.http("GET", "/health").status == 204  # envd has a token of its own
        finally:
            envd.kill()


def test_sandboxes_of_other_facades_are_closed(daemon, sandbox):
    rest = Rest(daemon.socket)
    headers = {"E2b-Sandbox-Id": sandbox, "E2b-Sandbox-Port": "49983"}
    assert rest.call("GET", "/health", None, headers).status == 204
    answer = rest.call("POST", "/process.Process/List", {}, {
        **headers, "Content-Type": "application/json"})
    assert answer.status == 401
    assert rest.call("GET", "/", None, {**headers, "E2b-Sandbox-Port": "80"}).status == 403


def test_paused_sandboxes(daemon):
    asleep = create(daemon)
    awake = create(daemon, autoPause=True, autoResume={"enabled": True})
    try:
        for envd in (asleep, awake):
            assert envd.run("echo 1 > f").exit["exitCode"] == 0
            answer = envd.rest.post(f"/sandboxes/{envd.id}/pause", {})
            assert answer.status == 204, answer.body
        assert asleep.http("GET", "/health").status == 502
        assert json.loads(asleep.download("f").body)["code"] == 502
        assert awake.download("f").body == b"1\n"
    finally:
        asleep.kill()
        awake.kill()
