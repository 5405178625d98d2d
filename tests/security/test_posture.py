"""What the host sees of a sandbox: the kernel's own record of its init and of a user process."""

import os
import stat
import subprocess

import pytest

import processes
from canary import NAMESPACES, ROOT_CAPS


class Processes:
    """A sandbox with a process of the default user and one of root, by their host pids."""

    def __init__(self, daemon):
        self.sandbox = daemon.create()
        self.user = self.start(daemon)
        self.root = self.start(daemon, "--user", "root")
        self.init = processes.init_of(self.user)

    def start(self, daemon, *who):
        marker = processes.marker()
        daemon.atoll("exec", "--detach", *who, self.sandbox, "--",
                     *processes.idle(marker), check=True)
        return processes.wait_marked(marker)


@pytest.fixture(scope="module")
def seen(daemon):
    if os.geteuid() != 0:
        pytest.skip("only root sees the processes of a sandbox")
    made = Processes(daemon)
    yield made
    daemon.atoll("rm", made.sandbox)


EVERYBODY = pytest.mark.parametrize("who", ["init", "user", "root"])


@EVERYBODY
def test_no_new_privs(seen, who):
    assert processes.status(getattr(seen, who))["NoNewPrivs"] == ["1"]


@EVERYBODY
def test_seccomp_filter(seen, who):
    assert processes.status(getattr(seen, who))["Seccomp"] == ["2"]


@EVERYBODY
def test_kernel_ids_are_not_root(seen, who):
    record = processes.status(getattr(seen, who))
    assert "0" not in record["Uid"] and "0" not in record["Gid"]
    assert "0" not in record["Groups"]


@EVERYBODY
@pytest.mark.parametrize("kind", NAMESPACES)
def test_namespaces_are_not_ours(seen, who, kind):
    pid = getattr(seen, who)
    assert processes.namespace(pid, kind) != processes.namespace("self", kind)


@pytest.mark.parametrize("field", ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"])
def test_user_has_no_capability(seen, field):
    assert int(processes.status(seen.user)[field][0], 16) == 0


@pytest.mark.parametrize("field", ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"])
def test_root_has_few_capabilities(seen, field):
    assert int(processes.status(seen.root)[field][0], 16) & ~ROOT_CAPS == 0


# What atoll-spawn may have beside the capabilities of root inside: SETPCAP, SYS_ADMIN, SYS_CHROOT,
# SYS_PTRACE, SYS_TIME, SYS_RESOURCE, NET_ADMIN, MKNOD, SETFCAP.
SPAWN_CAPS = ROOT_CAPS | sum(1 << cap for cap in (8, 21, 18, 19, 25, 24, 12, 27, 31))


def test_spawn_is_confined(seen):
    spawn = processes.status(seen.init)["PPid"][0]
    keeper = processes.status(spawn)["PPid"][0]
    for pid in (spawn, keeper):
        record = processes.status(pid)
        assert "atoll" in record["Name"][0]
        assert record["NoNewPrivs"] == ["1"]
        assert record["Seccomp"] == ["2"]
        for field in ("CapPrm", "CapEff", "CapBnd"):
            assert int(record[field][0], 16) & ~SPAWN_CAPS == 0, field
        for field in ("CapInh", "CapAmb"):
            assert int(record[field][0], 16) == 0, field


def v1_group(pid, controller):
    """The directory of a process's group in a v1 hierarchy."""
    mounted = f"/sys/fs/cgroup/{controller}"
    if not os.path.exists(f"{mounted}/tasks"):
        pytest.skip(f"no cgroup v1 with {controller} here")
    with open(f"/proc/{pid}/cgroup") as f:
        paths = {name: path for _, names, path in (line.strip().split(":", 2) for line in f)
                 for name in names.split(",")}
    return mounted + paths[controller]


@EVERYBODY
@pytest.mark.parametrize("controller", ["devices", "blkio", "cpuset"])
def test_controllers_hold_it(seen, who, controller):
    group = v1_group(getattr(seen, who), controller)
    assert "/atoll-" in group


@EVERYBODY
def test_few_devices_are_allowed(seen, who):
    with open(v1_group(getattr(seen, who), "devices") + "/devices.list") as f:
        rules = {line.strip() for line in f}
    assert rules == {"c 1:3 rw", "c 1:5 rw", "c 1:7 rw", "c 1:8 rw", "c 1:9 rw", "c 5:0 rw",
                     "c 5:2 rw", "c 136:* rw"}


def test_other_devices_do_not_open(seen):
    """Even for root of the host in that group, which may open them outside of it."""
    group = v1_group(seen.user, "devices")
    script = "head -c0 /dev/null && head -c0 /dev/urandom && head -c0 /dev/loop-control"
    outside = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
    if outside.returncode != 0:
        pytest.skip(f"no loop devices here: {outside.stderr}")
    inside = subprocess.run(["sh", "-c", f"echo $$ > {group}/tasks && {script}"],
                            capture_output=True, text=True)
    assert inside.returncode != 0
    assert "loop-control" in inside.stderr and "not permitted" in inside.stderr


def test_user_process_has_only_stdio(seen):
    directory = f"/proc/{seen.user}/fd"
    assert sorted(os.listdir(directory)) == ["0", "1", "2"]
    for fd in "012":
        mode = os.stat(f"{directory}/{fd}").st_mode
        target = os.readlink(f"{directory}/{fd}")
        assert stat.S_ISFIFO(mode) or target == "/dev/null", f"{fd} is {target}"


def test_init_shows_nothing_of_the_host(seen, daemon):
    with open(f"/proc/{seen.init}/environ", "rb") as f:
        assert f.read() == b""
    with open(f"/proc/{seen.init}/cmdline", "rb") as f:
        assert b"/" not in f.read()
    assert str(daemon.state) not in os.readlink(f"/proc/{seen.init}/exe")


def test_init_is_the_last_to_be_killed_for_memory(seen):
    def score(pid):
        with open(f"/proc/{pid}/oom_score_adj") as f:
            return int(f.read())
    assert score(seen.init) < score(seen.user)


def test_the_daemon_is_not_the_first(seen, daemon):
    with open(f"/proc/{daemon.pid}/oom_score_adj") as f, \
            open(f"/proc/{seen.user}/oom_score_adj") as inside:
        assert int(f.read()) < int(inside.read())
