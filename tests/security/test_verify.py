"""`atoll verify`: it finds nothing where everything stands, and whatever layer is taken away.

An ordinary build is verified as it is. A build with test switches (that of the sanitizers, or
ATOLL_SWITCH_BUILD) leaves layers out by ATOLL_WEAKEN: each must be a finding of the check that is
there for it, or the check proves nothing.
"""

import concurrent.futures
import json
import os
import subprocess
import threading

import places
import pytest
from daemons import BUILD, ROOT, need_build, wait_for_room
from faults import compiled_in
from rest import Rest
from test_isolation import CANNOT_TELL

SWITCH_BUILD = ROOT / os.environ.get("ATOLL_SWITCH_BUILD", BUILD)
AT_ONCE = 3  # they mostly wait
LONG = 170  # seconds for one that looks at everything, on a machine that is busy with other things
FOUND, IMPOSSIBLE = 1, 2

# Beside those of the probe: what this kind of host, or one that is busy, has nothing to find for.
CANNOT_TELL_MORE = {
    "bomb.inotify": "the host has a limit per user of its own",
    "bomb.cpu": "on a busy host two processes get no more either",
    "key.session": "nobody gave the daemon a key to hide",
    "residue.host": "an engine names its cgroups by names of its own",
}


ordinary = pytest.mark.skipif(compiled_in(BUILD), reason="for the build that users have")
weakened = pytest.mark.skipif(not compiled_in(SWITCH_BUILD),
                              reason=f"{SWITCH_BUILD} was built without -Dtest_switches=true")


def run(build, *options, **environment):
    """A verification with a daemon of its own."""
    need_build()
    wait_for_room(2)
    return subprocess.run([str(build / "atoll"), "verify", "--start", "--json", *options],
                          env=os.environ | environment, capture_output=True, text=True,
                          timeout=LONG, stdin=subprocess.DEVNULL)


def found(report):
    return {check["id"] for tier in report["tiers"] for check in tier["checks"]
            if check["verdict"] == "found"}


def told(report, verdict):
    return [f"{tier['tier']}: {check['id']}: {check['evidence']}" for tier in report["tiers"]
            for check in tier["checks"] if check["verdict"] == verdict]


def assert_holds(done, tiers):
    """No findings, nothing left out, and every check but a few proven by the control."""
    report = json.loads(done.stdout)
    assert not report["trouble"], report["trouble"]
    assert not told(report, "found")
    assert done.returncode == 0, done.stderr
    assert {tier["tier"] for tier in report["tiers"]} == tiers
    assert all(len(tier["checks"]) > 150 for tier in report["tiers"])
    return report


def unknown(report):
    return {check["id"] for tier in report["tiers"] for check in tier["checks"]
            if check["verdict"] == "unknown"}


@ordinary
@pytest.mark.timeout(LONG + 10)
def test_native(daemon):
    done = daemon.atoll("verify", "--json", "--provider", "native", timeout=LONG)
    report = assert_holds(done, {"native", "native, root inside"})
    assert unknown(report) <= CANNOT_TELL.keys() | CANNOT_TELL_MORE.keys()
    control = {check["id"]: check["verdict"] for check in report["control"]}
    assert sum(verdict == "found" for verdict in control.values()) > 130


@ordinary
@pytest.mark.timeout(LONG + 10)
def test_rootless(rootless_daemon):
    """An ordinary user's control opens less, so less is proven; nothing may be found all the same."""
    done = rootless_daemon.atoll("verify", "--json", "--provider", "native", timeout=LONG)
    report = assert_holds(done, {"native", "native, root inside"})
    assert sum(tier["counts"]["holds"] for tier in report["tiers"]) > 150


@ordinary
@pytest.mark.timeout(LONG + 30)
@pytest.mark.parametrize("name", ["docker", "gvisor"])
def test_provider(name):
    reason = places.missing(name)
    if reason:
        pytest.skip(f"no {name} here: {reason}")
    with places.world([name]) as world:
        done = world.daemon.atoll("verify", "--json", "--provider", name, timeout=LONG)
    assert_holds(done, {name, f"{name}, root inside"})


