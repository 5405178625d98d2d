"""Header rules: TLS of domains that have one is ended in atoll-egress, which adds headers with secrets that
the sandbox never sees. The servers are real ones (Node) in a network namespace of their own."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from boxes import Box
from daemons import wait_until
from networks import NAMES, egress_of, networked
from rest import Rest

SERVER = Path(__file__).with_name("far_server.js")
SECRET = "sk-live-3f7c0e8a9d"
BEARER = {"headers": {"authorization": "Bearer ${secret.key}"}}

pytestmark = pytest.mark.skipif(not shutil.which("node"), reason="the servers are of Node")


class World:
    def __init__(self, daemon):
        self.daemon, self.rest = daemon, Rest(daemon.socket)
        networks = daemon.networks
        self.log = networks.directory / "requests"
        self.log.touch()
        self.server = networks.far.start("node", SERVER, networks.authority.certificate(*NAMES), self.log)
        self.secret("key", SECRET)

    def secret(self, name, value):
        answer = self.rest.post("/api/secrets", {"name": name, "value": value, "replace": True})
        assert answer.status in (200, 201), answer.body

    def box(self, *transforms):
        """A sandbox with these transforms, which may reach everything."""
        return Box(self.rest, network={"mode": "bridge", "transforms": list(transforms)})

    def requests(self):
        """What the servers were asked since the last call."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        self.log.write_text("")
        return lines

    def close(self):
        self.server.kill()
        self.server.wait()
        self.server.stdout.close()


@pytest.fixture(scope="module")
def world():
    with networked() as daemon:
        made = World(daemon)
        yield made
        made.close()


@pytest.fixture(scope="module")
def box(world):
    made = world.box({"domain": "one.test", **BEARER})
    yield made
    made.destroy()


@pytest.fixture(autouse=True)
def forget(world):
    world.requests()


@pytest.mark.parametrize("version,flag", [("2.0", "--http2"), ("1.1", "--http1.1")])
def test_a_header_is_added(world, box, version, flag):
    out = box.out(f"curl -sS -m 20 {flag} -w '%{{http_version}}' https://one.test/a?b=c")
    assert out == f"GET /a?b=c over 2.0\n{version.removesuffix('.0')}"
    [request] = world.requests()
    assert request["headers"]["authorization"] == f"Bearer {SECRET}"
    assert request["tls"]


def test_a_secret_is_sent_over_tls_only(world, box):
    assert "sent over TLS only: use https://" in box.out("curl -sS -m 20 http://one.test/p")
    assert world.requests() == []
    forwards = world.box({"domain": "one.test", "forward": "http://two.test", **BEARER})
    assert "sent over TLS only" in forwards.out("curl -sS -m 20 https://one.test/p")
    assert world.requests() == []
    forwards.destroy()


def test_plain_http(world):
    box = world.box({"domain": "one.test", "headers": {"x-team": "blue"}})
    assert box.out("curl -sS -m 20 http://one.test/p") == "GET /p over 1.1"
    [request] = world.requests()
    assert request["headers"]["x-team"] == "blue"
    assert not request["tls"]
    box.destroy()


def test_the_clients_header_is_replaced(world, box):
    box.out("curl -sS -m 20 -H 'Authorization: Bearer mine' https://one.test/")
    [request] = world.requests()
    assert request["headers"]["authorization"] == f"Bearer {SECRET}"


def test_other_domains_are_not_touched(world, box):
    """The control: the same server by another name gets what the client sends, and its certificate is the
    server's own."""
    issuer = box.out("curl -sS -m 20 -v -H 'Authorization: Bearer mine' https://two.test/ 2>&1 "
                     "| grep issuer:")
    assert "far CA" in issuer
    [request] = world.requests()
    assert request["headers"]["authorization"] == "Bearer mine"
    assert "Atoll egress CA" in box.out("curl -sS -m 20 -v https://one.test/ 2>&1 | grep issuer:")


