"""What is said where nobody makes the sandbox that is asked for, and what to do about it."""

import json
import re

import pytest
from fake_world import world_of
from rest import Rest


@pytest.fixture(scope="module")
def world():
    with world_of() as made:
        made.wait_state("up")
        yield made


def refused(rest, **fields):
    answer = rest.post("/api/sandboxes", {"waive": ["all"], **fields})
    assert answer.status >= 400, answer.body
    return answer.status, answer.error


def lines_for(hint):
    """What is to be put into the file."""
    return hint.split("\n")[1:]


@pytest.mark.parametrize("wish, status, lines", [
    ({"provider": "docker"}, 400, ["providers:", '  docker: {default_image: "debian:12"}']),
    ({"provider": "gvisor"}, 400, ["providers:", "  gvisor: {}"]),
    ({"isolation": "gvisor"}, 501, ["providers:", "  gvisor: {}"]),
    ({"isolation": "container"}, 501, ["providers:", '  docker: {default_image: "debian:12"}']),
    ({"isolation": "microvm"}, 501, ["providers:", "  e2b: {api_key_file: FILE}"]),
])
def test_who_is_not_there_can_be_set_up(world, wish, status, lines):
    answered, error = refused(world.rest, **wish)
    file = str(world.daemon.state / "providers.yaml")
    assert answered == status and lines_for(error["hint"]) == lines, error
    first = error["hint"].split("\n")[0]
    assert file in first and "`atoll providers`" in first, first
    assert ("SIGHUP" in first) == ("gvisor" not in lines[1]), first
    assert file not in error["message"]
    # The same on the command line, ready to be copied.
    options = [word for name, value in wish.items() for word in (f"--{name}", value)]
    done = world.daemon.atoll("create", *options)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.splitlines() == [f"atoll: {error['message']}", f"atoll: {first}", *lines]
    done = world.daemon.atoll("run", *options, "--", "true")
    assert done.returncode == 125
    assert done.stderr.splitlines()[1:] == [f"atoll: {first}", *lines]


def test_an_unknown_name_gets_the_kinds_there_are(world):
    """A provider of some other kind under that name would not be what was asked for."""
    answered, error = refused(world.rest, provider="moon")
    assert answered == 400 and "`atoll providers`" in error["hint"], error
    assert "docker" in error["hint"] and "e2b" in error["hint"] and "moon" not in error["hint"]


@pytest.mark.parametrize("method, path", [
    ("POST", "/api/templates/x/build"), ("POST", "/api/templates/x/build?provider=native"),
    ("DELETE", "/api/volumes/mine?provider=docker"), ("GET", "/api/volumes?provider=docker"),
])
def test_volumes_and_builds_say_so_too(world, method, path):
    answer = world.rest.call(method, path)
    assert answer.status in (400, 501), answer.body
    assert lines_for(answer.error["hint"])[1].startswith("  docker: "), answer.body


def test_only_operators_are_told_where_the_file_is(world):
    """A tenant needs to know that somebody can do something, and nothing about the host."""
    key = world.daemon.atoll("key", "create", "--tenant", "acme", check=True).stdout.strip()
    tenant = Rest(world.daemon.socket, {"Authorization": f"Bearer {key}"})
    _, error = refused(tenant, provider="docker")
    assert "providers.yaml" in error["hint"] and str(world.directory) not in str(error), error
    with tenant.websocket("/api/run") as ws:
        ws.send({"cmd": ["true"], "provider": "docker"})
        told = ws.text()["error"]
    assert "providers.yaml" in told["hint"] and str(world.directory) not in str(told), told


def test_status_says_where_the_file_is(world):
    """Also of a daemon that `atoll up` did not start, by whatever way it is asked."""
    file = str(world.daemon.state / "providers.yaml")
    assert f"providers  {file}\n" in world.daemon.atoll("status", check=True).stdout
    told = json.loads(world.daemon.atoll("status", "--json", check=True).stdout)
    assert told["providers_file"] == file and not told["started_by_up"]
    key = world.daemon.atoll("key", "create", "--tenant", "acme", check=True).stdout.strip()
    tenant = Rest(world.daemon.socket, {"Authorization": f"Bearer {key}"})
    assert "file" not in tenant.get("/api/providers").json


def test_what_nobody_has_gets_no_advice(world):
    _, error = refused(world.rest, gpus=1)
    assert "hint" not in error, error
    _, error = refused(world.rest, isolation="magic")
    assert error["hint"] == ("isolation can be one of these: namespaces, gvisor, container, "
                             "microvm"), error
    _, error = refused(world.rest, provider="no: such\nname")
    assert "hint" not in error, error


def test_one_that_waits_to_be_named(world):
    before = dict(world.settings["fake"])
    world.settings["fake"]["named_only"] = True
    assert world.reload()["in_force"] is True
    try:
        _, error = refused(world.rest, isolation="none")
        assert error["hint"] == "provider fake can, but is used only for requests that name it", error
    finally:
        world.settings["fake"] = before
        assert world.reload()["in_force"] is True


def test_a_file_that_was_not_taken_is_the_reason(world):
    world.settings["docker"] = {"pol": 3}
    try:
        assert world.reload()["in_force"] is False
        _, error = refused(world.rest, provider="docker")
        assert "was read again and is not in use" in error["hint"] and "pol" in error["hint"], error
        done = world.daemon.atoll("create", "--provider", "docker")
        assert f"atoll: {error['hint']}" in done.stderr.splitlines()
    finally:
        del world.settings["docker"]
        assert world.reload()["in_force"] is True


def test_one_that_is_down_says_why_and_when_it_is_tried_again(world):
    world.fail("health 0 unavailable")
    try:
        world.wait_state("down")
        answer = world.rest.post("/api/sandboxes", {"provider": "fake", "waive": ["all"]})
        said = (r"fake is down: fake: health is to fail.* "
                r"\(it is tried again (in \d+ s|right now)\)")
        assert answer.status == 503 and re.search(said, answer.error["message"]), answer.body
        assert "`atoll providers`" in answer.error["hint"]
        if "in " in re.search(said, answer.error["message"])[1]:
            assert int(answer.headers["Retry-After"]) >= 1
        done = world.daemon.atoll("run", "--provider", "fake", "--waive", "all", "--", "true")
        assert done.returncode == 125 and re.search(said, done.stderr), done.stderr
        assert "atoll: `atoll providers` shows the state of each" in done.stderr
    finally:
        world.fail()
        world.settle()
