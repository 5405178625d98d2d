"""Daytona's SDK for TypeScript against Atoll, next to the same calls against a server of fixed answers."""

import statistics

import report
import sdk

NAME = "Daytona's SDK"
POOL = 16


def measure_daytona(fleet, rounds: int) -> dict:
    sdk.install("daytona", NAME)
    url, key = sdk.start_atoll(fleet.stack, fleet.tmp / "daytona", POOL)
    canned = sdk.start_canned(fleet.stack, "canned_daytona.mjs")
    samples = sdk.run(NAME, "daytona.mjs", f"{url}/daytona", f"{canned}/daytona", rounds, DAYTONA_API_KEY=key)
    result = {}
    for name, values in samples.items():
        result[f"{name}_ms"] = statistics.median(values)
        result[f"{name}_p99_ms"] = report.percentile(values, 99)
    for kind in ("life", "kept"):
        result[f"{kind}_ratio"] = result[f"{kind}_atoll_ms"] / result[f"{kind}_canned_ms"]
    return result
