"""Files: through the agent inside, wherever that is."""

import hashlib
import io
import os
import tarfile
from urllib.parse import quote

import pytest

ODD_NAMES = ["with space", "-rf", "quote'\"", "ünïcödé ☃", "new\nline", "back\\slash", "%41",
             "a" * 255, "semi;colon|pipe&$(x)", "trailing "]


def put(place, box, path, data, /, **query):
    answer = place.rest.put(f"{box.path}/files", data, path=path, **query)
    assert answer.status == 200, answer.body
    return answer.json


def read(box, path):
    answer = box.get("files", path=path)
    assert answer.status == 200, answer.body
    return answer.body


def names(box, path, **query):
    answer = box.get("files/list", path=path, **query)
    assert answer.status == 200, answer.body
    return sorted(entry["path"] for entry in answer.json["entries"])


def test_write_read_and_stat(place, box):
    entry = put(place, box, "in/deep/a.txt", b"hello", mode="0640")
    assert (entry["path"], entry["size"], entry["mode"]) == (f"{place.home}/in/deep/a.txt", 5, "0640")
    assert read(box, "in/deep/a.txt") == b"hello"
    assert box.out("cat in/deep/a.txt; stat -c %a:%U in/deep/a.txt") == f"hello640:{place.user}"
    put(place, box, "in/deep/a.txt", b"")
    assert read(box, "in/deep/a.txt") == b""
    stat = box.get("files/stat", path="in/deep").json
    assert (stat["type"], stat["owner"]) == ("directory", place.user)


def test_what_commands_write_can_be_read(place, box):
    box.out("mkdir -p made; printf 'from inside' > made/b; ln -s b made/link")
    assert read(box, "made/b") == b"from inside"
    assert read(box, f"{place.home}/made/link") == b"from inside"
    assert box.get("files/stat", path="made/link").json["target"] == "b"


def test_list_move_and_remove(place, box):
    for name in ("l/one", "l/two", "l/sub/three"):
        put(place, box, name, name.encode())
    assert names(box, "l") == [f"{place.home}/l/one", f"{place.home}/l/sub", f"{place.home}/l/two"]
    assert f"{place.home}/l/sub/three" in names(box, "l", depth="2")
    assert box.post("files/move", path="l/one", to="l/sub/1").json["path"] == f"{place.home}/l/sub/1"
    assert read(box, "l/sub/1") == b"l/one"
    assert box.post("files/chmod", path="l/two", mode="0700").status == 204
    assert box.get("files/stat", path="l/two").json["mode"] == "0700"
    assert box.post("files/mkdir", path="l/x/y/z").status == 200
    assert box.post("files/symlink", path="l/link", target="two").status == 204
    refused = place.rest.delete(f"{box.path}/files", path="l")
    assert refused.status == 409, refused.body
    assert place.rest.delete(f"{box.path}/files", path="l", recursive="true").status == 204
    assert box.get("files/stat", path="l").status == 404


def test_errors_say_what_is_wrong(place, box):
    answer = box.get("files", path="/no/such/file")
    assert answer.status == 404 and "/no/such/file" in answer.error["message"], answer.body
    answer = place.rest.put(f"{box.path}/files", b"x", path="/etc/not-for-users")
    assert answer.status in (403, 409), answer.body
    assert box.get("files", path="/tmp").status in (400, 409)
    assert box.get("files/list", path="/etc/passwd").status in (400, 409)


def test_odd_names(place, box):
    for number, name in enumerate(ODD_NAMES):
        put(place, box, f"odd/{name}", str(number).encode())
    listed = box.get("files/list", path="odd").json["entries"]
    assert sorted(entry["name"] for entry in listed) == sorted(ODD_NAMES)
    for number, name in enumerate(ODD_NAMES):
        assert read(box, f"odd/{name}") == str(number).encode()
    assert box.out("set -- odd/*; echo $#") == str(len(ODD_NAMES))


def test_a_name_that_is_no_text(place, box):
    raw = quote(place.home.encode() + b"/bytes-\xff\xfe")
    assert place.rest.put(f"{box.path}/files?path={raw}", b"raw").status == 200
    assert place.rest.get(f"{box.path}/files?path={raw}").body == b"raw"


@pytest.mark.parametrize("size", [65536, 1 << 20, (20 << 20) + 1])
def test_large_files_are_whole(place, box, size):
    data = os.urandom(size)
    assert put(place, box, "large", data)["size"] == size
    assert box.out("sha256sum < large").split()[0] == hashlib.sha256(data).hexdigest()
    assert hashlib.sha256(read(box, "large")).digest() == hashlib.sha256(data).digest()
    place.rest.delete(f"{box.path}/files", path="large")


def test_several_at_once_and_archives(place, box):
    answer = box.post("files/batch", {"files": [{"path": "tree/a", "data": "1"},
                                                {"path": "tree/b/c", "data": "2", "mode": "0700"}]})
    assert answer.status == 200, answer.body
    archive = box.get("archive", path="tree").body
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        found = {m.name.removeprefix("./").removeprefix("tree/"): m for m in tar.getmembers()}
        assert found["b/c"].mode & 0o777 == 0o700
        assert tar.extractfile(found["a"]).read() == b"1"
    assert place.rest.put(f"{box.path}/archive", archive, path="again").status == 204
    assert box.out("find again -name c | xargs cat") == "2"


def test_a_full_disk_is_refused_and_the_old_file_stays(place):
    if place.is_service:
        pytest.skip("the limit of the disk is the service's")
    with place.box(limits={"diskMB": 16, "memoryMB": 256}) as small:
        put(place, small, "kept", b"old")
        answer = place.rest.put(f"{small.path}/files", bytes(40 << 20), path="kept")
        assert answer.status == 507, answer.body
        assert read(small, "kept") == b"old"
        assert small.run("head -c 40000000 /dev/zero > more")["result"]["exit_code"] != 0


def test_watch(place, box):
    box.out("mkdir -p watched")
    with place.rest.websocket(f"{box.path}/files/watch?path=watched") as ws:
        assert ws.status == 101
        box.out("echo x > watched/new; mv watched/new watched/newer; rm watched/newer")
        seen = []
        while ("remove", "newer") not in seen:
            event = ws.text()
            seen.append((event["kind"], event["name"]))
    assert ("create", "new") in seen and ("write", "new") in seen
