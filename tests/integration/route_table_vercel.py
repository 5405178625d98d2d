"""The entries of Vercel's API. Routes of one session are listed once, for both forms of its path."""

import gzip
import io
import tarfile

from route_table import has, shows, text
from routes import Ask, Entry

V1, V2, V3 = (f"/vercel/api/v{number}/sandboxes" for number in (1, 2, 3))
SESSION, OLD_SESSION = f"{V2}/sessions/{{sid}}", f"{V1}/{{sid}}"
NO_SANDBOX, NO_SESSION = {"sandbox": "no-such"}, {"sid": "sbx_nosuch"}
NO_KEY = {"key": "snap_00000000-0000-4000-8000-000000000000"}


def create(world, base=V2, **fields):
    answer = world.mine.post(base, fields)
    assert answer.status == 200, answer.body
    return answer.json


def sandbox(world, **fields):
    made = create(world, **fields)
    return {"sandbox": made["sandbox"]["name"], "sid": made["session"]["id"]}


def snapshot(world):
    values = sandbox(world)
    answer = world.mine.post(f"{V2}/sessions/{values['sid']}/snapshot")
    assert answer.status == 200, answer.body
    return {**values, "key": answer.json["snapshot"]["id"]}


def terminal(world):
    values = sandbox(world)
    answer = world.mine.post(f"{V2}/sessions/{values['sid']}/interactive", {})
    return {**values, "token": answer.json["token"]}


def old(world):
    return {"sid": create(world, V1)["sandbox"]["id"]}


def command(given, base):
    def made(world):
        values = given(world)
        answer = world.mine.post(f"{base.format(**values)}/cmd", {"command": "cat", "args": [], "stdin": True})
        assert answer.status == 200, answer.body
        return {**values, "cid": answer.json["command"]["id"]}
    return made


def sent(name):
    """The value of the parameter is not in the answer to another tenant's request for a list."""
    return lambda answer, values: answer.status == 200 and values[name].encode() not in answer.body


def archive(values):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        member = tarfile.TarInfo("tmp/f")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"data"))
    return gzip.compress(out.getvalue())


def of_session(given, base):
    """What is below a session, for one of the two forms of its path."""
    started = command(given, base)
    no_command = Ask(404, at={"cid": "cmd_0000000000000000"})
    return {
        f"GET {base}": Entry(Ask(200, check=shows("sid")), Ask(404, at=NO_SESSION), given=given,
                             foreign=404),
        f"POST {base}/stop": Entry(Ask(200, check=text("stopped")), Ask(404, at=NO_SESSION),
                                   given=given, foreign=404),
        f"POST {base}/extend-timeout": Entry(
            Ask(200, body={"duration": 1000}, check=shows("sid")), Ask(400, body={"duration": "x"}),
            given=given, foreign=404),
        f"POST {base}/network-policy": Entry(
            Ask(200, body={"mode": "deny-all"}, check=text("deny-all")), Ask(400, body={"mode": "some"}),
            given=given, foreign=404),
        f"POST {base}/snapshot": Entry(
            Ask(200, body={}, check=has("snapshot", "id")), Ask(400, body={"expiration": "x"}),
            given=given, foreign=404),
        f"POST {base}/cmd": Entry(
            Ask(200, body={"command": "true", "args": []}, check=has("command", "id")),
            Ask(400, body={"command": 5}), given=given, foreign=404),
        f"GET {base}/cmd/{{cid}}": Entry(Ask(200, check=shows("cid")), no_command, given=started,
                                         foreign=404),
        f"GET {base}/cmd/{{cid}}/logs": Entry(
            Ask(200), no_command, given=ended(given, base), foreign=404),
        f"POST {base}/cmd/{{cid}}/kill": Entry(
            Ask(200, body={"signal": 9}, check=shows("cid")), Ask(400, body={"signal": "x"}),
            given=started, foreign=404),
        f"POST {base}/cmd/{{cid}}/stdin": Entry(
            Ask(200, body={"data": "input"}, check=shows("cid")), Ask(400, body={}), given=started, foreign=404),
        f"POST {base}/fs/mkdir": Entry(
            Ask(200, body={"path": "/tmp/new"}), Ask(400, body={"path": "/no/such/parent"}),
            given=given, foreign=404),
        f"POST {base}/fs/write": Entry(
            Ask(200, body=archive, headers={"Content-Type": "application/gzip", "x-cwd": "/"}),
            Ask(400, body=b"no archive",
                headers={"Content-Type": "application/gzip", "x-cwd": "/"}),
            given=given, foreign=404),
        f"POST {base}/fs/read": Entry(
            Ask(200, body={"path": "/etc/hostname"}), Ask(404, body={"path": "/no/such"}),
            given=given, foreign=404),
    }


