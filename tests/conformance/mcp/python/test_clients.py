"""The official client for Python, over HTTP and over standard input and output."""

import asyncio
import contextlib
import os

import httpx2
import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

URL, KEY, CLI = (os.environ[name] for name in ("ATOLL_URL", "ATOLL_API_KEY", "ATOLL_TEST_CLI"))


@contextlib.asynccontextmanager
async def connected(kind):
    if kind == "stdio":
        parameters = StdioServerParameters(command=CLI, args=["mcp"], env=dict(os.environ))
        async with Client(stdio_client(parameters)) as client:
            yield client
        return
    async with (httpx2.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}, timeout=60) as http,
                Client(streamable_http_client(f"{URL}/mcp", http_client=http)) as client):
        yield client


async def text_of(client, tool, **arguments):
    return (await client.call_tool(tool, arguments)).content[0].text


@pytest.mark.parametrize("kind", ["http", "stdio"])
def test_tools_and_resources(kind):
    async def tour():
        async with connected(kind) as client:
            assert client.protocol_version == "2026-07-28"
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            # From now on the client checks results against it.
            assert {"run_command", "run_code", "sandbox_list", "read_file", "task_run"} <= {
                name for name in tools if tools[name].output_schema}
            failed = await client.call_tool("run_command", {"command": "echo out; exit 3"})
            assert failed.is_error and failed.structured_content["exit_code"] == 3
            assert "42" in await text_of(client, "run_code", code="6 * 7")
            await client.call_tool("upload_file", {"path": "bytes", "content": "AP8="})
            got = await client.call_tool("download_file", {"path": "bytes"})
            assert (got.structured_content["encoding"], got.structured_content["content"]) == ("base64", "AP8=")
            await client.call_tool("run_command", {"command": "git init -qb main repo"})
            assert (await client.call_tool("git_status", {"path": "repo"})).structured_content["branch"] == "main"
            await client.call_tool("write_file", {"path": "/home/user/file", "content": "text"})
            for tool, arguments in (("read_file", {"path": "file"}), ("list_files", {"path": "."}), ("sandbox_list", {}),
                                    ("task_run", {"instruction": "echo done"})):
                assert not (await client.call_tool(tool, arguments)).is_error
            box = (await client.call_tool("sandbox_info", {})).structured_content
            read = await client.read_resource(f"atoll://{box['id']}/home/user/file")
            assert read.contents[0].text == "text"
    asyncio.run(tour())


@pytest.mark.parametrize("kind", ["http", "stdio"])
def test_subscriptions(kind):
    async def tour():
        async with connected(kind) as client:
            box = (await client.call_tool("sandbox_info", {})).structured_content
            uri = f"atoll://{box['id']}/home/user/seen"
            async with client.listen(resource_subscriptions=[uri]) as events:
                await client.call_tool("write_file", {"path": "seen", "content": "x"})
                async for event in events:
                    assert event.uri == uri
                    return
    asyncio.run(tour())


@pytest.mark.parametrize("kind", ["http", "stdio"])
def test_a_cancelled_call_ends_its_command(kind):
    async def tour():
        async with connected(kind) as client:
            noted = asyncio.Event()

            async def progress(*_):
                noted.set()
            running = asyncio.create_task(client.call_tool(
                "run_command", {"command": "exec -a lasting sleep 600"}, progress_callback=progress))
            await noted.wait()
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            while await text_of(client, "run_command", command="pgrep -f '^lastin[g]' | wc -l") != "0\n":
                pass
    asyncio.run(tour())


@pytest.mark.parametrize("kind", ["http", "stdio"])
def test_tools_and_prompts_of_the_registry(kind):
    async def tour():
        async with connected(kind) as client:
            assert "word-count" in [tool.name for tool in (await client.list_tools()).tools]
            counted = await client.call_tool("word-count", {"paths": ["/etc/passwd"]})
            assert not counted.is_error and "/etc/passwd" in counted.structured_content["stdout"]
            listed = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
            assert [argument.name for argument in listed["review"].arguments if argument.required] == ["path"]
            got = await client.get_prompt("review", {"path": "/work"})
            assert got.messages[0].role == "user" and "the repository /work in" in got.messages[0].content.text
    asyncio.run(tour())
