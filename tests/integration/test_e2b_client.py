"""The provider e2b in a daemon, as a client of another one, and of a service that only takes notes."""

import http.server
import json
import threading

import places
import pytest
from boxes import Box
from daemons import wait_until
from fake_world import world_of

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def world():
    with places.world(["e2b"], e2b={"domain": "cloud.example"}) as made:
        yield made


@pytest.fixture(scope="module")
def place(world):
    if "e2b" in world.missing:
        pytest.skip(world.missing["e2b"])
    return world.places["e2b"]


def remote_of(place, box):
    """The sandbox as the service's own API has it."""
    (found,) = [remote for remote in place.remotes() if box.id in json.dumps(remote)]
    return found


# What a sandbox is made with.

def test_labels_and_variables_go_along(place):
    with place.box(metadata={"team": "blue", "atoll_id": "forged"}, env={"COLOUR": "deep green"},
                   recreate=True) as box:
        remote = remote_of(place, box)
        assert remote["metadata"]["team"] == "blue"
        assert remote["metadata"]["atoll_id"] == box.id
        assert box.view["metadata"] == {"team": "blue", "atoll_id": "forged"}
        assert box.view["handle"] == remote["id"]
        # To those who reach the sandbox through the service, and not through us.
        run = place.world.cloud.rest.post(f"/api/sandboxes/{remote['id']}/execs",
                                          {"cmd": ["sh", "-c", "echo $COLOUR"]}, wait="true")
        assert run.json["stdout"] == "deep green\n"
        assert box.out("echo $COLOUR") == "deep green"


def test_a_template_of_the_service(place):
    with place.box(template="base") as box:
        assert box.view["template"] == "base" and "image" not in box.view
        place.world.restart()
        wait_until(lambda: box.state == "running", 30, lambda: f"{box.view}")
        assert box.view["template"] == "base" and box.out("echo yes") == "yes"
    answer = place.rest.post("/api/sandboxes", {"provider": "e2b", "template": "no-such-thing"})
    assert answer.status in (400, 404) and "no-such-thing" in answer.error["message"], answer.body
    # Nobody means it who does not name the service.
    answer = place.rest.post("/api/sandboxes", {"template": "no-such-thing"})
    assert answer.status == 404 and "there is no template" in answer.error["message"], answer.body
    assert place.remotes() == []


def test_the_names_of_its_ports_at_the_service(place):
    with place.box() as box:
        host = box.view["public_host"]
        assert host == "{port}-" + box.view["handle"] + ".cloud.example"
        shown = box.post("previews", {"port": 8080})
        assert shown.status == 201, shown.body
        assert shown.json["public_url"] == "https://" + host.replace("{port}", "8080")
        (listed,) = box.get("previews").json["previews"]
        assert listed["public_url"] == shown.json["public_url"]


def test_figures_are_those_of_the_service(place):
    with place.box() as box:
        remote = remote_of(place, box)
        box.detach("while :; do :; done")
        wait_until(lambda: box.get("stats").json["cpu"]["percent"] > 1, 60,
                   lambda: f"it stands still: {box.get('stats').json}")
        stats = box.get("stats").json
        there = place.world.cloud.rest.get(f"/api/sandboxes/{remote['id']}/stats").json
        assert stats["memory"]["limit_bytes"] == there["memory"]["limit_bytes"]
        # The file system needs some of the disk for itself.
        assert stats["disk"]["limit_bytes"] == pytest.approx(there["disk"]["limit_bytes"], rel=0.01)
        assert stats["cpu"]["limit_cores"] == there["cpu"]["limit_cores"]
        assert stats["cpu"]["percent"] <= 100 * there["cpu"]["limit_cores"] + 20
        assert stats["processes"]["count"] > 0
        wait_until(lambda: box.get("stats").json["cpu"]["used_seconds"] > 0, 30,
                   lambda: "nobody counts it")


