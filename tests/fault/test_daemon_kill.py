"""kill -9 of the daemon at random moments: commands go on, every byte is read exactly once."""
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time

import pytest

import conftest
import places
from test_full_disk import UnixConnection
from test_kill import agents_of, spawn_of, wait_for

ROUNDS = int(os.environ.get("ATOLL_KILL_ROUNDS", "20"))
LINES = 60


@pytest.fixture(scope="module")
def mortal():
    """A daemon of our own, to be killed."""
    with conftest.running(conftest.BUILD) as daemon:
        yield daemon


def kill_and_restart(daemon):
    daemon.process.kill()
    daemon.process.wait()
    daemon.start()


def detach(daemon, sandbox, *command):
    return daemon.atoll("exec", "--detach", sandbox, "--", *command, check=True).stdout.strip()


def test_every_line_exactly_once(mortal):
    sandbox = mortal.create()
    random.seed(7)
    for number in range(ROUNDS):
        script = (f"for i in $(seq {LINES}); do echo line-$i; echo err-$i >&2; sleep 0.01; done; "
                  f"exit {number % 100 + 1}")
        exec_id = detach(mortal, sandbox, "sh", "-c", script)
        for _ in range(random.randint(1, 3)):
            time.sleep(random.random() * 0.3)
            kill_and_restart(mortal)
        logs = mortal.atoll("logs", "--follow", sandbox, exec_id, timeout=60)
        assert logs.stdout == "".join(f"line-{i}\n" for i in range(1, LINES + 1))
        assert logs.stderr == "".join(f"err-{i}\n" for i in range(1, LINES + 1))
        assert logs.returncode == number % 100 + 1
    mortal.atoll("rm", sandbox, check=True)


