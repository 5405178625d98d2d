"""Many sandboxes at once: memory of idle ones, creates per second, a thousand alive."""

import re
import statistics
import time
from pathlib import Path

from helpers import BenchError

ANSWER = re.compile(r"done (\d+) failed (\d+) seconds ([\d.]+)(?: first error: (.*))?$")


class Fleet:
    """The fleet mode of the client, see client_fleet.c."""

    def __init__(self, stack, bench, daemon="cold"):
        self.stack, self.tmp = stack, bench.tmp
        self.another = lambda: Fleet(stack, bench, daemon)
        self.helper = bench.client(getattr(bench.daemons, daemon)().socket, "fleet")
        stack.callback(self.helper.close)

    def ask(self, command: str) -> dict:
        match = ANSWER.match(self.helper.ask(command))
        if not match:
            raise BenchError(f"unexpected answer to {command}")
        done, failed, seconds, error = match.groups()
        return {"done": int(done), "failed": int(failed), "seconds": float(seconds), "error": error}

    def all_of(self, command: str) -> dict:
        answer = self.ask(command)
        if answer["failed"]:
            raise BenchError(f"{command}: {answer['failed']} failed, first: {answer['error']}")
        return answer


def mem_available() -> int:
    text = Path("/proc/meminfo").read_text()
    return int(re.search(r"MemAvailable:\s+(\d+) kB", text).group(1)) * 1024


def settled_memory() -> tuple:
    """MemAvailable once it has stopped moving, and how much it still moved between two looks."""
    last = mem_available()
    for _ in range(10):
        time.sleep(1)  # the kernel folds its per-CPU counters about once a second
        now = mem_available()
        drift, last = abs(now - last), now
        if drift < 1 << 20:
            break
    return last, drift


def slab_objects(name: str) -> int:
    """Objects in use of one of the kernel's caches; 0 where that is not told."""
    match = re.search(rf"^{name} +(\d+)", Path("/proc/slabinfo").read_text(), re.M)
    return int(match.group(1)) if match else 0


def measure_memory(fleet: Fleet, count: int) -> dict:
    fleet.all_of("create 20 4")  # slabs and page cache that any first sandbox brings along
    fleet.all_of("destroy 4")
    before, drift_before = settled_memory()
    slots = slab_objects("kmalloc-1k")  # where memory cgroups keep a place for every file system
    fleet.all_of(f"create {count} 4")
    after, drift_after = settled_memory()
    slots = slab_objects("kmalloc-1k") - slots
    fleet.all_of("exec 4")  # proof that they are sandboxes and not just records
    fleet.all_of("destroy 4")
    used, noise = before - after, drift_before + drift_after
    if used < 2 * noise or used <= 0:
        raise BenchError(f"{count} sandboxes took {used / 1e6:.1f} MB, but the machine's memory "
                         f"moved by {noise / 1e6:.1f} MB on its own")
    return {"sandboxes": count, "bytes_each": used / count, "noise_bytes_each": noise / count,
            "kmalloc_1k_each": slots / count}


def measure_throughput(fleet: Fleet, count: int, repeats: int) -> dict:
    result = {"sandboxes": count, "repeats": repeats}
    for jobs in (1, 16):
        rates = {"create": [], "destroy": []}
        for _ in range(repeats):
            rates["create"].append(count / fleet.all_of(f"create {count} {jobs}")["seconds"])
            rates["destroy"].append(count / fleet.all_of(f"destroy {jobs}")["seconds"])
        for verb, values in rates.items():
            result[f"{verb}s_per_second_{jobs}"] = statistics.median(values)
    return result


def measure_alive(fleet: Fleet, count: int) -> dict:
    """How many of `count` run a command while all exist. Fewer is a result, not an error."""
    created = fleet.ask(f"create {count} 16")
    answered = fleet.ask("exec 16")
    fleet.ask("destroy 16")
    return {"asked": count, "created": created["done"], "alive": answered["done"],
            "create_seconds": created["seconds"],
            "first_error": created["error"] or answered["error"]}


def measure_many(fleet: Fleet, count: int, step: int = 500) -> dict:
    """`count` on one daemon: more than one block of id ranges, in steps, to see what the last cost."""
    before, _ = settled_memory()
    slots = slab_objects("kmalloc-1k")  # as above
    fleets, rates, each = [], [], {}
    for alive in range(step, count + 1, step):
        fleets.append(fleet.another())
        rates.append(step / fleets[-1].all_of(f"create {step} 4")["seconds"])
        each[alive] = (before - mem_available()) / alive
    slots = slab_objects("kmalloc-1k") - slots
    answered = [part.ask("exec 4") for part in fleets]
    destroying = sum(part.all_of("destroy 4")["seconds"] for part in fleets)
    return {"sandboxes": count, "alive": sum(one["done"] for one in answered),
            "creates_per_second_first": rates[0], "creates_per_second_last": rates[-1],
            "bytes_each": each, "kmalloc_1k_each": slots / count,
            "destroys_per_second": count / destroying,
            "first_error": next((one["error"] for one in answered if one["error"]), None)}
