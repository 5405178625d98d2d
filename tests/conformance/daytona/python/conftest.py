"""What the tests with Daytona's SDK for Python share."""

import contextlib
import uuid

import pytest
from both import blocking
from daytona import AsyncDaytona, CreateSandboxFromSnapshotParams, Daytona


@pytest.fixture(scope="session")
def daytona():
    return Daytona()


@pytest.fixture(scope="session", params=["synchronous", "asynchronous"])
def client(request, daytona):
    """Either client, used in the same way."""
    if request.param == "synchronous":
        yield daytona
        return
    made, close = blocking(AsyncDaytona)
    yield made
    close()


@pytest.fixture
def create(daytona):
    """Makes sandboxes that are deleted after the test."""
    made = []

    def make(**fields):
        made.append(daytona.create(CreateSandboxFromSnapshotParams(**fields)))
        return made[-1]

    yield make
    for sandbox in made:
        with contextlib.suppress(Exception):
            sandbox.delete()


@pytest.fixture
def unique():
    return f"t{uuid.uuid4().hex[:12]}"
