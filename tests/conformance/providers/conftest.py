"""One daemon with all providers; every test runs once for each of them.

ATOLL_TEST_PROVIDERS=native,docker leaves the others out.
"""

import os

import places
import pytest

CHOSEN = [name for name in os.environ.get("ATOLL_TEST_PROVIDERS", "").split(",") if name]


@pytest.fixture(scope="session")
def world():
    with places.world(CHOSEN or places.NAMES) as made:
        yield made


@pytest.fixture(scope="session", params=CHOSEN or places.NAMES)
def place(request, world):
    if request.param in world.missing:
        pytest.skip(f"no {request.param} here: {world.missing[request.param]}")
    return world.places[request.param]


@pytest.fixture(scope="session")
def box(place):
    """A sandbox that the tests of a provider share."""
    made = place.create()
    yield made
    assert made.destroy() in (204, 404)  # one test destroys all
