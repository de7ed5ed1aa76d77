from collections.abc import Iterator

import pytest

from tests.notices.receiver import Receiver, receiving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@pytest.fixture
def private(settings) -> None:  # type: ignore[no-untyped-def]
    """Addresses of this host are allowed, as a site's setting does it."""
    settings.NOTIFY_PRIVATE = True
