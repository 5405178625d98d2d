"""Providers whose back end fails: each fault ends in the documented error, in another try or with
another provider, and nothing is left behind."""

import time

import docker_engine
import fake_registry
import places
import pytest
from daemons import wait_until

COUNTER = "i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo line-$i; sleep 0.02; done; exit 9"
LINES = "".join(f"line-{i}\n" for i in range(1, 201))


@pytest.fixture(scope="module")
def registry():
    with fake_registry.serve(docker_engine.busybox_root()) as started:
        yield started


@pytest.fixture(scope="module")
def world(registry):
    """Docker before native, services last; a proxy stands in front of each engine and service."""
    auth = {"host": registry.host, "username": fake_registry.USER,
            "password": fake_registry.PASSWORD}
    with places.world(["native", "docker", *places.SERVICES], faulty=True,
                      docker={"order": 1, "registries": [auth], "private_registries": True},
                      native={"order": 2}, e2b={"order": 3}, daytona={"order": 4},
                      vercel={"order": 5}) as made:
        yield made


def place_of(world, name):
    if name in world.missing:
        pytest.skip(f"no {name} here: {world.missing[name]}")
    return world.places[name]


@pytest.fixture
def docker(world):
    place = place_of(world, "docker")
    yield place
    world.faults["docker"].work()
    wait_until(lambda: place.facts["state"] != "down", 60, lambda: f"docker stays {place.facts}")
    wait_until(lambda: atoll_containers(world) == [], 30, lambda: f"{atoll_containers(world)}")


def a_service(world, name):
    place = place_of(world, name)
    yield place
    world.faults[name].work()
    wait_until(lambda: place.facts["state"] != "down", 60, lambda: f"{name} stays {place.facts}")
    wait_until(lambda: place.remotes() == [], 30, lambda: f"{place.remotes()}")


@pytest.fixture
def e2b(world):
    yield from a_service(world, "e2b")


@pytest.fixture
def daytona(world):
    yield from a_service(world, "daytona")


@pytest.fixture
def vercel(world):
    yield from a_service(world, "vercel")


@pytest.fixture(params=["daytona", "vercel"])
def relayed(request, world):
    """Those whose agent is reached through a port."""
    yield from a_service(world, request.param)


@pytest.fixture(params=places.SERVICES)
def service(request, world):
    yield from a_service(world, request.param)


def atoll_containers(world):
    return [c["Names"] for c in world.engine.containers() if "atoll.id" in c["Labels"]]


def refused(place, **fields):
    """The error of a create that fails."""
    answer = place.rest.post("/api/sandboxes", {"provider": place.name, **fields})
    assert answer.status >= 400, answer.body
    return answer.status, answer.error


# A service that is there and says no.

CREATE = {"e2b": b"POST /sandboxes", "daytona": b"POST /daytona/sandbox ",
          "vercel": b"POST /vercel/api/v3/sandboxes"}
COMMAND = {"daytona": b"/process/execute", "vercel": b"/cmd?"}


def test_too_many_requests_are_sent_again_later(world, service):
    faults = world.faults[service.name]
    faults.fail("status", 2, CREATE[service.name], status=429, headers=["Retry-After: 1"])
    with service.box() as box:
        assert faults.struck == 2
        assert box.out("echo made") == "made"


@pytest.mark.parametrize("status", [408, 409, 502])
def test_a_change_in_progress_is_waited_for(world, relayed, status):
    """While it asks for the state, and while commands are not served yet."""
    faults = world.faults[relayed.name]
    faults.fail("status", 2, COMMAND[relayed.name], status=status)
    with relayed.box() as box:
        assert faults.struck == 2
        assert box.out("echo made") == "made"


def test_a_relay_that_is_gone_is_started_again(relayed):
    """With all streams of the sandbox; its commands go on."""
    with relayed.box() as box:
        exec_id = box.detach(COUNTER)
        box.out("pkill -9 -f -- '[a]toll-agent/agent --relay'; true", user="root")
        assert box.output(exec_id, follow="true") == LINES
        assert box.exec(exec_id)["result"]["exit_code"] == 9


def test_unavailable_is_tried_again(world, service):
    world.faults[service.name].fail("status", 2, status=503)
    with service.box() as box:
        assert world.faults[service.name].struck == 2
        assert box.out("echo made") == "made"


