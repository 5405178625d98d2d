"""The guard of tool calls: rules, interceptors, records."""

import hashlib
import hmac
import http.server
import json
import threading

import pytest
from daemons import BUILD, refusal, running, wait_until
from listening import listening_daemon
from mcp_client import Mcp
from rest import Rest


@pytest.fixture(scope="module")
def webhook():
    hook = Webhook()
    yield hook
    hook.close()


@pytest.fixture(scope="module")
def guarded(webhook):
    """A daemon whose webhooks may go to this host, at the port of ours only."""
    with running(BUILD, ATOLL_WEBHOOK_INTERNAL=f"127.0.0.1:{webhook.port}") as daemon:
        yield daemon


@pytest.fixture(scope="module")
def rest(guarded):
    return Rest(guarded.socket)


class Webhook:
    """An interceptor: `answer` gets each request, and returns what is sent: an object, or (status, bytes)."""

    def __init__(self):
        self.seen, self.answer = [], lambda request: {}
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.seen.append((json.loads(body), body, dict(self.headers)))
                said = outer.answer(json.loads(body))
                status, text = said if isinstance(said, tuple) else (200, json.dumps(said).encode())
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def use(self, answer):
        self.seen.clear()
        self.answer = answer

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def make(rest, policy=None, **more):
    made = rest.post("/api/sandboxes", {"toolPolicy": policy, **more} if policy is not None else more)
    assert made.status == 201, made.body
    return made.json["id"]


def use(rest, box, tool, /, **arguments):
    return rest.post(f"/api/sandboxes/{box}/tools/{tool}", arguments)


def bash(rest, box, command):
    return use(rest, box, "Bash", command=command)


def calls(rest, box, query=""):
    answer = rest.get(f"/api/sandboxes/{box}/tools/calls{query}")
    assert answer.status == 200, answer.body
    return answer.json["calls"]


def deny(command, **more):
    return {"decision": "deny", "command": command, **more}


# Rules.

def test_rules_about_commands(rest):
    box = make(rest, {"rules": [deny("touch *", reason="files are made with Write")]})
    refused = bash(rest, box, "echo a && ( sudo -n touch x )")
    assert refused.status == 403 and refused.json["error"]["code"] == "permission_denied", refused.body
    assert refused.error["message"].startswith("this call is not allowed (policy of the sandbox, rule 1): "
                                               "files are made with Write")
    for command in ("touch x", "/usr/bin/touch x", "t'ou'ch x", "env A=1 touch x", "sh -c 'true; touch x'",
                    "echo $(touch x)", "if true; then touch x; fi", "ls | xargs touch", "find . -exec touch {} +"):
        assert bash(rest, box, command).status == 403, command
    assert bash(rest, box, "echo touch x").json["text"] == "touch x\n"
    assert "x" not in bash(rest, box, "ls -A; ls /tmp").json["text"].split()
    # What cannot be read, or is not known, asks: here with nobody to answer, it ends with the client's patience.
    policy = {"rules": [deny("touch *")], "unclear": "deny"}
    assert rest.put(f"/api/sandboxes/{box}/tools/policy", policy).status == 200
    assert bash(rest, box, "T=touch; $T x").status == 403
    assert "not closed" in bash(rest, box, "echo 'x").error["message"]
    assert bash(rest, box, "echo \"$HOME\"").status == 200


def test_a_list_of_what_is_allowed(rest):
    box = make(rest, {"default": "deny", "rules": [
        {"decision": "allow", "tools": "Bash", "command": "echo *"},
        {"decision": "allow", "tools": ["Read", "G*"]}]})
    assert bash(rest, box, "echo a; env X=1 echo b; sh -c 'echo c'").json["text"] == "a\nb\nc\n"
    for command in ("echo a; id", "sudo echo", "echo $(id)", "sh", "env"):
        assert bash(rest, box, command).status == 403, command
    assert use(rest, box, "Glob", pattern="*").status == 200
    assert use(rest, box, "Write", file_path="x", content="").status == 403


