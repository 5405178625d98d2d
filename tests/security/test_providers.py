"""The probe in containers and in gVisor: closed as a native sandbox, but for what is said here.

A row of OPEN says how a promise is not kept there, to the letter, and why that is so: a door that
opens in another way, or one more, fails. What cannot be asked inside is looked at from the host.
"""

import contextlib
import functools
import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

import places
import probing
import processes
import pytest
from boxes import Box
from canary import ROOT_CAPS, as_arguments, canary_facts
from daemons import cgroups, wait_until
from test_isolation import OPEN_FOR_ROOT

# By provider: {check: (how it shows, why)}. `atoll verify` has the table, src/tools/verify/tiers.c.
CHECKS = probing.known_checks()
OPEN = {provider: {check: row for check, row in probing.not_offered(isolation, "user").items()
                   if check in CHECKS}
        for provider, isolation in (("docker", "container"), ("gvisor", "gvisor"))}


@dataclass
class Probed:
    provider: str
    world: places.World
    box: Box
    results: dict  # by user


@contextlib.contextmanager
def probing_in(provider, host, probe):
    """The probe in a default sandbox, with a neighbour beside it."""
    with places.world([provider]) as world:
        place, peer = world.places[provider], canary_facts()
        with place.box() as first, place.box() as second:
            for box in (first, second):
                put = place.rest.put(f"{box.path}/files", probe.read_bytes(),
                                     path=probing.PROBE_INSIDE, mode="0755")
                assert put.status == 200, put.body
            canary = second.post("execs", {"cmd": [probing.PROBE_INSIDE, "--canary",
                                                   *as_arguments(peer)]}).json["exec_id"]
            wait_until(lambda: second.output(canary) == "ready\n", 30,
                       lambda: f"the canary process does not start: {second.exec(canary)}")
            yield Probed(provider, world, first, {user: run(world, first, host, user, peer)
                                                  for user in ("user", "root")})


@pytest.fixture(scope="module")
def worlds(host, probe):
    """Each once, whatever the order of the tests."""
    with contextlib.ExitStack() as stack:
        yield functools.cache(lambda name: stack.enter_context(probing_in(name, host, probe)))


@pytest.fixture(params=["docker", "gvisor"])
def probed(request, worlds):
    reason = places.missing(request.param)
    if reason:
        pytest.skip(f"no {request.param} here: {reason}")
    return worlds(request.param)


def run(world, box, host, user, peer):
    facts = probing.inside_facts(host, world.daemon, user, peer["port"])
    answer = box.post("execs", {"cmd": [probing.PROBE_INSIDE, *as_arguments(facts)], "user": user},
                      wait="true")
    assert answer.status == 200 and answer.json["result"]["exit_code"] == 0, answer.body
    return probing.parse(answer.json["stdout"])


def is_as_said(provider, user, check, status, detail):
    if status == "PASS" or (user == "root" and check in OPEN_FOR_ROOT):
        return True
    row = OPEN[provider].get(check)
    return row is not None and re.fullmatch(row[0], detail) is not None


@pytest.mark.parametrize("user", ["user", "root"])
def test_closed_inside(probed, user):
    results = probed.results[user]
    assert len(results) > 100 and set(OPEN[probed.provider]) <= set(results)
    wrong = [f"{check}: {status} {detail}" for check, (status, detail) in results.items()
             if not is_as_said(probed.provider, user, check, status, detail)]
    assert not wrong, "\n".join(wrong)


def test_arguments_of_the_agent(probed):
    """Of its command line everybody inside can read all: paths inside, and nothing of the host."""
    words = probed.box.out("tr '\\0' '\\n' < /proc/1/cmdline").splitlines()
    paths = [word for word in words if "/" in word]
    assert paths and all(path.startswith(("/.atoll/", "/home/user")) for path in paths), words
    text = " ".join(words)
    assert str(probed.world.daemon.state) not in text and probed.box.id not in text


@pytest.mark.parametrize("user", ["user", "root"])
@pytest.mark.parametrize("probed", ["docker"], indirect=True)
def test_as_the_host_sees_it(probed, user):
    """The kernel's own record of a process. It has none of those in gVisor."""
    marker = processes.marker()
    probed.box.post("execs", {"cmd": processes.idle(marker), "user": user})
    pid = processes.wait_marked(marker)
    record = processes.status(pid)
    assert record["NoNewPrivs"] == ["1"] and record["Seccomp"] == ["2"]
    for field in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(record[field][0], 16) & ~(ROOT_CAPS if user == "root" else 0) == 0, field
    assert sorted(os.listdir(f"/proc/{pid}/fd")) == ["0", "1", "2"]
    for fd in "012":
        target = os.readlink(f"/proc/{pid}/fd/{fd}")
        mode = os.stat(f"/proc/{pid}/fd/{fd}").st_mode
        assert stat.S_ISFIFO(mode) or target == "/dev/null", f"{fd} is {target}"


SENTRY_CAPS = 0x24001f  # SYS_ADMIN, SYS_CHROOT; CHOWN, DAC_*, FOWNER, FSETID


def members(box):
    """The processes of the host in its cgroup."""
    found = set()
    for path in cgroups():
        if path.name == box.id:
            with contextlib.suppress(OSError):
                found |= set(map(int, (path / "cgroup.procs").read_text().split()))
    return found


@pytest.mark.parametrize("probed", ["gvisor"], indirect=True)
def test_the_sentry_as_the_host_sees_it(probed):
    """Everything inside runs in gVisor's kernel, and that in processes of the host: closed as a
    sandbox of its own. The runsc that waits for them, and the keeper that saves and restores them, run nothing from
    inside."""
    seen = set()
    for pid in members(probed.box):
        with contextlib.suppress(OSError):
            word = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
            record = processes.status(pid)
            if word in ("runsc", "atoll"):
                continue
            seen.add(word)
            assert record["NoNewPrivs"] == ["1"] and record["Seccomp"] == ["2"], (word, record)
            assert "0" not in record["Uid"] + record["Gid"] + record["Groups"], (word, record)
            for kind in ("mnt", "ipc", "uts", "net", "pid", "user"):
                assert os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
            # What runsc needs in that user namespace, and over files of the sandbox (gofer).
            assert int(record["CapEff"][0], 16) & ~SENTRY_CAPS == 0, (word, record)
    assert {"runsc-sandbox", "runsc-gofer"} <= seen, seen


@pytest.mark.parametrize("probed", ["gvisor"], indirect=True)
def test_nothing_of_the_host_kernel(probed):
    """What gVisor's kernel says of itself is its own invention."""
    said = probed.box.out("cat /proc/cmdline /proc/version; dmesg 2>/dev/null; true", user="root")
    ours = Path("/proc/cmdline").read_text().split()
    assert "gvisor" in said
    assert os.uname().release not in said
    assert not [word for word in ours if len(word) > 8 and word in said]


@pytest.mark.parametrize("probed", ["docker"], indirect=True)
def test_images_lead_to_no_service_of_the_host(probed):
    """Any client may name an image; the engine stands where the client does not (row D30)."""
    done = probed.world.daemon.atoll("verify", "--tier", "daemon", "--only", "api.ssrf", "--json")
    [check] = json.loads(done.stdout)["tiers"][0]["checks"]
    assert check["verdict"] == "holds", check["evidence"]
