"""Bytes through the daemon: previews next to nginx as a proxy, and a large file next to `cat`."""

import http.client
import json
import re
import socket
import statistics
import subprocess
import time
from pathlib import Path

import atoll
import helpers
import web
from dockerd import last_words
from helpers import BenchError

PIECE = 1 << 20
UPSTREAM_PORT = 8080
UPSTREAM = """daemon off; worker_processes 1; pid {dir}/pid; error_log {dir}/error;
events {{ worker_connections 1024; }}
http {{
    access_log off; keepalive_requests 100000000; default_type application/json;
    client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c;
    uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e;
    server {{ listen 127.0.0.1:{port}; location / {{ return 200 '{answer}'; }} }}
    {proxy}
}}
"""
PROXY = """upstream inner {{ server 127.0.0.1:{port}; keepalive 64; }}
    server {{ listen 127.0.0.1:{front}; location / {{
        proxy_pass http://inner; proxy_http_version 1.1; proxy_set_header Connection ""; }} }}"""


class Api:
    """The daemon's API over its unix socket."""

    def __init__(self, path: Path):
        self.path = path

    def call(self, method: str, target: str, body=None, expect: int = 200) -> dict:
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.path))
        data = None if body is None else json.dumps(body)
        connection.request(method, target, data)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status != expect:
            raise BenchError(f"{method} {target}: {answer.status} {text[:200]!r}")
        return json.loads(text) if text else {}


# Previews.

def start_upstream(stack, directory: Path) -> int:
    """nginx outside: an upstream, and a proxy before it."""
    port, front = helpers.free_port(), helpers.free_port()
    directory.mkdir()
    config = directory / "conf"
    config.write_text(UPSTREAM.format(dir=directory, port=port, answer=web.ANSWER,
                                      proxy=PROXY.format(port=port, front=front)))
    log = directory / "log"
    with open(log, "wb") as out:
        process = subprocess.Popen([helpers.need_tool("nginx"), "-c", config], stdout=out,
                                   stderr=out, start_new_session=True)
    stack.callback(helpers.stop, process)
    time.sleep(0.5)
    if process.poll() is not None:
        raise BenchError(f"nginx could not start: {last_words(log)}")
    return front


def serve_inside(api: Api, box: str) -> None:
    """The same upstream in a sandbox without a network."""
    config = UPSTREAM.format(dir="/tmp", port=UPSTREAM_PORT, answer=web.ANSWER, proxy="")
    api.call("POST", f"/api/sandboxes/{box}/files/batch",
             {"files": [{"path": "/tmp/conf", "data": config}]})
    api.call("POST", f"/api/sandboxes/{box}/execs",
             {"cmd": [helpers.need_tool("nginx"), "-c", "/tmp/conf"]}, 201)


def proxied_per_second(url: str, host: str, seconds: float) -> float:
    done = subprocess.run([helpers.need_tool("wrk"), "-t1", f"-c{web.CONNECTIONS}",
                           f"-d{seconds}s", "-H", f"Host: {host}", url],
                          capture_output=True, text=True, check=False)
    found = re.search(r"Requests/sec:\s*([0-9.]+)", done.stdout)
    if not found or "Non-2xx" in done.stdout:
        raise BenchError(f"wrk: {done.stdout[-300:]}{done.stderr[-300:]}")
    return float(found.group(1))


def measure_preview(fleet, seconds: float, rounds: int) -> dict:
    directory = fleet.tmp / "preview"
    directory.mkdir()
    port = helpers.free_port()
    daemon = atoll.Daemon(directory / "atoll", "--listen", f"127.0.0.1:{port}")
    fleet.stack.callback(daemon.stop)
    api = Api(daemon.socket)
    box = api.call("POST", "/api/sandboxes", {}, 201)["id"]
    serve_inside(api, box)
    api.call("POST", f"/api/sandboxes/{box}/previews", {"port": UPSTREAM_PORT, "public": True}, 201)
    front = start_upstream(fleet.stack, directory / "nginx")
    ways = {"atoll": (f"http://127.0.0.1:{port}/", f"{UPSTREAM_PORT}-{box}.localhost"),
            "nginx": (f"http://127.0.0.1:{front}/", "localhost")}
    time.sleep(0.5)
    samples = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (url, host) in ways.items():
            samples[name].append(proxied_per_second(url, host, seconds))
    result = {f"{name}_per_second": statistics.median(v) for name, v in samples.items()}
    result["ratio"] = result["atoll_per_second"] / result["nginx_per_second"]
    result["connections"] = web.CONNECTIONS
    return result


# A large file.

def timed(size: int, action) -> float:
    """Bytes a second."""
    start = time.monotonic()
    action()
    return size / (time.monotonic() - start)


def cat_through_socket(source: Path, target: Path) -> None:
    """Two cats with a unix socket between them."""
    near, far = socket.socketpair()
    with open(source, "rb") as file, open(target, "wb") as out:
        sender = subprocess.Popen(["cat"], stdin=file, stdout=near)
        receiver = subprocess.Popen(["cat"], stdin=far, stdout=out)
        near.close()
        far.close()
    if sender.wait() != 0 or receiver.wait() != 0:
        raise BenchError("cat failed")


def curl(socket_path: Path, *arguments) -> None:
    done = subprocess.run([helpers.need_tool("curl"), "-sS", "--fail", "--unix-socket", socket_path,
                           *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"curl: {done.stderr.strip()}")


def peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024


def measure_transfer(fleet, size: int, rounds: int) -> dict:
    """All files are in memory, on both sides: what is measured is the way between."""
    directory = Path("/dev/shm") / f"atoll-bench-{fleet.tmp.name}"
    directory.mkdir()
    fleet.stack.callback(helpers.remove_tree, directory)
    daemon = atoll.Daemon(fleet.tmp / "transfer")
    fleet.stack.callback(daemon.stop)
    # Room for the file and for its successor; a disk of up to half the memory is one in memory.
    limits = {"memoryMB": 4 * size // PIECE + 512, "diskMB": 2 * size // PIECE + 64}
    box = Api(daemon.socket).call("POST", "/api/sandboxes", {"limits": limits}, 201)["id"]
    source, copy = directory / "source", directory / "copy"
    with open(source, "wb") as out:
        for _ in range(size // PIECE):
            out.write(b"\x5a" * PIECE)
    url = f"http://localhost/api/sandboxes/{box}/files?path=/home/user/big"
    before = peak_bytes(daemon.process.pid)
    ways = {"cat": lambda: cat_through_socket(source, copy),
            "upload": lambda: curl(daemon.socket, "-T", source, url),
            "download": lambda: curl(daemon.socket, "-o", copy, url)}
    samples = {name: [] for name in ways}
    for _ in range(rounds):
        for name, action in ways.items():
            samples[name].append(timed(size, action))
            if name == "download" and copy.stat().st_size != size:
                raise BenchError("the download is not what was uploaded")
            copy.unlink(missing_ok=True)
    result = {f"{name}_bytes_per_second": statistics.median(v) for name, v in samples.items()}
    for name in ("upload", "download"):
        result[f"{name}_ratio"] = (result[f"{name}_bytes_per_second"] /
                                   result["cat_bytes_per_second"])
    result |= {"bytes": size, "grown_bytes": peak_bytes(daemon.process.pid) - before}
    return result