def test_results_of_code(place):
    with place.box() as box:
        made = box.post("contexts", {"language": "python"})
        assert made.status == 201, made.body
        path = f"contexts/{made.json['context_id']}/execute"
        ran = box.post(path, {"code": "class T:\n def _repr_html_(self): return '<b>t</b>'\nT()"})
        (result,) = ran.json["results"]
        assert result["html"] == "<b>t</b>", ran.json
        ran = box.post(path, {"code": "import sys\nprint('e', file=sys.stderr)\n[1, 2][5]"}).json
        assert ran["stderr"] == "e\n" and ran["error"]["name"] == "IndexError"


def test_whose_request_it_was_is_known_there_too(place):
    made = place.rest.call("POST", "/api/sandboxes", {"provider": "e2b"},
                           {"traceparent": TRACE, "X-Request-Id": "mine-9"})
    assert made.status == 201, made.body
    assert place.rest.delete(f"/api/sandboxes/{made.json['id']}").status == 204
    audit = (place.world.cloud.state / "audit.log").read_text().splitlines()
    lines = [json.loads(line) for line in audit]
    assert any(line["request_id"] == "mine-9" and line["route"] == "/sandboxes" for line in lines)


# Accounts.

def test_two_accounts_and_a_new_key(world, place):
    """Each has sandboxes of its own; a key that is replaced while sandboxes run loses none."""
    keys = {}
    for tenant in ("first", "other"):
        keys[tenant] = place.world.cloud.atoll("key", "create", "--tenant", tenant, "--scope",
                                               "write", "--json", check=True)
    made = [json.loads(one.stdout) for one in keys.values()]
    file = world.directory / "other-key"
    file.write_text(made[1]["e2b_key"])
    world.settings["other"] = {**world.settings["e2b"], "kind": "e2b", "api_key_file": str(file)}
    world.write_settings()
    reload(world)
    mine, theirs = place.create(), Box(place.rest, provider="other")
    try:
        assert theirs.view["provider"] == "other"
        assert [r["metadata"]["atoll_id"] for r in place.remotes()] == [mine.id]
        world.restart()
        for box in (mine, theirs):
            wait_until(lambda box=box: box.state == "running", 30, lambda: "not found again")
        exec_id = theirs.detach("for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.2; done")
        new = place.world.cloud.atoll("key", "create", "--tenant", "other", "--scope", "write",
                                      "--json", check=True)
        file.write_text(json.loads(new.stdout)["e2b_key"])
        reload(world)
        old = place.world.cloud.atoll("key", "rm", made[1]["id"])
        assert old.returncode == 0, old.stderr
        assert theirs.output(exec_id, follow="true") == "".join(f"{i}\n" for i in range(1, 10))
        wait_until(lambda: theirs.post("execs", {"cmd": ["true"]}, wait="true").status == 200, 30,
                   lambda: "not reached with the new key")
    finally:
        assert mine.destroy() == 204 and theirs.destroy() == 204
    del world.settings["other"]
    world.write_settings()
    reload(world)


def reload(world):
    def at():
        return world.rest.get("/api/providers").json.get("reload", {}).get("at")

    before = at()
    world.daemon.process.send_signal(1)
    wait_until(lambda: at() != before, 30, lambda: "not read again")
    loaded = world.rest.get("/api/providers").json["reload"]
    assert loaded["in_force"] is True, loaded


# What is sent, to the letter.

class Notes(http.server.BaseHTTPRequestHandler):
    """Answers what a check wants, refuses to make anything, and keeps what it was sent."""

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def take(self):
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        self.server.seen.append((self.command, self.path, self.headers, body))

    def do_GET(self):
        self.take()
        self.answer(200, [])

    def do_POST(self):
        self.take()
        self.answer(400, {"code": 400, "message": "nothing is made here"})

    def log_message(self, *_):
        pass


