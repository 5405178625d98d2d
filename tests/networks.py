"""Network namespaces for tests: `near`, where a daemon runs, and `far`, its internet.

    near                                far
      lo  203.0.113.1                     lo  203.0.113.10 … 203.0.113.19, 2001:db8::10 …
      veth 198.51.100.1  ───────────────  veth 198.51.100.2

Everything that is not near is routed to far. Names are those of a file that the daemon sees as
/etc/hosts. Servers are sockets of this process that were opened over there, or programs that run there;
their certificates are from a CA that is in the bundle of the daemon's host."""

import contextlib
import ctypes
import http.server
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

from certificates import Authority
from daemons import BUILD, Daemon, need_build, start_time, wait_until

CLONE_NEWNET = 0x40000000
NEAR = "203.0.113.1"  # an address of the daemon's host
FAR = [f"203.0.113.{number}" for number in range(10, 20)]
FAR6 = [f"2001:db8::{number}" for number in range(10, 20)]
NAMES = {f"{name}.test": address for name, address in
         zip(("one", "two", "three", "www.one", "deep.www.one"), FAR, strict=False)}
BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
ENTER = ('mount --bind "$0/hosts" /etc/hosts && '
         f'if [ -e {BUNDLE} ]; then mount --bind "$0/bundle" {BUNDLE}; fi && exec "$@"')


def why_not():
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not shutil.which("ip"):
        return "there is no ip"
    return None


def ip(*words, pid=None):
    enter = ["nsenter", "-t", str(pid), "-n"] if pid else []
    subprocess.run([*enter, "ip", *map(str, words)], check=True, capture_output=True)


class Namespace:
    """One network namespace, held by a process that sleeps."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        own = os.readlink("/proc/self/ns/net")
        wait_until(lambda: os.readlink(f"/proc/{self.holder.pid}/ns/net") != own, 10,
                   lambda: "no network namespace")
        self.ip("link", "set", "lo", "up")

    def ip(self, *words):
        ip(*words, pid=self.holder.pid)

    def inside(self, function):
        """What the function returns when it is called by a thread in this namespace."""
        result = []

        def enter():
            with open(f"/proc/{self.holder.pid}/ns/net", "rb") as ns:
                if ctypes.CDLL(None, use_errno=True).setns(ns.fileno(), CLONE_NEWNET) < 0:
                    raise OSError(ctypes.get_errno(), "setns")
            result.append(function())

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        return result[0]

    def listen(self, address, port=0):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return self.inside(lambda: socket.create_server((address, port), family=family))

    def start(self, *command):
        """Starts a program in this namespace, which says "ready" on its stdout."""
        program = subprocess.Popen(["nsenter", "-t", str(self.holder.pid), "-n", *map(str, command)],
                                   stdout=subprocess.PIPE, text=True)
        assert program.stdout.readline() == "ready\n", command
        return program

    def close(self):
        self.holder.kill()
        self.holder.wait()


class Page(http.server.BaseHTTPRequestHandler):
    """Says who was asked, and under which name."""

    protocol_version = "HTTP/1.1"
    noted = "Host"  # the header that `asked` of the server has of each request

    def do_GET(self):
        self.server.asked.append(self.headers.get(self.noted))
        body = f"{self.server.name} {self.headers.get('Host')} {self.path}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Web(http.server.ThreadingHTTPServer):
    """A server of pages at a socket that listens already."""

    daemon_threads = True

    def __init__(self, listening, name, certificate=None):
        super().__init__(listening.getsockname()[:2], Page, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(listening, server_side=True)
        self.name, self.asked = name, []
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass  # clients that end early

    def close(self):
        self.shutdown()
        self.server_close()


class Networks:
    def __init__(self, directory):
        self.near, self.far = Namespace(), Namespace()
        self.directory, self.authority = directory, Authority(directory)
        trusted = BUNDLE.read_text() if BUNDLE.exists() else ""
        (directory / "bundle").write_text(trusted + self.authority.cert.read_text())
        (directory / "hosts").write_text("127.0.0.1 localhost\n" +
                              "".join(f"{at} {name}\n" for name, at in NAMES.items()))
        self.near.ip("addr", "add", f"{NEAR}/32", "dev", "lo")
        ip("link", "add", "far0", "netns", self.near.holder.pid, "type", "veth",
           "peer", "name", "near0", "netns", self.far.holder.pid)
        for place, device, number in ((self.near, "far0", 1), (self.far, "near0", 2)):
            place.ip("addr", "add", f"198.51.100.{number}/24", "dev", device)
            place.ip("addr", "add", f"2001:db8:1::{number}/64", "dev", device, "nodad")
            place.ip("link", "set", device, "up")
        for four, six in zip(FAR, FAR6, strict=True):
            self.far.ip("addr", "add", f"{four}/32", "dev", "lo")
            self.far.ip("addr", "add", f"{six}/128", "dev", "lo")
        self.near.ip("route", "add", "default", "via", "198.51.100.2")
        self.near.ip("route", "add", "default", "via", "2001:db8:1::2")

    @property
    def launcher(self):
        """For Daemon.launcher."""
        return ["nsenter", "-t", str(self.near.holder.pid), "-n", "unshare", "--mount",
                "--propagation", "private", "sh", "-ec", ENTER, str(self.directory)]

    def close(self):
        self.near.close()
        self.far.close()


@contextlib.contextmanager
def networked(build=BUILD, user=None, files=None, **environment):
    """A daemon whose host is `near`, as daemon.networks; files: the limit of descriptors for each of its
    processes; the rest as for daemons.running()."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    need_build()
    directory = Path(tempfile.mkdtemp(prefix="atoll-", dir="/tmp"))
    directory.chmod(0o755)
    if user:
        os.chown(directory, user.pw_uid, user.pw_gid)
    networks = Networks(directory)
    daemon = Daemon(build, directory, user)
    daemon.networks, daemon.launcher = networks, networks.launcher
    if files:
        daemon.launcher = ["prlimit", f"--nofile={files}:{files}", *daemon.launcher]
    daemon.env |= environment
    left = []
    try:
        daemon.start()
        yield daemon
    finally:
        if daemon.process and daemon.process.poll() is None:
            left = daemon.stop()
        networks.close()
        if not left:
            shutil.rmtree(directory, ignore_errors=True)
    assert not left, f"left behind: {', '.join(left)}"


def egress_of(daemon):
    """Its supervisor and its worker, those that live, as (pid, start time)."""
    names = {"egress-keeper": "supervisor", "atoll-egress": "worker"}
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"/atoll-egress") and words[1] == str(daemon.state).encode():
                name = Path("/proc", pid, "comm").read_text().strip()
                found[names[name]] = (int(pid), start_time(int(pid)))
    return found
