"""Page tests: nothing kept from another test's database, and clients of each role."""

from collections.abc import Callable

import pytest
from django.core.cache import cache
from django.test import Client


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    from relays.views.parts import regions

    regions.clear()
    cache.clear()


@pytest.fixture
def client_of(db: None) -> Callable[..., Client]:
    """`client_of("reviewer")` -> a client that is signed in with these roles."""

    from tests.web_builders import make_user

    def make(*roles: str) -> Client:
        client = Client()
        client.force_login(make_user("", *roles))
        return client

    return make
