"""`atoll up`, `down` and `status`: a daemon in the background that nobody has to think about."""

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from conftest import alive, start_time, wait_until
from daemons import wait_for_room

BUILD = Path(__file__).resolve().parents[2] / os.environ.get("ATOLL_BUILD", "build")


class Place:
    """A user's own place for a daemon."""

    def __init__(self, directory):
        self.state = directory / "state"
        self.socket = directory / "run" / "atoll.sock"
        self.env = {"PATH": f"{BUILD}:/usr/bin:/bin", "HOME": str(directory),
                    "ATOLL_STATE": str(self.state), "ATOLL_SOCKET": str(self.socket)}

    def atoll(self, *args, env=None):
        return subprocess.run([BUILD / "atoll", *map(str, args)], env={**self.env, **(env or {})},
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)

    def json(self, *args, status=0):
        done = self.atoll(*args, "--json")
        assert done.returncode == status, done.stderr
        return json.loads(done.stdout)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def place(tmp_path):
    wait_for_room(2)
    at = Place(tmp_path)
    yield at
    at.atoll("down", "--force")


def test_status_without_a_daemon(place):
    assert place.json("status", status=3) == {"running": False, "address": str(place.socket)}
    done = place.atoll("status")
    assert done.returncode == 3 and "atoll up" in done.stdout


def test_up_status_down(place):
    listen = f"127.0.0.1:{free_port()}"
    done = place.atoll("up", "--listen", listen)
    assert done.returncode == 0, done.stderr
    assert f"E2B_API_URL=http://{listen}" in done.stdout
    assert f"E2B_SANDBOX_URL=http://{listen}" in done.stdout
    assert f"ATOLL_SOCKET={place.socket}" in done.stdout
    status = place.json("status")
    pid, born = status["pid"], start_time(status["pid"])
    assert status["running"] and status["started_by_up"] and status["sandboxes"] == 0
    assert status["state"] == str(place.state)
    assert Path(status["key_file"]).stat().st_mode & 0o777 == 0o600
    assert status["listen"] == listen and status["uptime_seconds"] >= 0
    # Again is no second one.
    again = place.json("up")
    assert (again["started"], again["pid"], again["listen"]) == (False, pid, listen)
    assert place.atoll("up", "--listen", listen).stderr == ""
    for options in (["--listen", "127.0.0.1:1"], ["--", "--pool", "4"]):
        assert "already runs" in place.atoll("up", *options).stderr
    assert place.atoll("run", "--", "echo", "hi").stdout == "hi\n"
    # Over TCP it is somebody else's business which process that is.
    key = Path(status["key_file"]).read_text().strip()
    by_key = json.loads(place.atoll("status", "--json", env={
        "ATOLL_SOCKET": "", "ATOLL_URL": f"http://{listen}", "ATOLL_API_KEY": key}).stdout)
    assert by_key["running"] and "pid" not in by_key
    assert place.json("down") == {"stopped": True, "pid": pid}
    assert not alive(pid, born)
    assert place.json("down") == {"stopped": False, "pid": 0}
    assert place.atoll("status").returncode == 3


def test_down_after_up_with_another_state_directory(place, tmp_path):
    other = tmp_path / "other"
    said = place.atoll("up", "--no-listen", "--state", other)
    assert f"Stop it with: atoll down --state {other}\n" in said.stdout
    done = place.atoll("down")  # the socket leads to the daemon, its arguments to the directory
    assert done.returncode == 0 and "stopped" in done.stdout, done.stderr
    assert not (other / "up.json").exists()
    assert place.atoll("status").returncode == 3


def test_down_leaves_others_alone(place):
    place.state.mkdir()
    place.socket.parent.mkdir()
    with (place.state / "log").open("wb") as log:
        other = subprocess.Popen([BUILD / "atolld"], env=place.env, stdin=subprocess.DEVNULL,
                                 stdout=log, stderr=log)
    try:
        wait_until(lambda: place.atoll("status").returncode == 0, 30, lambda: "no answer")
        assert place.json("up")["pid"] == other.pid  # one answers: none is started
        refused = place.atoll("down")
        assert refused.returncode == 1 and "--force" in refused.stderr
        assert other.poll() is None
        assert place.json("down", "--force")["pid"] == other.pid
        assert other.wait(30) == 0
    finally:
        other.kill()
        other.wait()


def test_up_says_why_it_failed(place):
    done = place.atoll("up", "--listen", "7070")
    assert done.returncode == 2 and "name a host and a port" in done.stderr
    done = place.atoll("up", "--no-listen", "--", "--pool", "many")
    assert done.returncode == 1
    assert "--pool" in done.stderr and "atolld.log" in done.stderr
    assert place.atoll("status").returncode == 3


def test_up_finds_another_port(place):
    with socket.socket() as busy:
        busy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            busy.bind(("127.0.0.1", 8000))
            busy.listen()
        except OSError:
            pass  # somebody else has it: all the better
        listen = place.json("up")["listen"]
    assert listen.startswith("127.0.0.1:") and not listen.endswith(":8000")


