"""The entries of Daytona's control plane. See route_table_daytona_toolbox.py for the toolbox."""

import io
import re
import tarfile

from daemons import wait_until
from route_table import BAD_ALL, NO_ID, empty, has, hides, shows, text
from routes import Ask, Entry

BASE = "/daytona"
BOX = BASE + "/sandbox/{id}"


def box(world, **fields):
    answer = world.mine.post(BASE + "/sandbox", fields)
    assert answer.status == 200, answer.body
    return {"id": answer.json["id"]}


def stopped(world):
    values = box(world)
    assert world.mine.post(f"{BASE}/sandbox/{values['id']}/stop").json["state"] == "stopped"
    return values


def minutes(what):
    """Sets an interval."""
    return {f"POST {BOX}/{what}/{{item}}": Entry(
        Ask(200, check=shows("id")), Ask(400, at={"item": "soon"}),
        given=lambda world: {**box(world), "item": "30"})}


def port(world):
    return {**box(world), "port": "3000"}


def signed(world):
    values = port(world)
    path = f"{BASE}/sandbox/{values['id']}/ports/3000/signed-preview-url"
    return {**values, "item": world.mine.get(path).json["token"]}


def built(world):
    """A snapshot of its tenant."""
    path = f"{BASE}/snapshots/daytona-routes"
    if world.mine.get(path).status == 404:
        made = world.mine.post(f"{BASE}/snapshots", {
            "name": "daytona-routes", "buildInfo": {"dockerfileContent": "FROM scratch\nENV A=b\n"}})
        assert made.status == 200, made.body
        wait_until(lambda: world.mine.get(path).json["state"] == "active", 30,
                   lambda: world.mine.get(path).body)
    return {"key": "daytona-routes"}


def inactive(world):
    values = built(world)
    assert world.mine.post(f"{BASE}/snapshots/daytona-routes/deactivate").status == 204
    return values


def organization(world):
    return {"key": world.mine.get("/daytona/organizations").json[0]["id"]}


def archive():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("file"))
    return out.getvalue()


STORE = BASE + "/object-storage/contexts"


def named(world):
    """An object that is not there."""
    return {**organization(world), "path": f"{organization(world)['key']}/0a1b/context.tar"}


def stored(world):
    values = named(world)
    assert world.mine.put(f"{STORE}/{values['path']}", archive()).status == 200
    return values


def uploading(world):
    values = named(world)
    answer = world.mine.post(f"{STORE}/{values['path']}?uploads")
    return {**values, "upload": re.search(rb"<UploadId>(\w+)<", answer.body)[1].decode()}


NO_OBJECT = {"path": "no-such"}
NO_KEY = {"key": "no-such"}
# Routes that are not offered: the answer says what is.
ABSENT = {f"{method} {BASE}{path}": reason for methods, path, reason in (
    ("GET POST", "/secret", "atoll secret create"), ("GET PATCH DELETE", "/secret/{key}", "atoll secret create"),
    ("GET POST", "/warm-pools", "--pool"), ("PATCH DELETE", "/warm-pools/{key}", "--pool")) for method in methods.split()}
ABSENT_IN_BOX = {"PUT secrets": "atoll secret create", **{
    f"GET telemetry/{what}": "getMetricsLatest" for what in ("metrics", "logs", "traces", "traces/{item}")}}


