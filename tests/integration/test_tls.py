"""The daemon behind TLS: certificates, HTTP/1.1 and HTTP/2 by curl, WebSocket, many streams."""

import base64
import hashlib
import json
import os
import socket
import ssl
import subprocess
import threading

import pytest
from conftest import BUILD
from daemons import refusal
from listening import listening_daemon


class TlsDaemon:
    def __init__(self, daemon, directory):
        self.daemon = daemon
        self.directory = directory
        self.port = ready_port(daemon)
        self.cert = daemon.state / "tls" / "cert.pem"
        self.key = (daemon.state / "api-key").read_text().strip()

    def curl(self, path, *args, input=None, version="--http2"):
        """(HTTP version, status, body)"""
        done = subprocess.run(
            ["curl", "-sS", version, "--cacert", self.cert, "-H", f"X-API-Key: {self.key}",
             "-w", "\n%{http_version} %{http_code}", *args,
             f"https://localhost:{self.port}{path}"],
            input=input, capture_output=True, timeout=120, check=True)
        body, _, end = done.stdout.rpartition(b"\n")
        http, status = end.decode().split()
        return http, int(status), body

    def connect(self, protocols=("http/1.1",)):
        context = ssl.create_default_context(cafile=self.cert)
        context.set_alpn_protocols(protocols)
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        return context.wrap_socket(plain, server_hostname="localhost")


def ready_port(daemon):
    for line in daemon.log.read_text().splitlines():
        if line.startswith("{") and (address := json.loads(line).get("tls_listen")):
            return int(address.rpartition(":")[2])
    raise AssertionError(f"no TLS address in the log:\n{daemon.log_tail()}")


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    with listening_daemon(ATOLL_TLS_LISTEN="127.0.0.1:0", ATOLL_JOURNAL_MAX="64K") as (daemon, _):
        yield TlsDaemon(daemon, tmp_path_factory.mktemp("tls"))


@pytest.mark.parametrize("version,http", [("--http2", "2"), ("--http1.1", "1.1")])
def test_versions(tls, version, http):
    assert tls.curl("/healthz", version=version)[:2] == (http, 200)
    used, status, body = tls.curl("/api/nowhere", version=version)
    assert (used, status) == (http, 404)
    assert json.loads(body)["error"]["code"] == "not_found"


def test_plain_http_is_told_what_to_do(tls):
    """However long the request is: what the daemon has not read must not cost the answer."""
    for extra in ((), ("-H", "X-Long: " + "x" * 7000), ("--data-binary", "y" * 60000)) * 5:
        done = subprocess.run(["curl", "-sS", "-w", " %{http_code}", *extra,
                               f"http://localhost:{tls.port}/healthz"], capture_output=True, text=True,
                              timeout=60)
        assert done.stdout.endswith(" 400") and "use https://" in json.loads(
            done.stdout[:-4])["error"]["message"], done


def test_a_key_is_needed(tls):
    done = subprocess.run(["curl", "-sS", "--cacert", tls.cert, "-o", "/dev/null", "-w",
                           "%{http_code}", f"https://127.0.0.1:{tls.port}/api/sandboxes"],
                          capture_output=True, text=True, check=True)
    assert done.stdout == "401"


def test_certificate_files(tls):
    assert [oct(path.stat().st_mode & 0o7777) for path in tls.cert.parent.iterdir()] == ["0o600"] * 4
    done = subprocess.run(["curl", "-sS", f"https://localhost:{tls.port}/healthz"],
                          capture_output=True)
    assert done.returncode == 60  # not trusted unless asked to


