"""The Docker provider against engines of our own: test_docker_live, test by test, on each of them."""

import base64
import gzip
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import docker_engine
import pytest
from conftest import BUILD

IMAGE = "atoll-test-busybox:1"
TESTS = ["life", "walls", "out_of_memory", "disk_in_memory", "refusals", "no_engine", "end", "remote",
         "pool", "orphans", "images", "isolated", "load"]

pytestmark = pytest.mark.skipif(docker_engine.missing() is not None,
                                reason=str(docker_engine.missing()))


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    with docker_engine.start(tmp_path_factory.mktemp("docker"), tls=True) as engine:
        engine.import_image(IMAGE, docker_engine.busybox_root(), "ENV COLOUR=green")
        yield engine


def live(engine, test, **more):
    """Runs one test of the program; returns what it printed."""
    env = {**os.environ, "ATOLL_BUILD_DIR": str(BUILD), "ATOLL_TEST_DOCKER": engine.url,
           "ATOLL_TEST_DOCKER_IMAGE": IMAGE, "ATOLL_TEST_DOCKER_ONLY": f"test_{test}", **more}
    done = subprocess.run([BUILD / "tests/test_docker_live"], env=env, capture_output=True, text=True,
                          timeout=120, check=False)
    output = done.stdout + done.stderr
    assert done.returncode == 0, f"{output}\n{engine.log_tail()}"
    assert "1 test(s) run" in output, output  # a name that matches nothing is no success
    return output


@pytest.mark.parametrize("test", TESTS)
def test_provider(engine, test):
    live(engine, test)
    assert engine.containers() == []
    assert [name for name in engine.networks() if name.startswith("atoll")] == []


def test_engine_elsewhere_with_tls(engine):
    tls = engine.tls
    live(engine, "remote", ATOLL_TEST_DOCKER_TCP=engine.tcp, ATOLL_TEST_DOCKER_CA=str(tls / "ca.pem"),
         ATOLL_TEST_DOCKER_CERT=str(tls / "client.pem"),
         ATOLL_TEST_DOCKER_KEY=str(tls / "client-key.pem"))
    assert engine.containers() == []


class Registry(http.server.BaseHTTPRequestHandler):
    """As much of a registry as one pull takes, for whoever knows the password."""

    blobs = {}  # path: (type, bytes)

    def do_GET(self):
        kind, body = self.blobs.get(self.path, ("text/plain", b""))
        if self.headers.get("Authorization") != "Basic " + base64.b64encode(b"me:secret").decode():
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="test"')
            body = b""
        else:
            self.send_response(200 if self.path == "/v2/" or body else 404)
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


def put_image(layer_tar):
    layer = gzip.compress(layer_tar, 1)
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Env": ["COLOUR=red"]},
                         "rootfs": {"type": "layers", "diff_ids": [digest(layer_tar)]}}).encode()
    types = "application/vnd.docker.distribution.manifest.v2+json", \
        "application/vnd.docker.container.image.v1+json", \
        "application/vnd.docker.image.rootfs.diff.tar.gzip"
    manifest = json.dumps({
        "schemaVersion": 2, "mediaType": types[0],
        "config": {"mediaType": types[1], "size": len(config), "digest": digest(config)},
        "layers": [{"mediaType": types[2], "size": len(layer), "digest": digest(layer)}]}).encode()
    for name in ("1", digest(manifest)):
        Registry.blobs[f"/v2/box/manifests/{name}"] = types[0], manifest
    for blob in (config, layer):
        Registry.blobs[f"/v2/box/blobs/{digest(blob)}"] = "application/octet-stream", blob


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def test_pull(engine):
    put_image(docker_engine.busybox_root())
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        live(engine, "with_registry", ATOLL_TEST_DOCKER_PULL=f"127.0.0.1:{server.server_port}/box:1")
        server.shutdown()
    assert engine.containers() == []


@pytest.fixture
def disk_image(tmp_path, request):
    make = shutil.which(f"mkfs.{request.param}")
    if not make:
        pytest.skip(f"mkfs.{request.param} is not installed")
    image = tmp_path / "image"
    with image.open("wb") as out:
        out.truncate(500 << 20)
    subprocess.run([make, "-q", image], check=True)
    yield image


@pytest.mark.parametrize("disk_image, test", [("btrfs", "with_quota"), ("xfs", "disk_in_memory")],
                         indirect=["disk_image"])
def test_storage(tmp_path, disk_image, test):
    """btrfs keeps quotas; xfs without pquota only looks as if it did."""
    with docker_engine.start(tmp_path / "engine", image=disk_image) as engine:
        engine.import_image(IMAGE, docker_engine.busybox_root(), "ENV COLOUR=green")
        live(engine, test)
        assert engine.containers() == []


BRIDGE = "10.213.7.1"


def test_bridge(tmp_path):
    """A real bridge with the engine's rules, in a network namespace of its own."""
    (tmp_path / "hello").write_text("world\n")
    with docker_engine.start(tmp_path / "engine", bridge=BRIDGE) as engine:
        engine.import_image(IMAGE, docker_engine.busybox_root(), "ENV COLOUR=green")
        server = subprocess.Popen(["nsenter", "-t", str(engine.process.pid), "-n",
                                   docker_engine.BUSYBOX, "httpd", "-f", "-p", f"{BRIDGE}:8000",
                                   "-h", tmp_path])
        try:
            live(engine, "with_bridge", ATOLL_TEST_DOCKER_BRIDGE=BRIDGE)
        finally:
            server.kill()
            server.wait()
        assert engine.containers() == []


def test_remapped_users():
    """An engine with user namespaces: nothing of a sandbox runs as root of the host."""
    top = Path(tempfile.mkdtemp(prefix="atoll-"))
    top.chmod(0o755)  # the engine's own root is not ours, and has to get there
    try:
        with docker_engine.start(top / "engine", options=["--userns-remap=default"]) as engine:
            engine.import_image(IMAGE, docker_engine.busybox_root(), "ENV COLOUR=green")
            live(engine, "with_remap")
            assert engine.containers() == []
    finally:
        shutil.rmtree(top, ignore_errors=True)
