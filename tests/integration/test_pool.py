"""Sandboxes made ahead, and interpreters that wait in them."""

import os
import re
import subprocess

import pytest

import conftest
from boxes import Box
from conftest import wait_until
from resting import kill_daemon
from rest import Rest

DRIVER = "/run/atoll/drivers/python.py"
WAITING = f"for c in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$c; echo; done | grep -c '{DRIVER} *$'"


@pytest.fixture(scope="module")
def pooled():
    conftest.need_build()
    with conftest.running(conftest.BUILD, ATOLL_POOL="2") as daemon:
        yield daemon


@pytest.fixture
def rest(pooled):
    return Rest(pooled.socket)


class Session:
    def __init__(self, rest, **request):
        answer = rest.post("/api/sessions", {"environment": "code-interpreter-v1", **request})
        assert answer.status == 201, answer.body
        self.rest, self.path = rest, f"/api/sessions/{answer.json['session_id']}"
        self.box = Box.__new__(Box)
        self.box.rest, self.box.id = rest, answer.json["sandbox_id"]
        self.box.path = f"/api/sandboxes/{self.box.id}"

    def run(self, code):
        answer = self.rest.post(f"{self.path}/execute", {"code": code, "language": "python"})
        assert answer.status == 200 and not answer.json["error"], answer.body
        return answer.json["stdout"]

    def destroy(self):
        assert self.rest.delete(self.path).status in (200, 204)


def one_with_an_interpreter(rest):
    """Code is run in one after the other, until there is one with its interpreter waiting."""
    found = []

    def is_waiting():
        session = Session(rest)
        if session.box.view["pooled"] and session.box.run(WAITING)["stdout"] == "1\n":
            found.append(session)
            return True
        session.run("print(1)")
        session.destroy()
        return False
    wait_until(is_waiting, 60, lambda: "no sandbox with an interpreter waits")
    return found[0]


def test_an_interpreter_waits_in_the_next_one(rest):
    session = one_with_an_interpreter(rest)
    assert session.run('import os; print(os.environ["PYTHONDONTWRITEBYTECODE"])') == "1\n"
    contexts = session.box.get("contexts").json["contexts"]
    assert [c["language"] for c in contexts] == ["python"]
    assert session.box.run(WAITING)["stdout"] == "1\n"
    session.destroy()


def test_variables_of_ones_own_are_in_the_interpreter(rest):
    one_with_an_interpreter(rest).destroy()
    session = Session(rest, env={"MINE": "secret"})
    assert session.run("import os; print(os.environ['MINE'])") == "secret\n"
    session.destroy()
    session = Session(rest)
    assert session.run("import os; print(os.environ.get('MINE'))") == "None\n"
    session.destroy()


def test_it_outlives_the_daemon_that_made_it(pooled, rest):
    session = one_with_an_interpreter(rest)
    session.run("x = 6")
    kill_daemon(pooled)
    pooled.start()
    assert session.run("print(x * 7)") == "42\n"
    assert session.box.run(WAITING)["stdout"] == "1\n"
    session.destroy()


def test_one_that_dies_before_it_is_used_is_not_missed(rest):
    session = one_with_an_interpreter(rest)
    driver = session.box.get("contexts").json["contexts"][0]["exec_id"]
    assert session.box.run("sudo pkill -9 -f drivers/python.py; true")["stdout"] == ""
    wait_until(lambda: session.box.exec(driver).get("result"), 30, lambda: "it does not die")
    assert session.run("print(6 * 7)") == "42\n"
    session.destroy()


def root_with_python(path):
    """The least that has an interpreter: what it and the shells are linked with, and its library."""
    programs = ["/usr/bin/python3", "/usr/bin/bash", "/usr/bin/sh", "/usr/bin/grep", "/usr/bin/tr"]
    files = {os.path.realpath(program) for program in programs} | set(programs)
    for program in programs:
        linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for file in re.findall(r"(/\S+) \(0x", linked):
            files |= {os.path.realpath(file), "/usr" + file.removeprefix("/usr")}
    library = os.path.realpath(os.__file__.rpartition("/")[0])
    subprocess.run(["tar", "-C", "/", "-cf", path, "--exclude=dist-packages", "--exclude=__pycache__",
                    "--exclude=test", *(file.lstrip("/") for file in [*sorted(files), library]),
                    "bin", "lib", "lib64"], check=True)


