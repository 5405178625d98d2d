"""What clients of Daytona change while a sandbox exists: its size and its environment."""

import os
import signal

import pytest
from daemons import wait_until
from fake_world import world_of
from rest import Rest
from resting import agent_of, kill_daemon, mortal_daemon

MIB = 1 << 20


@pytest.fixture(scope="module")
def daemon():
    with mortal_daemon() as made:
        yield made


@pytest.fixture
def control(daemon):
    return Rest(daemon.socket)


@pytest.fixture
def make(control):
    made = []

    def create(**fields):
        answer = control.post("/daytona/sandbox", fields)
        assert answer.status == 200, answer.body
        made.append(answer.json["id"])
        return made[-1]

    yield create
    for name in made:
        control.delete(f"/daytona/sandbox/{name}")


def resize(control, name, **sizes):
    return control.post(f"/daytona/sandbox/{name}/resize", sizes)


def run(control, name, command):
    answer = control.post(f"/daytona/toolbox/{name}/process/execute", {"command": command})
    assert answer.status == 200, answer.body
    return answer.json["result"].strip()


def killed(daemon):
    kill_daemon(daemon)
    daemon.start()


def memory_inside(control, name):
    return int(run(control, name, "sed -n 's/MemTotal: *//p' /proc/meminfo").split()[0]) * 1024


def test_a_running_sandbox_gets_more(control, make):
    name = make()
    assert memory_inside(control, name) == 1024 * MIB
    answer = resize(control, name, memory=2)
    assert answer.status == 200 and answer.json["memory"] == 2, answer.body
    assert answer.json["state"] == "started"
    wait_until(lambda: memory_inside(control, name) == 2048 * MIB, 10,
               lambda: memory_inside(control, name))
    assert control.get(f"/daytona/sandbox/{name}").json["memory"] == 2
    # The kernel lets it use the memory.
    assert run(control, name, "python3 -c 'print(len(bytearray(1400 << 20)))'") == str(1400 * MIB)


@pytest.mark.parametrize("sizes,text", [
    ({}, "No resource changes specified"),
    ({"memory": 1}, "No resource changes specified"),
    ({"memory": 0.5}, "stopped state to decrease memory"),
    ({"cpu": 0.5}, "stopped state to decrease the number of CPU cores"),
    ({"disk": 50}, "Disk resize can only be performed on a stopped sandbox"),
    ({"memory": "much"}, "memory"),
    ({"memory": 4096}, "this machine has"),
])
def test_refusals(control, make, sizes, text):
    name = make()
    answer = resize(control, name, **sizes)
    assert answer.status == 400 and text in answer.json["message"], answer.body
    assert control.get(f"/daytona/sandbox/{name}").json["memory"] == 1


def test_a_stopped_sandbox_starts_with_its_new_size(control, make):
    name = make()
    assert resize(control, name, memory=2).status == 200
    assert control.post(f"/daytona/sandbox/{name}/stop").status == 200
    assert resize(control, name, disk=1).status == 400
    assert resize(control, name, disk=50).status == 501
    answer = resize(control, name, memory=1)
    assert answer.status == 200 and answer.json["state"] == "stopped", answer.body
    assert control.post(f"/daytona/sandbox/{name}/start").status == 200
    assert memory_inside(control, name) == 1024 * MIB


def test_a_new_size_survives_a_restart_of_the_daemon(daemon, control, make):
    name = make()
    assert resize(control, name, memory=2).status == 200
    killed(daemon)
    assert control.get(f"/daytona/sandbox/{name}").json["memory"] == 2


def change_env(control, name, status=204, **fields):
    answer = control.post(f"/daytona/toolbox/{name}/env", fields)
    assert answer.status == status, answer.body


@pytest.mark.parametrize("kept", [True, False])
def test_environment(daemon, control, make, kept):
    name = make(env={"A": "1", "AB": "2", "B": "3"}, **({} if kept else {"autoDeleteInterval": 0}))
    show = "echo ${A-none} ${AB-none} ${B-none} ${C-none}"
    change_env(control, name, set={"A": "x y", "C": "4"}, unset=["B", "unknown"])
    assert run(control, name, show) == "x y 2 none 4"
    change_env(control, name)
    change_env(control, name, 400, set={"A=B": "1"})
    change_env(control, name, 429, set={"BIG": "x" * 200000})
    assert run(control, name, show) == "x y 2 none 4"
    killed(daemon)
    wait_until(lambda: run(control, name, show) == "x y 2 none 4", 10, lambda: run(control, name, show))
    if kept:
        assert control.post(f"/daytona/sandbox/{name}/stop").status == 200
        assert control.post(f"/daytona/sandbox/{name}/start").status == 200
        assert run(control, name, show) == "x y 2 none 4"
    change_env(control, name, unset=["A", "AB", "C"])
    assert run(control, name, show) == "none none none none"


