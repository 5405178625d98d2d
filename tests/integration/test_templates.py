"""Versions, tags and shares of templates, layers that are counted, and what kill -9 leaves of them."""

import contextlib
import io
import json
import signal
import sqlite3
import tarfile
import time

import pytest

import docker_engine
from boxes import Box
from daemons import BUILD, need_build, running, wait_until
from rest import Rest


def archive(**files):
    """A root file system with these files, and a shell."""
    out = io.BytesIO(docker_engine.busybox_root())
    with tarfile.open(fileobj=out, mode="a") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"srv/{name}")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


class World:
    def __init__(self, daemon):
        self.daemon = daemon
        self.rest = Rest(daemon.socket)
        self.keys = {}

    def layers(self):
        return {path.name for path in (self.daemon.state / "layers").iterdir()
                if not path.name.startswith(".")}

    def put(self, name, **files):
        answer = self.rest.put(f"/api/templates/{name}", archive(**files))
        assert answer.status == 201, answer.body
        return answer.json

    def kill(self):
        self.daemon.process.send_signal(signal.SIGKILL)
        self.daemon.process.wait()

    def database(self):
        return contextlib.closing(sqlite3.connect(self.daemon.state / "atoll.db"))

    def rows(self, sql, *values):
        """While no daemon runs."""
        with self.database() as db:
            found = db.execute(sql, values).fetchall()
            db.commit()
        return found

    def give(self, name, owner):
        """As if that tenant had made it."""
        self.kill()
        for table in ("templates", "template_versions", "template_tags"):
            self.rows(f"UPDATE {table} SET owner = ? WHERE name = ?", owner, name)
        self.daemon.start()

    def client(self, tenant):
        if tenant not in self.keys:
            made = self.rest.post("/api/keys", {"tenant": tenant, "scope": "write"})
            assert made.status == 201, made.body
            self.keys[tenant] = made.json["key"]
        host, port = self.daemon.env["ATOLL_LISTEN"].split(":")
        return Rest((host, int(port)), {"X-API-Key": self.keys[tenant]})


@pytest.fixture(scope="module")
def world():
    need_build()
    listen = f"127.0.0.1:{docker_engine.free_port()}"
    with running(BUILD, ATOLL_LISTEN=listen, ATOLL_KEY_RATE="0") as daemon:
        yield World(daemon)


@pytest.fixture(autouse=True)
def clear(world):
    yield
    world.rest.delete("/api/sandboxes", all="true")
    for template in world.rest.get("/api/templates", all="true").json["templates"]:
        if template["kind"] != "host":
            name = "%2F".join(filter(None, [template.get("tenant"), template["name"]]))
            assert world.rest.delete(f"/api/templates/{name}").status == 204
    wait_until(lambda: not world.layers(), 30, lambda: f"left behind: {world.layers()}")


def versions(rest, name):
    answer = rest.get(f"/api/templates/{name}/versions")
    assert answer.status == 200, answer.body
    return answer.json["versions"]


def test_tags(world):
    """A tag keeps the version it points to; the name means what is newest."""
    rest = world.rest
    first = world.put("app", f="one")
    assert first["tags"] == ["latest"] and first["source"] == "import" and first["versions"] == 1
    assert rest.post("/api/templates/app/tags", {"tag": "stable"}).status == 204
    second = world.put("app", f="two")
    assert second["digest"] != first["digest"] and second["versions"] == 2
    listed = versions(rest, "app")
    assert [v["digest"] for v in listed] == [second["digest"], first["digest"]]
    assert [v["tags"] for v in listed] == [["latest"], ["stable"]]
    for reference, text in [("app", "two"), ("app:latest", "two"), ("app:stable", "one"),
                            (f"app@sha256:{first['digest']}", "one"),
                            (f"app@sha256:{second['digest'][:12]}", "two")]:
        box = Box(rest, template=reference)
        assert box.out("cat /srv/f") == text and box.view["template"] == "app"
        assert rest.get(f"/api/templates/{reference}").json["sandboxes"] == 1
        assert rest.delete(box.path).status == 204
    # Back to the first one.
    assert rest.post("/api/templates/app:stable/tags", {"tag": "latest"}).status == 204
    assert rest.get("/api/templates/app").json["digest"] == first["digest"]
    # Of an import, a version without a tag does not stay.
    wait_until(lambda: len(versions(rest, "app")) == 1, 30, lambda: str(versions(rest, "app")))
    assert rest.get("/api/templates/app:none").status == 404
    assert rest.get("/api/templates/app@sha256:12").status == 400
    assert rest.post("/api/sandboxes", {"template": "app:none"}).status == 404
    assert rest.post("/api/templates/app/tags", {"tag": "no space"}).status == 400
    assert rest.post("/api/templates/host/tags", {"tag": "x"}).status == 409


