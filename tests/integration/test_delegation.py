"""cgroup v2 that is not ours from the root on: a subtree given to a user, a service, a container.

A group that hands controllers to its children may have no processes itself. So the daemon and
whoever is with it move to a child, and the sandboxes get their own beside that.
"""

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from boxes import Box
from conftest import wait_until
from daemons import BUILD, Daemon, ensure_rootless_user, need_build
from rest import Rest
from resting import COUNTER, advances, kill_daemon, stands_still
from test_cgroups import FORKS, LIMITS, MIB, runs_out_of_memory

TOP = Path("/sys/fs/cgroup")
LEAF = "atoll-daemon"
CONTROLLERS = ("memory", "cpu", "pids")
# The process that becomes the daemon enters the group itself, as one of a service manager does.
ENTER = ["sh", "-c", 'echo 0 >"$0/cgroup.procs" && exec "$@"']
# As in a container: the group it is in is all of the hierarchy that there is.
CONTAIN = ["unshare", "--mount", "--cgroup", "--propagation", "private", "sh", "-c",
           'cd / && umount /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && '
           'exec "$0" "$@"']


def why_not():
    if os.geteuid() != 0:
        return "only root can delegate"
    listed = TOP / "cgroup.controllers"
    if not listed.exists() or not set(CONTROLLERS) <= set(listed.read_text().split()):
        return "the controllers of this host are not on cgroup v2"
    return None


pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


def enable(group, controllers):
    (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))


