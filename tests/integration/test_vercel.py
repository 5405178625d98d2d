"""Vercel's control plane: sandboxes, their sessions, snapshots and lists, by the bytes that clients send."""

import threading

import pytest
from conftest import wait_until
from rest import Rest

V1, V2, V3 = (f"/vercel/api/v{number}/sandboxes" for number in (1, 2, 3))


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


def create(rest, base=V3, **fields):
    answer = rest.post(base, {"projectId": "prj_1", **fields})
    assert answer.status == 200, answer.body
    return answer.json


def run(rest, made, command):
    """What a command in the sandbox prints, by our own API."""
    sid = (made.get("session") or made["sandbox"])["id"]
    box = sid.removeprefix("sbx_").split("_")[0]
    answer = rest.post(f"/api/sandboxes/{box}/execs", {"cmd": ["sh", "-c", command]}, wait="true")
    assert answer.status == 200, answer.body
    return answer.json["stdout"]


def error_of(answer):
    return answer.status, answer.json["error"]["code"]


def test_a_new_sandbox(rest):
    made = create(rest, name="new-one", ports=[3000], tags={"a": "1"}, timeout=60000)
    sandbox, session = made["sandbox"], made["session"]
    assert sandbox["name"] == "new-one" and sandbox["persistent"] is True
    assert sandbox["currentSessionId"] == session["id"]
    assert sandbox["status"] == session["status"] == "running"
    assert (session["timeout"], session["cwd"]) == (60000, "/vercel/sandbox")
    assert sandbox["tags"] == {"a": "1"}
    assert [route["port"] for route in made["routes"]] == [3000]
    assert run(rest, made, "id -un; pwd; echo $HOME; touch ~/x /vercel/sandbox/y && echo ok").split() == [
        "vercel-sandbox", "/vercel/sandbox", "/home/vercel-sandbox", "ok"]
    assert run(rest, made, "sudo id -un").split() == ["root"]
    assert rest.delete(f"{V2}/new-one").status == 200
    assert error_of(rest.get(f"{V2}/new-one")) == (404, "not_found")


def test_a_stop_keeps_the_files_for_the_next_session(rest):
    made = create(rest, name="kept")
    run(rest, made, "echo one >file")
    stopped = rest.post(f"{V2}/sessions/{made['session']['id']}/stop")
    assert stopped.status == 200, stopped.body
    assert stopped.json["session"]["status"] == "stopped"
    assert stopped.json["snapshot"]["status"] == "created"
    assert stopped.json["sandbox"]["currentSnapshotId"] == stopped.json["snapshot"]["id"]
    again = rest.get(f"{V2}/kept?resume=true").json
    assert again["resumed"] is True and again["session"]["id"] != made["session"]["id"]
    assert run(rest, again, "cat file") == "one\n"
    assert rest.get(f"{V2}/kept?resume=true").json["resumed"] is False
    first = rest.get(f"{V2}/sessions/{made['session']['id']}").json["session"]
    assert first["status"] == "stopped" and first["duration"] >= 0
    listed = rest.get(f"{V2}/sessions?name=kept").json["sessions"]
    assert [s["id"] for s in listed] == [again["session"]["id"], made["session"]["id"]]
    assert error_of(rest.post(f"{V2}/sessions/{made['session']['id']}/extend-timeout",
                              {"duration": 1000})) == (410, "sandbox_stopped")
    rest.delete(f"{V2}/kept")


def test_a_sandbox_that_keeps_nothing_starts_afresh(rest):
    made = create(rest, name="afresh", persistent=False)
    run(rest, made, "echo one >file")
    stopped = rest.post(f"{V2}/sessions/{made['session']['id']}/stop").json
    assert "snapshot" not in stopped
    again = rest.get(f"{V2}/afresh?resume=true").json
    assert run(rest, again, "ls -A; id -un; touch y") == "vercel-sandbox\n"
    rest.delete(f"{V2}/afresh")


