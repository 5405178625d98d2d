"""The entries of Daytona's control plane. See route_table_daytona_toolbox.py for the toolbox."""

from route_table import NO_ID, empty, has, hides, shows, text
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


TABLE = {
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
