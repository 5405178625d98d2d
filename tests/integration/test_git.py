"""Git inside a sandbox by typed requests; the remote is a bare repository in the same sandbox. What needs a
server is in test_git_server.py."""

import pytest

from boxes import Box
from rest import Rest

AUTHOR = {"name": "Ann", "email": "ann@example.org"}


class GitBox(Box):
    def git(self, verb, body=None, method="POST", status=None, **query):
        if method == "GET":
            answer = self.get(f"git/{verb}", **query)
        elif method == "DELETE":
            answer = self.rest.delete(f"{self.path}/git/{verb}", **query)
        else:
            answer = self.rest.call(method, f"{self.path}/git/{verb}", body)
        assert answer.status == (status or answer.status) and (status or answer.status < 300), answer.body
        return answer.json if answer.body else None

    def problem(self, verb, body=None, method="POST", **query):
        """What is wrong, of a request that must fail."""
        if method == "GET":
            answer = self.get(f"git/{verb}", **query)
        elif method == "DELETE":
            answer = self.rest.delete(f"{self.path}/git/{verb}", **query)
        else:
            answer = self.rest.call(method, f"{self.path}/git/{verb}", body)
        assert answer.status >= 400, answer.body
        assert answer.error["message"]
        return answer.status, answer.json["git"]

    def write(self, path, text, at="w"):
        assert self.rest.put(f"{self.path}/files", text.encode(), path=f"{at}/{path}").status == 200

    def commit(self, message, at="w", **files):
        for path, text in files.items():
            self.write(path, text, at)
        self.git("add", {"path": at, "all": True})
        return self.git("commit", {"path": at, "message": message, "author": AUTHOR})["commit"]


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture
def box(rest):
    made = GitBox(rest)
    yield made
    made.destroy()


@pytest.fixture
def repo(box):
    """A repository w with one commit."""
    box.git("init", {"path": "w", "ref": "main"}, status=204)
    box.first = box.commit("first", README="hello\n")
    return box


@pytest.fixture
def cloned(repo):
    """The same with a bare remote."""
    repo.git("clone", {"url": "w", "path": "origin.git", "bare": True})
    repo.git("remotes", {"path": "w", "name": "origin", "url": "../origin.git"}, status=204)
    repo.git("push", {"path": "w", "setUpstream": True})
    return repo


def states(box, at="w", **query):
    return {f["path"]: (f["staging"], f["worktree"])
            for f in box.git("status", method="GET", path=at, **query)["files"]}


def test_from_init_to_a_second_clone(cloned):
    assert cloned.first["message"] == "first\n" and cloned.first["author"]["name"] == "Ann"
    status = cloned.git("status", method="GET", path="w")
    assert (status["branch"], status["upstream"], status["ahead"], status["behind"], status["files"]) == \
        ("main", "origin/main", 0, 0, [])
    made = cloned.git("clone", {"url": "origin.git", "path": "v"})
    assert made["branch"] == "main" and made["commit"]["hash"] == cloned.first["hash"]
    second = cloned.commit("second\n\nwith a body", "v", b="b\n")
    assert second["parents"] == [cloned.first["hash"]]
    pushed = cloned.git("push", {"path": "v"})
    assert [(r["state"], r["to"]) for r in pushed["refs"]] == [("fast_forward", "refs/heads/main")]
    cloned.git("fetch", {"path": "w"})
    assert cloned.git("status", method="GET", path="w")["behind"] == 1
    assert cloned.git("pull", {"path": "w"})["commit"]["hash"] == second["hash"]
    log = cloned.git("log", method="GET", path="w", limit=1)["commits"]
    assert [c["message"] for c in log] == ["second\n\nwith a body\n"]
    assert [c["hash"] for c in cloned.git("log", method="GET", path="w", skip=1)["commits"]] == \
        [cloned.first["hash"]]


