"""Merges of forks into their sandbox, conflicts between them, and tries."""

import contextlib
import os
import subprocess
import threading

import pytest

from boxes import Box
from conftest import BUILD, ROOT
from daemons import wait_until
from resting import kill_daemon, mortal_daemon
from rest import Rest
from test_state import layers, need_snapshots


@pytest.fixture(scope="module")
def mortal():
    with mortal_daemon() as daemon:
        need_snapshots(daemon.rest)
        yield daemon


@pytest.fixture
def box(mortal):
    made = Box(mortal.rest)
    yield made
    for one in mortal.rest.get("/api/sandboxes").json["sandboxes"]:
        mortal.rest.delete(f"/api/sandboxes/{one['id']}")
    wait_until(lambda: layers(mortal) == set(), 30, lambda: layers(mortal))


class Fork(Box):
    def __init__(self, box):
        self.rest = box.rest
        self.id = box.post("fork", {}).json["sandboxes"][0]["id"]
        self.path = f"/api/sandboxes/{self.id}"


def others(box):
    return [Known(box, one["id"]) for one in box.rest.get("/api/sandboxes").json["sandboxes"] if one["id"] != box.id]


class Known(Box):
    def __init__(self, box, sandbox_id):
        self.rest, self.id = box.rest, sandbox_id
        self.path = f"/api/sandboxes/{sandbox_id}"


def merge(box, *forks, **fields):
    answer = box.post("merge", {"from": [one.id for one in forks], **fields})
    assert answer.status == 200, answer.body
    return answer.json


def kinds(report):
    return {one["path"]: one["kind"] for one in report["changes"]}


def conflicts(report):
    return {one["path"]: (one["ours"], one["theirs"]) for one in report["conflicts"]}


def test_what_a_fork_changed_is_brought_back(box):
    box.out("seq 1 20 > list; mkdir d; echo old > d/f; echo gone > gone; echo x > run; ln -s a link; echo t > t; mkdir e")
    running = box.detach("while :; do sleep 0.05; done")
    fork = Fork(box)
    fork.out("sed -i s/^3$/three/ list; echo new > d/new; rm gone; chmod 700 run; ln -sf b link; rm t; mkdir t; "
             "echo in > t/in; rmdir e; echo e > e; rm d/f")
    box.out("sed -i s/^17$/seventeen/ list; echo ours > ours")
    dry = merge(box, fork, dryRun=True)
    assert not dry["merged"] and dry["conflicts"] == [] and box.out("cat gone") == "gone"
    report = merge(box, fork)
    assert report["merged"] and report["conflicts"] == []
    assert {path.rsplit("/", 1)[1]: kind for path, kind in kinds(report).items()} == {
        "list": "changed", "new": "added", "gone": "removed", "run": "changed", "link": "changed", "t": "changed",
        "in": "added", "e": "changed", "f": "removed"}
    assert [one["joined"] for one in report["changes"] if one["path"].endswith("list")] == [True]
    assert box.out("sed -n '3p;17p' list; cat d/new t/in e ours; readlink link; stat -c '%a %U' run; ls gone d/f 2>&1 | wc -l") \
        == "three\nseventeen\nnew\nin\ne\nours\nb\n700 user\n2"
    assert box.exec(running)["state"] == "running"
    assert merge(box, fork)["changes"] == []


def test_conflicts_are_listed_and_nothing_is_written(box):
    box.out("printf 'a\\nb\\nc\\n' > f; echo 1 > removed; printf '\\0' > bin")
    fork = Fork(box)
    fork.out("sed -i s/b/theirs/ f; echo 2 > removed; printf '\\0theirs' > bin; echo fine > fine; echo t > both")
    box.out("sed -i s/b/ours/ f; rm removed; printf '\\0ours' > bin; echo o > both")
    report = merge(box, fork)
    assert not report["merged"]
    assert conflicts(report) == {"/home/user/f": ("changed", "changed"), "/home/user/removed": ("removed", "changed"),
                                 "/home/user/bin": ("changed", "changed"), "/home/user/both": ("added", "added")}
    assert box.out("ls; sed -n 2p f") == "bin\nboth\nf\nours"
    assert merge(box, fork, prefer="ours")["merged"]
    assert box.out("ls; sed -n 2p f; cat both") == "bin\nboth\nf\nfine\nours\no"
    assert merge(box, fork, prefer="theirs")["merged"]
    assert box.out("ls; sed -n 2p f; cat both") == "bin\nboth\nf\nfine\nremoved\ntheirs\nt"


