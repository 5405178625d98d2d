"""The entries of E2B's control plane. What Atoll does not offer says so: 501 is its good answer."""

from daemons import wait_until
from route_table import BAD_ALL, empty, has, hides, shows, text
from routes import Ask, Entry

BOX = "/sandboxes/{sandboxID}"
NO_ID = {"sandboxID": "Not_An_Id"}
BAD_SECRET = {"secretID": "b@d"}
HASH = "0" * 64


def box(world):
    return {"sandboxID": world.e2b()}


def measured(world):
    """The first look at its metrics begins to take them."""
    made = world.e2b()
    wait_until(lambda: made in world.mine.get("/sandboxes/metrics", sandbox_ids=made).json["sandboxes"],
               30, lambda: "it is not measured")
    return {"sandboxID": made}


def secret(world):
    world.mine.post("/secrets", {"name": "e2b-routes", "value": "v"})
    return {"secretID": "e2b-routes"}


def paused(world):
    made = world.e2b()
    assert world.mine.post(f"/sandboxes/{made}/pause", {}).status == 204
    return {"sandboxID": made}


def requested(world):
    """A build that was not started yet."""
    asked = world.mine.post("/v3/templates", {"name": "e2b-routes-made:v1"}).json
    return {"template": asked["templateID"], "path": asked["buildID"]}


def status_of(world):
    values = requested(world)
    return {**values, "path": values["path"] + "/status"}


def built(world):
    """A template of its tenant, with the tag v1."""
    values = requested(world)
    path = f"/templates/{values['template']}/builds/{values['path']}"
    assert world.mine.post(f"/v2{path}", {"fromTemplate": "base"}).status == 202
    wait_until(lambda: world.mine.get(f"{path}/status").json["status"] == "ready", 30,
               lambda: world.mine.get(f"{path}/status").body)
    return {"template": values["template"], "path": values["template"]}


def refused(*routes):
    def bad(route):
        return Ask(400, at=NO_ID) if "{sandboxID}" in route else BAD_ALL
    return {route: Entry(Ask(501, body=None if route.startswith("GET") else {}), bad(route))
            for route in routes}


