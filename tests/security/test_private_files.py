"""Files of the host's /usr that are not for all of its users, and a /usr that root inside can write to."""

import os
import shutil
import struct
import tempfile
from pathlib import Path

import pytest

import places
from boxes import Box
from daemons import BUILD, ensure_rootless_user, need_build, running, wait_until
from rest import Rest

SECRET = "host-root-only-secret"
NET_RAW = struct.pack("<5I", 0x02000000, 1 << 13, 0, 0, 0)  # a vfs_cap_data, see capability.h


class Planted:
    """A directory below /usr/local/share with entries for all, and for root alone."""

    def __init__(self):
        self.top = Path(tempfile.mkdtemp(prefix="atoll-private-", dir="/usr/local/share"))
        self.top.chmod(0o755)
        self.put("public", 0o644, "for all\n")
        self.put("secret", 0o600)
        self.put("capable", 0o755, "#!/bin/sh\n")
        os.setxattr(self.top / "capable", "security.capability", NET_RAW)
        (self.top / "closed").mkdir()
        self.put("closed/inside", 0o644)
        (self.top / "closed").chmod(0o700)
        (self.top / "deep" / "er").mkdir(parents=True)
        self.put("deep/er/secret", 0o640)

    def put(self, name, mode, text=SECRET):
        (self.top / name).write_text(text)
        (self.top / name).chmod(mode)

    def remove(self):
        shutil.rmtree(self.top, ignore_errors=True)


@pytest.fixture(scope="module")
def planted():
    if os.geteuid() != 0:
        pytest.skip("only root can plant files below /usr")
    made = Planted()
    yield made
    made.remove()


@pytest.fixture(scope="module")
def rest(planted):
    need_build()
    with running(BUILD) as daemon:
        yield Rest(daemon.socket)


@pytest.fixture
def box(rest):
    made = Box(rest)
    yield made
    made.destroy()


def names(box, planted, user):
    return box.out(f"cd {planted.top} && find . | LC_ALL=C sort", user=user).split()


VISIBLE = [".", "./capable", "./deep", "./deep/er", "./public"]


@pytest.mark.parametrize("user", ["root", "user"])
def test_private_entries_are_not_there(box, planted, user):
    assert names(box, planted, user) == VISIBLE
    for name in ("secret", "closed", "closed/inside", "deep/er/secret"):
        assert box.run(f"stat {planted.top}/{name}", user=user)["result"]["exit_code"] == 1
    assert box.out(f"cat {planted.top}/public", user=user) == "for all"
    # What the whiteouts are in looks as it does on the host.
    seen = box.out(f"stat -c '%a %u %g %Y' {planted.top} {planted.top}/deep/er", user=user)
    there = [os.stat(planted.top / name) for name in (".", "deep/er")]
    assert seen.splitlines() == [f"{s.st_mode & 0o7777:o} {s.st_uid} {s.st_gid} {int(s.st_mtime)}"
                                 for s in there]


def test_they_are_there_outside(planted):
    """The control."""
    assert (planted.top / "secret").read_text() == SECRET
    assert (planted.top / "closed" / "inside").read_text() == SECRET


def test_their_names_are_free(box, planted):
    box.out(f"echo own > {planted.top}/secret && mkdir {planted.top}/closed && "
            f"echo own > {planted.top}/closed/mine", user="root")
    assert box.out(f"cat {planted.top}/secret {planted.top}/closed/*", user="root") == "own\nown"
    assert (planted.top / "secret").read_text() == SECRET


def test_every_host_file_that_is_private_is_hidden(box):
    """Whatever this host has of them, by the rule itself."""
    left = box.out("find /usr \\( -type f -not -perm -4 -o -type d -not -perm -5 \\) 2>&1",
                   user="root")
    assert left == ""


