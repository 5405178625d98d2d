"""Templates by E2B's API, as its SDKs speak it: what the SDKs cannot do, and who may do what.

tests/conformance/e2b has the SDKs themselves."""

import io
import os
import signal
import subprocess
import tarfile
from urllib.parse import parse_qsl, urlsplit

import oci_images
import pytest
from conftest import wait_until
from listening import listening_daemon
from rest import Rest
from test_e2b_control import client, fails, key_of

HASH = "ab" * 32


@pytest.fixture(scope="module")
def service():
    with listening_daemon(ATOLL_KEY_RATE="0") as (daemon, address):
        yield daemon, address


@pytest.fixture(scope="module")
def api(service):
    daemon, address = service
    return client(address, key_of(daemon, "acme")["e2b_key"])


@pytest.fixture(scope="module")
def rival(service):
    daemon, address = service
    return client(address, key_of(daemon, "rival")["e2b_key"])


def request(api, name, **more):
    answer = api.post("/v3/templates", {"name": name, **more})
    assert answer.status == 202, answer.body
    return answer.json


def start(api, asked, **definition):
    return api.post(f"/v2/templates/{asked['templateID']}/builds/{asked['buildID']}",
                    {"fromTemplate": "base", **definition})


def status(api, asked, **query):
    answer = api.get(f"/templates/{asked['templateID']}/builds/{asked['buildID']}/status", **query)
    assert answer.status == 200, answer.body
    return answer.json


def wait_for(api, asked, seconds=60):
    wait_until(lambda: status(api, asked)["status"] in ("ready", "error"), seconds,
               lambda: str(status(api, asked)))
    return status(api, asked)


def build(api, name, **definition):
    asked = request(api, name)
    answer = start(api, asked, **definition)
    assert answer.status == 202, answer.body
    ended = wait_for(api, asked)
    assert ended["status"] == "ready", ended
    return asked


def run(command, **more):
    return {"type": "RUN", "args": [command], **more}


def archive(**files):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return made.getvalue()


def put(service, url, body, **change):
    """As the SDKs upload: without a key."""
    parts = urlsplit(url)
    query = {**dict(parse_qsl(parts.query)), **change}
    return Rest(service[1]).put(parts.path, body, **query)


def upload(service, api, hash_, **files):
    link = api.get(f"/templates/any/files/{hash_}")
    assert link.status == 201
    answer = put(service, link.json["url"], archive(**files))
    assert answer.status == 200, answer.body


def inside(service, box, command):
    done = service[0].atoll("exec", box, "--", "sh", "-c", command)
    return done.stdout


def output(service, api, template, command):
    made = api.post("/v2/sandboxes", {"templateID": template})
    assert made.status == 201, made.body
    box = made.json["sandboxID"]
    try:
        return inside(service, box, command)
    finally:
        api.delete(f"/sandboxes/{box}")


def test_a_link_is_for_one_hash_of_one_tenant(service, api, rival):
    url = api.get(f"/templates/any/files/{HASH}").json["url"]
    fails(put(service, url.replace(HASH, "cd" * 32), b"x"), 401)
    fails(put(service, url, b"x", tenant="rival"), 401)
    fails(put(service, url, b"x", expires="99999999999"), 401)
    fails(put(service, url, b"x", token=""), 401)
    upload(service, api, HASH, a="content")
    assert api.get(f"/templates/any/files/{HASH}").json["present"] is True
    assert rival.get(f"/templates/any/files/{HASH}").json["present"] is False
    asked = request(rival, "steals")
    answer = start(rival, asked, steps=[{"type": "COPY", "args": ["a", "a"], "filesHash": HASH}])
    fails(answer, 404)


def test_a_file_that_is_not_an_archive(service, api):
    url = api.get(f"/templates/any/files/{'12' * 32}").json["url"]
    answer = put(service, url, b"this is not an archive" * 100)
    assert 400 <= answer.status < 500, answer.body
    assert api.get(f"/templates/any/files/{'12' * 32}").json["present"] is False


def test_steps_and_files(service, api):
    upload(service, api, "34" * 32, **{"dir/one": "1", "dir/sub/two": "2"})
    copy = {"type": "COPY", "filesHash": "34" * 32}
    build(api, "with-files", steps=[
        {**copy, "args": ["dir", "whole", "root", "0755"]}, {**copy, "args": ["dir/*", "/all"]},
        {"type": "ENV", "args": ["A", "a b"]}, {"type": "ENV", "args": ["B", "$A c"]}, run("echo \"$B\" > said"),
        {"type": "USER", "args": ["root"]}, run("touch /made-by-root"),
        {"type": "USER", "args": ["user"]}])
    assert output(service, api, "with-files",
                  "stat -c '%U %a' whole/one; cat whole/one /all/sub/two said; stat -c %U /all/one"
                  " /made-by-root; id -un; pwd; echo $A") == (
        "root 755\n12a b c\nuser\nroot\nuser\n/home/user\na b\n")


