"""Vercel's SDK against Atoll, next to the same calls against a server of fixed answers, and against one that also
runs the command."""

import statistics

import report
import sdk

NAME = "Vercel's SDK"
POOL = 16


def measure_vercel(fleet, rounds: int) -> dict:
    sdk.install("vercel", NAME)
    url, key = sdk.start_atoll(fleet.stack, fleet.tmp / "vercel", POOL)
    canned = sdk.start_canned(fleet.stack, "canned_vercel.mjs")
    ran = sdk.start_canned(fleet.stack, "canned_vercel.mjs", "run")
    samples = sdk.run(NAME, "vercel.mjs", url, canned, ran, rounds, ATOLL_API_KEY=key)
    result = {}
    for name, values in samples.items():
        result[f"{name}_ms"] = statistics.median(values)
        result[f"{name}_p95_ms"] = report.percentile(values, 95)
        result[f"{name}_p99_ms"] = report.percentile(values, 99)
    for kind in ("life", "kept"):
        for other in ("canned", "ran"):
            result[f"{kind}_{other}_ratio"] = result[f"{kind}_atoll_ms"] / result[f"{kind}_{other}_ms"]
    return result
