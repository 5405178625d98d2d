"""Mixed load against a real daemon, with kills, and then a look at what is left.

    SOAK_SECONDS=3600 SOAK_SEED=… SOAK_PROVIDERS=native,docker,gvisor,e2b tests/soak/soak.py

Three legs: with kills of the daemon and of atoll-spawn; without them, until everything that grows
with use has its size; and once more without them. After each all sandboxes are destroyed and
nothing may be left; memory and descriptors of daemon and atoll-spawn must then be as large after
the last leg as before it. All the time the database, its log, output, artifacts and the number of
sandboxes must stay within their bounds.
"""

import contextlib
import os
import random
import signal
import socket
import sys
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "integration"), str(TESTS / "soak")]

import places  # noqa: E402
from census import Census, anonymous  # noqa: E402
from daemons import BUILD  # noqa: E402
from ground import Gone, Ground, Ledger  # noqa: E402
from load import Events, Load, janitor  # noqa: E402

WORKERS = 6
POOL = 2  # of each kind
CLASSES = 6  # kinds that are kept ready at most, as in engine_internal.h
INTERPRETERS = ("Python3", "Bash")  # in sandboxes of the pool, for those who run sessions
HEAP_MAX = 512 * 1024  # what the allocator's own caches may differ by
MEMORY_MAX = 6 << 20  # resident: with what is free between objects that are not
SPAWN_MEMORY_MAX = 512 * 1024
DESCRIPTORS_MAX = 2
SETTLE_SECONDS = 20
# Providers that talk to somebody do so from threads, which are started as they are needed and keep
# their connections.
THREADS_MAX = 48
THREAD_DESCRIPTORS = 3
SPARE_DESCRIPTORS = 3  # of a sandbox that waits in the pool, but for the sockets of its network

# Lines of the log at level error that a kill of atoll-spawn, or of an agent that starts, explains.
EXPECTED_LOG = ("atoll-spawn died; starting it again", "atoll-spawn cannot start",
                "atoll-spawn is gone", "the new process died without an error report")
WRONG = ('"level":"error"', "Sanitizer", "runtime error:")


