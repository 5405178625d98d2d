"""Extended attributes of files."""

import base64

import pytest
from rest import Rest


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture
def box(rest):
    made = rest.post("/api/sandboxes", {}).json["id"]
    yield made
    rest.delete(f"/api/sandboxes/{made}")


@pytest.fixture
def attributes(rest, box):
    if rest.put(f"/api/sandboxes/{box}/files", b"x", path="f").status != 200:
        pytest.fail("no file")
    url = f"/api/sandboxes/{box}/files/xattrs"
    answer = rest.put(url, {"path": "f", "name": "user.probe", "value": ""})
    if answer.status == 409 and "does not support" in answer.error["message"]:
        pytest.skip("the sandbox's file system has no user attributes (tmpfs before Linux 6.6)")
    rest.call("DELETE", f"{url}?path=f&name=user.probe")
    return url


def test_attributes(rest, attributes):
    assert rest.get(attributes, path="f").json == {"attributes": {}}
    assert rest.put(attributes, {"path": "f", "name": "user.a", "value": "ä"}).status == 204
    assert rest.put(attributes, {"path": "f", "name": "user.b",
                                 "base64": base64.b64encode(b"\xff\0").decode()}).status == 204
    assert rest.get(attributes, path="f").json == {
        "attributes": {"user.a": {"value": "ä"}, "user.b": {"base64": "/wA="}}}
    assert rest.call("DELETE", f"{attributes}?path=f&name=user.a").status == 204
    assert rest.call("DELETE", f"{attributes}?path=f&name=user.a").status == 404
    assert list(rest.get(attributes, path="f").json["attributes"]) == ["user.b"]
    assert rest.put(attributes, {"path": "f", "name": 'user."\\', "value": "1"}).status == 204
    assert rest.get(attributes, path="f").json["attributes"]['user."\\'] == {"value": "1"}


@pytest.mark.parametrize("body, says", [
    ({"name": "user.x", "value": ""}, "path and name"),
    ({"path": "f", "value": ""}, "path and name"),
    ({"path": "f", "name": "user.x"}, "either value or base64"),
    ({"path": "f", "name": "user.x", "value": "", "base64": ""}, "either value or base64"),
    ({"path": "f", "name": "user.x", "value": 5}, "value must be"),
    ({"path": "f", "name": "user.x", "base64": "*"}, "base64"),
    ({"path": "f", "name": "security.capability", "value": ""}, "user."),
    ({"path": "f", "name": "user.x", "value": "x" * 70000}, "65536"),
    ({"path": "f", "name": "user." + "x" * 300, "value": ""}, "255"),
])
def test_bad_attributes(rest, box, body, says):
    assert rest.put(f"/api/sandboxes/{box}/files", b"x", path="f").status == 200
    answer = rest.put(f"/api/sandboxes/{box}/files/xattrs", body)
    assert (answer.status, says in answer.error["message"]) == (400, True), answer.body


def test_attributes_of_nothing(rest, box):
    url = f"/api/sandboxes/{box}/files/xattrs"
    assert rest.get(url, path="nope").status == 404
    assert rest.get(url).status == 400
    assert rest.put(url, {"path": "nope", "name": "user.x", "value": ""}).status == 404
    assert rest.call("DELETE", f"{url}?path=nope&name=user.x").status == 404
    assert rest.call("DELETE", f"{url}?path=nope").status == 400
