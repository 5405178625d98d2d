"""E2B's control plane, as its SDKs of both generations speak it: plain HTTP, no SDK needed."""

import base64
import contextlib
import json
import sqlite3
import time
from urllib.parse import quote

import pytest
from conftest import wait_until
from listening import free_port, listening_daemon
from rest import Rest

NEVER = "2999-12-31T23:59:59.000Z"


@pytest.fixture(scope="module")
def service():
    """(daemon, address); the daemon has one sandbox ready."""
    with listening_daemon(ATOLL_POOL="1", ATOLL_KEY_RATE="0") as (daemon, address):
        yield daemon, address


def key_of(daemon, tenant, scope="write"):
    made = Rest(daemon.socket).post("/api/keys", {"tenant": tenant, "scope": scope})
    assert made.status == 201, made.body
    return made.json


def client(address, key):
    """The headers of the JS SDK. Bodies are sent in chunks, as it does."""
    return Rest(address, {"X-API-KEY": key, "User-Agent": "e2b-js-sdk/2.51.0", "publisher": "e2b",
                          "lang": "js", "package_version": "2.51.0",
                          "Content-Type": "application/json"})


@pytest.fixture(scope="module")
def api(service):
    daemon, address = service
    return client(address, key_of(daemon, "acme")["e2b_key"])


@pytest.fixture(scope="module")
def rival(service):
    daemon, address = service
    return client(address, key_of(daemon, "rival")["e2b_key"])


@pytest.fixture
def made(api):
    """Makes sandboxes that are gone after the test."""
    ids = []

    def make(path="/v2/sandboxes", **body):
        answer = api.post(path, {"templateID": "base", **body})
        assert answer.status == 201, answer.body
        ids.append(answer.json["sandboxID"])
        return answer.json

    yield make
    for sandbox in ids:
        api.delete(f"/sandboxes/{sandbox}")


def info(api, sandbox):
    answer = api.get(f"/sandboxes/{sandbox['sandboxID']}")
    assert answer.status == 200, answer.body
    return answer.json


def fails(answer, status, text=""):
    """The shape of every error: the status is in the body, too."""
    assert answer.status == status, answer.body
    assert set(answer.json) <= {"code", "message", "error_code"}, answer.body
    assert answer.json["code"] == status and text in answer.json["message"], answer.body


def listed(api, **query):
    answer = api.get("/v2/sandboxes", **query)
    assert answer.status == 200, answer.body
    return [entry["sandboxID"] for entry in answer.json]


