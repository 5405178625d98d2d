"""What a request to create a sandbox asks of Daytona: what is done, what is refused; and which sandboxes lists show."""

import contextlib
import sqlite3
import time
import urllib.parse

import pytest
from daemons import wait_until
from fake_world import world_of
from rest import Rest
from resting import kill_daemon, mortal_daemon, terminate_daemon

BOX = "/daytona/sandbox"


@pytest.fixture(scope="module")
def daemon():
    with mortal_daemon() as made:
        yield made


@pytest.fixture
def control(daemon):
    return Rest(daemon.socket)


@pytest.fixture
def make(control):
    made = []

    def create(**fields):
        answer = control.post(BOX, fields)
        assert answer.status == 200, answer.body
        made.append(answer.json["id"])
        return made[-1]

    yield create
    for name in made:
        control.delete(f"{BOX}/{name}")


def run(control, name, command):
    answer = control.post(f"/daytona/toolbox/{name}/process/execute", {"command": command})
    assert answer.status == 200, answer.body
    return answer.json["result"].strip()


def found(control, **query):
    answer = control.get(f"{BOX}?{urllib.parse.urlencode(query)}")
    assert answer.status == 200, answer.body
    return {box["id"] for box in answer.json["items"]}


@contextlib.contextmanager
def database(daemon):
    with contextlib.closing(sqlite3.connect(daemon.state / "atoll.db")) as db, db:
        yield db


@pytest.mark.parametrize("fields,text", [
    ({"secrets": [{"TOKEN": "name"}]}, "atoll secret create"),
    ({"gpu": 1}, "GPUs"), ({"gpuType": ["H100"]}, "GPUs"),
    ({"kvm": True}, "/dev/kvm"),
    ({"linkedSandbox": "other"}, "linkedSandbox"),
    ({"outboundProxyUrl": "ftp://proxy:1"}, "outboundProxyUrl must be"),
    ({"outboundProxyUrl": "http://"}, "outboundProxyUrl must be"),
    ({"outboundProxyUrl": "http://proxy"}, "outboundProxyUrl must be"),
    ({"outboundProxyUrl": "http://a b:1"}, "blanks"),
    ({"outboundProxyUrl": "http://proxy:3128", "domainAllowList": "a.test"}, "domainAllowList"),
    ({"outboundProxyUrl": "socks5://u%20:p@proxy:1080"}, "without escapes"),
    ({"outboundProxyUrl": "socks5://proxy"}, "must be"),
    ({"outboundProxyUrl": "socks5://:p@proxy:1080"}, "username"),
    ({"outboundProxyUrl": 5}, "outboundProxyUrl"),
])
def test_what_would_change_the_meaning_is_refused(control, fields, text):
    answer = control.post(BOX, fields)
    assert answer.status == 400 and text in answer.json["message"], answer.body


def test_what_changes_nothing_is_tolerated(make):
    make(secrets=[], gpu=0, gpuType=[], kvm=False, spot=True, otelEndpointOverride="http://collector", unknownField={"a": 1})


def test_a_proxy_of_http_is_in_the_environment(control, make):
    name = make(outboundProxyUrl="http://me:secret@proxy.test:3128", env={"A": "1", "HTTPS_PROXY": "mine"})
    shown = control.get(f"{BOX}/{name}").json
    assert shown["outboundProxyUrl"] == "http://proxy.test:3128"
    assert run(control, name, "echo $A $HTTP_PROXY $http_proxy $HTTPS_PROXY $https_proxy").split() == [
        "1", *["http://me:secret@proxy.test:3128"] * 2, "mine", "http://me:secret@proxy.test:3128"]


