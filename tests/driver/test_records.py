"""What a leg leaves in our records beside its baton: its calls as they were reported, every commit that it made."""

from collections.abc import Callable
from typing import Any

from relays.models import Call
from relays.reports import status
from tests.builders import git, head
from tests.driver.course import boundary, commit, player, turn

Start = Callable[..., Any]


def test_a_cache_that_the_agent_does_not_report_reads_unknown(course: Start) -> None:
    silent = dict.fromkeys(("cache_read", "cache_write_5m", "cache_write_1h"))
    relay = course(**player([*turn(**silent), *boundary("Go on.", final=True)]))
    relay.step()
    assert [call.cache_reported for call in Call.objects.filter(leg__relay=relay.pk)] == [False]
    assert status.status(relay.pk)["readout"]["cache"] == "unknown (cost only)"


def test_a_commit_that_does_not_count_is_attributed_all_the_same(course: Start) -> None:
    outside = [*commit("elsewhere.txt"), *turn(), *boundary("Go on.", final=True)]
    relay = course(**player(outside), region=["src/**"])
    relay.step()
    (leg,) = relay.legs
    assert leg.progress == 0
    assert leg.progress_detail["outside"] == leg.progress_detail["made"] == [head(relay.worktree)]
    assert git(relay.worktree, "rev-list", "--count", f"{leg.cursor_sha}..HEAD").strip() == "1"
    found = status.status(relay.pk)
    assert found["verdicts"]["attribution"] == "holds"
    assert found["verdict_details"]["attribution"]["numbers"]["commits"] == 1