TABLE = {
    "GET /health": Entry(Ask(200, check=text("successful")), None),  # takes no input
    "GET /teams": Entry(Ask(200, check=has(0, "teamID")), BAD_ALL),
    "POST /sandboxes": Entry(Ask(201, body={"templateID": "base"}, check=has("sandboxID")),
                             Ask(400, body={"templateID": 5})),
    "POST /v2/sandboxes": Entry(Ask(201, body={"templateID": "base"}, check=has("sandboxID")),
                                Ask(400, body={"templateID": "base", "timeout": -1})),
    "GET /sandboxes": Entry(Ask(200, check=shows("sandboxID")), BAD_ALL,
                            foreign=hides("sandboxID"), given=box),
    "GET /v2/sandboxes": Entry(Ask(200, check=shows("sandboxID")), Ask(400, "?limit=0"),
                               foreign=hides("sandboxID"), given=box),
    "GET /sandboxes/metrics": Entry(Ask(200, "?sandbox_ids={sandboxID}", check=shows("sandboxID")),
                                    Ask(400), foreign=hides("sandboxID"), given=measured),
    f"GET {BOX}": Entry(Ask(200, check=shows("sandboxID")), Ask(400, at=NO_ID)),
    f"DELETE {BOX}": Entry(Ask(204, check=empty), Ask(400, at=NO_ID)),
    f"POST {BOX}/pause": Entry(Ask(204, body={}, check=empty), Ask(400, body={"memory": 5})),
    f"POST {BOX}/connect": Entry(Ask(200, body={"timeout": 60}, check=shows("sandboxID")),
                                 Ask(400, body={"timeout": "long"})),
    f"POST /v2{BOX}/connect": Entry(Ask(200, body={"timeout": 60}, check=shows("sandboxID")),
                                    Ask(400, body={"timeout": "long"})),
    f"POST {BOX}/resume": Entry(Ask(201, body={"timeout": 60}, check=shows("sandboxID")),
                                Ask(400, body={"timeout": "long"}), given=paused),
    f"POST {BOX}/timeout": Entry(Ask(204, body={"timeout": 60}, check=empty),
                                 Ask(400, body={"timeout": -1})),
    f"POST {BOX}/refreshes": Entry(Ask(204, body={"duration": 60}, check=empty),
                                   Ask(400, body={"duration": -1})),
    f"PUT {BOX}/network": Entry(Ask(204, body={}, check=empty), Ask(400, body={"allowOut": 5})),
    f"GET {BOX}/metrics": Entry(Ask(200), Ask(400, "?start=x")),
    f"GET {BOX}/logs": Entry(Ask(200, check=has("logs")), Ask(400, "?limit=-1")),
    f"GET /v2{BOX}/logs": Entry(Ask(200, check=has("logs")), Ask(400, "?limit=-1")),
    "GET /snapshots": Entry(Ask(200), Ask(400, "?limit=0")),
    f"POST {BOX}/snapshots": Entry(Ask(201, body={}, check=has("snapshotID")),
                                   Ask(400, body={"name": "not a name"})),
    f"POST {BOX}/fork": Entry(Ask(201, body={"count": 2}, check=has(1, "sandbox", "sandboxID")),
                              Ask(400, body={"count": 101})),
    "GET /templates": Entry(Ask(200, check=text("base")), BAD_ALL),
    "GET /v2/templates": Entry(Ask(200, check=text("base")), BAD_ALL),
    "GET /templates/aliases/{path}": Entry(Ask(200, check=text("base")),
                                           Ask(404, at={"path": "no-such"}),
                                           given=lambda world: {"path": "base"}),
    "GET /templates/{template}/tags": Entry(Ask(200), Ask(400, at={"template": "b@d"}),
                                            given=lambda world: {"template": "base"}),
    "GET /templates/{path}": Entry(Ask(200, check=text("base")), Ask(404, at={"path": "no-such"}),
                                   given=lambda world: {"path": "base"}),
    "DELETE /templates/{path}": Entry(Ask(204, check=empty), Ask(404, at={"path": "no-such"}),
                                      foreign=404, given=built),
    "PATCH /templates/{path}": Entry(Ask(200, body={"public": False}, check=has("names")),
                                     Ask(400, body={"public": 5}), foreign=404, given=built),
    "PATCH /v2/templates/{path}": Entry(Ask(200, body={"public": False}, check=has("names")),
                                        Ask(400, body={"public": 5}), foreign=404, given=built),
    "POST /templates/tags": Entry(
        Ask(201, body=lambda v: {"target": v["template"], "tags": ["more"]}, check=has("buildID")),
        Ask(400, body=lambda v: {"target": v["template"], "tags": [":bad"]}),
        foreign=404, given=built),
    "DELETE /templates/tags": Entry(
        Ask(204, body=lambda v: {"name": v["template"], "tags": ["v1"]}, check=empty),
        Ask(400, body=lambda v: {"name": v["template"], "tags": ["default"]}),
        foreign=404, given=built),
    "POST /v3/templates": Entry(Ask(202, body={"name": "e2b-routes-asked"}, check=has("buildID")),
                                Ask(400, body={"name": "not a name"})),
    "POST /v2/templates": Entry(Ask(202, body={"alias": "e2b-routes-asked"}, check=has("buildID")),
                                Ask(400, body={})),
    "POST /v2/templates/{template}/builds/{path}": Entry(
        Ask(202, body={"fromTemplate": "base"}), Ask(400, body={"steps": 5}), foreign=404,
        given=requested),
    "GET /templates/{template}/builds/{path}": Entry(
        Ask(200, check=has("status")), Ask(400, "?logsOffset=x"), foreign=404,
        given=status_of),
    "GET /templates/{template}/files/{path}": Entry(Ask(201, check=has("url")),
                                                    Ask(400, at={"path": "x"}),
                                                    given=lambda world: {"path": HASH}),
    "PUT /templates/{template}/files/{path}": Entry(Ask(401, body=b"x"), Ask(400, body=b"x", at={"path": "x"}),
                                                    given=lambda world: {"path": HASH}),
    **refused("POST /templates", "POST /templates/{path}"),
    # Tenants have no volumes unless the operator permits it; tests/conformance/e2b has those of the operator.
    "GET /volumes": Entry(Ask(200), BAD_ALL),
    "POST /volumes": Entry(Ask(403, body={"name": "x"}), Ask(400, body={"name": "a/b"})),
    "GET /volumes/{name}": Entry(Ask(404), Ask(400, at={"name": ".bad"})),
    "DELETE /volumes/{name}": Entry(Ask(404), Ask(400, at={"name": ".bad"})),
    # Keys are not tokens of volumes.
    **{f"{method} /volumecontent/{{name}}/{what}": Entry(
        Ask(401, "?path=/f", body={} if method in ("PATCH", "PUT") else None), Ask(401, at={"name": ".bad"}))
       for method, what in (("GET", "path"), ("PATCH", "path"), ("DELETE", "path"), ("GET", "dir"),
                            ("POST", "dir"), ("GET", "file"), ("PUT", "file"))},
    "GET /secrets": Entry(Ask(200), Ask(400, "?limit=x")),
    "POST /secrets": Entry(Ask(201, body={"name": "e2b-made", "value": "v"}, check=has("secretID")),
                           Ask(400, body={"name": "e2b made", "value": "v"})),
    "GET /secrets/{secretID}": Entry(Ask(200, check=has("currentVersion")), Ask(400, at=BAD_SECRET),
                                     foreign=404, given=secret),
    "POST /secrets/{secretID}": Entry(Ask(200, body={"value": "w"}, check=has("currentVersion")),
                                      Ask(400, body={"value": 5}), foreign=404, given=secret),
    "DELETE /secrets/{secretID}": Entry(Ask(204, check=empty), Ask(400, at=BAD_SECRET),
                                        foreign=404, given=secret),
}
