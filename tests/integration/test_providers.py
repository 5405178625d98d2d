"""Several providers under one daemon: routing, health, fail-over, recovery. The second one is the
fake, which a control file makes slow or makes fail."""

import os
import signal
import subprocess

import pytest
from boxes import Box
from daemons import BUILD, SLACK, cgroups, need_build, wait_until
from fake_world import world_of


@pytest.fixture(scope="module")
def shared():
    with world_of() as made:
        yield made


@pytest.fixture
def world(shared):
    yield shared
    shared.fail()
    shared.rest.delete("/api/sandboxes")
    shared.settle()


def refused(world, **fields):
    answer = world.rest.post("/api/sandboxes", {"waive": ["all"], **fields})
    assert answer.status >= 400, answer.body
    return answer.status, answer.error


# What there is.

def test_listed_with_all_there_is_to_know(world):
    world.wait_state("up")
    fake, native = world.rest.get("/api/providers").json["providers"]
    assert (fake["name"], fake["order"], fake["default"]) == ("fake", 1, True)
    assert (native["name"], native["order"], native["default"]) == ("native", 2, False)
    assert fake["isolation"] == "none" and native["isolation"] == "namespaces"
    assert "pause" in native["capabilities"] and "pause" not in fake["capabilities"]
    assert fake["networks"] == ["none", "bridge"] and native["networks"][0] == "none"
    assert fake["latency_ms"] > 0 and fake["since"] and fake["detail"]


def test_the_first_is_taken_and_works(world):
    box = world.box()
    assert (box.view["provider"], box.view["isolation"]) == ("fake", "none")
    assert box.out("echo hello > f; cat f") == "hello"
    assert box.get("files", path="f").body == b"hello\n"
    assert world.facts()["sandboxes"] == 1
    assert box.destroy() == 204


def test_the_cli_asks_for_one_and_lists_them(world):
    done = world.daemon.atoll("run", "--provider", "native", "--", "echo", "there", check=True)
    assert done.stdout == "there\n"
    made = world.daemon.atoll("create", "--provider", "fake", "--waive", "all", check=True)
    assert world.rest.get(f"/api/sandboxes/{made.stdout.strip()}").json["provider"] == "fake"
    shown = world.daemon.atoll("providers", check=True).stdout
    assert "native" in shown and "fake" in shown and "up" in shown
    assert world.daemon.json("providers")["providers"][0]["name"] == "fake"


# Routing and refusals.

def test_by_name(world):
    box = world.box(provider="native")
    assert box.view["provider"] == "native"


@pytest.mark.parametrize("wish, words", [
    ({"provider": "nobody"}, ["nobody", "fake", "native"]),
    ({"provider": "fake", "persistent": True}, ["fake cannot keep the disk", "native can"]),
    ({"provider": "fake", "image": "debian:12"}, ["fake cannot run container images", "native can"]),
    ({"isolation": "microvm"}, ["namespaces", "microvm"]),
    ({"gpus": 1}, ["fake has no GPUs", "native has no GPUs"]),
    ({"provider": "fake", "networkMode": "isolated"}, ["isolated"]),
])
def test_refusals_say_why_of_each(world, wish, words):
    status, error = refused(world, **wish)
    assert status in (400, 501), error
    for word in words:
        assert word in error["message"], error


def test_requirements_choose(world):
    for wish, provider in (({"persistent": True}, "native"), ({"isolation": "namespaces"}, "native"),
                           ({"networkMode": "isolated"}, "native")):
        box = world.box(**wish)
        assert box.view["provider"] == provider, wish
        assert box.destroy() == 204


def test_limits_that_must_hold_choose(world):
    box = Box(world.rest)  # the fake enforces none
    assert box.view["provider"] == "native" and box.view["waived"] == []


def test_what_it_cannot_do_later_is_refused_as_well(world):
    box = world.box(provider="fake")
    answer = box.post("pause")
    assert answer.status == 501, answer.body
    assert "provider fake cannot pause" in answer.error["message"]
    assert "native can" in answer.error["message"]


# Failing.

def test_transient_failures_are_tried_again_and_counted(world):
    world.fail("create 0 unavailable")
    status, error = refused(world, provider="fake")
    assert status == 503 and "create is to fail" in error["message"], error
    metrics = world.rest.get("/metrics").body.decode()
    line = next(text for text in metrics.splitlines() if text.startswith(
        'atoll_provider_calls_total{provider="fake",op="create",result="unavailable"}'))
    assert float(line.split()[-1]) >= 4
    assert 'atoll_provider_retries_total{provider="fake",op="create"}' in metrics