def test_a_remote_over_ssh(cloned):
    """Both forms of its URLs; what ssh says is explained. A program in place of ssh runs the server here."""
    cloned.write("ssh", "#!/bin/sh\n[ ! -e ~/refuse ] || { cat ~/refuse >&2; exit 255; }\n"
                 "for last; do :; done\ncd\nexec sh -c \"$last\"\n", ".")
    cloned.out("chmod +x ssh && git config --global core.sshCommand ~/ssh")
    for number, url in enumerate(("ssh://git@h:22/home/user/origin.git", "git@h:origin.git")):
        made = cloned.git("clone", {"url": url, "path": f"s{number}"})
        assert made["commit"]["hash"] == cloned.first["hash"]
    more = cloned.commit("more", "s0", more="m\n")
    assert cloned.git("push", {"path": "s0"})["refs"][0]["state"] == "fast_forward"
    assert cloned.git("pull", {"path": "s1"})["commit"]["hash"] == more["hash"]
    for words, hint in (("git@h: Permission denied (publickey).", "key of ssh"),
                        ("Host key verification failed.", "known_hosts")):
        cloned.write("refuse", words + "\n", ".")
        answer = cloned.rest.call("POST", f"{cloned.path}/git/fetch", {"path": "s0"})
        assert (answer.status, answer.json["git"]["problem"]) == (403, "auth_failed"), answer.body
        assert words in answer.error["message"] and hint in answer.error["hint"], answer.body


def test_add_without_files_says_how_to_add_all(repo):
    answer = repo.rest.call("POST", f"{repo.path}/git/add", {"path": "w"})
    assert answer.status == 400 and "add --all" in answer.error["hint"], answer.body


def test_states_of_files(repo):
    repo.write("staged", "s\n")
    repo.git("add", {"path": "w", "files": ["staged"]}, status=204)
    repo.write("staged", "again\n")
    repo.write("README", "changed\n")
    repo.write("a b\n\t\"ü", "odd\n")
    repo.out("cd w && git mv README R2 && echo ignored >.gitignore && touch ignored")
    assert states(repo) == {
        ".gitignore": ("untracked", "untracked"), "a b\n\t\"ü": ("untracked", "untracked"),
        "R2": ("renamed", "modified"), "staged": ("added", "modified")}
    assert states(repo, ignored="true")["ignored"] == ("ignored", "ignored")
    repo.git("reset", {"path": "w", "files": ["staged"]})
    assert states(repo)["staged"] == ("untracked", "untracked")


def test_differences(repo):
    repo.write("README", "hello\nworld\n")
    repo.rest.put(f"{repo.path}/files", b"\0\1\2", path="w/binary")
    plain = repo.git("diff", method="GET", path="w")
    assert plain["files"] == [{"path": "README", "status": "M", "added": 1, "deleted": 0}]
    assert "+world\n" in plain["patch"] and plain["patch"].startswith("diff --git a/README b/README\n")
    repo.git("add", {"path": "w", "all": True})
    assert repo.git("diff", method="GET", path="w")["files"] == []
    staged = repo.git("diff", method="GET", path="w", staged="true")["files"]
    assert {"path": "binary", "status": "A", "binary": True} in staged
    repo.git("commit", {"path": "w", "message": "second", "author": AUTHOR})
    between = repo.git("diff", method="GET", path="w", ref="HEAD~1", to="HEAD", files="README")
    assert [f["path"] for f in between["files"]] == ["README"]


def test_branches(cloned):
    cloned.git("branches", {"path": "w", "name": "dev"}, status=204)
    cloned.git("branches", {"path": "w", "name": "now", "ref": "HEAD", "checkout": True}, status=204)
    listed = cloned.git("branches", method="GET", path="w", remotes="true")
    assert listed["current"] == "now"
    assert {(b["name"], b["current"], b["remote"]) for b in listed["branches"]} == {
        ("dev", False, False), ("main", False, False), ("now", True, False),
        ("origin/main", False, True)}
    assert cloned.git("checkout", {"path": "w", "ref": "dev"})["branch"] == "dev"
    assert cloned.git("checkout", {"path": "w", "ref": "more", "create": True})["branch"] == "more"
    assert cloned.git("checkout", {"path": "w", "ref": cloned.first["hash"]})["branch"] is None
    cloned.git("branches", method="DELETE", path="w", name="dev", status=204)
    assert cloned.problem("branches", {"path": "w", "name": "main"})[1]["problem"] == "exists"
    assert cloned.problem("checkout", {"path": "w", "ref": "no"})[1]["problem"] == "ref_not_found"
    status, git = cloned.problem("branches", method="DELETE", path="w", name="no")
    assert (status, git["problem"]) == (404, "ref_not_found")
    cloned.git("checkout", {"path": "w", "ref": "more"})
    cloned.commit("alone", x="x\n")
    cloned.git("checkout", {"path": "w", "ref": "main"})
    assert cloned.problem("branches", method="DELETE", path="w", name="more")[1]["problem"] == "not_merged"
    cloned.git("branches", method="DELETE", path="w", name="more", force="true", status=204)


