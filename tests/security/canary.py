"""What the host hides from a sandbox: a canary process, and what the probe is told about it."""

import ctypes
import os
import secrets
import socket
import subprocess
from pathlib import Path

NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
LOCKED_FILE = "/usr/bin/env"  # in every template, and the same inode in all that share the host's

# CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID: what root inside may have.
ROOT_CAPS = 0xFB

# What a careless operator has in his shell. The first name is what the probe is told to look for.
LAUNCHER_ENVIRONMENT = {
    "ATOLL_LAUNCHER_CANARY": "the launcher's environment",
    "ATOLL_LAUNCHER_TOKEN": "a name that promises a secret",
    "PATH": "/usr/bin:/bin",
    "HOME": "/root",
}

SYS_ADD_KEY, SYS_KEYCTL = 248, 250  # x86-64
KEYCTL_JOIN_SESSION_KEYRING, KEYRING_SESSION = 1, -3


def free_port(kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def host_address():
    """The address this host would send from, or "". Connecting UDP sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("198.51.100.1", 9))
        except OSError:
            return ""
        return s.getsockname()[0]


def canary_facts():
    """Names and ports that nobody else uses."""
    token = secrets.token_hex(6)
    return {
        "port": free_port(),
        "dns": free_port(socket.SOCK_DGRAM),
        "abstract": f"atoll-canary-{token}",
        "shm": f"atoll-canary-{token}",
        "sysv": secrets.randbelow(1 << 30) + 1,
        "flock": LOCKED_FILE,
    }


def private_entry():
    """An entry of /usr that is not for all users of this host; {} where there is none."""
    done = subprocess.run(["find", "/usr", "(", "-type", "f", "-not", "-perm", "-4", "-o", "-type",
                           "d", "-not", "-perm", "-5", ")", "-print", "-quit"],
                          capture_output=True, text=True)
    if not done.stdout:
        return {}
    path = done.stdout.removesuffix("\n")
    changed = os.lstat(path).st_mtime_ns
    return {"private": path,
            "private_time": f"{changed // 10 ** 9}.{changed % 10 ** 9:09}"}


def join_keyring(description):
    """Puts this process, and so the daemon, into a new session keyring that holds one key."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    if libc.syscall(SYS_KEYCTL, KEYCTL_JOIN_SESSION_KEYRING, None) < 0:
        raise OSError(ctypes.get_errno(), "join a session keyring")
    if libc.syscall(SYS_ADD_KEY, b"user", description.encode(), b"x", 1, KEYRING_SESSION) < 0:
        raise OSError(ctypes.get_errno(), "add a key")


def as_arguments(facts):
    return [f"{key}={value}" for key, value in facts.items() if value != ""]


class Host:
    """The canary process of the host; `facts` is what the probe must be told to look for it."""

    def __init__(self, probe, directory, environment, key):
        self.directory = directory
        directory.chmod(0o755)
        self.file = directory / f"canary-{secrets.token_hex(6)}"
        self.file.write_text("nobody inside may read this\n")
        self.socket = directory / "canary.sock"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.socket))
        self.facts = canary_facts() | private_entry() | {
            "canary": self.file,
            "addr": host_address(),
            "env": next(iter(environment)),
            "key": key,
            "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        }
        for kind in NAMESPACES:
            self.facts[f"ns_{kind}"] = os.readlink(f"/proc/self/ns/{kind}")
        self.process = subprocess.Popen(
            [str(probe), "--canary", *as_arguments(self.facts)], cwd=directory, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise AssertionError("the canary process did not start")
        self.facts["pid"] = self.process.pid

    def close(self):
        self.process.terminate()
        self.process.wait(30)
        self.process.stdout.close()
        self.listener.close()
