"""Daemons for tests: the real binaries (ATOLL_BUILD, default build/), started on a state directory
of their own. When one stops, what it left behind is looked for."""

import atexit
import contextlib
import fcntl
import functools
import json
import os
import pwd
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("ATOLL_BUILD", "build")
# What daemon and CLI are run by, such as valgrind with its options; everything takes longer then.
WRAPPER = os.environ.get("ATOLL_WRAPPER", "").split()
ROOTLESS_USER = "atolltest"
SUBIDS = "1000000:65536"

ID_BLOCKS = 28  # as in src/spawn/id_block.c

# In the environment of daemon and CLI, as an operator's secret would be; tests look for it inside.
LAUNCHER_CANARY = "ATOLL_LAUNCHER_CANARY"

# How much longer than on a usual machine things may take: this one may be emulated.
SLACK = float(os.environ.get("ATOLL_TEST_SLACK", "1"))


class Daemon:
    """One atolld, and the CLI pointed at it."""

    def __init__(self, build, directory, user=None):
        self.build = build
        self.state = directory / "state"
        self.socket = directory / "atoll.sock"
        self.log = directory / "atolld.log"
        self.home = user.pw_dir if user else str(Path.home())
        self.prefix = []
        if user:
            self.prefix = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}",
                           "--init-groups", "--"]
        self.env = {
            "PATH": f"{build}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": self.home,
            "LANG": "C.UTF-8",
            "ATOLL_SOCKET": str(self.socket),
            "DOCKER_HOST": "unix:///nonexistent",  # or an engine of this host would be a provider
            LAUNCHER_CANARY: "the launcher's environment",
        }
        # A build without -Dtest_switches=true ignores this. Valgrind refuses seccomp(2).
        weakened = [os.environ.get("ATOLL_WEAKEN"), "own_filter" if WRAPPER else None]
        if any(weakened):
            self.env["ATOLL_WEAKEN"] = ",".join(filter(None, weakened))
        if "ATOLL_DISKS" in os.environ:  # to run any test with another kind of disks
            self.env["ATOLL_DISKS"] = os.environ["ATOLL_DISKS"]
        if WRAPPER:
            self.env["ATOLL_REGISTRY"] = str(small_registry())
        self.launcher = []  # a command that starts the daemon's
        self.process = None
        self.cgroup_parents = set()  # the directories that hold the cgroups of its sandboxes

    @property
    def pid(self):
        return self.process.pid

    def atoll(self, *args, input=None, check=False, timeout=60, binary=False):
        """Runs the CLI. Output is text unless `binary`; with `check` a failure raises."""
        command = [*self.prefix, *WRAPPER, str(self.build / "atoll"), *map(str, args)]
        if input is None:
            source = {"stdin": subprocess.DEVNULL}
        else:
            source = {"input": input}
        done = subprocess.run(command, env=self.env, capture_output=True,
                              timeout=timeout * SLACK,
                              text=not binary, **source)
        if check and done.returncode != 0:
            raise AssertionError(f"atoll {' '.join(map(str, args))}: exit {done.returncode}\n"
                                 f"{done.stderr}\ndaemon log:\n{self.log_tail()}")
        return done

    def json(self, verb, *args, **kwargs):
        return json.loads(self.atoll(verb, "--json", *args, check=True, **kwargs).stdout)

    def create(self, *args):
        name = self.atoll("create", *args, check=True).stdout.strip()
        if not self.cgroup_parents:
            self.cgroup_parents = {path.parent for path in cgroups() if path.name.endswith(name)}
        return name

    def log_tail(self, lines=30):
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def start(self):
        deadline = time.monotonic() + 60 * SLACK
        while not self.try_to_start():
            assert time.monotonic() < deadline, f"other daemons have all ids:\n{self.log_tail()}"

    def try_to_start(self):
        """False when others were faster, and have taken the last block of ids."""
        if not self.prefix and not (self.state / "spawn.sock").exists():
            wait_for_room()
        command = [*self.launcher, *self.prefix, *WRAPPER, str(self.build / "atolld"),
                   "--state", str(self.state), "--socket", str(self.socket)]
        with self.log.open("ab") as log:
            before = log.tell()
            self.process = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True)
        wait_until(lambda: self.atoll("ls").returncode == 0 or self.process.poll() is not None,
                   30, lambda: f"atolld does not answer:\n{self.log_tail()}")
        if self.process.poll() is None:
            return True
        if b"id blocks are taken" not in self.log.read_bytes()[before:]:
            raise AssertionError(f"atolld ended with {self.process.returncode}:\n"
                                 f"{self.log_tail()}")
        return False

    def stop(self):
        """Destroys every sandbox, ends the daemon and reports what is left, as a list of texts."""
        self.atoll("rm", "--all")
        family = descendants(self.pid)
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(30 * SLACK)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            return [f"atolld ignored SIGTERM for {30 * SLACK} s"]
        if self.process.returncode != 0:  # a sanitizer or valgrind has something to say, too
            return [f"atolld ended with {self.process.returncode}:\n{self.log_tail(60)}"]
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not any(alive(*p) for p in family), 30, lambda: "")
        return self.leftovers(family)

    def reports(self):
        """Of sanitizers, on any daemon this log is of: a test may take its end for a refusal."""
        return [f"report: {line}" for line in self.log.read_text(errors="replace").splitlines()
                if "ERROR: " in line and "Sanitizer" in line or ": runtime error: " in line]

    def leftovers(self, family):
        left = [f"process {pid}" for pid, born in family if alive(pid, born)] + self.reports()
        left += [f"mount {line.split()[4]}"
                 for line in Path("/proc/self/mountinfo").read_text().splitlines()
                 if str(self.state) in line]
        return left + [f"cgroup {path}" for path in cgroups() if path.parent in self.cgroup_parents]


