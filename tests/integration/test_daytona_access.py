"""Daytona's control plane: what keys, tokens and tenants can reach, and what of it is bounded."""

import base64
import hashlib
import hmac
import json
import time
import urllib.parse

import pytest
from boxes import Box
from daemons import wait_until
from listening import listening_daemon
from rest import Rest, WebSocket

EVENTS = "/daytona/socket.io/?EIO=4&transport=websocket"
ENV = {"SECRET": "s3cr3t"}
ECHO = """
import http.server, json
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps([self.path, sorted((k.lower(), v) for k, v in self.headers.items())]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), H).serve_forever()
"""


class Stream(WebSocket):
    """Packets of Socket.IO are a number and JSON."""

    def text(self):
        opcode, payload = self.recv()
        assert opcode == self.TEXT, (opcode, payload)
        return payload.decode()


class World:
    def __init__(self, daemon, address):
        self.address = address
        self.socket = daemon.socket
        self.admin = Rest(daemon.socket)
        self.keys = {}
        self.writer, self.reader = self.key("acme", "write"), self.key("acme", "read")
        self.rival = self.key("rival", "write")

    def key(self, tenant, scope):
        made = self.admin.post("/api/keys", {"tenant": tenant, "scope": scope}).json
        self.keys[tenant, scope] = made
        return Rest(self.address, {"X-API-Key": made["key"]})

    def box(self, rest=None, **fields):
        answer = (rest or self.writer).post("/daytona/sandbox", fields)
        assert answer.status == 200, answer.body
        return answer.json

    def stream(self, key=None):
        socket = Stream(self.admin.socket(), EVENTS, {})
        assert socket.text().startswith("0{")
        if key:
            socket.send("40" + json.dumps({"token": key["key"]}))
        return socket


@pytest.fixture(scope="module")
def world():
    with listening_daemon() as (daemon, address):
        yield World(daemon, address)


def test_a_read_key_gets_no_token_and_rotation_ends_tokens(world):
    box = world.box()["id"]
    for what in ("preview-url", "signed-preview-url"):
        path = f"/daytona/sandbox/{box}/ports/3000/{what}"
        assert world.reader.get(path).status == 403
        assert world.writer.get(path).status == 200
    path = f"/daytona/sandbox/{box}/ports/3000/preview-url"

    def run(token):
        return Rest(world.address, {"x-daytona-preview-token": token}).post(
            f"/daytona/toolbox/{box}/process/execute", {"command": "true"}).status

    old = world.writer.get(path).json["token"]
    assert run(old) == 200
    assert world.writer.post(f"/daytona/sandbox/{box}/signing-key/rotate").status == 200
    assert run(old) == 401 and run(world.writer.get(path).json["token"]) == 200


def test_rotation_ends_signed_previews(world):
    box = world.box()["id"]
    path = f"/daytona/sandbox/{box}/ports/3000/signed-preview-url"

    def visit(signed):
        host = signed["url"].removeprefix("http://")
        return Rest(world.address, {"Host": host}).get("/").status

    old = world.writer.get(path).json
    valid = visit(old)  # no server listens there
    assert valid in (502, 503)
    assert world.writer.post(f"/daytona/sandbox/{box}/signing-key/rotate").status == 200
    assert visit(old) not in (valid, 200)
    assert world.writer.post(f"{path}/{old['token']}/expire").status == 404
    assert visit(world.writer.get(path).json) == valid


def signed(key, method, path, expires):
    mac = hmac.new(key.encode(), f"v1:files:{method}:{path}:{expires}".encode(), hashlib.sha256).digest()
    return {"path": path, "expires": str(expires), "signature": "v1_" + base64.urlsafe_b64encode(mac).decode().rstrip("=")}