def test_a_remote_branch_is_checked_out_by_its_name(cloned):
    cloned.git("push", {"path": "w", "ref": "main:far"})
    cloned.git("clone", {"url": "origin.git", "path": "v"})
    assert cloned.git("checkout", {"path": "v", "ref": "far"})["branch"] == "far"


def diverge(box):
    """w and v change the same file; v has pushed."""
    box.git("clone", {"url": "origin.git", "path": "v"})
    box.commit("theirs", "v", README="theirs\n")
    box.git("push", {"path": "v"})
    box.commit("ours", "w", README="ours\n", other="o\n")


def test_what_does_not_merge(cloned):
    diverge(cloned)
    status, git = cloned.problem("push", {"path": "w"})
    assert (status, git["problem"]) == (409, "non_fast_forward")
    assert "rejected" in git["words"] or git["words"]
    assert cloned.problem("pull", {"path": "w", "ffOnly": True})[1]["problem"] == "non_fast_forward"
    status, git = cloned.problem("pull", {"path": "w", "author": AUTHOR})
    assert (status, git["problem"], git["files"]) == (409, "conflict", ["README"])
    assert states(cloned)["README"] == ("unmerged", "unmerged")
    assert cloned.problem("commit", {"path": "w", "message": "m", "author": AUTHOR})[1]["problem"] == "conflict"
    cloned.git("reset", {"path": "w", "mode": "merge"})
    assert states(cloned) == {}
    cloned.git("push", {"path": "w", "force": True})
    assert cloned.problem("pull", {"path": "v", "rebase": True, "author": AUTHOR})[1]["problem"] == "conflict"


def test_a_conflict_is_aborted(cloned):
    """Of every operation that can stop at one: then all is as before it."""
    diverge(cloned)
    for key, value in (("user.name", "Ann"), ("user.email", "ann@example.org")):
        cloned.git("config", {"path": "w", "name": key, "value": value}, method="PUT", status=204)
    before = cloned.git("log", method="GET", path="w", limit=1)["commits"][0]["hash"]

    def stops(verb, body, **more):
        status, git = cloned.problem(verb, {"path": "w", **body}, **more)
        assert (status, git["problem"], git["files"]) == (409, "conflict", ["README"])

    def aborted():
        back = cloned.git("reset", {"path": "w", "mode": "abort"})
        assert (back["branch"], back["commit"]["hash"]) == ("main", before), back
        assert cloned.out("cd w && git status --porcelain && cat README && ls -d .git/rebase-* || true") == "ours"

    for fields in ({"rebase": True}, {}):
        stops("pull", fields)
        aborted()
    for command in ("git cherry-pick origin/main", "git revert --no-edit HEAD~1",
                    "git format-patch -q -1 --stdout origin/main | git am -3"):
        cloned.out(f"cd w && ({command}) >/dev/null 2>&1; git ls-files -u | grep -q .")
        aborted()
    cloned.out("cd w && git checkout -q origin/main && echo stashed >README && git stash -q && git checkout -q main")
    cloned.problem("stash/apply", {"path": "w", "index": 0})
    aborted()
    status, git = cloned.problem("reset", {"path": "w", "mode": "abort"})
    assert (status, git["problem"]) == (409, "failed") and "nothing is in progress" in git["words"]


