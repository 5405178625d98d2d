"""What clients do, in parts that are small enough to be repeated for every point they pass. Each is
made of what it needs, in which nothing fails, and what is walked through."""

import atexit
import contextlib
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.parse

import docker_engine
import oci_images
from daemons import ROOT, wait_until, writable_layers
from walking import TOLD, Refused

sys.path.append(str(ROOT / "tests" / "integration"))
import agent_wire  # noqa: E402

ERRANDS = {}
HOST_FOLDER = str(ROOT / "examples")  # that the daemon may show to sandboxes
KEPT = {}  # by what made it
REGISTRY = []  # a registry, and the name of an image in it


def errand(needs=None, world="plain"):
    """The function gets a walk, a client and what `needs` made of them. world: which daemon it is
    for, see test_every_point.py."""
    def add(function):
        ERRANDS[function.__name__] = (needs, function, world)
        return function
    return add


def box(walk, client):
    return client.create()


def persistent_box(walk, client):
    made = client.create(persistent=True, env={"SECRET": "kept"}, metadata={"a": "b"})
    client.run(made, "echo mine > file")
    return made


@errand()
def create(walk, client, _):
    made = client.create(env={"A": "b"}, metadata={"task": "1"}, limits={"memoryMB": 128},
                         workdir="/srv/work")
    client.get(f"/api/sandboxes/{made}")
    client.delete(f"/api/sandboxes/{made}")


@errand()
def create_large(walk, client, _):
    """Its disk is an image, and its root is read-only."""
    made = client.create(limits={"memoryMB": 64, "diskMB": 64, "ioMbps": 1000}, readOnly=True)
    client.run(made, "echo x > file")
    client.delete(f"/api/sandboxes/{made}")


@errand()
def snapshot_in_pool(walk, client, _):
    """Its disk is in the disk pool, and so is the snapshot, with those that are made from it."""
    made = client.create(limits={"memoryMB": 64, "diskMB": 64})
    client.run(made, "echo x > file; head -c 2M /dev/urandom > much")
    client.post(f"/api/sandboxes/{made}/snapshots", {"name": "pooled"})
    with contextlib.suppress(AssertionError, OSError):  # if that fails, it is tried again after the next one
        wait_until(lambda: walk.board.struck or not writable_layers(walk.state), 3, lambda: "it does not become read-only")
    other = client.create(template="pooled")
    assert client.run(other, "cat file") == "x\n"
    client.delete(f"/api/sandboxes/{other}")
    client.delete(f"/api/sandboxes/{made}")
    client.delete("/api/snapshots/pooled")


@errand()
def host_folder(walk, client, _):
    """Its changes to a folder of the host are on its disk, which survives a stop."""
    made = client.create(volumes=[{"hostPath": HOST_FOLDER, "path": "/work", "mode": "cow"}], persistent=True)
    client.run(made, "rm -r /work/*; echo x > /work/new")
    client.post(f"/api/sandboxes/{made}/stop")
    client.post(f"/api/sandboxes/{made}/resume")
    assert client.run(made, "ls /work") == "new\n"
    client.delete(f"/api/sandboxes/{made}")


@errand()
def create_with_network(walk, client, _):
    made = client.create(networkMode="bridge")
    # Denied by atoll-egress, and then in the journal.
    client.run(made, "! bash -c 'read x </dev/tcp/10.0.0.1/9' 2>/dev/null")
    journal = f"/api/sandboxes/{made}/network/connections"
    with contextlib.suppress(AssertionError):  # a line that could not be written is lost
        wait_until(lambda: client.get(journal)["connections"], 3, lambda: "no connection")
    client.delete(f"/api/sandboxes/{made}")


@errand()
def secrets(walk, client, _):
    client.post("/api/secrets", {"name": "errand", "value": "v", "replace": True})
    client.get("/api/secrets")
    client.delete("/api/secrets/errand")


@errand(box)
def run(walk, client, made):
    assert client.run(made, "echo out; echo err >&2") == "out\n"
    assert len(client.run(made, "seq 30000")) == 168894
    assert client.run(made, "cat", stdin="given\n") == "given\n"
    started = client.post(f"/api/sandboxes/{made}/execs", {"cmd": ["cat"], "stdin": True})
    path = f"/api/sandboxes/{made}/execs/{started['exec_id']}"
    client.post(f"{path}/stdin", b"words\n")
    client.post(f"{path}/signal", {"signal": "SIGTERM"})
    client.call("GET", f"{path}/output", follow="true")


