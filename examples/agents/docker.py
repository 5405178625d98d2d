"""A container of the Docker engine, by the same requests. The image must be one that the engine has or can pull."""

import os

from atoll import call, need_provider, run

need_provider("docker")
box = call("POST", "/api/sandboxes", {"provider": "docker", "image": os.environ.get("IMAGE", "node:20-alpine"),
                                      "networkMode": "none", "limits": {"memoryMB": 512, "cpuCores": 1}})["id"]
try:
    print("In the container:", run(box, "uname", "-s").strip())
finally:
    call("DELETE", f"/api/sandboxes/{box}")
