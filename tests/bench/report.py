"""Percentiles, ratios, targets; the table and the JSON."""

import os
import platform
import re
import statistics
from dataclasses import dataclass
from pathlib import Path

import helpers

COLUMNS = ("floor", "spawn", "bwrap")  # contenders that the others are compared with


@dataclass
class Target:
    """`at_most` or `at_least` a bound; the value is a ratio of two p50s or a figure of its own."""
    text: str
    # ("ratio", a, b): p50 of a / p50 of b; ("figure", measurement, key, divisor), where the key may be "part.key"
    value: tuple
    bound: float
    at_most: bool
    unit: str = "×"


DISKS = {"cow": "pool", "memory": "memory", "image": "image"}

TARGETS = (
    Target("create, true, destroy / floor", ("ratio", "atoll-life", "floor"), 1.6, True),
    Target("atoll run / bwrap", ("ratio", "atoll-run", "bwrap"), 2, True),
    Target("docker run / atoll run", ("ratio", "docker", "atoll-run"), 25, False),
    Target("exec over HTTP / posix_spawn, wait", ("ratio", "atoll-exec", "spawn"), 2, True),
    Target("memory per idle sandbox", ("figure", "memory", "bytes_each", 1e6), 1, True, " MB"),
    Target("sandboxes alive at once", ("figure", "alive", "alive", 1), 1000, False, ""),
    Target("creates per second, 16 at a time",
           ("figure", "throughput", "creates_per_second_16", 1), 200, False, "/s"),
    Target("/healthz a second / nginx", ("figure", "http", "http_ratio", 1), 0.5, False),
    Target("the same over TLS / nginx", ("figure", "http", "https_ratio", 1), 0.5, False),
    Target("E2B's create, run, kill / canned", ("figure", "e2b", "life_ratio", 1), 1.5, True),
    Target("E2B's warm runCode / canned", ("figure", "e2b", "code_ratio", 1), 1.5, True),
    Target("E2B's creates at once", ("figure", "e2b", "alive", 1), 50, False, ""),
    Target("their p99 / one alone", ("figure", "e2b", "burst_ratio", 1), 20, True),
    Target("Daytona's create, run, delete / canned", ("figure", "daytona", "kept_ratio", 1), 1.5,
           True),
    Target("the same, ephemeral", ("figure", "daytona", "life_ratio", 1), 1.5, True),
    Target("Vercel's create, node -v, stop / canned", ("figure", "vercel", "life_canned_ratio", 1), 1.5,
           True),
    Target("the same / canned that runs node -v", ("figure", "vercel", "life_ran_ratio", 1), 1.5, True),
    Target("preview / nginx as a proxy", ("figure", "preview", "ratio", 1), 0.5, False),
    Target("upload / cat through a socket", ("figure", "transfer", "upload_ratio", 1), 0.5, False),
    Target("download / the same", ("figure", "transfer", "download_ratio", 1), 0.5, False),
    Target("memory it takes", ("figure", "transfer", "grown_bytes", 1e6), 16, True, " MB"),
    Target("create with a network / without", ("figure", "network", "create_ratio", 1), 1.3, True),
    Target("one connection / HAProxy, splice", ("figure", "network", "speed_ratio", 1), 0.7, False),
    Target("added to a connection", ("figure", "network", "added_ms", 1), 0.3, True, " ms"),
    Target("connections open at once", ("figure", "network", "open", 1), 1000, False, ""),
    Target("memory a network takes", ("figure", "network", "memory_bytes", 1e3), 30, True, " KB"),
    Target("exec in docker / docker exec", ("figure", "providers", "exec_ratio", 1), 1.3, True),
    Target("upload to docker / docker cp", ("figure", "providers", "up_ratio", 1), 1.3, True),
    Target("download from it / the same", ("figure", "providers", "down_ratio", 1), 1.3, True),
    Target("create, pooled container / docker run", ("figure", "providers", "create_ratio", 1), 0.1,
           True),
    Target("create, ten layers / host", ("figure", "layers", "ratio", 1), 1.2, True),
    Target("build with nothing changed", ("figure", "rebuild", "again_ms", 1), 50, True, " ms"),
    Target("unpack, large files / tar", ("figure", "unpack", "large_ratio", 1), 0.8, False),
    Target("the same, gzip", ("figure", "unpack", "large_gzip_ratio", 1), 0.8, False),
    Target("unpack, many files / tar", ("figure", "unpack", "small_ratio", 1), 0.8, False),
    Target("the same, gzip", ("figure", "unpack", "small_gzip_ratio", 1), 0.8, False),
    Target("200 templates on one / its bytes", ("figure", "shared", "ratio", 1), 1.1, True),
    Target("snapshot in the pool, frozen", ("figure", "state", "cow.frozen_ms", 1), 10, True, " ms"),
    *(Target(f"create from it / ordinary, {disk}", ("figure", "state", f"{kind}.create_of_it_ratio", 1), 1.2, True)
      for kind, disk in DISKS.items()),
    Target("100 forks / as many creates, pool", ("figure", "state", "cow.fork_ratio", 1), 1, True),
    *(Target(f"forks / as many of one, {disk}", ("figure", "state", f"{kind}.linear_ratio", 1), 1, True)
      for kind, disk in DISKS.items() if kind != "cow"),
    *(Target(f"cp -a / snapshot, {disk}", ("figure", "state", f"{kind}.copy_ratio", 1), 0.8, False)
      for kind, disk in DISKS.items() if kind != "cow"),
    Target("undo in the pool, more than a create", ("figure", "state", "cow.undo_added_ms", 1), 15, True, " ms"),
    Target("checkpoint in the pool, after flush", ("figure", "state", "cow.checkpoint_after_flush_ms", 1), 3, True,
           " ms"),
    Target("forks that change 1 MB take / 1 MB", ("figure", "state", "cow.grown_ratio", 1), 1.1, True),
    Target("tool Bash / exec of the same", ("figure", "tools", "bash_ratio", 1), 1.5, True),
    Target("tool by MCP / by REST", ("figure", "tools", "mcp_ratio", 1), 2, True),
    Target("task, clone to push / a script", ("figure", "tasks", "ratio", 1), 1.3, True),
    Target("create with modules / plain, of the pool", ("figure", "warm", "ratio", 1), 1.5, True),
    Target("buildah / build of ten steps", ("figure", "builders", "buildah_ratio", 1), 1, False),
    Target("docker build / the same", ("figure", "builders", "docker_ratio", 1), 1, False),
)


