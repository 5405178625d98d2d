"""Containers of creates that were given up, and that the Docker engine made all the same."""

import places
import pytest
from daemons import wait_until


@pytest.fixture(scope="module")
def world():
    with places.world(["docker"], docker={"pool": 2, "check_seconds": 0.2, "orphans_seconds": 0.5}) as made:
        if "docker" in made.missing:
            pytest.skip(f"no docker here: {made.missing['docker']}")
        yield made


def names(world):
    return {name for container in world.engine.containers() for name in container["Names"]}


def waiting(world):
    return {name for name in names(world) if name.startswith("/atoll-pool-")}


def test_they_are_removed(world):
    place = world.places["docker"]
    with place.box() as box:
        wait_until(lambda: len(waiting(world)) == 2, 60, lambda: f"the pool has {names(world)}")
        mine = next(c for c in world.engine.containers() if f"/atoll-{box.id}" in c["Names"])
        kept = waiting(world)
        late = [f"atoll-{'z' * len(box.id)}", f"atoll-pool-{'z' * len(box.id)}"]
        other = "somebody-elses"
        for name, labels in (*((name, mine["Labels"]) for name in late), (other, {})):
            status, body = world.engine.call("POST", f"/containers/create?name={name}",
                                             {"Image": places.IMAGE, "Cmd": ["true"],
                                              "Labels": labels})
            assert status == 201, body
        try:
            wait_until(lambda: not {f"/{name}" for name in late} & names(world), 60,
                       lambda: f"still there: {names(world)}")
            assert box.out("echo untouched") == "untouched"
            assert f"/{other}" in names(world) and kept <= names(world)
        finally:
            world.engine.call("DELETE", f"/containers/{other}?force=1")
    # Those that wait still do.
    with place.box() as box:
        assert box.out("echo works") == "works"
