"""All providers of sandboxes under one daemon of our own: native, docker, gvisor, e2b, daytona, vercel, and
a plugin.

    with places.world(["native", "docker"]) as world: ...

A Docker engine and a second Atoll (what e2b, daytona and vercel talk to) are started where they are wanted;
world.places has what works here, world.missing says of the others why not.
"""

import contextlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import docker_engine
from boxes import Box
from daemons import BUILD, Daemon, below, cgroups, need_build, process_files
from faulty import Faulty
from rest import Rest

SERVICES = ["e2b", "daytona", "vercel"]
NAMES = ["native", "docker", "gvisor", *SERVICES, "plugin"]
PLUGIN = Path(__file__).parents[1] / "examples/provider/docker_cli.py"
IMAGE = "atoll-test-python:1"

# What an interpreter does not need to run.
LEFT_OUT = {"test", "tests", "idlelib", "tkinter", "lib2to3", "ensurepip", "distutils",
            "turtledemo", "pydoc_data", "unittest", "dist-packages", "config-3.11-x86_64-linux-gnu"}
LIBRARY = Path("/usr/lib/python3.11")


class Place:
    """One provider, and how to find out what it left behind."""

    is_service = False  # limits are those of the service's templates
    user, uid, home = "user", 1000, "/home/user"  # of commands

    def __init__(self, name, world):
        self.name = name
        self.world = world

    @property
    def rest(self):
        return self.world.rest

    @property
    def facts(self):
        """What the daemon says about it."""
        listed = self.rest.get("/api/providers").json["providers"]
        return next(entry for entry in listed if entry["name"] == self.name)

    def can(self, capability):
        return capability in self.facts["capabilities"]

    def create(self, **fields):
        return Box(self.rest, provider=self.name, **fields)

    @contextlib.contextmanager
    def box(self, **fields):
        made = self.create(**fields)
        try:
            yield made
        finally:
            assert made.destroy() in (204, 404)

    def leftovers(self, box_id):
        """What of a destroyed sandbox is still there, as texts."""
        left = [f"cgroup {path}" for path in cgroups() if box_id in path.name]
        left += [f"file {path}" for path in below(self.world.daemon.state)
                 if box_id in path.name and not {"journal", "ended"} & set(path.parts)]
        left += [f"mount {line}" for line in Path("/proc/self/mountinfo").read_text().splitlines()
                 if box_id in line]
        left += [f"process {pid}" for pid in processes_with(box_id.encode())]
        return left + self.remote_leftovers(box_id)

    def remote_leftovers(self, box_id):
        return []

    def end_from_outside(self, box):
        """Ends a sandbox as somebody else would, whom the daemon knows nothing of."""
        raise NotImplementedError


class Native(Place):
    def end_from_outside(self, box):
        for path in cgroups():
            if path.name == box.id and (path / "cgroup.procs").exists():
                first = min(int(pid) for pid in (path / "cgroup.procs").read_text().split())
                os.kill(first, 9)
                return
        raise AssertionError("no cgroup of that sandbox")


class Docker(Place):
    def remote_leftovers(self, box_id):
        return [f"container {c['Names']}" for c in self.world.engine.containers()
                if box_id in json.dumps(c)]

    def end_from_outside(self, box):
        status, body = self.world.engine.call("POST", f"/containers/atoll-{box.id}/kill")
        assert status == 204, body


class Gvisor(Place):
    def end_from_outside(self, box):
        for pid in processes_with(box.id.encode()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)


class Service(Place):
    """Another Atoll, through one of its facades."""

    is_service = True

    def remotes(self):
        """Those the service has; not those whose end was answered and is under way."""
        listed = self.world.cloud.rest.get("/api/sandboxes").json["sandboxes"]
        return [remote for remote in listed if remote["state"] != "stopping"]

    def remote_leftovers(self, box_id):
        return [f"remote sandbox {r['id']}" for r in self.remotes() if box_id in json.dumps(r)]

    def end_from_outside(self, box):
        for remote in self.remotes():
            if box.id in json.dumps(remote):
                assert self.world.cloud.rest.delete(f"/api/sandboxes/{remote['id']}").status == 204


class Vercel(Service):
    user, uid, home = "vercel-sandbox", 1001, "/home/vercel-sandbox"


class Daytona(Service):
    user, uid, home = "daytona", 1002, "/home/daytona"


class Plugin(Place):
    """The example of docs/plugins.md, on the Docker engine."""

    def remote_leftovers(self, box_id):
        return [f"container {c['Names']}" for c in self.world.engine.containers()
                if box_id in json.dumps(c)]

    def end_from_outside(self, box):
        status, body = self.world.engine.call("POST", f"/containers/atoll-plugin-{box.id}/kill")
        assert status == 204, body


KINDS = {"native": Native, "docker": Docker, "gvisor": Gvisor, "plugin": Plugin,
         **dict.fromkeys(SERVICES, Service), "daytona": Daytona, "vercel": Vercel}


def processes_with(text):
    """Processes in whose command line that is."""
    found = []
    for entry in process_files("cmdline"):
        with contextlib.suppress(OSError):
            if text in entry.read_bytes():
                found.append(int(entry.parent.name))
    return found


def missing(name):
    """Why this provider cannot be had here; None when it can."""
    if os.geteuid() != 0:
        return "needs root"
    if name in ("docker", "plugin"):
        return docker_engine.missing()
    if name == "gvisor" and not shutil.which("runsc"):
        return "runsc is not installed"
    return None


def libraries(programs):
    """The shared libraries they need, by ldd."""
    found = set()
    listed = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        found.update(word for word in line.split()
                     if word.startswith("/") and not word.endswith(":"))
    return found


