"""Environments whose templates the daemon builds: a Dockerfile, packages."""

import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

from conftest import BUILD, ROOT, Daemon, need_build, wait_until
from networks import FAR, networked
from rest import Rest

CODE = """language: sh
interpreters: {sh: {run: [sh, "{file}"], extension: sh}}
"""


@pytest.fixture(scope="module")
def own():
    """(client, folder of environments)"""
    need_build()
    directory = Path(tempfile.mkdtemp(prefix="atoll-", dir="/tmp"))
    registry = directory / "registry"
    shutil.copytree(ROOT / "registry", registry)
    daemon = Daemon(BUILD, directory)
    daemon.env["ATOLL_REGISTRY"] = str(registry)
    daemon.start()
    yield Rest(daemon.socket), registry / "environments"
    left = daemon.stop()
    shutil.rmtree(directory, ignore_errors=True)
    assert not left


def put(rest, environments, name, text):
    """Writes an environment, and waits until the daemon has it."""
    (environments / f"{name}.yaml").write_text(text + CODE)
    wait_until(lambda: name in rest.get("/api/registry").json["environments"], 30,
               lambda: str(rest.get("/api/registry").json))


def run(rest, environment, code):
    answer = rest.post("/api/sessions", {"environment": environment})
    assert answer.status == 201, answer.body
    path = f"/api/sessions/{answer.json['session_id']}"
    try:
        answer = rest.post(f"{path}/execute", {"code": code})
        assert answer.status == 200, answer.body
        return answer.json["stdout"]
    finally:
        rest.delete(path)


def template(rest, name):
    found = [t for t in rest.get("/api/templates").json["templates"] if t["name"] == name]
    return found[0] if found else None


@pytest.fixture(scope="module")
def remote(tmp_path_factory):
    """The same, and Docker Hub cannot be reached."""
    registry = tmp_path_factory.mktemp("far") / "registry"
    shutil.copytree(ROOT / "registry", registry)
    with networked(ATOLL_REGISTRY=str(registry)) as daemon:
        with (daemon.networks.directory / "hosts").open("a") as hosts:
            hosts.write(f"{FAR[9]} registry-1.docker.io auth.docker.io\n")
        yield Rest(daemon.socket), registry / "environments"


@pytest.mark.parametrize("base,way", [
    ("debian:bookworm", "atoll template debian debian && atoll template tag debian bookworm"),
    ("docker.io/library/debian:trixie-slim",
     "atoll template debian --suite trixie debian && atoll template tag debian trixie-slim"),
    ("debian:12", None), ("debian", None), ("ubuntu:noble", None)])
def test_a_base_that_cannot_be_pulled(remote, base, way):
    """For Debian the error names a way without a registry."""
    rest, environments = remote
    name = f"Unreached-{base.rpartition(':')[2].replace('/', '-')}"
    put(rest, environments, name, f"dockerfile: |\n  FROM {base}\n  RUN true\n")
    answer = rest.post("/api/sessions", {"environment": name})
    assert answer.status == 503 and "could not be built" in answer.json["error"]["message"], answer.body
    hint = answer.json["error"].get("hint", "")
    assert way in hint if way else "atoll template" not in hint, hint


def test_a_dockerfile_is_built_once(own):
    rest, environments = own
    (environments / "Made.Dockerfile").write_text(
        "FROM host\nRUN date +%s.%N > /usr/local/share/made\nENV GREETING=hello\n")
    put(rest, environments, "Made", "dockerfile: Made.Dockerfile\n")
    assert template(rest, "env-Made") is None
    got = []
    both = [threading.Thread(target=lambda: got.append(
        run(rest, "Made", "cat /usr/local/share/made; echo $GREETING"))) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert len(got) == 2 and got[0] == got[1] and got[0].endswith("\nhello\n"), got
    assert run(rest, "Made", "cat /usr/local/share/made; echo $GREETING") == got[0]
    assert template(rest, "env-Made") is not None


def test_a_changed_definition_is_built_again(own):
    rest, environments = own
    put(rest, environments, "Changed",
        "dockerfile: |\n  FROM host\n  RUN echo one > /usr/local/share/mark\n")
    assert run(rest, "Changed", "cat /usr/local/share/mark") == "one\n"
    put(rest, environments, "Changed",
        "dockerfile: |\n  FROM host\n  RUN echo two > /usr/local/share/mark\n")
    wait_until(lambda: run(rest, "Changed", "cat /usr/local/share/mark") == "two\n", 30, lambda: "the old template is used")


def test_a_failed_build_says_why(own):
    rest, environments = own
    put(rest, environments, "Failing",
        "dockerfile: |\n  FROM host\n  RUN echo it broke; exit 7\n")
    for _ in range(2):
        answer = rest.post("/api/sessions", {"environment": "Failing"})
        assert 400 <= answer.status < 500, answer.body
        assert "Failing" in answer.error["message"] and "status 7" in answer.error["message"]
        assert b"it broke" in answer.body
    assert template(rest, "env-Failing") is None


def test_packages(own):
    rest, environments = own
    if subprocess.run(["python3", "-m", "pip", "--version"], capture_output=True).returncode:
        pytest.skip("the host has no pip")
    put(rest, environments, "Packed",
        "template: host\nenv: {PIP_NO_INDEX: '1'}\npackages: {pip: [pip]}\n")
    assert run(rest, "Packed", "echo $PIP_NO_INDEX") == "1\n"
    assert template(rest, "env-Packed") is not None
    put(rest, environments, "Missing",
        "template: host\nenv: {PIP_NO_INDEX: '1'}\npackages: {pip: [no-such-package-here]}\n")
    answer = rest.post("/api/sessions", {"environment": "Missing"})
    assert 400 <= answer.status < 500 and b"no-such-package-here" in answer.body


def test_refused_definitions(own):
    rest, environments = own
    (environments / "Bad.yaml").write_text("dockerfile: |\n  FROM host\n  RUNN x\n" + CODE)
    (environments / "Worse.yaml").write_text("template: host\npackages: {pip: ['a; b']}\n" + CODE)
    (environments / "Apt.yaml").write_text("template: host\npackages: {apt: [jq]}\n" + CODE)

    def problems():
        return " ".join(p["message"] for p in rest.get("/api/registry").json["problems"])
    wait_until(lambda: all(text in problems() for text in (
        "did you mean RUN?", "not the name of a package", "packages.apt needs a template")), 30, problems)
    (environments / "Apt.yaml").unlink()
    (environments / "Bad.yaml").unlink()
    (environments / "Worse.yaml").unlink()