def test_a_full_disk_is_recovered(control, make):
    """A sandbox whose disk is full stops, starts and gets its space back."""
    name = make(disk=1)

    def is_full(file, count):
        output = run(control, name, f"cd; dd if=/dev/zero of={file} bs=1M count={count} 2>&1")
        return "No space left" in output or "quota exceeded" in output

    assert is_full("big", 4000)
    assert control.post(f"/daytona/sandbox/{name}/stop").status == 200
    assert control.post(f"/daytona/sandbox/{name}/start").status == 200
    assert is_full("more", 100)
    # The space of removed files is free a little later on some disks.
    wait_until(lambda: run(control, name, "cd; rm -f big more; echo back >file && cat file") == "back",
               30, lambda: "the disk stays full")


def test_a_full_disk_whose_processes_died_is_recovered(control, make):
    """Lists find it, it says why it stopped, and recover() starts it with the space it had."""
    name = make(disk=1)
    path = f"/daytona/sandbox/{name}"

    def shown():
        return control.get(path).json

    run(control, name, "cd; echo data > kept; sync kept; dd if=/dev/zero of=big bs=1M count=4000")
    assert not shown()["recoverable"]
    assert control.post(f"{path}/recover").status == 400
    os.kill(agent_of(name), signal.SIGKILL)
    wait_until(lambda: shown()["state"] == "stopped", 30, shown)
    assert shown()["recoverable"] and "signal 9" in shown()["errorReason"]
    listed = control.get("/daytona/sandbox", isRecoverable="true").json["items"]
    assert [each["id"] for each in listed] == [name]
    assert control.post(f"{path}/recover?skipStart=true").json["state"] == "stopped"
    assert control.post(f"{path}/recover").status == 200
    wait_until(lambda: shown()["state"] == "started", 30, shown)
    assert not shown()["recoverable"] and "errorReason" not in shown()
    assert run(control, name, "cd; rm big; cat kept") == "data"
    assert control.post(f"{path}/stop").status == 200
    assert not shown()["recoverable"]
    assert control.post(f"{path}/recover").status == 400


def test_network_settings_that_are_refused_are_not_shown(control, make):
    """The engine changes no policy of a sandbox whose processes died."""
    name = make(autoDeleteInterval=0, domainAllowList="a.test")
    path = f"/daytona/sandbox/{name}"
    os.kill(agent_of(name), signal.SIGKILL)
    wait_until(lambda: control.get(path).json["state"] == "error", 30, lambda: control.get(path).body)
    refused = control.post(f"{path}/network-settings", {"networkBlockAll": True, "domainAllowList": "b.test"})
    assert refused.status == 409, refused.body
    shown = control.get(path).json
    assert (shown["networkBlockAll"], shown["domainAllowList"]) == (False, "a.test")


def test_network_settings_can_allow_everything_again(control, make):
    name = make(domainAllowList="a.test")
    for asked, expected in (({"domainAllowList": ""}, (False, "")), ({"networkBlockAll": True}, (True, "")),
                            ({"networkBlockAll": False}, (False, ""))):
        answer = control.post(f"/daytona/sandbox/{name}/network-settings", asked)
        assert answer.status == 200, answer.body
        shown = control.get(f"/daytona/sandbox/{name}").json
        assert (shown["networkBlockAll"], shown.get("domainAllowList", "")) == expected, shown


WHO = "id -un; id -u; pwd; echo $HOME; sudo id -un; touch x && stat -c %U x"
DAYTONA = "daytona\n1002\n/home/daytona\n/home/daytona\nroot\ndaytona"


def directory(control, name, kind):
    return control.get(f"/daytona/toolbox/{name}/{kind}").json["dir"]


