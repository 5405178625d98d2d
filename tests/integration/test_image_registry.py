"""The client of registries with real peers: Debian's docker-registry, with skopeo as the pusher."""

import json
import os
import signal
import subprocess

import certificates
import pytest
import registries
from daemons import BUILD

pytestmark = pytest.mark.skipif(registries.missing() is not None, reason=str(registries.missing()))

CLIENT = BUILD / "tests/image-client"


def client(*args, **options):
    """What image-client prints."""
    words = [str(word) for pair in options.items() for word in pair]
    done = subprocess.run([CLIENT, *words, *map(str, args)], capture_output=True, text=True, timeout=80)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    """Two layers, one of them large and random; for two platforms."""
    made = registries.Layout(tmp_path_factory.mktemp("layout") / "oci")
    tars = [registries.tar_of({"bin/sh": b"#!"}), registries.tar_of({"big": os.urandom(1 << 20)})]
    here = made.image(tars, {"Env": ["A=b"], "User": "me", "Cmd": ["sh"]})
    other = made.image(tars[:1], arch="s390x")
    made.plain = made.name("plain", here)
    made.list = made.name("list", made.index(here, other))
    made.tars, made.here, made.other = tars, here, other
    return made


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with registries.running(tmp_path_factory.mktemp("registry")) as started:
        yield started


@pytest.fixture(scope="module")
def pushed(registry, layout):
    registry.push(layout.plain, "test/box:1")
    registry.push(layout.list, "test/box:list", "--all")
    registry.push(layout.plain, "test/box:docker", "--format", "v2s2")
    registry.push(layout.plain, "test/box:zstd", "--dest-compress-format", "zstd")
    return registry


def blobs(directory):
    return {p.name: registries.digest(p.read_bytes()) for p in directory.glob("sha256-*")}


def check_pull(directory, image):
    """All blobs are there and right."""
    found = blobs(directory)
    assert set(found) >= {d.replace(":", "-") for d in image["layers"]}, image
    assert all(name.replace("-", ":") == value for name, value in found.items())


@pytest.mark.parametrize("tag", ["1", "docker", "zstd", "list"])
def test_what_skopeo_pushed_is_pulled(pushed, layout, tmp_path, tag):
    image = client("pull", f"{pushed.host}/test/box:{tag}", tmp_path)
    assert image["config"]["Env"] == ["A=b"] and image["config"]["User"] == "me"
    check_pull(tmp_path, image)
    if tag in ("1", "list"):
        assert image["digest"] == layout.here["digest"]
    assert bool(image["index"]) == (tag == "list")


def test_the_platform_is_chosen(pushed, layout):
    image = client("find", f"{pushed.host}/test/box:list", platform="linux/s390x")
    assert image["digest"] == layout.other["digest"]
    missing = client("find", f"{pushed.host}/test/box:list", platform="linux/riscv64")
    assert missing["kind"] == "not_found" and "linux/s390x" in missing["error"]


def test_an_image_is_found_by_its_digest(pushed, layout):
    image = client("find", f"{pushed.host}/test/box@{layout.here['digest']}")
    assert image["digest"] == layout.here["digest"]


def test_what_is_not_there(pushed):
    for name in ("test/box:none", "test/none", "test/box@sha256:" + 64 * "0"):
        assert client("find", f"{pushed.host}/{name}")["kind"] == "not_found"


def test_what_was_pulled_is_pushed(pushed, layout, tmp_path):
    image = client("pull", f"{pushed.host}/test/box:1", tmp_path)
    assert client("push", f"{pushed.host}/copy/box:2", tmp_path) == {}
    copy = tmp_path / "oci"
    registries.skopeo("copy", "-q", "--src-tls-verify=false", pushed.url("copy/box:2"), f"oci:{copy}:x")
    manifest = json.loads((copy / "index.json").read_text())["manifests"][0]
    assert manifest["digest"] == image["digest"]
    # Once more, from a repository of the same registry: nothing is sent.
    assert client("push", f"{pushed.host}/mounted/box:2", tmp_path, "test/box") == {}
    assert client("find", f"{pushed.host}/mounted/box:2")["digest"] == image["digest"]


def test_broken_downloads_continue(pushed, tmp_path):
    with registries.breaker(pushed.host) as proxy:
        proxy.after, proxy.times = 300_000, 3
        image = client("pull", f"{proxy.host}/test/box:1", tmp_path)
        assert proxy.times == 0
    check_pull(tmp_path, image)


