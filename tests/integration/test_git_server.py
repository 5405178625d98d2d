"""Git requests against a git server with passwords, through the network of a sandbox: credentials and who can
read them, hostile repositories, large ones, submodules, a daemon that is killed."""

import base64
import os
import shutil
import threading

import pytest

from daemons import below, wait_until
from git_server import PASSWORD, USER, GitServer, git
from networks import FAR, NAMES, networked
from rest import Rest
from test_git import AUTHOR, GitBox, states

PORT = 8080
CREDENTIALS = {"username": USER, "password": PASSWORD}
ONE, TWO = f"http://one.test:{PORT}", f"http://two.test:{PORT}"

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="there is no git")


class World:
    def __init__(self, daemon):
        self.daemon, self.rest = daemon, Rest(daemon.socket)
        far, directory = daemon.networks.far, daemon.networks.directory
        (directory / "git").mkdir()
        self.server = GitServer(far.listen(FAR[0], PORT), directory / "git")
        self.other = GitServer(far.listen(FAR[1], PORT), directory / "git")
        self.safe = GitServer(far.listen(FAR[2], 443), directory / "git",
                              daemon.networks.authority.certificate(*NAMES))
        self.works = {name: self.server.make(name) for name in ("private", "public/open")}

    def box(self, **network):
        return GitBox(self.rest, network={"mode": "bridge", **network})

    def close(self):
        for server in (self.server, self.other, self.safe):
            server.close()


@pytest.fixture(scope="module")
def world():
    with networked() as daemon:
        made = World(daemon)
        yield made
        made.close()


@pytest.fixture
def box(world):
    made = world.box()
    yield made
    made.destroy()
    world.server.offered.clear()
    world.other.offered.clear()


def is_on_disk(directory, secret):
    return [path for path in below(directory) if path.is_file() and secret.encode() in path.read_bytes()]


def test_a_password_works_and_is_nowhere(world, box):
    """While git waits for the server: not in arguments or environments. Afterwards: not in the sandbox, the
    list of commands, the journals or the log."""
    seen = []

    def look(path):
        seen.append(box.run("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'")["stdout"])

    world.server.serving = look
    try:
        box.git("clone", {"url": f"{ONE}/private.git", "path": "w", "credentials": CREDENTIALS})
    finally:
        world.server.serving = lambda path: None
    assert any("git" in text and "clone" in text for text in seen)  # it was there to be seen
    box.commit("second", x="x\n")
    box.git("push", {"path": "w", "credentials": CREDENTIALS})
    box.git("fetch", {"path": "w", "credentials": CREDENTIALS})
    assert box.git("pull", {"path": "w", "credentials": CREDENTIALS})["commit"]["message"] == "second\n"
    assert set(world.server.offered) == {f"{USER}:{PASSWORD}"}
    places = [*seen, str(box.get("execs").json), world.daemon.log_tail(10000),
              box.out("grep -rl p%40ss ~ /tmp /var/tmp 2>/dev/null || true")]
    assert not [text for text in places if PASSWORD in text] and places[-1] == ""
    assert not is_on_disk(world.daemon.state, PASSWORD)
    # The control: what a command says is in its journal.
    box.run("echo p%40ss-in-a-journal")
    assert is_on_disk(world.daemon.state, "p%40ss-in-a-journal")


def test_a_password_in_the_url_is_taken_out_of_it(world, box):
    url = f"http://{USER}:p%2540ss%20w0rd%3A%C3%84%C3%96@one.test:{PORT}/private.git"
    box.git("clone", {"url": url, "path": "w"})
    assert box.git("remotes", method="GET", path="w")["remotes"][0]["url"] == f"{ONE}/private.git"
    assert "p%40ss" not in str(box.get("execs").json) and "p%2540ss" not in str(box.get("execs").json)


