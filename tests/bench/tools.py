"""Calls of tools: Bash next to the same command as an exec, MCP next to REST."""

import statistics
import time

import atoll
from helpers import BenchError
from network import Api

# What Bash runs, as an exec: the same programs, and nothing else.
SCRIPT = 'if [ -x /bin/bash ]; then exec /bin/bash -c "$1"; fi; exec /bin/sh -c "$1"'


def measure_tools(fleet, rounds: int) -> dict:
    daemon = atoll.Daemon(fleet.tmp / "tools")
    fleet.stack.callback(daemon.stop)
    api = Api(daemon.socket)
    box = api.call("POST", "/api/sandboxes", {})["id"]
    policed = api.call("POST", "/api/sandboxes", {"toolPolicy": {"rules": [
        {"decision": "deny", "command": f"forbidden{i} *"} for i in range(20)]}})["id"]
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
               "params": {"name": "run_command", "arguments": {"command": "true", "sandbox": box}}}
    kinds = {
        "exec": lambda: api.call("POST", f"/api/sandboxes/{box}/execs?wait=true",
                                 {"cmd": ["/bin/sh", "-c", SCRIPT, "sh", "true"]})["result"].get("exit_code") == 0,
        "bash": lambda: not api.call("POST", f"/api/sandboxes/{box}/tools/Bash", {"command": "true"})["is_error"],
        "policed": lambda: not api.call("POST", f"/api/sandboxes/{policed}/tools/Bash", {"command": "true"})["is_error"],
        "mcp": lambda: not api.call("POST", "/mcp", message)["result"]["isError"],
    }
    times = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind, run in kinds.items():
            start = time.perf_counter()
            good = run()
            times[kind].append((time.perf_counter() - start) * 1e3)
            if not good:
                raise BenchError(f"{kind} failed")
    middle = {f"{kind}_ms": statistics.median(all_) for kind, all_ in times.items()}
    return {**middle, "bash_ratio": middle["bash_ms"] / middle["exec_ms"],
            "policed_ratio": middle["policed_ms"] / middle["exec_ms"],
            "mcp_ratio": middle["mcp_ms"] / middle["bash_ms"]}
