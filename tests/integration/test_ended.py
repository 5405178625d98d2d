"""What is known of a sandbox after its end: how it ended, its commands and their output."""

import contextlib
import json
import os
import signal

import pytest

import conftest
from boxes import Box
from conftest import wait_until
from daemons import running
from rest import Rest
from resting import agent_of


@pytest.fixture(scope="module")
def mortal():
    """A daemon of our own, to be killed."""
    with running(conftest.BUILD) as daemon:
        yield daemon


@pytest.fixture
def rest(mortal):
    yield Rest(mortal.socket)
    Rest(mortal.socket).delete("/api/sandboxes")


def record(rest, box):
    answer = rest.get(box.path)
    assert answer.status == 200, answer.body
    return answer.json


def ended_ids(rest, **query):
    return [s["id"] for s in rest.get("/api/sandboxes", state="ended", **query).json["sandboxes"]]


def wait_gone(box):
    wait_until(lambda: box.view["state"] == "ended", 30, lambda: f"it is {box.view}")


def test_a_destroyed_sandbox_leaves_a_record(rest):
    box = Box(rest, name="witness", metadata={"task": "42"}, limits={"memoryMB": 128})
    was = box.view
    ran = box.run("echo hello; exit 3")
    box.detach("sleep 1000")
    assert rest.get(box.path, ended="true").json["state"] == "running"
    assert box.destroy() == 204
    gone = rest.get(box.path, ended="false")
    assert gone.status == 404 and "ended at 20" in gone.json["error"]["message"]
    kept = record(rest, box)
    assert kept == rest.get(box.path, ended="true").json
    assert kept["state"] == "ended" and kept["end"] == "request" and kept["ended_by"]
    for same in ("id", "name", "created_at", "limits", "metadata", "template", "provider", "tenant",
                 "networkMode", "waived", "persistent"):
        assert kept[same] == was[same], same
    assert kept["created_at"] <= kept["ended_at"]
    assert box.id in ended_ids(rest) and box.id not in ended_ids(rest, template="other")
    assert box.id in ended_ids(rest, metadata="task=42")
    assert box.id not in ended_ids(rest, metadata="task=43")
    first, second = rest.get(f"{box.path}/execs").json["execs"]
    assert first["cmd"] == ["sh", "-c", "echo hello; exit 3"]
    assert first["result"]["exit_code"] == 3 and first["result"]["stdout_bytes"] == 6
    assert second["state"] == "ended" and second["result"]["kind"] == "killed_by"
    one = rest.get(f"{box.path}/execs/{ran['exec_id']}")
    assert one.json == first
    for path in ("", "/output"):
        assert rest.get(f"{box.path}/execs/{'0' * 16}{path}").status == 404


def test_other_routes_say_that_it_has_ended(rest):
    box = Box(rest)
    assert box.destroy() == 204
    for method, path in [("GET", "/files?path=/"), ("POST", "/pause"), ("DELETE", ""),
                         ("GET", "/stats"), ("GET", "/execs?ended=false"),
                         ("POST", "/execs/0123456789abcdef/signal")]:
        answer = rest.call(method, box.path + path)
        assert answer.status == 404, (method, path)
        assert f"{box.id} does not exist: it ended at" in answer.json["error"]["message"]
    assert rest.get(f"{box.path}?ended=perhaps").status == 400
    never = rest.get("/api/sandboxes/" + "0" * 26)
    assert never.status == 404 and "ended at" not in never.json["error"]["message"]


def test_its_name_is_free_and_does_not_find_it(rest):
    box = Box(rest, name="again")
    assert box.destroy() == 204
    assert rest.get("/api/sandboxes/again").status == 404
    living = Box(rest, name="again")
    assert rest.get("/api/sandboxes/again").json["id"] == living.id