def test_what_the_server_refuses(world, box):
    bad = {"username": USER, "password": "wrong"}
    for more in ({}, {"credentials": bad}):
        status, told = box.problem("clone", {"url": f"{ONE}/private.git", "path": "w", **more})
        assert (status, told["problem"]) == (403, "auth_failed"), told
    status, told = box.problem("clone", {"url": f"{ONE}/none.git", "path": "w", "credentials": CREDENTIALS})
    assert (status, told["problem"]) == (404, "remote_not_found")
    status, told = box.problem("clone", {"url": "http://one.test:1/r.git", "path": "w"})
    assert (status, told["problem"]) == (503, "unreachable")
    box.git("clone", {"url": f"{ONE}/public/open.git", "path": "w"})
    hook = world.server.root / "public/open.git/hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho not on Mondays >&2\nexit 1\n")
    hook.chmod(0o755)
    box.commit("second", x="x\n")
    status, told = box.problem("push", {"path": "w"})
    assert (status, told["problem"]) == (409, "remote_rejected") and "not on Mondays" in told["words"]
    hook.unlink()
    without = GitBox(world.rest)
    url = f"http://{FAR[0]}:{PORT}/public/open.git"  # an address: the lookup of a name would take time
    assert without.problem("clone", {"url": url})[1]["problem"] == "unreachable"
    without.destroy()


def test_only_the_server_that_was_meant_gets_the_password(world, box):
    """A repository says where its remotes are. Credentials with a host go to no other."""
    box.git("clone", {"url": f"{ONE}/private.git", "path": "w", "credentials": CREDENTIALS})
    box.out(f"cd w && git config url.{TWO}/.insteadOf {ONE}/")
    meant = {**CREDENTIALS, "host": f"one.test:{PORT}"}
    assert box.problem("fetch", {"path": "w", "credentials": meant})[1]["problem"] == "auth_failed"
    assert world.other.offered == []
    box.out(f"git config --global url.{TWO}/.insteadOf {ONE}/")
    box.problem("clone", {"url": f"{ONE}/private.git", "path": "v", "credentials": CREDENTIALS})
    assert world.other.offered == []
    # The control: without a host it is the repository that decides.
    box.git("fetch", {"path": "w", "credentials": CREDENTIALS})
    assert world.other.offered


HOOK = """#!/bin/sh
echo ran >>/tmp/hook-ran
{ timeout 1 cat <&9; for p in /proc/[0-9]*; do timeout 1 cat $p/fd/9; cat $p/environ; done; } >>/tmp/loot 2>/dev/null
exit 0
"""
HOOKS = ("pre-push", "reference-transaction", "post-checkout", "post-merge", "pre-auto-gc", "post-rewrite")


def test_a_hostile_repository_gets_no_password(world, box):
    """Its hooks, fsmonitor, credential helper and ssh command run only while no password can be read."""
    box.git("clone", {"url": f"{ONE}/private.git", "path": "w", "credentials": CREDENTIALS})
    for name in (*HOOKS, "../evil"):
        box.write(f".git/hooks/{name}", HOOK)
    box.out("cd w && chmod +x .git/hooks/* .git/evil && for k in core.fsmonitor core.sshCommand core.askPass "
            "core.gitProxy; do git config $k $PWD/.git/evil; done; git config credential.helper $PWD/.git/evil; "
            "git config gc.auto 1; git config core.hooksPath $PWD/.git/hooks")
    git("commit", "--allow-empty", "-qm", "more", cwd=world.works["private"])
    git("pull", "-q", "--rebase", world.server.root / "private.git", "main", cwd=world.works["private"])
    git("push", "-q", world.server.root / "private.git", "main", cwd=world.works["private"])
    box.git("fetch", {"path": "w", "credentials": CREDENTIALS})
    assert box.run("cat /tmp/hook-ran")["result"]["exit_code"] != 0
    box.git("pull", {"path": "w", "credentials": CREDENTIALS})
    box.commit("mine", y="y\n")
    box.git("push", {"path": "w", "credentials": CREDENTIALS})
    assert "ran" in box.out("cat /tmp/hook-ran")  # post-merge and others, without a password
    assert PASSWORD not in box.out("cat /tmp/loot; rm /tmp/loot /tmp/hook-ran")
    # The control: hooks of a push without a password do run.
    box.out(f"cd w && git remote set-url origin {ONE}/public/open.git")
    box.run("cd w && git fetch -q && git reset -q --hard origin/main && git commit -q --allow-empty -m m")
    box.git("push", {"path": "w", "force": True})
    assert "ran" in box.out("cat /tmp/hook-ran")


