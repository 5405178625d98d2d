"""The gVisor provider with the runsc of this host: test_gvisor_live, test by test, and beside native."""

import json
import os
import shutil
import signal
import subprocess
import time
from types import SimpleNamespace

import pytest
from boxes import Box
from conftest import BUILD, cgroups, running, wait_until
from places import providers_yaml
from rest import Rest
from resting import kill_daemon, spawn_pid

TESTS = ["health", "life", "stack", "network", "walls", "large_disk", "out_of_memory", "end", "refusals",
         "lost_while_formatting"]

pytestmark = [
    pytest.mark.skipif(shutil.which("runsc") is None, reason="no runsc here: apt install runsc"),
    pytest.mark.skipif(os.geteuid() != 0, reason="gVisor needs root"),
]


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    path = tmp_path_factory.mktemp("gvisor")
    yield path
    if not (path / "gvisor").exists():
        return
    # Without a daemon and a sandbox its atoll-spawn ends by itself, and leaves nothing.
    until = time.monotonic() + 20
    while (path / "gvisor/spawn.sock").exists() or groups_of(path / "gvisor"):
        assert time.monotonic() < until, f"left: {groups_of(path / 'gvisor')}"
        time.sleep(0.1)


def groups_of(directory):
    """The cgroups of the atoll-spawn that serves this directory."""
    place = directory.stat()
    name = f"atoll-{(place.st_ino ^ (place.st_dev << 40)) & (2**64 - 1):x}"
    return [group for group in cgroups() if name in group.parts]


@pytest.mark.parametrize("test", TESTS)
def test_provider(state, tmp_path, test):
    env = {**os.environ, "ATOLL_BUILD_DIR": str(BUILD), "ATOLL_TEST_GVISOR": str(state),
           "ATOLL_TEST_GVISOR_ONLY": f"test_{test}"}
    # To a file: the atoll-spawn it starts outlives it, and would keep a pipe open.
    with open(tmp_path / "output", "w+", encoding="utf-8") as file:
        done = subprocess.run([BUILD / "tests/test_gvisor_live"], env=env, stdout=file, stderr=file,
                              timeout=60, check=False)
        file.seek(0)
        output = file.read()
    assert done.returncode == 0, output
    assert "1 test(s) run" in output, output  # a name that matches nothing is no success
    assert list((state / "gvisor/sandboxes").iterdir()) == []


@pytest.fixture
def programs(tmp_path):
    """Those of a daemon that is upgraded."""
    copies = tmp_path / "programs"
    copies.mkdir()
    for path in BUILD.glob("atoll*"):
        if path.is_file():
            shutil.copy2(path, copies)
    return copies


def test_an_upgrade_leaves_them_what_they_stand_on(programs):
    """The host template and the programs in every root are made anew, and then native's atoll-spawn dies:
    what it clears away when it starts again is not what gVisor's sandboxes stand on."""
    script = "wc -l < /etc/nsswitch.conf; ls /etc/shells /var/tmp/. /usr/bin/sudo; sudo id -u"
    with running(programs) as daemon:

        def restart_spawn(provider, state, name):
            os.kill(spawn_pid(SimpleNamespace(state=state)), signal.SIGKILL)
            wait_until(lambda: daemon.atoll("run", "--provider", provider, "--",
                                            "true").returncode == 0, 30, daemon.log_tail)
            return list(state.glob(name))

        native = ("native", daemon.state, "template.old-*")
        gvisor = ("gvisor", daemon.state / "gvisor", "layer.old-*")

        (daemon.state / "providers.yaml").write_text(providers_yaml({"gvisor": {}}))
        kill_daemon(daemon)
        daemon.start()
        sandbox = daemon.create("--provider", "gvisor")
        before = daemon.atoll("exec", sandbox, "--", "sh", "-c", script, check=True).stdout
        os.utime(programs / "atoll-sudo", (1, 1))
        with (programs / "atoll-preload.so").open("ab") as file:
            file.write(b"another")
        kill_daemon(daemon)
        daemon.start()
        assert (daemon.state / "gvisor/layer.old-0/.atoll/preload.so").exists()
        assert restart_spawn(*native)
        assert daemon.atoll("exec", sandbox, "--", "sh", "-c", script, check=True).stdout == before
        daemon.atoll("rm", sandbox, check=True)
        # gVisor may be being tried out, in a sandbox like any other.
        wait_until(lambda: not restart_spawn(*native), 30, lambda: "the old template stays")
        assert not restart_spawn(*gvisor)


def restart(daemon):
    kill_daemon(daemon)
    daemon.start()


def old_templates(daemon):
    return list(daemon.state.glob("template.old-*"))


def restart_spawn_of_gvisor(daemon):
    os.kill(spawn_pid(SimpleNamespace(state=daemon.state / "gvisor")), signal.SIGKILL)
    daemon.atoll("run", "--provider", "gvisor", "--", "true", check=True)


@pytest.mark.parametrize("native", [True, False])
def test_its_atoll_spawn_removes_the_template_of_before_an_upgrade(programs, native):
    """Also where there is no other; where there is, not under the sandboxes of that."""
    settings = {"native": {"enabled": native}, "gvisor": {}}
    with running(programs) as daemon:
        (daemon.state / "providers.yaml").write_text(providers_yaml(settings))
        restart(daemon)
        sandbox = daemon.create("--provider", "native" if native else "gvisor")
        os.utime(programs / "atoll-sudo", (1, 1))
        restart(daemon)
        assert old_templates(daemon)
        if native:
            restart_spawn_of_gvisor(daemon)
            assert old_templates(daemon)
        assert daemon.atoll("exec", sandbox, "--", "sudo", "id", "-u").stdout == "0\n"
        daemon.atoll("rm", sandbox, check=True)
        restart_spawn_of_gvisor(daemon)
        assert not old_templates(daemon)


def test_out_of_memory_is_no_riddle():
    """The kernel ends gVisor as a whole: what ran in it was killed for memory, and is not lost."""
    with running(BUILD) as daemon:
        (daemon.state / "providers.yaml").write_text(providers_yaml({"gvisor": {}}))
        kill_daemon(daemon)
        daemon.start()
        done = daemon.atoll("run", "--json", "--provider", "gvisor", "--memory", "64M", "--", "dd",
                            "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1")
        assert done.returncode == 137, done
        result = json.loads(done.stdout)["result"]
        assert result["kind"] == "oom_killed" and "memory limit" in result["reason"]
        oom = result["oom"]
        assert oom["kills"] > 0 and oom["limit_bytes"] == 64 << 20 and oom["peak_bytes"] > 0
        assert not {"process", "pid"} & set(oom)
        assert "out of memory" in done.stderr


def test_the_working_directory_and_no_read_only_root():
    with running(BUILD) as daemon:
        (daemon.state / "providers.yaml").write_text(providers_yaml({"gvisor": {}}))
        kill_daemon(daemon)
        daemon.start()
        rest = Rest(daemon.socket)
        box = Box(rest, provider="gvisor", workdir="/srv/app")
        assert box.out("pwd; touch mine; stat -c %U .") == "/srv/app\nuser"
        answer = rest.post("/api/sandboxes", {"provider": "gvisor", "readOnly": True})
        assert answer.status == 501 and "read-only (readOnly)" in answer.error["message"]
        box.destroy()