def test_auto_goes_on_to_the_next(world):
    world.fail("create 0 unavailable")
    box = world.box()
    assert box.view["provider"] == "native"
    assert box.out("echo fine") == "fine"


def test_what_is_wrong_with_the_request_goes_nowhere_else(world):
    world.fail("create 0 invalid_argument")
    status, error = refused(world)
    assert status == 400 and "is to fail" in error["message"], error


def test_failing_checks_take_it_out_and_back(world):
    world.wait_state("up")
    world.fail("health 0 unavailable")
    world.wait_state("down")
    facts = world.facts()
    assert "health is to fail" in facts["reason"], facts
    box = world.box()
    assert box.view["provider"] == "native"
    status, error = refused(world, provider="fake")
    assert status == 503 and "fake is down: fake: health is to fail" in error["message"], error
    world.fail()
    world.wait_state("up")
    assert "reason" not in world.facts()


def test_failing_creates_take_it_out(world):
    def is_out():
        refused(world, provider="fake")
        return world.facts()["state"] == "down"  # for a second at first, then for longer

    world.fail("create 0 unavailable")
    for _ in range(2):
        refused(world, provider="fake")
    wait_until(is_out, 60, lambda: f"it stays {world.facts()}")
    world.fail()
    wait_until(lambda: world.facts()["state"] != "down", 30, lambda: "its rest has no end")
    assert world.box(provider="fake").view["provider"] == "fake"
    assert world.facts()["state"] == "up"


def begin_create(world):
    """A create that takes a minute: its client, and the path of the sandbox."""
    world.fail("create 60000 ok")
    client = subprocess.Popen(["curl", "-s", "--unix-socket", str(world.daemon.socket), "-d",
                               '{"provider":"fake","waive":["all"]}', "http://x/api/sandboxes"],
                              stdout=subprocess.DEVNULL)
    wait_until(lambda: world.rest.get("/api/sandboxes").json["sandboxes"], 30, lambda: "none made")
    (made,) = world.rest.get("/api/sandboxes").json["sandboxes"]
    assert made["state"] == "creating"
    return client, f"/api/sandboxes/{made['id']}"


def test_a_create_nobody_wants_is_cancelled(world):
    """Its client is gone: the create that would take a minute gives up."""
    client, path = begin_create(world)
    assert world.rest.delete(path).status == 204
    client.wait(30)
    assert world.rest.get("/api/sandboxes").json["sandboxes"] == []


def agent_pid(world, box):
    return int((world.daemon.state / "fake" / box.id / "pid").read_text())


def test_one_that_is_lost_says_so(world):
    box = world.box(provider="fake")
    exec_id = box.detach("sleep 1000")
    os.kill(agent_pid(world, box), signal.SIGKILL)
    wait_until(lambda: box.state == "failed", 30, lambda: f"nobody noticed: {box.view}")
    assert "not running any more" in box.view["cause"]
    assert box.exec(exec_id)["result"]["kind"] == "lost"


def test_one_that_is_lost_is_made_again(world):
    box = world.box(provider="fake", recreate=True, env={"KEPT": "yes"}, metadata={"a": "b"})
    assert box.view["recreate"] is True
    exec_id = box.detach("echo x > gone; sleep 1000")
    os.kill(agent_pid(world, box), signal.SIGKILL)
    wait_until(lambda: box.state == "running" and box.exec(exec_id)["state"] != "running", 30,
               lambda: f"not made again: {box.view}")
    assert box.exec(exec_id)["result"]["kind"] == "lost"
    wait_until(lambda: box.post("execs", {"cmd": ["true"]}, wait="true").status == 200, 30,
               lambda: "it takes no commands")
    assert box.out("echo $KEPT; ls") == "yes"
    assert box.view["metadata"] == {"a": "b"}


def test_a_deadline_that_passes_while_it_is_made_again(world):
    box = world.box(provider="fake", recreate=True, limits={"timeoutSeconds": 2})
    box.out("true")
    world.fail(f"create 2500 ok {box.id}")
    os.kill(agent_pid(world, box), signal.SIGKILL)
    wait_until(lambda: box.state == "creating", 30, lambda: f"nobody noticed: {box.view}")
    wait_until(lambda: box.state == "ended", 15,
               lambda: f"it lives on: {box.view}")


def test_a_resume_while_it_is_made_again(world):
    box = world.box(provider="fake", recreate=True)
    box.out("true")
    world.fail(f"create 1500 ok {box.id}")
    os.kill(agent_pid(world, box), signal.SIGKILL)
    wait_until(lambda: box.state == "creating", 30, lambda: f"nobody noticed: {box.view}")
    assert box.post("resume").status == 200
    assert box.state == "running"