@pytest.fixture
def notes():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Notes)
    server.seen = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_what_is_sent(notes):
    url = f"http://127.0.0.1:{notes.server_address[1]}"
    settings = {"api_url": url, "sandbox_url": url, "api_key": "e2b_secret", "template": "mine",
                "timeout": 120, "region": "eu-west-1", "headers": {"X-Team": "blue"}}
    with world_of(e2b=settings) as world:
        answer = world.rest.call(
            "POST", "/api/sandboxes",
            {"provider": "e2b", "metadata": {"a": "b"}, "env": {"X": "y=z"},
             "networkMode": "bridge"}, {"traceparent": TRACE, "X-Request-Id": "mine-1"})
        assert answer.status == 400 and "nothing is made here" in answer.error["message"]
        view = world.facts("e2b")
        assert view["kind"] == "e2b"
        assert b"e2b_secret" not in world.rest.get("/api/providers").body
        (method, path, headers, body), = [one for one in notes.seen if one[0] == "POST"]
        assert path == "/sandboxes"
        assert (headers["X-API-Key"], headers["X-Region"]) == ("e2b_secret", "eu-west-1")
        assert headers["X-Team"] == "blue" and headers["X-Request-Id"] == "mine-1"
        assert headers["traceparent"].split("-")[1] == TRACE.split("-")[1]
        assert headers["traceparent"].split("-")[2] != TRACE.split("-")[2]
        sent = json.loads(body)
        assert sent.pop("metadata").items() >= {"a": "b"}.items()
        assert sent == {"templateID": "mine", "timeout": 120, "secure": True,
                        "allow_internet_access": True, "envVars": {"X": "y=z"}}
        # The checks are nobody's request.
        health = [one for one in notes.seen if one[1] == "/health"]
        assert health and all("X-Request-Id" not in one[2] for one in health)
        assert "e2b_secret" not in world.daemon.log.read_text()
        world.rest.post("/api/sandboxes", {"provider": "e2b", "template": "theirs"})
        assert json.loads(notes.seen[-1][3])["templateID"] == "theirs" or any(
            b'"theirs"' in one[3] for one in notes.seen)


def test_a_network_policy_is_translated_or_refused(notes):
    url = f"http://127.0.0.1:{notes.server_address[1]}"
    with world_of(e2b={"api_url": url, "sandbox_url": url, "api_key": "e2b_secret"}) as world:
        def create(**network):
            """What the service is asked for, and the answer."""
            answer = world.rest.post("/api/sandboxes", {"provider": "e2b", "network": {"mode": "bridge", **network}})
            sent = [json.loads(one[3]) for one in notes.seen if one[0] == "POST"]
            notes.seen.clear()
            return sent, answer

        (sent,), _ = create(allow=["*.example.org"], transforms=[{"domain": "a.example.org", "headers": {"x-a": "b"}}])
        assert sent["allow_internet_access"] is True
        assert sent["network"] == {"allowOut": ["*.example.org"], "denyOut": ["0.0.0.0/0"],
                                   "rules": {"a.example.org": [{"transform": {"headers": {"x-a": "b"}}}]}}
        (sent,), _ = create()
        assert "network" not in sent
        for wider in ({"allow": ["a.test:443"]}, {"deny": ["a.test"]}, {"name": "team1"},
                      {"deny": ["203.0.113.7"], "allow": ["203.0.113.0/24"]}):
            sent, answer = create(**wider)
            assert sent == [] and answer.status == 501, (wider, answer.body)
            assert "e2b cannot enforce this network policy" in answer.error["message"]


def test_the_smallest_size_that_fits_is_asked_for():
    sizes = [{"template": "base", "memoryMB": 2048, "cpuCores": 2}]
    with places.world(["e2b"], e2b={"sizes": sizes}) as made:
        place = made.places["e2b"]
        with place.box(limits={"memoryMB": 1024, "cpuCores": 2}) as box:
            assert box.view["waived"] == ["pids", "disk"], box.view
        refused = made.rest.post("/api/sandboxes", {"limits": {"memoryMB": 4096}})
        assert refused.status == 409 and "memory" in refused.error["message"], refused.body