def test_signed_urls_of_files(world):
    """They are for one file, one method and a time, and end when the key of the sandbox is rotated."""
    box, other = (world.box()["id"] for _ in range(2))
    key = world.writer.get(f"/daytona/sandbox/{box}/signing-key").json
    soon = int(time.time()) + 600
    assert world.writer.put(f"/api/sandboxes/{box}/files", b"data", path="/tmp/f").status == 200

    def get(query, name=box, what="download", method="GET"):
        return Rest(world.address).call(method, f"/daytona/toolbox/{name}/files/{what}?{urllib.parse.urlencode(query)}")

    good = signed(key, "GET", "/tmp/f", soon)
    assert get(good).body == b"data" and get(signed(key, "GET", "/tmp/f", 0)).body == b"data"
    for bad in ({**good, "path": "/etc/passwd"}, {**good, "expires": str(soon + 1)}, {**good, "expires": "x"},
                {**good, "signature": good["signature"][:-1] + ("A" if good["signature"][-1] != "A" else "B")},
                {**good, "signature": good["signature"][3:]}, {**good, "signature": ""}, signed("0" * len(key), "GET", "/tmp/f", soon),
                signed(key, "POST", "/tmp/f", soon), signed(key, "GET", "/tmp/f", int(time.time()) - 10)):
        assert get(bad).status == 401, bad
    assert get(good, name=other).status == 401
    assert get(good, what="info").status == 401 and get(good, what="upload-v2", method="POST").status == 401
    assert world.writer.post(f"/daytona/sandbox/{box}/signing-key/rotate").status == 200
    assert get(good).status == 401


def test_a_public_preview_needs_no_token(world):
    """Ports of a public sandbox are open; its toolbox is not."""
    box = world.box(public=True)["id"]

    def visit(port):
        return Rest(world.address, {"Host": f"{port}-{box}.localhost:{world.address[1]}"}).get("/").status

    assert visit(3000) == 502 or visit(3000) == 503  # no server listens there
    assert Rest(world.address).get(f"/daytona/toolbox/{box}/version").status == 401
    assert world.writer.post(f"/daytona/sandbox/{box}/public/false").json["public"] is False
    assert visit(3000) == 404


def test_requests_that_are_no_use(world):
    box = world.box()["id"]
    path = f"/daytona/toolbox/{box}/version"

    def used():
        return world.writer.get(f"/daytona/sandbox/{box}").json["lastActivityAt"]

    before = used()
    assert world.writer.call("GET", path, None, {"X-Daytona-Skip-Last-Activity-Update": "true"}).status == 200
    assert used() == before
    assert world.writer.call("GET", path, None, {"X-Daytona-Skip-Last-Activity-Update": "false"}).status == 200
    assert used() > before


def test_failed_builds_give_way(world):
    rest = world.key("builder", "write")

    def build():
        box = world.box(rest, buildInfo={"dockerfileContent": "FROM scratch\nCOPY missing /\n"})["id"]
        path = f"/daytona/sandbox/{box}"
        wait_until(lambda: rest.get(path).json["state"] == "build_failed", 30,
                   lambda: rest.get(path).body)
        return path

    made = [build() for _ in range(33)]
    assert [rest.get(path).status for path in (made[0], made[1], made[-1])] == [404, 200, 200]


def test_a_tenant_without_volumes_is_told_so(world):
    refused = world.key("planner", "write").post("/daytona/volumes", {"name": "none"})
    assert refused.status in (403, 429) and "volume" in refused.json["message"], refused.body


def test_deleting_a_mounted_volume_removes_it(world):
    for look in (lambda: None, lambda: world.admin.get("/daytona/volumes")):
        assert world.admin.post("/daytona/volumes", {"name": "kept"}).status == 200
        box = Box(world.admin, volumes=[{"name": "kept", "path": "/data"}])
        box.out("echo x > /data/f")
        look()
        box.destroy()
        assert world.admin.delete("/daytona/volumes/kept").status == 200
        assert world.admin.get("/api/volumes").json["volumes"] == []
        assert world.admin.get("/daytona/volumes").json == []


