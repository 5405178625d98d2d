"""Who may do what: keys, tenants, rates, quotas, the audit log, and secrets that stay secret.

The matrix is made from the routes the daemon itself lists, so a new route is in it at once.
"""

import concurrent.futures
import contextlib
import json
import os
import re
import signal
import subprocess
import time

import pytest
from daemons import below, process_files, wait_for_room
from listening import listening_daemon
from rest import Rest

CANARY = "canary-7f3a9c41d2e8-do-not-tell"


class Server:
    """A daemon of this file's own, on a unix socket and on TCP."""

    def __init__(self, daemon, directory, *options):
        self.build = daemon.build
        self.socket = directory / "own.sock"
        self.state = directory / "own"
        self.log = directory / "own.log"
        self.options = options
        self.env = {"PATH": daemon.env["PATH"], "HOME": daemon.home,
                    "ATOLL_SOCKET": str(self.socket)}
        self.root = Rest(self.socket)
        self.process = self.address = None

    def start(self):
        wait_for_room()
        known = self.log.read_text().count('"ready"') if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(self.build / "atolld"), "--state", str(self.state), "--socket",
                 str(self.socket), "--listen", "127.0.0.1:0", *self.options],
                env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True)
        deadline = time.monotonic() + 30
        while len(ready := self.ready_lines()) <= known:
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)
        host, _, port = ready[-1]["listen"].rpartition(":")
        self.address = (host, int(port))
        return self

    def ready_lines(self):
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [entry for line in lines if line.startswith("{") and '"ready"' in line
                and (entry := json.loads(line)).get("event") == "ready"]

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        status = self.process.wait(30)
        assert how == signal.SIGKILL or status == 0, self.log.read_text()

    def cli(self, *args, check=True, **env):
        done = subprocess.run([str(self.build / "atoll"), *args], env={**self.env, **env},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert not check or done.returncode == 0, done.stderr
        return done

    def key(self, tenant, scope):
        return self.cli("key", "create", "--tenant", tenant, "--scope", scope).stdout.strip()

    def by(self, key, **headers):
        """A client on TCP; a key of None shows none."""
        shown = {"Authorization": f"Bearer {key}"} if key is not None else {}
        return Rest(self.address, {**shown, **headers})

    def routes(self):
        listed = subprocess.run([str(self.build / "atolld"), "--list-routes"], text=True,
                                capture_output=True, check=True).stdout
        return [tuple(line.split()) for line in listed.splitlines()]

    def audit(self):
        return [json.loads(line) for line in (self.state / "audit.log").read_text().splitlines()]


@contextlib.contextmanager
def serving(daemon, directory, *options):
    server = Server(daemon, directory, *options).start()
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.root.delete("/api/sandboxes", all="true")
            server.stop()


@pytest.fixture(scope="module")
def server(daemon, tmp_path_factory):
    with serving(daemon, tmp_path_factory.mktemp("access"), "--key-rate", "0",
                 "--wrong-key-rate", "0", "--log-level", "debug") as started:
        yield started


@pytest.fixture(scope="module")
def keys(server):
    return {
        "none": None,
        "wrong": "atl_" + "x" * 40,
        "read": server.key("acme", "read"),
        "write": server.key("acme", "write"),
        "foreign": server.key("rival", "write"),
        "admin": (server.state / "api-key").read_text().strip(),
    }


def status_of(rest, method, path):
    """The status alone: some answers have no end. -> (status, headers, body if it is an error)"""
    connection = rest.connection(timeout=20)
    try:
        body = "{}" if method in ("POST", "PUT", "PATCH") else None
        connection.request(method, path, body, rest.headers)
        response = connection.getresponse()
        bounded = response.status >= 400
        return response.status, response.headers, response.read() if bounded else b""
    finally:
        connection.close()


class Things:
    """What the parameters of a route stand for: a sandbox of acme's with a command, a session."""

    def __init__(self, owner, with_session):
        self.owner = owner
        made = owner.post("/api/sandboxes", {})
        assert made.status == 201, made.body
        self.id = made.json["id"]
        self.exec = owner.post(f"/api/sandboxes/{self.id}/execs",
                               {"cmd": ["sleep", "60"], "stdin": True}).json["exec_id"]
        self.session = "0"
        if with_session:
            made = owner.post("/api/sessions", {"environment": "Bash"})
            assert made.status == 201, made.body
            self.session = made.json["session_id"]

    def path(self, route):
        values = {"id": self.id, "sandboxID": self.id, "exec": self.exec, "session": self.session, "name": "nothing",
                  "secret": "nothing", "secretID": "nothing", "template": "nothing", "path": "x.txt", "rest": "", "port": "8080",
                  "key": "nothing", "item": "1", "sandbox": self.id, "sid": f"sbx_{self.id}", "cid": f"cmd_{self.exec}"}
        return re.sub(r"\{(\w+)\}", lambda match: values[match[1]], route)

    def remove(self):
        self.owner.delete("/api/sandboxes")


def without_request_id(body):
    """In the shape of our own API; the facades have others, which tell less."""
    if body.startswith(b"<?xml"):
        return re.sub(rb"<RequestId>.*</RequestId>", b"", body)
    answer = json.loads(body)
    if isinstance(answer.get("error"), dict):
        answer["error"].pop("request_id", None)
    for name in ("timestamp", "path", "method"):  # of Daytona's
        answer.pop(name, None)
    return answer


def protocol_of(route):
    """Routes whose refusals have the same shape."""
    return next((name for name in ("/daytona/toolbox", "/daytona/object-storage/contexts", "/daytona", "/vercel", "/mcp", "/api") if route.startswith(name)), "E2B")


def is_missing(body):
    return any(words in body for words in (b"does not exist", b"doesn't exist", b"not found"))


def names_a_sandbox(route):
    return any(name in route for name in ("{id}", "{sandboxID}", "{session}", "{sandbox}", "{sid}"))


def test_every_route_needs_its_scope(server, keys):
    """Routes x {no key, wrong key, read, another tenant's write, write, admin}."""
    clients = {name: server.by(key) for name, key in keys.items()}
    seen = {}
    for method, route, scope in server.routes():
        things = Things(clients["write"], "{session}" in route)
        names_one = names_a_sandbox(route)
        try:
            # The harmless first: the last two may destroy what the route names.
            for name in ("none", "wrong", "read", "foreign", "write", "admin"):
                status, headers, body = status_of(clients[name], method, things.path(route))
                case = f"{name}: {method} {route} ({scope}) -> {status} {body[:300]}"
                if route.startswith("/volumecontent/"):  # the token of the volume is the key
                    assert status == 401, case
                elif scope == "public":
                    assert status not in (401, 403), case
                elif name in ("none", "wrong"):
                    assert status == 401, case
                    assert headers["WWW-Authenticate"].split(" resource_metadata=")[0] == "Bearer", case
                    refusal = without_request_id(body)
                    assert seen.setdefault(protocol_of(route), refusal) == refusal, case
                elif ("public", "read", "tools", "write", "admin").index(scope) > \
                        {"read": 1, "write": 3, "foreign": 3, "admin": 4}[name]:
                    assert status == 403, case
                elif name == "foreign" and names_one:
                    assert status == 404 and is_missing(body), case
                elif b"has not permitted volumes" not in body:  # which is the operator's choice
                    assert status not in (401, 403), case
                    if names_one and name in ("read", "write"):
                        gone = things.session if "{session}" in route else things.id
                        assert not re.search(rf"{gone}\W+does(n't| not) exist", body.decode()), case
        finally:
            things.remove()
            clients["foreign"].delete("/api/sandboxes")
            clients["admin"].delete("/api/sandboxes")


def test_a_foreign_id_is_an_unknown_id(server, keys):
    owner, rival = server.by(keys["write"]), server.by(keys["foreign"])
    things = Things(owner, True)
    unknown = Things.__new__(Things)
    unknown.id, unknown.session = "y" * len(things.id), "z" * len(things.session)
    unknown.exec = things.exec
    for method, route, scope in server.routes():
        if scope not in ("read", "tools", "write") or not names_a_sandbox(route):
            continue
        answers = []
        for at in (things, unknown):
            status, headers, body = status_of(rival, method, at.path(route))
            text = json.dumps(without_request_id(body))
            answers.append((status, text.replace(at.id, "ID").replace(at.session, "SESSION"),
                            sorted(name for name, _ in headers.items())))
        assert answers[0] == answers[1], (method, route)
        assert answers[0][0] == 404, (method, route, answers)
    # ... and nothing happened to it.
    assert owner.get(f"/api/sandboxes/{things.id}/execs/{things.exec}").json["state"] == "running"
    things.remove()


def test_ids_in_bodies_are_checked_too(server, keys):
    owner, rival = server.by(keys["write"]), server.by(keys["foreign"])
    things = Things(owner, True)
    for path, body in (("/api/e2b/execute", {"code": "true"}),
                       ("/api/e2b/files", {"path": "x", "content": "y"})):
        assert rival.post(path, {**body, "session_id": things.session}).status == 404
        assert rival.post(path, {**body, "session_id": "zzz"}).status == 404
        assert owner.post(path, {**body, "session_id": things.session}).status in (200, 201)
    things.remove()


def test_lists_are_the_tenants_own(server, keys):
    mine, rival = server.by(keys["write"]), server.by(keys["foreign"])
    admin, root = server.by(keys["admin"]), server.root
    box = mine.post("/api/sandboxes", {}).json["id"]
    other = rival.post("/api/sandboxes", {}).json["id"]

    def ids(client, path, **query):
        answer = client.get(path, **query)
        assert answer.status == 200, answer.body
        return {entry["id"] for entry in answer.json["sandboxes"]}

    for path in ("/api/sandboxes", "/api/stats", "/api/health"):
        assert ids(mine, path) == ids(server.by(keys["read"]), path) == {box}
        assert ids(rival, path) == {other}
        for client in (admin, root):
            assert ids(client, path) == set()
            assert ids(client, path, all="true") == {box, other}
        refused = mine.get(path, all="true")
        assert refused.status == 403 and refused.error["code"] == "permission_denied"
        assert mine.get(path, all="perhaps").status == 400

    # An admin finds every id, and acts for a tenant when told to.
    assert admin.get(f"/api/sandboxes/{box}").status == 200
    for_acme = server.by(keys["admin"], **{"X-Atoll-Tenant": "acme"})
    assert ids(for_acme, "/api/sandboxes") == {box}
    assert for_acme.get(f"/api/sandboxes/{other}").status == 404
    assert for_acme.get("/api/sandboxes", all="true").status == 403
    made = Rest(server.socket, {"X-Atoll-Tenant": "acme"}).post("/api/sandboxes", {}).json["id"]
    assert ids(mine, "/api/sandboxes") == {box, made}
    assert server.by(keys["write"], **{"X-Atoll-Tenant": "rival"}).get("/api/host").status == 403
    assert server.by(keys["write"], **{"X-Atoll-Tenant": "acme"}).get("/api/host").status == 200
    assert server.by(keys["admin"], **{"X-Atoll-Tenant": "a/b"}).get("/api/host").status == 400

    assert mine.delete("/api/sandboxes").json == {"destroyed": 2}
    assert ids(rival, "/api/sandboxes") == {other}
    assert root.delete("/api/sandboxes", all="true").json == {"destroyed": 1}


def test_where_the_host_is_weak_is_for_admins(server, keys):
    """Tenants run code: they are not told which leaks of the processor are open."""
    def seen(key):
        return {check["name"]: check for check in server.by(keys[key]).get("/api/host").json["checks"]}

    everything = seen("admin")
    hidden = {name for name, check in everything.items() if check.get("hardening")}
    assert {"swap", "KSM"} <= hidden and "kernel" not in hidden
    for key in ("read", "write"):
        assert set(seen(key)) == set(everything) - hidden


def test_a_run_belongs_to_its_tenant(server, keys):
    mine, rival = server.by(keys["write"]), server.by(keys["foreign"])
    kept = mine.post("/api/run", {"cmd": ["true"], "keep": True}).json["sandbox_id"]
    with mine.websocket("/api/run") as ws:
        ws.send({"cmd": ["true"], "keep": True})
        streamed = ws.text()["sandbox_id"]
        ws.finish()
    for box in (kept, streamed):
        assert rival.get(f"/api/sandboxes/{box}").status == 404
        assert mine.delete(f"/api/sandboxes/{box}").status == 204


def test_a_key_counts_on_the_socket_as_well(server, keys):
    def on_socket(key):
        return Rest(server.socket, {"X-API-Key": key})

    assert on_socket(keys["read"]).post("/api/sandboxes", {}).status == 403
    assert on_socket(keys["wrong"]).get("/api/sandboxes").status == 401
    assert Rest(server.socket, {"Authorization": "Basic eDp5"}).get("/api/host").status == 401


def test_keys_from_the_command_line(server):
    done = server.cli("key", "create", "--tenant", "shop", "--scope", "write")
    assert re.fullmatch(r"atl_[a-z0-9]{40}\n", done.stdout) and done.stderr == ""
    key = done.stdout.strip()
    made = json.loads(server.cli("key", "create", "--json", "--tenant", "shop", "--scope",
                                 "read").stdout)
    assert made["tenant"] == "shop" and made["scope"] == "read"
    assert server.by(key).get("/api/sandboxes").json == {"sandboxes": []}

    table = server.cli("key", "ls").stdout
    assert made["id"] in table and "shop" in table and "atl_" not in table
    listed = json.loads(server.cli("key", "ls", "--json").stdout)["keys"]
    assert all(set(entry) == {"id", "tenant", "scope", "created_at"} for entry in listed)

    assert server.cli("key", "rm", made["id"]).stdout == made["id"] + "\n"
    assert server.by(made["key"]).get("/api/sandboxes").status == 401
    assert server.by(key).get("/api/sandboxes").status == 200
    again = server.cli("key", "rm", made["id"], check=False)
    assert again.returncode == 1 and "there is no key" in again.stderr
    for bad in (["--scope", "root"], ["--tenant", "a b"], ["--tenant", ""]):
        refused = server.cli("key", "create", *bad, check=False)
        assert refused.returncode == 1 and refused.stdout == "", refused
    tenant = {"ATOLL_SOCKET": "", "ATOLL_URL": "http://%s:%d" % server.address,
              "ATOLL_API_KEY": key}
    refused = server.cli("key", "ls", check=False, **tenant)
    assert refused.returncode == 1 and "scope admin" in refused.stderr


def test_keys_survive_and_are_nowhere_on_disk(daemon, tmp_path):
    with serving(daemon, tmp_path) as own:
        first = (own.state / "api-key").read_text().strip()
        assert (own.state / "api-key").stat().st_mode & 0o7777 == 0o600
        key, gone = own.key("acme", "write"), own.key("acme", "admin")
        listed = json.loads(own.cli("key", "ls", "--json").stdout)["keys"]
        admin = [entry for entry in listed if entry["scope"] == "admin"]
        assert len(listed) == 3 and len(admin) == 2
        box = own.by(key).post("/api/sandboxes", {}).json["id"]
        own.cli("key", "rm", next(k["id"] for k in admin if k["tenant"] == "acme"))
        own.stop(signal.SIGKILL)
        own.start()
        assert own.by(key).get(f"/api/sandboxes/{box}").status == 200
        assert own.by(first).get("/api/keys").status == 200
        assert own.by(gone).get("/api/keys").status == 401
        for secret in (key, gone):
            assert not found_in_files(own.state, secret)
        for secret in (key, gone, first):
            assert secret not in own.log.read_text()
        # The key of the file goes with the file, and does not come back.
        first_id = next(k["id"] for k in admin if k["tenant"] == "default")
        own.cli("key", "rm", first_id)
        assert not (own.state / "api-key").exists()
        own.stop()
        own.start()
        assert own.by(first).get("/api/keys").status == 401
        assert (own.state / "api-key").read_text().strip() != first


def found_in_files(directory, text):
    """Names of the files below a directory that hold a text."""
    found = []
    for path in below(directory):
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 26 \
                    and text.encode() in path.read_bytes():  # larger ones are disks
                found.append(str(path))
    return found


def test_rates(daemon, tmp_path):
    with serving(daemon, tmp_path, "--key-rate", "5", "--wrong-key-rate", "3") as own:
        fast, other = own.by(own.key("acme", "read")), own.by(own.key("acme", "read"))
        answers, began = [], time.monotonic()
        while sum(answer.status == 429 for answer in answers) < 20:
            answers.append(fast.get("/api/host"))
            assert time.monotonic() - began < 60
        passed = sum(answer.status == 200 for answer in answers)
        limited = [answer for answer in answers if answer.status == 429]
        assert 20 <= passed < 40 + 5 * (time.monotonic() - began)
        assert int(limited[0].headers["Retry-After"]) >= 1
        assert limited[0].error["code"] == "resource_exhausted"
        assert other.get("/api/host").status == 200  # each has a bucket of its own
        time.sleep(int(limited[-1].headers["Retry-After"]))
        assert fast.get("/api/host").status == 200

        wrong = [own.by("atl_" + "y" * 40).get("/api/host") for _ in range(30)]
        assert {answer.status for answer in wrong} == {401, 429}
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in wrong
                   if answer.status == 429)
        admin = own.by((own.state / "api-key").read_text().strip())
        assert all(admin.get("/api/host").status == 200 for _ in range(60))
        assert all(own.root.get("/api/host").status == 200 for _ in range(60))


