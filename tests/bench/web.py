"""The HTTP server next to nginx: how many small answers a second one core gives."""

import os
import re
import statistics
import subprocess
import time
from pathlib import Path

import atoll
import helpers
from dockerd import last_words
from helpers import BenchError

CONNECTIONS = 32
SERVER_CPU, CLIENT_CPU = "0", "1"
ANSWER = '{"status":"ok","version":"0.1.0"}'
CONFIG = """daemon off; worker_processes 1; pid {dir}/pid; error_log {dir}/error;
events {{ worker_connections 1024; }}
http {{
    access_log off; keepalive_requests 100000000;
    client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c;
    uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e; default_type application/json;
    ssl_certificate {cert}/cert.pem; ssl_certificate_key {cert}/key.pem;
    server {{ listen 127.0.0.1:{http}; location / {{ return 200 '{answer}'; }} }}
    server {{ listen 127.0.0.1:{https} ssl http2; location / {{ return 200 '{answer}'; }} }}
}}
"""


def pin(process: subprocess.Popen) -> None:
    """All threads and children that exist by now."""
    for pid in [process.pid, *children(process.pid)]:
        os.sched_setaffinity(pid, {int(SERVER_CPU)})


def children(pid: int) -> list:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def start_atoll(stack, directory: Path) -> dict:
    ports = {"http": helpers.free_port(), "https": helpers.free_port()}
    daemon = atoll.Daemon(directory, "--listen", f"127.0.0.1:{ports['http']}",
                          "--tls-listen", f"127.0.0.1:{ports['https']}")
    stack.callback(daemon.stop)
    os.sched_setaffinity(daemon.process.pid, {int(SERVER_CPU)})
    return ports


def start_nginx(stack, directory: Path, certificate: Path) -> dict:
    ports = {"http": helpers.free_port(), "https": helpers.free_port()}
    directory.mkdir()
    config = directory / "conf"
    config.write_text(CONFIG.format(dir=directory, cert=certificate, answer=ANSWER, **ports))
    log = directory / "log"
    with open(log, "wb") as out:
        process = subprocess.Popen([helpers.need_tool("nginx"), "-c", config], stdout=out,
                                   stderr=out, start_new_session=True)
    stack.callback(helpers.stop, process)
    time.sleep(0.5)
    if process.poll() is not None:
        raise BenchError(f"nginx could not start: {last_words(log)}")
    pin(process)
    return ports


def requests_per_second(scheme: str, port: int, seconds: float) -> float:
    done = subprocess.run(["taskset", "-c", CLIENT_CPU, helpers.need_tool("wrk"), "-t1",
                           f"-c{CONNECTIONS}", f"-d{seconds}s",
                           f"{scheme}://127.0.0.1:{port}/healthz"],
                          capture_output=True, text=True, check=False)
    found = re.search(r"Requests/sec:\s*([0-9.]+)", done.stdout)
    if not found or "Non-2xx" in done.stdout:
        raise BenchError(f"wrk: {done.stdout[-300:]}{done.stderr[-300:]}")
    return float(found.group(1))


def measure_http(fleet, seconds: float, rounds: int) -> dict:
    """Servers on one core, the client on another, in turns."""
    directory = fleet.tmp / "http"
    directory.mkdir()
    servers = {"atoll": start_atoll(fleet.stack, directory / "atoll")}
    certificate = directory / "atoll" / "state" / "tls"
    servers["nginx"] = start_nginx(fleet.stack, directory / "nginx", certificate)
    result = {"connections": CONNECTIONS}
    for scheme in ("http", "https"):
        samples = {name: [] for name in servers}
        for _ in range(rounds):
            for name, ports in servers.items():
                samples[name].append(requests_per_second(scheme, ports[scheme], seconds))
        for name, values in samples.items():
            result[f"{scheme}_{name}_per_second"] = statistics.median(values)
        result[f"{scheme}_ratio"] = (result[f"{scheme}_atoll_per_second"] /
                                     result[f"{scheme}_nginx_per_second"])
    return result
