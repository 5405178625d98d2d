"""Many clients, slow clients, no descriptors left: the daemon keeps answering and stays small."""
import http.client
import json
import os
import socket
import subprocess
import threading
import time

import pytest

import conftest
from daemons import is_sanitized
from test_full_disk import UnixConnection, ask


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


@pytest.fixture(scope="module")
def busy():
    with conftest.running(conftest.BUILD) as daemon:
        yield daemon


def connect(daemon):
    s = socket.socket(socket.AF_UNIX)
    s.connect(str(daemon.socket))  # waits while the backlog is full
    return s


def start_stream(daemon, sandbox, script):
    connection = UnixConnection(str(daemon.socket))
    connection.timeout = 60
    connection.request("POST", f"/api/sandboxes/{sandbox}/execs?stream=true",
                       json.dumps({"cmd": ["sh", "-c", script]}))
    return connection


def test_a_thousand_idle_connections(busy):
    before = resident_kib(busy.pid)
    idle = [connect(busy) for _ in range(1000)]
    assert ask(busy, "/healthz")[0] == 200
    assert busy.atoll("run", "--", "echo", "here").stdout == "here\n"
    if not is_sanitized(busy.build):
        assert resident_kib(busy.pid) - before < 20 * 1024
    for s in idle:
        s.close()


def test_two_hundred_streams_at_once(busy):
    boxes = [busy.create() for _ in range(4)]
    lines = [0] * 200

    def follow(i):
        answer = start_stream(busy, boxes[i % 4],
                              "for i in 1 2 3 4 5; do echo line-$i; sleep 0.1; done").getresponse()
        text = answer.read().decode()
        lines[i] = text.count("line-") if '"exit_code":0' in text else -1

    threads = [threading.Thread(target=follow, args=(i,)) for i in range(200)]
    for t in threads:
        t.start()
    assert ask(busy, "/healthz")[0] == 200
    for t in threads:
        t.join()
    assert lines == [5] * 200
    busy.atoll("rm", *boxes, check=True)


def test_a_reader_that_does_not_read(busy):
    """Its command's output waits in the journal, not in the daemon's memory."""
    sandbox = busy.create()
    before = resident_kib(busy.pid)
    slow = start_stream(busy, sandbox, "head -c 50000000 /dev/zero | tr '\\0' x")
    time.sleep(1.5)
    assert ask(busy, "/healthz")[0] == 200
    if not is_sanitized(busy.build):
        assert resident_kib(busy.pid) - before < 24 * 1024
    slow.close()
    busy.atoll("rm", sandbox, check=True)


def test_clients_that_vanish(busy):
    sandbox = busy.create()
    descriptors = len(os.listdir(f"/proc/{busy.pid}/fd"))
    for i in range(100):
        connection = start_stream(busy, sandbox, "echo x; sleep 0.01")
        if i % 2:
            time.sleep(0.005)
        connection.close()
    for _ in range(600):
        time.sleep(0.05)
        if len(os.listdir(f"/proc/{busy.pid}/fd")) <= descriptors + 2:
            break
    else:
        raise AssertionError("descriptors of vanished clients are still open")
    assert busy.atoll("exec", sandbox, "--", "echo", "here").stdout == "here\n"
    busy.atoll("rm", sandbox, check=True)


def test_no_descriptors_left(busy):
    used = len(os.listdir(f"/proc/{busy.pid}/fd"))
    subprocess.run(["prlimit", "--pid", str(busy.pid), f"--nofile={used + 20}:8192"], check=True)
    held = []
    try:
        for _ in range(200):
            held.append(connect(busy))
        time.sleep(0.2)
        assert busy.process.poll() is None
    finally:
        for s in held:
            s.close()
        subprocess.run(["prlimit", "--pid", str(busy.pid), "--nofile=8192:8192"], check=True)
    for _ in range(600):
        try:
            if ask(busy, "/healthz")[0] == 200:
                break
        except (http.client.HTTPException, OSError):
            pass
        time.sleep(0.05)
    else:
        raise AssertionError("the daemon does not answer any more")
    assert busy.atoll("run", "--", "echo", "back").stdout == "back\n"
