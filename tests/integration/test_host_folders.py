"""Folders of the host in native sandboxes: what the operator permits, what shows inside, and what never changes."""

import os
import socket
import stat
import subprocess
from pathlib import Path

import pytest

import daemons
from boxes import Box
from conftest import BUILD, running, running_rootless
from rest import Rest
from resting import kill_daemon, spawn_pid

OWNER, GROUP = 4321, 8765
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the owners of folders are mapped only as root")


class Host:
    """Folders with an owner of their own, and a daemon that may mount them."""

    def __init__(self, top):
        self.top = top
        top.chmod(0o755)
        for name in ("work", "read", "copy", "alice", "secret"):
            (top / name / "sub").mkdir(parents=True)
            self.write(f"{name}/file", f"{name}\n")
            self.write(f"{name}/sub/deep", "deep\n")
        (top / "bind").mkdir()
        for path in (top, *daemons.below(top)):
            os.chown(path, OWNER, GROUP, follow_symlinks=False)
        self.listed = (f"{top}/work:rw;{top}/read:ro;{top}/copy;{top}/alice:rw,alice,bob;{top}/state-of:rw;"
                       f"{top}/missing:rw")

    def write(self, name, text):
        path = self.top / name
        path.write_text(text)
        os.chown(path, OWNER, GROUP)
        return path

    def read(self, name):
        return (self.top / name).read_text()

    def mount(self, name, mode=None, path="/work"):
        return {"hostPath": str(self.top / name), "path": path, **({"mode": mode} if mode else {})}


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    top = tmp_path_factory.mktemp("host")
    for parent in (top, *top.parents):  # of pytest: only for its own user
        if parent.stat().st_mode & 0o777 == 0o700:
            parent.chmod(0o755)
    return Host(top)


@pytest.fixture(scope="module")
def mortal(host):
    with running(BUILD, ATOLL_HOST_FOLDERS=host.listed) as daemon:
        daemon.rest = Rest(daemon.socket)
        yield daemon


@pytest.fixture
def make(mortal):
    made = []

    def create(*mounts, **fields):
        made.append(Box(mortal.rest, volumes=list(mounts), **fields))
        return made[-1]

    yield create
    for box in made:
        box.destroy()


def refused(mortal, mount, status, rest=None, **fields):
    answer = (rest or mortal.rest).post("/api/sandboxes", {"volumes": [mount], **fields})
    assert answer.status == status, answer.body
    return answer.error["message"]


def test_the_owner_is_the_user_of_the_sandbox(host, make):
    box = make(host.mount("work", "rw"))
    assert box.view["volumes"] == [{**host.mount("work", "rw"), "readOnly": False}]
    assert box.out("cat /work/file; stat -c '%U %G' /work/file /work") == "work\nuser user\nuser user"
    box.out("echo new > /work/new; mkdir /work/dir; chmod 750 /work/dir; mv /work/sub/deep /work/dir/moved")
    for name in ("work/new", "work/dir", "work/dir/moved"):
        assert (host.top / name).stat().st_uid == OWNER and (host.top / name).stat().st_gid == GROUP
    assert host.read("work/new") == "new\n" and not (host.top / "work/sub/deep").exists()
    host.write("work/later", "seen at once")
    assert box.out("cat /work/later") == "seen at once"


def template(mortal, tmp_path, user):
    """On the host template, with a default user."""
    (tmp_path / "Dockerfile").write_text(f"FROM host\nUSER {user}\n")
    name = "user-" + user.replace(":", "-")
    mortal.atoll("build", "-q", "-t", name, str(tmp_path), check=True)
    return name


def test_the_default_user_is_mapped(host, mortal, make, tmp_path):
    box = make(host.mount("work", "rw"), template=template(mortal, tmp_path, "root"))
    box.out("test $(stat -c %u /work/file) = 0; echo of-root > /work/of-root")
    assert (host.top / "work/of-root").stat().st_uid == OWNER
    box = make(host.mount("work", "rw"), template=template(mortal, tmp_path, "1234:77"))
    box.out("test $(stat -c %u:%g /work/file) = 1234:77; echo x > /work/numbered")
    assert (host.top / "work/numbered").stat().st_gid == GROUP