def test_the_listener_of_the_network_is_not_a_port_of_the_sandbox(control, make):
    name = make(domainAllowList="a.test")
    inside = run(control, name, "cat /proc/net/tcp6")
    assert ":FFFA " in inside, inside  # ATOLL_NETSPACE_PORT
    assert control.get(f"/daytona/toolbox/{name}/port").json == {"ports": []}
    session = f"/daytona/toolbox/{name}/process/session"
    assert control.post(session, {"sessionId": "s"}).status == 201
    assert control.post(f"{session}/s/exec", {"command": "python3 -m http.server 65529", "runAsync": True}).status == 202
    wait_until(lambda: control.get(f"/daytona/toolbox/{name}/port").json == {"ports": [65529]}, 20, lambda: "no server")
    # In a sandbox without a network it is a port like any other.
    name = control.post("/api/sandboxes", {}).json["id"]
    session = f"/daytona/toolbox/{name}/process/session"
    assert control.post(session, {"sessionId": "s"}).status == 201
    assert control.post(f"{session}/s/exec", {"command": "python3 -m http.server 65530", "runAsync": True}).status == 202
    wait_until(lambda: control.get(f"/daytona/toolbox/{name}/port").json == {"ports": [65530]}, 20, lambda: "no server")
    assert control.delete(f"/api/sandboxes/{name}").status == 204


def test_a_proxy_of_socks_is_in_the_policy_and_stays_there(control, make):
    name = make(outboundProxyUrl="socks5://me:secret@proxy.test:1080", domainAllowList="a.test")
    assert control.get(f"{BOX}/{name}").json["outboundProxyUrl"] == "socks5://proxy.test:1080"
    policy = control.get(f"/api/sandboxes/{name}/network").json
    assert policy["proxy"] == {"address": "proxy.test:1080", "username": "me", "password": "***"}, policy
    assert control.post(f"{BOX}/{name}/network-settings", {"domainAllowList": "b.test"}).status == 200
    assert control.get(f"/api/sandboxes/{name}/network").json["proxy"] == policy["proxy"]


def test_filters(control, make):
    ends, stays = make(ttlMinutes=60), make(memory=2)
    both = {ends, stays}
    later, sooner = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + s)) for s in (7200, 60))
    for query, expected in (({"autoDestroyAtAfter": sooner}, {ends}), ({"autoDestroyAtBefore": later}, {ends}),
                            ({"autoDestroyAtAfter": later}, set()), ({"minGpu": 1}, set()), ({"maxGpu": 0}, both),
                            ({"minMemoryGiB": 2}, {stays}), ({"minMemoryGib": 2}, {stays}), ({"maxMemoryGiB": 1}, {ends}),
                            ({"includeWarm": "true"}, both), ({"sandboxClasses": "linux-vm"}, set()),
                            ({"sandboxClasses": "container"}, both)):
        assert found(control, **query) & both == expected, query
    for query in ("autoDestroyAtAfter=x", "minGpu=x", "includeWarm=perhaps", "includeErroredDeleted=x"):
        assert control.get(f"{BOX}?{query}").status == 400, query


def test_snapshots_know_their_sandbox(control, make):
    name, other = make(), make()
    for each, snapshot in ((name, "of-one"), (other, "of-other")):
        assert control.post(f"{BOX}/{each}/snapshot", {"name": snapshot}).status == 200
    assert control.get("/daytona/snapshots/of-one").json["sourceSandboxId"] == name
    for query, expected in ((name, ["of-one"]), ("none", [])):
        answer = control.get(f"/daytona/snapshots?sourceSandboxId={query}").json
        assert [each["name"] for each in answer["items"]] == expected and answer["total"] == len(expected)
    assert control.get("/daytona/snapshots/daytona-small").json["sourceSandboxId"] is None


def test_a_snapshot_has_the_disk_of_its_sandbox(daemon, control, make):
    of = make(snapshot="daytona-medium")
    assert control.post(f"{BOX}/{of}/snapshot", {"name": "of-medium"}).status == 200
    for restarted in (False, True):
        if restarted:
            kill_daemon(daemon)
            daemon.start()
        assert control.get("/daytona/snapshots/of-medium").json["disk"] == 8
        name = make(snapshot="of-medium")
        shown = control.get(f"{BOX}/{name}").json
        assert [shown[size] for size in ("cpu", "memory", "disk")] == [2, 4, 8]
        assert control.get(f"/api/sandboxes/{name}").json["limits"]["diskMB"] == 8 * 1024


