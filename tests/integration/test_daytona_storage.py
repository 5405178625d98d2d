"""Object storage for the files of images: uploads in parts, in any order, and who may send them."""

import hashlib
import io
import os
import re
import tarfile
import threading

import pytest
from daemons import wait_until
from listening import listening_daemon
from rest import Rest

PART = 1 << 20


@pytest.fixture(scope="module")
def server():
    with listening_daemon() as (daemon, address):
        yield daemon, address


class Store:
    """A client with the session token of push access, as S3 clients send it."""

    def __init__(self, daemon, address, tenant):
        made = Rest(daemon.socket).post("/api/keys", {"tenant": tenant, "scope": "write"}).json
        self.key_id = made["id"]
        self.api = Rest(address, {"Authorization": f"Bearer {made['key']}"})
        self.access = self.api.get("/daytona/object-storage/push-access").json
        self.s3 = Rest(address, {"x-amz-security-token": self.access["sessionToken"],
                                 "Authorization": "AWS4-HMAC-SHA256 Credential=x"})
        self.bucket = f"/daytona/object-storage/{self.access['bucket']}"

    def path(self, name):
        return f"{self.bucket}/{self.access['organizationId']}/{name}/context.tar"

    def begin(self, name):
        answer = self.s3.post(self.path(name) + "?uploads")
        assert answer.status == 200, answer.body
        return f"{self.path(name)}?uploadId=" + re.search(rb"<UploadId>(\w+)<", answer.body)[1].decode()

    def part(self, at, number, body):
        return self.s3.put(f"{at}&partNumber={number}", body)

    def finish(self, at, count):
        return self.s3.call("POST", at, b"".join(b"<Part><PartNumber>%d</PartNumber></Part>" % (i + 1) for i in range(count)))

    def has(self, name):
        return self.s3.call("HEAD", self.path(name)).status == 200


@pytest.fixture
def store(server):
    return Store(*server, f"t{os.urandom(4).hex()}")


def archive(**files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def split(data):
    return [data[i:i + PART] for i in range(0, len(data), PART)]


def build(store, name, dockerfile, *hashes):
    made = store.api.post("/daytona/snapshots", {"name": name, "buildInfo": {
        "dockerfileContent": dockerfile, "contextHashes": list(hashes)}})
    assert made.status == 200, made.body
    path = f"/daytona/snapshots/{name}"
    wait_until(lambda: store.api.get(path).json["state"] in ("active", "build_failed"), 30,
               lambda: store.api.get(path).body)
    return store.api.get(path).json


def content(store, snapshot, path):
    made = store.api.post("/daytona/sandbox", {"snapshot": snapshot}).json
    try:
        return store.api.get(f"/daytona/toolbox/{made['id']}/files/download?path={path}").body
    finally:
        store.api.delete(f"/daytona/sandbox/{made['id']}")


def test_parts_in_the_wrong_order(store):
    data = os.urandom(4 * PART)
    parts, answers = split(archive(dir__big=data)), {}
    at = store.begin("aa")

    def send(number):
        answers[number] = store.part(at, number, parts[number - 1]).status

    early = [threading.Thread(target=send, args=(n,)) for n in range(len(parts), 1, -1)]
    for thread in early:
        thread.start()
    assert store.finish(at, len(parts)).status == 400
    send(1)
    for thread in early:
        thread.join()
    assert answers == {n: 200 for n in range(1, len(parts) + 1)}
    assert store.part(at, 1, parts[0]).status == 200  # once more: the answer may have been lost
    assert not store.has("aa")
    assert store.finish(at, len(parts) - 1).status == 400
    assert store.finish(at, len(parts)).status == 200
    assert store.has("aa") and store.finish(at, len(parts)).status == 404
    assert build(store, "parts", "FROM scratch\nCOPY dir /here\n", "aa")["state"] == "active"
    assert hashlib.sha256(content(store, "parts", "/here/big")).digest() == hashlib.sha256(data).digest()


def test_a_part_that_breaks_off_is_sent_again(store):
    parts = split(archive(big=os.urandom(2 * PART)))
    at = store.begin("ab")
    connection = store.s3.connection()
    connection.putrequest("PUT", f"{at}&partNumber=1")
    for name, value in {**store.s3.headers, "Content-Length": str(PART)}.items():
        connection.putheader(name, value)
    connection.endheaders(parts[0][:PART // 2])
    connection.close()
    for number, part in enumerate(parts, 1):
        assert store.part(at, number, part).status == 200
    assert store.finish(at, len(parts)).status == 200
    assert build(store, "broken", "FROM scratch\nCOPY big /\n", "ab")["state"] == "active"


def test_several_contexts_are_one_tree(store):
    for name, files in {"b1": {"dir__a": b"one", "dir__b": b"one"}, "b2": {"dir__b": b"two", "c": b"two"}}.items():
        assert store.s3.put(store.path(name), archive(**files)).status == 200
    made = build(store, "several", "FROM scratch\nCOPY dir /dir\nCOPY c /dir/c\n", "b1", "b2")
    assert made["state"] == "active", made
    assert [content(store, "several", f"/dir/{name}") for name in "abc"] == [b"one", b"two", b"two"]


def test_a_context_that_was_not_uploaded(store):
    made = store.api.post("/daytona/snapshots", {"name": "without", "buildInfo": {
        "dockerfileContent": "FROM scratch\nCOPY x /\n", "contextHashes": ["dd"]}})
    assert made.status == 404 and "upload its files first" in made.json["message"]


def test_tokens_are_for_one_tenant_and_end_with_their_key(server, store):
    daemon, _ = server
    other = Store(*server, f"o{os.urandom(4).hex()}")
    assert store.s3.put(store.path("cc"), archive(a=b"a")).status == 200
    assert store.has("cc") and not other.has("cc")
    assert other.s3.put(store.path("cc"), archive(a=b"a")).status == 400
    at = store.begin("ce")
    assert other.s3.put(at.replace(store.access["organizationId"], other.access["organizationId"]) + "&partNumber=1",
                        b"x").status == 404
    assert store.s3.delete(at).status == 204 and store.part(at, 1, b"x").status == 404
    forged = store.access["sessionToken"].replace(store.access["organizationId"], other.access["organizationId"])
    assert Rest(store.s3.address, {"x-amz-security-token": forged}).get(other.bucket).status == 401
    assert Rest(daemon.socket).delete(f"/api/keys/{store.key_id}").status in (200, 204)
    assert store.s3.put(store.path("cd"), archive(a=b"a")).status == 401


def test_bounds(store):
    begun = [store.begin(f"e{i}") for i in range(2)]
    assert store.s3.post(store.path("ef") + "?uploads").status == 429
    for at in begun:
        assert store.s3.delete(at).status == 204
    assert store.s3.call("PUT", store.path("ef"), b"x", {"x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}).status == 501
    assert store.s3.put(store.path("ef"), b"this is no archive").status == 400
    at = store.begin("ef")
    for number in (0, 10001, "x"):
        assert store.part(at, number, b"x").status == 400