def when(text):
    return time.mktime(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone


# --- creating


def test_the_second_generation_is_always_secure(api, service, made):
    sandbox = made(metadata={"a": "b"}, envVars={"A": "b"})
    assert sandbox["templateID"] == sandbox["alias"] == "base"
    assert len(sandbox["envdAccessToken"]) == 43
    assert sandbox["trafficAccessToken"] is None
    # Null would be E2B's own domain to these clients.
    assert sandbox["domain"] == f"localhost:{service[1][1]}"
    assert sandbox["clientID"] and tuple(map(int, sandbox["envdVersion"].split("."))) >= (0, 6, 4)
    seen = info(api, sandbox)
    assert seen["envdAccessToken"] == sandbox["envdAccessToken"]
    assert seen["state"] == "running" and seen["metadata"] == {"a": "b"}
    assert (seen["cpuCount"], seen["memoryMB"], seen["diskSizeMB"]) == (2, 1024, 10240)
    assert seen["lifecycle"] == {"onTimeout": "kill", "autoResume": False}
    assert seen["allowInternetAccess"] is True and seen["volumeMounts"] == []
    assert 298 <= when(seen["endAt"]) - when(seen["startedAt"]) <= 360


def test_the_first_generation_is_secure_when_asked(api, made):
    open_one = made("/sandboxes")
    assert "envdAccessToken" not in open_one
    seen = info(api, open_one)
    assert 14 <= when(seen["endAt"]) - when(seen["startedAt"]) <= 75
    assert "envdAccessToken" in made("/sandboxes", secure=True)
    assert "envdAccessToken" in made("/v2/sandboxes", secure=False)


def test_variables_and_limits_of_the_environment_apply(service, api, made):
    daemon, _ = service
    sandbox = made(templateID="python", envVars={"A": "mine", "PYTHONIOENCODING": "latin-1"})
    root = Rest(daemon.socket)
    done = root.post(f"/api/sandboxes/{sandbox['sandboxID']}/execs",
                     {"cmd": ["sh", "-c", "echo $A $PYTHONIOENCODING $PYTHONDONTWRITEBYTECODE"]},
                     wait="true").json
    assert done["stdout"] == "mine latin-1 1\n"
    assert sandbox["alias"] == "python" and info(api, sandbox)["memoryMB"] == 512


def test_base_comes_out_of_the_pool(service, api, made):
    daemon, _ = service
    root = Rest(daemon.socket)

    def pooled():
        sandbox = made()
        view = root.get(f"/api/sandboxes/{sandbox['sandboxID']}").json
        api.delete(f"/sandboxes/{sandbox['sandboxID']}")
        assert view["limits"]["memoryMB"] == 1024 and view["limits"]["pids"] == 1024
        return view["pooled"]

    wait_until(pooled, 30, lambda: "never a sandbox of the pool")


def test_a_start_command_is_running(service, tmp_path):
    registry = tmp_path / "registry"
    (registry / "environments").mkdir(parents=True)
    rest = ("template: host\nlanguage: sh\n"
            "interpreters: {sh: {run: [sh, '{file}'], extension: sh}}\n")
    (registry / "environments" / "Up.yaml").write_text(rest + "start: [sleep, '600']\n")
    (registry / "environments" / "Down.yaml").write_text(rest + "start: [/no/such/thing]\n")
    with listening_daemon(ATOLL_REGISTRY=str(registry)) as (daemon, address):
        api = client(address, key_of(daemon, "acme")["key"])
        up = api.post("/v2/sandboxes", {"templateID": "Up"}).json["sandboxID"]
        logs = api.get(f"/v2/sandboxes/{up}/logs").json["logs"]
        assert [entry["message"] for entry in logs] == ["started: sleep 600"]
        answer = api.post("/v2/sandboxes", {"templateID": "Down"})
        assert answer.status >= 400 and "start command" in answer.json["message"]
        assert listed(api) == [up]


def test_names_of_templates(api, made):
    for name in ("base", "base:default", "team/base", "team/base:default",
                 "python3", "Python3", "nodejs", "node", "bash", "code-interpreter-v1",
                 "code-interpreter", "code-interpreter-beta", "host",
                 "Base", "Team/BASE", "PYTHON3", "Code-Interpreter-V1", "HOST"):
        sandbox = made(templateID=name)
        assert sandbox["templateID"] == name
        assert sandbox["alias"] == name.split("/")[-1].split(":")[0]
        api.delete(f"/sandboxes/{sandbox['sandboxID']}")
    for name in ("nope", "base:other", "x/nope", "base:", ":default"):
        fails(api.post("/v2/sandboxes", {"templateID": name}), 404,
              f"template '{name}' not found")


def test_bad_requests(api):
    def refused(text, status=400, path="/v2/sandboxes", **body):
        fails(api.post(path, {"templateID": "base", **body}), status, text)

    refused("Timeout cannot be greater than 24 hours", timeout=24 * 3600 + 1)
    refused("timeout must be", timeout="1")
    refused("timeout must be", timeout=-1)
    refused("autoPauseMemory=false only applies when autoPause is true.", autoPauseMemory=False)
    refused("cannot be combined with autoResume", autoPause=True, autoPauseMemory=False,
            autoResume={"enabled": True})
    refused("must include 'ALL_TRAFFIC' in deny out", network={"allowOut": ["example.com"]})
    refused("invalid denied CIDR example.com", network={"denyOut": ["example.com"]})
    refused("secure", path="/sandboxes", network={"allowPublicTraffic": False})
    refused("metadata", metadata=["x"])
    refused("metadata.a must be a string", metadata={"a": 1})
    refused("envVars", envVars={"A": 1})
    refused("volumeMounts must be an array", volumeMounts={"name": "v"})
    refused("needs the name of a volume and an absolute path", volumeMounts=[{"name": "v"}])
    refused("not in /proc, /sys or /dev", volumeMounts=[{"name": "v", "path": "/proc/v"}])
    refused("overlap", volumeMounts=[{"name": "v", "path": "/v"}, {"name": "w", "path": "/v/w"}])
    refused("iam", 501, iam={"tokens": {"t": {"audience": "a", "tokenType": "JWT-SVID"}}})
    fails(api.post("/v2/sandboxes", {}), 400, "templateID is missing")
    fails(api.post("/v2/sandboxes", b"{"), 400, "JSON")
    assert api.call("PUT", "/v2/sandboxes", {}).status == 405
    assert listed(api) == []


def test_unknown_fields_and_headers_are_tolerated(service, made, api):
    daemon, address = service
    made(mcp={}, somethingNew={"x": 1}, autoResume={"enabled": False, "new": 1}, iam=None)
    team = Rest(address, {**api.headers, "X-Team-ID": "t1", "X-Whatever": "x",
                          "X-Supabase-Team": "kept-team", "X-Supabase-Token": "a-secret-token"})
    sandbox = team.post("/v2/sandboxes", {"templateID": "base"})
    assert sandbox.status == 201
    with contextlib.closing(sqlite3.connect(daemon.state / "atoll.db")) as store:
        kept, = store.execute("SELECT facade FROM sandboxes WHERE id = ?",
                              [sandbox.json["sandboxID"]]).fetchone()
    assert json.loads(kept)["team"] == {"X-Team-ID": "t1", "X-Supabase-Team": "kept-team"}
    api.delete(f"/sandboxes/{sandbox.json['sandboxID']}")


def test_chunked_bodies(service, api, made):
    connection = api.connection()
    connection.request("POST", "/v2/sandboxes", iter([b'{"templateID":', b'"base"}']), api.headers,
                       encode_chunked=True)
    answer = connection.getresponse()
    body = json.loads(answer.read())
    assert answer.status == 201, body
    api.delete(f"/sandboxes/{body['sandboxID']}")


def test_a_create_sent_twice_makes_one(api):
    headers = {"Idempotency-Key": "abc-1"}
    body = {"templateID": "base", "metadata": {"once": "1"}}
    first = api.call("POST", "/v2/sandboxes", body, headers)
    again = api.call("POST", "/v2/sandboxes", body, headers)
    assert first.status == again.status == 201 and first.json == again.json
    assert listed(api, metadata="once=1") == [first.json["sandboxID"]]
    api.delete(f"/sandboxes/{first.json['sandboxID']}")


def test_network_is_kept_and_replaced(api, made):
    network = {"allowOut": ["1.1.1.1", "*.example.com"], "denyOut": ["0.0.0.0/0"],
               "allowPublicTraffic": False, "maskRequestHost": "h:${PORT}",
               "egressProxy": {"address": "p:1", "username": "u", "password": "hunter2"}}
    sandbox = made(network=network, allow_internet_access=False)
    assert len(sandbox["trafficAccessToken"]) == 43
    assert sandbox["trafficAccessToken"] != sandbox["envdAccessToken"]
    seen = info(api, sandbox)
    assert seen["allowInternetAccess"] is False
    del network["egressProxy"]["password"]
    assert seen["network"] == network
    path = f"/sandboxes/{sandbox['sandboxID']}/network"
    assert api.put(path, {"denyOut": ["8.8.8.8/32"], "allow_internet_access": True}).status == 204
    seen = info(api, sandbox)
    assert seen["allowInternetAccess"] is True
    assert seen["network"] == {"denyOut": ["8.8.8.8/32"], "allowPublicTraffic": False,
                               "maskRequestHost": "h:${PORT}"}
    assert api.put(path, {}).status == 204
    assert info(api, sandbox)["network"] == {"allowPublicTraffic": False,
                                             "maskRequestHost": "h:${PORT}"}
    fails(api.put(path, {"denyOut": ["x"]}), 400, "invalid denied CIDR x")
    many = {"allowOut": [f"{'x' * 80}{i}.example.com" for i in range(900)],
            "denyOut": ["0.0.0.0/0"]}
    fails(api.put(path, many), 400, "64 KiB")
    fails(api.post("/v2/sandboxes", {"templateID": "base", "network": many}), 400, "64 KiB")


def policy_of(service, sandbox):
    view = Rest(service[0].socket).get(f"/api/sandboxes/{sandbox['sandboxID']}").json
    return view["network"]


def test_settings_become_a_policy(service, api, made):
    """Allowed targets go first, and all that is left is allowed unless it is denied."""
    sandbox = made()
    assert policy_of(service, sandbox) == {"mode": "bridge"}
    path = f"/sandboxes/{sandbox['sandboxID']}/network"
    assert api.put(path, {"allow_internet_access": False}).status == 204
    assert policy_of(service, sandbox) == {"mode": "bridge", "default": "allow", "transforms": [],
                                           "rules": [{"deny": "*"}]}
    assert info(api, sandbox)["allowInternetAccess"] is False
    assert api.post("/secrets", {"name": "k", "value": "hush0"}).status == 201
    rule = [{"transform": {"headers": {"Authorization": "hush1", "X-Key": "${e2b.secrets.k}"}}}]
    sandbox = made(network={
        "allowOut": ["*.Example.com", "203.0.113.7"], "denyOut": ["0.0.0.0/0", "::/0"],
        "rules": {"api.example.com": rule},
        "egressProxy": {"address": "socks5://p.example.com:1080", "username": "u", "password": "hush2"}})
    assert policy_of(service, sandbox) == {
        "mode": "bridge", "default": "allow",
        "rules": [{"allow": "*.example.com"}, {"allow": "203.0.113.7"}, {"deny": "*"}, {"deny": "::/0"}],
        "transforms": [{"domain": "api.example.com",
                        "headers": {"Authorization": "***", "X-Key": "${e2b.secrets.k}"}}],
        "proxy": {"address": "p.example.com:1080", "username": "u", "password": "***"}}
    shown = info(api, sandbox)["network"]
    assert shown["allowOut"] == ["*.Example.com", "203.0.113.7"] and "hush" not in json.dumps(shown)
    path = f"/sandboxes/{sandbox['sandboxID']}/network"
    fails(api.put(path, {"rules": {"8.8.8.8": rule}}), 400, "must be a domain")
    assert info(api, sandbox)["network"] == shown  # a refused change changes nothing
    assert api.put(path, {}).status == 204
    assert policy_of(service, sandbox) == {"mode": "bridge"}


def test_the_operator_permits_no_internet():
    with listening_daemon(ATOLL_NETWORK_MAX="bridge,acme=none") as (daemon, address):
        for tenant, internet in ("acme", False), ("shop", True):
            api = client(address, key_of(daemon, tenant)["key"])
            sandbox = api.post("/v2/sandboxes", {"templateID": "base"}).json
            assert info(api, sandbox)["allowInternetAccess"] is internet
            path = f"/sandboxes/{sandbox['sandboxID']}/network"
            assert api.put(path, {"allow_internet_access": True}).status == 204
            assert info(api, sandbox)["allowInternetAccess"] is internet
            assert policy_of((daemon,), sandbox)["mode"] == ("bridge" if internet else "none")


# --- the end


def test_kill(api, made):
    sandbox = made()["sandboxID"]
    other = made()["sandboxID"]
    assert sandbox in listed(api)
    answer = api.delete(f"/sandboxes/{sandbox}-6532622b")
    assert answer.status == 204 and answer.body == b""
    assert sandbox not in listed(api) and other in listed(api)
    missing = f'Sandbox "{sandbox}" doesn\'t exist or you don\'t have access to it'
    for method, path, body in (("GET", "", None), ("DELETE", "", None), ("POST", "/pause", {}),
                               ("POST", "/connect", {"timeout": 5}), ("POST", "/resume", {}),
                               ("POST", "/timeout", {"timeout": 5}), ("PUT", "/network", {}),
                               ("POST", "/refreshes", {}), ("GET", "/metrics", None),
                               ("POST", "/fork", {}), ("POST", "/snapshots", {})):
        fails(api.call(method, f"/sandboxes/{sandbox}{path}", body), 404, missing)
    fails(api.call("POST", f"/v2/sandboxes/{sandbox}/connect"), 404, missing)


def test_bad_ids(api):
    for name in ("UPPER", "a_b", "x" * 33, "-a"):
        fails(api.get(f"/sandboxes/{name}"), 400, "Invalid sandbox ID")


def test_timeouts(api, made):
    sandbox = made(timeout=100)
    path = f"/sandboxes/{sandbox['sandboxID']}"
    start = info(api, sandbox)["endAt"]
    assert api.post(f"{path}/timeout", {"timeout": 50}).status == 204
    shorter = info(api, sandbox)["endAt"]
    assert when(shorter) < when(start)
    # Both ways of connecting only extend: asked for less, not a digit changes.
    for connect in (f"{path}/connect", f"/v2{path}/connect"):
        assert api.post(connect, {"timeout": 10}).status == 200
        assert info(api, sandbox)["endAt"] == shorter
    assert api.post(f"/v2{path}/connect", {"timeout": 200}).status == 200
    longer = info(api, sandbox)["endAt"]
    assert when(longer) > when(start)
    assert api.post(f"{path}/refreshes", {"duration": 1}).status == 204
    assert info(api, sandbox)["endAt"] == longer
    assert api.post(f"{path}/refreshes", {"duration": 3600}).status == 204
    assert when(info(api, sandbox)["endAt"]) > when(longer) + 3000
    fails(api.post(f"{path}/refreshes", {"duration": 3601}), 400)
    fails(api.post(f"{path}/timeout", {}), 400, "timeout must be")
    fails(api.post(f"{path}/timeout", {"timeout": 86401}), 400, "greater than 24 hours")
    fails(api.post(f"{path}/connect", {"timeout": 86401}), 400, "greater than 24 hours")
    # None at all is the end.
    assert api.post(f"{path}/timeout", {"timeout": 0}).status == 204
    fails(api.get(path), 404)


def test_connect_answers_like_create(api, made):
    sandbox = made()
    answer = api.call("POST", f"/v2/sandboxes/{sandbox['sandboxID']}/connect")
    assert answer.status == 200 and answer.json == sandbox


def test_pause_and_wake(api, made):
    sandbox = made(metadata={"p": "1"}, timeout=60)
    path = f"/sandboxes/{sandbox['sandboxID']}"
    assert api.call("POST", f"{path}/pause").status == 204
    seen = info(api, sandbox)
    assert seen["state"] == "paused" and seen["metadata"] == {"p": "1"}
    assert when(seen["endAt"]) <= time.time() + 1
    fails(api.post(f"{path}/pause", {}), 409, "already paused")
    fails(api.put(f"{path}/network", {}), 409)
    fails(api.post(f"{path}/timeout", {"timeout": 5}), 404)
    assert listed(api, state="paused") == [sandbox["sandboxID"]]
    assert listed(api, state="running") == []
    assert listed(api, metadata="p=1") == [sandbox["sandboxID"]]
    assert api.get("/sandboxes").json == []
    before = time.time()
    woken = api.post(f"{path}/connect", {"timeout": 90})
    after = time.time()
    assert woken.status == 201 and woken.json == sandbox
    seen = info(api, sandbox)
    assert seen["state"] == "running"
    assert before + 89 <= when(seen["endAt"]) + 1 and when(seen["endAt"]) <= after + 91
    fails(api.post(f"{path}/resume", {"timeout": 20}), 409, "already running")
    assert api.post(f"{path}/pause", {"memory": False}).status == 204
    assert api.post(f"{path}/resume", {"timeout": 20}).status == 201
    assert api.post(f"{path}/pause", {}).status == 204
    assert api.delete(path).status == 204
    fails(api.get(path), 404)


def boot_id(daemon, sandbox):
    done = Rest(daemon.socket).post(f"/api/sandboxes/{sandbox['sandboxID']}/execs",
                                    {"cmd": ["cat", "/proc/sys/kernel/random/boot_id"]},
                                    wait="true").json
    return done["stdout"]


def test_without_memory_it_boots_anew(service, api, made):
    daemon, _ = service
    sandbox = made()
    path = f"/sandboxes/{sandbox['sandboxID']}"
    first = boot_id(daemon, sandbox)
    assert api.post(f"{path}/pause", {}).status == 204
    assert api.post(f"{path}/connect", {"timeout": 60}).status == 201
    assert boot_id(daemon, sandbox) == first
    assert api.post(f"{path}/pause", {}).status == 204
    assert api.post(f"/v2{path}/connect", {"memory": False}).status == 201
    assert boot_id(daemon, sandbox) != first


@pytest.mark.parametrize("memory", [True, False])
def test_pause_at_the_deadline(service, api, made, memory):
    daemon, _ = service
    sandbox = made(timeout=600, autoPause=True, autoPauseMemory=memory)
    path = f"/sandboxes/{sandbox['sandboxID']}"
    first = boot_id(daemon, sandbox)
    assert info(api, sandbox)["lifecycle"] == {"onTimeout": "pause", "autoResume": False}
    assert api.post(f"{path}/timeout", {"timeout": 1}).status == 204
    wait_until(lambda: info(api, sandbox)["state"] == "paused", 30, lambda: "never paused")
    assert api.post(f"{path}/connect", {"timeout": 60}).status == 201
    assert (boot_id(daemon, sandbox) == first) == memory
    # Moved to now it does the same.
    assert api.post(f"{path}/timeout", {"timeout": 0}).status == 204
    assert info(api, sandbox)["state"] == "paused"


# --- lists


def test_lists_in_pages(api, made):
    ids = [made(metadata={"page": "1"})["sandboxID"] for _ in range(3)]
    query = {"metadata": "page=1", "limit": 1}
    for order, wanted in ((None, ids[::-1]), ("desc", ids[::-1]), ("asc", ids)):
        seen, token = [], None
        while True:
            more = {**query, **({"order": order} if order else {}),
                    **({"nextToken": token} if token else {})}
            answer = api.get("/v2/sandboxes", **more)
            assert answer.headers["X-Total-Running"] == "3"
            seen += [entry["sandboxID"] for entry in answer.json]
            token = answer.headers["X-Next-Token"]
            if not token:
                break
        assert sorted(seen) == sorted(wanted)
        first = {entry["sandboxID"]: entry["startedAt"] for entry in
                 api.get("/v2/sandboxes", metadata="page=1").json}
        times = [first[sandbox] for sandbox in seen]
        assert times == sorted(times, reverse=order != "asc")
    token = api.get("/v2/sandboxes", **query).headers["X-Next-Token"]
    decoded = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    assert decoded.split("__")[1] in ids
    fails(api.get("/v2/sandboxes", **query, nextToken=token, order="asc"), 400, "other order")
    fails(api.get("/v2/sandboxes", nextToken="!"), 400, "nextToken")
    fails(api.get("/v2/sandboxes", order="up"), 400, "order")
    fails(api.get("/v2/sandboxes", limit="0"), 400, "limit")
    fails(api.get("/v2/sandboxes", limit="101"), 400, "limit")
    fails(api.get("/v2/sandboxes", state="dead"), 400, "state")
    fails(api.get("/v2/sandboxes", startedAfter="today"), 400, "startedAfter")
    fails(api.get("/v2/sandboxes", metadata="a=%25"), 400, "metadata")
    assert api.get("/v2/sandboxes", state="paused").headers["X-Total-Running"] is None


def test_list_filters(api, made):
    odd = {"k y": "v=1&b", "ü": "%"}
    one = made(metadata=odd)
    two = made(metadata={"k y": "other"}, templateID="bash")

    def encoded(pairs):
        inner = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in pairs.items())
        return quote(inner, safe="")

    assert listed(api, metadata=encoded(odd)) == [one["sandboxID"]]
    assert listed(api, metadata=encoded({"k y": "v=1&b"})) == [one["sandboxID"]]
    assert listed(api, metadata=encoded({**odd, "no": "x"})) == []
    assert [s["sandboxID"] for s in api.get("/sandboxes", metadata=encoded(odd)).json] == \
        [one["sandboxID"]]
    assert listed(api, template="bash") == [two["sandboxID"]]
    assert listed(api, template="unknown") == []
    start = info(api, two)["startedAt"]
    assert two["sandboxID"] in listed(api, startedAfter=start)
    assert listed(api, startedAfter="2999-01-01T00:00:00+02:00") == []
    entry = next(e for e in api.get("/v2/sandboxes").json if e["sandboxID"] == one["sandboxID"])
    assert entry["metadata"] == odd and entry["state"] == "running"
    assert not {"envdAccessToken", "domain", "network", "lifecycle"} & set(entry)
    assert {"templateID", "sandboxID", "clientID", "startedAt", "endAt", "cpuCount", "memoryMB",
            "diskSizeMB", "envdVersion", "alias", "volumeMounts"} <= set(entry)


