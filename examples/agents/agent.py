"""An agent works on an instruction; its output and the files it made come back in one answer."""

from atoll import call

task = call("POST", "/api/tasks?wait=true", {
    "task": "echo 'console.log(\"hello\")' > app.js; echo '{}' > package.json; echo created two files",
    "agent": "shell",  # claude-code, codex … need a key: `atoll secret create ANTHROPIC_API_KEY`
    "agentName": "backend-dev",
    "systemPrompt": "You are a backend developer.",
    "sandboxConfig": {"limits": {"memoryMB": 256, "cpuCores": 0.5}},
    "autoCleanup": True,
    "captureFiles": True,
    "capturePatterns": ["*.js", "*.json"],
})
print("Agent output:", task["output"].strip())
print("Files created:", ", ".join(file["path"] for file in task["files"]))
