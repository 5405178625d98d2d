"""Environments that keep sandboxes ready, with their modules imported."""

import contextlib
import time

import pytest
import yaml

import conftest
from conftest import wait_until
from resting import kill_daemon, leftovers
from rest import Rest
from test_pool import Session

PYTHON = {"template": "host", "language": "python",
          "interpreters": {"python": {"run": ["python3", "-u", "{file}"], "extension": "py"},
                           "bash": {"run": ["bash", "{file}"], "extension": "sh"}}}
NODE = {"template": "host", "language": "javascript",
        "interpreters": {"javascript": {"run": ["node", "{file}"], "extension": "mjs"}}}
LOADED = "import sys; print([m in sys.modules for m in ('asyncio', 'xml.dom.minidom', 'tkinter')])"


def write(registry, name, environment):
    (registry / "environments").mkdir(parents=True, exist_ok=True)
    (registry / "environments" / f"{name}.yaml").write_text(yaml.safe_dump(environment))


@contextlib.contextmanager
def daemon_with(registry, **settings):
    conftest.need_build()
    with conftest.running(conftest.BUILD, ATOLL_REGISTRY=str(registry), **settings) as daemon:
        yield daemon, Rest(daemon.socket)


def pool_of(rest, name):
    return next((c for c in rest.get("/api/health").json["pool"] if c["environment"] == name), None)


def wait_for(rest, name, ready):
    wait_until(lambda: pool_of(rest, name)["ready"] == ready, 60, lambda: pool_of(rest, name))


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    path = tmp_path_factory.mktemp("registry")
    write(path, "Warm", {**PYTHON, "warm": ["asyncio", "xml.dom.minidom"], "pool": 2, "env": {"MINE": "1"}})
    write(path, "Cold", {**PYTHON, "warm": ["asyncio", "xml.dom.minidom"]})
    write(path, "Web", {**NODE, "warm": ["node:zlib", "fs"], "pool": 1})
    write(path, "Broken", {**PYTHON, "warm": ["asyncio", "nosuchmodule"], "pool": 2})
    return path


@pytest.fixture(scope="module")
def pooled(registry):
    with daemon_with(registry) as (daemon, _):
        yield daemon


@pytest.fixture
def rest(pooled):
    return Rest(pooled.socket)


def metric(rest, name, **labels):
    text = ",".join(f'{key}="{value}"' for key, value in labels.items())
    line = next(line for line in rest.get("/metrics").body.decode().splitlines()
                if line.startswith(f"{name}{{{text}}} "))
    return float(line.split()[-1])


def test_one_is_handed_out_with_its_modules(rest):
    wait_for(rest, "Warm", 2)
    session = Session(rest, environment="Warm")
    assert session.box.view["pooled"]
    # Before any code has run, there is a context, whose modules are loaded but not named.
    contexts = session.box.get("contexts").json["contexts"]
    assert [c["language"] for c in contexts] == ["python"]
    assert session.run(LOADED) == "[True, True, False]\n"
    assert session.run("print('asyncio' in globals())") == "False\n"
    assert session.run("import os; print(os.environ.get('ATOLL_WARM'), os.environ['MINE'])") == "None 1\n"
    session.destroy()


def test_the_pool_is_filled_again_and_shows_itself(rest):
    wait_for(rest, "Warm", 2)
    shown = pool_of(rest, "Warm")
    assert shown["warm"] == ["asyncio", "xml.dom.minidom"] and shown["template"] == "host"
    assert shown["language"] == "python" and shown["wanted"] == 2 and "cause" not in shown
    wait_until(lambda: pool_of(rest, "Warm")["memory_bytes"] > 1 << 20, 30, lambda: pool_of(rest, "Warm"))
    assert metric(rest, "atoll_pool_sandboxes", **{"class": "Warm", "what": "ready"}) == 2
    assert metric(rest, "atoll_pool_memory_bytes", **{"class": "Warm"}) > 1 << 20


def test_without_a_pool_the_modules_are_imported_at_the_start(rest):
    session = Session(rest, environment="Cold")
    assert not session.box.view["pooled"]
    assert session.run(LOADED) == "[True, True, False]\n"
    # Another context, and one of another language, are as always.
    answer = rest.post(f"/api/sessions/{session.path.split('/')[-1]}/execute",
                       {"code": "echo $ATOLL_WARM-", "language": "bash"})
    assert answer.json["stdout"] == "-\n"
    session.destroy()


def test_a_request_that_differs_gets_one_made_for_it(rest):
    wait_for(rest, "Warm", 2)
    session = Session(rest, environment="Warm", env={"MINE": "2"})
    assert not session.box.get("contexts").json["contexts"]
    assert session.run("import os; print(os.environ['MINE'])") == "2\n"
    assert session.run(LOADED) == "[True, True, False]\n"
    session.destroy()


