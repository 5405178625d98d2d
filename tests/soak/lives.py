"""What is done with whole sandboxes: rest, interpreters, sessions, other facades."""

import concurrent.futures
import functools
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import envd
from commands import endless, numbered
from ground import Ended, Gone


def figures(box, chance):
    box.need(box.get("stats"), "stats")
    health = box.need(box.get("health"), "health").json
    if health["status"] != "ok" and not box.is_over():
        box.finding(f"health: {health}")
    box.need(box.client.call("PATCH", box.path, {"metadata": {"round": str(chance.random())}}),
             "patch")
    for path in ("/metrics", "/api/stats", "/api/sandboxes", "/api/providers", "/readyz"):
        answer = box.client.get(path)
        if answer.status != 200 and not answer.disturbed and path != "/readyz":
            box.finding(f"{path}: {answer.status} {answer.body[:200]}")


def await_state(box, state, verb):
    """Asks for it until it is so: a request without an answer may have been done or not."""
    while True:
        answer = box.client.sure("POST", f"{box.path}/{verb}")
        if answer.status == 200:
            return
        view = box.client.sure("GET", box.path)
        if view.status == 200 and view.json["state"] == state:
            return
        if not answer.disturbed:
            raise box.refused(answer, verb)


def wake(box):
    """After an activity was interrupted: it may have been about to rest."""
    view = box.client.sure("GET", box.path)
    if view.status == 200 and view.json["state"] in ("paused", "stopped") and not box.is_over():
        await_state(box, "running", "resume")


def paused(box, chance):
    """What runs stands still and goes on."""
    if box.provider == "e2b":
        return
    command = box.start(numbered(chance, 60))
    await_state(box, "paused", "pause")
    answer = box.post("execs", {"cmd": ["true"]})
    if answer.status != 409:
        raise box.refused(answer, "command in a paused sandbox")
    time.sleep(chance.uniform(0, 0.3))
    await_state(box, "running", "resume")
    box.follow(command)


def stopped(box, chance):
    """A persistent one rests on its disk."""
    if not box.persistent:
        return
    counter, box.counter = box.counter, None  # its interpreter ends, too
    box.need(box.client.put(f"{box.path}/files", b"kept", path="kept"), "file to keep")
    command = box.start(endless())
    command.killed = True
    await_state(box, "stopped", "stop")
    await_state(box, "running", "resume")
    box.follow(command)
    answer = box.need(box.get("files", path="kept"), "file that was kept")
    box.check(answer.body == b"kept", f"the disk holds {answer.body[:40]}")
    if counter is not None:
        box.counter = [counter[0], 0]
        box.others += 1
        got = execute(box, "n = 0")
        box.check("had ended" in got["stderr"], f"variables are gone and nobody says so: {got}")


def interpreter(box, chance):
    """Variables stay, also when the daemon does not."""
    if box.counter is None:
        box.others += 1
        made = box.need(box.post("contexts", {"language": "python"}), "context", 201).json
        box.counter = [made["context_id"], 0]
        execute(box, "n = 0")
    for _ in range(chance.randint(1, 4)):
        before = box.counter[1]
        try:
            got = execute(box, "n += 1\nprint(n)")
            box.check(got["stdout"] == f"{before + 1}\n", f"n was {before} and then {got}")
            box.counter[1] = before + 1
        except Gone:
            box.ground.wait_up()
            got = execute(box, "print(n)")
            box.check(got["stdout"] in (f"{before}\n", f"{before + 1}\n"),
                      f"n was {before} and then {got}")
            box.counter[1] = int(got["stdout"])


def execute(box, code):
    answer = box.post(f"contexts/{box.counter[0]}/execute", {"code": code})
    got = box.need(answer, "execute").json
    if got["error"] is not None:
        raise box.explain(answer.disturbed, f"execute: {got}")
    return got


ACTIVITIES = [(figures, 4), (paused, 3), (stopped, 6), (interpreter, 2)]


# Those that bring a sandbox of their own.


def explained(client, mark, text):
    if not client.ground.disturbed(mark):
        client.ground.ledger.finding(text)


def run_once(client, chance):
    mark, n = client.ground.mark(), chance.randint(1, 500)
    answer = client.post("/api/run", {"cmd": ["seq", str(n)], "provider": "native"})
    if answer.status != 200 or answer.json["result"].get("exit_code") != 0:
        explained(client, mark, f"run: {answer.status} {answer.body[:300]}")
    elif answer.json["stdout"] != "".join(f"{i}\n" for i in range(1, n + 1)):
        client.ground.ledger.finding(f"run: {answer.body[:300]}")
    client.ground.ledger.count("runs")


