"""atoll-unpack squash: one layer shows on any tree what several layers show there, by the kernel's overlayfs."""

import contextlib
import json
import os
import random
import shutil
import stat
import subprocess

import pytest
from daemons import BUILD, need_build
from trees import attributes, facts

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="overlays can be mounted by root only")

NAMES = ["a", "b", "c", "d", "with space", "\udcff"]
OPAQUE = "user.overlay.opaque"
FULL = os.environ.get("ATOLL_FAULTS") == "all"


def squash(out, layers, *options, status=0):
    need_build()
    out.mkdir()
    done = subprocess.run([BUILD / "atoll-unpack", "squash", *options, out, *layers], capture_output=True, timeout=80)
    assert done.returncode == status, (done.stdout, done.stderr)
    return json.loads(done.stdout)


@contextlib.contextmanager
def overlay(tmp_path, layers, upper=None):
    merged, work = tmp_path / "merged", tmp_path / "work"
    merged.mkdir(exist_ok=True)
    options = "userxattr,lowerdir=" + ":".join(str(layer) for layer in reversed(layers))
    if upper:
        work.mkdir(exist_ok=True)
        options += f",upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, merged], check=True)
    try:
        yield merged
    finally:
        subprocess.run(["umount", merged], check=True)
        shutil.rmtree(work, ignore_errors=True)


def shown(tmp_path, layers):
    """Of each entry everything; names of one file by the first of them in the alphabet."""
    with overlay(tmp_path, layers) as merged:
        found = facts(merged)
        top = os.stat(merged)
        found[b""] = {"mode": top.st_mode, "owner": (top.st_uid, top.st_gid), "time": top.st_mtime_ns,
                      "attributes": attributes(merged)}
    groups = {}
    for path, one in found.items():
        groups.setdefault(one.get("first name", path), []).append(path)
    for paths in groups.values():
        for path in paths:
            found[path]["first name"] = min(paths)
    for one in found.values():
        for name in [name for name in one["attributes"] if name.startswith("user.overlay.")
                     and not name.startswith("user.overlay.overlay.")]:
            del one["attributes"][name]
    return found


def assert_same(tmp_path, base, layers):
    made = squash(tmp_path / "squashed", layers)
    theirs, ours = shown(tmp_path, [base, *layers]), shown(tmp_path, [base, tmp_path / "squashed"])
    assert {path: (theirs.get(path), ours.get(path)) for path in theirs.keys() | ours.keys()
            if theirs.get(path) != ours.get(path)} == {}
    entries = sum(len(folders) + len(files) for _, folders, files in os.walk(tmp_path / "squashed"))
    assert made["files"] == entries
    return made


def decorate(rng, path):
    kind = stat.S_IFMT(os.lstat(path).st_mode)
    if rng.random() < 0.4:
        os.chown(path, rng.choice([0, 5, 1000]), rng.choice([0, 6, 65534]), follow_symlinks=False)
    if kind == stat.S_IFLNK:
        return
    if rng.random() < 0.4:
        os.chmod(path, rng.choice([0, 0o600, 0o755, 0o1777, 0o2755, 0o4711]))
    if kind in (stat.S_IFREG, stat.S_IFDIR) and rng.random() < 0.3:
        os.setxattr(path, "user.note", rng.randbytes(8))
    os.utime(path, ns=(0, rng.randrange(10**18)))


def fill(rng, directory, depth, marks, files):
    """A random tree; with `marks` one of a layer, of every kind that the kernel or a hostile layer has."""
    for name in NAMES:
        path = directory / name
        kind = rng.random()
        if kind < 0.3:
            path.mkdir()
            if marks and rng.random() < 0.3:
                os.setxattr(path, OPAQUE, rng.choice([b"y", b"y", b"n", b"yes"]))
            if depth > 0:
                fill(rng, path, depth - 1, marks, files)
        elif kind < 0.45:
            path.write_bytes(rng.randbytes(rng.choice([0, 5, 5000])))
            if rng.random() < 0.2:
                os.truncate(path, 300_000)
            files.append(path)
        elif kind < 0.52 and files:
            os.link(rng.choice(files), path)
        elif kind < 0.6:
            path.symlink_to(rng.choice(["a", "../b", "/c", "/nowhere"]))
        elif kind < 0.62:
            os.mkfifo(path)
        elif kind < 0.72 and marks:
            os.mknod(path, stat.S_IFCHR, 0)
            continue
        if path.is_symlink() or path.exists():
            decorate(rng, path)
    decorate(rng, directory)