def test_files_of_others_are_others(host, make):
    """Root of the sandbox has the rights of the folder's owner and no more: not those of root of the host."""
    private = host.write("work/private", "of root\n")
    os.chown(private, 0, 0)
    private.chmod(0o600)
    open_to_all = host.write("work/open", "of root\n")
    os.chown(open_to_all, 0, 0)
    box = make(host.mount("work", "rw"))
    assert box.out("stat -c %U /work/private; cat /work/open") == "nobody\nof root"
    for command in ("cat /work/private", "echo x > /work/open", "rm -f /work/open", "chown root /work/file",
                    "touch /work/by-root", "chmod 777 /work/open", "mknod /work/null c 1 3", "mknod /work/sda b 8 0"):
        assert box.run(command, user="root")["result"]["exit_code"] != 0, command
    # The control: what belongs to the owner can be read, changed and removed.
    box.out("cat /work/file && chmod 640 /work/file && echo x > /work/own && rm /work/own")
    private.unlink()
    open_to_all.unlink()


def test_programs_of_a_folder_get_no_rights(host, mortal, make, tmp_path):
    program = host.top / "work/id"
    program.write_bytes(Path("/usr/bin/id").read_bytes())
    os.chown(program, OWNER, GROUP)
    program.chmod(0o4755)
    # The owner shows as root there, so the set-user-id bit would make every user root.
    box = make(host.mount("work", "ro"), template=template(mortal, tmp_path, "root"))
    assert box.out("stat -c %u:%a /work/id; /work/id -u", user="1500") == "0:4755\n1500"
    program.unlink()


def test_read_only(host, make):
    box = make(host.mount("read", "ro"))
    assert box.out("cat /work/file") == "read"
    for command in ("echo x > /work/file", "touch /work/x", "rm /work/file", "mount -o remount,rw /work"):
        assert box.run(command, user="root")["result"]["exit_code"] != 0
    host.write("read/later", "seen")
    assert box.out("cat /work/later") == "seen"
    again = make({"hostPath": str(host.top / "read"), "path": "/work", "readOnly": True})
    assert again.view["volumes"][0]["mode"] == "ro"


def test_one_file(host, make):
    box = make(host.mount("work/file", "rw", "/etc/my.conf"))
    box.out("echo changed > /etc/my.conf")
    assert host.read("work/file") == "changed\n"
    host.write("work/file", "work\n")


def everything(top):
    return {str(path.relative_to(top)): (path.lstat().st_mode, path.lstat().st_uid, path.lstat().st_mtime_ns,
                                         path.read_bytes() if path.is_file() else None)
            for path in daemons.below(top)}


CHANGES = """cd /work && echo changed > file && echo new > new && rm sub/deep && mkdir sub/dir && echo x > sub/dir/x &&
chmod 700 sub && mv sub/dir moved && ln -s file link"""


def test_cow_changes_nothing(host, make):
    before = everything(host.top / "copy")
    box, other = make(host.mount("copy", "cow")), make(host.mount("copy", "cow"))
    box.out(CHANGES)
    box.out("rm -rf /work/* && echo by-root > /work/by-root", user="root")
    assert everything(host.top / "copy") == before
    assert box.out("ls /work") == "by-root"
    assert other.out("cat /work/file /work/sub/deep") == "copy\ndeep"


def test_cow_counts_for_the_disk_of_the_sandbox(host, make):
    box = make(host.mount("copy", "cow"), limits={"diskMB": 16})
    assert box.run("head -c 40M /dev/zero > /work/big")["result"]["exit_code"] != 0
    box.out("rm /work/big; head -c 1M /dev/zero > /work/small")


def test_sockets_of_a_cow_folder_are_out_of_reach(host, make):
    connect = ("import socket; s = socket.socket(socket.AF_UNIX); s.settimeout(5); s.connect('/work/socket'); "
               "print(s.recv(9).decode())")
    for name, mode, reached in (("copy", "cow", False), ("work", "ro", True)):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(host.top / name / "socket"))
            os.chown(host.top / name / "socket", OWNER, GROUP)
            server.listen()
            server.settimeout(30)
            box = make(host.mount(name, mode))
            started = box.detach(f"python3 -c \"{connect}\"")
            if reached:  # the control
                server.accept()[0].sendall(b"hello")
                assert "hello" in box.output(started, follow="true")
            else:
                assert "hello" not in box.output(started, follow="true")
                assert box.exec(started)["result"]["exit_code"] != 0
        (host.top / name / "socket").unlink()