def add_python(tar):
    """The host's Python, and a home for the user."""
    modules = [str(path) for path in (LIBRARY / "lib-dynload").glob("*.so")]
    for name in sorted(libraries(["/usr/bin/python3.11", *modules])):
        tar.add(os.path.realpath(name), arcname=name)
    for name in ("python3.11", "env"):
        tar.add(f"/usr/bin/{name}", arcname=f"usr/bin/{name}")
    tar.add(LIBRARY, arcname=str(LIBRARY), filter=lambda entry: None if LEFT_OUT & set(
        Path(entry.name).parts) else entry)
    link = tarfile.TarInfo("usr/bin/python3")
    link.type, link.linkname = tarfile.SYMTYPE, "python3.11"
    tar.addfile(link)
    home = tarfile.TarInfo("home/user")
    home.type, home.mode, home.uid, home.gid = tarfile.DIRTYPE, 0o755, 1000, 1000
    tar.addfile(home)


def python_root():
    return docker_engine.busybox_root("root:x:0:0:root:/root:/bin/sh\n"
                                      "user:x:1000:1000::/home/user:/bin/sh\n", add_python)


class World:
    """The daemon with its providers, and what stands behind them."""

    def __init__(self, directory):
        self.directory = directory
        self.places, self.missing = {}, {}
        self.engine = self.cloud = None
        self.faults = {}  # by provider: the proxy before it, where faults are wanted
        self.settings = {}  # by provider, as in providers.yaml; native is there unless it says no
        self.daemon = Daemon(BUILD, directory)
        self.daemon.env |= {"ATOLL_LISTEN": f"127.0.0.1:{docker_engine.free_port()}"}

    @property
    def rest(self):
        return Rest(self.daemon.socket)

    def start_docker(self, stack, faulty, options):
        self.engine = stack.enter_context(docker_engine.start(self.directory / "docker",
                                                              options=options))
        self.engine.import_image(IMAGE, python_root())
        host = self.engine.url
        if faulty:
            path = self.directory / "engine.sock"
            self.faults["docker"] = stack.enter_context(Faulty(self.engine.socket, path))
            host = f"unix://{path}"
        self.settings["docker"] = {"host": host, "default_image": IMAGE}

    def start_plugin(self, stack):
        if not self.engine:
            self.engine = stack.enter_context(docker_engine.start(self.directory / "docker"))
            self.engine.import_image(IMAGE, python_root())
        self.settings["plugin"] = {"program": str(PLUGIN), "default_image": IMAGE,
                                   "settings": {"host": self.engine.url}}

    def start_cloud(self, stack):
        """A second Atoll, whose facades the first one is a client of."""
        directory = self.directory / "cloud"
        directory.mkdir()
        self.cloud = Daemon(BUILD, directory)
        self.cloud.port = docker_engine.free_port()
        self.cloud.env |= {"ATOLL_LISTEN": f"127.0.0.1:{self.cloud.port}", "ATOLL_KEY_RATE": "0"}
        self.cloud.start()
        stack.callback(stop_clean, self.cloud)
        made = Rest(self.cloud.socket).post("/api/keys", {"tenant": "client", "scope": "write"})
        assert made.status == 201, made.body
        self.cloud.rest = Rest(("127.0.0.1", self.cloud.port), {"X-API-Key": made.json["key"]})
        self.cloud.keys = dict.fromkeys(SERVICES, made.json["key"]) | {"e2b": made.json["e2b_key"]}

    def start_service(self, stack, name, faulty):
        if not self.cloud:
            self.start_cloud(stack)
        key = self.directory / "cloud" / f"{name}-key"
        key.write_text(self.cloud.keys[name])
        key.chmod(0o600)
        port = self.cloud.port
        if faulty:
            proxy = stack.enter_context(Faulty(("127.0.0.1", port), ("127.0.0.1", 0)))
            self.faults[name], port = proxy, proxy.address[1]
        url = f"http://127.0.0.1:{port}"
        self.settings[name] = {"api_key_file": str(key), **{
            "e2b": {"api_url": url, "sandbox_url": url},
            "daytona": {"api_url": f"{url}/daytona", "pause": True},
            "vercel": {"api_url": f"{url}/vercel/api"}}[name]}

    def write_settings(self):
        self.daemon.state.mkdir(mode=0o700, exist_ok=True)
        (self.daemon.state / "providers.yaml").write_text(providers_yaml(self.settings))

    def restart(self):
        """kill -9, and a new one."""
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.daemon.start()


def providers_yaml(settings):
    """YAML is a superset of JSON."""
    return json.dumps({"providers": settings}, indent=1) + "\n"


def stop_clean(daemon):
    if daemon.process and daemon.process.poll() is None:
        left = daemon.stop()
        assert not left, f"left behind: {', '.join(left)}"


@contextlib.contextmanager
def world(names=None, faulty=False, docker_options=(), environment=None, **settings):
    """faulty: with proxies before docker and the services; environment: more for the daemon; settings: more
    of providers.yaml, by provider."""
    need_build()
    directory = Path(tempfile.mkdtemp(prefix="atoll-", dir="/tmp"))
    directory.chmod(0o755)
    made = World(directory)
    made.daemon.env |= environment or {}
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        for name in names or NAMES:
            reason = missing(name)
            if reason:
                made.missing[name] = reason
                continue
            made.places[name] = KINDS[name](name, made)
            made.settings.setdefault(name, {})
            if name == "docker":
                made.start_docker(stack, faulty, docker_options)
            elif name in SERVICES:
                made.start_service(stack, name, faulty)
            elif name == "plugin":
                made.start_plugin(stack)
            made.settings[name] |= {"check_seconds": 1, **settings.get(name, {})}
        made.settings.setdefault("native", {"enabled": False})
        made.write_settings()
        made.daemon.start()
        stack.callback(stop_clean, made.daemon)
        yield made