def test_a_killed_download_continues(pushed, tmp_path):
    """kill -9 in the middle: the next client continues what is there."""
    with registries.breaker(pushed.host) as proxy:
        proxy.after, proxy.times = 300_000, 1000
        started = subprocess.Popen([CLIENT, "pull", f"{proxy.host}/test/box:1", tmp_path],
                                   stdout=subprocess.DEVNULL)
        registries.wait_until(lambda: any(p.stat().st_size > 200_000
                                          for p in tmp_path.glob("*.part")), 30,
                              lambda: "nothing arrives")
        started.send_signal(signal.SIGKILL)
        started.wait()
        part = max(p.stat().st_size for p in tmp_path.glob("*.part"))
        # Only what is missing fits through before the next break.
        proxy.after, proxy.times = (1 << 20) - part + 60_000, 1000
        image = client("pull", f"{proxy.host}/test/box:1", tmp_path)
    check_pull(tmp_path, image)
    assert not list(tmp_path.glob("*.part"))


def test_a_registry_that_lies(pushed, layout, tmp_path):
    """A blob that was changed in the registry's own storage."""
    wrong = registries.Registry(None, pushed.host, pushed.directory)
    wrong.push(layout.name("wrong", layout.image([registries.tar_of({"x": os.urandom(9999)})])),
               "test/wrong:1")
    image = client("find", f"{pushed.host}/test/wrong:1")
    name = image["layers"][0][7:]
    data = pushed.directory / f"data/docker/registry/v2/blobs/sha256/{name[:2]}/{name}/data"
    content = bytearray(data.read_bytes())
    content[500] ^= 1
    data.write_bytes(content)
    refused = client("pull", f"{pushed.host}/test/wrong:1", tmp_path)
    assert refused["kind"] == "data_loss", refused
    assert not blobs(tmp_path) and not list(tmp_path.glob("*.part"))


def test_basic_logins(layout, tmp_path):
    with registries.running(tmp_path / "r", **registries.basic_auth(tmp_path / "auth")) as registry:
        registry.push(layout.plain, "a/b:1", f"--dest-creds={registries.USER}:{registries.PASSWORD}")
        name = f"{registry.host}/a/b:1"
        refused = client("find", name)
        assert refused["kind"] == "unauthenticated" and f"docker login {registry.host}" in refused["hint"]
        wrong = registries.docker_config(tmp_path / "wrong.json", registry.host, password="no")
        assert client("find", name, config=wrong)["kind"] == "unauthenticated"
        right = registries.docker_config(tmp_path / "right.json", registry.host)
        (tmp_path / "blobs").mkdir()
        check_pull(tmp_path / "blobs", client("pull", name, tmp_path / "blobs", config=right))
        assert client("push", f"{registry.host}/a/c:1", tmp_path / "blobs", config=right) == {}


def test_tokens(layout, tmp_path):
    with registries.token_server(tmp_path / "tokens") as tokens, \
            registries.running(tmp_path / "r", **tokens.configuration()) as registry:
        creds = f"--dest-creds={registries.USER}:{registries.PASSWORD}"
        registry.push(layout.plain, "public/box:1", creds)
        registry.push(layout.plain, "private/box:1", creds)
        right = registries.docker_config(tmp_path / "right.json", registry.host)
        (tmp_path / "blobs").mkdir()
        tokens.asked.clear()
        check_pull(tmp_path / "blobs",
                   client("pull", f"{registry.host}/public/box:1", tmp_path / "blobs"))
        scopes = [scope for asked in tokens.asked for scope in asked.get("scope", [])]
        assert scopes == ["repository:public/box:pull"] and tokens.asked[0]["service"] == [registries.SERVICE]
        refused = client("find", f"{registry.host}/private/box:1")
        assert refused["kind"] == "not_found" and "docker login" in refused["hint"]
        assert client("find", f"{registry.host}/private/box:1", config=right)["digest"]
        assert client("push", f"{registry.host}/private/copy:1", tmp_path / "blobs", "public/box",
                      config=right) == {}
        wrong = registries.docker_config(tmp_path / "wrong.json", registry.host, password="no")
        assert client("find", f"{registry.host}/private/box:1", config=wrong)["kind"] == "unauthenticated"
        denied = client("push", f"{registry.host}/public/box:2", tmp_path / "blobs")
        assert denied["kind"] in ("unauthenticated", "permission_denied"), denied


