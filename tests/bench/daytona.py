"""Daytona's SDK for TypeScript against Atoll, next to the same calls against a server of fixed answers."""

import json
import statistics
import subprocess
import sys
import time

import atoll
import helpers
import report
from helpers import BenchError

POOL = 16
TIMEOUT_S = 300


def install() -> None:
    done = subprocess.run([sys.executable, helpers.ROOT / "tests/conformance/daytona/run", "install"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"Daytona's SDK: {(done.stdout + done.stderr).strip()[-300:]}")


def start_canned(stack) -> str:
    process = subprocess.Popen([helpers.need_tool("node"), helpers.HERE / "canned_daytona.mjs"],
                               stdout=subprocess.PIPE, text=True)
    stack.callback(helpers.stop, process)
    port = process.stdout.readline().strip()
    if not port:
        raise BenchError("the canned server could not start")
    return f"http://127.0.0.1:{port}/daytona"


def start_atoll(stack, directory) -> tuple:
    port = helpers.free_port()
    daemon = atoll.Daemon(directory, "--listen", f"127.0.0.1:{port}", "--pool", str(POOL))
    stack.callback(daemon.stop)
    key = directory / "state" / "api-key"
    deadline = time.monotonic() + atoll.START_TIMEOUT_S
    while not key.exists():  # it is made just after the socket
        if time.monotonic() > deadline:
            raise BenchError("atolld made no key")
        time.sleep(0.05)
    return f"http://127.0.0.1:{port}/daytona", key.read_text().strip()


def measure_daytona(fleet, rounds: int) -> dict:
    install()
    url, key = start_atoll(fleet.stack, fleet.tmp / "daytona")
    done = subprocess.run([helpers.need_tool("node"), helpers.HERE / "daytona.mjs", url,
                           start_canned(fleet.stack), str(rounds)],
                          capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
                          env={"PATH": "/usr/local/bin:/usr/bin:/bin", "DAYTONA_API_KEY": key})
    if done.returncode != 0:
        raise BenchError(f"Daytona's SDK: {done.stderr.strip()[-400:]}")
    samples = json.loads(done.stdout)
    result = {}
    for name, values in samples.items():
        result[f"{name}_ms"] = statistics.median(values)
        result[f"{name}_p99_ms"] = report.percentile(values, 99)
    for kind in ("life", "kept"):
        result[f"{kind}_ratio"] = result[f"{kind}_atoll_ms"] / result[f"{kind}_canned_ms"]
    return result
