"""kill -9 of the parts: every command gets one true record, and nothing is left behind."""
import contextlib
import fcntl
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import pytest

from daemons import BUILD, SLACK, cgroups, process_files, wait_for_room
from daemons import running as running_daemon
from rest import Rest


def wait_for(what, seconds=30):
    end = time.monotonic() + seconds * SLACK
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come true in {seconds} s")


def steady(figures):
    """What they are when they have not changed for a second."""
    found, since = figures(), time.monotonic()
    while time.monotonic() - since < 1:
        time.sleep(0.02)
        if figures() != found:
            found, since = figures(), time.monotonic()
    return found


def children(pid):
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except FileNotFoundError:
        return ""


def spawn_of(daemon):
    keeper = next(p for p in children(daemon.pid) if name_of(p) == "atoll-keeper")
    return wait_for(lambda: next(iter(children(keeper)), None))


def agents_of(spawn):
    return [p for p in children(spawn) if name_of(p) == "atoll-agent"]


def exec_in_background(daemon, sandbox, *command):
    return subprocess.Popen(
        [daemon.build / "atoll", "exec", "--json", sandbox, "--", *command],
        env=daemon.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def running(daemon, sandbox, count=1):
    """The commands the sandbox runs, once there are that many."""
    def found():
        text = daemon.atoll("logs", "--json", sandbox).stdout
        execs = json.loads(text).get("execs", []) if text else []
        return [e for e in execs if e["state"] == "running"] if len(execs) >= count else None
    return wait_for(found)


def cgroups_of(name):
    return [path for path in cgroups() if name in path.name]


def alive(pid):
    return name_of(pid) != "" and "zombie" not in pathlib.Path(f"/proc/{pid}/status").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="looks at processes of the sandbox from outside")
def test_kill_of_the_agent(daemon):
    sandbox = daemon.create()
    victim = exec_in_background(daemon, sandbox, "sleep", "100")
    running(daemon, sandbox)
    neighbour = daemon.create()
    spawn = spawn_of(daemon)
    agent = next(a for a in agents_of(spawn)
                 if sandbox in pathlib.Path(f"/proc/{a}/root/etc/hostname").read_text())
    inside = children(agent)
    os.kill(agent, signal.SIGKILL)
    out, err = victim.communicate(timeout=30 * SLACK)
    result = json.loads(out)["result"]
    assert result["kind"] == "lost"
    assert "killed by signal 9" in result["reason"]
    assert victim.returncode != 0
    # The sandbox says so too, and holds nothing of the host any more.
    assert "failed" in daemon.atoll("ls").stdout
    wait_for(lambda: not cgroups_of(sandbox))
    wait_for(lambda: not any(alive(p) for p in [agent, *inside]))
    wait_for(lambda: not list((daemon.state / "sandboxes").glob(f"{sandbox}*")))
    refused = daemon.atoll("exec", sandbox, "--", "true")
    assert refused.returncode == 125 and "failed" in refused.stderr
    # The neighbour did not notice.
    assert daemon.atoll("exec", neighbour, "--", "echo", "here").stdout == "here\n"
    daemon.atoll("rm", sandbox, neighbour, check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="looks at processes of the sandbox from outside")
def test_kill_of_spawn(daemon):
    boxes = [daemon.create() for _ in range(3)]
    victims = [exec_in_background(daemon, b, "sleep", "100") for b in boxes]
    for b in boxes:
        running(daemon, b)
    spawn = spawn_of(daemon)
    agents = agents_of(spawn)
    assert len(agents) >= 3
    os.kill(spawn, signal.SIGKILL)
    for v in victims:
        out, _ = v.communicate(timeout=30 * SLACK)
        result = json.loads(out)["result"]
        assert result["kind"] == "lost"
        assert "atoll-spawn died" in result["reason"]
    wait_for(lambda: not any(alive(a) for a in agents))
    wait_for(lambda: not any(cgroups_of(b) for b in boxes))
    wait_for(lambda: not [p for b in boxes for p in (daemon.state / "sandboxes").glob(f"{b}*")])
    # A new one is there, and works.
    assert spawn_of(daemon) != spawn
    assert wait_for(lambda: daemon.atoll("run", "--", "echo", "again").stdout == "again\n")
    for b in boxes:
        daemon.atoll("rm", b, check=True)


def mounts_of(pid):
    return pathlib.Path(f"/proc/{pid}/mountinfo").read_text().count("\n")


def mounts_below(directory):
    """Those of ours there; what others on this host mount is their business."""
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if str(directory) in line]


