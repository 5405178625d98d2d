"""Secrets in requests of sandboxes: the server gets the value, the sandbox only knows its name."""

import contextlib
import json
import os
import signal
from pathlib import Path

import pytest

from boxes import Box
from daemons import cgroups, wait_until
from networks import FAR, NAMES, Page, Web, networked
from rest import Rest

PORT = 8080
FIRST, SECOND = "canary-first-4bd0", "canary-second-77e1"
POLICY = {"transforms": [{"domain": "one.test", "headers": {"Authorization": "Bearer ${secret.token}"}}]}


class Noting(Page):
    """Notes the header instead of the name."""

    noted = "Authorization"


@pytest.fixture(scope="module")
def daemon():
    with networked() as started:
        started.rest = Rest(started.socket)
        yield started


@pytest.fixture(scope="module")
def web(daemon):
    certificate = daemon.networks.authority.certificate(*NAMES)
    server = Web(daemon.networks.far.listen(FAR[0], PORT), "one", certificate)
    server.RequestHandlerClass = Noting
    yield server
    server.close()


@pytest.fixture
def secret(daemon):
    set_secret(daemon, FIRST)
    yield "token"
    daemon.rest.delete("/api/secrets/token")


def set_secret(daemon, value):
    answer = daemon.rest.post("/api/secrets", {"name": "token", "value": value, "replace": True})
    assert answer.status in (200, 201), answer.body


def place(host):
    return host if ":" in host else f"{host}:{PORT}/"


def ask(box, host="one.test", options=""):
    """The status that a program inside gets; 000: no answer."""
    return box.run(f"curl -s -o /dev/null -w '%{{http_code}}' --max-time 5 {options} 'https://{place(host)}'")["stdout"]


def sees(box, web, value):
    del web.asked[:]
    return ask(box) == "200" and web.asked == [value]


def worker_of(daemon):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"/atoll-egress") and words[1] == str(daemon.state).encode() \
                    and Path("/proc", pid, "comm").read_text().strip() == "atoll-egress":
                return int(pid)
    return None


def test_the_server_gets_the_value(daemon, web, secret):
    box = Box(daemon.rest, network=POLICY)
    try:
        assert sees(box, web, f"Bearer {FIRST}")
        # Only where the policy says so.
        del web.asked[:]
        assert ask(box, "two.test", f"--connect-to two.test:{PORT}:{FAR[0]}:{PORT}") == "200" and web.asked == [None]
        # What a program sends itself is replaced.
        assert box.run(f"curl -s -H 'Authorization: mine' https://one.test:{PORT}/")["result"]["exit_code"] == 0
        assert web.asked[-1] == f"Bearer {FIRST}"
        # A new value holds for the next request, without a change of the sandbox.
        set_secret(daemon, SECOND)
        assert sees(box, web, f"Bearer {SECOND}")
        shown = daemon.rest.get(f"/api/sandboxes/{box.id}").body
        assert b"${secret.token}" in shown and b"canary" not in shown
    finally:
        box.destroy()


def test_a_part_of_a_server(daemon, web, secret):
    """The key is for some paths; the rest of the server is refused."""
    rules = [POLICY["transforms"][0] | {"match": {"path": {"startsWith": "/v1/"}, "method": ["GET"]}},
             {"domain": "one.test", "status": 403}]
    box = Box(daemon.rest, network={"transforms": rules})
    try:
        del web.asked[:]
        said = [ask(box, path, options) for path, options in (
            (f"one.test:{PORT}/v1/x?", ""), (f"one.test:{PORT}/v2?", ""), (f"one.test:{PORT}/v1/x?", "-X DELETE"),
            (f"one.test:{PORT}/v1/../v2?", "--path-as-is"), (f"one.test:{PORT}/v1/%2e%2e/v2?", "--path-as-is"))]
        assert said == ["200", "403", "403", "400", "400"] and web.asked == [f"Bearer {FIRST}"]
    finally:
        box.destroy()


def processes_of(box):
    """Its processes, as the host numbers them."""
    return {pid for path in cgroups() if path.name == box.id
            for file in path.rglob("cgroup.procs") for pid in file.read_text().split()}


def memory_holds(pid, text):
    with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as maps, \
            open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            low, high = (int(number, 16) for number in line.split()[0].split("-"))
            with contextlib.suppress(OSError, ValueError, OverflowError):
                memory.seek(low)
                if text.encode() in memory.read(high - low):
                    return True
    return False


