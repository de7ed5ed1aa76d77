"""Callers of the API: real tokens, real requests through every middleware."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from django.core.cache import cache

if TYPE_CHECKING:
    from relays.actions.tokens import Made


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    from relays.views.parts import regions

    regions.clear()
    cache.clear()


@pytest.fixture
def token_of(db: None) -> Callable[..., "Made"]:
    """`token_of("manager")` -> a new token of a new person with that role (a sender's is an operator)."""

    from relays.actions.base import Actor
    from relays.actions.tokens import add
    from tests.web_builders import make_user

    def make(role: str, *roles: str, days: int = 1) -> "Made":
        user = make_user("", *(roles or ("operator" if role == "sender" else role,)))
        return add(Actor(user), name="a test", role=role, days=days)

    return make