@errand(box)
def snapshot(walk, client, made):
    client.run(made, "echo x > file")
    client.post(f"/api/sandboxes/{made}/snapshots", {"name": "errand"})
    other = client.create(template="errand")
    assert client.run(other, "cat file") == "x\n"
    client.delete(f"/api/sandboxes/{other}")
    client.delete("/api/snapshots/errand")


@errand(box)
def retired_snapshot(walk, client, made):
    """It goes after the sandbox that is made from it."""
    client.post(f"/api/sandboxes/{made}/snapshots", {"name": "retired"})
    other = client.create(template="retired")
    client.call("DELETE", "/daytona/snapshots/retired", want=(200,))
    client.delete(f"/api/sandboxes/{other}")


@errand(box)
def fork(walk, client, made):
    for other in client.post(f"/api/sandboxes/{made}/fork", {"count": 1})["sandboxes"]:
        client.delete(f"/api/sandboxes/{other['id']}")


@errand(box)
def terminal(walk, client, made):
    started = client.post(f"/api/sandboxes/{made}/execs",
                          {"cmd": ["sh", "-c", "read x"], "pty": {"cols": 80, "rows": 24}})
    path = f"/api/sandboxes/{made}/execs/{started['exec_id']}"
    client.post(f"{path}/resize", {"cols": 100, "rows": 30})
    client.post(f"{path}/stdin", b"\n")
    client.call("GET", f"{path}/output", follow="true")


@errand(box)
def files(walk, client, made):
    path = f"/api/sandboxes/{made}/files"
    client.put(path, b"x" * 200000, path="a")
    assert client.call("GET", path, path="a").body == b"x" * 200000
    client.post(f"{path}/mkdir", path="d")
    client.post(f"{path}/move", path="a", to="d/b")
    client.post(f"{path}/chmod", path="d/b", mode="600")
    client.post(f"{path}/chown", path="d/b", owner="user")
    client.post(f"{path}/symlink", path="link", target="d/b")
    client.get(f"{path}/stat", path="d/b")
    client.get(f"{path}/list", path="d")
    client.call("DELETE", path, path="d", recursive="true", want=(204,))


@errand(box)
def attributes(walk, client, made):
    path = f"/api/sandboxes/{made}/files"
    client.put(path, b"x", path="a")
    client.put(f"{path}/xattrs", {"path": "a", "name": "user.a", "value": "b"})
    client.get(f"{path}/xattrs", path="a")
    client.get(f"{path}/xattrs", path="a")
    client.call("DELETE", f"{path}/xattrs", path="a", name="user.a")
    client.get(f"/api/sandboxes/{made}/stats")
    client.get(f"/api/sandboxes/{made}/health")
    client.post(f"/api/sandboxes/{made}/timeout", {"seconds": 600})


@errand(box)
def pause(walk, client, made):
    client.post(f"/api/sandboxes/{made}/pause")
    client.post(f"/api/sandboxes/{made}/resume")
    client.run(made, "true")


@errand(box)
def restore(walk, client, made):
    client.run(made, "echo x > file")
    client.post(f"/api/sandboxes/{made}/restore", {"snapshot": "host"})
    assert client.run(made, "cat file 2>/dev/null || echo gone") == "gone\n"


def with_snapshot(walk, client):
    made = box(walk, client)
    client.run(made, "echo kept > file")
    client.post(f"/api/sandboxes/{made}/snapshots", {"name": "kept"})
    client.run(made, "echo lost > file")
    return made


@errand(with_snapshot)
def restore_snapshot(walk, client, made):
    client.post(f"/api/sandboxes/{made}/restore", {"snapshot": "kept"})
    assert client.run(made, "cat file") == "kept\n"


@errand()
def undo(walk, client, _):
    made = client.create(checkpoints="command")
    client.run(made, "echo x > file")
    client.get(f"/api/sandboxes/{made}/history")
    client.get(f"/api/sandboxes/{made}/diff")
    client.post(f"/api/sandboxes/{made}/undo", {})
    client.delete(f"/api/sandboxes/{made}")


