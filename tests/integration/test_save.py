"""Pauses that write the memory of a sandbox to disk, with the runsc of this host."""

import os
import shutil

import pytest

import conftest
from conftest import wait_until
from places import providers_yaml
from resting import COUNTER, Box, advances, kill_daemon
from rest import Rest

pytestmark = [
    pytest.mark.skipif(shutil.which("runsc") is None, reason="no runsc here: apt install runsc"),
    pytest.mark.skipif(os.geteuid() != 0, reason="gVisor needs root"),
]


@pytest.fixture(scope="module")
def walled(tmp_path_factory):
    conftest.need_build()
    file = tmp_path_factory.mktemp("walled") / "providers.yaml"
    file.write_text(providers_yaml({"native": {}, "gvisor": {}}))
    with conftest.running(conftest.BUILD, ATOLL_PROVIDERS=str(file)) as daemon:
        yield daemon


@pytest.fixture
def rest(walled):
    return Rest(walled.socket)


def saved(daemon, box):
    return daemon.state / "gvisor" / "sandboxes" / f"{box.id}.saved"


def test_processes_go_on_from_the_disk(walled, rest):
    box = Box(rest, provider="gvisor")
    box.out("echo kept >file")
    counter = box.detach(COUNTER)
    advances(box, counter)
    memory = box.do("pause", {"toDisk": True})["paused_memory"]
    assert box.state == "paused" and (saved(walled, box) / "checkpoint.img").exists()
    assert memory["after_bytes"] < memory["before_bytes"] // 2, memory
    assert box.do("resume")["state"] == "running"
    assert not saved(walled, box).exists()
    advances(box, counter)
    numbers = box.output(counter).split()
    assert numbers == [str(i + 1) for i in range(len(numbers))]
    assert box.out("cat file; sudo id -u") == "kept\n0"
    box.destroy()


def test_it_outlives_the_daemon(walled, rest):
    box = Box(rest, provider="gvisor")
    counter = box.detach(COUNTER)
    advances(box, counter)
    box.do("pause", {"toDisk": True})
    kill_daemon(walled)
    walled.start()
    assert box.state == "paused" and saved(walled, box).exists()
    assert box.post("pause", {"toDisk": True}).status == 409
    box.do("resume")
    advances(box, counter)
    numbers = box.output(counter).split()
    assert numbers == [str(i + 1) for i in range(len(numbers))]
    box.do("pause", {"toDisk": True})  # as often as one likes
    assert box.destroy() == 204
    assert not saved(walled, box).exists()
    assert not [path for path in saved(walled, box).parent.iterdir() if path.name.startswith(box.id)]


def test_what_cannot_be_saved_is_refused(walled, rest):
    box = Box(rest, provider="gvisor")
    server = box.detach("python3 -c \"import socket,time; s=socket.socket(socket.AF_UNIX); "
                        "s.bind('/home/user/mine'); s.listen(); print('up', flush=True); time.sleep(600)\"")
    wait_until(lambda: "up" in box.output(server), 30, lambda: box.output(server))
    refused = box.post("pause", {"toDisk": True})
    assert refused.status == 409 and "/home/user/mine" in refused.error["message"], refused.body
    assert box.state == "running" and box.out("echo on") == "on"
    assert box.post("pause", {"toDisk": True, "keepProcesses": False}).status == 400
    assert box.do("pause")["state"] == "paused"  # in memory it can be
    box.do("resume")
    box.destroy()


def test_a_fork_with_memory_is_refused_by_name(walled, rest):
    box = Box(rest, provider="gvisor")
    refused = box.post("fork", {"memory": True})
    assert refused.status == 501 and "gvisor" in refused.error["message"], refused.body
    assert "toDisk" in refused.error["message"] and box.state == "running"
    box.destroy()


def test_the_host_s_kernel_is_refused_by_name(walled, rest):
    box = Box(rest, provider="native")
    refused = box.post("pause", {"toDisk": True})
    assert refused.status == 501 and "CRIU" in refused.error["message"]
    assert box.state == "running"
    said = walled.atoll("pause", "--to-disk", box.id)
    assert said.returncode != 0 and "gvisor" in said.stderr
    box.destroy()
