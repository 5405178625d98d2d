"""Images of a real registry (Debian's docker-registry, filled by skopeo), run natively."""

import contextlib
import http.client
import json
import os
import re
import subprocess
import tarfile
import threading
import time
import urllib.parse

import oci_images
import pytest
from boxes import Box
from daemons import BUILD, running
from oci_images import info, tar_of
from rest import Rest
from resting import kill_daemon

pytestmark = pytest.mark.skipif(oci_images.missing() is not None, reason=str(oci_images.missing()))

CONFIG = {"Env": ["PATH=/bin:/usr/bin", "GREETING=from the image", "KEPT=1"], "WorkingDir": "/srv/app",
          "Entrypoint": ["/bin/echo", "entry"], "Cmd": ["point"], "ExposedPorts": {"80/tcp": {}},
          "Labels": {"a": "b"}}


def special():
    """A layer with everything that a layer can have."""
    kept = info("etc/set-uid", mode=0o4755)
    return tar_of(
        info("opt", tarfile.DIRTYPE, 0o755), info("opt/a", tarfile.DIRTYPE, 0o750, 12, 34),
        (info("opt/a/file", mode=0o640, uid=12, gid=34), "first"),
        (info("opt/a/gone"), "will be deleted"), (info("opt/full/one"), "1"), (info("opt/full/two"), "2"),
        (kept, "#!/bin/sh\n"), info("opt/hard", tarfile.LNKTYPE, link="opt/a/file"),
        info("opt/link", tarfile.SYMTYPE, 0o777, link="/etc/set-uid"), info("opt/fifo", tarfile.FIFOTYPE, 0o600),
        (info("opt/attributes", SCHILY__xattr__user__note="hello"), "x"),
        (info("opt/dir-to-file/inner"), "inner"), (info("opt/ünïcode name"), "u"))


def changes():
    """A layer that takes away and replaces."""
    return tar_of(
        info("opt/a", tarfile.DIRTYPE, 0o750, 12, 34), (info("opt/a/.wh.gone"), ""), info("opt/full", tarfile.DIRTYPE, 0o711),
        (info("opt/full/.wh..wh..opq"), ""), (info("opt/full/three"), "3"),
        (info("opt/a/file", mode=0o600, uid=5), "second"), (info("opt/.wh.dir-to-file"), ""),
        (info("opt/new/deep/er"), "deep"))


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    made = oci_images.Layout(tmp_path_factory.mktemp("layout") / "oci")
    made.add("plain", [oci_images.busybox()])
    made.add("config", [oci_images.busybox()], CONFIG)
    made.add("layers", [oci_images.busybox(), special(), changes()])
    made.add("user", [oci_images.busybox(), tar_of(
        ("etc/passwd", "root:x:0:0::/root:/bin/sh\nweb:x:1234:77::/var/www:/bin/sh\n"),
        ("etc/group", "root:x:0:\nwww:x:77:\nmore:x:88:web\n"))], {"User": "web"})
    made.add("nobody", [oci_images.busybox()], {"User": "nemo"})
    return made


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with oci_images.registry(tmp_path_factory.mktemp("registry")) as made:
        yield made


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture(scope="module")
def plain(registry, layout):
    return registry.push(layout, "plain", "busybox:1")


def pull(rest, image, **fields):
    """The last line of the answer; or the answer, if it is an error."""
    answer = rest.post("/api/images/pull", {"image": image, **fields})
    return answer.lines[-1] if answer.status == 200 else answer


def manifest_of(image):
    return json.loads(subprocess.check_output(
        ["skopeo", "inspect", "--tls-verify=false", "--raw", f"docker://{image}"]))


def layer_of(daemon, digest):
    return daemon.state / "layers" / digest.removeprefix("sha256:")


def test_pull_and_run(daemon, plain):
    pulled = daemon.atoll("pull", plain, check=True)
    assert pulled.stdout.startswith(f"image {plain} is ready")
    listed = daemon.atoll("images", check=True).stdout
    assert plain.rpartition(":")[0] in listed
    ran = daemon.atoll("run", "--image", plain, "--", "ls", "/", check=True)
    assert {"bin", "etc", "tmp"} <= set(ran.stdout.split())


