"""From create to destroy: state, figures, pauses, interpreters, ports, a daemon that dies."""

import base64
import os
import random
import time

import pytest
from daemons import wait_until

COUNTER = ("i=0; while [ $i -lt %d ]; do "
           "i=$((i+1)); echo line-$i; echo err-$i >&2; sleep 0.02; done; exit 9")
SERVER = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def answer(self, body):
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.answer(('you asked for ' + self.path).encode())
    def do_POST(self):
        self.answer(self.rfile.read(int(self.headers['Content-Length']))[::-1])
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(('127.0.0.1', 8123), Handler).serve_forever()
"""


def test_it_is_what_was_asked_for(place):
    with place.box(metadata={"task": "42"}, env={"KEPT": "yes"}) as box:
        view = box.view
        assert (view["provider"], view["state"]) == (place.name, "running")
        assert view["isolation"] == place.facts["isolation"]
        assert view["metadata"] == {"task": "42"}
        assert box.out("echo $KEPT") == "yes"
        listed = place.rest.get("/api/sandboxes").json["sandboxes"]
        assert box.id in [entry["id"] for entry in listed]


def test_provider_is_healthy_and_counted(place, box):
    wait_until(lambda: place.facts["state"] == "up", 60, lambda: f"it is {place.facts}")
    assert place.facts["sandboxes"] >= 1


def test_health(box):
    assert box.get("health").json["status"] == "ok"


def test_stats(place, box):
    """Where the provider does not measure, the agent sums over the processes."""
    box.out("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
    stats = box.get("stats").json
    assert stats["memory"]["used_bytes"] > 0 and stats["uptime_seconds"] > 0
    assert stats["cpu"]["used_seconds"] > 0 or place.is_service, stats


def test_the_disk_is_the_sandboxes_own(place):
    """Not that of the host it is on."""
    if place.is_service:
        pytest.skip("the size of the disk is the service's")
    with place.box(limits={"diskMB": 64}) as box:
        before = box.get("stats").json["disk"]
        assert 48 << 20 <= before["limit_bytes"] <= 64 << 20, before
        assert before["used_bytes"] < 8 << 20, before
        box.out("head -c 4194304 /dev/zero > some; sync")
        used = box.get("stats").json["disk"]["used_bytes"] - before["used_bytes"]
        assert 4 << 20 <= used < 6 << 20, used


def test_a_disk_without_a_limit_shows_none(place):
    if place.name != "docker":
        pytest.skip("the others enforce it, or say what the service has")
    with place.box(waive=["disk"]) as box:
        assert "disk" in box.view["waived"]
        assert box.get("stats").json["disk"]["limit_bytes"] is None


def test_pause_and_resume(place):
    with place.box() as box:
        if not place.can("pause"):
            answer = box.post("pause")
            assert answer.status == 501 and place.name in answer.error["message"], answer.body
            return
        exec_id = box.detach(COUNTER % 100000)
        wait_until(lambda: "line-3\n" in box.output(exec_id), 30, lambda: "it does not start")
        assert box.do("pause")["state"] == "paused"
        assert box.post("execs", {"cmd": ["true"]}).status == 409
        seen = []

        def stands_still():  # what was on its way may still come in
            seen.append(box.output(exec_id))
            time.sleep(0.5)
            return box.output(exec_id) == seen[-1]

        wait_until(stands_still, 30, lambda: "it goes on")
        before = seen[-1]
        assert box.do("resume")["state"] == "running"
        wait_until(lambda: len(box.output(exec_id)) > len(before), 30, lambda: "it stands still")
        assert box.out("echo on") == "on"


def test_an_interpreter_keeps_variables(box):
    made = box.post("contexts", {"language": "python"})
    assert made.status == 201, made.body
    path = f"contexts/{made.json['context_id']}"
    assert box.post(f"{path}/execute", {"code": "x = 20"}).json["error"] is None
    answer = box.post(f"{path}/execute", {"code": "print('so far')\nx + 1"}).json
    assert (answer["stdout"], answer["results"][0]["text"]) == ("so far\n", "21")
    assert box.post(f"{path}/execute", {"code": "1/0"}).json["error"]["name"] == "ZeroDivisionError"


def test_a_server_inside_is_seen_from_outside(place, box):
    source = base64.b64encode(SERVER.encode()).decode()
    server = box.detach(f"echo {source} | base64 -d > server.py; exec python3 server.py")
    preview = box.post("previews", {"port": 8123, "public": True})
    assert preview.status == 201, preview.body
    base = f"/preview/{box.id}/8123"
    wait_until(lambda: place.rest.get(f"{base}/").status == 200, 30,
               lambda: f"no answer: {place.rest.get(base + '/').body} {box.exec(server)}")
    assert place.rest.get(f"{base}/some/where").body.endswith(b"/some/where")
    body = os.urandom(1 << 20)
    assert place.rest.call("POST", f"{base}/", body).body == body[::-1]
    assert box.post(f"execs/{server}/signal", {"signal": "SIGKILL", "tree": True}).status == 204
    wait_until(lambda: place.rest.get(f"{base}/").status == 502, 30, lambda: "it still answers")


def test_the_death_of_the_daemon_loses_nothing(world, place):
    """kill -9 twice in the middle of a command: it goes on, and every byte is read exactly once."""
    with place.box() as box:
        lines = 150
        exec_id = box.detach(COUNTER % lines)
        box.out("echo before > file")
        for _ in range(2):
            time.sleep(random.random() * 0.5)
            world.restart()
        wait_until(lambda: box.state == "running", 30, lambda: f"not taken over: {box.view}")
        output = box.get(f"execs/{exec_id}/output", follow="true").lines
        assert output[-1]["result"]["exit_code"] == 9, output[-1]
        for stream, word in (("stdout", "line"), ("stderr", "err")):
            told = "".join(line["data"] for line in output if line.get("stream") == stream)
            assert told == "".join(f"{word}-{i}\n" for i in range(1, lines + 1))
        assert box.out("cat file") == "before"
        assert box.get("files", path="file").body == b"before\n"


def test_one_that_ends_by_itself_is_reported_as_what_it_is(place):
    """Ended behind the daemon's back: failed with a cause, its command lost, never fine."""
    box = place.create()
    try:
        exec_id = box.detach("sleep 1000")
        place.end_from_outside(box)
        wait_until(lambda: box.state == "failed", 40, lambda: f"nobody noticed: {box.view}")
        assert box.view["cause"]
        assert box.exec(exec_id)["result"]["kind"] in ("lost", "killed_by", "signaled")
        assert box.post("execs", {"cmd": ["true"]}).status == 409
    finally:
        assert box.destroy() == 204
    assert place.leftovers(box.id) == []


