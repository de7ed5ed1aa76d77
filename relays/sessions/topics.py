"""The names by which pages of sessions and imports are told of a change."""

from collections.abc import Iterable

from relays.models.pulse import bump

SESSIONS = "sessions"


def session(pk: int) -> str:
    return f"session:{pk}"


def job(pk: int) -> str:
    return f"import:{pk}"


def tell_changed(sessions: Iterable[int]) -> None:
    """Last in the transaction that changed what pages show of these sessions."""
    topics = [session(pk) for pk in sessions]
    if topics:
        bump(SESSIONS, *topics)
