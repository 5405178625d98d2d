"""Files: every format, metadata, lists, watching, signed URLs."""

import io
import urllib.error
import urllib.request

import pytest
from e2b import (FileNotFoundException, FilesystemEventType, FileType, InvalidArgumentException,
                 NotEnoughSpaceException)
from e2b.sandbox.filesystem.filesystem import WriteEntry


@pytest.mark.parametrize("make", [str, str.encode, lambda s: io.BytesIO(s.encode()), io.StringIO])
def test_every_format(box, make):
    text = "Zeile\nµ ☃\n"
    info = box.files.write("form/f.txt", make(text))
    assert (info.name, info.path, info.type) == ("f.txt", "/home/user/form/f.txt", FileType.FILE)
    assert box.files.read(info.path) == text
    assert bytes(box.files.read(info.path, format="bytes")) == text.encode()
    assert b"".join(box.files.read(info.path, format="stream")) == text.encode()


def test_packed_empty_large(box):
    box.files.write("packed", "x" * 1000, gzip=True)
    assert box.files.read("packed", gzip=True) == "x" * 1000
    box.files.write("empty", "")
    assert box.files.read("empty") == ""
    large = b"abcdefg" * 700_000
    box.files.write("large", large)
    assert bytes(box.files.read("large", format="bytes")) == large


def test_several(box):
    entries = [WriteEntry(path=f"many/{i}/f", data=f"content {i}") for i in range(3)]
    infos = box.files.write_files(entries)
    assert [i.path for i in infos] == [f"/home/user/many/{i}/f" for i in range(3)]
    assert [box.files.read(i.path) for i in infos] == [e["data"] for e in entries]


def test_info_and_lists(box):
    box.files.write("tree/a.txt", "12345")
    box.files.write("tree/b/c.txt", "")
    assert box.files.make_dir("tree/d") is True
    assert box.files.make_dir("tree/d") is False
    info = box.files.get_info("tree/a.txt")
    assert (info.size, info.mode, info.permissions, info.owner, info.group) == (
        5, 0o644, "-rw-r--r--", "user", "user")
    assert [e.name for e in box.files.list("tree")] == ["a.txt", "b", "d"]
    assert [e.path for e in box.files.list("tree", depth=2)][2] == "/home/user/tree/b/c.txt"
    with pytest.raises(InvalidArgumentException):
        box.files.list("tree", depth=0)
    with pytest.raises(InvalidArgumentException):
        box.files.list("tree/a.txt")


def test_rename_remove_exists(box):
    box.files.write("old", "content")
    assert box.files.rename("old", "made/new").path == "/home/user/made/new"
    assert (box.files.exists("old"), box.files.exists("made/new")) == (False, True)
    box.files.remove("made")
    assert not box.files.exists("made")


def test_metadata(box):
    metadata = {"author": "me", "kind": "report 1"}
    assert box.files.write("m", "x", metadata=metadata).metadata == metadata
    assert box.files.get_info("m").metadata == metadata
    box.files.write("m", "x")
    assert not box.files.get_info("m").metadata


def test_what_goes_wrong(box):
    with pytest.raises(FileNotFoundException, match="/home/user/nothing"):
        box.files.read("nothing")
    with pytest.raises(FileNotFoundException):
        box.files.list("nothing")
    with pytest.raises(FileNotFoundException):
        box.files.rename("nothing", "something")
    with pytest.raises(InvalidArgumentException):
        box.files.read("/home")
    # A disk in a pool shows the room of the pool; its limit is that of the template.
    box.commands.run("free=$(($(stat -f -c '%a * %S' .))); [ $free -lt $((10 << 30)) ] || free=$((10 << 30)); "
                     "fallocate -l $((free - 10000000)) ballast", user="root")
    with pytest.raises(NotEnoughSpaceException):
        box.files.write("full", b"x" * 20_000_000)


def test_watch(box, until):
    box.files.make_dir("w")
    handle = box.files.watch_dir("w", include_entry=True)
    box.files.write("w/f", "x")
    events = []
    until(lambda: events.extend(handle.get_new_events()) or len(events) >= 3)
    assert [e.type for e in events] == [FilesystemEventType.CREATE, FilesystemEventType.CHMOD,
                                        FilesystemEventType.WRITE]
    assert {e.name for e in events} == {"f"}
    assert events[0].entry.path == "/home/user/w/f"
    handle.stop()
    with pytest.raises(FileNotFoundException):
        box.files.watch_dir("nothing")


def test_signed_urls(box):
    upload = box.upload_url("signed.txt", use_signature_expiration=60)
    request = urllib.request.Request(upload, b"signed", {"Content-Type": "application/octet-stream"})
    assert urllib.request.urlopen(request).status == 200
    download = box.download_url("signed.txt")
    assert urllib.request.urlopen(download).read() == b"signed"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(download.replace("signed.txt", "other.txt"))
    assert refused.value.code == 401
