"""Times as rows carry them: the quick spelling of the common form is the slow one's."""

from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st

from relays.sessions.reading import utc


def slow(text: str) -> str:
    at = datetime.fromisoformat(text)
    at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    return str(at.replace(tzinfo=None))


@given(
    st.datetimes(datetime(1971, 1, 1), datetime(9000, 1, 1)),
    st.integers(1, 6),
    st.sampled_from("Z |+00:00|-01:30".split("|")),
)
@example(datetime(2026, 1, 1), 3, "Z")
@example(datetime(2026, 1, 1, microsecond=120_000), 3, "Z")
@example(datetime(2026, 1, 1, microsecond=123_400), 4, "")
def test_a_time_is_the_same_however_it_is_written(at: datetime, digits: int, zone: str) -> None:
    text = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond:06d}"[: 20 + digits] + zone.strip()
    assert utc(text) == slow(text)


def test_what_is_no_time_is_none() -> None:
    for text in ("2026-13-01T00:00:00.123Z", "2026-01-01T25:00:00.123Z", "1969-12-31T23:59:59.123Z", "x" * 24, ""):
        assert utc(text) == ""