def test_filters_of_the_repository_get_no_password(world, box):
    """Programs that smudge and clean what is checked out and added: they run, and read nothing of it."""
    made = world.server.make("filtered", {".gitattributes": "*.f filter=evil\n", "a.f": "1\n"})
    where = {"url": f"{ONE}/filtered.git", "credentials": CREDENTIALS}
    box.git("clone", {**where, "path": "w"})
    box.write("evil", HOOK.replace("exit 0", "exec cat"), "w/.git")
    box.out("cd w && chmod +x .git/evil && git config filter.evil.smudge $PWD/.git/evil && "
            "git config filter.evil.clean $PWD/.git/evil && git config filter.evil.required true")
    (made / "a.f").write_text("2\n")
    git("commit", "-qam", "more", cwd=made)
    git("push", "-q", world.server.root / "filtered.git", "main", cwd=made)
    box.git("pull", {"path": "w", "credentials": CREDENTIALS})
    assert box.out("cat w/a.f") == "2" and "ran" in box.out("cat /tmp/hook-ran; rm /tmp/hook-ran")
    box.write("a.f", "3\n", "w")
    box.git("add", {"path": "w", "all": True}, status=204)
    box.git("commit", {"path": "w", "message": "mine", "author": AUTHOR})
    box.git("push", {"path": "w", "credentials": CREDENTIALS})
    assert "ran" in box.out("cat /tmp/hook-ran; rm /tmp/hook-ran")
    assert PASSWORD not in box.out("cat /tmp/loot; rm /tmp/loot")


def test_links_out_of_the_tree_are_not_followed(world, box):
    """A link is replaced by the directory of the next commit, and its target stays as it is."""
    made = world.server.make("links")
    (made / "d").symlink_to("/tmp/outside")
    (made / "passwd").symlink_to("/etc/passwd")
    git("add", "-A", cwd=made)
    git("commit", "-qm", "links", cwd=made)
    git("push", "-q", world.server.root / "links.git", "main", cwd=made)
    box.out("mkdir /tmp/outside && echo mine > /tmp/outside/mine")
    box.git("clone", {"url": f"{ONE}/links.git", "path": "w", "credentials": CREDENTIALS})
    (made / "d").unlink()
    (made / "d").mkdir()
    (made / "d/mine").write_text("theirs\n")
    git("add", "-A", cwd=made)
    git("commit", "-qm", "a directory", cwd=made)
    git("push", "-q", world.server.root / "links.git", "main", cwd=made)
    assert box.problem("add", {"path": "w", "files": ["d/mine"]})[1]["problem"]
    box.git("pull", {"path": "w", "credentials": CREDENTIALS})
    assert box.out("cat w/d/mine /tmp/outside/mine") == "theirs\nmine"
    box.out("cd w && rm passwd && ln -s /etc/shadow passwd")
    assert "root:" not in str(box.git("diff", method="GET", path="w"))
    box.git("restore", {"path": "w", "files": ["passwd"]}, status=204)
    assert box.out("readlink w/passwd") == "/etc/passwd"


def test_a_transport_that_is_a_program_gets_no_password(world, box):
    box.git("init", {"path": "w"})
    box.out("cd w && git config protocol.ext.allow always && "
            "git remote add origin 'ext::touch /tmp/loot'")
    box.problem("fetch", {"path": "w", "credentials": CREDENTIALS})
    assert box.run("cat /tmp/loot")["result"]["exit_code"] != 0
    box.problem("fetch", {"path": "w"})  # the control: without a password it runs
    assert box.run("cat /tmp/loot")["result"]["exit_code"] == 0


def test_a_certificate_for_another_name_is_refused_unless_the_request_says_otherwise(world, box):
    """In the words of Daytona, with the commit to check out."""
    first = git("rev-parse", "HEAD", cwd=world.works["private"]).strip()
    clone = {"url": f"https://{FAR[2]}/private.git", "path": "w", **CREDENTIALS}
    path = f"/daytona/toolbox/{box.id}/git"
    refused = world.rest.post(f"{path}/clone", clone)
    assert refused.status >= 400 and "certificate" in refused.json["message"], refused.body
    made = world.rest.post(f"{path}/clone", {**clone, "insecure_skip_tls": True, "commit_id": first})
    assert made.status == 200, made.body
    assert box.out("git -C w rev-parse HEAD") == first
    # It is for that request only.
    again = world.rest.post(f"{path}/pull", {"path": "w", "branch": "main", **CREDENTIALS})
    assert again.status >= 400 and "certificate" in again.json["message"], again.body


