"""The toolbox, method by method, with the synchronous client and the asynchronous one."""

import asyncio
import io

import pytest
from daytona import (AsyncDaytona, CodeRunParams, DaytonaError, DaytonaNotFoundError, DaytonaTimeoutError,
                     FileDownloadRequest, FileUpload, SessionExecuteRequest)
from daytona.common.lsp_server import LspCompletionPosition
from daytona.common.pty import PtySize


@pytest.fixture(scope="module")
def sandbox(daytona):
    made = daytona.create()
    yield made
    made.delete()


def refused(status, call, *args, **kwargs):
    with pytest.raises(DaytonaError) as caught:
        call(*args, **kwargs)
    assert caught.value.status_code == status, caught.value
    return caught.value


def test_commands(sandbox):
    done = sandbox.process.exec("pwd; echo $A; exit 5", cwd="/tmp", env={"A": "x y"})
    assert (done.exit_code, done.result) == (5, "/tmp\nx y\n")
    assert refused(408, sandbox.process.exec, "sleep 60", timeout=1).code == "PROCESS_EXECUTION_TIMEOUT"
    assert refused(400, sandbox.process.exec, "").code == "INVALID_REQUEST_BODY"


def test_code(sandbox):
    done = sandbox.process.code_run("import os, sys; print(sys.argv[1:], os.environ['Z'])",
                                    params=CodeRunParams(argv=["a", "b c"], env={"Z": "z"}))
    assert (done.exit_code, done.result) == (0, "['a', 'b c'] z\n")


def test_a_session(sandbox):
    process = sandbox.process
    process.create_session("s")
    process.execute_session_command("s", SessionExecuteRequest(command="cd /tmp; export V=1"))
    done = process.execute_session_command("s", SessionExecuteRequest(command="pwd; echo $V; echo e >&2"))
    assert (done.exit_code, done.stdout, done.stderr) == (0, "/tmp\n1\n", "e\n")
    assert [c.exit_code for c in process.get_session("s").commands] == [0, 0]
    assert "s" in [session.session_id for session in process.list_sessions()]
    assert process.get_session_command("s", done.cmd_id).exit_code == 0
    logs = process.get_session_command_logs("s", done.cmd_id)
    assert (logs.stdout, logs.stderr) == ("/tmp\n1\n", "e\n")
    assert refused(409, process.create_session, "s")
    process.delete_session("s")
    assert refused(404, process.get_session, "s").code == "PROCESS_NOT_FOUND"


def test_logs_are_followed_and_a_command_takes_input(sandbox):
    process = sandbox.process
    process.create_session("follow")
    cid = process.execute_session_command(
        "follow", SessionExecuteRequest(command="echo one; read x; echo got $x; echo e >&2",
                                        run_async=True)).cmd_id
    seen = {"out": "", "err": ""}

    async def follow():
        def out(text):
            if not seen["out"]:
                process.send_session_command_input("follow", cid, "two")
            seen["out"] += text

        def err(text):
            seen["err"] += text

        await process.get_session_command_logs_async("follow", cid, out, err)

    asyncio.run(follow())
    assert seen == {"out": "one\ntwo\ngot two\n", "err": "e\n"}
    process.delete_session("follow")


def test_a_terminal(sandbox):
    pty = sandbox.process.create_pty_session("p", pty_size=PtySize(cols=90, rows=20), envs={"E": "e1"})
    pty.send_input("stty size; echo $E-$((1 + 1))\n")
    assert sandbox.process.resize_pty_session("p", PtySize(cols=100, rows=30)).cols == 100
    assert sandbox.process.get_pty_session_info("p").rows == 30
    assert [info.id for info in sandbox.process.list_pty_sessions()] == ["p"]
    pty.send_input("exit 3\n")
    text = []
    result = pty.wait(on_data=lambda data: text.append(data.decode(errors="replace")))
    assert result.exit_code == 3 and "e1-2" in "".join(text)
    pty.disconnect()
    killed = sandbox.process.create_pty_session("k")
    second = sandbox.process.connect_pty_session("k")
    sandbox.process.kill_pty_session("k")
    assert {killed.wait().exit_code, second.wait().exit_code} == {137}
    assert refused(404, sandbox.process.get_pty_session_info, "p").code == "PROCESS_NOT_FOUND"


