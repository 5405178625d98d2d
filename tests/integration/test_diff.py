"""What has changed between two moments of a sandbox: as JSON, as a tree and as a patch for git."""

import os
import subprocess

import pytest

from boxes import Box
from conftest import BUILD
from daemons import wait_until
from resting import mortal_daemon
from test_state import layers, need_snapshots, remove, snapshot


@pytest.fixture(scope="module")
def mortal():
    with mortal_daemon() as daemon:
        need_snapshots(daemon.rest)
        yield daemon


@pytest.fixture
def box(mortal):
    made = Box(mortal.rest)
    yield made
    made.destroy()


def diff(box, **query):
    answer = box.rest.get(f"/api/sandboxes/{box.id}/diff", **query)
    assert answer.status == 200, answer.body
    return answer.json


def patch(box, **query):
    answer = box.rest.get(f"/api/sandboxes/{box.id}/diff", format="patch", **query)
    assert answer.status == 200, answer.body
    return answer.body


def kinds(found):
    return {one["path"]: one["kind"] for one in found["changes"]}


def test_a_sandbox_that_did_nothing_has_no_changes(box):
    found = diff(box)
    assert found["changes"] == [], found
    assert found["summary"] == {"added": 0, "changed": 0, "removed": 0, "type": 0, "bytes": 0, "truncated": False}
    assert (found["from"], found["to"]) == ("start", "now")


def test_files_of_all_kinds(mortal, box):
    before = layers(mortal)
    box.out("mkdir d; echo one > d/f; ln -s f d/l; mkfifo d/p; echo new > .bashrc-own")
    root(box, "echo x > /usr/bin/fresh; rm /usr/bin/env; chmod 700 /etc/passwd; echo t >> /etc/group")
    found = diff(box)
    assert kinds(found) == {
        "/home/user/d": "added", "/home/user/d/f": "added", "/home/user/d/l": "added",
        "/home/user/d/p": "added", "/home/user/.bashrc-own": "added", "/usr/bin/fresh": "added",
        "/usr/bin/env": "removed", "/etc/passwd": "changed", "/etc/group": "changed"}
    by_path = {one["path"]: one for one in found["changes"]}
    assert not by_path["/etc/passwd"]["content"] and by_path["/etc/group"]["content"]
    assert by_path["/etc/passwd"]["after"]["mode"] == 0o700
    assert by_path["/home/user/d/l"]["after"]["type"] == "link"
    wait_until(lambda: layers(mortal) == before, 30, lambda: layers(mortal))


def root(box, script):
    box.run(script, user="root")


def test_between_snapshots_and_below_a_directory(mortal, box):
    box.out("echo one > a; mkdir d; echo in > d/in")
    snapshot(box, "diff-one")
    box.out("echo two > a; rm -r d; echo b > b")
    snapshot(box, "diff-two")
    box.out("echo three > c")
    try:
        assert kinds(diff(box, **{"from": "diff-one", "to": "diff-two"})) == {
            "/home/user/a": "changed", "/home/user/b": "added", "/home/user/d": "removed",
            "/home/user/d/in": "removed"}
        assert kinds(diff(box, **{"from": "diff-two"})) == {"/home/user/c": "added"}
        back = diff(box, **{"from": "now", "to": "diff-two"})
        assert kinds(back) == {"/home/user/c": "removed"} and back["to"] == "diff-two"
        below = diff(box, **{"from": "diff-one", "to": "diff-two", "path": "/home/user/d"})
        assert kinds(below) == {"/home/user/d": "removed", "/home/user/d/in": "removed"}
        short = diff(box, **{"from": "diff-one", "to": "diff-two", "limit": 1})
        assert len(short["changes"]) == 1 and short["summary"]["truncated"] and short["summary"]["removed"] == 2
        # A sandbox from a snapshot starts with it.
        other = Box(mortal.rest, template="diff-two")
        other.out("echo more > c")
        assert kinds(diff(other)) == {"/home/user/c": "added"}
        assert kinds(diff(other, **{"from": "diff-one"})) == {
            "/home/user/a": "changed", "/home/user/b": "added", "/home/user/c": "added",
            "/home/user/d": "removed", "/home/user/d/in": "removed"}
        other.destroy()
    finally:
        remove(mortal.rest, "diff-one")
        remove(mortal.rest, "diff-two")


def test_a_removed_directory_that_is_made_again(mortal, box):
    box.out("mkdir d; echo one > d/one; echo same > d/same")
    snapshot(box, "diff-opaque")
    other = Box(mortal.rest, template="diff-opaque")
    other.out("rm -r d; mkdir d; echo same > d/same; echo two > d/two")
    try:
        assert kinds(diff(other)) == {"/home/user/d/one": "removed", "/home/user/d/two": "added"}
    finally:
        other.destroy()
        remove(mortal.rest, "diff-opaque")