def test_rules_about_paths(rest):
    box = make(rest, {"rules": [{"decision": "deny", "tools": ["Write", "Edit"], "path": "/etc/**"},
                                {"decision": "deny", "path": "~/.ssh/**"},
                                {"decision": "deny", "path": "**/.env"}]})
    for path in ("/etc/passwd", "/etc/x/../passwd", "//etc/./passwd", "/tmp/../etc/passwd"):
        assert use(rest, box, "Write", file_path=path, content="x").status == 403, path
    assert use(rest, box, "Read", file_path="/etc/passwd").status == 200
    for path in (".ssh/id", "/home/user/.ssh/id", "a/.env", ".env", "../user/.ssh/id"):
        assert use(rest, box, "Read", file_path=path).status == 403, path
    for path in ("~/.ssh/id", "~/a/../.ssh/id", "~/.env"):
        refused = use(rest, box, "Read", file_path=path)
        assert refused.status == 403 and "is not allowed" in refused.error["message"], path
    assert "is not allowed" not in use(rest, box, "Read", file_path="a/~/.ssh/id").error["message"]
    # What is moved has two paths; names of other servers are the same tools.
    client = Mcp(rest)
    client.begin()
    for tool, arguments in (("move_file", {"source": ".env", "destination": "x"}), ("move_file", {"source": "x", "destination": ".env"}),
                            ("move_file", {"source_path": "x", "dest_path": ".ssh/x"}), ("delete_file", {"path": "a/.env"}),
                            ("download_file", {"file_path": ".env"}), ("file_upload", {"file_path": ".env", "content": ""})):
        refused = client.tool(tool, sandbox=box, **arguments)
        assert refused["isError"] and "not allowed" in refused["content"][0]["text"], (tool, refused)
    listed = make(rest, {"default": "deny", "rules": [{"decision": "allow", "path": "/tmp/**"}]})
    for source, target, allowed in (("/tmp/a", "/tmp/b", True), ("/tmp/a", "b", False), ("a", "/tmp/b", False)):
        said = client.tool("move_file", sandbox=listed, source=source, destination=target)["content"][0]["text"]
        assert ("not allowed" not in said) == allowed, said
    # Mapped paths are those of the sandbox.
    mapped = rest.post(f"/api/sandboxes/{box}/tools/Write?map=/repo:/etc", {"file_path": "/repo/x", "content": ""})
    assert mapped.status == 403


def test_relative_paths_begin_at_the_working_directory(rest):
    """As the agent has it: below the working directory of the sandbox, and "~" is the home."""
    box = make(rest, {"rules": [{"decision": "deny", "path": "/work/secret/**"}, {"decision": "deny", "path": "~/.ssh/**"}]}, workdir="/work")
    for tool, arguments in (("Read", {"file_path": "secret/k"}), ("Write", {"file_path": "./x/../secret/k", "content": ""}),
                            ("Read", {"file_path": "~/.ssh/k"}), ("LS", {"path": "secret/k"}), ("Glob", {"pattern": "*", "path": "secret/k"}),
                            ("Grep", {"pattern": "x", "path": "secret/k"}), ("Grep", {"pattern": "x", "path": "../home/user/.ssh/k"})):
        refused = use(rest, box, tool, **arguments)
        assert refused.status == 403 and "rule" in refused.error["message"], (tool, arguments, refused.body)
    assert use(rest, box, "Write", file_path=".ssh/k", content="").status == 200
    assert bash(rest, box, "cat /work/.ssh/k").json["is_error"] is False


def allowed(client, box, tool, /, **arguments):
    """Whether the guard lets the call of a tool pass; the tool itself may fail."""
    said = client.tool(tool, sandbox=box, **arguments)
    return not (said["isError"] and "this call is not allowed" in said["content"][0]["text"])