def test_it_ends_at_its_deadline(place):
    box = place.create(limits={"timeoutSeconds": 2})
    wait_until(lambda: box.state == "ended", 30, lambda: "it lives on")
    assert place.leftovers(box.id) == []


def test_destroy_leaves_nothing(place):
    box = place.create()
    box.detach("trap '' TERM INT; (setsid sleep 1000 &) ; sleep 1000")
    box.out("mkdir -p deep/er; echo x > deep/er/file")
    assert box.destroy() == 204
    assert box.state == "ended"
    assert box.destroy() == 404
    assert place.leftovers(box.id) == []


def test_what_it_cannot_do_is_refused_in_words(place):
    """Each capability that it lacks is named when it is asked for, with who has it."""
    wishes = {"persistent": {"persistent": True}, "images": {"image": "some/image:1"}}
    for capability, wish in wishes.items():
        if place.can(capability):
            continue
        answer = place.rest.post("/api/sandboxes", {"provider": place.name, **wish})
        assert answer.status in (400, 501), (capability, answer.body)
        assert place.name in answer.error["message"], answer.body


def test_limits_it_cannot_enforce_are_refused_unless_waived(place):
    """Nothing is weakened in silence: by name in the error, by name in the sandbox."""
    if not place.is_service:
        pytest.skip(f"{place.name} enforces all of them")
    wish = {"provider": place.name, "limits": {"memoryMB": 128, "pids": 50}}
    answer = place.rest.post("/api/sandboxes", wish)
    assert answer.status == 409, answer.body
    assert "memory" in answer.error["message"] and "pids" in answer.error["message"], answer.body
    with place.box(limits=wish["limits"], waive=["memory", "pids"]) as box:
        assert {"memory", "pids"} <= set(box.view["waived"])


@pytest.mark.parametrize("network", ["isolated", "bridge"])
def test_networks_it_does_not_have_are_refused(place, network):
    if network in place.facts.get("networks", []):
        pytest.skip(f"{place.name} has it")
    answer = place.rest.post("/api/sandboxes", {"provider": place.name, "networkMode": network})
    assert answer.status in (400, 501) and network in answer.error["message"], answer.body


def test_nobody_of_that_name(place):
    answer = place.rest.post("/api/sandboxes", {"provider": "nobody"})
    assert answer.status in (400, 404) and "nobody" in answer.error["message"], answer.body


def test_zz_destroy_all(world, place):
    """Last: those the other tests share go, too."""
    boxes = [place.create() for _ in range(3)]
    answer = place.rest.delete("/api/sandboxes")
    assert answer.status == 200 and answer.json["destroyed"] >= 3, answer.body
    assert place.rest.get("/api/sandboxes").json["sandboxes"] == []
    for box in boxes:
        assert place.leftovers(box.id) == []
