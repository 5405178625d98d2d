"""An agent that cannot say which commands it has: nothing is said about them that is not so."""

import sys

import pytest

from boxes import Box
from daemons import ROOT, wait_until
from walking import native_walker  # noqa: F401: the fixture "walker"

sys.path.append(str(ROOT / "tests" / "integration"))
import agent_wire  # noqa: E402

COMMAND = "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo done; exit 3"


@pytest.fixture(params=["restart", "another client"])
def part(walker, request):
    """Takes the agent away from the daemon for a moment."""
    def take(box):
        if request.param == "restart":
            walker.restart()
            return
        wire, sock = agent_wire.of_socket(walker.state / "sandboxes" / f"{box.id}.sock")
        wire.ask(agent_wire.HELLO, agent_wire.hello())
        sock.close()
    return take


def test_commands_go_on(walker, part):
    box = Box(walker.rest)
    exec_id = box.detach(COMMAND)
    walker.board.wish("agent.EXEC_LIST=EIO")
    part(box)
    wait_until(lambda: walker.board.struck, 30, lambda: "it is not asked for its commands")
    wait_until(lambda: box.post("files/mkdir", path="go").status in (200, 201, 409), 30,
               lambda: f"not reached again: {box.view}")
    wait_until(lambda: "result" in box.exec(exec_id), 30, lambda: f"{box.exec(exec_id)}")
    assert box.output(exec_id) == "begun\ndone\n"
    result = box.exec(exec_id)["result"]
    assert (result["kind"], result["exit_code"]) == ("exited", 3)
    box.destroy()
