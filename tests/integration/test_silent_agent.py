"""An agent that is stopped from outside: it lives, and does not answer.

Every request about its sandbox ends in time, answers about other sandboxes do not wait for it, and when
it goes on everything is where it was.
"""
import concurrent.futures
import contextlib
import os
import signal

import pytest
from conftest import BUILD, running, wait_until
from rest import Rest
from resting import agent_of

BOUND = 60  # seconds in which a request has to end; without a deadline it never does


@pytest.fixture
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture
def made(rest):
    name = rest.post("/api/sandboxes", {}).json["id"]
    yield name
    rest.delete(f"/api/sandboxes/{name}")


@pytest.fixture
def stopped(rest, made):
    """The sandbox's agent, stopped; it goes on when the test ends."""
    pid = agent_of(made)
    os.kill(pid, signal.SIGSTOP)
    yield pid
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def start(rest, box, script, **fields):
    answer = rest.post(f"{box}/execs", {"cmd": ["bash", "-c", script], **fields})
    assert answer.status in (200, 201), answer.body
    return f"{box}/execs/{answer.json['exec_id']}"


def output(rest, one):
    lines = rest.get(f"{one}/output", follow="true").lines
    return "".join(line["data"] for line in lines if line.get("stream") == "stdout")


def test_every_request_ends_in_time(rest, made, stopped):
    box = f"/api/sandboxes/{made}"
    asks = {
        "exec": lambda: rest.post(f"{box}/execs", {"cmd": ["true"]}),
        "stat": lambda: rest.get(f"{box}/files/stat", path="/"),
        "list": lambda: rest.get(f"{box}/files/list", path="/"),
        "read": lambda: rest.get(f"{box}/files", path="/etc/hostname"),
        "write": lambda: rest.put(f"{box}/files?path=/tmp/x", b"x"),
        "context": lambda: rest.post(f"{box}/contexts", {"language": "python"}),
    }
    # Not beside the others: what comes after a pause is refused for that.
    with concurrent.futures.ThreadPoolExecutor(len(asks)) as pool:
        under_way = {name: pool.submit(ask) for name, ask in asks.items()}
        answers = {name: one.result(BOUND) for name, one in under_way.items()}
    for name, answer in answers.items():
        assert answer.status in (503, 504), (name, answer.status, answer.body)
        assert "has not answered for" in answer.error["message"], (name, answer.body)
    assert any(answer.status == 504 for answer in answers.values())
    assert answers["exec"].error["code"] == "deadline_exceeded"
    # From now on that is known, and nothing waits.
    shown = rest.get(box).json
    assert shown["state"] == "unreachable", shown
    assert "the agent has not answered for" in shown["cause"]
    health = rest.get(f"{box}/health").json
    assert health["status"] == "failed"
    assert "the agent has not answered for" in health["cause"]
    refused = rest.get(f"{box}/files/stat", path="/")
    assert refused.status == 503 and "has not answered for" in refused.error["message"]
    assert "atoll_agents_silent 1" in rest.get("/metrics").body.decode()


def test_others_do_not_wait_for_it(rest, made, stopped):
    other = rest.post("/api/sandboxes", {}).json["id"]
    try:
        stats = {one["id"]: one for one in rest.get("/api/stats").json["sandboxes"]}
        assert "unanswered" not in stats[other] and stats[other]["disk"]["used_bytes"] is not None
        assert "answer" in stats[made]["unanswered"]
        assert stats[made]["disk"]["used_bytes"] is None
        assert stats[made]["memory"]["used_bytes"] > 0  # measured from outside
        health = {one["id"]: one for one in rest.get("/api/health").json["sandboxes"]}
        assert health[other]["status"] == "ok" and health[made]["status"] == "failed"
    finally:
        rest.delete(f"/api/sandboxes/{other}")


def test_everything_goes_on(rest, made):
    box = f"/api/sandboxes/{made}"
    counting = start(rest, box, "for i in $(seq 300); do echo $i; sleep 0.05; done")
    asking = start(rest, box, "read line; echo got $line", stdin=True)
    pid = agent_of(made)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert rest.post(f"{box}/execs", {"cmd": ["sleep", "1000"]}).status == 504
        wait_until(lambda: rest.get(box).json["state"] == "unreachable", 30, lambda: "not noticed")
        assert rest.get(counting).json.get("result") is None
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: rest.get(box).json["state"] == "running", 30, lambda: "not heard again")
    assert "cause" not in rest.get(box).json
    assert rest.post(f"{asking}/stdin", b"hello\n").status == 204
    assert output(rest, asking) == "got hello\n"
    assert output(rest, counting) == "".join(f"{i}\n" for i in range(1, 301))
    assert rest.get(counting).json["result"]["kind"] == "exited"
    # The command whose start had failed was started late, and ended.
    def sleeping():
        seen = rest.post(f"{box}/execs", {"cmd": ["pgrep", "-fx", "sleep 1000"]}, wait="true")
        return seen.json["result"]["exit_code"] == 0
    wait_until(lambda: not sleeping(), 30, lambda: "a command that nobody knows of runs on")


def test_it_can_be_destroyed(rest, made, stopped):
    assert rest.delete(f"/api/sandboxes/{made}").status == 204
    assert not os.path.exists(f"/proc/{stopped}")


def test_one_with_artifacts_can_be_destroyed(rest):
    name = rest.post("/api/sandboxes", {"artifacts": ["**"]}).json["id"]
    os.kill(agent_of(name), signal.SIGSTOP)
    assert rest.delete(f"/api/sandboxes/{name}").status == 204
    assert rest.get(f"/api/sandboxes/{name}").json["state"] == "ended"


def test_the_next_daemon_starts_without_it():
    """And takes its commands up when it goes on."""
    with running(BUILD) as daemon:
        rest = Rest(daemon.socket)
        made, other = (rest.post("/api/sandboxes", {}).json["id"] for _ in range(2))
        box = f"/api/sandboxes/{made}"
        counting = start(rest, box, "for i in $(seq 100); do echo $i; sleep 0.05; done")
        pid = agent_of(made)
        os.kill(pid, signal.SIGSTOP)
        daemon.process.kill()
        daemon.process.wait()
        daemon.start()
        assert rest.post(f"/api/sandboxes/{other}/execs", {"cmd": ["true"]}).status == 201
        wait_until(lambda: rest.get(box).json["state"] == "unreachable", 60, lambda: "not noticed")
        assert rest.get(counting).json.get("result") is None
        os.kill(pid, signal.SIGCONT)
        wait_until(lambda: rest.get(box).json["state"] == "running", 30, lambda: "not heard again")
        assert output(rest, counting) == "".join(f"{i}\n" for i in range(1, 101))
        assert rest.get(counting).json["result"]["kind"] == "exited"


def test_a_daemon_that_was_stopped_itself_blames_no_agent(daemon, rest, made):
    box = f"/api/sandboxes/{made}"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        slow = pool.submit(rest.post, f"{box}/execs", {"cmd": ["sleep", "3"]}, wait="true")
        wait_until(lambda: rest.get(f"{box}/execs").json["execs"], 30, lambda: "not started")
        os.kill(daemon.pid, signal.SIGSTOP)
        try:
            with pytest.raises(concurrent.futures.TimeoutError):
                slow.result(15)  # longer than an agent may be silent
        finally:
            os.kill(daemon.pid, signal.SIGCONT)
        assert slow.result(BOUND).json["result"]["exit_code"] == 0
    assert rest.get(box).json["state"] == "running"
