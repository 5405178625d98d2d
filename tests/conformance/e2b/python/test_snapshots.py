"""Snapshots and forks with E2B's client: files are kept; processes are not."""

import asyncio
import uuid

import pytest
from e2b import AsyncSandbox, Sandbox
from e2b.exceptions import InvalidArgumentException, SandboxException, SandboxNotFoundException


def every(paginator):
    found = []
    while paginator.has_next:
        found += [one.snapshot_id for one in paginator.next_items()]
    return found


@pytest.fixture
def name():
    return f"snap-{uuid.uuid4().hex[:8]}"


def test_create_list_use_delete(box, name):
    box.files.write("note.txt", "before")
    box.commands.run("sleep 300", background=True)
    made = box.create_snapshot(name)
    assert made.snapshot_id.startswith(f"{name}:")
    assert any(one.endswith(f"/{made.snapshot_id}") for one in made.names)
    box.files.write("note.txt", "after")
    assert len(box.commands.list()) == 1
    assert every(box.list_snapshots()) == every(Sandbox.list_snapshots(name=name)) == [made.snapshot_id]
    with Sandbox.create(made.snapshot_id) as copy:
        assert copy.files.read("note.txt") == "before" and copy.commands.list() == []
    assert Sandbox.delete_snapshot(made.snapshot_id) and not Sandbox.delete_snapshot(made.snapshot_id)
    assert every(box.list_snapshots()) == []
    with pytest.raises(SandboxException):
        Sandbox.create(made.snapshot_id)


def test_the_same_name_twice_is_one_snapshot(box, name):
    box.files.write("note.txt", "one")
    first = box.create_snapshot(name)
    box.files.write("note.txt", "two")
    assert box.create_snapshot(name, mode="filesystem").snapshot_id == first.snapshot_id
    assert every(Sandbox.list_snapshots(name=name)) == [first.snapshot_id]
    with Sandbox.create(name) as copy:
        assert copy.files.read("note.txt") == "two"
    assert Sandbox.delete_snapshot(first.snapshot_id)


def test_fork(box):
    box.files.write("note.txt", "base")
    forks = box.fork(count=2, timeout=60)
    try:
        assert len({box.sandbox_id, *(one.sandbox_id for one in forks)}) == 3
        for number, one in enumerate(forks):
            assert one.files.read("note.txt") == "base"
            one.files.write("note.txt", str(number))
        assert [one.files.read("note.txt") for one in forks] == ["0", "1"]
        assert box.files.read("note.txt") == "base"
    finally:
        for one in forks:
            one.kill()
    with pytest.raises(InvalidArgumentException):
        box.fork(count=21)


def test_of_a_sandbox_that_is_not_there():
    box = Sandbox.create()
    assert box.kill()
    with pytest.raises(SandboxNotFoundException):
        box.create_snapshot()
    with pytest.raises(SandboxNotFoundException):
        box.fork()


def test_async(name):
    async def body():
        box = await AsyncSandbox.create()
        try:
            await box.files.write("note.txt", "kept")
            made = await box.create_snapshot(name)
            [fork] = await box.fork()
            copy = await AsyncSandbox.create(made.snapshot_id)
            for one in (fork, copy):
                assert await one.files.read("note.txt") == "kept"
                await one.kill()
            assert await AsyncSandbox.delete_snapshot(made.snapshot_id)
        finally:
            await box.kill()
    asyncio.run(body())
