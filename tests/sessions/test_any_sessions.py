"""Whatever the files hold and however they are read: every total is the one that the slow oracle works out."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from relays.models import Session, SessionCall
from relays.sessions.run import import_paths
from tests.sessions import oracle
from tests.sessions.made_up import Files, claude_files, codex_files
from tests.sessions.stored import emptied, snapshot

pytestmark = pytest.mark.django_db
QUICK = settings(
    max_examples=6,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[Phase.generate],  # shrinking goes through the database some hundred times
)
LONG = settings(QUICK, max_examples=200)


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
        )
        for one in Session.objects.all()
    }


def agrees(files: Files, right: dict[str, oracle.Right], data: st.DataObject) -> None:
    """Read at once, then again in pieces and in another order: both times what is right, and the same rows."""
    emptied()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        import_paths([folder])
        assert stored() == right
        keys = SessionCall.objects.filter(counts=True).values_list("key", flat=True)
        assert len(keys) == len(set(keys)) == sum(one.calls for one in right.values())
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
