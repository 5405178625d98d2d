"""OAuth of connectors: access tokens that the daemon gets and renews, and that never enter the sandbox."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest

from daemons import ROOT, wait_until
from networks import FAR, Page, Web, networked
from rest import Rest
from test_connectors import AGENT
from test_task_keys import HOSTILE

MCP, AUTH = "https://tools.example.org/mcp", "https://auth.example.org"
TOKEN_URL = f"{AUTH}/token"
SEARCH = HOSTILE.replace("ss w0[r]d:", "canary-(access|refresh|cli[e]nt)")
# Lists the tools of the server, as an agent would.
ASK = ("curl -s --fail-with-body -X POST -H 'Content-Type: application/json' -d '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}' "
       f"-H 'Authorization: Bearer kept-outside-by-atoll' {MCP}")


class Service(Page):
    """An MCP server that wants tokens, and the server that gives them."""

    def answer(self, status, value, **headers):
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", "Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(text))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        world = self.server.world
        name = self.path.partition("?")[0]
        if name == "/.well-known/oauth-protected-resource/mcp":
            return self.answer(200, {"resource": world.resource, "authorization_servers": [AUTH], "scopes_supported": ["read"]})
        if name == "/.well-known/oauth-authorization-server":
            return self.answer(200, {"issuer": AUTH, "authorization_endpoint": f"{AUTH}/authorize", "token_endpoint": TOKEN_URL,
                                     "registration_endpoint": f"{AUTH}/register", **world.metadata})
        return self.answer(404, {})

    def do_POST(self):
        world, body = self.server.world, self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/mcp":
            token = (self.headers["Authorization"] or "").removeprefix("Bearer ")
            world.used.append(token)
            if token not in world.tokens:
                meta = "https://tools.example.org/.well-known/oauth-protected-resource/mcp"
                return self.answer(401, {}, WWW_Authenticate=f'Bearer realm="x", resource_metadata="{meta}"')
            return self.answer(200, {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "seen"}]}})
        if self.path == "/register":
            world.registered.append(json.loads(body))
            return self.answer(201, {"client_id": "registered-1"})
        form = dict(urllib.parse.parse_qsl(body.decode()))
        form["basic"] = base64.b64decode((self.headers["Authorization"] or "").removeprefix("Basic ")).decode()
        world.asked.append(form)
        world.may_answer.wait(60)
        return self.give(form)

    def give(self, form):
        world = self.server.world
        if world.refuse:
            return self.answer(world.refuse[0], {"error": world.refuse[1], "error_description": f"no {form.get('refresh_token')}"})
        if form["grant_type"] == "authorization_code":
            digest = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
            if world.codes.pop(form["code"], None) != digest:
                return self.answer(400, {"error": "invalid_grant"})
        world.tokens.append(f"canary-access-{len(world.tokens)}")
        more = {"refresh_token": f"canary-refresh-{len(world.tokens)}"} if world.rotate else {}
        return self.answer(200, {"access_token": world.tokens[-1], "token_type": "Bearer", "expires_in": world.lifetime, **more})


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    registry = tmp_path_factory.mktemp("oauth") / "registry"
    shutil.copytree(ROOT / "registry", registry)
    (registry / "agents/reading.yaml").write_text(AGENT)
    (registry / "agents/asking.yaml").write_text(
        "environment: Python3\ncommand: [/bin/sh, -ec, '{instruction}']\nmcp: {form: claude, options: ['{mcpConfig}']}\n")
    with networked(ATOLL_REGISTRY=str(registry)) as daemon:
        with (daemon.networks.directory / "hosts").open("a") as hosts:
            hosts.write(f"{FAR[5]} tools.example.org\n{FAR[6]} auth.example.org\n")
        names, webs = ("tools.example.org", "auth.example.org"), []
        for address, name in zip(FAR[5:], names, strict=False):
            webs.append(Web(daemon.networks.far.listen(address, 443), name, daemon.networks.authority.certificate(name)))
            webs[-1].RequestHandlerClass, webs[-1].world = Service, daemon
        daemon.rest = Rest(daemon.socket)
        assert daemon.rest.get("/api/registry").json["problems"] == []
        yield daemon
        for web in webs:
            web.close()


@pytest.fixture(autouse=True)
def service(world):
    world.used, world.asked, world.registered, world.tokens, world.codes = [], [], [], [], {}
    world.refuse, world.rotate, world.lifetime, world.resource = None, False, 3600, MCP
    world.metadata = {"code_challenge_methods_supported": ["S256"]}
    world.may_answer = threading.Event()
    world.may_answer.set()
    yield
    for one in world.rest.get("/api/connectors").json["connectors"]:
        assert world.rest.delete(f"/api/connectors/{one['name']}").status == 204
    assert world.rest.get("/api/secrets").json["secrets"] == []


def connect(world, name="far", **oauth):
    made = world.rest.post("/api/connectors", {"name": name, "url": MCP, "oauth": {
        "tokenUrl": TOKEN_URL, "clientId": "me", "clientSecret": "canary-client", "refreshToken": "canary-refresh", **oauth}})
    assert made.status == 201, made.body
    return made.json


def run(world, instruction=ASK, servers=("far",), state="succeeded", **more):
    task = world.rest.call("POST", "/api/tasks", {"agent": "asking", "instruction": instruction, "autoCleanup": True,
                                                  "mcpServers": list(servers), **more}, wait="true")
    assert task.json.get("state") == state, task.body
    return task.json


def state_of(world, name="far"):
    return world.rest.get(f"/api/connectors/{name}").json["oauth"]


def test_the_token_is_got_and_never_inside(world):
    world.rotate = True
    made = connect(world, scopes=["read", "write"])
    assert made["oauth"] == {"state": "idle", "token_url": TOKEN_URL, "client_id": "me", "scopes": ["read", "write"]}
    task = run(world, f"{ASK}; cat /tmp/.atoll-mcp.json; {SEARCH}", cleanup="never", autoCleanup=None)
    assert '"name": "seen"' in task["output"] and task["output"].endswith("found []\n"), task
    assert task["mcp_outside"] == ["far"] and "Bearer" not in task["output"].partition("found")[0].replace("Bearer kept", "")
    assert world.used == ["canary-access-0"]
    assert world.asked == [{"grant_type": "refresh_token", "refresh_token": "canary-refresh", "scope": "read write",
                            "resource": MCP, "basic": "me:canary-client"}]
    ready = state_of(world)
    assert ready["state"] == "ready" and ready["expires_at"]
    assert [one["name"] for one in world.rest.get("/api/secrets").json["secrets"]] == ["oauth.far"]
    # A later task has the same token.
    run(world)
    assert len(world.asked) == 1
    seen = [world.rest.get(path).body for path in (
        f"/api/tasks/{task['id']}", f"/api/tasks/{task['id']}/log", "/api/connectors", "/api/secrets",
        f"/api/sandboxes/{task['sandbox_id']}", f"/api/sandboxes/{task['sandbox_id']}/execs")]
    world.rest.delete(f"/api/sandboxes/{task['sandbox_id']}")
    world.stop()
    stored = [path.read_bytes() for path in world.state.rglob("*") if path.is_file() and path.stat().st_size < 1 << 26]
    kept = b"".join([*seen, *stored, world.log.read_bytes()])
    # The next daemon has the token, and then the newest refresh token.
    world.start()
    assert b"oauth.far" in kept and not re.search(b"canary-(access|refresh|client)", kept)
    run(world)
    assert len(world.asked) == 1
    world.rest.delete("/api/secrets/oauth.far")
    run(world)
    assert world.asked[1]["refresh_token"] == "canary-refresh-1"


def test_one_request_renews_an_expired_token_for_all(world):
    world.lifetime = 1
    connect(world, clientAuth="post")
    run(world)
    assert world.asked[0]["client_secret"] == "canary-client" and world.asked[0]["basic"] == ""
    wait_until(lambda: state_of(world)["state"] == "idle", 30, lambda: state_of(world))
    world.lifetime = 3600
    world.may_answer.clear()
    tasks = [world.rest.post("/api/tasks", {"agent": "asking", "instruction": ASK, "autoCleanup": True,
                                            "mcpServers": ["far"]}).json["id"] for _ in range(3)]
    log = lambda task: world.rest.get(f"/api/tasks/{task}/log").body.decode()
    wait_until(lambda: all("getting an access token" in log(task) for task in tasks), 30, lambda: [log(task) for task in tasks])
    world.may_answer.set()
    ended = [world.rest.get(f"/api/tasks/{task}", wait="true").json for task in tasks]
    assert [one["state"] for one in ended] == ["succeeded"] * 3, ended
    assert len(world.asked) == 2 and world.used[-3:] == ["canary-access-1"] * 3


def test_it_is_renewed_while_a_task_runs(world):
    world.lifetime = 2
    connect(world)
    task = world.rest.post("/api/tasks", {"agent": "asking", "autoCleanup": True, "mcpServers": ["far"],
                                          "instruction": f"{ASK}; until [ -e /tmp/go ]; do sleep 0.1; done; {ASK}"}).json["id"]
    wait_until(lambda: len(world.asked) >= 3, 60, lambda: world.asked)
    world.lifetime = 3600
    wait_until(lambda: state_of(world)["expires_at"] and world.asked[2:], 30, lambda: "")
    # So it is by the next daemon.
    count = len(world.asked)
    world.process.kill()
    world.process.wait()
    world.start()
    box = world.rest.get(f"/api/tasks/{task}").json["sandbox_id"]
    wait_until(lambda: state_of(world)["state"] == "ready", 30, lambda: state_of(world))
    assert world.rest.post(f"/api/sandboxes/{box}/execs?wait=true", {"cmd": ["touch", "/tmp/go"]}).status in (200, 201)
    ended = world.rest.get(f"/api/tasks/{task}", wait="true").json
    assert ended["state"] == "succeeded" and len(world.asked) >= count, ended
    assert world.used[-1] != world.used[0] and world.used[-1] in world.tokens


def test_a_refusal_and_a_server_that_does_not_answer(world):
    connect(world)
    world.refuse = (400, "invalid_grant")
    task = run(world, state="failed")
    assert task["step"] == "sandbox" and task["error"]["code"] == "failed_precondition"
    assert "(invalid_grant): log in again with `atoll connector login far`" in task["error"]["message"], task
    assert "canary" not in json.dumps(task) and state_of(world)["state"] == "refused" and state_of(world)["reason"] == "invalid_grant"
    world.refuse = (401, "invalid_client")
    assert "refuses the client (invalid_client): check clientId" in run(world, state="failed")["error"]["message"]
    world.refuse, before = (503, "x"), len(world.asked)
    task = run(world, state="failed", steps={"sandbox": {"tries": 2}})
    assert task["error"]["code"] == "unavailable" and len(world.asked) == before + 2, task
    # It is asked again at the next use.
    world.refuse = None
    run(world)
    assert state_of(world)["state"] == "ready"


def test_credentials_of_a_client(world):
    assert world.rest.post("/api/secrets", {"name": "CS", "value": "canary-client"}).status == 201
    made = world.rest.post("/api/connectors", {"name": "far", "url": MCP, "oauth": {
        "grant": "client_credentials", "tokenUrl": TOKEN_URL, "clientId": "a:b", "clientSecret": "${secret.CS}", "resource": ""}})
    assert made.status == 201 and made.json["oauth"]["grant"] == "client_credentials", made.body
    run(world)
    assert world.asked == [{"grant_type": "client_credentials", "basic": "a%3Ab:canary-client"}]
    # Another definition does not get this token.
    assert world.rest.call("PUT", "/api/connectors/far", {"url": MCP}).status == 200
    assert [one["name"] for one in world.rest.get("/api/secrets").json["secrets"]] == ["CS"]
    world.rest.delete("/api/secrets/CS")


def test_where_the_token_cannot_stay_outside(world):
    connect(world)
    ask = lambda **more: world.rest.call("POST", "/api/tasks", {"agent": "asking", "instruction": "true", "mcpServers": ["far"],
                                                                "autoCleanup": True, **more}, wait="true")
    refused = ask(keys="environment")
    assert refused.status == 409 and "has oauth: it needs a new sandbox" in refused.json["error"]["message"], refused.body
    assert "it needs a new sandbox" in ask(sandbox={"networkMode": "none"}).json["error"]["message"]
    inline = ask(mcpServers={"x": {"url": MCP, "oauth": {}}})
    assert inline.status == 400 and "store the server as a connector" in inline.json["error"]["message"]
    # A secret of the user is not overwritten.
    world.rest.delete("/api/secrets/oauth.far")
    assert world.rest.post("/api/secrets", {"name": "oauth.far", "value": "mine"}).status == 201
    assert "there is a secret oauth.far" in ask().json["error"]["message"]
    world.rest.delete("/api/secrets/oauth.far")
    key = world.rest.post("/api/keys", {"tenant": "other", "scope": "write"}).json["key"]
    other = Rest(world.socket, {"Authorization": f"Bearer {key}"})
    for url in ("https://127.0.0.1/token", "https://10.1.2.3/token", "http://localhost:9/token"):
        assert other.call("PUT", "/api/connectors/near", {"url": MCP, "oauth": {
            "tokenUrl": url, "clientId": "x", "refreshToken": "y"}}).status in (200, 201)
        made = other.call("POST", "/api/tasks", {"agent": "asking", "instruction": "true", "mcpServers": ["near"]}, wait="true")
        assert made.json["state"] == "failed" and made.json["error"]["code"] == "permission_denied", made.body
    assert other.delete("/api/connectors/near").status == 204


@pytest.mark.parametrize("oauth, why", [
    (5, "oauth must be an object"), ({"colour": 1}, "have no members but"), ({"tokenUrl": "http://a/b"}, "tokenUrl must be an https URL"),
    ({"tokenUrl": "https://u@a/b"}, "https URL"), ({"scopes": "a b"}, "scopes must be a list"), ({"scopes": ["a b"]}, "scopes must be a list"),
    ({"grant": "password"}, "grant must be"), ({"grant": "client_credentials"}, "clientSecret must be given"),
    ({"grant": "refresh_token"}, "refreshToken must be given"), ({"refreshToken": "x"}, "have tokenUrl and clientId"),
    ({"clientId": "a\nb"}, "clientId must be"), ({"clientAuth": "jwt"}, "clientAuth must be"), ({"refused": "x"}, "have no members but"),
])
def test_bad_definitions(world, oauth, why):
    refused = world.rest.post("/api/connectors", {"name": "bad", "url": MCP, "oauth": oauth})
    assert refused.status == 400 and why in refused.json["error"]["message"], refused.body


def test_what_does_not_go_with_oauth(world):
    for more, why in (({"url": "http://tools.example.org/mcp"}, "https URL without another port"),
                      ({"url": "https://tools.example.org:8443/mcp"}, "https URL without another port"),
                      ({"headers": {"authorization": "x"}}, "must not have Authorization"), ({"name": "x" * 59}, "at most 58")):
        refused = world.rest.post("/api/connectors", {"name": "bad", "url": MCP, "oauth": {}, **more})
        assert refused.status == 400 and why in refused.json["error"]["message"], refused.body
    assert world.rest.post("/api/connectors", {"name": "far", "url": MCP, "oauth": {}}).json["oauth"]["state"] == "login"
    refused = world.rest.post("/api/tasks", {"agent": "asking", "instruction": "x", "mcpServers": ["far"]})
    assert refused.status == 409 and "no user has logged in" in refused.json["error"]["message"]


def authorize(world, url):
    """What the browser of a user does who says yes: the URL it is sent to."""
    asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))
    assert url.startswith(f"{AUTH}/authorize?response_type=code&") and asked["code_challenge_method"] == "S256", url
    world.codes[f"code-{asked['state'][:5]}"] = asked["code_challenge"]
    return asked, f"{asked['redirect_uri']}?" + urllib.parse.urlencode({"code": f"code-{asked['state'][:5]}", "state": asked["state"]})


BACK = "http://127.0.0.1:7777/callback"


def test_a_login(world):
    world.rotate = True
    assert world.rest.post("/api/connectors", {"name": "far", "url": f"{MCP}?tenant=1"}).status == 201
    begun = world.rest.post("/api/connectors/far/login", {"redirectUri": BACK})
    assert begun.status == 200, begun.body
    asked, _ = authorize(world, begun.json["url"])
    assert asked["redirect_uri"] == BACK and asked["scope"] == "read" and asked["resource"] == MCP and asked["client_id"] == "registered-1"
    assert world.registered[0]["redirect_uris"] == [BACK] and world.registered[0]["token_endpoint_auth_method"] == "none"
    for wrong, status in (({"code": "x", "state": "y"}, 409), ({"code": "x"}, 400), ({"code": "x", "state": asked["state"], "redirectUri": BACK}, 400),
                          ({"code": "x", "state": asked["state"], "iss": "https://other"}, 409)):
        assert world.rest.post("/api/connectors/far/login", wrong).status == status
    right = {"code": f"code-{asked['state'][:5]}", "state": asked["state"], "iss": AUTH}
    done = world.rest.post("/api/connectors/far/login", right)
    assert done.status == 200 and done.json["oauth"]["state"] == "ready" and done.json["oauth"]["scopes"] == ["read"], done.body
    assert world.rest.post("/api/connectors/far/login", right).status == 409
    run(world)
    assert world.used[-1] == "canary-access-0"
    world.rest.delete("/api/secrets/oauth.far")
    run(world)
    assert world.asked[-1]["refresh_token"] == "canary-refresh-1" and world.asked[-1]["client_id"] == "registered-1"


def test_a_login_with_the_command_line(world):
    world.atoll("connector", "create", "far", "--url", MCP, check=True)
    cli = subprocess.Popen([world.build / "atoll", "connector", "login", "far", "--scope", "all"], env=world.env, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert cli.stderr.readline() == "Open this URL in a browser of this machine:\n"
        asked, back = authorize(world, cli.stderr.readline().strip())
        assert asked["scope"] == "all" and asked["redirect_uri"].startswith("http://127.0.0.1:")
        for other in (back.replace("state=", "state=x"), back.replace("callback", "favicon.ico")):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(other)
        assert b"close this page" in urllib.request.urlopen(back).read()
        assert cli.wait(60) == 0 and cli.stdout.read() == "far: logged in\n", cli.stderr.read()
    finally:
        cli.kill()
        cli.communicate()
    run(world)
    assert world.used[-1] == world.tokens[-1]


@pytest.mark.parametrize("change, why", [
    ({"metadata": {}}, "does not support PKCE"), ({"metadata": {"issuer": "https://other.example.org"}}, "says that it is another one"),
    ({"resource": "https://elsewhere.example.org/mcp"}, "names another server as the resource"),
    ({"metadata": {"code_challenge_methods_supported": ["S256"], "registration_endpoint": None}}, "clients do not register themselves"),
    ({"metadata": {"token_endpoint": "http://auth.example.org/token"}}, "no endpoints with https"),
])
def test_a_login_that_cannot_be(world, change, why):
    for name, value in change.items():
        setattr(world, name, value)
    assert world.rest.post("/api/connectors", {"name": "far", "url": MCP}).status == 201
    refused = world.rest.post("/api/connectors/far/login", {"redirectUri": BACK})
    assert refused.status == 409 and why in refused.json["error"]["message"], refused.body


def test_bad_logins(world):
    assert world.rest.post("/api/connectors/none/login", {"redirectUri": BACK}).status == 404
    world.rest.post("/api/connectors", {"name": "local", "command": "x"})
    assert world.rest.post("/api/connectors/local/login", {"redirectUri": BACK}).status == 400
    for bad in ({}, {"redirectUri": "http://evil.example.org/"}, {"redirectUri": BACK, "scopes": ["a b"]}, {"redirectUri": BACK, "clientSecret": "x"}):
        assert world.rest.post("/api/connectors/local/login", bad).status == 400
