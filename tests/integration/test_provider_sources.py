"""Where providers come from: providers.yaml as the design documents write it, with variables of the
environment; and providers without a file, by what the environment has. The service of E2B is a second
daemon with its facade."""

import contextlib
import http.server
import json
import os
import shutil
import signal
import socket
import tempfile
import threading
from pathlib import Path

import docker_engine
import pytest
from daemons import BUILD, Daemon, need_build, open_directory, refusal, wait_until
from faulty import Faulty
from listening import listening_daemon
from rest import Rest

WEBCONTAINER_BLOCK = """\
webcontainer:
  enabled: true
  workdir: "/workspace"
  coep: "credentialless"
  forward_errors: true
  resources:
    memory_mb: 2048
    cpu_cores: 2
"""
E2B_BLOCK = """\
e2b:
  enabled: true
  api_key: ${E2B_API_KEY}
  default_template: "python3"
  timeout_seconds: 600
  resources:
    memory_mb: 4096
    cpu_cores: 4
"""


class Service:
    def __init__(self, daemon, address):
        self.daemon, self.address = daemon, address
        self.key = (daemon.state / "api-key").read_text().strip()
        self.url = f"http://{address[0]}:{address[1]}"
        self.variables = {"E2B_API_KEY": self.key, "E2B_API_URL": self.url}


@pytest.fixture(scope="module")
def service():
    with listening_daemon() as (daemon, address):
        yield Service(daemon, address)


@contextlib.contextmanager
def daemon_with(text=None, **environment):
    """A daemon with this providers.yaml and these variables."""
    need_build()
    if os.geteuid() != 0:
        pytest.skip("needs root")
    directory = Path(tempfile.mkdtemp(prefix="atoll-", dir="/tmp"))
    directory.chmod(0o755)
    daemon = Daemon(BUILD, directory)
    daemon.env |= environment
    daemon.state.mkdir(mode=0o700)
    if text is not None:
        (daemon.state / "providers.yaml").write_text(text)
    try:
        daemon.start()
        yield daemon
        left = daemon.stop()
        assert not left, f"left behind: {', '.join(left)}"
    finally:
        if daemon.process and daemon.process.poll() is None:
            daemon.process.kill()
        shutil.rmtree(directory, ignore_errors=True)


def facts(daemon, name):
    listed = Rest(daemon.socket).get("/api/providers").json["providers"]
    return next((entry for entry in listed if entry["name"] == name), None)


def wait_up(daemon, name):
    wait_until(lambda: facts(daemon, name)["state"] == "up", 30,
               lambda: f"{name} stays {facts(daemon, name)}\n{daemon.log_tail()}")


# The file.

def test_the_block_of_the_design_document(service):
    text = f"{E2B_BLOCK}  api_url: {service.url}\n  sandbox_url: {service.url}\n"
    with daemon_with(text, **service.variables) as daemon:
        wait_up(daemon, "e2b")
        assert "template python3" in facts(daemon, "e2b")["detail"]
        for asked in ({}, {"memoryMB": 2000, "cpuCores": 2}):
            made = Rest(daemon.socket).post("/api/sandboxes", {
                "provider": "e2b", "limits": asked, "waive": ["disk", "pids"]})
            assert made.status == 201, made.body
            limits = made.json["limits"]
            assert limits["timeoutSeconds"] == 600, limits
            want = asked or {"memoryMB": 4096, "cpuCores": 4}
            assert {name: limits[name] for name in want} == want, limits


def test_a_block_for_browsers_may_stay_disabled():
    with daemon_with(WEBCONTAINER_BLOCK.replace("enabled: true", "enabled: false")) as daemon:
        listed = Rest(daemon.socket).get("/api/providers").json["providers"]
        assert [p["name"] for p in listed] == ["native"]


def test_the_default_network_of_a_provider():
    """For requests that give none, and within --network-max."""
    text = "native:\n  networkMode: isolated\n"
    with daemon_with(text, ATOLL_NETWORK_MAX="bridge,poor=none") as daemon:
        rest, poor = Rest(daemon.socket), Rest(daemon.socket, {"X-Atoll-Tenant": "poor"})
        modes = [rest.post("/api/sandboxes", asked).json["networkMode"]
                 for asked in ({}, {"networkMode": "none"}, {"network": {"mode": "none"}})]
        assert modes == ["isolated", "none", "none"]
        assert poor.post("/api/sandboxes", {}).json["networkMode"] == "none"
        made, same, none = (rest.post("/api/sandboxes", asked).json for asked in (
            {}, {"networkMode": "isolated"}, {"networkMode": "none"}))

        def inside(box):
            script = "cat /etc/resolv.conf /proc/net/route /proc/net/fib_trie"
            return rest.post(f"/api/sandboxes/{box['id']}/execs?wait=true",
                             {"cmd": ["sh", "-c", script]}).json["stdout"]
        assert inside(made) == inside(same) != inside(none)
        daemon.process.kill()
        daemon.process.wait()
        daemon.start()
        assert rest.get(f"/api/sandboxes/{made['id']}").json["networkMode"] == "isolated"


