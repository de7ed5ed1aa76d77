"""`relay import`: the shape that scripts rely on, the words for a person, exits."""

import pytest

from relays.models import SessionLeg
from tests.sessions.stored import SAMPLES

pytestmark = pytest.mark.django_db
FILE = SAMPLES / "claude" / "inline-sidechains-1.0.jsonl"


def test_the_shape(cli):
    done = cli("import", str(FILE), "--json")
    assert done.code == 0
    found = done.json
    assert {name: found[name] for name in ("files", "sessions", "calls", "compactions", "max_resident_tokens")} == {
        "files": 1,
        "sessions": 1,
        "calls": 20,
        "compactions": 0,
        "max_resident_tokens": 26080,
    }
    tokens = {"input": 129, "cache_read": 324259, "cache_write_5m": 47747, "cache_write_1h": 0, "output": 3629}
    assert found["tokens"] == tokens
    assert isinstance(found["anomalies"], dict)
    (one,) = found["per_session"]
    assert one["file"] == str(FILE)
    assert (one["agent"], one["calls"], one["tokens"], one["compactions"]) == ("claude-code", 20, tokens, 0)
    assert one["cost"] == found["cost"] != ""
    # a second time: the same answer, from what is stored
    assert cli("import", FILE, "--json").json == found


def test_the_words(cli):
    done = cli("import", str(SAMPLES / "claude" / "two-broken-lines.jsonl"))
    said = done.out.decode()
    assert "1 file, 1 session, 68 calls" in said
    assert "cache write 5 min 468,925" in said
    assert "broken line × 2" in said
    assert "lower bound" in said


def test_a_path_that_is_not_there(cli, tmp_path):
    done = cli("import", str(tmp_path / "nothing"))
    assert done.code == 14
    assert done.line == f"import: {tmp_path}/nothing is not there; name a file or folder that is"


def test_without_a_path_it_is_usage(cli):
    assert cli("import").code == 2


def test_an_empty_folder_is_fine(cli, tmp_path):
    done = cli("import", str(tmp_path), "--json")
    assert done.code == 0
    found = done.json
    assert (found["files"], found["calls"], found["per_session"], found["cost"]) == (0, 0, [], "0")


def test_would_be_batons_are_judged_and_unknown_is_not_verified(cli):
    cli("import", str(SAMPLES / "claude" / "two-broken-lines.jsonl"))
    legs = SessionLeg.objects.all()
    assert legs and all(leg.judged_at and not leg.verified for leg in legs), "its repository is not there"
