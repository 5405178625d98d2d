"""A name lends its rights only to addresses that belong to it: neither a false `Host` nor a change of the
policy leads what a name may get to another address."""

import pytest

from boxes import Box
from networks import FAR, NEAR, Page, Web, networked
from rest import Rest

PORT = 8080
METADATA, PRIVATE = "169.254.169.254", "10.9.9.9"


class Noting(Page):
    """Keeps the key of each request."""

    def do_GET(self):
        self.server.keys.append(self.headers.get("X-Key"))
        super().do_GET()


@pytest.fixture(scope="module")
def daemon():
    """Its operator permits one internal name."""
    with networked(ATOLL_NETWORK_INTERNAL=f"inner.test:{PORT}") as started:
        networks = started.networks
        with open(networks.directory / "hosts", "a", encoding="utf-8") as hosts:
            hosts.write(f"{PRIVATE} inner.test\n")
        for address in (METADATA, PRIVATE):
            networks.far.ip("addr", "add", f"{address}/32", "dev", "lo")
        started.rest = Rest(started.socket)
        started.web = {at: Web(place.listen(at, PORT), at) for place, at in
                       ((networks.far, METADATA), (networks.far, PRIVATE), (networks.near, NEAR),
                        *((networks.far, at) for at in FAR[:3]))}
        for web in started.web.values():
            web.keys, web.RequestHandlerClass = [], Noting
        yield started
        for web in started.web.values():
            web.close()


@pytest.mark.parametrize("policy", [{}, {"allow": ["*"]}, {"allow": ["inner.test", "169.254.0.0/16", NEAR]},
                                    {"transforms": [{"domain": "inner.test", "headers": {"x-a": "b"}}]}],
                         ids=["no rules", "everything", "addresses", "a transform"])
def test_a_permitted_internal_name_permits_its_own_address_only(daemon, policy):
    box = Box(daemon.rest, network={"mode": "bridge", **policy})
    for web in daemon.web.values():
        web.asked.clear()
    ask = f"curl -sS -m 10 --connect-to ::%s:{PORT} http://inner.test:{PORT}/ || true"
    assert box.out(ask % "inner.test").startswith(PRIVATE)  # the control
    for address in (METADATA, NEAR):
        assert "inner.test:" not in box.out(ask % address), address
        assert daemon.web[address].asked == []
    box.destroy()


TWO_REQUESTS = f"""
import os, socket, time
sock = socket.create_connection(("{FAR[1]}", {PORT}), timeout=20)
for number in range(2):
    while not os.path.exists(f"/home/user/ask{{number}}"):
        time.sleep(0.01)
    answer = b""
    try:
        sock.sendall(b"GET / HTTP/1.1\\r\\nHost: one.test:{PORT}\\r\\n\\r\\n")
        while b"one.test" not in answer and b"three.test" not in answer:
            answer += sock.recv(4096) or exit("the connection has ended")
    except OSError:
        answer = b"reset"
    with open(f"/home/user/new{{number}}", "wb") as out:
        out.write(answer)
    os.rename(f"/home/user/new{{number}}", f"/home/user/answer{{number}}")
"""


class Asker:
    """A client inside with one connection to the address of two.test, where it asks for one.test."""

    def __init__(self, daemon, policy):
        self.daemon = daemon
        for web in daemon.web.values():
            web.asked.clear()
            web.keys.clear()
        self.box = Box(daemon.rest, network={"mode": "bridge", **policy})
        self.box.out("cat > /home/user/asker.py <<'END'\n" + TWO_REQUESTS + "\nEND")
        self.box.detach("exec python3 /home/user/asker.py")

    def ask(self, number):
        self.box.out(f"touch /home/user/ask{number}")
        return self.box.out(f"for i in $(seq 500); do test -e /home/user/answer{number} && "
                            f"exec cat /home/user/answer{number}; sleep 0.02; done; exit 1")

    def change(self, policy):
        answer = self.daemon.rest.put(f"/api/sandboxes/{self.box.id}/network", {"mode": "bridge", **policy})
        assert answer.status in (200, 204), answer.body


def test_a_forward_that_becomes_a_header_rule_does_not_tell_the_secret(daemon):
    """Requests that are forwarded may come on a connection to any address. The same connection must not
    carry the headers of the next policy there."""
    asker = Asker(daemon, {"transforms": [{"domain": "one.test", "forward": f"http://three.test:{PORT}"}]})
    assert FAR[2] in asker.ask(0)  # the control: it is forwarded
    asker.change({"transforms": [{"domain": "one.test", "headers": {"x-key": "hush"}}]})
    assert FAR[0] in asker.ask(1)
    assert daemon.web[FAR[1]].keys == [] and daemon.web[FAR[0]].keys == ["hush"]
    asker.box.destroy()


@pytest.mark.parametrize("policy,answer", [({"allow": ["one.test"]}, "reset"), ({"allow": [FAR[1]]}, FAR[1])],
                         ids=["the name", "the address"])
def test_a_policy_that_allows_a_name_ends_connections_that_used_it_falsely(daemon, policy, answer):
    """Under the first policy the name did not matter."""
    asker = Asker(daemon, {"deny": ["bad.test"]})
    assert FAR[1] in asker.ask(0)
    asker.change(policy)
    assert answer in asker.ask(1)
    assert len(daemon.web[FAR[1]].asked) == (1 if answer == "reset" else 2)
    asker.box.destroy()


def test_the_host_is_not_reached_by_addresses_that_stand_for_its_own(daemon):
    """A gateway of NAT64 or 6to4 would lead them back to it."""
    box = Box(daemon.rest, network={"mode": "bridge"})
    for address in (f"64:ff9b::{NEAR}", "2002:cb00:7101::1"):
        box.out(f"curl -sS -m 10 'http://[{address}]:{PORT}/' 2>&1 || true")
    box.out(f"curl -sS -m 10 'http://[64:ff9b::{FAR[0]}]:{PORT}/' 2>&1 || true")  # the control
    rules = {line["address"]: line["rule"] for line in box.get("network/connections").json["connections"]}
    assert rules == {"64:ff9b::cb00:7101": "internal address", "2002:cb00:7101::1": "internal address",
                     "64:ff9b::cb00:710a": "default"}
    box.destroy()
