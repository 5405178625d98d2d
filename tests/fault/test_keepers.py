"""kill -9 of atoll-spawn together with what starts it again: the daemon answers all the time."""
import contextlib
import fcntl
import os
import pathlib
import signal
import subprocess
import threading
import time

import pytest

from daemons import (BUILD, SLACK, alive, cgroups, process_files, spawn_of, start_time,
                     wait_until)
from daemons import running as running_daemon
from rest import Rest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only atolld started as root cannot "
                                "start atoll-spawn itself")

ANSWERS_WITHIN = 3  # seconds; far more than any answer takes, less than a wait for atoll-spawn


NAMES = ("atoll-keeper", "atoll-watcher")


class Family:
    """The processes that serve the daemon's state directory."""

    def __init__(self, daemon):
        self.state = daemon.state

    def keepers(self):
        """The process ids of both, and their names."""
        found = {}
        for entry in process_files("cmdline"):
            with contextlib.suppress(OSError):
                name = (entry.parent / "comm").read_text().strip()
                if name in NAMES and str(self.state).encode() in entry.read_bytes():
                    found[int(entry.parent.name)] = name
        return found

    def spawn(self):
        return spawn_of(self.state)

    def one(self, name):
        (found,) = [pid for pid, its in self.keepers().items() if its == name]
        return found

    def complete(self):
        return sorted(self.keepers().values()) == sorted(NAMES) and self.spawn() is not None


class Pulse:
    """Asks /healthz all the time; the longest answer, in seconds."""

    def __init__(self, daemon):
        self.rest, self.longest, self.over = Rest(daemon.socket), 0, False
        self.thread = threading.Thread(target=self.beat)

    def beat(self):
        while not self.over:
            begun = time.monotonic()
            assert self.rest.get("/healthz").status == 200
            self.longest = max(self.longest, time.monotonic() - begun)
            time.sleep(0.02)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.thread.join()


@pytest.fixture(name="daemon")
def daemon_of_its_own():
    with running_daemon(BUILD) as daemon:
        yield daemon


@pytest.fixture(name="family")
def family_of_daemon(daemon):
    family = Family(daemon)
    wait_until(family.complete, 10, lambda: f"keepers {family.keepers()}")
    return family


def kill(*pids):
    """All at once: none of them runs in between."""
    born = [(pid, start_time(pid)) for pid in pids]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(alive(*p) for p in born), 10, lambda: f"{born} live")


def recovers(daemon, family):
    wait_until(lambda: daemon.atoll("run", "--", "echo", "again").stdout == "again\n", 30,
               lambda: f"no create succeeds:\n{daemon.log_tail()}")
    wait_until(family.complete, 10, lambda: f"keepers {family.keepers()}")


def nothing_is_left(daemon, box):
    daemon.atoll("rm", box)  # a daemon that ended has removed it
    wait_until(lambda: not [path for path in cgroups() if box in path.name], 30,
               lambda: "its cgroup is left")
    wait_until(lambda: not list((daemon.state / "sandboxes").glob(f"{box}*")), 30,
               lambda: "its files are left")
    assert box not in daemon.atoll("ls").stdout


def is_confined(pid):
    """As the first keeper; tests/security looks at that more closely."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return "NoNewPrivs:\t1\n" in status and "Seccomp:\t2\n" in status


def refusal(rest):
    return rest.post("/api/sandboxes", {}).body.decode()


def test_a_keeper_that_was_killed_is_replaced(daemon, family):
    """And its atoll-spawn goes on, with its sandboxes."""
    box, spawn = daemon.create(), family.spawn()
    for name in (*NAMES, *NAMES):
        kill(family.one(name))
        wait_until(family.complete, 10, lambda: f"keepers {family.keepers()}")
        assert daemon.atoll("exec", box, "--", "echo", "here").stdout == "here\n"
        assert all(map(is_confined, family.keepers()))
    assert family.spawn() == spawn
    nothing_is_left(daemon, box)


def test_kill_of_the_keeper_and_then_of_spawn(daemon, family):
    box = daemon.create()
    with Pulse(daemon) as pulse:
        kill(family.one("atoll-keeper"))
        wait_until(family.complete, 10, lambda: f"keepers {family.keepers()}")
        kill(family.spawn())
        recovers(daemon, family)
        kill(family.spawn())
        recovers(daemon, family)
    assert pulse.longest < ANSWERS_WITHIN * SLACK
    nothing_is_left(daemon, box)


def test_kill_of_the_keeper_and_spawn_at_once(daemon, family):
    box = daemon.create()
    with Pulse(daemon) as pulse:
        kill(family.one("atoll-keeper"), family.spawn())
        recovers(daemon, family)
    assert pulse.longest < ANSWERS_WITHIN * SLACK
    nothing_is_left(daemon, box)


def test_kill_of_all_at_once(daemon, family):
    """The daemon says what it lacks and goes on answering; the next one has all again."""
    rest, box = Rest(daemon.socket), daemon.create()
    with Pulse(daemon) as pulse:
        kill(*family.keepers(), family.spawn())
        assert not family.keepers()
        wait_until(lambda: "restart atolld" in refusal(rest), 30,
                   lambda: refusal(rest))
        refused = rest.post("/api/sandboxes", {})
        assert refused.status == 503
        ready = rest.get("/readyz")
        assert ready.status == 503 and b"restart atolld" in ready.body
        assert rest.get(f"/api/sandboxes/{box}").json["state"] == "failed"
    assert pulse.longest < ANSWERS_WITHIN * SLACK
    daemon.process.terminate()
    assert daemon.process.wait(30 * SLACK) == 0
    daemon.start()
    recovers(daemon, family)
    nothing_is_left(daemon, box)


def test_the_end_of_the_daemon_ends_the_keepers():
    with running_daemon(BUILD) as daemon:
        family = Family(daemon)
        wait_until(family.complete, 10, lambda: f"keepers {family.keepers()}")
        kill(family.one("atoll-keeper"))  # so that atoll-spawn is not the child of its keeper
        wait_until(family.complete, 10, lambda: f"keepers {family.keepers()}")
        pids = [(pid, start_time(pid)) for pid in (*family.keepers(), family.spawn())]
    wait_until(lambda: not any(alive(*p) for p in pids), 20, lambda: f"{pids} live")


@pytest.mark.parametrize("ends", [True, False])
def test_a_start_beside_another_atoll_spawn(tmp_path, ends):
    """The keeper of a killed one may start it at the same time, or one is just ending: the daemon waits."""
    state, log = tmp_path / "state", tmp_path / "log"
    state.mkdir()
    with (state / "spawn.lock").open("w") as lock, log.open("wb") as output:
        fcntl.flock(lock, fcntl.LOCK_EX)
        daemon = subprocess.Popen([BUILD / "atolld", "--state", state, "--socket", tmp_path / "s"],
                                  stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        wait_until(lambda: log.read_bytes().count(b"another atoll-spawn serves") > 1, 30, log.read_text)
        if ends:
            fcntl.flock(lock, fcntl.LOCK_UN)
            wait_until(lambda: b'"ready"' in log.read_bytes(), 30, log.read_text)
            assert Rest(tmp_path / "s").get("/healthz").status == 200
            daemon.terminate()
        assert (daemon.wait(30 * SLACK) == 0) is ends
    assert ends or "atoll-spawn does not start" in log.read_text()
