"""What there is of a daemon on this host: processes, mounts, cgroups, descriptors, files, rows,
memory. Counted when no sandbox lives."""

import collections
import contextlib
import json
import os
import re
import sqlite3
import time
from pathlib import Path

from daemons import cgroups, in_pool, start_time
from ground import children

EMPTY = ("sandboxes", "journal", "disks", "artifacts", "mnt")
# What comes with time and stays: disks formatted once per size, the store, the log.
KEPT = re.compile(r"images/ext4-[0-9-]+\.img|atoll\.db(-wal|-shm|-journal)?|audit\.log(\.\d+)?|"
                  r"[a-z./-]*spawn\.(sock|lock)|(egress|secrets?)[a-z.-]*|id-block|daemon-id|"
                  r"atolld\.lock|pool\.img|url-secret|api-key|"
                  r"providers\.yaml|drivers/.*|(template|layers|templates|gvisor|hidden)(/.*)?|"
                  r"hidden\.(new|old-[0-9]+)(/.*)?|[a-z]+")
# Commands of ended sandboxes belong to their records.
ROWS = ("sandboxes", "execs WHERE sandbox_id NOT IN (SELECT id FROM ended)", "sessions", "previews", "contexts", "artifact_wishes",
        "artifact_sets", "artifacts")
ROWS_KEPT = {"events": 4096 + 256, "answers": 4096, "ended": 10000 + 64}
ID_BLOCK_BITS = 28
# The database never becomes smaller; some thousand rows of commands and events are a few MiB. The log is
# emptied at 4 MiB; what is written meanwhile comes on top.
DATABASE_MAX, LOG_MAX = 64 << 20, 32 << 20


