"""`docker run` by a daemon of our own: own data, own socket, no bridge, nothing of the host's."""

import io
import os
import subprocess
import tarfile
import time
from pathlib import Path

import helpers
from helpers import BenchError, Helper

IMAGE = "atoll-bench"
START_TIMEOUT_S = 30

# dockerd and its containerd also write to fixed places in /etc, /opt and /run. In a mount namespace
# of their own these writes land in a tmpfs, and all their mounts end with the namespace.
PRIVATE = """
mount -t tmpfs tmpfs "$1"
mount -t tmpfs tmpfs /run
for dir in etc opt; do
    mkdir "$1/$dir" "$1/$dir-work"
    mount -t overlay overlay -o "lowerdir=/$dir,upperdir=$1/$dir,workdir=$1/$dir-work" "/$dir"
done
shift
exec "$@"
"""


def root_tar(static_true: Path) -> bytes:
    """A root file system with nothing but a static `true`: the best case for docker."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(static_true, arcname="true")
    return out.getvalue()


def last_words(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return " | ".join(lines[-3:]) or "it said nothing"


def start(stack, directory: Path) -> dict:
    """Starts dockerd and waits until it answers; returns the environment for its clients."""
    docker, dockerd = helpers.need_tool("docker"), helpers.need_tool("dockerd")
    private = directory / "private"
    private.mkdir(parents=True)
    socket, log = directory / "docker.sock", directory / "log"
    cgroup = f"atoll-bench-docker-{os.getpid()}"
    command = ["unshare", "--mount", "--propagation", "private",
               "sh", "-ec", PRIVATE, "sh", private, dockerd, "--data-root", directory / "data", "--exec-root", directory / "exec",
               "--pidfile", directory / "pid", "--host", f"unix://{socket}",
               "--config-file", directory / "none.json",
               "--iptables=false", "--ip6tables=false", "--bridge=none", "--ip-forward=false",
               "--ip-masq=false", "--userland-proxy=false",
               "--containerd-namespace", IMAGE,
               "--containerd-plugins-namespace", f"{IMAGE}-plugins",
               "--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", f"/{cgroup}"]
    (directory / "none.json").write_text("{}")
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                   start_new_session=True)
    stack.callback(helpers.remove_cgroup, cgroup)
    stack.callback(helpers.stop, process)
    env = {"DOCKER_HOST": f"unix://{socket}", "DOCKER_CONFIG": str(directory / "client")}
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        answer = subprocess.run([docker, "version"], env={**os.environ, **env}, check=False,
                                capture_output=True)
        if answer.returncode == 0:
            return env
        if process.poll() is not None:
            raise BenchError(f"dockerd could not start: {last_words(log)}")
        if time.monotonic() > deadline:
            raise BenchError(f"dockerd did not answer in {START_TIMEOUT_S} s: {last_words(log)}")
        time.sleep(0.1)


def open_docker(stack, bench) -> Helper:
    env = start(stack, bench.tmp / "docker")
    docker = helpers.need_tool("docker")
    imported = subprocess.run([docker, "import", "-", IMAGE], input=root_tar(bench.static_true),
                              env={**os.environ, **env}, capture_output=True, check=False)
    if imported.returncode != 0:
        raise BenchError(f"docker import: {imported.stderr.decode(errors='replace').strip()}")
    return bench.stopwatch([docker, "run", "--rm", "--network", "none", IMAGE, "/true"], env)
