"""One interpreter per test file: starting R or Java takes seconds. Tests use names of their own."""

import pytest
from driving import Driver


@pytest.fixture(scope="module")
def driver(request, tmp_path_factory):
    """Of the language the test file is for (LANGUAGE)."""
    started = Driver(request.module.LANGUAGE, tmp_path_factory.mktemp("cwd"),
                     {"FROM_SANDBOX": "supertest"})
    yield started
    assert started.close() == 0


@pytest.fixture
def fresh(request, tmp_path):
    """One that no other test has touched."""
    started = Driver(request.module.LANGUAGE, tmp_path)
    yield started
    started.close()
