"""Output without an end: whoever follows gets all of it, however little the journal keeps; whoever was
not there is told what is missing where it is."""

import base64
import contextlib
import hashlib
import json
import subprocess
import threading

import pytest
from conftest import BUILD, need_build, running, wait_until
from envd import create
from rest import PATIENCE, Rest

KEPT = 256 << 10
LAST = 13_000_000  # of the lines
SCRIPT = f"seq {LAST}"
SIZE = sum(9 * 10 ** (n - 1) * (n + 1) for n in range(1, 8)) + (LAST - 10**7 + 1) * 9
assert SIZE > 100_000_000


@pytest.fixture(scope="module")
def small():
    """A daemon that keeps little of what commands write."""
    need_build()
    with running(BUILD, ATOLL_JOURNAL_MAX=str(KEPT)) as started:
        yield started


@pytest.fixture(scope="module")
def rest(small):
    return Rest(small.socket)


@pytest.fixture
def name(small):
    made = small.create()
    yield made
    small.atoll("rm", made)


@pytest.fixture
def box(name):
    return f"/api/sandboxes/{name}"


@pytest.fixture(scope="module")
def expected():
    digest = hashlib.md5()
    with subprocess.Popen(["seq", str(LAST)], stdout=subprocess.PIPE) as seq:
        while piece := seq.stdout.read(1 << 20):
            digest.update(piece)
    return SIZE, digest.hexdigest()


class Sum:
    """Counts and digests bytes as they come."""

    def __init__(self):
        self.size, self.digest = 0, hashlib.md5()

    def add(self, piece):
        self.size += len(piece)
        self.digest.update(piece)

    @property
    def got(self):
        return self.size, self.digest.hexdigest()


def bytes_of(line):
    return base64.b64decode(line["data_base64"]) if "data_base64" in line else line["data"].encode()


def lines_of(rest, method, path, body=None):
    """The lines of an answer as they come."""
    connection = rest.connection()
    connection.request(method, path, json.dumps(body) if body else None)
    with contextlib.closing(connection), connection.getresponse() as response:
        for line in response:
            yield json.loads(line)


def stdout_of(lines):
    """Reads to the end; nothing is missing, or there twice."""
    total, result = Sum(), None
    for line in lines:
        assert "truncated" not in line, line
        if line.get("stream") == "stdout":
            assert line["offset"] == total.size
            total.add(bytes_of(line))
        result = line.get("result", result)
    assert result["exit_code"] == 0, result
    return total


def start(rest, box, script):
    answer = rest.post(f"{box}/execs", {"cmd": ["bash", "-c", script]})
    return f"{box}/execs/{answer.json['exec_id']}"


def ended(rest, one):
    return rest.get(one).json["state"] == "ended"


def put(rest, box, path):
    assert rest.put(f"{box}/files", b"", path=path).status in (200, 201, 204)


def waiting_for(path):
    return f"until [ -e {path} ]; do sleep 0.05; done; "