def test_version_one(rest):
    made = create(rest, V1, runtime="node22", timeout=60000, ports=[3000])
    sandbox = made["sandbox"]
    assert sandbox["status"] == "running" and sandbox["runtime"] == "node22"
    assert rest.get(f"{V1}/{sandbox['id']}").json["sandbox"]["id"] == sandbox["id"]
    assert sandbox["id"] in [s["id"] for s in rest.get(V1).json["sandboxes"]]
    assert rest.post(f"{V1}/{sandbox['id']}/stop").json["sandbox"]["status"] == "stopped"
    ended = rest.get(f"{V1}/{sandbox['id']}").json
    assert (ended["sandbox"]["status"], ended["sandbox"]["runtime"]) == ("stopped", "node22")
    assert ended["routes"] == made["routes"] and len(made["routes"]) == 1
    assert rest.post(f"{V1}/{sandbox['id']}/stop").json["sandbox"]["status"] == "stopped"
    assert error_of(rest.post(f"{V1}/{sandbox['id']}/extend-timeout", {"duration": 1})) == (
        410, "sandbox_stopped")


def test_more_time(rest):
    made = create(rest, timeout=60000)
    path = f"{V2}/sessions/{made['session']['id']}/extend-timeout"
    assert rest.post(path, {"duration": 30000}).json["session"]["timeout"] == 90000
    assert error_of(rest.post(path, {"duration": 10**12})) == (400, "sandbox_timeout_invalid")
    rest.delete(f"{V2}/{made['sandbox']['name']}")


def test_lists_have_filters_and_pages(rest):
    for i in range(3):
        create(rest, name=f"listed-{i}", tags={"team": "x", "i": str(i)})
    page = rest.get(f"{V2}?namePrefix=listed-&limit=2").json
    assert [s["name"] for s in page["sandboxes"]] == ["listed-2", "listed-1"]
    page = rest.get(f"{V2}?namePrefix=listed-&limit=2&cursor={page['pagination']['next']}").json
    assert [s["name"] for s in page["sandboxes"]] == ["listed-0"]
    assert page["pagination"] == {"count": 1, "next": None}
    page = rest.get(f"{V2}?tags=team:x&tags=i:1").json
    assert [s["name"] for s in page["sandboxes"]] == ["listed-1"]
    for i in range(3):
        assert rest.delete(f"{V2}/listed-{i}").status == 200


