"""The network of a sandbox in requests and answers: bad policies, what is kept, and the operator's bound."""

import json

import conftest
import pytest
from boxes import Box
from daemons import wait_until
from rest import Rest
from resting import kill_daemon, mortal_daemon

POLICY = {
    "allow": ["*.Example.org", "203.0.113.7/24:443"], "deny": ["bad.example.org"], "name": "team1",
    "transforms": [{"domain": "api.example.org", "headers": {"X-Key": "hush1", "X-Name": "${secret.k}"}}],
    "proxy": {"address": "proxy.example.org:1080", "username": "u", "password": "hush2"},
}
SHOWN = {
    "mode": "bridge", "default": "deny", "network": "team1", "mbps": 7,
    "rules": [{"deny": "bad.example.org"}, {"allow": "*.example.org"}, {"allow": "203.0.113.0/24:443"}],
    "transforms": [{"domain": "api.example.org", "headers": {"X-Key": "***", "X-Name": "${secret.k}"}}],
    "proxy": {"address": "proxy.example.org:1080", "username": "u", "password": "***"},
}


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


@pytest.mark.parametrize("fields, text", [
    ({"network": {"allow": ["a", "b", "c", "exa mple"]}},
     'network.allow[3]: "exa mple" is not a domain, address or range; for example "*.example.org", '
     '"203.0.113.0/24" or "example.org:443"'),
    ({"network": {"deny": ["10.0.0.0/33"]}}, 'network.deny[0]: "10.0.0.0/33" is not'),
    ({"network": {"rules": [{"deny": "*"}, {"alow": "a.test"}]}}, 'network.rules[1] has no field "alow"'),
    ({"network": {"colour": 1}}, 'network has no field "colour"'),
    ({"network": 7}, "network must be an object"),
    ({"network": {"transforms": [{"domain": "a.test", "headers": {"a": "b\r\nc: d"}}]}},
     "network.transforms[0].headers.a must be a string without control characters"),
    ({"networkMode": "none", "network": {"mode": "bridge"}},
     'networkMode is "none" and network.mode is "bridge"'),
    ({"networkMode": "none", "network": {"allow": ["a.test"]}}, "its mode is \"none\""),
    ({"networkMode": "wide"}, 'networkMode must be "none", "isolated" or "bridge" (got "wide")'),
    ({"networkMbps": -1}, "networkMbps must be"),
    ({"networkMbps": 3, "limits": {"networkMbps": 2}}, "limits.networkMbps differ"),
])
def test_a_bad_policy_is_refused_with_its_position(rest, fields, text):
    for path, more in ("/api/sandboxes", {}), ("/api/sessions", {"environment": "Bash"}):
        answer = rest.post(path, {**fields, **more})
        assert answer.status == 400, answer.body
        assert text in answer.error["message"], answer.error


def test_the_command_line_names_its_option(daemon):
    done = daemon.atoll("create", "--allow", "a.test", "--allow-domain", "exa mple")
    assert done.returncode != 0
    assert '--allow: "exa mple" is not a domain, address or range' in done.stderr, done.stderr
    done = daemon.atoll("create", "--network", "none", "--allow", "a.test")
    assert done.returncode != 0 and 'its mode is "none"' in done.stderr


def test_a_policy_is_shown_without_secrets(rest):
    plain = Box(rest)
    assert plain.view["network"] == {"mode": "none"}
    plain.destroy()
    assert rest.post("/api/secrets", {"name": "k", "value": "hush0"}).status in (200, 201)
    box = Box(rest, network=POLICY, networkMbps=7)
    assert box.view["networkMode"] == "bridge" and box.view["network"] == SHOWN
    for path in f"/api/sandboxes/{box.id}", "/api/sandboxes":
        body = json.dumps(rest.get(path).json)
        assert "hush" not in body
    box.destroy()


