"""The probe in containers and in gVisor: closed as a native sandbox, but for what is said here."""

import os
import stat
from dataclasses import dataclass

import places
import probing
import processes
import pytest
from boxes import Box
from canary import ROOT_CAPS, as_arguments, canary_facts
from test_isolation import CHECKS, OPEN_FOR_ROOT

# What differs by nature of the provider. Everything else has to be closed.
ENGINE = "the engine makes the mounts of its containers, and offers no other way"
SAME_IDS = "an engine without userns-remap gives containers no user namespace of their own"
SENTRY = "gVisor's own kernel does this, and nothing of the host's is reached by it"
UNKNOWN = "gVisor's kernel has no such file to look at"
ARGUMENTS = "the agent is started by its command line; it names paths inside, and no secret"
OPEN = {
    "docker": {
        "dev.minimal": ENGINE,
        "fs.mount_flags": ENGINE,
        "fs.mount_propagation": ENGINE,
        "fs.mountinfo_paths": ENGINE,
        "id.kuid_nonroot": SAME_IDS,
        "ns.user": SAME_IDS,
        "proc.pid1_cmdline": ARGUMENTS,
    },
    "gvisor": {
        "cap.inh_amb": UNKNOWN,
        "nnp": UNKNOWN,
        "ns.cgroup": UNKNOWN,
        "ns.ipc": UNKNOWN,
        "ns.mnt": UNKNOWN,
        "ns.uts": UNKNOWN,
        "proc.pid1_cmdline": ARGUMENTS,
        **dict.fromkeys(
            ["c.abi_i386", "c.abi_i386_socket", "c.tiocsti_hi32", "dev.minimal", "dev.open",
             "fs.mount_flags", "fs.open_by_handle", "fs.system_dirs_ro", "id.kuid_nonroot",
             "net.so_mark", "ns.setns", "ns.unshare", "proc.cmdline", "proc.sysctl_net_w",
             "proc.sysctl_w", "sc.io_uring", "sc.oom_adj", "sc.perf", "sc.personality",
             "sc.sched_rt", "sc.syslog",
             "seccomp.mode", "sock.inet_protos", "sock.netlink_misc", "sys.ro", "tty.session",
             "tty.tiocsti", "userns.clone", "userns.unshare"], SENTRY),
    },
}


@dataclass
class Probed:
    provider: str
    box: Box
    results: dict  # by user


@pytest.fixture(scope="module", params=["docker", "gvisor"])
def probed(request, host, probe):
    """The probe in a default sandbox, with a neighbour beside it."""
    reason = places.missing(request.param)
    if reason:
        pytest.skip(f"no {request.param} here: {reason}")
    with places.world([request.param]) as world:
        place, peer = world.places[request.param], canary_facts()
        with place.box() as first, place.box() as second:
            for box in (first, second):
                put = place.rest.put(f"{box.path}/files", probe.read_bytes(),
                                     path=probing.PROBE_INSIDE, mode="0755")
                assert put.status == 200, put.body
            second.post("execs", {"cmd": [probing.PROBE_INSIDE, "--canary", *as_arguments(peer)]})
            yield Probed(request.param, first, {user: run(world, first, host, user, peer)
                                                for user in ("user", "root")})


def run(world, box, host, user, peer):
    facts = probing.inside_facts(host, world.daemon, user, peer["port"])
    answer = box.post("execs", {"cmd": [probing.PROBE_INSIDE, *as_arguments(facts)], "user": user},
                      wait="true")
    assert answer.status == 200 and answer.json["result"]["exit_code"] == 0, answer.body
    return probing.parse(answer.json["stdout"])


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("user", ["user", "root"])
def test_closed_inside(probed, user, check):
    status, detail = probed.results[user][check]
    if user == "root" and check in OPEN_FOR_ROOT:
        return
    if check in OPEN[probed.provider] and status != "PASS":
        pytest.skip(f"{OPEN[probed.provider][check]} ({detail})")
    assert status == "PASS", detail


@pytest.mark.parametrize("user", ["user", "root"])
def test_as_the_host_sees_it(probed, user):
    """The kernel's own record of a process; of gVisor's there is none."""
    if probed.provider == "gvisor":
        pytest.skip("processes inside are gVisor's, the host has no record of them")
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