def test_snapshots_and_forks(rest):
    made = create(rest, name="source", runtime="node22", resources={"vcpus": 1}, tags={"kind": "source"}, env={"A": "b"})
    run(rest, made, "echo one >file")
    taken = rest.post(f"{V2}/sessions/{made['session']['id']}/snapshot", {"expiration": 86400000}).json
    snapshot = taken["snapshot"]
    assert snapshot["status"] == "created" and snapshot["expiresAt"] > snapshot["createdAt"]
    assert snapshot["sourceSessionId"] == made["session"]["id"]
    assert taken["session"]["status"] == "stopped"
    again = rest.get(f"{V2}/source?resume=true").json
    assert again["session"]["sourceSnapshotId"] == snapshot["id"]
    run(rest, again, "echo two >file")
    fork = rest.post(f"{V2}/source/fork", {"name": "forked", "timeout": 60000}).json
    assert fork["session"]["sourceSnapshotId"] == snapshot["id"]
    assert (fork["sandbox"]["vcpus"], fork["sandbox"]["tags"]) == (1, {"kind": "source"})
    assert run(rest, fork, "cat file; echo $A") == "one\nb\n"
    other = create(rest, source={"type": "snapshot", "snapshotId": snapshot["id"]})
    assert run(rest, other, "cat file; id -un") == "one\nvercel-sandbox\n"
    assert other["session"]["runtime"] == other["sandbox"]["runtime"] == "node22"
    second = rest.post(f"{V2}/sessions/{again['session']['id']}/snapshot", {"expiration": 2**63 - 1}).json["snapshot"]
    assert second["expiresAt"] > snapshot["expiresAt"]
    assert second["parentId"] == snapshot["id"]
    listed = rest.get(f"{V2}/snapshots?name=source").json["snapshots"]
    assert [s["id"] for s in listed] == [second["id"], snapshot["id"]]
    tree = rest.get(f"{V2}/snapshots/tree?snapshotId={second['id']}").json
    assert [node["snapshot"]["id"] for node in tree["snapshots"]] == [snapshot["id"]]
    assert tree["anchor"]["snapshot"]["id"] == second["id"]
    assert error_of(rest.delete(f"{V2}/snapshots/{snapshot['id']}")) == (400, "snapshot_in_use")
    assert rest.get(f"{V2}/snapshots/{snapshot['id']}").json["snapshot"]["id"] == snapshot["id"]
    assert rest.delete(f"{V2}/snapshots/{second['id']}").json["snapshot"]["status"] == "deleted"
    listed = rest.get(f"{V2}/snapshots?name=source").json["snapshots"]
    assert {s["id"]: s["status"] for s in listed} == {second["id"]: "deleted", snapshot["id"]: "created"}
    assert rest.get(f"{V2}/snapshots/{second['id']}").json["snapshot"]["status"] == "deleted"
    assert error_of(rest.get(f"{V2}/source?resume=true")) == (410, "snapshot_not_found")
    assert error_of(rest.post(V2, {"source": {"type": "snapshot", "snapshotId": second["id"]}})) == (
        410, "snapshot_not_found")
    for name in ("forked", other["sandbox"]["name"]):
        assert rest.delete(f"{V2}/{name}?deleteOrphanSnapshots=true").status == 200
    assert rest.delete(f"{V2}/source").status == 200
    # What the sandbox of a snapshot was made from is not known any more: clients need a runtime all the same.
    other = create(rest, source={"type": "snapshot", "snapshotId": snapshot["id"]})
    assert other["session"]["runtime"] == "node24"
    assert rest.delete(f"{V2}/{other['sandbox']['name']}").status == 200
    assert rest.delete(f"{V2}/snapshots/{snapshot['id']}").status == 200
    assert rest.get(f"{V2}/snapshots/{snapshot['id']}").status == 404


def pages(rest, path, cursor="cursor", **query):
    """The ids of snapshots that a client gets which asks for one after the other."""
    ids, following = [], True
    while following and len(ids) < 9:
        answer = rest.get(path, **query, limit="1")
        assert answer.status == 200 and answer.json["pagination"]["count"] <= 1, answer.body
        ids += [(each.get("snapshot") or each)["id"] for each in answer.json["snapshots"]]
        following = query[cursor] = answer.json["pagination"]["next"]
    return ids


def test_snapshots_in_both_orders_and_in_pages(rest):
    made, ids = create(rest, name="ordered"), []
    for _ in range(3):
        ids.append(rest.post(f"{V2}/sessions/{made['session']['id']}/snapshot").json["snapshot"]["id"])
        made = rest.get(f"{V2}/ordered?resume=true").json
    assert pages(rest, f"{V2}/snapshots", name="ordered") == ids[::-1]
    assert pages(rest, f"{V2}/snapshots", name="ordered", sortOrder="desc") == ids[::-1]
    assert pages(rest, f"{V2}/snapshots", name="ordered", sortOrder="asc") == ids
    assert error_of(rest.get(f"{V2}/snapshots", sortOrder="none")) == (400, "bad_request")
    for anchor, order, others in ((ids[2], "desc", ids[1::-1]), (ids[0], "asc", ids[1:])):
        assert pages(rest, f"{V2}/snapshots/tree", "snapshotId", snapshotId=anchor, sortOrder=order) == others
    assert rest.delete(f"{V2}/ordered?deleteOrphanSnapshots=true").status == 200


