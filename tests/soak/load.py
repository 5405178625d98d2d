"""Who makes the load: workers with sandboxes of their own, hostile clients, the one who kills, the
one who reads all events, and a janitor."""

import json
import os
import random
import threading
import time
import traceback

import commands
import content
import lives
from box import Box
from ground import BROKEN, Ended, Gone
from hostile import Hostile

ACTIVITIES = commands.ACTIVITIES + content.ACTIVITIES + lives.ACTIVITIES
ORPHAN_SECONDS = 20


def pick(chance, table):
    return chance.choices([entry for entry, _ in table], [weight for _, weight in table])[0]


class Load:
    """Everybody, for one leg of the soak."""

    def __init__(self, ground, seed, token, providers, workers, kills_every):
        self.ground, self.ledger = ground, ground.ledger
        self.token, self.providers = token, providers
        self.kills_every = kills_every  # seconds; 0: daemon and atoll-spawn are left alone
        self.lock = threading.Lock()
        self.living = {}  # boxes by id
        self.known = {}  # ids that belong to somebody, and when they were last seen in a list
        self.over = threading.Event()
        chances = random.Random(seed)
        people = [(self.worker, i) for i in range(workers)] + [(self.enemy, 0), (self.killer, 0)]
        self.threads = [threading.Thread(target=self.guard, name=f"{work.__name__} {i}",
                                         args=(work, random.Random(chances.random())), daemon=True)
                        for work, i in people]

    def run(self, seconds, progress):
        for thread in self.threads:
            thread.start()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            progress(self)
            self.over.wait(min(1, max(0.05, deadline - time.monotonic())))
        self.over.set()
        deadline = time.monotonic() + 240
        for thread in self.threads:
            thread.join(max(0, deadline - time.monotonic()))
            if thread.is_alive():
                self.ledger.finding(f"{thread.name} does not come to an end: a request hangs")

    def guard(self, work, chance):
        try:
            work(chance)
        except Exception:  # noqa: BLE001 - a mistake of the soak itself must be seen
            self.ledger.finding(f"the soak failed: {traceback.format_exc()}")

    # Workers.

    def worker(self, chance):
        client = self.ground.unix() if chance.random() < 0.5 else self.ground.tcp()
        while not self.over.is_set():
            try:
                if chance.random() < 0.3:
                    pick(chance, lives.SOLO)(client, chance)
                else:
                    self.one_life(client, chance)
            except (Gone, Ended):
                self.ground.wait_up()
            except BROKEN as error:  # where a socket is used as it is
                if self.ground.epoch % 2 == 0:
                    self.ledger.count(f"broken: {type(error).__name__}")
                self.ground.wait_up()
            time.sleep(chance.uniform(0, 0.1))

    def request(self, chance):
        provider = chance.choice(self.providers)
        wanted = {"provider": provider, "env": {"SOAK_RUN": self.token},
                  "metadata": {"soak": "worker"},
                  "limits": {"memoryMB": 96, "pids": 64, "diskMB": 24, "cpuCores": 1}}
        if provider == "native":
            shape = chance.random()
            if shape < 0.3:
                wanted["persistent"] = True
            elif shape < 0.4:
                wanted["limits"]["diskMB"] = 80  # more than half of the memory: an image
            elif shape < 0.6:
                del wanted["limits"]  # one that may be ready already
                wanted["limits"] = {"timeoutSeconds": 3000}
            elif shape < 0.7:
                wanted["artifacts"] = ["up-*/file"]
        elif provider == "e2b":
            del wanted["limits"]
        return wanted

    def create(self, client, chance):
        """With a key, so that asking again makes one sandbox and not two."""
        wanted = self.request(chance)
        mark = self.ground.mark()
        headers = {}
        if self.kills_every and chance.random() < 0.5:
            headers["Idempotency-Key"] = f"{self.token}-{chance.random()}"
        while True:
            try:
                answer = client.call("POST", "/api/sandboxes", wanted, headers)
                if answer.status == 201:
                    break
                if answer.status == 409 and headers and b"aborted" in answer.body:
                    time.sleep(0.1)
                    continue
                if not answer.disturbed:
                    self.ledger.finding(f"create {wanted}: {answer.status} {answer.body[:300]}")
                raise Ended("create")
            except Gone:
                self.ledger.count("creates without an answer")
                if not headers:
                    raise
                self.ground.wait_up()
        box = Box(client, answer.json, mark, wanted)
        with self.lock:
            self.living[box.id] = box
        self.ledger.count("sandboxes")
        self.ledger.count(f"sandboxes of {box.provider}")
        return box

    def one_life(self, client, chance):
        box = self.create(client, chance)
        try:
            for _ in range(chance.randint(1, 10)):
                if self.over.is_set():
                    break
                self.one_deed(box, chance)
            box.audit()
            if chance.random() < 0.3:
                commands.destroyed_meanwhile(box, chance)
        except (Gone, Ended):
            if not box.doomed:
                self.last_audit(box)
        finally:
            self.destroy(box)

    def one_deed(self, box, chance):
        try:
            pick(chance, ACTIVITIES)(box, chance)
        except Gone:
            self.ledger.count("activities interrupted")
            self.ground.wait_up()
            lives.wake(box)
        except Ended:
            if not self.revive(box):
                raise

    def revive(self, box):
        """A persistent one whose processes were killed is stopped, and can go on."""
        if not box.persistent or box.doomed:
            return False
        mark, fates = self.ground.mark(), len(box.fates)
        self.ground.wait_up()
        try:
            if box.client.get(box.path).json.get("state") == "running":
                return True  # its end is on its way, or it was something else that ended
            answer = box.client.post(f"{box.path}/resume")
        except Gone:
            return False
        if answer.status != 200:
            if not (box.is_over(mark, fates) or answer.disturbed):
                # It may still be ending.
                if answer.status != 409:
                    box.finding(f"resume after a death: {answer.status} {answer.body[:300]}")
            return False
        box.mark, box.fates_seen, box.counter = mark, fates, None
        self.ledger.count("persistent sandboxes revived")
        return True

    def last_audit(self, box):
        try:
            box.audit()
        except (Gone, Ended):
            pass

    def destroy(self, box):
        box.doomed = True
        answer = box.client.sure("DELETE", box.path)
        if answer.status not in (204, 404):
            self.ledger.finding(f"{box.id} cannot be destroyed: {answer.status} "
                                f"{answer.body[:300]}")
        elif answer.status == 204 and box.provider == "native":
            state = self.ground.daemon.state
            left = [str(path) for place in ("sandboxes", "journal", "disks")
                    for path in (state / place).glob(f"{box.id}*")]
            if left and not self.ground.epoch % 2:
                self.ledger.finding(f"{box.id} is destroyed and has left {left}")
        box.client.sure("DELETE", f"/api/artifacts/{box.id}")
        with self.lock:
            self.living.pop(box.id, None)
            self.known[box.id] = time.monotonic()

    # Enemies.

    def enemy(self, chance):
        hostile = Hostile(self.ground, chance)
        while not self.over.wait(chance.uniform(0.1, 1.5)):
            try:
                hostile.strike()
            except (Gone, Ended, *BROKEN):
                self.ground.wait_up()
        hostile.leave()

    def killer(self, chance):
        pause = self.kills_every or 5
        while not self.over.wait(chance.uniform(0.2, 1.8) * pause):
            deed = chance.random()
            if not self.kills_every or deed < 0.3:
                self.kill_agent(chance)
            elif deed < 0.85:
                self.ground.kill_daemon(chance.choice([0, 0.1, 1]))
            elif deed < 0.9:
                self.ground.stop_daemon()
            else:
                self.ground.kill_spawn(with_daemon=chance.random() < 0.5)

    def kill_agent(self, chance):
        with self.lock:
            boxes = [box for box in self.living.values() if box.provider == "native"]
        if not boxes:
            return
        victim = chance.choice(boxes)
        with self.ground.lock:
            pid = self.ground.agent(victim.id)
            if pid is None:
                return
            victim.fates.append("agent killed")
            try:
                os.kill(pid, 9)
                self.ledger.count("agents kill -9")
            except ProcessLookupError:
                pass


