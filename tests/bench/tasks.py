#!/usr/bin/python3
"""What a task costs beside what a shell script does: the clone of a small repository to the push of a branch, in one
sandbox, with an agent that does nothing but write a file."""

import contextlib
import http.server
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # tests/docker_engine.py

import atoll  # noqa: E402
import helpers  # noqa: E402
from network import Api, own_address  # noqa: E402

FILES = 40
MOST = 1.3
INSTRUCTION = "echo done > result"


def git(*words, cwd=None) -> str:
    return subprocess.run(["git", "-c", "user.name=B", "-c", "user.email=b@example.org", *map(str, words)], cwd=cwd,
                          check=True, capture_output=True, text=True).stdout


class Handler(http.server.BaseHTTPRequestHandler):
    """git http-backend, for one directory."""

    protocol_version = "HTTP/1.0"

    def do_GET(self):
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        env = {**os.environ, "GIT_PROJECT_ROOT": str(self.server.directory), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
               "QUERY_STRING": query, "REQUEST_METHOD": self.command, "CONTENT_LENGTH": str(len(body)),
               "CONTENT_TYPE": self.headers.get("Content-Type", ""), "REMOTE_USER": "bench", "REMOTE_ADDR": "127.0.0.1"}
        if self.headers.get("Content-Encoding"):
            env["HTTP_CONTENT_ENCODING"] = self.headers["Content-Encoding"]
        out = subprocess.run(["git", "http-backend"], env=env, input=body, capture_output=True, check=False).stdout
        head, _, content = out.partition(b"\r\n\r\n")
        fields = [line.split(": ", 1) for line in head.decode().splitlines()]
        status = next((int(value.split()[0]) for name, value in fields if name == "Status"), 200)
        self.send_response(status)
        for name, value in fields:
            if name != "Status":
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET

    def log_message(self, *_):
        pass


def make_repository(directory: Path) -> Path:
    bare, work = directory / "small.git", directory / "work"
    git("init", "-qb", "main", work)
    for i in range(FILES):
        (work / f"file{i}").write_text("line\n" * 50)
    git("add", "-A", cwd=work)
    git("commit", "-qm", "first", cwd=work)
    git("clone", "-q", "--bare", work, bare)
    git("config", "http.receivepack", "true", cwd=bare)
    return bare


def script(url: str, branch: str) -> str:
    return (f"set -e; git clone -q {url} .; git checkout -qb {branch}; {INSTRUCTION}; git add -A; "
            f"git -c user.name=B -c user.email=b@example.org commit -qm done; git push -q origin {branch}")


class Bench:
    def __init__(self, api: Api, url: str):
        self.api, self.url, self.number = api, url, 0
        self.sandbox = {"networkMode": "bridge"}

    def branch(self) -> str:
        self.number += 1
        return f"b{self.number}"

    def by_script(self) -> float:
        start = time.perf_counter()
        box = self.api.call("POST", "/api/sandboxes", {**self.sandbox, "workdir": "/work"})["id"]
        ended = self.api.call("POST", f"/api/sandboxes/{box}/execs?wait=true",
                              {"cmd": ["sh", "-c", script(self.url, self.branch())]})
        self.api.destroy(box)
        took = (time.perf_counter() - start) * 1e3
        if ended["result"].get("exit_code") != 0:
            raise AssertionError(ended)
        return took

    def by_task(self) -> float:
        start = time.perf_counter()
        task = self.api.call("POST", "/api/tasks?wait=true", {
            "agent": "shell", "instruction": INSTRUCTION, "repo": self.url, "branch": self.branch(), "setup": "none",
            "autoCleanup": True, "sandbox": self.sandbox})
        took = (time.perf_counter() - start) * 1e3
        if task["state"] != "succeeded" or not task["pushed"]:
            raise AssertionError(task)
        self.steps = {one["step"]: one["ended_ms"] - one["started_ms"] for one in task["steps"]}
        return took


def measure_tasks(fleet, rounds: int) -> dict:
    directory = fleet.tmp / "tasks"
    directory.mkdir()
    return measure_in(directory, fleet.stack, rounds)


def measure_in(directory: Path, stack, rounds: int) -> dict:
    """In turns."""
    address, port = own_address(), helpers.free_port()
    make_repository(directory)
    server = http.server.ThreadingHTTPServer((address, port), Handler)
    server.directory, server.daemon_threads = directory, True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    stack.callback(server.shutdown)
    daemon = atoll.Daemon(directory / "atoll", "--network-internal", address)
    stack.callback(daemon.stop)
    api = Api(daemon.socket)
    bench = Bench(api, f"http://{address}:{port}/small.git")
    ways = {"script": bench.by_script, "task": bench.by_task}
    samples = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, way in ways.items():
            took = way()
            if turn > 0:  # the first is not counted
                samples[name].append(took)
    medians = {name: statistics.median(values) for name, values in samples.items()}
    return {"ms": medians, "ratio": medians["task"] / medians["script"], "at_most": MOST, "steps_ms": bench.steps,
            "rounds": rounds}


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory(prefix="atoll-bench-tasks-") as directory, contextlib.ExitStack() as stack:
        found = measure_in(Path(directory), stack, rounds)
    print(json.dumps(found, indent=1))
    return 0 if found["ratio"] <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
