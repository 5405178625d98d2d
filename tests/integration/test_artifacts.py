"""Files kept of sandboxes that are gone, and sessions in lists."""

import base64
import contextlib
import hashlib
import os
import shutil
import signal
import sqlite3
import tempfile
from pathlib import Path

import pytest
from conftest import BUILD, ROOT, Daemon, need_build, wait_until
from rest import Rest
from resting import agent_of


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture
def box(rest):
    """A sandbox that keeps nothing by itself."""
    made = rest.post("/api/sandboxes", {}).json["id"]
    yield made
    rest.delete(f"/api/sandboxes/{made}")


def sh(rest, sandbox, script, **fields):
    answer = rest.post(f"/api/sandboxes/{sandbox}/execs",
                       {"cmd": ["sh", "-c", script], **fields}, wait="true")
    assert answer.status == 200 and answer.json["result"]["exit_code"] == 0, answer.body


def made_with(rest, script, patterns, **fields):
    """The id of a sandbox with these patterns in which the script has run."""
    answer = rest.post("/api/sandboxes", {"artifacts": patterns, **fields})
    assert answer.status == 201, answer.body
    sh(rest, answer.json["id"], script)
    return answer.json["id"]


def kept(rest, sandbox):
    answer = rest.get(f"/api/artifacts/{sandbox}")
    assert answer.status == 200, answer.body
    return answer.json


def paths(listing):
    return [f["path"] for f in listing["files"]]


def test_kept_when_the_owner_destroys_it(rest):
    made = made_with(rest, """
        mkdir -p out/deep .hidden; echo one > out/a.png; echo two > out/deep/b.png
        echo three > report.html; echo four > other; echo five > .hidden/c.png
        ln -s /etc/passwd out/link.png; mkfifo out/pipe.png; mkdir out/dir.png
        touch -d 2001-02-03T04:05:06Z report.html""", ["out/**/*.png", "report.html", "**/c.png"])
    assert rest.get(f"/api/sandboxes/{made}").json["artifacts"] == [
        "out/**/*.png", "report.html", "**/c.png"]
    assert rest.get(f"/api/artifacts/{made}").status == 404
    assert rest.delete(f"/api/sandboxes/{made}").status == 204
    listing = kept(rest, made)
    assert paths(listing) == ["out/a.png", "out/deep/b.png", "report.html"]
    assert listing["complete"] is True and "reason" not in listing
    assert (listing["count"], listing["size"]) == (3, 14)
    assert listing["files"][2] == {"path": "report.html", "size": 6, "mime": "text/html",
                                   "mtime": "2001-02-03T04:05:06.000Z"}
    answer = rest.get(f"/api/artifacts/{made}/out/deep/b.png")
    assert answer.body == b"two\n"
    assert answer.headers["Content-Disposition"].endswith("b.png")
    assert rest.call("HEAD", f"/api/artifacts/{made}/report.html").headers["Content-Length"] == "6"
    assert rest.get(f"/api/artifacts/{made}/out%2Fa.png").status == 400
    for path in ("0", "out/link.png", "other", "../x", "nope"):
        assert rest.get(f"/api/artifacts/{made}/{path}").status in (400, 404), path
    assert rest.delete(f"/api/artifacts/{made}").status == 204
    assert rest.delete(f"/api/artifacts/{made}").status == 404
    assert rest.get(f"/api/artifacts/{made}").status == 404
    assert rest.get(f"/api/artifacts/{made}/report.html").status == 404


def test_told_when_it_is_destroyed(rest, box):
    sh(rest, box, "echo 1 > a; echo 2 > b; echo 3 > c; echo 4 > d")
    assert rest.call("DELETE", f"/api/sandboxes/{box}?artifacts=/etc/passwd").status == 400
    assert rest.get(f"/api/sandboxes/{box}").json["state"] == "running"
    assert rest.call("DELETE", f"/api/sandboxes/{box}?artifacts=a,b&artifacts=d").status == 204
    assert paths(kept(rest, box)) == ["a", "b", "d"]