@pytest.mark.parametrize("name,mode,status", [
    ("copy", "cow", 201), ("copy", "ro", 403), ("copy", "rw", 403), ("copy", None, 403), ("read", "cow", 201),
    ("read", "ro", 201), ("read", "rw", 403), ("work", "cow", 201), ("work", "ro", 201), ("work", "rw", 201),
    ("work", None, 201), ("work/sub", "rw", 201), ("secret", "cow", 403), ("secret", "ro", 403), ("", "cow", 403),
    ("alice", "cow", 403), ("worker", "ro", 403), ("missing", "ro", 409), ("work/nothing", "ro", 409)])
def test_what_the_operator_permits(host, mortal, name, mode, status):
    mount = host.mount(name, mode) if name else {"hostPath": str(host.top), "path": "/work", "mode": mode}
    answer = mortal.rest.post("/api/sandboxes", {"volumes": [mount]})
    assert answer.status == status, answer.body
    if status == 201:
        assert mortal.rest.delete(f"/api/sandboxes/{answer.json['id']}").status == 204


@pytest.mark.parametrize("mount", [
    {"hostPath": "/etc", "mode": "all"}, {"name": "data", "mode": "cow"}, {"hostPath": "/etc", "mode": "rw", "readOnly": True},
    {"hostPath": "relative"}, {"hostPath": "/a/../etc"}, {"hostPath": "/a/./b"}, {"hostPath": "/"}, {"hostPath": "/a//b"}])
def test_bad_requests(mortal, mount):
    refused(mortal, {"path": "/work", **mount}, 400)


def test_names_of_users_are_not_known_outside(host, mortal, tmp_path):
    assert "a number" in refused(mortal, host.mount("work", "ro"), 400, template=template(mortal, tmp_path, "daemon"))


def test_tenants(host, mortal):
    keys = {name: mortal.rest.post("/api/keys", {"tenant": name, "scope": "write"}).json["key"]
            for name in ("alice", "bob", "carol")}
    rests = {name: Rest(mortal.socket, {"X-API-Key": key}) for name, key in keys.items()}
    for name, status in (("alice", 201), ("bob", 201), ("carol", 403)):
        answer = rests[name].post("/api/sandboxes", {"volumes": [host.mount("alice", "rw")]})
        assert answer.status == status, answer.body
        if status == 201:
            assert rests[name].delete(f"/api/sandboxes/{answer.json['id']}").status == 204
    # Folders without tenants are for the operator's own, and a tenant is not told which folders others have.
    other = refused(mortal, host.mount("work", "ro"), 403, rests["carol"])
    none = refused(mortal, host.mount("secret", "ro"), 403, rests["carol"])
    assert other.replace("/work ", "/secret ") == none


def test_links_do_not_lead_out(host, mortal, make):
    """A sandbox that can write to a folder leaves links in it, for the next one to mount."""
    box = make(host.mount("work", "rw"))
    box.out(f"cd /work && ln -s {host.top}/secret away && ln -s ../secret up && ln -s sub inner && ln -s / root")
    for name in ("away", "up", "inner", "away/sub", "up/sub", "root/etc", "inner/deep"):
        for mode in ("ro", "rw", "cow"):
            assert "symbolic link" in refused(mortal, host.mount(f"work/{name}", mode), 409), name
    # Followed inside, they lead to what the sandbox has there.
    assert box.run("cat /work/up/file")["result"]["exit_code"] != 0
    # The control: the same without a link.
    assert make(host.mount("work/sub", "ro")).run("ls /work")["result"]["exit_code"] == 0
    box.out("cd /work && rm away up inner root")