def test_the_user_is_that_of_daytona(daemon, control, make):
    name = make()
    assert control.get(f"/daytona/sandbox/{name}").json["user"] == "daytona"
    assert directory(control, name, "user-home-dir") == directory(control, name, "work-dir") == "/home/daytona"
    assert run(control, name, WHO) == DAYTONA
    killed(daemon)
    assert control.post(f"/daytona/sandbox/{name}/stop").status == 200
    assert control.post(f"/daytona/sandbox/{name}/start").status == 200
    assert run(control, name, WHO) == DAYTONA
    # A snapshot of it keeps the user, to whom the files belong; so does a fork.
    assert control.post(f"/daytona/sandbox/{name}/snapshot", {"name": "owned"}).status == 200
    assert run(control, make(snapshot="owned"), "cat x && " + WHO) == DAYTONA
    forked = control.post(f"/daytona/sandbox/{name}/fork", {})
    assert run(control, forked.json["id"], WHO) == DAYTONA
    assert control.delete(f"/daytona/sandbox/{forked.json['id']}").status == 200


def layers(daemon):
    return set(os.listdir(daemon.state / "layers"))


def test_a_snapshot_goes_while_a_sandbox_of_it_lives(daemon, control, make):
    before = layers(daemon)
    first = make()
    run(control, first, "echo one > file")
    assert control.post(f"/daytona/sandbox/{first}/snapshot", {"name": "brief"}).status == 200
    old = control.get("/daytona/snapshots/brief").json["id"]
    copy = make(snapshot="brief")
    assert control.delete(f"/daytona/snapshots/{old}").status == 200
    for path in ("brief", old):
        assert control.get(f"/daytona/snapshots/{path}").status == 404
        assert control.delete(f"/daytona/snapshots/{path}").status == 404
        assert control.post("/daytona/sandbox", {"snapshot": path}).status == 400
    assert "brief" not in [one["name"] for one in control.get("/daytona/snapshots").json["items"]]
    assert "brief" not in [one["name"] for one in control.get("/api/templates").json["templates"]]
    assert [one["name"] for one in control.get("/api/snapshots").json["snapshots"] if "brief" in one["name"]] == []
    # The sandbox does not notice: it is stopped and started, also by another daemon.
    assert control.get(f"/daytona/sandbox/{copy}").json["snapshot"] == "brief"
    killed(daemon)
    assert control.get("/daytona/snapshots/brief").status == 404
    assert control.post(f"/daytona/sandbox/{copy}/stop").status == 200
    assert control.post(f"/daytona/sandbox/{copy}/start").status == 200
    assert run(control, copy, "cat file") == "one"
    # The name is free at once.
    run(control, first, "echo two > file")
    assert control.post(f"/daytona/sandbox/{first}/snapshot", {"name": "brief"}).status == 200
    second = make(snapshot="brief")
    assert run(control, second, "cat file") == "two"
    # A delete is answered before all of the sandbox is gone; so is that of its snapshot.
    assert control.delete(f"/daytona/sandbox/{second}").status == 200
    assert control.delete("/daytona/snapshots/brief").status == 200
    assert control.delete(f"/daytona/sandbox/{copy}").status == 200
    assert control.delete(f"/daytona/sandbox/{first}").status == 200
    wait_until(lambda: layers(daemon) <= before, 20, lambda: layers(daemon) - before)


def test_another_user_is_the_one_that_was_asked_for(control, make):
    for user, home in (("user", "/home/user"), ("root", "/root")):
        name = make(user=user)
        assert control.get(f"/daytona/sandbox/{name}").json["user"] == user
        assert run(control, name, "id -un; pwd") == f"{user}\n{home}"


def test_a_place_with_one_user_keeps_its_own():
    """The fake provider has one user, as a host without user namespaces has."""
    with world_of(native={"enabled": False}) as world:
        answer = world.rest.post("/daytona/sandbox", {"autoDeleteInterval": 0})
        assert answer.status == 200 and answer.json["user"] == "user", answer.body
        name = answer.json["id"]
        assert world.rest.get(f"/daytona/sandbox/{name}").json["user"] == "user"
        box = world.rest.get(f"/api/sandboxes/{name}").json
        assert not [text for text in box.get("warnings", []) if "one user" in text], box
        assert run(world.rest, name, "echo here") == "here"
        assert world.rest.delete(f"/daytona/sandbox/{name}").status == 200