WORK = r"""
mkdir -p app/sub && cd app && seq 1 200 > long && printf 'no newline' > short && printf 'a\0b' > bin
echo '#!/bin/sh' > run && ln -s long link && echo gone > gone && echo 1 > sub/one && mkdir .git && echo x > .git/x
"""
CHANGES = r"""
cd app && sed -i '50s/.*/fifty/; 120,130d' long && printf 'no newline, but more' > short
printf 'a\0c%2000s\1' x > bin && chmod +x run && ln -sf short link && rm gone && rm -r sub && echo file > sub
echo y > .git/y && mkdir 'sp ace' && echo 'umlaut' > 'sp ace/Ã¼ "q"' && : > empty
"""


def test_a_patch_for_git(mortal, box, tmp_path):
    box.out(WORK)
    copy_out(box, tmp_path / "tree")
    snapshot(box, "diff-git")
    box.out(CHANGES)
    copy_out(box, tmp_path / "wanted")
    text = patch(box, **{"from": "diff-git", "path": "/home/user/app"})
    remove(mortal.rest, "diff-git")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "tree", check=True)
    subprocess.run(["git", "apply", "-"], cwd=tmp_path / "tree", input=text, check=True)
    subprocess.run(["diff", "-r", "--no-dereference", "--exclude", ".git", "tree", "wanted"], cwd=tmp_path, check=True)
    assert os.access(tmp_path / "tree/run", os.X_OK)
    subprocess.run(["git", "apply", "-R", "-"], cwd=tmp_path / "tree", input=text, check=True)
    assert (tmp_path / "tree/gone").read_text() == "gone\n"


def copy_out(box, target):
    target.mkdir()
    archive = box.rest.get(f"/api/sandboxes/{box.id}/archive", path="/home/user/app")
    assert archive.status == 200, archive.body
    subprocess.run(["tar", "-x", "--exclude", ".git"], cwd=target,
                   input=archive.body, check=True)


def test_the_command_line(mortal, box):
    box.out("mkdir d; echo one > d/f; echo two > g")
    env = {**os.environ, "ATOLL_SOCKET": str(mortal.socket)}

    def atoll(*words):
        done = subprocess.run([BUILD / "atoll", "diff", *words], text=True, capture_output=True, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert atoll(box.id).splitlines() == ["  home/", "    user/", "+     d/", "+       f  4", "+     g  4",
                                          "3 added, 0 changed, 0 removed, 8"]
    assert "+++ b/home/user/g" in atoll("--patch", box.id)
    assert "+++ b/d/f" in atoll("--export", box.id, "start", "now")
    assert "+++ b/f" in atoll("--export", "--relative", "/home/user/d", box.id)


def test_git_apply_takes_what_the_command_line_exports(mortal, box, tmp_path):
    """atoll diff --export … | git apply, in a work tree of the same project."""
    project = tmp_path / "app"
    (project / "d").mkdir(parents=True)
    (project / "list").write_text("".join(f"{number}\n" for number in range(30)))
    (project / "d/gone").write_text("gone\n")
    (project / "bytes").write_bytes(bytes(range(256)))
    env = {**os.environ, "ATOLL_SOCKET": str(mortal.socket), "ATOLL": str(BUILD / "atoll"), "BOX": box.id}

    def sh(script, **fields):
        done = subprocess.run(["sh", "-c", script], text=True, capture_output=True, env=env, **fields)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    sh("git init -q && git add -A && git -c user.name=a -c user.email=a@b commit -qm one && "
       "$ATOLL cp . $BOX:/home/user/app", cwd=project)
    mortal.rest.post(f"{box.path}/snapshots", {"name": "begin"})
    box.out("cd app; sed -i s/^7$/seven/ list; rm d/gone; echo new > d/new; chmod 755 d/new; "
            "printf '\\1\\0\\2' > bytes")
    sh("$ATOLL diff --export --relative /home/user/app $BOX begin now | git apply", cwd=project)
    assert sh("git status --porcelain -uall", cwd=project).split() == ["M", "bytes", "D", "d/gone", "M", "list", "??", "d/new"]
    assert (project / "list").read_text().splitlines()[7] == "seven" and (project / "bytes").read_bytes() == b"\1\0\2"
    assert (project / "d/new").read_text() == "new\n" and os.access(project / "d/new", os.X_OK)
    remove(mortal.rest, "begin")


@pytest.mark.parametrize("query", [{"from": "-bad"}, {"to": "x" * 600}, {"format": "tar"}, {"path": "relative"},
                                   {"path": "/a/../b"}, {"path": "/a//b"}, {"limit": 10001}])
def test_bad_input(box, query):
    assert box.rest.get(f"/api/sandboxes/{box.id}/diff", **query).status == 400


def test_moments_that_do_not_exist(box):
    assert box.rest.get(f"/api/sandboxes/{box.id}/diff", **{"from": "no-such-snapshot"}).status == 404
    assert box.rest.get("/api/sandboxes/nosuchbox/diff").status == 404
