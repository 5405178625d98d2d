"""Files of Daytona's toolbox."""

import email
import http.client
import json
import re
from urllib.parse import unquote

import pytest
from daemons import wait_until
from rest import Rest
from test_daytona_process import Box, follow, refused


@pytest.fixture
def box(daemon, sandbox):
    return Box(daemon, sandbox)


@pytest.fixture
def stopped_box(daemon):
    """A stopped one, made by Daytona's API."""
    rest = Rest(daemon.socket)
    made = rest.post("/daytona/sandbox", {}).json["id"]
    assert rest.post(f"/daytona/sandbox/{made}/stop").status == 200
    yield Box(daemon, made)
    rest.delete(f"/daytona/sandbox/{made}")


def form(*parts):
    """A body of parts (name, bytes), and its header."""
    body = b"".join(b'--xx\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
                    % (name.encode(), data) for name, data in parts)
    return body + b"--xx--\r\n", {"Content-Type": "multipart/form-data; boundary=xx"}


def upload(box, *parts):
    return box.call("POST", "/files/bulk-upload", *form(*parts))


def download(box, *paths):
    """The parts of a download: (name, file name, contents or JSON)."""
    answer = box.call("POST", "/files/bulk-download", {"paths": paths})
    assert answer.status == 200
    message = email.message_from_bytes(
        f"Content-Type: {answer.headers['content-type']}\r\n\r\n".encode() + answer.body)
    return [(part.get_param("name", header="content-disposition"),
             unquote(re.search(r"filename\*=utf-8''(\S+)", str(part["content-disposition"]))[1]),
             part.get_payload(decode=True) if part.get_content_type() != "application/json"
             else json.loads(part.get_payload(decode=True))) for part in message.get_payload()]


def test_several_files_go_in_and_out(box):
    """The Python SDK sends all paths before the files, the TypeScript SDK each before its file."""
    for order in [("0.path", "0.file", "1.path", "1.file"), ("0.path", "1.path", "0.file", "1.file")]:
        value = {"0.path": b"d/\xc3\xa4.txt", "1.path": b"/tmp/b", "0.file": b"a\r\n--x", "1.file": b""}
        answer = upload(box, *((f"files[{name[0]}].{name[2:]}", value[name]) for name in order))
        assert answer.json["files"] == [{"path": "d/ä.txt", "bytes": 6}, {"path": "/tmp/b", "bytes": 0}]
        first, second, third = download(box, "d/ä.txt", "nope", "/tmp/b")
        assert first == ("file", "d/ä.txt", b"a\r\n--x") and third == ("file", "/tmp/b", b"")
        assert second[0] == "error" and second[2]["code"] == "FILE_NOT_FOUND"
        box.ok("DELETE", "/files", None, 204, path="/tmp/b")


def test_a_large_file_keeps_its_bytes(box):
    data = bytes(range(256)) * 40000
    answer = box.call("POST", "/files/upload", *form(("file", data)), path="big")
    assert answer.status == 200
    assert box.call("GET", "/files/download", path="big").body == data
    assert download(box, "big", "big")[1][2] == data


def test_a_full_disk_is_told_and_can_be_emptied(daemon):
    """What is there stays readable, sessions work, and files can be removed."""
    name = daemon.create("--disk", "16M")
    box = Box(daemon, name)
    answer = upload(box, ("files[0].path", b"f"), ("files[0].file", bytes(40 << 20)))
    assert answer.status == 400 and "no space" in answer.json["message"]
    assert "no space" in answer.json["errors"][0]
    box.run("head -c 100000000 /dev/zero > fill")
    box.session("s")
    assert box.say("s", "echo works")["stdout"] == "works\n"
    box.ok("DELETE", "/files", None, 204, path="fill")
    assert upload(box, ("files[0].path", b"f"), ("files[0].file", b"x")).status == 200
    daemon.atoll("rm", name)


def test_listing_and_details(box):
    box.run("mkdir -p d/e; echo hi > d/f; ln -s e d/link; chmod 640 d/f")
    entries = {e["name"]: e for e in box.ok("GET", "/files", path="d")}
    assert set(entries) == {"e", "f", "link"}
    assert entries["f"]["mode"] == "-rw-r-----" and entries["f"]["permissions"] == "0640"
    assert entries["f"]["size"] == 3 and not entries["f"]["isDir"]
    assert entries["e"]["isDir"] and entries["e"]["mode"][0] == "d" and entries["link"]["isDir"]
    assert box.ok("GET", "/files/info", path="d/f")["modTime"].endswith("Z")
    assert len(box.ok("GET", "/files", path="d", depth=2)) >= 3
    assert refused(box.call("GET", "/files", path="d/f"), 400, "INVALID_FILE_PATH")
    assert refused(box.call("GET", "/files/info", path="d/f/g"), 400, "INVALID_FILE_PATH")
    assert refused(box.call("GET", "/files/download", path="/etc/shadow"), 403,
                   "FILE_ACCESS_DENIED")


