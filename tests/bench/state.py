"""Snapshots and forks on each kind of disk: in the copy-on-write pool, in memory, and an image."""

import os
import re
import statistics
import subprocess
import time

import atoll
import helpers
from network import Api

FILES, BYTES = 5000, 100 << 20
CHANGED = 1 << 20
FORKS_COW = 100  # in one request, also with --quick: one snapshot serves all
# By kind: which disks the daemon makes, and a size at which they are of that kind.
KINDS = {
    "cow": ("cow", {"memoryMB": 512, "diskMB": 1024}),
    "memory": ("plain", {"memoryMB": 1024, "diskMB": 512}),
    "image": ("plain", {"memoryMB": 512, "diskMB": 1024}),
}
TREE = (f"import os\nos.makedirs('/home/user/t', exist_ok=True)\n"
        f"for i in range({FILES}):\n"
        f" d = f'/home/user/t/{{i % 50}}'; os.makedirs(d, exist_ok=True)\n"
        f" open(f'{{d}}/{{i}}', 'wb').write(os.urandom({BYTES // FILES}))\n")


class Place:
    """A daemon, and sandboxes of one kind of disk."""

    def __init__(self, fleet, kind: str):
        disks, self.limits = KINDS[kind]
        self.directory = fleet.tmp / f"state-{kind}"
        daemon = atoll.Daemon(self.directory, "--disks", disks, "--tenant-sandboxes", "1000", "--tenant-disk", "10T",
                              "--tenant-memory", "10T", "--tenant-cpus", "10000")
        fleet.stack.callback(daemon.stop)
        self.api = Api(daemon.socket)
        self.api.http.timeout = 600

    def create(self, **fields) -> str:
        return self.api.call("POST", "/api/sandboxes", {"limits": self.limits, **fields})["id"]

    def run(self, sandbox: str, *command: str) -> None:
        self.api.call("POST", f"/api/sandboxes/{sandbox}/execs?wait=true", {"cmd": command})

    def create_ms(self, **fields) -> float:
        start = time.perf_counter()
        sandbox = self.create(**fields)
        took = (time.perf_counter() - start) * 1e3
        self.api.destroy(sandbox)
        return took

    def snapshot(self, sandbox: str, name: str) -> dict:
        start = time.perf_counter()
        made = self.api.call("POST", f"/api/sandboxes/{sandbox}/snapshots", {"name": name})["made"]
        return {**made, "ms": (time.perf_counter() - start) * 1e3}

    def fork(self, sandbox: str, count: int):
        start = time.perf_counter()
        made = self.api.call("POST", f"/api/sandboxes/{sandbox}/fork", {"count": count})["sandboxes"]
        return [one["id"] for one in made], (time.perf_counter() - start) * 1e3

    def captures(self) -> dict:
        """How many the daemon has made, and the milliseconds of all of them: whole, before and while processes stood still."""
        self.api.http.request("GET", "/metrics")
        text = self.api.http.getresponse().read().decode()
        found = {"count": ("atoll_snapshot_seconds_count", 1), "ms": ("atoll_snapshot_seconds_sum", 1e3),
                 "flush_ms": ("atoll_snapshot_flush_seconds_sum", 1e3), "frozen_ms": ("atoll_snapshot_frozen_seconds_sum", 1e3)}
        return {key: sum(map(float, re.findall(rf"^{name}\S* (\S+)$", text, re.M))) * unit
                for key, (name, unit) in found.items()}

    def checkpoint(self, sandbox: str, *command: str) -> dict:
        """A command in a sandbox with checkpoints: how long it took, and its checkpoint by what the daemon says."""
        before = self.captures()
        took = timed_ms(self.run, sandbox, *command)
        until = time.monotonic() + 10
        while (after := self.captures())["count"] == before["count"] and time.monotonic() < until:
            time.sleep(0.01)
        of_it = {key: after[key] - before[key] for key in after}
        if of_it["count"] != 1:
            raise RuntimeError(f"a command made {of_it['count']:g} checkpoints")
        return {"command_ms": took, "after_flush_ms": of_it["ms"] - of_it["flush_ms"], "frozen_ms": of_it["frozen_ms"]}

    def taken(self) -> int:
        """Bytes of the host's disk."""
        os.sync()
        return sum(path.lstat().st_blocks * 512 for path in (self.directory / "state").rglob("*"))


class Copies:
    """cp -a of the same tree on the disk of the host. Nothing is removed before the end: an ext4 without a
    journal looks at each inode that was freed in the last minutes whenever it makes a file, and what is
    measured afterwards would pay for it."""

    def __init__(self, fleet):
        self.tree, self.made = fleet.tmp / "tree", 0
        noise = os.urandom(1 << 20)
        for i in range(FILES):
            path = self.tree / f"{i % 50}" / f"{i}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(noise[i:][:BYTES // FILES])

    def write_back(self) -> None:
        """Of the host's file system only: not what the pool or an image has in memory."""
        subprocess.run([helpers.need_tool("sync"), "-f", self.tree], check=True)

    def measure_ms(self) -> float:
        self.made += 1
        copy = self.tree.with_name(f"copy-{self.made}")
        self.write_back()
        took = timed_ms(subprocess.check_call, [helpers.need_tool("cp"), "-a", self.tree, copy])
        self.write_back()
        return took


