"""Downloads that never change are kept for all sandboxes (--cache): a second one does not ask the server. What
may differ from client to client is never kept."""

import base64
import hashlib
import http.server
import io
import json
import os
import re
import shutil
import signal
import ssl
import tarfile
import threading
import zipfile

import pytest

from boxes import Box
from daemons import wait_until
from networks import FAR, NAMES, egress_of, networked
from proxies import Socks
from rest import Rest

TABLE = """
downloads:
  - name: files
    hosts: [one.test]
    paths: ["/files/**/*.bin", "/*/-/*.tgz"]
  - name: by digest
    hosts: [one.test]
    paths: ["/packages/**/*.whl", "/packages/**/*.bin"]
    digest: blake2b-256
"""
CONTENT = os.urandom(300_000)
UPSTREAMS = 16  # connections to servers, of one connection of a client


def digest_path(content, name):
    digits = hashlib.blake2b(content, digest_size=32).hexdigest()
    return f"/packages/{digits[:2]}/{digits[2:4]}/{digits[4:]}/{name}"


class Files(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.asked.append(self.path)
        self.server.heads[self.path] = {name.lower(): value for name, value in self.headers.items()}
        self.server.ports[self.path] = self.client_address[1]
        path = self.headers.get("X-Original-URL", self.path).partition("?")[0]
        if path.startswith("/idle/") and len([p for p in self.server.asked if p.startswith("/idle/")]) < UPSTREAMS:
            self.server.all_busy.wait(20)
        elif path.startswith("/idle/"):
            self.server.all_busy.set()
        status, headers, content = self.server.pages.get(path, (404, {}, b"absent"))
        self.send_response(status)
        for name, value in {"Content-Type": "application/octet-stream",
                            "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()
        if int(headers.get("Content-Length", 0)) > len(content):
            self.server.go_on.wait(30)
            self.close_connection = True

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listening, certificate=None):
        super().__init__(listening.getsockname()[:2], Files, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(listening, server_side=True)
        self.pages, self.asked, self.go_on = {}, [], threading.Event()
        self.all_busy = threading.Event()
        self.heads, self.ports = {}, {}  # of the last request for a path: its headers, the client's port
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass  # clients that do not trust it, or have gone


class World:
    def __init__(self, daemon):
        self.daemon, self.rest = daemon, Rest(daemon.socket)
        networks = daemon.networks
        certificate = networks.authority.certificate(*NAMES)
        self.tls = Server(networks.far.listen(FAR[0], 443), certificate)
        self.plain = Server(networks.far.listen(FAR[0], 80))
        self.other = Server(networks.far.listen(FAR[1], 443), certificate)
        self.plain.pages = self.other.pages = self.tls.pages
        self.number = 0

    def page(self, path, content=CONTENT, status=200, **headers):
        self.tls.pages[path] = (status, {name.replace("_", "-"): value for name, value in headers.items()}, content)
        return path

    def new(self, content=CONTENT, status=200, **headers):
        """A page that was never asked for."""
        self.number += 1
        return self.page(f"/files/{self.number}/a.bin", content, status, **headers)

    def asked(self, path):
        return sum(server.asked.count(path) for server in (self.tls, self.plain, self.other))

    def metric(self, name):
        [found] = re.findall(rf"^{re.escape(name)} (\S+)$", self.rest.get("/metrics").body.decode(), re.M)
        return float(found)

    @property
    def directory(self):
        return self.daemon.state / "egress" / "cache"

    def wait_kept(self, count):
        wait_until(lambda: len([n for n in os.listdir(self.directory) if "." not in n]) >= count, 20,
                   lambda: os.listdir(self.directory))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    table = tmp_path_factory.mktemp("cache") / "downloads.yaml"
    table.write_text(TABLE)
    with networked(ATOLL_CACHE="64M", ATOLL_CACHE_TABLE=str(table)) as daemon:
        yield World(daemon)


@pytest.fixture(scope="module")
def box(world):
    made = Box(world.rest, network={"mode": "bridge"})
    yield made
    made.destroy()


@pytest.fixture(scope="module")
def other(world):
    made = Box(world.rest, network={"mode": "bridge"})
    yield made
    made.destroy()


def fetch(box, url, *options):
    """What the client gets: status, header cache-status, digest of the content."""
    words = " ".join(options)
    out = box.out(f"curl -sS -m 30 {words} -D /tmp/head -o /tmp/body -w '%{{http_code}}' '{url}'; echo; "
                  "tr -d '\\r' </tmp/head | sed -n 's/^[Cc]ache-[Ss]tatus: //p'; sha256sum </tmp/body | cut -c1-64")
    lines = out.splitlines()
    return int(lines[0]), lines[1] if len(lines) > 2 else "", lines[-1]


def settle(world, files):
    wait_until(lambda: world.metric("atoll_cache_files") >= files, 20, lambda: "not kept")


def kept(world):
    return len([n for n in os.listdir(world.directory) if "." not in n])


@pytest.mark.parametrize("scheme,flag", [("https", "--http2"), ("https", "--http1.1"), ("http", "")])
def test_the_second_sandbox_asks_no_server(world, box, other, scheme, flag):
    path, before = world.new(), kept(world)
    want = hashlib.sha256(CONTENT).hexdigest()
    assert fetch(box, f"{scheme}://one.test{path}", flag) == (200, "", want)
    world.wait_kept(before + 1)
    assert fetch(other, f"{scheme}://one.test{path}", flag) == (200, "atoll; hit", want)
    assert world.asked(path) == 1


def test_other_hosts_are_not_touched(world, box):
    """The control: a host that is not in the table is asked each time, and shows its own certificate."""
    path = world.new()
    for _ in range(2):
        assert fetch(box, f"https://two.test{path}")[0] == 200
    assert world.asked(path) == 2
    assert "far CA" in box.out("curl -sS -m 20 -v https://two.test/ 2>&1 | grep issuer:")
    assert "Atoll egress CA" in box.out("curl -sS -m 20 -v https://one.test/ 2>&1 | grep issuer:")


@pytest.mark.parametrize("options,headers,status", [
    (["-H 'Authorization: Bearer mine'"], {}, 200),
    (["-H 'Cookie: a=b'"], {}, 200),
    (["-H 'Range: bytes=0-9'"], {}, 200),
    (["-H 'If-None-Match: x'"], {}, 200),
    (["-H 'Cache-Control: no-store'"], {}, 200),
    (["-X POST"], {}, 200),
    ([], {"Cache_Control": "private, max-age=9"}, 200),
    ([], {"Cache_Control": "no-store"}, 200),
    ([], {"Set_Cookie": "a=b"}, 200),
    ([], {"Vary": "Cookie"}, 200),
    ([], {"Content_Encoding": "gzip"}, 200),
    ([], {}, 404),
    ([], {}, 206),
], ids=lambda value: str(value)[:30])
def test_what_may_differ_is_not_kept(world, box, options, headers, status):
    path, before = world.new(status=status, **headers), kept(world)
    for _ in range(2):
        fetch(box, f"https://one.test{path}", *options)
    if "-X POST" not in options:
        assert world.asked(path) == 2
    assert kept(world) == before


@pytest.mark.parametrize("suffix", ["?a=b", "/../a.bin", "/%2e%2e/a.bin"])
def test_only_urls_of_the_table_are_kept(world, box, suffix):
    path = world.new()
    world.page(path + suffix.partition("?")[0])
    before = kept(world)
    for _ in range(2):
        assert fetch(box, f"https://one.test{path}{suffix}", "--path-as-is")[0] == 200
    assert world.asked(path + suffix) == 2 and kept(world) == before


def test_the_digest_of_a_url_is_verified(world, box, other):
    good = world.page(digest_path(CONTENT, "good.whl"))
    bad = world.page(digest_path(CONTENT, "bad.bin"), CONTENT + b"x")
    before, refused = kept(world), 'atoll_cache_refused_total{why="digest"}'
    for one in (box, other):
        assert fetch(one, f"https://one.test{bad}")[:2] == (200, "")
    wait_until(lambda: world.metric(refused) >= 2, 20, lambda: "no mismatch")
    assert kept(world) == before
    assert fetch(box, f"https://one.test{good}")[:2] == (200, "")
    world.wait_kept(before + 1)
    assert fetch(other, f"https://one.test{good}")[:2] == (200, "atoll; hit")


def test_the_digest_of_an_answer_is_verified(world, box):
    digest = base64.b64encode(hashlib.sha256(CONTENT).digest()).decode()
    before, refused = kept(world), 'atoll_cache_refused_total{why="digest"}'
    count = world.metric(refused)
    bad = world.new(CONTENT + b"x", Repr_Digest=f"sha-256=:{digest}:")
    assert fetch(box, f"https://one.test{bad}")[0] == 200
    wait_until(lambda: world.metric(refused) == count + 1, 20, lambda: "no mismatch")
    good = world.new(Repr_Digest=f"sha-256=:{digest}:")
    assert fetch(box, f"https://one.test{good}")[0] == 200
    world.wait_kept(before + 1)
    assert kept(world) == before + 1


def test_policies_decide_as_without_it(world, box):
    path, before = world.new(), kept(world)
    assert fetch(box, f"https://one.test{path}")[0] == 200
    world.wait_kept(before + 1)
    for policy in ({"deny": ["one.test"]}, {"deny": [FAR[0]]}, {"allow": ["two.test"]}):
        denied = Box(world.rest, network={"mode": "bridge", **policy})
        assert denied.run(f"curl -sS -m 20 https://one.test{path}")["result"]["exit_code"] != 0, policy
        denied.destroy()
    # An address that is not the name's: it goes there, and neither asks nor fills the cache.
    count = len(world.other.asked)
    fetch(box, f"https://one.test{path}", f"--connect-to one.test:443:{FAR[1]}:443")
    assert len(world.other.asked) == count + 1


def test_a_header_rule_counts_more(world):
    """What is asked with a tenant's secret is not shared."""
    path, before = world.new(), kept(world)
    made = Box(world.rest, network={"mode": "bridge", "transforms": [
        {"domain": "one.test", "headers": {"authorization": "Bearer mine"}}]})
    for _ in range(2):
        assert fetch(made, f"https://one.test{path}")[:2] == (200, "")
    made.destroy()
    assert world.asked(path) == 2 and kept(world) == before


# One connection; a request for each path, when its file is there.
STEPS = """
import http.client, os, sys, time
line = http.client.HTTPConnection("one.test", 80, timeout=20)
line.connect()
line.auto_open = 0
for number, path in enumerate(sys.argv[1:]):
    while not os.path.exists(f"/tmp/step{number}"):
        time.sleep(0.02)
    line.request("GET", path)
    line.getresponse().read()
    open(f"/tmp/done{number}", "w").close()
"""


def test_a_connection_through_a_proxy_fills_nothing(world, other):
    """The tenant makes a connection through its own proxy, removes the proxy, and uses the connection again."""
    evil = Server(world.daemon.networks.far.listen(FAR[5], 80))
    path, close, through = world.new(), world.page("/close", b"x", Connection="close"), "/through"
    evil.pages = {path: (200, {}, b"evil" * 1000), through: (200, {}, b"x")}
    proxy, before = Socks(world.daemon.networks.far, FAR[5]), kept(world)
    made = Box(world.rest, network={"mode": "bridge"})

    def step(number, **network):
        answer = world.rest.put(f"{made.path}/network", {"mode": "bridge", **network})
        assert answer.status == 200, answer.body
        made.out(f"touch /tmp/step{number}; for i in $(seq 200); do [ -e /tmp/done{number} ] && exit; sleep 0.1; done; "
                 "cat /tmp/log; exit 1")

    made.out(f"cat >/tmp/steps.py <<'END'\n{STEPS}\nEND")
    made.detach(f"python3 /tmp/steps.py {close} {through} {path} >/tmp/log 2>&1")
    step(0)
    step(1, proxy=proxy.login)
    assert evil.asked == [through], "the control: the connection goes through the proxy"
    step(2)
    assert evil.asked == [through], "a connection through a proxy that the policy no longer has was used"
    made.destroy()
    want = hashlib.sha256(CONTENT).hexdigest()
    assert fetch(other, f"http://one.test{path}") == (200, "", want)
    world.wait_kept(before + 1)
    assert fetch(other, f"http://one.test{path}") == (200, "atoll; hit", want)
    proxy.listening.close()
    evil.shutdown()
    evil.socket.close()


@pytest.mark.parametrize("scheme,flag", [("https", "--http2"), ("https", "--http1.1"), ("http", "")])
def test_headers_outside_the_url_choose_no_answer(world, box, other, scheme, flag):
    path, before = world.new(), kept(world)
    world.page("/evil.bin", b"evil" * 1000)
    forged = ["-H 'X-Original-URL: /evil.bin'", "-H 'X-Forwarded-Host: evil.test'", "-H 'TE: trailers'",
              "-H 'X-HTTP-Method-Override: HEAD'", "-H 'Accept: text/x'", "-H 'Accept-Language: eo'",
              "-H 'Host: ONE.test.'", "-A me"]
    want = hashlib.sha256(CONTENT).hexdigest()
    assert fetch(box, f"{scheme}://one.test{path}", flag, *forged) == (200, "", want)
    world.wait_kept(before + 1)
    assert fetch(other, f"{scheme}://one.test{path}", flag) == (200, "atoll; hit", want)
    server = world.tls if scheme == "https" else world.plain
    assert server.heads[path] == {"host": "one.test", "accept": "text/x", "accept-language": "eo", "user-agent": "me"}
    # The control: a URL that is not in the table is asked for as the client asks.
    fetch(box, f"{scheme}://one.test/other", flag, *forged)
    assert server.heads["/other"]["x-original-url"] == "/evil.bin"


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_a_download_without_a_digest_gets_a_connection_of_its_own(world, box, scheme):
    """An answer that an earlier request left on a connection cannot be taken for that of the download."""
    own, before = [world.new(), world.new()], kept(world)
    content = os.urandom(1000)
    checked = world.page(digest_path(content, "own.bin"), content)
    paths = ["/first", own[0], "/second", own[1], checked]
    urls = " ".join(f"-o /dev/null {scheme}://one.test{path}" for path in paths)
    assert box.out(f"curl -sS -m 30 -w '%{{num_connects}}\n' {urls}").split() == ["1", "0", "0", "0", "0"]
    ports = (world.tls if scheme == "https" else world.plain).ports
    assert ports["/first"] == ports["/second"] == ports[checked], "the control: other requests share one"
    assert len({ports[path] for path in ("/first", *own)}) == 3
    world.wait_kept(before + 3)


def test_downloads_do_not_wait_for_idle_connections(world, box):
    """Other requests use all connections that one client may have, and leave them idle while downloads wait: they
    are closed for these."""
    content, before = os.urandom(2000), kept(world)
    paths = [world.new(content) for _ in range(40)]
    others = [world.page(f"/idle/{number}", content) for number in range(UPSTREAMS + 4)]
    words = " ".join(f"-o /dev/null https://one.test{path}" for path in others + paths)
    out = box.out(f"curl -sS -m 40 --http2 -Z --parallel-max 80 -w '%{{http_code}} %{{num_connects}}\\n' {words}")
    results = [line.split() for line in out.splitlines()]
    assert [status for status, _ in results] == ["200"] * len(others + paths)
    assert sum(int(connects) for _, connects in results) == 1, "the control: the client has one connection"
    assert world.tls.all_busy.is_set(), "the control: all connections were busy"
    world.wait_kept(before + len(paths))


@pytest.mark.parametrize("name", ["X-Api-Key", "X-JFrog-Art-Api", "Private-Token"])
def test_credentials_of_repositories_are_passed_on(world, box, name):
    path, before = world.new(), kept(world)
    for _ in range(2):
        assert fetch(box, f"https://one.test{path}", f"-H '{name}: mine'")[:2] == (200, "")
    assert world.tls.heads[path][name.lower()] == "mine"
    assert world.asked(path) == 2 and kept(world) == before


def test_a_damaged_file_is_not_given(world, box):
    path = world.new()
    names = set(os.listdir(world.directory))
    assert fetch(box, f"https://one.test{path}")[0] == 200
    wait_until(lambda: [n for n in set(os.listdir(world.directory)) - names if "." not in n], 20, lambda: "not kept")
    [name] = [n for n in set(os.listdir(world.directory)) - names if "." not in n]
    with open(world.directory / name, "r+b") as file:
        file.seek(-10, os.SEEK_END)
        file.write(b"0123456789")
    ended = box.run(f"curl -sS -m 20 -o /dev/null https://one.test{path}")
    assert ended["result"]["exit_code"] != 0, "a damaged download was given"
    assert fetch(box, f"https://one.test{path}") == (200, "", hashlib.sha256(CONTENT).hexdigest())
    assert world.asked(path) == 2


def test_it_survives_a_crash_and_half_made_files_do_not(world, box):
    path, half = world.new(), world.new(CONTENT, Content_Length="9000000")
    before = kept(world)
    assert fetch(box, f"https://one.test{path}")[0] == 200
    world.wait_kept(before + 1)
    world.page(half, CONTENT * 4, Content_Length="9000000")
    box.detach(f"curl -sS -m 60 -o /dev/null https://one.test{half}")
    wait_until(lambda: any(n.endswith(".part") for n in os.listdir(world.directory)), 20, lambda: "nothing is written")
    worker = egress_of(world.daemon)["worker"]
    os.kill(worker[0], signal.SIGKILL)
    wait_until(lambda: egress_of(world.daemon).get("worker", worker) != worker, 20, lambda: "no new worker")
    wait_until(lambda: not any(n.endswith(".part") for n in os.listdir(world.directory)), 20,
               lambda: os.listdir(world.directory))
    world.tls.go_on.set()
    wait_until(lambda: box.run("curl -s -m 5 http://one.test/")["result"]["exit_code"] == 0, 20, lambda: "no network")
    assert fetch(box, f"https://one.test{path}")[:2] == (200, "atoll; hit")
    assert world.asked(path) == 1
    world.daemon.process.kill()
    world.daemon.process.wait()
    world.daemon.start()
    wait_until(lambda: fetch(box, f"https://one.test{path}")[:2] == (200, "atoll; hit"), 20, lambda: "forgotten")


def test_its_files_belong_to_atoll_egress(world):
    status = os.stat(world.directory)
    assert status.st_uid == 65534 and status.st_mode & 0o7 == 0
    assert all(os.stat(world.directory / name).st_mode & 0o7 == 0 or status.st_mode & 0o7 == 0
               for name in os.listdir(world.directory))


def wheel(name):
    out = io.BytesIO()
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(out, "w") as file:
        file.writestr(f"{name}.py", "answer = 42\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return out.getvalue()


def test_a_second_pip_install_downloads_nothing(world, box, other):
    if box.run("python3 -m pip --version")["result"]["exit_code"]:
        pytest.skip("there is no pip in the template")
    content, before = wheel("demo"), kept(world)
    path = world.page(digest_path(content, "demo-1.0-py3-none-any.whl"), content)
    digest = hashlib.sha256(content).hexdigest()
    world.page("/simple/demo/", f'<a href="https://one.test{path}#sha256={digest}">demo-1.0-py3-none-any.whl</a>'
               .encode(), Content_Type="text/html")
    script = ("python3 -m pip install -q --no-cache-dir --disable-pip-version-check --index-url https://one.test/simple "
              "--target /home/user/p demo && cd /home/user/p && python3 -c 'import demo; print(demo.answer)'")
    assert box.out(script).endswith("42")
    world.wait_kept(before + 1)
    assert other.out(script).endswith("42")
    assert world.asked(path) == 1
    assert world.asked("/simple/demo/") == 2, "the index is asked each time"


def tarball(name):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as file:
        text = json.dumps({"name": name, "version": "1.0.0", "main": "index.js"}).encode()
        for path, content in (("package.json", text), ("index.js", b"module.exports = 42\n")):
            member = tarfile.TarInfo(f"package/{path}")
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.skipif(not shutil.which("npm"), reason="there is no npm")
def test_a_second_npm_ci_downloads_nothing(world, box, other):
    content, before = tarball("demo"), kept(world)
    path = world.page("/demo/-/demo-1.0.0.tgz", content)
    lock = {"name": "app", "lockfileVersion": 3, "packages": {
        "": {"name": "app", "dependencies": {"demo": "1.0.0"}},
        "node_modules/demo": {"version": "1.0.0", "resolved": f"https://one.test{path}", "integrity":
                              "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()}}}
    package = {"name": "app", "dependencies": {"demo": "1.0.0"}}
    script = (f"mkdir -p /home/user/app && cd /home/user/app && echo '{json.dumps(package)}' >package.json && "
              f"echo '{json.dumps(lock)}' >package-lock.json && npm ci --silent --no-audit --no-fund "
              "--registry https://one.test/ && node -p 'require(\"demo\")'")
    assert box.out(script).endswith("42")
    world.wait_kept(before + 1)
    assert other.out(script).endswith("42")
    assert world.asked(path) == 1


def test_a_bad_table_is_refused_with_its_line(world, tmp_path):
    import subprocess
    for text, wanted in (("downloads:\n  - name: a\n    hosts: [one.test]\n", "paths"),
                         ("downloads:\n  - name: a\n    hosts: [10.0.0.1]\n    paths: [/a]\n", "hosts must have domains"),
                         ("downloads:\n  - name: a\n    hosts: [a.test]\n    paths: [a]\n", "begin with a slash")):
        table = tmp_path / "downloads.yaml"
        table.write_text(text)
        done = subprocess.run([world.daemon.build / "atolld", "--state", tmp_path / "state", "--socket", tmp_path / "s",
                               "--cache", "1G", "--cache-table", table], capture_output=True, text=True, timeout=30,
                              check=False)
        assert done.returncode != 0 and wanted in done.stderr, (text, done.stderr)
