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
