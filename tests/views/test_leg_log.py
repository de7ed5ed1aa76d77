"""The leg's page: what filled its window, and its log as a region, as pages and as text."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from relays.models import Event, Leg
from relays.reports import filled, leglog
from tests.reading import marked, seen
from tests.web_builders import make_leg, make_relay

pytestmark = pytest.mark.django_db
ClientOf = Callable[..., Client]


@pytest.fixture
def leg(settings, tmp_path: Path) -> Leg:  # type: ignore[no-untyped-def]
    settings.RELAY_VAR = str(tmp_path)
    one = make_leg(make_relay(), 3, resident=[20_000, 32_000, 50_000])
    rows = [
        ("usage", {"chain": "main"}), ("tool_started", {"id": "a", "name": "read"}),
        ("tool_ended", {"id": "a", "ok": True, "result_tokens": 9_000}), ("usage", {"chain": "main"}),
        ("tool_started", {"id": "b", "name": "shell"}), ("tool_ended", {"id": "b", "ok": True, "result_bytes": 400}),
    ]  # fmt: skip
    now = timezone.now()
    Event.objects.bulk_create(Event(leg=one, seq=n, kind=k, payload=p, at=now) for n, (k, p) in enumerate(rows))
    one.call_rows.filter(turn=1).update(output_tokens=3_000)
    file = leglog.path(one.relay_id, 3)
    file.parent.mkdir(parents=True)
    file.write_text("".join(f'{{"kind":"note","text":"line {n} <b>"}}\n' for n in range(600)))
    return one


def test_growth_is_shared_out_by_what_came_in(leg: Leg) -> None:
    found = filled.filled(leg)
    assert found is not None
    assert {part.name: part.tokens for part in found.parts} == {
        "what it began with: system, tools, seed": 20_000, "results of read": 9_000, "its own output": 3_000,
        "results of shell": 18_000,
    }  # fmt: skip
    assert sum(part.tokens for part in found.parts) == found.tokens == 50_000


def test_growth_without_a_record_is_unknown() -> None:
    one = make_leg(make_relay(), 0, resident=[20_000, 32_000])
    found = filled.filled(one)
    assert found is not None
    assert [(part.tokens, "unknown" in part.name) for part in found.parts] == [(20_000, False), (12_000, True)]
    assert filled.filled(make_leg(make_relay())) is None


def test_the_page_shows_the_newest_lines_as_text_and_its_region_has_them_as_data(leg: Leg, client_of: ClientOf) -> None:
    client = client_of("manager")
    here = f"/relays/{leg.relay_id}/legs/3/"
    page = marked(client.get(here))
    assert "text=line 599 &lt;b&gt;" in page and "line 10 " not in page
    lines = re.findall(r"<p data-at=\"\d+\">(.*?)</p>", page, re.DOTALL)
    assert lines[-1] == "<b>note</b> text=line 599 &lt;b&gt;", "white space in a line is shown"
    told = client.get(f"{here}?part=log").json()
    assert told["lines"][-1][2:] == ["note", "text=line 599 <b>"] and told["running"]
    assert told["end"] == told["size"] and len(told["lines"]) == leglog.LINES
    since = client.get(f"{here}log/?format=json&after={told['end']}")
    assert since.status_code == 204
    with leglog.path(leg.relay_id, 3).open("a") as file:
        file.write("more\u202e\n")
    assert client.get(f"{here}log/?format=json&after={told['end']}").json()["lines"] == [[told["end"], "", "", "more�"]]


def test_the_log_has_pages_and_is_downloaded_redacted(leg: Leg, client_of: ClientOf) -> None:
    client = client_of("reviewer")
    here = f"/relays/{leg.relay_id}/legs/3/log/"

    def log(address: str) -> str:
        """What the page shows of the log: its lines and the places before and behind them."""
        return seen(marked(client.get(address)).partition("<main")[2].partition("</main>")[0])

    newest = log(here)
    assert "line 599" in newest and "Earlier" in newest and "Later" not in newest
    first = log(f"{here}?after=0")
    assert "line 0 " in first and "Later" in first and "Earlier" not in first
    text = client.get(f"{here}?format=text")
    assert b"".join(text.streaming_content).count(b"\n") == 600  # type: ignore[attr-defined]
    assert "attachment" in text["Content-Disposition"]
    assert client.get(f"{here}?of=../../x").status_code == 404
    assert "wrote none" in marked(client.get(f"{here}?of=stderr"))
    assert client.get(f"/relays/{leg.relay_id}/legs/8/log/").status_code == 404
    assert client_of().get(here).status_code == 403