def session(client, chance):
    mark = client.ground.mark()
    answer = client.post("/api/sessions", {"environment": chance.choice(["Python3", "Bash"]),
                                           "metadata": {"soak": "session"}})
    if answer.status != 201:
        explained(client, mark, f"session: {answer.status} {answer.body[:300]}")
        return
    path = f"/api/sessions/{answer.json['session_id']}"
    try:
        for i in range(3):
            python = answer.json["environment"] == "Python3"
            code = f"print({i} + 40)" if python else f"echo {i + 40}"
            done = client.post(f"{path}/execute", {"code": code, "timeout": 60})
            if done.status != 200 or done.json["stdout"] != f"{i + 40}\n":
                explained(client, mark, f"execute: {done.status} {done.body[:300]}")
                break
    finally:
        gone = client.sure("DELETE", path)
        if gone.status not in (204, 404):
            explained(client, mark, f"end of a session: {gone.status} {gone.body[:300]}")
    client.ground.ledger.count("sessions")


@functools.cache
def bundle():
    """A repository with one commit, as `git bundle` makes it."""
    with tempfile.TemporaryDirectory(prefix="atoll-soak-") as made:
        def git(*words):
            subprocess.run(["git", "-c", "user.name=T", "-c", "user.email=t@example.org", *words], cwd=made, check=True,
                           capture_output=True)
        git("init", "-qb", "main")
        git("commit", "-q", "--allow-empty", "-m", "first")
        git("bundle", "create", "-q", "first.bundle", "HEAD", "main")
        return Path(made, "first.bundle").read_bytes()


def send(client, path, found):
    """The repository, to a task that waits for it; a daemon that dies meanwhile asks again."""
    sent = client.sure("PUT", f"/api/sandboxes/{found['sandbox_id']}/files", bundle(), path="/tmp/.atoll-task.bundle")
    if sent.status == 200:
        client.sure("POST", f"{path}/source")


def task(client, chance):
    """It goes on with the next daemon; the agent runs once. Some have a repository, whose branch comes back."""
    mark, n = client.ground.mark(), chance.randint(1, 200)
    repository = {"repo": {"upload": True}, "branch": "work"} if shutil.which("git") and chance.random() < 0.3 else {}
    answer = client.post("/api/tasks", {
        "agent": "shell", "autoCleanup": True, "capturePatterns": ["*.txt"], "sandbox": {"provider": "native"}, **repository,
        "instruction": f"echo x >> runs.txt; seq {n}; sleep {chance.uniform(0, 0.5):.2f}; cat runs.txt"})
    if answer.status != 201:
        explained(client, mark, f"task: {answer.status} {answer.body[:300]}")
        return
    path, deadline = f"/api/tasks/{answer.json['id']}", time.monotonic() + 180
    while (found := client.sure("GET", path).json)["state"] in ("waiting", "running"):
        if time.monotonic() > deadline:
            client.ground.ledger.finding(f"{path} does not end: {found}")
            return
        if found["wants_source"]:
            send(client, path, found)
        time.sleep(0.2)
    if found["state"] == "succeeded" and found["output"] != "".join(f"{i}\n" for i in range(1, n + 1)) + "x\n":
        client.ground.ledger.finding(f"{path}: {found['output'][-300:]}")
    elif found["state"] == "succeeded" and repository:
        back = client.sure("GET", f"/api/artifacts/{found['sandbox_id']}/.git/atoll.bundle")
        if back.status != 200 or b"refs/heads/work" not in back.body[:200]:
            client.ground.ledger.finding(f"{path}: no branch came back: {back.status} {back.body[:200]}")
    elif found["state"] == "failed" and not found["error"]["message"]:
        client.ground.ledger.finding(f"{path} failed without a reason")
    client.sure("DELETE", path)
    client.ground.ledger.count(f"tasks {'with a repository ' if repository else ''}that have {found['state']}")


def with_deadline(client, chance):
    """It ends by itself."""
    mark = client.ground.mark()
    answer = client.post("/api/sandboxes", {"limits": {"timeoutSeconds": 1}, "provider": "native",
                                            "metadata": {"soak": "deadline"}})
    if answer.status != 201:
        explained(client, mark, f"create: {answer.status} {answer.body[:300]}")
        return
    path = f"/api/sandboxes/{answer.json['id']}"
    done = client.post(f"{path}/execs", {"cmd": ["sleep", "1000"]}, wait="true")
    if done.status != 200 or done.json["result"]["kind"] != "killed_by":
        explained(client, mark, f"at the deadline: {done.status} {done.body[:300]}")
    deadline = time.monotonic() + 60
    while client.sure("GET", f"{path}?ended=false").status != 404:
        if time.monotonic() > deadline:
            client.ground.ledger.finding(f"{path} is there long after its deadline")
            return
        time.sleep(0.2)
    client.ground.ledger.count("deadlines")


def abandoned(client, chance):
    """Whoever asks for a sandbox and does not wait gets none; the janitor looks."""
    sock = client.rest.socket(10)
    with sock:
        body = b'{"provider":"native","metadata":{"soak":"abandoned"}}'
        key = client.rest.headers.get("X-API-Key")
        head = "POST /api/sandboxes HTTP/1.1\r\nHost: localhost\r\n"
        if key:
            head += f"X-API-Key: {key}\r\n"
        sock.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        time.sleep(chance.uniform(0, 0.004))
    client.ground.ledger.count("creates that nobody waited for")