@errand(box)
def merge(walk, client, made):
    for other in client.post(f"/api/sandboxes/{made}/fork", {"count": 1})["sandboxes"]:
        client.run(other["id"], "echo x > file")
        client.post(f"/api/sandboxes/{made}/merge", {"from": [other["id"]]})
        client.delete(f"/api/sandboxes/{other['id']}")


@errand(box)
def attempts(walk, client, made):
    """Two tries: one with a best, and one without."""
    report = client.post(f"/api/sandboxes/{made}/try", {"count": 2, "cmd": ["sh", "-c", "echo $ATOLL_TRY | tee file"]})
    if report["kept"]:  # a part of the merge has failed
        client.delete(f"/api/sandboxes/{report['kept']}")
    none = client.post(f"/api/sandboxes/{made}/try", {"count": 1, "cmd": ["false"]})
    assert none["kept"] is None


@errand()
def volume(walk, client, _):
    sized = client.call("POST", "/api/volumes", {"name": "kept", "sizeMB": 16}, want=(201, 409))
    made = client.create(volumes=[{"name": "kept", "path": "/data"}])
    client.run(made, "true")
    client.delete(f"/api/sandboxes/{made}")
    if sized.status == 201:  # a host that can limit volumes
        client.post("/api/volumes", {"name": "copied", "from": "kept"})
    assert "kept" in [one["name"] for one in client.get("/api/volumes")["volumes"]]
    for name in ("kept", "copied"):
        client.call("DELETE", f"/api/volumes/{name}", want=(204, 404))


def want_success(ended):
    """A task or a swarm that could not be done says why."""
    if ended["state"] != "succeeded":
        told = ended["error"] if "error" in ended else [m["state"] for m in ended["members"]]
        raise Refused(f"{told}", TOLD, json.dumps(ended).encode())


@errand()
def task(walk, client, _):
    ended = client.post("/api/tasks", {"agent": "shell", "instruction": "echo x > a.txt", "autoCleanup": True,
                                       "capturePatterns": ["*.txt"]}, wait="true")
    want_success(ended)
    client.delete(f"/api/tasks/{ended['id']}")
    client.delete(f"/api/artifacts/{ended['sandbox_id']}")


def bundle(walk, client):
    """A repository, for a task without a git server."""
    if "bundle" not in KEPT:
        with tempfile.TemporaryDirectory(prefix="atoll-errand-") as directory:
            git = ["git", "-C", directory, "-c", "user.name=T", "-c", "user.email=t@example.org"]
            subprocess.run([*git, "init", "-qb", "main"], check=True)
            subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
            subprocess.run([*git, "bundle", "create", "-q", f"{directory}/bundle", "HEAD", "main"], check=True)
            KEPT["bundle"] = pathlib.Path(directory, "bundle").read_bytes()
    return KEPT["bundle"]


@errand(bundle)
def task_with_repository(walk, client, content):
    """All steps: its repository is sent, the branch comes back."""
    started = client.post("/api/tasks", {
        "agent": "shell", "instruction": "echo x > a.txt", "autoCleanup": True, "repo": {"upload": True},
        "setup": "true", "check": "grep x a.txt", "captureFiles": True, "pullRequest": True,
        "budget": {"wallSeconds": 600}})
    path = f"/api/tasks/{started['id']}"
    found = {}

    def ready():
        found.update(client.get(path))
        return found["wants_source"] or found["state"] not in ("waiting", "running")
    wait_until(ready, 30, lambda: f"{found}")
    if found["wants_source"]:
        client.put(f"/api/sandboxes/{found['sandbox_id']}/files", content, path="/tmp/.atoll-task.bundle")
        client.post(f"{path}/source")
    ended = client.get(path, wait="true")
    want_success(ended)
    assert ended["bundle"] and ended["pull_request"]["title"] == "echo x > a.txt", ended
    client.delete(path)
    client.delete(f"/api/artifacts/{ended['sandbox_id']}")


@errand()
def connector(walk, client, _):
    path = "/api/connectors/errand"
    client.post("/api/connectors", {"name": "errand", "command": "one", "env": {"KEY": "v"}, "replace": True})
    client.put(path, {"url": "https://example.org/mcp"})
    assert client.get(path)["type"] == "http"
    client.delete(path)


@errand(box)
def ssh_token(walk, client, made):
    path = f"/api/sandboxes/{made}/ssh"
    client.post(path, {"expires_minutes": 5})
    assert client.get(path)["tokens"]
    client.delete(path)
    assert not client.get(path)["tokens"]


