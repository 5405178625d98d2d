"""atoll-copy: COPY of Dockerfiles, from a tree to a root."""

import os
import stat
import subprocess

import pytest
from daemons import BUILD, need_build
from trees import facts, make_tree

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="owners of files can be set by root only")


class Place:
    def __init__(self, path):
        self.tree, self.root, self.outside = path / "tree", path / "root", path / "outside"
        for directory in (self.tree / "sub/deep", self.root / "etc", self.root / "usr/lib", self.outside):
            directory.mkdir(parents=True)
        (self.tree / "a").write_text("a")
        (self.tree / "b").write_text("b")
        (self.tree / "sub/c").write_text("c")
        (self.tree / "sub/deep/d").write_text("d")
        (self.tree / "sub/link").symlink_to("c")
        (self.root / "etc/passwd").write_text("root:x:0:0::/:\nbad line\njoe:x:1001:1002::/:\n")
        (self.root / "etc/group").write_text("root:x:0:\nstaff:x:50:joe\n")
        (self.root / "lib").symlink_to("usr/lib")

    def run(self, *arguments, status=0, stdin=None, options=()):
        need_build()
        done = subprocess.run([BUILD / "atoll-copy", "--root", self.root, *options, self.tree, *arguments],
                              input=stdin, capture_output=True)
        assert done.returncode == status, done.stderr
        assert (done.stderr == b"") == (status == 0)
        return done.stderr.decode()

    def files(self):
        return {str(path.relative_to(self.root)): path.read_text() for path in sorted(self.root.rglob("*"))
                if path.is_file() and not path.is_symlink() and "etc" not in path.parts}


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    yield made
    assert list(made.outside.iterdir()) == []


SUB = {"c": "c", "deep/d": "d"}


@pytest.mark.parametrize("arguments, expected", [
    (("/x", "a", "a"), {"x": "a"}),
    (("/x/", "a", "a"), {"x/a": "a"}),
    (("/etc2/y/x", "a", "a"), {"etc2/y/x": "a"}),
    (("/usr", "a", "a"), {"usr/a": "a"}),
    (("/usr", "a", "other"), {"usr/other": "a"}),
    (("/x", "a", "a", "b", "b"), {"x/a": "a", "x/b": "b"}),
    (("/x", "sub", ""), {f"x/{name}": text for name, text in SUB.items()}),
    (("/x/", "sub", ""), {f"x/{name}": text for name, text in SUB.items()}),
    (("/x", "sub", "named"), {f"x/named/{name}": text for name, text in SUB.items()}),
    (("/", "sub/deep", ""), {"d": "d"}),
    (("/x", "", ""), {"x/a": "a", "x/b": "b", **{f"x/sub/{name}": text for name, text in SUB.items()}}),
    (("/x/", "sub/c", "sub/c"), {"x/sub/c": "c"}),
    (("/lib/x", "a", "a"), {"usr/lib/x": "a"}),
    (("/lib/", "sub", ""), {f"usr/lib/{name}": text for name, text in SUB.items()}),
    (("/x", "sub/link", "link"), {"x": "c"}),
])
def test_where_files_go(place, arguments, expected):
    place.run(*arguments)
    assert place.files() == expected


def test_pairs_of_the_input(place):
    place.run("/x", stdin=b"a\0a\0sub\0\0", options=["--stdin"])
    assert place.files() == {"x/a": "a", **{f"x/{name}": text for name, text in SUB.items()}}
    assert place.run("/y", stdin=b"a\0", options=["--stdin"], status=1)


def test_links_at_the_destination_stay_in_the_root(place):
    (place.root / "abs").symlink_to("/usr")
    (place.root / "up").symlink_to("../" * 20 + "usr")
    (place.root / "out").symlink_to(place.outside)
    (place.root / "file").symlink_to("/usr/target")
    place.run("/abs/1", "a", "a")
    place.run("/up/2", "a", "a")
    place.run("/file", "a", "a")
    assert place.files() == {"usr/1": "a", "usr/2": "a", "usr/target": "a"}
    assert (place.root / "file").is_symlink()
    assert "place of a directory" in place.run("/out/x", "a", "a", status=1)


def test_a_link_to_a_directory_below_the_destination_is_followed(place):
    (place.tree / "sub/lib").mkdir()
    (place.tree / "sub/lib/so").write_text("so")
    place.run("/", "sub", "")
    assert (place.root / "lib").is_symlink() and (place.root / "usr/lib/so").read_text() == "so"


def test_replacing(place):
    for name in ("c", "one"):
        (place.root / name).write_text("old")
    (place.root / "two").hardlink_to(place.root / "one")
    (place.root / "l").symlink_to("one")
    (place.tree / "sub/l").write_text("no link")
    place.run("/one", "a", "a")
    place.run("/", "sub", "")
    assert place.files() == {"one": "a", "two": "old", "l": "no link", "c": "c", "deep/d": "d"}


@pytest.mark.parametrize("arguments, text", [
    (("/x", "nope", "nope"), "does not exist"),
    (("/file/", "a", "a"), "in the place of a directory"),
    (("/file", "sub", ""), "in the place of a directory"),
    (("/file/x", "a", "a"), "in the place of a directory"),
    (("/", "sub", ""), "in the place of a directory"),  # deep
    (("/dirs", "a", "c"), "in the place of a file"),
])
def test_refusals(place, arguments, text):
    (place.root / "file").write_text("")
    (place.root / "deep").write_text("")
    (place.root / "dirs/c").mkdir(parents=True)
    assert text in place.run(*arguments, status=1)


