"""What settings of clients and operators do to real connections: E2B's network settings, environments with a
network, and the operator's bound."""

import contextlib

import pytest
from daemons import wait_until
from networks import FAR, FAR6, Page, Web, networked
from proxies import Socks
from rest import Rest
from resting import kill_daemon

PORT = 8080
ONE, TWO = f"http://one.test:{PORT}/", f"http://two.test:{PORT}/"
ENVIRONMENT = """
template: host
language: bash
interpreters: {bash: {run: [bash, "{file}"], extension: sh}}
network: {allow: ["*.test:8080"], deny: [two.test]}
"""


class Echo(Page):
    """Says which key it was given."""

    def do_GET(self):
        self.server.name = f"key={self.headers.get('X-Key')}"
        super().do_GET()


@contextlib.contextmanager
def world(**environment):
    """A daemon with servers at two names, and at an address that has none."""
    with networked(**environment) as daemon, contextlib.ExitStack() as stack:
        daemon.rest = Rest(daemon.socket)
        far = daemon.networks.far
        daemon.web = {at: Web(far.listen(at, PORT), at) for at in (FAR[0], FAR[1], FAR[5], FAR6[5])}
        for server in daemon.web.values():
            stack.callback(server.close)
        yield daemon


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    registry = tmp_path_factory.mktemp("registry")
    (registry / "environments").mkdir()
    (registry / "environments" / "Narrow.yaml").write_text(ENVIRONMENT)
    (registry / "environments" / "base.yaml").write_text(ENVIRONMENT.replace("network:", "#"))
    with world(ATOLL_REGISTRY=str(registry)) as started:
        yield started


def get(daemon, box, url):
    """The answer; "" without one."""
    done = daemon.atoll("exec", box, "--", "curl", "-sS", "--max-time", "10", url)
    return done.stdout if done.returncode == 0 and "403" not in done.stdout else ""


def reached(daemon, box):
    """Which of the servers it reaches."""
    urls = {"one": ONE, "two": TWO, "plain": f"http://{FAR[5]}:{PORT}/", "six": f"http://[{FAR6[5]}]:{PORT}/"}
    return {name for name, url in urls.items() if get(daemon, box, url).startswith(("203", "2001"))}


ALL = {"one", "two", "plain", "six"}


@contextlib.contextmanager
def e2b(daemon, **fields):
    answer = daemon.rest.post("/v2/sandboxes", {"templateID": "base", **fields})
    assert answer.status == 201, answer.body
    box = answer.json["sandboxID"]
    yield box
    daemon.rest.delete(f"/sandboxes/{box}")


def change(daemon, box, **settings):
    answer = daemon.rest.put(f"/sandboxes/{box}/network", settings)
    assert answer.status == 204, answer.body


def test_e2b_allow_and_deny(daemon):
    for settings, expected in (
            ({}, ALL),
            ({"allow_internet_access": False}, set()),
            ({"network": {"denyOut": ["0.0.0.0/0"]}}, set()),
            ({"network": {"denyOut": [FAR[0], f"{FAR6[5]}/64"]}}, {"two", "plain"}),
            ({"network": {"allowOut": ["one.test"], "denyOut": ["0.0.0.0/0"]}}, {"one"}),
            ({"network": {"allowOut": ["*.test", f"{FAR[5]}/32"], "denyOut": ["0.0.0.0/0"]}},
             {"one", "two", "plain"}),
            ({"network": {"allowOut": ["two.test"]}, "allow_internet_access": False}, {"two"})):
        with e2b(daemon, **settings) as box:
            assert reached(daemon, box) == expected, settings


def test_e2b_update(daemon):
    with e2b(daemon) as box:
        for settings, expected in (
                ({"allow_internet_access": False}, set()),
                ({"allowOut": ["one.test"], "denyOut": ["0.0.0.0/0"]}, {"one"}),
                ({"denyOut": [FAR[5]]}, ALL - {"plain"}),
                ({}, ALL)):
            change(daemon, box, **settings)
            assert reached(daemon, box) == expected, settings


def test_e2b_rules(daemon):
    certificate = daemon.networks.authority.certificate("one.test")
    server = Web(daemon.networks.far.listen(FAR[0], PORT + 1), "", certificate)
    server.RequestHandlerClass = Echo
    url = f"https://one.test:{PORT + 1}/"
    assert daemon.rest.post("/secrets", {"name": "key", "value": "hush"}).status == 201
    rule = {"one.test": [{"transform": {"headers": {"X-Key": "${e2b.secrets.key}"}}}]}
    try:
        with e2b(daemon, network={"rules": rule}) as box:
            assert get(daemon, box, url).startswith("key=hush ")
            change(daemon, box)
            assert get(daemon, box, url).startswith("key=None ")
    finally:
        server.close()