def test_changes_below_usr_and_elsewhere(service, api):
    """The host's /usr is an overlay of its own below a template of the host."""
    asked = request(api, "below-usr")
    root = {"type": "USER", "args": ["root"]}
    assert start(api, asked, steps=[
        root, run("echo one > /usr/local/one; rm /usr/bin/yes; mkdir /usr/share/new-dir; echo e > /etc/x"),
        run("test ! -e /usr/bin/yes && cat /usr/local/one /etc/x > /usr/share/new-dir/both")]).status == 202
    assert wait_for(api, asked)["status"] == "ready", status(api, asked)
    assert output(service, api, "below-usr",
                  "cat /usr/share/new-dir/both; ls /usr/bin/yes 2>&1 | tail -c 26; id -un") == (
        "one\ne\nNo such file or directory\nroot\n")
    assert output(service, api, "base", "ls /usr/bin/yes; ls /usr/local/one 2>&1 | wc -l") == "/usr/bin/yes\n1\n"


@pytest.mark.parametrize("definition, text", [
    ({"steps": [{"type": "SPELL", "args": []}]}, "step 1: unknown type"),
    ({"steps": [run("true"), run("")]}, "step 2: RUN needs a command"),
    ({"steps": {}}, "steps"),
    ({"steps": [{"type": "COPY", "args": ["a", "b"], "filesHash": "../../etc"}]}, "filesHash"),
    ({"startCmd": 5}, "startCmd"),
])
def test_bad_definitions(api, definition, text):
    asked = request(api, "bad-one")
    fails(start(api, asked, **definition), 400, text)
    assert status(api, asked)["status"] == "waiting"


def test_a_build_is_started_once_and_by_its_tenant(api, rival):
    asked = request(api, "once")
    fails(start(rival, asked), 404)
    path = f"/templates/{asked['templateID']}/builds/{asked['buildID']}/status"
    fails(rival.get(path), 404)
    assert start(api, asked, steps=[run("sleep 1", force=True)]).status == 202
    assert start(api, asked).status in (400, 409)
    assert wait_for(api, asked)["status"] == "ready"
    fails(rival.get(path), 404)
    fails(rival.get("/templates/once"), 404)
    fails(rival.post("/v2/sandboxes", {"templateID": "once"}), 404)
    fails(rival.delete("/templates/once"), 404)
    assert api.call("PATCH", "/v2/templates/once", {"public": True}).status == 200
    assert rival.get("/templates/acme%2Fonce").status == 200
    fails(rival.delete("/templates/acme%2Fonce"), 403)


def test_pages_of_the_log(api):
    asked = request(api, "long-log")
    assert start(api, asked, steps=[run("for i in $(seq 250); do echo line $i; done", force=True)]).status == 202
    assert wait_for(api, asked)["status"] == "ready"
    lines, offset = [], 0
    while entries := status(api, asked, logsOffset=offset)["logEntries"]:
        assert len(entries) <= 100
        lines += [e["message"] for e in entries]
        offset += len(entries)
    assert [f"line {i}" for i in range(1, 251)] == [line for line in lines if line.startswith("line")]
    assert status(api, asked, logsOffset=5)["logEntries"][0]["message"] == lines[5]


def test_an_environment_that_is_not_built_yet_as_a_base(api):
    asked = request(api, "on-coding")
    assert start(api, asked, fromTemplate="coding", steps=[run("true")]).status == 202
    ended = wait_for(api, asked)
    assert ended["status"] == "error" and "coding is built when it is first used" in ended["reason"]["message"], ended
    assert build(api, "after-it", fromTemplate="base", steps=[run("true")])


def test_the_error_of_a_build_with_a_long_log(api):
    """The failed command is known without reading the log, however long that is."""
    asked = request(api, "long-error")
    large = "head -c 9000000 /dev/zero | tr '\\0' x | fold -w 4000"
    assert start(api, asked, steps=[run(large, force=True), run("echo second; false", force=True)]).status == 202
    ended = wait_for(api, asked)
    assert ended["status"] == "error" and "failed to run command 'echo second; false'" in ended["reason"]["message"], ended["reason"]
    # A page far from the beginning is reached by asking again.
    lines = []

    def read_on():
        lines.extend(e["message"] for e in status(api, asked, logsOffset=2240 + len(lines))["logEntries"])
        return "second" in lines
    wait_until(read_on, 30, lambda: f"{len(lines)} lines")