def test_another_snapshot_is_chosen(rest):
    made = create(rest, name="chosen")
    run(rest, made, "echo one >file")
    first = rest.post(f"{V2}/sessions/{made['session']['id']}/snapshot").json["snapshot"]
    again = rest.get(f"{V2}/chosen?resume=true").json
    run(rest, again, "echo two >file")
    rest.post(f"{V2}/sessions/{again['session']['id']}/stop")
    assert rest.call("PATCH", f"{V2}/chosen", {"currentSnapshotId": first["id"]}).status == 200
    again = rest.get(f"{V2}/chosen?resume=true").json
    assert run(rest, again, "cat file") == "one\n"
    rest.delete(f"{V2}/chosen?deleteOrphanSnapshots=true")


def test_changes(rest):
    made = create(rest, name="changed", keepLastSnapshots={"count": 2}, ports=[3000])
    rest.post(f"{V2}/sessions/{made['session']['id']}/stop")
    answer = rest.call("PATCH", f"{V2}/changed", {
        "resources": {"vcpus": 1}, "timeout": 30000, "persistent": False, "tags": {"a": "b"},
        "keepLastSnapshots": None, "ports": [8080], "networkPolicy": {"mode": "deny-all"}})
    assert answer.status == 200, answer.body
    sandbox = answer.json["sandbox"]
    assert (sandbox["vcpus"], sandbox["memory"], sandbox["timeout"]) == (1, 2048, 30000)
    assert sandbox["persistent"] is False and sandbox["tags"] == {"a": "b"}
    assert "keepLastSnapshots" not in sandbox
    assert sandbox["networkPolicy"] == {"mode": "deny-all"}
    assert [route["port"] for route in answer.json["routes"]] == [8080]
    again = rest.get(f"{V2}/changed?resume=true").json
    assert (again["session"]["vcpus"], again["session"]["timeout"]) == (1, 30000)
    assert error_of(rest.call("PATCH", f"{V2}/changed", {"region": "iad1", "failoverRegions": ["iad1"]})) == (
        400, "bad_request")
    rest.delete(f"{V2}/changed?deleteOrphanSnapshots=true")


def test_a_network_id_is_removed(rest):
    create(rest, name="connected", networkId="net_1")
    assert shown(rest, "connected")["networkId"] == "net_1"
    for fields, wanted in (({"networkId": "net_2"}, "net_2"), ({"timeout": 60000}, "net_2"), ({"networkId": None}, None)):
        answer = rest.call("PATCH", f"{V2}/connected", fields)
        assert answer.status == 200 and answer.json["sandbox"].get("networkId") == wanted, answer.body
    assert "networkId" not in shown(rest, "connected")
    rest.delete(f"{V2}/connected")


def test_names_that_paths_have(rest):
    """A sandbox of such a name could be made, but not be reached."""
    create(rest, name="free")
    for name in ("sessions", "snapshots", "drives"):
        for path in (V3, V2, V1, f"{V2}/free/fork"):
            answer = rest.post(path, {"name": name})
            assert error_of(answer) == (400, "bad_request"), (path, name)
            assert name in answer.json["error"]["message"]
    for name in ("session", "sessions2", "Sessions", "tree", "fork"):
        create(rest, name=name)
        assert rest.get(f"{V2}/{name}").json["sandbox"]["name"] == name
        assert rest.delete(f"{V2}/{name}").status == 200
    rest.delete(f"{V2}/free")


def shown(rest, name):
    sandbox = rest.get(f"{V2}/{name}").json["sandbox"]
    sandbox.pop("updatedAt")
    return sandbox


