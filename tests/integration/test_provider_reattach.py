"""An agent out of reach, and what its provider says about the sandbox then: the word of the provider
decides, its silence never does. The fake provider lies on demand."""

import pytest
from daemons import wait_until
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


def wait_failed(box):
    wait_until(lambda: box.state == "failed", 60, lambda: f"not told: {box.view}")
    return box.view["cause"]


@pytest.mark.parametrize("word", ["exited", "gone"])
def test_told_after_a_restart_that_it_ended(world, word):
    """It is in the list, and cannot be dialed; then it is asked about."""
    box, other = world.box(provider="fake"), world.box(provider="fake")
    exec_id = box.detach("sleep 1000")
    world.fail(f"dial 0 unavailable {box.id}", f"look 0 {word} {box.id}")
    world.restart()
    assert wait_failed(box) == f"fake: it is said to be {word}"
    assert box.exec(exec_id)["result"]["kind"] == "lost"
    assert f"said to be {word}" in box.exec(exec_id)["result"]["reason"]
    wait_until(lambda: not (world.daemon.state / "fake" / box.id).exists(), 30,
               lambda: "what is left of it is not removed")
    assert other.out("echo untouched") == "untouched"


def test_made_again_after_a_restart(world):
    box = world.box(provider="fake", recreate=True)
    box.out("echo x > file")
    world.fail(f"dial 0 unavailable {box.id}", f"look 0 gone {box.id}")
    world.restart()
    wait_until(lambda: box.state == "running" and "cause" not in box.view and
               box.post("execs", {"cmd": ["true"]}, wait="true").status == 200, 60,
               lambda: f"not made again: {box.view}")
    assert box.out("ls") == ""


def test_its_lifetime_begins_all_the_same(world):
    """Also that of one that is reached only later: neither is it over at once, nor never."""
    idle, control = (world.box(provider="fake", lifetime={"idleSeconds": seconds})
                     for seconds in (1, 3600))
    world.fail(*(f"{op} 0 unavailable {box.id}" for op in ("dial", "look")
                 for box in (idle, control)))
    world.restart()
    wait_until(lambda: idle.state == "ended", 60, lambda: f"{idle.view}")
    assert control.state == "running"
    world.fail()
    wait_until(lambda: control.post("execs", {"cmd": ["true"]}, wait="true").status == 200, 30,
               lambda: f"not reached again: {control.view}")


def test_sandboxes_of_nobody_are_removed(world):
    """As of a create that was given up, and done all the same."""
    box = world.box(provider="fake")
    stray = world.daemon.state / "fake" / ("z" * len(box.id))
    (stray / "home").mkdir(parents=True)
    wait_until(lambda: not stray.exists(), 60, lambda: "it is still there")
    assert box.out("echo untouched") == "untouched"


def calls(world, box, op):
    return sum('"provider call"' in line and f'"op":"{op}"' in line and box.id in line
               for line in world.daemon.log.read_text().splitlines())


def dials(world, box):
    return calls(world, box, "dial")


def test_eight_dials_in_vain(world):
    """It lives, by its provider's word, and its agent never answers: or takes a stream and drops it."""
    deaf, dropping = world.box(provider="fake"), world.box(provider="fake")
    world.fail(f"dial 0 unavailable {deaf.id}", f"dial 0 dialed {dropping.id}")
    world.restart()
    for box, words in ((deaf, "dial is to fail"), (dropping, "the connection was closed")):
        cause = wait_failed(box)
        assert "its agent does not answer any more" in cause and words in cause
    assert dials(world, deaf) == 8 * 4  # each is tried four times


def test_paused_elsewhere_and_silence_are_waited_for(world):
    """Neither a provider that says nothing nor one that says "paused" ends anything."""
    silent, paused = world.box(provider="fake"), world.box(provider="fake")
    exec_id = silent.detach("echo begun; sleep 2; echo done")
    world.fail(*(f"dial 0 unavailable {box.id}" for box in (silent, paused)),
               f"look 0 unavailable {silent.id}", f"look 0 paused {paused.id}")
    world.restart()
    for box in (silent, paused):
        answer = box.post("execs", {"cmd": ["true"]})
        assert answer.status == 503 and box.state == "running", answer.body
    wait_until(lambda: asked(world, silent) and asked(world, paused), 60,
               lambda: "they are not asked about")
    seen = dials(world, silent), dials(world, paused)
    wait_until(lambda: asked(world, silent) > 8 and asked(world, paused) > 12, 60,
               lambda: "they are not asked about")
    assert seen == (dials(world, silent), dials(world, paused))
    assert silent.state == paused.state == "running"
    world.fail()
    for box in (silent, paused):
        wait_until(lambda box=box: box.post("execs", {"cmd": ["true"]}, wait="true").status == 200,
                   30, lambda box=box: f"not reached again: {box.view}")
    assert silent.output(exec_id, follow="true") == "begun\ndone\n"


def asked(world, box):
    return calls(world, box, "look")


def test_destroyed_while_it_is_taken_over():
    """The provider answers when nobody is there any more to take it over."""
    with world_of() as world:
        box = world.box(provider="fake")
        world.fail("list 0 unavailable", f"dial 2000 ok {box.id}")
        world.daemon.env["MALLOC_PERTURB_"] = "165"
        world.restart()
        assert box.state == "unreachable"
        world.fail(f"dial 2000 ok {box.id}")
        wait_until(lambda: box.state == "running", 30, lambda: f"not found again: {box.view}")
        assert world.rest.delete(f"/api/sandboxes/{box.id}").status == 204
        world.fail()
        wait_until(lambda: calls(world, box, "adopt") == 4, 30, lambda: "it is not answered")
        assert world.box(provider="fake").out("echo works") == "works"
