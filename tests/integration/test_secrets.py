"""Secrets: what is stored, who sees it, and that a value is in no answer, log or file of the daemon."""

import json
import re
import subprocess
from pathlib import Path

import pytest

import daemons
from boxes import Box
from resting import kill_daemon, mortal_daemon, terminate_daemon
from rest import Rest

CANARY = "canary-91b7e0c4-do-not-tell"


@pytest.fixture(scope="module")
def mortal():
    with mortal_daemon() as daemon:
        yield daemon


@pytest.fixture
def mine(mortal):
    rest = Rest(mortal.socket, {"X-Atoll-Tenant": "acme"})
    yield rest
    for row in rest.get("/api/secrets").json["secrets"]:
        assert rest.delete(f"/api/secrets/{row['name']}").status == 204


def names(rest, **query):
    return [row["name"] for row in rest.get("/api/secrets", **query).json["secrets"]]


def found(daemon, text):
    """Files of the daemon that hold it, its log included."""
    files = [path for path in daemons.below(daemon.state.parent)
             if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 26]
    return [path for path in files if text.encode() in path.read_bytes()]


def test_create_list_replace_remove(mortal, mine):
    made = mine.post("/api/secrets", {"name": "key", "value": CANARY})
    assert made.status == 201
    assert set(made.json) == {"name", "tenant", "version", "created_at", "updated_at"}
    assert made.json["name"] == "key" and made.json["tenant"] == "acme" and made.json["version"] == 1
    again = mine.post("/api/secrets", {"name": "key", "value": CANARY})
    assert again.status == 409 and "replace" in again.error["hint"]
    replaced = mine.post("/api/secrets", {"name": "key", "value": CANARY + "2", "replace": True})
    assert replaced.status == 200 and replaced.json["version"] == 2
    assert replaced.json["created_at"] == made.json["created_at"]
    mine.post("/api/secrets", {"name": "_.-Z9", "value": "x" * 65536})
    listed = mine.get("/api/secrets")
    assert names(mine) == ["_.-Z9", "key"]
    for answer in (made, again, replaced, listed):
        assert CANARY.encode() not in answer.body
    assert mine.get("/api/quota").json["secrets"] == {"used": 2, "most": 100}
    assert b"\natoll_secrets 2\n" in mortal.rest.get("/metrics").body
    assert mine.delete("/api/secrets/_.-Z9").status == 204
    assert mine.delete("/api/secrets/_.-Z9").status == 404
    assert names(mine) == ["key"]


def test_tenants_do_not_see_each_others(mortal, mine):
    rival = Rest(mortal.socket, {"X-Atoll-Tenant": "rival"})
    mine.post("/api/secrets", {"name": "shared-name", "value": "a"})
    assert names(rival) == []
    assert rival.delete("/api/secrets/shared-name").status == 404
    assert rival.post("/api/secrets", {"name": "shared-name", "value": "b"}).status == 201
    assert rival.delete("/api/secrets/shared-name").status == 204
    assert names(mine) == ["shared-name"]
    everything = mortal.rest.get("/api/secrets", all="true").json["secrets"]
    assert [(row["tenant"], row["name"]) for row in everything] == [("acme", "shared-name")]


BAD = [b"", b"[]", b"5", f'"{CANARY}"'.encode(), b'{"name":"n","value":"' + CANARY.encode(),
       b'{"name":"n","value":"' + CANARY.encode() + b'"oops', b'{"value":"' + CANARY.encode() + b'\xff"}',
       {"name": "n"}, {"value": CANARY}, {"name": "n", "value": ""}, {"name": "n", "value": None},
       {"name": "n", "value": [CANARY]}, {"name": "n", "value": {"v": CANARY}},
       {"name": "n", "value": 5}, {"name": "n", "value": CANARY + "\0"},
       {"name": "n", "value": CANARY * 3000}, {"name": "", "value": CANARY},
       {"name": "a/b", "value": CANARY}, {"name": "..", "value": CANARY},
       {"name": "n" * 65, "value": CANARY}, {"name": 5, "value": CANARY},
       {"name": "n", "value": CANARY, "replace": "yes"}, {"name": "n", "value": CANARY, "more": 1},
       {"name": "n", "value": CANARY, "metadata": {}}]


@pytest.mark.parametrize("body", BAD, ids=range(len(BAD)))
def test_bad_input_is_refused_and_not_repeated(mortal, mine, body):
    for path in ("/api/secrets", "/secrets"):
        if path == "/secrets" and isinstance(body, dict) and {"more", "replace", "metadata"} & set(body):
            continue  # E2B's requests may have more fields
        answer = mine.post(path, body)
        assert answer.status == 400, answer.body
        assert CANARY.encode() not in answer.body
    assert names(mine) == []
    assert CANARY not in mortal.log.read_text()


