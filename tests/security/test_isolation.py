"""One test per promise: closed inside, for the default user and for root, and open outside.

The control keeps the checks honest. A check that passes on a bare host as root proves nothing, so
it has to fail there, unless CANNOT_TELL says why this kind of host has nothing to find.
"""

import pytest

from probing import known_checks, not_offered

CHECKS = known_checks()

# Passing on the host is allowed for these, because of the reason given.
NOT_BUILT = "this kernel was built without it"
NO_RESOURCE = "needs CAP_SYS_RESOURCE, which root on this machine does not have"
CANNOT_TELL = {
    "proc.binfmt_w": NOT_BUILT,
    "proc.sysrq_w": NOT_BUILT,
    "proc.kcore": NOT_BUILT,
    "c.abi_x32": NOT_BUILT,
    "c.abi_i386": NOT_BUILT,
    "c.abi_i386_socket": NOT_BUILT,
    "sc.modules": NOT_BUILT,
    "sc.kexec": NOT_BUILT,
    "sc.ioports": NOT_BUILT,
    "sock.alg": NOT_BUILT,
    "sock.exotic": NOT_BUILT,
    "proc.sysctl_userns_w": NO_RESOURCE,
    "sc.oom_adj": NO_RESOURCE,
    "sc.rlimit_raise": NO_RESOURCE,
    "lim.memlock_msgqueue": "the host's own limits are as tight, and root cannot raise them here",
    "proc.self_exe": "the kernel refuses writing to a program that runs; c.pid1_exe looks further",
    "net.route_v6": "the host may have no IPv6 route",
    "fs.private_hidden": "this host's /usr may have no private entry",
    "proc.kthreads_hidden": "in a pid namespace, as of a container, there are none to see",
}

# Root inside is root of its own user namespace, so some doors are open by design.
OPEN_FOR_ROOT = not_offered("namespaces", "root")


def test_every_promise_has_a_check():
    assert sorted(set(CHECKS.values())) == [*range(1, 79), 89]


@pytest.mark.parametrize("check", CHECKS)
def test_closed_inside(inside, check):
    status, detail = inside["user"][check]
    if status == "SKIP" and check in CANNOT_TELL:
        pytest.skip(f"{CANNOT_TELL[check]} ({detail})")
    assert status == "PASS", detail


@pytest.mark.parametrize("check", CHECKS)
def test_closed_inside_for_root(inside, check):
    status, detail = inside["root"][check]
    if status == "SKIP" and check in CANNOT_TELL:
        pytest.skip(f"{CANNOT_TELL[check]} ({detail})")
    expected = "FAIL" if check in OPEN_FOR_ROOT else "PASS"
    assert status == expected, OPEN_FOR_ROOT.get(check, detail)


@pytest.mark.parametrize("check", CHECKS)
def test_open_outside(outside, check):
    status, detail = outside[check]
    if status in ("PASS", "SKIP") and check in CANNOT_TELL:
        pytest.skip(f"{CANNOT_TELL[check]} ({detail})")
    assert status == "FAIL", f"the control found this closed: {detail}"
