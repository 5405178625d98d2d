"""Every route the daemon lists: a call that works, bad input, another tenant's key, no key.

The table has an entry for each; a route without one fails the test, and so does one that is not in
the documents.
"""

import io
import json
import re
import shutil
import subprocess
import tarfile

import pytest
from conftest import BUILD, ROOT, need_build
from listening import listening_daemon
from rest import Rest
from route_table import TABLE as OURS
from route_table_daytona import TABLE as DAYTONA
from route_table_daytona_git import TABLE as DAYTONA_GIT
from route_table_daytona_toolbox import TABLE as DAYTONA_TOOLBOX
from route_table_e2b import TABLE as E2B
from route_table_vercel import TABLE as VERCEL
from routes import Ask, assert_error


def list_routes():
    need_build()
    listed = subprocess.run([str(BUILD / "atolld"), "--list-routes"], text=True,
                            capture_output=True, check=True).stdout
    return [tuple(line.split()) for line in listed.splitlines()]


ROUTES = list_routes()
TABLE = {**OURS, **E2B, **DAYTONA, **DAYTONA_TOOLBOX, **DAYTONA_GIT, **VERCEL}


class World:
    """A daemon, its clients, and what the routes are about: all of it the tenant acme's."""

    def __init__(self, daemon, address):
        self.daemon = daemon
        self.address = address
        self.admin = self.by((daemon.state / "api-key").read_text().strip())
        keys = {name: self.admin.post("/api/keys", {"tenant": tenant, "scope": scope}).json["key"]
                for name, tenant, scope in [("write", "acme", "write"), ("read", "acme", "read"),
                                            ("rival", "rival", "write")]}
        self.mine = self.by(keys["write"])
        self.reader = self.by(keys["read"])
        self.rival = self.by(keys["rival"])
        self.nobody = Rest(address)

    def by(self, key):
        return Rest(self.address, {"X-API-Key": key})

    def box(self, **fields):
        answer = self.mine.post("/api/sandboxes", fields)
        assert answer.status == 201, answer.body
        return answer.json["id"]

    def exec(self, box, *cmd, **fields):
        answer = self.mine.post(f"/api/sandboxes/{box}/execs", {"cmd": cmd, **fields})
        assert answer.status == 201, answer.body
        return answer.json["exec_id"]

    def sh(self, box, script):
        answer = self.mine.post(f"/api/sandboxes/{box}/execs", {"cmd": ["sh", "-c", script]},
                                wait="true")
        assert answer.json["result"]["exit_code"] == 0, answer.body

    def file(self, box, path="f", data=b"data"):
        answer = self.mine.put(f"/api/sandboxes/{box}/files", data, path=path)
        assert answer.status == 200, answer.body
        return {"id": box, "path": path}

    def session(self, **fields):
        answer = self.mine.post("/api/sessions", {"environment": "Bash", **fields})
        assert answer.status == 201, answer.body
        return answer.json["session_id"]

    def values(self, route):
        """For the parameters of a route whose entry gives none."""
        values = {}
        if "{id}" in route or "{exec}" in route:
            values["id"] = self.box()
        if "{sandboxID}" in route:
            values["sandboxID"] = self.e2b()
        if "{exec}" in route:
            values["exec"] = self.exec(values["id"], "cat", stdin=True,
                                       pty={"cols": 80, "rows": 24})
        if "{session}" in route:
            values["session"] = self.session()
        return values

    def e2b(self, **fields):
        answer = self.mine.post("/sandboxes", {"templateID": "base", **fields})
        assert answer.status == 201, answer.body
        return answer.json["sandboxID"]

    @staticmethod
    def archive(**files):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for name, data in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        return out.getvalue()

    def clear(self):
        for client in (self.mine, self.rival):
            client.delete("/api/sandboxes")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    registry = tmp_path_factory.mktemp("routes") / "registry"
    shutil.copytree(ROOT / "registry", registry)
    for kind, text in [("agents", "environment: Python3\n"), ("prompts", "text: hello\n"),
                       ("tools", "description: d\ncommand: [x]\n")]:
        (registry / kind).mkdir(exist_ok=True)
        (registry / kind / "one.yaml").write_text(text)
    with listening_daemon(ATOLL_REGISTRY=str(registry), ATOLL_KEY_RATE="0",
                          ATOLL_WRONG_KEY_RATE="0") as (daemon, address):
        yield World(daemon, address)