class Census:
    def __init__(self, ground, token, least, most):
        self.ground, self.state = ground, ground.daemon.state
        self.token = token.encode()  # in the environment of every sandbox
        self.least, self.most = least, most  # sandboxes that are kept ready, and hidden
        self.ids = set()  # of every sandbox there ever was

    def instance(self):
        st = self.state.stat()
        return f"atoll-{(st.st_ino ^ (st.st_dev << 40)) & (1 << 64) - 1:x}"

    def sockets(self):
        return {path.name.split(".")[0] for path in (self.state / "sandboxes").glob("*.sock")}

    def spares(self):
        """Ids of sandboxes that wait in the pool: known to nobody, and not too many."""
        found = self.sockets()
        return found if len(found) <= self.most else set()

    def processes(self, spares):
        block = int((self.state / "id-block").read_text())
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, IndexError):
                uid = int(re.search(r"Uid:\t(\d+)", (entry / "status").read_text()).group(1))
                ours = uid >> ID_BLOCK_BITS == block
                marked = self.token in (entry / "environ").read_bytes()
                if not (ours or marked) or not start_time(entry.name):
                    continue
                groups = (entry / "cgroup").read_text()
                if not any(spare in groups for spare in spares) or marked:
                    name = (entry / "comm").read_text().strip()
                    yield f"process {entry.name} ({name}, uid {uid})"

    def descendants(self, spares):
        for pid in children(self.ground.spawn() or 0):
            with contextlib.suppress(OSError):
                groups = Path(f"/proc/{pid}/cgroup").read_text()
                if start_time(pid) and not any(spare in groups for spare in spares):
                    yield f"child {pid} of atoll-spawn"

    def mounts(self, spares):
        for who in ("self", self.ground.spawn()):
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{who}/mountinfo").read_text().splitlines():
                    place = line.split()[4]
                    if who == "self" and str(self.state) in line:
                        yield f"mount {place}"
                    elif "/sandboxes/" in line and not any(spare in line for spare in spares):
                        yield f"mount {place} in the namespace of atoll-spawn"

    def groups(self, spares):
        for path in cgroups():
            if path.parent.name == self.instance() and path.name not in spares:
                yield f"cgroup {path}"

    def loops(self, spares):
        for path in Path("/sys/block").glob("loop*/loop/backing_file"):
            with contextlib.suppress(OSError):
                # As atoll-spawn sees it, whose root is another one.
                text = path.read_text().strip()
                box = Path(text).name.split(".")[0]
                if box in self.ids and box not in spares:
                    yield f"{path.parts[3]} of {text}"

    def pooled(self, spares):
        """Disks in the disk pool; layers may stay."""
        for name in in_pool(self.state):
            kind, _, box = name.partition("-")
            if kind in ("d", "k", "p") and box not in spares:
                yield f"disk pool {name}"

    def files(self, spares):
        for name in EMPTY:
            for path in (self.state / name).rglob("*"):
                if not any(spare in path.name for spare in spares):
                    yield f"file {path.relative_to(self.state)}"
        for path in self.state.iterdir():
            if not KEPT.fullmatch(path.name):
                yield f"file {path.name} in the state directory"

    def rows(self):
        store = sqlite3.connect(f"file:{self.state / 'atoll.db'}?mode=ro", uri=True, timeout=30)
        with contextlib.closing(store):
            for table in ROWS:
                for row in store.execute(f"SELECT * FROM {table} LIMIT 3"):
                    yield f"row of {table}: {row[:3]}"
            for table, most in ROWS_KEPT.items():
                n = store.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                if n > most:
                    yield f"{n} rows of {table}"
            records = {row[0] for row in store.execute("SELECT id FROM ended")}
            yield from (f"file ended/{path.name} of no record"
                        for path in (self.state / "ended").iterdir()
                        if path.name.partition("-")[0] not in records)
            verdict = store.execute("PRAGMA integrity_check").fetchone()[0]
            if verdict != "ok":
                yield f"the store is damaged: {verdict}"

    def shown(self):
        for what in ("sandboxes", "sessions", "artifacts"):
            for entry in self.ground.unix().get(f"/api/{what}").json[what]:
                yield f"{what} shows {json.dumps(entry)[:200]}"

    def elsewhere(self):
        """With the engine and the service that two of the providers talk to."""
        world = self.ground.world
        if world.engine:
            yield from (f"container {found['Names']}" for found in world.engine.containers()
                        if "atoll.id" in found["Labels"])
        if world.cloud:
            yield from (f"remote sandbox {found['id']}" for found in world.places["e2b"].remotes())

    def traces(self):
        """What can be seen from outside of sandboxes that are all destroyed, as texts."""
        spares = self.spares()
        found = []
        for look in (self.processes, self.descendants, self.mounts, self.groups, self.loops,
                     self.pooled, self.files):
            found += look(spares)
        return found + list(self.elsewhere())

    def leftovers(self):
        """The same, with what the daemon knows of them."""
        return [*self.traces(), *self.rows(), *self.shown()]

    def settle(self, seconds=60, what=None):
        """What is left once everything had time to end."""
        deadline = time.monotonic() + seconds
        while (found := (what or self.leftovers)()) and time.monotonic() < deadline:
            time.sleep(0.25)
        return found

    def overlaps(self):
        """Ranges of ids that two living sandboxes share."""
        store = sqlite3.connect(f"file:{self.state / 'atoll.db'}?mode=ro", uri=True, timeout=30)
        # While the daemon is dead there may be a log to be replayed, which readers cannot.
        with contextlib.closing(store), contextlib.suppress(sqlite3.OperationalError):
            return store.execute("SELECT outside_id, group_concat(id) FROM sandboxes WHERE "
                                 "provider = 'native' AND outside_id > 0 AND state IN "
                                 "(1, 4, 5) GROUP BY outside_id HAVING count(*) > 1").fetchall()
        return []

    def bounded(self):
        """What the daemon keeps, by its own metrics: {what: (how much, at most)}."""
        found = dict(re.findall(r"^(atoll_\S+) (\S+)$",
                                self.ground.unix().get("/metrics").body.decode(), re.M))
        value = {name: float(text) for name, text in found.items()}
        rows = {"database": (value['atoll_store_bytes{file="database"}'], DATABASE_MAX),
                "write-ahead log": (value['atoll_store_bytes{file="log"}'], LOG_MAX),
                "sandboxes": (sum(n for name, n in value.items()
                                  if name.startswith("atoll_sandboxes{")),
                              value["atoll_sandboxes_most"])}
        for name, most in value.items():
            if name.startswith("atoll_kept_bytes_max{"):
                what = re.search('what="(.*?)"', name).group(1)
                rows[what] = (value[f'atoll_kept_bytes{{what="{what}"}}'], most)
        return rows

    def network_sockets(self):
        """Sockets in the networks of living sandboxes. atoll-spawn keeps two for each that has a network, and the daemon
        too until it hands them to atoll-egress: how many of those wait in the pool depends on what was asked for last.
        A sandbox that is gone has none here."""
        found = set()
        for pid in children(self.ground.spawn() or 0):
            for kind in ("tcp6", "udp6"):
                with contextlib.suppress(OSError):
                    lines = Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]
                    found |= {f"socket:[{line.split()[9]}]" for line in lines}
        return found

    def measure(self):
        """What may not grow."""
        daemon, spawn = self.ground.daemon.pid, self.ground.spawn()
        held, spawn_held = (descriptors(pid, self.network_sockets) for pid in (daemon, spawn))
        metrics = self.ground.unix().get("/metrics").body.decode()
        heap = re.search(r"^process_heap_bytes (\S+)", metrics, re.M)
        return {
            "daemon": daemon, "spawn": spawn,
            "descriptors": held, "spawn descriptors": spawn_held,
            "namespaces": namespaces(held), "spawn namespaces": namespaces(spawn_held),
            "heap": float(heap.group(1)) if heap else 0, "memory": anonymous(daemon),
            "spawn memory": anonymous(spawn), "threads": len(os.listdir(f"/proc/{daemon}/task")),
            "spawn mounts": Path(f"/proc/{spawn}/mountinfo").read_text().count("\n"),
            "spares": len(self.sockets()),
            "loops": sum(1 for _ in Path("/sys/block").glob("loop*/loop/backing_file")),
        }


def namespaces(found):
    """How many of those descriptors hold a namespace."""
    return sum(found[kind] for kind in ("net", "mnt", "pid", "user", "ipc", "uts", "cgroup"))


def anonymous(pid):
    """Resident bytes that are not of files; 0 of a process that is ending."""
    found = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found.group(1)) * 1024 if found else 0


def descriptors(pid, others=set):
    """What its descriptors lead to; numbers that are different each time are left out. others(): what does not
    count."""
    targets = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            targets.append(os.readlink(path))
    left_out = others()
    return collections.Counter(re.sub(r"^([a-z]+):\[\d+\]", r"\1", target) for target in targets
                               if target not in left_out)
