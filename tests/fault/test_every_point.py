"""Every point where something can fail is made to fail, and every point where a process can die is
where it dies: the client hears the truth, the next daemon finds its way, and nothing is left."""

import contextlib
import os
import zlib
from collections import Counter

import pytest

import faults
from daemons import wait_until
from errands import ERRANDS, HOST_FOLDER
from walking import TOLD, Refused, walk

ALL = os.environ.get("ATOLL_FAULTS") == "all"
DETAIL = 1500  # characters of what is said about one failure
SHARE = 1 if ALL else 20  # of all cases one in so many

# What an error may be called, where something of ours failed.
FAILURES = {500, 502, 503, 504, 507}
# And what comes of it later in the same errand: what is gone is gone.
CONSEQUENCES = FAILURES | {404, 409, 412, 429}

# Points that have tests of their own, and why.
ELSEWHERE = {
    "base.input": "test_memory.py",
    "spawn.abort": "only plans of unit tests have it",
    "spawn.request_take_ids": "test_id_blocks.py, with small blocks of ids",
    "spawn.request_give_ids": "test_id_blocks.py, with small blocks of ids",
    "spawn.request_sockets": "after the death of a daemon or of atoll-egress: test_network.py",
    "spawn.runsc": "the provider gvisor, whose atoll-spawn this is too",
    "agent.PROCESS_LIST": "no daemon asks for it",
    "agent.LEAVE": "the provider gvisor: test_save.py",
    "provider.native.save": "it cannot do that",
    "provider.native.set_network": "atoll-egress does that",
    "agent.XATTR_GET": "no daemon asks for it",
    "agent.PING": "follows seconds of silence: test_rpc.c",
    "store.pragma.": "/readyz tries a write only after one that failed",
    "store.delete.answers": "after 24 hours, or 4096 answers",
    "store.delete.events": "after thousands of events",
    "store.update.sandboxes": "after the key that sealed values is lost: test_store.c",
    "templates.migrate": "test_migration.py",
    **{f"store.{verb}.waiting_sandboxes": "test_daytona_kill.py" for verb in ("insert", "delete")},
    **{f"store.{verb}.build_steps": "test_template_versions.c" for verb in ("insert", "delete")},
    **{point: "after a week, or 10,000 records: test_store.c"
       for point in ("store.begin.prune_ended", "store.commit.prune_ended", "store.delete.ended")},
    **{f"provider.fake.{op}": "it cannot do that"
       for op in ("pause", "resume", "reclaim", "save", "stop", "set_limits", "set_network", "stats", "keep_layer",
                  "drop_layer", "snapshot_layer", "sockets")},
    **{f"provider.{name}.{op}": "it has no images of its own" for name in ("native", "fake")
       for op in ("build", "snapshot", "drop_image", "load_image")},
    **{f"provider.fake.{op}": "it has no volumes" for op in ("list_volumes", "drop_volume", "copy_volume")},
}


@pytest.fixture(scope="module")
def walkers():
    """Two daemons, by name: one as it is, and one with a pool to which no descriptors pass."""
    if not faults.compiled_in():
        pytest.skip("a build without -Dtest_switches=true cannot be made to fail")
    fake = {"enabled": True, "order": 9, "check_seconds": 3600}
    with walk({"fake": fake, "native": {"check_seconds": 3600}}, ATOLL_HOST_FOLDERS=HOST_FOLDER,
              ATOLL_SSH_LISTEN="127.0.0.1:0") as plain, \
            walk({"native": {"check_seconds": 3600}}, ATOLL_POOL="2",
                 ATOLL_WEAKEN="descriptors") as odd:
        yield {"plain": plain, "odd": odd}


@pytest.fixture(scope="module")
def map_of_points(walkers):
    """By errand, how often it passes each point."""
    passed = {}
    for name, (needs, function, world) in ERRANDS.items():
        walker = walkers[world]
        client = walker.client()
        made = needs(walker, client) if needs else None
        with walker.board.recording() as points:
            function(walker, client, made)
        passed[name] = points
        walker.sweep()
    return passed


def visits(point):
    """In how many errands it is walked, and how often in each. What stands between a thing done and
    its record means something else each time; a step of a plan or a request to an agent does not."""
    if not ALL:
        return 1, 1
    return (4, 3) if point.startswith(("store.", "provider.", "engine.", "journal.")) else (1, 2)