def test_quotas(daemon, tmp_path):
    with serving(daemon, tmp_path, "--tenant-sandboxes", "2", "--tenant-execs", "2",
                 "--tenant-queue", "3", "--key-rate", "0") as own:
        acme, rival = own.by(own.key("acme", "write")), own.by(own.key("rival", "write"))
        first = acme.post("/api/sandboxes", {}).json["id"]
        second = acme.post("/api/sandboxes", {}).json["id"]
        refused = acme.post("/api/sandboxes", {})
        assert refused.status == 429 and "Retry-After" in refused.headers
        assert "acme has 2 sandboxes" in refused.error["message"]
        theirs = rival.post("/api/sandboxes", {}).json["id"]
        acme.delete(f"/api/sandboxes/{second}")
        assert acme.post("/api/sandboxes", {}).status == 201

        execs = f"/api/sandboxes/{first}/execs"
        running = [acme.post(execs, {"cmd": ["sleep", "60"]}).json["exec_id"] for _ in range(2)]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waiting = {pool.submit(acme.post, execs, {"cmd": ["echo", str(i)]}, wait="true"): i
                       for i in range(4)}
            (refused,), _ = concurrent.futures.wait(waiting, 60, concurrent.futures.FIRST_COMPLETED)
            del waiting[refused]
            over = refused.result()
            assert over.status == 429 and "Retry-After" in over.headers
            time.sleep(0.5)
            assert not any(one.done() for one in waiting)
            assert "2 commands running and 3 requests waiting" in over.error["message"]
            # Others do not wait for acme.
            fine = rival.post(f"/api/sandboxes/{theirs}/execs", {"cmd": ["true"]}, wait="true")
            assert fine.json["result"]["kind"] == "exited"
            acme.post(f"{execs}/{running[0]}/signal", {"signal": "SIGKILL"})
            assert all(one.result().json["stdout"] == f"{i}\n" for one, i in waiting.items())

        # Commands that go on through the death of the daemon still count.
        acme.post(execs, {"cmd": ["sleep", "60"]})
        own.stop(signal.SIGKILL)
        own.start()
        acme.address = own.address
        with concurrent.futures.ThreadPoolExecutor() as pool:
            late = pool.submit(acme.post, execs, {"cmd": ["echo", "late"]}, wait="true")
            time.sleep(0.5)
            assert not late.done()
            acme.post(f"{execs}/{running[1]}/signal", {"signal": "SIGKILL"})
            assert late.result().json["stdout"] == "late\n"


