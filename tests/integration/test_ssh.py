"""SSH to sandboxes, with the `ssh` of OpenSSH: tokens, sessions, and what a token must not open."""

import os
import shutil
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from boxes import Box
from daemons import BUILD, SLACK, is_sanitized, running, wait_until
from listening import free_port
from rest import Rest, connect_unix

pytestmark = pytest.mark.skipif(not (BUILD / "atoll-ssh").exists() or not shutil.which("ssh"),
                                reason="needs libssh in the build, and ssh")


@pytest.fixture(scope="module")
def served():
    with running(BUILD, ATOLL_SSH_LISTEN=f"127.0.0.1:{free_port()}") as daemon:
        yield daemon


@pytest.fixture(scope="module")
def rest(served):
    return Rest(served.socket)


@pytest.fixture(scope="module")
def box(rest):
    box = Box(rest)
    yield box
    box.destroy()


def granted(box, **fields):
    def answers():
        granted.last = box.post("ssh", fields)
        return granted.last.status != 503
    wait_until(answers, 20, "the SSH server does not start")
    assert granted.last.status == 201, granted.last.body
    return granted.last.json


class Client:
    """`ssh` with a token, which knows the daemon's key."""

    def __init__(self, access, directory):
        known = directory / f"known-{access['id']}"
        known.write_text(f"[{access['host']}]:{access['port']} {access['host_key']}\n")
        self.options = ["-F", "none", "-o", f"UserKnownHostsFile={known}", "-o", "StrictHostKeyChecking=yes",
                        "-o", "GlobalKnownHostsFile=none", "-o", "LogLevel=ERROR", "-o", "BatchMode=yes"]
        self.port = access["port"]
        self.target = f"{access['token']}@{access['host']}"

    def command(self, *args, options=()):
        return ["ssh", *self.options, "-p", str(self.port), *options, self.target, *args]

    def run(self, *args, options=(), **more):
        more = {"stdin": subprocess.DEVNULL, **more} if "input" not in more else more
        return subprocess.run(self.command(*args, options=options), capture_output=True, timeout=60 * SLACK, **more)


@pytest.fixture(scope="module")
def client(box, tmp_path_factory):
    return Client(granted(box), tmp_path_factory.mktemp("ssh"))


def test_command_has_its_streams_and_its_status(client):
    done = client.run("echo out; echo err >&2; pwd >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n/home/user\n")
    done = client.run("wc -c; sort", input=b"x" * 300_000)
    assert (done.returncode, done.stdout) == (0, b"300000\n")


def test_much_goes_both_ways_at_once(client):
    data = os.urandom(8_000_000)
    done = client.run("cat", input=data)
    assert done.returncode == 0 and done.stdout == data