def test_a_base_is_told_by_the_build(api):
    asked = request(api, "no-base")
    assert start(api, asked, fromTemplate="no-such-one").status == 202
    ended = wait_for(api, asked)
    assert ended["status"] == "error" and ended["reason"]["step"] == "base"
    assert "no-such-one" in ended["reason"]["message"]


def test_a_start_command(service, api):
    build(api, "starts", startCmd="echo up > /tmp/up; sleep 1000", readyCmd="test -e /tmp/up")
    assert output(service, api, "starts", "cat /tmp/up; pgrep -c sleep") == "up\n1\n"
    made = Rest(service[0].socket, {"X-Atoll-Tenant": "acme"}).post(
        "/api/sandboxes", {"template": "starts"})
    assert made.status == 201, made.body  # in Atoll's own API as well
    assert inside(service, made.json["id"], "cat /tmp/up") == "up\n"
    Rest(service[0].socket).delete(f"/api/sandboxes/{made.json['id']}")


def test_a_start_command_that_fails(api):
    asked = request(api, "starts-not")
    assert start(api, asked, startCmd="echo broken >&2; exit 4", readyCmd="false").status == 202
    ended = wait_for(api, asked)
    assert ended["status"] == "error" and ended["reason"]["step"] == "finalize"
    assert "start command" in ended["reason"]["message"] and "broken" in ended["reason"]["message"]
    fails(api.get("/templates/starts-not"), 404)


@pytest.mark.skipif(oci_images.missing() is not None, reason=str(oci_images.missing()))
def test_credentials_of_a_registry(tmp_path):
    """They are for this image only, and nothing of them is kept."""
    made = oci_images.Layout(tmp_path / "oci")
    made.add("it", [oci_images.busybox()])
    (tmp_path / "registry").mkdir()
    registry = oci_images.Registry(tmp_path / "registry", oci_images.free_port())
    registry.users = oci_images.password_file(tmp_path / "registry", "ann", "open-sesame")
    registry.start()
    good = {"type": "registry", "username": "ann", "password": "open-sesame"}
    try:
        image = registry.push(made, "it", "private:1", "--dest-creds", "ann:open-sesame")
        with listening_daemon(ATOLL_KEY_RATE="0", ATOLL_IMAGE_INSECURE=registry.host) as (daemon, address):
            api = client(address, key_of(daemon, "acme")["e2b_key"])
            for credentials, text in (
                    (None, "login"), ({**good, "password": "wrong"}, "login"),
                    ({"type": "gcp", "serviceAccountJson": "{}"}, "login"), ({"type": "registry"}, "username"),
                    ({"type": "aws", "awsAccessKeyId": "a", "awsSecretAccessKey": "b", "awsRegion": "c"}, "AWS")):
                asked = request(api, "private")
                answer = start(api, asked, fromTemplate=None, fromImage=image, fromImageRegistry=credentials)
                assert answer.status == 202, answer.body
                ended = wait_for(api, asked)
                assert ended["status"] == "error" and text in str(ended), ended
            asked = build(api, "private", fromTemplate=None, fromImage=image, fromImageRegistry=good,
                          steps=[run("echo made > /tmp/made")])
            assert output((daemon, address), api, asked["templateID"], "cat /tmp/made") == "made\n"
            kept = subprocess.run(["grep", "-r", "-l", "open-sesame", daemon.state], capture_output=True, text=True)
            assert kept.stdout == "", kept.stdout
    finally:
        registry.stop()


def test_a_build_survives_the_daemon():
    with listening_daemon(ATOLL_KEY_RATE="0") as (daemon, address):
        api = client(address, key_of(daemon, "acme")["e2b_key"])
        asked = request(api, "survivor")
        assert start(api, asked, steps=[run("echo first > first"), run("sleep 3")]).status == 202
        wait_until(lambda: any("sleep 3" in e["message"] for e in status(api, asked)["logEntries"]), 30,
                   lambda: str(status(api, asked)))
        os.kill(daemon.process.pid, signal.SIGKILL)
        daemon.process.wait()
        daemon.start()
        assert wait_for(api, asked)["status"] == "ready"
        assert api.get("/templates/survivor").status == 200