def test_values_of_variables_are_for_writers(world):
    with world.stream(world.keys["acme", "read"]) as events:
        assert events.text().startswith("40")
        made = world.box(env=ENV)
        path = f"/daytona/sandbox/{made['id']}"
        assert made["env"] == world.writer.get(path).json["env"] == ENV
        assert world.reader.get(path).json["env"] == {}
        assert ENV["SECRET"].encode() not in world.reader.get("/daytona/sandbox/paginated").body
        while True:
            event = events.text()
            assert ENV["SECRET"] not in event
            if "sandbox.created" in event and made["id"] in event:
                break
    stored = world.writer.call("POST", "/daytona/sandbox", {"env": ENV}, {"Idempotency-Key": "once"})
    assert stored.status == 200 and stored.json["env"] == {}
    assert world.writer.get(f"/daytona/sandbox/{stored.json['id']}").json["env"] == ENV


def test_the_server_inside_does_not_get_the_token(world):
    box = world.box()["id"]
    token = world.writer.get(f"/daytona/sandbox/{box}/ports/8000/preview-url").json["token"]
    api = f"/api/sandboxes/{box}"
    assert world.writer.put(f"{api}/files", ECHO.encode(), path="echo.py").status == 200
    world.writer.post(f"{api}/execs", {"cmd": ["python3", "echo.py"]})
    host = {"Host": f"8000-{box}.localhost:{world.address[1]}"}

    def visit(path, **headers):
        return Rest(world.address).call("GET", path, None, {**host, **headers})

    shown = {"X-Daytona-Preview-Token": token}
    wait_until(lambda: visit("/", **shown).status == 200, 30, lambda: "no server inside")
    encoded = f"/a?b=c&%44AYTONA_SANDBOX_AUTH_KEY={token}&d=e"
    for answer in (visit("/a?b=c&d=e", **shown, Referer=f"http://x/?DAYTONA_SANDBOX_AUTH_KEY={token}"),
                   visit(encoded, Referer=f"http://x{encoded}")):
        assert answer.status == 200 and token.encode() not in answer.body, answer.body
        assert answer.json[0] == "/a?b=c&d=e"
    kept = visit("/", **shown, Referer="http://x/?a=b").json[1]
    assert ["referer", "http://x/?a=b"] in kept


def test_a_key_opens_a_private_preview(world):
    box = world.box()["id"]
    api = f"/api/sandboxes/{box}"
    assert world.writer.put(f"{api}/files", ECHO.encode(), path="echo.py").status == 200
    world.writer.post(f"{api}/execs", {"cmd": ["python3", "echo.py"]})
    host = {"Host": f"8000-{box}.localhost:{world.address[1]}"}

    def visit(authorization, **headers):
        return Rest(world.address).call("GET", "/x", None, {**host, "Authorization": authorization, **headers})

    def bearer(tenant, scope):
        return f"Bearer {world.keys[tenant, scope]['key']}"

    own = bearer("acme", "write")
    wait_until(lambda: visit(own).status == 200, 30, lambda: "no server inside")
    answer = visit(own)
    assert answer.json[0] == "/x" and "authorization" not in dict(answer.json[1]), answer.body
    for wrong in (bearer("acme", "read"), bearer("rival", "write"), "Bearer none", "Basic eDp5", own + "x"):
        assert visit(wrong).status == 404, wrong
    # The token counts before the key, and what is not a key is the server's.
    assert visit(own, **{"X-Daytona-Preview-Token": "wrong"}).status == 404
    token = world.writer.get(f"/daytona/sandbox/{box}/ports/8000/preview-url").json["token"]
    seen = dict(visit("Bearer its-own", **{"X-Daytona-Preview-Token": token}).json[1])
    assert seen["authorization"] == "Bearer its-own"


