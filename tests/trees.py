"""Trees of files, and what there is to compare of them."""

import hashlib
import os
import stat
from pathlib import Path


def attributes(path):
    try:
        return {name: os.getxattr(path, name, follow_symlinks=False)
                for name in os.listxattr(path, follow_symlinks=False)
                if not name.startswith("security.selinux")}
    except OSError:
        return {}


def facts(root, times="ns", skip=()):
    """Everything about each entry below root, by its path (bytes): type, mode, owner, size, time, target,
    content, attributes, and the first of its names. times: "ns", "s" or None."""
    root = os.fsencode(root)
    found, first = {}, {}
    for directory, folders, files in os.walk(root):
        for name in sorted(folders + files):
            path = os.path.join(directory, name)
            short = os.path.relpath(path, root)
            if os.fsdecode(short) in skip:
                continue
            try:
                info = os.lstat(path)
            except FileNotFoundError:
                continue  # a whiteout in a directory of one layer: overlayfs lists its name
            kind = stat.S_IFMT(info.st_mode)
            same = first.setdefault(info.st_ino, short) if kind != stat.S_IFDIR else short
            content = hashlib.sha256(Path(os.fsdecode(path)).read_bytes()).hexdigest() \
                if kind == stat.S_IFREG else os.readlink(path) if kind == stat.S_IFLNK else info.st_rdev
            found[short] = {
                "type": kind, "mode": stat.S_IMODE(info.st_mode), "owner": (info.st_uid, info.st_gid),
                "size": info.st_size if kind == stat.S_IFREG else None, "content": content,
                "time": {"ns": info.st_mtime_ns, "s": info.st_mtime_ns // 10**9, None: None}[times],
                "attributes": attributes(path), "first name": same,
            }
    return found


def make_tree(root):
    """A tree with one of each thing that an archive can hold."""
    root = Path(root)
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/lib/deep/er/est").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (root / "usr/bin/tool").write_bytes(b"\x7fELF" + os.urandom(70000))
    (root / "usr/bin/same").hardlink_to(root / "usr/bin/tool")
    (root / "etc/again").hardlink_to(root / "usr/bin/tool")
    (root / "usr/bin/link").symlink_to("tool")
    (root / "lib").symlink_to("usr/lib")
    (root / "absolute").symlink_to("/etc/passwd")
    (root / "dangling").symlink_to("/nowhere/" + "x" * 150)
    (root / ("long-" + "n" * 120)).write_text("long")
    (root / "usr/lib/deep/er/est" / ("d" * 200)).write_text("longer")
    (root / "with space\ttab\nnewline\\").write_text("odd")
    (root / "cafe\u0301").write_text("decomposed")
    (root / "caf\u00e9").write_text("composed")
    Path(os.fsdecode(bytes(root) + b"/not-utf8-\xff\xfe")).write_text("bytes")
    (root / "empty-file").touch()
    (root / "block").write_bytes(b"b" * 512)
    (root / "odd-size").write_bytes(b"o" * 1025)
    (root / "large").write_bytes(os.urandom(3 * 2**20 + 17))
    with (root / "sparse").open("wb") as file:
        file.seek(2**20)
        file.write(b"x" * 4096)
        file.truncate(8 * 2**20)
    os.mkfifo(root / "fifo", 0o640)
    (root / "read-only").mkdir()
    (root / "read-only/file").write_text("r")
    (root / "shared").mkdir()
    (root / "shared/of-a-group").write_text("s")
    os.setxattr(root / "block", "user.note", b"value\0with NUL\n")
    os.setxattr(root / "etc", "user.dir", b"d")
    # cap_net_raw+ep, version 2
    os.setxattr(root / "odd-size", "security.capability",
                bytes.fromhex("0100000200200000000000000000000000000000"))
    for path, owner in (("etc/passwd", (5, 6)), ("usr/lib", (1000, 100)), ("lib", (7, 8)),
                        ("fifo", (9, 9)), ("shared", (0, 50)), ("shared/of-a-group", (0, 0)),
                        ("block", (65534, 65534))):
        os.chown(root / path, *owner, follow_symlinks=False)
    for path, mode in (("usr/bin/tool", 0o6755), ("shared", 0o2775), ("read-only", 0o555),
                       ("empty", 0o1777), ("block", 0), ("etc/passwd", 0o640)):
        os.chmod(root / path, mode)
    for number, path in enumerate(sorted(root.rglob("*"), key=lambda p: -len(p.parts))):
        moment = (1_000_000_000 + number) * 10**9 + 123_456_789
        os.utime(path, ns=(moment, moment), follow_symlinks=False)
    os.utime(root / "odd-size", ns=(0, -1_500_000_000))