def free_port(chance):
    """Below those that the kernel gives to clients: nobody takes it while the daemon is dead."""
    while True:
        port = chance.randint(20950, 20999)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Soak:
    def __init__(self, ground, census, seconds, seed, providers):
        self.ground, self.ledger, self.census = ground, ground.ledger, census
        self.seconds, self.seed, self.providers = seconds, seed, providers
        self.begun = self.said = self.swept = time.monotonic()
        self.measures = []
        self.most = {}  # of what the daemon keeps: {what: (the most there was, its bound)}

    def progress(self, load):
        now = time.monotonic()
        self.ground.check_alive()
        if now - self.swept > 5:
            self.swept = now
            janitor(load)
            self.look_at_bounds()
            for ids in self.census.overlaps():
                self.ledger.finding(f"one range of ids for two sandboxes: {ids}")
        if now - self.said < 10:
            return
        self.said = now
        counts = self.ledger.counts
        kills = sum(n for what, n in counts.items() if "kill -9" in what or "SIGTERM" in what)
        with contextlib.suppress(OSError):
            print(f"soak: {now - self.begun:5.0f} s  {len(load.living)} live, "
                  f"{counts['sandboxes']} made; {counts['commands']} commands, "
                  f"{counts['output bytes'] >> 20} MiB of output, {counts['file bytes'] >> 20} MiB "
                  f"of files; {counts['requests']} requests, {counts['hostile clients']} hostile; "
                  f"{kills} kills; daemon {anonymous(self.ground.daemon.pid) >> 10} KiB; "
                  f"{len(self.ledger.findings)} findings", flush=True)

    def look_at_bounds(self):
        with contextlib.suppress(OSError, KeyError, Gone):  # the daemon may have been killed just now
            for what, (n, bound) in self.census.bounded().items():
                self.most[what] = (max(n, self.most.get(what, (0, 0))[0]), bound)

    def judge_bounds(self):
        self.look_at_bounds()
        if "write-ahead log" not in self.most or "journals" not in self.most:
            self.ledger.finding(f"the metrics do not say what the daemon keeps: {self.most}")
        for what, (n, bound) in self.most.items():
            if n > bound:
                self.ledger.finding(f"{what}: {n:.0f}, and its bound is {bound:.0f}")

    def leg(self, name, seconds, kills_every):
        print(f"soak: {name}, {seconds:.0f} s", flush=True)
        load = Load(self.ground, f"{self.seed} {name}", self.census.token.decode(), self.providers,
                    WORKERS, kills_every)
        load.run(seconds, self.progress)
        self.clear(name)

    def clear(self, name):
        """Destroys what is left through the API, and looks."""
        client = self.ground.unix()
        self.fill_pool(client)
        client.sure("DELETE", "/api/sandboxes")
        for entry in client.get("/api/artifacts").json["artifacts"]:
            client.delete(f"/api/artifacts/{entry['sandbox_id']}")
        for left in self.census.settle():
            self.ledger.finding(f"after {name}: {left}")
        self.measures.append(self.census.measure())

    def fill_pool(self, client):
        """Those with interpreters are to wait whenever is measured; others depend on the load."""
        deadline = time.monotonic() + 120
        client.sure("DELETE", "/api/sandboxes")
        while len(self.census.sockets()) < self.census.least:
            if time.monotonic() > deadline:
                self.ledger.finding(f"of {self.census.least} only {len(self.census.sockets())} wait")
                return
            for environment in INTERPRETERS:
                made = client.post("/api/sessions", {"environment": environment}).json
                client.post(f"/api/sessions/{made['session_id']}/execute", {"code": ""})
                client.sure("DELETE", f"/api/sessions/{made['session_id']}")
            time.sleep(0.5)

    def compare(self):
        """The last two legs: one daemon, one atoll-spawn, no sandbox. What is only still open, such as a connection
        that its client has left, is closed within seconds; what has leaked stays."""
        before, after = self.measures[-2:]
        deadline = time.monotonic() + SETTLE_SECONDS
        while (found := self.growth(before, after))[1] and time.monotonic() < deadline:
            time.sleep(1)
            after = self.census.measure()
        for finding in found[1]:
            self.ledger.finding(finding)
        return found[0]

    def growth(self, before, after):
        """Rows of a table, and what has grown too much."""
        sanitized = after["heap"] == 0  # which keeps what was freed
        rows, findings = [], []
        remote = set(self.providers) - {"native"}
        threads = after["threads"] - before["threads"] if remote else 0
        spares = SPARE_DESCRIPTORS * max(0, after["spares"] - before["spares"])
        allowed = {"descriptors": DESCRIPTORS_MAX + THREAD_DESCRIPTORS * threads + spares,
                   "spawn descriptors": DESCRIPTORS_MAX + spares}
        for what, most in (("heap", HEAP_MAX), ("memory", MEMORY_MAX),
                           ("spawn memory", SPAWN_MEMORY_MAX),
                           ("threads", THREADS_MAX - before["threads"]),  # workers are started as needed
                           ("spawn mounts", 0), ("namespaces", 0),
                           # Those prepared for the next sandbox: one more if the last one had layers.
                           ("spawn namespaces", 1)):
            grown = after[what] - before[what]
            rows.append((what, f"{before[what]:.0f}", f"{after[what]:.0f}", f"at most +{most}"))
            if grown > most and not (sanitized and what in ("heap", "memory")):
                findings.append(f"{what} grew from {before[what]:.0f} to {after[what]:.0f}")
        for what, most in allowed.items():
            total = [sum(m[what].values()) for m in (before, after)]
            rows.append((what, str(total[0]), str(total[1]), f"at most +{most}"))
            if total[1] - total[0] > most:
                more = after[what] - before[what]
                findings.append(f"{what} grew from {total[0]} to {total[1]}: {dict(more)}")
        if before["daemon"] != after["daemon"] or before["spawn"] != after["spawn"]:
            findings.append("the daemon or atoll-spawn is not the one of before")
        return rows, findings

    def look_at_log(self):
        for line in self.ground.daemon.log.read_text(errors="replace").splitlines():
            if not any(word in line for word in WRONG):
                continue
            expected = next((text for text in EXPECTED_LOG if text in line), None)
            if expected:
                self.ledger.count(f"log: {expected}")
            else:
                self.ledger.finding(f"in the log: {line[:400]}")

    def end(self):
        """SIGTERM leaves nothing at all, spare sandboxes included."""
        process = self.ground.daemon.process
        process.send_signal(signal.SIGTERM)
        if process.wait(60) != 0:
            self.ledger.finding(f"SIGTERM ended the daemon with {process.returncode}")
        self.census.most = 0
        for left in self.census.settle(what=self.census.traces):
            self.ledger.finding(f"after the daemon: {left}")

    def run(self):
        events = Events(self.ground, self.census)
        kills = 0.6 * self.seconds
        self.leg("with kills", kills, max(1.0, min(5.0, kills / 12)))
        self.leg("warm-up", 0.12 * self.seconds, 0)
        self.leg("without kills", 0.28 * self.seconds, 0)
        events.catch_up()
        events.over.set()
        events.thread.join(10)
        events.judge()
        rows = self.compare()
        self.judge_bounds()
        self.end()
        self.look_at_log()
        return rows