def test_every_route_has_an_entry():
    listed = {f"{method} {path}" for method, path, _ in ROUTES}
    assert sorted(listed - set(TABLE)) == [], "add them to route_table*.py"
    assert sorted(set(TABLE) - listed) == [], "nobody serves these"


def shown(path):
    """The pages about Daytona and Vercel name routes without their base; both bases of the toolbox are one."""
    path = re.sub(r"^/vercel/api(/v1/sandboxes/\{sid\}|/v2/sandboxes/sessions/\{sid\})(?=/)", "", path)
    return re.sub(r"^/(vercel/api|daytona(/toolbox/\{id\}(/toolbox)?)?)(?=/)", "", path)


def test_every_route_is_in_the_documents():
    """docs/api.md has ours with their scope; docs/e2b.md and its like those of facades."""
    ours = (ROOT / "docs" / "api.md").read_text()
    everything = ours + "".join((ROOT / "docs" / name).read_text()
                                for name in ("e2b.md", "daytona.md", "mcp.md", "vercel.md"))
    rows = set(re.findall(r"^\| `(\w+ \S+)` \| (\w+) \|", ours, re.MULTILINE))
    missing = [f"{method} {path} {scope}" for method, path, scope in ROUTES
               if path.startswith("/api") and (f"{method} {path}", scope) not in rows]
    missing += [f"{method} {path}" for method, path, _ in ROUTES
                if not path.startswith("/api") and shown(path) not in everything]
    assert missing == []
    listed = {(f"{method} {path}", scope) for method, path, scope in ROUTES}
    assert sorted(row for row in rows - listed if row[0].split()[1].startswith("/api")) == []


def test_facades_are_not_in_our_document():
    paths = json.loads((ROOT / "docs" / "openapi.json").read_text())["paths"]
    assert {path for path in paths if not path.startswith("/api/")} == {"/healthz", "/readyz", "/metrics"}


def documented(method, path):
    """The statuses openapi.json knows for it."""
    document = json.loads((ROOT / "docs" / "openapi.json").read_text())
    return set(document["paths"][path][method.lower()]["responses"])


@pytest.mark.parametrize("method, path, scope", ROUTES, ids=[f"{m} {p}" for m, p, _ in ROUTES])
def test_route(world, method, path, scope):
    entry = TABLE.get(f"{method} {path}")
    assert entry, "add it to route_table*.py"
    values = entry.given(world) if entry.given else world.values(path)
    values = {"path": "x", "rest": "x", "name": "nothing", "template": "nothing", "port": "8000", **values}
    weaker = {"tools": world.reader, "write": world.reader, "admin": world.mine}.get(scope)
    strong = world.admin if scope == "admin" else world.mine
    try:
        # What is refused first: it must not touch what the good call needs.
        if scope != "public":
            answer = entry.good.send(world.nobody, method, path, values)
            assert_error(path, answer, 401, "no key")
        if weaker:
            answer = entry.good.send(weaker, method, path, values)
            assert_error(path, answer, 403, "a weaker key")
        if isinstance(entry.foreign, int):
            answer = entry.good.send(world.rival, method, path, values)
            assert_error(path, answer, entry.foreign, "another tenant")
        elif re.search(r"\{(id|exec|session|sandboxID)\}", path):
            answer = entry.good.send(world.rival, method, path, values)
            assert_error(path, answer, 404, "another tenant")
        if entry.bad:
            answer = entry.bad.send(strong, method, path, values)
            assert_error(path, answer, entry.bad.status, "bad input")
        # Then what works, and what others see of it.
        answer = entry.good.send(strong, method, path, values)
        assert answer.status == entry.good.status, (answer.status, answer.body[:500])
        if answer.status >= 400:
            assert_error(path, answer, answer.status, "what is not offered")
        if entry.good.check:
            assert entry.good.check(answer, values), answer.body[:500]
        if callable(entry.foreign):
            answer = entry.good.send(world.rival, method, path, values)
            assert entry.foreign(answer, values), ("another tenant", answer.body[:500])
        if path.startswith("/api"):
            assert {str(entry.good.status), "default"} <= documented(method, path)
    finally:
        world.clear()


def test_what_no_route_is(world):
    for path in ("/api", "/api/nothing", "/api/sandboxes/x/nothing", "/nothing"):
        assert_error("/api", world.mine.get(path), 404, path)
        assert world.nobody.get(path).status == 401, path
    answer = world.mine.call("PATCH", "/api/sandboxes")
    assert_error("/api", answer, 405, "method")
    assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD", "POST", "DELETE"}
    assert Ask(200).send(world.mine, "HEAD", "/api/host", {}).body == b""
