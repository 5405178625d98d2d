"""Named volumes of native sandboxes: shared, kept, removed, and out of the reach of other tenants."""

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from boxes import Box
from conftest import running, BUILD
from daemons import wait_until
from rest import Rest
from resting import agent_of, kill_daemon, mortal_daemon, spawn_pid


@pytest.fixture(scope="module")
def mortal():
    with mortal_daemon() as daemon:
        yield daemon


@pytest.fixture
def make(mortal):
    """Makes sandboxes; afterwards they and their volumes are gone."""
    made = []

    def create(*mounts, **fields):
        volumes = [{"name": name, "path": path, **more} for name, path, more in
                   ((*mount, {})[:3] if len(mount) == 2 else mount for mount in mounts)]
        made.append(Box(mortal.rest, volumes=volumes, **fields))
        return made[-1]

    yield create
    for box in made:
        box.destroy()
    for volume in mortal.rest.get("/api/volumes").json["volumes"]:
        assert mortal.rest.delete(f"/api/volumes/{volume['name']}").status == 204
    wait_until(lambda: not list((mortal.state / "layers").glob("gone-*")), 20, lambda: "files are left")


READ = {"readOnly": True}


def test_several_sandboxes_share_a_volume(mortal, make):
    one, two = make(("data", "/data")), make(("data", "/mnt/deep/data"))
    assert one.view["volumes"] == [{"name": "data", "path": "/data", "readOnly": False}]
    one.out("echo hello > /data/f; mkdir /data/d")
    one.out("echo private > /data/root; chmod 600 /data/root", user="root")
    assert two.out("cat /mnt/deep/data/f; stat -c '%U %a' /mnt/deep/data/f /mnt/deep/data/root") == \
        "hello\nuser 644\nroot 600"
    two.out("echo more >> /mnt/deep/data/f; echo back > /mnt/deep/data/d/g")
    assert one.out("cat /data/f /data/d/g") == "hello\nmore\nback"
    assert one.run("cat /data/root")["result"]["exit_code"] == 1
    listed = mortal.rest.get("/api/volumes").json["volumes"]
    assert [(one["name"], one["provider"]) for one in listed] == [("data", "native")]


def test_read_only(make):
    writer, reader = make(("data", "/data")), make(("data", "/data", READ))
    writer.out("echo x > /data/f")
    assert reader.out("cat /data/f") == "x"
    refused = reader.run("echo y > /data/f || mount -o remount,rw /data", user="root")
    assert refused["result"]["exit_code"] != 0 and "Read-only file system" in refused["stderr"]
    assert writer.out("cat /data/f") == "x"


def test_a_volume_outlives_sandboxes_and_daemons(mortal, make):
    make(("data", "/data")).out("echo kept > /data/f")
    mortal.rest.delete("/api/sandboxes")
    kill_daemon(mortal)
    mortal.start()
    assert make(("data", "/data")).out("cat /data/f") == "kept"


def test_a_stopped_sandbox_has_it_again(make):
    box = make(("data", "/data"), persistent=True)
    box.out("echo 1 > /data/f")
    box.do("stop")
    box.do("resume")
    assert box.out("cat /data/f") == "1"


def test_volumes_in_snapshots_forks_and_restores(mortal, make):
    box = make(("data", "/data"))
    if box.post("snapshots", {"name": "with-volume"}).status == 501:
        pytest.skip("native cannot freeze sandboxes here")
    box.out("echo shared > /data/f")
    copy = box.post("fork", {}).json["sandboxes"][0]["id"]
    answer = mortal.rest.post(f"/api/sandboxes/{copy}/execs", {"cmd": ["cat", "/data/f"]}, wait="true")
    assert answer.json["stdout"] == "shared\n"
    assert mortal.rest.delete(f"/api/sandboxes/{copy}").status == 204
    box.do("restore", {"snapshot": "with-volume"})
    assert box.out("cat /data/f") == "shared"
    # The files of a volume are not part of a snapshot; where a sandbox of a template mounts one, they are there.
    other = make(template="with-volume")
    assert other.out("ls /data") == ""
    both = make(("data", "/data"), template="with-volume")
    assert both.out("cat /data/f; stat -c %U /data/f") == "shared\nuser"
    for one in (box, other, both):
        one.destroy()
    assert mortal.rest.delete("/api/snapshots/with-volume").status == 204