def open_stream(rest, box, script):
    """Starts a command and follows it, as far as the head of the answer."""
    body = json.dumps({"cmd": ["bash", "-c", script]}).encode()
    sock = rest.socket()
    sock.sendall((f"POST {box}/execs?stream=true HTTP/1.1\r\nHost: localhost\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
    got = b""
    while b"exec_id" not in got or not got.rstrip().endswith(b"}"):
        got += sock.recv(1)
    return sock, f"{box}/execs/{json.loads(got[got.rindex(b'{'):])['exec_id']}"


class TestWhoFollowsGetsAllOfIt:
    def test_lines(self, rest, box, expected):
        lines = lines_of(rest, "POST", f"{box}/execs?stream=true", {"cmd": ["sh", "-c", SCRIPT]})
        assert stdout_of(lines).got == expected

    def test_websocket(self, rest, box, expected):
        totals, texts = {1: Sum(), 2: Sum()}, []
        with rest.websocket(f"{box}/execs/stream") as ws:
            ws.send({"cmd": ["sh", "-c", f"{SCRIPT} & seq 200000 >&2; wait"]})
            while (message := ws.recv())[0] != ws.CLOSE:
                if message[0] == ws.TEXT:
                    texts.append(json.loads(message[1]))
                else:
                    totals[message[1][0]].add(message[1][1:])
        assert totals[1].got == expected
        assert totals[2].size == len("".join(f"{i}\n" for i in range(1, 200001)))
        assert texts[-1]["result"]["exit_code"] == 0
        assert not any("truncated" in text for text in texts)

    @pytest.mark.parametrize("verb", ["run", "exec"])
    def test_command_line(self, small, name, expected, verb):
        where = [name] if verb == "exec" else []
        done = small.atoll(verb, *where, "--", "sh", "-c", SCRIPT, binary=True)
        total = Sum()
        total.add(done.stdout)
        assert (done.returncode, done.stderr) == (0, b"")
        assert total.got == expected

    def test_logs(self, small, rest, box, name, expected):
        one = start(rest, box, f"echo begin; {waiting_for('/tmp/go')}{SCRIPT}")
        command = [str(BUILD / "atoll"), "logs", "--follow", name, one.split("/")[-1]]
        with subprocess.Popen(command, env=small.env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as logs:
            assert logs.stdout.readline() == b"begin\n"
            put(rest, box, "/tmp/go")
            total = Sum()
            while piece := logs.stdout.read(1 << 20):
                total.add(piece)
            assert (logs.stderr.read(), logs.wait()) == (b"", 0)
        assert total.got == expected

    def test_e2b(self, small, expected):
        envd = create(small)
        total, end = Sum(), None
        stream = envd.start("/bin/sh", "-c", SCRIPT)
        for message in stream:
            event = message["event"]
            total.add(base64.b64decode(event.get("data", {}).get("stdout", "")))
            end = event.get("end", end)
        assert end["exitCode"] == 0 and "error" not in stream.end
        assert total.got == expected
        stream.close()
        envd.kill()

    def test_characters_of_several_bytes(self, rest, box):
        count = 1_000_000
        lines = lines_of(rest, "POST", f"{box}/execs?stream=true",
                         {"cmd": ["sh", "-c", f"yes ä€𝄞 | head -n {count}"]})
        whole = Sum()
        for _ in range(100):
            whole.add("ä€𝄞\n".encode() * (count // 100))
        assert stdout_of(lines).got == whole.got

    def test_what_is_collected(self, rest, box):
        """More than the journal keeps, and less than an answer has."""
        answer = rest.post(f"{box}/execs", {"cmd": ["seq", "100000"]}, wait="true").json
        assert answer["stdout"] == "".join(f"{i}\n" for i in range(1, 100001))
        assert "stdout_truncated" not in answer


class TestGaps:
    def test_are_told_where_they_are(self, rest, box):
        """A command that still runs, of which nobody saw the middle."""
        script = f"seq 1000000; touch /tmp/done; {waiting_for('/tmp/go')}echo more; "
        one = start(rest, box, script + waiting_for("/tmp/end") + "echo end")
        wait_until(lambda: rest.get(f"{box}/files/stat", path="/tmp/done").status == 200, 60,
                   lambda: "the command waits for nobody")
        produced = 6888896
        at, lines = 0, lines_of(rest, "GET", f"{one}/output?follow=true")
        for line in lines:
            if "truncated" in line:
                break
            assert line["offset"] == at
            at += len(bytes_of(line))
        gap = line["truncated"]
        assert (gap["stream"], gap["from"]) == ("stdout", at) and 0 < at <= KEPT
        at = gap["to"]
        while at < produced:  # the last bytes may be on their way, and come now
            line = next(lines)
            gap = line.get("truncated")
            assert (gap["from"] if gap else line["offset"]) == at
            at = gap["to"] if gap else at + len(bytes_of(line))
        assert at == produced
        put(rest, box, "/tmp/go")
        assert next(lines) == {"stream": "stdout", "offset": produced, "data": "more\n"}
        put(rest, box, "/tmp/end")
        assert next(lines)["data"] == "end\n"
        assert next(lines)["result"]["stdout_bytes"] == produced + 9

    def test_are_no_success(self, small, rest, box, name):
        one = start(rest, box, SCRIPT)
        wait_until(lambda: ended(rest, one), 60, lambda: "it has not ended")
        done = small.atoll("logs", name, one.split("/")[-1])
        assert done.returncode == 125 and len(done.stdout) <= KEPT
        assert f"{SIZE - len(done.stdout)} bytes of stdout are missing here" in done.stderr


class TestWhoDoesNotTakeIt:
    def test_holds_the_command_until_it_is_gone(self, rest, box):
        sock, one = open_stream(rest, box, f"{SCRIPT}; touch /tmp/through")
        other, second = Sum(), []

        def follow():
            for line in lines_of(rest, "GET", f"{one}/output?follow=true"):
                assert "truncated" not in line, line
                other.add(bytes_of(line) if "stream" in line else b"")
                second.append(line.get("result"))

        thread = threading.Thread(target=follow)
        thread.start()
        # More than is kept, and then nothing: the one that does not read has it all to come.
        wait_until(lambda: other.size > KEPT, 60, lambda: "the other one got nothing")
        assert not ended(rest, one)
        assert other.size < SIZE // 2
        sock.close()
        thread.join(PATIENCE)
        assert other.size == SIZE and second[-1]["exit_code"] == 0

    def test_and_nobody_else_does(self, rest, box):
        sock, one = open_stream(rest, box, SCRIPT)
        sock.close()
        wait_until(lambda: ended(rest, one), 60, lambda: "nobody reads it, and it waits")
        assert rest.get(one).json["result"]["stdout_bytes"] == SIZE


def test_a_daemon_that_dies(small, rest, box, name, expected):
    """A follower that comes back goes on where it was."""
    command = [str(BUILD / "atoll"), "exec", name, "--", "sh", "-c", SCRIPT]
    with subprocess.Popen(command, env=small.env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as follower:
        total = Sum()
        for share in (4, 2):
            while total.size < SIZE // share:
                total.add(follower.stdout.read(1 << 20))
            small.process.kill()
            small.process.wait()
            small.start()
        while piece := follower.stdout.read(1 << 20):
            total.add(piece)
        said = follower.stderr.read().decode()
        assert follower.wait() == 0 and "missing" not in said, said
    assert total.got == expected