def test_nothing_is_kept_unasked(rest, box):
    sh(rest, box, "echo 1 > a")
    assert rest.delete(f"/api/sandboxes/{box}").status == 204
    assert rest.get(f"/api/artifacts/{box}").status == 404
    made = made_with(rest, "true", ["no/such/thing"])
    assert rest.delete(f"/api/sandboxes/{made}").status == 204
    listing = kept(rest, made)
    assert listing["files"] == [] and listing["complete"] is True


def test_kept_at_the_deadline(rest):
    made = made_with(rest, "echo done > result", ["result"], limits={"timeoutSeconds": 600})
    assert rest.post(f"/api/sandboxes/{made}/timeout", {"seconds": 1}).status == 200
    wait_until(lambda: rest.get(f"/api/sandboxes/{made}").json["state"] == "ended", 30,
               lambda: "it lives on")
    assert rest.get(f"/api/artifacts/{made}/result").body == b"done\n"


def test_kept_of_a_run(rest):
    answer = rest.post("/api/run", {"cmd": ["sh", "-c", "echo 42 > answer"],
                                    "artifacts": ["answer"]})
    assert rest.get(f"/api/artifacts/{answer.json['sandbox_id']}/answer").body == b"42\n"


def test_what_does_not_fit_is_said(rest):
    made = made_with(rest, "truncate -s 300M big; echo x > a; echo y > z", ["*"],
                     limits={"diskMB": 400, "memoryMB": 512})
    assert rest.delete(f"/api/sandboxes/{made}").status == 204
    listing = kept(rest, made)
    assert paths(listing) == ["a", "z"]
    assert listing["complete"] is False
    assert "big" in listing["reason"] and "256 MiB" in listing["reason"]


def test_what_cannot_be_read_is_said(rest):
    made = made_with(rest, "echo x > a", ["*"])
    sh(rest, made, "echo secret > /home/user/b; chmod 600 /home/user/b", user="root")
    assert rest.delete(f"/api/sandboxes/{made}").status == 204
    listing = kept(rest, made)
    assert paths(listing) == ["a"] and listing["complete"] is False
    assert listing["reason"] == "b: Permission denied"


def test_no_more_than_a_thousand(rest):
    made = made_with(rest, "mkdir d; cd d; seq 1 1003 | xargs touch", ["d/"])
    assert rest.delete(f"/api/sandboxes/{made}").status == 204
    listing = kept(rest, made)
    assert listing["count"] == 1000 and listing["complete"] is False
    assert "1000" in listing["reason"]


def test_large_files_arrive_whole(rest):
    """Copied in many turns, in which the daemon answers others."""
    made = made_with(rest, "head -c 20000000 /dev/urandom > big; sha256sum big > sum",
                     ["big", "sum"])
    assert rest.delete(f"/api/sandboxes/{made}").status == 204
    body = rest.get(f"/api/artifacts/{made}/big").body
    assert hashlib.sha256(body).hexdigest() in rest.get(f"/api/artifacts/{made}/sum").body.decode()


def test_names_need_not_be_utf8(rest):
    made = made_with(rest, r"echo x > $(printf 'a\377')", ["a*"])
    assert rest.delete(f"/api/sandboxes/{made}").status == 204
    entry = kept(rest, made)["files"][0]
    assert base64.b64decode(entry["path_base64"]) == b"a\xff"
    assert rest.get(f"/api/artifacts/{made}/a%FF").body == b"x\n"


def test_one_that_failed_keeps_nothing(rest):
    made = made_with(rest, "echo x > a", ["a"])
    os.kill(agent_of(made), signal.SIGKILL)
    wait_until(lambda: rest.get(f"/api/sandboxes/{made}").json["state"] == "failed", 30,
               lambda: "it lives on")
    assert rest.delete(f"/api/sandboxes/{made}").status == 204
    assert rest.get(f"/api/artifacts/{made}").status == 404