def start_refused(tmp_path, text, **environment):
    """What a daemon with this file says instead of starting."""
    need_build()
    file = tmp_path / "providers.yaml"
    file.write_text(text)
    variables = [f"{name}={value}" for name, value in environment.items()]
    status, said = refusal(["env", "-i", f"PATH={os.environ['PATH']}", f"HOME={tmp_path}", *variables,
                            str(BUILD / "atolld"), "--state", str(tmp_path / "s"), "--socket",
                            str(tmp_path / "k"), "--providers", str(file)], tmp_path / "said")
    assert status == 2, said
    return said


@pytest.mark.parametrize("text, said", [
    (E2B_BLOCK, "providers.yaml:3:12: e2b.api_key needs the environment variable E2B_API_KEY, "
                "which is not set"),
    ("providers:\n  docker:\n    registries:\n      - {host: h, username: u, password: 'a${NO_1}'}\n",
     "providers.yaml:4:"),
    ("native:\n  max_sandboxes: ${HOW_MANY}\n", "providers.yaml:2:18: native.max_sandboxes needs"),
    ("e2b:\n  api_key: ${E2B_API_KEY\n", "providers.yaml:2:12: e2b.api_key must be"),
    ("e2b:\n  api_key: ${}\n", "providers.yaml:2:12: e2b.api_key must be"),
    ("e2b:\n  api_key: x\n  defualt_template: y\n",
     'providers.yaml:3:3: there is no field "e2b.defualt_template"'),
    ("e2b:\n  api_key: x\n  resources: {memory_gb: 1}\n", "providers.yaml:3:"),
    ("e2b:\n  api_key: x\n  template: a\n  default_template: b\n",
     "providers.yaml:1: provider e2b has both default_template and template"),
    ("native:\n  resources: {memory_mb: 64}\n  defaults: {memoryMB: 64}\n",
     "providers.yaml:1: provider native has both memory_mb and memoryMB"),
    ("native: {}\nproviders:\n  native: {}\n", "providers.yaml:1: provider native is in the file twice"),
    ("e2b: {kind: docker}\n", "providers.yaml:1: provider e2b has the name of another kind"),
    ("native: {networkMode: open}\n", "providers.yaml:1:23: native.networkMode must be"),
    ("mine: {kind: docker}\n", 'providers.yaml:1:1: there is no field "mine"'),
    ("native: {}\n" + WEBCONTAINER_BLOCK, "providers.yaml:2: provider webcontainer: not available: a WebContainer "
     "runs in a browser"),
])
def test_what_the_file_cannot_mean(tmp_path, text, said):
    assert said in start_refused(tmp_path, text)


def test_values_of_variables_are_not_shown(tmp_path):
    said = start_refused(tmp_path, "native:\n  max_sandboxes: ${SECRET}\n", SECRET="hunter2")
    assert "providers.yaml:2:18: native.max_sandboxes must be a whole number" in said
    assert "hunter2" not in said


def test_variables_in_numbers_and_literal_dollars():
    text = ("placement: order\nnative:\n  max_sandboxes: ${MOST}0\n  enabled: ${YES}\n"
            "  languages: [python, '$${X}', '$$', 'a$']\n  resources: {memory_mb: 100, cpu_cores: 0.5}\n")
    with daemon_with(text, MOST="1", YES="true") as daemon:
        native = facts(daemon, "native")
        assert native["max_sandboxes"] == 10
        assert native["languages"] == ["python", "${X}", "$$", "a$"]
        made = Rest(daemon.socket).post("/api/sandboxes", {"waive": ["all"]}).json
        assert (made["limits"]["memoryMB"], made["limits"]["cpuCores"]) == (100, 0.5), made


# Without a file.

def create(daemon, **fields):
    return Rest(daemon.socket).post("/api/sandboxes", {"waive": ["all"], **fields})


