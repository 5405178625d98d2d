"""The asynchronous flavour: what differs on the wire or in its machinery."""

import asyncio

import pytest
from e2b import AsyncSandbox, CommandExitException, FilesystemEventType, TimeoutException
from e2b_code_interpreter import AsyncSandbox as AsyncInterpreter


def alive(body, Class=AsyncSandbox, **options):
    """Runs body(sandbox) with a sandbox of its own."""
    async def whole():
        box = await Class.create(**options)
        try:
            await body(box)
        finally:
            await box.kill()
    asyncio.run(whole())


def test_commands():
    async def body(box):
        out = []
        done = await box.commands.run("echo 1; echo 2 >&2", on_stdout=out.append)
        assert (done.stdout, done.stderr, out) == ("1\n", "2\n", ["1\n"])
        with pytest.raises(CommandExitException):
            await box.commands.run("exit 3")
        with pytest.raises(TimeoutException):
            await box.commands.run("sleep 30", timeout=0.3)
        handle = await box.commands.run("cat", background=True, stdin=True)
        await box.commands.send_stdin(handle.pid, "x\n")
        await box.commands.close_stdin(handle.pid)
        assert (await handle.wait()).stdout == "x\n"
    alive(body)


def test_files_and_watch():
    async def body(box):
        events = []
        await box.files.make_dir("w")
        handle = await box.files.watch_dir("w", on_event=events.append)
        await box.files.write("w/f", "content")
        assert await box.files.read("w/f") == "content"
        for _ in range(1000):
            if len(events) >= 3:
                break
            await asyncio.sleep(0.03)
        assert [e.type for e in events] == [FilesystemEventType.CREATE, FilesystemEventType.CHMOD,
                                            FilesystemEventType.WRITE]
        await handle.stop()
        assert [e.name for e in await box.files.list("w")] == ["f"]
    alive(body)


def test_many_at_once():
    async def body(box):
        done = await asyncio.gather(*(box.commands.run(f"echo {n}") for n in range(20)))
        assert [d.stdout for d in done] == [f"{n}\n" for n in range(20)]
    alive(body)


def test_pause_list_connect():
    async def body(box):
        await box.pause()
        again = await AsyncSandbox.connect(box.sandbox_id)
        assert await again.is_running()
        found = await AsyncSandbox.list().next_items()
        assert box.sandbox_id in [s.sandbox_id for s in found]
    alive(body)


def test_code():
    async def body(box):
        assert (await box.run_code("x = 1\nx + 1")).text == "2"
        context = await box.create_code_context(language="javascript")
        assert (await box.run_code("1 + 1", context=context)).text == "2"
        await box.remove_code_context(context)
    alive(body, AsyncInterpreter)
