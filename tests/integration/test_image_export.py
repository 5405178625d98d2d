"""Templates as images for other tools: pushed to a real registry, saved as archives; read by skopeo and umoci."""

import json
import subprocess
import tarfile

import conftest
import oci_images
import pytest
from rest import Rest
from test_images import CONFIG, changes, special

pytestmark = pytest.mark.skipif(oci_images.missing() is not None, reason=str(oci_images.missing()))


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    made = oci_images.Layout(tmp_path_factory.mktemp("layout") / "oci")
    made.add("it", [oci_images.busybox(), special(), changes()], CONFIG)
    return made


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with oci_images.registry(tmp_path_factory.mktemp("registry")) as made:
        yield made


@pytest.fixture(scope="module")
def pulled(daemon, registry, layout):
    image = registry.push(layout, "it", "pulled:1")
    daemon.atoll("pull", image, check=True)
    return image


def skopeo(*args):
    return subprocess.run(["skopeo", *args], check=True, stdout=subprocess.PIPE).stdout


def inspect(place):
    """The config of an image, as skopeo shows it."""
    return json.loads(skopeo("inspect", "--tls-verify=false", "--config", place))


def tree_of(place, directory):
    """File by file, as umoci unpacks what skopeo copies from there."""
    directory.mkdir(exist_ok=True)
    skopeo("copy", "-q", "--insecure-policy", "--src-tls-verify=false", place, f"oci:{directory}/oci:it")
    subprocess.run(["umoci", "unpack", "--image", f"{directory}/oci:it", str(directory / "bundle")], check=True,
                   capture_output=True)
    return oci_images.describe(directory / "bundle/rootfs")


@pytest.fixture(scope="module")
def expected(layout, tmp_path_factory):
    return tree_of(f"oci:{layout.directory}:it", tmp_path_factory.mktemp("expected"))


def check_same(place, directory, expected):
    shown = inspect(place)
    assert shown["config"] == CONFIG and shown["os"] == "linux"
    assert len(shown["rootfs"]["diff_ids"]) == 3
    assert tree_of(place, directory) == expected


def test_an_image_that_was_pulled_is_pushed_back(daemon, registry, pulled, expected, tmp_path):
    target = f"{registry.host}/pushed/back:2"
    done = daemon.atoll("push", pulled, target, check=True)
    said = done.stdout
    assert said.startswith(f"{target}: pushed sha256:")
    assert f"{target}: packing layer 1 of " in done.stderr and " sent\n" in done.stderr, done.stderr
    assert daemon.atoll("push", "-q", pulled, target, check=True).stderr == ""
    check_same(f"docker://{target}", tmp_path, expected)
    # The same again gives the same image, and is here under its new name.
    again = daemon.json("push", pulled, target)
    assert again["digest"] in said and again["reference"] == target
    daemon.atoll("pull", target, check=True)
    assert daemon.atoll("run", "--image", target, "--", "cat", "/opt/a/file", check=True).stdout == "second"


def test_an_archive_is_read_by_others(daemon, pulled, expected, tmp_path):
    archive = tmp_path / "image.tar"
    daemon.atoll("template", "save", pulled, "-o", str(archive), check=True)
    check_same(f"oci-archive:{archive}", tmp_path / "a", expected)
    check_same(f"docker-archive:{archive}", tmp_path / "b", expected)
    with tarfile.open(archive) as tar:  # what docker load reads
        [listed] = json.load(tar.extractfile("manifest.json"))
    assert listed["RepoTags"] == [pulled] and len(listed["Layers"]) == 3


def test_a_snapshot_is_a_compressed_file_and_comes_back(daemon, pulled, tmp_path):
    box = daemon.atoll("create", "--image", pulled, check=True).stdout.strip()
    daemon.atoll("exec", box, "--user", "root", "--", "sh", "-c", "echo new >/opt/note", check=True)
    daemon.atoll("snapshot", box, "kept", check=True)
    daemon.atoll("rm", box, check=True)
    file = tmp_path / "kept.tar.zst"
    said = daemon.atoll("template", "save", "kept", "-o", str(file), "--json", check=True)
    assert json.loads(said.stdout)["bytes"] == file.stat().st_size
    assert file.read_bytes()[:4] == b"\x28\xb5\x2f\xfd"
    daemon.atoll("template", "import", "back", str(file), check=True)
    said = daemon.atoll("run", "--template", "back", "--", "cat", "/opt/note", "/opt/a/file", check=True)
    assert said.stdout == "new\nsecond"


def test_a_snapshot_is_pushed_and_pulled_by_another_daemon(daemon, registry, pulled, tmp_path):
    box = daemon.atoll("create", "--image", pulled, check=True).stdout.strip()
    daemon.atoll("exec", box, "--user", "root", "--", "sh", "-c", "echo new >/opt/note; rm /opt/a/file", check=True)
    daemon.atoll("snapshot", box, "pushed", check=True)
    daemon.atoll("rm", box, check=True)
    target = f"{registry.host}/snapshots/pushed:1"
    daemon.atoll("push", "pushed", target, check=True)
    files = tree_of(f"docker://{target}", tmp_path / "tree")
    assert len(inspect(f"docker://{target}")["rootfs"]["diff_ids"]) == 4
    assert "opt/note" in str(files) and "opt/a/file" not in str(files)
    with conftest.running(conftest.BUILD) as other:
        other.atoll("pull", target, check=True)
        box = other.atoll("create", "--image", target, check=True).stdout.strip()
        said = other.atoll("exec", box, "--", "sh", "-c", "cat /opt/note; test -e /opt/a/file || echo gone", check=True)
        assert said.stdout == "new\ngone\n"
        other.atoll("rm", box, check=True)