def test_the_preview_domain_is_in_the_certificate():
    with listening_daemon(ATOLL_TLS_LISTEN="127.0.0.1:0",
                          ATOLL_PREVIEW_DOMAIN="boxes.example.test") as (daemon, _):
        port = ready_port(daemon)
        for name in ("boxes.example.test", "3000-abc.boxes.example.test", "localhost"):
            done = subprocess.run(["curl", "-sS", "--cacert", daemon.state / "tls/ca.pem",
                                   "--resolve", f"{name}:{port}:127.0.0.1", "-o", "/dev/null",
                                   f"https://{name}:{port}/healthz"],
                                  capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr


def test_given_certificate(tls):
    """Files named on the command line; a wrong one is an error that names it."""
    program = [str(BUILD / "atolld"), "--state", str(tls.directory / "state"), "--socket",
               str(tls.directory / "sock"), "--tls-listen", "127.0.0.1:0"]
    said = tls.directory / "said"
    command = [*program, "--tls-cert", str(tls.cert)]
    status, words = refusal([*command, "--tls-key", "/nonexistent.pem"], said)
    assert status == 2
    assert "/nonexistent.pem" in words and "No such file" in words
    status, words = refusal(command, said)
    assert status == 2 and "both or neither" in words


@pytest.fixture
def box(tls):
    _, status, body = tls.curl("/api/sandboxes", "-d", '{"limits":{"diskMB":256}}')
    assert status == 201, body
    made = json.loads(body)["id"]
    yield f"/api/sandboxes/{made}"
    tls.curl(f"/api/sandboxes/{made}", "-X", "DELETE")


def test_exec_streams_over_http2(tls, box):
    command = {"cmd": ["sh", "-c", "for i in 1 2 3; do echo line $i; done"]}
    http, status, body = tls.curl(f"{box}/execs?wait=true", "-d", json.dumps(command))
    assert (http, status) == ("2", 200), body
    assert "line 1\nline 2\nline 3\n" in json.loads(body)["stdout"]


@pytest.mark.parametrize("version", ["--http2", "--http1.1"])
def test_output_beyond_what_is_kept(tls, box, version):
    """The command waits for bytes that are still here, and hears when they have left."""
    command = json.dumps({"cmd": ["seq", "1500000"]})
    _, status, body = tls.curl(f"{box}/execs?stream=true", "-d", command, version=version)
    assert status == 200
    lines = [json.loads(line) for line in body.splitlines()]
    assert "".join(line.get("data", "") for line in lines) == \
        "".join(f"{i}\n" for i in range(1, 1500001))
    assert lines[-1]["result"]["exit_code"] == 0


@pytest.mark.parametrize("version", ["--http2", "--http1.1"])
def test_upload_and_download(tls, box, version):
    data = os.urandom(20 * 1024 * 1024 + 3)
    path = f"{box}/files?path=/home/user/big"
    _, status, body = tls.curl(path, "-X", "PUT", "-T", "-", input=data, version=version)
    assert status in (200, 201, 204), body
    http, status, back = tls.curl(path, version=version)
    assert status == 200
    assert hashlib.sha256(back).digest() == hashlib.sha256(data).digest()


@pytest.mark.parametrize("version", ["--http2", "--http1.1"])
def test_refused_upload_is_explained(tls, version):
    """The answer comes before the body is through, and still reaches the client."""
    _, status, body = tls.curl("/api/sandboxes/nosuchone/files?path=/x", "-T", "-",
                               input=bytes(50 * 1024 * 1024), version=version)
    assert (status, json.loads(body)["error"]["code"]) == (404, "not_found")


def test_a_hundred_requests_at_once(tls):
    """One curl, one connection, a hundred streams."""
    urls = []
    for _ in range(100):
        urls += ["-o", "/dev/null", f"https://localhost:{tls.port}/healthz"]
    done = subprocess.run(["curl", "-sS", "--http2", "--parallel", "--parallel-max", "100",
                           "--cacert", tls.cert, "-w", "%{http_version} %{http_code}\n", *urls],
                          capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["2 200"] * 100


def test_websocket_upgrade(tls, box):
    """A command over a WebSocket, which on TLS as elsewhere is an upgrade of HTTP/1.1."""
    key = base64.b64encode(os.urandom(16)).decode()
    command = b'{"cmd":["echo","over TLS"]}'
    with tls.connect() as sock:
        sock.sendall(f"GET {box}/execs/stream HTTP/1.1\r\nHost: localhost\r\n"
                     f"X-API-Key: {tls.key}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                     f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
        assert b" 101 " in sock.recv(4096).split(b"\r\n", 1)[0]
        sock.sendall(bytes([0x81, 0x80 | len(command), 0, 0, 0, 0]) + command)
        got = b""
        while b'"kind":"exited"' not in got:
            piece = sock.recv(4096)
            assert piece, got
            got += piece
    assert b"\x01over TLS\n" in got


def test_idle_connections_and_garbage(tls):
    """Half handshakes, plain HTTP and noise do not keep others from being served."""
    held = [socket.create_connection(("127.0.0.1", tls.port)) for _ in range(200)]
    for number, sock in enumerate(held):
        sock.sendall([b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", os.urandom(100)][number % 3])
    assert tls.curl("/healthz")[1] == 200
    for sock in held:
        sock.close()
    assert tls.curl("/healthz")[1] == 200


def test_clients_that_vanish(tls):
    def vanish():
        sock = tls.connect(("h2",))
        sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        sock.close()

    threads = [threading.Thread(target=vanish) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tls.curl("/healthz")[:2] == ("2", 200)