def test_the_quota(mine):
    large = "x" * 65536
    assert mine.post("/api/secrets", {"name": "a", "value": large}).status == 201
    refused = mine.post("/api/secrets", {"name": "b", "value": large})
    assert refused.status == 429 and "96 KiB" in refused.error["message"]
    for i in range(99):
        assert mine.post("/api/secrets", {"name": f"n{i}", "value": "v"}).status == 201
    refused = mine.post("/api/secrets", {"name": "one-more", "value": "v"})
    assert refused.status == 429 and "--tenant-secrets" in refused.error["message"]


def test_values_are_nowhere(mortal, mine):
    """Not in a file or the log, also after the daemon was killed, and the key file is private."""
    mine.post("/api/secrets", {"name": "key", "value": CANARY})
    mine.post("/api/secrets", {"name": "key", "value": CANARY + "2", "replace": True})
    key = mortal.state / "secret.key"
    assert key.stat().st_mode & 0o7777 == 0o600
    assert re.fullmatch(r"[0-9a-f]{64}\n", key.read_text())
    # The search finds what is there.
    assert mortal.state / "atoll.db" in found(mortal, "acme") or \
        mortal.state / "atoll.db-wal" in found(mortal, "acme")
    assert found(mortal, CANARY) == []
    kill_daemon(mortal)
    mortal.start()
    assert names(mine) == ["key"]
    terminate_daemon(mortal)  # the log is moved into the database
    assert found(mortal, CANARY) == []
    mortal.start()
    assert mine.get("/api/secrets").json["secrets"][0]["version"] == 2
    limits = (Path("/proc") / str(mortal.pid) / "limits").read_text()
    assert re.search(r"^Max core file size +1 +1 ", limits, re.M), limits


def start_fails(daemon):
    """What a daemon says that does not start. Its atoll-spawn may hold standard error a moment longer."""
    with open(daemon.log, "a+b") as log:
        before = log.seek(0, 2)
        done = subprocess.run([daemon.build / "atolld", "--state", daemon.state, "--socket", daemon.socket],
                              env=daemon.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=60,
                              check=False)
        assert done.returncode == 1
        log.seek(before)
        return log.read().decode()


def test_a_lost_key_is_an_error(mortal, mine):
    """What is lost and what to do: from a backup everything is there again; else it is deleted."""
    box = Box(mortal.rest, persistent=True, env={"TOKEN": CANARY})
    try:
        mine.post("/api/secrets", {"name": "key", "value": "v"})
        terminate_daemon(mortal)
        key = mortal.state / "secret.key"
        backup = key.read_bytes()
        key.unlink()
        error = start_fails(mortal)
        assert "secret.key" in error and "is missing" in error and "--new-secret-key" in error
        assert "1 secret, 1 environment of a sandbox" in error
        assert not key.exists()
        key.write_bytes(backup[:10])
        assert "is damaged" in start_fails(mortal)
        key.write_bytes(backup)
        key.chmod(0o644)
        mortal.start()
        assert key.stat().st_mode & 0o7777 == 0o600
        assert names(mine) == ["key"]
        box.do("resume")
        assert box.out("echo ${#TOKEN}") == str(len(CANARY))  # output is kept in a journal

        terminate_daemon(mortal)
        key.unlink()
        mortal.launcher = ["sh", "-c", 'exec "$@" --new-secret-key', "sh"]
        mortal.start()
        assert names(mine) == []
        assert not (mortal.state / "disks" / f"{box.id}.env").exists()
    finally:
        mortal.launcher = []
        if mortal.process.poll() is not None:
            key.write_bytes(backup)
            mortal.start()
        box.destroy()


def test_an_environment_of_an_earlier_version(mortal):
    """It was in clear text: it is read, and encrypted by the next daemon."""
    box = Box(mortal.rest, persistent=True, env={"TOKEN": "sealed"})
    try:
        box.do("stop")
        kill_daemon(mortal)
        path = mortal.state / "disks" / f"{box.id}.env"
        assert path.read_bytes().startswith(b"\0AS\1")
        path.write_bytes(b"TOKEN=" + CANARY.encode() + b"\0OTHER=x\0")
        mortal.start()
        assert path.read_bytes().startswith(b"\0AS\1")
        assert path.stat().st_mode & 0o777 == 0o600
        assert found(mortal, CANARY) == []
        box.do("resume")
        assert box.out("echo ${#TOKEN} $OTHER") == f"{len(CANARY)} x"
    finally:
        box.destroy()


