"""The wider REST API: lists in pages, health, streams, terminals, archives, signed URLs, events."""

import base64
import contextlib
import hashlib
import http.client
import io
import json
import os
import re
import subprocess
import tarfile
import time
import uuid
from urllib.parse import quote

import pytest
from conftest import ROOT
from rest import Rest
from resting import agent_of
from test_rest import Atolld


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


def eventually(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


class Events:
    """Server-Sent Events, as they come."""

    def __init__(self, rest, path, method="GET", body=None, **headers):
        self.connection = rest.connection(timeout=20)
        sent = {"Accept": "text/event-stream",
                **{name.replace("_", "-"): value for name, value in headers.items()}}
        self.connection.request(method, path, body, sent)
        self.response = self.connection.getresponse()
        self.status = self.response.status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def next(self):
        """(event, id, data), or None at the end."""
        event, identity, data = "message", None, []
        while line := self.response.readline():
            line = line.decode().rstrip("\n")
            if line.startswith("event: "):
                event = line[7:]
            elif line.startswith("id: "):
                identity = line[4:]
            elif line.startswith("data: "):
                data.append(line[6:])
            elif not line and data:
                return event, identity, json.loads("\n".join(data))
        return None

    def all(self):
        return list(iter(self.next, None))


# --- lists


@contextlib.contextmanager
def several(rest, count, **fields):
    ids = [rest.post("/api/sandboxes", fields).json["id"] for _ in range(count)]
    try:
        yield ids
    finally:
        for each in ids:
            rest.delete(f"/api/sandboxes/{each}")


def ids(answer):
    return [found["id"] for found in answer.json["sandboxes"]]


def test_filters(rest):
    mark = uuid.uuid4().hex
    with several(rest, 2, metadata={"mark": mark, "kind": "a"}) as first, \
            several(rest, 1, metadata={"mark": mark, "kind": "b"}) as second:
        assert ids(rest.get("/api/sandboxes", metadata=f"mark={mark}")) == first + second
        assert ids(rest.get("/api/sandboxes", metadata=f"mark={mark}&kind=b")) == second
        assert ids(rest.get("/api/sandboxes", metadata=f"mark={mark}", state="running",
                            template="host")) == first + second
        assert ids(rest.get("/api/sandboxes", metadata=f"mark={mark}", state="failed")) == []
        assert ids(rest.get("/api/sandboxes", metadata=f"mark={mark}", template="other")) == []


def test_pages(rest):
    mark = uuid.uuid4().hex
    with several(rest, 5, metadata={"mark": mark}) as made:
        pages, cursor = [], {}
        while True:
            answer = rest.get("/api/sandboxes", metadata=f"mark={mark}", limit=2, **cursor)
            pages.append(ids(answer))
            if "next_cursor" not in answer.json:
                break
            cursor = {"cursor": answer.json["next_cursor"]}
            # One that goes meanwhile shifts nothing.
            if len(pages) == 1:
                rest.delete(f"/api/sandboxes/{made[0]}")
        assert pages == [made[:2], made[2:4], made[4:]]


def test_pages_of_commands(rest, box):
    for i in range(5):
        rest.post(f"{box}/execs", {"cmd": ["true", str(i)]}, wait="true")
    everything = rest.get(f"{box}/execs").json
    assert len(everything["execs"]) >= 5 and "next_cursor" not in everything
    found, cursor = [], {}
    while True:
        page = rest.get(f"{box}/execs", limit=2, **cursor).json
        assert len(page["execs"]) <= 2
        found += page["execs"]
        if "next_cursor" not in page:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert found == everything["execs"]
    assert found == sorted(found, key=lambda exec: (exec["started_at"], exec["exec_id"]))
    for bad in {"limit": 0}, {"limit": 100000}, {"cursor": "x"}:
        assert rest.get(f"{box}/execs", **bad).status == 400


def test_a_parameter_that_no_route_has(rest, box):
    """A misspelt limit is never ignored; what is outside /api is asked by all sorts of probes."""
    for path in "/api/sandboxes", "/api/host", f"{box}", f"{box}/execs", "/api/artifacts":
        answer = rest.get(path, bogus=1)
        assert answer.status == 400 and "bogus" in answer.error["message"], path
    assert "known are limit, cursor" in rest.get(f"{box}/execs", limits=1).error["message"]
    assert rest.get("/api/host", all="true").status == 400
    for odd in "limit, cursor", "", "limi", "cursor,":
        assert rest.get(f"{box}/execs", **{odd: 1}).status == 400, odd
    assert rest.post(f"{box}/execs", {"cmd": ["true"]}, wiat="true").status == 400
    assert rest.get("/healthz", bogus=1).status == 200
    assert rest.get("/api/sandboxes/" + "0" * 26, bogus=1).status == 404


@pytest.mark.parametrize("query", [
    {"state": "happy"}, {"limit": 0}, {"limit": 100000}, {"cursor": "x"}, {"cursor": "1-../x"},
    {"metadata": "novalue"}, {"metadata": "=v"}, {"metadata": "a=" + "b" * 2000},
])
def test_bad_filters(rest, query):
    answer = rest.get("/api/sandboxes", **query)
    assert answer.status == 400 and answer.error["code"] == "invalid_argument"


# --- health, timeout, metadata


def test_health(rest, box):
    one = rest.get(f"{box}/health").json
    assert one["status"] == "ok" and one["state"] == "running" and one["answered_ms"] < 2000
    everyone = rest.get("/api/health").json["sandboxes"]
    assert one["id"] in {each["id"] for each in everyone}


def test_health_of_a_sandbox_whose_agent_is_stopped(rest, daemon, box):
    """Its processes are frozen from outside; the answer comes in time and says so."""
    name = box.rsplit("/", 1)[1]
    agent = agent_of(name)
    os.kill(agent, 19)
    try:
        before = time.monotonic()
        sick = rest.get(f"{box}/health")
        assert sick.status == 200 and sick.json["status"] == "failed"
        assert "2 s" in sick.json["cause"]
        assert 1.5 < time.monotonic() - before < 30
        assert rest.get("/healthz").status == 200
    finally:
        os.kill(agent, 18)
    eventually(lambda: rest.get(f"{box}/health").json["status"] == "ok")


def test_timeout_can_be_changed(rest):
    made = rest.post("/api/sandboxes", {"limits": {"timeoutSeconds": 600}}).json
    box = f"/api/sandboxes/{made['id']}"
    longer = rest.post(f"{box}/timeout", {"seconds": 7200})
    assert longer.status == 200 and longer.json["expires_at"] > made["expires_at"]
    never = rest.post(f"{box}/timeout", {"seconds": 0}).json
    assert never["expires_at"] is None and never["limits"]["timeoutSeconds"] == 0
    rest.post(f"{box}/timeout", {"seconds": 1})
    eventually(lambda: rest.get(box).json["state"] == "ended")


@pytest.mark.parametrize("body", [{}, {"seconds": -1}, {"seconds": "5"}, {"minutes": 5}])
def test_bad_timeouts(rest, box, body):
    assert rest.post(f"{box}/timeout", body).status == 400


def test_metadata_is_merged(rest):
    with several(rest, 1, metadata={"a": "1", "b": "2"}) as (made,):
        box = f"/api/sandboxes/{made}"
        changed = rest.call("PATCH", box, {"metadata": {"a": None, "b": "3", "c": "4"}})
        assert changed.status == 200 and changed.json["metadata"] == {"b": "3", "c": "4"}
        assert rest.get(box).json["metadata"] == {"b": "3", "c": "4"}
        for bad in ({}, {"metadata": []}, {"metadata": {"a": 1}}, {"state": "stopped"},
                    {"metadata": {"big": "x" * 70000}}):
            assert rest.call("PATCH", box, bad).status == 400
        assert rest.get(box).json["metadata"] == {"b": "3", "c": "4"}


# --- idempotency


def keyed(rest, path, body, key, **query):
    return rest.call("POST", path, body, {"Idempotency-Key": key}, **query)


def test_a_create_that_is_sent_again(rest):
    key = uuid.uuid4().hex
    first = keyed(rest, "/api/sandboxes", {"metadata": {"a": "b"}}, key)
    again = keyed(rest, "/api/sandboxes", {"metadata": {"a": "b"}}, key)
    try:
        assert (first.status, again.status) == (201, 201)
        assert first.json == again.json
        assert again.headers["Idempotency-Replayed"] == "true"
        assert first.headers["Idempotency-Replayed"] is None
        other = keyed(rest, "/api/sandboxes", {"metadata": {"a": "c"}}, key)
        assert other.status == 409 and other.error["code"] == "failed_precondition"
    finally:
        rest.delete(f"/api/sandboxes/{first.json['id']}")


def test_a_command_that_is_sent_again(rest, box):
    key = uuid.uuid4().hex
    body = {"cmd": ["sh", "-c", "echo x >> count; cat count"]}
    answers = [keyed(rest, f"{box}/execs", body, key, wait="true") for _ in range(3)]
    assert {answer.json["exec_id"] for answer in answers} == {answers[0].json["exec_id"]}
    assert [answer.json["stdout"] for answer in answers] == ["x\n"] * 3
    assert keyed(rest, f"{box}/execs", body, key).status == 409  # the query differs
    assert keyed(rest, f"{box}/execs", body, uuid.uuid4().hex, wait="1").json["stdout"] == "x\nx\n"


def test_a_failure_is_not_remembered(rest, box):
    key = uuid.uuid4().hex
    assert keyed(rest, f"{box}/execs", {"cmd": ["./later"]}, key).status == 404
    rest.put(f"{box}/files", b"#!/bin/sh\necho now\n", path="later", mode="0755")
    assert keyed(rest, f"{box}/execs", {"cmd": ["./later"]}, key).status == 201


def test_the_client_goes_away_and_comes_back(rest, daemon):
    """With a key the sandbox of a client that vanished is not destroyed: it can ask again."""
    key = uuid.uuid4().hex
    sock = rest.socket()
    sock.sendall(f"POST /api/sandboxes HTTP/1.1\r\nHost: x\r\nIdempotency-Key: {key}\r\n"
                 "Content-Length: 2\r\n\r\n{}".encode())
    sock.close()
    found = []

    def comes_back():
        found.append(keyed(rest, "/api/sandboxes", b"{}", key))
        return found[-1].status == 201
    eventually(comes_back)
    made = found[-1].json["id"]
    assert rest.delete(f"/api/sandboxes/{made}").status == 204


@pytest.mark.parametrize("key", ["", "with space", "x" * 256])
def test_bad_keys(rest, key):
    assert keyed(rest, "/api/sandboxes", {}, key).status == 400


# --- streams


def test_start_and_stream_as_lines(rest, box):
    answer = rest.post(f"{box}/execs", {"cmd": ["sh", "-c", "echo a; echo b >&2; exit 4"]},
                       stream="true")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    lines = answer.lines
    assert list(lines[0]) == ["exec_id"]
    assert {line["stream"]: line["data"] for line in lines[1:-1]} == {"stdout": "a\n",
                                                                      "stderr": "b\n"}
    assert lines[-1]["result"]["exit_code"] == 4


def test_start_and_stream_as_events(rest, box):
    body = json.dumps({"cmd": ["sh", "-c", "echo a; read x; echo b; exit 4"], "stdin": True})
    with Events(rest, f"{box}/execs?stream=true", "POST", body) as events:
        assert events.status == 200
        got = [events.next(), events.next()]
        one = f"{box}/execs/{got[0][2]['exec_id']}"
        assert rest.post(f"{one}/stdin", b"\n").status == 204
        got += events.all()
    assert [event for event, _, _ in got] == ["start", "stdout", "stdout", "result"]
    assert [identity for _, identity, _ in got] == ["0-0", "2-0", "4-0", "4-0"]
    assert got[-1][2]["result"]["exit_code"] == 4


def test_output_resumes_from_the_last_event(rest, box):
    made = run(rest, box, "sh", "-c", "printf 123456; printf abc >&2")["exec_id"]
    with Events(rest, f"{box}/execs/{made}/output", Last_Event_ID="4-1") as events:
        got = {event: data for event, _, data in events.all()}
    assert got["stdout"]["data"] == "56" and got["stdout"]["offset"] == 4
    assert got["stderr"]["data"] == "bc"
    bad = rest.call("GET", f"{box}/execs/{made}/output", None, {"Last-Event-ID": "x"})
    assert bad.status == 400


def test_stream_and_wait_exclude_each_other(rest, box):
    assert rest.post(f"{box}/execs", {"cmd": ["true"]}, stream="1", wait="1").status == 400


# --- terminals


def shown(ws, text):
    """Reads until the terminal has shown text; gives all it showed."""
    got = b""
    while text not in got:
        opcode, payload = ws.recv()
        if opcode == ws.BINARY:
            got += payload
    return got


def test_a_terminal(rest, box):
    with rest.websocket(f"{box}/pty?cols=100&rows=30&command=" + quote("stty -echo; exec sh")) as ws:
        assert ws.status == 101
        exec_id = ws.text()["exec_id"]
        ws.send(b"stty size; echo do''ne\n")
        assert b"30 100" in shown(ws, b"done")
        ws.send({"resize": {"cols": 120, "rows": 40}})
        ws.send(b"sleep 0.2; stty size; echo re''sized\n")
        assert b"40 120" in shown(ws, b"resized")
        ws.send(b"exit 7\n")
        while True:
            opcode, payload = ws.recv()
            if opcode == ws.TEXT:
                break
    result = json.loads(payload)["result"]
    assert result["kind"] == "exited" and result["exit_code"] == 7
    assert rest.get(f"{box}/execs/{exec_id}").json["pty"] is True


def test_coming_back_to_a_terminal(rest, box):
    with rest.websocket(f"{box}/pty?command=" + quote("stty -echo; exec sh")) as ws:
        exec_id = ws.text()["exec_id"]
        ws.send(b"x=kept; echo fi''rst\n")
        shown(ws, b"first")
    with rest.websocket(f"{box}/pty?exec={exec_id}") as ws:
        assert ws.text()["exec_id"] == exec_id
        shown(ws, b"first")
        ws.send(b"echo still $x\n")
        shown(ws, b"still kept")
        ws.send(b"exit\n")


def test_bad_terminals(rest, box):
    assert rest.get(f"{box}/pty").status == 400  # no upgrade
    assert rest.get(f"{box}/pty", cols=0).status == 400
    plain = run(rest, box, "true")["exec_id"]
    for query, code in ((f"exec={plain}", "failed_precondition"), ("exec=0123", "not_found"),
                        ("user=nobody-there", "invalid_argument")):
        with rest.websocket(f"{box}/pty?{query}") as ws:
            _, _, texts, closed = ws.finish()
        assert texts[0]["error"]["code"] == code and closed == 1008, (query, texts)


# --- files


def test_batch(rest, box):
    answer = rest.post(f"{box}/files/batch", {"files": [
        {"path": "a.txt", "data": "grüße\n"},
        {"path": "deep/er/b.bin", "data_base64": base64.b64encode(b"\0\xff").decode()},
        {"path": "/tmp/run.sh", "data": "#!/bin/sh\necho ran\n", "mode": "0755"}]})
    assert answer.status == 200
    assert [entry["path"] for entry in answer.json["entries"]] == [
        "/home/user/a.txt", "/home/user/deep/er/b.bin", "/tmp/run.sh"]
    assert rest.get(f"{box}/files", path="a.txt").body == "grüße\n".encode()
    assert rest.get(f"{box}/files", path="deep/er/b.bin").body == b"\0\xff"
    assert run(rest, box, "/tmp/run.sh")["stdout"] == "ran\n"


@pytest.mark.parametrize("body, said", [
    ({}, "files is missing"), ({"files": {}}, "array"), ({"files": [1]}, "files[0]"),
    ({"files": [{"path": "a"}]}, "files[0]"), ({"files": [{"data": "x"}]}, "files[0]"),
    ({"files": [{"path": "a", "data": "x", "data_base64": "eA=="}]}, "one of"),
    ({"files": [{"path": "good", "data": "x"}, {"path": "a", "data_base64": "%"}]}, "files[1]"),
    ({"files": [{"path": "a", "data": "x", "mode": "999"}]}, "mode"),
    ({"files": [{"path": "a", "data": "x"}] * 257}, "256"),
])
def test_bad_batches_write_nothing(rest, box, body, said):
    answer = rest.post(f"{box}/files/batch", body)
    assert answer.status == 400 and said in answer.error["message"]
    assert rest.get(f"{box}/files/stat", path="good").status == 404


def test_a_batch_says_which_file_failed(rest, box):
    answer = rest.post(f"{box}/files/batch", {"files": [
        {"path": "first", "data": "x"}, {"path": "/usr/nope", "data": "x"}]})
    assert answer.status == 403
    assert answer.error["message"].startswith("files[1]")
    assert rest.get(f"{box}/files/stat", path="first").status == 200


def test_symlink_and_chown(rest, box):
    rest.put(f"{box}/files", b"hello", path="target.txt")
    assert rest.post(f"{box}/files/symlink", path="link", target="target.txt").status == 204
    assert rest.get(f"{box}/files/stat", path="link").json["target"] == "target.txt"
    assert rest.get(f"{box}/files", path="link").body == b"hello"
    assert rest.post(f"{box}/files/symlink", path="link", target="x").status == 409
    assert rest.post(f"{box}/files/symlink", path="link2").status == 400
    path = "/home/user/target.txt"
    assert rest.post(f"{box}/files/chown", path=path, user="root", owner="root").status == 204
    assert rest.get(f"{box}/files/stat", path="target.txt").json["owner"] == "root"
    assert rest.post(f"{box}/files/chown", path="target.txt", owner="root").status == 403
    assert rest.post(f"{box}/files/chown", path="target.txt").status == 400
    assert rest.post(f"{box}/files/chown", path=path, user="root",
                     owner="nosuchuser").status in (400, 404)


def test_errors_have_evidence(rest, box):
    missing = rest.get(f"{box}/files", path="nope")
    assert missing.status == 404 and missing.error["evidence"] == {"errno": "ENOENT"}


# --- archives


def make_tree(rest, box):
    run(rest, box, "sh", "-c", """
        mkdir -p tree/sub/empty && cd tree
        printf one > one.txt && head -c 3000000 /dev/urandom > big.bin && chmod 640 big.bin
        ln -s one.txt link && ln -s /etc/passwd out
        long=$(printf 'n%.0s' $(seq 150)) && mkdir -p sub/$long && echo deep > sub/$long/$long
    """)


def test_archive_out(rest, box):
    make_tree(rest, box)
    answer = rest.get(f"{box}/archive", path="tree")
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(answer.body)) as tar:
        names = {member.name: member for member in tar}
        long = "n" * 150
        assert set(names) == {"one.txt", "big.bin", "link", "out", "sub", "sub/empty", f"sub/{long}",
                              f"sub/{long}/{long}"}
        assert names["link"].linkname == "one.txt" and names["out"].linkname == "/etc/passwd"
        assert names["big.bin"].size == 3000000 and names["big.bin"].mode == 0o640
        assert names["sub/empty"].isdir() and names["one.txt"].uname == "user"
        assert tar.extractfile("one.txt").read() == b"one"
        assert tar.extractfile(f"sub/{long}/{long}").read() == b"deep\n"
        inside = run(rest, box, "sha256sum", "tree/big.bin")["stdout"].split()[0]
        assert hashlib.sha256(tar.extractfile("big.bin").read()).hexdigest() == inside


