"""Containers through Atoll next to the docker command, on one engine, taking turns.

Everything is measured from the command line to its end, on both sides. What a step leaves (the
container of `docker run`, the file that was copied) is removed between the rounds, off the clock.
"""

import json
import os
import statistics
import subprocess
import time
from pathlib import Path

import atoll
import docker_engine
import dockerd
import helpers
from helpers import BenchError

IMAGE = "atoll-bench-busybox:1"
POOL = 4
INSIDE = "/home/big"  # where the file goes; both run as root


class Pair:
    """A plain container and a sandbox of the same image."""

    def __init__(self, fleet, directory: Path):
        directory.mkdir()
        self.engine = dockerd.start(fleet.stack, directory / "docker")
        self.engine.import_image(IMAGE, docker_engine.busybox_root())
        state = directory / "atoll" / "state"
        state.mkdir(parents=True, mode=0o700)
        settings = {"providers": {"docker": {"host": self.engine.url, "default_image": IMAGE,
                                             "pool": POOL}}}
        (state / "providers.yaml").write_text(json.dumps(settings))
        self.daemon = atoll.Daemon(directory / "atoll")
        fleet.stack.callback(self.daemon.stop)
        self.plain = self.docker("run", "-d", "--network", "none", IMAGE, "sleep", "100000")
        fleet.stack.callback(self.docker, "rm", "-f", self.plain)
        self.box = self.atoll("create", "--provider", "docker")
        fleet.stack.callback(self.atoll, "rm", "--all")

    def docker(self, *arguments) -> str:
        return dockerd.docker(self.engine, *arguments)

    def atoll(self, *arguments) -> str:
        done = subprocess.run([atoll.binary("atoll"), *map(str, arguments)], capture_output=True,
                              text=True, check=False,
                              env={**os.environ, "ATOLL_SOCKET": str(self.daemon.socket)})
        if done.returncode != 0:
            raise BenchError(f"atoll {arguments[0]}: {done.stderr.strip()}")
        return done.stdout.strip()

    def wait_for_pool(self) -> None:
        """Until as many wait as there should be; the plain one and ours are not of them."""
        deadline = time.monotonic() + 30
        while len(self.engine.containers()) < POOL + 2:
            if time.monotonic() > deadline:
                raise BenchError("the pool of containers does not fill")
            time.sleep(0.05)
        time.sleep(0.1)


def timed(action) -> tuple:
    start = time.monotonic()
    result = action()
    return time.monotonic() - start, result


def create_round(pair: Pair, samples: dict) -> None:
    seconds, name = timed(lambda: pair.docker("run", "-d", "--network", "none", IMAGE, "sleep",
                                              "100000"))
    samples["docker_run"].append(seconds)
    pair.docker("rm", "-f", name)
    pair.wait_for_pool()
    seconds, name = timed(lambda: pair.atoll("create", "--provider", "docker"))
    samples["create"].append(seconds)
    pair.atoll("rm", name)


def exec_round(pair: Pair, samples: dict) -> None:
    samples["docker_exec"].append(timed(lambda: pair.docker("exec", pair.plain, "true"))[0])
    samples["exec"].append(timed(lambda: pair.atoll("exec", pair.box, "--", "true"))[0])


def copy_round(pair: Pair, samples: dict, source: Path, copy: Path) -> None:
    ways = {"docker": (pair.docker, f"{pair.plain}:{INSIDE}"),
            "atoll": (pair.atoll, f"{pair.box}:{INSIDE}")}
    for who, (command, inside) in ways.items():
        prefix = "docker_" if who == "docker" else ""
        samples[f"{prefix}up"].append(timed(lambda: command("cp", source, inside))[0])
        samples[f"{prefix}down"].append(timed(lambda: command("cp", inside, copy))[0])
        if copy.read_bytes() != source.read_bytes():
            raise BenchError(f"{who}: the copy is not what was sent")
        copy.unlink()
        run = ["exec", pair.plain if who == "docker" else pair.box, *(["--"] * (who == "atoll"))]
        command(*run, "rm", INSIDE)


def measure_providers(fleet, size: int, rounds: int) -> dict:
    pair = Pair(fleet, fleet.tmp / "providers")
    directory = Path("/dev/shm") / f"atoll-bench-{fleet.tmp.name}-files"
    directory.mkdir()
    fleet.stack.callback(helpers.remove_tree, directory)
    source = directory / "source"
    source.write_bytes(os.urandom(1 << 20) * (size >> 20))
    samples = {name: [] for name in ("docker_run", "create", "docker_exec", "exec", "docker_up",
                                     "up", "docker_down", "down")}
    for _ in range(rounds):
        exec_round(pair, samples)
    for _ in range(max(3, rounds // 2)):
        copy_round(pair, samples, source, directory / "copy")
        create_round(pair, samples)
    result = {f"{name}_ms": statistics.median(v) * 1000 for name, v in samples.items()}
    for ours, theirs in (("exec", "docker_exec"), ("up", "docker_up"), ("down", "docker_down"),
                         ("create", "docker_run")):
        result[f"{ours}_ratio"] = result[f"{ours}_ms"] / result[f"{theirs}_ms"]
    return result | {"bytes": size}
