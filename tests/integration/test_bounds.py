"""What a tenant can make the daemon keep has an end: command lines, records of commands, their output."""

import contextlib
import os
import signal
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import BUILD, need_build, running
from rest import Rest

LONG = "x" * 100_000  # one argument may have 128 KiB


@pytest.fixture(scope="module")
def bounded():
    need_build()
    with running(BUILD) as started:
        yield started


@pytest.fixture
def rest(bounded):
    return Rest(bounded.socket)


@pytest.fixture
def box(bounded):
    name = bounded.create()
    yield f"/api/sandboxes/{name}"
    bounded.atoll("rm", name)


def figure(rest, name):
    return float(rest.get("/metrics").body.decode().split(f"\n{name} ")[1].split("\n")[0])


def run(rest, box, *cmd):
    answer = rest.post(f"{box}/execs", {"cmd": list(cmd)}, wait="true")
    assert answer.status == 200, answer.body
    return answer.json


def test_a_long_command_line_is_run_whole_and_kept_in_part(bounded, rest, box):
    ran = run(rest, box, "sh", "-c", "echo $# ${#1}", "sh", LONG, LONG)
    assert ran["stdout"] == "2 100000\n"

    def shown():
        said = rest.get(f"{box}/execs/{ran['exec_id']}").json
        assert said["cmd"][:4] == ["sh", "-c", "echo $# ${#1}", "sh"]
        kept = sum(len(arg) for arg in said["cmd"])
        assert kept <= 4096 and said["cmd"][-1].endswith("…")
        assert 190_000 < said["cmd_bytes_left_out"] < 200_100
        return said
    before = shown()
    os.kill(bounded.pid, signal.SIGKILL)
    bounded.process.wait()
    bounded.start()
    assert shown() == before
    assert "cmd_bytes_left_out" not in rest.get(
        f"{box}/execs/{run(rest, box, 'true')['exec_id']}").json


def test_long_command_lines_do_not_stay_in_memory(rest, box):
    run(rest, box, "true", LONG, LONG)
    before = figure(rest, "process_heap_bytes")
    for _ in range(100):
        run(rest, box, "true", LONG, LONG)
    assert figure(rest, "process_heap_bytes") - before < 100 * 20_000


def add_commands(daemon, name, count):
    """As if it had run so many: the daemon is restarted with their rows and output."""
    os.kill(daemon.pid, signal.SIGKILL)
    daemon.process.wait()
    with contextlib.closing(sqlite3.connect(daemon.state / "atoll.db")) as db, db:
        cursor = db.execute("SELECT * FROM execs WHERE sandbox_id = ?", [name])
        columns = [column[0] for column in cursor.description]
        row = dict(zip(columns, cursor.fetchone()))
        output = (daemon.state / "journal" / f"{name}-{row['id']}").read_bytes()
        for number in range(count):
            row["id"] = f"{number * 2654435761 % 2**64:016x}"
            row["started_unix_ms"] += 1
            db.execute(f"INSERT INTO execs ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
                       list(row.values()))
            (daemon.state / "journal" / f"{name}-{row['id']}").write_bytes(output)
    daemon.start()


def test_a_destroy_with_many_commands_lets_others_pass(bounded, rest):
    """Others are answered while it is under way: between two looks that both find it half done."""
    name = bounded.create()
    run(rest, f"/api/sandboxes/{name}", "echo", "x")
    add_commands(bounded, name, 4000)
    journals = bounded.state / "journal"

    def left():
        return sum(1 for entry in os.scandir(journals) if entry.name.startswith(name))
    assert left() == 4001
    with ThreadPoolExecutor(1) as threads:
        destroyed = threads.submit(rest.delete, f"/api/sandboxes/{name}")
        halfway = 0
        while not destroyed.done():
            before = left()
            assert rest.get("/healthz").status == 200
            halfway += before < 4001 and left() > 0
        assert destroyed.result().status == 204
    assert halfway > 0
    assert left() == 0
    with contextlib.closing(sqlite3.connect(bounded.state / "atoll.db")) as db:
        left = db.execute("SELECT count(*) FROM execs WHERE sandbox_id = ?", [name]).fetchone()
    assert left == (64,)  # the newest, with its record


def test_commands_of_a_sandbox_half_destroyed_are_removed(bounded, rest):
    """By the next daemon: the one that was at it died between two turns."""
    name = bounded.create()
    run(rest, f"/api/sandboxes/{name}", "echo", "x")
    add_commands(bounded, name, 200)
    os.kill(bounded.pid, signal.SIGKILL)
    bounded.process.wait()
    with contextlib.closing(sqlite3.connect(bounded.state / "atoll.db")) as db, db:
        db.execute("DELETE FROM sandboxes WHERE id = ?", [name])
    bounded.start()
    assert rest.get(f"/api/sandboxes/{name}").status == 404
    assert not [entry for entry in os.listdir(bounded.state / "journal") if entry.startswith(name)]
    with contextlib.closing(sqlite3.connect(bounded.state / "atoll.db")) as db:
        assert db.execute("SELECT count(*) FROM execs WHERE sandbox_id = ?", [name]).fetchone() == (0,)


# Output.

SANDBOX, TENANT, TOTAL = 1 << 20, 2 << 20, 3 << 20