def test_a_change_keeps_the_mode(rest):
    box = Box(rest, networkMode="bridge")
    assert rest.put(f"/api/sandboxes/{box.id}/network", {"mbps": 5}).json == {"mode": "bridge", "default": "allow", "rules": [],
                                                    "transforms": [], "mbps": 5}
    headers = {"X": "${secret.nowhere}"}
    answer = rest.put(f"/api/sandboxes/{box.id}/network", {"transforms": [{"domain": "a.test", "headers": headers}]})
    assert answer.status == 400 and "there is no secret nowhere" in answer.error["message"]
    answer = rest.put(f"/api/sandboxes/{box.id}/network", {"mode": "isolated"})
    assert answer.status == 409 and "cannot be changed" in answer.error["message"], answer.body
    assert box.view["network"]["mbps"] == 5
    assert rest.put(f"/api/sandboxes/{box.id}/network", {}).json == {"mode": "bridge"}
    box.destroy()


def test_sessions_have_the_same_network(rest):
    box = rest.post("/api/sandboxes", {"networkMode": "bridge", "limits": {"networkMbps": 2.5}})
    assert box.status == 201 and box.json["network"]["mbps"] == 3 and "networkMbps" not in box.json["limits"], box.body
    rest.delete(f"/api/sandboxes/{box.json['id']}")
    made = rest.post("/api/sessions", {"environment": "Bash", "network": {"allow": ["a.test"]},
                                       "limits": {"networkMbps": 2.5}}).json
    assert made["sandbox"]["network"] == {"mode": "bridge", "default": "deny", "transforms": [], "mbps": 3,
                                          "rules": [{"allow": "a.test"}]}
    rest.delete(f"/api/sessions/{made['session_id']}")


def test_a_policy_survives_the_daemon():
    with mortal_daemon() as daemon:
        daemon.rest.post("/api/secrets", {"name": "k", "value": "hush0"})
        box = Box(daemon.rest, network=POLICY, networkMbps=7)
        kill_daemon(daemon)
        daemon.start()
        assert box.view["networkMode"] == "bridge" and box.view["network"] == SHOWN
        box.destroy()


def test_the_operator_bounds_the_mode():
    with conftest.running(conftest.BUILD, ATOLL_NETWORK_MAX="isolated,guests=none") as daemon:
        key = daemon.atoll("key", "create", "--tenant", "guests", "--scope", "write", check=True)
        own, guests = Rest(daemon.socket), Rest(daemon.socket, {"X-API-Key": key.stdout.strip()})
        for rest, most, request in (
                (own, "isolated", {"networkMode": "bridge"}),
                (own, "isolated", {"network": {"allow": ["a.test"]}}),
                (guests, "none", {"networkMode": "isolated"}),
                (guests, "none", {"networkMode": "bridge"})):
            for path, more in ("/api/sandboxes", {}), ("/api/sessions", {"environment": "Bash"}):
                answer = rest.post(path, {**request, **more})
                assert answer.status == 403, answer.body
                assert f"permits at most the network mode {most} to tenant" in answer.error["message"]
                assert "--network-max" in answer.error["message"]
        box = Box(own, networkMode="isolated")
        assert box.view["network"] == {"mode": "isolated", "default": "deny", "network": "default",
                                       "rules": [], "transforms": []}
        box.destroy()
        Box(guests).destroy()
        assert 'atoll_quota_refused_total{what="network"} 8' in own.get("/metrics").body.decode()


def test_without_root(rootless_daemon):
    rest = Rest(rootless_daemon.socket)
    box = Box(rest, network={"allow": ["a.test"]}, waive=["all"])
    assert box.run("curl -sf --max-time 10 http://203.0.113.9/")["result"]["exit_code"] != 0
    path = f"/api/sandboxes/{box.id}/network/connections"
    wait_until(lambda: rest.get(path).json["connections"], 10, lambda: "no connection is listed")
    told = rest.get(path).json["connections"][0]
    assert (told["end"], told["address"], told["rule"]) == ("denied", "203.0.113.9", "default")
    box.destroy()