class Recorder(http.server.BaseHTTPRequestHandler):
    """A service that makes no sandboxes and remembers what it was asked for."""

    asked = []

    def do_GET(self):
        self.answer(200, b"[]")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.headers.get_all("X-Region"), body["templateID"]))
        self.answer(400, b'{"code":400,"message":"not here"}')

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_region_and_template_of_one_request():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        text = f"native: {{}}\ne2b: {{api_key: k, api_url: '{url}', sandbox_url: '{url}', region: home}}\n"
        with daemon_with(text) as daemon:
            wait_up(daemon, "e2b")
            rest = Rest(daemon.socket)

            def create(**fields):
                return rest.post("/api/sandboxes", {"provider": "e2b", **fields})
            for fields in ({}, {"e2b": {"templateId": "python3", "region": "us-east-1"}}):
                assert create(**fields).status != 201
            assert Recorder.asked == [(["home"], "base"), (["us-east-1"], "python3")]
            for wrong in ({"e2b": {"apiKey": "a\r\nX: y"}}, {"e2b": {"apiKey": ""}},
                          {"provider": "native", "e2b": {"apiKey": "x"}},
                          {"e2b": {"region": "a\r\nX: y"}}, {"e2b": {"place": "x"}},
                          {"e2b": {"templateId": "a"}, "template": "b"},
                          {"provider": "native", "e2b": {"region": "x"}},
                          {"provider": "auto", "e2b": {"region": "x"}}):
                assert create(**wrong).status == 400, wrong
            assert len(Recorder.asked) == 2
        server.shutdown()


def said_at(service, tenant):
    """The sandboxes that a tenant has at the service."""
    listed = Rest(service.daemon.socket, {"X-Atoll-Tenant": tenant}).get("/api/sandboxes").json
    return [box["id"] for box in listed["sandboxes"]]


def files_with(text, directory):
    """Files of the daemon; the disks of sandboxes are larger, and sparse."""
    return [path for path in directory.rglob("*")
            if path.is_file() and path.stat().st_size < 64 << 20 and text.encode() in path.read_bytes()]


SETTINGS = {"e2b": "api_url: '{0}', sandbox_url: '{0}'", "daytona": "api_url: '{0}/daytona'",
            "vercel": "api_url: '{0}/vercel/api'"}
FIELDS = {"e2b": "apiKey", "daytona": "apiKey", "vercel": "token"}  # of a request


@pytest.mark.parametrize("kind", ["e2b", "daytona", "vercel"])
@pytest.mark.parametrize("own", [False, True])
def test_a_key_of_the_request(service, own, kind):
    """The sandbox is made, reached and removed in the account of the client, also by the next daemon."""
    key = Rest(service.daemon.socket).post("/api/keys", {"tenant": "guest", "scope": "write"}).json["key"]
    setting = f"api_key: '{service.key}'" if own else "key_of_request: true"
    text = f"native: {{}}\n{kind}: {{{setting}, {SETTINGS[kind].format(service.url)}}}\n"
    field = FIELDS[kind]
    with daemon_with(text) as daemon:
        wait_up(daemon, kind)
        rest = Rest(daemon.socket)
        without = rest.post("/api/sandboxes", {"provider": kind})
        assert without.status == 201 if own else f"give {kind}.{field}" in without.error["message"], without.body
        wrong = rest.post("/api/sandboxes", {"provider": kind, kind: {field: "e2b_" + "0" * 40}})
        assert wrong.status >= 400 and b"e2b_000" not in wrong.body, wrong.body
        assert said_at(service, "guest") == []
        made = rest.post("/api/sandboxes", {"provider": kind, kind: {field: key}})
        assert made.status == 201 and key.encode() not in made.body, made.body
        assert len(said_at(service, "guest")) == 1
        daemon.process.kill()
        daemon.process.wait()
        assert files_with(key, daemon.state) == []
        daemon.start()
        path = f"/api/sandboxes/{made.json['id']}"
        wait_until(lambda: rest.get(path).json["state"] == "running", 30, daemon.log_tail)
        ran = rest.post(f"{path}/execs?wait=true", {"cmd": ["echo", "here"]})
        assert ran.json["stdout"] == "here\n", ran.body
        assert rest.delete(path).status == 204
        wait_until(lambda: said_at(service, "guest") == [], 30, daemon.log_tail)
        assert key not in daemon.log.read_text()