def test_what_the_sandbox_writes_during_the_merge_stays(box):
    """It writes the last of many paths as soon as the first is removed. Now and then that is too late, and merged."""
    box.out("mkdir d")
    for number in range(10):
        box.out(f"touch d/trigger; echo base{number} > d/z")
        fork = Fork(box)
        fork.out(f"rm d/trigger; for i in $(seq 1000); do echo {number} > d/$i; done; echo theirs > d/z")
        fork.out("echo changed >> /etc/profile", user="root")  # of the template's files
        box.post("execs", {"cmd": ["sh", "-c", "while test -e d/trigger; do :; done; echo mine > d/z"]})
        report = merge(box, fork)
        fork.destroy()
        wait_until(lambda: box.out("cat d/z") == "mine", 10, lambda: "what it wrote is lost")
        if not report["merged"]:
            break
    assert conflicts(report) == {"/home/user/d/z": ("changed", "changed")}
    assert len(report["changes"]) == 1002 and "/home/user/d/z" not in kinds(report)
    assert box.out("ls d | wc -l; tail -n 1 /etc/profile") == "1001\nchanged"


@pytest.mark.parametrize("kind", ["cow", "image"])
def test_nothing_seems_written_meanwhile_on_other_disks(mortal, kind):
    answer = mortal.rest.post("/api/sandboxes", {"disk": {"kind": kind}, "limits": {"diskMB": 64}})
    if answer.status == 409:
        pytest.skip(answer.json["error"]["message"])
    box = Known(mortal, answer.json["id"])
    box.out("seq 1 20 > list; mkdir d; echo old > d/f; ln -s a link; mkfifo pipe; echo gone > gone")
    box.out("chgrp 0 gone; chmod 2750 d", user="root", cwd="/home/user")
    fork = Fork(box)
    fork.out("sed -i s/^3$/three/ list; echo new > d/f; ln -sf b link; rm pipe; echo file > pipe; rm gone; chmod 700 d")
    box.out("sed -i s/^17$/seventeen/ list")
    report = merge(box, fork)
    assert report["merged"] and report["conflicts"] == [] and len(report["changes"]) == 6, report
    assert box.out("sed -n '3p;17p' list; cat d/f pipe; readlink link; stat -c %a d") == "three\nseventeen\nnew\nfile\nb\n2700"
    fork.destroy()
    box.destroy()


def test_several_forks(box):
    box.out("seq 1 20 > list; mkdir d; echo old > d/f; echo same > same")
    one = Fork(box)
    box.out("echo later > later")
    two, three = Fork(box), Fork(box)
    one.out("echo 1 > one; sed -i s/^3$/three/ list; rm same; echo same > both")
    two.out("echo 2 > two; sed -i s/^17$/seventeen/ list; rm same; echo same > both; echo 2 >> later")
    three.out("echo 3 > one")
    report = merge(box, one, two)
    assert report["merged"] and kinds(report) == {
        **{f"/home/user/{name}": "added" for name in ("one", "two", "both")},
        **{f"/home/user/{name}": "changed" for name in ("list", "later")}, "/home/user/same": "removed"}
    assert conflicts(merge(box, three)) == {"/home/user/one": ("added", "added")}
    assert box.out("cat one two later both; sed -n '3p;17p' list; ls same 2>&1 | wc -l") == \
        "1\n2\nlater\n2\nsame\nthree\nseventeen\n1"


