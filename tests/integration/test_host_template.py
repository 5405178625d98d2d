"""What programs and people expect of a sandbox that shows the host's /usr."""

import shutil

import pytest

from boxes import Box
from rest import Rest

BIND = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 80)); print('bound')"


@pytest.fixture(scope="module")
def rest(daemon):
    return Rest(daemon.socket)


@pytest.fixture(scope="module")
def box(rest):
    made = Box(rest)
    yield made
    made.destroy()


@pytest.mark.skipif(not shutil.which("python3"), reason="the host has no Python")
def test_python_without_a_version(box):
    assert box.out("python -c 'print(6*7)'") == "42"


@pytest.mark.skipif(not shutil.which("python3"), reason="the host has no Python")
def test_low_ports_can_be_bound(rest):
    # The network of the second is prepared before it is asked for.
    for made in (Box(rest), Box(rest)):
        assert made.out(f'sudo python3 -c "{BIND}"') == "bound"
        assert made.out(f'python3 -c "{BIND}"') == "bound"
        made.destroy()


def test_root_becomes_another_user(box):
    assert box.out("sudo su user -c 'id -un'") == "user"


def test_pip_may_install_for_the_system(box):
    assert box.out("echo $PIP_BREAK_SYSTEM_PACKAGES") == "1"
    assert box.out("sudo sh -c 'touch /usr/lib/probe && echo written'") == "written"


def test_the_ca_of_egress_is_trusted(box, daemon):
    """Where programs look by default, and it is the only addition to what the host trusts."""
    inside = "/etc/ssl/certs/atoll-egress-ca.pem"
    assert box.out(f"cat {inside}") == (daemon.state / "egress-ca.pem").read_text().strip()
    assert box.out(f"openssl verify {inside}") == f"{inside}: OK"
    bundle = "/etc/ssl/certs/ca-certificates.crt"
    assert box.out("readlink -f /etc/ssl/cert.pem") == bundle
    only = f"openssl verify -CAfile {bundle} -no-CApath -no-CAstore"
    assert box.out(f"{only} {inside}") == f"{inside}: OK"
    # The control: another CA is not trusted.
    made = box.run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout /tmp/k "
                   "-out /tmp/c -subj /CN=other -days 9 && openssl verify /tmp/c")
    assert made["result"]["exit_code"] != 0, made
    hosts = open(bundle).read().count("BEGIN CERTIFICATE")
    assert int(box.out(f"grep -c 'BEGIN CERTIFICATE' {bundle}")) == hosts + 1


@pytest.mark.skipif(not shutil.which("keytool"), reason="the host has no Java")
def test_java_trusts_the_ca_of_egress(box):
    own = box.out("openssl x509 -in /etc/ssl/certs/atoll-egress-ca.pem -noout -fingerprint -sha256")
    listed = box.out("keytool -list -keystore /etc/ssl/certs/java/cacerts -storepass changeit 2>&1")
    assert own.partition("=")[2] in listed
