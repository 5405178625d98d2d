#!/bin/sh
# Create, run and destroy in three processes, which pass nothing but JSON.
set -eu
cd "$(dirname "$0")"
python3 -c '
import json; from atoll import call
print(json.dumps(call("POST", "/api/sandboxes", {})))' |
python3 -c '
import json, sys; from atoll import run
box = json.load(sys.stdin)
print(json.dumps({"id": box["id"], "stdout": run(box["id"], "echo", "hello")}))' |
python3 -c '
import json, sys; from atoll import call
result = json.load(sys.stdin)
call("DELETE", "/api/sandboxes/" + result["id"])
print(result["stdout"], end="")'
