"""The E2B provider against a service: a second daemon with its E2B facade. test_e2b_live, test by
test, over plain HTTP and over TLS."""

import json
import os
import subprocess

import pytest
from conftest import BUILD
from daemons import wait_until
from listening import listening_daemon

TESTS = ["life", "bulk", "adopt", "relays", "pause", "agent_gone", "wrong_key"]


class Service:
    def __init__(self, daemon, address):
        self.daemon = daemon
        self.key = (daemon.state / "api-key").read_text().strip()
        # As its clients spell it.
        self.key = "e2b_" + self.key.removeprefix("atl_").encode().hex()
        self.urls = {"http": f"http://{address[0]}:{address[1]}",
                     "https": f"https://localhost:{tls_port(daemon)}"}


def tls_port(daemon):
    for line in daemon.log.read_text().splitlines():
        if line.startswith("{") and (address := json.loads(line).get("tls_listen")):
            return int(address.rpartition(":")[2])
    raise AssertionError(f"no TLS address in the log:\n{daemon.log_tail()}")


@pytest.fixture(scope="module")
def service():
    with listening_daemon(ATOLL_TLS_LISTEN="127.0.0.1:0") as (daemon, address):
        yield Service(daemon, address)


def live(service, scheme, test, **more):
    """Runs one test of the program; returns what it printed."""
    env = {**os.environ, "ATOLL_BUILD_DIR": str(BUILD), "ATOLL_TEST_E2B": service.urls[scheme],
           "ATOLL_TEST_E2B_KEY": service.key, "ATOLL_TEST_E2B_ONLY": f"test_{test}",
           "ATOLL_TEST_E2B_CA": str(service.daemon.state / "tls/cert.pem"), **more}
    done = subprocess.run([BUILD / "tests/test_e2b_live"], env=env, capture_output=True, text=True,
                          timeout=120, check=False)
    output = done.stdout + done.stderr
    assert "1 test(s) run" in output, output  # a name that matches nothing is no success
    return done.returncode, output


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("test", TESTS)
def test_provider(service, scheme, test):
    status, output = live(service, scheme, test)
    assert status == 0, f"{output}\n{service.daemon.log_tail()}"
    # A killed one may still be on its way out.
    wait_until(lambda: service.daemon.json("ls")["sandboxes"] == [], 30,
               lambda: "sandboxes are left")


def test_a_service_nobody_vouches_for(service):
    """The certificate is the service's own: without it there is no connection, and no key goes out."""
    status, output = live(service, "https", "life", ATOLL_TEST_E2B_CA="")
    assert status != 0
    assert service.key not in output
