"""The working directory of a sandbox: of its commands, interpreters and relative paths."""

import pytest
from boxes import Box
from rest import Rest
from resting import kill_daemon, mortal_daemon

DIR = "/srv/app/work"


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture
def box(rest):
    made = Box(rest, workdir=DIR)
    yield made
    made.destroy()


def test_commands_start_there(box):
    assert box.view["workdir"] == DIR
    assert box.out("pwd; touch mine; stat -c %U:%a .") == f"{DIR}\nuser:755"
    assert box.out("pwd", user="root") == DIR
    assert box.out("pwd", cwd="/tmp") == "/tmp"
    assert box.out("pwd; cd; pwd", cwd="~") == "/home/user\n/home/user"


def test_relative_paths_begin_there(rest, box):
    assert rest.call("PUT", f"{box.path}/files?path=sub/f", b"data").status in (200, 201, 204)
    assert box.out(f"cat {DIR}/sub/f") == "data"


def test_a_context_runs_there(rest, box):
    made = rest.post(f"{box.path}/contexts", {"language": "python"}).json
    got = rest.post(f"{box.path}/contexts/{made['context_id']}/execute",
                    {"code": "import os; os.getcwd()"}).json
    assert got["results"][0]["text"].strip("'") == DIR


def test_a_session_has_it(rest):
    made = rest.post("/api/sessions", {"environment": "Python3", "workdir": DIR,
                                       "files": {"given": "here"}}).json
    path = f"/api/sessions/{made['session_id']}"
    assert made["sandbox"]["workdir"] == DIR
    got = rest.post(f"{path}/execute", {"code": "import os\nprint(os.getcwd(), open('given').read())\n"
                                                "open('made', 'w').close()"}).json
    assert got["stdout"] == f"{DIR} here\n", got
    assert [a["path"] for a in got["artifacts"]] == ["made"]
    assert rest.delete(path).status == 204


def test_removed_it_is_an_error(box):
    assert box.out("pwd") == DIR
    box.out(f"rm -r {DIR}", user="root", cwd="/")
    answer = box.post("execs", {"cmd": ["pwd"]}, wait="true")
    assert answer.status == 400 and f"cwd {DIR} does not exist" in answer.error["message"]


def test_only_absolute_ones(rest):
    answer = rest.post("/api/sandboxes", {"workdir": "app"})
    assert answer.status == 400 and "workdir must be an absolute path" in answer.error["message"]


def test_it_survives_the_daemon_and_a_stop():
    with mortal_daemon() as daemon:
        box = Box(daemon.rest, workdir=DIR, persistent=True)
        kill_daemon(daemon)
        daemon.start()
        assert box.view["workdir"] == DIR and box.out("pwd") == DIR
        assert box.post("stop").status == 200
        assert box.post("resume").status == 200
        assert box.out("pwd") == DIR
        box.destroy()
