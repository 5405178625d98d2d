"""atoll-diff by itself: patches against git, joins against git merge-file, hostile trees."""

import json
import os
import random
import subprocess

import pytest

from conftest import BUILD


def atoll_diff(*words, status=0, **fields):
    done = subprocess.run([BUILD / "atoll-diff", *words], capture_output=True, **fields)
    assert done.returncode == status, done.stderr
    return done.stdout


def text(rng, lines):
    return "".join(f"{rng.randrange(20)}\n" for _ in range(lines))


def changed(rng, old):
    lines = old.splitlines(keepends=True)
    for _ in range(rng.randrange(6)):
        at = rng.randrange(len(lines) + 1)
        lines[at:at + rng.randrange(4)] = [f"new {rng.randrange(9)}\n" for _ in range(rng.randrange(4))]
    return "".join(lines) + ("" if rng.random() < 0.7 else "no newline")


@pytest.mark.parametrize("seed", range(3))
def test_patches_apply_in_both_directions(tmp_path, seed):
    rng = random.Random(seed)
    for name in ("a", "b", "work"):
        (tmp_path / name).mkdir()
    for i in range(40):
        old = text(rng, rng.randrange(60))
        if rng.random() < 0.9:
            (tmp_path / f"a/{i}").write_text(old)
        if rng.random() < 0.9:
            (tmp_path / f"b/{i}").write_text(changed(rng, old))
    subprocess.run(["cp", "-r", *(tmp_path / "a").iterdir(), tmp_path / "work"], check=True)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "work", check=True)
    patch = atoll_diff("--patch", tmp_path / "a", tmp_path / "b")
    for direction, wanted in ((["git", "apply"], "b"), (["git", "apply", "-R"], "a")):
        subprocess.run([*direction, "-"], cwd=tmp_path / "work", input=patch, check=True)
        subprocess.run(["diff", "-r", "--exclude", ".git", "work", wanted], cwd=tmp_path, check=True)


@pytest.mark.parametrize("seed", range(3))
def test_joins_are_those_of_git(tmp_path, seed):
    """A join is what git makes of it. Where git joins more, it is a conflict here: edits that touch each other."""
    rng = random.Random(seed)
    joined = 0
    for i in range(30):
        base = "".join(f"line {k}\n" for k in range(60))
        for name in ("base", "ours", "theirs"):
            (tmp_path / f"{i}/{name}").mkdir(parents=True)
        for name, content in (("base", base), ("ours", changed(rng, base)), ("theirs", changed(rng, base))):
            (tmp_path / f"{i}/{name}/f").write_text(content)
        found = [json.loads(line) for line in atoll_diff(
            "--merge", "ours", "base", "theirs", cwd=tmp_path / str(i)).splitlines()]
        git = subprocess.run(["git", "merge-file", "-p", "ours/f", "base/f", "theirs/f"], cwd=tmp_path / str(i),
                             capture_output=True)
        if any(one.get("joined") for one in found):
            assert git.returncode == 0
            stream = atoll_diff("--merge", "ours", "--stream", "base", "theirs", cwd=tmp_path / str(i))
            assert git.stdout in stream
            joined += 1
        elif git.returncode != 0:
            assert found[-1]["summary"]["conflicts"] == 1
    assert joined > 0


def test_a_stream_that_is_cut_short_changes_nothing(tmp_path):
    for length in (0, 7, 40):
        done = subprocess.run([BUILD / "atoll-diff", "--apply"], input=b"\3\0\0\0" + b"\1" * length, capture_output=True)
        assert done.returncode == 1 and b"not a whole stream" in done.stderr


def test_layers_with_whiteouts_and_opaque_directories(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("whiteouts are device nodes")
    for path in ("base/d/e", "upper/d"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "base/d/f").write_text("f")
    (tmp_path / "base/d/e/g").write_text("g")
    (tmp_path / "base/x").write_text("x")
    os.mknod(tmp_path / "upper/x", 0o020000, 0)
    os.setxattr(tmp_path / "upper/d", "user.overlay.opaque", b"y")
    found = {one["path"]: one["kind"] for one in map(json.loads, atoll_diff(
        "base", "upper:base", cwd=tmp_path).splitlines()) if "path" in one}
    assert found == {"/d/e": "removed", "/d/e/g": "removed", "/d/f": "removed", "/x": "removed"}


def test_hostile_trees(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    deep = str(tmp_path / "b")
    fd = os.open(deep, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    os.symlink("/etc/passwd", tmp_path / "b/link")
    os.mkfifo(tmp_path / "b/fifo")
    lines = atoll_diff(tmp_path / "a", tmp_path / "b").splitlines()
    assert json.loads(lines[-1])["summary"]["added"] == 1502
    assert b"root:" not in atoll_diff("--patch", tmp_path / "a", tmp_path / "b")
    subprocess.run(["rm", "-rf", tmp_path / "b"], check=True)
