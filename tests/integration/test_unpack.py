"""atoll-unpack, compared with GNU tar and umoci: what it makes of archives, and what it refuses."""

import bz2
import contextlib
import gzip
import hashlib
import io
import json
import lzma
import os
import shutil
import stat
import subprocess
import tarfile
import threading

import pytest
from daemons import BUILD, need_build
from trees import facts, make_tree

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="owners of files can be set by root only")

SHA = "sha256:"


def unpack(directory, archive, *options, status=0):
    """Runs the program; returns the last line, and the notes before it."""
    need_build()
    done = subprocess.run([BUILD / "atoll-unpack", *options, directory], input=archive,
                          capture_output=True, timeout=80)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == status, (lines, done.stderr)
    return lines[-1], lines[:-1]


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, check=True, capture_output=True).stdout


COMPRESSIONS = {
    "none": bytes, "gzip": gzip.compress, "zstd": zstd, "xz": lzma.compress, "bzip2": bz2.compress,
    "gzip-members": lambda data: b"".join(gzip.compress(data[at:at + 100_001])
                                          for at in range(0, len(data), 100_001)),
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    path = tmp_path_factory.mktemp("tree")
    path.chmod(0o755)
    make_tree(path)
    return path


def tar_of(tree, *options):
    return subprocess.run(["tar", "-C", tree, *options, "-cf", "-", "."], check=True,
                          capture_output=True).stdout


def untar(archive, directory):
    directory.mkdir()
    subprocess.run(["tar", "-xp", "--numeric-owner", "--xattrs", "--xattrs-include=*", "-C", directory,
                    "-f", "-"], input=archive, check=True)
    return directory


def differences(a, b):
    return {path: (a.get(path), b.get(path)) for path in a.keys() | b.keys() if a.get(path) != b.get(path)}


class Maker:
    """An archive by entries, also those that no archiver would write."""

    def __init__(self, form=tarfile.PAX_FORMAT):
        self.bytes = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.bytes, mode="w", format=form)

    def add(self, name, data=b"", kind=tarfile.REGTYPE, target="", mode=0o644, **more):
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.mode, info.size = kind, target, mode, len(data)
        for key, value in more.items():
            setattr(info, key, value)
        self.tar.addfile(info, io.BytesIO(data))
        return self

    def dir(self, name, **more):
        return self.add(name, kind=tarfile.DIRTYPE, mode=more.pop("mode", 0o755), **more)

    def link(self, name, target):
        return self.add(name, kind=tarfile.SYMTYPE, target=target)

    def hard(self, name, target):
        return self.add(name, kind=tarfile.LNKTYPE, target=target)

    def done(self):
        self.tar.close()
        return self.bytes.getvalue()


# --- the same as others ---

@pytest.mark.parametrize("options", [("--format=gnu",), ("--format=gnu", "-S"),
                                     ("--format=pax", "--xattrs", "--xattrs-include=*"),
                                     ("--format=pax", "-S", "--sparse-version=1.0", "--xattrs", "--xattrs-include=*"),
                                     ("--format=pax", "-S", "--sparse-version=0.1"),
                                     ("--format=pax", "-S", "--sparse-version=0.0")])
def test_the_tree_is_that_of_gnu_tar(tree, tmp_path, options):
    archive = tar_of(tree, *options)
    times = "ns" if "--format=pax" in options else "s"
    ours = tmp_path / "ours"
    ours.mkdir()
    last, notes = unpack(ours, archive)
    expected = facts(untar(archive, tmp_path / "theirs"), times)
    assert differences(facts(ours, times), expected) == {}
    assert notes == [] and last["skipped"] == 0
    assert last["files"] == len(expected) + 1
    assert last["diffId"] == last["digest"] == SHA + hashlib.sha256(archive).hexdigest()
    assert last["tarBytes"] == last["inputBytes"] == len(archive)