def test_removals(world):
    rest = world.rest
    first = world.put("app", f="one")
    assert rest.post("/api/templates/app/tags", {"tag": "old"}).status == 204
    second = world.put("app", f="two")
    box = Box(rest, template="app:old")
    # Of what is used, only a tag can be removed.
    assert rest.delete(f"/api/templates/app@sha256:{first['digest']}").status == 409
    assert rest.delete("/api/templates/app").status == 409
    assert rest.delete("/api/templates/app:old").status == 204
    assert rest.delete("/api/templates/app:old").status == 404
    assert first["digest"] in world.layers() and box.out("cat /srv/f") == "one"
    assert rest.delete(box.path).status == 204
    wait_until(lambda: world.layers() == {second["digest"]}, 30, lambda: str(world.layers()))
    assert rest.delete(f"/api/templates/app@sha256:{second['digest']}").status == 204
    assert rest.get("/api/templates/app").status == 404


def test_two_templates_share_a_layer(world):
    """The bytes are there once, until the last one goes."""
    digest = world.put("one", f="same")["digest"]
    assert world.put("two", f="same")["digest"] == digest
    assert world.layers() == {digest}
    assert world.rest.delete("/api/templates/one").status == 204
    assert world.layers() == {digest}
    assert Box(world.rest, template="two").out("cat /srv/f") == "same"


def test_difference(world):
    rest = world.rest
    first = world.put("app", f="one")["digest"]
    second = world.put("other", f="two")["digest"]
    found = rest.get("/api/templates/app/diff", **{"with": "other"}).json
    assert found["layers"] == {"same": [], "removed": [first], "added": [second]}
    assert found["from"]["name"] == "app" and found["to"]["name"] == "other" and found["changed"] == {}
    said = world.daemon.atoll("template", "diff", "app", "other", check=True).stdout
    assert f"- layer {first}" in said and f"+ layer {second}" in said


def test_the_command_line(world):
    daemon = world.daemon
    first = world.put("app", f="one")["digest"]
    daemon.atoll("template", "tag", "app", "stable", "v1", check=True)
    world.put("app", f="two")
    assert "stable,v1" in daemon.atoll("template", "history", "app", check=True).stdout
    shown = json.loads(daemon.atoll("template", "show", "app:v1", "--json", check=True).stdout)
    assert shown["digest"] == first and shown["layers"][0]["name"] == first
    ran = daemon.atoll("run", "--template", "app:v1", "--", "cat", "/srv/f", check=True)
    assert ran.stdout == "one"
    daemon.atoll("template", "rm", "app:stable", "app:v1", check=True)
    assert "removed 0 versions" in daemon.atoll("template", "gc", check=True).stdout
    daemon.atoll("template", "rm", "app", check=True)
    assert "app" not in daemon.atoll("template", "ls").stdout


