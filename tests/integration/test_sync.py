"""`atoll sync`: a folder and a sandbox in step, and what it never does."""

import json
import os
import shutil
import subprocess

import pytest

from conftest import BUILD, running
from daemons import wait_until


@pytest.fixture
def place(daemon, tmp_path, monkeypatch):
    """A folder, a sandbox and a place for what is kept between runs."""
    monkeypatch.setitem(daemon.env, "XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "folder"
    folder.mkdir()
    box = daemon.create()
    yield Place(daemon, folder, box)
    daemon.atoll("rm", box)


class Place:
    def __init__(self, daemon, folder, box):
        self.daemon, self.folder, self.box = daemon, folder, box

    def sync(self, *options, status=0):
        done = self.daemon.atoll("sync", *options, str(self.folder), f"{self.box}:/home/user/w")
        assert done.returncode == status, (done.stdout, done.stderr)
        return sorted(done.stdout.splitlines())

    def run(self, script):
        done = self.daemon.atoll("exec", self.box, "--", "sh", "-c", f"cd /home/user/w && {script}")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def test_one_way(place):
    (place.folder / "sub").mkdir()
    (place.folder / "sub/f").write_text("one")
    (place.folder / "run.sh").write_text("#!/bin/sh\n")
    (place.folder / "run.sh").chmod(0o755)
    (place.folder / "link").symlink_to("sub/f")
    assert place.sync() == ["> link", "> run.sh", "> sub", "> sub/f"]
    assert place.run("cat link; test -x run.sh; stat -c %U sub/f") == "oneuser"
    assert place.sync() == []
    (place.folder / "sub/f").write_text("two, longer")
    place.run("echo own > sub/own")
    assert place.sync("--dry-run") == ["> sub/f"]
    assert place.run("cat sub/f") == "one"
    assert place.sync() == ["> sub/f"]
    assert place.run("cat sub/f sub/own") == "two, longerown"
    (place.folder / "link").unlink()
    place.run("rm run.sh")
    assert place.sync() == ["> - link", "> run.sh"]
    assert place.run("ls") == "run.sh\nsub"
    assert not (place.folder / "sub/own").exists()


def test_conflicts_are_not_overwritten(place):
    (place.folder / "a").write_text("base")
    (place.folder / "b").write_text("base")
    place.sync()
    (place.folder / "a").write_text("mine, longer")
    place.run("echo theirs > a; echo theirs > b; echo new > c")
    (place.folder / "c").write_text("mine, and new")
    assert place.sync(status=1) == ["! a", "! b", "! c"]
    assert place.sync("--two-way", status=1) == ["! a", "! c", "< b"]
    assert place.run("cat a b c") == "theirs\ntheirs\nnew"
    assert (place.folder / "a").read_text() == "mine, longer"
    assert (place.folder / "b").read_text() == "theirs\n"
    report = json.loads(place.daemon.atoll("sync", "--json", str(place.folder), f"{place.box}:/home/user/w").stdout)
    assert report == {"conflicts": ["a", "c"]}
    place.run("rm a c")
    (place.folder / "c").unlink()
    assert place.sync("--two-way", status=1) == ["! a"]


def test_two_way(place):
    (place.folder / "here").write_text("here")
    place.run("true") if place.sync("--two-way") else None
    place.run("mkdir -p d/e; echo there > d/e/f; ln -s e/f d/in; ln -s /etc/passwd d/out; ln -s ../../.. d/up")
    place.sync("--two-way", status=1)
    assert (place.folder / "d/e/f").read_text() == "there\n"
    assert os.readlink(place.folder / "d/in") == "e/f"
    assert not (place.folder / "d/out").is_symlink() and not (place.folder / "d/up").is_symlink()
    place.run("rm d/out d/up")
    assert place.sync("--two-way") == []
    place.run("rm -r d")
    (place.folder / "here").unlink()
    assert place.sync("--two-way") == ["< - d", "< - d/e", "< - d/e/f", "< - d/in", "> - here"]
    assert list(place.folder.iterdir()) == [] and place.run("ls") == ""


def test_a_link_of_the_sandbox_leads_nowhere(place, tmp_path):
    (tmp_path / "outside").mkdir()
    (place.folder / "d").symlink_to(tmp_path / "outside")
    place.sync()
    place.run("rm d && mkdir d && echo x > d/f")
    place.sync("--two-way")
    assert list((tmp_path / "outside").iterdir()) == []
    assert not (place.folder / "d").is_symlink() and (place.folder / "d/f").read_text() == "x\n"


def test_excludes(place):
    (place.folder / "node_modules/deep").mkdir(parents=True)
    (place.folder / "node_modules/deep/f").write_text("x")
    (place.folder / "a.o").write_text("x")
    (place.folder / "a.c").write_text("x")
    assert place.sync("--exclude", "node_modules", "--exclude", "*.o") == ["> a.c"]


def test_a_file_becomes_a_directory(place):
    (place.folder / "x").write_text("file")
    place.sync()
    (place.folder / "x").unlink()
    (place.folder / "x").mkdir()
    (place.folder / "x/f").write_text("in it")
    assert place.sync() == ["> x", "> x/f"]
    assert place.run("cat x/f") == "in it"


WITHOUT_INOTIFY = ["unshare", "--user", "--map-root-user", "sh", "-c",
                   'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"', "sh"]


@pytest.mark.parametrize("wrapper", [pytest.param([], id="with inotify"), pytest.param(WITHOUT_INOTIFY, id="without")])
def test_watch(place, wrapper):
    command = [*wrapper, str(place.daemon.build / "atoll"), "sync", "--watch", "--two-way", str(place.folder),
               f"{place.box}:/home/user/w"]
    with subprocess.Popen(command, env=place.daemon.env) as watcher:
        try:
            (place.folder / "new").mkdir()
            (place.folder / "new/f").write_text("pushed")
            wait_until(lambda: place.daemon.atoll("exec", place.box, "--", "cat", "/home/user/w/new/f").stdout == "pushed",
                       30, lambda: "it was not pushed")
            place.run("echo pulled > g")
            wait_until(lambda: (place.folder / "g").exists() and (place.folder / "g").read_text() == "pulled\n", 30,
                       lambda: "it was not pulled")
        finally:
            watcher.terminate()


@pytest.mark.skipif(shutil.which("runsc") is None, reason="no runsc here: apt install runsc")
@pytest.mark.skipif(os.geteuid() != 0, reason="gVisor needs root")
def test_a_sandbox_of_gvisor(tmp_path):
    """Another provider: pushed, pulled, conflicts listed and left alone, watched."""
    (tmp_path / "providers.yaml").write_text("gvisor: {}\n")
    (tmp_path / "folder/d").mkdir(parents=True)
    (tmp_path / "folder/d/f").write_text("one")
    with running(BUILD, ATOLL_PROVIDERS=str(tmp_path / "providers.yaml"), XDG_STATE_HOME=str(tmp_path / "kept")) as daemon:
        place = Place(daemon, tmp_path / "folder", daemon.create("--provider", "gvisor"))
        assert place.sync() == ["> d", "> d/f"] and place.run("cat d/f") == "one"
        place.run("echo theirs > d/f; echo new > d/new; ln -s f d/link")
        (place.folder / "d/f").write_text("mine, longer")
        assert place.sync("--two-way", status=1) == ["! d/f", "< d/link", "< d/new"]
        assert place.run("cat d/f") == "theirs" and (place.folder / "d/f").read_text() == "mine, longer"
        place.run("rm d/f d/link")
        (place.folder / "d/f").unlink()
        assert place.sync("--two-way") == ["< - d/link"]
        command = [str(daemon.build / "atoll"), "sync", "--watch", "--two-way", str(place.folder), f"{place.box}:/home/user/w"]
        with subprocess.Popen(command, env=daemon.env) as watcher:
            try:
                (place.folder / "pushed").write_text("x")
                wait_until(lambda: place.run("cat pushed 2>/dev/null || true") == "x", 30, lambda: "it was not pushed")
                place.run("echo pulled > g")
                wait_until((place.folder / "g").exists, 30, lambda: "it was not pulled")
            finally:
                watcher.terminate()
        daemon.atoll("rm", place.box, check=True)


def test_bad_requests(place):
    for argv in ((str(place.folder), "x"), ("/nonexistent", f"{place.box}:x"), (str(place.folder), "nothing:x")):
        assert place.daemon.atoll("sync", *argv).returncode != 0


def test_a_directory_that_cannot_be_read_is_not_empty(place):
    (place.folder / "d").mkdir()
    (place.folder / "d/f").write_text("mine")
    for name in ("d-", "d\u00e9", "d\u00e9a", "d\u00e9b"):  # which sort around what is in d
        (place.folder / name).write_text("")
    place.sync()
    place.run("chmod 000 d")
    place.sync("--two-way", status=1)
    assert (place.folder / "d/f").read_text() == "mine"
    place.run("chmod 755 d")
    place.sync("--two-way")
    assert place.run("cat d/f") == "mine"
