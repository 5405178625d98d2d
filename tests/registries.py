"""Debian's docker-registry, a token server for it, a proxy that breaks connections, and small images
that skopeo can push."""

import base64
import contextlib
import gzip
import hashlib
import http.server
import io
import json
import os
import shutil
import socket
import subprocess
import tarfile
import threading
import time
import urllib.parse

from daemons import wait_until

MEDIA = "application/vnd.oci.image"
USER, PASSWORD = "pusher", "open-sesame-4712"
HASHED = "$2b$04$XoxR6wu43Spl5prmpyGvJeqiZN2jr49/kJmbN7fSpvLe31Ai24M66"  # bcrypt of it
SERVICE, ISSUER = "test registry", "test issuer"


def missing():
    """Why tests with a registry cannot run here; None when they can."""
    for program in ("docker-registry", "skopeo"):
        if not shutil.which(program):
            return f"{program} is not installed"
    return None


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def tar_of(files):
    """The bytes of a tar with these files: {name: content}."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


class Layout:
    """An OCI layout in a directory."""

    def __init__(self, directory):
        self.directory = directory
        (directory / "blobs/sha256").mkdir(parents=True)
        (directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        self.entries = []

    def blob(self, data, media, **more):
        (self.directory / "blobs/sha256" / digest(data)[7:]).write_bytes(data)
        return {"mediaType": media, "digest": digest(data), "size": len(data), **more}

    def image(self, tars, config=None, arch="amd64"):
        """The descriptor of an image of these layers."""
        document = {"os": "linux", "architecture": arch, "config": config or {},
                    "rootfs": {"type": "layers", "diff_ids": [digest(t) for t in tars]}}
        manifest = {"schemaVersion": 2, "mediaType": f"{MEDIA}.manifest.v1+json",
                    "config": self.blob(json.dumps(document).encode(), f"{MEDIA}.config.v1+json"),
                    "layers": [self.blob(gzip.compress(t, 1, mtime=0), f"{MEDIA}.layer.v1.tar+gzip")
                               for t in tars]}
        return self.blob(json.dumps(manifest).encode(), f"{MEDIA}.manifest.v1+json",
                         platform={"os": "linux", "architecture": arch})

    def index(self, *manifests):
        document = {"schemaVersion": 2, "mediaType": f"{MEDIA}.index.v1+json",
                    "manifests": list(manifests)}
        return self.blob(json.dumps(document).encode(), f"{MEDIA}.index.v1+json")

    def name(self, name, descriptor):
        entry = {key: value for key, value in descriptor.items() if key != "platform"}
        self.entries.append({**entry, "annotations": {"org.opencontainers.image.ref.name": name}})
        (self.directory / "index.json").write_text(
            json.dumps({"schemaVersion": 2, "manifests": self.entries}))
        return f"oci:{self.directory}:{name}"


def skopeo(*args):
    done = subprocess.run(["skopeo", "--insecure-policy", *map(str, args)], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Registry:
    def __init__(self, process, host, directory):
        self.process, self.host, self.directory = process, host, directory

    def push(self, source, name, *options):
        """Copies with skopeo; returns the digest that the registry then has."""
        skopeo("copy", "--dest-tls-verify=false", "-q", *options, source, self.url(name))
        return json.loads(skopeo("inspect", "--tls-verify=false", *self.login(options), "--format",
                                 '{"digest": "{{.Digest}}"}', self.url(name)))["digest"]

    def url(self, name):
        return f"docker://{self.host}/{name}"

    @staticmethod
    def login(options):
        return [o.replace("--dest-creds", "--creds") for o in options if "-creds" in o]


@contextlib.contextmanager
def running(directory, **more):
    """A registry; `more` goes into its configuration: auth, and tls for http."""
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    http_part = {"addr": f"127.0.0.1:{port}", **({"tls": more.pop("tls")} if "tls" in more else {})}
    config = {"version": 0.1, "log": {"level": "error", "accesslog": {"disabled": True}},
              "storage": {"filesystem": {"rootdirectory": str(directory / "data")}},
              "http": http_part, **more}
    (directory / "config.yml").write_text(json.dumps(config))
    with open(directory / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(["docker-registry", "serve", directory / "config.yml"],
                                   stdout=log, stderr=log, env={**os.environ, "HOME": str(directory)})
        try:
            wait_until(lambda: connects(port), 30, (directory / "log").read_text)
            yield Registry(process, f"127.0.0.1:{port}", directory)
        finally:
            process.kill()
            process.wait()


def connects(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def basic_auth(directory):
    """Configuration of a registry that wants USER and PASSWORD."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "htpasswd").write_text(f"{USER}:{HASHED}\n")
    return {"auth": {"htpasswd": {"realm": "test", "path": str(directory / "htpasswd")}}}