def test_forks_that_conflict_with_each_other(box):
    """Nothing is written unless a side is given, whichever comes first."""
    box.out("echo base > f; seq 1 9 > list; mkdir d e; echo old > d/f; echo old > e/f")
    one, two, three = Fork(box), Fork(box), Fork(box)
    one.out("echo 1 > f; echo fine > fine; sed -i s/^5$/one/ list; rm -r d; echo in > e/in; echo 1 > new")
    two.out("echo 2 > f; sed -i s/^5$/two/ list; echo in > d/in; rm -r e; echo file > e; echo 2 > new")
    three.out("echo 3 > three")
    found = {"f": ("changed", "changed"), "list": ("changed", "changed"), "new": ("added", "added")}
    want = {(one.id, two.id): {**found, "d/in": ("removed", "added"), "e": ("changed", "changed")},
            (two.id, one.id): {**found, "e/in": ("removed", "added")}}
    before = box.out("ls -lR")
    for first, second in ((one, two), (two, one)):
        for fields in ({"dryRun": True}, {}):
            report = merge(box, first, three, second, **fields)
            assert not report["merged"] and {(c["with"], c["from"]) for c in report["conflicts"]} == {(first.id, second.id)}
            given = {path.removeprefix("/home/user/"): sides for path, sides in conflicts(report).items()}
            assert given == want[first.id, second.id], report
            assert "/home/user/three" in kinds(report)
    assert box.out("ls -lR") == before
    # With one of their number that conflicts with the sandbox, all conflicts are listed.
    box.out("echo ours > three")
    report = merge(box, three, one, two, dryRun=True)
    assert ("/home/user/three", None) in {(c["path"], c.get("with")) for c in report["conflicts"]}
    assert ("/home/user/f", one.id) in {(c["path"], c.get("with")) for c in report["conflicts"]}
    env = {**os.environ, "ATOLL_SOCKET": str(box.rest.address)}
    done = subprocess.run([BUILD / "atoll", "merge", "--dry-run", box.id, one.id, two.id], text=True, capture_output=True, env=env)
    assert done.returncode == 1 and f"! /home/user/f  ours: changed, theirs: changed ({two.id}, ours is of {one.id})" in done.stdout
    box.out("rm three")
    merge(box, one, two, prefer="theirs")
    assert box.out("cat f new; sed -n 5p list") == "2\n2\ntwo"


def test_a_conflict_after_many_changes_is_found(box):
    fork = Fork(box)
    fork.out("for i in $(seq 2100); do : > a$i; done; echo theirs > z")
    box.out("echo ours > z")
    report = merge(box, fork)
    assert not report["merged"] and conflicts(report) == {"/home/user/z": ("added", "added")}
    assert box.out("ls") == "z"


def test_bad_merges(mortal, box):
    for body, status in [({"from": [box.id]}, 400), ({"from": ["nosuchbox"]}, 404), ({"from": []}, 400),
                         ({"from": ["x" * 26], "prefer": "mine"}, 400), ({"from": ["-"]}, 400)]:
        assert box.post("merge", body).status == status, body


def test_try_keeps_the_best(mortal, box):
    box.out("echo start > result")
    answer = box.post("try", {"count": 3, "cmd": ["sh", "-c", "echo $ATOLL_TRY > result; echo $((ATOLL_TRY % 2))"]})
    assert answer.status == 200, answer.body
    report = answer.json
    assert report["best"] == 1 and report["merge"]["merged"] and report["kept"] is None, report
    assert [one["score"] for one in report["tries"]] == [0, 1, 0]
    assert box.out("cat result") == "1"
    assert [one["id"] for one in mortal.rest.get("/api/sandboxes").json["sandboxes"]] == [box.id]
    none = box.post("try", {"count": 2, "cmd": ["sh", "-c", "echo bad > result; exit 3"]}).json
    assert none["best"] is None and none["merge"] is None and box.out("cat result") == "1"
    assert [one["exit_code"] for one in none["tries"]] == [3, 3]