def test_e2b_proxy(daemon):
    proxy = Socks(daemon.networks.far)
    address = f"{FAR[3]}:{proxy.listening.getsockname()[1]}"
    login = {"address": address, "username": "u", "password": "hush"}
    with e2b(daemon, network={"egressProxy": login}) as box:
        assert get(daemon, box, ONE).startswith(FAR[0])
        assert len(proxy.asked) == 1 and proxy.asked[0][1] == PORT
        change(daemon, box, egressProxy={**login, "password": "wrong"})
        assert get(daemon, box, ONE) == ""
        change(daemon, box)
        assert get(daemon, box, ONE).startswith(FAR[0]) and len(proxy.asked) == 1
    proxy.listening.close()


@pytest.mark.parametrize("rules", [{"deny": ["bad.test"], "allow": [FAR[1]]}, {"deny": ["bad.test", FAR[5]]},
                                   {"allow": [f"{FAR[1]}/32:{PORT}"]}], ids=["sniffed", "denied", "remembered"])
def test_a_proxy_is_told_the_address_that_a_rule_is_about(daemon, rules):
    """It resolves names again: a name that the client sends, or whose owner answers differently there, would
    lead past rules for addresses."""
    proxy = Socks(daemon.networks.far)
    login = {"address": f"{FAR[3]}:{proxy.listening.getsockname()[1]}", "username": "u", "password": "hush"}
    box = daemon.rest.post("/api/sandboxes", {"networkMode": "bridge", "network": {**rules, "proxy": login}})
    assert box.status in (200, 201), box.body
    box = box.json["id"]
    daemon.atoll("exec", box, "--", "curl", "-sS", "--max-time", "10", TWO, check=True)
    daemon.atoll("exec", box, "--", "curl", "-sS", "--max-time", "10", "-H", "Host: one.test",
                 f"http://{FAR[1]}:{PORT}/", check=True)
    assert proxy.asked == [(FAR[1], PORT)] * 2
    proxy.listening.close()
    daemon.rest.delete(f"/api/sandboxes/{box}")


def test_the_network_of_an_environment(daemon):
    made = daemon.rest.post("/api/sessions", {"environment": "Narrow"}).json
    assert reached(daemon, made["sandbox_id"]) == {"one"}
    daemon.rest.delete(made["url"])
    made = daemon.rest.post("/api/sessions", {"environment": "Narrow", "networkMode": "none"}).json
    assert made["sandbox"]["networkMode"] == "none"
    daemon.rest.delete(made["url"])
    with e2b(daemon, templateID="Narrow") as box:
        assert reached(daemon, box) == {"one"}
    with e2b(daemon, templateID="Narrow", allow_internet_access=True) as box:
        assert reached(daemon, box) == ALL


def test_no_policy_undoes_what_the_operator_denies():
    with world(ATOLL_NETWORK_DENY=f"two.test, {FAR[5]}") as daemon:
        for policy in {}, {"allow": ["*"]}, {"rules": [{"allow": "two.test"}, {"allow": FAR[5]}]}:
            box = daemon.rest.post("/api/sandboxes", {"networkMode": "bridge", "network": policy}).json["id"]
            assert reached(daemon, box) == {"one", "six"}, policy
            daemon.rest.put(f"/api/sandboxes/{box}/network", {"allow": ["two.test"]})
            assert reached(daemon, box) == set()
            daemon.rest.delete(f"/api/sandboxes/{box}")


def test_a_lower_mode_holds_for_sandboxes_that_are_there():
    with world() as daemon:
        box = daemon.rest.post("/api/sandboxes", {"networkMode": "bridge"}).json["id"]
        assert reached(daemon, box) == ALL
        kill_daemon(daemon)
        daemon.env["ATOLL_NETWORK_MAX"] = "none"
        daemon.start()
        wait_until(lambda: reached(daemon, box) == set(), 30, lambda: "it goes on as before")
        kill_daemon(daemon)
        daemon.env["ATOLL_NETWORK_MAX"] = "bridge"
        daemon.start()
        wait_until(lambda: reached(daemon, box) == ALL, 30, lambda: "it stays closed")