def test_output_needs_no_end_of_input(client):
    with subprocess.Popen(client.command("head -c 8000000 /dev/zero"), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        assert len(process.stdout.read()) == 8_000_000
        assert process.wait(30 * SLACK) == 0


def test_a_signal_is_no_exit_status(client):
    done = subprocess.run(client.command("kill -SEGV $$", options=["-v"]), capture_output=True, timeout=60 * SLACK,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 255 and b"exit-signal" in done.stderr


def test_terminal(client):
    done = client.run("tty; stty size; echo $TERM $LC_TEST", options=["-tt", "-o", "SendEnv=LC_TEST"],
                      env={**os.environ, "TERM": "vt220", "LC_TEST": "C"})
    assert done.stdout == b"/dev/pts/0\r\n24 80\r\nvt220 C\r\n", done
    done = client.run(input=b"echo $((6 * 7))\nexit 3\n")
    assert (done.returncode, done.stdout) == (3, b"42\n")


def test_the_end_of_the_client_ends_the_command(client, box):
    process = subprocess.Popen(client.command("echo $$ > /tmp/held; exec sleep 600"), stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: box.run("cat /tmp/held")["result"].get("exit_code") == 0, 20, "it does not start")
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: box.run("kill -0 $(cat /tmp/held)")["result"].get("exit_code") != 0, 20,
               "the command goes on")


def served_port(box):
    """A server in the sandbox that sends back what it gets, after its own greeting."""
    box.detach("""exec python3 -c '
import socket
server = socket.create_server(("127.0.0.1", 8123))
open("/tmp/listens", "w").close()
while True:
    peer, _ = server.accept()
    peer.sendall(b"hello ")
    while data := peer.recv(65536):
        peer.sendall(data)
    peer.close()
'""")
    wait_until(lambda: box.run("test -e /tmp/listens")["result"].get("exit_code") == 0, 30, "it does not listen")
    return 8123


def test_ports(client, box, tmp_path):
    port, local = served_port(box), tmp_path / "local"
    closed, other = tmp_path / "closed", tmp_path / "other"
    forwards = [f"-L{local}:localhost:{port}", f"-L{closed}:localhost:9", f"-L{other}:192.0.2.1:{port}"]
    with subprocess.Popen(client.command(options=["-N", *forwards]), stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(other.exists, 30, "ssh does not forward")
            data = os.urandom(3_000_000)
            with connect_unix(local) as sock:
                sender = threading.Thread(target=lambda: (sock.sendall(data), sock.shutdown(socket.SHUT_WR)))
                sender.start()
                assert b"".join(iter(lambda: sock.recv(65536), b"")) == b"hello " + data
                sender.join()
            for path in (closed, other):
                with connect_unix(path) as sock:
                    assert sock.recv(1) == b"", path
        finally:
            process.kill()  # ssh of Debian 12 misses a SIGTERM that comes just before its poll()


def test_sftp_needs_a_server_in_the_sandbox(rest, tmp_path):
    own = Box(rest, env={"PATH": "/home/user/bin:/usr/bin:/bin"})
    installed = "/usr/lib/openssh/sftp-server /usr/lib/ssh/sftp-server"
    client = Client(granted(own), tmp_path)
    if own.run(f"ls -d {installed} | grep -q .")["result"].get("exit_code") != 0:
        done = client.run("sftp", options=["-s"])
        assert done.returncode != 0 and b"subsystem request failed" in done.stderr, done
        own.out("mkdir bin && printf '#!/bin/sh\ncat\n' > bin/sftp-server && chmod +x bin/sftp-server")
        done = client.run("sftp", options=["-s"], input=b"a packet")
        assert (done.returncode, done.stdout) == (0, b"a packet"), done
    own.destroy()


def test_cli(served, box):
    done = served.atoll("ssh", box.id, "--", "echo $((6 * 7)); exit 4")
    assert (done.returncode, done.stdout) == (4, "42\n"), done
    kept = len(box.get("ssh").json["tokens"])
    served.atoll("ssh", box.id, "true", check=True)
    assert len(box.get("ssh").json["tokens"]) == kept
    assert served.atoll("ssh", "nosuchbox").returncode == 125


def test_a_connection_has_no_privileges(served, client):
    with subprocess.Popen(client.command("echo; cat"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"\n"
        for pid in children(keeper(served)):
            status = Path(f"/proc/{pid}/status").read_text()
            assert "CapEff:\t0000000000000000" in status and "CapPrm:\t0000000000000000" in status
            assert "Seccomp:\t2" in status or is_sanitized(BUILD)
            assert os.geteuid() != 0 or "Uid:\t65534\t65534\t65534\t65534" in status
        process.stdin.close()


def test_other_users_are_refused(client, box, tmp_path):
    access = granted(box)
    for user in ("ats_" + "0" * 40, "x" * 4000):
        stranger = Client({**access, "token": user}, tmp_path)
        assert stranger.run("true").returncode == 255
    assert box.rest.call("DELETE", f"{box.path}/ssh/{access['id']}").status == 204
    assert Client(access, tmp_path).run("true").returncode == 255  # revoked
    assert client.run("true").returncode == 0


def test_a_revoked_token_ends_its_connections(box, tmp_path):
    access = granted(box)
    process = subprocess.Popen(Client(access, tmp_path).command("sleep 600"), stdin=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        assert box.rest.call("DELETE", f"{box.path}/ssh/{access['id']}").status == 204
        assert process.wait(60 * SLACK) == 255
    finally:
        process.kill()


def test_a_token_opens_its_sandbox_only(served, rest, box):
    other = Box(rest)
    token = Rest(served.socket, {"Authorization": f"Bearer {granted(box)['token']}"})
    seen = token.get("/api/sandbox-token")
    assert seen.status == 200 and seen.json["sandbox_id"] == box.id and seen.json["expires_in_seconds"] > 3500
    assert token.post(f"{box.path}/execs", {"cmd": ["true"]}, wait="true").status == 200
    assert token.get(f"{box.path}/files/list", path="/").status == 200
    assert token.post(f"{other.path}/execs", {"cmd": ["true"]}, wait="true").status == 404
    assert token.get(f"{other.path}/files/list", path="/").status == 404
    for method, path in (("GET", "/api/sandboxes"), ("POST", "/api/sandboxes"), ("GET", box.path), ("DELETE", box.path),
                         ("POST", f"{box.path}/ssh"), ("GET", f"{box.path}/ssh"), ("GET", f"{box.path}/execs"),
                         ("POST", f"{box.path}/files/sign"), ("POST", f"{box.path}/snapshots"), ("GET", "/api/keys"),
                         ("POST", f"{box.path}/previews"), ("POST", "/api/exec"), ("GET", "/sandboxes"),
                         ("POST", "/mcp"), ("GET", "/daytona/api/sandbox"), ("GET", "/no/such/route")):
        assert token.call(method, path, {} if method == "POST" else None).status in (401, 403), (method, path)
    other.destroy()


def test_tokens_have_bounds_and_end_with_the_sandbox(served, rest):
    other = Box(rest)
    access = [granted(other, expires_minutes=1) for _ in range(16)]
    assert other.post("ssh", {}).status == 429
    assert len(other.get("ssh").json["tokens"]) == 16 and "ats_" not in str(other.get("ssh").json)
    assert rest.call("DELETE", f"{other.path}/ssh").status == 204 and other.get("ssh").json == {"tokens": []}
    kept = granted(other)
    assert all(access[0]["token"].encode() not in path.read_bytes() for path in served.state.glob("atoll.db*"))
    other.destroy()
    token = Rest(served.socket, {"Authorization": f"Bearer {kept['token']}"})
    assert token.get("/api/sandbox-token").status == 401
    for log in (served.log, served.state / "audit.log"):
        assert kept["token"] not in log.read_text()


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def keeper(daemon):
    """The pid of atoll-ssh itself; each connection has a process below it."""
    [pid] = [pid for pid in children(daemon.pid) if Path(f"/proc/{pid}/comm").read_text() == "atoll-ssh\n"]
    return pid


def test_hostile_clients_disturb_nobody(served, client, box):
    sockets = []
    for text in (b"", b"\0" * 40000, b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-x\r\n" + os.urandom(5000)):
        sockets.append(socket.create_connection(("127.0.0.1", client.port), 30))
        sockets[-1].sendall(text)
    assert client.run("echo fine").stdout == b"fine\n"
    for each in sockets:
        each.close()


def test_it_is_started_again(served, client, box):
    held = subprocess.Popen(client.command("cat"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        held.stdin.write(b"a\n")
        held.stdin.flush()
        assert held.stdout.readline() == b"a\n"
        first = keeper(served)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: client.run("true").returncode == 0, 30, "it does not come back")
        assert keeper(served) != first
        held.stdin.write(b"b\n")  # its process is another one
        held.stdin.close()
        assert held.stdout.read() == b"b\n" and held.wait(30 * SLACK) == 0
    finally:
        held.kill()
        held.wait()


def test_the_daemon_is_killed(served, client, box):
    """Sessions end with it, and are told no status; tokens, address and key are those of before."""
    held = subprocess.Popen(client.command("echo; cat"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert held.stdout.readline() == b"\n"
        served.process.kill()
        served.process.wait()
        assert held.wait(60 * SLACK) == 255
        served.start()
        wait_until(lambda: client.run("true").returncode == 0, 30, "it does not come back")
    finally:
        held.kill()
        held.wait()
