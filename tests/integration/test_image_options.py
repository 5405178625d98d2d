"""What an operator says about registries, logins of pushes, a full disk during a pull, and a Docker engine as a
reader of what Atoll pushes and saves."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

import docker_engine
import pytest
import registries
from conftest import BUILD, Daemon, need_build
from rest import Rest

pytestmark = pytest.mark.skipif(bool(registries.missing()) or os.geteuid() != 0,
                                reason=registries.missing() or "needs root")

CONFIG = {"Env": ["PATH=/bin:/usr/bin", "GREETING=from the image"], "Cmd": ["/bin/echo", "it runs"]}


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """A source for skopeo."""
    layout = registries.Layout(tmp_path_factory.mktemp("layout") / "oci")
    upper = registries.tar_of({"srv/mark": b"upper layer\n"})
    return layout.name("it", layout.image([docker_engine.busybox_root(), upper], CONFIG))


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with registries.running(tmp_path_factory.mktemp("registry")) as made:
        yield made


@pytest.fixture(scope="module")
def locked(tmp_path_factory, image):
    """A registry that requires a login, with the image private/it:1."""
    directory = tmp_path_factory.mktemp("locked")
    with registries.running(directory, **registries.basic_auth(directory)) as made:
        made.push(image, "private/it:1", f"--dest-creds={registries.USER}:{registries.PASSWORD}")
        yield made


@contextlib.contextmanager
def own_daemon(state=None, **environment):
    """A daemon with options; without logins of Docker."""
    need_build()
    directory = Path(tempfile.mkdtemp(prefix="atoll-", dir="/tmp"))
    daemon = Daemon(BUILD, directory)
    daemon.env |= {"HOME": str(directory), **environment}
    if state:
        daemon.state = state
    daemon.start()
    left = []
    try:
        yield daemon
    finally:
        left = daemon.stop()
        shutil.rmtree(directory, ignore_errors=True)
    assert left == ([f"mount {state}"] if state else [])  # which the test made


def own_address():
    """An address of this host that is not on its loopback interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this host has no network address")
        return probe.getsockname()[0]