def test_programs_trust_the_certificate(world, box):
    scripts = {
        "curl": "curl -sS -m 20 -f https://one.test/ >/dev/null",
        "python": "python3 -c \"import urllib.request as r; r.urlopen('https://one.test/', timeout=20)\"",
        "node": "node -e \"require('https').get('https://one.test/', r => r.resume())\"",
        "openssl": "openssl s_client -verify_return_error -connect one.test:443 "
                   "-servername one.test </dev/null",
        "git": "git ls-remote https://one.test/repo 2>&1 | grep -v certificate",
    }
    for name, script in scripts.items():
        ended = box.run(script)
        assert ended["result"]["exit_code"] == 0, (name, ended)
    assert box.out("test -s $NODE_EXTRA_CA_CERTS && test -s $SSL_CERT_FILE && echo there") == "there"


def test_bodies_in_both_directions(world, box):
    script = ("head -c 30000000 /dev/urandom > /tmp/up; sha256sum < /tmp/up; "
              "curl -sS -m 60 {} -H Expect: --data-binary @/tmp/up https://one.test/up >&2; "
              "curl -sS -m 60 {} https://one.test/big/30000000 | wc -c; rm /tmp/up")
    for flag in ("--http2", "--http1.1"):
        digest, size = box.out(script.format(flag, flag)).replace("  -", "").split()
        up, _ = world.requests()
        assert up["body"] == {"bytes": 30000000, "sha256": digest}
        assert size == "30000000"


def test_an_answer_in_pieces_arrives_in_pieces(box):
    out = box.out("curl -sS -N -m 20 https://one.test/slow | while read line; do "
                  "echo $line $(date +%s%3N); done")
    (first, at), (last, later) = [line.split() for line in out.splitlines()]
    assert (first, last) == ("first", "last") and int(later) - int(at) >= 150


def test_trailers_of_grpc(box):
    script = ("const c = require('http2').connect('https://one.test');"
              "const s = c.request({':path': '/grpc', ':method': 'POST', te: 'trailers'});"
              "s.on('trailers', t => console.log(t['grpc-status'], t['grpc-message']));"
              "s.on('data', d => console.log(String(d))); s.on('end', () => c.close()); s.end('ask');")
    assert box.out(f'node -e "{script}"').split() == ["message", "0", "fine"]


def test_many_requests_at_once(world, box):
    out = box.out("curl -sS -m 60 -Z --http2 'https://one.test/[1-80]'")
    assert len(re.findall("over 2.0", out)) == 80
    assert all(r["headers"]["authorization"] == f"Bearer {SECRET}" for r in world.requests())


def test_upgrade(world):
    box = world.box({"domain": "one.test", "headers": {"authorization": "Bearer mine"}})
    for scheme in ("http", "https"):
        script = (f"const r = require('{scheme}').request('{scheme}://one.test/ws',"
                  "{headers: {connection: 'Upgrade', upgrade: 'echo'}});"
                  "r.on('upgrade', (a, s, head) => { let all = String(head); s.write('there');"
                  "s.on('data', d => { all += d; if (all == 'hello there') { console.log(all); s.end(); } });"
                  "}); r.end();")
        assert box.out(f'node -e "{script}"', timeoutSeconds=30) == "hello there"
        [request] = world.requests()
        assert request["headers"]["authorization"] == "Bearer mine"
    box.destroy()


def test_another_host_on_the_same_connection(world, box):
    assert box.out("curl -sS -m 20 -H 'Host: two.test' -w '%{http_code}' https://one.test/"
                   ).endswith("421")
    assert world.requests() == []


def test_fixed_answers_and_forwards(world):
    made = world.box({"domain": "two.test", "status": 418, "body": "teapot"},
                     {"domain": "one.test", "forward": "https://three.test/base"})
    assert made.out("curl -sS -m 20 -w ' %{http_code}' https://two.test/") == "teapot 418"
    assert world.requests() == []
    assert made.out("curl -sS -m 20 https://one.test/x") == "GET /base/x over 2.0"
    [request] = world.requests()
    assert request["headers"][":authority"] == "three.test"
    assert request["headers"]["x-forwarded-host"] == "one.test"
    made.destroy()