def test_root_inside_writes_to_usr(rest, box):
    neighbour = Box(rest)
    try:
        box.out("echo '#!/bin/sh' > /usr/local/bin/new && echo 'echo made' >> /usr/local/bin/new && "
                "chmod 755 /usr/local/bin/new && cp /usr/bin/env /usr/bin/env.dpkg-new && "
                "mv /usr/bin/env.dpkg-new /usr/bin/env && rm /usr/bin/id && echo x >> /usr/lib/os-release "
                "&& mkdir -p /usr/lib/node_modules/left-pad", user="root")
        assert box.out("new; test -d /usr/lib/node_modules/left-pad && echo kept") == "made\nkept"
        assert box.run("id")["result"]["exit_code"] == 127
        assert neighbour.run("new")["result"]["exit_code"] == 127
        assert neighbour.out("id -u") == "1000"
        assert not Path("/usr/local/bin/new").exists() and Path("/usr/bin/id").exists()
        assert neighbour.run("touch /usr/local/bin/other")["result"]["exit_code"] != 0
    finally:
        neighbour.destroy()


def test_a_program_with_capabilities_can_be_replaced(box, planted):
    """As by a package: a link to the old one, the new one in its place, the old one removed."""
    name = f"{planted.top}/capable"
    box.out(f"ln {name} {name}.old && echo 'echo new' >> {name} && mv {name} {name}.new && "
            f"rm {name}.old && mv {name}.new {name}", user="root")
    assert box.out(name) == "new"


def test_writes_to_usr_are_bounded_by_the_disk(rest):
    box = Box(rest, limits={"memoryMB": 256, "diskMB": 32})
    try:
        assert box.run("head -c 64m /dev/zero > /usr/big", user="root")["result"]["exit_code"] != 0
        assert int(box.out("stat -c %s /usr/big")) <= 32 << 20
    finally:
        box.destroy()


def test_a_persistent_usr(rest, planted):
    box = Box(rest, persistent=True)
    try:
        box.out("echo kept > /usr/local/share/kept", user="root")
        box.do("stop")
        box.do("resume")
        assert box.out("cat /usr/local/share/kept") == "kept"
        assert names(box, planted, "root") == VISIBLE
    finally:
        box.destroy()


@pytest.mark.timeout(120)
def test_what_appears_later_is_hidden_from_new_sandboxes(rest):
    """Within seconds: the directory that changed is one of those that are watched."""
    late = Planted()
    try:
        def is_hidden():
            box = Box(rest)
            try:
                return names(box, late, "root") == VISIBLE
            finally:
                box.destroy()
        wait_until(is_hidden, 60, lambda: "entries that appeared later stay in sight")
    finally:
        late.remove()


def test_a_user_hides_what_is_the_users_own(planted, rootless_daemon):
    """Root inside is that user outside: nothing of the kernel's would keep these files from it."""
    top = Path(tempfile.mkdtemp(prefix="atoll-private-", dir="/usr/local/share"))
    try:
        top.chmod(0o755)
        (top / "secret").write_text(SECRET)
        (top / "secret").chmod(0o600)
        shutil.chown(top / "secret", ensure_rootless_user().pw_uid)

        def is_hidden():
            name = rootless_daemon.create("--waive", "memory,cpu,pids")
            try:
                done = rootless_daemon.atoll("exec", name, "--", "ls", "-A", top, check=True)
                return done.stdout == ""
            finally:
                rootless_daemon.atoll("rm", name)
        wait_until(is_hidden, 60, lambda: "a file of the user's own stays in sight")
    finally:
        shutil.rmtree(top)


def test_under_gvisor(planted):
    reason = places.missing("gvisor")
    if reason:
        pytest.skip(f"no gVisor here: {reason}")
    with places.world(["gvisor"]) as world:
        box = Box(Rest(world.daemon.socket), provider="gvisor")
        try:
            assert names(box, planted, "root") == VISIBLE
            assert box.out("echo x > /usr/local/bin/x && cat /usr/local/bin/x", user="root") == "x"
        finally:
            box.destroy()