@pytest.mark.skipif(os.geteuid() != 0, reason="looks at processes of the sandbox from outside")
def test_kill_of_spawn_under_runs(daemon):
    """Nothing is left of their sandboxes, and whoever sees the end of a command destroys its at once."""
    rest, answers = Rest(daemon.socket), []
    runs = [threading.Thread(target=lambda: answers.append(
        rest.post("/api/run", {"cmd": ["sleep", "1000"]}))) for _ in range(3)]
    for run in runs:
        run.start()
    wait_for(lambda: len(daemon.json("ls")["sandboxes"]) == len(runs))
    for box in daemon.json("ls")["sandboxes"]:
        running(daemon, box["id"])
    os.kill(spawn_of(daemon), signal.SIGKILL)
    for run in runs:
        run.join(30 * SLACK)
    assert [answer.json["result"]["kind"] for answer in answers] == ["lost"] * len(runs)
    assert daemon.json("ls")["sandboxes"] == []
    assert wait_for(lambda: daemon.atoll("run", "--", "echo", "again").stdout == "again\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="looks at processes of the sandbox from outside")
def test_nobody_gets_a_dead_one_of_the_pool():
    with running_daemon(BUILD, ATOLL_POOL="1") as daemon:
        rest, made = Rest(daemon.socket), []
        spawn = spawn_of(daemon)
        (agent,) = wait_for(lambda: agents_of(spawn))
        time.sleep(2 * SLACK)  # nobody is told when the pool is full
        os.kill(spawn, signal.SIGSTOP)  # so that nobody says that it is dead
        os.kill(agent, signal.SIGKILL)
        time.sleep(0.5 * SLACK)
        create = threading.Thread(target=lambda: made.append(rest.post("/api/sandboxes", {})))
        create.start()
        time.sleep(0.5 * SLACK)
        os.kill(spawn, signal.SIGCONT)
        create.join(30 * SLACK)
        assert daemon.atoll("exec", made[0].json["id"], "--", "echo", "lives").stdout == "lives\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="looks at processes of the sandbox from outside")
def test_one_of_the_pool_that_is_destroyed_before_it_is_given():
    with running_daemon(BUILD, ATOLL_POOL="1") as daemon:
        rest, made, removed = Rest(daemon.socket), [], []
        spawn = spawn_of(daemon)
        wait_for(lambda: agents_of(spawn))
        time.sleep(2 * SLACK)  # nobody is told when the pool is full
        os.kill(spawn, signal.SIGSTOP)
        create = threading.Thread(target=lambda: made.append(
            rest.post("/api/sandboxes", {"limits": {"memoryMB": 600}})))
        create.start()
        (box,) = wait_for(lambda: rest.get("/api/sandboxes").json["sandboxes"])
        assert box["pooled"]
        remove = threading.Thread(target=lambda: removed.append(
            rest.delete(f"/api/sandboxes/{box['id']}")))
        remove.start()
        wait_for(lambda: rest.get(f"/api/sandboxes/{box['id']}").json["state"] == "stopping")
        os.kill(spawn, signal.SIGCONT)
        for thread in (create, remove):
            thread.join(30 * SLACK)
        assert removed[0].status == 204
        assert made[0].status == 409, made[0].body


@pytest.mark.skipif(os.geteuid() != 0, reason="looks at mounts of spawn")
def test_nothing_remains_after_destroy(daemon):
    spawn = spawn_of(daemon)
    # Of the same kind: the namespaces that spawn prepares are those of the sandbox before.
    daemon.atoll("run", "--disk", "600M", "--", "true", check=True)

    def figures():
        return mounts_of(spawn), mounts_below(daemon.state), len(os.listdir(f"/proc/{spawn}/fd"))

    before = steady(figures)
    names = []
    for _ in range(20):
        name = daemon.create("--disk", "600M")
        names.append(name)
        daemon.atoll("exec", "--detach", name, "--", "sh", "-c",
                     "for i in 1 2 3; do (setsid sleep 100 &); done; head -c 5M /dev/zero > f")
        daemon.atoll("rm", name, check=True)
        assert not cgroups_of(name)
        assert not list((daemon.state / "sandboxes").glob(f"{name}*"))
    wait_for(lambda: not agents_of(spawn))
    wait_for(lambda: figures() == before)

    def loops():  # by name, as paths are those that spawn sees
        listed = subprocess.run(["losetup", "-a"], capture_output=True, text=True).stdout
        return [name for name in names if name in listed]
    wait_for(lambda: not loops())


def test_egress_ends_after_a_daemon_that_never_connected(tmp_path):
    """Seconds later, like atoll-spawn, and not when its patience with a daemon that lives ends."""
    starter = subprocess.Popen(["sh", "-c", '"$0" "$1" & read -r _', BUILD / "atoll-egress", tmp_path],
                               stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    wait_for((tmp_path / "egress.sock").exists)
    with (tmp_path / "egress.lock").open("w") as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        starter.communicate()

        def gone():
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
        wait_for(gone, 30)


def test_a_daemon_that_cannot_start_leaves_nothing(daemon, tmp_path):
    """The address is taken: the second daemon has started its spawn by then."""
    wait_for_room()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        second = subprocess.run(
            [daemon.build / "atolld", "--state", tmp_path / "state", "--socket", tmp_path / "s",
             "--listen", "127.0.0.1:%d" % taken.getsockname()[1]],
            capture_output=True, text=True, timeout=20 * SLACK)
    assert second.returncode != 0
    assert "in use" in second.stderr

    def gone():
        for entry in process_files("cmdline"):
            try:
                if str(tmp_path).encode() in entry.read_bytes():
                    return False
            except (FileNotFoundError, ProcessLookupError):
                pass
        return True
    wait_for(gone)
