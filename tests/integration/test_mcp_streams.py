"""Streams of MCP sessions: messages of the daemon, resuming, subscriptions; and how clients find access."""

import pytest
from daemons import wait_until
from mcp_client import Mcp
from rest import Rest


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture
def mcp(rest):
    client = Mcp(rest, version="2025-11-25")
    client.begin()
    yield client
    rest.call("DELETE", "/mcp", None, {"Mcp-Session-Id": client.session})


def long_call(mcp, command, number="long"):
    return mcp.stream("POST", {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {
        "name": "run_command", "arguments": {"command": command}, "_meta": {"progressToken": 1}}})


def commands(rest, box):
    return rest.get(f"/api/sandboxes/{box}/execs").json["execs"]


# Resuming.

def test_a_call_survives_its_connection(rest, mcp):
    """The client loses the connection, and gets the rest of the stream, with the result, by the last id it has."""
    box = mcp.tool("sandbox_info")["structuredContent"]["id"]
    connection, events = long_call(mcp, "until [ -e go ]; do sleep 0.05; done; echo done")
    first, nothing = next(events)
    assert first and nothing is None, "since 2025-11-25 the first event has an id and no message"
    number, progress = next(events)
    assert progress["method"] == "notifications/progress"
    connection.close()
    mcp.tool("write_file", path="go", content="")
    wait_until(lambda: all(e["state"] == "ended" for e in commands(rest, box)), 10, lambda: str(commands(rest, box)))
    _, again = mcp.stream("GET", **{"Last-Event-ID": number})
    assert again.status == 200
    messages = [message for _, message in again]
    assert messages[-1]["id"] == "long" and messages[-1]["result"]["content"][0]["text"] == "done\n", messages
    assert progress not in messages
    _, whole = mcp.stream("GET", **{"Last-Event-ID": first})
    assert [message for _, message in whole] == [progress, *messages]


def test_ids_that_lead_nowhere(mcp):
    _, events = long_call(mcp, "true")
    number = [number for number, _ in events][-1]
    epoch, stream, event = number.split("-")
    for wrong in ("x", f"{epoch}-{stream}-{int(event) + 1}", f"{epoch}-99-1", f"0-{stream}-{event}", number + "x", 70 * "1"):
        assert mcp.stream("GET", **{"Last-Event-ID": wrong})[1].status == 404, wrong
    other = Mcp(mcp.rest, 32 * "e")
    assert other.stream("GET", **{"Last-Event-ID": number})[1].status == 404, "of another session"
    stranger = Mcp(Rest(mcp.rest.address, {"X-Atoll-Tenant": "stranger"}), mcp.session)
    assert stranger.stream("GET", **{"Last-Event-ID": number})[1].status == 404, "of another tenant"


def test_old_clients_get_no_empty_event(rest):
    client = Mcp(rest)
    client.begin()
    events = list(long_call(client, "echo hi")[1])
    assert len(events) == 1 and events[0][1]["result"]["content"][0]["text"] == "hi\n"
    rest.call("DELETE", "/mcp", None, {"Mcp-Session-Id": client.session})


def test_the_end_of_a_session_ends_its_streams_and_calls(rest, mcp):
    _, own = mcp.stream("GET")
    _, events = long_call(mcp, "sleep 600")
    assert next(events)[1] is None
    assert rest.call("DELETE", "/mcp", None, {"Mcp-Session-Id": mcp.session}).status == 204
    assert list(own) == [] and list(events) == []


# Subscriptions.

def test_a_file(mcp):
    mcp.tool("write_file", path="/home/user/note", content="1")
    box = mcp.tool("sandbox_info")["structuredContent"]["id"]
    uri = f"atoll://{box}/home/user/note"
    assert mcp.ask("resources/subscribe", uri=uri)["result"] == {}
    mcp.tool("write_file", path="/home/user/other", content="2")
    mcp.tool("write_file", path="/home/user/note", content="2")
    connection, events = mcp.stream("GET")  # what happened before is kept
    number, note = next(events)
    assert note == {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}}
    mcp.tool("run_command", command="mv other note")
    last, note = next(events)
    assert note["params"] == {"uri": uri}
    connection.close()
    _, again = mcp.stream("GET", **{"Last-Event-ID": number})
    assert next(again) == (last, note)
    assert mcp.ask("resources/unsubscribe", uri=uri)["result"] == {}
    log = mcp.tool("run_command", command="echo 3 > note; sleep 600", background=True)["structuredContent"]["command_id"]
    assert mcp.ask("resources/subscribe", uri=f"atoll-log://{box}/{log}")["result"] == {}
    mcp.tool("kill_command", command_id=log)
    assert next(again)[1]["params"]["uri"].startswith("atoll-log:"), "the file is not subscribed to any more"