def measure_first(place: Place, copies: Copies, rounds: int) -> tuple[str, dict]:
    """First snapshots of new sandboxes with the tree, and cp -a, in turn. The last sandbox stays."""
    box, copied, made = "", [], []
    for number in range(rounds):
        if box:
            place.api.destroy(box)
        box = place.create()
        place.run(box, "python3", "-c", TREE)
        copied.append(copies.measure_ms())
        made.append(place.snapshot(box, "first" if number == rounds - 1 else f"first-{number}"))
    ms = {key: statistics.median(one[key] for one in made) for key in ("frozen_ms", "flush_ms", "ms")}
    copy_ms = statistics.median(copied)
    return box, {"copy_ms": copy_ms, "copy_ratio": copy_ms / ms["ms"], "frozen_ms": ms["frozen_ms"],
                 "flush_ms": ms["flush_ms"], "snapshot_ms": ms["ms"]}


def measure_forks(place: Place, box: str, count: int, create_ms: float) -> dict:
    """One fork; as many creates as there will be forks; forks in one request, and what they take that write 1 MB each."""
    single, single_ms = place.fork(box, 1)
    start = time.perf_counter()
    created = [place.create() for _ in range(count)]
    creates_ms = (time.perf_counter() - start) * 1e3
    for one in created:
        place.api.destroy(one)
    before = place.taken()
    made, fork_ms = place.fork(box, count)
    for one in made:
        place.run(one, "sh", "-c", f"head -c {CHANGED} /dev/urandom > /home/user/changed; sync /home/user/changed")
    grown = place.taken() - before
    for one in [*made, *single, box]:  # not before: removed layers make files of the next one slow, see Copies
        place.api.destroy(one)
    return {"fork_one_ms": single_ms, "forks": count, "fork_ms": fork_ms, "fork_ratio": fork_ms / count / create_ms,
            "linear_ratio": fork_ms / count / single_ms,
            "creates_ms": creates_ms, "changed_bytes": count * CHANGED, "grown_bytes": grown}


def measure_one(place: Place, copies: Copies, rounds: int, forks: int) -> dict:
    box, first = measure_first(place, copies, rounds)
    again = []
    for number in range(rounds):
        place.run(box, "sh", "-c", f"head -c 1M /dev/urandom > /home/user/t/{number}")
        again.append(place.snapshot(box, "again"))
    plain, of_it = [], []
    for _ in range(rounds * 10):
        plain.append(place.create_ms())
        of_it.append(place.create_ms(template="first"))
    create = statistics.median(plain)
    return {**first, **measure_forks(place, box, forks, create),
            "again_frozen_ms": statistics.median(one["frozen_ms"] for one in again),
            "again_ms": statistics.median(one["ms"] for one in again),
            "create_ms": create, "create_of_it_ratio": statistics.median(of_it) / create}


def timed_ms(fn, *args) -> float:
    start = time.perf_counter()
    fn(*args)
    return (time.perf_counter() - start) * 1e3


def measure_history(place: Place, rounds: int) -> dict:
    """What the checkpoint adds to a command; of each checkpoint the time without its flush; and an undo, which makes the
    sandbox again."""
    plain, kept = place.create(), place.create(checkpoints="command")
    for one in (plain, kept):  # the first command has a checkpoint before it, too
        place.run(one, "true")
    without, with_it, undo = [], [], []
    for number in range(rounds * 10):
        without.append(timed_ms(place.run, plain, "touch", f"/home/user/{number}"))
        with_it.append(place.checkpoint(kept, "touch", f"/home/user/{number}"))
    for _ in range(rounds):
        undo.append(timed_ms(place.api.call, "POST", f"/api/sandboxes/{kept}/undo", {}))
        place.run(kept, "true")
    for one in (plain, kept):
        place.api.destroy(one)
    p50 = {key: statistics.median(one[key] for one in with_it) for key in with_it[0]}
    return {"checkpoint_ms": p50["command_ms"] - statistics.median(without),
            "checkpoint_after_flush_ms": p50["after_flush_ms"], "checkpoint_frozen_ms": p50["frozen_ms"],
            "command_ms": statistics.median(without), "undo_ms": statistics.median(undo)}


def measure_state(fleet, rounds: int, forks: int) -> dict:
    """A snapshot of 100 MB in 5,000 files, creates and forks of it, and what forks take that change 1 MB each."""
    copies, result = Copies(fleet), {}
    for kind in KINDS:
        place = Place(fleet, kind)
        count = max(forks, FORKS_COW) if kind == "cow" else forks
        one = measure_one(place, copies, rounds, count) | measure_history(place, rounds)
        result[kind] = one | {"undo_added_ms": one["undo_ms"] - one["create_ms"],
                              "grown_ratio": one["grown_bytes"] / one["changed_bytes"]}
    return result
