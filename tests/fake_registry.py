"""A registry that holds one image, for those with the right password. It speaks as much of the
protocol as an engine needs to pull."""

import base64
import contextlib
import gzip
import hashlib
import http.server
import json
import threading

USER, PASSWORD = "puller", "open-sesame-4711"
NAME, TAG = "test/box", "1"
MEDIA = "application/vnd.docker"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Registry:
    def __init__(self, root_tar):
        layer = gzip.compress(root_tar, 1)
        config = json.dumps({
            "architecture": "amd64", "os": "linux", "config": {},
            "rootfs": {"type": "layers", "diff_ids": [digest(root_tar)]}}).encode()
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": f"{MEDIA}.distribution.manifest.v2+json",
            "config": {"mediaType": f"{MEDIA}.container.image.v1+json", "size": len(config),
                       "digest": digest(config)},
            "layers": [{"mediaType": f"{MEDIA}.image.rootfs.diff.tar.gzip", "size": len(layer),
                        "digest": digest(layer)}]}).encode()
        self.blobs = {digest(config): config, digest(layer): layer}
        self.refused = 0
        self.may_answer = threading.Event()  # about layers
        self.may_answer.set()
        self.host = None

    @property
    def image(self):
        return f"{self.host}/{NAME}:{TAG}"

    def find(self, path):
        """(media type, bytes) of what is at that path; None when there is no such thing."""
        if path == "/v2/":
            return "application/json", b"{}"
        if path in (f"/v2/{NAME}/manifests/{TAG}", f"/v2/{NAME}/manifests/{digest(self.manifest)}"):
            return f"{MEDIA}.distribution.manifest.v2+json", self.manifest
        name, _, wanted = path.partition("/blobs/")
        if name == f"/v2/{NAME}" and wanted in self.blobs:
            return "application/octet-stream", self.blobs[wanted]
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        registry = self.server.registry
        right = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") != right:
            registry.refused += 1
            self.answer(401, "application/json", errors("UNAUTHORIZED", "authentication required"),
                        ("WWW-Authenticate", 'Basic realm="test"'))
            return
        if "/blobs/" in self.path:
            registry.may_answer.wait(60)
        found = registry.find(self.path)
        if found:
            self.answer(200, *found)
        else:
            self.answer(404, "application/json", errors("MANIFEST_UNKNOWN", "manifest unknown"))

    do_HEAD = do_GET

    def answer(self, status, kind, body, *headers):
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))),
                            ("Docker-Distribution-Api-Version", "registry/2.0"),
                            ("Docker-Content-Digest", digest(body)), *headers):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


def errors(code, message):
    return json.dumps({"errors": [{"code": code, "message": message}]}).encode()


@contextlib.contextmanager
def serve(root_tar):
    registry = Registry(root_tar)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.registry = registry
    registry.host = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
