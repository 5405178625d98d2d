#!/usr/bin/env python3
"""A hook of Claude Code (PreToolUse): its tools work in a sandbox instead of this machine. README.md says how to use it.

ATOLL_SANDBOX is the sandbox, ATOLL_MAP maps paths (/repo:/home/user/repo). ATOLL_URL and ATOLL_API_KEY say where the
daemon is; without them, ATOLL_SOCKET is used."""

import base64
import json
import os
import shlex
import sys
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "agents"))
from atoll import attempt  # noqa: E402

# What the sandbox does. Other tools of Claude Code (Task, TodoWrite …) touch no files.
REDIRECTED = {"Bash", "Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "Glob", "Grep", "LS", "WebFetch",
              "BashOutput", "KillShell"}
# Arguments that mean nothing in the sandbox.
IGNORED = {"dangerouslyDisableSandbox", "multiline", "type", "pages", "prompt", "filter"}


def use(tool, arguments):
    path = f"/api/sandboxes/{os.environ['ATOLL_SANDBOX']}/tools/{tool}"
    if mapping := os.environ.get("ATOLL_MAP"):
        path += "?map=" + quote(mapping, safe="")
    status, answer = attempt("POST", path, {name: value for name, value in arguments.items() if name not in IGNORED})
    if status != 200:
        return answer["error"]["message"], {}, True
    return answer["text"], answer.get("data") or {}, answer["is_error"]


def run(encoded):
    """The command that takes the place of a command of Bash: prints what the one in the sandbox prints."""
    text, data, failed = use("Bash", json.loads(base64.b64decode(encoded)))
    if "exit_code" in data:
        sys.stdout.write(data["stdout"])
        sys.stderr.write(data["stderr"])
        sys.exit(data["exit_code"])
    (sys.stderr if failed else sys.stdout).write(text + "\n")
    sys.exit(1 if failed else 0)


def decide(call):
    """Bash gets another command; of the other tools the result is given as the reason why the local one does not run."""
    tool, arguments = call["tool_name"], call["tool_input"]
    if tool not in REDIRECTED:
        return None
    if tool == "Bash" and not arguments.get("run_in_background"):
        encoded = base64.b64encode(json.dumps(arguments).encode()).decode()
        command = shlex.join([sys.executable, str(Path(__file__).resolve()), "--run", encoded])
        return {"permissionDecision": "allow", "updatedInput": {**arguments, "command": command}}
    text, _, failed = use(tool, arguments)
    said = "failed" if failed else "was carried out"
    return {"permissionDecision": "deny",
            "permissionDecisionReason": f"{tool} {said} in the sandbox, where all tools of this session work. Result:\n{text}"}


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--run":
        run(sys.argv[2])
    decision = decide(json.load(sys.stdin))
    if decision:
        print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}}))


try:
    main()
except (OSError, KeyError, ValueError) as e:
    # Status 2 stops the tool: it must not run on this machine because the sandbox is not there.
    print(f"the sandbox does not answer: {e!r}", file=sys.stderr)
    sys.exit(2)