def docker_config(path, host, user=USER, password=PASSWORD):
    """Docker's config.json with one login."""
    auth = base64.b64encode(f"{user}:{password}".encode()).decode()
    path.write_text(json.dumps({"auths": {host: {"auth": auth}}}))
    return path


def url64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Tokens:
    """A token server: all may pull from public/, the user may do everything."""

    def __init__(self, directory):
        directory.mkdir(parents=True, exist_ok=True)
        self.key, self.cert = directory / "key.pem", directory / "cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout",
                        self.key, "-out", self.cert, "-subj", "/CN=tokens", "-days", "9"],
                       check=True, capture_output=True)
        self.asked, self.life_s, self.url = [], 300, None

    def configuration(self):
        return {"auth": {"token": {"realm": f"{self.url}/token", "service": SERVICE, "issuer": ISSUER,
                                   "rootcertbundle": str(self.cert)}}}

    def token(self, scopes, known):
        access = []
        for scope in scopes:
            kind, name, actions = scope.split(":")
            allowed = actions.split(",") if known else ["pull"] if name.startswith("public/") else []
            access.append({"type": kind, "name": name, "actions": allowed})
        der = "".join(self.cert.read_text().split("-----")[2].split())
        now = int(time.time())
        head = {"typ": "JWT", "alg": "RS256", "x5c": [der]}
        claims = {"iss": ISSUER, "sub": USER if known else "", "aud": SERVICE, "nbf": now - 60,
                  "iat": now, "exp": now + self.life_s, "jti": str(len(self.asked)), "access": access}
        text = ".".join(url64(json.dumps(part).encode()) for part in (head, claims))
        signed = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.key],
                                input=text.encode(), check=True, capture_output=True).stdout
        return f"{text}.{url64(signed)}"


class TokenHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        tokens = self.server.tokens
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        tokens.asked.append(query)
        login = self.headers.get("Authorization")
        right = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        status, body = 401, {"details": "incorrect username or password"}
        if login in (None, right):
            status, body = 200, {"token": tokens.token(query.get("scope", []), login is not None),
                                 "expires_in": tokens.life_s}
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def token_server(directory):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), TokenHandler)
    server.tokens = Tokens(directory)
    server.tokens.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.tokens
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Breaker:
    """A TCP proxy that closes each connection after `after` bytes of answers, `times` times."""

    def __init__(self, host):
        self.target = (host.split(":")[0], int(host.split(":")[1]))
        self.after, self.times, self.connections = 1 << 60, 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            server = socket.create_connection(self.target)
            threading.Thread(target=self.copy, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self.copy, args=(server, client, True), daemon=True).start()

    def copy(self, source, sink, answers):
        sent = 0
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if answers and self.times > 0 and sent + len(data) > self.after:
                    sink.sendall(data[:self.after - sent])
                    self.times -= 1
                    break
                sink.sendall(data)
                sent += len(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def breaker(host):
    proxy = Breaker(host)
    try:
        yield proxy
    finally:
        proxy.listener.close()