def test_a_read_only_root(make):
    box = make(("data", "/opt/data"), readOnly=True)
    box.out("echo x > /opt/data/f")
    assert box.run("touch /opt/x", user="root")["result"]["exit_code"] != 0


def test_programs_of_a_volume_get_no_rights(make):
    box = make(("data", "/data"))
    box.out("cp /usr/bin/id /data/id && chmod 4755 /data/id", user="root")
    assert box.out("/data/id -u") == box.out("id -u") != "0"


def test_links_lead_nowhere_else(mortal, make):
    """A mount point that a snapshot has as a link: it is resolved inside."""
    box = make()
    box.out("ln -s /../../../../etc /home/user/link; ln -s / /home/user/top")
    if box.post("snapshots", {"name": "linked"}).status == 501:
        pytest.skip("native cannot freeze sandboxes here")
    other = make(("data", "/home/user/link/inner"), ("more", "/home/user/top/outer"), template="linked")
    other.out("echo x > /etc/inner/f; echo y > /outer/f")
    assert not (mortal.state / "etc").exists()
    assert sorted(path.name for path in (mortal.state / "volumes/default").iterdir()) == ["data", "more"]
    other.destroy()
    assert mortal.rest.delete("/api/snapshots/linked").status == 204


def test_removal(mortal, make):
    box = make(("data", "/data"))
    refused = mortal.rest.delete("/api/volumes/data")
    assert refused.status == 409 and box.id in refused.json["error"]["message"]
    box.destroy()
    assert mortal.rest.delete("/api/volumes/data").status == 204
    assert mortal.rest.delete("/api/volumes/data").status == 404
    assert make(("data", "/data")).out("ls /data") == ""


@pytest.mark.parametrize("volume", [{"hostPath": "etc", "path": "/x"}, {"name": "a/b", "path": "/x"},
                                    {"name": "a", "path": "x"}, {"name": "a", "path": "/proc/x"},
                                    {"name": "..", "path": "/x"}, {"name": "a"}])
def test_bad_volumes(mortal, volume):
    assert mortal.rest.post("/api/sandboxes", {"volumes": [volume]}).status == 400


def test_tenants_need_a_permission():
    with running(BUILD) as daemon:
        key = Rest(daemon.socket).post("/api/keys", {"tenant": "acme", "scope": "write"}).json["key"]
        refused = Rest(daemon.socket, {"X-API-Key": key}).post(
            "/api/sandboxes", {"volumes": [{"name": "data", "path": "/data"}]})
        assert refused.status == 403 and "native: {volumes: N}" in refused.json["error"]["message"]


def test_tenants(tmp_path):
    (tmp_path / "providers.yaml").write_text("native: {volumes: 1}\n")
    with running(BUILD, ATOLL_PROVIDERS=str(tmp_path / "providers.yaml")) as daemon:
        admin = Rest(daemon.socket)
        keys = [admin.post("/api/keys", {"tenant": name, "scope": "write"}).json["key"]
                for name in ("acme", "rival")]
        mine, rival = (Rest(daemon.socket, {"X-API-Key": key}) for key in keys)
        wanted = [{"name": "data", "path": "/data"}]
        ours, theirs = Box(mine, volumes=wanted), Box(rival, volumes=wanted)
        ours.out("echo ours > /data/f")
        assert theirs.out("ls /data") == ""
        theirs.destroy()
        assert rival.delete("/api/volumes/data").status == 204
        assert rival.get("/api/volumes").json["volumes"] == []
        assert ours.out("cat /data/f") == "ours"
        refused = mine.post("/api/sandboxes", {"volumes": [{"name": "more", "path": "/data"}]})
        assert refused.status == 429, refused.body


def test_by_the_command_line(daemon):
    box = daemon.create("--volume", "cli-data:/data")
    daemon.atoll("exec", box, "--", "sh", "-c", "echo x > /data/f", check=True)
    [line] = [line for line in daemon.atoll("volume", "ls", check=True).stdout.splitlines() if "cli-data" in line]
    assert line.split()[:4] == ["cli-data", "native", "-", "-"]
    daemon.atoll("rm", box, check=True)
    assert daemon.atoll("run", "--volume", "cli-data:/data:ro", "--", "cat", "/data/f", check=True).stdout == "x\n"
    daemon.atoll("volume", "rm", "cli-data", check=True)


