"""Sandboxes of the pool with imported modules, next to plain ones of the pool."""

import importlib.util
import json
import time
from pathlib import Path

import atoll
from helpers import BenchError
from network import Api

MODULES = ["numpy"] if importlib.util.find_spec("numpy") else ["asyncio", "xml.dom.minidom", "unittest.mock"]
WAIT_S = 180
ENVIRONMENT = {"template": "host", "language": "python", "warm": MODULES,
               "interpreters": {"python": {"run": ["python3", "-u", "{file}"], "extension": "py"}}}
IMPORT = f"import sys; print(all(m in sys.modules for m in {MODULES!r}))"


def pss(daemon_directory: Path, sandbox: str) -> int:
    """Bytes of all processes of a sandbox; a page that N processes share counts 1/N."""
    total = 0
    for group in Path("/sys/fs/cgroup").rglob(sandbox):
        procs = group / "cgroup.procs"
        pids = procs.read_text().split() if procs.exists() else []
        if not pids:
            continue
        for pid in pids:
            try:
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            except OSError:
                continue
            total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
        break
    return total


def wait_for(api: Api, count: int) -> dict:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        found = api.call("GET", "/api/health")["pool"][0]
        if found["ready"] >= count:
            return found
        if "cause" in found:
            raise BenchError(f"the pool is not filled: {found['cause']}")
        time.sleep(0.2)
    raise BenchError(f"the pool was not filled within {WAIT_S} s")


def time_all(create, count: int):
    start = time.perf_counter()
    made = [create() for _ in range(count)]
    return made, (time.perf_counter() - start) * 1e3


def measure_plain(fleet, count: int) -> float:
    daemon = atoll.Daemon(fleet.tmp / "warm-plain", "--pool", str(count))
    fleet.stack.callback(daemon.stop)
    api = Api(daemon.socket)
    deadline = time.monotonic() + WAIT_S
    sandboxes = fleet.tmp / "warm-plain" / "state" / "sandboxes"
    while len(list(sandboxes.iterdir())) < count and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(2)  # the last ones run their first shell
    made, took = time_all(lambda: api.call("POST", "/api/sandboxes", {}), count)
    pooled = sum(one["pooled"] for one in made)
    daemon.stop()
    if pooled < count:
        raise BenchError(f"only {pooled} of {count} plain sandboxes came from the pool")
    return took


def measure_warm(fleet, count: int) -> dict:
    """Handing out `count` sandboxes with imported modules: against plain ones of the pool, and what they cost."""
    registry = fleet.tmp / "warm-registry" / "environments"
    registry.mkdir(parents=True)
    (registry / "Warm.yaml").write_text(json.dumps({**ENVIRONMENT, "pool": count}))
    plain_ms = measure_plain(fleet, count)
    daemon = atoll.Daemon(fleet.tmp / "warm", "--registry", str(registry.parent), "--pool-max", str(count))
    fleet.stack.callback(daemon.stop)
    api = Api(daemon.socket)
    full = wait_for(api, count)
    made, warm_ms = time_all(lambda: api.call("POST", "/api/sessions", {"environment": "Warm"}), count)
    sizes = [pss(fleet.tmp, one["sandbox_id"]) for one in made[:20]]
    start = time.perf_counter()
    ran = api.call("POST", f"/api/sessions/{made[0]['session_id']}/execute", {"code": IMPORT})
    first_ms = (time.perf_counter() - start) * 1e3
    if ran["stdout"] != "True\n":
        raise BenchError(f"its modules are not loaded: {ran}")
    return {"modules": " ".join(MODULES), "count": count, "plain_ms": plain_ms, "warm_ms": warm_ms,
            "ratio": warm_ms / plain_ms, "first_code_ms": first_ms,
            "pss_bytes": sum(sizes) / len(sizes), "cgroup_bytes": full["memory_bytes"] / full["ready"]}