def test_up_replaces_a_daemon_of_an_earlier_build(place, tmp_path):
    copies = tmp_path / "bin"
    copies.mkdir()
    for name in ("atolld", "atoll-spawn", "atoll-agent", "atoll-sudo", "atoll-unpack", "atoll-copy", "atoll-diff", "atoll"):
        shutil.copy2(BUILD / name, copies)
    command = [copies / "atoll", "up", "--no-listen", "--json"]
    first = json.loads(subprocess.run(command, env=place.env, capture_output=True).stdout)
    sandbox = place.atoll("create").stdout.strip()
    shutil.copy2(BUILD / "atolld", copies / "new")
    (copies / "new").rename(copies / "atolld")
    wait_for_room(2)
    done = subprocess.run(command, env=place.env, capture_output=True, text=True)
    second = json.loads(done.stdout)
    assert "earlier build" in done.stderr
    assert second["started"] and second["pid"] != first["pid"]


    assert place.atoll("exec", sandbox, "echo", "still here").stdout == "still here\n"


def test_reload_ends_nothing(place, tmp_path):
    """The next daemon has the options, variables and directory of the one before."""
    nothing = place.atoll("reload")
    assert nothing.returncode == 1 and "atoll up" in nothing.stderr
    listen = f"127.0.0.1:{free_port()}"
    (tmp_path / "registry").mkdir()
    up = subprocess.run([BUILD / "atoll", "up", "--json", "--listen", listen, "--", "--registry", "registry"],
                        cwd=tmp_path, env={**place.env, "ATOLL_TENANT_SANDBOXES": "7"},
                        capture_output=True, text=True)
    first = json.loads(up.stdout)
    sandbox = place.atoll("create").stdout.strip()
    job = place.atoll("exec", "-d", sandbox, "--", "sh", "-c",
                      "echo before; until [ -e go ]; do sleep 0.05; done; echo after").stdout.strip()
    wait_for_room(2)
    done = place.json("reload")
    assert done["old_pid"] == first["pid"] != done["pid"]
    status = place.json("status")
    assert (status["pid"], status["listen"], status["sandboxes"]) == (done["pid"], listen, 1)
    assert status["started_by_up"]
    arguments = Path(f"/proc/{done['pid']}/cmdline").read_bytes().split(b"\0")
    assert b"--registry" in arguments and os.readlink(f"/proc/{done['pid']}/cwd") == str(tmp_path)
    assert b"ATOLL_TENANT_SANDBOXES=7" in Path(f"/proc/{done['pid']}/environ").read_bytes().split(b"\0")
    assert place.atoll("exec", sandbox, "touch", "go").returncode == 0
    assert place.atoll("logs", "--follow", sandbox, job).stdout == "before\nafter\n"


def test_reload_leaves_others_alone(place):
    place.state.mkdir()
    place.socket.parent.mkdir()
    other = subprocess.Popen([BUILD / "atolld"], env=place.env, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: place.atoll("status").returncode == 0, 30, lambda: "no answer")
        refused = place.atoll("reload")
        assert refused.returncode == 1 and "systemctl reload" in refused.stderr
        assert other.poll() is None
    finally:
        other.terminate()
        other.wait()


def test_ca(place, tmp_path):
    none = place.atoll("ca")
    assert none.returncode == 1 and "no TLS listener" in none.stderr and "--tls-listen" in none.stderr
    other = tmp_path / "other"
    assert place.atoll("up", "--no-listen", "--state", other, "--", "--tls-listen",
                       f"127.0.0.1:{free_port()}").returncode == 0
    path = other / "tls" / "ca.pem"
    said = place.atoll("ca")  # the socket leads to the daemon, its arguments to the directory
    assert said.stdout == f"{path}\n" and f"SSL_CERT_FILE={path}" in said.stderr
    assert "update-ca-certificates" in said.stderr
    assert place.atoll("ca", "--pem", "--state", other).stdout == path.read_text()
    assert place.json("ca") == {"ca_file": str(path), "pem": path.read_text()}


def test_https_needs_a_certificate_that_is_trusted(place):
    port = free_port()
    assert place.atoll("up", "--no-listen", "--", "--tls-listen",
                       f"127.0.0.1:{port}").returncode == 0
    env = {"ATOLL_SOCKET": "", "ATOLL_URL": f"https://127.0.0.1:{port}",
           "ATOLL_API_KEY": (place.state / "api-key").read_text().strip()}
    certificate = str(place.state / "tls/cert.pem")
    command = ["run", "--", "sh", "-c", "head -c 1000000 /dev/zero | wc -c"]
    refused = place.atoll(*command, env=env)
    assert refused.returncode == 125
    assert "not trusted" in refused.stderr and "ATOLL_CA_FILE" in refused.stderr
    for trusting in ({"ATOLL_CA_FILE": certificate}, {"ATOLL_INSECURE": "1"}):
        assert place.atoll(*command, env={**env, **trusting}).stdout == "1000000\n"
    assert place.atoll("ls", "--ca", certificate, env=env).returncode == 0
    # 0 is not 1, and another name is not this one.
    assert place.atoll("ls", env={**env, "ATOLL_INSECURE": "0"}).returncode == 1
    wrong = {**env, "ATOLL_CA_FILE": certificate, "ATOLL_URL": f"https://127.0.0.2:{port}"}
    assert place.atoll("ls", env=wrong).returncode == 1