def test_a_secret_that_is_not_in_the_sandbox(world):
    """The header is added outside, by a rule of the network: git needs no credentials."""
    token = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    assert world.rest.post("/api/secrets", {"name": "git", "value": token}).status in (200, 201)
    box = world.box(transforms=[{"domain": "three.test", "headers": {"Authorization": "Basic ${secret.git}"}}])
    box.git("clone", {"url": "https://three.test/private.git", "path": "w"})
    box.commit("from the sandbox", z="z\n")
    box.git("push", {"path": "w"})
    box.destroy()


def test_submodules_depth_and_commits(world, box):
    inner = world.server.make("inner", {"i": "i\n"})
    outer = world.server.make("outer")
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", world.server.root / "inner.git", "sub",
        cwd=outer)
    git("config", "-f", ".gitmodules", "submodule.sub.url", "../inner.git", cwd=outer)
    git("commit", "-qam", "with a submodule", cwd=outer)
    (outer / "big.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n")
    (outer / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    git("add", "-A", cwd=outer)
    git("commit", "-qm", "a pointer of LFS", cwd=outer)
    git("push", "-q", world.server.root / "outer.git", "main", cwd=outer)
    where = {"url": f"{ONE}/outer.git", "credentials": CREDENTIALS}
    box.git("clone", {**where, "path": "w", "submodules": True})
    assert box.out("cat w/sub/i; head -1 w/big.bin") == "i\nversion https://git-lfs.github.com/spec/v1"
    assert states(box) == {}
    box.write("i", "changed\n", "w/sub")
    assert box.git("status", method="GET", path="w")["files"] == [
        {"path": "sub", "staging": "unmodified", "worktree": "modified", "submodule": True}]
    box.git("clone", {**where, "path": "v", "depth": 1})
    assert len(box.git("log", method="GET", path="v")["commits"]) == 1
    first = box.git("log", method="GET", path="w")["commits"][-1]["hash"]
    at = box.git("clone", {**where, "path": "u", "commit": first})
    assert (at["branch"], at["commit"]["hash"]) == (None, first)
    assert box.problem("clone", {**where, "path": "t", "commit": "0" * 40})[1]["problem"] == "ref_not_found"
    assert inner.exists()


def test_ten_thousand_files(world, box):
    """Ten thousand in `make test-all`."""
    count = 10000 if os.environ.get("ATOLL_FAULTS") == "all" else 2000
    many = {f"d{i % 100}/file-{i:05}": f"{i}\n" for i in range(count)}
    world.server.make("public/many", many)
    box.git("clone", {"url": f"{ONE}/public/many.git", "path": "w"})
    assert states(box) == {}
    box.out("cd w && for d in d*; do for f in $d/*; do echo more >>$f; done; done")
    assert len(states(box)) == count
    box.git("add", {"path": "w", "files": sorted(many)[:1000]}, status=204)
    assert len(box.git("diff", method="GET", path="w", staged="true")["files"]) == 1000
    box.git("add", {"path": "w", "all": True}, status=204)
    changed = box.git("diff", method="GET", path="w", staged="true")
    assert len(changed["files"]) == count and all(f["added"] == 1 for f in changed["files"])
    box.git("commit", {"path": "w", "message": "all", "author": AUTHOR})
    assert states(box) == {}


def test_a_clone_outlives_the_daemon(world, box):
    """kill -9 while git waits for the server: the command goes on, and the next daemon knows its end."""
    waiting, go = threading.Event(), threading.Event()

    def hold(path):
        waiting.set()
        go.wait(60)

    def ask():
        try:
            box.post("git/clone", {"url": f"{ONE}/private.git", "path": "w", "credentials": CREDENTIALS})
        except OSError:
            pass

    world.server.serving = hold
    client = threading.Thread(target=ask)
    client.start()
    try:
        assert waiting.wait(60)
        world.daemon.process.kill()
        world.daemon.process.wait()
        client.join()
        world.daemon.start()
    finally:
        world.server.serving = lambda path: None
        go.set()
    [clone] = box.get("execs").json["execs"]
    wait_until(lambda: box.exec(clone["exec_id"])["state"] == "ended", 60, lambda: str(box.exec(clone["exec_id"])))
    assert box.exec(clone["exec_id"])["result"]["exit_code"] == 0
    assert states(box) == {} and box.git("status", method="GET", path="w")["branch"] == "main"
