"""A daemon that also serves TCP, on a port of its own."""

import contextlib
import shutil
import socket
import tempfile
from pathlib import Path

from conftest import BUILD, Daemon, need_build


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def listening_daemon(**environment):
    """(daemon, (host, port)); environment: more for atolld, as in ATOLL_LOG_LEVEL="debug"."""
    need_build()
    directory = Path(tempfile.mkdtemp(prefix="atoll-", dir="/tmp"))
    daemon = Daemon(BUILD, directory)
    address = ("127.0.0.1", free_port())
    daemon.env |= {"ATOLL_LISTEN": f"{address[0]}:{address[1]}", **environment}
    left = []
    try:
        daemon.start()
        yield daemon, address
    finally:
        if daemon.process and daemon.process.poll() is None:
            left = daemon.stop()
        if not left:
            shutil.rmtree(directory, ignore_errors=True)
    assert not left, f"left behind: {', '.join(left)}"