def test_one_that_stays_unavailable_is_said_to_be(world, service):
    world.faults[service.name].fail("status", matching=CREATE[service.name], status=503)
    status, error = refused(service)
    assert (status, error["code"]) == (503, "unavailable"), error
    assert 2 <= world.faults[service.name].struck <= 10  # tried again, and not for ever


def test_a_wrong_key_is_called_that(world, service):
    """Not tried again; the text says what to set, and never the key."""
    key = world.directory / "cloud" / f"{service.name}-key"
    right = key.read_text()
    wrong = "e2b_" + "0" * 40
    try:
        key.write_text(wrong)
        world.restart()
        status, error = refused(service)
        assert (status, error["code"]) in ((401, "unauthenticated"), (503, "unavailable")), error
        assert "key" in error["message"] and wrong not in str(error), error
        assert wrong not in world.daemon.log.read_text()
    finally:
        key.write_text(right)
        world.restart()


@pytest.mark.parametrize("name", ["docker", *places.SERVICES])
@pytest.mark.parametrize("fault", ["garbage", "close"])
def test_answers_that_are_none(world, request, name, fault):
    place = request.getfixturevalue(name)
    world.faults[name].fail(fault)
    status, error = refused(place)
    assert status in (500, 502, 503), error
    world.faults[name].work()
    wait_until(lambda: place.facts["state"] != "down", 60, lambda: f"it stays {place.facts}")
    with place.box() as box:
        assert box.out("echo works again") == "works again"


@pytest.mark.parametrize("name", ["docker", *places.SERVICES])
def test_half_a_create_leaves_nothing(world, request, name):
    """What was made before the fault is gone after it: the fixtures look."""
    place = request.getfixturevalue(name)
    head = {"docker": b"/start", "e2b": b"/files", "daytona": b"/bulk-upload",
            "vercel": b"/fs/write"}[name]
    world.faults[name].fail("status", 20, head, status=500)
    status, error = refused(place)
    assert status >= 500, error


@pytest.mark.parametrize("name", ["docker", *places.SERVICES])
def test_silence_has_an_end(world, request, name):
    """A connection that is accepted and never answered: health finds out, and so does who asks."""
    place = request.getfixturevalue(name)
    world.faults[name].fail("hang")
    wait_until(lambda: place.facts["state"] != "up", 60, lambda: f"nobody noticed: {place.facts}")
    assert place.facts["reason"], place.facts


def test_a_create_does_not_wait_for_a_silent_engine(world, docker):
    """It has ten minutes, for images that are large; a question is asked again long before."""
    world.faults["docker"].fail("hang", 1, b"/images/")
    began = time.monotonic()
    with docker.box() as box:
        assert world.faults["docker"].struck == 1
        assert box.out("echo made") == "made"
    assert time.monotonic() - began < 60


# Streams that break.

def test_a_cut_stream_loses_no_byte(world, service):
    with service.box() as box:
        exec_id = box.detach(COUNTER)
        for _ in range(4):
            time.sleep(0.4)
            world.faults[service.name].cut()
        assert box.output(exec_id, follow="true") == LINES
        assert box.exec(exec_id)["result"]["exit_code"] == 9
        assert box.state == "running"


def test_more_passes_than_the_service_keeps(service):
    """Another Atoll keeps 64 MiB of what a command writes, and our stream is a command of its E2B side."""
    with service.box() as box:
        box.out("head -c 25000000 /dev/zero > f")
        for _ in range(3):
            assert len(box.get("files", path="f").body) == 25000000
        assert box.out("echo still here") == "still here"


def test_silence_of_the_engine_does_not_end_containers(world, docker):
    """Who does not answer has not said that the sandbox is gone."""
    with docker.box() as box:
        exec_id = box.detach(COUNTER)
        world.faults["docker"].fail("close")
        world.restart()
        time.sleep(1)
        assert box.state != "failed", box.view
        world.faults["docker"].work()
        wait_until(lambda: box.state == "running", 40, lambda: f"not taken over: {box.view}")
        assert box.output(exec_id, follow="true") == LINES