def test_mounts_in_a_folder_are_not_shown(host, mortal, make):
    """What the host mounts there belongs to another file system, which the operator has not listed."""
    inner = host.top / "work" / "mounted"
    inner.mkdir()
    host.write("work/mounted/below", "covered")
    assert os.system(f"mount --bind {host.top}/secret {inner}") == 0
    try:
        assert (inner / "file").exists()
        assert make(host.mount("work", "ro")).out("ls /work/mounted") == "below"
        assert make(host.mount("work/mounted", "ro")).out("ls /work") == "below"
    finally:
        assert os.system(f"umount {inner}") == 0


def test_the_state_directory_is_never_mounted(tmp_path):
    with running(BUILD) as daemon:
        state = daemon.state
        daemon.stop()
        for inside in (state, state / "layers"):
            status, said = daemons.refusal([str(BUILD / "atolld"), "--state", str(state), "--socket",
                                            str(tmp_path / "s"), "--host-folders", f"{inside}:ro"], tmp_path / "log")
            assert status != 0 and "is in the state directory" in said
        # A folder above it can be listed. What leads to the state directory, and what shows it, is refused.
        daemon.env["ATOLL_HOST_FOLDERS"] = f"{state.parent}:rw"
        (state.parent / "other").mkdir()
        daemon.start()
        rest = Rest(daemon.socket)
        for path in (state.parent, state, state / "layers"):
            for mode in ("cow", "ro", "rw"):
                answer = rest.post("/api/sandboxes", {"volumes": [{"hostPath": str(path), "path": "/w", "mode": mode}]})
                assert answer.status == 409 and "state directory" in answer.error["message"], answer.body
        Box(rest, volumes=[{"hostPath": str(state.parent / "other"), "path": "/w"}]).destroy()


@pytest.mark.parametrize("folders", ["/", "/proc", "/proc/sys", "/sys/fs", "/dev", "relative", "/a/../b", "/a:all",
                                     "/a:ro,not a name", ";".join(f"/a{i}" for i in range(17)), "/" + "a" * 300])
def test_what_cannot_be_listed(tmp_path, folders):
    status, said = daemons.refusal([str(BUILD / "atolld"), "--state", str(tmp_path / "state"), "--socket",
                                    str(tmp_path / "s"), "--host-folders", folders], tmp_path / "log")
    assert status != 0 and "--host-folders" in said and "folder of the host" in said


def test_without_the_option_there_are_none(daemon, host):
    answer = Rest(daemon.socket).post("/api/sandboxes", {"volumes": [host.mount("work", "cow")]})
    assert answer.status == 403 and "--host-folders" in answer.error["message"]


def test_a_replaced_folder_is_not_followed(tmp_path_factory, host):
    """The list means the folders that were there when atoll-spawn was started, also after it died and was replaced."""
    top = tmp_path_factory.mktemp("replaced")
    (top / "listed").mkdir()
    (top / "listed/f").write_text("first")
    with running(BUILD, ATOLL_HOST_FOLDERS=f"{top}/listed:ro") as daemon:
        rest = Rest(daemon.socket)
        (top / "listed").rename(top / "before")
        (top / "listed").symlink_to(host.top / "secret")
        mount = {"hostPath": f"{top}/listed", "path": "/w", "mode": "ro"}
        box = Box(rest, volumes=[mount])
        assert box.out("cat /w/f") == "first"
        box.destroy()
        os.kill(spawn_pid(daemon), 9)
        box = Box(rest, volumes=[mount])
        assert box.out("cat /w/f") == "first"
        box.destroy()


def test_an_earlier_list_holds_until_atoll_spawn_ends(host, tmp_path):
    """A daemon that takes over sandboxes has the atoll-spawn of the one before."""
    with running(BUILD) as daemon:
        rest = Rest(daemon.socket)
        box = Box(rest)
        kill_daemon(daemon)
        daemon.env["ATOLL_HOST_FOLDERS"] = host.listed
        daemon.start()
        answer = rest.post("/api/sandboxes", {"volumes": [host.mount("work", "ro")]})
        assert answer.status == 409 and "stop and start atolld" in answer.error["message"]
        box.destroy()


# --- the life of such a sandbox ---