def test_a_snapshot_on_the_host_is_a_file_for_another_daemon(daemon, tmp_path):
    """The file has what differs from the host's system, and is imported on that."""
    box = daemon.atoll("create", check=True).stdout.strip()
    daemon.atoll("exec", box, "--", "sh", "-c", "mkdir d; echo new >d/note; ln -s note d/link; sudo rm -r /usr/share/doc; "
                 "sudo sh -c 'echo x >/usr/bin/own; chmod 4755 /usr/bin/own'", check=True)
    daemon.atoll("snapshot", box, "of-host", check=True)
    daemon.atoll("rm", box, check=True)
    first, second = tmp_path / "a.tar.zst", tmp_path / "b.tar"
    daemon.atoll("template", "save", "of-host", "-o", str(first), check=True)
    daemon.atoll("template", "rm", "of-host", check=True)
    look = "cat ~/d/link; ls /usr/share/doc 2>&1 | grep -c 'No such'; stat -c '%a %U' /usr/bin/own ~/d; python3 -c 'print(6*7)'"
    with conftest.running(conftest.BUILD) as other:
        other.atoll("template", "import", "came", str(first), check=True)
        said = other.atoll("run", "--template", "came", "--", "sh", "-c", look, check=True)
        assert said.stdout == "new\n1\n4755 root\n755 user\n42\n"
        # What came as a file is saved as the same one.
        other.atoll("template", "save", "came", "-o", str(second), check=True)
        assert "atoll.base" not in json.dumps(Rest(other.socket).get("/api/templates/came").json)
    assert inspect(f"oci-archive:{second}")["config"]["Labels"] == {"atoll.base": "host"}


def test_a_label_of_the_base_does_not_leave_with_an_image(daemon, tmp_path):
    """Only the daemon says that layers are on the host: an image that says so of itself is whole."""
    (tmp_path / "root.tar").write_bytes(oci_images.busybox())
    (tmp_path / "Dockerfile").write_text("FROM labelled-root\nLABEL atoll.base=host other=1\n")
    daemon.atoll("template", "import", "labelled-root", str(tmp_path / "root.tar"), check=True)
    daemon.atoll("build", "-q", "-t", "labelled", str(tmp_path), check=True)
    daemon.atoll("template", "save", "labelled", "-o", str(tmp_path / "l.tar"), check=True)
    assert inspect(f"oci-archive:{tmp_path / 'l.tar'}")["config"]["Labels"] == {"other": "1"}


def test_a_compressed_root_file_system_is_none(daemon, tmp_path):
    (tmp_path / "root.tar").write_bytes(oci_images.busybox())
    subprocess.run(["zstd", "-q", tmp_path / "root.tar"], check=True)
    daemon.atoll("template", "import", "packed", str(tmp_path / "root.tar.zst"), check=True)
    assert daemon.atoll("run", "--template", "packed", "--", "/bin/echo", "here", check=True).stdout == "here\n"


def test_a_template_of_a_tarball_is_an_image(daemon, registry, tmp_path):
    (tmp_path / "root.tar").write_bytes(oci_images.busybox())
    daemon.atoll("template", "import", "exported", str(tmp_path / "root.tar"), check=True)
    target = f"{registry.host}/imported:latest"
    daemon.atoll("push", "exported", target, check=True)
    assert inspect(f"docker://{target}")["config"]["User"] == "user"  # the one that its sandboxes have here
    assert daemon.atoll("run", "--image", target, "--", "/bin/echo", "here", check=True).stdout == "here\n"


def test_what_cannot_be_pushed(daemon, registry, pulled):
    rest = Rest(daemon.socket)
    name = pulled.replace("/", "%2F")
    refused = daemon.atoll("push", "host", f"{registry.host}/x:1")
    assert refused.returncode != 0 and "host's own system" in refused.stderr
    box = daemon.atoll("create", check=True).stdout.strip()
    daemon.atoll("snapshot", box, "on-host", check=True)
    daemon.atoll("rm", box, check=True)
    for refused in (rest.get("/api/templates/host/archive"),
                    rest.post("/api/templates/on-host/push", {"image": f"{registry.host}/x:1"})):
        assert refused.status == 409 and "host's own system" in refused.json["error"]["message"]
    daemon.atoll("template", "rm", "on-host", check=True)
    refused = daemon.atoll("push", pulled, f"{registry.host}/x@sha256:{'0' * 64}")
    assert refused.returncode != 0 and "not to a digest" in refused.stderr
    answer = rest.post(f"/api/templates/{name}/push", {"image": "localhost:1/x:1"})
    assert answer.status == 503, answer.body
    assert rest.post(f"/api/templates/{name}/push", {}).status == 400
    assert rest.get("/api/templates/missing/archive").status == 404
    assert daemon.atoll("template", "save", pulled).returncode != 0


def test_nothing_is_left(daemon, registry, pulled):
    """Neither sandboxes nor blobs."""
    def there():
        return ({box["id"] for box in daemon.json("ls")["sandboxes"]},
                {path for path in (daemon.state / "blobs").rglob("*") if path.is_file()})

    before = there()
    daemon.atoll("push", pulled, f"{registry.host}/left:1", check=True)
    assert there() == before
