"""Secrets with E2B's client: write-only values, versions, metadata and pages."""

import pytest
from e2b import Secret
from e2b.exceptions import SecretException, SecretNotFoundException


@pytest.fixture
def secret():
    made = Secret.create("Conformance", "s3cret", metadata={"team": "a"})
    yield made
    Secret.destroy(made.secret_id)


def test_create_update_destroy(secret):
    assert secret.name == "conformance" and secret.version == 1
    assert secret.metadata == {"team": "a"}
    updated = Secret.update(secret.secret_id, "other")
    assert updated.version == 2 and updated.metadata == {"team": "a"}
    assert updated.created_at == secret.created_at
    assert Secret.get_info("conformance").version == 2
    assert Secret.update("conformance", "third", metadata={"team": "b"}).metadata == {"team": "b"}
    assert Secret.exists("CONFORMANCE") and not Secret.exists("nothing")
    assert Secret.destroy("conformance") and not Secret.destroy("conformance")
    with pytest.raises(SecretNotFoundException):
        Secret.get_info(secret.secret_id)


def test_errors(secret):
    with pytest.raises(SecretException, match="exists already"):
        Secret.create("conformance", "x")
    with pytest.raises(SecretNotFoundException):
        Secret.update("nothing", "x")
    with pytest.raises(SecretException, match="1 to 65536 bytes"):
        Secret.create("large", "x" * 65537)


def test_pages(secret):
    names = [f"page-{i}" for i in range(5)]
    for name in names:
        Secret.create(name, "v")
    try:
        paginator, seen = Secret.list(limit=2), []
        while paginator.has_next:
            page = paginator.next_items()
            assert 0 < len(page) <= 2
            seen += [item.name for item in page]
        assert seen == ["conformance", *names]
    finally:
        for name in names:
            assert Secret.destroy(name)