def test_folders_moves_permissions_and_removal(box):
    box.ok("POST", "/files/folder", None, 201, path="a/b", mode="700")
    assert box.ok("GET", "/files/info", path="a/b")["permissions"] == "0700"
    box.run("echo x > a/b/f; echo y > g")
    assert refused(box.call("POST", "/files/move", None, source="g", destination="a/b/f"), 409,
                   "CONFLICT")
    box.ok("POST", "/files/move", None, source="g", destination="a/g")
    assert refused(box.call("POST", "/files/move", None, source="a/g", destination="no/where"), 404,
                   "FILE_NOT_FOUND")
    box.ok("POST", "/files/permissions", None, path="a/g", mode="600", owner="daytona",
           group="daytona")
    assert box.ok("GET", "/files/info", path="a/g")["permissions"] == "0600"
    assert refused(box.call("DELETE", "/files", None, path="a"), 400, "BAD_REQUEST")
    box.ok("DELETE", "/files", None, 204, path="a", recursive="true")
    assert box.call("GET", "/files/info", path="a").status == 404


def test_find_search_and_replace(box):
    box.run("mkdir -p d/e; printf 'one\\ntwo.*\\n' > 'd/a b'; echo two.* > d/e/f.txt;"
            " printf 'two.*\\0' > d/binary")
    found = box.ok("GET", "/files/find", path="d", pattern="two.*")
    assert sorted((m["file"], m["line"], m["content"]) for m in found) == [
        ("d/a b", 2, "two.*"), ("d/e/f.txt", 1, "two.*")]
    assert box.ok("GET", "/files/find", path="d", pattern="nothing") == []
    assert box.ok("GET", "/files/search", path="d", pattern="*.txt") == {"files": ["d/e/f.txt"]}
    assert box.ok("GET", "/files/search", path="./d", pattern="*.txt") == {"files": ["./d/e/f.txt"]}
    box.run("chmod 755 'd/a b'")
    result = box.ok("POST", "/files/replace",
                    {"files": ["d/a b", "nope"], "pattern": ".*", "newValue": "-\\1"})
    assert [r["success"] for r in result] == [True, False] and result[1]["error"]
    assert box.call("GET", "/files/download", path="d/a b").body == b"one\ntwo-\\1\n"
    assert box.ok("GET", "/files/info", path="d/a b")["permissions"] == "0755"


@pytest.mark.parametrize("name", ["-delete", "-quit", "(", "!", "-"])
def test_a_path_is_never_an_option_of_a_search(box, name):
    box.run(f"mkdir -p kept; echo text > '{name}'")
    assert box.ok("GET", "/files/search", path=name, pattern="*") == {"files": [name]}
    assert box.ok("GET", "/files/find", path=name, pattern="text") == [{"file": name, "line": 1, "content": "text"}]
    assert box.run("ls -d kept")["result"] == "kept\n"


def test_an_early_answer_to_a_chunked_upload_closes_the_connection(box):
    """The client may still be sending: its next request must not be taken for the rest of this one."""
    part = b'--xx\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
    with box.rest.socket() as sock:
        sock.sendall(f"POST {box.base}/files/upload?path=/root/x HTTP/1.1\r\nHost: x\r\n"
                     "Content-Type: multipart/form-data; boundary=xx\r\nTransfer-Encoding: chunked\r\n\r\n"
                     f"{len(part) + 4:x}\r\n".encode() + part + b"data\r\n")
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        assert (answer.status, answer.getheader("Connection")) == (403, "close"), answer.read()


def test_changes_are_watched(box):
    with box.socket("/files/watch?path=.") as socket:
        assert socket.status == 101
        box.run("echo x > watched")
        seen = [json.loads(socket.recv()[1])]
        while seen[-1]["name"] != "watched":
            seen.append(json.loads(socket.recv()[1]))
        assert seen[-1]["type"] == "create"


def test_changes_below_a_directory_are_events(box):
    box.run("mkdir -p top/deep")
    with follow(box, "/files/watch?path=top&recursive=true") as stream:
        box.run("echo x > top/deep/f; rm top/deep/f")
        seen = []
        while ("remove", "deep/f") not in seen:
            event, data = next(stream)
            assert event == data["type"]
            seen.append((event, data["name"]))
    assert ("create", "deep/f") in seen


def test_a_stopped_sandbox_is_to_be_started(stopped_box):
    for verb, path, body in (("POST", "/process/execute", {"command": "true"}), ("GET", "/files?path=.", None),
                             ("GET", "/git/status?path=.", None), ("GET", "/port", None)):
        answer = stopped_box.call(verb, path, body)
        assert answer.status == 409, answer.body
        assert answer.json["message"] == f"sandbox {stopped_box.id} is stopped; start it first", answer.body


def test_ports_that_are_listened_on(box):
    box.session("s")
    box.say("s", "python3 -m http.server 4444 --bind 127.0.0.1", 202, runAsync=True)
    wait_until(lambda: box.ok("GET", "/port/4444/in-use")["isInUse"], 20, lambda: "not listening")
    assert box.ok("GET", "/port")["ports"] == [4444]
    assert box.ok("GET", "/port/4445/in-use")["isInUse"] is False