def test_creates_queue_up(daemon, tmp_path):
    with serving(daemon, tmp_path, "--tenant-creates", "1", "--tenant-queue", "40",
                 "--key-rate", "0") as own:
        acme = own.by(own.key("acme", "write"))
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            body = {"env": {"A": "b"}, "metadata": {"k": "v"}}
            made = list(pool.map(lambda _: acme.post("/api/sandboxes", body), range(20)))
        assert {answer.status for answer in made} == {201}
        assert len({answer.json["id"] for answer in made}) == 20
        assert all(answer.json["metadata"] == {"k": "v"} for answer in made)
        last = made[-1].json["id"]
        said = acme.post(f"/api/sandboxes/{last}/execs", {"cmd": ["sh", "-c", "echo $A"]},
                         wait="true")
        assert said.json["stdout"] == "b\n"


def test_tenants_take_turns_at_creates(daemon, tmp_path):
    """One tenant's flood waits in its own queue: another's create comes long before the flood is over."""
    flood = 64
    with serving(daemon, tmp_path, "--key-rate", "0") as own:
        acme, other = (own.by(own.key(name, "write")) for name in ("acme", "other"))
        with concurrent.futures.ThreadPoolExecutor(flood) as pool:
            pending = [pool.submit(acme.post, "/api/sandboxes", {}) for _ in range(flood)]
            while not any(one.done() for one in pending):
                time.sleep(0.001)
            before = sum(one.done() for one in pending)
            assert other.post("/api/sandboxes", {}).status == 201
            meanwhile = sum(one.done() for one in pending) - before
            assert {one.result().status for one in pending} == {201}
        assert meanwhile < flood / 2, f"{meanwhile} creates of the flood came first"