def test_a_change_that_fails_changes_nothing(rest):
    made = create(rest, name="whole", ports=[3000], tags={"a": "1"}, timeout=60000, resources={"vcpus": 1})
    rest.post(f"{V2}/sessions/{made['session']['id']}/stop")
    before = shown(rest, "whole")
    good = {"tags": {"a": "2"}, "timeout": 90000, "ports": [8080], "persistent": False}
    for bad in ({"networkPolicy": {"mode": "some"}}, {"region": "iad1", "failoverRegions": ["iad1"]},
                {"currentSnapshotId": "snap_none"}, {"keepLastSnapshots": {"count": 1, "expiration": "x"}},
                {"keepLastSnapshots": {"count": 1, "deleteEvicted": 5}},
                {"resources": {"vcpus": 1, "memory": 1048576}},  # more than the host has
                {"resources": {"vcpus": 2}, "networkPolicy": {"allow": {"a.org": [
                    {"transform": [{"headers": {"x-a": "${secret.none}"}}]}]}}}):
        answer = rest.call("PATCH", f"{V2}/whole", {**good, **bad})
        assert 400 <= answer.status < 500, (bad, answer.body)
        assert shown(rest, "whole") == before, bad
    again = rest.get(f"{V2}/whole?resume=true").json
    assert run(rest, again, "nproc") == "1\n"
    assert again["session"]["timeout"] == 60000 and [r["port"] for r in again["routes"]] == [3000]
    rest.delete(f"{V2}/whole?deleteOrphanSnapshots=true")


def test_a_timeout_is_that_of_the_next_session(rest):
    """The SDK gives the running one more time itself."""
    made = create(rest, name="longer", timeout=60000)
    assert rest.call("PATCH", f"{V2}/longer", {"timeout": 90000}).json["sandbox"]["timeout"] == 90000
    path = f"{V2}/sessions/{made['session']['id']}"
    assert rest.get(path).json["session"]["timeout"] == 60000
    assert rest.post(f"{path}/extend-timeout", {"duration": 30000}).json["session"]["timeout"] == 90000
    rest.delete(f"{V2}/longer")


def test_mounts_do_not_change(rest):
    create(rest, name="mountless")
    for mounts in ({"/mnt/x": {"drive": "data"}}, 5, []):
        answer = rest.call("PATCH", f"{V2}/mountless", {"mounts": mounts, "tags": {"a": "1"}})
        assert error_of(answer) == (400, "bad_request"), answer.body
        assert "mounts" in answer.json["error"]["message"]
    assert shown(rest, "mountless").get("tags", {}) == {}
    assert rest.call("PATCH", f"{V2}/mountless", {"mounts": {}}).status == 200
    rest.delete(f"{V2}/mountless")


def snapshots_of_stops(rest, count, **fields):
    """Those that are listed after so many sessions, newest first."""
    made = create(rest, **fields)
    name = made["sandbox"]["name"]
    for i in range(count):
        if i > 0:
            made = rest.get(f"{V2}/{name}?resume=true").json
        assert rest.post(f"{V2}/sessions/{made['session']['id']}/stop").status == 200
    listed = rest.get(f"{V2}/snapshots?name={name}").json["snapshots"]
    rest.delete(f"{V2}/{name}?deleteOrphanSnapshots=true")
    return [s for s in listed if s["status"] == "created"]


def test_snapshots_that_stay(rest):
    day = 86400000
    kept = snapshots_of_stops(rest, 3, keepLastSnapshots={"count": 2, "expiration": day}, snapshotExpiration=7 * day)
    assert len(kept) == 2
    assert all(abs(s["expiresAt"] - s["createdAt"] - day) < day / 2 for s in kept)
    kept = snapshots_of_stops(rest, 3, keepLastSnapshots={"count": 1, "deleteEvicted": False}, snapshotExpiration=7 * day)
    assert len(kept) == 3
    assert all(abs(s["expiresAt"] - s["createdAt"] - 7 * day) < day for s in kept)
    kept = snapshots_of_stops(rest, 3, keepLastSnapshots={"count": 1, "deleteEvicted": False, "expiration": 0},
                              snapshotExpiration=1)
    assert len(kept) == 1 and "expiresAt" not in kept[0]


def created(rest):
    """The snapshots that are there."""
    return [s["id"] for s in rest.get(f"{V2}/snapshots").json["snapshots"] if s["status"] == "created"]