def test_archive_of_one_file_and_of_nothing(rest, box):
    rest.put(f"{box}/files", b"hello", path="x/y.txt")
    with tarfile.open(fileobj=io.BytesIO(rest.get(f"{box}/archive", path="x/y.txt").body)) as tar:
        assert tar.getnames() == ["y.txt"] and tar.extractfile("y.txt").read() == b"hello"
    rest.post(f"{box}/files/mkdir", path="empty")
    with tarfile.open(fileobj=io.BytesIO(rest.get(f"{box}/archive", path="empty").body)) as tar:
        assert tar.getnames() == []


def test_archive_refusals(rest, box):
    assert rest.get(f"{box}/archive", path="nope").status == 404
    assert rest.get(f"{box}/archive").status == 400
    assert rest.get(f"{box}/archive", path="/dev/null").status == 400
    run(rest, box, "sh", "-c", "mkdir locked && echo x > locked/f && chmod 000 locked/f")
    with pytest.raises((http.client.IncompleteRead, ConnectionError, AssertionError)):
        answer = rest.get(f"{box}/archive", path="locked")
        assert answer.status == 200  # an error before the first byte is as good as a cut


def tarball(**files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz" if files.pop("gz", False) else "w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def test_archive_in(rest, box):
    assert rest.put(f"{box}/archive", tarball(a=b"1", b=b"2" * 2_000_000), path="into").status == 204
    assert rest.get(f"{box}/files", path="into/a").body == b"1"
    assert rest.get(f"{box}/files/stat", path="into/b").json["size"] == 2_000_000
    assert rest.put(f"{box}/archive", tarball(c=b"3", gz=True), path="into",
                    compression="gzip").status == 204
    assert rest.get(f"{box}/files", path="into/c").body == b"3"


def test_archive_in_tells_what_tar_said(rest, box):
    bad = rest.put(f"{box}/archive", b"no tar at all" * 100, path="into")
    assert bad.status == 400 and "tar exited with status 2" in bad.error["message"]
    assert "tar archive" in bad.error["message"]
    assert rest.put(f"{box}/archive", tarball(a=b"1"), path="/usr/x").status == 400
    assert rest.put(f"{box}/archive", tarball(a=b"1"), path="x", compression="rar").status == 400


def test_a_full_disk_while_unpacking(rest):
    made = rest.post("/api/sandboxes", {"limits": {"diskMB": 2}}).json["id"]
    try:
        answer = rest.put(f"/api/sandboxes/{made}/archive", tarball(a=b"1" * 8_000_000), path="into")
        assert answer.status == 507, answer.body
    finally:
        rest.delete(f"/api/sandboxes/{made}")


def test_a_round_trip(rest, box):
    make_tree(rest, box)
    out = rest.get(f"{box}/archive", path="tree").body
    assert rest.put(f"{box}/archive", out, path="copy").status == 204
    assert run(rest, box, "diff", "-r", "--no-dereference", "tree", "copy")["result"]["exit_code"] == 0


# --- signed URLs


def sign(rest, box, **fields):
    answer = rest.post(f"{box}/files/sign", fields)
    assert answer.status == 200, answer.body
    return answer.json["url"]


def test_signed_urls_are_bound_to_everything(rest, box):
    rest.put(f"{box}/files", b"secret", path="a b.txt")
    url = sign(rest, box, path="a b.txt")
    assert rest.get(url).body == b"secret"
    put = sign(rest, box, path="up.txt", method="PUT", mode="0600")
    assert rest.put(put, b"new").status == 200
    assert rest.get(f"{box}/files/stat", path="up.txt").json["mode"] == "0600"
    # Any change makes it worthless, for a caller with a key as well.
    for broken in (url.replace("a%20b.txt", "up.txt"), url + "0", url.replace("expires=", "expires=9"),
                   url + "&user=root", put.replace("0600", "0666"),
                   url.replace("signature=", "signature=0")):
        assert rest.get(broken).status == 401, broken
    assert rest.put(url, b"x").status == 401
    assert rest.get(put).status == 401
    assert rest.delete(put).status == 401


def test_signed_urls_expire(rest, box):
    rest.put(f"{box}/files", b"x", path="x")
    urls = []

    def works_at_first():
        urls.append(sign(rest, box, path="x", expiresSeconds=1))
        return rest.get(urls[-1]).status == 200
    eventually(works_at_first)
    url = urls[-1]
    eventually(lambda: rest.get(url).status == 401)
    assert "expired" in rest.get(url).error["message"]


@pytest.mark.parametrize("body", [{}, {"path": ""}, {"path": "x", "method": "DEL"},
                                  {"path": "x", "expiresSeconds": 0}, {"path": "x", "mode": "9999"},
                                  {"path": "x", "expiresSeconds": 10**9}])
def test_bad_signing(rest, box, body):
    assert rest.post(f"{box}/files/sign", body).status == 400


# --- watching


def test_watch_as_events(rest, box):
    with Events(rest, f"{box}/files/watch?path=.") as events:
        assert events.status == 200
        rest.put(f"{box}/files", b"x", path="new.txt")
        seen = set()
        while ("create", "new.txt") not in seen:
            event, _, data = events.next()
            assert event == data["kind"]
            seen.add((data["kind"], data["name"]))
        run(rest, box, "rm", "new.txt")
        while data != {"kind": "remove", "name": "new.txt"}:
            _, _, data = events.next()


def test_watch_as_websocket_and_its_end(rest):
    made = rest.post("/api/sandboxes", {}).json["id"]
    box = f"/api/sandboxes/{made}"
    with rest.websocket(f"{box}/files/watch?path=/tmp&recursive=true") as ws:
        assert ws.status == 101
        run(rest, box, "sh", "-c", "mkdir /tmp/d; sleep 0.1; echo x > /tmp/d/f")
        while ws.text() != {"kind": "create", "name": "d/f"}:
            pass
        rest.delete(box)
        _, _, texts, code = ws.finish()
        assert texts[-1] == {"kind": "end"} and code == 1000


def test_watch_refusals(rest, box):
    assert rest.get(f"{box}/files/watch", path="nope").status == 404
    assert rest.get(f"{box}/files/watch").status == 400


# --- events


def test_events_replay_and_follow(rest):
    first = rest.post("/api/sandboxes", {}).json["id"]
    with Events(rest, "/api/events?after=0") as events:
        while True:
            event, identity, data = events.next()
            if event == "sandbox.created" and data["sandbox_id"] == first:
                break
        assert identity == str(data["id"])
        made = run(rest, f"/api/sandboxes/{first}", "sh", "-c", "exit 3")["exec_id"]
        rest.delete(f"/api/sandboxes/{first}")
        got = []
        while not got or got[-1]["kind"] != "sandbox.destroyed":
            _, _, data = events.next()
            if data["sandbox_id"] == first:
                got.append(data)
    assert [each["kind"] for each in got] == ["exec.started", "exec.ended", "sandbox.destroyed"]
    assert {each["exec_id"] for each in got[:2]} == {made}
    # Again from the id of the first, as a browser does after a broken connection.
    with Events(rest, f"/api/events?sandbox={first}", Last_Event_ID=identity) as events:
        assert [events.next()[2] for _ in got] == got


def test_events_as_websocket(rest):
    with rest.websocket("/api/events") as ws:
        made = rest.post("/api/sandboxes", {}).json["id"]
        while (event := ws.text()) and event["sandbox_id"] != made:
            pass
        assert event["kind"] == "sandbox.created"
    rest.delete(f"/api/sandboxes/{made}")


def test_bad_events(rest):
    assert rest.get("/api/events", after="x").status == 400
    assert rest.get("/api/events", sandbox="../x").status == 400
    assert rest.call("GET", "/api/events", None, {"Last-Event-ID": "x"}).status == 400


# --- providers and the description of it all


def test_providers(rest):
    eventually(lambda: rest.get("/api/providers").json["providers"][0]["state"] == "up")
    (native,) = rest.get("/api/providers").json["providers"]
    assert native["name"] == "native"
    assert {"exec", "files", "pty"} <= set(native["capabilities"])


def test_openapi(rest):
    document = rest.get("/api/openapi.json").json
    assert document["openapi"].startswith("3.1")
    assert "post" in document["paths"]["/api/sandboxes"]


def references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_every_reference_of_the_description_leads_somewhere(rest):
    document = rest.get("/api/openapi.json").json
    for reference in references(document):
        node = document
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
    names = [operation["operationId"] for item in document["paths"].values()
             for method, operation in item.items() if method != "parameters"]
    assert len(names) == len(set(names))


def test_every_route_with_a_foreign_id(rest):
    """Every route that names a sandbox is 404 for one that is not there, whatever else is sent."""
    document = rest.get("/api/openapi.json").json
    bodies = {"post": b"{}", "put": b"x", "patch": b"{}", "get": None, "delete": None}
    for path, item in document["paths"].items():
        if "/sandboxes/{id}" not in path:
            continue
        real = path.replace("{id}", "nosuchbox").replace("{exec}", "0123456789abcdef")
        real = real.replace("{port}", "80").replace("{name}", "x")
        for method in set(item) & set(bodies):
            answer = rest.call(method.upper(), real + "?path=x&to=y&mode=0644", bodies[method])
            assert answer.status == 404, (method, path, answer.status, answer.body)
            assert answer.error["code"] == "not_found" and answer.error["request_id"]


def test_the_table_in_the_docs_is_complete(daemon):
    listed = subprocess.run([str(daemon.build / "atolld"), "--list-routes"], check=True, text=True,
                            capture_output=True).stdout.split("\n")
    served = {tuple(line.split()) for line in listed if line and " /daytona/" not in line and " /vercel/" not in line}
    text = "".join((ROOT / "docs" / name).read_text() for name in ("api.md", "e2b.md", "mcp.md"))
    table = {tuple(row) for row in re.findall(r"^\| `([A-Z]+) (/\S+)` \| (\w+) \|", text, re.M)}
    assert table == served


# --- without a key


def test_signed_urls_need_no_key_and_survive_a_restart(daemon, tmp_path):
    with Atolld(daemon, tmp_path, "--listen", "127.0.0.1:0") as own:
        host, _, port = own.event("ready")["listen"].rpartition(":")
        stranger = Rest((host, int(port)))
        box = f"/api/sandboxes/{own.rest.post('/api/sandboxes', {}).json['id']}"
        own.rest.put(f"{box}/files", b"secret", path="a")
        url = sign(own.rest, box, path="a")
        put = sign(own.rest, box, path="b", method="PUT")
        assert stranger.get(f"{box}/files", path="a").status == 401
        assert stranger.get(url).body == b"secret"
        assert stranger.put(put, b"from outside").status == 200
        assert own.rest.get(f"{box}/files", path="b").body == b"from outside"
        assert stranger.get(url.replace("/files?", "/files/stat?")).status == 401
        assert stranger.delete(url).status == 401
        assert (own.state / "url-secret").stat().st_mode & 0o7777 == 0o600
        secret = (own.state / "url-secret").read_bytes()
        assert url.split("signature=")[1][:64] not in own.log.read_text()
        own.rest.delete(box)
        assert stranger.get(url).status == 404
    with Atolld(daemon, tmp_path) as own:
        assert (own.state / "url-secret").read_bytes() == secret


def test_events_are_for_those_with_a_key(daemon, tmp_path):
    with Atolld(daemon, tmp_path, "--listen", "127.0.0.1:0") as own:
        host, _, port = own.event("ready")["listen"].rpartition(":")
        stranger = Rest((host, int(port)))
        assert stranger.get("/api/events").status == 401
        assert stranger.websocket("/api/events").status == 401
        assert stranger.get("/api/openapi.json").status == 200


def test_events_of_other_tenants_are_not_seen(daemon, tmp_path):
    with Atolld(daemon, tmp_path, "--listen", "127.0.0.1:0") as own:
        host, _, port = own.event("ready")["listen"].rpartition(":")
        made = own.rest.post("/api/keys", {"tenant": "other", "scope": "write"}).json["key"]
        other = Rest((host, int(port)), {"X-API-Key": made})
        ours = own.rest.post("/api/sandboxes", {}).json["id"]
        theirs = other.post("/api/sandboxes", {}).json["id"]
        with Events(other, "/api/events?after=0", X_API_Key=made) as events:
            assert events.next()[2]["sandbox_id"] == theirs
        assert other.get("/api/events", all="true").status == 403
        with Events(own.rest, "/api/events?after=0&all=true") as events:
            assert {events.next()[2]["sandbox_id"] for _ in range(2)} == {ours, theirs}
        own.rest.call("DELETE", "/api/sandboxes?all=true")


# --- clients that vanish


def test_watches_of_clients_that_vanish_are_given_back(rest, box):
    """A sandbox has 32 watches; 80 clients come and go."""
    for i in range(40):
        with Events(rest, f"{box}/files/watch?path=.") as events:
            assert events.status == 200, (i, events.response.read())
        with rest.websocket(f"{box}/files/watch?path=.") as ws:
            assert ws.status == 101
    # Some vanish before the watch is in place.
    for _ in range(40):
        sock = rest.socket()
        sock.sendall(f"GET {box}/files/watch?path=. HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        sock.close()
    eventually(lambda: rest.call("HEAD", f"{box}/files/watch", path=".").status == 200)


def test_downloads_that_are_given_up(rest, daemon, box):
    run(rest, box, "sh", "-c", "mkdir big; for i in 1 2 3; do head -c 20000000 /dev/zero > big/$i; done")
    before = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    for i in range(20):
        connection = rest.connection()
        connection.request("GET", f"{box}/archive?path=big")
        if i % 2:
            connection.getresponse().read(1000)
        connection.close()
    eventually(lambda: len(os.listdir(f"/proc/{daemon.pid}/fd")) <= before)
    with tarfile.open(fileobj=io.BytesIO(rest.get(f"{box}/archive", path="big").body)) as tar:
        assert sorted(tar.getnames()) == ["1", "2", "3"]


def test_an_upload_that_is_given_up_ends_tar(rest, box):
    data = tarball(a=b"1" * 3_000_000)
    sock = rest.socket()
    sock.sendall(f"PUT {box}/archive?path=into HTTP/1.1\r\nHost: x\r\n"
                 f"Content-Length: {len(data)}\r\n\r\n".encode() + data[:1_000_000])
    eventually(lambda: any(each["state"] == "running"
                           for each in rest.get(f"{box}/execs").json["execs"]))
    sock.close()
    eventually(lambda: all(each["state"] == "ended"
                           for each in rest.get(f"{box}/execs").json["execs"]))
    (tar,) = rest.get(f"{box}/execs").json["execs"]
    assert tar["result"]["kind"] == "killed_by"


def test_streams_that_are_given_up_leave_the_command(rest, box):
    with Events(rest, f"{box}/execs?stream=true", "POST",
                json.dumps({"cmd": ["sh", "-c", "echo a; sleep 0.5; echo b"]})) as events:
        exec_id = events.next()[2]["exec_id"]
    answer = rest.get(f"{box}/execs/{exec_id}/output", follow="true")
    assert "".join(line.get("data", "") for line in answer.lines) == "a\nb\n"
    assert answer.lines[-1]["result"]["exit_code"] == 0


def late_answer(rest, box):
    """A request to a server that takes connections and says nothing."""
    server = "import socket, time; s = socket.create_server(('127.0.0.1', 8098)); print('ready', flush=True); time.sleep(60)"
    with Events(rest, f"{box}/execs?stream=true", "POST", json.dumps({"cmd": ["python3", "-c", server]})) as events:
        while "ready" not in str(events.next()[2].get("data")):
            pass
        answer = rest.post(f"{box}/git/clone", {"url": "http://127.0.0.1:8098/x.git", "timeoutSeconds": 1})
    assert answer.status == 504, answer.body
    return answer


def test_errors_lead_to_the_page_about_them(rest, box):
    """The page has a part for each kind, with what the message says."""
    page = (ROOT / "docs/troubleshooting.md").read_text()
    lost = rest.get("/api/sandboxes/nosuchsandbox")
    missing = rest.post(f"{box}/execs", {"cmd": ["no-such-program"]}, wait="true")
    git = rest.post(f"{box}/git/clone", {"url": "http://127.0.0.1:9/x.git"})
    for answer, heading, words in ((lost, "Sandbox not found", "does not exist"),
                                   (missing, "Module or program not found", "command not found"),
                                   (git, "Git operations fail", ""),
                                   (late_answer(rest, box), "Command timed out", "")):
        assert answer.status >= 400 and words in answer.error["message"], answer.body
        assert "docs/troubleshooting.md" in answer.error["hint"], answer.body
        assert f"## {heading}\n" in page and words in page.partition(f"## {heading}\n")[2]