def ask_seconds(client, path, rules):
    """Calls that wait end with the errand, whatever happens to it."""
    client.put(path, {"rules": rules, "askSeconds": 10})


@errand(box)
def guard(walk, client, made):
    """A policy of the tenant, and one of the sandbox; a call that runs, and one that is refused."""
    ask_seconds(client, "/api/tools/policy", [{"decision": "deny", "command": "forbidden"}])
    ask_seconds(client, f"/api/sandboxes/{made}/tools/policy", [{"decision": "deny", "command": "forbidden"}])
    path = f"/api/sandboxes/{made}/tools"
    assert client.post(f"{path}/Bash", {"command": "echo x"})["text"] == "x\n"
    client.call("POST", f"{path}/Bash", {"command": "forbidden"}, want=(403,))
    assert client.get(f"{path}/calls")["calls"]
    client.delete("/api/tools/policy")


@errand(box)
def old_records(walk, client, made):
    """As many calls of tools as are made before old records are removed."""
    path = f"/api/sandboxes/{made}/tools"
    for _ in range(64):
        client.post(f"{path}/LS", {"path": "/"})
    assert client.get(f"{path}/calls")["calls"]


@errand(box)
def approval(walk, client, made):
    ask_seconds(client, f"/api/sandboxes/{made}/tools/policy", [{"decision": "ask", "tools": "Bash"}])
    ended = []

    def ask():
        try:
            ended.append(client.post(f"/api/sandboxes/{made}/tools/Bash", {"command": "echo x"}))
        except Refused as refused:
            ended.append(refused)
    asking = threading.Thread(target=ask)
    asking.start()
    try:
        waits = []

        def waiting():
            waits[:] = client.get("/api/approvals")["approvals"]
            return waits or ended
        wait_until(waiting, 30, lambda: "no call waits")
        if waits:
            client.post(f"/api/approvals/{waits[0]['id']}", {"decision": "allow"})
    finally:
        asking.join()
    if isinstance(ended[0], Refused):
        raise ended[0]
    assert ended[0]["text"] == "x\n"


@errand(box)
def agent(walk, client, made):
    """In a sandbox that is there already."""
    ended = client.post(f"/api/sandboxes/{made}/agents", {"agent": "shell", "instruction": "echo hi"}, wait="true")
    want_success(ended)
    client.get(f"/api/sandboxes/{made}/agents")
    client.call("DELETE", f"/api/sandboxes/{made}/agents")


@errand(box)
def capture(walk, client, made):
    client.run(made, "echo x > a.txt; echo '*.log' > .gitignore; echo y > b.log")
    kept = client.post(f"/api/sandboxes/{made}/capture", {})
    assert [file["path"] for file in kept["files"]] == ["a.txt"], kept
    client.delete(f"/api/artifacts/{made}")


@errand()
def swarm(walk, client, _):
    member = {"agent": "shell", "autoCleanup": True}
    ended = client.post("/api/swarms", {"memory": {"a": 1}, "tasks": [
        {"name": "first", "instruction": "true", **member},
        {"instruction": "grep a $ATOLL_SWARM_MEMORY", "dependsOn": ["first"], **member}]}, wait="true")
    want_success(ended)
    client.call("PATCH", f"/api/swarms/{ended['id']}/memory", {"a": 2})


@errand()
def persistent(walk, client, _):
    made = client.create(persistent=True, env={"SECRET": "kept"})
    client.run(made, "echo mine > file")
    client.post(f"/api/sandboxes/{made}/stop")
    client.post(f"/api/sandboxes/{made}/resume")
    assert client.run(made, "cat file; echo $SECRET") == "mine\nkept\n"
    client.delete(f"/api/sandboxes/{made}")


@errand(box)
def context(walk, client, made):
    path = f"/api/sandboxes/{made}/contexts"
    name = client.post(path, {"language": "bash"})["context_id"]
    assert client.interpret(f"{path}/{name}", "x=5; echo $x") == "5\n"
    assert client.interpret(f"{path}/{name}", "echo $x") == "5\n"
    assert len(client.interpret(f"{path}/{name}", "seq 30000")) == 168894  # worth forgetting
    client.delete(f"{path}/{name}")