def test_what_is_promised_has_bounds(daemon, tmp_path):
    with serving(daemon, tmp_path, "--tenant-memory", "1000M", "--tenant-cpus", "3", "--total-disk",
                 "1G") as own:
        acme, other = (own.by(own.key(name, "write")) for name in ("acme", "other"))

        def create(who, **limits):
            return who.post("/api/sandboxes", {"limits": {"memoryMB": 64, "cpuCores": 1,
                                                          "diskMB": 16} | limits})

        absurd = create(acme, memoryMB=1048576)
        assert absurd.status == 400 and "this machine has" in absurd.json["error"]["message"]
        absurd = create(acme, diskMB=16777216)
        assert absurd.status == 400 and "diskMB" in absurd.json["error"]["message"]
        first = create(acme, memoryMB=600)
        assert first.status == 201
        refused = create(acme, memoryMB=600)
        assert refused.status == 429 and "--tenant-memory" in refused.json["error"]["message"]
        assert create(other, memoryMB=600).status == 201
        assert create(acme).status == 201 and create(acme).status == 201
        refused = create(acme)
        assert refused.status == 429 and "--tenant-cpus" in refused.json["error"]["message"]
        refused = create(other, diskMB=1000)
        assert refused.status == 429 and "--total-disk" in refused.json["error"]["message"]
        share = acme.get("/api/quota").json
        assert share["tenant"] == "acme" and share["memoryMB"] == {"used": 728, "most": 1000}
        assert share["sandboxes"]["used"] == 3 and share["diskMB"]["used"] == 48
        every = own.root.get("/api/quota", all="true").json
        assert every["tenant"] is None and every["diskMB"] == {"used": 64, "most": 1024}
        assert acme.delete(f"/api/sandboxes/{first.json['id']}").status == 204
        assert create(acme, memoryMB=600).status == 201