def test_a_port_gets_the_path_behind_it(world):
    """However the client writes the part before it, and whatever the name of the sandbox is."""
    box = world.box(name="proxy")["id"]
    api = f"/api/sandboxes/{box}"
    assert world.writer.put(f"{api}/files", ECHO.encode(), path="echo.py").status == 200
    world.writer.post(f"{api}/execs", {"cmd": ["python3", "echo.py"]})

    def visit(path):
        return world.writer.call("GET", f"/daytona/toolbox/{path}")

    wait_until(lambda: visit(f"{box}/proxy/8000/a").status == 200, 30, lambda: "no server inside")
    for before in (f"{box}/proxy/8000", f"{box}/%70roxy/8000", f"{box}/proxy/%38000", "proxy/proxy/8000",
                   "%70roxy/proxy/8000", f"{box}/toolbox/proxy/8000", "proxy/toolbox/%70roxy/8000"):
        for path in ("/a%2Fb/proxy/c?d=/e", "/f//g"):
            answer = visit(before + path)
            assert answer.status == 200 and answer.json[0] == path, (before, path, answer.body)


def test_the_root_of_a_server(world):
    """Without the slash behind the port, with it, and with a query; the client sees who failed."""
    box = world.box(name="root")["id"]
    assert world.writer.put(f"/api/sandboxes/{box}/files", ECHO.encode(), path="echo.py").status == 200
    world.writer.post(f"/api/sandboxes/{box}/execs", {"cmd": ["python3", "echo.py"]})
    for base in (f"/daytona/toolbox/{box}/proxy/8000", f"/daytona/toolbox/{box}/toolbox/proxy/8000"):
        wait_until(lambda at=base: world.writer.get(f"{at}/a").status == 200, 30, lambda: "no server inside")
        for query in ("", "?b=/c"):
            assert world.writer.get(f"{base}/{query}").json[0] == f"/{query}"
            for method in ("GET", "POST"):
                moved = world.writer.call(method, base + query)
                assert (moved.status, moved.headers["location"]) == (308, f"{base}/{query}")
        assert world.writer.call("OPTIONS", f"{base}/").status == 501  # by the server inside
        assert world.rival.get(f"{base}/").status == 404
    silent = f"/daytona/toolbox/{box}/proxy/8001/"
    answer = world.writer.call("GET", silent, None, {"Accept": "text/html"})
    assert answer.status == 502 and answer.headers["content-type"] == "application/json"
    assert {**answer.json, "timestamp": ""} == {
        "statusCode": 502, "code": "BAD_GATEWAY", "source": "DAYTONA_DAEMON", "timestamp": "", "path": silent,
        "method": "GET", "message": "nothing listens on port 8001 of this sandbox"}


def test_ended_urls_stay_ended(world):
    path = f"/daytona/sandbox/{world.box(world.admin)['id']}/ports/3000/signed-preview-url"

    def end(seconds):
        signed = world.admin.get(path, expiresInSeconds=seconds)
        assert signed.status == 200, signed.body
        token = signed.json["token"]
        return world.admin.post(f"{path}/{token}/expire").status

    assert {end(1000 + i) for i in range(64)} == {201}
    assert end(2000) == 429


def test_a_removed_key_ends_its_events(world):
    world.key("gone", "read")
    key = world.keys["gone", "read"]
    with world.stream(key) as events:
        assert events.text().startswith("40")
        events.send("3")
        events.send("2probe")
        assert events.text() == "3probe"
        assert world.admin.delete(f"/api/keys/{key['id']}").status == 204
        events.send("3")
        assert events.recv()[0] == events.CLOSE


def test_event_streams_are_bounded(world):
    key, other = world.keys["acme", "read"], world.keys["rival", "write"]
    streams = []
    try:
        for _ in range(256):
            streams.append(world.stream(key))
            assert streams[-1].text().startswith("40")
        streams.append(world.stream(key))
        assert "Too many" in streams[-1].text()
        streams.append(world.stream(other))
        assert streams[-1].text().startswith("40")
        streams += [world.stream() for _ in range(255)]
        streams.append(Stream(world.admin.socket(), EVENTS, {}))
        assert streams[-1].status == 503
    finally:
        for stream in streams:
            stream.__exit__()