def test_a_native_one_is_made_again_too(world):
    box = world.box(provider="native", recreate=True, env={"KEPT": "yes"})
    box.out("echo x > gone")
    (path,) = [path for path in cgroups() if path.name.endswith(box.id)
               and (path / "cgroup.procs").exists()][:1]
    os.kill(min(int(pid) for pid in (path / "cgroup.procs").read_text().split()), signal.SIGKILL)
    wait_until(lambda: events_of(world, box).count("sandbox.recreated") == 1, 30,
               lambda: f"not made again: {box.view}")
    assert box.state == "running" and "cause" not in box.view
    assert box.out("echo $KEPT; ls") == "yes"


def events_of(world, box):
    done = subprocess.run(["curl", "-s", "-m", "1", "-N", "--unix-socket", str(world.daemon.socket),
                           f"http://x/api/events?after=0&sandbox={box.id}"],
                          capture_output=True, text=True, check=False)
    return [line.split(": ")[1] for line in done.stdout.splitlines() if line.startswith("event: ")]


# The daemon's own death.

def test_a_create_that_was_changed_before_the_daemon_died(world):
    client, path = begin_create(world)
    assert world.rest.call("PATCH", path, {"metadata": {"a": "b"}}).status == 200
    world.restart()
    client.wait(30)
    assert world.rest.get(path).status == 404


def test_a_new_daemon_takes_them_over(world):
    box = world.box(provider="fake")
    exec_id = box.detach("for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.1; done")
    world.restart()
    assert box.view["provider"] == "fake"
    assert box.output(exec_id, follow="true") == "".join(f"{i}\n" for i in range(1, 10))


def test_silence_at_the_start_ends_nothing(world):
    box = world.box(provider="fake")
    other = world.box(provider="native")
    exec_id = box.detach("echo begun; sleep 1; echo done")
    world.fail("list 0 unavailable", "health 0 unavailable")
    world.restart()
    assert box.state == "unreachable" and "does not answer" in box.view["cause"]
    answer = box.post("execs", {"cmd": ["true"]})
    assert answer.status == 503 and "out of reach" in answer.error["message"], answer.body
    assert other.out("echo works") == "works"
    world.fail()
    wait_until(lambda: box.state == "running", 30, lambda: f"not taken over: {box.view}")
    assert box.output(exec_id, follow="true") == "begun\ndone\n"


def test_a_daemon_ends_though_one_refuses(world):
    """What it cannot destroy is left to the next one."""
    box, other = world.box(provider="fake"), world.box(provider="native")
    world.fail(f"destroy 0 unavailable {box.id}")
    world.daemon.process.send_signal(signal.SIGTERM)
    assert world.daemon.process.wait(30 * SLACK) == 0
    world.fail()
    world.daemon.start()
    wait_until(lambda: world.rest.get("/api/sandboxes").json["sandboxes"] == [], 30,
               lambda: f"still there: {box.id}, {other.id}")
    assert not (world.daemon.state / "fake" / box.id).exists()


def test_a_destruction_is_tried_again_until_it_is_done(world):
    """The client has asked once; the provider was out of reach then."""
    box = world.box(provider="fake")
    world.fail(f"destroy 0 unavailable {box.id}")
    assert box.destroy() == 503
    assert "could not be removed" in box.view["cause"]
    world.fail()
    wait_until(lambda: box.state == "ended", 60, lambda: f"it is {box.view}")
    assert not (world.daemon.state / "fake" / box.id).exists()
    assert 'atoll_removals_retried_total{provider="fake"}' in world.rest.get("/metrics").body.decode()


def test_a_destruction_is_tried_again_by_the_next_daemon(world):
    box = world.box(provider="fake")
    world.fail(f"destroy 0 unavailable {box.id}")
    assert box.destroy() == 503
    world.restart()
    wait_until(lambda: box.state == "failed", 60, lambda: f"it is {box.view}")
    world.fail()
    wait_until(lambda: box.state == "ended", 60, lambda: f"it is {box.view}")
    assert not (world.daemon.state / "fake" / box.id).exists()


def test_orphans_are_removed(world):
    """Made by a daemon that died before it could write that down."""
    stray = world.daemon.state / "fake" / ("s" * 26)
    stray.mkdir()
    world.restart()
    wait_until(lambda: not stray.exists(), 30, lambda: "it is still there")