def test_it_is_not_inside(daemon, web, secret):
    """After it was used, it is in the memory of no process of the sandbox, and in no file."""
    box = Box(daemon.rest, network=POLICY)
    try:
        program = f"import time, urllib.request as r; r.urlopen('https://one.test:{PORT}/').read(); time.sleep(60)"
        del web.asked[:]
        box.detach(f'KEPT=kept-by-the-program exec python3 -c "{program}"')
        wait_until(lambda: web.asked == [f"Bearer {FIRST}"], 20, lambda: f"it asked {web.asked}")
        pids = processes_of(box)
        assert len(pids) > 1 and any(memory_holds(pid, "kept-by-the-program") for pid in pids), \
            "the search finds what is there"
        assert not any(memory_holds(pid, FIRST) for pid in pids)
        assert box.run(f"grep -rl '{FIRST[:-1]}[{FIRST[-1]}]' /home /tmp /etc /run 2>/dev/null")["stdout"] == ""
    finally:
        box.destroy()


def test_a_missing_secret_is_refused_with_its_name(daemon, secret):
    policy = {"transforms": [{"domain": "one.test", "headers": {"X": "${secret.nothing}"}}]}
    for path, more in ("/api/sandboxes", {}), ("/api/sessions", {"environment": "Bash"}):
        refused = daemon.rest.post(path, {"network": policy, **more})
        assert refused.status == 400, refused.body
        assert "network.transforms[0].headers.X: there is no secret nothing" in refused.error["message"]
    box = Box(daemon.rest, network=POLICY)
    try:
        refused = daemon.rest.put(f"{box.path}/network", policy)
        assert refused.status == 400 and "there is no secret nothing" in refused.error["message"]
        assert "${secret.token}" in json.dumps(box.view["network"]), "it keeps its policy"
    finally:
        box.destroy()
    set_secret(daemon, "two\nlines")
    refused = daemon.rest.post("/api/sandboxes", {"network": POLICY})
    assert refused.status == 400 and "cannot be in a header" in refused.error["message"]


def test_without_the_secret_nothing_is_sent(daemon, web, secret):
    box = Box(daemon.rest, network=POLICY)
    try:
        assert sees(box, web, f"Bearer {FIRST}")
        assert daemon.rest.delete("/api/secrets/token").status == 204
        del web.asked[:]
        assert ask(box) != "200" and web.asked == []
        set_secret(daemon, SECOND)
        assert sees(box, web, f"Bearer {SECOND}")
    finally:
        box.destroy()


def test_a_rule_of_e2b(daemon, web, secret):
    """Its placeholder is filled, in any case of the name, and one that names nothing is refused."""
    def create(name):
        return daemon.rest.post("/v2/sandboxes", {"templateID": "base", "network": {"rules": {
            "one.test": [{"transform": {"headers": {"Authorization": "Bearer ${e2b.secrets.%s}" % name}}}]}}})
    refused = create("nothing")
    assert refused.status == 400 and "there is no secret nothing" in refused.json["message"], refused.body
    made = create("Token")
    assert made.status == 201, made.body
    box = made.json["sandboxID"]
    try:
        del web.asked[:]
        done = daemon.atoll("exec", box, "--", "curl", "-s", f"https://one.test:{PORT}/", check=True)
        assert done.stdout.startswith("one ") and web.asked == [f"Bearer {FIRST}"]
    finally:
        daemon.rest.delete(f"/sandboxes/{box}")


def test_tenants_have_their_own(daemon, web, secret):
    other = Rest(daemon.socket, {"X-Atoll-Tenant": "other"})
    other.post("/api/secrets", {"name": "token", "value": "theirs"})
    mine, theirs = Box(daemon.rest, network=POLICY), Box(other, network=POLICY)
    try:
        assert sees(mine, web, f"Bearer {FIRST}")
        assert sees(theirs, web, "Bearer theirs")
    finally:
        mine.destroy(), theirs.destroy()
        other.delete("/api/secrets/token")


def test_deaths(daemon, web, secret):
    """A new worker and a new daemon know it again, and it is in no file."""
    box = Box(daemon.rest, network=POLICY)
    try:
        assert sees(box, web, f"Bearer {FIRST}")
        os.kill(worker_of(daemon), signal.SIGKILL)
        wait_until(lambda: sees(box, web, f"Bearer {FIRST}"), 20, lambda: "no request gets through")
        daemon.process.kill()
        daemon.process.wait()
        daemon.start()
        set_secret(daemon, SECOND)
        wait_until(lambda: sees(box, web, f"Bearer {SECOND}"), 20, lambda: "the new value does not hold")
        for path in daemon.state.rglob("*"):
            if path.is_file() and path.stat().st_size < 1 << 26:
                assert not any(text.encode() in path.read_bytes() for text in (FIRST, SECOND)), path
        assert FIRST not in daemon.log.read_text()
    finally:
        box.destroy()