def test_audit(server, keys):
    before = len(server.audit())
    mine, reader = server.by(keys["write"]), server.by(keys["read"])
    box = mine.post("/api/sandboxes", {}).json["id"]
    mine.get(f"/api/sandboxes/{box}")
    mine.get("/api/sandboxes")
    mine.call("POST", f"/api/sandboxes/{box}/execs", {"cmd": ["echo", "body-canary"]},
              {"X-Request-Id": "my-own-id"}, wait="true")
    with mine.websocket(f"/api/sandboxes/{box}/execs/stream") as ws:
        ws.send({"cmd": ["true"]})
        ws.finish()
    reader.delete(f"/api/sandboxes/{box}")
    server.by(keys["foreign"]).delete(f"/api/sandboxes/{box}")
    server.by(None).delete(f"/api/sandboxes/{box}")
    server.root.delete(f"/api/sandboxes/{box}")

    lines = server.audit()[before:]
    told = [(line["method"], line["route"], line.get("sandbox"), line["tenant"], line["status"])
            for line in lines]
    one = "/api/sandboxes/{id}"
    assert told == [
        ("POST", "/api/sandboxes", box, "acme", 201),
        ("POST", one + "/execs", box, "acme", 200),
        ("GET", one + "/execs/stream", box, "acme", 101),
        ("DELETE", one, box, "acme", 403),
        ("DELETE", one, box, "rival", 404),
        ("DELETE", one, box, "", 401),
        ("DELETE", one, box, "default", 204),
    ]
    assert lines[1]["request_id"] == "my-own-id"
    assert lines[0]["key"] and lines[0]["key"] != lines[4]["key"] and "uid" not in lines[0]
    assert lines[6]["uid"] == os.geteuid() and "key" not in lines[6]
    assert lines[0]["peer"].startswith("127.0.0.1:")
    assert (server.state / "audit.log").stat().st_mode & 0o7777 == 0o600
    text = (server.state / "audit.log").read_text()
    assert "body-canary" not in text
    assert not any(key in text for key in keys.values() if key)


