"""What the Python suites share. They run below tests/conformance/e2b/run, which serves a daemon."""

import os
import time

import pytest
from e2b import Sandbox
from e2b_code_interpreter import Sandbox as Interpreter


@pytest.fixture
def box():
    made = Sandbox.create()
    yield made
    made.kill()


@pytest.fixture
def interpreter():
    made = Interpreter.create()
    yield made
    made.kill()


@pytest.fixture
def domain_only(monkeypatch):
    """The client is told a domain and no URL; what it makes is reached by names over TLS."""
    monkeypatch.delenv("E2B_API_URL")
    monkeypatch.delenv("E2B_SANDBOX_URL")
    monkeypatch.setenv("E2B_DOMAIN", os.environ["ATOLL_TEST_DOMAIN"])
    return os.environ["ATOLL_TEST_DOMAIN"]


@pytest.fixture
def until():
    def wait(check, seconds=30):
        deadline = time.monotonic() + seconds
        while not (value := check()):
            assert time.monotonic() < deadline, "it does not become so"
            time.sleep(0.03)
        return value
    return wait
