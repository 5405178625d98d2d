"""The entries of E2B's control plane. What Atoll does not offer says so: 501 is its good answer."""

from daemons import wait_until
from route_table import BAD_ALL, empty, has, hides, shows, text
from routes import Ask, Entry

BOX = "/sandboxes/{sandboxID}"
NO_ID = {"sandboxID": "Not_An_Id"}
BAD_SECRET = {"secretID": "b@d"}


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
    "GET /snapshots": Entry(Ask(200), BAD_ALL),
    "GET /templates": Entry(Ask(200, check=text("base")), BAD_ALL),
    "GET /v2/templates": Entry(Ask(200, check=text("base")), BAD_ALL),
    "GET /templates/aliases/{path}": Entry(Ask(200, check=text("base")),
                                           Ask(404, at={"path": "no-such"}),
                                           given=lambda world: {"path": "base"}),
    "GET /templates/{template}/tags": Entry(Ask(200), Ask(400, at={"template": "b@d"}),
                                            given=lambda world: {"template": "base"}),
    "GET /templates/{path}": Entry(Ask(200, check=text("base")), Ask(404, at={"path": "no-such"}),
                                   given=lambda world: {"path": "base"}),
    "DELETE /templates/{path}": Entry(Ask(501), Ask(404, at={"path": "no-such"}),
                                      given=lambda world: {"path": "base"}),
    **refused(f"POST {BOX}/fork", f"POST {BOX}/snapshots", "GET /templates/{template}/files/{path}",
              "GET /templates/{template}/builds/{path}", "POST /v3/templates", "POST /v2/templates",
              "POST /v2/templates/{path}", "PATCH /v2/templates/{path}", "POST /templates",
              "POST /templates/{path}", "PATCH /templates/{path}", "DELETE /templates/tags",
              "GET /volumes", "POST /volumes", "GET /volumes/{name}", "DELETE /volumes/{name}"),
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