@pytest.mark.parametrize("how", ["fork", "engine"])
def test_automatic_snapshots_go_with_the_last_that_uses_them(rest, how):
    made = create(rest, name="first")
    assert rest.post(f"{V2}/sessions/{made['session']['id']}/stop").status == 200
    taken = rest.get(f"{V2}/first").json["sandbox"]["currentSnapshotId"]
    if how == "fork":
        assert rest.post(f"{V2}/first/fork", {"name": "last"}).status == 200
        assert rest.delete(f"{V2}/first").status == 200
        assert taken in created(rest)  # the fork was made from it
    else:
        create(rest, name="last")
        assert rest.delete(f"/api/sandboxes/{made['session']['id'].removeprefix('sbx_')}").status == 204
    assert rest.delete(f"{V2}/last").status == 200
    wait_until(lambda: taken not in created(rest), 20, lambda: str(created(rest)))


ONLY_V1 = {"path": {"startsWith": "/v1/"}, "method": ["GET"]}


REFUSED = [  # with the member that the error names
    ({"allow": ["a.org", "www.*.org"]}, "allow: "),
    ({"allow": ["a.org"], "subnets": {"deny": ["203.0.113.0/99"]}}, "subnets.deny: "),
    ({"allow": ["a.org"], "subnets": {"allow": ["203.0.113.0/99"], "deny": ["203.0.113.0/24"]}}, "subnets.allow: "),
    ({"allow": {"b.org": [], "a.org": [{"transform": [{"headers": {"Host": "x"}}]}]}}, "allow.a.org.transform: "),
    ({"allow": {"a.org": [{"transform": [{"headers": {"x": 5}}]}]}}, "allow.a.org.transform.x must"),
    ({"allow": {"*": [{"transform": [{"headers": {"x": "y"}}]}]}}, "allow.* must"),
    ({"allow": {"a.org": [{"forwardURL": "x"}]}}, "allow.a.org.forwardURL must"),
    ({"allow": {"a.org": [{"forwardURL": "https://x.org", "response": {"statusCode": 403}}]}}, "allow.a.org must"),
    ({"allow": {"a.org": [{"response": {"statusCode": 99}}]}}, "allow.a.org.response.statusCode must"),
    ({"allow": {"a.org": [{"response": {"statusCode": 200, "contentType": "\n"}}]}}, "allow.a.org.response.headers.Content-Type must"),
    ({"allow": {"a.org": [{"match": {"path": {"regex": "x"}}, "response": {"statusCode": 403}}]}}, "allow.a.org.match.path must"),
]


def test_network_policies(rest):
    made = create(rest, networkPolicy={
        "allow": {"example.org": [{"transform": [{"headers": {"Authorization": "secret"}}], "match": ONLY_V1}], "*.x.org": []},
        "subnets": {"allow": ["203.0.113.0/24"], "deny": ["198.51.100.0/24"]}})
    policy = made["session"]["networkPolicy"]
    assert policy == {
        "mode": "custom", "allowedDomains": ["example.org", "*.x.org"],
        "allowedCIDRs": ["203.0.113.0/24"], "deniedCIDRs": ["198.51.100.0/24"],
        "injectionRules": [{"domain": "example.org", "headerNames": ["Authorization"], "match": ONLY_V1}],
        "forwardRules": []}
    path = f"{V2}/sessions/{made['session']['id']}/network-policy"
    changed = rest.post(path, {"mode": "allow-all"}).json["session"]
    assert changed["networkPolicy"] == {"mode": "allow-all"}
    changed = rest.post(path, {"allow": {"*": [], "example.org": []}, "subnets": {"deny": ["198.51.100.0/24"]}}).json["session"]
    assert changed["networkPolicy"] == {
        "mode": "custom", "allowedDomains": ["*", "example.org"], "allowedCIDRs": [], "deniedCIDRs": ["198.51.100.0/24"],
        "injectionRules": [], "forwardRules": []}
    box = made["session"]["id"].removeprefix("sbx_")
    assert rest.get(f"/api/sandboxes/{box}").json["network"]["rules"] == [
        {"deny": "198.51.100.0/24"}, {"allow": "*"}, {"allow": "example.org"}]
    for bad in ({"mode": "some"}, {"allow": 5}, {"allow": [5]}, {"subnets": {"deny": ["x"]}},
                {"allow": {"example.org": [{"match": {"path": {"exact": "/"}}}]}},
                {"allow": {"example.org": [{"match": {"path": {"regex": "."}}, "response": {"statusCode": 403}}]}}):
        assert error_of(rest.post(path, bad)) == (400, "bad_request"), bad
    for bad, where in REFUSED:
        answer = rest.post(path, bad)
        assert error_of(answer) == (400, "bad_request"), bad
        assert answer.json["error"]["message"].startswith(f"networkPolicy.{where}"), answer.body
    rest.delete(f"{V2}/{made['sandbox']['name']}")