def test_create_pulls_what_is_missing(daemon, rest, registry, layout):
    image = registry.push(layout, "plain", "missing:1")
    ran = daemon.atoll("run", "--image", image, "--", "echo", "here", check=True)
    assert ran.stdout == "here\n"
    assert image.rpartition(":")[0] in {i["name"] for i in rest.get("/api/images").json["images"]}


def test_the_config_applies(daemon, rest, registry, layout):
    image = registry.push(layout, "config", "config:1")
    box = Box(rest, image=image, env={"GREETING": "of the request", "OWN": "2"})
    assert box.out("id -u; pwd; echo $GREETING $KEPT $OWN $PATH") == \
        "0\n/srv/app\nof the request 1 2 /bin:/usr/bin"
    assert box.view["image"] == image and box.view["provider"] == "native"
    box.destroy()
    assert daemon.atoll("run", "--image", image, check=True).stdout == "entry point\n"
    [listed] = [i for i in rest.get("/api/images").json["images"] if i["name"].endswith("/config")]
    assert listed["config"]["ExposedPorts"] == {"80/tcp": {}} and listed["config"]["Labels"] == {"a": "b"}


def test_the_user_of_the_image(rest, registry, layout):
    image = registry.push(layout, "user", "user:1")
    box = Box(rest, image=image)
    assert box.out("id -u; id -g; id -G; echo $HOME") == "1234\n77\n77 88\n/var/www"
    assert box.out("id -u", user="root") == "0"
    box.post("files/mkdir", None, path="/tmp/mine")
    assert box.out("stat -c %u /tmp/mine") == "1234"
    box.destroy()
    answer = rest.post("/api/sandboxes", {"image": registry.push(layout, "nobody", "nobody:1")})
    assert answer.status == 400 and "unknown user nemo" in answer.error["message"], answer.body


def test_the_default_user_survives_a_restart(registry, layout):
    image = registry.push(layout, "user", "user:1")
    with running(BUILD) as daemon:
        box = Box(Rest(daemon.socket), image=image)
        assert box.out("id -u") == "1234"
        kill_daemon(daemon)
        daemon.start()
        box.rest = Rest(daemon.socket)
        assert box.out("id -u") == "1234"
        box.destroy()


@pytest.mark.parametrize("how", ["gzip", "zstd", "none"])
def test_the_tree_is_that_of_umoci(daemon, rest, registry, layout, tmp_path, how):
    """File by file: type, mode, owner, content, links, attributes, times. This umoci does not know zstd, so that
    it always unpacks the same layers with gzip."""
    made = oci_images.Layout(tmp_path / "oci")
    made.add("it", [oci_images.busybox(), special(), changes()], how=how)
    image = registry.push(made, "it", f"tree-{how}:1")
    assert pull(rest, image)["image"]["digest"]
    expected = oci_images.describe(layout.unpacked("layers", tmp_path / "umoci"))
    lowers = [str(layer_of(daemon, layer["digest"])) for layer in manifest_of(image)["layers"]]
    assert tree_of(lowers, tmp_path) == expected


def tree_of(lowers, tmp_path):
    """What an overlay of the layers shows, with ids as in a sandbox."""
    merged = tmp_path / "merged"
    merged.mkdir()
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                    "ro,userxattr,lowerdir=" + ":".join(reversed(lowers)), str(merged)], check=True)
    try:
        got = oci_images.describe(merged)
    finally:
        subprocess.run(["umount", str(merged)], check=True)
    base = min(entry[1] for entry in got.values())
    for entry in got.values():  # layers are stored with the ids of layers
        entry[1] -= base
        entry[2] -= base
    return got