def count_open(mortal):
    """Volumes whose files are served, by the daemon's own count."""
    text = mortal.rest.get("/metrics").body.decode()
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("atoll_volumes_open ")), 0)


def test_files_without_a_sandbox(mortal, make):
    rest, files = mortal.rest, "/api/volumes/data/files"
    assert rest.get(files, path="f").status == 404
    assert rest.get("/api/volumes").json["volumes"] == []
    assert rest.post("/api/volumes", {"name": "data"}).status == 201
    assert rest.post("/api/volumes", {"name": "data"}).status == 409
    put = rest.put(files, b"hello", path="a/f", mode="0640")
    assert put.status == 200 and put.json["path"] == "/a/f" and put.json["mode"] == "0640"
    assert rest.get(files, path="/a/f").body == b"hello"
    assert rest.get(f"{files}/list", path="/", depth=2).json["entries"][1]["path"] == "/a/f"
    assert rest.get("/api/sandboxes").json["sandboxes"] == []
    # One sandbox serves all of it, and goes some seconds after the last request.
    assert count_open(mortal) == 1
    box = make(("data", "/data"))
    assert box.out("stat -c '%U %a' /data/a/f; echo more >> /data/a/f; cat /data/a/f") == "user 640\nhellomore"
    box.out("echo secret > /data/root; chmod 600 /data/root", user="root")
    assert rest.get(files, path="root").body == b"secret\n"
    assert rest.post(f"{files}/move", path="root", to="/a/moved").json["path"] == "/a/moved"
    assert rest.post(f"{files}/chown", path="a/moved", owner="user").status == 204
    assert box.out("stat -c %U /data/a/moved") == "user"
    assert rest.delete(files, path="a", recursive="true").status == 204
    assert box.out("ls /data") == ""
    wait_until(lambda: count_open(mortal) == 0, 30, lambda: "the volume is still open")
    assert rest.get(f"{files}/stat", path="/").json["type"] == "directory"


def test_files_do_not_leave_their_volume(mortal, make):
    rest, files = mortal.rest, "/api/volumes/data/files"
    make(("data", "/data")).out("ln -s /etc /data/etc; echo x > /data/f")
    for path in ("..", "../etc/passwd", "a/../../etc/passwd", "/.."):
        assert rest.get(files, path=path).status == 400, path
    # A link leads to the sandbox that serves the volume, which has nothing of the host.
    passwd = rest.get(files, path="etc/passwd")
    assert passwd.status == 404 or b"root:" in passwd.body
    assert rest.get(files, path="etc/atoll").status == 404
    assert rest.get(files, path="..f").status == 404


def test_a_removal_ends_what_served_the_files(mortal):
    rest = mortal.rest
    assert rest.post("/api/volumes", {"name": "short"}).status == 201
    assert rest.put("/api/volumes/short/files", b"x", path="f").status == 200
    assert rest.delete("/api/volumes/short").status == 204
    assert rest.get("/api/volumes/short/files", path="f").status == 404
    assert rest.get("/api/volumes").json["volumes"] == []


def test_files_of_other_tenants(tmp_path):
    (tmp_path / "providers.yaml").write_text("native: {volumes: 1}\n")
    with running(BUILD, ATOLL_PROVIDERS=str(tmp_path / "providers.yaml")) as daemon:
        admin = Rest(daemon.socket)
        mine, rival = (Rest(daemon.socket, {"X-API-Key": admin.post(
            "/api/keys", {"tenant": name, "scope": "write"}).json["key"]}) for name in ("acme", "rival"))
        assert mine.put("/api/volumes/data/files", b"x", path="f").status == 404
        assert mine.post("/api/volumes", {"name": "data"}).status == 201
        assert mine.put("/api/volumes/data/files", b"mine", path="f").status == 200
        assert rival.get("/api/volumes/data/files", path="f").status == 404
        assert rival.post("/api/volumes", {"name": "data"}).status == 201
        assert rival.get("/api/volumes/data/files", path="f").status == 404
        assert mine.get("/api/volumes/data/files", path="f").body == b"mine"
        assert mine.post("/api/volumes", {"name": "more"}).status == 429


