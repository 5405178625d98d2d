"""Writes the files of a case to a directory."""

import os
import shutil
from pathlib import Path

from cases import BASE, BASE_FILES, Link, Mode

BUSYBOX = "/usr/bin/busybox" if os.path.exists("/usr/bin/busybox") else "/bin/busybox"


def put(path, content):
    if content is None:
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o755)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Link):
        path.symlink_to(content.target)
        return
    mode = content.mode if isinstance(content, Mode) else 0o644
    content = content.content if isinstance(content, Mode) else content
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)


def write(directory, dockerfile, files):
    directory = Path(directory)
    old = os.umask(0o022)
    try:
        directory.mkdir(parents=True)
        (directory / "Dockerfile").write_text(dockerfile.lstrip("\n"))
        for name, content in files.items():
            put(directory / name, content)
    finally:
        os.umask(old)
    return directory


def write_base(directory):
    made = write(directory, BASE, BASE_FILES)
    shutil.copy(BUSYBOX, made / "busybox")
    (made / "busybox").chmod(0o755)
    return made