# --- who sees what


def test_other_tenants_see_nothing(service, api, rival, made):
    daemon, address = service
    sandbox = made(metadata={"secret": "x"})["sandboxID"]
    assert listed(rival) == [] and rival.get("/sandboxes").json == []
    missing = "doesn't exist or you don't have access to it"
    fails(rival.get(f"/sandboxes/{sandbox}"), 404, missing)
    fails(rival.delete(f"/sandboxes/{sandbox}"), 404, missing)
    fails(rival.post(f"/v2/sandboxes/{sandbox}/connect", {}), 404, missing)
    assert rival.get("/sandboxes/metrics", sandbox_ids=sandbox).json == {"sandboxes": {}}
    reader = client(address, key_of(daemon, "acme", "read")["e2b_key"])
    assert listed(reader) == [sandbox]
    fails(reader.delete(f"/sandboxes/{sandbox}"), 403)
    assert sandbox in listed(api)


def test_keys(service):
    daemon, address = service
    made = key_of(daemon, "acme")
    own, e2b = made["key"], made["e2b_key"]
    assert e2b == "e2b_" + own[4:].encode().hex()
    for key in (own, e2b):
        assert client(address, key).get("/v2/sandboxes").status == 200
        assert client(address, key).get("/api/sandboxes").status == 200
        assert Rest(address, {"Authorization": f"Bearer {key}"}).get("/teams").json == [
            {"teamID": "acme", "name": "acme", "apiKey": "", "isDefault": True}]
    for key in ("", "e2b_", "e2b_" + "0" * 80, e2b[:-1], e2b + "0", e2b.upper()):
        fails(client(address, key).get("/v2/sandboxes"), 401)
        fails(client(address, key).post("/v2/sandboxes", {"templateID": "base"}), 401)
    listed_keys = Rest(daemon.socket).get("/api/keys").body.decode()
    assert own not in listed_keys and e2b not in listed_keys
    assert Rest(address).get("/health").status == 200