def test_the_tree_is_the_one_that_was_packed(tree, tmp_path):
    """The control of the comparison with tar: neither may lose what is in the tree."""
    unpack(tmp_path, tar_of(tree, "--format=pax", "--xattrs", "--xattrs-include=*"))
    assert differences(facts(tmp_path), facts(tree)) == {}
    assert tmp_path.stat().st_mtime_ns == tree.stat().st_mtime_ns
    os.chmod(tmp_path / "large", 0o600)
    assert list(differences(facts(tmp_path), facts(tree))) == [b"large"]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_compressions(tree, tmp_path, compression):
    archive = tar_of(tree, "--format=pax", "--xattrs", "--xattrs-include=*")
    packed = COMPRESSIONS[compression](archive)
    last, _ = unpack(tmp_path, packed)
    assert last["diffId"] == SHA + hashlib.sha256(archive).hexdigest()
    assert last["digest"] == SHA + hashlib.sha256(packed).hexdigest()
    assert (last["inputBytes"], last["tarBytes"]) == (len(packed), len(archive))
    assert differences(facts(tmp_path), facts(tree)) == {}


def test_old_archives(tmp_path):
    """A name of ustar is in two fields; that of v7 has neither magic nor type."""
    long = "/".join(["d" * 60] * 3)
    unpack(tmp_path, Maker(tarfile.USTAR_FORMAT).add(long + "/file", b"u").done())
    assert (tmp_path / long / "file").read_bytes() == b"u"
    head = bytearray(Maker(tarfile.USTAR_FORMAT).add("old/", kind=tarfile.AREGTYPE).done())
    head[257:265] = bytes(8)
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head[:512])
    unpack(tmp_path, bytes(head))
    assert (tmp_path / "old").is_dir()


def test_parents_that_an_archive_does_not_list(tmp_path):
    unpack(tmp_path, Maker().add("a/b/c", b"x").done())
    assert (tmp_path / "a/b/c").read_bytes() == b"x"
    assert stat.S_IMODE((tmp_path / "a/b").stat().st_mode) == 0o755


def test_later_entries_replace_earlier_ones(tmp_path):
    made = (Maker().add("file", b"first").hard("other", "file").add("file", b"second")
            .dir("d").add("d/x", b"x").add("d", b"now a file")
            .add("f", b"file").dir("f").add("f/y", b"y")
            .link("l", "file").add("l", b"no link").dir("twice", mode=0o700).dir("twice", mode=0o711))
    unpack(tmp_path, made.done())
    read = {p.name: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file() and not p.is_symlink()}
    assert read == {"file": b"second", "other": b"first", "d": b"now a file", "y": b"y", "l": b"no link"}
    assert stat.S_IMODE((tmp_path / "twice").stat().st_mode) == 0o711


def test_a_leading_slash_is_dropped_and_dots_are(tmp_path):
    unpack(tmp_path, Maker().dir("/").add("/etc/a", b"a").add(".//./etc//b", b"b").dir("./c/").done())
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")) == ["c", "etc", "etc/a", "etc/b"]


def test_the_root_has_an_entry(tmp_path):
    directory = tmp_path / "root"
    directory.mkdir()
    unpack(directory, Maker().dir("./", mode=0o711, uid=3, gid=4, mtime=77).add("x").done())
    info = directory.stat()
    assert (stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid, info.st_mtime) == (0o711, 3, 4, 77)


# --- layers ---

def is_whiteout(path):
    info = path.lstat()
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0


def is_opaque(path):
    try:
        return os.getxattr(path, "user.overlay.opaque") == b"y"
    except OSError:
        return False


def test_whiteouts(tmp_path):
    layer = (Maker().add(".wh.gone").add("d/.wh.below").dir("o").add("o/.wh..wh..opq").add("o/new", b"n")
             .add("unlisted/.wh..wh..opq").add(".wh..wh.plnk/1.2").done())
    last, notes = unpack(tmp_path, layer, status=1)
    assert last["kind"] == "invalid_argument"  # .wh. in the middle of a path
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    layer = (Maker().add(".wh.gone").add("d/.wh.below").dir("o").add("o/.wh..wh..opq").add("o/new", b"n")
             .add("unlisted/.wh..wh..opq").dir(".wh..wh.plnk").done())
    last, notes = unpack(tmp_path, layer)
    assert is_whiteout(tmp_path / "gone") and is_whiteout(tmp_path / "d/below")
    assert is_opaque(tmp_path / "o") and is_opaque(tmp_path / "unlisted") and not is_opaque(tmp_path / "d")
    assert (tmp_path / "o/new").read_bytes() == b"n"
    assert [note["note"] for note in notes] == ["type"]
    assert not list(tmp_path.rglob(".wh.*"))


