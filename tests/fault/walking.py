"""One daemon, what clients do with it, and how to tell whether all is well afterwards."""

import contextlib
import http.client
import itertools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import urllib.parse
from pathlib import Path

import pytest
from daemons import (BUILD, Daemon, alive, cgroups, descendants, freezer_state, in_pool, process_files,
                     start_time, wait_until)
from faults import Board, compiled_in
from rest import Rest

PATIENCE = 30  # seconds; how long something may take that nobody waits for when all is well
# As rows have them. Whoever finds one that is being destroyed goes on with that.
STATES = ["creating", "running", "stopping", "failed", "paused", "stopped"]
ID_LENGTH = 26
# Commands of ended sandboxes belong to their records.
LIVE_TABLES = ["sandboxes", "execs WHERE sandbox_id NOT IN (SELECT id FROM ended)", "contexts", "previews", "sessions", "artifact_wishes",
               "artifact_sets", "artifacts", "templates", "template_versions", "template_tags", "layers",
               "build_steps", "tasks WHERE kind = 'task'"]


TOLD = 1  # no error, but an answer that says what is missing: bytes of output, or an end


class Refused(Exception):
    """An answer that is not what the client wanted: status 0 when there was none at all."""

    def __init__(self, what, status, body):
        super().__init__(f"{what}: {status} {body[:300]!r}")
        self.status = status
        self.body = body


class Client:
    """Wants every request to succeed, and remembers what it was told about commands."""

    def __init__(self, socket):
        self.rest = Rest(socket)
        self.told = {}  # exec id: its result

    def call(self, method, path, body=None, headers=None, /, want=(200, 201, 204), **query):
        what = f"{method} {path}"
        try:
            answer = self.rest.call(method, path, body, headers, **query)
        except (OSError, http.client.HTTPException) as error:
            raise Refused(what, 0, str(error).encode()) from None
        if answer.status not in want:
            raise Refused(what, answer.status, answer.body)
        return answer

    def get(self, path, /, **query):
        return self.call("GET", path, **query).json

    def post(self, path, body=None, /, **query):
        answer = self.call("POST", path, body, **query)
        return answer.json if answer.body else None

    def put(self, path, body, /, **query):
        self.call("PUT", path, body, **query)

    def delete(self, path):
        self.call("DELETE", path, want=(204,))

    def create(self, **fields):
        return self.post("/api/sandboxes", fields)["id"]

    def run(self, box, script, **fields):
        ended = self.post(f"/api/sandboxes/{box}/execs", {"cmd": ["sh", "-c", script], **fields},
                          wait="true")
        self.told[box, ended["exec_id"]] = end_of(ended)
        if ended["result"].get("exit_code") != 0 or ended.get("stdout_truncated"):
            raise Refused(f"run {script}", TOLD, json.dumps(ended).encode())
        return ended["stdout"]

    def interpret(self, context, code):
        """What it prints; an interpreter that could not be heard to the end says so."""
        answer = self.post(f"{context}/execute", {"code": code})
        if answer["error"]:
            assert "the daemon, because" in answer["error"]["value"], answer
            raise Refused(code, TOLD, json.dumps(answer).encode())
        return answer["stdout"]


def end_of(record):
    result = record.get("result") or {}
    return result.get("kind"), result.get("exit_code"), result.get("signal")


def running(facts):
    return [box for box, state in facts["states"].items() if state == "running"]


