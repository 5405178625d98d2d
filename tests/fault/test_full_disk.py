"""The daemon's own disk is full: it says so, keeps answering, and goes on once there is room."""
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess

import pytest

import conftest
from conftest import wait_until
from rest import Rest


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)  # waits while the backlog is full; with a timeout it would not
        self.sock.settimeout(self.timeout)


def ask(daemon, path):
    connection = UnixConnection(str(daemon.socket))
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


@pytest.fixture
def cramped(tmp_path):
    """A daemon whose state directory is on a small file system of its own."""
    if os.geteuid() != 0:
        pytest.skip("mounts a small file system")
    with conftest.running(conftest.BUILD) as daemon:
        daemon.stop()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", daemon.state], check=True)
        try:
            daemon.start()
            yield daemon
            daemon.stop()
        finally:
            subprocess.run(["umount", "-l", daemon.state], check=True)


def create(daemon):
    return daemon.create("--disk", "8M")  # no more than the machine has, which is that small one


def fill(path):
    with open(path, "wb", buffering=0) as f:
        for size in (1 << 20, 4096):
            try:
                while f.write(b"x" * size) == size:
                    pass
            except OSError:
                pass


def test_it_says_so_and_goes_on(cramped):
    sandbox = create(cramped)
    assert cramped.atoll("exec", sandbox, "--", "echo", "before").stdout == "before\n"
    fill(cramped.state / "ballast")
    refused = cramped.atoll("exec", sandbox, "--", "echo", "full")
    assert refused.returncode == 125
    assert "its own disk is full" in refused.stderr
    assert "INSERT" not in refused.stderr
    assert ask(cramped, "/healthz")[0] == 200
    status, body = ask(cramped, "/readyz")
    assert status == 503 and "disk is full" in body
    os.unlink(cramped.state / "ballast")
    assert cramped.atoll("exec", sandbox, "--", "echo", "after").stdout == "after\n"
    assert ask(cramped, "/readyz")[0] == 200
    cramped.atoll("rm", sandbox, check=True)


def restart(daemon):
    os.kill(daemon.pid, signal.SIGKILL)
    daemon.process.wait()
    daemon.start()


def test_what_is_destroyed_stays_so(cramped):
    """A destroy that was acknowledged while the disk was full is one for the next daemon too."""
    names = [create(cramped) for _ in range(4)]
    for name in names:
        for number in range(8):
            assert cramped.atoll("exec", name, "--", "echo", number).returncode == 0
    fill(cramped.state / "ballast")
    for name in names[:3]:
        cramped.atoll("rm", name, check=True)  # the reserve is for this
    restart(cramped)
    listed = {box["id"]: box["state"] for box in cramped.json("ls")["sandboxes"]}
    os.unlink(cramped.state / "ballast")
    assert listed == {names[3]: "running"}
    cramped.atoll("rm", names[3], check=True)
    restart(cramped)
    assert cramped.json("ls")["sandboxes"] == []


def test_the_reserve_comes_back(cramped):
    reserve = cramped.state / "reserve"
    assert reserve.stat().st_blocks * 512 >= reserve.stat().st_size > 0
    name = create(cramped)
    fill(cramped.state / "ballast")
    cramped.atoll("rm", name, check=True)
    os.unlink(cramped.state / "ballast")
    wait_until(reserve.exists, 30, lambda: "no reserve")


def test_who_follows_gets_all_of_it(cramped):
    """A command whose output is followed from its start; the disk is full before it writes any."""
    rest, box = Rest(cramped.socket), f"/api/sandboxes/{create(cramped)}"
    last = 3_000_000
    script = f"until [ -e /tmp/go ]; do sleep 0.05; done; seq {last}"
    connection = rest.connection()
    connection.request("POST", f"{box}/execs?stream=true", json.dumps({"cmd": ["sh", "-c", script]}))
    with contextlib.closing(connection), connection.getresponse() as lines:
        one = f"{box}/execs/{json.loads(next(lines))['exec_id']}"
        fill(cramped.state / "ballast")
        assert rest.put(f"{box}/files", b"", path="/tmp/go").status in (200, 201, 204)
        at, tail = 0, b""
        for line in map(json.loads, lines):
            assert "truncated" not in line, line
            if line.get("stream") == "stdout":
                assert line["offset"] == at
                at += len(line["data"])
                tail = (tail + line["data"].encode())[-16:]
    assert line["result"]["exit_code"] == 0 and line["result"]["stdout_bytes"] == at > 20_000_000
    assert tail.endswith(f"\n{last}\n".encode())
    # The control: it was not kept, and another client is told.
    assert any("truncated" in line for line in rest.get(f"{one}/output").lines)
    figures = rest.get("/metrics").body.decode()
    assert '\natoll_kept_bytes{what="held output"} 0\n' in figures
    os.unlink(cramped.state / "ballast")


def test_output_leaves_room_for_records(cramped):
    """What commands write does not fill the disk, though one command alone may write more than it has."""
    rest, box = Rest(cramped.socket), f"/api/sandboxes/{create(cramped)}"
    for _ in range(8):
        answer = rest.post(f"{box}/execs", {"cmd": ["sh", "-c", "head -c 8000000 /dev/zero"]},
                           wait="true")
        assert answer.status == 200 and answer.json["result"]["stdout_bytes"] == 8_000_000
    room = os.statvfs(cramped.state)
    assert room.f_bavail > room.f_blocks / 4
    assert rest.get("/readyz").status == 200


