#!/usr/bin/python3
"""A provider as a plugin: sandboxes are containers, made with the `docker` command.

The protocol is in docs/plugins.md. In providers.yaml:

    providers:
      boxes: {kind: plugin, program: /path/to/docker_cli.py, default_image: "debian:12"}
"""
import http.client
import json
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

DESCRIPTION = {
    "version": 1, "isolation": "container", "networks": ["none", "bridge"],
    "enforces": ["memory", "cpu", "pids", "disk"], "capabilities": ["images", "descriptors", "pause", "stats"],
}
config = {}
writing = threading.Lock()


class Refused(Exception):
    """An error for the daemon: a kind, and a text for users."""


def host():
    return config["settings"].get("host", "unix:///var/run/docker.sock")


def docker(*args, missing=None):
    """The output of a docker command; `missing` where there is no such container."""
    done = subprocess.run(["docker", "-H", host(), *args], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout
    if missing is not None and "No such" in done.stderr:
        return missing
    kind = "unavailable" if "Cannot connect" in done.stderr else "internal"
    raise Refused(kind, f"docker {args[0]}: {done.stderr.strip()[:300]}")


def name(request):
    return f"atoll-plugin-{request['sandbox']['id']}"


def socket_dir(request):
    return Path(config["state_dir"], request["sandbox"]["id"])


def destroy(request):
    docker("rm", "-f", name(request), missing="")
    shutil.rmtree(socket_dir(request), ignore_errors=True)
    return {}


def create(request):
    destroy(request)  # what an earlier try may have left
    sandbox, limits = request["sandbox"], request["sandbox"]["limits"]
    directory = socket_dir(request)
    directory.mkdir(mode=0o700, parents=True)
    options = ["--network", sandbox["network"], "--label", f"atoll-plugin={config['state_dir']}",
               "-v", f"{config['agent']}:/.atoll/agent:ro", "-v", f"{directory}:/.atoll/run"]
    if limits["memory_bytes"]:
        options += ["--memory", str(limits["memory_bytes"]),
                    "--memory-swap", str(limits["memory_bytes"])]
    if limits["cpu_millis"]:
        options += ["--cpus", str(limits["cpu_millis"] / 1000)]
    if limits["pids"]:
        options += ["--pids-limit", str(limits["pids"])]
    if limits["disk_bytes"]:  # what is writable is in memory, and bounded
        eighth = (limits["disk_bytes"] - (1 << 20)) // 8
        options += ["--read-only", "--tmpfs", f"/home:exec,size={6 * eighth}",
                    "--tmpfs", f"/root:exec,size={eighth}", "--tmpfs", f"/tmp:exec,size={eighth}",
                    "--tmpfs", "/run:size=1m"]
    for variable in sandbox["env"]:
        options += ["-e", variable]
    agent = ["/.atoll/agent", "--in-container", "", "--listen", "/.atoll/run/agent.sock",
             "--memory-limit", str(limits["memory_bytes"]), "--sudo"]
    docker("run", "-d", "--name", name(request), *options, "--user", "0:0", "--entrypoint",
           agent[0], sandbox["image"], *agent[1:])
    return dial(request)


def dial(request):
    return {"connect": f"unix:{socket_dir(request) / 'agent.sock'}"}


def inspect(request):
    state = json.loads(docker("inspect", "-f", "{{json .State}}", name(request), missing="null"))
    if state is None:
        return {"state": "gone", "cause": "the engine has no such container"}
    if state["Paused"]:
        return {"state": "paused"}
    if state["Running"]:
        return {"state": "alive"}
    return {"state": "exited", "exit_code": state["ExitCode"], "oom": state["OOMKilled"],
            "cause": f"its first process ended with status {state['ExitCode']}"}


def list_all(_request):
    rows = docker("ps", "-a", "--filter", f"label=atoll-plugin={config['state_dir']}", "--format",
                  "{{.Names}} {{.State}}").split("\n")
    found = [row.split() for row in rows if row]
    return {"sandboxes": [{"id": row[0].removeprefix("atoll-plugin-"), "alive": row[1] == "running"}
                          for row in found]}


def stats(request):
    """From the engine's API: the command prints rounded figures."""
    api = http.client.HTTPConnection("docker")
    api.sock = socket.socket(socket.AF_UNIX)
    api.sock.connect(host().removeprefix("unix://"))
    api.request("GET", f"/containers/{name(request)}/stats?stream=false&one-shot=true")
    body = json.load(api.getresponse())
    return {"memory_bytes": body["memory_stats"].get("usage", 0),
            "cpu_us": body["cpu_stats"]["cpu_usage"]["total_usage"] // 1000,
            "processes": body["pids_stats"].get("current", 0)}


def hello(request):
    config.update(request)
    return DESCRIPTION


OPERATIONS = {
    "hello": hello, "create": create, "dial": dial, "inspect": inspect, "list": list_all,
    "destroy": destroy,
    "pause": lambda request: docker("pause", name(request)) and {},
    "resume": lambda request: docker("unpause", name(request)) and {},
    "stats": stats,
    "health": lambda request: {"detail": docker("version", "-f", "{{.Server.Version}}").strip()},
}


def answer(request):
    try:
        message = {"result": OPERATIONS[request["op"]](request)}
    except Refused as refused:
        message = {"error": dict(zip(("kind", "message"), refused.args))}
    except Exception as problem:  # whatever it is, the daemon must hear of it
        message = {"error": {"kind": "internal", "message": repr(problem)}}
    with writing:
        print(json.dumps({"id": request["id"]} | message), flush=True)


for line in sys.stdin:
    asked = json.loads(line)
    if "op" in asked:  # else the cancellation of a request, which may be ignored
        threading.Thread(target=answer, args=(asked,), daemon=True).start()
