"""Builds, snapshots, volumes and private images through the API and the CLI, against an engine of our own."""

import contextlib
import http.client
import io
import json
import os
import signal
import tarfile
import threading

import docker_engine
import fake_registry
import places
import pytest
from boxes import Box
from daemons import below, wait_until
from rest import Rest

BASE = "atoll-test-busybox:1"
USERS = "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n"

pytestmark = pytest.mark.skipif(docker_engine.missing() is not None,
                                reason=str(docker_engine.missing()))


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Directories of the host that requests may mount."""
    directory = tmp_path_factory.mktemp("shared")
    for name in ("read", "write", "secret"):
        (directory / name).mkdir()
        (directory / name).chmod(0o777)
        (directory / name / "f").write_text(name)
    return directory


@pytest.fixture(scope="module")
def world(shared):
    settings = {"volumes": 2, "private_registries": True,
                "host_paths": [{"path": str(shared / "read")},
                               {"path": str(shared / "write"), "writable": True}]}
    with places.world(["native", "docker"], docker=settings) as made:
        made.engine.import_image(BASE, docker_engine.busybox_root(USERS))
        yield made


@pytest.fixture(scope="module")
def tenants(world):
    """Two who know nothing of each other."""
    host, port = world.daemon.env["ATOLL_LISTEN"].split(":")

    def client(name):
        made = world.rest.post("/api/keys", {"tenant": name, "scope": "write"})
        assert made.status == 201, made.body
        return Rest((host, int(port)), {"X-API-Key": made.json["key"]})
    return client("acme"), client("rival")


@pytest.fixture(autouse=True)
def clear(world):
    yield
    world.rest.delete("/api/sandboxes", all="true")


def context(dockerfile, name="Dockerfile", **files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, text in {name: dockerfile, **files}.items():
            member = tarfile.TarInfo(path)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


def test_hidden_files_of_an_image_are_reported(world):
    """The disk is in memory here; an image whose homes are as usual gets no warning."""
    def more(tar):
        for path in ("root/.bashrc", "home/user/app/" + "d" * 90 + "/main.js", "tmp/left"):
            member = tarfile.TarInfo(path)
            member.size = 3
            tar.addfile(member, io.BytesIO(b"abc"))

    def usual(tar):
        member = tarfile.TarInfo("home/user/.profile")
        tar.addfile(member, io.BytesIO())

    world.engine.import_image("atoll-test-full:1", docker_engine.busybox_root(USERS, more))
    world.engine.import_image("atoll-test-usual:1", docker_engine.busybox_root(USERS, usual))
    for _ in range(2):  # the second one from what is known of the image
        full = Box(world.rest, provider="docker", image="atoll-test-full:1")
        assert "left" not in full.out("ls /tmp")
        [warning] = full.view["warnings"]
        assert "under /home, /tmp are hidden" in warning, warning
    for image in ("atoll-test-usual:1", BASE):
        assert "warnings" not in Box(world.rest, provider="docker", image=image).view
    said = world.daemon.atoll("create", "--provider", "docker", "--image", "atoll-test-full:1", check=True)
    assert "warning: files of the image under /home, /tmp" in said.stderr
    waived = Box(world.rest, provider="docker", image="atoll-test-full:1", waive=["disk"])
    if "disk" in waived.view["waived"]:
        assert "warnings" not in waived.view and waived.out("cat /tmp/left") == "abc"


def build(rest, name, files, **query):
    return rest.post(f"/api/templates/{name}/build", files, **query)


def images(world):
    listed = json.loads(world.engine.call("GET", "/images/json")[1])
    return {tag for image in listed for tag in image["RepoTags"] or []}


def box(rest, **fields):
    return Box(rest, provider="docker", **fields)


def names(rest):
    return {t["name"]: t for t in rest.get("/api/templates").json["templates"]}


def test_the_list_of_providers_shows_what_it_can(world):
    def shown():
        lines = world.daemon.atoll("providers", check=True).stdout.splitlines()
        return lines[0], next(line for line in lines if line.startswith("docker "))

    # The engine has no bridge, as the first check finds out.
    wait_until(lambda: "none,isolated " in shown()[1], 30, lambda: f"it is {shown()}")
    title, docker = shown()
    assert "NETWORKS" in title
    for word in ("images", "builds", "snapshots", "volumes"):
        assert word in docker, docker


# Builds.

def test_an_environment_in_an_image_that_lacks_its_program(world):
    answer = world.rest.post("/api/sessions", {"environment": "Python3", "provider": "docker",
                                               "image": BASE})
    assert answer.status == 409, answer.body
    for word in ("python3", f"the image {BASE}", "docker"):
        assert word in answer.error["message"], answer.error
    assert "template" not in answer.error["message"], answer.error


def test_build(world):
    rest = world.rest
    answer = build(rest, "app", context(f"FROM {BASE}\nCOPY f /srv/f\nRUN echo of-the-step; "
                                        "echo made >/srv/g\nUSER 77\n", f="sent"))
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/x-ndjson"
    *said, last = answer.lines
    lines = [line["output"] for line in said]
    assert any(line.startswith("Step 1/4 : FROM") for line in lines), lines
    assert "of-the-step" in lines, lines
    made = last["template"]
    assert made["name"] == "app" and made["kind"] == "image" and made["provider"] == "docker"
    assert made["digest"].startswith("sha256:") and made["size_bytes"] > 0
    assert names(rest)["app"] == made
    for provider in ("docker", "auto"):
        one = Box(rest, provider=provider, template="app")
        assert one.out("cat /srv/f; id -u; cat /srv/g") == "sent77\nmade"
        view = one.view
        assert view["template"] == "app" and view["provider"] == "docker" and "image" not in view
        # While one of it lives it stays.
        assert rest.delete("/api/templates/app").status == 409
        assert one.destroy() == 204
    refused = rest.post("/api/sandboxes", {"provider": "native", "template": "app"})
    assert refused.status == 409 and "docker" in refused.error["message"]


def test_the_working_directory_of_an_image(world):
    """Commands start in it, unless the request names another one; one that is "/" does not count."""
    world.engine.import_image("atoll-test-workdir:1", docker_engine.busybox_root(USERS),
                              "WORKDIR /srv/app")
    assert box(world.rest, image="atoll-test-workdir:1").out("pwd") == "/srv/app"
    assert box(world.rest, image="atoll-test-workdir:1", workdir="/tmp/mine").out("pwd") == "/tmp/mine"
    assert box(world.rest, image=BASE).out("pwd") == "/home/user"


def test_a_read_only_root(world):
    one = box(world.rest, image=BASE, readOnly=True)
    assert one.out("echo mine > f; cat f") == "mine"
    assert one.run("touch /etc/x", user="root")["result"]["exit_code"] != 0
    assert one.run("touch /bin/x", user="root")["result"]["exit_code"] != 0


def test_build_again_replaces_it(world):
    before = {tag for tag in images(world) if tag.startswith("atoll-template:")}
    for text in ("one", "two"):
        answer = build(world.rest, "again", context(f"FROM {BASE}\nRUN echo {text} >/v\n"))
        assert "template" in answer.lines[-1], answer.body
    wait_until(lambda: len({t for t in images(world) if t.startswith("atoll-template:")} - before) == 1,
               30, lambda: str(images(world)))
    one = box(world.rest, template="again")
    assert one.out("cat /v") == "two"
    one.destroy()
    assert world.rest.delete("/api/templates/again").status == 204
    assert {t for t in images(world) if t.startswith("atoll-template:")} == before
    assert world.rest.post("/api/sandboxes", {"template": "again"}).status == 404


@pytest.mark.parametrize("dockerfile, step, output", [
    (f"FROM {BASE}\nRUN echo before; echo what went wrong >&2; exit 7\n", "step 2/2 : RUN",
     "what went wrong"),
    (f"FROM {BASE}\nCOPY nothing /x\n", "step 2/2 : COPY nothing", "Step 2/2"),
    ("FROM nothing-like-this:1\n", "step 1/1 : FROM", "Step 1/1"),
])
def test_build_that_fails(world, dockerfile, step, output):
    answer = build(world.rest, "broken", context(dockerfile))
    assert answer.status == 200, answer.body
    *said, last = answer.lines
    assert step in last["error"]["message"], last
    assert last["error"]["code"] == "failed_precondition" and last["error"]["request_id"]
    assert any(output in line["output"] for line in said), said
    assert "broken" not in names(world.rest)
    assert world.engine.containers() == []


def test_build_steps_have_no_network(world):
    answer = build(world.rest, "lonely", context(f"FROM {BASE}\nRUN ls /sys/class/net\n"))
    assert "lo" in [line.get("output") for line in answer.lines], answer.body
    assert world.rest.delete("/api/templates/lonely").status == 204


def test_build_refusals(world, tenants):
    rest, files = world.rest, context(f"FROM {BASE}\n")
    assert build(rest, "x", files, provider="native").status == 501
    assert "cannot build" in build(rest, "x", files, provider="native").error["message"]
    assert build(rest, "x", files, provider="nobody").status == 400
    assert build(rest, "x", files, network="isolated").status == 400
    assert build(rest, "x", files, file="../Dockerfile").status == 400
    assert build(rest, "x", files, memoryMB="1").status == 400
    assert build(rest, "host", files).status == 409
    assert build(tenants[0], "x", files).status == 403
    # What is no archive, or has no Dockerfile in it, is the builder's to tell.
    for body in (b"no tar at all" * 100, context("", name="other")):
        assert "error" in build(rest, "x", body).lines[-1]


def test_build_is_given_up_with_its_client(world):
    connection = world.rest.connection()
    connection.request("POST", "/api/templates/slow/build", context(f"FROM {BASE}\nRUN sleep 600\n"))
    answer = connection.getresponse()
    while b"sleep" not in answer.readline():
        pass
    wait_until(lambda: world.engine.containers(), 30, lambda: "the step does not run")
    answer.close()
    connection.close()
    wait_until(lambda: not world.engine.containers(), 30, lambda: str(world.engine.containers()))
    assert "slow" not in names(world.rest)


def test_templates_of_several_layers(world, tmp_path):
    """A template of our own builder runs as an image that is loaded once: all attributes, config, and at once
    for two sandboxes; clients cannot name that image."""
    root = tmp_path / "root.tar"
    root.write_bytes(docker_engine.busybox_root(USERS))
    (tmp_path / "Dockerfile").write_text(
        "FROM base-of-layers\nENV COLOUR=blue\nRUN echo secret > /kept && chmod 600 /kept && ln /kept /same\n"
        "RUN mkdir -m 1777 /drop && chown 7:8 /drop\nRUN rm /etc/gone\nUSER user\nWORKDIR /drop\n")
    with tarfile.open(root, "a") as tar:
        tar.addfile(tarfile.TarInfo("etc/gone"))
    atoll = world.daemon.atoll
    atoll("template", "import", "base-of-layers", root, check=True)
    atoll("build", "-t", "of-layers", tmp_path, check=True)
    assert len(world.rest.get("/api/templates/of-layers").json["layers"]) >= 4
    made = []

    def make():
        made.append(Box(world.rest, provider="docker", template="of-layers", waive=["disk"]))
    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 2
    told = "echo $COLOUR; id -un; pwd; stat -c '%a %u %h' /kept; stat -c '%a %u %g' /drop; ls /etc/gone 2>&1 | wc -l"
    for one in made:
        assert one.out(told).split("\n") == ["blue", "user", "/drop", "600 0 2", "1777 7 8", "1"]
        view = world.rest.get(f"/api/sandboxes/{one.id}").json
        assert view["template"] == "of-layers" and view["provider"] == "docker" and "image" not in view, view
    loaded = [tag for tag in images(world) if tag.startswith("atoll-layer:")]
    assert len(loaded) == 1, loaded
    refused = world.rest.post("/api/sandboxes", {"provider": "docker", "image": loaded[0]})
    assert refused.status == 403, refused.body


def test_templates_on_the_host_cannot_be_images(world, tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM host\nRUN touch /made\n")
    world.daemon.atoll("build", "-t", "on-host", tmp_path, check=True)
    refused = world.rest.post("/api/sandboxes", {"provider": "docker", "template": "on-host"})
    assert refused.status == 409 and "FROM an image" in refused.error["message"], refused.body


def test_build_by_cli(world, tmp_path):
    atoll = world.daemon.atoll
    for path, text in {"Dockerfile": f"FROM {BASE}\nCOPY . /src\n", "keep/a": "a", "keep/b.log": "b",
                       "gone/c": "c", "gone/but/d": "d", ".hidden": "h", "-dash": "x",
                       ".dockerignore": "# comment\n*.md\n**/*.log\ngone\n!gone/but\nDockerfile\n",
                       "x.md": "m", "keep/y.md": "m"}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    os.symlink("a", tmp_path / "keep/link")
    done = atoll("template", "build", "by-cli", tmp_path, check=True)
    assert "Step 2/2 : COPY" in done.stderr
    assert done.stdout.startswith("template by-cli is ready")
    listed = atoll("run", "--template", "by-cli", "--", "sh", "-c",
                   "cd /src; find . -type f -o -type l | sort", check=True).stdout.split()
    assert listed == ["./-dash", "./.dockerignore", "./.hidden", "./gone/but/d", "./keep/a",
                      "./keep/link", "./keep/y.md"]
    assert "by-cli" in atoll("template", "ls", check=True).stdout
    (tmp_path / "bad").write_text(f"FROM {BASE}\nRUN echo oh dear; exit 3\n")
    failed = atoll("template", "build", "--file", "bad", "broken", tmp_path)
    assert failed.returncode != 0 and failed.stdout == ""
    assert "oh dear" in failed.stderr and "step 2/2 : RUN echo oh dear" in failed.stderr
    assert "there is no nothing" in atoll("template", "build", "-f", "nothing", "x", tmp_path).stderr
    atoll("template", "rm", "by-cli", check=True)


# Snapshots.

def test_snapshot(world, tenants):
    mine, other = tenants
    before = images(world)
    one = box(mine, image=BASE, waive=["disk"])
    one.out("echo kept >/home/user/f; echo root >/srv", user="root")
    answer = one.post("snapshot", {"name": "snap"})
    assert answer.status == 201, answer.body
    assert answer.json["kind"] == "image" and answer.json["tenant"] == "acme"
    assert one.out("cat /srv") == "root"  # goes on
    assert one.destroy() == 204
    again = box(mine, template="snap", waive=["disk"])
    assert again.out("cat /home/user/f /srv; id -un") == "kept\nroot\nuser"
    # The image is no container of ours, whoever runs it.
    image, = images(world) - before
    labels = json.loads(world.engine.call("GET", f"/images/{image}/json")[1])["Config"]["Labels"]
    assert not (labels or {}).get("atoll.daemon")
    # Nobody else has it, under whatever name.
    assert "snap" in names(mine) and "snap" not in names(other)
    assert other.post("/api/sandboxes", {"template": "snap"}).status == 404
    for name in (image, f"docker.io/library/{image}", "library/" + image):
        assert other.post("/api/sandboxes", {"provider": "docker", "image": name}).status == 403, name
    assert other.delete("/api/templates/snap").status == 404
    digest = names(mine)["snap"]["digest"]
    for name in (digest, digest[7:], digest[7:19], digest[7:9]):
        answer = other.post("/api/sandboxes", {"provider": "docker", "image": name})
        assert answer.status in (400, 403, 404, 503), (name, answer.body)
    # It stays with its owner, over a restart too.
    again.destroy()
    world.restart()
    assert names(mine)["snap"]["digest"] == digest
    again = box(mine, template="snap")
    assert again.out("cat /srv") == "root"
    assert mine.delete("/api/templates/snap").status == 409
    again.destroy()
    assert mine.delete("/api/templates/snap").status == 204
    assert "snap" not in names(mine)


def test_snapshot_refusals(world, tenants):
    mine = tenants[0]
    one = box(mine, image=BASE)
    answer = one.post("snapshot", {"name": "x"})  # the disk is in memory
    assert answer.status == 409 and "waive" in answer.error["message"], answer.body
    assert one.post("snapshot", {"name": ".bad"}).status == 400
    assert one.post("snapshot", {}).status == 400
    assert one.post("snapshot", {"name": "host"}).status == 409
    assert one.post("pause", {}).status == 200
    assert one.post("snapshot", {"name": "x"}).status == 409
    one.destroy()


def test_snapshot_by_cli(world):
    atoll = world.daemon.atoll
    name = world.daemon.create("--provider", "docker", "--image", BASE, "--waive", "disk")
    atoll("exec", "--user", "root", name, "--", "sh", "-c", "echo cli >/f", check=True)
    assert "template from-cli is ready" in atoll("snapshot", name, "from-cli", check=True).stdout
    atoll("rm", name, check=True)
    assert atoll("run", "--template", "from-cli", "--", "cat", "/f", check=True).stdout == "cli\n"
    atoll("template", "rm", "from-cli", check=True)


# Volumes.

def test_volumes(world, tenants):
    mine, other = tenants
    wanted = [{"name": "data", "path": "/data"}]
    one = box(mine, image=BASE, volumes=wanted)
    assert one.view["volumes"] == [{"name": "data", "path": "/data", "readOnly": False}]
    assert one.out("id -un; echo kept >/data/f; stat -c %U /data") == "user\nuser"
    # Whoever asks the engine is told whose it is.
    volumes = json.loads(world.engine.call("GET", "/volumes")[1])["Volumes"]
    labels = [v["Labels"] for v in volumes if v["Labels"] and "atoll.volume" in v["Labels"]]
    assert [(x["atoll.owner"], x["atoll.volume"]) for x in labels] == [("acme", "data")]
    assert [c["Labels"]["atoll.owner"] for c in world.engine.containers()] == ["acme"]
    assert mine.delete("/api/volumes/data").status == 409
    one.destroy()
    # It outlives its sandbox, and is another one for another tenant.
    two = box(mine, image=BASE, volumes=[{**wanted[0], "readOnly": True}])
    assert two.out("cat /data/f; touch /data/x 2>/dev/null || echo no") == "kept\nno"
    theirs = box(other, image=BASE, volumes=wanted)
    assert theirs.out("ls /data") == ""
    assert [v["name"] for v in mine.get("/api/volumes").json["volumes"]] == ["data"]
    two.destroy()
    theirs.destroy()
    assert other.delete("/api/volumes/data").status == 204
    assert other.delete("/api/volumes/data").status == 404
    assert mine.get("/api/volumes").json["volumes"][0]["provider"] == "docker"
    assert mine.delete("/api/volumes/data").status == 204


def test_volumes_have_a_maximum(world, tenants):
    mine = tenants[0]
    full = box(mine, image=BASE, volumes=[{"name": n, "path": f"/{n}"} for n in ("v1", "v2")])
    answer = mine.post("/api/sandboxes", {"provider": "docker", "image": BASE,
                                          "volumes": [{"name": "v3", "path": "/x"}]})
    assert answer.status == 429 and "volumes" in answer.error["message"], answer.body
    assert len(world.engine.containers()) == 1
    full.destroy()
    for name in ("v1", "v2"):
        assert mine.delete(f"/api/volumes/{name}").status == 204


def test_host_paths(world, tenants, shared):
    mine = tenants[0]

    def create(name, **more):
        return mine.post("/api/sandboxes", {"provider": "docker", "image": BASE, "volumes": [
            {"hostPath": str(shared / name), "path": "/mnt/x", **more}]})
    for name, read_only, status in [("read", True, 201), ("read", False, 403), ("write", False, 201),
                                    ("secret", True, 403), ("write/../secret", True, 400),
                                    ("write/f", True, 403)]:
        answer = create(name, readOnly=read_only)
        assert answer.status == status, (name, answer.body)
        if status == 201:
            mine.delete(f"/api/sandboxes/{answer.json['id']}")
    # A link that somebody inside has made leads nowhere.
    os.symlink(shared / "secret", shared / "write/link")
    assert create("write/link", readOnly=True).status == 403
    assert "operator" in create("secret", readOnly=True).error["message"]
    refused = create("write", mode="cow")
    assert refused.status == 400 and "native has cow" in refused.error["message"]
    one = box(mine, image=BASE, volumes=[{"hostPath": str(shared / "write"), "path": "/mnt/x"}])
    assert one.out("cat /mnt/x/f; echo new >/mnt/x/g; ls /mnt/x") == "writef\ng\nlink"
    assert (shared / "write/g").read_text() == "new\n"
    one.destroy()


def test_a_folder_in_step(world, tenants, tmp_path):
    """atoll sync: pushed, pulled, and what both sides changed is listed and left alone."""
    one = box(world.rest, image=BASE)
    (tmp_path / "f").write_text("one")

    def sync(*options, status=0):
        done = world.daemon.atoll("sync", *options, str(tmp_path), f"{one.id}:/tmp/synced")
        assert done.returncode == status, (done.stdout, done.stderr)
        return sorted(done.stdout.splitlines())
    assert sync() == ["> f"] and one.out("cat /tmp/synced/f") == "one"
    one.out("cd /tmp/synced && echo theirs > f && echo new > new")
    (tmp_path / "f").write_text("mine, longer")
    assert sync("--two-way", status=1) == ["! f", "< new"]
    assert one.out("cat /tmp/synced/f") == "theirs" and (tmp_path / "f").read_text() == "mine, longer"
    one.destroy()


@pytest.mark.parametrize("volumes", [
    "x", [1], [{}], [{"path": "/x"}], [{"name": "a"}], [{"name": "a", "path": "x"}],
    [{"name": "a", "path": "/"}], [{"name": "a", "path": "/x/../y"}], [{"name": "a", "path": "/proc/x"}],
    [{"name": "a", "path": "/.atoll"}], [{"name": "../a", "path": "/x"}],
    [{"name": "a", "hostPath": "/x", "path": "/x"}], [{"hostPath": "x", "path": "/x"}],
    [{"name": "a", "path": "/x", "readonly": True}],
    [{"name": "a", "path": "/x"}, {"name": "b", "path": "/x/y"}],
    [{"name": f"v{i}", "path": f"/v{i}"} for i in range(9)]])
def test_bad_volumes(world, volumes):
    answer = world.rest.post("/api/sandboxes", {"provider": "docker", "volumes": volumes})
    assert answer.status == 400, answer.body


def test_volumes_elsewhere(world):
    """Each provider has volumes of its own; a request without a provider is about all of them."""
    made = [Box(world.rest, provider=name, volumes=[{"name": "both", "path": "/x"}], **more)
            for name, more in (("native", {}), ("docker", {"image": BASE}))]
    listed = [one["provider"] for one in world.rest.get("/api/volumes").json["volumes"]
              if one["name"] == "both"]
    assert sorted(listed) == ["docker", "native"]
    for one in made:
        one.destroy()
    for _ in made:
        assert world.rest.delete("/api/volumes/both").status == 204
    assert world.rest.delete("/api/volumes/both").status == 404


def test_volume_by_cli(world):
    atoll = world.daemon.atoll
    run = ["run", "--provider", "docker", "--image", BASE, "--volume"]
    atoll(*run, "box:/data", "--", "sh", "-c", "echo cli >/data/f", check=True)
    assert atoll(*run, "box:/data:ro", "--", "cat", "/data/f", check=True).stdout == "cli\n"
    assert "box" in atoll("volume", "ls", check=True).stdout
    assert "is not NAME:PATH" in atoll(*run, "box", "--", "true").stderr
    atoll("volume", "rm", "box", check=True)
    assert json.loads(atoll("volume", "ls", "--json", check=True).stdout) == {"volumes": []}


# Registries.

def everything_written(world):
    """All that the daemon has put on disk, and said."""
    texts = [world.daemon.log.read_bytes()]
    for path in below(world.daemon.state):
        if path.is_file():
            texts.append(path.read_bytes())
    return b"\n".join(texts)


def test_registry_of_a_request(world, tenants):
    mine, other = tenants
    with fake_registry.serve(docker_engine.busybox_root(USERS)) as registry:
        login = {"username": fake_registry.USER, "password": fake_registry.PASSWORD}
        request = {"provider": "docker", "image": registry.image}

        def create(rest, **more):
            return rest.post("/api/sandboxes", {**request, **more})
        assert create(mine).status == 403
        assert create(mine, registry={**login, "password": "wrong-one-0815"}).status == 403
        made = create(mine, registry=login)
        assert made.status == 201, made.body
        assert fake_registry.PASSWORD.encode() not in made.body
        assert "registry" not in made.json
        # Those who have no password do not get what somebody else's brought here.
        assert create(other).status == 403
        assert create(other, registry={**login, "password": "wrong-one-0815"}).status == 403
        again = create(mine)
        assert again.status == 201, again.body
        for answer in (made, again):
            assert mine.delete(f"/api/sandboxes/{answer.json['id']}").status == 204
        world.daemon.env["ATOLL_REGISTRY_PASSWORD"] = fake_registry.PASSWORD
        try:
            done = world.daemon.atoll("run", "--provider", "docker", "--image", registry.image,
                                      "--registry-user", fake_registry.USER, "--", "echo", "pulled")
        finally:
            del world.daemon.env["ATOLL_REGISTRY_PASSWORD"]
        assert done.stdout == "pulled\n", done.stderr
        listed = mine.get("/api/sandboxes").body + mine.get("/api/templates").body
    for secret in (fake_registry.PASSWORD, "wrong-one-0815"):
        assert secret.encode() not in everything_written(world)
        assert secret.encode() not in listed
    world.restart()
    assert fake_registry.PASSWORD.encode() not in everything_written(world)


def test_a_daemon_killed_while_it_pulls_for_somebody(world, tenants):
    """The image may be there under the name that everybody knows. The next daemon takes that away."""
    mine, other = tenants
    with fake_registry.serve(docker_engine.busybox_root(USERS + "##\n")) as registry:
        login = {"username": fake_registry.USER, "password": fake_registry.PASSWORD}
        request = {"provider": "docker", "image": registry.image}
        registry.may_answer.clear()

        def create():
            with contextlib.suppress(OSError, http.client.HTTPException):
                mine.post("/api/sandboxes", {**request, "registry": login})
        asking = threading.Thread(target=create)
        asking.start()
        notes = []

        def noted():
            notes[:] = [path for path in below(world.daemon.state) if path.name.startswith("pull-")]
            return notes
        wait_until(noted, 30, lambda: "it does not pull")
        assert notes[0].read_text() == registry.image
        world.daemon.process.kill()
        world.daemon.process.wait()
        asking.join(30)
        repository, _, tag = registry.image.rpartition(":")
        status, body = world.engine.call("POST", f"/images/{BASE}/tag?repo={repository}&tag={tag}")
        assert status == 201, body
        world.daemon.start()
        wait_until(lambda: not noted(), 30, lambda: f"there are {notes}")
        assert registry.image not in images(world) and BASE in images(world)
        registry.may_answer.set()
        assert other.post("/api/sandboxes", request).status == 403
        made = mine.post("/api/sandboxes", {**request, "registry": login})
        assert made.status == 201 and not noted(), made.body


def test_settings_that_change_while_it_pulls(world, tenants):
    """The provider of the new settings leaves alone what that of the old ones has under way."""
    mine, _ = tenants
    file = world.daemon.state / "providers.yaml"
    before = file.read_text()
    with fake_registry.serve(docker_engine.busybox_root(USERS + "###\n")) as registry:
        login = {"username": fake_registry.USER, "password": fake_registry.PASSWORD}
        registry.may_answer.clear()
        answers = []
        asking = threading.Thread(target=lambda: answers.append(mine.post(
            "/api/sandboxes", {"provider": "docker", "image": registry.image, "registry": login})))
        asking.start()

        def noted():
            return [path for path in below(world.daemon.state) if path.name.startswith("pull-")]
        wait_until(noted, 30, lambda: "it does not pull")
        settings = json.loads(before)
        settings["providers"]["docker"]["connections"] = 9
        try:
            file.write_text(json.dumps(settings))
            loaded = world.rest.get("/api/providers").json.get("reload")
            world.daemon.process.send_signal(signal.SIGHUP)
            wait_until(lambda: world.rest.get("/api/providers").json.get("reload") != loaded, 30,
                       lambda: "the file is not read again")
            one = box(world.rest, image=BASE)  # by the new one, which has looked around
            assert one.out("echo new") == "new" and noted()
            registry.may_answer.set()
            asking.join(60)
            assert answers and answers[0].status == 201, answers and answers[0].body
            path = f"/api/sandboxes/{answers[0].json['id']}"
            done = mine.post(f"{path}/execs", {"cmd": ["echo", "old"]}, wait="true")
            assert done.json["stdout"] == "old\n", done.body
        finally:
            registry.may_answer.set()
            file.write_text(before)
            world.daemon.process.send_signal(signal.SIGHUP)


def test_registry_refusals(world):
    for fields in ({"registry": {"username": "x", "password": "y"}},
                   {"image": BASE, "registry": {"username": "x"}},
                   {"image": BASE, "registry": {"username": "x", "password": "y", "token": "z"}},
                   {"image": BASE, "registry": "x"}):
        answer = world.rest.post("/api/sandboxes", {"provider": "docker", **fields})
        assert answer.status == 400, answer.body


def test_pull_tells_how_far_it_is(world):
    """As events, and to whoever waits for a command."""
    events = []

    def listen():
        connection = world.rest.connection()
        connection.request("GET", "/api/events", None, {"Accept": "text/event-stream"})
        answer = connection.getresponse()
        ready.set()
        for line in answer:
            if line.startswith(b"data: "):
                events.append(json.loads(line[6:]))
            if events and events[-1]["kind"] == "sandbox.destroyed":
                break
        connection.close()
    ready = threading.Event()
    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    assert ready.wait(20)
    with fake_registry.serve(docker_engine.busybox_root(USERS + "#\n")) as registry:
        login = {"username": fake_registry.USER, "password": fake_registry.PASSWORD}
        with world.rest.websocket("/api/run") as socket:
            socket.send(json.dumps({"cmd": ["true"], "provider": "docker", "image": registry.image,
                                    "registry": login}))
            told = []
            while "exec_id" not in (message := json.loads(socket.recv()[1])):
                told.append(message["progress"])
            while "result" not in json.loads(socket.recv()[1]):
                pass
        listener.join(30)
        assert any(registry.image in text and "layers" in text for text in told), told
        pulls = [e for e in events if e["kind"] == "provider.pull_progress"]
        assert pulls and all(e["sandbox_id"] for e in pulls), events
        assert len(pulls) <= len(told) + 1
        assert fake_registry.PASSWORD not in json.dumps(events) + json.dumps(told)


def test_nothing_is_left(world):
    assert world.engine.containers() == []


def test_a_default_image_that_lacks_a_language(world, tenants):
    """Routing knows what an image runs only by the operator's word, and says so."""
    answer = world.rest.post("/api/sessions", {"environment": "Node", "isolation": "container",
                                               "waive": ["all"]})
    assert answer.status == 409 and '"node"' in answer.error["message"], answer.body
    file = str(world.daemon.state / "providers.yaml")
    assert "`languages: [" in answer.error["hint"] and file in answer.error["hint"]
    assert "javascript" in answer.error["hint"] and "docker" in answer.error["hint"]
    box = Box(world.rest, provider="docker", waive=["all"])
    answer = world.rest.post(f"{box.path}/contexts", {"language": "js"})
    assert answer.status == 409 and "`languages: [" in answer.error["hint"], answer.body
    # Whoever named an image has to name another.
    box = Box(world.rest, provider="docker", image=BASE, waive=["all"])
    answer = world.rest.post(f"{box.path}/contexts", {"language": "js"})
    assert answer.status == 409 and "languages" not in answer.error.get("hint", ""), answer.body
    answer = tenants[0].post("/api/sessions", {"environment": "Node", "isolation": "container",
                                               "waive": ["all"]})
    assert answer.status == 409 and file not in answer.error["hint"], answer.body


def test_doctor_knows_of_an_engine_elsewhere(world):
    """Its socket is not the usual one, and it makes sandboxes."""
    checks = json.loads(world.daemon.atoll("doctor", "--json").stdout)["checks"]
    docker = next(check for check in checks if check["name"] == "Docker")
    assert docker["state"] == "ok" and docker["detail"].startswith("provider docker is up: ")
    assert "fix" not in docker
