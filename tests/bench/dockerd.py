"""`docker run` by a daemon of our own; see docker_engine.py in the directory above."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import docker_engine
import helpers
from helpers import BenchError, Helper

IMAGE = "atoll-bench:1"


def root_tar(static_true: Path) -> bytes:
    """A root file system with nothing but a static `true`: the best case for docker."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(static_true, arcname="true")
    return out.getvalue()


def last_words(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return " | ".join(lines[-3:]) or "it said nothing"


def start(stack, directory: Path) -> docker_engine.Engine:
    helpers.need_tool("docker")
    helpers.need_tool("dockerd")
    try:
        return stack.enter_context(docker_engine.start(directory))
    except AssertionError as e:
        raise BenchError(str(e)) from e


def client_env(engine: docker_engine.Engine) -> dict:
    """For the docker command."""
    return {"DOCKER_HOST": engine.url, "DOCKER_CONFIG": str(engine.directory / "client")}


def docker(engine: docker_engine.Engine, *arguments) -> str:
    done = subprocess.run([helpers.need_tool("docker"), *map(str, arguments)], text=True,
                          env={**os.environ, **client_env(engine)}, capture_output=True,
                          check=False)
    if done.returncode != 0:
        raise BenchError(f"docker {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def open_docker(stack, bench) -> Helper:
    engine = start(stack, bench.tmp / "docker")
    engine.import_image(IMAGE, root_tar(bench.static_true))
    return bench.stopwatch([helpers.need_tool("docker"), "run", "--rm", "--network", "none", IMAGE,
                            "/true"], client_env(engine))
