"""Atoll as a contender: its daemons, its command line, its API."""

import os
import socket
import subprocess
import time
from pathlib import Path

import helpers
from dockerd import last_words
from helpers import BenchError, Helper

POOL = 8  # sandboxes kept ready by the warm daemon; larger than a turn's batch
START_TIMEOUT_S = 20


def binary(name: str) -> Path:
    path = helpers.ROOT / os.environ.get("ATOLL_BUILD", "build") / name
    if not path.exists():
        raise BenchError(f"{path.name} is not built: run make first")
    return path


class Daemon:
    """An atolld with its own state directory and socket."""

    def __init__(self, directory: Path, *options: str):
        self.socket = directory / "socket"
        command = [binary("atolld"), "--state", directory / "state", "--socket", self.socket,
                   *options]
        directory.mkdir(exist_ok=True)
        self.log = directory / "log"
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=out, start_new_session=True)
        try:
            self.wait_until_up()
        except BenchError:
            self.stop()
            raise

    def wait_until_up(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise BenchError(f"atolld could not start: {last_words(self.log)}")
            with socket.socket(socket.AF_UNIX) as s:
                try:
                    s.connect(str(self.socket))
                    return
                except OSError:
                    time.sleep(0.05)
        raise BenchError(f"no atolld within {START_TIMEOUT_S} s: {last_words(self.log)}")

    def stop(self) -> None:
        helpers.stop(self.process)


class Daemons:
    """Starts each daemon when it is first needed; a failure is remembered, not tried again."""

    def __init__(self, stack, tmp: Path):
        self.stack = stack
        self.tmp = tmp
        self.known = {}

    def get(self, name: str, *options: str) -> Daemon:
        if name not in self.known:
            try:
                self.known[name] = Daemon(self.tmp / f"atoll-{name}", *options)
                self.stack.callback(self.known[name].stop)
            except BenchError as e:
                self.known[name] = e
        if isinstance(self.known[name], BenchError):
            raise self.known[name]
        return self.known[name]

    def cold(self) -> Daemon:
        return self.get("cold")

    def many(self) -> Daemon:
        return self.get("many", "--max-sandboxes", "16384")

    def warm(self) -> Daemon:
        known = "warm" in self.known
        daemon = self.get("warm", "--pool", str(POOL))
        if not known:
            time.sleep(1)  # the pool fills in the background
        return daemon

    def stop_warm(self) -> None:
        """Its refills would disturb what is measured next."""
        if isinstance(self.known.get("warm"), Daemon):
            self.known["warm"].stop()


def open_life(stack, bench) -> Helper:
    return bench.client(bench.daemons.cold().socket, "life")


def open_request(stack, bench) -> Helper:
    return bench.client(bench.daemons.cold().socket, "run")


def open_exec(stack, bench) -> Helper:
    return bench.client(bench.daemons.cold().socket, "exec")


def open_pool(stack, bench) -> Helper:
    return bench.client(bench.daemons.warm().socket, "life")


def open_run(stack, bench) -> Helper:
    env = {"ATOLL_SOCKET": str(bench.daemons.cold().socket)}
    return bench.stopwatch([binary("atoll"), "run", "--", "/bin/true"], env)
