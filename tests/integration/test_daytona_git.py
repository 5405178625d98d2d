"""Git of Daytona's toolbox, as SDKs ask for it. The work itself is tested in test_git.py."""

import pytest

from test_daytona_process import Box
from rest import Rest

PERSON = {"author": "Ann", "email": "ann@example.org"}


@pytest.fixture
def box(daemon):
    rest = Rest(daemon.socket)
    name = rest.post("/api/sandboxes", {}).json["id"]
    made = Box(daemon, name)
    made.ok("POST", "/git/init", {"path": "w", "initial_branch": "main"}, 201)
    made.run("echo hello >w/README")
    made.ok("POST", "/git/add", {"path": "w", "files": ["."]})
    made.ok("POST", "/git/commit", {"path": "w", "message": "first", **PERSON})
    yield made
    rest.delete(f"/api/sandboxes/{name}")


def refused(box, method, path, body, status, code):
    answer = box.call(method, path, body)
    assert answer.status == status, answer.body
    assert (answer.json["code"], answer.json["source"]) == (code, "DAYTONA_DAEMON"), answer.json
    return answer.json


def test_status_branches_and_history(box):
    box.run("cd w && git mv README R && echo x >new && mkdir d && echo y >'d/ü b'")
    status = box.ok("GET", "/git/status", path="w")
    assert {f["name"]: (f["staging"], f["worktree"], f["extra"]) for f in status.pop("fileStatus")} == {
        "R": ("Renamed", "Unmodified", "README"), "new": ("Untracked", "Untracked", ""),
        "d/ü b": ("Untracked", "Untracked", "")}
    assert status == {"currentBranch": "main", "detached": False, "ahead": 0, "behind": 0,
                      "branchPublished": False, "upstream": ""}
    made = box.ok("POST", "/git/commit", {"path": "w", "message": "second", **PERSON})
    history = box.ok("GET", "/git/history", path="w")
    assert [(c["author"], c["email"], c["message"]) for c in history] == [
        ("Ann", "ann@example.org", "second\n"), ("Ann", "ann@example.org", "first\n")]
    assert history[0]["hash"] == made["hash"]
    box.ok("POST", "/git/branches", {"path": "w", "name": "dev"}, 201)
    refused(box, "POST", "/git/branches", {"path": "w", "name": "dev"}, 409, "GIT_BRANCH_EXISTS")
    box.ok("POST", "/git/checkout", {"path": "w", "branch": "dev"})
    box.ok("POST", "/git/commit", {"path": "w", "message": "on dev", "allow_empty": True, **PERSON})
    box.ok("POST", "/git/checkout", {"path": "w", "branch": "main"})
    assert box.ok("GET", "/git/branches", path="w") == {"branches": ["dev", "main"], "current": "main"}
    box.ok("DELETE", "/git/branches", {"path": "w", "name": "dev"}, 204)
    refused(box, "DELETE", "/git/branches", {"path": "w", "name": "dev"}, 404, "GIT_BRANCH_NOT_FOUND")
    box.ok("POST", "/git/checkout", {"path": "w", "branch": made["hash"]})
    assert box.ok("GET", "/git/status", path="w")["detached"] is True


def test_remotes_and_transfers(box):
    box.run("git clone -q --bare w o")
    box.ok("POST", "/git/remotes", {"path": "w", "name": "origin", "url": "../o", "fetch": True}, 201)
    assert box.ok("GET", "/git/remotes", path="w") == {"remotes": [{"name": "origin", "url": "../o"}]}
    box.ok("POST", "/git/push", {"path": "w", "set_upstream": True})
    assert box.ok("GET", "/git/status", path="w")["branchPublished"] is True
    box.ok("POST", "/git/clone", {"url": "o", "path": "v", "branch": "main", "depth": 0, "username": "x"})
    for path, words in (("v", "theirs"), ("w", "ours")):
        box.run(f"echo {words} >{path}/README")
        box.ok("POST", "/git/add", {"path": path, "files": ["README"]})
        box.ok("POST", "/git/commit", {"path": path, "message": words, **PERSON})
    box.ok("POST", "/git/push", {"path": "v"})
    refused(box, "POST", "/git/push", {"path": "w"}, 409, "GIT_PUSH_REJECTED")
    box.ok("POST", "/git/config/user", {"name": "Ann", "email": "ann@example.org"})
    assert box.ok("GET", "/git/config", key="user.name") == {"value": "Ann"}
    assert box.ok("GET", "/git/config", key="user.none") == {"value": None}
    said = refused(box, "POST", "/git/pull", {"path": "w"}, 409, "GIT_MERGE_CONFLICT")
    assert (said["git"]["problem"], said["git"]["files"]) == ("conflict", ["README"]), said
    assert "Automatic merge failed" in said["git"]["words"] and "\n" not in said["message"], said
    box.ok("POST", "/git/reset", {"path": "w", "mode": "hard", "target": "HEAD~1"})
    box.run("echo mine >w/README")
    said = refused(box, "POST", "/git/pull", {"path": "w"}, 409, "GIT_DIRTY_WORKTREE")
    assert (said["git"]["problem"], said["git"]["files"]) == ("dirty", ["README"]), said
    box.ok("POST", "/git/restore", {"path": "w", "files": ["README"]})
    box.ok("POST", "/git/pull", {"path": "w"})


def test_what_is_refused(box):
    refused(box, "GET", "/git/status?path=/tmp", None, 404, "GIT_REPO_NOT_FOUND")
    refused(box, "POST", "/git/clone", {"url": "nowhere", "path": "x"}, 404, "GIT_REPO_NOT_FOUND")
    refused(box, "POST", "/git/checkout", {"path": "w", "branch": "no"}, 404, "GIT_BRANCH_NOT_FOUND")
    refused(box, "POST", "/git/clone", {"url": "http://127.0.0.1:1/r", "path": "x"}, 502, "GIT_TRANSPORT_FAILED")
    refused(box, "POST", "/git/add", {"path": 5}, 400, "INVALID_REQUEST_BODY")
    assert box.call("POST", "/git/clone", {"url": "--upload-pack=x", "path": "x"}).status == 400


def test_a_history_beyond_the_limit_is_no_shorter_history(box):
    box.run("cd w && head -c 9000000 /dev/zero | tr '\\0' x >../message && "
            "git -c user.name=Ann -c user.email=a@b commit -q --allow-empty -F ../message")
    said = refused(box, "GET", "/git/history?path=w", None, 413, "PAYLOAD_TOO_LARGE")
    assert "8 MiB" in said["message"] and "run git as a command" in said["message"]
    assert box.call("GET", "/git/status", path="w").status == 200


def test_credentials_are_stored_on_request(box):
    box.ok("POST", "/git/credentials", {"username": "ann", "password": "p w:ä", "host": "h.test"})
    got = box.run("printf 'protocol=https\\nhost=h.test\\n\\n' | git credential fill")["result"]
    assert "username=ann\npassword=p w:ä\n" in got