def ended(given, base):
    """A command that has ended, so that its logs end."""
    def made(world):
        values = given(world)
        path = f"{base.format(**values)}/cmd"
        answer = world.mine.post(path, {"command": "true", "args": []}).json["command"]
        world.mine.get(f"{path}/{answer['id']}?wait=true")
        return {**values, "cid": answer["id"]}
    return made


TABLE = {
    f"POST {V3}": Entry(Ask(200, body={"tags": {"a": "b"}}, check=has("session", "status", value="running")),
                        Ask(400, body={"tags": {"a": 5}})),
    f"POST {V2}": Entry(Ask(200, body={"runtime": "node22"}, check=has("sandbox", "runtime", value="node22")),
                        Ask(400, body={"runtime": "cobol"})),
    f"GET {V2}": Entry(Ask(200, check=shows("sandbox")), Ask(400, "?limit=0"), given=sandbox,
                       foreign=sent("sandbox")),
    f"GET {V2}/sessions": Entry(Ask(200, check=shows("sid")), Ask(400, "?sortOrder=up"), given=sandbox,
                                foreign=sent("sid")),
    f"GET {V2}/{{sandbox}}": Entry(Ask(200, check=shows("sandbox")), Ask(404, at=NO_SANDBOX),
                                   given=sandbox, foreign=404),
    f"DELETE {V2}/{{sandbox}}": Entry(Ask(200, check=shows("sandbox")), Ask(404, at=NO_SANDBOX),
                                      given=sandbox, foreign=404),
    f"PATCH {V2}/{{sandbox}}": Entry(
        Ask(200, body={"tags": {"a": "b"}}, check=has("sandbox", "tags", "a", value="b")),
        Ask(400, body={"timeout": "long"}), given=sandbox, foreign=404),
    f"POST {V2}/{{sandbox}}/fork": Entry(
        Ask(200, body={}, check=has("session", "status", value="running")), Ask(400, body={"ports": 5}),
        given=sandbox, foreign=404),
    **{route: entry for base in (V1, V2) for route, entry in {
        f"GET {base}/snapshots": Entry(Ask(200, check=shows("key")), Ask(400, "?limit=0"), given=snapshot,
                                       foreign=sent("key")),
        f"GET {base}/snapshots/{{key}}": Entry(Ask(200, check=shows("key")), Ask(404, at=NO_KEY),
                                               given=snapshot, foreign=404),
        f"DELETE {base}/snapshots/{{key}}": Entry(
            Ask(200, check=has("snapshot", "status", value="deleted")), Ask(404, at=NO_KEY),
            given=snapshot, foreign=404)}.items()},
    f"GET {V2}/snapshots/tree": Entry(Ask(200, "?snapshotId={key}", check=shows("key")), Ask(404),
                                      given=snapshot, foreign=404),
    # Tenants have no volumes unless the operator permits it: test_vercel.py has those of the operator.
    f"GET {V2}/drives": Entry(Ask(200, check=has("drives")), Ask(400, "?limit=0")),
    f"POST {V2}/drives/{{key}}": Entry(Ask(403, body={}), Ask(400, body={}, at={"key": "a%20b"}),
                                       given=lambda world: {"key": "data"}),
    f"DELETE {V2}/drives/{{key}}": Entry(Ask(404), None, given=lambda world: {"key": "data"}),
    f"POST {V1}": Entry(Ask(200, body={}, check=has("sandbox", "status", value="running")),
                        Ask(400, body={"ports": [0]})),
    f"GET {V1}": Entry(Ask(200, check=shows("sid")), Ask(400, "?limit=x"), given=old,
                       foreign=sent("sid")),
    **of_session(sandbox, SESSION),
    **of_session(old, OLD_SESSION),
    f"POST {OLD_SESSION}/{{cid}}/kill": Entry(
        Ask(200, body={"signal": 9}, check=shows("cid")), Ask(400, body={"signal": "x"}),
        given=command(old, OLD_SESSION), foreign=404),
    f"POST {SESSION}/interactive": Entry(Ask(200, body={}, check=has("token")), Ask(404, at=NO_SESSION),
                                         given=sandbox, foreign=404),
    "GET /vercel/interactive/{sid}": Entry(
        Ask(101, "?token={token}", body='{"type":"start","command":"echo","args":["hi"]}', by="ws"),
        Ask(404, "?token=x", by="ws"), given=terminal),
    "GET /vercel/api/v2/user": Entry(Ask(200, check=has("user", "defaultTeamId")), None),
    "GET /vercel/api/v2/teams": Entry(Ask(200, check=has("teams")), None),
    "GET /vercel/api/v2/teams/{key}": Entry(Ask(200, check=has("slug")), None,
                                            given=lambda world: {"key": "team_atoll"}),
    "GET /vercel/api/v2/projects/{key}": Entry(Ask(200, check=shows("key")), None,
                                               given=lambda world: {"key": "prj_atoll"}),
}