def test_a_sandbox_is_well_while_the_engine_is_silent(world, docker):
    """Its health is what its agent says: the engine's figures may take their time."""
    with docker.box() as box:
        world.faults["docker"].fail("hang")
        began = time.monotonic()
        health = docker.rest.get(f"/api/sandboxes/{box.id}/health").json
        assert health["status"] == "ok", health
        assert time.monotonic() - began < 0.7, "an engine's figures take a second"
        assert [one["status"] for one in docker.rest.get("/api/health").json["sandboxes"]
                if one["id"] == box.id] == ["ok"]
        world.faults["docker"].work()


# Who does the work instead.

def test_auto_takes_the_next_one(world, docker):
    wait_until(lambda: docker.facts["state"] == "up", 60, lambda: f"it is {docker.facts}")
    answer = docker.rest.post("/api/sandboxes", {})
    assert answer.json["provider"] == "docker", answer.body
    docker.rest.delete(f"/api/sandboxes/{answer.json['id']}")
    world.faults["docker"].fail("close")
    answer = docker.rest.post("/api/sandboxes", {})
    assert answer.status == 201 and answer.json["provider"] == "native", answer.body
    docker.rest.delete(f"/api/sandboxes/{answer.json['id']}")


def test_who_fails_is_left_out_until_he_is_back(world, docker):
    world.faults["docker"].fail("close")
    for _ in range(3):
        refused(docker)
    wait_until(lambda: docker.facts["state"] == "down", 40, lambda: f"not down: {docker.facts}")
    assert docker.facts["reason"]
    assert world.places["native"].facts["state"] == "up"


# Images.

def test_an_image_that_nobody_has(docker, registry):
    status, error = refused(docker, image=f"{registry.host}/test/none:1")
    assert (status, error["code"]) == (404, "not_found"), error
    assert "test/none" in error["message"]


def test_a_pull_with_the_right_password(docker, registry):
    with docker.box(image=registry.image) as box:
        assert box.out("ls /bin/busybox") == "/bin/busybox"
        assert box.view["image"] == registry.image


def test_a_registry_that_refuses(docker):
    with fake_registry.serve(docker_engine.busybox_root()) as stranger:
        status, error = refused(docker, image=stranger.image)
        assert stranger.refused > 0
        assert status in (401, 403) and stranger.host in error["message"], error
        assert fake_registry.PASSWORD not in docker.world.daemon.log.read_text()


def test_a_registry_out_of_reach_does_not_take_the_engine_away(docker):
    """Or anybody could, from everybody, with the name of an image."""
    with docker.box():
        pass
    for _ in range(4):
        status, error = refused(docker, image="127.0.0.1:9/none:1")
        assert (status, error["code"]) == (503, "unavailable"), error
        assert "pull image" in error["message"], error
    assert docker.facts["state"] == "up", docker.facts


def test_names_of_images_are_checked(docker):
    for bad in (" ", "a b", "../x", "-v", "x" * 300):
        status, error = refused(docker, image=bad)
        assert status == 400, (bad, error)


# The engine itself.

@pytest.mark.parametrize("options", [(), ("--live-restore",)], ids=["alone", "live-restore"])
def test_an_engine_that_was_killed(options):
    """dockerd is killed and started again: containers that it lets live go on, others are reported
    as what they are."""
    reason = places.missing("docker")
    if reason:
        pytest.skip(reason)
    with places.world(["docker"], docker_options=options) as world:
        place = world.places["docker"]
        box = place.create()
        exec_id = box.detach("echo begun; sleep 600")
        wait_until(lambda: box.output(exec_id) == "begun\n", 30, lambda: "it does not start")
        world.engine.kill()
        status, error = refused(place)
        assert (status, error["code"]) == (503, "unavailable"), error
        assert box.out("echo still here") == "still here"
        world.engine.launch_again()
        if options:
            wait_until(lambda: place.facts["state"] == "up", 60, lambda: f"stays {place.facts}")
            assert box.out("echo lives on") == "lives on"
            assert box.exec(exec_id)["state"] == "running"
        else:
            wait_until(lambda: box.state == "failed", 60, lambda: f"nobody noticed: {box.view}")
            assert box.view["cause"]
            assert box.exec(exec_id)["result"]["kind"] in ("lost", "killed_by", "signaled")
        assert box.destroy() == 204
        assert place.leftovers(box.id) == []
        assert atoll_containers(world) == []