def give(path, user):
    """What a service manager gives away of a group with Delegate=yes."""
    for name in (".", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
        os.chown(path / name, user.pw_uid, user.pw_gid)


@contextlib.contextmanager
def group(controllers=CONTROLLERS, user=None):
    """A group of its own with those controllers to give, below one that has them."""
    outer = TOP / f"atoll-test-{secrets.token_hex(4)}"
    inner = outer / "some.service"
    outer.mkdir()
    try:
        enable(TOP, CONTROLLERS)
        enable(outer, controllers)
        inner.mkdir()
        if user:
            give(inner, user)
        yield inner
    finally:
        for directory, _, _ in os.walk(outer, topdown=False):
            wait_until(lambda: remove(Path(directory)), 30, lambda: f"{directory} is in use")


def remove(directory):
    with contextlib.suppress(OSError):
        directory.rmdir()
    return not directory.exists()


@pytest.fixture
def user():
    return ensure_rootless_user()


@contextlib.contextmanager
def daemon_in(place, user=None, launcher=(), leaf=None):
    """A daemon that is started in that group, or in its child `leaf`."""
    need_build()
    directory = Path(tempfile.mkdtemp(prefix="atoll-", dir="/tmp"))
    directory.chmod(0o755)
    build = BUILD
    if user:
        build = directory / "bin"
        build.mkdir()
        for binary in BUILD.glob("atoll*"):
            if binary.is_file() and os.access(binary, os.X_OK):
                shutil.copy2(binary, build)
        os.chown(directory, user.pw_uid, user.pw_gid)
    daemon = Daemon(build, directory, user)
    start = place / leaf if leaf else place
    start.mkdir(exist_ok=True)
    daemon.launcher = [*ENTER, str(start), *launcher]
    try:
        daemon.start()
        daemon.rest = Rest(daemon.socket)
        yield daemon
    finally:
        left = daemon.stop() if daemon.process and daemon.process.poll() is None else []
        shutil.rmtree(directory, ignore_errors=True)
    assert not left, left


def groups_below(place):
    return {path.name for path in place.iterdir() if path.is_dir()}


def group_of(box, place):
    (found,) = place.glob(f"atoll-*/{box.id}")
    return found


def check_limits(box, place):
    made = group_of(box, place)
    assert (made / "memory.max").read_text().strip() == str(96 * MIB)
    assert (made / "pids.max").read_text().strip() == "40"
    assert (made / "cpu.max").read_text().split()[0] == "50000"
    assert box.get("stats").json["memory"]["limit_bytes"] == 96 * MIB
    runs_out_of_memory(box, 96 * MIB)
    assert 20 < int(box.out(FORKS)) < 40


def test_a_user_with_a_delegated_group(user):
    """Rootless, and every limit holds. Who was in the group is moved out of the way."""
    with group(user=user) as place:
        bystander = subprocess.Popen([*ENTER, str(place), "sleep", "600"])
        wait_until(lambda: str(bystander.pid) in (place / "cgroup.procs").read_text().split(), 30,
                   lambda: "it does not enter the group")
        try:
            with daemon_in(place, user) as daemon:
                assert (place / "cgroup.procs").read_text() == ""
                members = (place / LEAF / "cgroup.procs").read_text().split()
                assert {str(daemon.pid), str(bystander.pid)} <= set(members)
                box = Box(daemon.rest, limits=LIMITS)
                assert not box.view.get("waived")
                check_limits(box, place)
                counter = box.detach(COUNTER)
                advances(box, counter)
                box.do("pause")
                assert stands_still(box, counter)
                box.do("resume")
                advances(box, counter)
                assert box.destroy() == 204
                assert "cgroups" in daemon.atoll("doctor").stdout
            assert groups_below(place) == {LEAF}
        finally:
            bystander.kill()
            bystander.wait()


def test_the_next_daemon_of_that_user(user):
    """Killed, and started again in the child it had moved to, or in a new group altogether."""
    with group(user=user) as place, group(user=user) as elsewhere:
        with daemon_in(place, user) as daemon:
            box = Box(daemon.rest, limits=LIMITS)
            for start in (place / LEAF, elsewhere):
                kill_daemon(daemon)
                daemon.launcher = [*ENTER, str(start)]
                daemon.start()
                assert box.out("echo here") == "here"
                check_limits(box, place)
            assert box.destroy() == 204
            again = Box(daemon.rest, limits=LIMITS)
            check_limits(again, place)


def test_some_controllers_only(user):
    """Of the limits that are wanted, the one nobody can enforce is refused by name."""
    with group(("memory", "pids"), user) as place, daemon_in(place, user) as daemon:
        refused = daemon.rest.post("/api/sandboxes", {"limits": LIMITS})
        assert refused.status == 409 or refused.status == 412, refused.body
        assert "these limits: cpu " in refused.error["message"]
        box = Box(daemon.rest, limits=LIMITS, waive=["cpu"])
        assert not (group_of(box, place) / "cpu.max").exists()
        assert (group_of(box, place) / "pids.max").read_text().strip() == "40"
        runs_out_of_memory(box, 96 * MIB)
        doctor = daemon.atoll("doctor").stdout
        assert "no limit on CPU can be given" in doctor and "Delegate=cpu memory pids" in doctor


def test_nothing_delegated(user):
    with group() as place, daemon_in(place, user) as daemon:
        refused = daemon.rest.post("/api/sandboxes", {"limits": LIMITS})
        assert "these limits: memory,cpu,pids " in refused.error["message"]
        box = Box(daemon.rest, waive=["all"])
        assert box.out("echo here") == "here"
        assert groups_below(place) == set()
        assert "systemd-run --user --scope" in daemon.atoll("doctor").stdout


def test_in_a_container():
    """Root of a container: its own group is the top of what it sees, and it is in use."""
    with group() as place:
        with daemon_in(place, launcher=CONTAIN) as daemon:
            assert (place / "cgroup.procs").read_text() == ""
            box = Box(daemon.rest, limits=LIMITS)
            check_limits(box, place)
            assert box.destroy() == 204
        assert groups_below(place) == {LEAF}


def test_a_service_whose_manager_prepared_the_child():
    """DelegateSubgroup=: the sandboxes stay in the service, also those of the next daemon."""
    with group() as place:
        with daemon_in(place, leaf=LEAF) as daemon:
            box = Box(daemon.rest, limits=LIMITS)
            check_limits(box, place)
            kill_daemon(daemon)
            daemon.start()
            check_limits(box, place)
            check_limits(Box(daemon.rest, limits=LIMITS), place)
        assert groups_below(place) == {LEAF}


def test_a_service_without_that():
    """As root the groups are made at the top: a service manager could start nobody in a group that
    has become an inner one, and the sandboxes outlive the daemon."""
    with group() as place, daemon_in(place) as daemon:
        box = Box(daemon.rest, limits=LIMITS)
        check_limits(box, TOP)
        assert groups_below(place) == set()
        kill_daemon(daemon)
        daemon.start()
        check_limits(box, TOP)