def test_one_that_is_not_configured_any_more():
    with world_of() as world:
        box = world.box(provider="fake")
        world.settings["fake"]["enabled"] = False
        world.write()
        world.restart()
        assert box.state == "unreachable", box.view
        assert "not configured" in box.view["cause"]
        world.settings["fake"]["enabled"] = True
        world.write()
        world.restart()
        assert box.out("echo back") == "back"


def test_the_most_a_provider_may_have():
    with world_of(fake={"max_sandboxes": 1}) as world:
        first, second = world.box(), world.box()
        assert (first.view["provider"], second.view["provider"]) == ("fake", "native")
        status, error = refused(world, provider="fake")
        assert status == 429 and "the most it may have" in error["message"], error


@pytest.mark.parametrize("text, said", [
    ("providers:\n  dokcer: {}\n", "providers.yaml:2:3: dokcer needs a \"kind\""),
    ("providers:\n  mine: {kind: dokcer}\n", "providers.yaml:2:"),
    ("providers:\n  mine: {kind: docker, pol: 3}\n", "providers.yaml:2:"),
    ("providers:\n  docker: {kind: e2b}\n", "providers.yaml:2: provider docker has the name"),
    ("providers:\n  auto: {kind: docker}\n", "providers.yaml:2: provider auto cannot"),
    ("providers:\n  other: {kind: native}\n", "providers.yaml:2: provider other must have the name of its kind"),
    ("providers:\n\n  e2b: {api_key: x, api_url: ftp://x}\n",
     "providers.yaml:3: provider e2b: e2b: api_url must be"),
    ("providers:\n  e2b:\n    api_key: x\n    headers: {a: [1]}\n", "providers.yaml:4:"),
    ("providers:\n  e2b: {api_key_file: /no/such}\n", "providers.yaml:2: provider e2b:"),
    ("providers:\n  native:\n    most: {memoryMB: lots}\n", "providers.yaml:3:"),
    ("providers: []\n", "providers.yaml:1:"),
    ("", "providers.yaml:1:"),
    ("providers:\n  docker:\n    pool: many\n", "providers.yaml:3:"),
    ("providers:\n  native:\n    enabled: false\n", "providers.yaml:1: it leaves no provider"),
    ("providers:\n  docker:\n    disk: maybe\n", "providers.yaml:3:"),
])
def test_mistakes_in_the_file_are_named(tmp_path, text, said):
    need_build()
    file = tmp_path / "providers.yaml"
    file.write_text(text)
    done = subprocess.run([str(BUILD / "atolld"), "--state", str(tmp_path / "s"), "--socket",
                           str(tmp_path / "k"), "--providers", str(file)],
                          capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2 and said in done.stderr, done.stderr


# What is asked for, held against what the operator says of each.

def test_sizes_and_languages_choose():
    with world_of(fake={"most": {"memoryMB": 256, "timeoutSeconds": 60}, "languages": ["r"]},
                  native={"most": {"cpuCores": 2}}) as world:
        facts = world.facts()
        assert facts["most"] == {"memoryMB": 256, "timeoutSeconds": 60}
        assert facts["languages"] == ["r"]
        for wish, provider in (({}, "fake"), ({"language": "r"}, "fake"),
                               ({"language": "python"}, "native"),
                               ({"limits": {"memoryMB": 300}}, "native"),
                               ({"limits": {"timeoutSeconds": 61}}, "native"),
                               ({"limits": {"cpuCores": 3}}, "fake")):
            box = world.box(**wish)
            assert box.view["provider"] == provider, wish
            if provider == "fake":  # what nobody asked for is no more than anybody may ask for
                assert box.view["limits"]["memoryMB"] == 256
                assert box.view["limits"]["timeoutSeconds"] == 60
            assert box.destroy() == 204
        status, error = refused(world, limits={"memoryMB": 300, "cpuCores": 3})
        assert status == 400 and error["message"] == (
            "no provider can make it: fake gives at most 256 MiB of memory; "
            "native gives at most 2 CPUs"), error
        status, error = refused(world, language="java", limits={"cpuCores": 3})
        assert "fake does not run java; native gives at most 2 CPUs" in error["message"], error


def test_a_session_needs_its_language():
    with world_of(fake={"languages": ["r"]}) as world:
        made = world.rest.post("/api/sessions", {"environment": "Python3", "waive": ["all"]})
        assert made.status == 201, made.body
        sandbox = made.json["sandbox_id"]
        assert world.rest.get(f"/api/sandboxes/{sandbox}").json["provider"] == "native"