def test_a_try_says_why_it_failed(mortal, box):
    script = "yes é | head -c 5000; printf '\\377\\n'; echo why it failed >&2; exit 3"
    [one] = box.post("try", {"count": 1, "cmd": ["sh", "-c", script]}).json["tries"]
    assert one["output"].endswith("\ufffd\nwhy it failed\n") and len(one["output"].encode()) <= 2048 + 2, one
    assert set(one["output"].split("\n")[1:-3]) == {"é"}
    done = subprocess.run([BUILD / "atoll", "try", "-n", "1", "--env", "WORD=swordfish", "--cwd", "/tmp", "--user", "root", box.id, "--",
                           "sh", "-c", "id -u; echo $WORD; pwd; exit 5"], text=True, capture_output=True,
                          env={**os.environ, "ATOLL_SOCKET": str(mortal.socket)})
    assert done.returncode == 1 and "nothing was written" in done.stderr, done.stderr
    assert done.stdout == "0  score 0  exit status 5\n   | 0\n   | swordfish\n   | /tmp\n"
    done = subprocess.run([BUILD / "atoll", "try", "-n", "1", box.id, "--", "nosuchcommand"], text=True, capture_output=True,
                          env={**os.environ, "ATOLL_SOCKET": str(mortal.socket)})
    assert done.stdout.startswith("0  score 0  ") and "nosuchcommand" in done.stdout, done.stdout


SLOW = ["sh", "-c", "echo theirs > f; until test -e go; do sleep 0.05; done; rm go; echo $ATOLL_TRY > won; echo $ATOLL_TRY"]


@contextlib.contextmanager
def slow_try(mortal, box, function):
    """A try by `function`, whose commands run on, each in a fork, until the end of the body."""
    thread = threading.Thread(target=function)
    thread.start()
    wait_until(lambda: len(others(box)) == 2, 30, lambda: others(box))
    for one in others(box):
        wait_until(lambda: one.rest.get(f"{one.path}/files", path="/home/user/f").body == b"theirs\n", 30, lambda: one.view)
    yield
    if mortal.process.poll() is None:
        for one in others(box):
            one.out("touch go")
    thread.join(60)
    assert not thread.is_alive()


def test_the_best_is_kept_if_it_was_not_merged(mortal, box):
    box.out("echo base > f")
    reports = []
    with slow_try(mortal, box, lambda: reports.append(
            Rest(mortal.socket).post(f"{box.path}/try", {"count": 2, "cmd": SLOW}).json)):
        box.out("echo ours > f")
    report, = reports
    assert report["best"] == 1 and not report["merge"]["merged"]
    assert conflicts(report["merge"]) == {"/home/user/f": ("changed", "changed")}
    kept, = others(box)
    assert report["kept"] == kept.id and box.out("cat f; ls") == "ours\nf"
    kill_daemon(mortal)
    mortal.start()
    assert kept.out("cat won") == "1"
    assert merge(box, kept, prefer="theirs")["merged"] and box.out("cat f won") == "theirs\n1"


def test_the_command_line_says_how_to_merge_what_was_kept(mortal, box):
    box.out("echo base > f")
    env = {**os.environ, "ATOLL_SOCKET": str(mortal.socket)}
    ended = []
    for words in ([], ["--json"]):
        with slow_try(mortal, box, lambda: ended.append(subprocess.run(
                [BUILD / "atoll", "try", *words, box.id, "--", *SLOW], text=True, capture_output=True, env=env))):
            box.out("echo ours >> f")
        done, (kept,) = ended.pop(), others(box)
        assert done.returncode == 1 and f"atoll merge {box.id} {kept.id} --ours|--theirs" in done.stderr, done.stderr
        if not words:
            assert "1  score 1  best" in done.stdout and "merged" not in done.stdout, done.stdout
            assert "! /home/user/f  ours: changed, theirs: changed" in done.stdout
        kept.destroy()


def test_the_best_is_kept_if_the_merge_fails(mortal, box):
    reports = []
    with slow_try(mortal, box, lambda: reports.append(
            Rest(mortal.socket).post(f"{box.path}/try", {"count": 2, "cmd": SLOW}).json)):
        assert box.post("pause", {}).status == 200
    report, = reports
    kept, = others(box)
    assert report["best"] == 1 and report["merge"] is None and report["kept"] == kept.id and "error" in report, report
    assert box.post("resume", {}).status == 200