def test_tenants(world):
    """What a tenant has is its own, until it shares it."""
    world.put("mine", f="secret of acme")
    world.give("mine", "acme")
    acme, rival, third = map(world.client, ("acme", "rival", "third"))

    def names(rest):
        return {t["name"] for t in rest.get("/api/templates").json["templates"]}

    def refused(rest):
        digest = acme.get("/api/templates/mine").json["digest"]
        for reference in ("mine", "acme%2Fmine", f"acme%2Fmine@sha256:{digest}", f"mine@sha256:{digest}",
                          digest):
            assert rest.get(f"/api/templates/{reference}").status == 404, reference
            assert rest.get(f"/api/templates/{reference}/versions").status == 404, reference
            assert rest.delete(f"/api/templates/{reference}").status == 404, reference
            create = rest.post("/api/sandboxes", {"template": reference.replace("%2F", "/")})
            assert create.status == 404, reference
        assert "mine" not in names(rest)

    assert names(acme) >= {"mine", "host"} and Box(acme, template="mine").out("cat /srv/f")
    refused(rival)
    refused(third)
    # One other tenant may use it, and not change it.
    assert acme.put("/api/templates/mine/shares", {"tenants": ["rival"]}).status == 204
    assert "mine" in names(rival) and rival.get("/api/templates/mine").status == 404
    assert Box(rival, template="acme/mine").out("cat /srv/f") == "secret of acme"
    assert rival.get("/api/templates/acme%2Fmine").json["shared_with"] == ["rival"]
    for status in (rival.delete("/api/templates/acme%2Fmine").status,
                   rival.post("/api/templates/acme%2Fmine/tags", {"tag": "x"}).status,
                   rival.put("/api/templates/acme%2Fmine/shares", {"public": True}).status,
                   rival.get("/api/templates/acme%2Fmine/log").status):
        assert status == 403
    refused(third)
    # All may, over a restart too.
    assert acme.put("/api/templates/mine/shares", {"public": True}).status == 204
    world.kill()
    world.daemon.start()
    assert Box(third, template="acme/mine").out("cat /srv/f") == "secret of acme"
    # The share ends: sandboxes that run continue, and keep the version.
    assert acme.put("/api/templates/mine/shares", {}).status == 204
    refused(third)
    assert acme.delete("/api/templates/mine").status == 409
    assert acme.post("/api/templates/gc").json["versions"] == 0


def test_tenants_with_the_same_layer(world):
    """A pooled or equal layer does not make one tenant's sandbox one of the other's template."""
    world.put("mine", f="same")
    world.give("mine", "acme")
    world.put("theirs", f="same")
    world.give("theirs", "rival")
    acme, rival = world.client("acme"), world.client("rival")
    boxes = [Box(acme, template="mine"), Box(rival, template="theirs")]
    assert [box.view["template"] for box in boxes] == ["mine", "theirs"]
    assert rival.delete("/api/templates/theirs").status == 409
    assert rival.delete(boxes[1].path).status == 204
    assert rival.delete("/api/templates/theirs").status == 204
    assert boxes[0].out("cat /srv/f") == "same" and len(world.layers()) == 1


def test_the_collector_and_kill(world):
    """Whatever is removed and killed in between: what a sandbox uses stays, and nothing else."""
    rest = world.rest
    first = world.put("app", f="one")["digest"]
    running_box = Box(rest, template="app")
    stopped = Box(rest, template="app", persistent=True)
    stopped.out("echo kept > /srv/mine", user="root")
    stopped.do("stop")
    second = world.put("app", f="two")["digest"]
    world.kill()
    (world.daemon.state / "layers" / ("x" + "0" * 32)).mkdir()  # of a build that did not end
    world.daemon.start()
    wait_until(lambda: world.layers() == {first, second}, 30, lambda: str(world.layers()))
    assert running_box.out("cat /srv/f") == "one"
    stopped.do("resume")
    assert stopped.out("cat /srv/f /srv/mine") == "onekept"
    assert rest.get(f"/api/templates/app@sha256:{first}").json["sandboxes"] == 2
    assert rest.post("/api/templates/gc", cache="true", all="true").json["versions"] == 0
    for box in (running_box, stopped):
        assert rest.delete(box.path).status == 204
    wait_until(lambda: world.layers() == {second}, 30, lambda: str(world.layers()))
    metrics = rest.get("/metrics").body.decode()
    assert 'atoll_templates{what="layers"} 1' in metrics


