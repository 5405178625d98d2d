"""atoll-agent as a program of its own: how it listens, stays, detaches, and is reached by relay."""
import os
import signal
import socket
import stat
import struct
import subprocess
import threading
import time
from pathlib import Path

import agent_wire
import pytest


ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def program():
    return str(ROOT / os.environ.get("ATOLL_BUILD", "build") / "atoll-agent")


@pytest.fixture
def listening(program, tmp_path):
    """Starts agents that listen in the test's directory; ends them with all they run."""
    started = []

    def start(*options: str):
        path = tmp_path / "agent.sock"
        process = subprocess.Popen([program, "--listen", str(path), *options])
        started.append(process)
        wait_until(lambda: is_listening(path))
        return process, path

    yield start
    for process in started:
        process.kill()
        process.wait()


def is_listening(path):
    """Its name is there a moment before: SO_ACCEPTCON is what counts."""
    return any(line.endswith(f" {path}") and line.split()[3] == "00010000"
               for line in Path("/proc/net/unix").read_text().splitlines())


def wait_until(condition, seconds=20):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


def greet(wire, features=agent_wire.FDS):
    kind, answer = wire.ask(agent_wire.HELLO, agent_wire.hello(features))
    assert kind == agent_wire.REPLY
    return struct.unpack_from("<II", answer)[1]


def run(wire, number, command):
    kind, answer = wire.ask(agent_wire.EXEC_START, agent_wire.exec_start(number, command))
    assert kind == agent_wire.REPLY, answer


def output(wire) -> bytes:
    payload = wire.event(agent_wire.OUTPUT)
    (length,) = struct.unpack_from("<I", payload, 17)
    return payload[21 : 21 + length]


def test_it_stays_when_nobody_is_connected(listening):
    process, path = listening()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    wire, sock = agent_wire.of_socket(path)
    assert greet(wire) & agent_wire.FDS
    run(wire, 1, "sleep 0.2; echo later; sleep 60")
    sock.close()
    wire, sock = agent_wire.of_socket(path)
    greet(wire)
    kind, _ = wire.ask(agent_wire.EXEC_RESUME, struct.pack("<QQQ", 1, 0, 0))
    assert kind == agent_wire.REPLY
    assert output(wire) == b"later\n"
    sock.close()
    assert process.poll() is None


def test_the_mode_of_the_socket_and_no_descriptors(listening):
    _, path = listening("--socket-mode", "0666", "--no-fds")
    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    wire, sock = agent_wire.of_socket(path)
    assert not greet(wire) & agent_wire.FDS
    sock.close()


def test_a_second_agent_does_not_take_the_socket_away(listening, program):
    _, path = listening()
    second = subprocess.run(
        [program, "--listen", str(path)], capture_output=True, text=True, timeout=20
    )
    assert second.returncode == 1
    assert "listens at" in second.stderr
    wire, sock = agent_wire.of_socket(path)
    greet(wire)
    sock.close()


def test_orphans_are_reaped_where_it_is_not_the_first_process(listening):
    process, path = listening()
    wire, sock = agent_wire.of_socket(path)
    greet(wire)
    run(wire, 1, "(sleep 0.1 & echo $!) ; exit 0")
    orphan = int(output(wire))
    parent = f"PPid:\t{process.pid}\n"
    status = f"/proc/{orphan}/status"
    seen = []

    def reaped():
        try:
            with open(status) as file:
                seen.append(parent in file.read())
            return False
        except (FileNotFoundError, ProcessLookupError):
            return True

    wait_until(reaped)
    assert not seen or seen[-1], "it became the child of somebody else"
    sock.close()


def test_detach(program, tmp_path):
    path, pid_file = tmp_path / "made" / "agent.sock", tmp_path / "pid"
    done = subprocess.run(
        [program, "--listen", str(path), "--detach", "--pid-file", str(pid_file)],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=20,
    )  # returns: the agent holds no end of our pipes
    assert done.returncode == 0, done.stderr
    wait_until(lambda: pid_file.exists() and pid_file.read_text())
    pid = int(pid_file.read_text())
    try:
        wire, sock = agent_wire.of_socket(path)
        greet(wire)
        assert os.getsid(pid) == pid
        sock.close()
    finally:
        os.kill(pid, signal.SIGKILL)


def relay(program, path):
    return subprocess.Popen(
        [program, "--relay", str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )


def test_relay(listening, program):
    _, path = listening("--no-fds")
    process = relay(program, path)

    def write(data):
        process.stdin.write(data)

    wire = agent_wire.Wire(process.stdout.read, write)
    assert not greet(wire) & agent_wire.FDS
    run(wire, 1, "echo through")
    assert output(wire) == b"through\n"
    process.stdin.close()  # the end of the daemon's half is the end of its connection
    assert process.stdout.read() is not None
    assert process.wait(30) == 0


def test_relay_ends_when_another_daemon_takes_over(listening, program):
    _, path = listening()
    process = relay(program, path)
    wire = agent_wire.Wire(process.stdout.read, process.stdin.write)
    greet(wire)
    other, sock = agent_wire.of_socket(path)
    greet(other)
    assert process.wait(30) == 0  # though its input is still open
    sock.close()


def test_relay_ends_when_nobody_reads(listening, program):
    _, path = listening()
    process = relay(program, path)
    greet(agent_wire.Wire(process.stdout.read, process.stdin.write))
    process.stdout.close()
    assert process.wait(30) == 0


def test_relay_without_an_agent(program, tmp_path):
    done = subprocess.run(
        [program, "--relay", str(tmp_path / "nobody")], capture_output=True, timeout=20
    )
    assert done.returncode == 1
    assert b"nobody" in done.stderr


def test_a_tunnel_through_a_relay_keeps_half_closes(listening, program):
    _, path = listening()
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(20)
    heard = []

    def serve():
        conn, _ = server.accept()
        with conn:
            data = b""
            while more := conn.recv(65536):
                data += more
            heard.append(len(data))
            conn.sendall(b"you sent %d" % len(data))

    thread = threading.Thread(target=serve)
    thread.start()
    process = relay(program, path)
    wire = agent_wire.Wire(process.stdout.read, process.stdin.write)
    kind, _ = wire.ask(agent_wire.TUNNEL, agent_wire.tunnel(server.getsockname()[1]))
    assert kind == agent_wire.REPLY
    rest = memoryview(bytes(3_000_000))
    while rest:
        rest = rest[process.stdin.write(rest) :]
    process.stdin.close()
    answer = b""
    while more := process.stdout.read(65536):
        answer += more
    assert answer == b"you sent 3000000"
    assert process.wait(30) == 0
    thread.join()
    server.close()


def test_a_command_line_without_sense(program):
    for options in ([], ["--listen", "/x", "--stdio"], ["--stdio", "--detach"],
                    ["--listen", "/x", "--socket-mode", "9"], ["extra"]):
        done = subprocess.run([program, *options], capture_output=True, timeout=20)
        assert done.returncode == 1, options
    version = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20)
    assert version.returncode == 0
    assert "protocol 1" in version.stdout