def test_sandboxes_of_our_own_api_can_be_used(service):
    daemon, address = service
    admin = client(address, (daemon.state / "api-key").read_text().strip())
    box = Rest(daemon.socket).post("/api/sandboxes", {}).json["id"]
    seen = admin.get(f"/sandboxes/{box}").json
    assert seen["templateID"] == "host" and seen["endAt"] == NEVER
    assert admin.post(f"/sandboxes/{box}/connect", {"timeout": 5}).status == 200
    assert admin.get(f"/sandboxes/{box}").json["endAt"] == NEVER
    assert box in listed(admin)
    assert admin.delete(f"/sandboxes/{box}").status == 204


# --- the rest


def test_metrics(api, made):
    sandbox = made()
    path = f"/sandboxes/{sandbox['sandboxID']}/metrics"
    wait_until(lambda: api.get(path).json, 30, lambda: "no sample")
    sample = api.get(path).json[0]
    assert set(sample) == {"timestamp", "timestampUnix", "cpuCount", "cpuUsedPct", "memUsed",
                           "memTotal", "memCache", "diskUsed", "diskTotal"}
    assert sample["memTotal"] == 1 << 30 and 0 < sample["memUsed"] < 1 << 30
    assert abs(sample["timestampUnix"] - time.time()) < 60
    assert api.get(path, start=1, end=int(time.time()) - 3600).json == []
    assert api.get(path, start=int(time.time()) - 60).json
    fails(api.get(path, start="x"), 400)
    many = api.get("/sandboxes/metrics", sandbox_ids=f"{sandbox['sandboxID']},nosuch,A").json
    assert set(many["sandboxes"]) == {sandbox["sandboxID"]}
    fails(api.get("/sandboxes/metrics"), 400)
    fails(api.get("/sandboxes/metrics", sandbox_ids=",".join(["a"] * 101)), 400)


