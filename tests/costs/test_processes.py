"""Two processes bring the same costs up to date at once: on either database no row is made twice, and one killed is

taken over.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db.models import Count, Sum

from relays.costs import refresh
from relays.models import BackTest, Comparison, CostDue, CostState, DayCost, Leg, OwnerMonth
from tests.costs.relays import losing_relay, winning_relay
from tests.session_builders import make_story

pytestmark = [
    pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.postgres, pytest.mark.timeout(300),
]  # fmt: skip
ROOT = Path(__file__).parents[2]
#: without the claim that keeps a second step away: the rows alone must do
WORK = """
import django, sys
django.setup()
from relays.costs import refresh
print("ready", flush=True)
sys.stdin.readline()
print(refresh.bring_up(), flush=True)
"""


@pytest.fixture
def workers(process_env: dict[str, str]) -> Iterator[list[subprocess.Popen[str]]]:
    """Three processes that wait for a line before they begin."""
    environment = {**process_env, "DJANGO_SETTINGS_MODULE": "relaysite.settings"}
    made = [
        subprocess.Popen(
            [sys.executable, "-c", WORK], cwd=ROOT, env=environment, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(3)
    ]  # fmt: skip
    for one in made:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    yield made
    for one in made:
        one.kill()
        one.wait()
        for stream in (one.stdin, one.stdout):
            if stream is not None:
                stream.close()


def go(one: subprocess.Popen[str]) -> None:
    assert one.stdin is not None
    one.stdin.write("\n")
    one.stdin.flush()


def test_at_once_gives_what_one_gives(workers: list[subprocess.Popen[str]]) -> None:
    relays = [winning_relay(4), losing_relay(4), winning_relay(2)]
    make_story()
    for one in workers:
        go(one)
    for one in workers:
        assert one.wait(timeout=120) == 0
    refresh.bring_up()  # what one of them left to another
    assert not DayCost.objects.values("leg", "session", "day", "model").annotate(n=Count("pk")).filter(n__gt=1)
    assert DayCost.objects.filter(kind="relay").aggregate(n=Sum("calls"))["n"] == (4 + 2) * 26 + 4 * 6
    units = DayCost.objects.filter(kind="relay").aggregate(n=Sum("units"))["n"]
    spent = sum(leg.spend for leg in Leg.objects.all())
    assert spent * 10**10 == units > 0
    for relay in relays:
        relay.refresh_from_db()
        assert relay.spend_used == sum(leg.spend for leg in relay.legs.all())
    assert sum(OwnerMonth.objects.values_list("units", flat=True)) == units
    assert (Comparison.objects.count(), BackTest.objects.count(), CostDue.objects.count()) == (4, 1, 11)


def test_one_that_was_killed_is_taken_over(workers: list[subprocess.Popen[str]]) -> None:
    winning_relay(6)
    first, second, _ = workers
    go(first)
    first.send_signal(signal.SIGKILL)
    first.wait()
    go(second)
    assert second.wait(timeout=120) == 0
    refresh.bring_up()
    assert DayCost.objects.aggregate(n=Sum("calls"))["n"] == 6 * 26
    assert Comparison.objects.get().computed_at is not None
    assert CostState.objects.filter(name="backtest").exists()