def test_a_whiteout_hides_lower_layers_only(tmp_path):
    """OCI: files of the same layer stay, in whatever order they come."""
    layer = (Maker().add("before", b"b").add(".wh.before").add(".wh.after").add("after", b"a")
             .dir("dir").add("dir/x", b"x").add(".wh.dir").add(".wh.late").dir("late").add("late/y", b"y")
             .add(".wh.implied").add("implied/z", b"z").done())
    unpack(tmp_path, layer)
    assert (tmp_path / "before").read_bytes() == b"b" and (tmp_path / "after").read_bytes() == b"a"
    for name in ("dir", "late", "implied"):
        assert is_opaque(tmp_path / name), name
    assert len(list(tmp_path.rglob("*/[xyz]"))) == 3


def test_plain_archives_have_no_marks(tmp_path):
    unpack(tmp_path, Maker().add(".wh.a", b"1").add("d/.wh..wh..opq", b"2").done(), "--plain")
    assert (tmp_path / ".wh.a").read_bytes() == b"1" and (tmp_path / "d/.wh..wh..opq").read_bytes() == b"2"
    assert not is_opaque(tmp_path / "d")


STACK = [
    lambda: (Maker().dir("etc").add("etc/a", b"a1").add("etc/b", b"b1").dir("var").add("var/x", b"x1")
             .dir("opaque").add("opaque/old", b"o").add("tool", b"t", mode=0o4755).hard("same", "tool")
             .link("lib", "usr/lib").dir("swap").add("swap/in", b"1").done()),
    lambda: (Maker().dir("etc", mode=0o700).add("etc/.wh.a").add("etc/c", b"c2", uid=7, gid=8)
             .dir("opaque").add("opaque/.wh..wh..opq").add("opaque/new", b"n").add(".wh.swap")
             .add("swap", b"a file").done()),
    lambda: Maker().dir("etc").add("etc/a", b"a3").add(".wh.var").done(),
]


# Upper layers that do not list the directories of their entries.
IMPLIED = [
    lambda: (Maker().dir("var", mode=0o711).dir("var/lib", mode=0o700, uid=7, gid=8, mtime=1000)
             .dir("var/lib/deep", mode=0o1777, uid=9, mtime=2000, pax_headers={"SCHILY.xattr.user.kept": "yes"})
             .dir("srv", mode=0o770, gid=5).dir("gone", mode=0o700, uid=3).dir("emptied", mode=0o750, uid=4)
             .add("emptied/old", b"o").dir("twice", mode=0o701, uid=6).dir("listed", mode=0o700)
             .dir("removed", mode=0o700).add("removed/x", b"x").done()),
    lambda: (Maker().add("var/lib/deep/file", b"1").add("srv/a/b/new", b"2").add(".wh.gone")
             .add("gone/inside", b"3").add("emptied/.wh..wh..opq").add("emptied/new", b"4").add("twice/one", b"5")
             .add("listed/x", b"6").dir("listed", mode=0o755, uid=2).add("removed/y", b"7").done()),
    lambda: (Maker().add("twice/two", b"8").add("listed/y", b"9").add(".wh.removed").add("srv/a/more", b"10")
             .add("var/lib/deep/again", b"11").done()),
]


def umoci_tree(tmp_path, archives):
    image = f"{tmp_path}/image:x"
    subprocess.run(["umoci", "init", "--layout", tmp_path / "image"], check=True)
    subprocess.run(["umoci", "new", "--image", image], check=True)
    for number, archive in enumerate(archives):
        file = tmp_path / f"{number}.tar"
        file.write_bytes(archive)
        subprocess.run(["umoci", "raw", "add-layer", "--image", image, file], check=True)
    subprocess.run(["umoci", "unpack", "--image", image, tmp_path / "bundle"], check=True, capture_output=True)
    return facts(tmp_path / "bundle/rootfs", None)


def settle(out, layers):
    out.mkdir()
    done = subprocess.run([BUILD / "atoll-unpack", "settle", out, *layers], capture_output=True, timeout=80)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return json.loads(done.stdout)["files"]


