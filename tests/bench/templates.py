"""Templates: creates from many layers, builds next to buildah and docker, unpacking next to tar, shared layers.

Each function is a measurement of its own, so that one that breaks loses no other.
"""

import os
import shutil
import statistics
import subprocess
import tarfile
import time
from pathlib import Path

import atoll
import docker_engine
import dockerd
import helpers
from helpers import BenchError
from network import Api

LAYERS = 10
BASE = "bench-base"


def run(command: list, **more) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        raise BenchError(f"{Path(command[0]).name} {command[1]}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def timed_ms(command: list, **more) -> float:
    start = time.perf_counter()
    run(command, **more)
    return (time.perf_counter() - start) * 1e3


class Builder:
    """A daemon of its own with the template BASE, and folders for Dockerfiles."""

    def __init__(self, fleet, name: str):
        self.directory = fleet.tmp / name
        self.directory.mkdir()
        self.daemon = atoll.Daemon(self.directory / "atoll")
        fleet.stack.callback(self.daemon.stop)
        self.state = self.directory / "atoll" / "state"
        self.env = {**os.environ, "ATOLL_SOCKET": str(self.daemon.socket)}
        self.root = self.directory / "root.tar"
        self.root.write_bytes(docker_engine.busybox_root())
        run([atoll.binary("atoll"), "template", "import", BASE, self.root], env=self.env)

    def folder(self, name: str, dockerfile: str, files: dict = None) -> Path:
        path = self.directory / name
        path.mkdir()
        (path / "Dockerfile").write_text(dockerfile)
        for file, content in (files or {}).items():
            (path / file).write_bytes(content)
        return path

    def build(self, tag: str, folder: Path, *options: str) -> float:
        return timed_ms([atoll.binary("atoll"), "build", "-q", "-t", tag, *options, folder], env=self.env)


def steps(count: int, base: str = BASE) -> str:
    return f"FROM {base}\n" + "".join(f"RUN echo {i} > /srv-{i}\n" for i in range(count - 1)) + "COPY file /srv-file\n"


def measure_layers(fleet, rounds: int) -> dict:
    """Creates of a stack of layers and of the host template, in turns."""
    builder = Builder(fleet, "layers")
    builder.build("many", builder.folder("many", steps(LAYERS - 1), {"file": b"x"}))
    api = Api(builder.daemon.socket)
    layers = api.call("GET", "/api/templates/many")["layers"]
    if len(layers) != LAYERS:
        raise BenchError(f"the template has {len(layers)} layers")
    samples = {"host": [], "many": []}
    for number in range(rounds + 5):
        for template, values in samples.items():
            start = time.perf_counter()
            sandbox = api.call("POST", "/api/sandboxes", {"template": template})["id"]
            if number >= 5:  # the first ones are warm-up
                values.append((time.perf_counter() - start) * 1e3)
            api.destroy(sandbox)
    ms = {template: statistics.median(values) for template, values in samples.items()}
    return {"rounds": rounds, "layers": LAYERS, "host_ms": ms["host"], "layers_ms": ms["many"],
            "ratio": ms["many"] / ms["host"]}


def measure_rebuild(fleet, rounds: int) -> dict:
    """The whole command, when nothing has changed."""
    builder = Builder(fleet, "rebuild")
    folder = builder.folder("same", steps(10), {"file": b"x" * 4096})
    first = builder.build("same", folder)
    again = sorted(builder.build("same", folder) for _ in range(rounds))
    return {"rounds": rounds, "first_ms": first, "again_ms": statistics.median(again), "least_ms": again[0]}


def fill(directory: Path, total: int) -> None:
    """Two large files, and many small ones, which are a quarter of that together."""
    noise = os.urandom(1 << 20)
    for name in ("one", "two"):
        path = directory / "large" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as out:
            for i in range(total // 2 >> 20):
                out.write(noise[i:] + noise[:i])
    for i in range(total >> 16):
        path = directory / "small" / f"{i % 64}" / f"{i}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(noise[i % 4096:][:16 << 10])


def unpack_ms(command: list, out: Path, source: Path) -> float:
    """One run into an empty directory; what earlier runs wrote is on the disk before."""
    helpers.remove_tree(out)
    out.mkdir()
    os.sync()
    with source.open("rb") as archive:
        return timed_ms([*command, out], stdin=archive)


def measure_unpack(fleet, total: int, rounds: int) -> dict:
    """atoll-unpack, which also makes digests, next to tar: the best of some rounds of each, in turns."""
    directory = fleet.tmp / "unpack"
    fill(directory / "tree", total)
    out, result = directory / "out", {"bytes": total, "rounds": rounds}
    for kind in ("large", "small"):
        for end, mode in ((".tar", "w"), (".tar.gz", "w:gz")):
            source = directory / f"{kind}{end}"
            with tarfile.open(source, mode, **({"compresslevel": 1} if end != ".tar" else {})) as tar:
                tar.add(directory / "tree" / kind, arcname=kind)
            theirs = [helpers.need_tool("tar"), "-xz" if end != ".tar" else "-x", "-C"]
            times = {"tar": [], "atoll": []}
            for _ in range(rounds):
                times["tar"].append(unpack_ms(theirs, out, source))
                times["atoll"].append(unpack_ms([atoll.binary("atoll-unpack")], out, source))
            name = kind + ("_gzip" if end != ".tar" else "")
            result[f"{name}_ratio"] = min(times["tar"]) / min(times["atoll"])
            size = total if kind == "large" else total >> 2
            result[f"{name}_mb_per_second"] = size / min(times["atoll"]) / 1e3
    helpers.remove_tree(directory)
    return result


def bytes_below(directory: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in directory.rglob("*"))


def measure_shared(fleet, count: int, size: int) -> dict:
    """Templates that begin with the same one use its bytes once."""
    builder = Builder(fleet, "shared")
    builder.build("large", builder.folder("large", f"FROM {BASE}\nCOPY file /file\n", {"file": os.urandom(size)}))
    before = bytes_below(builder.state / "layers")
    start = time.perf_counter()
    for i in range(count):
        builder.build(f"on-{i}", builder.folder(f"on-{i}", f"FROM large\nRUN echo {i} > /number\n"))
    seconds = time.perf_counter() - start
    after = bytes_below(builder.state / "layers")
    return {"templates": count, "base_bytes": before, "bytes": after, "ratio": after / before,
            "each_ms": seconds * 1e3 / count}


def with_docker(fleet, builder: Builder):
    engine = dockerd.start(fleet.stack, builder.directory / "docker")
    engine.import_image(f"{BASE}:latest", builder.root.read_bytes())
    env = {**os.environ, **dockerd.client_env(engine)}
    command = [helpers.need_tool("docker"), "build", "-q", "--no-cache", "--network", "none", "-t", "made"]
    return lambda folder: timed_ms([*command, folder], env=env)


def with_buildah(fleet, builder: Builder):
    directory = builder.directory / "buildah"
    directory.mkdir()
    command = [helpers.need_tool("buildah"), "--root", directory / "root", "--runroot", directory / "run",
               "--storage-driver", "vfs"]
    env = {**os.environ, "TMPDIR": str(directory), "BUILDAH_ISOLATION": "chroot"}
    base = builder.folder("buildah-base", "FROM scratch\nADD root.tar /\n")
    shutil.copy(builder.root, base / "root.tar")
    run([*command, "bud", "-t", BASE, base], env=env)
    fleet.stack.callback(run, [*command, "rmi", "--all", "--force"], env=env)
    return lambda folder: timed_ms([*command, "bud", "-q", "--no-cache", "--pull-never", "--layers", "-t", "made",
                                    folder], env=env)


def measure_builders(fleet, rounds: int) -> dict:
    """A Dockerfile of ten steps without a network, from nothing but its base. A builder that is not here has no
    figure; that of docker and that of buildah are targets of their own."""
    builder = Builder(fleet, "builders")
    folder = builder.folder("ten", steps(10), {"file": b"x" * 4096})
    contenders = {"atoll": lambda path: builder.build("made", path, "--no-cache")}
    result = {"rounds": rounds}
    for name, make in (("buildah", with_buildah), ("docker", with_docker)):
        try:
            contenders[name] = make(fleet, builder)
        except BenchError as e:
            result[f"{name}_problem"] = str(e)
    samples = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, values in samples.items():
            values.append(contenders[name](folder))
    for name, values in samples.items():
        result[f"{name}_ms"] = statistics.median(values)
        if name != "atoll":
            result[f"{name}_ratio"] = result[f"{name}_ms"] / result["atoll_ms"]
    return result
