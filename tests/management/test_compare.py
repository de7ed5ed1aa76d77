"""`relay compare`: whoever wins, exit 0; the shape that scripts rely on; a relay that loses reads dearer."""

from decimal import Decimal

import pytest

from relays.management.cli import Exit
from relays.models import Comparison
from tests.costs.relays import losing_relay, winning_relay
from tests.management.conftest import Cli
from tests.session_builders import make_session, make_story

pytestmark = pytest.mark.django_db
BASELINE = {"policy", "provenance", "cost", "peak_tokens", "events", "cache_bust_tokens", "band", "parameters"}


def test_a_relay_that_loses_is_dearer_and_the_exit_is_0(cli: Cli) -> None:
    relay = losing_relay()
    done = cli("compare", relay.pk, "--json")
    assert done.code == Exit.FINE
    assert done.json["verdict"] == "dearer"
    assert Decimal(done.json["saving"]) < 0
    assert "the relay lost" in cli("compare", relay.pk).out.decode()
    # what the command said is what is kept
    assert Comparison.objects.get(relay=relay).verdict == "dearer"


def test_the_shape_of_a_relay_that_is_cheaper(cli: Cli) -> None:
    relay = winning_relay(4)
    found = cli("compare", relay.pk, "--json").json
    assert set(found) >= {"observed", "baselines", "verdict", "break_even_orientation_tokens"}
    assert set(found["observed"]) >= {"cost", "peak_tokens", "calls"}
    assert isinstance(found["observed"]["cost"], str)
    assert [one["policy"] for one in found["baselines"]] == [
        "compaction", "context_editing", "sliding_window", "none",
    ]  # fmt: skip
    for one in found["baselines"]:
        assert set(one) >= BASELINE
        assert one["provenance"] == "SIMULATED"
    low, high = found["baselines"][0]["band"]
    assert Decimal(low) <= Decimal(found["baselines"][0]["cost"]) <= Decimal(high)
    for parameter in found["baselines"][0]["parameters"].values():
        assert parameter["provenance"] in ("OBSERVED", "SIMULATED", "ASSUMED")
        assert parameter["source"]


def test_a_session_by_its_id_or_its_beginning(cli: Cli) -> None:
    session, _ = make_story()
    whole = cli("compare", session.sid, "--json")
    assert whole.code == Exit.FINE
    assert whole.json["session"] == session.sid
    assert cli("compare", session.sid[:-2], "--json").json["observed"] == whole.json["observed"]
    assert whole.json["observed"]["calls"] == 60


def test_what_is_not_there_or_not_sure_is_refused_in_one_line(cli: Cli) -> None:
    make_session(sid="abcd-1")
    make_session(sid="abcd-2")
    for name, code in (("RLY-20990101-0001", Exit.NOT_FOUND), ("abcd", Exit.USAGE), ("\x00x", Exit.NOT_FOUND)):
        done = cli("compare", name)
        assert done.code == code, name
        assert done.line
    assert cli("compare").code == Exit.USAGE