def overlay_tree(tmp_path, layers):
    merged = tmp_path / "merged"
    merged.mkdir()
    lower = ":".join(str(layer) for layer in reversed(layers))
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"ro,userxattr,lowerdir={lower}", merged], check=True)
    try:
        return facts(merged, None)
    finally:
        subprocess.run(["umount", merged], check=True)


@pytest.mark.skipif(not shutil.which("umoci"), reason="umoci is not installed")
@pytest.mark.parametrize("stack", [STACK, IMPLIED], ids=["listed", "implied"])
def test_a_stack_is_the_root_of_umoci(tmp_path, stack):
    """Layers on each other by an overlay are what umoci makes of the same archives."""
    archives = [layer() for layer in stack]
    layers = []
    for number, archive in enumerate(archives):
        layers.append(tmp_path / f"layer{number}")
        layers[-1].mkdir()
        last, _ = unpack(layers[-1], archive)
        assert (last["implied"] > 0) == (stack is IMPLIED and number > 0), last
    made = settle(tmp_path / "settled", layers)
    assert (made > 0) == (stack is IMPLIED)
    ours, theirs = overlay_tree(tmp_path, [*layers, tmp_path / "settled"]), umoci_tree(tmp_path, archives)
    for found in (*ours.values(), *theirs.values()):
        for name in [name for name in found["attributes"] if "overlay" in name or "rootless" in name]:
            del found["attributes"][name]
    assert differences(ours, theirs) == {}
    if stack is STACK:
        assert b"etc/a" in ours and b"var" not in ours and b"opaque/old" not in ours
    else:
        assert ours[b"var/lib/deep"]["attributes"] and b"removed" not in ours


# --- left out ---

def test_device_nodes_are_left_out(tmp_path):
    last, notes = unpack(tmp_path, Maker().add("dev/null", kind=tarfile.CHRTYPE, devmajor=1, devminor=3)
                         .add("dev/wh", kind=tarfile.CHRTYPE).add("dev/sda", kind=tarfile.BLKTYPE).add("x").done())
    assert last["skipped"] == 3 and last["files"] == 1 and {note["note"] for note in notes} == {"device"}
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_attributes_that_a_layer_may_not_have(tmp_path):
    records = {"SCHILY.xattr.user.overlay.opaque": "y", "SCHILY.xattr.user.overlay.redirect": "/etc",
               "SCHILY.xattr.trusted.overlay.opaque": "y", "SCHILY.xattr.user.fine": "yes"}
    last, notes = unpack(tmp_path, Maker().dir("d", pax_headers=records).add("f", pax_headers=records).done())
    for name in ("d", "f"):
        assert os.listxattr(tmp_path / name) == ["user.fine"]
    assert last["notes"] == 6 and {note["note"] for note in notes} == {"attribute"}


def test_notes_are_bounded(tmp_path):
    maker = Maker()
    for number in range(500):
        maker.add(f"n{number}", kind=tarfile.CHRTYPE)
    last, notes = unpack(tmp_path, maker.done())
    assert len(notes) == 64 and last["notes"] == last["skipped"] == 500


# --- hostile ---

@pytest.fixture
def outside(tmp_path):
    """A directory beside the target, which no archive may reach."""
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "secret").write_text("secret")
    yield directory
    assert [path.name for path in directory.iterdir()] == ["secret"]
    assert (directory / "secret").read_text() == "secret"
    assert (directory / "secret").stat().st_nlink == 1


