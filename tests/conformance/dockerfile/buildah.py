"""Builds with buildah, without a daemon and without a network: the builder that ours is compared with."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import built_trees as trees

TIMEOUT = 120


class Buildah:
    """Images are below `directory`, and end with it."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.root = self.directory / "root"
        self.options = ["--root", str(self.root), "--runroot", str(self.directory / "run"), "--storage-driver", "vfs"]

    def run(self, *args):
        # An inherited TMPDIR may be on a file system that the test removes.
        return subprocess.run(["buildah", *self.options, *args], capture_output=True, text=True, timeout=TIMEOUT,
                              env={**os.environ, "TMPDIR": str(self.directory), "BUILDAH_ISOLATION": "chroot"}, check=False)

    def build(self, tag, context, args=None, secrets=None, target=None):
        """Returns (tree, config); RuntimeError with the output if it fails."""
        options = ["--isolation", "chroot", "--pull-never", "--format", "docker", "--layers=false"]
        for name, value in (args or {}).items():
            options += ["--build-arg", f"{name}={value}"]
        for name, value in (secrets or {}).items():
            path = self.directory / f"secret-{name}"
            path.write_text(value)
            options += ["--secret", f"id={name},src={path}"]
        if target:
            options += ["--target", target]
        made = self.run("bud", *options, "-t", tag, str(context))
        if made.returncode:
            raise RuntimeError(made.stdout + made.stderr)
        return trees.of_directory(self.tree(tag)), self.config(tag)

    def tree(self, tag):
        """The driver vfs keeps the whole tree of an image in the directory of its last layer."""
        images = json.loads((self.root / "vfs-images/images.json").read_text())
        image = next(one for one in images if f"localhost/{tag}:latest" in one.get("names", []))
        return self.root / "vfs/dir" / image["layer"]

    def config(self, tag):
        shown = self.run("inspect", "--type", "image", tag)
        return trees.plain_config(json.loads(shown.stdout)["Docker"]["config"])

    def close(self):
        self.run("rmi", "--all", "--force")
        shutil.rmtree(self.directory, ignore_errors=True)