@errand()
def session(walk, client, _):
    made = client.post("/api/sessions", {"environment": "Bash", "artifacts": ["*.txt"]})
    path = f"/api/sessions/{made['session_id']}"
    client.post(f"{path}/execute", {"code": "echo hi > out.txt"})
    client.delete(path)


@errand(box)
def preview(walk, client, made):
    path = f"/api/sandboxes/{made}/previews"
    server = ("import http.server\n"
              "http.server.HTTPServer(('127.0.0.1', 8000), http.server.SimpleHTTPRequestHandler)"
              ".serve_forever()")
    client.post(f"/api/sandboxes/{made}/execs", {"cmd": ["python3", "-c", server]})
    client.run(made, "for i in $(seq 200); do python3 -c 'import socket; "
                     "socket.create_connection((\"127.0.0.1\", 8000))' 2>/dev/null && exit 0; "
                     "done; exit 1")
    client.post(path, {"port": 8000, "public": True})
    client.call("GET", f"/preview/{made}/8000/")
    client.delete(f"{path}/8000")


@errand()
def artifacts(walk, client, _):
    made = client.create(artifacts=["*.txt"])
    client.run(made, "echo kept > a.txt; echo more > b.txt")
    client.delete(f"/api/sandboxes/{made}")
    assert client.call("GET", f"/api/artifacts/{made}/a.txt").body == b"kept\n"
    client.delete(f"/api/artifacts/{made}")


@errand()
def template(walk, client, _):
    for box in client.get("/api/sandboxes")["sandboxes"]:  # of an interrupted one, which would keep it
        client.call("DELETE", f"/api/sandboxes/{box['id']}", want=(204, 404))
    client.put("/api/templates/small", docker_engine.busybox_root())
    made = client.create(template="small")
    client.run(made, "true")
    client.post("/api/templates/small/tags", {"tag": "first"})
    client.put("/api/templates/small", docker_engine.busybox_root("root:x:0:0:second:/root:/bin/sh\n"))
    client.delete("/api/templates/small:first")
    client.run(made, "! grep second /etc/passwd")
    client.delete(f"/api/sandboxes/{made}")
    client.put("/api/templates/small", docker_engine.busybox_root("root:x:0:0:third:/root:/bin/sh\n"))
    third = client.get("/api/templates/small")
    client.call("DELETE", f"/api/templates/small@sha256:{third['digest']}", want=(204, 404))
    client.call("DELETE", "/api/templates/small", want=(204, 404))


@errand()
def build(walk, client, _):
    client.put("/api/builds/contexts/files", docker_engine.busybox_root())
    made = client.post("/api/builds", {"dockerfile": "FROM scratch\nCOPY . /\nWORKDIR /new\nRUN echo x > file\n",
                                       "context": "files", "name": "built"})
    path = f"/api/builds/{made['id']}"
    client.call("GET", f"{path}/log", follow="true")
    ended = client.get(path)
    if ended["state"] != "ready":
        raise Refused(path, 500, json.dumps(ended).encode())
    client.get("/api/templates/built/sbom")
    client.delete("/api/templates/built")


def pushed_image(walk, client):
    """An image in a registry, which runs until the tests end."""
    if oci_images.missing():
        return None
    if not REGISTRY:
        directory = pathlib.Path(tempfile.mkdtemp(prefix="atoll-registry-"))
        (directory / "registry").mkdir()
        REGISTRY.append(oci_images.Registry(directory / "registry", oci_images.free_port()).start())
        atexit.register(shutil.rmtree, directory)
        atexit.register(REGISTRY[0].stop)
        layout = oci_images.Layout(directory / "layout")
        layout.add("it", [oci_images.busybox(), oci_images.tar_of(("marker", "x"))], {"WorkingDir": "/srv"})
        REGISTRY.append(REGISTRY[0].push(layout, "it", "fault:1"))
    return REGISTRY[1]


@errand(pushed_image)
def image(walk, client, name):
    if not name:
        return
    made = client.create(image=name)
    client.run(made, "cat /marker")
    client.delete(f"/api/sandboxes/{made}")
    client.delete("/api/templates/" + urllib.parse.quote(name.rpartition(":")[0], safe=""))