@functools.cache
def small_registry():
    """The registry without large disks: valgrind lacks pidfd_open(2), which making one takes."""
    directory = Path(tempfile.mkdtemp(prefix="atoll-registry-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    shutil.copytree(ROOT / "registry", directory, dirs_exist_ok=True)
    for path in directory.rglob("*.yaml"):
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if "diskMB:" not in line))
    return directory


def cgroups():
    """Every cgroup of the host, in every hierarchy."""
    for directory, children, _ in os.walk("/sys/fs/cgroup"):
        yield from (Path(directory, name) for name in children)


def freezer_state(path):
    """FROZEN or THAWED, on v1 and v2; None of a cgroup that cannot be."""
    with contextlib.suppress(OSError):
        if (path / "freezer.state").exists():
            return (path / "freezer.state").read_text().strip()
        if (path / "cgroup.freeze").exists():
            frozen = "frozen 1" in (path / "cgroup.events").read_text()
            return "FROZEN" if frozen else "THAWED"
    return None


def below(directory):
    """All that is there, however deep, but for the image of sandboxes' disks, which is large. What goes away
    while one looks is no error."""
    for parent, directories, files in os.walk(directory):
        yield from (Path(parent, name) for name in (*directories, *files) if name != "pool.img")


def wait_until(condition, seconds, complaint):
    """Polls until condition() is true; raises complaint() when it does not become so."""
    deadline = time.monotonic() + seconds * SLACK
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(complaint())
        time.sleep(0.02)


def start_time(pid):
    """When a process was started, in ticks; None when it is gone or only waits to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def alive(pid, born):
    return born is not None and start_time(pid) == born


def process_files(name):
    """/proc/PID/name of all processes. Path.glob() looks itself whether they are there, and raises
    where one goes meanwhile."""
    return [Path("/proc", pid, name) for pid in os.listdir("/proc") if pid.isdigit()]


def descendants(pid):
    """(pid, start time) of every process below pid."""
    children = {}
    for entry in process_files("stat"):
        with contextlib.suppress(OSError):
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found, queue = [], [pid]
    while queue:
        for child in children.get(queue.pop(), []):
            queue.append(child)
            found.append((child, start_time(child)))
    return found


def spawn_of(state):
    """The process id of the atoll-spawn that serves a state directory; None while there is none."""
    with contextlib.suppress(FileNotFoundError):
        lock = f":{(state / 'spawn.lock').stat().st_ino} "
        for line in Path("/proc/locks").read_text().splitlines():
            if lock in line and "FLOCK" in line and "->" not in line:
                return int(line.split()[4])
    return None


GETFLAGS, SETFLAGS, READ_ONLY = 0x80089419, 0x4008941A, 2  # of linux/btrfs.h


def subvolume_flags(path, new=None):
    """Flags of a subvolume, after they were set to `new` if that is given."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if new is not None:
            fcntl.ioctl(fd, SETFLAGS, struct.pack("Q", new))
        return struct.unpack("Q", fcntl.ioctl(fd, GETFLAGS, struct.pack("Q", 0)))[0]
    finally:
        os.close(fd)