def test_directories_that_an_archive_only_implies(daemon, rest, registry, tmp_path):
    """They keep what lower layers give them, as umoci has it: a layer on top says so. Archives too."""
    folder = tarfile.DIRTYPE
    lower = tar_of(info("data", folder, 0o700, 7, 8), info("data/deep", folder, 0o1777, 9, 9),
                   info("other", folder, 0o711, 3, 3))
    upper = tar_of((info("data/deep/file"), b"1"), (info("other/x/y"), b"2"))
    made = oci_images.Layout(tmp_path / "oci")
    made.add("it", [oci_images.busybox(), lower, upper])
    image = registry.push(made, "it", "implied:1")
    assert pull(rest, image)["image"]["digest"]
    layers = rest.get("/api/templates/" + urllib.parse.quote(image, safe="")).json["layers"]
    assert len(layers) == 4
    expected = oci_images.describe(made.unpacked("it", tmp_path / "umoci"))
    got = tree_of([str(daemon.state / "layers" / layer["name"]) for layer in layers], tmp_path)
    assert got == expected
    box = Box(rest, image=image)
    assert box.out("stat -c '%a %u' /data /data/deep /other /other/x | xargs") == "700 7 1777 9 711 3 755 0"
    box.destroy()
    again = registry.push(made, "it", "implied:2")  # the layer is shared
    assert pull(rest, again)["image"]["digest"]
    assert rest.get("/api/templates/" + urllib.parse.quote(again, safe="")).json["layers"] == layers


@pytest.mark.parametrize("count", [3, 127])
def test_directories_that_an_archive_of_images_only_implies(daemon, tmp_path, count):
    made = oci_images.Layout(tmp_path / "oci")
    made.add("it", [oci_images.busybox(), tar_of(info("data", tarfile.DIRTYPE, 0o700, 7, 8)),
                    *(tar_of((info(f"data/{number}"), b"1")) for number in range(count - 2))])
    subprocess.run(["tar", "-C", made.directory, "-cf", tmp_path / "it.tar", "."], check=True)
    daemon.atoll("template", "import", "implied-archive", str(tmp_path / "it.tar"), check=True)
    ran = daemon.atoll("run", "--template", "implied-archive", "--", "stat", "-c", "%a %u %g", "/data", check=True)
    assert ran.stdout == "700 7 8\n"


def test_names_as_for_docker(rest, registry, layout, plain):
    digest = pull(rest, plain)["image"]["digest"]
    by_digest = f"{registry.host}/busybox@sha256:{digest}"
    assert Box(rest, image=by_digest).out("echo ok") == "ok"
    registry.push(layout, "plain", "busybox:latest")
    assert pull(rest, f"{registry.host}/busybox")["image"]["reference"].endswith("/busybox:latest")
    for bad in ("UPPER", "a//b", "busybox:", "x@sha256:123", "-x"):
        answer = pull(rest, bad)
        assert answer.status == 400, (bad, answer.body)


def test_the_platform_is_chosen(rest, registry, tmp_path):
    made = oci_images.Layout(tmp_path / "oci")
    made.add("it", None, manifest=made.index([
        made.manifest([tar_of(("wrong", "1"))], arch="s390x"),
        made.manifest([oci_images.busybox()], {"Env": ["ARCH=right"]})]))
    image = registry.push(made, "it", "platforms:1", "--all")
    assert Box(rest, image=image).out("echo $ARCH") == "right"
    other = oci_images.Layout(tmp_path / "other")
    other.add("it", None, manifest=other.index([other.manifest([tar_of(("x", "1"))], arch="s390x")]))
    answer = pull(rest, registry.push(other, "it", "foreign:1", "--all"))
    assert answer.status == 404 and "linux/s390x" in answer.error["message"], answer.body


def test_layers_are_shared(daemon, rest, registry, tmp_path):
    made = oci_images.Layout(tmp_path / "oci")
    base = oci_images.busybox()
    for i in range(3):
        made.add(f"v{i}", [base, tar_of((f"own-{i}", "x"))])
    before = set(os.listdir(daemon.state / "layers"))
    for i in range(3):
        pull(rest, registry.push(made, f"v{i}", f"shared:{i}"))
    added = set(os.listdir(daemon.state / "layers")) - before
    assert len(added) in (3, 4)  # the base may have been there
    assert not [path for path in (daemon.state / "blobs").rglob("*") if path.is_file()]


def test_the_same_layer_twice(rest, registry, tmp_path):
    made = oci_images.Layout(tmp_path / "oci")
    again = tar_of(("marker", "upper"))
    made.add("it", [oci_images.busybox(), again, tar_of((".wh.marker", "")), again])
    assert Box(rest, image=registry.push(made, "it", "twice:1")).out("cat /marker") == "upper"