@errand(box)
def watch(walk, client, made):
    with walk.rest.websocket(f"/api/sandboxes/{made}/files/watch?path=.") as watching:
        if watching.status != 101:
            client.call("GET", f"/api/sandboxes/{made}/files/list", path=".")
            return
        client.put(f"/api/sandboxes/{made}/files", b"x", path="a")
        with contextlib.suppress(OSError, EOFError):
            watching.recv()
    client.call("GET", f"/api/sandboxes/{made}/files/list", path=".")


@errand()
def send_twice(walk, client, _):
    headers = {"Idempotency-Key": f"walk-{len(client.told)}-{next(walk.numbers)}"}
    made = client.call("POST", "/api/sandboxes", {}, headers).json["id"]
    assert client.call("POST", "/api/sandboxes", {}, headers).json["id"] == made
    client.delete(f"/api/sandboxes/{made}")


def reach_again(walk, client, made, socket):
    """Somebody else takes the agent away for a moment."""
    with contextlib.suppress(OSError, EOFError, AssertionError):
        wire, sock = agent_wire.of_socket(socket)
        wire.ask(agent_wire.HELLO, agent_wire.hello())
        sock.close()
    wait_until(lambda: walk.is_dead() or walk.has_failed(made) or walk.reaches(made), 30,
               lambda: "it is out of reach")
    client.run(made, "true")


@errand(box)
def reattach(walk, client, made):
    reach_again(walk, client, made, walk.state / "sandboxes" / f"{made}.sock")


@errand(lambda walk, client: client.create(provider="fake", template="host"))
def reattach_fake(walk, client, made):
    reach_again(walk, client, made, walk.state / "fake" / made / "agent.sock")


@errand()
def keys(walk, client, _):
    made = client.post("/api/keys", {"tenant": "walker", "scope": "write"})
    client.delete(f"/api/keys/{made['id']}")


@errand()
def limits(walk, client, _):
    client.call("GET", "/readyz", want=(200, 503))
    client.get("/api/health")
    client.get("/api/providers")
    client.get("/api/host")


@errand()
def fake(walk, client, _):
    made = client.create(provider="fake", template="host")
    client.run(made, "echo hi")
    client.delete(f"/api/sandboxes/{made}")


def filled_pool(walk, client):
    wait_until(lambda: len(walk.agents()) >= walk.spare, 30, lambda: "the pool does not fill")


@errand(filled_pool, "odd")
def from_pool(walk, client, _):
    made = client.create(limits={"memoryMB": 600, "timeoutSeconds": 600}, recreate=True,
                         env={"A": "b"})
    client.run(made, "true")
    client.delete(f"/api/sandboxes/{made}")


@errand(box, "odd")
def files_in_band(walk, client, made):
    """Descriptors do not pass."""
    path = f"/api/sandboxes/{made}/files"
    client.put(path, b"x" * 200000, path="a")
    assert client.call("GET", path, path="a").body == b"x" * 200000


def households(walk, client):
    """One of each kind, for the next daemon to find."""
    resting, standing = persistent_box(walk, client), client.create()
    client.post(f"/api/sandboxes/{resting}/stop")
    client.post(f"/api/sandboxes/{standing}/pause")
    running = client.create()
    client.run(running, "echo before")
    client.post(f"/api/sandboxes/{running}/execs",
                {"cmd": ["sh", "-c", "echo late; sleep 0.2; exit 3"]})
    fake_one = client.create(provider="fake", template="host")
    client.post(f"/api/sandboxes/{running}/contexts", {"language": "bash"})
    return running, standing, resting, fake_one


@errand(households)
def die(walk, client, made):
    """kill -9, and another one. At its start it may die itself, or refuse and say why."""
    walk.kill()
    if not walk.launch():
        return
    running, standing, resting, _ = made
    client.run(running, "echo after")
    client.post(f"/api/sandboxes/{standing}/resume")
    client.post(f"/api/sandboxes/{resting}/resume")
    assert client.run(resting, "cat file") == "mine\n"
    client.delete(f"/api/sandboxes/{standing}")


@errand(persistent_box)
def end(walk, client, made):
    """It is told to end, and started again."""
    walk.daemon.process.send_signal(signal.SIGTERM)
    with contextlib.suppress(Exception):
        walk.daemon.process.wait(30)
    if not walk.launch():
        return
    client.post(f"/api/sandboxes/{made}/resume")
    assert client.run(made, "cat file") == "mine\n"