REFUSED = {
    "up": lambda o: Maker().add("../outside/x", b"x"),
    "up-in-the-middle": lambda o: Maker().add("a/../../outside/x", b"x"),
    "up-at-the-end": lambda o: Maker().dir("a/.."),
    "hard-link-up": lambda o: Maker().hard("x", "../outside/secret"),
    "hard-link-out": lambda o: Maker().hard("x", f"{o}/secret"),
    "hard-link-through-a-link": lambda o: Maker().link("l", str(o)).hard("x", "l/secret"),
    "hard-link-to-nothing": lambda o: Maker().hard("x", "y"),
    "hard-link-to-a-directory": lambda o: Maker().dir("d").hard("x", "d"),
    "through-a-dangling-link": lambda o: Maker().link("l", str(o)).add("l/x", b"x"),
    "through-a-link-up": lambda o: Maker().link("l", "../outside").add("l/x", b"x"),
    "through-two-links": lambda o: Maker().link("a", "..").link("a/b", "outside").add("b/secret/x", b"x"),
    "through-a-file": lambda o: Maker().add("f").add("f/x", b"x"),
    "the-root-as-a-file": lambda o: Maker().add("./", b"x"),
    "whiteout-of-nothing": lambda o: Maker().add("d/.wh."),
    "whiteout-of-the-parent": lambda o: Maker().add("d/.wh..."),
    "whiteout-of-itself": lambda o: Maker().add("d/.wh.."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_leads_out_is_refused(tmp_path, outside, name):
    directory = tmp_path / "target"
    directory.mkdir()
    last, _ = unpack(directory, REFUSED[name](outside).done(), status=1)
    assert last["kind"] == "invalid_argument" and len(last["error"]) < 500


@pytest.mark.parametrize("plain", [[], ["--plain"]])
def test_links_are_followed_inside_only(tmp_path, outside, plain):
    directory = tmp_path / "target"
    directory.mkdir()
    inside = directory / str(outside)[1:]
    unpack(directory, Maker().dir(str(outside)).link("l", str(outside)).add("l/x", b"x")
           .link("up", "../" * 30 + str(outside)[1:]).add("up/y", b"y").link("lx", "l/x").add("lx", b"z").done(),
           *plain)
    assert sorted(path.name for path in inside.iterdir()) == ["x", "y"]
    assert (inside / "x").read_bytes() == b"x" and (directory / "lx").read_bytes() == b"z"


def test_a_file_does_not_go_through_a_link_or_an_earlier_hard_link(tmp_path, outside):
    directory = tmp_path / "target"
    directory.mkdir()
    unpack(directory, Maker().link("l", str(outside / "secret")).add("l", b"x").done())
    assert (directory / "l").read_bytes() == b"x" and not (directory / "l").is_symlink()


def damaged_gzip():
    data = bytearray(gzip.compress(Maker().add("x", b"x" * 1000).done()))
    data[-5] ^= 0xff  # of its sum
    return bytes(data)


def wrong_sum():
    data = bytearray(Maker().add("x", b"x").done())
    data[0] ^= 1
    return bytes(data)


DAMAGED = {
    "empty": lambda: b"",
    "text": lambda: b"this is not an archive\n" * 100,
    "short": lambda: b"x",
    "cut-head": lambda: Maker().add("x").done()[:300],
    "cut-file": lambda: Maker().add("x", b"x" * 5000).done()[:2000],
    "cut-gzip": lambda: gzip.compress(Maker().add("x", os.urandom(5000)).done())[:-500],
    "cut-zstd": lambda: zstd(Maker().add("x", os.urandom(5000)).done())[:-500],
    "cut-xz": lambda: lzma.compress(Maker().add("x", os.urandom(5000)).done())[:-500],
    "sum-of-gzip": damaged_gzip,
    "sum-of-a-head": wrong_sum,
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_archives(tmp_path, name):
    last, _ = unpack(tmp_path, DAMAGED[name](), status=1)
    assert last["kind"] == "invalid_argument"


def test_after_an_error_the_input_is_not_awaited(tmp_path):
    need_build()
    with subprocess.Popen([BUILD / "atoll-unpack", tmp_path], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(Maker().add("../x").done() + bytes(2 * 2**20))
            process.stdin.flush()
        assert process.wait(30) == 1
        assert "leads out" in json.loads(process.stdout.read())["error"]


def test_bytes_after_the_end_are_of_the_digests(tmp_path):
    archive = Maker().add("x", b"x").done() + b"more" * 1000
    packed = gzip.compress(archive) + bytes(700) + b"rest"
    last, _ = unpack(tmp_path, packed)
    assert last["diffId"] == SHA + hashlib.sha256(archive).hexdigest()
    assert last["digest"] == SHA + hashlib.sha256(packed).hexdigest()


# --- bombs ---

def zeros_archive(size, compress):
    head = tarfile.TarInfo("zeros")
    head.size = size
    with subprocess.Popen(compress, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        def feed():
            process.stdin.write(head.tobuf())
            for _ in range(size // 2**20):
                process.stdin.write(bytes(2**20))
            process.stdin.close()
        threading.Thread(target=feed).start()
        return process.stdout.read()


@pytest.mark.parametrize("compress", [["gzip", "-1"], ["zstd", "-q", "-c"]])
@pytest.mark.parametrize("option", [("--max-bytes", "1000000"), ("--max-ratio", "100")])
def test_bombs_are_refused_early(tmp_path, compress, option):
    bomb = zeros_archive(256 * 2**20, compress)
    assert len(bomb) < 2 * 2**20
    last, _ = unpack(tmp_path, bomb, *option, status=3)
    assert last["kind"] == "resource_exhausted"
    assert sum(path.stat().st_blocks for path in tmp_path.rglob("*")) * 512 < 32 * 2**20


def test_too_many_entries(tmp_path):
    maker = Maker()
    for number in range(50):
        maker.dir(f"d{number}")
    last, _ = unpack(tmp_path, maker.done(), "--max-files", "40", status=3)
    assert last["kind"] == "resource_exhausted" and len(list(tmp_path.iterdir())) == 40


@pytest.mark.parametrize("name", ["n" * 256, "/".join(["n" * 100] * 45)])
def test_long_names(tmp_path, name):
    last, _ = unpack(tmp_path, Maker().add(name).done(), status=3)
    assert last["kind"] == "resource_exhausted"


def test_a_sparse_file_counts_with_its_holes(tmp_path):
    file = tmp_path / "sparse"
    with file.open("wb") as sparse:
        sparse.truncate(2**40)
    archive = subprocess.run(["tar", "-C", tmp_path, "-S", "-cf", "-", "sparse"], check=True,
                             capture_output=True).stdout
    (tmp_path / "out").mkdir()
    last, _ = unpack(tmp_path / "out", archive, status=3)
    assert last["kind"] == "resource_exhausted"


def test_large_heads_are_refused(tmp_path):
    last, _ = unpack(tmp_path, Maker().add("x", pax_headers={"comment": "c" * 2**21}).done(), status=3)
    assert last["kind"] == "resource_exhausted"


def test_a_full_disk(tmp_path):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], check=True)
    try:
        last, _ = unpack(tmp_path, Maker().add("x", os.urandom(3 * 2**20)).done(), status=3)
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert last["kind"] == "resource_exhausted" and "no room" in last["error"]


# --- manifests ---

def test_the_manifest(tmp_path):
    directory = tmp_path / "out"
    directory.mkdir()
    archive = (Maker().dir("./").dir("b").add("b/x", b"hello", mode=0o600, uid=5, gid=6).hard("a", "b/x")
               .link("l", "to where\\").add("with space\n", b"1").add("b/x", b"again").dir("gone").add("gone/x")
               .add("gone", b"").add("-", b"-").done())
    unpack(directory, archive, "--plain", "--manifest", tmp_path / "manifest")
    sums = {text: hashlib.sha256(text).hexdigest() for text in (b"hello", b"again", b"1", b"", b"-")}
    assert (tmp_path / "manifest").read_text().splitlines() == [
        "d 755 0 0 0 - . -",
        f"f 644 0 0 1 {sums[b'-']} \\055 -",
        f"f 600 5 6 5 {sums[b'hello']} a -",
        "d 755 0 0 0 - b -",
        f"f 644 0 0 5 {sums[b'again']} b/x -",
        f"f 644 0 0 0 {sums[b'']} gone -",
        "l 644 0 0 0 - l to\\040where\\134",
        f"f 644 0 0 1 {sums[b'1']} with\\040space\\012 -",
    ]


def test_the_manifest_has_digests_of_files(tree, tmp_path):
    for options in (("--format=gnu",), ("--format=gnu", "-S"), ("--format=pax", "-S")):
        directory = tmp_path / "".join(options)
        directory.mkdir()
        unpack(directory, tar_of(tree, *options), "--manifest", tmp_path / "manifest")
        digests = {line.split(" ")[6]: line.split(" ")[5]
                   for line in (tmp_path / "manifest").read_bytes().decode("latin1").splitlines()}
        for name in ("large", "sparse", "usr/bin/same"):
            assert digests[name] == hashlib.sha256((tree / name).read_bytes()).hexdigest()


# --- pack ---

def pack(directory, *options, status=0):
    done = subprocess.run([BUILD / "atoll-unpack", "pack", *options, directory], capture_output=True, timeout=80)
    assert done.returncode == status, done.stderr
    return done.stdout, json.loads(done.stderr)


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_a_packed_tree_unpacks_to_itself(tree, tmp_path, compression):
    need_build()
    archive, last = pack(tree, "--compress", compression)
    assert pack(tree, "--compress", compression)[0] == archive
    unpacked, _ = unpack(tmp_path, archive)
    assert differences(facts(tmp_path), facts(tree)) == {}
    assert (last["digest"], last["diffId"]) == (unpacked["digest"], unpacked["diffId"])
    assert (last["bytes"], last["tarBytes"]) == (len(archive), unpacked["tarBytes"])
    assert last["files"] == len(facts(tree))


def test_tar_reads_what_is_packed(tree, tmp_path):
    need_build()
    archive, _ = pack(tree)
    assert differences(facts(untar(archive, tmp_path / "theirs")), facts(tree)) == {}


def test_marks_are_packed_as_they_were(tmp_path):
    layer = (Maker().dir("d").add("d/.wh.gone").dir("o").add("o/.wh..wh..opq").add("o/new", b"n").add(".wh.x").done())
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    unpack(first, layer)
    archive, _ = pack(first)
    names = tarfile.open(fileobj=io.BytesIO(archive)).getnames()
    assert names == ["d", "d/.wh.gone", "o", "o/.wh..wh..opq", "o/new", ".wh.x"]
    unpack(second, archive)
    for path, found in facts(first, None).items():
        assert facts(second, None)[path] == found


def test_a_name_that_is_a_mark_is_not_packed(tmp_path):
    (tmp_path / ".wh.file").touch()
    done = subprocess.run([BUILD / "atoll-unpack", "pack", tmp_path], capture_output=True)
    assert done.returncode == 1 and json.loads(done.stderr)["kind"] == "invalid_argument"
    assert b".wh.file" in pack(tmp_path, "--plain")[0]


def test_pack_to_a_file(tree, tmp_path):
    done = subprocess.run([BUILD / "atoll-unpack", "pack", "--compress", "gzip", "--level", "1", "--output",
                           tmp_path / "layer", tree], check=True, capture_output=True)
    last = json.loads(done.stdout)
    assert last["digest"] == SHA + hashlib.sha256((tmp_path / "layer").read_bytes()).hexdigest()


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["--unknown", "d"], ["--max-bytes", "x", "d"],
                                       ["pack"], ["pack", "--compress", "lzma", "d"]])
def test_usage(arguments):
    need_build()
    done = subprocess.run([BUILD / "atoll-unpack", *arguments], input=b"", capture_output=True)
    assert done.returncode == 2 and b"Usage" in done.stderr


# --- in a sandbox ---

def test_in_a_sandbox(daemon, tree):
    """Owners, modes and names are those of the archive there too; an owner beyond its ids is noted."""
    archive = tar_of(tree, "--format=pax", "--exclude=./large")
    script = ("mkdir /tmp/x && /usr/share/atoll/atoll-unpack /tmp/x >/tmp/out && cd /tmp/x && "
              "find . ! -path . -printf '%P %m %U %G %n %y\\0'")
    done = daemon.atoll("run", "--user", "root", "--", "sh", "-c", script, input=archive, binary=True)
    assert done.returncode == 0, done.stderr
    seen = {line.rsplit(b" ", 5)[0]: tuple(line.rsplit(b" ", 5)[1:]) for line in done.stdout.split(b"\0")[:-1]}
    expected = {path: found for path, found in facts(tree).items() if path != b"large"}
    assert seen.keys() == expected.keys()
    for path, found in expected.items():
        mode, user, group = seen[path][0], seen[path][1], seen[path][2]
        assert (int(mode, 8), (int(user), int(group))) == (found["mode"], found["owner"]), path
    script = "mkdir /tmp/y && /usr/share/atoll/atoll-unpack /tmp/y && stat -c %u:%g /tmp/y/x"
    archive = Maker().add("x", uid=100000, gid=7).done()
    done = daemon.atoll("run", "--user", "root", "--", "sh", "-c", script, input=archive, binary=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0])["note"] == "owner"
    assert done.stdout.splitlines()[-1] == b"65534:7"