def test_local_changes_are_not_overwritten(cloned):
    diverge(cloned)
    cloned.git("reset", {"path": "w", "ref": "HEAD~1", "mode": "hard"})
    cloned.write("README", "mine\n")
    status, git = cloned.problem("pull", {"path": "w"})
    assert (status, git["problem"], git["files"]) == (409, "dirty", ["README"])
    cloned.git("branches", {"path": "w", "name": "other", "ref": "origin/main"})
    assert cloned.problem("checkout", {"path": "w", "ref": "other"})[1]["files"] == ["README"]
    cloned.git("restore", {"path": "w", "files": ["README"]}, status=204)
    assert cloned.git("checkout", {"path": "w", "ref": "other"})["branch"] == "other"


def test_stashes(repo):
    repo.write("README", "one\n")
    repo.write("new", "n\n")
    repo.git("stash", {"path": "w", "message": "a", "untracked": True}, status=204)
    repo.write("README", "two\n")
    repo.git("stash", {"path": "w", "message": "b"}, status=204)
    listed = repo.git("stash", method="GET", path="w")["stashes"]
    assert [(s["index"], s["subject"]) for s in listed] == [(0, "On main: b"), (1, "On main: a")]
    assert repo.git("status", method="GET", path="w")["stashes"] == 2
    repo.git("stash/apply", {"path": "w", "index": 1, "drop": True}, status=204)
    assert states(repo) == {"README": ("unmodified", "modified"), "new": ("untracked", "untracked")}
    assert repo.problem("stash/apply", {"path": "w"})[1]["problem"] == "dirty"
    repo.git("add", {"path": "w", "all": True})
    repo.git("commit", {"path": "w", "message": "m", "author": AUTHOR})
    status, git = repo.problem("stash/apply", {"path": "w"})
    assert (git["problem"], git["files"]) == ("conflict", ["README"])
    repo.git("reset", {"path": "w", "mode": "hard"})
    repo.git("stash", method="DELETE", path="w", index=0, status=204)
    assert repo.problem("stash", method="DELETE", path="w", index=7)[1]["problem"] == "ref_not_found"


def test_tags_and_remotes_and_config(repo):
    repo.git("tags", {"path": "w", "name": "light"}, status=204)
    repo.git("tags", {"path": "w", "name": "v1", "message": "one", "author": AUTHOR}, status=204)
    tags = {t["name"]: t for t in repo.git("tags", method="GET", path="w")["tags"]}
    assert (tags["v1"]["annotated"], tags["light"]["annotated"]) == (True, False)
    assert tags["v1"]["commit"] == tags["light"]["commit"] == repo.first["hash"]
    assert repo.problem("tags", {"path": "w", "name": "v1"})[1]["problem"] == "exists"
    repo.git("tags", method="DELETE", path="w", name="v1", status=204)
    assert repo.git("remotes", method="GET", path="w")["remotes"] == []
    repo.git("remotes", {"path": "w", "name": "up", "url": "https://example.org/a.git"}, status=204)
    assert repo.problem("remotes", {"path": "w", "name": "up", "url": "https://x/b"})[1]["problem"] == "exists"
    repo.git("remotes", {"path": "w", "name": "up", "url": "https://x/b", "replace": True}, status=204)
    assert repo.git("remotes", method="GET", path="w")["remotes"] == [
        {"name": "up", "url": "https://x/b", "push_only": False}]
    repo.git("remotes", method="DELETE", path="w", name="up", status=204)
    assert repo.problem("remotes", method="DELETE", path="w", name="up")[1]["problem"] == "no_remote"
    repo.git("config", {"path": "w", "name": "user.Email", "value": "a\nb"}, "PUT", status=204)
    assert repo.git("config", method="GET", path="w", name="USER.email")["entries"] == [
        {"name": "user.email", "value": "a\nb", "scope": "local"}]
    repo.git("config", {"name": "user.name", "value": "Global", "scope": "global"}, "PUT", status=204)
    names = {e["name"] for e in repo.git("config", method="GET", path="w")["entries"]}
    assert {"user.email", "user.name", "core.bare"} <= names
    for _ in range(2):
        repo.git("config", method="DELETE", path="w", name="user.email", status=204)
    assert repo.git("config", method="GET", path="w", name="user.email")["entries"] == []


