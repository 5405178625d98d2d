"""Files that match a pattern are kept when a sandbox ends."""

from atoll import call, run

box = call("POST", "/api/sandboxes", {"artifacts": ["*.js", "**/*.json"], "workdir": "/workspace"})["id"]
run(box, "sh", "-c", "mkdir config; echo 1 > app.js; echo '{}' > config/a.json; echo no > notes.txt")
call("DELETE", f"/api/sandboxes/{box}")
for file in call("GET", f"/api/artifacts/{box}")["files"]:
    print(file["path"], file["size"])