def test_logs(service, api, made):
    daemon, _ = service
    sandbox = made()
    box = f"/api/sandboxes/{sandbox['sandboxID']}"
    for cmd in (["true"], ["sh", "-c", "exit 3"]):
        Rest(daemon.socket).post(f"{box}/execs", {"cmd": cmd}, wait="true")
    path = f"/sandboxes/{sandbox['sandboxID']}/logs"
    first = api.get(path).json
    parsed = [json.loads(entry["line"]) for entry in first["logs"]]  # as E2B's command line does
    assert {line["level"] for line in parsed} == {"info", "warn"}
    lines = [line["message"] for line in parsed]
    # Times are rounded: the end of one command and the start of the next may change places.
    good = ["started: true", "exited with status 0: true"]
    bad = ["started: sh -c exit 3", "exited with status 3: sh -c exit 3"]
    assert [line for line in lines if "true" in line] == good
    assert [line for line in lines if "true" not in line] == bad
    assert [entry["message"] for entry in first["logEntries"]] == lines
    assert {entry["level"] for entry in first["logEntries"]} == {"info", "warn"}
    assert all(entry["fields"]["exec_id"] for entry in first["logEntries"])
    second = f"/v2{path}"
    assert [e["message"] for e in api.get(second, direction="backward").json["logs"]] == lines[::-1]
    assert [e["message"] for e in api.get(second, level="warn").json["logs"]] == bad[1:]
    assert [e["message"] for e in api.get(second, search="true").json["logs"]] == good
    assert [e["message"] for e in api.get(second, limit=1).json["logs"]] == lines[:1]
    assert api.get(second, cursor=int(time.time() * 1000) + 60000).json == {"logs": []}
    fails(api.get(second, level="loud"), 400)
    fails(api.get(second, direction="up"), 400)


