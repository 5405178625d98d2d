"""The life of sandboxes: create with every option, connect, list, timeouts, pause, kill."""

import uuid
from datetime import datetime, timedelta, timezone

import pytest
from e2b import (AuthenticationException, Sandbox, SandboxException, SandboxNotFoundException,
                 SandboxQuery, SandboxState, Template)

NOBODY = "i0000000000000000000"


def seconds_left(info):
    return (info.end_at - datetime.now(timezone.utc)).total_seconds()


def test_create_with_all_options():
    metadata = {"owner": "a b=c&d", "run": str(uuid.uuid4())}
    box = Sandbox.create("base", timeout=120, metadata=metadata, envs={"COLOR": "blue"},
                         allow_internet_access=False,
                         network={"allow_public_traffic": False},
                         lifecycle={"on_timeout": "pause", "auto_resume": True},
                         headers={"X-Trace": "abc"}, request_timeout=30)
    try:
        info = box.get_info()
        assert (info.sandbox_id, info.name, info.metadata) == (box.sandbox_id, "base", metadata)
        assert info.state == SandboxState.RUNNING
        assert 60 < seconds_left(info) <= 120
        assert box.traffic_access_token
        done = box.commands.run('echo "$COLOR $E2B_SANDBOX_ID"')
        assert done.stdout == f"blue {box.sandbox_id}\n"
    finally:
        assert box.kill() is True


def test_idempotency_key():
    key = str(uuid.uuid4())
    first = Sandbox.create(idempotency_key=key)
    try:
        assert Sandbox.create(idempotency_key=key).sandbox_id == first.sandbox_id
    finally:
        first.kill()


def test_connect(box):
    box.files.write("here.txt", "yes")
    end = box.get_info().end_at
    again = Sandbox.connect(box.sandbox_id, timeout=10)
    assert again.files.read("here.txt") == "yes"
    assert again.get_info().end_at == end, "connect never shortens"
    box.connect(timeout=900)
    assert seconds_left(box.get_info()) > 800


def test_list():
    run = str(uuid.uuid4())
    boxes = [Sandbox.create(metadata={"run": run, "n": n}) for n in "123"]
    try:
        pages = Sandbox.list(query=SandboxQuery(metadata={"run": run}), limit=2)
        assert [s.metadata["n"] for s in pages.next_items()] == ["3", "2"]
        assert pages.has_next
        assert [s.metadata["n"] for s in pages.next_items()] == ["1"]
        assert not pages.has_next
        boxes[0].pause()
        paused = SandboxQuery(metadata={"run": run}, state=[SandboxState.PAUSED])
        assert [s.metadata["n"] for s in Sandbox.list(query=paused).next_items()] == ["1"]
        later = SandboxQuery(started_after=datetime.now(timezone.utc) + timedelta(minutes=1))
        assert Sandbox.list(query=later).next_items() == []
    finally:
        for box in boxes:
            box.kill()


def test_kill():
    box = Sandbox.create()
    assert box.is_running() is True
    assert Sandbox.kill(box.sandbox_id) is True
    assert box.kill() is False
    assert box.is_running() is False
    for call in (box.get_info, lambda: box.set_timeout(5), box.pause,
                 lambda: Sandbox.connect(box.sandbox_id)):
        with pytest.raises(SandboxNotFoundException):
            call()


def test_with_statement():
    with Sandbox.create() as box:
        assert box.is_running()
    assert not box.is_running()


def test_timeout(box, until):
    box.set_timeout(60)
    assert 0 < seconds_left(box.get_info()) <= 60
    Sandbox.set_timeout(box.sandbox_id, 900)
    assert 800 < seconds_left(box.get_info()) <= 900
    box.set_timeout(0)
    until(lambda: not box.is_running())


def test_pause_and_resume(box, until):
    process = box.commands.run("i=0; while true; do echo $((i+=1)) > /tmp/n; sleep 0.05; done",
                               background=True, timeout=0)
    until(lambda: box.files.exists("/tmp/n"))
    assert box.pause() is True
    assert box.pause() is False
    assert box.get_info().state == SandboxState.PAUSED
    box.connect()
    then = int(box.files.read("/tmp/n"))
    until(lambda: int(box.files.read("/tmp/n") or 0) > then)
    assert process.pid in [p.pid for p in box.commands.list()]


def test_boot_id_changes_without_memory(box):
    before = box.files.read("/proc/sys/kernel/random/boot_id")
    assert uuid.UUID(before.strip())
    box.files.write("kept", "x")
    box.pause(keep_memory=False)
    box.connect()
    assert box.files.read("kept") == "x"
    assert box.files.read("/proc/sys/kernel/random/boot_id") != before


def test_metrics(box, until):
    first = until(box.get_metrics)[0]
    assert first.cpu_count >= 1 and first.mem_total > first.mem_used > 0
    assert first.disk_total > first.disk_used >= 0
    long_ago = datetime.now(timezone.utc) - timedelta(hours=2)
    assert box.get_metrics(start=long_ago, end=long_ago + timedelta(minutes=1)) == []


def test_network(box):
    box.update_network({"allow_out": ["8.8.8.8"], "deny_out": ["0.0.0.0/0"]})
    network = box.get_info().network
    assert network["allow_out"] == ["8.8.8.8"] and network["deny_out"] == ["0.0.0.0/0"]


def test_wrong_key():
    with pytest.raises(AuthenticationException):
        Sandbox.create(api_key="e2b_" + "0" * 80)


def test_unknown_template():
    with pytest.raises(SandboxException, match="template 'no-such-template' not found"):
        Sandbox.create("no-such-template")
    assert Template.exists("base") is True
    assert Template.exists("no-such-template") is False