def test_a_template_on_which_some_wait_can_be_removed(pooled, rest, tmp_path):
    root_with_python(tmp_path / "root.tar")
    pooled.atoll("template", "import", "code-interpreter-v1", tmp_path / "root.tar", check=True)
    session = one_with_an_interpreter(rest)
    assert session.box.view["template"] == "code-interpreter-v1"
    refused = rest.delete("/api/templates/code-interpreter-v1")
    assert refused.status == 409 and "in use" in refused.error["message"]
    session.destroy()
    wait_until(lambda: len(list((pooled.state / "sandboxes").iterdir())) >= 3, 60,
               lambda: "none waits")
    assert rest.delete("/api/templates/code-interpreter-v1").status in (200, 204)
    wait_until(lambda: not list((pooled.state / "layers").iterdir()), 60,
               lambda: f"left: {list((pooled.state / 'layers').iterdir())}")
    session = Session(rest)
    assert session.box.view["template"] == "host" and session.run("print(1)") == "1\n"
    session.destroy()


def test_a_kind_that_is_asked_for_waits_in_the_pool(rest):
    def is_pooled():
        made = Box(rest, limits={"diskMB": 2048}, env={"MINE": "yes"})
        pooled = made.view["pooled"]
        assert made.view["limits"]["diskMB"] == 2048
        assert made.out("echo $MINE; df -m --output=size / | tail -n 1").split()[0] == "yes"
        made.destroy()
        return pooled
    wait_until(is_pooled, 60, lambda: "each one is made when it is asked for")


def test_disks_that_are_kept_are_made_ahead(pooled, rest):
    request = {"persistent": True, "limits": {"diskMB": 512}, "env": {"MINE": "yes"}}
    found = []

    def is_pooled():
        found.append(Box(rest, **request))
        if found[-1].view["pooled"]:
            return True
        found.pop().destroy()
        return False

    def disks():
        return {path.stem for path in (pooled.state / "disks").iterdir()
                if path.suffix in (".img", ".cow")}

    wait_until(is_pooled, 60, lambda: "each one is made when it is asked for")
    box = found[0]
    assert box.out("echo $MINE; echo kept >file") == "yes"
    box.do("stop")
    kill_daemon(pooled)  # with others in the pool, whose disks go
    pooled.start()
    wait_until(lambda: box.id in disks(), 30, disks)
    box.do("resume")
    assert box.out("echo $MINE; cat file") == "yes\nkept"
    assert box.destroy() in (200, 204)
    wait_until(lambda: box.id not in disks(), 30, disks)


def test_the_deadline_of_the_first_that_asked_is_not_inherited(rest):
    def is_pooled():
        asked = Box(rest, limits={"diskMB": 1024, "timeoutSeconds": 600})
        made = Box(rest, limits={"diskMB": 1024})
        pooled = made.view["pooled"]
        assert asked.view["expires_at"] is not None and made.view["expires_at"] is None
        asked.destroy()
        made.destroy()
        return pooled
    wait_until(is_pooled, 60, lambda: "each one is made when it is asked for")


def test_images_with_a_user_and_a_directory_are_made_ahead(pooled, rest, tmp_path):
    """By habit, as for other kinds: the second create of a template is enough for the next ones."""
    (tmp_path / "Dockerfile").write_text("FROM host\nUSER nobody\nWORKDIR /srv/here\nENV COLOUR=blue\n")
    pooled.atoll("build", "-t", "habit", str(tmp_path), check=True)
    made = []

    def is_pooled():
        box = Box(rest, template="habit")
        made.append(box)
        ran = box.run("id -un; pwd; echo $COLOUR")
        assert ran["stdout"] == "nobody\n/srv/here\nblue\n", ran
        pooled_now = box.view["pooled"]
        box.destroy()
        return pooled_now

    wait_until(is_pooled, 60, lambda: "no sandbox of the template comes from the pool")
    # A user that the template does not have is refused, as in a sandbox that is made new.
    assert rest.post("/api/sandboxes", {"template": "habit", "user": "stranger"}).status in (400, 404, 409)
