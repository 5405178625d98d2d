"""What a build made: a tree as data, from a directory or from Atoll's layers, and a config."""

import hashlib
import os
import stat
from pathlib import Path

# The members of a config that an image's user sees. Docker's other members are those of containers.
CONFIG = ("User", "ExposedPorts", "Env", "Entrypoint", "Cmd", "Volumes", "WorkingDir", "Labels", "StopSignal", "Shell",
          "Healthcheck", "OnBuild")
TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo"}


def entry(path, first_id=0):
    """(type, mode, uid, gid, size, sha256, link target) of one file; times are not compared."""
    info = path.lstat()
    kind = TYPES.get(stat.S_IFMT(info.st_mode), "other")
    content = hashlib.sha256(path.read_bytes()).hexdigest() if kind == "file" else ""
    return (kind, oct(stat.S_IMODE(info.st_mode)) if kind != "link" else "", info.st_uid - first_id,
            info.st_gid - first_id, info.st_size if kind == "file" else 0, content,
            os.readlink(path) if kind == "link" else "")


def of_directory(root):
    found = {}
    for directory, directories, files in os.walk(root):
        for name in directories + files:
            path = Path(directory, name)
            found["/" + str(path.relative_to(root))] = entry(path)
    return found


def is_whiteout(info):
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0


def forget_below(found, path):
    for other in [one for one in found if one.startswith(path + "/")]:
        del found[other]


def add_layer(found, layer, first_id):
    """Puts a layer on the tree below it, as overlayfs does."""
    for directory, directories, files in os.walk(layer):
        for name in directories + files:
            path = Path(directory, name)
            info = path.lstat()
            inside = "/" + str(path.relative_to(layer))
            if not stat.S_ISDIR(info.st_mode) or "user.overlay.opaque" in os.listxattr(path):
                forget_below(found, inside)
            if is_whiteout(info):
                found.pop(inside, None)
            else:
                found[inside] = entry(path, first_id)


def of_layers(state, stack, first_id):
    found = {}
    for name in stack.split():
        add_layer(found, Path(state, "layers", name), first_id)
    return found


def plain_config(config):
    """The compared members that are not empty."""
    kept = {name: config[name] for name in CONFIG if config.get(name)}
    labels = {name: value for name, value in kept.pop("Labels", {}).items() if name != "io.buildah.version"}
    return {**kept, **({"Labels": labels} if labels else {})}


def content_entry(content):
    """(type, size, sha256) of a file with this text."""
    return "file", len(content.encode()), hashlib.sha256(content.encode()).hexdigest()