def test_one_that_does_not_answer_is_destroyed_all_the_same(rest):
    made = made_with(rest, "echo x > a", ["a"])
    os.kill(agent_of(made), signal.SIGSTOP)
    assert rest.delete(f"/api/sandboxes/{made}").status == 204
    listing = kept(rest, made)
    assert listing["count"] == 0 and listing["complete"] is False
    assert "in time" in listing["reason"]


def test_listing_and_tenants(daemon, rest):
    made = made_with(rest, "echo x > a", ["a"])
    assert rest.delete(f"/api/sandboxes/{made}").status == 204
    other = Rest(daemon.socket, {"X-Atoll-Tenant": "other"})
    for method, path in [("GET", ""), ("GET", "/a"), ("DELETE", "")]:
        assert other.call(method, f"/api/artifacts/{made}{path}").status == 404, (method, path)
    assert other.get("/api/artifacts").json == {"artifacts": []}
    theirs = made_with(other, "echo y > a", ["a"])
    assert other.delete(f"/api/sandboxes/{theirs}").status == 204
    assert [a["sandbox_id"] for a in other.get("/api/artifacts").json["artifacts"]] == [theirs]
    listed = rest.get("/api/artifacts").json["artifacts"]
    assert theirs not in [a["sandbox_id"] for a in listed]
    assert listed[-1]["sandbox_id"] == made and "files" not in listed[-1]
    assert rest.get("/api/artifacts", sandbox=made).json["artifacts"] == [listed[-1]]
    assert theirs in [a["sandbox_id"]
                      for a in rest.get("/api/artifacts", all="true").json["artifacts"]]
    first = rest.get("/api/artifacts", limit=1).json
    seen = [a["sandbox_id"] for a in first["artifacts"]]
    while "next_cursor" in first:
        first = rest.get("/api/artifacts", limit=1, cursor=first["next_cursor"]).json
        seen += [a["sandbox_id"] for a in first["artifacts"]]
    assert seen == [a["sandbox_id"] for a in listed]


@pytest.mark.parametrize("artifacts, says", [
    ("out", "artifacts must be"), ([5], "artifacts must be"), (["/etc/passwd"], "/etc/passwd"),
    (["../x"], ".."), ([""], "1 to 256"), (["x" * 257], "1 to 256"), (["a"] * 65, "64"),
])
def test_bad_patterns(rest, artifacts, says):
    for path, body in [("/api/sandboxes", {}), ("/api/sessions", {"environment": "Bash"})]:
        answer = rest.post(path, {**body, "artifacts": artifacts})
        assert (answer.status, says in answer.error["message"]) == (400, True), answer.body


# Sessions.

def test_of_a_session(daemon, rest):
    made = rest.post("/api/sessions", {"environment": "Bash", "artifacts": ["out.txt"]}).json
    path = f"/api/sessions/{made['session_id']}"
    rest.post(f"{path}/execute", {"code": "echo result > out.txt; echo x > other"})
    assert [a["path"] for a in rest.get(f"{path}/artifacts").json["artifacts"]] == [
        "other", "out.txt"]
    assert rest.delete(path).status == 204
    listing = rest.get(f"{path}/artifacts")
    assert listing.status == 200, listing.body
    assert [a["path"] for a in listing.json["artifacts"]] == ["out.txt"]
    assert listing.json["complete"] is True and listing.json["sandbox_id"] == made["sandbox_id"]
    assert rest.get(f"{path}/artifacts/out.txt").body == b"result\n"
    assert rest.get(f"{path}/artifacts/other").status == 404
    for gone in ("?ended=false", "/files?path=out.txt"):
        assert rest.get(path + gone).status == 404
    assert rest.get("/api/artifacts", session=made["session_id"]).json["artifacts"][0][
        "sandbox_id"] == made["sandbox_id"]
    other = Rest(daemon.socket, {"X-Atoll-Tenant": "other"})
    assert other.get(f"{path}/artifacts").status == 404
    assert other.get(f"{path}/artifacts/out.txt").status == 404