@pytest.fixture(scope="module")
def cases(map_of_points):
    """By errand: (point, turn, action)."""
    found, seen = {}, Counter()
    for errand, points in map_of_points.items():
        found[errand] = []
        for point, count in sorted(points.items()):
            name = point.removesuffix(" die")
            errands, turns = visits(name)
            if name.startswith("base.") or seen[name] == errands:
                continue  # the former are for test_memory.py
            seen[name] += 1
            found[errand] += [(name, turn, action) for turn in range(1, min(count, turns) + 1)
                              for action in (["die"] if point != name else ["EIO", "die"])
                              if chosen(name, turn, action)]
    return found


def chosen(*case):
    return zlib.crc32(repr(case).encode()) % SHARE == 0


def check_answer(refused, walker):
    """An error of the client's has to be one, with words."""
    if refused.status == 0:
        wait_until(walker.is_dead, 10, lambda: f"no answer by a daemon that lives: {refused}")
        return
    if refused.status == TOLD:
        return
    assert refused.status in CONSEQUENCES, str(refused)
    assert b'"message"' in refused.body, str(refused)


def strike(walker, errand, case):
    point, turn, action = case
    needs, function, _ = ERRANDS[errand]
    client = walker.client()
    made = needs(walker, client) if needs else None
    daemon = walker.daemon.process
    walker.board.wish(f"{point}@{turn}={action}")
    try:
        function(walker, client, made)
    except Refused as refused:
        check_answer(refused, walker)
    if action == "die" and walker.board.struck and not point.startswith(("spawn.", "agent.")):
        # Perhaps in the middle of what nobody waits for. Some errands have started the next one.
        wait_until(lambda: walker.is_dead() or walker.daemon.process is not daemon, 10,
                   lambda: f"it was to die at {point}, and lives")
    walker.board.clear()
    return client


def check_same(before, after):
    """What was so is so after kill -9. A sandbox that could not be removed may be gone then."""
    for box, state in before["states"].items():
        now = after["states"].get(box)
        assert now == state or (state == "failed" and not now), f"{box} was {state} and is {now}"
    for name, result in before["execs"].items():
        now = after["execs"].get(name)
        assert now == result or result[0] is None or name[0] not in after["states"], \
            f"{name} had ended as {result}, and now as {now}"
    for kind in ("sessions", "templates", "artifacts", "keys", "tasks", "swarms"):
        assert before[kind] == after[kind], f"{kind} were {before[kind]} and are {after[kind]}"


def check_recovery(walker, client):
    if walker.is_dead():
        walker.start()
        before = None
    else:
        walker.remove_again()
        before = walker.truth()
        walker.restart()
    facts = walker.truth()
    for name, result in client.told.items():
        if name in facts["execs"]:
            assert facts["execs"][name] == result, f"{name} had ended as {result}"
    if before:
        check_same(before, facts)
    walker.check_running(facts)


def walk_through(walker, errand, case):
    check_recovery(walker, strike(walker, errand, case))
    # It was for once: now all goes well.
    needs, function, _ = ERRANDS[errand]
    again = walker.client()
    function(walker, again, needs(walker, again) if needs else None)
    walker.sweep()


@pytest.mark.parametrize("errand", ERRANDS)
def test_every_point(walkers, cases, errand):
    walker = walkers[ERRANDS[errand][2]]
    failed = []
    for case in cases[errand]:
        try:
            walk_through(walker, errand, case)
        except (AssertionError, Refused, OSError) as problem:
            failed.append(f"{errand} {case}: {str(problem)[:DETAIL]}")
            recover_walker(walker)
    if failed:
        pytest.fail("\n\n".join(failed), pytrace=False)


def recover_walker(walker):
    """After a failure, so that the next case is judged by itself."""
    walker.board.clear()
    walker.kill()
    walker.start()
    with contextlib.suppress(AssertionError):
        walker.sweep()


@pytest.fixture(scope="module")
def first_points():
    """Those that the first start of all passes."""
    if not faults.compiled_in():
        pytest.skip("a build without -Dtest_switches=true cannot be made to fail")
    with walk(record=True) as made:
        return made.first


def test_the_first_start(first_points):
    """A daemon that has only begun to make its state directory leaves what the next can go on with."""
    for point in sorted(first_points):
        name = point.removesuffix(" die")
        for action in ["die"] if point != name else ["EIO", "die"]:
            if not name.startswith("base.") and chosen(name, 1, action):
                with walk(wish=f"{name}=" + action) as made:
                    client = made.client()
                    client.run(client.create(), "true")


def test_every_point_is_passed(map_of_points, first_points):
    reached = {point.removesuffix(" die") for points in [*map_of_points.values(), first_points]
               for point in points}
    known = faults.all_points(["native", "fake"])
    assert sorted(reached - known) == [], "points that the source does not show"
    left_out = {name for point in ELSEWHERE for name in (point, f"{point}.after")}
    assert sorted(known - reached - left_out) == [], "points that no errand passes"
