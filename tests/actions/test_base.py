"""The append-only record of acts, and how ids and comments are refused."""

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from relays.actions import base
from relays.models import Decision, GateEpisode
from tests.actions.acts import People, check_chain
from tests.report_builders import Story
from tests.tamper import unguarded

pytestmark = pytest.mark.django_db


def test_decisions_are_chained_over_all_relays_and_recompute_from_what_was_stored(people: People, story: Story) -> None:
    details = [{}, {"note": "é€\u2028", "n": 0.6, "list": [1, None, True]}, {"policy": story.relay.policy}]
    for detail in details:
        base.record(
            people.operator, "park", now=timezone.now(), relay=story.relay, comment="why\nnot", seen="a" * 64,
            detail=detail,
        )  # fmt: skip
    base.record(people.reviewer, "start", now=timezone.now())
    assert check_chain() == 4
    first = Decision.objects.get(seq=1)
    assert (first.previous, first.actor.get_username(), first.os_user) == ("0" * 64, "pat", "unix-pat")


@pytest.mark.parametrize(
    ("field", "value"),
    [("comment", "other"), ("os_user", "root"), ("act", "stop"), ("seen", "f" * 64), ("detail", {"x": 1})],
)
def test_a_changed_row_no_longer_recomputes(people: People, field: str, value: object) -> None:
    base.record(people.operator, "park", now=timezone.now(), comment="why")
    with unguarded():
        Decision.objects.update(**{field: value})
    row = Decision.objects.get()
    assert base.chain_digest(row) != row.digest


ODD = ["", " ", "nope", "RLY-20261130-9999", "../x", "a\0b", "\ud800", "x" * 5000, "RLY%", "'; drop table", "\x1b[31m"]


@pytest.mark.parametrize("text", ODD)
def test_an_id_that_is_none_is_not_found_in_one_short_line(story: Story, text: str) -> None:
    for look in (base.relay_or_refuse, base.gate_or_refuse):
        with pytest.raises(base.NotFound, match="is not known here") as refusal:
            look(text)
        assert len(str(refusal.value)) < 400
        assert str(refusal.value).isprintable()


@pytest.mark.parametrize("text", ["-1", "+1", "1.0", "1e3", "٣", "9" * 30, "9" * 18, "0x1", "²"])
def test_a_gate_number_is_plain_decimal(gate: GateEpisode, text: str) -> None:
    with pytest.raises(base.NotFound):
        base.gate_or_refuse(text)
    assert base.gate_or_refuse(str(gate.pk)) == base.gate_or_refuse(gate.pk) == gate


@given(st.text(max_size=50))
def test_a_comment_is_kept_as_it_is_or_refused(text: str) -> None:
    try:
        base.check_comment("park X", text)
    except base.Usage as refusal:
        assert "control character" in str(refusal)
        assert not all(sign.isprintable() for sign in text)
    else:
        assert "\0" not in text and "\x1b" not in text
        text.encode()


def test_a_comment_has_an_end() -> None:
    base.check_comment("park X", "x" * base.COMMENT_LENGTH)
    with pytest.raises(base.Usage, match="longer than"):
        base.check_comment("park X", "x" * (base.COMMENT_LENGTH + 1))