def test_copies_by_the_command_line(daemon, tmp_path):
    (tmp_path / "tree/sub").mkdir(parents=True)
    (tmp_path / "tree/sub/f").write_text("deep")
    assert daemon.atoll("volume", "create", "copied", check=True).stdout == "copied\n"
    daemon.atoll("cp", str(tmp_path / "tree"), "volume:copied/", check=True)
    assert daemon.atoll("cp", "volume:copied/tree/sub/f", "-", check=True).stdout == "deep"
    daemon.atoll("cp", "volume:copied/tree", str(tmp_path / "back"), check=True)
    assert (tmp_path / "back/sub/f").read_text() == "deep"
    assert daemon.atoll("run", "--volume", "copied:/v", "--", "cat", "/v/tree/sub/f", check=True).stdout == "deep"
    daemon.atoll("volume", "rm", "copied", check=True)


def attached():
    """Loop devices of volumes."""
    names = (path / "loop/backing_file" for path in Path("/sys/block").glob("loop*"))
    return [name.read_text() for name in names if name.exists() and "/volumes/" in name.read_text()]


@pytest.fixture
def limited(mortal):
    made = mortal.rest.post("/api/volumes", {"name": "small", "sizeMB": 32})
    if made.status == 409 and "cannot limit" in made.json["error"]["message"]:
        pytest.skip("this host cannot limit volumes")
    assert made.status == 201, made.body
    yield "/api/volumes/small/files"
    assert mortal.rest.delete("/api/volumes/small").status == 204


def test_a_limit_holds_for_all_writers(mortal, make, limited):
    one, two = make(("small", "/v")), make(("small", "/v"))
    reader = make(("small", "/v", READ))
    one.out("echo shared > /v/f; chmod 640 /v/f")
    assert two.out("cat /v/f; stat -c '%U %a' /v/f /v; ls -A /v") == "shared\nuser 640\nroot 777\nf"
    assert reader.out("cat /v/f") == "shared"
    assert reader.run("touch /v/x")["result"]["exit_code"] != 0
    # One file system for all: what one fills, the others lack.
    full = one.run("dd if=/dev/zero of=/v/big bs=1M count=64", user="root")
    assert full["result"]["exit_code"] != 0 and "No space left" in full["stderr"]
    assert two.run("dd if=/dev/zero of=/v/more bs=1M count=4")["result"]["exit_code"] != 0
    refused = mortal.rest.put(limited, b"x" * (4 << 20), path="upload")
    assert refused.status == 507 and refused.error["message"] == "volume small is full", refused.body
    assert "volume" in refused.error["hint"] and "diskMB" not in refused.error["hint"]
    view = next(v for v in mortal.rest.get("/api/volumes").json["volumes"] if v["name"] == "small")
    assert view["size_bytes"] == 32 << 20 and 16 << 20 < view["used_bytes"] <= view["size_bytes"]
    assert len(attached()) == 1
    two.out("rm /v/big")
    one.out("dd if=/dev/zero of=/v/again bs=1M count=4 2>/dev/null")
    # Many empty files are bounded, too.
    assert "No space left" in one.run("cd /v; for i in $(seq 20000); do : > n$i || exit 1; done")["stderr"]
    for box in (one, two, reader):
        box.destroy()
    wait_until(lambda: not attached(), 20, lambda: f"attached: {attached()}")
    last = make(("small", "/v"))
    assert last.out("cat /v/f") == "shared"
    last.destroy()


def test_a_limited_volume_outlives_a_killed_daemon(mortal, make, limited):
    make(("small", "/v")).out("echo kept > /v/f; sync /v/f")
    mortal.rest.delete("/api/sandboxes")
    kill_daemon(mortal)
    mortal.start()
    assert mortal.rest.get(limited, path="f").body == b"kept\n"


def test_many_begin_a_volume_at_once(mortal, limited):
    with ThreadPoolExecutor(8) as pool:
        boxes = list(pool.map(lambda i: Box(mortal.rest, volumes=[{"name": "small", "path": "/v"}]), range(8)))
    for i, box in enumerate(boxes):
        box.out(f"echo {i} > /v/{i}")
    assert all(box.out("cat /v/* | wc -l") == "8" for box in boxes)
    assert len(attached()) == 1
    for box in boxes:
        box.destroy()


IN_STEP = "i=0; while :; do i=$((i + 1)); echo $i >>/v/a; echo $i >>/v/b; done"