def test_a_stopped_sandbox_keeps_its_changes(host, mortal, make):
    box = make(host.mount("copy", "cow"), host.mount("work", "rw", "/live"), persistent=True)
    box.out("echo changed > /work/file; rm /work/sub/deep; rm -r /work/sub; mkdir /work/sub; echo own > /work/own")
    box.do("stop")
    box.do("resume")
    assert box.out("cat /work/file /work/own; ls /work/sub; cat /live/file") == "changed\nown\nwork"
    kill_daemon(mortal)
    mortal.start()
    box.do("stop")
    box.do("resume")
    assert box.out("cat /work/own") == "own" and host.read("copy/file") == "copy\n"


def test_a_permission_that_is_withdrawn(host):
    """A stopped sandbox is started only with what is permitted then."""
    with running(BUILD, ATOLL_HOST_FOLDERS=f"{host.top}/work:rw") as daemon:
        rest = Rest(daemon.socket)
        box = Box(rest, volumes=[host.mount("work", "rw")], persistent=True)
        box.do("stop")
        kill_daemon(daemon)
        daemon.env["ATOLL_HOST_FOLDERS"] = f"{host.top}/work:ro"
        daemon.start()
        answer = box.post("resume")
        assert answer.status == 403 and "only be mounted with the mode ro" in answer.error["message"]
        box.destroy()


def test_snapshots_forks_and_restores(host, mortal, make):
    box = make(host.mount("copy", "cow"))
    box.out("echo kept > /home/user/f")
    if box.post("snapshots", {"name": "with-folder"}).status == 501:
        pytest.skip("native cannot freeze sandboxes here")
    box.out(CHANGES)
    box.out("echo lost > /home/user/f")
    # A fork mounts the folder as well, and begins with the host's copy.
    fork = box.post("fork", {}).json["sandboxes"][0]["id"]
    answer = mortal.rest.post(f"/api/sandboxes/{fork}/execs", {"cmd": ["cat", "/work/file", "/home/user/f"]}, wait="true")
    assert answer.json["stdout"] == "copy\nlost\n"
    assert mortal.rest.delete(f"/api/sandboxes/{fork}").status == 204
    # What is in the folder, and what the sandbox changed there, is in no snapshot.
    other = make(template="with-folder")
    assert other.out("ls /work; cat /home/user/f") == "kept"
    # A restore begins with the host's copy, too.
    box.do("restore", {"snapshot": "with-folder"})
    assert box.out("cat /work/file /work/sub/deep /home/user/f") == "copy\ndeep\nkept"
    for one in (box, other):
        one.destroy()
    assert mortal.rest.delete("/api/snapshots/with-folder").status == 204


@pytest.mark.parametrize("limits", [{"memoryMB": 64, "diskMB": 64}, {"memoryMB": 64, "diskMB": 64, "ioMbps": 1000}])
def test_kinds_of_disks(host, make, limits):
    """In the disk pool, where the host has one, and as an image."""
    before = everything(host.top / "copy")
    box = make(host.mount("copy", "cow"), limits=limits)
    box.out(CHANGES)
    assert box.out("cat /work/file /work/new; stat -c %U /work/new; ls /work/sub") == "changed\nnew\nuser"
    assert everything(host.top / "copy") == before


def test_a_read_only_root(host, make):
    box = make(host.mount("work", "rw", "/opt/work"), readOnly=True)
    box.out("echo x > /opt/work/by-read-only")
    assert box.run("touch /opt/x", user="root")["result"]["exit_code"] != 0


# --- other providers, no root ---

def test_a_daemon_without_root(tmp_path_factory):
    user = daemons.ensure_rootless_user()
    top = tmp_path_factory.mktemp("rootless")
    for parent in (top, *top.parents):
        if parent.stat().st_mode & 0o777 == 0o700:
            parent.chmod(0o755)
    (top / "work").mkdir()
    (top / "work/file").write_text("mine\n")
    for path in (top / "work", top / "work/file"):
        os.chown(path, user.pw_uid, user.pw_gid)
    with running_rootless(ATOLL_HOST_FOLDERS=f"{top}/work:rw", ATOLL_WAIVE="all") as daemon:
        rest = Rest(daemon.socket)
        for mode in ("cow", "ro", "rw"):
            box = Box(rest, volumes=[{"hostPath": f"{top}/work", "path": "/work", "mode": mode}])
            assert box.out("cat /work/file") == "mine"
            owner = box.out("stat -c %U /work/file")
            wrote = box.run("echo changed > /work/file; echo x > /work/new", user=owner)
            assert (wrote["result"]["exit_code"] == 0) == (mode != "ro"), wrote
            assert box.out("cat /work/file") == ("mine" if mode == "ro" else "changed")
            assert ((top / "work/file").read_text() == "changed\n") == (mode == "rw")
            box.destroy()
        assert (top / "work/new").stat().st_uid == user.pw_uid
        assert stat.S_IMODE((top / "work/new").stat().st_mode) & 0o111 == 0


