"""The probe in containers and in gVisor: as closed as a native sandbox, but for what is said here."""

import places
import probing
import pytest
from canary import as_arguments, canary_facts
from test_isolation import CHECKS, OPEN_FOR_ROOT

# What differs by nature of the provider: {check: why}. Everything else has to be closed.
OPEN = {
    "docker": {},
    "gvisor": {},
}


@pytest.fixture(scope="module")
def world():
    with places.world(["docker", "gvisor"]) as made:
        yield made


@pytest.fixture(scope="module", params=["docker", "gvisor"])
def probed(request, world, host, probe):
    """(provider, {user: results}): the probe in a default sandbox, with a neighbour beside it."""
    if request.param in world.missing:
        pytest.skip(f"no {request.param} here: {world.missing[request.param]}")
    place, peer = world.places[request.param], canary_facts()
    with place.box() as first, place.box() as second:
        for box in (first, second):
            put = place.rest.put(f"{box.path}/files", probe.read_bytes(), path=probing.PROBE_INSIDE,
                                 mode="0755")
            assert put.status == 200, put.body
        second.post("execs", {"cmd": [probing.PROBE_INSIDE, "--canary", *as_arguments(peer)]})
        yield request.param, {user: run(world, first, host, user, peer) for user in ("user", "root")}


def run(world, box, host, user, peer):
    facts = probing.inside_facts(host, world.daemon, user, peer["port"])
    answer = box.post("execs", {"cmd": [probing.PROBE_INSIDE, *as_arguments(facts)], "user": user},
                      wait="true")
    assert answer.status == 200 and answer.json["result"]["exit_code"] == 0, answer.body
    return probing.parse(answer.json["stdout"])


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("user", ["user", "root"])
def test_closed_inside(probed, user, check):
    provider, results = probed
    status, detail = results[user][check]
    if user == "root" and check in OPEN_FOR_ROOT:
        return
    if check in OPEN[provider] and status == "FAIL":
        pytest.skip(f"{OPEN[provider][check]} ({detail})")
    assert status == "PASS", detail
