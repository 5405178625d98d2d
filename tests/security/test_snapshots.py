"""A snapshot has the files of its sandbox: none of the host, whatever the links in the sandbox do, none that
were made for the sandbox itself, and none that a tenant can hide or show by attributes of overlayfs."""

import os
import subprocess
from pathlib import Path

import pytest

from boxes import Box
from daemons import wait_until
from rest import Rest

# A directory that is a link to the host's in turn, as it would be if the link was followed outside.
SWAP = r"""
import os, itertools
os.makedirs("/home/user/swap/mine", exist_ok=True)
open("/home/user/swap/mine/passwd", "w").write("mine\n")
os.chdir("/home/user/swap")
for target in itertools.cycle(("/etc", "../../../../../../../etc", "/proc/self/root/etc", "/proc/1/cwd/etc")):
    os.symlink(target, "link")
    for turn in range(50):
        os.rename("mine", "place"); os.rename("place", "kept"); os.rename("link", "place")
        if turn == 0: open("/home/user/ready", "w").close()
        os.rename("place", "link"); os.rename("kept", "mine")
    os.unlink("link")
"""


@pytest.fixture
def rest(daemon):
    rest = Rest(daemon.socket)
    native = next(one for one in rest.get("/api/providers").json["providers"] if one["name"] == "native")
    if "snapshots" not in native["capabilities"]:
        pytest.skip("native cannot freeze sandboxes here")
    return rest


@pytest.fixture
def box(rest):
    made = Box(rest)
    yield made
    made.destroy()


def layers(daemon):
    return {path for path in (daemon.state / "layers").iterdir() if path.name.startswith("x")}


def take(daemon, box, name):
    """The directory of the new layer."""
    before = layers(daemon)
    answer = box.post("snapshots", {"name": name})
    assert answer.status == 201, answer.body
    return (layers(daemon) - before).pop()


def drop(rest, name):
    assert rest.delete(f"/api/snapshots/{name}").status == 204


def test_links_do_not_lead_out(daemon, rest, box):
    box.out("ln -s /etc/shadow shadow; ln -s ../../../../../../../etc/passwd up; ln -s / root; mkfifo pipe")
    box.detach(f"python3 -c '{SWAP}'")
    wait_until(lambda: box.out("ls /home/user/ready || true"), 20, lambda: "it does not begin")
    for turn in range(8):
        layer = take(daemon, box, f"links{turn}")
        home = layer / "home" / "user"
        assert {(home / name).is_symlink() for name in ("shadow", "up", "root")} == {True}
        # os.walk() does not follow links. Below no name of the swap are the files of another place.
        found = [Path(where) / name for where, _, files in os.walk(home / "swap") for name in files
                 if not (Path(where) / name).is_symlink()]
        assert [(path.name, path.read_text()) for path in found] == [("passwd", "mine\n")]
        drop(rest, f"links{turn}")


def test_nothing_of_the_sandbox_itself(daemon, rest, box):
    box.out("echo mine > file; hostname; chmod 600 /etc/hosts || true")
    layer = take(daemon, box, "runtime")
    found = subprocess.run(["grep", "-rlI", box.id, str(layer)], capture_output=True, text=True, check=False)
    assert not found.stdout
    assert (layer / "home/user/file").exists()  # the control
    names = {str(path.relative_to(layer)) for path in layer.rglob("*")}
    assert not names & {"etc/hosts", "etc/hostname", "etc/resolv.conf", "usr/bin/sudo", "dev/null", "proc/self"}
    other = Box(rest, template="runtime")
    try:
        assert other.id in other.out("cat /etc/hosts") and box.id not in other.out("cat /etc/hosts /etc/hostname")
    finally:
        other.destroy()
    drop(rest, "runtime")


def test_attributes_of_overlayfs_are_not_taken_from_a_tenant(daemon, rest, box):
    """Here they mean nothing. In a layer they would hide the directories below."""
    names = ("opaque", "redirect", "whiteout", "metacopy", "origin")
    script = ("import os\nos.makedirs('/srv/d')\nopen('/srv/d/f', 'w').close()\n"
              f"for n in {names}:\n"
              "    for p in ('/etc', '/srv/d', '/srv/d/f'):\n"
              "        try: os.setxattr(p, 'user.overlay.' + n, b'y')\n"
              "        except OSError: pass\n"
              "os.setxattr('/srv/d', 'user.mine', b'y')\n")
    done = daemon.atoll("exec", "--user", "root", box.id, "--", "python3", "-c", script)
    assert done.returncode == 0, done.stderr
    layer = take(daemon, box, "marks")
    assert os.getxattr(layer / "srv/d", "user.mine") == b"y"  # the control
    for path in ("etc", "srv/d", "srv/d/f"):
        assert not [name for name in os.listxattr(layer / path) if name.startswith("user.overlay.")
                    and not name.startswith("user.overlay.overlay.")]
    other = Box(rest, template="marks")
    try:
        assert other.out("ls /srv/d; grep -c root: /etc/passwd") == "f\n1"
    finally:
        other.destroy()
    drop(rest, "marks")
