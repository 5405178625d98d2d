"""Running the probe: its checks, its answers, inside a sandbox and outside as a control."""

import fcntl
import functools
import json
import os
import pty
import subprocess
import termios

from canary import ROOT_CAPS, as_arguments
from daemons import BUILD, need_build

PROBE_INSIDE = "/home/user/probe"
MEMORY, DISK = 512 << 20, 256 << 20  # the documented defaults


@functools.cache
def listed():
    """What `atoll verify` knows: every check, and what tiers do not offer."""
    need_build()
    done = subprocess.run([str(BUILD / "atoll"), "verify", "--list", "--json"], check=True,
                          capture_output=True, text=True)
    return json.loads(done.stdout)


def known_checks():
    """{id: row} of every check of the probe."""
    return {check["id"]: int(check["row"]) for check in listed()["checks"]
            if check["by"] == "probe"}


def not_offered(isolation, user):
    """{id: (how it shows, why)} of what a tier does not give by its nature."""
    return {row["id"]: (row["how"], row["reason"]) for row in listed()["not_offered"]
            if row["isolation"] in ("", isolation) and row["user"] in ("", user)
            and not row["rootless"]}


def parse(output):
    """{id: (status, detail)} from the lines of the probe."""
    results = {}
    for line in output.splitlines():
        answer = json.loads(line)
        results[answer["id"]] = (answer["status"], answer["detail"])
    return results


def inside_facts(host, daemon, user, peer):
    return host.facts | {
        "scan": "all",
        "init": 1,
        "socket": daemon.socket,
        "state": daemon.state,
        "peer": peer,
        "memory": MEMORY,
        "disk": DISK,
        "caps": f"{ROOT_CAPS if user == 'root' else 0:x}",
    }


def run_inside(daemon, sandbox, facts, user=None, only=None):
    """Runs the probe in a sandbox that already holds it."""
    arguments = as_arguments(facts | ({"only": ",".join(only)} if only else {}))
    who = ["--user", user] if user else []
    done = daemon.atoll("exec", *who, sandbox, "--", PROBE_INSIDE, *arguments, check=True)
    return parse(done.stdout)


def put_probe(daemon, sandbox, probe):
    daemon.atoll("cp", probe, f"{sandbox}:{PROBE_INSIDE}", check=True)


def outside_facts(host):
    return host.facts | {
        "scan": host.process.pid,  # the only process of the host the control may look at
        "init": host.process.pid,
        "socket": host.socket,
        "state": "/",
        "peer": host.facts["port"],
        "memory": MEMORY,
        "disk": DISK,
        "caps": "0",
        "tmp": host.directory,
    }


def run_outside(probe, host, environment):
    """Runs the probe on the host, started as carelessly as possible.

    It gets a controlling terminal, a spare descriptor, supplementary groups, an ambient
    capability, the launcher's environment and a working directory that is gone, so that the
    checks for those have something to find.
    """
    master, slave = pty.openpty()
    doomed = host.directory / "doomed"
    doomed.mkdir()

    def become_careless():
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        os.chdir(doomed)
        doomed.rmdir()

    command = ["setpriv", "--groups", "4,24", "--inh-caps", "+chown", "--ambient-caps", "+chown",
               str(probe), *as_arguments(outside_facts(host))]
    try:
        with open(host.file) as spare:
            done = subprocess.run(command, env=environment, stdin=slave, capture_output=True,
                                  text=True, pass_fds=[spare.fileno()], preexec_fn=become_careless,
                                  timeout=60, check=True)
    finally:
        os.close(master)
        os.close(slave)
    return parse(done.stdout) | run_shared_mounts(probe, environment)


def run_shared_mounts(probe, environment):
    """Not every host shares its mounts; a mount namespace of our own can."""
    done = subprocess.run(["unshare", "--mount", "--propagation", "shared", str(probe),
                           "only=fs.mount_propagation"], env=environment, check=True,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return parse(done.stdout)


def bomb(daemon, sandbox, name, cap):
    """The report of a bomb in a sandbox that holds the probe."""
    done = daemon.atoll("exec", sandbox, "--", PROBE_INSIDE, "--bomb", name, cap, check=True)
    return json.loads(done.stdout)