def test_rules_hold_for_tools_that_do_the_same(rest):
    """What a rule says of Write, Read or a command holds for the tools of MCP that do it in another way."""
    client = Mcp(rest)
    client.begin()
    env = {"decision": "deny", "tools": ["Write", "Edit"], "path": "**/.env"}
    box = make(rest, {"rules": [env, {"decision": "deny", "tools": "read_file", "path": "/etc/shadow*"}]})
    for tool, arguments in (("upload_file", {"path": "a/.env", "content": ""}), ("file_upload", {"file_path": ".env", "content": ""}),
                            ("move_file", {"source": "x", "destination": "a/.env"}), ("delete_file", {"path": "~/.env"}),
                            ("create_folder", {"path": ".env"}), ("download_file", {"path": "/etc/shadow"}),
                            ("move_file", {"source": "/etc/shadow-", "destination": "x"})):
        assert not allowed(client, box, tool, **arguments), (tool, arguments)
    assert allowed(client, box, "download_file", path=".env") and allowed(client, box, "upload_file", path="env", content="")
    listed = make(rest, {"default": "deny", "rules": [{"decision": "allow", "tools": ["Write", "Bash"]},
                                                      {"decision": "allow", "command": "rm *"}]})
    assert allowed(client, listed, "write_file", path="x", content="")
    assert not allowed(client, listed, "upload_file", path="x", content="") and not allowed(client, listed, "delete_file", path="x")


def test_rules_about_commands_hold_for_tools_that_do_the_same(rest):
    client = Mcp(rest)
    client.begin()
    box = make(rest, {"rules": [deny("git push * --force *"), deny("rm -rf *"), deny("mv * \"it's mine\""), deny("git add * secret *"),
                                deny("git commit * -m *wip*", tools="Bash"), deny("git clone *example.org*")]})
    for tool, arguments, passes in (
            ("git_push", {"remote": "origin", "branch": "main", "force": True}, False), ("git_push", {"remote": "origin", "branch": "main"}, True),
            ("delete_file", {"path": "x", "recursive": True}, False), ("delete_file", {"path": "x"}, True),
            ("move_file", {"source": "x", "destination": "it's mine"}, False), ("move_file", {"source": "x", "destination": "its mine"}, True),
            ("git_add", {"files": ["a", "secret", "b"]}, False), ("git_add", {"files": ["a", "secrets"]}, True),
            ("git_commit", {"message": "more wip"}, False), ("git_commit", {"message": "done"}, True),
            ("git_clone", {"url": "https://example.org/x"}, False)):
        assert allowed(client, box, tool, **arguments) == passes, (tool, arguments)
    # The first rule of docs/interception.md; the human sees the call.
    asks = make(rest, {"rules": [{"decision": "ask", "command": "git push *"}], "askSeconds": 1})
    said = client.tool("git_push", sandbox=asks, remote="origin", branch="main")
    assert said["isError"] and "no user allowed it in time" in said["content"][0]["text"], said
    assert calls(rest, asks)[0]["state"] == "denied" and calls(rest, asks)[0]["tool"] == "git_push"
    # What is too long to be taken apart is unclear.
    strict = make(rest, {"rules": [deny("git push *")], "unclear": "deny"})
    assert not allowed(client, strict, "git_commit", message="x" * 70000)
    assert allowed(client, strict, "git_commit", message="x" * 60000)


def test_directories_that_are_moved_or_removed(rest):
    """What is in them moves with them."""
    client = Mcp(rest)
    client.begin()
    box = make(rest, {"rules": [{"decision": "deny", "path": "~/.ssh/**"}]})
    assert bash(rest, box, "mkdir -p .ssh other; touch .ssh/id").status == 200
    for tool, arguments in (("move_file", {"source": "/home/user/.ssh", "destination": "/tmp/s"}), ("move_file", {"source": ".ssh/", "destination": "s"}),
                            ("move_file", {"source": "other", "destination": ".ssh"}), ("move_file", {"source": "~", "destination": "/tmp/h"}),
                            ("delete_file", {"path": "/home/user", "recursive": True}), ("delete_file", {"path": "/", "recursive": True})):
        assert not allowed(client, box, tool, **arguments), (tool, arguments)
    assert allowed(client, box, "list_files", path=".ssh")
    assert allowed(client, box, "delete_file", path="other", recursive=True)
    assert bash(rest, box, "ls .ssh; ls -d other").json["text"].startswith("id\n")


