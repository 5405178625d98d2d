"""A daemon of a test's own, to be killed.

As a program it prints the daemon's URL and key as one line of JSON. For each line that it reads it kills the daemon with
SIGKILL, starts the next one and prints "started"; at the end of its input it stops the daemon.
"""

import contextlib
import json
import shutil
import socket
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from daemons import BUILD, Daemon  # noqa: E402


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def kill_and_restart(daemon):
    daemon.process.kill()
    daemon.process.wait()
    daemon.start()


@contextlib.contextmanager
def mortal_daemon():
    """The daemon, its URL for SDKs and its key."""
    directory = Path(tempfile.mkdtemp(prefix="atoll-", dir="/tmp"))
    daemon, address = Daemon(BUILD, directory), f"127.0.0.1:{free_port()}"
    daemon.env["ATOLL_LISTEN"] = address
    daemon.start()
    yield daemon, f"http://{address}/daytona", (daemon.state / "api-key").read_text().strip()
    left = daemon.stop()
    assert not left, left
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    with mortal_daemon() as (made, url, key):
        print(json.dumps({"url": url, "key": key}), flush=True)
        for _ in sys.stdin:
            kill_and_restart(made)
            print("started", flush=True)