def test_a_snapshot_with_a_larger_disk(control, make):
    """The way that resize names for a disk that is too small."""
    small = make()
    run(control, small, "echo kept >file")
    assert control.post(f"{BOX}/{small}/snapshot", {"name": "too-small"}).status == 200
    answer = control.post("/daytona/snapshots", {"name": "roomy", "imageName": "too-small", "disk": 20})
    assert answer.status == 200, answer.body
    wait_until(lambda: control.get("/daytona/snapshots/roomy").json["state"] == "active", 60,
               lambda: control.get("/daytona/snapshots/roomy").body)
    assert control.get("/daytona/snapshots/roomy").json["disk"] == 20
    name = make(snapshot="roomy")
    assert control.get(f"{BOX}/{name}").json["disk"] == 20
    assert run(control, name, "cat file") == "kept"


def test_a_sandbox_whose_build_failed_is_listed_and_says_why_it_cannot_be_used(control, make):
    name = make(name="waiting", buildInfo={"dockerfileContent": "FROM scratch\nCOPY no-such /\n"}, labels={"a": "waits"})
    path = f"{BOX}/{name}"
    wait_until(lambda: control.get(path).json["state"] == "build_failed", 30, lambda: control.get(path).body)
    assert found(control, states="build_failed") == {name}
    for query in ({"labels": '{"a": "waits"}'}, {"name": "waiting"}, {}):
        assert name in found(control, **query), query
    assert name not in found(control, states="started")
    assert name in [box["id"] for box in control.get(f"{BOX}/paginated").json["items"]]
    for answer in (control.put(f"{path}/labels", {"labels": {}}), control.post(f"{BOX}/waiting/start"), control.post(f"{path}/autostop/5"),
                   control.post(f"/daytona/toolbox/{name}/process/execute", {"command": "true"})):
        assert answer.status == 409 and "build_failed" in answer.json["message"], answer.body
    assert control.delete(path).status == 200
    assert control.get(path).status == 404 and control.put(f"{path}/labels", {"labels": {}}).status == 404
    assert name not in found(control)


def test_a_waiting_sandbox_has_its_name_alone(control, make):
    """Its build failed here, so it waits until it is deleted."""
    built = {"dockerfileContent": "FROM scratch\nCOPY no-such /\n"}
    running = make(name="running")
    waits = make(name="waits", buildInfo=built)
    for fields in ({"name": "running", "buildInfo": built}, {"name": "waits", "buildInfo": built}, {"name": "waits"}):
        answer = control.post(BOX, fields)
        assert answer.status == 409 and "already exists" in answer.json["message"], answer.body
    answer = control.post(f"{BOX}/{running}/fork", {"name": "waits"})
    assert answer.status == 409, answer.body
    assert control.get(f"{BOX}/waits").json["id"] == waits
    assert control.get(f"{BOX}/running").json["id"] == running
    assert control.delete(f"{BOX}/waits").status == 200
    assert control.get(f"{BOX}/waits").status == 404
    assert control.get(f"{BOX}/{make(name='waits')}").json["name"] == "waits"


def test_a_running_sandbox_is_not_hidden_by_one_that_waits(control, make):
    """Clients of other APIs do not know the names of waiting sandboxes."""
    waits = make(name="taken", buildInfo={"dockerfileContent": "FROM scratch\nCOPY no-such /\n"})
    other = control.post("/api/sandboxes", {"name": "taken"})
    assert other.status == 201, other.body
    try:
        assert control.get(f"{BOX}/taken").json["id"] == other.json["id"]
        assert control.get(f"{BOX}/{waits}").json["id"] == waits
        assert control.delete(f"{BOX}/taken").json["id"] == other.json["id"]
        wait_until(lambda: control.get(f"{BOX}/taken").json.get("id") == waits, 10, lambda: control.get(f"{BOX}/taken").body)
    finally:
        control.delete(f"/api/sandboxes/{other.json['id']}")


def test_the_archive_interval_is_at_most_30_days(control, make):
    name = make(autoArchiveInterval=0)
    assert control.get(f"{BOX}/{name}").json["autoArchiveInterval"] == 43200
    for given, kept in (("60", 60), ("0", 43200), ("50000", 43200)):
        assert control.post(f"{BOX}/{name}/autoarchive/{given}").status == 200
        assert control.get(f"{BOX}/{name}").json["autoArchiveInterval"] == kept


