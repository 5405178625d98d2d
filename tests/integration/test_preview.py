"""Previews: servers inside sandboxes, reached through the daemon. The network mode is `none`."""

import base64
import contextlib
import hashlib
import http.client
import json
import os
import re
import socket
import struct
import subprocess
import threading
import time

import pytest
from conftest import wait_until
from listening import listening_daemon
from rest import Rest

# A server of many talents, standard library only. It says what it was asked, streams, swallows
# uploads, closes, talks nonsense, and echoes WebSocket messages.
SERVER = r'''
import base64, hashlib, http.server, json, socketserver, struct, sys, threading, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, body, status=200, headers=()):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path = self.path.split("?")[0]
        getattr(self, "at_" + path.strip("/").replace("/", "_"), self.at_default)()

    do_HEAD = do_DELETE = do_OPTIONS = do_GET

    def at_default(self):
        said = {"path": self.path, "method": self.command, "client": list(self.client_address),
                "headers": [[k.lower(), v] for k, v in self.headers.items()]}
        self.answer(json.dumps(said).encode())

    def do_POST(self):
        digest, total = hashlib.sha256(), 0
        if self.headers.get("Transfer-Encoding") == "chunked":
            while (n := int(self.rfile.readline(), 16)):
                data = self.rfile.read(n)
                self.rfile.readline()
                digest.update(data)
                total += n
            self.rfile.readline()
        else:
            left = int(self.headers.get("Content-Length", "0"))
            while left:
                data = self.rfile.read(min(left, 65536))
                digest.update(data)
                total += len(data)
                left -= len(data)
        self.answer(json.dumps({"sha256": digest.hexdigest(), "bytes": total,
                                "headers": [[k.lower(), v] for k, v in self.headers.items()],
                                }).encode())

    do_PUT = do_PATCH = do_POST

    def at_stream(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for i in range(4):
            line = b"line %d\n" % i
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()
            time.sleep(0.2)
        self.wfile.write(b"0\r\n\r\n")

    def at_held(self):
        # The second line comes once somebody has asked for /go.
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"6\r\nfirst\n\r\n")
        self.wfile.flush()
        self.server.go.wait(60)
        self.wfile.write(b"5\r\nlast\n\r\n0\r\n\r\n")

    def at_go(self):
        self.server.go.set()
        self.answer(b"")

    def at_big(self):
        # No length, and the end of the connection is the end: the slow reader's test.
        self.close_connection = True
        self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n")
        for i in range(16 * 16):
            self.wfile.write(bytes([i]) * 65536)

    def at_cookies(self):
        self.answer(b"", headers=[("Set-Cookie", "app=1; Path=/; Domain=localhost; HttpOnly"),
                                  ("Set-Cookie", "atoll_preview=stolen"),
                                  ("Set-Cookie", "other=2")])

    def at_origin_wide(self):
        self.answer(b"x", headers=[
            ("NEL", '{"report_to":"evil","max_age":9}'), ("Report-To", '{"group":"evil"}'),
            ("Reporting-Endpoints", 'evil="https://evil/"'), ("Alt-Svc", 'h2=":1"'),
            ("WWW-Authenticate", 'Basic realm="your key"'), ("Accept-CH", "Sec-CH-UA"),
            ("Strict-Transport-Security", "max-age=9"), ("Service-Worker-Allowed", "/"),
            ("Made-Up-Tomorrow", "1"), ("Clear-Site-Data", '"cookies"'),
            ("X-Accel-Redirect", "/etc/passwd"), ("X-Sendfile", "/etc/passwd"),
            ("X-Total-Count", "5"), ("ETag", '"e"'), ("Cache-Control", "max-age=1"),
            ("Vary", "Accept"), ("Access-Control-Allow-Origin", "*")])

    def at_redirect(self):
        self.answer(b"", 302, [("Location", "/elsewhere")])

    def at_nothing(self):
        self.send_response(204)
        self.end_headers()

    def at_unchanged(self):
        self.send_response(304)
        self.send_header("Content-Length", "1000")
        self.end_headers()

    def at_hints(self):
        self.wfile.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n")
        self.answer(b"after the hints")

    def raw(self, text):
        self.close_connection = True
        self.wfile.write(text)

    def at_half(self):
        self.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")

    def at_both(self):
        self.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
                 b"0\r\n\r\nHTTP/1.1 200 OK\r\nX-Smuggled: 1\r\n\r\n")

    def at_twice(self):
        self.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
                 b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled")

    def at_junk(self):
        self.raw(b"this is no HTTP\r\n\r\n")

    def at_hugehead(self):
        self.raw(b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"a" * 100000 + b"\r\n\r\n")

    def at_splithead(self):
        self.raw(b"HTTP/1.1 200 OK\r\nX-A: b\nX-Injected: 1\r\nContent-Length: 0\r\n\r\n")

    def at_switch(self):
        self.raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")

    def at_silent(self):
        self.close_connection = True

    def at_ws(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accept)
        self.end_headers()
        self.close_connection = True
        # Said at once, so that it may come together with the head.
        self.wfile.write(b"\x81\x05hello")
        while True:
            first, second = self.rfile.read(2)
            n = second & 0x7f
            if n == 126:
                n = struct.unpack(">H", self.rfile.read(2))[0]
            elif n == 127:
                n = struct.unpack(">Q", self.rfile.read(8))[0]
            mask = self.rfile.read(4)
            data = self.rfile.read(n)
            if mask != bytes(4):
                data = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
            head = bytes([first])
            head += bytes([n]) if n < 126 else (b"\x7e" + struct.pack(">H", n) if n < 65536
                                                else b"\x7f" + struct.pack(">Q", n))
            self.wfile.write(head + data)
            if first & 0x0f == 8:
                return

    def at_raw(self):
        # Any other protocol after an upgrade: says everything in capitals until the end, then bye.
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n"
                         b"Upgrade: shout\r\n\r\n")
        self.close_connection = True
        while (data := self.connection.recv(65536)):
            self.wfile.write(data.upper())
        self.wfile.write(b"bye")

class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128
    go = threading.Event()

print("up", flush=True)
Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
'''