def test_daytona_of_the_environment(service):
    """DAYTONA_API_KEY is enough; a policy that the service cannot enforce is refused before a sandbox is made."""
    with daemon_with(DAYTONA_API_KEY=service.key, DAYTONA_API_URL=f"{service.url}/daytona") as daemon:
        wait_up(daemon, "daytona")
        shown = facts(daemon, "daytona")
        assert (shown["source"], shown["named_only"]) == ("environment DAYTONA_API_KEY", True)
        made = create(daemon, provider="daytona", daytona={"snapshot": "daytona-medium"})
        assert made.status == 201 and made.json["provider"] == "daytona", made.body
        before = len(said_at(service, "default"))
        policy = {"mode": "bridge", "default": "deny", "rules": [{"allow": "1.2.3.4:443"}]}
        answer = create(daemon, provider="daytona", network=policy)
        assert answer.status == 501 and "ports" in answer.error["message"], answer.body
        for wrong in ({"provider": "native", "daytona": {"apiKey": "x"}},
                      {"provider": "daytona", "daytona": {"target": "a\r\nX: y"}},
                      {"provider": "daytona", "daytona": {"target": "a"}, "e2b": {"region": "b"}},
                      {"provider": "daytona", "daytona": {"snapshot": "a"}, "template": "b"},
                      {"provider": "daytona", "daytona": {"place": "x"}}):
            assert create(daemon, **wrong).status == 400, wrong
        unknown = create(daemon, provider="daytona", daytona={"snapshot": "no-such-snapshot"})
        assert unknown.status == 400 and "no-such-snapshot" in unknown.error["message"], unknown.body
        assert len(said_at(service, "default")) == before


def test_a_policy_is_changed_at_a_daytona_service(service):
    """While the sandbox runs; what an earlier policy named is gone."""
    there = Rest(service.daemon.socket)
    with daemon_with(DAYTONA_API_KEY=service.key, DAYTONA_API_URL=f"{service.url}/daytona") as daemon:
        wait_up(daemon, "daytona")
        made = create(daemon, provider="daytona",
                      network={"mode": "bridge", "default": "deny", "rules": [{"allow": "a.test"}]})
        assert made.status == 201, made.body
        rest, path = Rest(daemon.socket), f"/api/sandboxes/{made.json['id']}"

        def shown():
            box = max(there.get("/daytona/sandbox").json["items"], key=lambda box: box["createdAt"])
            return [box.get(name) for name in ("networkBlockAll", "networkAllowList", "domainAllowList")]

        assert shown() == [False, None, "a.test"]
        changed = rest.put(f"{path}/network", {"default": "deny", "rules": [{"allow": "10.9.0.0/16"}]})
        assert changed.status == 200 and shown() == [False, "10.9.0.0/16", None], (changed.body, shown())
        refused = rest.put(f"{path}/network", {"default": "deny", "rules": [{"allow": "1.2.3.4:443"}]})
        assert refused.status == 501 and "ports" in refused.error["message"], refused.body
        assert rest.get(f"{path}/network").json == changed.json and shown() == [False, "10.9.0.0/16", None]
        for default, expected in (("deny", [True, None, None]), ("allow", [False, None, None])):
            changed = rest.put(f"{path}/network", {"default": default})
            assert changed.status == 200 and shown() == expected, (changed.body, shown())
        assert rest.delete(path).status == 204


def test_a_change_of_a_policy_is_tried_again(service):
    """409: the service is changing something else of the sandbox."""
    with Faulty(service.address, ("127.0.0.1", 0)) as proxy:
        text = (f"native: {{}}\ndaytona: {{api_key: '{service.key}', api_url: 'http://127.0.0.1:{proxy.address[1]}/daytona', "
                f"toolbox_url: '{service.url}/daytona/toolbox'}}\n")
        with daemon_with(text) as daemon:
            wait_up(daemon, "daytona")
            made = create(daemon, provider="daytona", network={"mode": "bridge", "default": "allow"})
            assert made.status == 201, made.body
            path = f"/api/sandboxes/{made.json['id']}"
            proxy.fail("status", 2, b"/network-settings", status=409)
            changed = Rest(daemon.socket).put(f"{path}/network", {"default": "deny"})
            assert changed.status == 200 and proxy.struck == 2, changed.body
            assert Rest(daemon.socket).delete(path).status == 204


