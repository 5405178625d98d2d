"""Tools for agents, by REST and by MCP: one implementation with two vocabularies."""

import base64
import concurrent.futures
import hashlib
import json
import subprocess

import pytest
from conftest import BUILD, running
from daemons import wait_until
from mcp_client import Mcp
from rest import Rest


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture(scope="module")
def box(rest):
    made = rest.post("/api/sandboxes", {})
    assert made.status == 201, made.body
    yield made.json["id"]
    rest.delete(f"/api/sandboxes/{made.json['id']}")


def use(rest, box, tool, /, query="", **arguments):
    return rest.post(f"/api/sandboxes/{box}/tools/{tool}{query}", arguments)


# The vocabulary of coding agents.

def test_schemas_in_three_forms(rest):
    forms = {name: rest.get(f"/api/tools?format={name}").json["tools"] for name in ("anthropic", "openai", "mcp")}
    assert forms["anthropic"] == rest.get("/api/tools").json["tools"]
    names = [tool["name"] for tool in forms["anthropic"]]
    assert {"Bash", "BashOutput", "KillShell", "Read", "Write", "Edit", "MultiEdit", "Glob", "Grep", "LS", "NotebookEdit",
            "WebFetch"} < set(names)
    assert names == [tool["function"]["name"] for tool in forms["openai"]] == [tool["name"] for tool in forms["mcp"]]
    bash = next(tool for tool in forms["anthropic"] if tool["name"] == "Bash")["input_schema"]
    assert bash["required"] == ["command"] and bash["additionalProperties"] is False
    assert rest.get("/api/tools?format=yaml").status == 400


def test_bash(rest, box):
    ran = use(rest, box, "Bash", command="echo out; echo err >&2; exit 3", env={"A": "1"})
    assert ran.status == 200 and ran.json["is_error"], ran.body
    assert ran.json["text"] == "out\nerr\nexit code 3\n"
    assert (ran.json["data"]["stdout"], ran.json["data"]["stderr"], ran.json["data"]["exit_code"]) == ("out\n", "err\n", 3)
    assert use(rest, box, "Bash", command='printf "%s" "$A"', env={"A": "a b"}).json["text"] == "a b\n"
    slow = use(rest, box, "Bash", command="sleep 60", timeout=200).json
    assert slow["is_error"] and "longer than its timeout" in slow["text"]
    many = use(rest, box, "Bash", command="seq 100000").json
    assert "bytes are left out" in many["text"] and many["text"].endswith("100000\n") and len(many["text"]) < 40000
    bytes_ = use(rest, box, "Bash", command=r"printf 'a\377\0b'").json
    assert bytes_["text"] == "a\ufffd\ufffdb\n"


NOTEBOOK = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"x": 1}, "cells": [
    {"cell_type": "code", "id": "one", "metadata": {}, "execution_count": 3, "source": ["a = 1\n", "a"],
     "outputs": [{"output_type": "stream", "text": ["1"]}]},
    {"cell_type": "markdown", "id": "two", "metadata": {}, "source": ["# T"]}]}


def test_notebooks(rest, box):
    def edit(**arguments):
        return use(rest, box, "NotebookEdit", notebook_path="n.ipynb", **arguments)

    def cells():
        answer = rest.get(f"/api/sandboxes/{box}/files", path="n.ipynb")
        kept = json.loads(answer.body)
        assert (kept["nbformat_minor"], kept["metadata"]) == (5, {"x": 1})
        return kept["cells"]

    use(rest, box, "Write", file_path="n.ipynb", content=json.dumps(NOTEBOOK))
    assert edit(cell_id="one", new_source="b = 2\nb").json["text"] == "Replaced cell one."
    assert cells()[0] == {"cell_type": "code", "id": "one", "metadata": {}, "execution_count": None, "outputs": [],
                          "source": ["b = 2\n", "b"]}
    assert edit(cell_id="cell-1", new_source="# U").status == 200
    assert cells()[1] == {"cell_type": "markdown", "id": "two", "metadata": {}, "source": ["# U"]}
    assert edit(cell_id="one", new_source="c", cell_type="code", edit_mode="insert").status == 200
    assert [cell["source"] for cell in cells()] == [["b = 2\n", "b"], ["c"], ["# U"]] and cells()[1]["id"]
    assert edit(new_source="# first", cell_type="markdown", edit_mode="insert").status == 200
    assert cells()[0]["source"] == ["# first"] and "outputs" not in cells()[0]
    assert edit(cell_id="two", new_source="", edit_mode="delete").status == 200
    assert len(cells()) == 3
    before = cells()
    for bad, status in [({"cell_id": "two", "new_source": ""}, 404), ({"new_source": "x"}, 400),
                        ({"cell_id": "one", "new_source": "x", "edit_mode": "move"}, 400),
                        ({"cell_id": "one", "new_source": "x", "cell_type": "raw"}, 400),
                        ({"new_source": "x", "edit_mode": "insert"}, 400)]:
        assert edit(**bad).status == status, bad
    assert cells() == before
    for text in ("", "[]", "{}", "no json", '{"cells": [1]}'):
        use(rest, box, "Write", file_path="bad.ipynb", content=text)
        refused = use(rest, box, "NotebookEdit", notebook_path="bad.ipynb", cell_id="cell-0", new_source="x")
        assert refused.status in (400, 404), text


