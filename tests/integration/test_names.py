"""Sandboxes are found by id, by name, and by the beginning of their id."""

import threading

import pytest

from boxes import Box
from rest import Rest


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture
def box(rest):
    made = Box(rest, name="build-1")
    yield made
    made.destroy()


def test_every_route_takes_the_name(rest, box):
    assert box.view["name"] == "build-1"
    assert rest.get("/api/sandboxes/build-1").json["id"] == box.id
    ran = rest.post("/api/sandboxes/build-1/execs", {"cmd": ["echo", "hi"]}, wait="true").json
    assert ran["stdout"] == "hi\n"
    assert rest.get("/api/sandboxes/build-1/files/stat", path="/").status == 200


def test_every_route_takes_the_beginning_of_the_id(rest, box):
    assert rest.get(f"/api/sandboxes/{box.id[:12]}").json["id"] == box.id
    assert rest.get(f"/api/sandboxes/{box.id[:3]}").status == 404
    assert rest.get("/api/sandboxes/buil").status == 404  # names are given whole


def test_a_name_is_unique(rest, box):
    answer = rest.post("/api/sandboxes", {"name": "build-1"})
    assert answer.status == 409 and answer.json["error"]["code"] == "already_exists"
    assert box.id in answer.json["error"]["message"]


def test_it_is_free_again_when_the_sandbox_is_gone(rest):
    for _ in range(2):
        made = Box(rest, name="again")
        assert made.destroy() == 204
        assert rest.get("/api/sandboxes/again").status == 404


def test_get_or_create(rest):
    request = {"name": "shared", "getOrCreate": True}
    first = rest.post("/api/sandboxes", request)
    assert first.status == 201
    second = rest.post("/api/sandboxes", request)
    assert second.status == 200 and second.json["id"] == first.json["id"]
    assert rest.post("/api/sandboxes", {"getOrCreate": True}).status == 400
    assert rest.delete("/api/sandboxes/shared").status == 204


def test_get_or_create_at_the_same_time(daemon, rest):
    answers = []

    def ask():
        answers.append(Rest(daemon.socket).post("/api/sandboxes",
                                                {"name": "raced", "getOrCreate": True}))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(a.status for a in answers) == [200] * 7 + [201]
    assert len({a.json["id"] for a in answers}) == 1
    rest.delete("/api/sandboxes/raced")


def test_rename(rest, box):
    other = Box(rest, name="taken")
    path = f"/api/sandboxes/{box.id}"
    assert rest.call("PATCH", path, {"name": "taken"}).status == 409
    assert rest.call("PATCH", path, {"name": "build-2"}).json["name"] == "build-2"
    assert rest.get("/api/sandboxes/build-1").status == 404
    assert "name" not in rest.call("PATCH", path, {"name": ""}).json
    assert rest.get("/api/sandboxes/build-2").status == 404
    other.destroy()


@pytest.mark.parametrize("name", ["-x", "a b", "a/b", "x" * 65, "abcdefghijklmnopqrstuvwxyz"])
def test_bad_names(rest, name):
    answer = rest.post("/api/sandboxes", {"name": name})
    assert answer.status == 400 and "name" in answer.json["error"]["message"]