def test_a_layer_that_is_missing(world):
    """Create says so; the next import repairs it."""
    digest = world.put("app", f="one")["digest"]
    world.kill()
    (world.daemon.state / "layers" / digest).rename(world.daemon.state / "away")
    world.daemon.start()
    assert world.rest.get("/api/templates/app").json["layers"] == [{"name": digest, "missing": True}]
    assert world.rest.post("/api/sandboxes", {"template": "app"}).status >= 400
    assert world.put("app", f="one")["digest"] == digest
    assert Box(world.rest, template="app").out("cat /srv/f") == "one"
    docker_engine.subprocess.run(["rm", "-rf", str(world.daemon.state / "away")], check=True)


def test_records_of_the_version_before(world):
    """Files templates/*.json become rows, once; sandboxes that were made from them stay theirs."""
    state = world.daemon.state
    old = world.put("old", f="of all")
    other = world.put("other", f="of acme")
    box = Box(world.rest, template="old", persistent=True)
    box.out("echo kept > /srv/mine", user="root")
    box.do("stop")
    world.kill()
    for table in ("templates", "template_versions", "template_tags", "layers"):
        world.rows(f"DELETE FROM {table}")
    world.rows("UPDATE sandboxes SET version = ''")
    (state / "templates").mkdir()
    records = {"old": old, "acme@other": other}
    for name, view in records.items():
        (state / "templates" / f"{name}.json").write_text(json.dumps({
            "digest": view["digest"], "layer_base": 0x0fff0000, "size_bytes": 77,
            "created_unix_ms": 1700000000000}))
    image = {"digest": "sha256:" + "7" * 64, "size_bytes": 5, "created_unix_ms": 1700000000001,
             "provider": "docker", "image": "atoll-template:abc"}
    (state / "templates" / "acme@snap.json").write_text(json.dumps(image))
    (state / "templates" / "broken.json").write_text("{")
    (state / "templates" / "half.json.new").write_text("{")
    world.daemon.start()
    assert {path.name for path in (state / "templates").iterdir()} == {"broken.json"}
    assert world.layers() == {old["digest"], other["digest"]}
    listed = {(t.get("tenant"), t["name"]): t
              for t in world.rest.get("/api/templates", all="true").json["templates"]}
    assert set(listed) == {(None, "host"), (None, "old"), ("acme", "other"), ("acme", "snap")}
    assert listed[None, "old"]["digest"] == old["digest"] and listed[None, "old"]["size_bytes"] == 77
    assert listed[None, "old"]["created_at"].startswith("2023-11-14")
    assert listed["acme", "snap"]["kind"] == "image" and listed["acme", "snap"]["provider"] == "docker"
    assert world.client("rival").post("/api/sandboxes", {"template": "other"}).status == 404
    assert Box(world.client("acme"), template="other").out("cat /srv/f") == "of acme"
    box.do("resume")
    assert box.out("cat /srv/f /srv/mine") == "of allkept"
    assert world.rest.delete("/api/templates/old").status == 409
    # A second start finds nothing to do.
    ids = {name: view["version"] for name, view in listed.items() if "version" in view}
    (state / "templates" / "broken.json").unlink()
    world.kill()
    world.daemon.start()
    again = world.rest.get("/api/templates", all="true").json["templates"]
    assert {(t.get("tenant"), t["name"]): t["version"] for t in again if "version" in t} == ids
    assert not (state / "templates").exists()


def test_kill_between_layer_and_tag(world):
    """An import that is killed at any time leaves the template as it was, or the new one."""
    first = world.put("app", f="one")["digest"]
    data = archive(f="two")
    for delay in (0.0, 0.02, 0.05, 0.1, 0.2):
        connection = world.rest.connection()
        with contextlib.suppress(OSError):
            connection.request("PUT", "/api/templates/app", data)
            time.sleep(delay)
        world.kill()
        connection.close()
        world.daemon.start()
        digest = world.rest.get("/api/templates/app").json["digest"]
        wait_until(lambda: world.layers() == {digest}, 30, lambda: str(world.layers()))
        box = Box(world.rest, template="app")
        assert box.out("cat /srv/f") == ("one" if digest == first else "two")
        assert world.rest.delete(box.path).status == 204