def test_a_copy_is_of_one_moment(mortal, make, limited):
    box = make(("small", "/v"))
    writer = box.detach(IN_STEP)
    wait_until(lambda: int(box.out("wc -l </v/b")) > 100, 30, lambda: "nothing is written")
    made = mortal.rest.post("/api/volumes", {"name": "copy", "from": "small"})
    assert made.status == 201 and made.json["name"] == "copy", made.body
    before = int(box.out("wc -l </v/b"))
    copy = make(("copy", "/v"))
    a, b = (copy.out(f"cat /v/{name}").split() for name in "ab")
    assert len(b) <= len(a) <= len(b) + 1 and a == [str(i + 1) for i in range(len(a))]
    assert 100 < len(b) <= before and b == a[:len(b)]
    wait_until(lambda: int(box.out("wc -l </v/b")) > before, 30, lambda: "the writer does not go on")
    box.post(f"execs/{writer}/kill", {"signal": 9})
    copy.out("rm /v/a")
    assert box.out("test -f /v/a && echo there") == "there"
    shown = {v["name"]: v for v in mortal.rest.get("/api/volumes").json["volumes"]}
    assert shown["copy"]["size_bytes"] == shown["small"]["size_bytes"]
    box.destroy()


def test_what_cannot_be_copied(mortal, make, limited):
    assert mortal.rest.post("/api/volumes", {"name": "plain"}).status == 201
    for fields, status, says in (({"from": "nosuch"}, 404, "no volume nosuch"),
                                 ({"from": "small", "name": "plain"}, 409, "plain exists"),
                                 ({"from": "plain"}, 409, "sizeMB"),
                                 ({"from": "small", "sizeMB": 64}, 400, "leave out sizeMB"),
                                 ({"from": "small", "name": "../x"}, 400, "not a volume name"),
                                 ({"from": "../small"}, 404, "no volume"),
                                 ({"from": "small", "provider": "nosuch"}, 400, "nosuch")):
        answer = mortal.rest.post("/api/volumes", {"name": "copy", **fields})
        assert answer.status == status and says in answer.error["message"], (fields, answer.body)
    assert {v["name"] for v in mortal.rest.get("/api/volumes").json["volumes"]} == {"plain", "small"}
    mortal.rest.delete("/api/volumes/plain")


def test_a_volume_that_stayed_frozen_is_thawed(mortal, make, limited):
    """As after the death of what copies it, and of atoll-spawn."""
    box = make(("small", "/v"))
    box.out("echo x >/v/f; sync /v/f")
    subprocess.run(["fsfreeze", "-f", f"/proc/{agent_of(box.id)}/root/v"], check=True)
    box.detach("echo y >/v/g")  # waits, and cannot be killed
    kill_daemon(mortal)
    os.kill(spawn_pid(mortal), signal.SIGKILL)
    mortal.start()
    assert make(("small", "/v")).out("cat /v/f; echo z >/v/h; cat /v/h") == "x\nz"
    mortal.rest.delete("/api/sandboxes")


def test_a_copy_by_the_command_line(daemon):
    if daemon.atoll("volume", "create", "--size", "32M", "sized").returncode != 0:
        pytest.skip("this host cannot limit volumes")
    daemon.atoll("run", "--volume", "sized:/v", "--", "sh", "-c", "echo x >/v/f", check=True)
    assert daemon.atoll("volume", "create", "--from", "sized", "other", check=True).stdout == "other\n"
    assert daemon.atoll("cp", "volume:other/f", "-", check=True).stdout == "x\n"
    daemon.atoll("volume", "rm", "sized", "other", check=True)


def test_volumes_of_tenants_have_a_limit(tmp_path):
    (tmp_path / "providers.yaml").write_text("native: {volumes: 2, volume_mb: 32}\n")
    with running(BUILD, ATOLL_PROVIDERS=str(tmp_path / "providers.yaml")) as daemon:
        key = Rest(daemon.socket).post("/api/keys", {"tenant": "acme", "scope": "write"}).json["key"]
        mine = Rest(daemon.socket, {"X-API-Key": key})
        assert mine.post("/api/volumes", {"name": "large", "sizeMB": 64}).status == 429
        box = Box(mine, volumes=[{"name": "data", "path": "/data"}])
        assert box.run("head -c 64M /dev/zero > /data/f")["result"]["exit_code"] != 0
        box.destroy()
        assert mine.post("/api/volumes", {"name": "second", "from": "data"}).status == 201
        third = mine.post("/api/volumes", {"name": "third", "from": "data"})
        assert third.status == 429 and "has 2 volumes" in third.error["message"]
        assert mine.delete("/api/volumes/data").status == 204