def test_web_fetch(rest, box):
    page = "<html><head><title>T</title><script>var no=1</script></head><body><p>Hello &amp; <b>you</b></p><!-- no --></body></html>"
    use(rest, box, "Write", file_path="www/index.html", content=page)
    use(rest, box, "Write", file_path="www/plain.txt", content="a <b> & c")
    served = use(rest, box, "Bash", command="cd www && exec python3 -m http.server 8123", run_in_background=True).json
    wait_until(lambda: use(rest, box, "Bash", command="true < /dev/tcp/127.0.0.1/8123").json["data"]["exit_code"] == 0, 20,
               lambda: "no server")
    fetched = use(rest, box, "WebFetch", url="http://127.0.0.1:8123/", prompt="what is it?")
    assert fetched.status == 200 and not fetched.json["is_error"], fetched.body
    assert "Hello & you" in fetched.json["text"] and "no" not in fetched.json["text"] and fetched.json["data"]["status"] == 200
    assert use(rest, box, "WebFetch", url="http://127.0.0.1:8123/plain.txt").json["text"] == "a <b> & c"
    gone = use(rest, box, "WebFetch", url="http://127.0.0.1:8123/nothing").json
    assert gone["is_error"] and "404" in gone["text"]
    # The network of the sandbox is the only way out: this one has none.
    assert use(rest, box, "WebFetch", url="http://192.0.2.1/").json["is_error"]
    for url in ("file:///etc/passwd", "ftp://x", "http://x y", "-o/tmp/x"):
        assert use(rest, box, "WebFetch", url=url).status == 400, url
    use(rest, box, "KillShell", shell_id=served["data"]["command_id"])


def test_background(rest, box):
    started = use(rest, box, "Bash", command="echo first; sleep 600", run_in_background=True).json
    command = started["data"]["command_id"]
    wait_until(lambda: "first" in use(rest, box, "BashOutput", bash_id=command).json["text"], 10, lambda: "no output")
    assert use(rest, box, "BashOutput", bash_id=command).json["data"]["state"] == "running"
    assert use(rest, box, "KillShell", shell_id=command).status == 200
    wait_until(lambda: use(rest, box, "BashOutput", bash_id=command).json["data"]["state"] == "killed_by", 10,
               lambda: use(rest, box, "BashOutput", bash_id=command).body)
    assert use(rest, box, "BashOutput", bash_id="0" * 16).status == 404


def test_files(rest, box):
    path = "/home/user/t/file.txt"
    assert use(rest, box, "Write", file_path=path, content="one\ntwo\ntwo\n").status == 200
    assert use(rest, box, "Read", file_path=path).json["text"] == "     1\tone\n     2\ttwo\n     3\ttwo\n"
    assert use(rest, box, "Read", file_path=path, offset=2, limit=1).json["text"] == "     2\ttwo\n"
    assert use(rest, box, "Bash", command=f"chmod 750 {path}").status == 200
    twice = use(rest, box, "Edit", file_path=path, old_string="two", new_string="2")
    assert twice.status == 409 and "2 times" in twice.error["message"], twice.body
    assert use(rest, box, "Edit", file_path=path, old_string="two", new_string="2", replace_all=True).json["data"] == {"replaced": 2}
    missing = use(rest, box, "Edit", file_path=path, old_string="nine", new_string="9")
    assert missing.status == 409 and "not in the file" in missing.error["message"]
    both = use(rest, box, "MultiEdit", file_path=path, edits=[
        {"old_string": "one", "new_string": "1"}, {"old_string": "none", "new_string": ""}])
    assert both.status == 409 and "edit 2" in both.error["message"]
    assert use(rest, box, "MultiEdit", file_path=path, edits=[
        {"old_string": "one", "new_string": "1"}, {"old_string": "1\n2", "new_string": "12"}]).status == 200
    assert use(rest, box, "Bash", command=f"stat -c %a {path}; cat {path}").json["text"] == "750\n12\n2\n"
    assert use(rest, box, "Read", file_path="/home/user/none").status == 404


def test_finding(rest, box):
    script = "mkdir -p f/sub f/.git && cd f && echo Needle > sub/a.c && echo needle > b.h && echo x > c.txt && " \
             "echo needle > .git/x && touch -d '2020-01-01' sub/a.c"
    assert not use(rest, box, "Bash", command=script).json["is_error"]
    assert use(rest, box, "Glob", pattern="**/*.[ch]", path="f").json["data"]["paths"] == [
        "/home/user/f/b.h", "/home/user/f/sub/a.c"]
    assert use(rest, box, "Glob", pattern="*.none", path="f").json["text"] == "No files found\n"
    assert use(rest, box, "LS", path="f", ignore=["*.txt", ".git"]).json["text"] == "/home/user/f/b.h\n/home/user/f/sub/\n"
    assert use(rest, box, "Grep", pattern="needle", path="/home/user/f").json["text"] == "/home/user/f/b.h\n"
    both = use(rest, box, "Grep", pattern="need+le", path="/home/user/f", output_mode="content", **{"-i": True, "-n": True})
    assert sorted(both.json["text"].splitlines()) == ["/home/user/f/b.h:1:needle", "/home/user/f/sub/a.c:1:Needle"]
    assert use(rest, box, "Grep", pattern="absent", path="f").json == {
        "text": "No matches found\n", "is_error": False, "data": {"found": False}}
    assert use(rest, box, "Grep", pattern="(", path="f").json["is_error"]