# --- what a sandbox changed in a cow folder, on this machine ---

class Diff:
    def __init__(self, mortal, host, make, folder):
        self.mortal, self.host, self.folder = mortal, host, folder
        self.box = make(host.mount(folder.name, "cow"))

    def __call__(self, *options, status=0):
        done = self.mortal.atoll("diff", "--mount", "/work", *options, self.box.id)
        assert done.returncode == status, (done.stdout, done.stderr)
        return [" ".join(line.split()[:2]) for line in done.stdout.splitlines()]


@pytest.fixture
def diff(host, mortal, make, tmp_path, monkeypatch):
    monkeypatch.setitem(mortal.env, "XDG_STATE_HOME", str(tmp_path / "kept"))
    folder = host.top / "copy"
    for name in os.listdir(folder):
        subprocess.run(["rm", "-rf", folder / name], check=True)
    (folder / "sub").mkdir()
    os.chown(folder / "sub", OWNER, GROUP)
    host.write("copy/file", "copy\n")
    host.write("copy/other", "other\n")
    host.write("copy/sub/deep", "deep\n")
    return Diff(mortal, host, make, folder)


def test_changes_are_shown_and_written_back(diff, host):
    before = everything(diff.folder)
    assert diff() == []
    diff.box.out("cd /work && echo CHANGED > file && echo new > new && mkdir -m 750 dir && echo x > dir/x && "
                 "chmod 755 other && rm -r sub && ln -s file link")
    shown = ["+ dir/", "+ dir/x", "~ file", "+ link", "+ new", "~ other", "- sub/", "- sub/deep"]
    assert diff() == shown
    assert everything(diff.folder) == before
    done = diff.mortal.json("diff", "--mount", "/work", diff.box.id)
    assert done == {"added": ["dir", "dir/x", "link", "new"], "changed": ["file", "other"], "removed": ["sub", "sub/deep"]}
    assert diff("--apply") == shown
    after = everything(diff.folder)
    assert sorted(after) == ["dir", "dir/x", "file", "link", "new", "other"]
    assert after["file"][3] == b"CHANGED\n" and os.readlink(diff.folder / "link") == "file"
    assert stat.S_IMODE(after["other"][0]) == 0o755 and stat.S_IMODE(after["dir"][0]) == 0o750
    assert {path.lstat().st_uid for path in daemons.below(diff.folder)} == {OWNER}
    assert diff() == []
    # What was written back is no change of the host's: the next one is no conflict.
    diff.box.out("echo once more > /work/file")
    assert diff("--apply") == ["~ file"]
    assert host.read("copy/file") == "once more\n" and diff() == []


def test_what_both_changed_is_not_overwritten(diff, host):
    diff.box.out("cd /work && echo theirs > file && rm other && echo theirs > made && echo fine > fine")
    host.write("copy/file", "mine, longer\n")
    host.write("copy/other", "mine\n")
    host.write("copy/made", "mine\n")
    assert diff(status=1) == ["! file", "+ fine", "! made", "! other"]
    assert diff("--apply", status=1) == ["! file", "+ fine", "! made", "! other"]
    assert [host.read(f"copy/{name}") for name in ("file", "made", "other", "fine")] == \
        ["mine, longer\n", "mine\n", "mine\n", "fine\n"]
    assert diff("--apply", "--force") == ["~ file", "~ made", "- other"]
    assert host.read("copy/file") == "theirs\n" and not (diff.folder / "other").exists()
    assert diff() == []