def test_a_fork_of_a_try_may_be_restored_to_another_template(mortal, box):
    """It is kept then, and neither that template nor the next start is the worse for it."""
    wins = "if [ $ATOLL_TRY = 0 ]; then echo 2; exit; fi; touch waits; until test -e go; do sleep 0.05; done; false"
    reports = []
    thread = threading.Thread(target=lambda: reports.append(
        Rest(mortal.socket).post(f"{box.path}/try", {"count": 2, "cmd": ["sh", "-c", wins]}).json))
    thread.start()
    wait_until(lambda: len(others(box)) == 2, 30, lambda: others(box))
    waits = lambda one: one.rest.get(f"{one.path}/files", path="/home/user/waits").status == 200
    wait_until(lambda: any(map(waits, others(box))), 30, lambda: others(box))
    slow, = filter(waits, others(box))
    best, = (one for one in others(box) if one.id != slow.id)
    wait_until(lambda: [one["state"] for one in best.rest.get(f"{best.path}/execs").json["execs"]] == ["ended"], 30,
               lambda: best.rest.get(f"{best.path}/execs").json)
    refused = mortal.rest.post("/api/sandboxes", {"template": best.view["template"]})
    assert refused.status == 404, refused.body  # it is removed with the try
    assert best.post("restore", {"snapshot": "host"}).status == 200
    assert box.post("pause", {}).status == 200
    slow.out("touch go")
    thread.join(60)
    assert reports[0]["kept"] == best.id and reports[0]["merge"] is None, reports
    kill_daemon(mortal)
    mortal.start()
    assert best.out("echo up") == "up"
    assert "host" in [one["name"] for one in mortal.rest.get("/api/templates").json["templates"]]
    assert box.post("resume", {}).status == 200


def test_the_forks_of_a_killed_try_are_removed(mortal, box):
    def attempt():
        with contextlib.suppress(OSError):
            Rest(mortal.socket).post(f"{box.path}/try", {"count": 2, "cmd": SLOW})

    with slow_try(mortal, box, attempt):
        kill_daemon(mortal)
    mortal.start()
    wait_until(lambda: others(box) == [], 30, lambda: others(box))
    wait_until(lambda: layers(mortal) == set(), 30, lambda: layers(mortal))
    assert box.out("ls") == ""


def test_a_merge_can_be_undone(mortal):
    box = Box(mortal.rest, checkpoints="command")
    box.out("echo one > f")
    fork = Fork(box)
    fork.out("echo two > f")
    assert merge(box, fork)["merged"] and box.rest.get(f"{box.path}/files", path="/home/user/f").body == b"two\n"
    assert box.post("undo", {}).status == 200
    assert box.out("cat f") == "one"
    fork.destroy()
    box.destroy()


def test_the_command_line_and_the_example(mortal, box):
    env = {**os.environ, "ATOLL_SOCKET": str(mortal.socket), "ATOLL": str(BUILD / "atoll")}

    def atoll(*words, status=0):
        done = subprocess.run([BUILD / "atoll", *words], text=True, capture_output=True, env=env)
        assert done.returncode == status, done.stderr
        return done.stdout.strip()

    box.out("echo a > f")
    fork = atoll("fork", box.id)
    atoll("exec", fork, "--", "sh", "-c", "echo b > f; echo n > n")
    assert atoll("merge", "--dry-run", box.id, fork) == "~ /home/user/f\n+ /home/user/n"
    box.out("echo c > f")
    assert "! /home/user/f  ours: changed, theirs: changed" in atoll("merge", box.id, fork, status=1)
    assert "~ /home/user/f" in atoll("merge", "--theirs", box.id, fork)
    assert "1  score 1  merged" in atoll("try", "--count", "2", box.id, "--", "sh", "-c", "test $ATOLL_TRY = 1 && echo t > t")
    assert box.out("cat f t") == "b\nt"
    done = subprocess.run([ROOT / "examples/fork-score-merge/run.sh"], text=True, capture_output=True, env=env)
    assert done.returncode == 0 and "3 of 3 tests pass" in done.stdout, done.stdout + done.stderr