def report(ledger, rows, most, seed):
    print("\nsoak: what was done")
    for what, n in sorted(ledger.counts.items()):
        print(f"  {what:<56} {n:>12}")
    print(f"\n  {'with no sandbox left':<24} {'before':>12} {'after':>12}")
    for row in rows:
        print(f"  {row[0]:<24} {row[1]:>12} {row[2]:>12}   {row[3]}")
    print(f"\n  {'kept by the daemon':<24} {'the most':>12} {'bound':>12}")
    for what, (n, bound) in most.items():
        print(f"  {what:<24} {n:>12.0f} {bound:>12.0f}")
    if not ledger.findings:
        print(f"\nsoak: clean (seed {seed})")
        return 0
    print(f"\nsoak: {len(ledger.findings)} findings (seed {seed})")
    for finding in ledger.findings[:40]:
        print(f"  - {finding}")
    return 1


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the daemon is stopped, too
    seconds = float(os.environ.get("SOAK_SECONDS") or 3600)
    seed = os.environ.get("SOAK_SEED") or str(random.SystemRandom().randrange(1 << 32))
    names = (os.environ.get("SOAK_PROVIDERS") or "native").split(",")
    print(f"soak: {seconds:.0f} s, seed {seed}, {', '.join(names)}", flush=True)
    chance, ledger = random.Random(seed), Ledger()
    environment = {"ATOLL_LISTEN": f"127.0.0.1:{free_port(chance)}", "ATOLL_KEY_RATE": "0",
                   "ATOLL_POOL": str(POOL)}
    with places.world(names, environment=environment) as world:
        for name, reason in world.missing.items():
            print(f"soak: no {name} here: {reason}")
        key = places.Rest(world.daemon.socket).post("/api/keys", {"tenant": "default",
                                                                  "scope": "write"}).json
        ground = Ground(world, ledger, key)
        census = Census(ground, f"soak-{seed}", POOL * (1 + len(INTERPRETERS)), POOL * CLASSES)
        soak = Soak(ground, census, seconds, seed,
                    list(world.places))
        try:
            rows = soak.run()
        finally:
            if ledger.findings or os.environ.get("SOAK_KEEP_LOG"):
                kept = BUILD / "soak.log"
                kept.write_bytes(world.daemon.log.read_bytes())
                print(f"soak: the daemon's log is in {kept}")
    return report(ledger, rows, soak.most, seed)


if __name__ == "__main__":
    sys.exit(main())
