"""Images for tests: made here as OCI layouts, pushed by skopeo to Debian's docker-registry, unpacked by umoci."""

import base64
import contextlib
import gzip
import hashlib
import io
import json
import os
import shutil
import socket
import stat
import subprocess
import tarfile
import time
import urllib.request
import warnings

import docker_engine

NEEDED = ("docker-registry", "skopeo", "umoci")


def missing():
    """Why such tests cannot run here, or None."""
    lacking = [name for name in NEEDED if not shutil.which(name)]
    if not os.path.exists(docker_engine.BUSYBOX):
        lacking.append("busybox-static")
    return f"not installed: {', '.join(lacking)}" if lacking else None


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def tar_of(*entries):
    """A tar archive. entries: (name, text), or a TarInfo, or (TarInfo, bytes)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry in entries:
            info, data = entry if isinstance(entry, tuple) else (entry, b"")
            if isinstance(info, str):
                info = tarfile.TarInfo(info)
                info.mode = 0o644
            data = data.encode() if isinstance(data, str) else data
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def info(name, kind=tarfile.REGTYPE, mode=0o644, uid=0, gid=0, link="", mtime=1234567890, **pax):
    made = tarfile.TarInfo(name)
    made.type, made.mode, made.uid, made.gid, made.linkname = kind, mode, uid, gid, link
    made.mtime = mtime
    made.pax_headers = {key.replace("__", "."): value for key, value in pax.items()}
    return made


def busybox():
    """The lowest layer of most images here."""
    return docker_engine.busybox_root()


def compress(layer, how):
    if how == "gzip":
        return gzip.compress(layer, 1, mtime=0)
    if how == "zstd":
        return subprocess.run(["zstd", "-q", "-c"], input=layer, stdout=subprocess.PIPE, check=True).stdout
    return layer


SUFFIX = {"gzip": "+gzip", "zstd": "+zstd", "none": ""}


class Layout:
    """A directory with images in the layout of OCI."""

    def __init__(self, directory):
        self.directory = directory
        (directory / "blobs/sha256").mkdir(parents=True)
        (directory / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
        self.manifests = []

    def blob(self, data, media):
        (self.directory / "blobs/sha256" / sha256(data)).write_bytes(data)
        return {"mediaType": media, "size": len(data), "digest": f"sha256:{sha256(data)}"}

    def manifest(self, layers, config=None, how="gzip", arch="amd64"):
        """The descriptor of a manifest that is not in the index yet."""
        kind = "application/vnd.oci.image"
        document = json.dumps({
            "architecture": arch, "os": "linux", "created": "2026-01-01T00:00:00Z", "config": config or {},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(layer)}" for layer in layers]}})
        body = json.dumps({
            "schemaVersion": 2, "mediaType": f"{kind}.manifest.v1+json",
            "config": self.blob(document.encode(), f"{kind}.config.v1+json"),
            "layers": [self.blob(compress(layer, how), f"{kind}.layer.v1.tar{SUFFIX[how]}")
                       for layer in layers]})
        made = self.blob(body.encode(), f"{kind}.manifest.v1+json")
        made["platform"] = {"architecture": arch, "os": "linux"}
        return made

    def index(self, manifests):
        body = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
                           "manifests": manifests})
        return self.blob(body.encode(), "application/vnd.oci.image.index.v1+json")

    def add(self, tag, layers, config=None, how="gzip", manifest=None):
        made = dict(manifest or self.manifest(layers, config, how))
        made["annotations"] = {"org.opencontainers.image.ref.name": tag}
        self.manifests.append(made)
        (self.directory / "index.json").write_text(json.dumps({"schemaVersion": 2,
                                                                "manifests": self.manifests}))
        return made

    def unpacked(self, tag, directory):
        """The root file system as umoci unpacks it."""
        subprocess.run(["umoci", "unpack", "--image", f"{self.directory}:{tag}", str(directory)], check=True,
                       capture_output=True)
        return directory / "rootfs"


class Registry:
    def __init__(self, directory, port):
        self.directory, self.host, self.port = directory, f"localhost:{port}", port
        self.process = None
        self.users = None

    def write_config(self):
        auth = ""
        if self.users:
            auth = f"auth:\n  htpasswd:\n    realm: test\n    path: {self.users}\n"
        (self.directory / "config.yml").write_text(
            "version: 0.1\nlog:\n  level: error\n"
            f"storage:\n  filesystem:\n    rootdirectory: {self.directory}/data\n  delete:\n    enabled: true\n"
            f"http:\n  addr: 127.0.0.1:{self.port}\n" + auth)

    def start(self):
        self.write_config()
        self.process = subprocess.Popen(["docker-registry", "serve", self.directory / "config.yml"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                time.sleep(0.05)
        raise AssertionError("the registry does not listen")

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def push(self, layout, tag, name, *args):
        """The name of the image in this registry."""
        image = f"{self.host}/{name}"
        subprocess.run(["skopeo", "copy", "--insecure-policy", "--dest-tls-verify=false", *args,
                        f"oci:{layout.directory}:{tag}", f"docker://{image}"], check=True, capture_output=True)
        return image

    def blob_file(self, digest):
        """Where the registry has a blob."""
        digest = digest.removeprefix("sha256:")
        return (self.directory / "data/docker/registry/v2/blobs/sha256" / digest[:2] / digest / "data")

    def tags(self, name):
        with urllib.request.urlopen(f"http://{self.host}/v2/{name}/tags/list") as answer:
            return json.load(answer)["tags"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def registry(directory):
    made = Registry(directory, free_port())
    try:
        yield made.start()
    finally:
        made.stop()


def describe(root):
    """What a tree has: name -> (type and mode, owner, size or target, content, attributes, links)."""
    seen, links = {}, {}
    for directory, names, files in os.walk(root):
        for name in ["."] + names + files if directory == str(root) else names + files:
            path = os.path.join(directory, name)
            st = os.lstat(path)
            content = ""
            if stat.S_ISREG(st.st_mode):
                with open(path, "rb") as file:
                    content = sha256(file.read())
            elif stat.S_ISLNK(st.st_mode):
                content = os.readlink(path)
            attributes = {a: os.getxattr(path, a, follow_symlinks=False)
                          for a in os.listxattr(path, follow_symlinks=False)}
            relative = os.path.normpath(os.path.relpath(path, root))
            if st.st_nlink > 1 and not stat.S_ISDIR(st.st_mode):
                links.setdefault((st.st_dev, st.st_ino), []).append(relative)
            seen[relative] = [oct(st.st_mode), st.st_uid, st.st_gid, content, attributes,
                              None if stat.S_ISDIR(st.st_mode) else st.st_mtime_ns, None]
    for names in links.values():
        for name in names if len(names) > 1 else []:  # another one may be hidden by an upper layer
            seen[name][-1] = sorted(names)
    return seen


def basic(user, password):
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def password_file(directory, user, password):
    """For the option auth.htpasswd, which wants bcrypt."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import crypt  # Debian 12 has no other program or module for bcrypt
    hashed = crypt.crypt(password, "$2y$05$" + "a" * 21 + "u")
    (directory / "users").write_text(f"{user}:{hashed}\n")
    return directory / "users"