def test_code(rest, box):
    assert use(rest, box, "RunCode", code="x = 20").status == 200
    ran = use(rest, box, "RunCode", code="print('said')\nx + 22").json
    assert "said" in ran["text"] and "42" in ran["text"] and not ran["is_error"]
    wrong = use(rest, box, "RunCode", code="1/0").json
    assert wrong["is_error"] and "ZeroDivisionError" in wrong["text"]
    assert use(rest, box, "RunCode", code="x", language="cobol").status == 400


def test_paths_are_mapped(rest, box):
    """Outside the repository is at /repo, inside at /home/user/w."""
    query = "?map=/repo:/home/user/w"
    assert use(rest, box, "Write", query, file_path="/repo/a.txt", content="hello").status == 200
    assert use(rest, box, "Read", file_path="/home/user/w/a.txt").json["data"]["bytes"] == 5
    assert use(rest, box, "Glob", query, pattern="*.txt").json["data"]["paths"] == ["/repo/a.txt"]
    assert use(rest, box, "Grep", query, pattern="hel", path="/repo").json["text"] == "/repo/a.txt\n"
    assert use(rest, box, "Bash", query, command="pwd").json["text"] == "/home/user/w\n"
    for path in ("/etc/passwd", "/repo/../etc/passwd", "/repository/x", "../x", "/repo/a/../../x"):
        refused = use(rest, box, "Read", query, file_path=path)
        assert refused.status == 400 and "is not below /repo" in refused.error["message"], (path, refused.body)
    for bad in ("x:/y", "/x", "/x:y", "/a:/b:/c", "/a/..:/b"):
        assert use(rest, box, "Read", f"?map={bad}", file_path="/x").status == 400, bad


@pytest.mark.parametrize("tool, arguments, said", [
    ("Bash", {}, "command is missing"),
    ("Bash", {"command": 1}, "command must be a string"),
    ("Bash", {"command": "x", "timeout": -1}, "timeout must be a whole number from 0"),
    ("Bash", {"command": "x", "timeout": 1e12}, "timeout must be"),
    ("Bash", {"command": "x", "env": {"A": 1}}, "env must be an object of strings"),
    ("Bash", {"command": "x", "extra": 1}, "there is no argument extra"),
    ("MultiEdit", {"file_path": "x", "edits": []}, "edits must be"),
    ("MultiEdit", {"file_path": "x", "edits": 101 * [{"old_string": "a", "new_string": "b"}]}, "edits must be"),
    ("LS", {"path": "/", "ignore": 101 * ["a"]}, "ignore must be"),
    ("MultiEdit", {"file_path": "x", "edits": [{"old_string": "a"}]}, "edits must be"),
    ("Edit", {"file_path": "x", "old_string": "", "new_string": ""}, ""),
    ("Grep", {"pattern": "x", "output_mode": "all"}, "output_mode must be"),
])
def test_bad_arguments(rest, box, tool, arguments, said):
    answer = rest.post(f"/api/sandboxes/{box}/tools/{tool}", arguments)
    assert answer.status in (400, 404) and said in answer.error["message"], answer.body


def test_unknown_tool_and_sandbox(rest, box):
    assert use(rest, box, "Teleport").status == 404
    assert use(rest, "none-such", "Bash", command="true").status == 404


# MCP.

@pytest.fixture
def mcp(rest):
    client = Mcp(rest)
    client.begin()
    yield client
    rest.call("DELETE", "/mcp", None, {"Mcp-Session-Id": client.session})


def test_initialize(rest):
    assert Mcp(rest).begin()["protocolVersion"] == "2025-06-18"
    unknown = Mcp(rest).ask("initialize", protocolVersion="1999-01-01", capabilities={})
    assert unknown["result"]["protocolVersion"] == "2025-11-25"
    assert unknown["result"]["serverInfo"]["name"] == "atoll"