class Site:
    """A daemon on TCP with a sandbox that serves on port 8000 (private) and 8001 (public)."""

    def __init__(self, daemon, address):
        self.daemon = daemon
        self.rest = Rest(daemon.socket)
        self.address = address
        self.id = self.make_box()
        self.private = self.preview(8000)
        self.public = self.preview(8001, public=True)
        for port in (8000, 8001):
            self.serve(self.id, port)

    def make_box(self):
        return self.rest.post("/api/sandboxes", {}).json["id"]

    def preview(self, port, **fields):
        answer = self.rest.post(f"/api/sandboxes/{self.id}/previews", {"port": port, **fields})
        assert answer.status == 201, answer.body
        return answer.json

    def serve(self, box, port):
        path = f"/api/sandboxes/{box}"
        assert self.rest.put(f"{path}/files", SERVER.encode(), path="server.py").status == 200
        self.rest.post(f"{path}/execs", {"cmd": ["python3", "server.py", str(port)]})
        check = ["python3", "-c", f"import socket; socket.create_connection(('127.0.0.1', {port}))"]
        wait_until(lambda: self.rest.post(f"{path}/execs", {"cmd": check}, wait="true").json
                   ["result"].get("exit_code") == 0, 30, lambda: "no server inside")

    def host(self, port, box=None):
        return f"{port}-{box or self.id}.localhost:{self.address[1]}"

    def call(self, path="/", port=8001, method="GET", body=None, host=None, **headers):
        """One request to a preview: (status, headers, body)."""
        connection = http.client.HTTPConnection(*self.address, timeout=20)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            connection.putheader("Host", host or self.host(port))
            for name, value in named.items():
                connection.putheader(name, value)
            if body is not None and "Transfer-Encoding" not in named:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def said(self, **kwargs):
        """What the server inside saw of a request."""
        status, _, body = self.call(**kwargs)
        assert status == 200, body
        return json.loads(body)

    def raw(self, data, timeout=20):
        """Sends bytes as they are; returns all that comes back."""
        with socket.create_connection(self.address, timeout) as sock:
            sock.sendall(data)
            got = b""
            with contextlib.suppress(TimeoutError, ConnectionResetError):
                while (piece := sock.recv(65536)):
                    got += piece
            return got


@pytest.fixture(scope="module")
def site():
    with listening_daemon() as (daemon, address):
        yield Site(daemon, address)


def header(said, name):
    return [value for key, value in said["headers"] if key == name]


# The API.

