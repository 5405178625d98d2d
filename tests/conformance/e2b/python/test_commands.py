"""Commands and terminals."""

import pytest
from e2b import (AuthenticationException, CommandExitException, InvalidArgumentException,
                 NotFoundException, PtySize, Sandbox, SandboxException, TimeoutException)


def test_run(box):
    out, err = [], []
    done = box.commands.run('printf "ä\\n"; echo no >&2', on_stdout=out.append,
                            on_stderr=err.append)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "ä\n", "no\n")
    assert ("".join(out), "".join(err)) == ("ä\n", "no\n")
    with pytest.raises(CommandExitException) as failed:
        box.commands.run("echo partly; echo why >&2; exit 7")
    assert (failed.value.exit_code, failed.value.stdout, failed.value.stderr) == (7, "partly\n", "why\n")


def test_environment_directory_user(box):
    done = box.commands.run('echo "$K $(pwd) $(whoami)"', envs={"K": "v"}, cwd="/tmp", user="root")
    assert done.stdout == "v /tmp root\n"
    assert box.commands.run('echo "$K $(pwd) $(whoami)"').stdout == " /home/user user\n"
    with pytest.raises(InvalidArgumentException, match="cwd '/no/such' does not exist"):
        box.commands.run("true", cwd="/no/such")
    with pytest.raises(AuthenticationException, match="invalid username: 'stranger'"):
        box.commands.run("true", user="stranger")


def test_background_list_kill(box):
    sleeper = box.commands.run("sleep 60", background=True, envs={"K": "v"}, cwd="/tmp")
    listed = next(p for p in box.commands.list() if p.pid == sleeper.pid)
    assert (listed.cmd, listed.args[-1], listed.cwd, listed.envs["K"]) == (
        "/bin/bash", "sleep 60", "/tmp", "v")
    assert sleeper.kill() is True
    with pytest.raises(CommandExitException) as killed:
        sleeper.wait()
    assert killed.value.exit_code == -1
    assert box.commands.kill(sleeper.pid) is False
    with pytest.raises(CommandExitException):
        box.commands.run(f"kill -0 {sleeper.pid}")


def test_connect(box):
    first = box.commands.run("read x; echo got $x", background=True, stdin=True)
    second = box.commands.connect(first.pid)
    box.commands.send_stdin(first.pid, "word\n")
    assert second.wait().stdout == "got word\n"
    with pytest.raises(NotFoundException):
        box.commands.connect(999999)


def test_disconnect(box, until):
    handle = box.commands.run("sleep 0.3; echo x > /tmp/after", background=True)
    handle.disconnect()
    until(lambda: box.files.exists("/tmp/after"))


def test_standard_input(box):
    handle = box.commands.run("cat; echo end", background=True, stdin=True)
    handle.send_stdin("text\n")
    box.commands.send_stdin(handle.pid, b"\xc3\xa4\n")
    handle.close_stdin()
    assert handle.wait().stdout == "text\nä\nend\n"
    closed = box.commands.run("sleep 5", background=True)
    with pytest.raises(SandboxException):
        box.commands.send_stdin(closed.pid, "x")


def test_stream_input(box):
    handle = box.commands.run("wc -c", background=True, stdin=True)
    box.commands.stream_input(handle.pid, ("x" * 1000 for _ in range(50)))
    box.commands.close_stdin(handle.pid)
    assert handle.wait().stdout.strip() == "50000"


def test_iterating(box):
    handle = box.commands.run("echo 1; echo 2 >&2", background=True)
    seen = {"out": "", "err": ""}
    for out, err, _ in handle:
        seen["out"] += out or ""
        seen["err"] += err or ""
    assert seen == {"out": "1\n", "err": "2\n"}


def test_too_long(box, until):
    with pytest.raises(TimeoutException):
        box.commands.run("sleep 30", timeout=0.3)
    until(lambda: box.commands.list() == [])


def test_killed_sandbox():
    box = Sandbox.create()
    handle = box.commands.run("sleep 60", background=True)
    box.kill()
    with pytest.raises(TimeoutException):
        handle.wait()
    with pytest.raises((TimeoutException, NotFoundException)):
        box.commands.run("true")


def test_terminal(box):
    pty = box.pty.create(PtySize(rows=25, cols=81), cwd="/tmp", envs={"MARK": "m1"})
    box.pty.resize(pty.pid, PtySize(rows=30, cols=100))
    box.pty.send_stdin(pty.pid, b'stty size; echo "$MARK-$TERM-$PWD"; exit 0\n')
    seen = bytearray()
    assert pty.wait(on_pty=seen.extend).exit_code == 0
    assert b"30 100" in seen and b"m1-xterm-256color-/tmp" in seen


def test_terminal_connect_and_kill(box):
    pty = box.pty.create(PtySize(rows=24, cols=80))
    pty.disconnect()
    again = box.pty.connect(pty.pid)
    assert box.pty.kill(pty.pid) is True
    with pytest.raises(CommandExitException):
        again.wait()
    assert box.pty.kill(pty.pid) is False