def test_without_a_handshake(rest):
    """Version 2026-07-28: the version is in each request."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    found = Mcp(rest).ask("server/discover", _meta=meta)["result"]
    assert found["supportedVersions"] == ["2026-07-28"] and found["resultType"] == "complete"
    assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "atoll"
    ran = Mcp(rest).ask("tools/call", name="run_command", arguments={"command": "echo hi"}, _meta=meta)["result"]
    assert ran["content"][0]["text"] == "hi\n" and ran["resultType"] == "complete"
    meta["io.modelcontextprotocol/protocolVersion"] = "2030-01-01"
    assert Mcp(rest).ask("tools/list", _meta=meta)["error"]["code"] == -32022
    Mcp(rest).tool("sandbox_stop", sandbox="mcp")


def test_a_session_has_its_own_sandbox(rest, mcp):
    names = [tool["name"] for tool in mcp.ask("tools/list")["result"]["tools"]]
    assert {"run_command", "run_code", "read_file", "write_file", "sandbox_create", "preview_url"} < set(names)
    mcp.tool("write_file", path="note", content="kept")
    read = mcp.tool("read_file", path="note")
    assert read["content"][0]["text"] == "     1\tkept\n" and read["isError"] is False
    ran = mcp.tool("run_command", command="cat note; exit 4")
    assert ran["isError"] and ran["structuredContent"]["exit_code"] == 4
    box = mcp.tool("sandbox_info")["structuredContent"]
    assert box["name"] == "mcp-" + mcp.session[:16]
    uri = f"atoll://{box['id']}/home/user/note"
    assert mcp.ask("resources/read", uri=uri)["result"]["contents"][0]["text"] == "kept"
    assert rest.call("DELETE", "/mcp", None, {"Mcp-Session-Id": mcp.session}).status == 204
    assert rest.get(f"/api/sandboxes/{box['id']}?ended=false").status == 404


def test_a_session_that_is_not_there(rest, mcp):
    """One that has ended, that no daemon has given, or whose signature is wrong: the client has to begin a new one."""
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    changed = mcp.session[:-1] + ("0" if mcp.session[-1] != "0" else "1")
    assert mcp.post(ping).status == 200
    assert rest.call("DELETE", "/mcp", None, {"Mcp-Session-Id": mcp.session}).status == 204
    for session in (mcp.session, changed, 32 * "0"):
        headers = {"Mcp-Session-Id": session}
        for answer in (rest.call("POST", "/mcp", ping, headers), rest.call("DELETE", "/mcp", None, headers),
                       rest.call("GET", "/mcp", None, headers | {"Accept": "text/event-stream"})):
            assert answer.status == 404 and "does not exist" in answer.error["message"], (session, answer.body)


def test_other_ids_do_not_displace_a_session_that_has_ended(rest, mcp):
    """Ids in the query are not those of the daemon."""
    assert rest.call("DELETE", "/mcp", None, {"Mcp-Session-Id": mcp.session}).status == 204
    for i in range(1024):
        assert rest.call("DELETE", "/mcp", session=f"{i:032x}").status == 204
    assert mcp.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}).status == 404


def test_a_sandbox_that_could_not_be_made():
    """Neither the call that fails nor the next one speaks of a sandbox that has ended."""
    with running(BUILD, ATOLL_TENANT_SANDBOXES="1") as daemon:
        rest = Rest(daemon.socket)
        mcp, box = Mcp(rest), rest.post("/api/sandboxes", {}).json["id"]
        mcp.begin()
        failed = mcp.tool("run_command", command="echo hi")
        assert failed["isError"] and "--tenant-sandboxes" in failed["content"][0]["text"] and len(failed["content"]) == 1, failed
        assert rest.delete(f"/api/sandboxes/{box}").status == 204
        assert [item["text"] for item in mcp.tool("run_command", command="echo hi")["content"]] == ["hi\n"]


def test_a_sandbox_that_was_made_again(mcp):
    """The call that makes it says so, once."""
    texts = [[item["text"] for item in mcp.tool("run_command", command="echo hi")["content"]]]
    mcp.tool("sandbox_stop")
    texts += [[item["text"] for item in mcp.tool("run_command", command="echo hi")["content"]] for _ in range(2)]
    assert texts[0] == texts[2] == ["hi\n"] and texts[1][1:] == ["hi\n"] and "new, empty" in texts[1][0], texts


def test_schemas_of_results(mcp):
    """What tools return fits the schema that they are listed with."""
    tools = {tool["name"]: tool for tool in mcp.ask("tools/list")["result"]["tools"]}
    types = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict, "null": type(None)}
    calls = {"run_command": {"command": "echo hi"}, "run_code": {"code": "1"}, "sandbox_info": {}, "sandbox_list": {},
             "write_file": {"path": "f", "content": "x"}, "read_file": {"path": "f"}, "list_files": {"path": "."},
             "find_files": {"pattern": "*"}, "search_files": {"pattern": "x"}, "get_file_info": {"path": "f"}, "download_file": {"path": "f"},
             "edit_file": {"path": "f", "old_text": "x", "new_text": "y"},
             "preview_url": {"port": 80}, "task_run": {"instruction": "echo x > f", "capture": ["f"]}}
    for name, arguments in calls.items():
        result, schema = mcp.tool(name, **arguments), tools[name]["outputSchema"]
        assert not result["isError"] and schema["type"] == "object", (name, result)
        for member, value in result["structuredContent"].items():
            allowed = schema["properties"][member]["type"]
            assert isinstance(value, tuple(types[one] for one in ([allowed] if isinstance(allowed, str) else allowed))), (name, member, value)


def test_first_calls_side_by_side(mcp):
    """They share the sandbox that the first one makes."""
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        ran = list(pool.map(lambda _: mcp.post({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "run_command", "arguments": {"command": "hostname"}}}).json["result"], range(6)))
    assert len({r["content"][0]["text"] for r in ran}) == 1 and not any(r["isError"] for r in ran), ran


def test_other_sandboxes_by_name(mcp):
    made = mcp.tool("sandbox_create", name="second", timeout_seconds=600, env={"WHO": "second"})
    assert made["structuredContent"]["name"] == "second", made
    assert mcp.tool("run_command", sandbox="second", command="echo $WHO")["content"][0]["text"] == "second\n"
    assert "second" in [box["name"] for box in mcp.tool("sandbox_list")["structuredContent"]["sandboxes"]]
    preview = mcp.tool("preview_url", sandbox="second", port=8080)["structuredContent"]
    assert preview["port"] == 8080 and preview["path_url"].startswith("/")
    assert mcp.tool("sandbox_stop", sandbox="second")["isError"] is False
    gone = mcp.tool("run_command", sandbox="second", command="true")
    assert gone["isError"] and "second" in gone["content"][0]["text"]


def test_snapshots_and_forks(rest, mcp):
    mcp.tool("write_file", path="note", content="first")
    made = mcp.tool("sandbox_snapshot", name="mcp-kept")["structuredContent"]
    assert made["name"] == "mcp-kept" and made["files"] > 0, made
    mcp.tool("write_file", path="note", content="second")
    copies = mcp.tool("sandbox_fork", count=2)["structuredContent"]["sandboxes"]
    assert len(copies) == 2
    assert mcp.tool("read_file", sandbox=copies[0], path="note")["content"][0]["text"].endswith("second\n")
    assert mcp.tool("sandbox_restore", snapshot="mcp-kept")["isError"] is False
    assert mcp.tool("read_file", path="note")["content"][0]["text"].endswith("first\n")
    for copy in (*copies, mcp.tool("sandbox_info")["structuredContent"]["id"]):
        rest.delete(f"/api/sandboxes/{copy}")
    rest.delete("/api/snapshots/mcp-kept")


def test_a_repository(mcp):
    mcp.tool("run_command", command="git init -qb main r && cd r && git -c user.name=a -c user.email=b commit -qm x --allow-empty")
    cloned = mcp.tool("git_clone", url="/home/user/r", path="copy")
    assert cloned["structuredContent"]["branch"] == "main", cloned
    missing = mcp.tool("git_clone", url="/nowhere", path="other")
    assert missing["isError"] and "nowhere" in missing["content"][0]["text"]


def text_of(result):
    return result["content"][0]["text"]


def data_of(result):
    assert result["isError"] is False, result
    return result["structuredContent"]


def test_files_as_a_whole(mcp):
    assert data_of(mcp.tool("create_folder", path="a/b"))["type"] == "directory"
    raw = bytes(range(256))
    assert data_of(mcp.tool("upload_file", path="a/raw", content=base64.b64encode(raw).decode()))["size_bytes"] == 256
    assert text_of(mcp.tool("run_command", command="sha256sum < a/raw")).split()[0] == hashlib.sha256(raw).hexdigest()
    got = data_of(mcp.tool("download_file", path="a/raw"))
    assert (got["encoding"], base64.b64decode(got["content"]), got["bytes"]) == ("base64", raw, 256)
    data_of(mcp.tool("upload_file", path="a/text", content="grüße\n", encoding="text", overwrite=False))
    got = mcp.tool("download_file", path="a/text")
    assert data_of(got)["encoding"] == "text" and text_of(got) == "grüße\n"
    kept = mcp.tool("upload_file", path="a/text", content="no", encoding="text", overwrite=False)
    assert kept["isError"] and "a/text exists" in text_of(kept)
    assert data_of(mcp.tool("upload_file", path="a/text", content="", encoding="text"))["size_bytes"] == 0
    assert data_of(mcp.tool("download_file", path="a/text"))["content"] == ""
    moved = data_of(mcp.tool("move_file", source="a/raw", destination="a/b/moved"))
    assert moved["path"] == "/home/user/a/b/moved" and moved["type"] == "file"
    info = data_of(mcp.tool("get_file_info", path="a/b/moved"))
    assert (info["size_bytes"], info["mode"], info["owner"]) == (256, "0644", "user")
    # A text too long for the model is only in the structured result.
    mcp.tool("run_command", command="head -c 400000 /dev/zero | tr '\\0' x > long; head -c 9000000 /dev/zero > longer")
    long = mcp.tool("download_file", path="long")
    assert data_of(long)["content"] == "x" * 400000 and "structured result" in text_of(long)
    assert mcp.tool("download_file", path="longer")["isError"]
    assert mcp.tool("delete_file", path="a")["isError"]
    assert data_of(mcp.tool("delete_file", path="a", recursive=True))["deleted"] is True
    for missing in (("get_file_info", {"path": "a"}), ("delete_file", {"path": "a"}), ("download_file", {"path": "a"}),
                    ("move_file", {"source": "a", "destination": "c"})):
        assert mcp.tool(missing[0], **missing[1])["isError"], missing
    for wrong in ({"content": "no base64!"}, {"content": "", "encoding": "hex"}, {"content": ""} | {"overwrite": "x"}):
        error = mcp.ask("tools/call", name="upload_file", arguments={"path": "x", **wrong})["error"]
        assert error["code"] == -32602, error


def test_git(mcp):
    def run(tool, /, **arguments):
        return mcp.tool(f"git_{tool}", path="copy", **arguments)

    mcp.tool("run_command", command="git init -qb main --bare r.git; git clone -q r.git copy")
    mcp.tool("write_file", path="copy/a", content="1\n")
    assert [(file["path"], file["worktree"]) for file in data_of(run("status"))["files"]] == [("a", "untracked")]
    data_of(run("add", files=["a"]))
    who = {"author_name": "Ann", "author_email": "ann@example.org"}
    first = data_of(run("commit", message="first", **who))
    assert first["branch"] == "main" and first["commit"]["author"]["name"] == "Ann", first
    assert data_of(run("push", set_upstream=True))["refs"][0]["state"] == "new"
    data_of(run("checkout", ref="side", create=True))
    mcp.tool("write_file", path="copy/a", content="2\n")
    diff = run("diff")
    assert "-1\n+2" in text_of(diff) and data_of(diff)["files"][0]["added"] == 1
    assert text_of(run("diff", staged=True)) == "No differences\n"
    second = data_of(run("commit", message="second", all=True, **who))["commit"]["hash"]
    assert [commit["message"].strip() for commit in data_of(run("log"))["commits"]] == ["second", "first"]
    assert len(data_of(run("log", limit=1))["commits"]) == 1
    assert "+2" in text_of(run("diff", ref="main", to="side"))
    assert data_of(run("branches"))["current"] == "side"
    data_of(run("push", branch="side:main", remote="origin"))
    data_of(run("checkout", ref="main"))
    assert data_of(run("pull"))["commit"]["hash"] == second
    empty = run("commit", message="nothing", **who)
    assert empty["isError"] and "nothing to commit" in text_of(empty), empty
    assert mcp.tool("git_status")["isError"]  # the home is no repository


def test_git_with_large_and_unusual_results(mcp):
    """A NUL in a patch is a character; a list that is too long for the model is in the structured result."""
    mcp.tool("run_command", command="git init -qb main odd; cd odd; echo 'a diff' > .gitattributes; printf 'x\\0y\\n' > a; git add .; "
             "git -c user.name=a -c user.email=b commit -qm x; printf 'x\\0z\\n' > a")
    diff = mcp.tool("git_diff", path="odd")
    assert "-x\0y\n+x\0z\n" in data_of(diff)["patch"] and "-x\ufffdy\n+x\ufffdz\n" in text_of(diff)
    mcp.tool("run_command", command="cd odd; for i in $(seq 2000); do : > $(printf 'n%.0s' $(seq 100))$i; done")
    status = mcp.tool("git_status", path="odd")
    assert len(data_of(status)["files"]) == 2001
    assert text_of(status).endswith(" bytes of JSON: they are in the structured result"), text_of(status)[:200]


def test_tools_that_only_read(mcp):
    hints = {tool["name"]: tool["annotations"]["readOnlyHint"] for tool in mcp.ask("tools/list")["result"]["tools"]}
    assert hints["git_log"] and hints["read_file"] and hints["download_file"]
    # Filters of the repository run.
    assert not hints["git_status"] and not hints["git_diff"] and not hints["git_push"]
    mcp.tool("run_command", command="git init -qb main filtered; cd filtered; echo 'a filter=f' > .gitattributes; echo 1 > a; git add .; "
             "git config filter.f.clean 'touch /tmp/ran; cat'; echo 2 > a")
    data_of(mcp.tool("git_diff", path="filtered"))
    assert data_of(mcp.tool("get_file_info", path="/tmp/ran"))["type"] == "file"


def test_the_memory_of_a_swarm(rest, mcp, daemon):
    swarm = rest.post("/api/swarms", {"tasks": [], "memory": {"a": 1, "b": [2]}, "leaseSeconds": 600}).json["id"]
    assert data_of(mcp.tool("swarm_memory_get", swarm=swarm))["memory"] == {"a": 1, "b": [2]}
    assert data_of(mcp.tool("swarm_memory_set", swarm=swarm, changes={"a": None, "c": {"d": "x"}}))["memory"] == {"b": [2], "c": {"d": "x"}}
    assert rest.get(f"/api/swarms/{swarm}/memory").json == {"b": [2], "c": {"d": "x"}}
    large = mcp.tool("swarm_memory_set", swarm=swarm, changes={"long": "x" * 2_000_000})
    assert large["isError"] and "KiB" in text_of(large), large
    error = mcp.ask("tools/call", name="swarm_memory_set", arguments={"swarm": swarm, "changes": []})["error"]
    assert "changes must be an object" in error["message"]
    # That of another tenant does not exist.
    other = Mcp(Rest(daemon.socket, {"X-Atoll-Tenant": "stranger"}))
    for tool, more in (("swarm_memory_get", {}), ("swarm_memory_set", {"changes": {"b": 1}})):
        refused = other.tool(tool, swarm=swarm, **more)
        assert refused["isError"] and "does not exist" in text_of(refused), refused
    assert rest.get(f"/api/swarms/{swarm}/memory").json["b"] == [2]


# The command line.

@pytest.mark.parametrize("client, member, file", [("claude", "mcpServers", ".mcp.json"), ("cursor", "mcpServers", ".cursor/mcp.json"),
                                                  ("vscode", "servers", ".vscode/mcp.json")])
def test_the_configuration_of_a_client(daemon, tmp_path, client, member, file):
    """It is printed, no file is touched; and the server that it names answers."""
    given = tmp_path / file
    given.parent.mkdir(exist_ok=True)
    given.write_text("not mine")
    said = subprocess.run([daemon.build / "atoll", "mcp", "--install", client], cwd=tmp_path, capture_output=True, text=True,
                          env=daemon.env | {"HOME": str(tmp_path)}, check=True)
    assert file in said.stderr and given.read_text() == "not mine"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [given]
    config = json.loads(said.stdout)
    assert list(config) == [member] and list(config[member]) == ["atoll"]
    server = config[member]["atoll"]
    messages = [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"}, {"jsonrpc": "2.0", "id": 2, "method": "ping"}]
    # The client has its own PATH and environment.
    env = {name: value for name, value in daemon.env.items() if not name.startswith("ATOLL_")} | {"PATH": "/nonexistent"}
    talk = subprocess.run([server["command"], *server["args"]], env=env | server["env"], capture_output=True, text=True, check=True,
                          input="".join(json.dumps(message) + "\n" for message in messages), timeout=60)
    answers = {answer["id"]: answer for answer in map(json.loads, talk.stdout.splitlines())}
    assert answers[1]["result"]["serverInfo"]["name"] == "atoll" and answers[2]["result"] == {}


def test_the_configuration_has_no_key(daemon, tmp_path):
    given = {"ATOLL_URL": "https://atoll.example", "ATOLL_CA_FILE": "ca.pem", "ATOLL_API_KEY": "secret-key"}
    (tmp_path / "ca.pem").touch()
    env = {name: value for name, value in daemon.env.items() if not name.startswith("ATOLL_")} | given
    for client, reference in (("claude", "${ATOLL_API_KEY}"), ("vscode", "${env:ATOLL_API_KEY}")):
        said = subprocess.run([daemon.build / "atoll", "mcp", "--install", client], cwd=tmp_path, env=env, capture_output=True,
                              text=True, check=True)
        (servers,) = json.loads(said.stdout).values()
        assert servers["atoll"]["env"] == given | {"ATOLL_CA_FILE": str(tmp_path / "ca.pem"), "ATOLL_API_KEY": reference}
        assert "secret-key" not in said.stdout + said.stderr and "ATOLL_API_KEY in its environment" in said.stderr


def test_a_message_that_is_no_json(daemon):
    """It gets an answer, and those after it theirs."""
    lines = ["{oops", json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"})]
    done = subprocess.run([daemon.build / "atoll", "mcp"], env=daemon.env, capture_output=True, text=True, check=True, timeout=60,
                          input="\n".join(lines) + "\n")
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert answers[None]["error"]["code"] == -32700 and answers[2]["result"] == {}, done.stdout


def test_no_configuration_of_an_unknown_client(daemon):
    refused = daemon.atoll("mcp", "--install", "emacs")
    assert refused.returncode == 2 and refused.stdout == "" and "claude, cursor or vscode" in refused.stderr


# As prompts and programs written for other servers call it.

def test_names_of_other_servers(rest, mcp):
    listed = {tool["name"] for tool in mcp.ask("tools/list")["result"]["tools"]}
    assert not listed & {"execute_command", "create_sandbox", "destroy_sandbox", "preview_link", "file_upload", "sandbox_start"}
    box = data_of(mcp.tool("create_sandbox", id="theirs", target="eu", auto_stop_interval="15"))
    assert box["name"] == "theirs"
    assert text_of(mcp.tool("execute_command", id="theirs", command="echo hi")) == "hi\n"
    data_of(mcp.tool("create_folder", id="theirs", folder_path="d"))
    data_of(mcp.tool("file_upload", id="theirs", file_path="d/x", content="abc", encoding="text", overwrite=True))
    data_of(mcp.tool("move_file", id="theirs", source_path="d/x", dest_path="d/y"))
    assert data_of(mcp.tool("get_file_info", id="theirs", file_path="d/y"))["size_bytes"] == 3
    assert data_of(mcp.tool("download_file", id="theirs", file_path="d/y"))["content"] == "abc"
    assert data_of(mcp.tool("list_files", id="theirs", path="d"))["paths"] == ["/home/user/d/y"]
    data_of(mcp.tool("delete_file", id="theirs", file_path="d/y"))
    link = data_of(mcp.tool("preview_link", id="theirs", port=3000, description="a page", check_server=False))
    assert link["port"] == 3000
    assert text_of(mcp.tool("sandbox_run_command", sandbox="theirs", namespace="default", command="echo a")) == "a\n"
    assert data_of(mcp.tool("sandbox_get_metrics", sandbox="theirs", namespace="default"))["state"] == "running"
    assert text_of(mcp.tool("sandbox_exec", container_id="theirs", commands=["cd /", "pwd"])) == "/\n"
    refused = mcp.ask("tools/call", name="sandbox_exec", arguments={"container_id": "theirs", "commands": [1]})
    assert "command must be" in refused["error"]["message"], refused
    data_of(mcp.tool("destroy_sandbox", id="theirs"))
    assert rest.get("/api/sandboxes/theirs?ended=false").status == 404
    started = data_of(mcp.tool("sandbox_start", sandbox="micro", namespace="default"))
    assert started["name"] == "micro"
    assert "42" in text_of(mcp.tool("sandbox_run_code", sandbox="micro", namespace="default", code="6 * 7", language="python"))
    data_of(mcp.tool("sandbox_stop", sandbox="micro", namespace="default"))
    # An argument has either name; others are refused as before.
    error = mcp.ask("tools/call", name="execute_command", arguments={"id": "a", "sandbox": "b", "command": "x"})["error"]
    assert "no argument id" in error["message"]
    assert "no tool fly" in mcp.ask("tools/call", name="fly", arguments={})["error"]["message"]


def test_a_task(rest, mcp):
    done = mcp.tool("task_run", instruction="echo worked; echo kept > a.txt; head -c 70000 /dev/zero > b.txt", capture=["*.txt"],
                    provider="native", network="none")
    assert not done["isError"] and done["structuredContent"]["provider"] == "native", done
    assert done["structuredContent"]["state"] == "succeeded" and done["structuredContent"]["output"] == "worked\n", done
    assert done["structuredContent"]["files"] == [
        {"path": "a.txt", "size_bytes": 5, "content": "kept\n"}, {"path": "b.txt", "size_bytes": 70000}]
    prompt = mcp.tool("task_run", instruction="echo $ATOLL_SYSTEM_PROMPT", system_prompt="be short")
    assert prompt["structuredContent"]["output"] == "be short\n", prompt
    # A failure is an error, and keeps its sandbox for a retry unless the call says otherwise.
    for cleanup, status in (({}, 200), ({"cleanup": "always"}, 404)):
        answer = mcp.tool("task_run", instruction="exit 1", **cleanup)
        failed = answer["structuredContent"]
        assert answer["isError"] and failed["state"] == "failed" and "exited with status 1" in failed["error"], answer
        assert rest.get(f"/api/sandboxes/{failed['sandbox_id']}?ended=false").status == status
        rest.delete(f"/api/sandboxes/{failed['sandbox_id']}")
    assert mcp.tool("task_run", instruction="x", agent="nothing")["isError"]
    for wrong, words in (({"cleanup": "later"}, "cleanup"), ({"capture": ["/etc/*"]}, "/etc/*"), ({"capture": ["x"] * 33}, "32")):
        refused = mcp.ask("tools/call", name="task_run", arguments={"instruction": "true", **wrong})
        assert words in refused["error"]["message"], refused


def test_progress_and_cancellation(rest, mcp):
    """A stream with notes of progress; the command is killed when the client cancels."""
    box = mcp.tool("sandbox_info")["structuredContent"]["id"]
    connection = rest.connection()
    body = {"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": {
        "name": "run_command", "arguments": {"command": "sleep 600"}, "_meta": {"progressToken": 7}}}
    connection.request("POST", "/mcp", json.dumps(body), {
        "Mcp-Session-Id": mcp.session, "Accept": "application/json, text/event-stream"})
    answer = connection.getresponse()
    assert answer.headers["Content-Type"] == "text/event-stream"
    lines = (line.decode().strip() for line in answer)
    first = next(json.loads(line[6:]) for line in lines if line.startswith("data: "))
    assert first["method"] == "notifications/progress" and first["params"]["progressToken"] == 7
    assert mcp.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "long"}}).status == 202
    last = [json.loads(line[6:]) for line in lines if line.startswith("data: ")][-1]
    assert last["id"] == "long" and "cancelled" in last["error"]["message"]
    execs = rest.get(f"/api/sandboxes/{box}/execs").json["execs"]
    wait_until(lambda: all(e["state"] != "running" for e in rest.get(f"/api/sandboxes/{box}/execs").json["execs"]),
               10, lambda: str(execs))


def test_a_client_that_leaves_ends_its_command(rest, mcp):
    box = mcp.tool("sandbox_info")["structuredContent"]["id"]
    connection = rest.connection()
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "run_command", "arguments": {"command": "sleep 600"}}}
    connection.request("POST", "/mcp", json.dumps(body), {"Mcp-Session-Id": mcp.session})

    def running():
        return [e for e in rest.get(f"/api/sandboxes/{box}/execs").json["execs"] if e["state"] == "running"]
    wait_until(lambda: len(running()) == 1, 10, lambda: "it was not started")
    connection.close()
    wait_until(lambda: not running(), 10, lambda: "it still runs")


@pytest.mark.parametrize("message, code", [
    (b"{", -32700), (b"1", -32700), (b"[]", -32600), ({}, -32600), ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, -32600),
    ({"jsonrpc": "2.0", "id": {}, "method": "ping"}, -32600), ({"jsonrpc": "2.0", "id": 1, "method": 1}, -32600),
    ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, -32600),
    ({"jsonrpc": "2.0", "id": 1, "method": "tools/fly"}, -32601),
    ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "fly"}}, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run_command", "arguments": []}}, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run_command", "arguments": {}}}, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "file:///etc/passwd"}}, -32602),
    ({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "atoll://none/x"}}, -32002),
])
def test_bad_messages(rest, message, code):
    answer = rest.post("/mcp", message)
    assert answer.json["error"]["code"] == code, answer.body


def test_bad_headers(rest):
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert rest.post("/mcp", ping).json["result"] == {}
    assert rest.call("POST", "/mcp", ping, {"Mcp-Session-Id": "../x"}).status == 404
    assert rest.call("POST", "/mcp", ping, {"MCP-Protocol-Version": "1999-01-01"}).status == 400
    assert rest.get("/mcp").status == 405
    assert rest.call("DELETE", "/mcp").status == 400


def test_tenants_are_apart(rest, daemon, mcp):
    """Neither a name nor an id of another tenant's sandbox leads to it, nor does a session."""
    box = mcp.tool("sandbox_info")["structuredContent"]
    other = Mcp(Rest(daemon.socket, {"X-Atoll-Tenant": "stranger"}), mcp.session)
    assert other.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}).status == 404
    other.session = None
    other.begin()
    for sandbox in (box["id"], box["name"]):
        refused = other.tool("run_command", sandbox=sandbox, command="true")
        assert refused["isError"] and "exit" not in refused["content"][0]["text"], refused
    own = other.tool("sandbox_info")["structuredContent"]
    assert own["id"] != box["id"]
    assert other.ask("resources/read", uri=f"atoll://{box['id']}/etc/hostname")["error"]["code"] == -32002
    other.tool("sandbox_stop")