def test_the_last_use_survives_a_restart(daemon, control, make):
    """It is stored when it is a minute later than what is stored: the test makes the sandbox older."""
    name = make()
    kill_daemon(daemon)
    with database(daemon) as db:
        db.execute("UPDATE sandboxes SET created_unix_ms = created_unix_ms - 100000 WHERE id = ?", [name])
    daemon.start()
    used = control.get(f"{BOX}/{name}").json
    assert used["lastActivityAt"] == used["createdAt"]
    run(control, name, "true")
    before = control.get(f"{BOX}/{name}").json
    assert before["lastActivityAt"] > used["lastActivityAt"] and before["updatedAt"] == used["updatedAt"]

    def is_stored():
        with database(daemon) as db:
            return "\"used\"" in db.execute("SELECT facade FROM sandboxes WHERE id = ?", [name]).fetchone()[0]

    wait_until(is_stored, 10, lambda: "the use is not stored")
    kill_daemon(daemon)
    daemon.start()
    assert control.get(f"{BOX}/{name}").json["lastActivityAt"] == before["lastActivityAt"]


def test_stopped_sandboxes_are_archived_and_deleted(daemon, control, make):
    """After a time that the test pretends to have passed."""
    archived, deleted, kept = make(autoArchiveInterval=60), make(autoDeleteInterval=60), make(autoArchiveInterval=60, autoDeleteInterval=60)
    for name in (archived, deleted, kept):
        assert control.post(f"{BOX}/{name}/stop").status == 200
    terminate_daemon(daemon)
    with database(daemon) as db:
        for name in (archived, deleted):
            db.execute("UPDATE sandboxes SET paused_unix_ms = paused_unix_ms - 3600000 WHERE id = ?", [name])
    daemon.start()
    wait_until(lambda: control.get(f"{BOX}/{archived}").json["state"] == "archived", 40, lambda: control.get(f"{BOX}/{archived}").body)
    wait_until(lambda: control.get(f"{BOX}/{deleted}").status == 404, 40, lambda: control.get(f"{BOX}/{deleted}").body)
    assert control.get(f"{BOX}/{kept}").json["state"] == "stopped"


def test_a_backup_is_a_snapshot_and_only_the_last_is_kept(control, make):
    name = make()
    run(control, name, "echo one > kept")
    first = control.post(f"{BOX}/{name}/backup")
    assert first.status == 200 and first.json["backupState"] == "Completed", first.body
    run(control, name, "echo two > kept")
    assert control.post(f"{BOX}/{name}/stop").status == 200
    second = control.post(f"{BOX}/{name}/backup").json
    assert second["state"] == "stopped" and second["backupCreatedAt"] > first.json["backupCreatedAt"]
    backup = f"backup-{name}"
    assert [each["name"] for each in control.get(f"/daytona/snapshots?sourceSandboxId={name}").json["items"]] == [backup]
    versions = f"/api/templates/{backup}/versions"
    wait_until(lambda: len(control.get(versions).json) == 1, 10, lambda: control.get(versions).body)
    other = make(snapshot=backup)
    assert run(control, other, "cat kept") == "two"
    assert control.delete(f"{BOX}/{name}").status == 200
    assert control.get(f"/daytona/snapshots/{backup}").status == 200  # the other one uses it
    assert control.delete(f"{BOX}/{other}").status == 200
    wait_until(lambda: control.get(f"/daytona/snapshots/{backup}").status == 404, 30, lambda: "the backup is still there")


def test_a_backup_that_fails_says_so():
    """The fake provider makes no snapshots."""
    with world_of(native={"enabled": False}) as world:
        made = world.rest.post(BOX, {"autoDeleteInterval": 0})
        assert made.status == 200 and made.json["backupState"] == "None", made.body
        path = f"{BOX}/{made.json['id']}"
        assert world.rest.post(f"{path}/backup").status == 501
        assert world.rest.get(path).json["backupState"] == "Error"
        assert "backupCreatedAt" not in world.rest.get(path).json
        assert world.rest.delete(path).status == 200
