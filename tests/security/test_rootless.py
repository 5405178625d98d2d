"""An ordinary user's daemon: fewer limits only when the user says so, the same walls anyway."""

import os
import re
import tarfile
from pathlib import Path

import pytest

import daemons
import probing

# Everything but the check that takes a second sandbox.
CHECKS = [name for name in probing.known_checks() if name != "net.peer_sandbox"]
LIMITS = ("memory", "cpu", "pids", "disk")


@pytest.fixture(scope="module")
def refusal(rootless_daemon):
    return rootless_daemon.atoll("create")


@pytest.fixture(scope="module")
def missing(refusal):
    """The limits this host cannot give, as the refusal names them."""
    return [name for name in LIMITS if re.search(rf"\b{name}\b", refusal.stderr)]


@pytest.fixture(scope="module")
def waived(rootless_daemon, missing):
    name = rootless_daemon.create("--waive", ",".join(missing))
    yield name
    rootless_daemon.atoll("rm", name)


def test_missing_limits_are_refused(refusal, missing):
    if refusal.returncode == 0:
        pytest.skip("this host delegates every limit to its users")
    assert "--waive" in refusal.stderr
    assert missing


def test_every_missing_limit_must_be_named(rootless_daemon, missing):
    if len(missing) < 2:
        pytest.skip("fewer than two limits are missing on this host")
    assert rootless_daemon.atoll("create", "--waive", missing[0]).returncode != 0


def test_runs_when_waived(rootless_daemon, waived):
    done = rootless_daemon.atoll("exec", waived, "--", "sh", "-c", "id -u; exit 7")
    assert (done.stdout, done.returncode) == ("1000\n", 7)


@pytest.fixture(scope="module")
def rootless_inside(rootless_daemon, waived, host, probe):
    probing.put_probe(rootless_daemon, waived, probe)
    facts = probing.inside_facts(host, rootless_daemon, "user", "")
    return probing.run_inside(rootless_daemon, waived, facts, only=CHECKS)


@pytest.mark.parametrize("check", CHECKS)
def test_closed_inside(rootless_inside, missing, check):
    if check == "lim.disk" and "disk" in missing:
        pytest.skip("the disk limit was waived, because this host cannot give it to a user")
    status, detail = rootless_inside[check]
    assert status == "PASS", detail


def leave_files(daemon, owner):
    """As a sandbox does that died in the middle of an import."""
    tree = daemon.state / "sandboxes" / "a.disk" / "u" / "private"
    tree.mkdir(parents=True)
    (tree / "file").touch()
    for path in (tree, tree / "file"):
        os.chown(path, owner, owner)
        path.chmod(0o700)
    user = daemons.ensure_rootless_user()
    for path in list(tree.parents)[:2]:
        os.chown(path, user.pw_uid, user.pw_gid)


def test_what_cannot_be_removed_is_in_nobodys_way():
    """Files with ids that are none of the user's."""
    with daemons.running(daemons.BUILD, daemons.ensure_rootless_user()) as daemon:
        assert daemon.stop() == []
        leave_files(daemon, 4)
        for _ in range(2):
            daemon.start()
            assert daemon.atoll("doctor").stdout
            assert not list((daemon.state / "sandboxes").iterdir())
            assert daemon.stop() == []
            assert len(list((daemon.state / "layers").iterdir())) == 1
        daemon.start()


def test_what_belongs_to_sub_ids_is_removed():
    user = daemons.ensure_rootless_user()
    lines = Path("/etc/subuid").read_text().splitlines()
    first = next(int(line.split(":")[1]) for line in lines if line.startswith(f"{user.pw_name}:"))
    with daemons.running(daemons.BUILD, user) as daemon:
        assert daemon.stop() == []
        leave_files(daemon, first + 4)
        daemon.start()
        layers = daemon.state / "layers"
        daemons.wait_until(lambda: not list(layers.iterdir()), 30, daemon.log_tail)


@pytest.fixture
def directory():
    with daemons.open_directory() as made:
        yield made


def test_a_template_with_other_owners_can_be_removed(directory):
    archive = directory / "root.tar"
    with tarfile.open(archive, "w") as tar:
        for name in ("private", "private/deeper"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, 0o700, 5, 5
            tar.addfile(entry)
    archive.chmod(0o644)
    with daemons.running(daemons.BUILD, daemons.ensure_rootless_user()) as daemon:
        daemon.atoll("template", "import", "owners", archive, check=True)
        assert list((daemon.state / "layers").iterdir())
        daemon.atoll("template", "rm", "owners", check=True)
        assert not list((daemon.state / "layers").iterdir())