def test_paths_of_git(rest):
    """Without a path, git works in the working directory; files are below the path."""
    client = Mcp(rest)
    client.begin()
    rules = [{"decision": "deny", "path": path} for path in ("/work", "/repo/secret/**", "/work/clone", "**/.env")]
    box = make(rest, {"rules": rules}, workdir="/work")
    for tool, arguments, passes in (
            ("git_status", {}, False), ("git_log", {"path": "."}, False), ("git_status", {"path": "/repo"}, True),
            ("git_diff", {"path": "/repo", "files": ["a", "secret/k"]}, False), ("git_diff", {"path": "/repo", "files": ["a"]}, True),
            ("git_diff", {"path": "../repo/b", "files": ["../secret/k"]}, False), ("git_add", {"path": "/repo", "files": ["/x/.env"]}, False),
            ("git_log", {"path": "/repo", "files": [".env"]}, False), ("git_clone", {"url": "/srv/clone.git"}, False),
            ("git_clone", {"url": "/srv/clone.git", "path": "other"}, True), ("git_status", {"path": "~"}, True)):
        assert allowed(client, box, tool, **arguments) == passes, (tool, arguments)


def test_the_policy_of_the_tenant_holds_everywhere(rest):
    try:
        assert rest.get("/api/tools/policy").json == {}
        kept = rest.put("/api/tools/policy", {"rules": [deny("id"), {"decision": "deny", "tools": "sandbox_fork"}]})
        assert kept.status == 200, kept.body
        box = make(rest, {"rules": [{"decision": "allow", "command": "id"}]})
        refused = bash(rest, box, "id")
        assert refused.status == 403 and "policy of the tenant, rule 1" in refused.error["message"]
        mcp = Mcp(rest)
        said = mcp.tool("run_command", command="id", sandbox=box)
        assert said["isError"] and "is not allowed" in said["content"][0]["text"]
        assert mcp.tool("sandbox_fork", sandbox=box)["isError"]
    finally:
        assert rest.delete("/api/tools/policy").status == 204
    assert bash(rest, box, "id").status == 200


def test_a_fork_has_the_policy(rest):
    box = make(rest, {"rules": [deny("id")]})
    forked = rest.post(f"/api/sandboxes/{box}/fork", {})
    assert forked.status in (200, 201), forked.body
    fork = forked.json["sandboxes"][0]["id"] if "sandboxes" in forked.json else forked.json["id"]
    assert bash(rest, fork, "id").status == 403


def test_bad_policies(rest):
    for bad, word in [({"rule": []}, "rule"), ({"rules": {}}, "array"), ({"rules": [{}]}, "decision"),
                      ({"rules": [deny("")]}, "command"), ({"rules": [deny("a 'b")]}, "quote"),
                      ({"rules": [deny("curl * | sh")]}, "never matches"), ({"rules": [deny("ls; rm *")]}, "more than one command"),
                      ({"rules": [{"decision": "no"}]}, "decision"), ({"default": 1}, "default"),
                      ({"rules": [{"decision": "deny", "path": "etc"}]}, "path"),
                      ({"rules": [deny("a", path="/b")]}, "command"), ({"askSeconds": 0}, "askSeconds"),
                      ({"rules": [deny("a", tools=[])]}, "tools"), ({"rules": [deny("a")] * 65}, "more than 64"),
                      ({"interceptors": [{"url": "ftp://x"}]}, "url"), ({"interceptors": [{}]}, "url"),
                      ({"interceptors": [{"url": "http://x", "when": ["never"]}]}, "when"),
                      ({"interceptors": [{"url": "http://x", "onError": "ask"}]}, "onError")]:
        box = {"toolPolicy": bad}
        for answer in (rest.post("/api/sandboxes", box), rest.put("/api/tools/policy", bad), rest.post("/api/run", {"cmd": ["true"], **box}),
                       rest.post("/api/sessions", {"environment": "Bash", **box}), rest.post("/api/tasks", {"instruction": "x", "sandbox": box}),
                       rest.post("/api/swarms", {"tasks": [{"instruction": "x", "sandbox": box}]})):
            assert answer.status == 400 and word in answer.error["message"], (bad, answer.body)
    assert rest.get("/api/tools/policy").json == {}


# Interceptors.

def hooked(webhook, **more):
    return {"interceptors": [{"name": "ours", "url": webhook.url, **more}]}