def test_typed_problems(box):
    status, git = box.problem("status", method="GET", path="/tmp")
    assert (status, git["problem"]) == (404, "not_a_repository") and "not a git repository" in git["words"]
    for verb in ("branches", "remotes", "tags", "stash", "log", "diff"):
        assert box.problem(verb, method="GET", path="/tmp")[1]["problem"] == "not_a_repository", verb
    assert box.problem("status", method="GET", path="no/where")[1]["problem"] == "path_not_found"
    box.git("init", {"path": "w", "ref": "main"})
    assert box.git("status", method="GET", path="w")["commit"] is None
    assert box.problem("log", method="GET", path="w")[1]["problem"] == "ref_not_found"
    assert box.problem("push", {"path": "w"})[1]["problem"] in ("ref_not_found", "remote_not_found")
    box.write("f", "f")
    box.git("add", {"path": "w", "all": True})
    status, git = box.problem("commit", {"path": "w", "message": "m"})
    assert git["problem"] == "no_identity"
    box.commit("m")
    assert box.problem("commit", {"path": "w", "message": "m", "author": AUTHOR})[1]["problem"] == \
        "nothing_to_commit"
    box.git("commit", {"path": "w", "message": "e", "author": AUTHOR, "allowEmpty": True})
    assert box.problem("push", {"path": "w"})[1]["problem"] == "remote_not_found"
    assert box.problem("clone", {"url": "nowhere", "path": "x"})[1]["problem"] == "remote_not_found"
    assert box.problem("clone", {"url": "w", "path": "w"})[1]["problem"] == "exists"
    assert box.problem("clone", {"url": "w", "path": "x", "ref": "no"})[1]["problem"] == "ref_not_found"
    assert box.problem("add", {"path": "w", "files": ["*"]})[1]["problem"] == "path_not_found"
    box.out("touch w/.git/index.lock")
    status, git = box.problem("add", {"path": "w", "all": True})
    assert (status, git["problem"]) == (409, "locked")


@pytest.mark.parametrize("verb, body", [
    ("clone", {"url": "--upload-pack=touch x", "path": "p"}), ("clone", {}),
    ("clone", {"url": "https://h/r", "path": "-x"}), ("clone", {"url": "https://h/r", "ref": "--x"}),
    ("clone", {"url": "https://h"}), ("clone", {"url": "h\nx"}),
    ("clone", {"url": "ssh://h/r", "credentials": {"password": "x"}}),
    ("clone", {"url": "https://h/r", "credentials": {"username": "x"}}),
    ("clone", {"url": "https://h/r", "credentials": {"password": "a\nb"}}),
    ("checkout", {"ref": "-b"}), ("checkout", {}), ("commit", {"message": "m", "author": {"name": "x"}}),
    ("commit", {}), ("add", {}), ("add", {"files": []}), ("add", {"files": [""]}),
    ("reset", {"mode": "wild"}), ("reset", {"mode": "hard", "files": ["f"]}), ("restore", {}),
    ("reset", {"mode": "abort", "ref": "HEAD"}),
    ("branches", {"name": ""}), ("branches", {"name": "--all"}),
    ("remotes", {"name": "o", "url": "https://u:p@h/r"}), ("push", {"delete": True}),
    ("fetch", {"ref": "x"}), ("pull", {"rebase": True, "ffOnly": True}), ("init", {"unknown": 1}),
])
def test_refused_before_anything_runs(box, verb, body):
    answer = box.post(f"git/{verb}", body)
    assert answer.status == 400, answer.body
    assert "git" not in answer.json and box.get("execs").json["execs"] == []


