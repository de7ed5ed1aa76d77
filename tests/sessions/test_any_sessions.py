"""Whatever the files hold and however they are read: every total is the one that the slow oracle works out."""

import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from relays.core import pricefile
from relays.models import Session, SessionCall
from relays.sessions.run import import_paths
from tests.sessions import oracle, oracle_others, oracle_prices
from tests.sessions.made_up import Files, claude_files, codex_files
from tests.sessions.made_up_others import event_files, gemini_files, opencode_files
from tests.sessions.stored import emptied, snapshot

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("priced")]
QUICK = settings(
    max_examples=3,
    # the table of prices is the same for all examples
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
    phases=[Phase.generate],  # shrinking goes through the database some hundred times
)
LONG = settings(QUICK, max_examples=200)


@pytest.fixture
def priced(settings: Any) -> None:
    """The site's own table names the made-up models."""
    settings.SITE_PRICES = pricefile.parse(oracle_prices.as_toml())


def stored() -> dict[str, oracle.Right]:
    return {
        one.sid: oracle.Right(
            one.calls,
            one.main_calls,
            one.copied_calls,
            {
                "input": one.input_tokens,
                "cache_read": one.cache_read,
                "cache_write_5m": one.cache_write_5m,
                "cache_write_1h": one.cache_write_1h,
                "output": one.output_tokens,
            },
            one.max_resident,
            one.compactions,
            one.cost,
            one.unpriced_calls,
        )
        for one in Session.objects.all()
    }


def costs_are_by_their_kept_rows() -> None:
    """What each call cost is what the price row that is kept beside it gives; none is priced as another model."""
    for call in SessionCall.objects.filter(shown=True).exclude(copied="replay").select_related("price"):
        tokens = {
            "input": call.input_tokens,
            "cache_read": call.cache_read,
            "cache_write_5m": call.cache_write_5m,
            "cache_write_1h": call.cache_write_1h,
            "output": call.output_tokens,
        }
        if call.price is None:
            assert call.cost is None
            continue
        assert Fraction(call.cost) == oracle_prices.by_row(call.price.rates, tokens)
        assert call.price.model == call.model
        assert call.price.since is None or call.price.since <= call.at


def agrees(files: Files, right: dict[str, oracle.Right], data: st.DataObject) -> None:
    """Read at once, then again in pieces and in another order: both times what is right, and the same rows."""
    emptied()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        import_paths([folder])
        found = stored()
        # of a file whose head is torn, in which nobody called a model, nothing says that it was a session
        right = {sid: one for sid, one in right.items() if one.calls or one.copied or sid in found}
        assert found == right
        keys = SessionCall.objects.filter(counts=True).values_list("key", flat=True)
        assert len(keys) == len(set(keys)) == sum(one.calls for one in right.values())
        costs_are_by_their_kept_rows()
        whole = snapshot()
        emptied()
        for path in data.draw(st.permutations(sorted(files))):
            content = files[path]
            (folder / path).write_bytes(content[: data.draw(st.integers(0, len(content)))])
            if data.draw(st.booleans()):
                import_paths([folder / path])
        for path in data.draw(st.permutations(sorted(files))):
            with (folder / path).open("ab") as out:
                out.write(files[path][(folder / path).stat().st_size :])
            if data.draw(st.booleans()):
                import_paths([folder / path])
        import_paths([folder])
        assert stored() == right
        assert snapshot() == whole


@QUICK
@given(claude_files(), st.data())
def test_claude_code(files, data):
    agrees(files, oracle.claude(files), data)


@QUICK
@given(codex_files(), st.data())
def test_codex(files, data):
    agrees(files, oracle.codex(files), data)


@QUICK
@given(gemini_files(), st.data())
def test_gemini(files, data):
    agrees(files, oracle_others.gemini(files), data)


@QUICK
@given(opencode_files(), st.data())
def test_opencode(files, data):
    agrees(files, oracle_others.opencode(files), data)


@QUICK
@given(event_files(), st.data())
def test_relay_events(files, data):
    agrees(files, oracle_others.events(files), data)


@pytest.mark.slow
@pytest.mark.timeout(900)
@LONG
@given(gemini_files(), st.data())
def test_gemini_at_length(files, data):
    agrees(files, oracle_others.gemini(files), data)


@pytest.mark.slow
@pytest.mark.timeout(900)
@LONG
@given(opencode_files(), st.data())
def test_opencode_at_length(files, data):
    agrees(files, oracle_others.opencode(files), data)


@pytest.mark.slow
@pytest.mark.timeout(900)
@LONG
@given(event_files(), st.data())
def test_relay_events_at_length(files, data):
    agrees(files, oracle_others.events(files), data)


@pytest.mark.slow
@pytest.mark.timeout(900)
@LONG
@given(claude_files(), st.data())
def test_claude_code_at_length(files, data):
    agrees(files, oracle.claude(files), data)


@pytest.mark.slow
@pytest.mark.timeout(900)
@LONG
@given(codex_files(), st.data())
def test_codex_at_length(files, data):
    agrees(files, oracle.codex(files), data)