def percentile(samples: list, p: float) -> float:
    """Nearest rank: always a time that was really measured."""
    ordered = sorted(samples)
    return ordered[max(0, -(-int(p * len(ordered)) // 100) - 1)]


def summarize(samples: list) -> dict:
    return {"rounds": len(samples), "p50_ms": statistics.median(samples),
            "p95_ms": percentile(samples, 95), "min_ms": min(samples), "samples_ms": samples}


def host() -> dict:
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*:\s*(.*)", cpuinfo)
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    kinds = {"v2" if (m / "cgroup.controllers").exists() else "v1"
             for m in helpers.cgroup_mounts()}
    return {"kernel": platform.release(), "cpus": os.cpu_count(),
            "cpu": model.group(1) if model else "unknown",
            "memory_bytes": int(memory.group(1)) * 1024, "cgroups": sorted(kinds),
            "load_before": os.getloadavg()[0]}


def parts(target: Target) -> set:
    """The measurements a target needs."""
    kind, name, other, *_ = target.value
    return {name, other} if kind == "ratio" else {name}


def value_of(target: Target, data: dict):
    kind, name, other, *rest = target.value
    if kind == "ratio":
        times = data["contenders"]
        if name not in times or other not in times:
            return None
        return times[name]["p50_ms"] / times[other]["p50_ms"]
    if name not in data["scale"]:
        return None
    figure = data["scale"][name]
    for key in other.split("."):
        figure = None if figure is None else figure.get(key)  # a contender may be missing
    return None if figure is None else figure / rest[0]


def judge(target: Target, data: dict) -> dict:
    value = value_of(target, data)
    asked = data["scale"].get(target.value[1], {}).get("asked", target.bound)
    if value is None or asked < target.bound:
        verdict = "not measured"
    else:
        met = value <= target.bound if target.at_most else value >= target.bound
        verdict = "PASS" if met else "short of target"
    return {"target": target.text, "value": value, "bound": target.bound, "unit": target.unit,
            "at_most": target.at_most, "verdict": verdict}


def implausible(times: dict) -> list:
    """Nothing that does the work of the floor is faster than the floor."""
    suspects = [n for n in ("atoll-life", "atoll-request") if "floor" in times and n in times]
    return [f"{n} is faster than the floor: does it do the work?" for n in suspects
            if times[n]["p50_ms"] < times["floor"]["p50_ms"]]


def collect(facts: dict, contenders: list, scale: dict, asked: list, bench) -> dict:
    facts = {**facts, "load_after": os.getloadavg()[0]}
    times = {c.name: {"label": c.label, **summarize(c.samples)} for c in contenders if c.samples}
    for c in contenders:
        if c.name in times and c.hello:
            times[c.name]["detail"] = c.hello
    data = {"host": facts, "contenders": times, "scale": scale}
    data["ratios"] = {a: {b: times[a]["p50_ms"] / times[b]["p50_ms"] for b in times} for a in times}
    data["targets"] = [judge(t, data) for t in TARGETS if parts(t) <= set(asked)]
    data["not_measured"] = dict(bench.problems)
    data["notes"] = bench.notes + implausible(times)
    return data


def table(data: dict) -> list:
    head = f"{'':44}{'rounds':>7}{'p50 ms':>10}{'p95 ms':>10}"
    columns = [c for c in COLUMNS if c in data["contenders"]]
    docker = "docker" in data["contenders"]  # the slowest: "times faster" reads better there
    lines = [head + "".join(f"{'/' + c:>10}" for c in columns) + ("   docker/" if docker else "")]
    for name, row in data["contenders"].items():
        line = f"{row['label']:44}{row['rounds']:7}{row['p50_ms']:10.3f}{row['p95_ms']:10.3f}"
        line += "".join(f"{data['ratios'][name][c]:10.2f}" for c in columns)
        lines.append(line + (f"{data['ratios']['docker'][name]:10.1f}" if docker else ""))
    return lines


def template_lines(scale: dict) -> list:
    lines = []
    if "layers" in scale:
        m = scale["layers"]
        lines.append(f"create, {m['layers']} layers          {m['layers_ms']:.2f} ms, host template "
                     f"{m['host_ms']:.2f} ms")
    if "rebuild" in scale:
        r = scale["rebuild"]
        lines.append(f"atoll build, ten steps      {r['first_ms']:.0f} ms, again {r['again_ms']:.1f} ms, "
                     f"at least {r['least_ms']:.1f} ms")
    if "unpack" in scale:
        u = scale["unpack"]
        lines.append(f"unpack {u['bytes'] >> 20} MiB              large files "
                     f"{u['large_mb_per_second']:.0f} MB/s, many files {u['small_mb_per_second']:.0f} MB/s")
    if "state" in scale:
        s = scale["state"]
        for kind in ("cow", "memory", "image"):
            k = s[kind]
            lines.append(f"100 MB, 5,000 files, {kind:<6}  cp -a {k['copy_ms']:.0f} ms; snapshot "
                         f"{k['snapshot_ms']:.0f} ms, frozen {k['frozen_ms']:.1f} ms, before {k['flush_ms']:.0f} ms; after 1 MB more {k['again_ms']:.0f} ms, frozen "
                         f"{k['again_frozen_ms']:.1f} ms; {k['copy_ratio']:.2f} times the speed of cp -a")
            lines.append(f"  create {k['create_ms']:.2f} ms, from it {k['create_of_it_ratio']:.2f} times; a fork {k['fork_one_ms']:.1f} ms; "
                         f"{k['forks']} in one request {k['fork_ms']:.0f} ms, {k['fork_ratio']:.2f} times a create each "
                         f"(as many creates {k['creates_ms']:.0f} ms); with 1 MB changed in each {k['grown_bytes'] / (1 << 20):.0f} MiB more")
            lines.append(f"  checkpoint of a command {k['checkpoint_ms']:.1f} ms, after the flush {k['checkpoint_after_flush_ms']:.1f} ms, "
                         f"frozen {k['checkpoint_frozen_ms']:.1f} ms (the command {k['command_ms']:.1f} ms); undo "
                         f"{k['undo_ms']:.1f} ms, {k['undo_added_ms']:.1f} ms more than a create")
    if "tools" in scale:
        t = scale["tools"]
        lines.append(f"exec {t['exec_ms']:.2f} ms, tool Bash {t['bash_ms']:.2f} ms, with 20 rules {t['policed_ms']:.2f} ms, "
                     f"by MCP {t['mcp_ms']:.2f} ms")
    if "tasks" in scale:
        t = scale["tasks"]
        lines.append(f"clone to push, as a task    {t['ms']['task']:.0f} ms, by a script {t['ms']['script']:.0f} ms")
    if "warm" in scale:
        w = scale["warm"]
        lines.append(f"{w['count']} with {w['modules']} of the pool   {w['warm_ms']:.0f} ms, plain ones {w['plain_ms']:.0f} ms; "
                     f"first code {w['first_code_ms']:.1f} ms; {w['pss_bytes'] / 1e6:.1f} MB PSS each, "
                     f"{w['cgroup_bytes'] / 1e6:.1f} MB in its cgroup")
    if "shared" in scale:
        s = scale["shared"]
        lines.append(f"{s['templates']} templates on one        {s['bytes'] / 1e6:.1f} MB, it alone "
                     f"{s['base_bytes'] / 1e6:.1f} MB; {s['each_ms']:.0f} ms each")
    if "builders" in scale:
        b = scale["builders"]
        lines.append("ten steps, without network  " + ", ".join(
            f"{name} {b[f'{name}_ms']:.0f} ms" if f"{name}_ms" in b else f"{name}: {b[f'{name}_problem']}"
            for name in ("atoll", "buildah", "docker")))
    return lines


def scale_lines(scale: dict) -> list:
    lines = template_lines(scale)
    if "memory" in scale:
        m = scale["memory"]
        lines.append(f"memory per idle sandbox     {m['bytes_each'] / 1e6:.3f} MB "
                     f"(± {m['noise_bytes_each'] / 1e6:.3f}, over {m['sandboxes']}), "
                     f"{m['kmalloc_1k_each']:.1f} of kmalloc-1k")
    if "throughput" in scale:
        t = scale["throughput"]
        for jobs in (1, 16):
            lines.append(f"{jobs:2} at a time                "
                         f"{t[f'creates_per_second_{jobs}']:.0f} creates/s, "
                         f"{t[f'destroys_per_second_{jobs}']:.0f} destroys/s")
    if "http" in scale:
        h = scale["http"]
        for scheme in ("http", "https"):
            lines.append(f"{scheme}, one core, {h['connections']} connections: "
                         f"{h[f'{scheme}_atoll_per_second']:.0f}/s, "
                         f"nginx {h[f'{scheme}_nginx_per_second']:.0f}/s")
    if "preview" in scale:
        p = scale["preview"]
        lines.append(f"preview, {p['connections']} connections: {p['atoll_per_second']:.0f}/s, "
                     f"nginx as a proxy {p['nginx_per_second']:.0f}/s")
    if "transfer" in scale:
        t = scale["transfer"]
        speed = {n: t[f"{n}_bytes_per_second"] / 1e6 for n in ("upload", "download", "cat")}
        lines.append(f"a file of {t['bytes'] >> 20} MiB: up {speed['upload']:.0f} MB/s, down "
                     f"{speed['download']:.0f} MB/s, cat through a socket {speed['cat']:.0f} MB/s")
    if "network" in scale:
        n = scale["network"]
        lines.append(f"create with a network        {n['create_ms']['bridge']:.2f} ms, without "
                     f"{n['create_ms']['none']:.2f} ms; {n['memory_bytes'] / 1e3:.0f} KB more each")
        for title, key, unit in (("one connection", "mb_per_second", "MB/s"),
                                 ("connect, a byte each way", "latency_ms", "ms")):
            f = n[key]
            lines.append(f"{title:28}{f['egress']:.2f} {unit}, HAProxy {f['haproxy']:.2f} {unit}, "
                         f"no proxy {f['direct']:.2f} {unit}")
    if "providers" in scale:
        p = scale["providers"]
        for ours, theirs in (("exec", "docker_exec"), ("up", "docker_up"), ("down", "docker_down"),
                             ("create", "docker_run")):
            lines.append(f"{ours + ', docker':28}{p[f'{ours}_ms']:.1f} ms, "
                         f"{theirs.replace('_', ' ')} {p[f'{theirs}_ms']:.1f} ms")
    if "e2b" in scale:
        e = scale["e2b"]
        lines.append(f"E2B's SDK: create, run, kill  {e['life_atoll_ms']:.2f} ms, canned "
                     f"{e['life_canned_ms']:.2f} ms; runCode {e['code_atoll_ms']:.2f} ms, canned "
                     f"{e['code_canned_ms']:.2f} ms")
        lines.append(f"E2B's SDK: {e['alive']} of {e['asked']} creates at once, p99 "
                     f"{e['burst_atoll_p99_ms']:.1f} ms, canned {e['burst_canned_p99_ms']:.1f} ms, "
                     f"one alone {e['single_ms']:.2f} ms"
                     + (f"; first error: {e['error']}" if e["error"] else ""))
    if "daytona" in scale:
        d = scale["daytona"]
        for kind, title in (("life", "ephemeral"), ("kept", "kept disk")):
            lines.append(f"Daytona's SDK: create, run, delete, {title}: {d[f'{kind}_atoll_ms']:.2f} ms, "
                         f"p99 {d[f'{kind}_atoll_p99_ms']:.2f} ms; canned "
                         f"{d[f'{kind}_canned_ms']:.2f} ms, p99 {d[f'{kind}_canned_p99_ms']:.2f} ms; "
                         f"create and run {d[f'{kind}_first_ms']:.2f} ms, p99 "
                         f"{d[f'{kind}_first_p99_ms']:.2f} ms (Daytona says 90 ms)")
    if "vercel" in scale:
        v = scale["vercel"]
        for kind, title in (("life", "not persistent"), ("kept", "persistent")):
            lines.append(f"Vercel's SDK: create, node -v, stop, {title}: {v[f'{kind}_atoll_ms']:.2f} ms, "
                         f"canned {v[f'{kind}_canned_ms']:.2f} ms, canned with node -v {v[f'{kind}_ran_ms']:.2f} ms "
                         f"({v[f'{kind}_canned_ratio']:.2f} and {v[f'{kind}_ran_ratio']:.2f} times); time to interactive "
                         f"{v[f'{kind}_first_atoll_ms']:.2f} ms, p95 {v[f'{kind}_first_atoll_p95_ms']:.2f}, "
                         f"p99 {v[f'{kind}_first_atoll_p99_ms']:.2f} (published, over the internet: Vercel 1750, "
                         f"1930, 1980; Daytona 110, 280, 290; E2B 440, 850, 990; the median of Modal 2660)")
    for name, steps in scale.get("creation", {}).items():
        lines.append(f"create at {name:<17} {steps['create_ms']:.1f} ms, first command {steps['exec_ms']:.1f} ms")
    if "many" in scale:
        m = scale["many"]
        lines.append(f"many on one daemon          {m['alive']} of {m['sandboxes']}, creates "
                     f"{m['creates_per_second_first']:.0f}/s at first, "
                     f"{m['creates_per_second_last']:.0f}/s at last, "
                     f"{list(m['bytes_each'].values())[-1] / 1e6:.2f} MB each, "
                     f"{m['kmalloc_1k_each']:.1f} kmalloc-1k each")
    if "alive" in scale:
        a = scale["alive"]
        lines.append(f"alive at once               {a['alive']} of {a['asked']}"
                     f" (created in {a['create_seconds']:.1f} s)"
                     + (f"; first error: {a['first_error']}" if a["first_error"] else ""))
    return lines


def target_lines(data: dict) -> list:
    lines = []
    for t in data["targets"]:
        bound = f"{'≤' if t['at_most'] else '≥'} {t['bound']:g}{t['unit']}"
        value = "" if t["value"] is None else f"{t['value']:.2f}{t['unit']}"
        lines.append(f"{t['verdict']:16} {t['target']:34} {value:>12}   ({bound})")
    return lines


def text(data: dict) -> str:
    h = data["host"]
    lines = [f"{h['cpus']} CPUs ({h['cpu']}), {h['memory_bytes'] / 2**30:.0f} GiB, "
             f"Linux {h['kernel']}, cgroup {'+'.join(h['cgroups'])}, "
             f"load {h['load_before']:.1f} before and {h['load_after']:.1f} after", ""]
    if data["contenders"]:
        lines += table(data) + [""]
    detail = [f"{name}: {row['detail']}" for name, row in data["contenders"].items()
              if "detail" in row]
    for part in (detail, scale_lines(data["scale"])):
        lines += part + [""] if part else []
    lines += target_lines(data)
    for name, why in data["not_measured"].items():
        lines.append(f"could not measure {name}: {why}")
    lines += [f"note: {n}" for n in data["notes"]]
    return "\n".join(lines)