class Events:
    """Follows all events through every death of the daemon: ids without a gap, no end twice."""

    def __init__(self, ground, census):
        self.ground, self.ledger, self.census = ground, ground.ledger, census
        self.last = 0
        self.started, self.ended = {}, {}  # by exec id: when, of which sandbox
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self):
        while not self.over.is_set():
            try:
                with self.ground.unix().websocket(f"/api/events?after={self.last}") as ws:
                    ws.sock.settimeout(2)
                    while not self.over.is_set():
                        try:
                            opcode, payload = ws.recv()
                        except TimeoutError:
                            continue
                        if opcode != ws.TEXT:
                            break
                        self.take(json.loads(payload))
            except (Gone, *BROKEN):
                self.over.wait(0.1)

    def take(self, event):
        if "truncated" in event:
            self.ledger.count("events that fell out", event["truncated"]["to"] - self.last)
            self.last = event["truncated"]["to"]
            return
        if event["id"] != self.last + 1:
            self.ledger.finding(f"event {event['id']} follows {self.last}")
        self.last = event["id"]
        self.ledger.count("events")
        self.census.ids.add(event["sandbox_id"])
        if event["kind"] == "exec.ended":
            if event["exec_id"] in self.ended:
                self.ledger.finding(f"two ends of {event['exec_id']}: {event}")
            self.ended[event["exec_id"]] = time.time()
        elif event["kind"] == "exec.started":
            self.started[event["exec_id"]] = time.time()

    def catch_up(self, seconds=20):
        """Until nothing new comes."""
        deadline, seen = time.monotonic() + seconds, -1
        while seen != self.last and time.monotonic() < deadline:
            seen = self.last
            time.sleep(1)

    def judge(self):
        """Every command that began has ended, and that was told. A death of the daemon takes along
        what it had to tell of its last milliseconds; what commands came to is in their records."""
        deaths = [death for death, _ in self.ground.deaths]
        untold = {exec_id: when for exec_id, when in self.started.items()
                  if exec_id not in self.ended}
        for exec_id, when in untold.items():
            if not any(death >= when - 1 for death in deaths):
                self.ledger.finding(f"the end of {exec_id} was not told")
        if len(untold) > 2 * len(deaths):
            self.ledger.finding(f"{len(untold)} ends were not told, with {len(deaths)} deaths")
        self.ledger.count("ends that were told", len(self.ended))
        self.ledger.count("ends that a death of the daemon kept from being told", len(untold))


def janitor(load):
    """Sandboxes that nobody has: their create was answered to nobody. They are counted, and go."""
    client = load.ground.unix()
    try:
        listed = client.get("/api/sandboxes").json["sandboxes"]
    except (Gone, KeyError, ValueError):
        return
    now = time.monotonic()
    with load.lock:
        for view in listed:
            load.known.setdefault(view["id"], now)
        orphans = [view["id"] for view in listed if view["id"] not in load.living
                   and now - load.known[view["id"]] > ORPHAN_SECONDS
                   and view["metadata"].get("soak") in ("worker", "abandoned")]
        alive = {view["id"] for view in listed}
        load.known = {key: when for key, when in load.known.items() if key in alive}
    for orphan in orphans:
        client.sure("DELETE", f"/api/sandboxes/{orphan}")
        load.ledger.count("sandboxes that nobody had")