def test_policies_of_vercel_forward_and_answer(world):
    policy = {"allow": {"one.test": [{"forwardURL": "https://three.test/base"}],
                        "two.test": [{"response": {"statusCode": 418, "body": "{}", "contentType": "text/tea",
                                                   "headers": {"X-Pot": "short"}}}]}}
    made = world.rest.post("/vercel/api/v3/sandboxes", {"networkPolicy": policy})
    assert made.status == 200, made.body
    box = made.json["session"]["id"].removeprefix("sbx_")

    def curl(*args):
        return world.rest.post(f"/api/sandboxes/{box}/execs", {"cmd": ["curl", "-sS", "-m", "20", *args]}, wait="true").json["stdout"]

    got = curl("-i", "https://two.test/").lower()
    assert "418" in got and "content-type: text/tea" in got and "x-pot: short" in got
    assert curl("-H", "Vercel-Sandbox-OIDC-Token: forged", "https://one.test/x?y=1").strip() == "GET /base/x?y=1 over 2.0"
    [request] = world.requests()
    told = {name: value for name, value in request["headers"].items() if name.startswith("vercel-")}
    assert told == {"vercel-forwarded-host": "one.test", "vercel-forwarded-scheme": "https",
                    "vercel-forwarded-port": "443", "vercel-forwarded-path": "/x?y=1"}
    world.rest.delete(f"/api/sandboxes/{box}")


def test_a_secret_that_was_removed(world):
    world.secret("brief", "value")
    made = world.box({"domain": "one.test", "headers": {"x-key": "${secret.brief}"}})
    made.out("curl -sS -m 20 -f https://one.test/")
    assert world.requests()[0]["headers"]["x-key"] == "value"
    assert world.rest.delete("/api/secrets/brief").status in (200, 204)
    out = made.out("curl -sS -m 20 -w '%{http_code}' https://one.test/")
    assert out.endswith("502") and "there is no secret brief" in out
    assert world.requests() == []
    made.destroy()


# Keeps one connection open; asks whenever a file appears, and says the status.
ASKER = r"""
import http.client, os, time
c = http.client.HTTPSConnection("one.test", timeout=20)
for number in range(3):
    while not os.path.exists(f"/home/user/ask{number}"):
        time.sleep(0.02)
    c.request("GET", f"/{number}")
    answer = c.getresponse()
    answer.read()
    with open(f"/home/user/new{number}", "w") as out:
        out.write(str(answer.status))
    os.rename(f"/home/user/new{number}", f"/home/user/status{number}")
"""


def test_changes_apply_to_the_next_request(world):
    """On a connection that is open, too."""
    world.secret("changing", "first")
    rule = {"domain": "one.test", "headers": {"x-key": "${secret.changing}"}}
    made = world.box(rule)
    made.out("cat > /home/user/asker.py <<'END'\n" + ASKER + "\nEND")
    made.detach("exec python3 /home/user/asker.py")

    def ask(number):
        made.out(f"touch /home/user/ask{number}")
        return made.out(f"for i in $(seq 500); do test -e /home/user/status{number} && "
                        f"exec cat /home/user/status{number}; sleep 0.02; done; exit 1")

    assert ask(0) == "200"
    world.secret("changing", "second")
    assert ask(1) == "200"
    answer = world.rest.put(f"/api/sandboxes/{made.id}/network", {
        "mode": "bridge", "transforms": [{**rule, "headers": {"x-other": "third"}}]})
    assert answer.status in (200, 204), answer.body
    assert ask(2) == "200"
    keys = [(r["headers"].get("x-key"), r["headers"].get("x-other")) for r in world.requests()]
    assert keys == [("first", None), ("second", None), (None, "third")]
    lines = made.get("network/connections").json["connections"]
    assert len({line["started_at"] for line in lines if line["port"] == 443}) == 1, lines
    made.destroy()
    world.rest.delete("/api/secrets/changing")


def test_a_transform_allows_nothing(world):
    made = Box(world.rest, network={"mode": "bridge", "allow": ["two.test"],
                                    "transforms": [{"domain": "one.test", **BEARER}]})
    assert made.run("curl -sS -m 20 https://one.test/")["result"]["exit_code"] != 0
    assert world.requests() == []
    made.out("curl -sS -m 20 -f https://two.test/")  # the control
    assert len(world.requests()) == 1
    made.destroy()


