"""Tool calls of an agent that runs elsewhere are carried out in a sandbox: paths are mapped, dangerous commands refused,
and every call is recorded."""

import json

from atoll import attempt, call

POLICY = {"rules": [
    {"decision": "deny", "command": "rm * / *", "reason": "Command blocked for safety"},
    {"decision": "deny", "command": "shutdown *", "reason": "Command blocked for safety"},
    {"decision": "deny", "path": "**/.env", "reason": "Secrets are not for agents"},
]}
sandbox = call("POST", "/api/sandboxes", {"toolPolicy": POLICY})["id"]


def use(tool, **arguments):
    """A tool call, with the paths of the agent's machine."""
    return attempt("POST", f"/api/sandboxes/{sandbox}/tools/{tool}?map=/repo:/home/user/repo", arguments)


for tool, arguments in [("Write", {"file_path": "/repo/app.py", "content": "print('hello')\n"}),
                        ("Bash", {"command": "python3 app.py 2>/dev/null || cat app.py"}),
                        ("Bash", {"command": "true; sudo rm -rf /"}),
                        ("Read", {"file_path": "/repo/.env"}),
                        ("Read", {"file_path": "/etc/passwd"})]:
    status, answer = use(tool, **arguments)
    print(tool, json.dumps(arguments), "->", answer["text"].strip() if status == 200 else answer["error"]["message"])

for row in reversed(call("GET", f"/api/sandboxes/{sandbox}/tools/calls")["calls"]):
    print("recorded:", row["tool"], row["state"], row["decided_by"])
call("DELETE", f"/api/sandboxes/{sandbox}")