@pytest.fixture(scope="module")
def thrifty():
    """A daemon that keeps little output: 1 MiB of a sandbox, 2 of a tenant, 3 in all."""
    need_build()
    with running(BUILD, ATOLL_JOURNAL_SANDBOX_MAX=str(SANDBOX), ATOLL_JOURNAL_TENANT_MAX=str(TENANT),
                 ATOLL_JOURNAL_TOTAL_MAX=str(TOTAL)) as started:
        yield started


def write(rest, box, n):
    """A command that writes so much, and the place of its output."""
    answer = rest.post(f"{box}/execs", {"cmd": ["head", "-c", str(n), "/dev/zero"]}, wait="true")
    assert answer.json["result"]["stdout_bytes"] == n
    return f"{box}/execs/{answer.json['exec_id']}/output"


def is_whole(rest, output, n):
    """What a client that comes later gets adds up, gaps included."""
    lines = [line for line in rest.get(output).lines if "result" not in line]
    gaps = [line["truncated"] for line in lines if "truncated" in line]
    got = sum(len(line["data"]) for line in lines if "data" in line)
    assert got + sum(gap["to"] - gap["from"] for gap in gaps) == n
    return not gaps


def on_disk(daemon, name=""):
    return sum(entry.stat().st_blocks * 512 for entry in os.scandir(daemon.state / "journal")
               if entry.name.startswith(name))


def removed(rest, limit):
    figures = rest.get("/metrics").body.decode()
    parts = figures.split(f'\natoll_journals_removed_total{{limit="{limit}"}} ')
    return int(parts[1].split("\n")[0]) if len(parts) > 1 else 0


def test_output_of_a_sandbox_has_an_end(thrifty):
    rest, name = Rest(thrifty.socket), thrifty.create()
    outputs = [write(rest, f"/api/sandboxes/{name}", 300_000) for _ in range(8)]
    whole = [is_whole(rest, output, 300_000) for output in outputs]
    assert whole == [False] * 5 + [True] * 3, "the oldest go first"
    assert on_disk(thrifty, name) <= SANDBOX
    assert removed(rest, "sandbox") == 5
    os.kill(thrifty.pid, signal.SIGKILL)
    thrifty.process.wait()
    thrifty.start()
    assert [is_whole(rest, output, 300_000) for output in outputs] == whole
    thrifty.atoll("rm", name, check=True)
    assert on_disk(thrifty, name) == 0


def test_output_of_a_command_that_runs_ends_at_the_quota(thrifty):
    rest, name = Rest(thrifty.socket), thrifty.create()
    output = write(rest, f"/api/sandboxes/{name}", 3_000_000)
    assert not is_whole(rest, output, 3_000_000)
    # The file system adds blocks of its own to a file in pieces.
    assert SANDBOX * 3 / 4 < on_disk(thrifty, name) <= SANDBOX + 64 * 1024
    thrifty.atoll("rm", name, check=True)


def test_output_of_a_tenant_has_an_end(thrifty):
    rest, names = Rest(thrifty.socket), [thrifty.create() for _ in range(4)]
    outputs = [write(rest, f"/api/sandboxes/{name}", 900_000) for name in names]
    whole = [is_whole(rest, output, 900_000) for output in outputs]
    assert whole == [False, False, True, True]
    assert on_disk(thrifty) <= TENANT
    kept = figure(rest, 'atoll_kept_bytes{what="journals"}')
    assert kept == on_disk(thrifty) <= figure(rest, 'atoll_kept_bytes_max{what="journals"}') == TOTAL
    for name in names:
        thrifty.atoll("rm", name, check=True)
    assert figure(rest, 'atoll_kept_bytes{what="journals"}') == 0


def test_a_tenant_that_writes_much_costs_others_nothing(thrifty):
    rest = Rest(thrifty.socket)
    keys = [rest.post("/api/keys", {"tenant": tenant, "scope": "write"}).json["key"]
            for tenant in ("quiet", "loud", "louder")]
    quiet, *loud = [Rest(thrifty.socket, {"Authorization": f"Bearer {key}"}) for key in keys]
    boxes = {client: [f"/api/sandboxes/{client.post('/api/sandboxes', {}).json['id']}"
                      for _ in range(2)] for client in (quiet, *loud)}
    little = write(quiet, boxes[quiet][0], 200_000)
    for _ in range(3):
        for client in loud:
            for box in boxes[client]:
                write(client, box, 900_000)
    assert is_whole(quiet, little, 200_000)
    assert on_disk(thrifty) <= TOTAL and removed(rest, "total") > 0
    for client, made in boxes.items():
        for box in made:
            assert client.delete(box).status == 204


def test_old_output_goes(thrifty):
    rest, name = Rest(thrifty.socket), thrifty.create()
    old, new = [write(rest, f"/api/sandboxes/{name}", 1000) for _ in range(2)]
    os.kill(thrifty.pid, signal.SIGKILL)
    thrifty.process.wait()
    with contextlib.closing(sqlite3.connect(thrifty.state / "atoll.db")) as db, db:
        db.execute("UPDATE execs SET started_unix_ms = started_unix_ms - 8 * 86400000 WHERE id = ?",
                   [old.split("/")[-2]])
    thrifty.start()
    assert [is_whole(rest, output, 1000) for output in (old, new)] == [False, True]
    assert removed(rest, "age") == 1
    thrifty.atoll("rm", name, check=True)
