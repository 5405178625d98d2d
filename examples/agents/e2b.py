"""A sandbox at E2B, by the same requests. E2B_API_KEY of the daemon, or of this program, is the key."""

import os

from atoll import call, need_provider, run

need_provider("e2b")
own = {"e2b": {"apiKey": os.environ["E2B_API_KEY"]}} if os.environ.get("E2B_API_KEY") else {}
box = call("POST", "/api/sandboxes", {"provider": "e2b", **own})["id"]
try:
    print("At E2B:", run(box, "uname", "-s").strip())
finally:
    call("DELETE", f"/api/sandboxes/{box}")