@pytest.mark.parametrize("seed", range(200 if FULL else 25))
def test_layers_of_any_content(tmp_path, seed):
    rng = random.Random(seed)
    trees = [tmp_path / f"layer{i}" for i in range(rng.choice([2, 3, 5, 9]))]
    for i, tree in enumerate(trees):
        tree.mkdir()
        fill(rng, tree, 2, i > 0, [])
    assert_same(tmp_path, trees[0], trees[1:])


def change(rng, top):
    """What programs do in a sandbox."""
    found = [path for path in top.rglob("*") if rng.random() < 0.2]
    for path in found:
        with contextlib.suppress(FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError):
            what = rng.randrange(8)
            is_dir = path.is_dir() and not path.is_symlink()
            if what == 0:
                shutil.rmtree(path) if is_dir else path.unlink()
            elif what == 1 and is_dir:
                shutil.rmtree(path)
                path.mkdir()
                (path / "new").write_text("new")
            elif what == 2 and not is_dir:
                path.unlink()
                path.mkdir()
            elif what == 3 and path.is_file():
                with path.open("ab") as file:
                    file.write(b"more")
            elif what == 4 and path.is_file():
                os.link(path, path.with_name(f"link{rng.randrange(5)}"))
            elif what == 5 and not is_dir:
                path.rename(path.with_name(rng.choice(NAMES)))
            elif what == 6:
                decorate(rng, path)
            elif is_dir:
                (path / f"f{rng.randrange(5)}").write_bytes(rng.randbytes(100))
                with contextlib.suppress(OSError):  # not on all kernels
                    os.setxattr(path, OPAQUE, b"y")


@pytest.mark.parametrize("seed", range(50 if FULL else 6))
def test_layers_that_an_overlay_wrote(tmp_path, seed):
    rng = random.Random(seed)
    layers = [tmp_path / "base"]
    layers[0].mkdir()
    fill(rng, layers[0], 3, False, [])
    for i in range(20):
        upper = tmp_path / f"upper{i}"
        upper.mkdir()
        with overlay(tmp_path, layers, upper) as merged:
            change(rng, merged)
        layers.append(upper)
    assert_same(tmp_path, layers[0], layers[1:])


def test_limits(tmp_path):
    layer = tmp_path / "layer"
    layer.mkdir()
    for i in range(10):
        (layer / f"{i}").write_bytes(b"x" * 10_000)
    assert squash(tmp_path / "out1", [layer], "--max-files", "10", "--max-bytes", "100000")["bytes"] == 100_000
    for i, option in enumerate(["--max-files=9", "--max-bytes=99999"]):
        assert squash(tmp_path / f"out-{i}", [layer], option, status=3)["kind"] == "resource_exhausted"
    (tmp_path / "out2").mkdir()
    assert subprocess.run([BUILD / "atoll-unpack", "squash", tmp_path / "out2"], capture_output=True).returncode == 2


def test_long_paths(tmp_path):
    """One that cannot be opened is refused."""
    for levels, status in ((16, 0), (17, 4)):
        layer, here = tmp_path / f"{levels}", os.getcwd()
        layer.mkdir()
        os.chdir(layer)
        try:
            for _ in range(levels):
                os.mkdir("d" * 250)
                os.chdir("d" * 250)
        finally:
            os.chdir(here)
        said = squash(tmp_path / f"out-{levels}", [layer], status=status)
        assert said.get("files") == levels if status == 0 else said["kind"] == "failed_precondition"
        subprocess.run(["rm", "-rf", layer, tmp_path / f"out-{levels}"], check=True)