def test_the_command_line(daemon, repo):
    def atoll(*words, status=0, **more):
        ended = daemon.atoll("git", repo.id, *words, **more)
        assert ended.returncode == status, ended.stderr
        return ended.stdout

    repo.write("new", "n\n")
    assert atoll("-C", "w", "status") == "## main\n?? new\n"
    assert atoll("clone", "--bare", "w", "origin.git").startswith("main ")
    atoll("-C", "w", "add", "new")
    told = atoll("-C", "w", "commit", "-m", "second", "--author", "Bob <bob@example.org>")
    assert told.startswith("main ") and told.endswith(" second\n")
    assert "+n\n" in atoll("-C", "w", "diff", "HEAD~1", "HEAD")
    assert [line.split(" ", 2)[2] for line in atoll("-C", "w", "log", "-n2").splitlines()] == \
        ["Bob: second", "Ann: first"]
    atoll("-C", "w", "remote", "origin", "../origin.git")
    assert "../origin.git" in atoll("-C", "w", "remote")
    assert "fast_forward" in atoll("-C", "w", "push", "--set-upstream")
    atoll("-C", "w", "branch", "dev")
    assert "* main" in atoll("-C", "w", "branch")
    atoll("-C", "w", "branch", "-d", "dev")
    atoll("-C", "w", "config", "a.b", "c")
    assert "a.b" in atoll("-C", "w", "config", "a.b")
    atoll("-C", "w", "config", "-d", "a.b")
    atoll("-C", "w", "tag", "v1")
    assert daemon.json("git", repo.id, "-C", "w", "tag")["tags"][0]["name"] == "v1"
    assert "unknown action" in daemon.atoll("git", repo.id, "frob").stderr
    assert "not with 0 arguments" in daemon.atoll("git", repo.id, "checkout").stderr
    assert 'no field "amend"' in daemon.atoll("git", repo.id, "fetch", "--amend").stderr
    assert "not a git repository" in daemon.atoll("git", repo.id, "-C", "/tmp", "status").stderr


def test_names_that_are_not_text(cloned):
    """In objects with all their bytes in base64, in lists with a replacement character."""
    name = "$(printf 'a\\377')"
    cloned.git("clone", {"url": "origin.git", "path": "v"})
    cloned.out(f"cd v && echo theirs >{name}")
    cloned.git("add", {"path": "v", "all": True})
    assert cloned.git("status", method="GET", path="v")["files"] == [
        {"path": "a\ufffd", "path_base64": "Yf8=", "staging": "added", "worktree": "unmodified"}]
    cloned.commit("theirs", "v")
    cloned.git("push", {"path": "v"})
    cloned.out(f"cd w && echo ours >{name}")
    cloned.commit("ours")
    assert cloned.problem("pull", {"path": "w", "author": AUTHOR})[1]["files"] == ["a\ufffd"]


def test_a_git_that_does_not_end(repo):
    """It is killed with all that it started."""
    repo.out("cd w && git config protocol.ext.allow always && git remote add origin 'ext::sleep 12345'")
    status, told = repo.problem("fetch", {"path": "w", "timeoutSeconds": 1})
    assert (status, told["problem"]) == (504, "timed_out")
    assert repo.run("pgrep -f 'sleep 1234[5]'")["stdout"] == ""


def test_a_repository_of_another_user(repo):
    repo.out("chown -R 12345 /home/user/w", user="root")
    status, told = repo.problem("status", method="GET", path="w")
    assert (status, told["problem"]) == (409, "untrusted")


def test_a_sandbox_without_git(box):
    gone = box.run("rm -f /usr/bin/git", user="root")
    assert gone["result"]["exit_code"] == 0, gone
    for method, verb, body in (("GET", "status", None), ("POST", "clone", {"url": "x", "path": "y"})):
        status, told = box.problem(verb, body, method)
        assert (status, told["problem"]) == (409, "no_git"), verb


def test_pointers_of_lfs_stay_pointers(cloned):
    """The filter of the repository is not defined, so that no program runs and nothing is downloaded."""
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
    cloned.commit("large", **{".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "a.bin": pointer})
    cloned.git("push", {"path": "w"})
    cloned.git("clone", {"url": "origin.git", "path": "again"})
    assert cloned.out("cat again/a.bin") == pointer.strip()
    assert cloned.git("status", method="GET", path="again")["files"] == []
    cloned.write("a.bin", pointer.replace("12345", "54321"), "again")
    assert states(cloned, "again") == {"a.bin": ("unmodified", "modified")}
    cloned.git("restore", {"path": "again", "files": ["a.bin"]})
    assert states(cloned, "again") == {}