def test_logs_of_a_killed_sandbox(service, api, rival, made):
    daemon, _ = service
    path = f"/sandboxes/{made()['sandboxID']}"
    Rest(daemon.socket).post(f"/api{path}/execs", {"cmd": ["sh", "-c", "exit 3"]}, wait="true")
    before = api.get(f"{path}/logs").json
    assert len(before["logs"]) == 2 and api.delete(path).status == 204
    while_it_goes = api.get(f"{path}/logs")
    assert while_it_goes.status == 200 and while_it_goes.json == before
    wait_until(lambda: Rest(daemon.socket).get(f"/api{path}").json["state"] == "ended", 30,
               lambda: "it lives on")
    assert api.get(f"{path}/logs").json == before
    messages = [e["message"] for e in api.get(f"/v2{path}/logs", direction="backward").json["logs"]]
    assert messages == ["exited with status 3: sh -c exit 3", "started: sh -c exit 3"]
    fails(api.get(path), 404)
    fails(rival.get(f"{path}/logs"), 404)
    fails(api.get("/sandboxes/nosuchsandbox/logs"), 404)


def test_templates(api):
    for path in ("/templates", "/v2/templates"):
        names = {t["templateID"]: t for t in api.get(path).json}
        assert {"base", "Python3", "code-interpreter-v1", "host"} <= set(names)
        assert names["base"]["cpuCount"] == 2 and names["base"]["buildStatus"] == "ready"
        assert "python" in names["Python3"]["aliases"]
    one = api.get("/templates/python").json
    assert one["templateID"] == "Python3" and len(one["builds"]) == 1
    assert one["builds"][0]["buildID"] == names["Python3"]["buildID"]
    assert api.get("/templates/base/tags").json[0]["tag"] == "default"
    for alias in ("base", "team/base", "base:default", "code-interpreter"):
        assert api.get(f"/templates/aliases/{alias}").status == 200
    fails(api.get("/templates/aliases/nope"), 404)
    for alias in ("team%2Fbase", "team%2fbase%3Adefault"):
        assert api.get(f"/templates/aliases/{alias}").json["templateID"] == "base"
        assert api.get(f"/templates/{alias}").json["templateID"] == "base"
        assert api.get(f"/templates/{alias}/tags").json[0]["tag"] == "default"
    fails(api.get("/templates/aliases/team%2Fnope"), 404, "template 'team/nope' not found")
    fails(api.delete("/templates/team%2Fbase"), 403, "registry")
    fails(api.get("/sandboxes/a%2Fb"), 400, "Invalid sandbox ID")
    assert api.get("/templates%2Fbase").status == 400
    fails(api.get("/templates/nope"), 404, "template 'nope' not found")
    fails(api.delete("/templates/nope"), 404)