def command_lines():
    for path in process_files("cmdline"):
        with contextlib.suppress(OSError):
            yield path, path.read_bytes()


def test_secrets_stay_secret(server, keys):
    """An environment variable's value is inside the sandbox and nowhere else."""
    mine = server.by(keys["write"])
    secret = {"env": {"API_TOKEN": CANARY}}
    answers = [made := mine.post("/api/sandboxes", secret)]
    box = f"/api/sandboxes/{made.json['id']}"
    # The search can find something: it is really there.
    inside = mine.post(f"{box}/execs", {"cmd": ["sh", "-c", "echo ${#API_TOKEN}"]}, wait="true")
    assert inside.json["stdout"] == f"{len(CANARY)}\n"
    started = mine.post(f"{box}/execs", {"cmd": ["sleep", "30"],
                                         "env": {"OTHER_TOKEN": CANARY + "2"}})
    answers += [started, mine.get(box), mine.get("/api/sandboxes"), mine.get(f"{box}/execs"),
                mine.get(f"{box}/execs/{started.json['exec_id']}"), mine.get(f"{box}/stats"),
                mine.get(f"{box}/health"), server.root.get("/api/sandboxes", all="true")]
    # Requests that fail because of it, or beside it.
    for path, body in (("/api/sandboxes", {"env": {"A=B": CANARY}}),
                       ("/api/sandboxes", {"env": {"": CANARY}}),
                       ("/api/sandboxes", {"env": {"A": [CANARY]}}),
                       ("/api/sandboxes", {"env": {"A": {"B": CANARY}}}),
                       ("/api/sandboxes", {"env": [CANARY]}),
                       ("/api/sandboxes", {"env": CANARY}),
                       ("/api/sandboxes", {**secret, "limits": {"memoryMB": "many"}}),
                       ("/api/sandboxes", {**secret, "template": "nothing"}),
                       ("/api/sessions", {"environment": "Bash", "env": {"A=B": CANARY}}),
                       ("/api/sessions", {"environment": "nothing", **secret}),
                       (f"{box}/execs", {"cmd": ["/nothing"], **secret}),
                       (f"{box}/execs", {"cmd": [], **secret}),
                       (f"{box}/execs", {"cmd": ["true"], "env": {"A=B": CANARY}}),
                       (f"{box}/execs", {"cmd": ["true"], "env": {"A": CANARY + "\0"}}),
                       ("/api/run", {"cmd": ["/nothing"], **secret})):
        answers.append(failed := mine.post(path, body))
        assert 400 <= failed.status < 500, (path, body, failed.body)
    assert mine.post("/api/run", {"cmd": ["true"], **secret}).status == 200
    server.cli("run", "--env", "API_TOKEN", "--", "true", API_TOKEN=CANARY)

    for answer in answers:
        assert CANARY.encode() not in answer.body, answer.body
    for path, line in command_lines():
        assert CANARY.encode() not in line, path
    assert CANARY not in server.log.read_text()
    assert found_in_files(server.state, CANARY) == []

    # Nor does it get there when the daemon dies and another takes over, and it is still inside.
    server.stop(signal.SIGKILL)
    server.start()
    mine = server.by(keys["write"])
    inside = mine.post(f"{box}/execs", {"cmd": ["sh", "-c", "echo ${#API_TOKEN}"]}, wait="true")
    assert inside.json["stdout"] == f"{len(CANARY)}\n"
    assert CANARY not in server.log.read_text()
    assert found_in_files(server.state, CANARY) == []
    mine.delete("/api/sandboxes")