@ordinary
@pytest.mark.timeout(LONG + 10)
def test_a_host_that_its_operator_opens_is_found():
    done = run(BUILD, "--only", "egress", "--tier", "native", ATOLL_NETWORK_INTERNAL="0.0.0.0/0")
    report = json.loads(done.stdout)
    if "egress.host_service" in unknown(report):
        pytest.skip("this host has no address")
    assert done.returncode == FOUND and found(report) == {"egress.host_service"}, done.stdout


@ordinary
def test_the_report_is_for_people(daemon):
    done = daemon.atoll("verify", "--tier", "native", "--only", "seccomp.,sc.kexec", timeout=60)
    assert done.returncode == 0, done.stderr
    assert "native, root inside" in done.stdout and "No findings" in done.stdout.splitlines()[-1]


@ordinary
def test_without_a_daemon(daemon, tmp_path):
    """Whoever says where the daemon is means that one; whoever does not gets one."""
    environment = {**daemon.env, "ATOLL_SOCKET": str(tmp_path / "nobody.sock")}
    command = [str(BUILD / "atoll"), "verify", "--only", "seccomp.mode", "--tier", "native", "--json"]
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert refused.returncode == IMPOSSIBLE and "atoll up" in refused.stderr
    started = subprocess.run([*command, "--start"], env=environment, capture_output=True, text=True,
                             timeout=60)
    assert started.returncode == 0 and json.loads(started.stdout)["daemon_started"]


@ordinary
@pytest.mark.parametrize(("words", "told"), [
    (["--provider", "nobody"], "atoll providers"),
    (["--provider", "native", "--provider", "nobody"], "atoll providers"),
    (["--tier", "native", "--tier", "nativ"], "atoll providers"),
    (["--only", "seccomp.mode,secomp"], "atoll verify --list"),
    (["--only", ""], "atoll verify --list"),
])
def test_what_is_not_there_is_not_verified(daemon, words, told):
    done = daemon.atoll("verify", *words)
    assert done.returncode == IMPOSSIBLE and told in done.stderr


@ordinary
def test_nothing_looked_at_proves_nothing(daemon):
    done = daemon.atoll("verify", "--tier", "daemon", "--only", "seccomp.mode")
    assert done.returncode == IMPOSSIBLE and "nothing was looked at" in done.stdout


@ordinary
@pytest.mark.timeout(LONG + 10)
def test_switches_are_not_obeyed():
    """As WEAKENED below shows, the layers are missing where a build has the switches."""
    done = run(BUILD, "--only", "seccomp.mode,api.privilege", ATOLL_WEAKEN="own_filter,seccomp")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and not found(report), done.stdout
    assert {"seccomp.mode", "api.privilege"} <= {check["id"] for tier in report["tiers"]
                                                 for check in tier["checks"]
                                                 if check["verdict"] == "holds"}


# The layers left out, and checks each of which must see it.
WEAKENED = [
    ("seccomp", "seccomp.mode sc.io_uring sock.netlink_nf userns.unshare seen.seccomp"),
    ("seccomp,no_new_privs", "nnp seen.nnp"),
    ("seccomp,keyring", "key.session"),
    ("proc_masks", "proc.cmdline proc.host_state proc.masked_info proc.kallsyms"),
    ("proc_views", "proc.load"),
    ("proc_read_only", "proc.sys_ro"),
    ("pid_namespace", "ns.pid proc.kthreads_hidden"),
    ("net_namespace", "ns.net net.ifaces net.host_service net.peer_sandbox"),
    ("ipc_namespace", "ns.ipc ipc.sysv"),
    ("uts_namespace", "ns.uts"),
    ("cgroup_namespace", "ns.cgroup cg.path_hidden"),
    ("ids", "id.kuid_nonroot seen.kuid seen.kuid_unique"),
    ("capabilities", "cap.dangerous cap.bounding seen.caps"),
    ("groups", "id.groups"),
    ("descriptors", "fd.inherited seen.fds"),
    ("session", "tty.session"),
    ("environment", "env.canary seen.init"),
    ("sealed_program", "seen.sealed"),
    ("dev", "dev.minimal"),
    ("host_files", "fs.host_canary fs.writes_inside"),
    ("hidden", "fs.private_hidden"),
    ("mount_flags", "fs.mount_flags"),
    ("propagation", "fs.mount_propagation"),
    ("rlimits", "lim.core lim.nofile bomb.fds"),
    ("netlink", "bomb.netlink"),
    ("oom_score", "seen.oom"),
    ("memory_limit", "bomb.memory seen.limits"),
    ("pids_limit", "bomb.fork seen.limits"),
    ("cpu_limit", "seen.limits"),
    ("disk_limit", "lim.disk lim.shm bomb.disk"),
    ("inode_limit", "bomb.inodes"),
    ("pty_limit", "bomb.ptys"),
    ("quota_owner", "quota.inotify quota.signals quota.mqueue quota.memlock"),
]

