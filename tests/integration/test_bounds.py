"""What a tenant can make the daemon keep has an end: command lines, records of commands, their output."""

import os
import signal

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
