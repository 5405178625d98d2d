"""Runs the drivers as the daemon does, without a sandbox around them."""

import json
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

DRIVERS = Path(__file__).resolve().parents[2] / "drivers"
MANIFEST = json.loads((DRIVERS / "manifest.json").read_text())
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/tmp"}
FORMATS = ("text", "html", "markdown", "svg", "png", "jpeg", "pdf", "latex", "json", "javascript",
           "data", "chart")
DEADLINE = 60


class Run:
    """What came of one request."""

    def __init__(self, lines):
        self.lines = lines
        self.results = [line for line in lines if line["type"] == "result"]
        self.count = lines[0]["execution_count"]

    def texts(self, kind):
        return [line["text"] for line in self.lines if line["type"] == kind]

    @property
    def stdout(self):
        return "".join(self.texts("stdout"))

    @property
    def stderr(self):
        return "".join(self.texts("stderr"))

    @property
    def error(self):
        return next((line for line in self.lines if line["type"] == "error"), None)

    @property
    def main(self):
        return next((r for r in self.results if r["is_main_result"]), None)

    @property
    def text(self):
        return self.main["text"] if self.main else None


class Driver:
    """One interpreter. Every line it sends is checked against the protocol."""

    def __init__(self, language, cwd, env=None):
        entry = MANIFEST[language]
        for program in entry["requires"]:
            if not shutil.which(program, path=ENV["PATH"]):
                pytest.skip(f"no {program} here: {entry['install']}")
        argv = [str(DRIVERS / entry["file"]) if arg == "{driver}" else arg for arg in entry["run"]]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        cwd=cwd, env=dict(ENV, **(env or {})), bufsize=0,
                                        start_new_session=True)
        self.buffered = b""
        self.requests = 0
        self.ready = self.line()
        assert self.ready["type"] == "ready" and self.ready["version"]

    def line(self):
        deadline = time.monotonic() + DEADLINE
        while b"\n" not in self.buffered:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise AssertionError(f"the driver says nothing; so far: {self.buffered[-500:]!r}")
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                raise AssertionError(f"the driver ended with status {self.process.wait()}")
            self.buffered += data
        line, _, self.buffered = self.buffered.partition(b"\n")
        assert line.isascii() and len(line) < 32 << 20
        return json.loads(line, parse_constant=refuse)

    def send(self, code, env=None):
        self.requests += 1
        request = {"id": self.requests, "op": "execute", "code": code, "env": env or {}}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")

    def run(self, code, env=None, interrupt_at=None):
        """Sends a request and waits for its end; interrupts when a line has the given text."""
        self.send(code, env)
        lines = []
        while not lines or lines[-1]["type"] != "end_of_execution":
            lines.append(self.line())
            check(lines[-1], self.requests)
            if interrupt_at and interrupt_at in lines[-1].get("text", ""):
                self.process.send_signal(signal.SIGINT)
                interrupt_at = None
        kinds = [line["type"] for line in lines]
        assert kinds[0] == "number_of_executions" and kinds.count("number_of_executions") == 1
        assert kinds.count("error") <= 1
        return Run(lines)

    def value(self, code, **kwargs):
        done = self.run(code, **kwargs)
        assert done.error is None, done.error["traceback"]
        return done.text

    def close(self):
        """End of input ends a driver."""
        self.process.stdin.close()
        try:
            return self.process.wait(30)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            self.process.stdout.close()


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def check(line, request):
    assert line["id"] == request
    if line["type"] in ("stdout", "stderr"):
        assert line["text"] and len(line["text"].encode("utf-8", "surrogatepass")) <= 64 * 1024
        assert line["timestamp"].endswith("Z")
    elif line["type"] == "result":
        assert isinstance(line["is_main_result"], bool) and isinstance(line["extra"], dict)
        assert set(line) <= {"id", "type", "is_main_result", "extra", *FORMATS}
    elif line["type"] == "error":
        assert all(isinstance(line[key], str) for key in ("name", "value", "traceback"))
    else:
        assert line["type"] in ("number_of_executions", "end_of_execution")