def test_contexts(sandbox):
    interpreter = sandbox.code_interpreter
    context = interpreter.create_context()
    interpreter.run_code("x = 1", context=context)
    assert interpreter.run_code("print(x)", context=context).stdout == "1\n"
    assert interpreter.run_code("x").error.name == "NameError"
    assert context.id in [each.id for each in interpreter.list_contexts()]
    with pytest.raises(DaytonaTimeoutError):
        interpreter.run_code("import time; time.sleep(600)", timeout=1)
    interpreter.delete_context(context)


def test_files(sandbox):
    fs = sandbox.fs
    fs.create_folder("d/e", "750")
    fs.upload_file(b"hello\nworld\n", "d/f.txt")
    fs.upload_files([FileUpload(source=b"1", destination="d/e/1"),
                     FileUpload(source=bytes([0, 255, 13, 10]), destination="d/ž 2")])
    assert sorted(f.name for f in fs.list_files("d")) == ["e", "f.txt", "ž 2"]
    assert fs.get_file_info("d/e").mode == "drwxr-x---"
    assert fs.download_file("d/ž 2") == bytes([0, 255, 13, 10])
    one, none = fs.download_files([FileDownloadRequest(source="d/e/1"), FileDownloadRequest(source="no")])
    assert one.result == b"1" and "not found" in none.error
    with pytest.raises(DaytonaNotFoundError):
        fs.download_file("no")
    assert [(m.file, m.line, m.content) for m in fs.find_files("d", "wor")] == [("d/f.txt", 2, "world")]
    assert fs.search_files("d", "*.txt").files == ["d/f.txt"]
    assert fs.replace_in_files(["d/f.txt"], "world", "all")[0].success
    fs.set_file_permissions("d/f.txt", mode="600")
    fs.move_files("d/f.txt", "d/g")
    assert fs.download_file("d/g") == b"hello\nall\n"
    refused(400, fs.delete_file, "d")
    fs.delete_file("d", recursive=True)
    refused(404, fs.list_files, "d")


def test_streams_of_files(sandbox):
    data = b"abc" * (1 << 20)
    sandbox.fs.upload_file_stream(io.BytesIO(data), "stream")
    assert b"".join(sandbox.fs.download_file_stream("stream")) == data
    with pytest.raises(DaytonaNotFoundError):
        list(sandbox.fs.download_file_stream("no"))


def test_language_servers(sandbox):
    sandbox.fs.create_folder("lsp", "755")
    sandbox.fs.upload_file(b"class Greeter:\n    def greet(self):\n        return 1\n\nGreeter().gre", "lsp/a.py")
    refused(400, sandbox.create_lsp_server("python", "lsp").document_symbols, "lsp/a.py")
    server = sandbox.create_lsp_server("python", "lsp")
    server.start()
    server.start()  # it runs already
    server.did_open("lsp/a.py")
    assert "Greeter" in [symbol.name for symbol in server.document_symbols("lsp/a.py")]
    assert "greet" in [symbol.name for symbol in server.sandbox_symbols("GREET")]
    labels = [item.label for item in server.completions("lsp/a.py", LspCompletionPosition(4, 13)).items]
    assert any(label.startswith("greet") for label in labels), labels
    server.did_close("lsp/a.py")
    server.stop()
    refused(400, server.document_symbols, "lsp/a.py")
    none = sandbox.create_lsp_server("typescript", "lsp")
    assert "typescript-language-server" in str(refused(500, none.start))


def test_the_asynchronous_client():
    async def run():
        async with AsyncDaytona() as daytona:
            sandbox = await daytona.create()
            try:
                assert (await sandbox.process.exec("echo hi")).result == "hi\n"
                await sandbox.fs.upload_file(b"x", "f")
                assert await sandbox.fs.download_file("f") == b"x"
                await sandbox.process.create_session("s")
                done = await sandbox.process.execute_session_command(
                    "s", SessionExecuteRequest(command="echo in"))
                assert done.stdout == "in\n"
                assert (await sandbox.code_interpreter.run_code("print(2)")).stdout == "2\n"
            finally:
                await sandbox.delete()

    asyncio.run(run())