def test_drives(rest):
    made = rest.post(f"{V2}/drives/data", {"projectId": "p"}).json["drive"]
    assert made["name"] == "data" and made["createdAt"] > 1
    assert rest.post(f"{V2}/drives/data", {}).json["drive"]["createdAt"] == made["createdAt"]
    first = create(rest, mounts={"/mnt/data": {"drive": "data"}})
    run(rest, first, "sudo sh -c 'echo kept >/mnt/data/f'")
    rest.delete(f"{V2}/{first['sandbox']['name']}?deleteOrphanSnapshots=true")
    assert "currentSandboxName" not in rest.get(f"{V2}/drives").json["drives"][0]
    second = create(rest, mounts={"/mnt/data": {"drive": "data", "mode": "read-only"}})
    assert rest.get(f"{V2}/drives").json["drives"][0]["currentSandboxName"] == second["sandbox"]["name"]
    assert rest.post(f"{V2}/drives/data", {}).json["drive"]["currentSandboxName"] == second["sandbox"]["name"]
    assert run(rest, second, "cat /mnt/data/f; sudo touch /mnt/data/x 2>/dev/null || echo no") == "kept\nno\n"
    assert [(d["name"], d["createdAt"]) for d in rest.get(f"{V2}/drives").json["drives"]] == [("data", made["createdAt"])]
    rest.delete(f"{V2}/{second['sandbox']['name']}")
    assert rest.delete(f"{V2}/drives/data").json["drive"]["createdAt"] == made["createdAt"]
    longest = "d" * 64
    assert rest.post(f"{V2}/drives/{longest}", {}).status == 200
    assert rest.delete(f"{V2}/drives/{longest}x").status == 404
    assert [d["name"] for d in rest.get(f"{V2}/drives").json["drives"]] == [longest]
    assert rest.delete(f"{V2}/drives/{longest}").status == 200


def at_once(call):
    """The answers to the same request, sent four times at once."""
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(call())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_requests_can_be_repeated(rest):
    made = create(rest, name="repeated")
    stops = at_once(lambda: rest.post(f"{V2}/sessions/{made['session']['id']}/stop"))
    assert [answer.status for answer in stops] == [200] * 4, [answer.body for answer in stops]
    assert {answer.json["session"]["status"] for answer in stops} <= {"stopping", "snapshotting", "stopped"}
    assert "stopped" in {answer.json["session"]["status"] for answer in stops}
    resumes = at_once(lambda: rest.get(f"{V2}/repeated?resume=true"))
    assert [answer.status for answer in resumes] == [200] * 4, [answer.body for answer in resumes]
    assert {answer.json["session"]["status"] for answer in resumes} == {"running"}
    assert len(rest.get(f"{V2}/sessions?name=repeated").json["sessions"]) == 2
    deletes = at_once(lambda: rest.delete(f"{V2}/repeated"))
    assert {answer.status for answer in deletes} <= {200, 404}


