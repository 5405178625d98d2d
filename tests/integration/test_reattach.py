"""The connection between daemon and agent breaks, and neither of them dies.

An agent speaks with one daemon at a time: whoever says HELLO next takes the connection away from the
one before. So the tests do that, and the daemon has to come back.
"""
import os
import signal

import agent_wire
import pytest
from conftest import wait_until
from rest import Rest
from resting import agent_of


@pytest.fixture
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture
def made(rest):
    name = rest.post("/api/sandboxes", {}).json["id"]
    yield name
    rest.delete(f"/api/sandboxes/{name}")


def cut(daemon, name):
    """Ends the daemon's connection to that sandbox."""
    wire, sock = agent_wire.of_socket(daemon.state / "sandboxes" / f"{name}.sock")
    kind, _ = wire.ask(agent_wire.HELLO, agent_wire.hello())
    assert kind == agent_wire.REPLY
    sock.close()


def in_reach(rest, name):
    answer = rest.get(f"/api/sandboxes/{name}/files/stat", path="/")
    assert answer.status in (200, 503), answer.body
    return answer.status == 200


def start(rest, box, script, **fields):
    answer = rest.post(f"{box}/execs", {"cmd": ["bash", "-c", script], **fields})
    return f"{box}/execs/{answer.json['exec_id']}"


def output(rest, one):
    lines = rest.get(f"{one}/output", follow="true").lines
    return "".join(line["data"] for line in lines if line.get("stream") == "stdout")


def test_a_command_goes_on_where_it_was(daemon, rest, made):
    box = f"/api/sandboxes/{made}"
    count = 40000
    script = f"for i in $(seq {count}); do echo line $i; [ $((i % 4000)) = 0 ] && sleep 0.05; done"
    loud = start(rest, box, script)
    quiet = start(rest, box, "read line; echo got $line", stdin=True)
    for _ in range(3):
        cut(daemon, made)
        wait_until(lambda: in_reach(rest, made), 30, lambda: "not reached again")
    assert output(rest, loud) == "".join(f"line {i}\n" for i in range(1, count + 1))
    assert rest.get(loud).json["result"]["kind"] == "exited"
    assert rest.post(f"{quiet}/stdin", b"hello\n").status == 204
    assert output(rest, quiet) == "got hello\n"


def test_a_command_that_waits_for_room_gets_it(daemon, rest, made):
    """What the daemon acknowledged may be lost with the connection, but not for ever."""
    box = f"/api/sandboxes/{made}"
    loud = start(rest, box, "head -c 30000000 /dev/zero | tr '\\0' x")
    for _ in range(5):
        cut(daemon, made)
        wait_until(lambda: in_reach(rest, made), 30, lambda: "not reached again")
    wait_until(lambda: rest.get(loud).json.get("result"), 30, lambda: "it waits for ever")
    assert rest.get(loud).json["result"]["stdout_bytes"] == 30000000


def test_a_death_is_no_broken_connection(daemon, rest, made):
    box = f"/api/sandboxes/{made}"
    cut(daemon, made)
    os.kill(agent_of(made), signal.SIGKILL)
    wait_until(lambda: rest.get(box).json["state"] == "failed", 30, lambda: "still alive")
    assert rest.get(box).json["cause"]