def test_javascript(rest):
    wait_for(rest, "Web", 1)
    session = Session(rest, environment="Web")
    answer = rest.post(f"{session.path}/execute", {"code": "console.log(process.env.ATOLL_WARM)"})
    assert session.box.view["pooled"] and answer.json["stdout"] == "undefined\n", answer.body
    session.destroy()


def test_a_module_that_is_not_there(rest):
    """The pool stops trying and says why; so does the first use. Once it is there, all is well."""
    wait_until(lambda: "cause" in pool_of(rest, "Broken"), 60, lambda: pool_of(rest, "Broken"))
    shown = pool_of(rest, "Broken")
    assert shown["ready"] == shown["making"] == 0
    assert "cannot import 'nosuchmodule': ModuleNotFoundError" in shown["cause"]
    session = Session(rest, environment="Broken")
    answer = rest.post(f"{session.path}/execute", {"code": "print(1)", "language": "python"})
    assert answer.status == 409, answer.body
    assert "cannot import 'nosuchmodule'" in answer.error["message"]
    assert '"warm"' in answer.error["message"]
    session.box.out("echo 1 >nosuchmodule.py")
    assert session.run("import sys; print('nosuchmodule' in sys.modules)") == "True\n"
    session.destroy()


def test_a_changed_list_replaces_those_that_wait(registry, rest):
    wait_for(rest, "Warm", 2)
    write(registry, "Warm", {**PYTHON, "warm": ["xml.dom.minidom"], "pool": 1})
    wait_until(lambda: pool_of(rest, "Warm")["warm"] == ["xml.dom.minidom"], 30,
               lambda: pool_of(rest, "Warm"))
    wait_for(rest, "Warm", 1)
    session = Session(rest, environment="Warm")
    assert session.box.view["pooled"] and session.run(LOADED).endswith("True, False]\n")
    session.destroy()
    (registry / "environments" / "Web.yaml").unlink()
    wait_until(lambda: pool_of(rest, "Web") is None, 30, lambda: pool_of(rest, "Web"))


@pytest.mark.parametrize("wrong, why", [
    ({"language": "bash", "warm": ["os"]}, "python, javascript and typescript"),
    ({"warm": ["os; import sys"]}, "must be names of modules"),
    ({"warm": "numpy"}, "warm"),
    ({"pool": -1}, "pool"),
])
def test_what_an_environment_cannot_say(registry, rest, wrong, why):
    write(registry, "Wrong", {**PYTHON, **wrong})
    wait_until(lambda: any("Wrong.yaml" in str(p) and why in str(p)
                           for p in rest.get("/api/registry").json["problems"]), 30,
               lambda: rest.get("/api/registry").json["problems"])
    (registry / "environments" / "Wrong.yaml").unlink()


def test_all_of_them_are_bounded(tmp_path):
    write(tmp_path, "A", {**PYTHON, "pool": 3})
    write(tmp_path, "B", {**PYTHON, "warm": ["asyncio"], "pool": 3})
    with daemon_with(tmp_path, ATOLL_POOL_MAX="4") as (_, rest):
        wait_until(lambda: sum(pool_of(rest, n)["ready"] for n in "AB") == 4, 60,
                   lambda: rest.get("/api/health").json["pool"])
        assert "--pool-max" in pool_of(rest, "B")["cause"]
    with daemon_with(tmp_path, ATOLL_POOL_MEMORY="1M") as (_, rest):
        wait_until(lambda: any("--pool-memory" in pool_of(rest, n).get("cause", "") for n in "AB"), 60,
                   lambda: rest.get("/api/health").json["pool"])
        assert sum(pool_of(rest, n)["ready"] for n in "AB") < 6


def test_a_killed_daemon_leaves_none_behind(tmp_path):
    write(tmp_path, "Warm", {**PYTHON, "warm": ["asyncio"], "pool": 2})
    with daemon_with(tmp_path) as (daemon, rest):
        wait_for(rest, "Warm", 2)
        before = {path.name for path in (daemon.state / "sandboxes").iterdir()}
        assert len(before) == 2
        kill_daemon(daemon)
        daemon.start()
        wait_for(rest, "Warm", 2)
        after = {path.name for path in (daemon.state / "sandboxes").iterdir()}
        assert len(after) == 2 and not before & after
        for sandbox in before:
            assert leftovers(daemon, sandbox) == []


def test_a_daemon_ends_while_interpreters_start(tmp_path):
    """At any moment of that: the fixture looks at how it ended."""
    write(tmp_path, "Warm", {**PYTHON, "warm": ["asyncio"], "pool": 3})
    for pause in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3):
        with daemon_with(tmp_path) as (_, rest):
            wait_until(lambda: pool_of(rest, "Warm")["making"] > 0, 30, lambda: pool_of(rest, "Warm"))
            time.sleep(pause)
