"""/metrics, /healthz, /readyz, traces and logs of a running daemon."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest
from conftest import descendants, wait_until
from listening import listening_daemon
from rest import Rest

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def started():
    with listening_daemon(ATOLL_LOG_LEVEL="debug") as (daemon, address):
        yield daemon, address


@pytest.fixture
def rest(started):
    return Rest(started[0].socket)


LINE = re.compile(r'^([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)+)\})? (\S+)$')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\\n]|\\.)*)"')


def metrics(rest):
    """{(name, labels): value}; every line is checked for its form."""
    answer = rest.get("/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    values, types = {}, {}
    for line in answer.body.decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name not in types, "a metric comes in one piece"
            types[name] = kind
        elif not line.startswith("# HELP "):
            match = LINE.match(line)
            assert match, line
            base = re.sub(r"_(bucket|sum|count)$", "", match[1])
            assert match[1] in types or types.get(base) == "histogram", line
            key = match[1], frozenset(LABEL.findall(match[2] or ""))
            assert key not in values, line
            values[key] = float(match[3])
    return values


def value(values, name, **labels):
    return values.get((name, frozenset(labels.items())), 0)


def test_counts(rest):
    before = metrics(rest)
    box = rest.post("/api/sandboxes", {}).json["id"]
    path = f"/api/sandboxes/{box}"
    rest.post(f"{path}/execs", {"cmd": ["sh", "-c", "echo 12345; exit 3"]}, wait="true")
    rest.post(f"{path}/execs", {"cmd": ["/does/not/exist"]})
    rest.put(f"{path}/files", b"x" * 1000, path="a")
    rest.get(f"{path}/files", path="a")
    now = metrics(rest)

    def grown(name, **labels):
        return value(now, name, **labels) - value(before, name, **labels)

    assert grown("atoll_sandbox_create_seconds_count", provider="native") == 1
    assert grown("atoll_sandbox_create_seconds_bucket", provider="native", le="+Inf") == 1
    assert 0 < grown("atoll_sandbox_create_seconds_sum", provider="native") < 60
    assert grown("atoll_exec_start_seconds_count", provider="native") == 1
    assert grown("atoll_exec_start_errors_total", provider="native", kind="not_found") == 1
    assert grown("atoll_exec_seconds_count") == 1
    assert grown("atoll_execs_ended_total", kind="exited") == 1
    assert grown("atoll_events_total", kind="sandbox.created") == 1
    assert value(now, "atoll_sandboxes", provider="native", state="running") == 1
    assert value(now, "atoll_queue_length", kind="create") == 0
    assert grown("atoll_http_requests_total", method="POST", route="/api/sandboxes",
                 status="201") == 1
    assert grown("atoll_http_requests_total", method="POST", route="/api/sandboxes/{id}/execs",
                 status="200") == 1
    assert grown("atoll_http_request_seconds_count", method="POST",
                 route="/api/sandboxes/{id}/execs") == 2
    assert grown("atoll_errors_total", kind="not_found") == 1
    assert grown("atoll_bytes_total", what="exec", direction="out") == 6
    assert grown("atoll_bytes_total", what="files", direction="in") == 1000
    assert grown("atoll_bytes_total", what="files", direction="out") == 1000
    assert grown("atoll_bytes_total", what="api", direction="in") > 50
    rest.delete(path)
    now = metrics(rest)
    assert value(now, "atoll_sandboxes", provider="native", state="running") == 0
    assert grown("atoll_events_total", kind="sandbox.destroyed") == 1


def test_histograms_add_up(rest):
    for (name, labels), count in metrics(rest).items():
        if not name.endswith("_count"):
            continue
        base = name.removesuffix("_count")
        bounds = {dict(l)["le"]: v for (n, l), v in metrics(rest).items()
                  if n == f"{base}_bucket" and l - {("le", dict(l)["le"])} == labels}
        series = [v for _, v in sorted(bounds.items(), key=lambda b: float(b[0]))]
        assert series == sorted(series) and bounds["+Inf"] >= count


def test_process_figures(rest, started):
    now = metrics(rest)
    pid = started[0].pid
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    size = os.sysconf("SC_PAGESIZE")
    assert abs(value(now, "process_resident_memory_bytes") - pages * size) < 4 * 1024 * 1024
    assert 0 <= value(now, "process_heap_bytes") < pages * size  # 0 under sanitizers
    assert abs(value(now, "process_open_fds") - len(os.listdir(f"/proc/{pid}/fd"))) <= 2
    assert abs(value(now, "process_start_time_seconds") - time.time()) < 600
    assert value(now, "process_cpu_seconds_total") > 0


def test_unknown_paths_make_no_series(rest):
    for i in range(50):
        assert rest.get(f"/api/nothing/{i}").status == 404
    names = {dict(labels).get("route") for name, labels in metrics(rest)
             if name == "atoll_http_requests_total"}
    assert not any(name and "nothing" in name for name in names)


def test_previews_are_counted(rest):
    box = rest.post("/api/sandboxes", {}).json["id"]
    rest.post(f"/api/sandboxes/{box}/previews", {"port": 80, "public": True})
    before = metrics(rest)
    assert rest.get(f"/preview/{box}/80/").status == 502
    assert rest.get(f"/preview/{box}/81/").status == 404
    now = metrics(rest)
    for status in ("502", "404"):
        name = "atoll_preview_requests_total"
        assert value(now, name, status=status) - value(before, name, status=status) == 1
    rest.delete(f"/api/sandboxes/{box}")


# Who may ask.

@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz"])
def test_near_needs_no_key(rest, started, path):
    tcp = Rest(started[1])
    assert rest.get(path).status == tcp.get(path).status == 200
    # Passed on by a proxy on this host, it may come from anywhere.
    for header in ({"X-Forwarded-For": "1.2.3.4"}, {"Forwarded": "for=1.2.3.4"}):
        assert tcp.call("GET", path, None, header).status == 401
        key = (started[0].state / "api-key").read_text().strip()
        assert tcp.call("GET", path, None, {**header, "X-API-Key": key}).status == 200
    # A page that was led here by DNS does not get it.
    assert tcp.call("GET", path, None, {"Host": "rebound.example"}).status == 421


# Health.

def test_ready(rest):
    answer = rest.get("/readyz")
    assert answer.status == 200
    said = answer.json
    store = said.pop("store")
    assert said == {"status": "ready", "reasons": [],
                    "providers": [{"name": "native", "ready": True}]}
    assert store["database_bytes"] > 0 and store["log_bytes"] > 0 and store["disk_free_bytes"] > 0
    figures = rest.get("/metrics").body.decode()
    for name in ('atoll_store_bytes{file="database"}', 'atoll_store_bytes{file="log"}',
                 "atoll_state_disk_free_bytes"):
        assert float(figures.split(f"\n{name} ")[1].split("\n")[0]) > 0


def test_looking_whether_it_is_ready_writes_nothing(rest, started):
    log = started[0].state / "atoll.db-wal"
    time.sleep(0.5)  # events of what was before
    before = log.stat().st_mtime_ns
    for _ in range(20):
        assert rest.get("/readyz").status == 200
    assert log.stat().st_mtime_ns == before


def test_not_ready_while_spawn_is_stuck(rest, started):
    spawn = [pid for pid, _ in descendants(started[0].pid)]
    assert spawn
    for pid in spawn:
        os.kill(pid, signal.SIGSTOP)
    try:
        answer = rest.get("/readyz")
        assert answer.status == 503 and answer.json["status"] == "unavailable"
        assert "does not answer" in answer.json["reasons"][0]
        assert rest.get("/healthz").status == 200
    finally:
        for pid in reversed(spawn):  # a child first: its parent, once it runs, may reap it
            os.kill(pid, signal.SIGCONT)
    wait_until(lambda: rest.get("/readyz").status == 200, 30, lambda: "not ready again")


# Traces and logs.

def log_line(daemon, request_id):
    """What is logged of a request, which may be a moment after its answer."""
    def lines():
        whole = daemon.log.read_text().rpartition("\n")[0].splitlines()
        return [made for line in whole if line.startswith("{")
                and (made := json.loads(line)).get("request_id") == request_id]

    wait_until(lines, 30, lambda: f"nothing is logged of {request_id}")
    return lines()[0]


def test_trace_and_request_id(rest, started):
    box = rest.post("/api/sandboxes", {}).json["id"]
    answer = rest.call("GET", f"/api/sandboxes/{box}", None,
                       {"traceparent": TRACE, "X-Request-Id": "my-request"})
    returned = answer.headers["traceresponse"]
    assert returned[:36] == TRACE[:36] and returned[36:52] != TRACE[36:52]
    assert answer.headers["X-Request-Id"] == "my-request"
    line = log_line(started[0], "my-request")
    assert line["event"] == "request" and line["level"] == "debug"
    assert line["sandbox"] == box and line["status"] == "200" and float(line["ms"]) >= 0
    assert line["trace_id"] == TRACE.split("-")[1]
    assert line["route"] == "/api/sandboxes/{id}"
    rest.delete(f"/api/sandboxes/{box}")


@pytest.mark.parametrize("text", [
    "", "00", TRACE[:-1], TRACE + "0", TRACE.upper(), "ff" + TRACE[2:],
    "00-" + "0" * 32 + "-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01",
    TRACE.replace("-", "_"), "00-" + "g" * 32 + "-b7ad6b7169203331-01"])
def test_bad_traces_are_ignored(rest, text):
    answer = rest.call("GET", "/healthz", None, {"traceparent": text})
    assert answer.status == 200 and answer.headers["traceresponse"] is None


def test_previews_are_logged_without_tokens(rest, started):
    box = rest.post("/api/sandboxes", {}).json["id"]
    made = rest.post(f"/api/sandboxes/{box}/previews", {"port": 80}).json
    tcp = Rest(started[1])
    assert tcp.call("GET", made["path_url"], None, {"X-Request-Id": "visit-1",
                                                           "Accept": "text/html"}).status == 302
    line = log_line(started[0], "visit-1")
    assert line["sandbox"] == box and line["port"] == "80" and line["status"] == "302"
    assert made["token"] not in started[0].log.read_text()
    rest.delete(f"/api/sandboxes/{box}")