def test_a_change_of_the_same_size_is_seen(diff, host):
    diff.box.out("cd /work && echo COPY > file")
    assert diff("--apply") == ["~ file"]
    assert host.read("copy/file") == "COPY\n"


def test_what_the_sandbox_cannot_read_is_not_removed(diff, host):
    private = diff.folder / "private"
    private.mkdir(mode=0o700)
    (private / "f").write_text("of root of the host")
    assert diff("--apply", status=1) == []
    assert (private / "f").exists()


def test_links_of_the_sandbox_lead_nowhere(diff, host):
    diff.box.out("cd /work && rm -r sub && ln -s /etc sub && ln -s ../../secret up && mkdir real && ln -s .. real/x")
    diff("--apply", status=1)
    assert not (diff.folder / "up").is_symlink() and not (diff.folder / "sub").is_symlink()
    assert not any(path.name == "passwd" for path in daemons.below(diff.folder))


@pytest.mark.parametrize("argv", [["--apply"], ["--mount", "/nothing"], ["--mount", "/work", "--force"],
                                  ["--mount", "/work", "--patch"]])
def test_bad_calls_of_diff(diff, argv):
    assert diff.mortal.atoll("diff", *argv, diff.box.id).returncode != 0


def test_diff_of_a_daemon_elsewhere(diff, monkeypatch):
    monkeypatch.delitem(diff.mortal.env, "ATOLL_SOCKET")
    monkeypatch.setitem(diff.mortal.env, "ATOLL_URL", "http://atoll.example:8000")
    done = diff.mortal.atoll("diff", "--mount", "/work", diff.box.id)
    assert done.returncode == 1 and "run this there" in done.stderr


def test_by_the_command_line(host, mortal, monkeypatch):
    """A path of the command line may be relative, and have links."""
    (host.top / "bind/link").symlink_to("../work")
    monkeypatch.chdir(host.top / "bind")
    for folder in ("./link", "../work", str(host.top / "work")):
        done = mortal.atoll("run", "-v", f"{folder}:/work:ro", "--", "cat", "/work/file")
        assert done.stdout == "work\n", done.stderr
    assert mortal.atoll("run", "-v", "./nothing:/work", "--", "true").returncode == 2
    assert mortal.atoll("run", "-v", "./link:/work:all", "--", "true").returncode == 2


BASH = """language: bash
template: host
interpreters:
  bash: {run: [bash, "{file}"], extension: sh}
"""


def environment(folder, volumes):
    (folder / "environments").mkdir(parents=True, exist_ok=True)
    (folder / "environments/Folder.yaml").write_text(BASH + volumes)


def test_an_environment_of_the_registry(host, tmp_path):
    """Its sessions mount the folder, if their tenant may."""
    environment(tmp_path, f"volumes:\n  - {{hostPath: {host.top}/read, path: /data, mode: ro}}\n")
    with running(BUILD, ATOLL_HOST_FOLDERS=host.listed, ATOLL_REGISTRY=str(tmp_path)) as daemon:
        rest = Rest(daemon.socket)
        made = rest.post("/api/sessions", {"environment": "Folder"})
        assert made.status == 201, made.body
        ran = rest.post(f"/api/sessions/{made.json['session_id']}/execute", {"code": "cat /data/file; touch /data/x || echo refused"})
        assert "read" in str(ran.json) and "refused" in str(ran.json), ran.body
        key = rest.post("/api/keys", {"tenant": "carol", "scope": "write"}).json["key"]
        refused_ = Rest(daemon.socket, {"X-API-Key": key}).post("/api/sessions", {"environment": "Folder"})
        assert refused_.status == 403, refused_.body
        # One that is wrong is reported, and names the field.
        for volumes in ("volumes:\n  - {hostPath: relative, path: /data}\n", "volumes:\n  - {hostPath: /a, path: /d, mode: all}\n",
                        "pool: 1\nvolumes:\n  - {name: data, path: /data}\n"):
            environment(tmp_path, volumes)
            daemons.wait_until(lambda: "volumes" in daemon.atoll("registry", "ls").stderr +
                               daemon.atoll("registry", "ls").stdout + daemon.log_tail(5), 20, lambda: "no complaint")