def test_a_snapshot_on_a_full_disk_leaves_nothing(cramped):
    """Of a disk that is not in the pool: its files are copied to the state directory."""
    rest, box = Rest(cramped.socket), f"/api/sandboxes/{create(cramped)}"

    def run(script):
        return rest.post(f"{box}/execs", {"cmd": ["sh", "-c", script]}, wait="true").json

    def layers():
        folder = cramped.state / "layers"
        return sorted(path.name for path in folder.iterdir() if path.name.startswith("x")) if folder.exists() else []

    assert run("head -c 4M /dev/urandom > much; md5sum < much")["result"]["exit_code"] == 0
    room = os.statvfs(cramped.state)
    with open(cramped.state / "ballast", "wb") as f:  # the copy begins, and has too little room
        os.posix_fallocate(f.fileno(), 0, room.f_bavail * room.f_frsize - (2 << 20))
    for path, body in (("snapshots", {"name": "full"}), ("fork", {})):
        refused = rest.post(f"{box}/{path}", body)
        assert refused.status in (503, 507), refused.body
        assert b"state directory" in refused.body or b"disk is full" in refused.body, refused.body
    fill(cramped.state / "ballast-2")
    assert rest.post(f"{box}/snapshots", {"name": "full"}).status in (503, 507)
    assert rest.get("/api/snapshots").json["snapshots"] == [] and layers() == []
    os.unlink(cramped.state / "ballast")
    os.unlink(cramped.state / "ballast-2")
    before = run("md5sum < much")["stdout"]
    assert rest.post(f"{box}/snapshots", {"name": "room"}).status == 201
    made = rest.post("/api/sandboxes", {"template": "room", "limits": {"diskMB": 8}}).json["id"]
    assert rest.post(f"/api/sandboxes/{made}/execs", {"cmd": ["sh", "-c", "md5sum < much"]},
                     wait="true").json["stdout"] == before


# The disk pool: its image is on the disk that is full.

@pytest.fixture
def pooled(tmp_path):
    """A daemon with all disks in the pool, on a small file system."""
    if os.geteuid() != 0:
        pytest.skip("mounts a small file system")
    image = tmp_path / "small"
    with open(image, "wb") as f:
        f.truncate(1 << 30)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-O", "^has_journal", image], check=True)
    with conftest.running(conftest.BUILD, ATOLL_DISKS="cow") as daemon:
        daemon.stop()
        subprocess.run(["mount", "-o", "loop", image, daemon.state], check=True)
        try:
            daemon.start()
            if not (daemon.state / "pool.img").exists():
                pytest.skip("this host has no copy-on-write disks")
            yield daemon
            daemon.stop()
        finally:
            subprocess.run(["umount", "-l", daemon.state], check=True)


def leave(daemon, megabytes):
    """Another program takes the disk but for this."""
    room = os.statvfs(daemon.state)
    with open(daemon.state / "ballast", "ab") as f:
        os.posix_fallocate(f.fileno(), 0, room.f_bavail * room.f_frsize - (megabytes << 20))


def test_a_pool_on_a_full_disk_stays_writable(pooled):
    rest = Rest(pooled.socket)

    def sh(box, script):
        answer = rest.post(f"/api/sandboxes/{box}/execs", {"cmd": ["sh", "-c", script]}, wait="true").json
        return answer["result"]["exit_code"], answer["stdout"].strip(), answer["stderr"]

    def make():
        return pooled.create("--memory", "64M", "--disk", "600M")

    writer, other, third = make(), make(), make()
    assert sh(other, "head -c 4M /dev/urandom > kept; sync; md5sum < kept")[0] == 0
    before = sh(other, "md5sum < kept")[1]
    leave(pooled, 120)
    code, _, problem = sh(writer, "sleep 2; cat /dev/zero > big; sync; touch more")
    assert code != 0 and "quota" in problem.lower(), problem
    room = os.statvfs(pooled.state)
    assert room.f_bavail * room.f_frsize > 8 << 20
    # Nothing is read-only, and nothing that was written is lost.
    assert sh(other, "md5sum < kept")[1] == before
    code, size, _ = sh(writer, "stat -c %s big; rm big; sync")
    assert code == 0 and int(size) > 16 << 20
    leave(pooled, 20)
    wait_until(lambda: sh(writer, "head -c 64K /dev/zero > new")[0] != 0, 30, lambda: "not full")
    for path, body in ((f"/api/sandboxes/{other}/snapshots", {"name": "full"}), (f"/api/sandboxes/{other}/fork", {}),
                       ("/api/sandboxes", {"limits": {"memoryMB": 64, "diskMB": 600}})):
        refused = rest.post(path, body)
        assert refused.status == 507 and "state directory" in refused.json["error"]["hint"], refused.body
    assert rest.get("/api/snapshots").json["snapshots"] == []
    pooled.atoll("rm", third, check=True)
    # There is room again, without a restart of anything.
    os.unlink(pooled.state / "ballast")
    wait_until(lambda: sh(writer, "head -c 64M /dev/zero > big && sync")[0] == 0, 30, lambda: "still full")
    assert sh(other, "echo on > note; cat note")[1] == "on"
    assert rest.post(f"/api/sandboxes/{other}/snapshots", {"name": "room"}).status == 201
    assert rest.delete("/api/snapshots/room").status == 204
    for box in (writer, other):
        pooled.atoll("rm", box, check=True)
    wait_until(lambda: not list((pooled.state / "layers").glob("x*")), 30, lambda: "a layer is left")