def writable_layers(state):
    """Layers in the disk pool that are not read-only yet."""
    pool = Path(f"/proc/{spawn_of(state)}/root/state/pool")
    return [name for name in in_pool(state) if name.startswith("l-") and subvolume_flags(pool / name) != READ_ONLY]


def in_pool(state):
    """What the disk pool has, which is mounted for atoll-spawn and its sandboxes only."""
    with contextlib.suppress(OSError):
        return os.listdir(f"/proc/{spawn_of(state)}/root/state/pool")
    return []


@contextlib.contextmanager
def running(build, user=None, **environment):
    """environment: more for the daemon, as in ATOLL_LISTEN="127.0.0.1:0"."""
    # Short, because the path of a unix socket is; open, so that an ordinary user gets there.
    directory = Path(tempfile.mkdtemp(prefix="atoll-", dir="/tmp"))
    directory.chmod(0o755)
    if user:
        os.chown(directory, user.pw_uid, user.pw_gid)
    daemon = Daemon(build, directory, user)
    daemon.env |= environment
    left = []
    try:
        daemon.start()
        yield daemon
    finally:
        if daemon.process and daemon.process.poll() is None:
            left = daemon.stop()
        if not left:
            shutil.rmtree(directory, ignore_errors=True)
    assert not left, f"left behind: {', '.join(left)}"


def wait_for_room(blocks=1):
    """Daemons of root share the ids of the host, each has one block of them or two. Where many run at
    once, of tests and of others, none may be left for a moment."""
    def is_there():
        taken = set()
        for line in Path("/proc/locks").read_text().splitlines():
            if " FLOCK " in line:
                taken.add(int(line.split()[-3].rpartition(":")[2]))
        files = [path.stat().st_ino for path in Path("/run/atoll").glob("ids-*")]
        return ID_BLOCKS - len(taken.intersection(files)) >= blocks

    wait_until(is_there, 60, lambda: "the daemons on this host have all ids there are")


def refusal(command, file):
    """(status, what it says) of a daemon that does not start. To a file: an atoll-spawn that it had
    started ends seconds later, and would keep a pipe open."""
    wait_for_room()
    with file.open("w+", encoding="utf-8") as said:
        status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                timeout=30 * SLACK, check=False).returncode
        said.seek(0)
        return status, said.read()


@contextlib.contextmanager
def open_directory():
    """One that other users can look into. pytest's own closes whenever another pytest begins."""
    with tempfile.TemporaryDirectory(prefix="atoll-open-", dir="/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def is_sanitized(build):
    return b"__asan_init" in (build / "atolld").read_bytes()


def need_build():
    if not (BUILD / "atolld").exists():
        pytest.fail(f"{BUILD.name}/atolld does not exist; run make first", pytrace=False)


def ensure_rootless_user():
    try:
        user = pwd.getpwnam(ROOTLESS_USER)
    except KeyError:
        subprocess.run(["useradd", "--create-home", ROOTLESS_USER], check=True)
        user = pwd.getpwnam(ROOTLESS_USER)
    for path in (Path("/etc/subuid"), Path("/etc/subgid")):
        lines = path.read_text() if path.exists() else ""
        if f"{ROOTLESS_USER}:" not in lines:
            path.write_text(f"{lines}{ROOTLESS_USER}:{SUBIDS}\n")
    return user
