"""E2B's SDK for JavaScript against Atoll, next to the same calls against a server of fixed answers."""

import statistics

import report
import sdk

NAME = "E2B's SDK"
POOL = 64  # for all of the creates at once


def measure_e2b(fleet, rounds: int, burst: int) -> dict:
    sdk.install("e2b", NAME)
    url, key = sdk.start_atoll(fleet.stack, fleet.tmp / "e2b", POOL)
    key = "e2b_" + key.removeprefix("atl_").encode().hex()
    canned = sdk.start_canned(fleet.stack, "canned.mjs")
    answer = sdk.run(NAME, "e2b.mjs", url, canned, rounds, burst, E2B_API_KEY=key)
    samples = answer["samples"]
    result = {f"{name}_ms": statistics.median(values) for name, values in samples.items()}
    for kind in ("life", "code"):
        result[f"{kind}_ratio"] = result[f"{kind}_atoll_ms"] / result[f"{kind}_canned_ms"]
    result |= {"asked": burst, "alive": answer["alive"], "error": answer.get("error")}
    for name in ("atoll", "canned"):
        result[f"burst_{name}_p99_ms"] = report.percentile(samples[f"burst_{name}"], 99)
    result["burst_ratio"] = result["burst_atoll_p99_ms"] / result["single_ms"]
    return result