def test_a_server_that_is_not_trusted(world):
    """The certificate is for other names. The control: without a rule, and with curl's -k, it is reached."""
    script = "curl -sS -m 20 -k -w '%{http_code}' https://deep.www.one.test:8443/"
    certificate = world.daemon.networks.authority.certificate("wrong.test")
    server = world.daemon.networks.far.start("node", SERVER, certificate, world.log, 8443, 8080)
    made, control = world.box({"domain": "deep.www.one.test", **BEARER}), world.box()
    out = made.out(script)
    assert out.endswith("502") and "the certificate of deep.www.one.test is not trusted" in out
    assert world.requests() == []
    assert control.out(script).endswith("200")
    server.kill()
    server.wait()
    server.stdout.close()
    made.destroy()
    control.destroy()


def test_rules_hold_after_the_death_of_the_worker(world, box):
    pid, _ = egress_of(world.daemon)["worker"]
    os.kill(pid, signal.SIGKILL)
    script = "curl -sS -m 5 -f https://one.test/again"
    wait_until(lambda: box.run(script)["result"]["exit_code"] == 0, 20, lambda: "no answer")
    assert world.requests()[-1]["headers"]["authorization"] == f"Bearer {SECRET}"


# All that a program inside can look at: files, environments and the memory of every process.
SEARCH = r"""
import os, re, sys
wanted = sys.argv[1][::-1].encode()
found = set()
for folder, _, files in os.walk("/"):
    if re.match("/(proc|sys|dev|usr)(/|$)", folder):
        continue
    for name in files:
        path = os.path.join(folder, name)
        try:
            if os.path.isfile(path) and wanted in open(path, "rb").read():
                found.add("file " + path)
        except OSError:
            pass
own = os.getpid()
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline"):
        try:
            if wanted in open(f"/proc/{pid}/{name}", "rb").read():
                found.add(name)
        except OSError:
            pass
    if int(pid) == own:
        continue
    try:
        memory = open(f"/proc/{pid}/mem", "rb", 0)
        for line in open(f"/proc/{pid}/maps"):
            begin, end = (int(x, 16) for x in line.split()[0].split("-"))
            if line.split()[1][0] != "r" or end > 1 << 63:
                continue
            try:
                memory.seek(begin)
                if wanted in memory.read(end - begin):
                    found.add("memory")
            except OSError:
                pass
    except OSError:
        pass
print(sorted(found))
"""


def search(box, what):
    """Where a text is found inside. It is passed backwards, so that the search does not find itself."""
    box.out("cat > /home/user/search.py <<'END'\n" + SEARCH + "\nEND")
    found = [box.out(f"{sudo} python3 /home/user/search.py {what[::-1]}").replace("'", '"')
             for sudo in ("", "sudo")]
    return {place for places in found for place in json.loads(places)}


def test_the_secret_is_never_inside(world, box):
    """The control: a header that the client sets itself is found, in its memory and in its environment."""
    own = "sk-own-77aa1199"
    loop = ("import ctypes, http.client, os, time\n"
            "ctypes.CDLL(None).prctl(0x59616d61, -1, 0, 0, 0)\n"  # PR_SET_PTRACER: all may read its memory
            "c = http.client.HTTPSConnection('one.test', timeout=20)\n"
            "kept = []\n"
            "for _ in range(3):\n"
            "    c.request('GET', '/', headers={'X-Own': os.environ['OWN'], 'Authorization': 'Bearer mine'})\n"
            "    kept.append(c.getresponse().read())\n"
            "open('/home/user/ready', 'w').close()\n"
            "time.sleep(60)\n")
    box.out("cat > /home/user/loop.py <<'END'\n" + loop + "END")
    box.detach("exec python3 /home/user/loop.py", env={"OWN": own})
    box.out("for i in $(seq 300); do test -e /home/user/ready && exit 0; sleep 0.1; done; exit 1")
    requests = world.requests()
    assert len(requests) == 3
    assert all(r["headers"]["authorization"] == f"Bearer {SECRET}" for r in requests)
    assert {"memory", "environ"} <= search(box, own)
    assert search(box, SECRET) == set()