def test_of_a_session_told_at_its_end(rest):
    made = rest.post("/api/sessions", {"environment": "Bash"}).json
    path = f"/api/sessions/{made['session_id']}"
    rest.post(f"{path}/execute", {"code": "echo 1 > a"})
    assert rest.call("DELETE", f"{path}?artifacts=a").status == 204
    assert rest.get(f"{path}/artifacts/a").body == b"1\n"


def test_of_a_session_that_kept_nothing(rest):
    made = rest.post("/api/sessions", {"environment": "Bash"}).json
    path = f"/api/sessions/{made['session_id']}"
    assert rest.delete(path).status == 204
    assert rest.get(f"{path}/artifacts").status == 404


def test_sessions_in_pages(rest):
    made = [rest.post("/api/sessions", {"environment": "Bash"}).json["session_id"]
            for _ in range(3)]
    seen, cursor = [], {}
    while True:
        page = rest.get("/api/sessions", limit=2, **cursor).json
        assert len(page["sessions"]) <= 2
        seen += [s["session_id"] for s in page["sessions"]]
        if "next_cursor" not in page:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert seen == [s["session_id"] for s in rest.get("/api/sessions").json["sessions"]]
    assert [s for s in seen if s in made] == made
    for query in ({"limit": 0}, {"limit": 1001}, {"limit": "x"}, {"cursor": "x"},
                  {"cursor": "1-A"}):
        answer = rest.get("/api/sessions", **query)
        assert (answer.status, answer.error["code"]) == (400, "invalid_argument"), query
    for session in made:
        assert rest.delete(f"/api/sessions/{session}").status == 204


# With a daemon of its own.

class Own:
    def __init__(self, **env):
        need_build()
        self.directory = Path(tempfile.mkdtemp(prefix="atoll-", dir="/tmp"))
        self.registry = self.directory / "registry"
        shutil.copytree(ROOT / "registry", self.registry)
        self.daemon = Daemon(BUILD, self.directory)
        self.daemon.env.update(ATOLL_REGISTRY=str(self.registry), **env)
        self.rest = Rest(self.daemon.socket)

    def __enter__(self):
        self.daemon.start()
        return self

    def __exit__(self, *_):
        left = self.daemon.stop() if self.daemon.process.poll() is None else []
        shutil.rmtree(self.directory, ignore_errors=True)
        assert not left

    def kill(self):
        self.daemon.process.send_signal(signal.SIGKILL)
        self.daemon.process.wait()
        self.daemon.start()

    def copies(self):
        return sorted(p.name for p in (self.daemon.state / "artifacts").iterdir())


def test_survive_the_daemon():
    """What is kept, what is to be kept, and to whom it belongs."""
    with Own() as own:
        rest = own.rest
        first = made_with(rest, "echo 1 > a", ["a"])
        assert rest.delete(f"/api/sandboxes/{first}").status == 204
        second = made_with(rest, "echo 2 > a", ["a"])
        session = rest.post("/api/sessions", {"environment": "Bash", "artifacts": ["b"]}).json
        path = f"/api/sessions/{session['session_id']}"
        rest.post(f"{path}/execute", {"code": "echo 3 > b"})
        (own.daemon.state / "artifacts" / ("x" * 26)).mkdir()  # as a daemon killed while copying
        own.kill()
        assert rest.get(f"/api/artifacts/{first}/a").body == b"1\n"
        assert rest.delete(f"/api/sandboxes/{second}").status == 204
        assert rest.get(f"/api/artifacts/{second}/a").body == b"2\n"
        assert rest.delete(path).status == 204
        own.kill()
        assert rest.get(f"{path}/artifacts/b").body == b"3\n"
        wait_until(lambda: own.copies() == sorted([first, second, session["sandbox_id"]]), 30,
                   lambda: str(own.copies()))