def test_vercel_of_the_environment(service):
    """The variables of the SDK are enough; what the service cannot do is refused before a sandbox is made."""
    with daemon_with(VERCEL_TOKEN=service.key, VERCEL_TEAM_ID="team_1", VERCEL_PROJECT_ID="prj_1",
                     VERCEL_API_URL=f"{service.url}/vercel/api") as daemon:
        wait_up(daemon, "vercel")
        shown = facts(daemon, "vercel")
        assert (shown["source"], shown["named_only"]) == (
            "environment VERCEL_TOKEN VERCEL_TEAM_ID VERCEL_PROJECT_ID", True)
        assert service.key not in daemon.atoll("providers", check=True).stdout
        made = create(daemon, provider="vercel", vercel={"source": "node24", "region": "iad1"})
        assert made.status == 201 and made.json["provider"] == "vercel", made.body
        before = said_at(service, "default")
        policy = {"mode": "bridge", "default": "deny", "rules": [{"allow": "1.2.3.4:443"}]}
        answer = create(daemon, provider="vercel", network=policy)
        assert answer.status == 501 and "ports" in answer.error["message"], answer.body
        for wrong in ({"provider": "native", "vercel": {"token": "x"}},
                      {"provider": "vercel", "vercel": {"token": "a\r\nX: y"}},
                      {"provider": "vercel", "vercel": {"teamId": "t"}},
                      {"provider": "vercel", "vercel": {"token": "x", "teamId": "a&b=c"}},
                      {"provider": "vercel", "vercel": {"region": "a"}, "e2b": {"region": "b"}},
                      {"provider": "vercel", "vercel": {"source": "a"}, "template": "b"},
                      {"provider": "vercel", "vercel": {"place": "x"}}):
            assert create(daemon, **wrong).status == 400, wrong
        unknown = create(daemon, provider="vercel", vercel={"source": "cobol"})
        assert unknown.status == 400 and "cobol" in unknown.error["message"], unknown.body
        gone = create(daemon, provider="vercel", vercel={"source": "snap_0000000000000000"})
        assert gone.status == 404, gone.body
        assert said_at(service, "default") == before
        assert Rest(daemon.socket).delete(f"/api/sandboxes/{made.json['id']}").status == 204


def test_a_policy_with_a_part_of_the_requests_holds_at_the_service(service):
    """The service answers those requests, and denies the rest; also after a change while the sandbox runs."""
    rules = [{"domain": "api.test", "match": {"path": {"startsWith": "/v1/"}, "method": ["GET"]}, "status": 200, "body": "yes"},
             {"domain": "api.test", "status": 403}]
    with daemon_with(VERCEL_TOKEN=service.key, VERCEL_TEAM_ID="team_1", VERCEL_PROJECT_ID="prj_1",
                     VERCEL_API_URL=f"{service.url}/vercel/api") as daemon:
        wait_up(daemon, "vercel")
        made = create(daemon, provider="vercel", network={"mode": "bridge", "default": "deny",
                                                          "rules": [{"allow": "api.test"}], "transforms": rules})
        assert made.status == 201, made.body
        path = f"/api/sandboxes/{made.json['id']}"
        script = """for u in v1/x v2/x; do curl -s -m 20 -w '%{http_code} ' http://api.test/$u; done
                    curl -s -m 20 -o /dev/null -w '%{http_code}' http://other.test/"""
        rest = Rest(daemon.socket)
        ran = rest.post(f"{path}/execs?wait=true", {"cmd": ["sh", "-c", script]})
        assert ran.json["stdout"] == "yes200 403 000", ran.body
        changed = rest.put(f"{path}/network", {"default": "deny", "rules": [{"allow": "api.test"}],
                                               "transforms": [{"domain": "api.test", "status": 201, "body": "new"}]})
        assert changed.status == 200 and changed.json["transforms"][0]["status"] == 201, changed.body
        refused = rest.put(f"{path}/network", {"default": "deny", "rules": [{"allow": "1.2.3.4:443"}]})
        assert refused.status == 501 and "ports" in refused.error["message"], refused.body
        assert rest.get(f"{path}/network").json == changed.json
        ran = rest.post(f"{path}/execs?wait=true", {"cmd": ["sh", "-c", script]})
        assert ran.json["stdout"] == "new201 new201 000", ran.body
        assert rest.delete(path).status == 204