def copy(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def forwarded(host):
    """The registry at an address of this host."""
    address, port = host.split(":")
    listener = socket.create_server((own_address(), 0))

    def accept():
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection((address, int(port)))
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=copy, args=pair, daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
    try:
        yield "%s:%d" % listener.getsockname()
    finally:
        listener.close()


def test_mirrors(registry, image):
    registry.push(image, "library/mirrored:1")
    with own_daemon(ATOLL_IMAGE_MIRROR=f"docker.io=http://{registry.host}") as daemon:
        daemon.atoll("pull", "mirrored:1", check=True)
        assert [i["reference"] for i in Rest(daemon.socket).get("/api/images").json["images"]] == [
            "docker.io/library/mirrored:1"]
        assert daemon.atoll("run", "--image", "mirrored:1", check=True).stdout == "it runs\n"


def test_insecure_registries(registry, image):
    registry.push(image, "insecure:1")
    with forwarded(registry.host) as host:
        with own_daemon() as daemon:  # speaks https there
            assert daemon.atoll("pull", f"{host}/insecure:1").returncode != 0
        with own_daemon(ATOLL_IMAGE_INSECURE=host) as daemon:
            daemon.atoll("pull", f"{host}/insecure:1", check=True)
            key = daemon.atoll("key", "create", "--tenant", "other", check=True).stdout.strip()
            other = Rest(daemon.socket, {"Authorization": f"Bearer {key}"})
            refused = other.post("/api/images/pull", {"image": f"{registry.host}/insecure:1"})
            assert refused.status == 403, refused.body  # the same registry by an address that is not listed
            assert other.post("/api/images/pull", {"image": f"{host}/insecure:1"}).status == 200


def test_logins_for_all_tenants(locked, tmp_path):
    name = f"{locked.host}/private/it:1"
    with own_daemon() as daemon:
        refused = daemon.atoll("pull", name)
        assert refused.returncode != 0 and registries.PASSWORD not in refused.stderr
    logins = registries.docker_config(tmp_path / "logins.json", locked.host)
    with own_daemon(ATOLL_IMAGE_LOGINS=str(logins)) as daemon:
        daemon.atoll("pull", name, check=True)
        assert daemon.atoll("run", "--image", name, "--", "cat", "/srv/mark", check=True).stdout == "upper layer\n"


def test_a_push_with_a_login(locked, registry, image, tmp_path):
    registry.push(image, "open:1")
    target = f"{locked.host}/pushed/it:1"
    with own_daemon() as daemon:
        daemon.atoll("pull", f"{registry.host}/open:1", check=True)
        refused = daemon.atoll("push", f"{registry.host}/open:1", target)
        assert refused.returncode != 0 and "login" in refused.stderr, refused.stderr
        registries.docker_config(tmp_path / "config.json", locked.host)
        daemon.env["DOCKER_CONFIG"] = str(tmp_path)
        daemon.atoll("push", f"{registry.host}/open:1", target, check=True)
    shown = registries.skopeo("inspect", "--tls-verify=false", "--config",
                              f"--creds={registries.USER}:{registries.PASSWORD}", f"docker://{target}")
    assert "GREETING=from the image" in shown


def test_a_full_disk_during_a_pull(registry, image, tmp_path):
    """The error names the full disk, nothing incomplete stays, and the next pull works."""
    layout = registries.Layout(tmp_path / "large")
    large = layout.image([registries.tar_of({"large": os.urandom(48 << 20)})])
    registry.push(layout.name("large", large), "large:1")
    registry.push(image, "fits:1")
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", state], check=True)
    try:
        with own_daemon(state=state) as daemon:
            failed = daemon.atoll("pull", f"{registry.host}/large:1")
            assert failed.returncode != 0 and ("disk" in failed.stderr or "space" in failed.stderr), failed.stderr
            assert Rest(daemon.socket).get("/healthz").status == 200
            assert Rest(daemon.socket).get("/api/images").json["images"] == []
            daemon.atoll("pull", f"{registry.host}/fits:1", check=True)
            assert len(Rest(daemon.socket).get("/api/images").json["images"]) == 1
    finally:
        subprocess.run(["umount", "-l", state], check=True)


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    if docker_engine.missing():
        pytest.skip(docker_engine.missing())
    with docker_engine.start(tmp_path_factory.mktemp("docker")) as made:
        yield made


def docker(engine, *arguments):
    done = subprocess.run(["docker", *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "DOCKER_HOST": engine.url, "DOCKER_CONFIG": str(engine.directory)})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_docker_engine_runs_what_was_built_here(daemon, engine, registry, image, tmp_path):
    registry.push(image, "base:1")
    (tmp_path / "Dockerfile").write_text(f"FROM {registry.host}/base:1\n"
                                         "RUN echo built > /srv/built && chmod 640 /srv/built && rm /srv/mark\n"
                                         "ENV MORE=yes\n")
    daemon.atoll("build", "-q", "-t", "for-docker", str(tmp_path), check=True)
    target = f"{registry.host}/for-docker:1"
    daemon.atoll("push", "for-docker", target, check=True)
    archive = tmp_path / "saved.tar"
    daemon.atoll("template", "save", "for-docker", "-o", str(archive), check=True)
    docker(engine, "pull", "-q", target)
    loaded = docker(engine, "load", "-q", "-i", archive)
    loaded = loaded.strip().removeprefix("Loaded image: ").removeprefix("Loaded image ID: ")
    look = "echo $GREETING $MORE; stat -c '%a %u %n' /srv/*; cat /srv/built"
    for name in (target, loaded):
        assert docker(engine, "run", "--rm", "--network", "none", name) == "it runs\n"
        assert docker(engine, "run", "--rm", "--network", "none", name, "/bin/sh", "-c", look) == (
            "from the image yes\n640 0 /srv/built\nbuilt\n")
