"""Limits hold: memory, processor time of a command, disk; and the figures while it runs."""

from atoll import call, run

box = call("POST", "/api/sandboxes", {"limits": {"memoryMB": 128, "cpuCores": 0.5, "diskMB": 64, "timeoutSeconds": 300}})["id"]
try:
    hungry = call("POST", f"/api/sandboxes/{box}/execs?wait=true",
                  {"cmd": ["python3", "-c", "x = bytearray(512 << 20)"]})
    print("512 MiB of memory in a sandbox with 128:", hungry["result"]["kind"])
    slow = call("POST", f"/api/sandboxes/{box}/execs?wait=true", {"cmd": ["sleep", "60"], "timeoutSeconds": 0.5})
    print("A command that takes too long:", slow["result"]["kind"])
    print("A file that does not fit:",
          run(box, "sh", "-c", "dd if=/dev/zero of=/tmp/big bs=1M count=200 2>&1 | grep -o 'No space left on device'").strip())
    stats = call("GET", f"/api/sandboxes/{box}/stats")
    print("Memory limit:", stats["memory"]["limit_bytes"] >> 20, "MiB")
finally:
    call("DELETE", f"/api/sandboxes/{box}")
