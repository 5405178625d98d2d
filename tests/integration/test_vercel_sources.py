"""What sandboxes of Vercel's API are made from: images, git repositories, archives."""

import contextlib
import http.server
import io
import shutil
import tarfile
import threading

import oci_images
import pytest
from git_server import PASSWORD, USER, GitServer, git
from networks import FAR, networked
from rest import Rest
from test_vercel import V2, create, error_of, run

PORT = 8080

needs_images = pytest.mark.skipif(oci_images.missing() is not None, reason=str(oci_images.missing()))


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


# Images.


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with oci_images.registry(tmp_path_factory.mktemp("registry")) as made:
        yield made


@pytest.fixture(scope="module")
def image(registry, tmp_path_factory):
    """One with a user of its own, and without those of Vercel."""
    layout = oci_images.Layout(tmp_path_factory.mktemp("layout") / "oci")
    layout.add("user", [oci_images.busybox(), oci_images.tar_of(
        oci_images.info("etc", tarfile.DIRTYPE, 0o755),
        (oci_images.info("etc/passwd"), b"root:x:0:0::/root:/bin/sh\nnemo:x:1234:1234::/home/nemo:/bin/sh\n"),
        (oci_images.info("etc/group"), b"root:x:0:\nnemo:x:1234:\n"),
        oci_images.info("home/nemo", tarfile.DIRTYPE, 0o755, 1234, 1234))], {"User": "nemo"})
    return registry.push(layout, "user", "user:1")


@needs_images
def test_an_image_with_its_own_user(rest, image):
    made = create(rest, name="imaged", image=image)
    assert made["sandbox"]["image"] == image
    assert run(rest, made, "id -un; pwd") == "nemo\n/vercel/sandbox\n"
    fork = rest.post(f"{V2}/imaged/fork", {"name": "imaged-too"})
    assert fork.status == 200, fork.body
    assert run(rest, fork.json, "id -un") == "nemo\n"
    run(rest, made, "echo one >/tmp/file")
    taken = rest.post(f"{V2}/sessions/{made['session']['id']}/snapshot", {}).json["snapshot"]
    for other in (rest.post(f"{V2}/imaged/fork", {"name": "imaged-again"}),
                  rest.post(V2, {"name": "imaged-copy", "source": {"type": "snapshot", "snapshotId": taken["id"]}})):
        assert other.status == 200, other.body
        assert run(rest, other.json, "id -un; cat /tmp/file") == "nemo\none\n"
    for name in ("imaged", "imaged-too", "imaged-again", "imaged-copy"):
        assert rest.delete(f"{V2}/{name}?deleteOrphanSnapshots=true").status == 200


@needs_images
def test_an_image_whose_files_are_not_kept(rest, image):
    made = create(rest, name="unkept", image=image, persistent=False)
    run(rest, made, "echo one >/tmp/file")
    assert rest.post(f"{V2}/sessions/{made['session']['id']}/stop").status == 200
    again = rest.get(f"{V2}/unkept?resume=true")
    assert again.status == 200, again.body
    assert run(rest, again.json, "id -un; ls /tmp/file 2>/dev/null || echo none") == "nemo\nnone\n"
    rest.delete(f"{V2}/unkept")