def test_how_it_ended(rest):
    late = Box(rest, limits={"timeoutSeconds": 1})
    idle = Box(rest, lifetime={"idleSeconds": 1})
    wait_gone(late)
    wait_gone(idle)
    assert record(rest, late)["end"] == "deadline"
    assert record(rest, late)["ended_by"] == "the sandbox's time limit"
    assert record(rest, idle)["end"] == "idle"


def test_one_that_failed_says_why(rest):
    box = Box(rest)
    os.kill(agent_of(box.id), signal.SIGKILL)
    wait_until(lambda: box.state == "failed", 30, lambda: box.state)
    cause = box.view["cause"]
    assert box.destroy() == 204
    kept = record(rest, box)
    assert kept["end"] == "failed" and kept["cause"] == cause


def test_of_other_tenants_nothing_is_seen(mortal, rest):
    other = Rest(mortal.socket, {"X-Atoll-Tenant": "other"})
    ours, theirs = Box(rest), Box(other)
    assert ours.destroy() == theirs.destroy() == 204
    for path in ("", "/execs"):
        answer = other.get(ours.path + path)
        assert answer.status == 404 and "ended at" not in answer.json["error"]["message"]
    assert ended_ids(other) == [theirs.id]
    assert theirs.id not in ended_ids(rest) and theirs.id in ended_ids(rest, all="true")


def test_paging(mortal):
    pager = Rest(mortal.socket, {"X-Atoll-Tenant": "pager"})
    ids = []
    for _ in range(5):
        box = Box(pager)
        assert box.destroy() == 204
        ids.append(box.id)
    got, query = [], {}
    while True:
        page = pager.get("/api/sandboxes", state="ended", limit=2, **query).json
        got += [s["id"] for s in page["sandboxes"]]
        if "next_cursor" not in page:
            break
        query = {"cursor": page["next_cursor"]}
    assert got == ids


def test_sessions(rest):
    made = rest.post("/api/sessions", {"environment": "Bash", "agent_config": {"model": "m"}}).json
    path = f"/api/sessions/{made['session_id']}"
    assert rest.post(f"{path}/execute", {"code": "true"}).status == 200
    assert rest.delete(path).status == 204
    gone = rest.get(path, ended="false")
    assert gone.status == 404 and "ended at" in gone.json["error"]["message"]
    kept = rest.get(path).json
    assert kept["session_id"] == made["session_id"] and kept["state"] == "ended"
    assert kept["environment"] == "Bash" and kept["agent_config"] == {"model": "m"}
    assert kept["end"] == "request" and kept["sandbox"]["id"] == made["sandbox_id"]
    box = rest.get(f"/api/sandboxes/{made['sandbox_id']}").json
    assert box["session_id"] == made["session_id"] and box == kept["sandbox"]
    other = Rest(rest.address, {"X-Atoll-Tenant": "other"})
    assert other.get(path).status == 404
    assert rest.get("/api/sessions", state="ended").json["sessions"].count(kept) == 1
    assert kept not in rest.get("/api/sessions").json["sessions"]
    assert other.get("/api/sessions", state="ended").json["sessions"] == []
    assert rest.get("/api/sessions", state="asleep").status == 400


def test_ended_sessions_in_pages(mortal):
    rest = Rest(mortal.socket, {"X-Atoll-Tenant": "sessions"})
    ids = []
    for _ in range(3):
        Box(rest).destroy()  # of no session
        ids.append(rest.post("/api/sessions", {"environment": "Bash"}).json["session_id"])
        living = rest.get("/api/sessions", state="running").json["sessions"]
        assert [s["session_id"] for s in living] == ids[-1:]
        assert rest.get("/api/sessions", state="failed").json["sessions"] == []
        assert rest.delete(f"/api/sessions/{ids[-1]}").status == 204
    got, query = [], {}
    while True:
        page = rest.get("/api/sessions", state="ended", limit=2, **query).json
        got += [s["session_id"] for s in page["sessions"]]
        if "next_cursor" not in page:
            break
        query = {"cursor": page["next_cursor"]}
    assert got == ids