@pytest.mark.parametrize("origins,allowed", [("https://app.example, http://localhost:3000", None),
                                             ("*", "*")])
def test_pages_of_named_origins_may_use_the_api(origins, allowed):
    with listening_daemon(ATOLL_CORS_ORIGINS=origins) as (_, address):
        rest = Rest(address)
        for origin in ("https://app.example", "http://localhost:3000"):
            answer = rest.call("OPTIONS", "/api/sandboxes", None, {
                "Origin": origin, "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization,content-type"})
            assert answer.status == 204
            assert answer.headers["access-control-allow-origin"] == (allowed or origin)
            assert answer.headers["access-control-allow-headers"] == "authorization,content-type"
            answer = rest.call("GET", "/healthz", None, {"Origin": origin})
            assert answer.headers["access-control-allow-origin"] == (allowed or origin)
        answer = rest.call("GET", "/healthz", None, {"Origin": "https://app.example.evil"})
        assert answer.headers.get("access-control-allow-origin") == allowed


def test_pages_of_other_origins_may_not(server):
    answer = server.by("").call("GET", "/healthz", None, {"Origin": "https://app.example"})
    assert "access-control-allow-origin" not in answer.headers


@pytest.fixture(scope="module")
def open_address():
    with listening_daemon(ATOLL_OPEN_LOOPBACK="1") as (_, address):
        yield address


def test_programs_of_this_host_need_no_key(open_address):
    assert Rest(open_address).get("/api/sandboxes").status == 200
    # A key that is given is checked all the same.
    assert Rest(open_address, {"Authorization": "Bearer atl_wrong"}).get(
        "/api/sandboxes").status == 401


@pytest.mark.parametrize("headers", [
    {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Host": "rebound.example"},
    {"Sec-Fetch-Site": "cross-site"}, {"Host": "localhost.evil.example"}])
def test_pages_in_a_browser_do(open_address, headers):
    assert Rest(open_address).call("GET", "/api/sandboxes", None, headers).status in (401, 421)


def test_other_users_do(open_address):
    script = ("import http.client; c = http.client.HTTPConnection(*%r); "
              "c.request('GET', '/api/sandboxes'); print(c.getresponse().status)" % (open_address,))
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                           "/usr/bin/python3", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "401\n"


def test_without_the_option_all_need_one(server):
    assert Rest(server.address).get("/api/sandboxes").status == 401