def test_a_log(mcp):
    started = mcp.tool("run_command", command="echo one; until [ -e go ]; do sleep 0.05; done; echo two", background=True)
    command = started["structuredContent"]["command_id"]
    uri = next(r["uri"] for r in mcp.ask("resources/list")["result"]["resources"] if r["name"] == command)
    assert uri.startswith("atoll-log://") and uri.endswith(command)
    assert mcp.ask("resources/subscribe", uri=uri)["result"] == {}
    _, events = mcp.stream("GET")
    mcp.tool("write_file", path="go", content="")
    assert next(events)[1]["params"]["uri"] == uri
    wait_until(lambda: mcp.ask("resources/read", uri=uri)["result"]["contents"][0]["text"] == "one\ntwo\n", 10,
               lambda: str(mcp.ask("resources/read", uri=uri)))


def test_listening_without_a_session(rest):
    """Version 2026-07-28: the answer to one request is the stream."""
    client = Mcp(rest, version="2026-07-28")
    box = client.tool("sandbox_info")["structuredContent"]["id"]
    uris = [f"atoll://{box}/home/user/seen", "atoll://none-such/x", "file:///etc/passwd"]
    connection, events = client.stream("POST", {"jsonrpc": "2.0", "id": "l1", "method": "subscriptions/listen", "params": {
        "notifications": {"resourceSubscriptions": uris, "toolsListChanged": True}}})
    meta = {"io.modelcontextprotocol/subscriptionId": "l1"}
    assert next(events) == (None, {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
        "notifications": {"resourceSubscriptions": uris[:1]}, "_meta": meta}})
    client.tool("write_file", path="seen", content="x")
    assert next(events)[1]["params"] == {"uri": uris[0], "_meta": meta}
    connection.close()
    client.tool("sandbox_stop", sandbox=box)


@pytest.mark.parametrize("uri, code", [("atoll://none-such/x", -32002), ("x", -32602), (None, -32602)])
def test_what_cannot_be_subscribed_to(mcp, uri, code):
    assert mcp.ask("resources/subscribe", uri=uri)["error"]["code"] == code


def test_subscriptions_have_bounds(rest, mcp):
    assert "session" in Mcp(rest).ask("resources/subscribe", uri="atoll://x/y")["error"]["message"]
    box = mcp.tool("sandbox_info")["structuredContent"]["id"]
    assert mcp.ask("resources/subscribe", uri=f"atoll-log://{box}/{16 * '0'}")["error"]["code"] == -32002
    assert mcp.ask("resources/subscribe", uri=f"atoll://{box}/no/such/x")["error"]["code"] == -32002
    for i in range(24):
        assert mcp.ask("resources/subscribe", uri=f"atoll://{box}/tmp/{i}")["result"] == {}
    assert "at most 24" in mcp.ask("resources/subscribe", uri=f"atoll://{box}/tmp/24")["error"]["message"]


def test_sessions_with_streams_have_a_bound(rest):
    clients = [Mcp(rest) for _ in range(33)]
    for client in clients:
        client.begin()
    streams = [client.stream("GET") for client in clients]
    assert [events.status for _, events in streams] == 32 * [200] + [429]
    for client in clients:
        rest.call("DELETE", "/mcp", None, {"Mcp-Session-Id": client.session})


# Access.

def test_clients_that_look_for_oauth(daemon, rest):
    """The metadata is true: a key of Atoll is the bearer token, and no server gives out tokens."""
    for path in ("", "/mcp"):
        found = rest.call("GET", f"/.well-known/oauth-protected-resource{path}", None, {"Authorization": ""})
        assert found.status == 200 and found.json["resource"].endswith("/mcp"), found.body
        assert found.json["authorization_servers"] == [] and found.json["bearer_methods_supported"] == ["header"]
    refused = rest.call("POST", "/mcp", {}, {"Authorization": "Bearer wrong"})
    assert refused.status == 401
    assert refused.headers["WWW-Authenticate"].startswith('Bearer resource_metadata="http')