def test_records_survive_the_daemon(mortal, rest):
    box, living = Box(rest), Box(rest)
    box.run("true")
    ran = living.run("echo still here")
    assert box.destroy() == 204
    before = record(rest, box), rest.get(f"{box.path}/execs").json
    mortal.process.kill()
    mortal.process.wait()
    mortal.start()
    assert (record(rest, box), rest.get(f"{box.path}/execs").json) == before
    assert living.state == "running" and living.output(ran["exec_id"]) == "still here\n"
    assert [x["exec_id"] for x in living.get("execs").json["execs"]] == [ran["exec_id"]]


def records(rest):
    text = rest.get("/metrics").body.decode()
    return int(float(text.split("\natoll_ended_records ")[1].split()[0]))


def test_their_number_is_bounded():
    with running(conftest.BUILD, ATOLL_ENDED_MAX="3") as daemon:
        rest, other = Rest(daemon.socket), Rest(daemon.socket, {"X-Atoll-Tenant": "other"})
        quiet = Box(other)
        quiet.run("true")
        assert quiet.destroy() == 204
        ids = []
        for _ in range(6):
            box = Box(rest)
            box.run("true")
            assert box.destroy() == 204
            ids.append(box.id)
        daemon.process.kill()
        daemon.process.wait()
        daemon.start()  # checks them at once
        wait_until(lambda: records(rest) <= 3, 30, lambda: f"there are {records(rest)}")
        # Those of the tenant that has the most were removed, the oldest first.
        assert ended_ids(rest) == ids[-2:] and ended_ids(other) == [quiet.id]


def test_none_are_kept_if_the_operator_says_so():
    with running(conftest.BUILD, ATOLL_ENDED_MAX="0") as daemon:
        rest = Rest(daemon.socket)
        box = Box(rest)
        box.run("true")
        assert box.destroy() == 204
        answer = rest.get(box.path)
        assert answer.status == 404 and "ended at" not in answer.json["error"]["message"]
        assert ended_ids(rest) == [] and records(rest) == 0


def output(rest, box, ran):
    """Of both streams, as kept; None where it is not."""
    texts = {"stdout": "", "stderr": ""}
    answer = rest.get(f"{box.path}/execs/{ran['exec_id']}/output")
    assert answer.status == 200, answer.body
    lines = [json.loads(line) for line in answer.body.decode().splitlines()]
    assert lines.pop()["result"]["kind"]
    for line in lines:
        if "truncated" in line:
            return None
        texts[line["stream"]] += line["data"]
    return texts


def files(daemon, folder):
    return sorted(entry.name for entry in (daemon.state / folder).iterdir())


def test_output_stays_readable(mortal, rest):
    box = Box(rest)
    ran = box.run("echo out; echo err >&2; exit 7")
    cut = box.detach("echo begun; sleep 1000")
    wait_until(lambda: box.output(cut) == "begun\n", 30, lambda: "no output")
    was = rest.get(f"{box.path}/execs/{ran['exec_id']}/output").body
    assert box.destroy() == 204
    assert output(rest, box, ran) == {"stdout": "out\n", "stderr": "err\n"}
    assert rest.get(f"{box.path}/execs/{ran['exec_id']}/output").body == was
    assert output(rest, box, {"exec_id": cut}) == {"stdout": "begun\n", "stderr": ""}
    part = rest.get(f"{box.path}/execs/{ran['exec_id']}/output", stdout=2, follow="true").body
    assert b'"data":"t\\n"' in part and b'"exit_code":7' in part
    shown = mortal.atoll("logs", box.id, ran["exec_id"])
    assert (shown.returncode, shown.stdout) == (7, "out\n"), shown
    assert ran["exec_id"] in mortal.atoll("logs", box.id, check=True).stdout
    other = Rest(mortal.socket, {"X-Atoll-Tenant": "other"})
    assert other.get(f"{box.path}/execs/{ran['exec_id']}/output").status == 404
    assert not [name for name in files(mortal, "journal") if name.startswith(box.id)]


