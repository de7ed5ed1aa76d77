"""How many queries each page takes: the same for a small house and for a large one, and what `query_counts.toml` says.

Issue: "Constant query count per page, kept in a baseline file that the tests compare". After a change that is meant,
`QUERY_COUNTS=write pytest -n0 tests/views/test_query_counts.py` writes the file anew; its diff tells what it costs.
"""

import os
import tomllib
from pathlib import Path

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from relays.views import parts
from tests import cost_builders as costs
from tests import session_builders as sessions
from tests import web_builders as web
from tests.report_builders import Story
from tests.whole_house import World, build, patterns

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.timeout(300)]
BASELINE = Path(__file__).parents[1] / "query_counts.toml"
#: no pages: a stream, and what asks the machine and not the database
LEFT_OUT = {"live", "sign_out", "healthz", "readyz"}


def counted(world: World) -> dict[str, int]:
    """Queries of one GET of every page by an admin; what a process keeps is emptied before each."""
    client = Client()
    client.force_login(world.users["admin"])
    client.get("/relays/")
    found = {}
    for name, words, route in patterns():
        if not name or name in LEFT_OUT or route.startswith("/api/v1/r"):
            continue
        parts.regions.clear()
        cache.clear()
        with CaptureQueriesContext(
            connection,
        ) as asked:
            answer = client.get(world.address(name, words))
        if answer.status_code == 200 and not answer.streaming:
            found[name] = len(asked)
    return found


def grow(world: World, folder: Path) -> None:
    """Several times as many of everything that is listed; the relay and the session that are looked at grow too."""
    owner = world.users["operator"]
    web.make_fleet(30)
    for n in range(8):
        session, source = sessions.make_story()
        sessions.add_anomaly(source, "unknown_type", session, detail="frobnicate", count=3)
        costs.make_day(session)
        costs.make_comparison(session)
        sessions.make_import(owner, f"/home/ann/more-{n}")
        web.make_gate(web.make_relay(status="parked"), "DONE_UNCONFIRMED")
        web.make_user("", "reviewer")
    story = Story(folder / "other", owner=owner, policy={})
    for _ in range(9):
        story.leg()
    story.park()


def test_each_page_takes_as_many_queries_in_a_large_house_as_in_a_small_one(tmp_path: Path) -> None:
    world = build(tmp_path / "small")
    small = counted(world)
    grow(world, tmp_path)
    large = counted(world)
    assert len(small) >= 30
    more = {name: (n, large.get(name)) for name, n in small.items() if large.get(name) != n}
    assert not more, f"the number of queries depends on how much there is: {more}"
    if os.environ.get("QUERY_COUNTS") == "write":
        lines = "".join(f"{name} = {count}\n" for name, count in sorted(small.items()))
        BASELINE.write_text(
            f"# Queries of one GET of each page; see tests/views/test_query_counts.py.\n{lines}", "utf-8"
        )
    kept = tomllib.loads(BASELINE.read_text(encoding="utf-8"))
    assert small == kept, "where the change is meant: QUERY_COUNTS=write, and say in the commit what it is for"
