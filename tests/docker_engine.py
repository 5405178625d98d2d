"""A Docker engine for tests: own data, own sockets, no bridge, nothing of the host's.

    with docker_engine.start(directory) as engine: ...
"""

import contextlib
import http.client
import io
import json
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

START_TIMEOUT_S = 40
BUSYBOX = "/bin/busybox"

# dockerd and its containerd also write to fixed places in /etc, /opt and /run. In a mount namespace
# of their own these writes land in a tmpfs, and all their mounts end with the namespace.
PRIVATE = """
mount -t tmpfs tmpfs "$1"
mount -t tmpfs tmpfs /run
for dir in etc opt; do
    mkdir "$1/$dir" "$1/$dir-work"
    mount -t overlay overlay -o "lowerdir=/$dir,upperdir=$1/$dir,workdir=$1/$dir-work" "/$dir"
done
[ -z "$2" ] || mount -o loop "$2" "$3"
shift 3
exec "$@"
"""


def missing():
    """Why there can be no engine here; None when there can."""
    for tool in ("dockerd", "runc", BUSYBOX):
        if not shutil.which(tool):
            return f"{tool} is not installed"
    return "needs root" if os.geteuid() != 0 else None


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("docker")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.path))


class Engine:
    def __init__(self, directory):
        self.directory = directory
        # Paths of sockets may be 107 bytes, and containerd's are long.
        self.short = Path(tempfile.mkdtemp(prefix="atoll-docker-"))
        self.socket = self.short / "docker.sock"
        self.url = f"unix://{self.socket}"
        self.tcp = None  # tcp://... with TLS, and certificates in tls/
        self.tls = directory / "tls"
        self.process = None
        self.command = []
        self.mounts = None  # its mount namespace, which outlives it

    def call(self, method, path, body=None, kind="application/json"):
        """(status, body) of one request."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        with contextlib.closing(UnixConnection(self.socket)) as connection:
            connection.request(method, path, body, {"Content-Type": kind})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def import_image(self, name, tar, *changes):
        repo, tag = name.split(":")
        query = "".join(f"&changes={quote(change)}" for change in changes)
        status, body = self.call("POST", f"/images/create?fromSrc=-&repo={repo}&tag={tag}{query}", tar,
                                 "application/x-tar")
        assert status == 200 and b"error" not in body, body

    def containers(self):
        return json.loads(self.call("GET", "/containers/json?all=1")[1])

    def networks(self):
        return [n["Name"] for n in json.loads(self.call("GET", "/networks")[1])]

    def launch(self):
        """Runs the command, and waits until the engine answers."""
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, start_new_session=True)
        wait_until_up(self)

    def kill(self):
        """SIGKILL for dockerd; its containerd goes with it, containers stay."""
        if not self.mounts:
            self.mounts = open(f"/proc/{self.process.pid}/ns/mnt")
        self.process.kill()
        self.process.wait()
        # Or the next one would wait for a containerd that is dead and only not yet reaped.
        (self.short / "exec/containerd/containerd.pid").unlink(missing_ok=True)

    def launch_again(self):
        self.command = ["nsenter", f"--mount=/proc/{os.getpid()}/fd/{self.mounts.fileno()}",
                        *self.command[self.command.index("dockerd"):]]
        self.launch()

    def log_tail(self):
        lines = (self.directory / "log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-5:])


def busybox_root(users="root:x:0:0:root:/root:/bin/sh\n", more=None):
    """The tar archive of a root file system: busybox under all its names, and an empty rest.
    users: its /etc/passwd; more: a function that adds to it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(BUSYBOX, arcname="bin/busybox")
        for name in subprocess.check_output([BUSYBOX, "--list"], text=True).split():
            if name != "busybox":
                link = tarfile.TarInfo(f"bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
        for name in ("tmp", "root", "usr/bin", "etc", "proc", "sys", "dev", "mnt", "var/tmp", "run",
                     "home"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if "tmp" in name else 0o755
            tar.addfile(entry)
        entry = tarfile.TarInfo("etc/passwd")
        entry.size = len(users)
        tar.addfile(entry, io.BytesIO(users.encode()))
        if more:
            more(tar)
    return out.getvalue()


def make_certificates(directory):
    """A CA, a server's and a client's certificate."""
    directory.mkdir()

    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=directory, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca-key.pem", "-out", "ca.pem",
            "-days", "2", "-subj", "/CN=test ca")
    for name, extension in (("server", "subjectAltName=IP:127.0.0.1"),
                            ("client", "extendedKeyUsage=clientAuth")):
        (directory / "ext").write_text(extension)
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}-key.pem", "-out",
                f"{name}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca-key.pem",
                "-CAcreateserial", "-out", f"{name}.pem", "-days", "2", "-extfile", "ext")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def remove_cgroup(name):
    for line in Path("/proc/self/mounts").read_text().splitlines():
        mount, kind = line.split()[1:3]
        if not kind.startswith("cgroup"):
            continue
        for path, _, _ in os.walk(Path(mount) / name, topdown=False):
            for _ in range(100):
                try:
                    os.rmdir(path)
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.02)  # its last process is still being torn down


def command_of(engine, cgroup, tls, image, options):
    d = engine.directory
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", PRIVATE, "sh",
               d / "private", image or "", d / "data", "dockerd", "--data-root", d / "data",
               "--exec-root", engine.short / "exec", "--pidfile", d / "pid", "--host", engine.url,
               "--config-file", d / "daemon.json", "--iptables=false", "--ip6tables=false",
               "--bridge=none", "--ip-forward=false", "--ip-masq=false", "--userland-proxy=false",
               "--containerd-namespace", cgroup, "--containerd-plugins-namespace", f"{cgroup}-plugins",
               "--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", f"/{cgroup}",
               *options]
    if tls:
        make_certificates(engine.tls)
        engine.tcp = f"tcp://127.0.0.1:{free_port()}"
        command += ["--host", engine.tcp, "--tlsverify", "--tlscacert", engine.tls / "ca.pem",
                    "--tlscert", engine.tls / "server.pem", "--tlskey", engine.tls / "server-key.pem"]
    return command


def wait_until_up(engine):
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if engine.call("GET", "/_ping")[0] == 200:
                return
        if engine.process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"dockerd does not start:\n{engine.log_tail()}")
        time.sleep(0.05)


@contextlib.contextmanager
def start(directory, tls=False, image=None, options=(), bridge=None, config=None):
    """Runs an engine; image: a file with a file system for its data; bridge: it has one, with this
    address, in a network namespace of its own; config: its daemon.json. Ends all it started."""
    engine = Engine(directory)
    cgroup = f"atoll-test-docker-{os.getpid()}-{directory.name}"
    for name in ("private", "data"):
        (directory / name).mkdir(parents=True)
    (directory / "daemon.json").write_text(json.dumps(config or {}))
    if bridge:
        options = [*options, "--bridge=", f"--bip={bridge}/24", "--iptables=true"]
    engine.command = command_of(engine, cgroup, tls, image, options)
    if bridge:
        engine.command.insert(1, "--net")
    try:
        engine.launch()
        yield engine
    finally:
        with contextlib.suppress(Exception):
            for container in engine.containers():
                engine.call("DELETE", f"/containers/{container['Id']}?force=1&v=1")
        engine.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            engine.process.wait(30)
        if engine.process.poll() is None:
            engine.process.kill()
            engine.process.wait()
        remove_cgroup(cgroup)
        shutil.rmtree(engine.short, ignore_errors=True)