def test_terminals_go_on(mortal):
    """The same through a PTY: one stream, with the terminal's own line ends."""
    sandbox = mortal.create()
    for _ in range(max(2, ROUNDS // 10)):
        status, body = post(mortal, f"/api/sandboxes/{sandbox}/execs", {
            "cmd": ["sh", "-c", "for i in $(seq 50); do echo tty-$i; sleep 0.01; done; tty -s; exit 9"],
            "pty": {"cols": 80, "rows": 24}})
        assert status == 201
        time.sleep(random.random() * 0.4)
        kill_and_restart(mortal)
        logs = mortal.atoll("logs", "--follow", sandbox, json.loads(body)["exec_id"], timeout=60)
        assert logs.stdout.replace("\r\n", "\n") == "".join(f"tty-{i}\n" for i in range(1, 51))
        assert logs.returncode == 9
    mortal.atoll("rm", sandbox, check=True)


def test_an_acknowledged_upload_is_whole(mortal, tmp_path):
    """A file is the old one or the new one, and the new one if the client was told so."""
    sandbox = mortal.create()
    acknowledged = 0
    for number in range(max(6, ROUNDS // 3)):
        content = bytes([65 + number % 26]) * (3 << 20)
        (tmp_path / "up").write_bytes(content)
        copy = subprocess.Popen([mortal.build / "atoll", "cp", tmp_path / "up", f"{sandbox}:file"],
                                env=mortal.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(random.random() * 0.03)
        kill_and_restart(mortal)
        told = copy.wait(timeout=30) == 0
        acknowledged += told
        mortal.atoll("cp", f"{sandbox}:file", tmp_path / "down")
        if not told and not (tmp_path / "down").exists():
            continue
        down = (tmp_path / "down").read_bytes()
        assert len(set(down)) == 1 and len(down) == 3 << 20, "torn file"
        assert down == content or not told
    # Nothing half-made is left beside it.
    left = mortal.atoll("exec", sandbox, "--", "ls", "-A", "/home/user", check=True).stdout.split()
    assert set(left) <= {"file"}
    mortal.atoll("rm", sandbox, check=True)


def post(daemon, path, body):
    connection = UnixConnection(str(daemon.socket))
    connection.request("POST", path, json.dumps(body))
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_a_reader_goes_on(mortal):
    """The CLI that was following takes the output up again by itself."""
    sandbox = mortal.create()
    script = "for i in $(seq 100); do echo $i; sleep 0.01; done; exit 3"
    reader = subprocess.Popen(
        [mortal.build / "atoll", "exec", sandbox, "--", "sh", "-c", script],
        env=mortal.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out = reader.stdout.readline()
    kill_and_restart(mortal)
    out += reader.stdout.read()
    assert out == "".join(f"{i}\n" for i in range(1, 101)), reader.stderr.read()
    assert reader.wait(30) == 3
    reader.stdout.close()
    reader.stderr.close()
    mortal.atoll("rm", sandbox, check=True)


def test_more_output_than_the_window(mortal):
    """While nobody is there the command waits instead of losing a byte."""
    sandbox = mortal.create()
    exec_id = detach(mortal, sandbox, "sh", "-c", "sleep 0.2; seq 400000; exit 5")
    mortal.process.kill()
    mortal.process.wait()
    time.sleep(0.6)
    mortal.start()
    logs = mortal.atoll("logs", "--follow", sandbox, exec_id, timeout=60)
    assert logs.returncode == 5
    assert logs.stdout == "".join(f"{i}\n" for i in range(1, 400001))
    mortal.atoll("rm", sandbox, check=True)


def test_ended_while_nobody_was_there(mortal):
    sandbox = mortal.create()
    script = f"sleep 0.3; echo bye; kill -TERM $$ # {sandbox}"
    exec_id = detach(mortal, sandbox, "sh", "-c", script)
    began = time.monotonic()
    mortal.process.kill()
    mortal.process.wait()
    conftest.wait_until(lambda: not places.processes_with(sandbox.encode()), 30,
                        lambda: "it does not end")
    time.sleep(1)
    away_ms = 1000 * (time.monotonic() - began)
    mortal.start()
    records = mortal.atoll("logs", "--json", "--follow", sandbox, exec_id).stdout.splitlines()
    assert json.loads(records[0])["data"] == "bye\n"
    result = json.loads(records[-1])["result"]
    assert (result["kind"], result["signal"]) == ("signaled", "SIGTERM")
    assert result["duration_ms"] < away_ms - 500  # when it ended, not when somebody came to look
    # Records of before are there after the next death, too.
    kill_and_restart(mortal)
    again = mortal.atoll("logs", "--json", sandbox, exec_id).stdout.splitlines()
    assert again == records
    mortal.atoll("rm", sandbox, check=True)


def test_state_survives(mortal):
    sandbox = mortal.create("--env", "TOKEN=secret-canary", "--timeout", "600", "--memory", "100M")
    mortal.atoll("exec", sandbox, "--", "sh", "-c", "echo kept > ~/file", check=True)
    before = next(s for s in mortal.json("ls")["sandboxes"] if s["id"] == sandbox)
    kill_and_restart(mortal)
    after = next(s for s in mortal.json("ls")["sandboxes"] if s["id"] == sandbox)
    assert after == before
    done = mortal.atoll("exec", sandbox, "--", "sh", "-c", "cat ~/file; echo $TOKEN | rev",
                        check=True)
    assert done.stdout == "kept\nyranac-terces\n"
    # The secret is with the sandbox, not on the host's disk.
    found = subprocess.run(["grep", "-rl", "secret-canary", str(mortal.state)], capture_output=True)
    assert found.stdout == b""
    mortal.atoll("rm", sandbox, check=True)


def test_a_sandbox_that_died_meanwhile(mortal):
    if os.geteuid() != 0:
        pytest.skip("kills the sandbox from outside")
    sandbox = mortal.create()
    exec_id = detach(mortal, sandbox, "sleep", "100")
    pid = mortal.atoll("exec", sandbox, "--", "true", check=True) and agent_of(mortal, sandbox)
    mortal.process.kill()
    mortal.process.wait()
    os.kill(pid, 9)
    conftest.wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 30, lambda: "it is not reaped")
    mortal.start()
    result = json.loads(mortal.atoll("logs", "--json", sandbox, exec_id).stdout)["result"]
    assert result["kind"] == "lost"
    assert "while no daemon was running" in result["reason"]
    mortal.atoll("rm", sandbox, check=True)
    assert not list((mortal.state / "sandboxes").glob(f"{sandbox}*"))


def agent_of(daemon, sandbox):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as comm, open(f"/proc/{pid}/root/etc/hostname") as name:
                if comm.read() == "atoll-agent\n" and name.read().strip() == sandbox:
                    return int(pid)
        except OSError:
            pass
    raise AssertionError(f"no agent of {sandbox}")


def test_an_agent_that_is_stuck_holds_nobody_up():
    """It does not even accept connections any more: others have a daemon all the same."""
    with conftest.running(conftest.BUILD) as daemon:
        stuck = daemon.create()
        agent, = agents_of(spawn_of(daemon))
        other = daemon.create()
        os.kill(agent, signal.SIGSTOP)
        try:
            queue = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
                     for _ in range(32)]
            with pytest.raises(BlockingIOError):
                for one in queue:
                    one.connect(str(daemon.state / "sandboxes" / f"{stuck}.sock"))
            kill_and_restart(daemon)
            assert daemon.atoll("exec", other, "--", "echo", "here").stdout == "here\n"
        finally:
            os.kill(agent, signal.SIGCONT)
        for one in queue:
            one.close()
        wait_for(lambda: daemon.atoll("exec", stuck, "--", "echo", "again").stdout == "again\n")


def test_what_sandboxes_stand_on_outlives_an_upgrade(tmp_path):
    """The next daemon makes the host template anew, because its programs are others; those who run keep
    the old one until there is nobody left on it."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for path in conftest.BUILD.glob("atoll*"):
        if path.is_file():
            shutil.copy2(path, programs)
    script = "wc -l < /etc/nsswitch.conf; ls /etc/shells /var/tmp/. /usr/bin/sudo; sudo id -u"
    with conftest.running(programs) as daemon:
        sandbox = daemon.create()
        os.utime(programs / "atoll-sudo", (1, 1))
        kill_and_restart(daemon)
        done = daemon.atoll("exec", sandbox, "--", "sh", "-c", script)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith("\n0\n")
        assert daemon.atoll("run", "--", "sh", "-c", script).stdout == done.stdout
        assert list(daemon.state.glob("template.old-*"))
        assert daemon.stop() == []
        daemon.start()
        assert not list(daemon.state.glob("template.old-*"))