def wishes(own):
    """Sandboxes of which something is to be kept, as the store has them."""
    with contextlib.closing(sqlite3.connect(own.daemon.state / "atoll.db")) as store, store:
        return [row[0] for row in store.execute("SELECT sandbox_id FROM artifact_wishes")]


def test_a_wish_for_a_sandbox_that_never_was():
    """As of a daemon that died while the sandbox was being made: it goes at the next start."""
    with Own() as own:
        living = made_with(own.rest, "echo 1 > a", ["a"])
        with contextlib.closing(sqlite3.connect(own.daemon.state / "atoll.db")) as store, store:
            store.executemany("INSERT INTO artifact_wishes VALUES (?, '', 'a')",
                              [["x" * 26], ["a" * 26], ["z" * 26]])
        assert len(wishes(own)) == 4
        own.kill()
        assert wishes(own) == [living]


def test_kept_when_the_daemon_is_stopped():
    with Own() as own:
        made = made_with(own.rest, "echo 1 > a", ["a"])
        own.daemon.process.send_signal(signal.SIGTERM)
        assert own.daemon.process.wait(30) == 0
        own.daemon.start()
        assert own.rest.get(f"/api/artifacts/{made}/a").body == b"1\n"


def test_the_oldest_give_way():
    with Own(ATOLL_ARTIFACTS_MAX="10K") as own:
        rest, made = own.rest, []
        for _ in range(3):
            made.append(made_with(rest, "head -c 4096 /dev/zero > a", ["a"]))
            assert rest.delete(f"/api/sandboxes/{made[-1]}").status == 204
        assert [a["sandbox_id"] for a in rest.get("/api/artifacts").json["artifacts"]] == made[1:]
        wait_until(lambda: own.copies() == sorted(made[1:]), 30, lambda: str(own.copies()))
        big = made_with(rest, "head -c 20000 /dev/zero > a; echo x > b", ["*"])
        assert rest.delete(f"/api/sandboxes/{big}").status == 204
        listing = kept(rest, big)
        assert paths(listing) == ["b"] and not listing["complete"]
        assert "quota" in listing["reason"]


def test_a_daemon_that_keeps_nothing():
    with Own(ATOLL_ARTIFACTS_MAX="0") as own:
        answer = own.rest.post("/api/sandboxes", {"artifacts": ["a"]})
        assert (answer.status, answer.error["code"]) == (409, "failed_precondition")
        assert own.rest.get("/api/sandboxes").json["sandboxes"] == []
        made = own.rest.post("/api/sandboxes", {}).json["id"]
        assert own.rest.call("DELETE", f"/api/sandboxes/{made}?artifacts=a").status == 409
        assert own.rest.delete(f"/api/sandboxes/{made}").status == 204


def test_the_url_of_a_session():
    """That of its server, where the environment names its port."""
    with Own() as own:
        rest = own.rest
        text = (own.registry / "environments" / "Bash.yaml").read_text()
        (own.registry / "environments" / "Served.yaml").write_text(
            "".join(line for line in text.splitlines(True) if not line.startswith("aliases"))
            + "port: 8000\nstart: [python3, -m, http.server, '8000']\n")
        wait_until(lambda: "Served" in rest.get("/api/registry").json["environments"], 30,
                   lambda: rest.get("/api/registry").body.decode())
        made = rest.post("/api/sessions", {"environment": "Served"}).json
        url = f"/preview/{made['sandbox_id']}/8000/"
        assert made["url"].startswith(f"{url}?token=")  # no TCP address is served
        wait_until(lambda: rest.get(made["url"]).status in (200, 302, 303), 30,
                   lambda: f"{rest.get(made['url']).status}")
        path = f"/api/sessions/{made['session_id']}"
        assert rest.get(path).json["url"] == made["url"]
        plain = rest.post("/api/sessions", {"environment": "Bash"}).json
        assert plain["url"] == f"/api/sessions/{plain['session_id']}"