def test_what_is_not_supported_says_so(api):
    fails(api.post("/templates", {}), 501, "not supported")


def test_snapshots(api, made):
    sandbox = made()["sandboxID"]
    path = f"/sandboxes/{sandbox}/snapshots"
    plain = api.post(path, {})
    assert plain.status == 201 and plain.json["snapshotID"].endswith(":default"), plain.body
    named = api.post(path, {"name": "Mine:v1"}).json
    assert named["snapshotID"] == "mine:v1" and named["names"][0].endswith("/mine:v1")
    ids = [one["snapshotID"] for one in api.get("/snapshots").json]
    assert ids[:2] == [named["snapshotID"], plain.json["snapshotID"]]
    assert [one["snapshotID"] for one in api.get("/snapshots", sandboxID=sandbox).json] == ids[:2]
    for name, found in (("mine", 1), ("mine:v1", 1), ("MINE", 1), ("mine:v2", 0), ("other", 0), ("a b", 0)):
        assert len(api.get("/snapshots", name=name).json) == found, name
    first = api.get("/snapshots", limit="1", sandboxID=sandbox)
    token = first.headers["X-Next-Token"]
    second = api.get("/snapshots", limit="1", sandboxID=sandbox, nextToken=token)
    assert [first.json[0]["snapshotID"], second.json[0]["snapshotID"]] == ids[:2]
    assert "X-Next-Token" not in second.headers
    fails(api.get("/snapshots", nextToken="x"), 400, "X-Next-Token")
    fails(api.post(path, {"name": "rival/mine"}), 400, "team rival")
    for one in ids[:2]:
        again = made(templateID=one)["sandboxID"]
        fails(api.delete(f"/templates/{one.replace(':', '%3A')}"), 409)
        assert api.delete(f"/sandboxes/{again}").status == 204
        assert api.delete(f"/templates/{one.replace(':', '%3A')}").status == 204
        fails(api.delete(f"/templates/{one.replace(':', '%3A')}"), 404)
    assert api.get("/snapshots", sandboxID=sandbox).json == []


