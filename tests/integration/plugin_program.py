#!/usr/bin/python3
"""A plugin for test_plugins.py: its sandboxes are plain processes. A file "orders" in its state directory
changes what it does: lines `OPERATION ANSWER`, where ANSWER is JSON, or "die" or "silent"."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

config = {}
line = socket.socket(fileno=os.dup(1))


def ordered(op):
    try:
        orders = Path(config["state_dir"], "orders").read_text().splitlines()
    except (KeyError, OSError):
        return None
    return next((text.split(" ", 1)[1] for text in orders if text.split(" ", 1)[0] == op), None)


def directory(request):
    return Path(config["state_dir"], request["sandbox"]["id"])


def destroy(request):
    try:
        os.killpg(int((directory(request) / "pid").read_text()), signal.SIGKILL)
        time.sleep(0.05)
    except (OSError, ValueError):
        pass
    shutil.rmtree(directory(request), ignore_errors=True)
    return {}


def create(request):
    place = directory(request)
    place.mkdir(parents=True)
    subprocess.run([config["agent"], "--listen", place / "agent.sock", "--detach", "--pid-file",
                    place / "pid", "--user", "user", "--uid", "0", "--gid", "0", "--home", place,
                    "--one-id"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return dial(request)


def dial(request):
    """With a descriptor, where others give an address."""
    made = socket.socket(socket.AF_UNIX)
    made.connect(str(directory(request) / "agent.sock"))
    return {"fd": True, "socket": made}


def inspect(request):
    return {"state": "alive" if directory(request).exists() else "gone"}


def list_all(_request):
    return {"sandboxes": [{"id": path.name, "alive": True}
                          for path in Path(config["state_dir"]).iterdir() if path.is_dir()]}


def hello(request):
    config.update(request)
    return {"version": int(config["settings"].get("version", 1)), "isolation": "none",
            "networks": config["settings"].get("networks", "none").split(), "enforces": [], "capabilities": ["templates", "descriptors"]}


OPERATIONS = {"hello": hello, "create": create, "dial": dial, "inspect": inspect, "list": list_all,
              "destroy": destroy, "health": lambda _: {"detail": f"pid {os.getpid()}"}}

for text in sys.stdin:
    asked = json.loads(text)
    if "op" not in asked:
        continue
    order = ordered(asked["op"])
    if order == "die":
        sys.exit(1)
    if order == "silent":
        continue
    result = {"result": OPERATIONS[asked["op"]](asked)} if order is None else json.loads(order)
    passed = result.get("result", {}).pop("socket", None)
    answer = json.dumps({"id": asked["id"]} | result).encode() + b"\n"
    socket.send_fds(line, [answer], [passed.fileno()] if passed else [])
    if passed:
        passed.close()