def test_an_environment_of_another_sandbox(mortal):
    """A sealed file that was copied to another sandbox cannot be read there."""
    one, two = (Box(mortal.rest, persistent=True, env={"TOKEN": token}) for token in ("one", "two"))
    try:
        one.do("stop"), two.do("stop")
        kill_daemon(mortal)
        files = [mortal.state / "disks" / f"{box.id}.env" for box in (one, two)]
        files[1].write_bytes(files[0].read_bytes())
        mortal.start()
        one.do("resume")
        assert one.out("echo $TOKEN") == "one"
        refused = two.post("resume")
        assert refused.status >= 400, refused.body
    finally:
        one.destroy(), two.destroy()


def test_the_command_line(mortal, tmp_path):
    file = tmp_path / "token"
    file.write_text(CANARY + "\n")
    made = mortal.atoll("secret", "create", "cli", input=CANARY + "\n", check=True)
    assert made.stdout == "cli\n"
    again = mortal.atoll("secret", "create", "cli", "--from-file", file)
    assert again.returncode != 0 and "exists" in again.stderr
    mortal.atoll("secret", "create", "cli", "--replace", "--from-file", file, check=True)
    table = mortal.atoll("secret", "ls", check=True).stdout
    assert re.search(r"^cli +2 ", table, re.M), table
    assert json.loads(mortal.atoll("secret", "ls", "--json", check=True).stdout)["secrets"][0]["version"] == 2
    # The value is not an argument, and what cannot be a value is refused.
    assert mortal.atoll("secret", "create", "cli2", CANARY, input="x").returncode == 2
    for text in ("", "\n", "x" * 65537):
        refused = mortal.atoll("secret", "create", "cli2", input=text)
        assert refused.returncode != 0 and "value" in refused.stderr
    mortal.atoll("secret", "create", "full", input="x" * 65536 + "\r\n", check=True)
    mortal.atoll("secret", "rm", "cli", "full", check=True)
    assert mortal.atoll("secret", "rm", "cli").returncode != 0
    assert found(mortal, CANARY) == []


def test_e2b(mine):
    made = mine.post("/secrets", {"name": "OpenAI", "value": CANARY, "metadata": {"team": "a"}})
    assert made.status == 201, made.body
    secret = made.json
    assert set(secret) == {"secretID", "name", "currentVersion", "metadata", "createdAt", "updatedAt"}
    assert secret["name"] == "openai" and secret["currentVersion"] == 1
    assert secret["secretID"].startswith("sec_") and secret["metadata"] == {"team": "a"}
    assert mine.post("/secrets", {"name": "openai", "value": "x"}).status == 409
    for name in ("sec_x", "a.b", "a b", "n" * 65):
        assert mine.post("/secrets", {"name": name, "value": CANARY}).status == 400, name
    for metadata in ([], {"k": 5}, {"k" * 129: "v"}, {"k": "v" * 1025}, {str(i): "" for i in range(33)}):
        assert mine.post("/secrets", {"name": "m", "value": "v", "metadata": metadata}).status == 400
    for at in (secret["secretID"], "openai", "OPENAI"):
        assert mine.get(f"/secrets/{at}").json == secret
    updated = mine.post(f"/secrets/{secret['secretID']}", {"value": CANARY + "2"})
    assert updated.status == 200 and updated.json["currentVersion"] == 2
    assert updated.json["metadata"] == {"team": "a"}
    updated = mine.post("/secrets/openai", {"value": "x", "metadata": {}})
    assert updated.json["metadata"] == {} and updated.json["currentVersion"] == 3
    for i in range(4):
        mine.post("/secrets", {"name": f"p{i}", "value": "v"})
    pages, token = [], None
    while True:
        page = mine.get("/secrets", limit=2, **({"nextToken": token} if token else {}))
        pages.append([row["name"] for row in page.json])
        assert CANARY.encode() not in page.body
        if not (token := page.headers["X-Next-Token"]):
            break
    assert pages == [["openai", "p0"], ["p1", "p2"], ["p3"]]
    assert names(mine) == ["openai", "p0", "p1", "p2", "p3"]
    for answer in (mine.get("/secrets/nothing"), mine.delete("/secrets/nothing"),
                   mine.post("/secrets/nothing", {"value": "x"})):
        assert answer.status == 404 and answer.json["code"] == 404
    assert mine.delete(f"/secrets/{secret['secretID']}").status == 204
    assert mine.get("/secrets/openai").status == 404