def test_forks(api, made):
    sandbox = made(metadata={"k": "v"}, envVars={"A": "b"})
    forks = api.post(f"/sandboxes/{sandbox['sandboxID']}/fork", {"count": 2, "timeout": 100})
    assert forks.status == 201, forks.body
    assert len({one["sandbox"]["sandboxID"] for one in forks.json}) == 2
    for one in forks.json:
        shown = api.get(f"/sandboxes/{one['sandbox']['sandboxID']}").json
        assert shown["metadata"] == {"k": "v"} and shown["templateID"] == sandbox["templateID"]
        assert one["sandbox"]["envdAccessToken"] != sandbox["envdAccessToken"]
        assert api.delete(f"/sandboxes/{one['sandbox']['sandboxID']}").status == 204
    assert api.post(f"/sandboxes/{sandbox['sandboxID']}/pause", {}).status == 204
    fails(api.post(f"/sandboxes/{sandbox['sandboxID']}/fork", {}), 409)


def test_a_body_that_is_too_large(api):
    fails(api.post("/v2/sandboxes", b" " * (1 << 21)), 413, "larger than 1 MiB")


def test_what_is_no_route_is_told_as_clients_read_it(api):
    for method, path, status in [("GET", "/v2/nothing", 404), ("PATCH", "/sandboxes", 405),
                                 ("GET", "/sandboxes/a/b/c/d", 404)]:
        answer = api.call(method, path)
        assert (answer.status, answer.json["code"]) == (status, status), answer.body
        assert isinstance(answer.json["message"], str)
    for path in ("/nothing", "/api/nothing", "/apis"):
        assert "error" in api.get(path).json


def test_a_domain_is_enough():
    """With TLS, clients need to know nothing but the domain: these names are ours."""
    port = free_port()
    with listening_daemon(ATOLL_TLS_LISTEN=f"127.0.0.1:{port}",
                          ATOLL_PREVIEW_DOMAIN="sandboxes.test") as (daemon, address):
        api = client(address, key_of(daemon, "acme")["e2b_key"])
        for host in ("api.sandboxes.test", f"api.sandboxes.test:{port}", "sandbox.sandboxes.test"):
            answer = api.call("POST", "/v2/sandboxes", {"templateID": "base"}, {"Host": host})
            assert answer.status == 201, answer.body
            assert answer.json["domain"] == f"sandboxes.test:{port}"
            assert info(api, answer.json)["domain"] == f"sandboxes.test:{port}"
        assert api.call("GET", "/v2/sandboxes", None, {"Host": "x.sandboxes.test"}).status == 404
        assert api.call("GET", "/v2/sandboxes", None, {"Host": "api.other.test"}).status == 421


def test_facts_survive_the_daemon(api, service, made):
    daemon, _ = service
    sandbox = made(metadata={"s": "1"}, timeout=600, network={"denyOut": ["0.0.0.0/0"]})
    before = info(api, sandbox)
    daemon.process.kill()
    daemon.process.wait()
    daemon.start()
    assert info(api, sandbox) == before
    assert api.post(f"/v2/sandboxes/{sandbox['sandboxID']}/connect", {}).json == sandbox