def e2b(client, chance):
    """The same machinery through E2B's facade."""
    client = client.ground.e2b()
    ledger, mark = client.ground.ledger, client.ground.mark()
    made = client.post("/sandboxes", {"templateID": "base", "timeout": 120, "secure": True,
                                      "metadata": {"soak": "e2b"}})
    if made.status != 201:
        explained(client, mark, f"E2B create: {made.status} {made.body[:300]}")
        return
    box = envd.Envd(client.rest, made.json)
    problem = None
    try:
        done = box.run("for i in 1 2 3; do echo $i; sleep 0.05; done; exit 3")
        if done.stdout != b"1\n2\n3\n" or (done.exit or {}).get("exitCode") != 3:
            problem = f"E2B command: {done.stdout} {done.exit} {done.error}"
        data = chance.randbytes(chance.randint(1, 50000))
        if box.upload("/home/user/x", data).status != 200:
            problem = "E2B upload"
        elif box.download("/home/user/x").body != data:
            problem = "E2B download"
    except Exception as error:  # noqa: BLE001 - whatever a cut stream looks like to that client
        problem = repr(error)
    if problem:
        explained(client, mark, f"{box.id}: {problem}")
    killed = client.sure("DELETE", f"/sandboxes/{box.id}")
    if killed.status not in (204, 404):
        explained(client, mark, f"E2B kill: {killed.status} {killed.body[:300]}")
    ledger.count("E2B sandboxes")


def with_past(client, chance):
    """Snapshots, forks, restores and undo, on each kind of disk, with a volume."""
    mark, name = client.ground.mark(), f"soak-{chance.randrange(1 << 40):x}"
    body = {"metadata": {"soak": "worker"}, "provider": "native", "checkpoints": "command",
            "limits": {"memoryMB": 64, "diskMB": chance.choice([24, 80]), "timeoutSeconds": 600},
            "volumes": [{"name": "soak", "path": "/data"}]}
    kind = chance.choice([None, "memory", "image", "cow"])
    if kind:
        body["disk"] = {"kind": kind}
    if kind == "memory":
        body["limits"]["diskMB"] = 24
    made = client.post("/api/sandboxes", body)
    if made.status == 409 and kind in ("image", "cow"):  # this host has none
        del body["disk"]
        made = client.post("/api/sandboxes", body)
    if made.status != 201:
        explained(client, mark, f"create: {made.status} {made.body[:300]}")
        return
    boxes = [f"/api/sandboxes/{made.json['id']}"]

    def step(want, answer):
        if answer.status != want:
            raise Ended(f"{answer.status} {answer.body[:300]}")
        return answer.json

    def run(path, script):
        done = step(200, client.post(f"{path}/execs", {"cmd": ["sh", "-c", script]}, wait="true"))
        if done["result"]["kind"] != "exited":
            raise Ended(f"{script}: {done['result']}")
        return done["stdout"]

    def capture(path, body):
        """A tenant may have a number of them in progress or waiting."""
        while (answer := client.post(path, body)).status == 429 and b"are in progress or wait" in answer.body:
            time.sleep(0.05)
        return step(201, answer)

    def beside(work, count):
        """Commands and another snapshot at the same time: each has its own answer."""
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            others = [pool.submit(run, boxes[0], f"echo {i}; echo {i} >> beside") for i in range(count)]
            others.append(pool.submit(capture, f"{boxes[0]}/snapshots", {"name": f"{name}-beside"}))
            made = work()
        if [one.result() for one in others[:-1]] != [f"{i}\n" for i in range(count)]:
            raise Ended(f"commands beside a capture: {[one.result() for one in others]}")
        others[-1].result()
        return made

    try:
        run(boxes[0], f"echo one > note; echo x >> /data/{name}")
        beside(lambda: capture(f"{boxes[0]}/snapshots", {"name": name}), chance.randint(0, 2))
        run(boxes[0], "echo two > note")
        forks = beside(lambda: capture(f"{boxes[0]}/fork", {"count": 2}), chance.randint(0, 2))["sandboxes"]
        boxes += [f"/api/sandboxes/{one['id']}" for one in forks]
        run(boxes[1], "echo three > note")
        run(boxes[0], "rm note")
        step(200, client.post(f"{boxes[0]}/undo", {}))
        notes = [run(path, f"cat note /data/{name}") for path in boxes]
        step(200, client.post(f"{boxes[0]}/restore", {"snapshot": name}))
        notes.append(run(boxes[0], f"cat note; rm /data/{name}"))
        if notes != ["two\nx\n", "three\nx\n", "two\nx\n", "one\n"]:
            raise Ended(f"files with a past: {notes}")
    except Ended as error:
        explained(client, mark, str(error))
    finally:
        for path in [*boxes, f"/api/snapshots/{name}", f"/api/snapshots/{name}-beside"]:
            gone = client.sure("DELETE", path)
            if gone.status not in (204, 404):
                explained(client, mark, f"{path}: {gone.status} {gone.body[:300]}")
    client.ground.ledger.count("sandboxes with a past")


SOLO = [(run_once, 3), (session, 1), (with_deadline, 1), (abandoned, 2), (e2b, 2), (task, 2), (with_past, 2)]