class Walk:
    """A daemon with a board, and the world around it."""

    def __init__(self, directory, settings=None, **env):
        self.directory = directory
        self.board = Board(directory / "board")
        self.daemon = Daemon(BUILD, directory)
        self.daemon.env |= {"ATOLL_FAULT_BOARD": str(self.board.path), "ATOLL_DISKS": "auto", **env}
        self.state = self.daemon.state
        self.rest = Rest(self.daemon.socket)
        self.numbers = itertools.count()
        self.spare = int(env.get("ATOLL_POOL", 0))  # sandboxes that are there and nobody's
        if settings:
            self.state.mkdir(mode=0o700)
            (self.state / "providers.yaml").write_text(json.dumps({"providers": settings}))

    # The daemon.

    def client(self):
        return Client(self.daemon.socket)

    def answers(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.rest.get("/healthz").status == 200
        return False

    def launch(self):
        """Starts it; False when it ended instead."""
        command = [str(BUILD / "atolld"), "--state", str(self.state),
                   "--socket", str(self.daemon.socket)]
        with self.daemon.log.open("ab") as log:
            self.daemon.process = subprocess.Popen(
                command, env=self.daemon.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True)
        wait_until(lambda: self.answers() or self.is_dead(), PATIENCE,
                   lambda: f"atolld does not answer:\n{self.daemon.log_tail()}")
        return not self.is_dead()

    def start(self):
        assert self.launch(), f"atolld ended by itself:\n{self.daemon.log_tail()}"

    def is_dead(self):
        return self.daemon.process.poll() is not None

    def kill(self):
        self.daemon.process.kill()
        self.daemon.process.wait()

    def restart(self):
        self.kill()
        self.start()

    def terminate(self):
        """Asks it to end; a sanitized one tells by its status what it leaked."""
        self.board.clear()
        self.daemon.process.send_signal(signal.SIGTERM)
        status = self.daemon.process.wait(PATIENCE)
        assert status == 0, f"atolld ended with {status}:\n{self.daemon.log_tail(80)}"

    def end(self):
        """The end of a walk; what is left behind, as texts."""
        family = self.family()
        self.terminate()
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not any(alive(*p) for p in family), 10, lambda: "")
        left = [f"process {pid}" for pid, born in family if alive(pid, born)]
        left += self.mounts() + [f"cgroup {path}" for path in self.own_cgroups()]
        return left + self.daemon.reports()

    # The world.

    def family(self):
        """Everything that was started for it: (pid, start time)."""
        found = []
        for entry in process_files("cmdline"):
            with contextlib.suppress(OSError):
                if str(self.state).encode() in entry.read_bytes():
                    pid = int(entry.parent.name)
                    if pid != os.getpid():
                        found += [(pid, start_time(pid)), *descendants(pid)]
        return set(found)

    def agents(self):
        """Ids of the native sandboxes that have a first process."""
        found = set()
        for pid, _ in self.family():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text() == "atoll-agent\n":
                    found.add(Path("/proc", str(pid), "root", "etc", "hostname").read_text().strip())
        return {name for name in found if len(name) == ID_LENGTH}  # others have the host's

    def instance(self):
        there = self.state.stat()
        return f"{(there.st_ino ^ (there.st_dev << 40)) & (1 << 64) - 1:x}"

    def own_cgroups(self):
        return [path for path in cgroups() if self.instance() in path.parent.name]

    def mounts(self):
        return [f"mount {line.split()[4]}"
                for line in Path("/proc/self/mountinfo").read_text().splitlines()
                if str(self.state) in line]

    def files(self, folder):
        directory = self.state / folder
        return {path.name for path in directory.iterdir()} if directory.exists() else set()

    def rows(self, table, columns="*"):
        with contextlib.closing(sqlite3.connect(f"file:{self.state}/atoll.db?mode=ro",
                                                uri=True)) as db:
            return db.execute(f"SELECT {columns} FROM {table}").fetchall()

    # What it says, and whether that is so.

    def facts(self):
        """All it tells, as far as it has to be the same after kill -9."""
        client = self.client()
        boxes = {box["id"]: box for box in client.get("/api/sandboxes")["sandboxes"]}
        execs = {}
        for box in boxes:
            answer = client.call("GET", f"/api/sandboxes/{box}/execs", want=(200, 404))
            for record in answer.json.get("execs", []):  # none of one that is gone by now
                execs[box, record["exec_id"]] = end_of(record)
        return {
            "states": {box: view["state"] for box, view in boxes.items()},
            "execs": execs,
            "sessions": {s["session_id"] for s in client.get("/api/sessions")["sessions"]},
            "templates": {(t["name"], t["digest"], *t.get("tags", []))
                          for t in client.get("/api/templates")["templates"]},
            "artifacts": {a["sandbox_id"] for a in client.get("/api/artifacts")["artifacts"]},
            "keys": {k["id"] for k in client.get("/api/keys")["keys"]},
            "tasks": {(t["id"], t["state"]) for t in client.get("/api/tasks")["tasks"]},
            "swarms": {(s["id"], s["state"]) for s in client.get("/api/swarms")["swarms"]},
        }

    def truth(self):
        """Waits until nothing is under way any more and all it says is so; the facts then."""
        seen = {}

        def calm():
            self.cancel_abandoned()
            seen.clear()
            seen.update(self.facts())
            return (not {"creating", "stopping", "unreachable"} & set(seen["states"].values())
                    and not {"waiting", "running"} & {state for _, state in seen["tasks"] | seen["swarms"]}
                    and not self.lies(seen) and all(map(self.reaches, running(seen))))

        wait_until(calm, PATIENCE, lambda: f"{self.lies(seen)}\nsays {seen}\n"
                                           f"{self.daemon.log_tail()}")
        return dict(seen)

    def cancel_abandoned(self):
        """Tasks that wait for a repository: the client that was to send it has given up."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            for task in self.rest.get("/api/tasks").json["tasks"]:
                if task["wants_source"]:
                    self.rest.post(f"/api/tasks/{task['id']}/cancel")

    def reaches(self, box):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.rest.get(f"/api/sandboxes/{box}/files/stat", path="/").status == 200
        return False

    def has_failed(self, box):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.rest.get(f"/api/sandboxes/{box}").json.get("state") == "failed"
        return False

    def lies(self, facts):
        """Where what it says is not what there is, as texts."""
        states = facts["states"]
        here = {box for box, state in states.items() if state in ("running", "paused")
                and (self.state / "sandboxes" / f"{box}.sock").exists()} | self.waiting(states)
        found = [f"cgroup {path} of a sandbox that is not there" for path in self.own_cgroups()
                 if path.name not in here]
        found += [f"file {name}" for name in self.files("sandboxes")
                  if name.partition(".")[0] not in here]
        found += [f"agent of {box}" for box in self.agents() - here]
        found += [f"{box} has no agent" for box in here - self.agents()]
        found += [f"{path.name} is paused and runs" for path in self.own_cgroups()
                  if states.get(path.name) == "paused" and freezer_state(path) == "THAWED"]
        found += [f"disk {name}" for name in self.files("disks")
                  if name.partition(".")[0] not in states]
        found += [f"journal {name}" for name in self.files("journal")
                  if tuple(name.split("-")) not in facts["execs"]]
        stored = {box: STATES[state] for box, state in self.rows("sandboxes", "id, state")
                  if STATES[state] != "stopping"}
        found += [f"{box} is {states.get(box)}, its row says {stored.get(box)}"
                  for box in states.keys() | stored.keys() if states.get(box) != stored.get(box)]
        for box, name, kind in self.rows("execs", "sandbox_id, id, kind"):
            told = facts["execs"].get((box, name))
            if box in states and (not told or (kind == 0) != (told[0] is None)):
                found.append(f"{name} of {box} has ended as {told}, its row says {kind}")
        found += self.mounts()
        return found

    def remove_again(self):
        """Sandboxes that could not be removed say so; who asks again gets rid of them."""
        client = self.client()
        for box in client.get("/api/sandboxes")["sandboxes"]:
            if box["state"] == "failed" and "could not be" in box.get("cause", ""):
                client.delete(f"/api/sandboxes/{box['id']}")

    def check_running(self, facts):
        """What is said to run does."""
        client = self.client()
        for box in running(facts):
            assert client.run(box, "echo works") == "works\n"

    # Between two rounds.

    def sweep(self):
        """Everything is ended by its owner, and then nothing is left."""
        client = self.client()
        for session in client.get("/api/sessions")["sessions"]:
            client.delete(f"/api/sessions/{session['session_id']}")
        for task in client.get("/api/tasks")["tasks"]:
            client.delete(f"/api/tasks/{task['id']}")
        for box in client.get("/api/sandboxes")["sandboxes"]:
            client.call("DELETE", f"/api/sandboxes/{box['id']}", want=(204, 404))
        for kept in client.get("/api/artifacts")["artifacts"]:
            client.delete(f"/api/artifacts/{kept['sandbox_id']}")
        for template in client.get("/api/templates")["templates"]:
            if template["kind"] != "host":
                client.delete("/api/templates/" + urllib.parse.quote(template["name"], safe=""))
        client.post("/api/templates/gc", cache="true", all="true")
        for key in client.get("/api/keys")["keys"]:
            if key["tenant"] == "walker":
                client.delete(f"/api/keys/{key['id']}")
        wait_until(lambda: not self.rest_of_it(), PATIENCE,
                   lambda: f"left behind: {self.rest_of_it()}\n{self.daemon.log_tail()}")

    def rest_of_it(self):
        waiting = self.waiting({})
        left = [f"{folder}/{name}" for folder in ("sandboxes", "disks", "journal", "artifacts",
                                                  "layers", "templates", "fake", "tasks")
                for name in self.files(folder) if name.partition(".")[0] not in waiting]
        left += [f"disk pool {name}" for name in in_pool(self.daemon.state) if name.partition("-")[2] not in waiting]
        left += [f"image {name}" for name in self.files("images") if not name.endswith(".img")]
        left += [f"cgroup {path}" for path in self.own_cgroups() if path.name not in waiting]
        left += [f"agent of {box}" for box in self.agents() - waiting]
        for table in LIVE_TABLES:
            left += [f"{table}: {row[:2]}" for row in self.rows(table)]
        return left + self.mounts()

    def waiting(self, states):
        """Those in the pool, which nobody is told of: no more than there may be."""
        found = self.agents() - set(states)
        return found if len(found) <= self.spare else set()


@contextlib.contextmanager
def walk(settings=None, record=False, wish="", **env):
    """record: made.first has the points of the first start; wish: what happens to that one."""
    directory = Path(tempfile.mkdtemp(prefix="atoll-", dir="/tmp"))
    directory.chmod(0o755)
    made = Walk(directory, settings, **env)
    left = []
    try:
        if wish:
            made.board.wish(wish)
            made.launch()
            made.board.clear()
            if not made.is_dead():
                made.kill()
        with made.board.recording() if record else contextlib.nullcontext() as made.first:
            made.start()
        yield made
    finally:
        if made.daemon.process:
            if made.is_dead():
                made.board.clear()
                made.launch()
            for box in made.client().get("/api/sandboxes")["sandboxes"]:
                made.rest.delete(f"/api/sandboxes/{box['id']}")
            left = made.end()
        shutil.rmtree(directory, ignore_errors=True)
    assert not left, f"left behind: {left}"


@pytest.fixture(scope="module", name="walker")
def native_walker():
    """With native alone, for the tests of a file."""
    if not compiled_in():
        pytest.skip("a build without -Dtest_switches=true cannot be made to fail")
    with walk({"native": {"check_seconds": 3600}}) as made:
        yield made