# Bombs that only the default user throws.
AS_USER = {"pty_limit", "netlink"}


@pytest.fixture(scope="module")
def verdicts():
    """A verification for each, several at once: {layers: future}."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        yield {layers: pool.submit(run, SWITCH_BUILD, "--only", checks.replace(" ", ","), "--tier",
                                   "native" if layers in AS_USER else "native, root inside",
                                   ATOLL_WEAKEN=layers)
               for layers, checks in WEAKENED}


@weakened
@pytest.mark.timeout(LONG + 10)
@pytest.mark.parametrize("layers, checks", WEAKENED, ids=[row[0] for row in WEAKENED])
def test_missing_layer_is_found(verdicts, layers, checks):
    done = verdicts[layers].result()
    assert done.returncode == FOUND, done.stderr
    report = json.loads(done.stdout)
    assert found(report) == set(checks.split()) - (unknown(report) & CANNOT_TELL.keys())


@weakened
@pytest.mark.timeout(LONG + 10)
def test_nothing_is_found_otherwise():
    """The same build, with every layer in its place."""
    done = run(SWITCH_BUILD, "--tier", "native, root inside")
    assert done.returncode == 0, done.stdout + done.stderr


@weakened
@pytest.mark.timeout(LONG + 30)
def test_missing_layers_of_a_container_are_found():
    reason = places.missing("docker")
    if reason:
        pytest.skip(f"no docker here: {reason}")
    expected = {"seccomp.mode", "seen.seccomp", "proc.sys_ro", "proc.core_pattern_w", "proc.cmdline"}
    with places.world(["docker"]) as world:
        world.daemon.stop()
        world.daemon.env["ATOLL_WEAKEN"] = "docker_seccomp,docker_paths"
        world.daemon.start()
        done = world.daemon.atoll("verify", "--json", "--tier", "docker, root inside", "--only",
                                  ",".join(expected), timeout=LONG)
    assert done.returncode == FOUND, done.stdout + done.stderr
    assert found(json.loads(done.stdout)) == expected


def test_sandboxes_that_others_remove_are_no_findings(daemon):
    """What was seen of a sandbox that is gone says nothing: could not be verified."""
    rest, over = Rest(daemon.socket), threading.Event()

    def remove_all():
        while not over.wait(0.02):
            rest.delete("/api/sandboxes")

    remover = threading.Thread(target=remove_all)
    remover.start()
    try:
        for _ in range(5):  # on a quick machine a whole run may slip between two removals
            done = daemon.atoll("verify", "--json", "--only",
                                "residue,api.path_traversal,api.residue,api.destroy,"
                                "api.output_flood", timeout=80)
            if json.loads(done.stdout)["counts"]["unknown"] > 0:
                break
    finally:
        over.set()
        remover.join()
    report = json.loads(done.stdout)
    assert report["counts"]["found"] == 0, report["findings"]
    assert done.returncode == 2 and report["counts"]["unknown"] > 0
    seen = [check["evidence"] for tier in report["tiers"] for check in tier["checks"]]
    assert report["trouble"] or any("removed by another client" in text for text in seen)
