"""The daemon under soak: who kills it, and what a client may blame on that.

Every deed (a kill, a restart) is announced before it is done. A request that fails although nothing
was announced while it was under way is a finding.
"""

import collections
import contextlib
import http.client
import os
import signal
import threading
import time
from pathlib import Path

from daemons import spawn_of, start_time, wait_until
from rest import Rest

START_SECONDS = 60


class Gone(Exception):
    """The connection broke because of a deed; what became of the request is to be found out."""


class Ended(Exception):
    """The sandbox is over, as was to be expected, or is given up after a finding."""


class Ledger:
    """What was done, and what was found wrong."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.findings = []
        self.begun = time.monotonic()

    def count(self, what, n=1):
        with self.lock:
            self.counts[what] += n

    def finding(self, text):
        with self.lock:
            self.findings.append(text)
            if len(self.findings) <= 100:
                print(f"soak: FINDING at {time.monotonic() - self.begun:.1f} s: {text}", flush=True)


class Ground:
    def __init__(self, world, ledger, key):
        self.world, self.daemon, self.ledger, self.key = world, world.daemon, ledger, key
        host, port = world.daemon.env["ATOLL_LISTEN"].split(":")
        self.address = (host, int(port))
        self.lock = threading.RLock()  # one deed at a time
        self.epoch = 0  # odd while a deed is being done
        self.last_over = -1  # the last deed that ended all sandboxes
        self.deaths = []  # when the daemon was gone: [from, to]
        self.up = threading.Event()
        self.up.set()

    # What clients ask.

    def mark(self):
        return self.epoch

    def disturbed(self, mark):
        return mark % 2 == 1 or self.epoch != mark

    def ended_since(self, mark):
        return self.last_over >= mark

    def wait_up(self):
        if not self.up.wait(3 * START_SECONDS):
            raise Ended("the daemon does not come back")

    def unix(self):
        return Client(self, Rest(self.daemon.socket))

    def tcp(self):
        return Client(self, Rest(self.address, {"X-API-Key": self.key["key"]}))

    def e2b(self):
        return Client(self, Rest(self.address, {"X-API-Key": self.key["e2b_key"]}))

    # Deeds.

    @contextlib.contextmanager
    def deed(self, what, ends_all=False):
        with self.lock:
            self.up.clear()
            self.epoch += 1
            if ends_all:
                self.last_over = self.epoch
            self.ledger.count(what)
            try:
                yield
            finally:
                self.epoch += 1
                self.up.set()

    def start(self):
        # Whoever keeps the places of sandboxes on this host may be busy.
        for attempt in range(3):
            try:
                self.daemon.start()
                break
            except AssertionError as error:
                if self.daemon.process.poll() is None or attempt == 2:
                    self.ledger.finding(f"the daemon does not start: {error}")
                    raise
                time.sleep(1)
        self.deaths[-1][1] = time.time()

    def note_death(self):
        self.deaths.append([time.time(), time.time() + 3600])

    def kill_daemon(self, pause):
        with self.deed("daemon kill -9"):
            self.note_death()
            self.daemon.process.kill()
            self.daemon.process.wait()
            time.sleep(pause)
            self.start()

    def stop_daemon(self):
        with self.deed("daemon SIGTERM", ends_all=True):
            self.note_death()
            self.daemon.process.send_signal(signal.SIGTERM)
            self.daemon.process.wait(START_SECONDS)
            status = self.daemon.process.returncode
            if status != 0:
                self.ledger.finding(f"SIGTERM ended the daemon with {status}")
            self.start()

    def kill_spawn(self, with_daemon):
        with self.deed("spawn and daemon kill -9" if with_daemon else "spawn kill -9", True):
            victim = self.spawn()
            if with_daemon:
                self.note_death()
                self.daemon.process.kill()
                self.daemon.process.wait()
            os.kill(victim, signal.SIGKILL)
            if with_daemon:
                self.start()
            run = {"cmd": ["true"], "provider": "native"}
            wait_until(lambda: self.spawn() not in (None, victim) and self.unix().rest.post(
                "/api/run", run).status == 200, START_SECONDS, lambda: "spawn does not come back")

    def check_alive(self):
        if self.epoch % 2 == 0 and self.daemon.process.poll() is not None:
            self.ledger.finding(f"the daemon died by itself: {self.daemon.process.returncode}\n"
                                f"{self.daemon.log_tail(5)}")
            with self.deed("daemon died"):
                self.note_death()
                self.start()

    # Processes.

    def spawn(self):
        """The process id of atoll-spawn, None while there is none."""
        return spawn_of(self.daemon.state)

    def agent(self, box_id):
        """The first process of a sandbox of the native provider."""
        for pid in children(self.spawn() or 0):
            with contextlib.suppress(OSError):
                if box_id in Path(f"/proc/{pid}/cgroup").read_text() and start_time(pid):
                    return pid
        return None


def children(pid):
    with contextlib.suppress(OSError):
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


BROKEN = (OSError, http.client.HTTPException, EOFError)


class Client:
    """Requests whose failures are explained: Gone, or a finding."""

    def __init__(self, ground, rest):
        self.ground, self.rest = ground, rest

    def gone(self, mark, what, error):
        if not self.ground.disturbed(mark):
            self.ground.ledger.finding(f"{what}: {error!r}, and nobody had touched the daemon")
        return Gone(what)

    def call(self, method, path, body=None, headers=None, /, **query):
        mark = self.ground.mark()
        try:
            answer = self.rest.call(method, path, body, headers, **query)
        except BROKEN as error:
            raise self.gone(mark, f"{method} {path}", error) from error
        answer.disturbed = self.ground.disturbed(mark)
        self.ground.ledger.count("requests")
        return answer

    def get(self, path, /, **query):
        return self.call("GET", path, **query)

    def post(self, path, body=None, /, **query):
        return self.call("POST", path, body, **query)

    def put(self, path, body, /, **query):
        return self.call("PUT", path, body, **query)

    def delete(self, path, /, **query):
        return self.call("DELETE", path, **query)

    def sure(self, method, path, body=None, /, **query):
        """The same until there is an answer; for what may be done twice."""
        while True:
            try:
                answer = self.call(method, path, body, **query)
                if not answer.disturbed or answer.status < 500:
                    return answer
            except Gone:
                pass
            self.ground.wait_up()
            time.sleep(0.05)

    @contextlib.contextmanager
    def websocket(self, path):
        mark = self.ground.mark()
        try:
            with self.rest.websocket(path) as ws:
                yield ws
        except BROKEN as error:
            raise self.gone(mark, f"WebSocket {path}", error) from error

    @contextlib.contextmanager
    def stream(self, method, path, body=None):
        """An answer to be read line by line."""
        mark = self.ground.mark()
        connection = self.rest.connection()
        try:
            connection.request(method, path, body, self.rest.headers)
            answer = connection.getresponse()
            answer.mark = mark
            yield answer
        except BROKEN as error:
            raise self.gone(mark, f"{method} {path}", error) from error
        finally:
            connection.close()