def test_create_list_remove(site):
    made = site.preview(9000)
    assert made["url"] == f"http://{site.host(9000)}/?token={made['token']}"
    assert made["path_url"] == f"/preview/{site.id}/9000/?token={made['token']}"
    assert made["public"] is False and len(made["token"]) == 32
    again = site.preview(9000, public=True)
    assert again["token"] == made["token"] and again["public"] is True
    assert again["url"] == f"http://{site.host(9000)}/"
    path = f"/api/sandboxes/{site.id}/previews"
    assert {p["port"] for p in site.rest.get(path).json["previews"]} == {8000, 8001, 9000}
    assert site.rest.delete(f"{path}/9000").status == 204
    assert site.rest.delete(f"{path}/9000").status == 404
    assert {p["port"] for p in site.rest.get(path).json["previews"]} == {8000, 8001}


@pytest.mark.parametrize("body", [{}, {"port": 0}, {"port": 65536}, {"port": "80"}, {"port": 1.5},
                                  {"port": 80, "public": "yes"}, {"port": 80, "x": 1}])
def test_create_refuses(site, body):
    assert site.rest.post(f"/api/sandboxes/{site.id}/previews", body).status == 400


def test_ids_and_ports_in_paths(site):
    for port in ("0", "x", "080", "65536", "-1"):
        assert site.rest.delete(f"/api/sandboxes/{site.id}/previews/{port}").status == 400
    assert site.rest.get("/api/sandboxes/" + "a" * 26 + "/previews").status == 404
    assert site.rest.post("/api/sandboxes/" + "a" * 26 + "/previews", {"port": 80}).status == 404


def test_at_most_64_per_sandbox(site):
    box = site.make_box()
    path = f"/api/sandboxes/{box}/previews"
    statuses = [site.rest.post(path, {"port": 1000 + i}).status for i in range(65)]
    assert statuses == [201] * 64 + [429]
    site.rest.delete(f"/api/sandboxes/{box}")


def test_cli(site):
    done = site.daemon.atoll("preview", site.id, "9100", "--public", check=True)
    assert done.stdout == f"http://{site.host(9100)}/\n"
    made = site.daemon.json("preview", site.id, "9100")
    assert made["port"] == 9100 and made["public"] is False
    assert site.daemon.atoll("preview", site.id, "70000").returncode != 0
    assert site.daemon.json("preview", "--rm", site.id, "9100") == {"removed": ["9100"]}
    assert 9100 not in [shown["port"] for shown in site.daemon.json("preview", site.id)["previews"]]


# Passing on.

def test_get(site):
    assert site.said(path="/a%2Fb/%2f?c=d")["path"] == "/a%2Fb/%2f?c=d"
    said = site.said(path="/a/b?c=d&e=%2F%20f")
    assert said["path"] == "/a/b?c=d&e=%2F%20f" and said["method"] == "GET"
    assert header(said, "host") == [site.host(8001)]
    assert said["client"][0] == "127.0.0.1"  # dialled inside, from the sandbox's own loopback


def test_python_http_server_speaks_http10(site):
    box = site.make_box()
    path = f"/api/sandboxes/{box}"
    site.rest.put(f"{path}/files", b"x" * 3_000_000, path="www/big.bin")
    site.rest.post(f"{path}/execs", {"cmd": ["python3", "-m", "http.server", "8080"], "cwd": "www"})
    site.rest.post(f"{path}/previews", {"port": 8080, "public": True})
    wait_until(lambda: site.call(host=site.host(8080, box))[0] == 200, 30, lambda: "no server")
    status, headers, body = site.call("/big.bin", host=site.host(8080, box))
    assert status == 200 and len(body) == 3_000_000 and headers["Content-Length"] == "3000000"
    status, _, body = site.call("/", host=site.host(8080, box))
    assert status == 200 and b"big.bin" in body
    site.rest.delete(path)
    assert site.call("/", host=site.host(8080, box))[0] == 404


def test_head_204_304_103(site):
    status, headers, body = site.call("/x", method="HEAD")
    assert status == 200 and int(headers["Content-Length"]) > 0 and body == b""
    status, headers, body = site.call("/nothing")
    assert (status, body, headers["Content-Length"]) == (204, b"", None)
    status, _, body = site.call("/unchanged")
    assert (status, body) == (304, b"")
    status, _, body = site.call("/hints")
    assert (status, body) == (200, b"after the hints")


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS", "POST", "PUT", "PATCH"])
def test_methods(site, method):
    assert site.call("/x", method=method, body=b"" if method[0] == "P" else None)[0] == 200


