"""Page tests: nothing kept from another test's database, and clients of each role."""

from collections.abc import Callable

import pytest
from django.core.cache import cache
from django.test import Client


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from relays.views import parts

    parts.regions.clear()
    cache.clear()
    # a region is rendered anew where ten seconds end between two looks: here only a change does that
    monkeypatch.setattr(parts, "AGES", 10**12)


@pytest.fixture
def client_of(db: None) -> Callable[..., Client]:
    """`client_of("reviewer")` -> a client that is signed in with these roles."""

    from tests.web_builders import make_user

    def make(*roles: str) -> Client:
        client = Client()
        client.force_login(make_user("", *roles))
        return client

    return make