def test_output_survives_the_daemon(mortal, rest):
    box, living = Box(rest), Box(rest)
    ran = box.run("seq 100000")
    late = living.run("echo late")
    assert box.destroy() == 204
    was = output(rest, box, ran)
    assert was["stdout"].endswith("\n100000\n")
    mortal.process.kill()
    mortal.process.wait()
    # As if it had died between storing the record and moving the journal.
    name = f"{box.id}-{ran['exec_id']}"
    (mortal.state / "ended" / name).rename(mortal.state / "journal" / name)
    (mortal.state / "ended" / f"{'0' * 26}-{'0' * 16}").write_text("of no record")
    mortal.start()
    assert output(rest, box, ran) == was
    assert living.output(late["exec_id"]) == "late\n"
    assert name in files(mortal, "ended") and name not in files(mortal, "journal")
    assert not [other for other in files(mortal, "ended") if other.startswith("0" * 26)]


def test_a_reader_that_is_slower_than_the_end(mortal, rest):
    """Opened before the end of the sandbox, read after it."""
    box = Box(rest)
    ran = box.run("seq 1000000")
    with contextlib.closing(rest.connection()) as connection:
        connection.request("GET", f"{box.path}/execs/{ran['exec_id']}/output")
        answer = connection.getresponse()
        text = answer.read(1000)
        assert box.destroy() == 204
        text = (text + answer.read()).decode()
    assert '"result"' in text.splitlines()[-1] and "1000000\\n" in text


def kept(rest, what="ended output", suffix=""):
    text = rest.get("/metrics").body.decode()
    return int(float(text.split(f'\natoll_kept_bytes{suffix}{{what="{what}"}} ')[1].split()[0]))


def test_their_output_is_bounded():
    with running(conftest.BUILD, ATOLL_ENDED_OUTPUT_MAX="1M") as daemon:
        rest, other = Rest(daemon.socket), Rest(daemon.socket, {"X-Atoll-Tenant": "other"})
        quiet = Box(other)
        said = quiet.run("seq 1000")
        assert quiet.destroy() == 204
        boxes = []
        for _ in range(4):
            box = Box(rest)
            boxes.append((box, box.run("head -c 400000 /dev/zero | tr '\\0' x")))
            assert box.destroy() == 204
        # The oldest of the tenant that has the most.
        assert [output(rest, box, ran) is not None for box, ran in boxes] == [False] * 2 + [True] * 2
        assert output(other, quiet, said) is not None
        on_disk = sum(entry.stat().st_size for entry in (daemon.state / "ended").iterdir())
        assert on_disk <= kept(rest) <= kept(rest, suffix="_max") == 1 << 20


def test_output_is_removed_with_its_record():
    with running(conftest.BUILD, ATOLL_ENDED_MAX="1") as daemon:
        rest = Rest(daemon.socket)
        for _ in range(3):
            box = Box(rest)
            box.run("echo x")
            assert box.destroy() == 204
        assert len(files(daemon, "ended")) == 3
        daemon.process.kill()
        daemon.process.wait()
        daemon.start()
        wait_until(lambda: records(rest) == 1, 30, lambda: f"there are {records(rest)}")
        assert [name[:len(box.id)] for name in files(daemon, "ended")] == [box.id]
        assert kept(rest) == 4096


def test_no_output_is_kept_if_the_operator_says_so():
    with running(conftest.BUILD, ATOLL_ENDED_OUTPUT_MAX="0") as daemon:
        rest = Rest(daemon.socket)
        box = Box(rest)
        ran = box.run("echo x")
        assert box.destroy() == 204
        assert output(rest, box, ran) is None and record(rest, box)
        assert files(daemon, "ended") == [] and kept(rest) == 0