class Refusing(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def refusing(status):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        server.status = status
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"localhost:{server.server_port}/box/it:1"
        server.shutdown()


@pytest.mark.parametrize("status", [401, 503])
def test_an_image_that_its_registry_refuses(rest, status):
    """An error of the request: the SDK repeats what has a status of 500, and takes 401 for its own key."""
    with refusing(status) as image:
        answer = rest.post(V2, {"image": image})
    assert error_of(answer) == (400, "bad_request"), answer.body
    assert image.partition("/")[0] in answer.json["error"]["message"]


def test_an_image_whose_registry_is_not_there(rest):
    for image in (f"localhost:{oci_images.free_port()}/box/it:1", "registry.invalid/box/it:1"):
        answer = rest.post(V2, {"image": image})
        assert error_of(answer) == (400, "bad_request"), answer.body


# Images of Vercel's.


HOSTS = ("", "vcr.vercel.com/")


@pytest.mark.parametrize("name", ["universal", "universal:latest", "node:22", "node:24", "node:26"])
def test_an_image_of_vercels(rest, name):
    """Nothing is pulled; where the environment is not built, the programs of the host serve, as for a runtime."""
    for host in HOSTS:
        image = f"{host}vercel/sandbox/{name}"
        made = create(rest, name="managed", image=image, persistent=False)
        assert made["sandbox"]["image"] == image and "runtime" not in made["sandbox"]
        assert run(rest, made, "id -un; pwd; echo one >file").split() == ["vercel-sandbox", "/vercel/sandbox"]
        fork = rest.post(f"{V2}/managed/fork", {"name": "managed-fork"}).json
        assert fork["sandbox"]["image"] == image
        assert run(rest, fork, "ls; id -un") == "vercel-sandbox\n"
        rest.post(f"{V2}/sessions/{made['session']['id']}/stop")
        again = rest.get(f"{V2}/managed?resume=true")
        assert again.status == 200, again.body
        assert run(rest, again.json, "ls; id -un") == "vercel-sandbox\n"
        for each in ("managed", "managed-fork"):
            assert rest.delete(f"{V2}/{each}?deleteOrphanSnapshots=true").status == 200


@pytest.mark.parametrize("name,template", [("universal", "env-vercel-node24"), ("node:22", "env-vercel-node22")])
def test_an_image_of_vercels_that_is_built(rest, name, template):
    made = create(rest)
    run(rest, made, "sudo touch /etc/built")
    box = made["session"]["id"].removeprefix("sbx_")
    assert rest.post(f"/api/sandboxes/{box}/snapshots", {"name": template}).status == 201
    other = create(rest, image=f"vercel/sandbox/{name}")
    assert run(rest, other, "ls /etc/built") == "/etc/built\n"
    for each in (made, other):
        rest.delete(f"{V2}/{each['sandbox']['name']}?deleteOrphanSnapshots=true")
    assert rest.delete(f"/api/templates/{template}").status == 204


@pytest.mark.parametrize("name,way", [
    ("ubuntu", 'image: "docker.io/library/ubuntu"'), ("ubuntu:latest", 'image: "docker.io/library/ubuntu"'),
    ("arch", 'image: "docker.io/library/archlinux"'), ("python:3.14", 'runtime: "python3.13"'),
    ("node", ""), ("node:20", ""), ("node:24:latest", ""), ("universal:1", ""), ("universal@sha256:" + "0" * 64, ""),
    ("", ""), ("x" * 300, "")])
def test_an_image_of_vercels_that_is_not_here(rest, name, way):
    for host in HOSTS:
        for path, fields in ((V2, {}), (V2, {"source": {"type": "git", "url": "https://one.test/x.git"}})):
            answer = rest.post(path, {"image": f"{host}vercel/sandbox/{name}", **fields})
            assert error_of(answer) == (400, "bad_request"), answer.body
            for text in ("universal, node:22, node:24 and node:26", way):
                assert text in answer.json["error"]["message"]


def test_what_a_snapshot_is_of_cannot_be_chosen(rest):
    """It has the files of its sandbox: the answer names what that was made from."""
    made = create(rest, name="labelled", runtime="node22")
    first = rest.post(f"{V2}/labelled/fork", {"name": "unlike", "image": "vercel/sandbox/node:26"})
    assert first.status == 200 and first.json["sandbox"]["image"] == "vercel/sandbox/node:26", first.body
    assert "runtime" not in first.json["sandbox"]
    taken = rest.post(f"{V2}/sessions/{made['session']['id']}/snapshot", {}).json["snapshot"]
    source = {"type": "snapshot", "snapshotId": taken["id"]}
    for path, fields in ((f"{V2}/labelled/fork", {}), (V2, {"source": source})):
        answer = rest.post(path, {**fields, "image": "vercel/sandbox/node:26"})
        assert error_of(answer) == (400, "bad_request"), answer.body
        assert "image" in answer.json["error"]["message"]
        answer = rest.post(path, {**fields, "name": "like", "runtime": "node26"})
        assert answer.status == 200, answer.body
        assert answer.json["sandbox"]["runtime"] == answer.json["session"]["runtime"] == "node22"
        assert rest.delete(f"{V2}/like?deleteOrphanSnapshots=true").status == 200
    for name in ("labelled", "unlike"):
        assert rest.delete(f"{V2}/{name}").status == 200
    # Its sandbox is gone: what it was made from is not known.
    answer = rest.post(V2, {"source": source, "runtime": "node26"}).json
    assert "runtime" not in answer["sandbox"] and answer["session"]["runtime"] == "node24"
    rest.delete(f"{V2}/{answer['sandbox']['name']}?deleteOrphanSnapshots=true")
    assert rest.delete(f"{V2}/snapshots/{taken['id']}").status == 200


# Repositories and archives.


class Files(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = self.server.files.get(self.path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


class FileServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listening, files):
        super().__init__(listening.getsockname()[:2], Files, bind_and_activate=False)
        self.socket.close()
        self.socket, self.files = listening, files
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()


def archive():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        member = tarfile.TarInfo("docs/hello.txt")
        member.size = 6
        tar.addfile(member, io.BytesIO(b"hello\n"))
    return out.getvalue()


class World:
    def __init__(self, daemon):
        self.rest = Rest(daemon.socket)
        far, directory = daemon.networks.far, daemon.networks.directory
        (directory / "git").mkdir()
        self.git = GitServer(far.listen(FAR[0], PORT), directory / "git")
        self.files = FileServer(far.listen(FAR[1], PORT), {"/it.tgz": archive(), "/none.tgz": b"not one"})
        self.works = {name: self.git.make(name) for name in ("private", "public/open")}

    def close(self):
        self.git.close()
        self.files.close()


@pytest.fixture(scope="module")
def world():
    if not shutil.which("git") or not shutil.which("curl"):
        pytest.skip("there is no git or curl")
    with networked() as daemon:
        made = World(daemon)
        yield made
        made.close()


def make(world, **source):
    answer = world.rest.post(V2, {"source": source})
    if answer.status == 200:
        world.rest.delete(f"{V2}/{answer.json['sandbox']['name']}")
    return answer


def test_a_repository(world):
    url = f"http://one.test:{PORT}/public/open.git"
    first = git("rev-parse", "HEAD", cwd=world.works["public/open"]).strip()
    for extra in ({}, {"depth": 1}, {"revision": "main"}, {"revision": first}):
        made = create(world.rest, V2, source={"type": "git", "url": url, **extra})
        assert run(world.rest, made, "cat README; git rev-parse HEAD").split() == ["hello", first], extra
        world.rest.delete(f"{V2}/{made['sandbox']['name']}")


def test_a_private_repository_leaves_no_password(world):
    url = f"http://one.test:{PORT}/private.git"
    made = create(world.rest, V2, source={"type": "git", "url": url, "username": USER, "password": PASSWORD})
    assert run(world.rest, made, "cat README") == "hello\n"
    assert run(world.rest, made, f"git config --list; grep -rF '{PASSWORD[:4]}' .git ~ 2>/dev/null; true").count(PASSWORD) == 0
    world.rest.delete(f"{V2}/{made['sandbox']['name']}")


def test_an_archive(world):
    made = create(world.rest, V2, source={"type": "tarball", "url": f"http://two.test:{PORT}/it.tgz"})
    assert run(world.rest, made, "cat docs/hello.txt; stat -c %U docs/hello.txt") == "hello\nvercel-sandbox\n"
    world.rest.delete(f"{V2}/{made['sandbox']['name']}")


@pytest.mark.parametrize("source", [
    {"type": "git", "url": f"http://one.test:{PORT}/public/none.git"},
    {"type": "git", "url": f"http://one.test:{PORT}/private.git"},
    {"type": "git", "url": f"http://one.test:{PORT}/public/open.git", "revision": "none"},
    {"type": "tarball", "url": f"http://two.test:{PORT}/nothing.tgz"},
    {"type": "tarball", "url": f"http://two.test:{PORT}/none.tgz"},
], ids=["no repository", "no password", "no revision", "no archive", "not an archive"])
def test_what_cannot_be_fetched_leaves_no_sandbox(world, source):
    before = len(world.rest.get("/api/sandboxes").json["sandboxes"])
    answer = make(world, **source)
    assert error_of(answer) == (400, "bad_request"), answer.body
    assert len(world.rest.get("/api/sandboxes").json["sandboxes"]) == before