def test_upload(site):
    body = os.urandom(5_000_000)
    said = site.said(path="/up", method="POST", body=body)
    assert said["sha256"] == hashlib.sha256(body).hexdigest()
    assert header(said, "content-length") == ["5000000"]


def test_upload_chunked(site):
    pieces = [os.urandom(n) for n in (1, 100_000, 7, 900_000)]
    with socket.create_connection(site.address, 20) as sock:
        sock.sendall(f"POST /up HTTP/1.1\r\nHost: {site.host(8001)}\r\n"
                     f"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode())
        for piece in pieces:
            sock.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        sock.sendall(b"0\r\n\r\n")
        answer = b""
        while (data := sock.recv(65536)):
            answer += data
    said = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert said["sha256"] == hashlib.sha256(b"".join(pieces)).hexdigest()


def test_streams_as_it_comes(site):
    connection = http.client.HTTPConnection(*site.address, timeout=20)
    connection.request("GET", "/held", headers={"Host": site.host(8001)})
    response = connection.getresponse()
    assert response.readline() == b"first\n"  # long before there is a last one
    assert site.call("/go")[0] == 200
    assert response.read() == b"last\n"
    connection.close()


def test_slow_reader_gets_all_and_costs_little(site):
    """16 MiB without a length, read slowly from a server that has closed long before."""
    before = resident(site.daemon.pid)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        sock.settimeout(20)
        sock.connect(site.address)
        sock.sendall(f"GET /big HTTP/1.1\r\nHost: {site.host(8001)}\r\n"
                     f"Connection: close\r\n\r\n".encode())
        time.sleep(1)
        assert resident(site.daemon.pid) - before < 8 * 1024 * 1024
        response = http.client.HTTPResponse(sock)
        response.begin()
        body = response.read()
    assert len(body) == 16 * 1024 * 1024
    assert body == b"".join(bytes([i]) * 65536 for i in range(256))


def resident(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_keeps_connections(site):
    """One connection inside serves what several clients ask."""
    ports = {site.said()["client"][1] for _ in range(5)}
    assert len(ports) == 1


def test_parallel(site):
    results = []
    threads = [threading.Thread(target=lambda: results.append(site.call("/x")[0]))
               for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [200] * 40


def test_headers_passed_and_stripped(site):
    said = site.said(X_Custom="1", Connection="X-Secret-Hop, close", X_Secret_Hop="1",
                     Keep_Alive="timeout=5", TE="trailers", Proxy_Authorization="Basic x",
                     X_Forwarded_For="1.2.3.4", X_Forwarded_Host="evil", X_Forwarded_Proto="https",
                     X_Real_IP="1.2.3.4", Forwarded="for=1.2.3.4", X_Forwarded_Port="1")
    assert header(said, "x-custom") == ["1"]
    for gone in ("x-secret-hop", "keep-alive", "te", "proxy-authorization", "x-real-ip",
                 "forwarded", "x-forwarded-port", "connection"):
        assert header(said, gone) == [], gone
    assert header(said, "x-forwarded-for") == ["127.0.0.1"]
    assert header(said, "x-forwarded-host") == [site.host(8001)]
    assert header(said, "x-forwarded-proto") == ["http"]


def test_credentials_of_the_api_stay_out(site):
    key = "atl_" + "k" * 40
    said = site.said(Authorization=f"Bearer {key}", X_API_Key=key, X_Atoll_Tenant="t",
                     Cookie=f"app=1; atoll_preview=x; atoll_session=y; b=2")
    assert header(said, "authorization") == header(said, "x-api-key") == []
    assert header(said, "x-atoll-tenant") == []
    assert header(said, "cookie") == ["app=1; b=2"]
    # What belongs to the server inside goes through.
    assert header(site.said(Authorization="Basic dTpw"), "authorization") == ["Basic dTpw"]
    # By path it is the API's own host, and nothing of that does.
    said = site.said(path=f"/preview/{site.id}/8001/x", host="localhost", Cookie="app=1",
                     Authorization="Basic dTpw")
    assert header(said, "authorization") == header(said, "cookie") == []
    assert said["path"] == "/x" and header(said, "host") == ["localhost:8001"]


def test_cookies_stay_with_their_host(site):
    _, headers, _ = site.call("/cookies")
    assert headers.get_all("Set-Cookie") == ["app=1; Path=/; HttpOnly", "other=2"]
    _, headers, _ = site.call(f"/preview/{site.id}/8001/cookies", host="localhost")
    assert headers.get_all("Set-Cookie") is None
    assert headers["Content-Security-Policy"].startswith("sandbox ")


ORIGIN_WIDE = ["NEL", "Report-To", "Reporting-Endpoints", "Alt-Svc", "WWW-Authenticate", "Accept-CH",
               "Strict-Transport-Security", "Service-Worker-Allowed", "Made-Up-Tomorrow"]
PLAIN = ["X-Total-Count", "ETag", "Cache-Control", "Vary", "Access-Control-Allow-Origin"]
BEYOND = ["Clear-Site-Data", "X-Accel-Redirect", "X-Sendfile"]


def test_answers_leave_nothing_with_the_origin_of_the_api(site):
    """By path the API is of the same origin: only what describes the answer passes."""
    _, headers, body = site.call("/origin_wide")
    assert body == b"x" and [n for n in ORIGIN_WIDE + PLAIN if n not in headers] == []
    assert [name for name in BEYOND if name in headers] == []
    _, headers, body = site.call(f"/preview/{site.id}/8001/origin_wide", host="localhost")
    assert body == b"x" and [name for name in ORIGIN_WIDE + BEYOND if name in headers] == []
    assert [name for name in PLAIN if name not in headers] == []


def test_by_path(site):
    status, headers, _ = site.call(f"/preview/{site.id}/8001?a=b", host="localhost")
    assert (status, headers["Location"]) == (308, f"/preview/{site.id}/8001/?a=b")
    _, headers, _ = site.call(f"/preview/{site.id}/8001/redirect", host="localhost")
    assert headers["Location"] == f"/preview/{site.id}/8001/elsewhere"
    _, headers, _ = site.call("/redirect")
    assert headers["Location"] == "/elsewhere"
    answer = site.rest.get(f"/preview/{site.id}/8001/x")  # on the unix socket too
    assert answer.status == 200 and answer.json["path"] == "/x"


def test_traceparent(site):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    said = site.said(traceparent=trace)
    passed = header(said, "traceparent")
    assert len(passed) == 1 and passed[0] != trace and passed[0][:36] == trace[:36]
    _, headers, _ = site.call(traceparent=trace)
    assert headers["traceresponse"][:36] == trace[:36]
    assert header(site.said(traceparent="00-bad"), "traceparent") == ["00-bad"]


# Upgrades.

class Frames:
    """A WebSocket to a preview."""

    def __init__(self, site, port=8001, path="/ws", **headers):
        self.sock = socket.create_connection(site.address, 20)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {path} HTTP/1.1", f"Host: {site.host(port)}", "Connection: keep-alive, Upgrade",
                 "Upgrade: websocket", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13",
                 *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
        self.sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self.file = self.sock.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = http.client.parse_headers(self.file)
        accept = hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
        self.accept = base64.b64encode(accept).decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.sock.close()

    def send(self, data, opcode=2):
        n = len(data)
        length = bytes([0x80 | n]) if n < 126 else (
            b"\xfe" + struct.pack(">H", n) if n < 65536 else b"\xff" + struct.pack(">Q", n))
        self.sock.sendall(bytes([0x80 | opcode]) + length + bytes(4) + data)

    def recv(self):
        first, n = self.file.read(2)
        if n == 126:
            n = struct.unpack(">H", self.file.read(2))[0]
        elif n == 127:
            n = struct.unpack(">Q", self.file.read(8))[0]
        return first & 0x0f, self.file.read(n)


def test_websocket(site):
    with Frames(site) as ws:
        assert ws.status == 101 and ws.headers["Sec-WebSocket-Accept"] == ws.accept
        assert ws.recv() == (1, b"hello")
        for size in (0, 1, 125, 126, 70_000, 3_000_000):
            data = os.urandom(size)
            sender = threading.Thread(target=ws.send, args=(data,))
            sender.start()
            assert ws.recv() == (2, data)
            sender.join()
        ws.send(struct.pack(">H", 1000), 8)
        assert ws.recv() == (8, struct.pack(">H", 1000))
        assert ws.file.read() == b""


def test_other_upgrade_and_half_close(site):
    with socket.create_connection(site.address, 20) as sock:
        sock.sendall(f"GET /raw HTTP/1.1\r\nHost: {site.host(8001)}\r\nConnection: Upgrade\r\n"
                     f"Upgrade: shout\r\n\r\n".encode())
        file = sock.makefile("rb")
        assert b"101" in file.readline()
        while file.readline() != b"\r\n":
            pass
        sock.sendall(b"quiet words")
        assert file.read(11) == b"QUIET WORDS"
        sock.shutdown(socket.SHUT_WR)
        assert file.read() == b"bye"


def test_upgrade_nobody_asked_for(site):
    assert site.call("/switch")[0] == 502


def test_upgrade_to_http2_is_not_passed_on(site):
    said = site.said(Connection="Upgrade, HTTP2-Settings", Upgrade="h2c", HTTP2_Settings="AAA")
    assert header(said, "upgrade") == header(said, "http2-settings") == []


def test_tunnel_ends_with_its_sandbox(site):
    box = site.make_box()
    site.rest.post(f"/api/sandboxes/{box}/previews", {"port": 8001, "public": True})
    site.serve(box, 8001)
    with socket.create_connection(site.address, 20) as sock:
        sock.sendall(f"GET /raw HTTP/1.1\r\nHost: {site.host(8001, box)}\r\nConnection: Upgrade\r\n"
                     f"Upgrade: shout\r\n\r\n".encode())
        assert b" 101 " in sock.recv(4096)
        assert site.rest.delete(f"/api/sandboxes/{box}").status == 204
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(4096) == b""


# Who may see it.

def test_private_needs_the_token(site):
    token = site.private["token"]
    assert site.call(port=8000)[0] == 404
    assert site.call("/?token=" + "a" * 32, port=8000)[0] == 404
    assert site.call(port=8000, X_Atoll_Preview_Token="a" * 32)[0] == 404
    assert site.call(port=8000, Cookie="atoll_preview=" + "a" * 32)[0] == 404
    assert site.call(port=8000, Authorization=f"Bearer {token}")[0] == 404
    assert site.call("/?token=" + site.public["token"], port=8000)[0] == 404
    said = site.said(port=8000, X_Atoll_Preview_Token=token)
    assert header(said, "x-atoll-preview-token") == []
    assert site.call(port=8000, Cookie=f"a=b; atoll_preview={token}")[0] == 200


def test_first_visit(site):
    token = site.private["token"]
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    status, headers, _ = site.call(f"/page?a=1&token={token}&b=2", port=8000, **browser)
    assert (status, headers["Location"]) == (302, "/page?a=1&b=2")
    cookie = headers["Set-Cookie"]
    assert cookie == f"atoll_preview={token}; Path=/; HttpOnly; SameSite=Lax"
    assert headers["Referrer-Policy"] == "no-referrer" and headers["Cache-Control"] == "no-store"
    said = site.said(path="/page?a=1&b=2", port=8000, Cookie=cookie.split(";")[0],
                     Referer=f"http://x/?token={token}")
    assert header(said, "cookie") == header(said, "referer") == []
    status, headers, _ = site.call(f"/?token={token}", port=8000, **browser)
    assert headers["Location"] == "/"
    status, headers, _ = site.call(f"/preview/{site.id}/8000/a?token={token}", host="localhost",
                                   **browser)
    assert headers["Location"] == f"/preview/{site.id}/8000/a"
    assert f"Path=/preview/{site.id}/8000/;" in headers["Set-Cookie"]
    # Another token in the query is the server's own.
    said = site.said(path="/?token=its-own", port=8000, X_Atoll_Preview_Token=token)
    assert said["path"] == "/?token=its-own"
    # Other methods are passed on at once, without it.
    assert site.call(f"/up?token={token}", port=8000, method="POST", body=b"x")[0] == 200


def test_programs_need_no_cookie(site):
    """As in curl -sL URL, without a cookie jar."""
    said = site.said(path=f"/page?a=1&token={site.private['token']}", port=8000, Accept="*/*")
    assert said["path"] == "/page?a=1"


def test_unknown_looks_like_forbidden(site):
    answers = {(status, body, tuple(sorted((k, v) for k, v in headers.items() if k != "Date")))
               for status, headers, body in (
                   site.call(port=8000),
                   site.call(port=8000, X_Atoll_Preview_Token="b" * 32),
                   site.call(port=7777),
                   site.call(host=site.host(8000, "a" * 26)))}
    assert len(answers) == 1 and next(iter(answers))[0] == 404


def test_pages_of_other_sites_cannot_use_the_cookie(site):
    cookie = f"atoll_preview={site.private['token']}"
    own, sibling = f"http://{site.host(8000)}", f"http://{site.host(8001)}"
    evil = f"http://{site.host(8000, 'b' * 26)}"
    for origin, status in ((own, 200), (sibling, 200), (evil, 403), ("https://evil", 403),
                           ("null", 403)):
        assert site.call("/up", 8000, "POST", b"x", Cookie=cookie, Origin=origin)[0] == status
        with Frames(site, 8000, Cookie=cookie, Origin=origin) as ws:
            assert ws.status == (101 if status == 200 else 403)


def test_websocket_with_token_in_the_query(site):
    with Frames(site, 8000, path=f"/ws?token={site.private['token']}") as ws:
        assert ws.status == 101 and ws.recv() == (1, b"hello")


def test_survives_the_daemon(site):
    """Kept by the store: the same token opens it after kill -9."""
    site.daemon.process.kill()
    site.daemon.process.wait()
    site.daemon.start()
    wait_until(lambda: site.rest.get("/healthz").status == 200, 30, lambda: "no daemon")
    assert site.call(port=8000)[0] == 404
    assert site.call(port=8000, X_Atoll_Preview_Token=site.private["token"])[0] == 200


# Whose the request is.

def test_a_wrong_name_has_a_reason(site):
    with contextlib.closing(http.client.HTTPConnection(*site.address, timeout=20)) as connection:
        connection.request("GET", "/healthz", headers={"Host": "evil.example"})
        response = connection.getresponse()
        assert (response.status, response.reason) == (421, "Misdirected Request")


def test_host_tricks(site):
    """Only the exact form is a preview; whatever else lies below the domain is nothing."""
    box, port = site.id, site.address[1]
    for host in (f"8001-{box}.localhost.", f"8001-{box}.LOCALHOST", f"8001-{box.upper()}.localhost",
                 f"08001-{box}.localhost", f"8001-{box}.localhost.localhost", f"8001_{box}.localhost",
                 f"x.8001-{box}.localhost", f"8001-{box[:19]}.localhost", f"-{box}.localhost",
                 f"99999-{box}.localhost", f"0-{box}.localhost", f"8001-{box}-1.localhost",
                 f"8001-.localhost", f"8001.localhost", "apx.localhost", "evil.localhost:80",
                 f"8001-{box}.localhost:999999", f"8001-{box}.localhost:", f"8001-{box}.localhost:x"):
        assert site.call("/x", host=host)[0] == 404, host
    for host in (f"8001-{box}", f"8001-{box}.evil", f"8001-{box}.localhost.evil", "evil.example",
                 f"8001-{box}.localhostx", "127.0.0.1.evil", "1.2.3", "[::1", "localhost:99999999",
                 f"localhost.evil:{port}"):
        assert site.call("/healthz", host=host)[0] in (400, 421), host
        assert site.call("/x", host=host)[0] in (400, 421), host
    for host in ("localhost", f"localhost:{port}", "127.0.0.1", f"127.0.0.1:{port}", "[::1]",
                 f"[::1]:{port}", "LOCALHOST", socket.gethostname()):
        assert site.call("/healthz", host=host)[0] == 200, host
    assert site.call("/x", host=f"8001-{box}.localhost")[0] == 200
    assert site.call("/x", host=f"8001-{box}.localhost:1")[0] == 200


def test_x_forwarded_host_decides_nothing(site):
    _, _, body = site.call("/healthz", host="localhost", X_Forwarded_Host=site.host(8001))
    assert json.loads(body)["status"] == "ok"


def test_two_hosts(site):
    preview, own = site.host(8001), f"localhost:{site.address[1]}"
    for target, host in ((f"http://{preview}/x", own), (f"http://{own}/healthz", preview)):
        got = site.raw(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        assert got.startswith(b"HTTP/1.1 400 ")
    got = site.raw(f"GET http://{preview}/abs HTTP/1.1\r\nHost: {preview}\r\n"
                   f"Connection: close\r\n\r\n".encode())
    assert got.startswith(b"HTTP/1.1 200 ") and b'"path": "/abs"' in got
    got = site.raw(f"GET / HTTP/1.1\r\nHost: {preview}\r\nHost: {own}\r\n\r\n".encode())
    assert got.startswith(b"HTTP/1.1 400 ")
    got = site.raw(f"CONNECT {preview} HTTP/1.1\r\nHost: {preview}\r\n\r\n".encode())
    assert got.startswith(b"HTTP/1.1 4") or got.startswith(b"HTTP/1.1 501")


# Smuggling.

@pytest.mark.parametrize("head", [
    "Content-Length: 4\r\nTransfer-Encoding: chunked",
    "Content-Length: 4\r\nContent-Length: 5",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding : chunked",
    "Content-Length: +4",
    "X-A: b\n Folded: c",
    "X-A: b\rX-B: c",
])
def test_ambiguous_requests_go_nowhere(site, head):
    got = site.raw(f"POST /up HTTP/1.1\r\nHost: {site.host(8001)}\r\n{head}\r\n\r\n"
                   f"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert got.startswith(b"HTTP/1.1 400 ") and len(re.findall(rb"HTTP/1\.1 \d", got)) == 1


def test_body_is_no_request(site):
    """What looks like a request inside a body stays a body, here and inside."""
    inner = f"GET /smuggled HTTP/1.1\r\nHost: {site.host(8001)}\r\n\r\n".encode()
    said = site.said(path="/up", method="POST", body=inner)
    assert said["bytes"] == len(inner)
    assert site.said(path="/next")["path"] == "/next"


@pytest.mark.parametrize("path", ["/both", "/junk", "/hugehead", "/splithead", "/silent"])
def test_bad_answers(site, path):
    status, headers, body = site.call(path)
    assert status == 502 and b"Injected" not in body and headers["X-Injected"] is None
    assert site.call("/after")[0] == 200


def test_answer_that_nobody_asked_for(site):
    assert site.call("/twice")[2] == b"ok"
    for _ in range(3):
        assert site.said(path="/after")["path"] == "/after"


def test_cut_answer_is_cut(site):
    with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
        site.call("/half")


# What goes wrong.

def test_nothing_listens(site):
    made = site.preview(8005, public=True)
    status, headers, body = site.call(port=8005)
    assert status == 502 and json.loads(body)["error"]["code"] == "unavailable"
    assert "nothing listens on port 8005" in json.loads(body)["error"]["message"]
    status, headers, body = site.call(port=8005, Accept="text/html,*/*")
    assert status == 502 and b'http-equiv="refresh"' in body and b"8005" in body
    assert headers["Content-Type"].startswith("text/html") and headers["Retry-After"] == "2"
    site.rest.delete(f"/api/sandboxes/{site.id}/previews/{made['port']}")


def test_a_paused_sandbox_says_so(site):
    """And after the resume the server answers."""
    if "pause" not in next(one for one in site.rest.get("/api/providers").json["providers"]
                           if one["name"] == "native")["capabilities"]:
        pytest.skip("native cannot pause here")
    assert site.rest.post(f"/api/sandboxes/{site.id}/pause", {}).status == 200
    try:
        status, headers, body = site.call(port=8001)
        found = json.loads(body)["error"]
        assert status == 409 and found["code"] == "failed_precondition", body
        assert "paused" in found["message"] and "resume" in found["hint"], body
        status, headers, body = site.call(port=8001, Accept="text/html,*/*")
        assert status == 409 and b"paused" in body and b'http-equiv="refresh"' in body
    finally:
        assert site.rest.post(f"/api/sandboxes/{site.id}/resume").status == 200
    assert site.call(port=8001)[0] == 200


def test_client_goes_away(site):
    """A hundred who do not wait: nothing is left of them."""
    for _ in range(100):
        with socket.create_connection(site.address) as sock:
            sock.sendall(f"GET /stream HTTP/1.1\r\nHost: {site.host(8001)}\r\n\r\n".encode())
    wait_until(lambda: "\natoll_previews_active 0\n" in site.rest.get("/metrics").body.decode(), 30,
               lambda: "requests left")
    # Connections made for nobody are kept for the next, up to 64.
    assert len(os.listdir(f"/proc/{site.daemon.pid}/fd")) < 150


def test_no_way_out_of_the_sandbox(site):
    """The daemon's own port, asked for inside, is a port of the sandbox: nobody is there."""
    port = site.address[1]
    site.preview(port, public=True)
    assert site.call("/healthz", port=port)[0] == 502
    site.rest.delete(f"/api/sandboxes/{site.id}/previews/{port}")


def test_curl_resolves_localhost_names(site):
    done = subprocess.run(["curl", "-sS", "-L", "-c", "/dev/null", site.private["url"]],
                          capture_output=True, text=True, timeout=20, check=True)
    assert json.loads(done.stdout)["path"] == "/"