WRONG = {
    "name": [5, [], {}, "a b", "/", "x" * 300], "runtime": [5, "cobol"], "image": [5, []], "ports": [5, "x", [0], [65536], ["x"], {}],
    "source": [5, "x", [], {}, {"type": 5}, {"type": "ftp"}, {"type": "git"}, {"type": "git", "url": 5},
               {"type": "tarball"}, {"type": "snapshot"}, {"type": "snapshot", "snapshotId": 5}],
    "timeout": ["x", 0, -1, 1e300, [], True], "resources": [5, [], {"vcpus": 0}, {"vcpus": "x"}, {"vcpus": 1e9}, {"memory": -5}],
    "persistent": ["x", 5, []], "env": [5, [], {"A": 5}], "tags": [5, [], {"a": 5}, {"a": None}],
    "snapshotExpiration": ["x", [], {}], "keepLastSnapshots": [5, "x", {}, {"count": "x"}],
    "mounts": [5, [], {"/x": 5}, {"x": {"drive": "d"}}, {"/x": {"drive": "a/b"}}, {"/x": {}},
               {"/proc": {"drive": "d"}}, {"/sys/fs": {"drive": "d"}}, {"/dev/x": {"drive": "d"}},
               {"/.atoll": {"drive": "d"}}, {"/x/../proc": {"drive": "d"}}, {"/x": {"drive": "d"}, "/x/y": {"drive": "e"}}],
    "region": [5, []], "failoverRegions": [5, "x", [5], {}],
    "networkPolicy": [5, [], "some", {"mode": 5}, {"mode": "x"}, {"allow": 5}, {"allow": {"a.org": 5}},
                      {"allow": {"a.org": [5]}}, {"allow": {"a.org": [{"transform": 5}]}}, {"allow": ["a b"]},
                      {"allow": {"a.org": [{"transform": [{"headers": 5}]}]}}, {"subnets": 5},
                      {"subnets": {"allow": ["x"]}}, {"subnets": {"allow": [5]}},
                      {"allow": {"a.org": [{"response": {"statusCode": "x"}}]}},
                      {"allow": {"a.org": [{"forwardURL": 5}]}}, {"allow": {"a.org": [{"forwardURL": "x"}]}}],
}
ONLY_CREATE = {"name", "runtime", "image", "source", "env", "mounts"}


def test_every_member_of_every_wrong_kind(rest):
    """Each is 400 or 410 with an error in Vercel's form, and no sandbox comes of it."""
    made = create(rest, name="right")
    before = len(rest.get("/api/sandboxes").json["sandboxes"])
    ways = [("POST", V3, False), ("POST", V2, False), ("POST", V1, False), ("POST", f"{V2}/right/fork", False),
            ("PATCH", f"{V2}/right", True)]
    for method, path, changes in ways:
        for name, values in WRONG.items():
            for value in values:
                if changes and name in ONLY_CREATE or name == "source" and "fork" in path:
                    continue
                answer = rest.call(method, path, {name: value})
                case = (method, path, name, value, answer.status, answer.body)
                assert answer.status in (400, 410), case
                assert set(answer.json) == {"error"} and answer.json["error"]["message"], case
        for body in (b"{", b"[]", b"5", b'{"a":1,"a":2}', b"\xff", b"[" * 100000):
            answer = rest.call(method, path, body)
            assert error_of(answer) == (400, "bad_request"), (method, path, body[:9])
    sid = made["session"]["id"]
    for value in WRONG["networkPolicy"]:
        if isinstance(value, dict):
            assert rest.post(f"{V2}/sessions/{sid}/network-policy", value).status == 400, value
    for sid in ("sbx_", "sbx_x", "x", sid + "_", sid + "_1", sid + "_2", sid + "_x", sid + "_99999999999999", "sbx_" + "0" * 26):
        assert rest.get(f"{V2}/sessions/{sid}").status == 404, sid
    assert len(rest.get("/api/sandboxes").json["sandboxes"]) == before
    rest.delete(f"{V2}/right")