def test_webhook_decides(rest, webhook):
    box = make(rest, hooked(webhook, secret="s3cret-of-the-hook", tools="Bash"))
    webhook.use(lambda request: {"decision": "deny", "reason": "not today"} if "rm" in request["arguments"]["command"]
                else {})
    refused = bash(rest, box, "rm x")
    assert refused.status == 403 and "interceptor ours): not today" in refused.error["message"]
    assert bash(rest, box, "echo a").json["text"] == "a\n"
    assert use(rest, box, "LS", path="/").status == 200
    request, body, headers = webhook.seen[0]
    assert len(webhook.seen) == 2 and request["phase"] == "before" and request["tool"] == "Bash"
    assert request["sandboxId"] == box and request["arguments"] == {"command": "rm x"}
    stamp, mac = (part.split("=")[1] for part in headers["X-Atoll-Signature"].split(","))
    assert mac == hmac.new(b"s3cret-of-the-hook", stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    shown = rest.get(f"/api/sandboxes/{box}/tools/policy")
    assert b"s3cret" not in shown.body and shown.json["interceptors"][0]["hasSecret"] is True


def test_webhook_changes_arguments_and_rules_see_them(rest, webhook):
    box = make(rest, {"rules": [deny("id")], **hooked(webhook)})
    webhook.use(lambda request: {"arguments": {"command": request["arguments"]["command"].replace("A", "B")}})
    assert bash(rest, box, "echo A").json["text"] == "B\n"
    assert calls(rest, box)[0]["arguments"] == {"command": "echo B"}
    said = Mcp(rest).tool("run_command", command="echo A", sandbox=box)  # by MCP "sandbox" is none of them
    assert said["content"][0]["text"] == "B\n", said
    webhook.use(lambda request: {"arguments": {**request["arguments"], "command": "echo C"}})
    assert Mcp(rest).tool("run_command", command="echo A", sandbox=box)["content"][0]["text"] == "C\n"
    webhook.use(lambda request: {"arguments": {"command": "id"}})
    assert "rule 1" in bash(rest, box, "echo A").error["message"]
    webhook.use(lambda request: {"arguments": {"command": 1}})
    assert "command must be a string" in bash(rest, box, "echo A").error["message"]


def test_webhook_changes_the_result(rest, webhook):
    box = make(rest, hooked(webhook, when=["after"]))
    webhook.use(lambda request: {"result": {"text": request["result"]["text"].replace("hunter2", "***")}})
    ran = bash(rest, box, "echo hunter2")
    assert ran.json["text"] == "***\n" and b"hunter2" not in ran.body
    assert webhook.seen[0][0]["phase"] == "after" and webhook.seen[0][0]["result"]["data"]["exit_code"] == 0
    webhook.use(lambda request: {"decision": "deny", "reason": "secret"})
    ran = bash(rest, box, "echo hunter2")
    assert ran.json["is_error"] and b"hunter2" not in ran.body and "withheld" in ran.json["text"]


def test_a_webhook_that_fails(rest, webhook):
    closed = make(rest, hooked(webhook))
    opened = make(rest, hooked(webhook, onError="allow"))
    after = make(rest, hooked(webhook, when=["after"]))
    for answer in ((500, b"oops"), (200, b"[]"), (200, b"no json"), {"decision": "maybe"}, {"arguments": []}):
        webhook.use(lambda request, answer=answer: answer)
        assert bash(rest, closed, "echo a").status == 403, answer
        assert bash(rest, opened, "echo a").json["text"] == "a\n", answer
    webhook.use(lambda request: (500, b""))
    assert "withheld" in bash(rest, after, "echo a").json["text"]
    webhook.use(lambda request: (204, b""))
    assert bash(rest, closed, "echo a").json["text"] == "a\n"
    # A slow one, of which nothing stays behind.
    gate = threading.Event()
    webhook.use(lambda request: gate.wait(30) and {})
    slow = make(rest, hooked(webhook, timeoutSeconds=1))
    refused = bash(rest, slow, "echo a")
    gate.set()
    assert refused.status == 403 and "did not answer in time" in refused.error["message"], refused.body


def test_webhooks_reach_public_addresses_only(rest, webhook):
    for url in (f"http://127.0.0.1:{webhook.port + 1}/", f"http://localhost:{webhook.port}/", "http://10.0.0.1/",
                "http://[::1]/", "http://169.254.169.254/"):
        box = make(rest, {"interceptors": [{"name": "far", "url": url}]})
        refused = bash(rest, box, "echo a")
        assert refused.status == 403 and "only public addresses" in refused.error["message"], (url, refused.body)


def test_program_of_the_operator(tmp_path):
    program = tmp_path / "interceptor"
    program.write_text("""#!/usr/bin/python3
import json, sys
r = json.load(sys.stdin)
command = r["arguments"].get("command", "")
if command == "crash":
    sys.exit(3)
if r["phase"] == "before" and "forbidden" in command:
    print(json.dumps({"decision": "deny", "reason": "the operator says no"}))
elif r["phase"] == "after":
    print(json.dumps({"result": {"text": r["result"]["text"].upper()}}))
""")
    program.chmod(0o755)
    with running(BUILD, ATOLL_TOOL_INTERCEPTOR=str(program)) as daemon:
        rest = Rest(daemon.socket)
        box = make(rest)
        assert bash(rest, box, "echo a").json["text"] == "A\n"
        assert "the operator says no" in bash(rest, box, "echo forbidden").error["message"]
        assert "exited with status 3" in bash(rest, box, "crash").error["message"]


def test_a_program_that_fails(tmp_path):
    """It has a time, and the operator chooses what happens without its answer."""
    program = tmp_path / "interceptor"
    program.write_text("""#!/bin/sh
case $(cat) in
*'"phase":"after"'*) ;;
*forbidden*) echo '{"decision": "deny", "reason": "the operator says no"}' ;;
*lasting*) exec sleep 1000 ;;
*nonsense*) echo 'no JSON' ;;
*crash*) exit 3 ;;
esac
""")
    program.chmod(0o755)
    failures = {"echo crash": "exited with status 3", "echo nonsense": "not a JSON object", "echo lasting": "did not answer in time"}
    for allow in ("0", "1"):
        with running(BUILD, ATOLL_TOOL_INTERCEPTOR=str(program), ATOLL_TOOL_INTERCEPTOR_SECONDS="3",
                     ATOLL_TOOL_INTERCEPTOR_ALLOW=allow) as daemon:
            rest = Rest(daemon.socket)
            box = make(rest)
            for command, why in failures.items():
                ran = bash(rest, box, command)
                if allow == "1":
                    assert ran.json["text"] == command.removeprefix("echo ") + "\n", ran.body
                    assert why in daemon.log.read_text()
                else:
                    assert ran.status == 403 and why in ran.error["message"], ran.body
            assert "the operator says no" in bash(rest, box, "echo forbidden").error["message"]
    command = [str(BUILD / "atolld"), "--state", str(tmp_path / "state"), "--socket", str(tmp_path / "sock"),
               "--tool-interceptor", str(program), "--tool-interceptor-seconds", "0"]
    status, words = refusal(command, tmp_path / "said")
    assert status != 0 and "at least 1 second" in words, words


# Records.

def test_records(rest):
    box = make(rest, {"rules": [deny("id")]})
    bash(rest, box, "echo a")
    bash(rest, box, "id")
    use(rest, box, "Read", file_path="/nowhere")
    rows = calls(rest, box)
    assert [row["tool"] for row in rows] == ["Read", "Bash", "Bash"]
    assert [row["state"] for row in rows] == ["failed", "denied", "done"]
    assert [row["decision"] for row in rows] == ["allow", "deny", "allow"]
    assert rows[1]["decided_by"] == "policy of the sandbox, rule 1"
    assert rows[2]["arguments"] == {"command": "echo a"} and rows[2]["result_bytes"] == 2
    assert rows[0]["is_error"] and "does not exist" in rows[0]["reason"] or "No such file" in rows[0]["reason"]
    assert [row["id"] for row in calls(rest, box, "?limit=1")] == [rows[0]["id"]]
    cursor = rest.get(f"/api/sandboxes/{box}/tools/calls?limit=2").json["next_cursor"]
    assert [row["id"] for row in calls(rest, box, f"?limit=2&cursor={cursor}")] == [rows[2]["id"]]
    assert rest.get("/api/tools/calls?limit=1").json["calls"][0]["id"] == rows[0]["id"]
    # They are readable as long as the record of the ended sandbox is.
    assert rest.delete(f"/api/sandboxes/{box}").status in (200, 202, 204)
    wait_until(lambda: rest.get(f"/api/sandboxes/{box}/tools/calls").status == 200, 10, lambda: "no records")
    assert [row["id"] for row in calls(rest, box)] == [row["id"] for row in rows]


def test_a_key_for_agents():
    """It calls tools, by REST and MCP; it neither changes the guard nor gets around it."""
    with listening_daemon() as (daemon, address):
        rest = Rest(daemon.socket)
        box = make(rest, {"rules": [{"decision": "ask", "command": "id"}], "askSeconds": 600})
        made = rest.post("/api/keys", {"tenant": "default", "scope": "tools"})
        assert made.status == 201 and made.json["scope"] == "tools", made.body
        daemon.process.kill()  # the key is stored with its scope
        daemon.process.wait()
        daemon.start()
        agent = Rest(address, {"X-API-Key": made.json["key"]})
        assert bash(agent, box, "echo a").json["text"] == "a\n"
        assert not Mcp(agent).tool("run_command", command="echo b", sandbox=box)["isError"]
        assert agent.get(f"/api/sandboxes/{box}/tools/policy").status == 200
        asking = threading.Thread(target=lambda: quietly(lambda: bash(agent, box, "id")), daemon=True)
        asking.start()
        wait_until(lambda: agent.get("/api/approvals").json["approvals"], 20, lambda: "nothing waits")
        one = agent.get("/api/approvals").json["approvals"][0]["id"]
        for method, path, body in [("POST", f"/api/approvals/{one}", {"decision": "allow"}),
                                   ("PUT", f"/api/sandboxes/{box}/tools/policy", {}),
                                   ("DELETE", f"/api/sandboxes/{box}/tools/policy", None),
                                   ("PUT", "/api/tools/policy", {}), ("DELETE", "/api/tools/policy", None),
                                   ("POST", f"/api/sandboxes/{box}/execs", {"cmd": ["id"]}),
                                   ("POST", "/api/sandboxes", {}), ("POST", "/api/keys", {"tenant": "default", "scope": "write"})]:
            refused = agent.call(method, path, body)
            assert refused.status == 403 and "yours has scope tools" in refused.error["message"], (path, refused.body)
        assert rest.post(f"/api/approvals/{one}", {"decision": "deny"}).status == 200
        asking.join(20)


def test_records_have_no_secrets(rest, guarded):
    box = make(rest)
    secrets = ["hunter2-in-a-url", "hunter2-of-a-header", "hunter2-of-an-option", "hunter2-of-a-variable",
               "hunter2-of-env", "sk-" + "a1b2" * 6]
    command = (f"true https://me:{secrets[0]}@example.org -H 'Authorization: Bearer {secrets[1]}' --password {secrets[2]}; "
               f"DB_PASSWORD={secrets[3]} true; true {secrets[5]} --token $TOKEN")
    assert use(rest, box, "Bash", command=command, env={"API_KEY": secrets[4], "LANG": "C"}).status == 200
    row = calls(rest, box)[0]
    for secret in secrets:
        assert secret not in json.dumps(row), row
    assert row["arguments"]["env"] == {"API_KEY": "[redacted]", "LANG": "C"}
    assert "$TOKEN" in row["arguments"]["command"] and "https://me:[redacted]@example.org" in row["arguments"]["command"]
    long = use(rest, box, "Write", file_path="x", content="y" * 500000)
    assert long.status == 200
    assert len(json.dumps(calls(rest, box)[0]["arguments"])) < 10000


def test_records_of_a_killed_daemon(tmp_path):
    with running(BUILD) as daemon:
        rest = Rest(daemon.socket)
        box = make(rest)
        running_call = threading.Thread(target=lambda: quietly(lambda: bash(rest, box, "sleep 600")), daemon=True)
        running_call.start()
        wait_until(lambda: [row["state"] for row in calls(rest, box)] == ["running"], 20, lambda: "does not run")
        daemon.process.kill()
        daemon.process.wait()
        daemon.start()
        row, = calls(rest, box)
        assert row["state"] == "lost" and "before the result was known" in row["reason"]
        running_call.join(10)


def quietly(what):
    try:
        what()
    except OSError:
        pass