def test_many_pulls_share_one(daemon, rest, registry, tmp_path):
    made = oci_images.Layout(tmp_path / "oci")
    made.add("it", [oci_images.busybox(), tar_of(("big", os.urandom(4 << 20)))])
    image = registry.push(made, "it", "many:1")
    before = pulls(rest)
    results = []
    threads = [threading.Thread(target=lambda: results.append(pull(Rest(daemon.socket), image)))
               for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({r["image"]["digest"] for r in results}) == 1
    assert pulls(rest) - before < 6


def pulls(rest):
    found = re.search(r'atoll_image_pulls_total\{result="done"\} (\d+)', rest.get("/metrics").body.decode())
    return int(found.group(1)) if found else 0


def test_a_newer_image_with_the_same_name(rest, registry, tmp_path):
    made = oci_images.Layout(tmp_path / "oci")
    made.add("old", [oci_images.busybox(), tar_of(("version", "old"))])
    made.add("new", [oci_images.busybox(), tar_of(("version", "new"))])
    image = registry.push(made, "old", "moving:1")
    box = Box(rest, image=image)
    registry.push(made, "new", "moving:1")
    assert Box(rest, image=image).out("cat /version") == "old"  # what is here
    pull(rest, image)
    assert Box(rest, image=image).out("cat /version") == "new"
    assert box.out("cat /version") == "old"  # its layers stay


def test_not_there(rest, registry):
    answer = pull(rest, f"{registry.host}/absent:1")
    assert answer.status == 404 and "absent" in answer.error["message"], answer.body
    answer = rest.post("/api/sandboxes", {"image": f"{registry.host}/absent:1"})
    assert answer.status == 404, answer.body


def test_a_registry_that_is_down(rest):
    answer = pull(rest, f"localhost:{oci_images.free_port()}/x")
    assert answer.status == 503 and "localhost" in answer.error["message"], answer.body


def test_a_wrong_digest(daemon, rest, registry, tmp_path):
    """The registry gives other bytes than it promised: an error, nothing is left, the next try works."""
    made = oci_images.Layout(tmp_path / "oci")
    made.add("it", [oci_images.busybox(), tar_of(("content", os.urandom(100000)))], how="none")
    image = registry.push(made, "it", "broken:1")
    digest = manifest_of(image)["layers"][1]["digest"]
    file = registry.blob_file(digest)
    right = file.read_bytes()
    file.write_bytes(right[:50000] + b"!" + right[50001:])
    last = pull(rest, image)
    error = last["error"] if isinstance(last, dict) else last.error
    assert "digest" in error["message"], last
    assert not layer_of(daemon, digest).exists()
    file.write_bytes(right)
    assert pull(rest, image)["image"]["digest"]


def test_hostile_layers(daemon, rest, registry, tmp_path):
    made = oci_images.Layout(tmp_path / "oci")
    made.add("up", [oci_images.busybox(), tar_of(("../../outside", "x"))])
    made.add("lie", [oci_images.busybox()], manifest=lying_manifest(made))
    made.add("bomb", [oci_images.busybox(), tar_of(("zeros", bytes(96 << 20)))], how="zstd")
    for tag, word in (("up", ".."), ("lie", "digest"), ("bomb", "500 times")):
        last = pull(rest, registry.push(made, tag, f"hostile-{tag}:1"))
        error = last["error"] if isinstance(last, dict) else last.error
        assert word in error["message"], last
    assert not (daemon.state.parent / "outside").exists()


def lying_manifest(made):
    """A manifest whose config names another diff id than its layer has."""
    honest = made.manifest([oci_images.busybox(), tar_of(("x", "y"))])
    body = json.loads((made.directory / "blobs/sha256" / honest["digest"][7:]).read_text())
    config = json.loads((made.directory / "blobs/sha256" / body["config"]["digest"][7:]).read_text())
    config["rootfs"]["diff_ids"][1] = "sha256:" + "0" * 64
    body["config"] = made.blob(json.dumps(config).encode(), body["config"]["mediaType"])
    return made.blob(json.dumps(body).encode(), honest["mediaType"])


def test_a_private_registry(daemon, tmp_path, layout):
    directory = tmp_path / "registry"
    directory.mkdir()
    made = oci_images.Registry(directory, oci_images.free_port())
    made.users = oci_images.password_file(directory, "ann", "open-sesame")
    made.start()
    try:
        image = made.push(layout, "plain", "private:1", "--dest-creds", "ann:open-sesame")
        refused = daemon.atoll("pull", image)
        assert refused.returncode != 0 and "login" in refused.stderr, refused.stderr
        logins = tmp_path / "docker"
        logins.mkdir()
        (logins / "config.json").write_text(json.dumps(
            {"auths": {made.host: {"auth": oci_images.basic("ann", "open-sesame")}}}))
        daemon.env["DOCKER_CONFIG"] = str(logins)
        try:
            assert daemon.atoll("run", "--image", image, "--", "echo", "in", check=True).stdout == "in\n"
        finally:
            del daemon.env["DOCKER_CONFIG"]
    finally:
        made.stop()


def test_tenants_do_not_share_images(daemon, rest, registry, layout):
    """What one tenant pulled is not there for another, and no tenant pulls from private addresses."""
    image = registry.push(layout, "plain", "of-the-operator:1")
    assert pull(rest, image)["image"]
    made = rest.post("/api/keys", {"tenant": "guests", "scope": "write"}).json
    guest = Rest(daemon.socket, {"X-API-Key": made["key"]})
    answer = guest.post("/api/sandboxes", {"image": image})
    assert answer.status == 403 and "may not be connected to" in answer.error["message"], answer.body
    assert guest.get("/api/images").json["images"] == []


def test_kill_during_a_pull(registry, tmp_path):
    """The next daemon has no half of it, and its pull succeeds."""
    made = oci_images.Layout(tmp_path / "oci")
    made.add("it", [oci_images.busybox()] + [tar_of((f"big-{i}", os.urandom(8 << 20))) for i in range(3)])
    image = registry.push(made, "it", "killed:1")
    with running(BUILD) as daemon:
        for delay in (0.02, 0.1, 0.3):
            def quietly():
                with contextlib.suppress(OSError, http.client.HTTPException):
                    pull(Rest(daemon.socket), image)

            thread = threading.Thread(target=quietly)
            thread.start()
            time.sleep(delay)
            kill_daemon(daemon)
            thread.join()
            daemon.start()
        rest = Rest(daemon.socket)
        assert pull(rest, image)["image"]["digest"]
        box = Box(rest, image=image)
        assert box.out("cat /big-* | wc -c") == str(3 * 8 << 20)
        box.destroy()
        layers = {layer["digest"].removeprefix("sha256:") for layer in manifest_of(image)["layers"]}
        assert set(os.listdir(daemon.state / "layers")) == layers
        assert not [path for path in (daemon.state / "blobs").rglob("*") if path.is_file()]


# Archives.

def docker_archive(layout, tag, path):
    subprocess.run(["skopeo", "copy", "--insecure-policy", f"oci:{layout.directory}:{tag}",
                    f"docker-archive:{path}:saved/image:1"], check=True, capture_output=True)
    return path


def oci_archive(layout, tag, path):
    subprocess.run(["tar", "-C", layout.directory, "-cf", path, "."], check=True)
    return path


@pytest.mark.parametrize("make", [docker_archive, oci_archive])
def test_an_archive_becomes_a_template(daemon, rest, tmp_path, make):
    layout = oci_images.Layout(tmp_path / "oci")
    layout.add("it", [oci_images.busybox(), special(), changes()], CONFIG)
    file = make(layout, "it", tmp_path / "image.tar")
    name = make.__name__.replace("_", "-")
    daemon.atoll("template", "import", name, file, check=True)
    box = Box(rest, template=name)
    assert box.out("id -u; pwd; echo $KEPT; cat /opt/a/file; ls /opt/full") == \
        "0\n/srv/app\n1\nsecondthree"
    box.destroy()
    assert daemon.atoll("run", "--template", name, check=True).stdout == "entry point\n"


def test_an_archive_keeps_its_names(rest, layout, tmp_path):
    file = docker_archive(layout, "plain", tmp_path / "image.tar")
    answer = rest.call("PUT", "/api/images", file.read_bytes())
    assert answer.status == 201, answer.body
    assert answer.json["name"] == "docker.io/saved/image"
    assert Box(rest, image="saved/image:1").out("echo ok") == "ok"  # without asking a registry


def test_an_archive_without_images(rest):
    for body in (b"", b"x" * 2000, oci_images.busybox()):
        answer = rest.call("PUT", "/api/images", body)
        assert answer.status == 400, answer.body