def test_expired_tokens_are_replaced(layout, tmp_path):
    """A token that ends during the pull: the registry refuses it, and another one is asked for."""
    with registries.token_server(tmp_path / "tokens") as tokens, \
            registries.running(tmp_path / "r", **tokens.configuration()) as registry:
        registry.push(layout.plain, "public/box:1",
                      f"--dest-creds={registries.USER}:{registries.PASSWORD}")
        tokens.life_s = 0
        tokens.asked.clear()
        image = client("find", f"{registry.host}/public/box:1")
        assert image.get("digest") == layout.here["digest"], image
        assert len(tokens.asked) >= 2


def test_tls(layout, tmp_path):
    ca = certificates.Authority(tmp_path)
    pem = ca.certificate("localhost")
    tls = {"certificate": str(pem), "key": str(pem)}
    with registries.running(tmp_path / "r", tls=tls) as registry:
        registry.push(layout.plain, "a/b:1")
        name = f"{registry.host}/a/b:1"
        # On a loopback address any certificate will do.
        assert client("find", name)["digest"]
        # As a mirror it is a host like any other.
        mirror = f"docker.io=https://localhost:{registry.host.split(':')[1]}"
        assert client("find", "a/b:1", mirror=mirror, ca=ca.cert)["digest"] == layout.here["digest"]


def test_mirrors(pushed, layout, tmp_path):
    """docker.io by a mirror: what it has comes from there."""
    mirror = f"docker.io=http://{pushed.host}/test"
    registries.Registry(None, pushed.host, None).push(layout.plain, "test/library/alpine:3")
    image = client("pull", "alpine:3", tmp_path, mirror=mirror)
    assert image["digest"] == layout.here["digest"]
    check_pull(tmp_path, image)


def test_private_addresses(pushed):
    refused = client("find", f"{pushed.host}/test/box:1", public=1)
    assert refused["kind"] == "permission_denied", refused
    assert client("find", f"{pushed.host}/test/box:1", public=1, insecure=pushed.host)["digest"]


def test_a_registry_that_is_down(tmp_path):
    refused = client("find", f"127.0.0.1:{registries.free_port()}/a/b", deadline=2000)
    assert refused["kind"] == "unavailable" and "cannot be reached" in refused["error"]


def test_a_registry_that_is_silent():
    listener = registries.socket.create_server(("127.0.0.1", 0))
    host = f"127.0.0.1:{listener.getsockname()[1]}"
    assert client("find", f"{host}/a/b", deadline=1000)["kind"] == "deadline_exceeded"
    listener.close()


@pytest.mark.parametrize("kind", ["docker-archive", "oci-archive"])
def test_archives_of_skopeo(layout, tmp_path, kind):
    registries.skopeo("copy", "-q", layout.plain, f"{kind}:{tmp_path}/image.tar:example.org/box:7")
    (image,) = client("archive", tmp_path / "image.tar")
    assert image["name"] == "example.org/box:7"
    data = (tmp_path / "image.tar").read_bytes()
    for layer, tar in zip(image["layers"], layout.tars, strict=True):
        content = data[layer["offset"]:layer["offset"] + layer["size"]]
        if content[:2] == b"\x1f\x8b":
            content = registries.gzip.decompress(content)
        assert content == tar and layer["diffId"] == registries.digest(tar)


def test_archives_with_an_index(layout, tmp_path):
    registries.skopeo("copy", "-q", "--all", layout.list, f"oci-archive:{tmp_path}/list.tar:box:7")
    (image,) = client("archive", tmp_path / "list.tar")
    assert image["digest"] == layout.here["digest"] and image["name"] == "docker.io/library/box:7"


@pytest.mark.parametrize("kind", ["docker-archive", "oci-archive"])
def test_archives_for_skopeo(pushed, layout, tmp_path, kind):
    """What is written is read by others, with the same layers."""
    (tmp_path / "blobs").mkdir()
    image = client("pull", f"{pushed.host}/test/box:1", tmp_path / "blobs")
    assert client("save", "example.org/box:7", tmp_path / "blobs", tmp_path / "saved.tar") == {}
    registries.skopeo("copy", "-q", f"{kind}:{tmp_path}/saved.tar", f"oci:{tmp_path}/oci:x")
    found = json.loads(registries.skopeo("inspect", f"oci:{tmp_path}/oci:x"))
    config = json.loads(registries.skopeo("inspect", "--config", f"oci:{tmp_path}/oci:x"))
    assert config["rootfs"]["diff_ids"] == [registries.digest(t) for t in layout.tars]
    if kind == "oci-archive":
        assert found["Layers"] == image["layers"]
