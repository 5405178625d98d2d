"""No memory for something whose size clients choose: they are told so, and everything else goes on."""

import os
import signal

import pytest

import faults
from daemons import BUILD, is_sanitized
from errands import ERRANDS
from test_every_point import FAILURES
from walking import TOLD, Refused, walk

ALL = os.environ.get("ATOLL_FAULTS") == "all"
POINTS = ["base.buf_grow", "base.map_grow", "base.json_alloc", "base.input"]
# In every run; and in none those in which daemons are killed, and those of tools: without memory their text is cut
# without a word, and a command is unclear, which asks.
QUICK = ["create", "files"]
LEFT_OUT = ["die", "end", "fake", "reattach_fake", "guard", "approval", "old_records"]
STRIDE = {"base.json_alloc": 7}  # each errand has hundreds of those


@pytest.fixture(scope="module")
def walker():
    if not faults.compiled_in():
        pytest.skip("a build without -Dtest_switches=true cannot be made to fail")
    with walk({"fake": {"enabled": True, "order": 9}}) as made:
        yield made


def check(refused, walker, point):
    if refused.status == TOLD:
        return
    if refused.status == 0:
        # Its answer found no room, so that there is none: half of one would look like a whole.
        assert not walker.is_dead(), f"{refused}\n{walker.daemon.log_tail()}"
        return
    assert refused.status in FAILURES | {404, 409, 429}, str(refused)
    assert b'"message"' in refused.body, str(refused)


def strike(walker, errand, point, turn):
    """False once it is passed less often than that."""
    needs, function, _ = ERRANDS[errand]
    client = walker.client()
    made = needs(walker, client) if needs else None
    walker.board.wish(f"{point}@{turn}=ENOMEM")
    try:
        function(walker, client, made)
    except Refused as refused:
        check(refused, walker, point)
    except AssertionError as wrong:
        raise AssertionError(f"an answer that is not so: {wrong}") from None
    struck = walker.board.struck
    walker.board.clear()
    walker.remove_again()
    walker.truth()
    walker.sweep()
    return struck


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("errand", [name for name in ERRANDS if name not in LEFT_OUT
                                    and ERRANDS[name][2] == "plain"])
def test_no_memory(walker, errand, point):
    if not ALL and errand not in QUICK:
        pytest.skip("in `make test-all`")
    failed = []
    turn = 1
    while True:
        try:
            if not strike(walker, errand, point, turn):
                break
        except (AssertionError, Refused) as problem:
            failed.append(f"{turn}: {str(problem)[:1500]}")
            walker.board.clear()
            if walker.is_dead():
                walker.start()
            walker.sweep()
        turn += STRIDE.get(point, 1) if ALL else 9
    if failed:
        pytest.fail("\n\n".join(failed), pytrace=False)


def test_nothing_leaks(walker):
    """Of which a sanitized build tells by its status."""
    walker.terminate()
    walker.start()


def test_a_report_is_not_lost():
    """A daemon that ended in the middle, and was followed by another, is told of at the end."""
    if not is_sanitized(BUILD):
        pytest.skip("only a sanitizer reports")
    with pytest.raises(AssertionError, match="left behind.*report: .*AddressSanitizer: SEGV"):
        with walk() as made:
            made.daemon.process.send_signal(signal.SIGSEGV)
            made.daemon.process.wait(30)
            made.start()
