"""gVisor as the runtime of a Docker engine: the same agent, through the relay, behind another kernel."""

import shutil

import docker_engine
import pytest
from boxes import Box
from daemons import BUILD, running
from rest import Rest

IMAGE = "atoll-test-busybox:1"
USERS = "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n"
RUNTIMES = {"runtimes": {"runsc": {"path": shutil.which("runsc") or "",
                                   "runtimeArgs": ["--network=none"]}}}

pytestmark = pytest.mark.skipif(docker_engine.missing() is not None or not shutil.which("runsc"),
                                reason=docker_engine.missing() or "runsc is not installed")


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    with docker_engine.start(tmp_path_factory.mktemp("docker"), config=RUNTIMES) as engine:
        engine.import_image(IMAGE, docker_engine.busybox_root(USERS))
        yield engine


@pytest.fixture(scope="module")
def rest(engine, tmp_path_factory):
    settings = tmp_path_factory.mktemp("settings") / "providers.yaml"
    settings.write_text(f"""providers:
  native: {{}}
  plain: {{kind: docker, host: "{engine.url}", default_image: "{IMAGE}"}}
  walled: {{kind: docker, host: "{engine.url}", default_image: "{IMAGE}", runtime: runsc}}
""")
    with running(BUILD, ATOLL_PROVIDERS=str(settings)) as daemon:
        yield Rest(daemon.socket)


def test_it_is_chosen_by_isolation(rest, engine):
    """And the command really meets gVisor's kernel, where the same image otherwise meets ours."""
    walled = Box(rest, isolation="gvisor", image=IMAGE)
    plain = Box(rest, isolation="container", image=IMAGE)
    assert walled.view["provider"] == "walled" and plain.view["provider"] == "plain"
    assert "Starting gVisor" in walled.out("dmesg")
    assert "Starting gVisor" not in plain.run("dmesg")["stdout"]
    for box in (walled, plain):
        box.destroy()
    assert engine.containers() == []


def test_commands_and_files(rest, engine):
    box = Box(rest, provider="walled")
    assert box.run("echo out; echo err >&2; exit 3")["result"]["exit_code"] == 3
    data = bytes(range(256)) * 4096
    path = f"{box.path}/files"
    assert rest.put(path, data, path="/home/user/data").status in (200, 201, 204)
    assert box.out("wc -c < /home/user/data") == str(len(data))
    assert rest.get(path, path="/home/user/data").body == data
    assert box.run("sleep 60", timeoutSeconds=1)["result"]["kind"] == "timed_out"
    box.destroy()
    assert engine.containers() == []


def test_an_engine_without_the_runtime_says_so(rest, engine, tmp_path):
    settings = tmp_path / "providers.yaml"
    settings.write_text(f"""providers:
  native: {{enabled: false}}
  odd: {{kind: docker, host: "{engine.url}", default_image: "{IMAGE}", runtime: kata-none}}
""")
    with running(BUILD, ATOLL_PROVIDERS=str(settings)) as daemon:
        answer = Rest(daemon.socket).post("/api/sandboxes", {"provider": "odd"})
    assert answer.status == 503, answer.body
    assert "has no runtime called kata-none" in answer.json["error"]["message"]
    assert engine.containers() == []