def test_credentials_enable_requests_that_name_it(service):
    variables = service.variables | {"E2B_SANDBOX_URL": service.url}
    with daemon_with(**variables) as daemon:
        wait_up(daemon, "e2b")
        e2b, native = facts(daemon, "e2b"), facts(daemon, "native")
        assert (e2b["source"], e2b["named_only"]) == ("environment E2B_API_KEY", True)
        assert (native["source"], native["default"]) == ("default", True)
        shown = daemon.atoll("providers", check=True).stdout
        assert "FROM" in shown and "environment E2B_API_KEY" in shown and service.key not in shown
        made = create(daemon, provider="e2b")
        assert made.status == 201 and made.json["provider"] == "e2b", made.body
        assert create(daemon).json["provider"] == "native"
        answer = create(daemon, isolation=e2b["isolation"])
        assert answer.status == 501, answer.body
        assert answer.error["hint"] == "provider e2b can, but is used only for requests that name it"


def test_the_file_decides(service):
    with daemon_with("e2b: {enabled: false}\n", **service.variables) as daemon:
        assert facts(daemon, "e2b") is None and facts(daemon, "native")["source"] == "default"
    text = f"providers:\n  e2b: {{api_key: '${{E2B_API_KEY}}', api_url: '{service.url}'}}\n  native: {{}}\n"
    with daemon_with(text, **service.variables) as daemon:
        e2b = facts(daemon, "e2b")
        assert (e2b["source"], e2b["named_only"]) == ("file", False)
        assert facts(daemon, "native")["source"] == "file"


@pytest.mark.parametrize("variables", [
    {"E2B_API_KEY": ""},
    {"E2B_API_URL": "http://127.0.0.1:1"},
    {"E2B_API_KEY": "x", "E2B_API_URL": "ftp://127.0.0.1"},
    {"E2B_API_KEY": "two\nlines"},
])
def test_credentials_that_cannot_be_used_are_left_out(variables):
    """The daemon starts all the same: the operator did not ask for that provider."""
    with daemon_with(**variables) as daemon:
        assert facts(daemon, "e2b") is None
        assert create(daemon).status == 201
        complete = variables.get("E2B_API_KEY")
        assert ("a provider of the environment cannot be used" in daemon.log.read_text()) == bool(complete)


def test_the_environment_alone_is_not_enough(tmp_path):
    said = start_refused(tmp_path, "native: {enabled: false}\n", E2B_API_KEY="x")
    assert "providers.yaml:1: it leaves no provider" in said


class Engine:
    """Answers as a Docker engine does, as far as a daemon asks without a sandbox."""

    def __init__(self, path):
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(16)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
                                       b"Connection: close\r\n\r\nOK")

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.path.unlink()


def test_a_docker_socket_that_answers():
    with open_directory() as directory:
        engine = Engine(directory / "docker.sock")
        with daemon_with(DOCKER_HOST=f"unix://{engine.path}") as daemon:
            docker = facts(daemon, "docker")
            assert (docker["source"], docker["named_only"]) == ("Docker socket", True)
            assert create(daemon).json["provider"] == "native"
            # Not used for what does not name it, and said so.
            answer = Rest(daemon.socket).post("/api/templates/x/build", b"")
            assert answer.error["hint"] == "provider docker can, for requests that name it"
            # It is looked for again with the file.
            engine.close()
            daemon.process.send_signal(signal.SIGHUP)
            wait_until(lambda: facts(daemon, "docker") is None, 30, lambda: "it stays")
            engine = Engine(directory / "docker.sock")
            daemon.process.send_signal(signal.SIGHUP)
            wait_until(lambda: facts(daemon, "docker"), 30, lambda: "it does not come back")
        with daemon_with("docker: {enabled: false}\n", DOCKER_HOST=f"unix://{engine.path}") as daemon:
            assert facts(daemon, "docker") is None
        with daemon_with(DOCKER_HOST="tcp://127.0.0.1:1") as daemon:
            assert facts(daemon, "docker") is None
        engine.close()


@pytest.mark.skipif(docker_engine.missing() is not None, reason=str(docker_engine.missing()))
def test_a_docker_engine_without_a_file(tmp_path):
    with docker_engine.start(tmp_path) as engine:
        engine.import_image("box:1", docker_engine.busybox_root())
        with daemon_with(DOCKER_HOST=engine.url) as daemon:
            wait_up(daemon, "docker")
            done = daemon.atoll("run", "--provider", "docker", "--image", "box:1", "--waive", "all",
                                "--", "echo", "there", check=True)
            assert done.stdout == "there\n"
            assert facts(daemon, "docker")["networks"] == ["none", "isolated"]  # it has no bridge
            answer = create(daemon, provider="docker", image="box:1", networkMode="bridge")
            assert answer.status == 501, answer.body
            assert "docker has no network mode bridge" in answer.error["message"]
