"""Builds the C helpers and talks to them; finds and removes what a run leaves on the machine."""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FLAGS = ("-std=c17 -D_GNU_SOURCE -O2 -Wall -Wextra -Wshadow -Wvla -Wformat=2 -Wstrict-prototypes "
         "-Wmissing-prototypes -Werror").split()
COMMON = ["rounds.c", "../../src/base/error.c"]
PROGRAMS = {
    "floor": ["floor.c", "floor_cgroup.c", "floor_root.c"],
    "spawn": ["spawn.c"],
    "client": ["client.c", "client_api.c", "client_fleet.c", "http.c"],
}
ANSWER_TIMEOUT_S = 180


class BenchError(Exception):
    """Something could not be measured. The text says what and why."""


def build(out: Path) -> None:
    """Compiles every helper into `out`, and the static `true` for the docker image."""
    compiler = os.environ.get("CC", "cc")
    for name, sources in PROGRAMS.items():
        paths = [str(HERE / s) for s in sources + COMMON]
        compile_one([compiler, *FLAGS, "-pthread", f"-I{ROOT}/src", f"-I{HERE}",
                     "-o", str(out / name), *paths])
    (out / "true.c").write_text("int main(void) { return 0; }\n")
    compile_one([compiler, "-Os", "-s", "-static", "-o", str(out / "true"), str(out / "true.c")])


def compile_one(command: list) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as e:
        raise BenchError(f"{command[0]}: {e.strerror}") from e
    if done.returncode != 0:
        raise BenchError("a helper does not compile:\n" + done.stderr)


class Helper:
    """A helper process: one line to it, lines back. See rounds.h for the protocol."""

    def __init__(self, argv: list, env: dict = None):
        self.argv = [str(a) for a in argv]
        self.buffer = b""
        self.process = subprocess.Popen(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env={**os.environ, **(env or {})})
        try:
            self.hello = self.line().removeprefix("ready").strip()
        except BenchError:
            self.close()
            raise

    def line(self) -> str:
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        out = self.process.stdout.fileno()
        while b"\n" not in self.buffer:
            wait = deadline - time.monotonic()
            if wait <= 0 or not select.select([out], [], [], wait)[0]:
                raise BenchError(f"no answer within {ANSWER_TIMEOUT_S} s")
            data = os.read(out, 65536)
            if not data:
                raise BenchError(f"{Path(self.argv[0]).name} ended without an answer")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        text = line.decode(errors="replace")
        if text.startswith("error "):
            raise BenchError(text.removeprefix("error "))
        return text

    def ask(self, text: str) -> str:
        try:
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError as e:
            raise BenchError(f"{Path(self.argv[0]).name} is gone") from e
        return self.line()

    def rounds(self, count: int) -> list:
        first = self.ask(str(count))
        return [float(first)] + [float(self.line()) for _ in range(count - 1)]

    def close(self) -> None:
        """The end of its input lets a helper clean up after itself."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        stop(self.process, term_after_s=30)
        self.process.stdout.close()


def stop(process: subprocess.Popen, term_after_s: float = 0, kill_after_s: float = 20) -> None:
    """Waits, then asks with SIGTERM, then insists. Only ever a process this program started."""
    for wait, action in ((term_after_s, process.terminate), (kill_after_s, process.kill)):
        try:
            process.wait(timeout=wait)
            return
        except subprocess.TimeoutExpired:
            action()
    process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def need_tool(name: str) -> str:
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not path:
        raise BenchError(f"{name} is not installed")
    return path


def become_subreaper() -> None:
    """Processes orphaned by a daemon we stop become our children, so kill_orphans() finds them."""
    pr_set_child_subreaper = 36
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def our_children() -> list:
    children = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile
        if int(fields[1]) == os.getpid():
            children.append(int(stat.parent.name))
    return children


def reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def kill_orphans(patience_s: float = 10) -> int:
    """Ends every process that descends from us and does not end by itself; only right once all helpers are
    closed. atoll-spawn ends after its daemon: taking the disk pool down writes what is left."""
    killed = 0
    deadline = time.monotonic() + patience_s
    while our_children() and time.monotonic() < deadline:
        reap()
        time.sleep(0.02)
    for _ in range(1000):
        children = our_children()
        if not children:
            break
        for pid in children:
            try:
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                    killed += 1
            except (ChildProcessError, ProcessLookupError):
                pass
    return killed


def mounts_below(directory: Path) -> list:
    targets = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [t for t in targets if t.startswith(f"{directory}/")]


def remove_tree(directory: Path) -> None:
    """Never walks into a mount a daemon may have left there: that could be the host's own /usr."""
    for target in reversed(mounts_below(directory)):
        subprocess.run(["umount", "--lazy", target], check=False, capture_output=True)
    if not mounts_below(directory):
        shutil.rmtree(directory, ignore_errors=True)


def cgroup_mounts() -> list:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [Path(f[1]) for f in map(str.split, lines) if f[2] in ("cgroup", "cgroup2")]


def remove_cgroup(name: str) -> None:
    """Removes the (empty) cgroup `name` and everything below it from every hierarchy."""
    for mount in cgroup_mounts():
        for path, _, _ in os.walk(mount / name, topdown=False):
            for _ in range(100):
                try:
                    os.rmdir(path)
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.02)  # its last process is still being torn down