TABLE = {
    **{f"GET {BASE}/{name}": Entry(Ask(200, check=lambda a, v: a.json[0]["id"] == "us"), None)
       for name in ("regions", "shared-regions")},
    f"GET {BASE}/organizations": Entry(Ask(200, check=lambda a, v: len(a.json) == 1), None),
    f"GET {BASE}/organizations/{{key}}": Entry(Ask(200, check=has("suspended", value=False)),
                                               Ask(404, at={"key": "no-such"}), given=organization),
    f"GET {BASE}/api-keys/current": Entry(Ask(200, check=has("permissions")), None),
    f"GET {BASE}/object-storage/push-access": Entry(Ask(200, check=has("sessionToken")), None),
    **{f"GET {STORE}{end}": Entry(Ask(200, "?list-type=2&prefix={key}/0a1b/", check=text("<KeyCount>1<")),
                                  Ask(400, "?list-type=2&prefix=x"), given=stored, foreign=400) for end in ("", "/")},
    f"GET {STORE}/{{path}}": Entry(Ask(405), Ask(400, at=NO_OBJECT), given=stored, foreign=400),
    f"PUT {STORE}/{{path}}": Entry(Ask(200, body=archive()), Ask(400, body=b"no archive"), given=named, foreign=400),
    f"POST {STORE}/{{path}}": Entry(Ask(200, "?uploads", check=text("<UploadId>")), Ask(400), given=named, foreign=400),
    f"DELETE {STORE}/{{path}}": Entry(Ask(204, "?uploadId={upload}", check=empty), Ask(404, "?uploadId=none"),
                                      given=uploading, foreign=400),
    f"POST {BOX}/fork": Entry(Ask(200, body={}, check=has("state", value="started")),
                              Ask(400, body={"name": "/"}), given=box),
    f"POST {BOX}/resize": Entry(Ask(200, body={"memory": 2}, check=has("memory", value=2)),
                                Ask(400, body={}), given=box),
    f"POST {BOX}/ssh-access": Entry(Ask(501, body={}, check=has("message")), Ask(404, at=NO_ID), given=box),
    f"DELETE {BOX}/ssh-access": Entry(Ask(200, check=has("id")), Ask(404, at=NO_ID), given=box),
    f"GET {BASE}/sandbox/ssh-access/validate": Entry(
        Ask(200, "?token=t", check=has("valid", value=False)), Ask(400)),
    f"GET {BOX}/toolbox-proxy-url": Entry(Ask(200, check=has("url")), Ask(404, at=NO_ID), given=box),
    f"GET {BOX}/ports/{{port}}/preview-url": Entry(Ask(200, check=has("token")),
                                                   Ask(400, at={"port": "0"}), given=port),
    f"GET {BOX}/ports/{{port}}/signed-preview-url": Entry(
        Ask(200, check=has("url")), Ask(400, "?expiresInSeconds=0"), given=port),
    f"POST {BOX}/ports/{{port}}/signed-preview-url/{{item}}/expire": Entry(
        Ask(201, check=empty), Ask(404, at={"item": "x"}), given=signed),
    f"GET {BOX}/signing-key": Entry(Ask(200), Ask(404, at=NO_ID), given=box),
    f"POST {BOX}/signing-key/rotate": Entry(Ask(200), Ask(404, at=NO_ID), given=box),
    f"POST {BOX}/snapshot": Entry(Ask(200, body={"name": "daytona-kept"}, check=has("state")), Ask(400, body={"name": "/"}),
                                  given=box),
    f"GET {BOX}/build-logs-url": Entry(Ask(404), Ask(404, at=NO_ID), given=box),
    f"GET {BOX}/build-logs": Entry(Ask(404), Ask(404, at=NO_ID), given=box),
    f"GET {BASE}/snapshots": Entry(Ask(200, check=text("daytona-small")), Ask(400, "?page=0")),
    f"POST {BASE}/snapshots": Entry(
        Ask(200, body={"name": "daytona-asked", "buildInfo": {"dockerfileContent": "FROM scratch"}},
            check=has("state")), Ask(400, body={"name": "x"})),
    f"GET {BASE}/snapshots/{{key}}": Entry(Ask(200, check=has("state", value="active")),
                                           Ask(404, at=NO_KEY), given=built, foreign=404),
    f"DELETE {BASE}/snapshots/{{key}}": Entry(Ask(200, check=empty), Ask(404, at=NO_KEY),
                                              given=built, foreign=404),
    f"POST {BASE}/snapshots/{{key}}/activate": Entry(
        Ask(200, check=has("state", value="active")), Ask(404, at=NO_KEY), given=inactive,
        foreign=404),
    f"POST {BASE}/snapshots/{{key}}/deactivate": Entry(Ask(204, check=empty), Ask(404, at=NO_KEY),
                                                       given=built, foreign=404),
    f"GET {BASE}/snapshots/{{key}}/build-logs-url": Entry(
        Ask(200, check=has("url")), Ask(404, at=NO_KEY), given=built, foreign=404),
    f"GET {BASE}/snapshots/{{key}}/build-logs": Entry(Ask(200), Ask(400, "?follow=perhaps"),
                                                      given=built, foreign=404),
    # Tenants have no volumes unless the operator permits it: tests/fault/test_daytona_kill.py has the operator's.
    f"GET {BASE}/volumes": Entry(Ask(200, check=lambda a, v: a.json == []), BAD_ALL),
    f"POST {BASE}/volumes": Entry(Ask(403, body={"name": "daytona-made"}), Ask(400, body={"name": "/"})),
    **{f"{method} {BASE}/volumes/{key}": Entry(Ask(404), Ask(404, at=NO_KEY), given=lambda w: {"key": "none"})
       for method, key in (("GET", "by-name/{key}"), ("GET", "{key}"), ("DELETE", "{key}"))},
    **{route: Entry(Ask(501, check=text(reason)), None, given=lambda w: {"key": "none"})
       for route, reason in ABSENT.items()},
    **{f"{route.split()[0]} {BOX}/{route.split()[1]}": Entry(
        Ask(501, check=text(reason)), Ask(404, at=NO_ID), given=lambda w: {**box(w), "item": "none"})
       for route, reason in ABSENT_IN_BOX.items()},
    f"GET {BASE}/health": Entry(Ask(200, check=has("status")), None),  # takes no input
    f"GET {BASE}/health/ready": Entry(Ask(200, check=has("status")), None),
    f"GET {BASE}/config": Entry(Ask(200, check=has("proxyToolboxUrl")), None),
    f"GET {BASE}/socket.io/": Entry(Ask(101, "?EIO=4&transport=websocket", by="ws",
                                        check=text("pingInterval")), Ask(400)),
    f"POST {BASE}/sandbox": Entry(Ask(200, body={"labels": {"a": "b"}},
                                      check=has("state", value="started")),
                                  Ask(400, body={"labels": {"a": 5}})),
    f"GET {BASE}/sandbox": Entry(Ask(200, check=shows("id")), Ask(400, "?limit=0"), given=box,
                                 foreign=hides("id")),
    f"GET {BASE}/sandbox/paginated": Entry(Ask(200, check=shows("id")), Ask(400, "?page=x"),
                                           given=box, foreign=hides("id")),
    f"GET {BOX}": Entry(Ask(200, check=shows("id")), Ask(404, at=NO_ID), given=box),
    f"DELETE {BOX}": Entry(Ask(200, check=has("state", value="destroyed")), Ask(404, at=NO_ID),
                           given=box),
    f"POST {BOX}/start": Entry(Ask(200, check=has("state", value="started")), Ask(404, at=NO_ID),
                               given=stopped),
    f"POST {BOX}/stop": Entry(Ask(200, check=has("state", value="stopped")), Ask(404, at=NO_ID),
                              given=box),
    f"POST {BOX}/pause": Entry(Ask(200, check=has("state", value="paused")), Ask(404, at=NO_ID),
                               given=box),
    f"POST {BOX}/recover": Entry(Ask(400), Ask(400, "?skipStart=perhaps"), given=box),
    f"POST {BOX}/archive": Entry(Ask(200, check=has("state", value="archived")),
                                 Ask(404, at=NO_ID), given=stopped),
    f"POST {BOX}/backup": Entry(Ask(200, check=has("backupState", value="Completed")),
                                Ask(404, at=NO_ID), given=box),
    f"PUT {BOX}/labels": Entry(Ask(200, body={"labels": {"k": "v"}}, check=text("k")),
                               Ask(400, body={"labels": [1]}), given=box),
    **minutes("autostop"), **minutes("autopause"), **minutes("autoarchive"),
    **minutes("autodelete"), **minutes("ttl"),
    f"POST {BOX}/public/{{item}}": Entry(
        Ask(200, check=has("public", value=True)), Ask(400, at={"item": "perhaps"}),
        given=lambda world: {**box(world), "item": "true"}),
    f"POST {BOX}/last-activity": Entry(Ask(201, check=empty), Ask(404, at=NO_ID), given=box),
    f"POST {BOX}/network-settings": Entry(
        Ask(200, body={"networkBlockAll": True}, check=has("networkBlockAll", value=True)),
        Ask(400, body={"networkBlockAll": 5}), given=box),
}