@pytest.mark.parametrize("owner, expected", [("joe", (1001, 1002)), ("7", (7, 7)), ("joe:staff", (1001, 50)),
                                             ("7:8", (7, 8)), ("joe:9", (1001, 9)), (":staff", (0, 50))])
def test_chown(place, owner, expected):
    place.run("/new/x/", "sub", "", options=["--chown", owner])
    for path in [place.root / "new", *(place.root / "new").rglob("*")]:
        info = path.lstat()
        assert (info.st_uid, info.st_gid) == expected, path


@pytest.mark.parametrize("owner, text", [("nix", "no user nix"), ("joe:nix", "no group nix"), ("-1", "no user")])
def test_unknown_owners(place, owner, text):
    assert text in place.run("/x", "a", "a", options=["--chown", owner], status=1)


def test_passwd_is_that_of_the_root(place):
    """Also if it is a link; and never that of the host."""
    (place.root / "etc/passwd").unlink()
    (place.root / "etc/passwd").symlink_to("/etc/shadow-of-root")
    assert "no user daemon" in place.run("/x", "a", "a", options=["--chown", "daemon"], status=1)
    (place.root / "etc/shadow-of-root").write_text("daemon:x:77:78::/:\n")
    place.run("/x", "a", "a", options=["--chown", "daemon"])
    assert (place.root / "x").stat().st_uid == 77


def test_chmod(place):
    os.chmod(place.tree / "a", 0o4711)
    place.run("/k", "a", "a")
    place.run("/m/n", "sub", "", options=["--chmod", "0750"])
    modes = {str(path.relative_to(place.root)): stat.S_IMODE(path.stat().st_mode)
             for path in [place.root / "k", place.root / "m", *(place.root / "m").rglob("*")]}
    assert modes == {"k": 0o4711, "m": 0o755, "m/n": 0o750, "m/n/c": 0o750, "m/n/deep": 0o750,
                     "m/n/deep/d": 0o750, "m/n/link": 0o750}


def test_owners_are_roots_unless_kept(place):
    os.chown(place.tree / "sub/c", 5, 6)
    os.chown(place.tree / "sub", 7, 8)
    place.run("/x", "sub", "")
    place.run("/y", "sub", "", options=["--keep-owner"])
    assert (place.root / "x/c").stat().st_uid == (place.root / "x").stat().st_gid == 0
    assert (place.root / "y/c").stat().st_gid == 6 and (place.root / "y").stat().st_uid == 7


def test_everything_of_a_file_is_copied(place):
    make_tree(place.tree / "all")
    place.run("/all", "all", "", options=["--keep-owner"])
    expected, copied = facts(place.tree / "all"), facts(place.root / "all")
    for found in (*expected.values(), *copied.values()):
        del found["first name"]  # hard links become files of their own
    assert copied == expected
    assert (place.root / "all/etc/again").stat().st_nlink == 1


def test_directories_that_exist(place):
    (place.root / "x/deep").mkdir(parents=True)
    os.chmod(place.root / "x", 0o700)
    os.chmod(place.root / "x/deep", 0o700)
    os.utime(place.tree / "sub/deep", (1, 1))
    place.run("/x", "sub", "")
    assert stat.S_IMODE((place.root / "x").stat().st_mode) == 0o700
    info = (place.root / "x/deep").stat()
    assert (stat.S_IMODE(info.st_mode), info.st_mtime) == (0o755, 1)


def test_devices_and_whiteouts_are_left_out(place):
    os.mknod(place.tree / "sub/null", 0o020666, os.makedev(1, 3))
    os.mknod(place.tree / "sub/gone", 0o020000, os.makedev(0, 0))
    place.run("/x", "sub", "")
    assert sorted(os.listdir(place.root / "x")) == ["c", "deep", "link"]


def test_excludes(place):
    place.run("/x", "", "", options=["--exclude", "sub/deep", "--exclude", "b"])
    assert place.files() == {"x/a": "a", "x/sub/c": "c"}


def test_list(place):
    need_build()
    done = subprocess.run([BUILD / "atoll-copy", "--list", place.tree / "sub"], capture_output=True, check=True)
    zeros = "0" * 64
    assert sorted(done.stdout.decode().splitlines()) == [
        "d 755 0 0 0 - . -", "d 755 0 0 0 - deep -", f"f 644 0 0 1 {zeros} c -", f"f 644 0 0 1 {zeros} deep/d -",
        "l 777 0 0 0 - link c"]


@pytest.mark.parametrize("arguments", [[], ["/"], ["/", "x"], ["/", "/x", "a"], ["--chmod", "9", "/", "/x"],
                                       ["--chmod", "70000", "/", "/x"], ["--list"], ["--nope", "/", "/x"]])
def test_usage(arguments):
    need_build()
    done = subprocess.run([BUILD / "atoll-copy", *arguments], input=b"", capture_output=True)
    assert done.returncode == 2 and b"Usage" in done.stderr


def test_in_a_sandbox(daemon):
    """It is in sandboxes of the host template; those of other templates have the same tools."""
    done = daemon.atoll("run", "--user", "root", "--", "sh", "-c",
                        "mkdir /tmp/t && echo hi > /tmp/t/a && "
                        "/usr/share/atoll/atoll-copy --chown www-data /tmp/t /srv/x/ a a && stat -c %U:%s /srv/x/a")
    assert (done.returncode, done.stdout) == (0, "www-data:3\n"), done.stderr
