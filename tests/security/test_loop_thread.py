"""The loop thread of the daemon serves every tenant: no file, socket or descriptor of one sandbox may
make it wait. Each attack runs beside another tenant who lists its sandboxes; the watchdog of the loop
(atoll_loop_turn_longest_seconds) says how long the daemon did nothing else.
"""

import contextlib
import re
import socket
import threading
import time

import pytest
from daemons import BUILD, SLACK, need_build, running
from rest import Rest

PIECE = b"\x5a" * (64 * 1024)
WRITERS = 100
ATTACK_SECONDS = 6
# Far above any turn that only computes, far below a turn that waits for a hundred writers.
LONGEST_TURN = 1.0 * SLACK

# Keeps the lock of the inode taken: every process writes large pieces to the file.
HAMMER = r"""
import glob, os, sys, time
paths = []
while not paths:
    paths = glob.glob("/home/user/.atoll-*.tmp") + glob.glob("/home/user/held")
    time.sleep(0.01)
piece = b"x" * (8 << 20)
for _ in range(%d):
    if os.fork() == 0:
        fd = os.open(paths[0], os.O_RDWR)
        while True:
            os.pwrite(fd, piece, 0)
print("hammering", flush=True)
time.sleep(3600)
""" % WRITERS


def figure(rest, name):
    text = rest.call("GET", "/metrics").body.decode()
    found = re.search(rf"^{name} (\S+)$", text, re.M)
    assert found, f"{name} is not among the metrics"
    return float(found.group(1))


@pytest.fixture
def daemon():
    need_build()
    with running(BUILD) as started:
        yield started


def attacker(daemon):
    box = daemon.create("--memory", "1024M", "--disk", "256M", "--pids", "512")
    done = daemon.atoll("exec", "--detach", box, "--", "python3", "-c", HAMMER, check=True)
    return box, done.stdout.strip()


def wait_for_hammer(daemon, box, job):
    deadline = time.monotonic() + 60 * SLACK
    while "hammering" not in daemon.atoll("logs", box, job).stdout:
        assert time.monotonic() < deadline, "the writers inside do not start"
        time.sleep(0.1)


def list_for(rest, seconds):
    """How long each list took while the attack ran."""
    took, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.monotonic()
        answer = rest.get("/api/sandboxes")
        assert answer.status == 200 and answer.json["sandboxes"] == []
        took.append(time.monotonic() - start)
        time.sleep(0.05)
    return took


@contextlib.contextmanager
def upload_held_open(rest, box, path):
    """A body that goes on for as long as the block does."""
    stop = threading.Event()
    sock = rest.socket()
    sock.sendall(f"PUT /api/sandboxes/{box}/files?path={path} HTTP/1.1\r\nHost: localhost\r\n"
                 f"Content-Length: {1 << 40}\r\n\r\n".encode() + PIECE)

    def feed():
        with contextlib.suppress(OSError):
            while not stop.is_set():
                sock.sendall(PIECE)
                time.sleep(0.002)

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        sock.shutdown(socket.SHUT_RDWR)
        thread.join()
        sock.close()


def second_tenant(rest):
    key = rest.post("/api/keys", {"tenant": "other", "scope": "write"}).json["key"]
    return Rest(rest.address, {"X-API-Key": key})


def test_writers_inside_do_not_hold_an_upload_up(daemon):
    rest = Rest(daemon.socket)
    other = second_tenant(rest)
    box, job = attacker(daemon)
    with upload_held_open(rest, box, "/home/user/held"):
        wait_for_hammer(daemon, box, job)
        took = list_for(other, ATTACK_SECONDS)
        assert len(took) >= 10, f"{len(took)} lists, the longest took {max(took):.1f} s"
        assert max(took) < 5 * SLACK
        assert figure(rest, "atoll_loop_turn_longest_seconds") < LONGEST_TURN
