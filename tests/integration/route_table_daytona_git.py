"""The entries of Daytona's toolbox for git repositories."""

from route_table import empty, has, repository
from route_table_daytona_toolbox import NO_JSON, NO_PATH, both
from routes import Ask, Entry

LOGIN = {"username": "u", "password": "p"}


def shows(route, check):
    return {f"GET /git/{route}": Entry(Ask(200, "?path=w", check=check), NO_PATH, given=repository)}


def does(route, status=200, check=empty, method="POST", **fields):
    return {f"{method} /git/{route}": Entry(Ask(status, body={"path": "w", **fields}, check=check), NO_JSON,
                                            given=repository)}


TABLE = both({
    "POST /git/clone": Entry(Ask(200, body={"url": "o", "path": "v", "branch": ""}, check=empty), NO_JSON,
                             given=repository),
    **shows("status", has("fileStatus", 0, "name")),
    **shows("branches", has("current", value="main")),
    **does("branches", 201, name="more"),
    **does("branches", 204, method="DELETE", name="dev"),
    **does("checkout", branch="dev"),
    **does("add", files=["."]),
    **does("commit", check=has("hash"), message="two", author="a", email="b@x"),
    **does("push"),
    **does("pull"),
    **shows("history", has(0, "hash")),
    **does("init", 201),
    **does("reset", mode="hard"),
    **does("restore", files=["g"], staged=True),
    **shows("remotes", has("remotes", 0, "url")),
    **does("remotes", 201, name="up", url="../o", fetch=True),
    "GET /git/config": Entry(Ask(200, "?key=user.name&path=w", check=has("value", value="n")), Ask(400),
                             given=repository),
    **does("config", key="a.b", value="c", scope="local"),
    **does("config/user", name="n", email="e@x"),
    "POST /git/credentials": Entry(Ask(200, body=LOGIN, check=empty), Ask(400, body={"username": "u"})),
})
