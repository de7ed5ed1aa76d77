"""`relay budget`: who may set one, what it says, and that it is a recorded decision."""

from datetime import date
from decimal import Decimal

import pytest
from django.contrib.auth.models import User

from relays.costs import rollups
from relays.management.cli import Exit
from relays.models import Decision, OwnerBudget, OwnerMonth
from tests.costs.relays import winning_relay
from tests.management.conftest import Cli

pytestmark = pytest.mark.django_db


def test_a_budget_for_each_month_and_one_for_a_month(cli: Cli) -> None:
    relay = winning_relay(2)
    name = relay.owner.get_username()
    rollups.cut_legs(rollups.due_legs_of(relay.pk))
    assert cli("budget", name, "--limit", "250").code == Exit.FINE
    found = cli("budget", name, "--month", "2026-05", "--limit", "0.01", "--warn-at", "0.5", "--json").json
    assert {(one["month"], one["limit"]) for one in found["budgets"]} == {(None, "250"), ("2026-05", "0.01")}
    [month] = found["months"]
    spent = sum((leg.spend for leg in relay.legs.all()), Decimal(0))
    assert (month["month"], Decimal(month["spent"]), month["unpriced_calls"]) == ("2026-05", spent, 0)
    assert month["state"] == "over"
    assert Decision.objects.filter(act="budget").count() == 2


def test_a_limit_that_is_set_later_judges_the_months_at_once(cli: Cli) -> None:
    relay = winning_relay(1)
    name = relay.owner.get_username()
    OwnerMonth.objects.create(owner=relay.owner, month=date(2026, 5, 1), units=9 * 10**10)
    assert cli("budget", name, "--limit", "10", "--json").json["months"][0]["state"] == "warned"
    assert cli("budget", name, "--limit", "8", "--json").json["months"][0]["state"] == "over"
    assert cli("budget", name, "--remove", "--json").json["months"][0]["state"] == "none"
    assert not OwnerBudget.objects.exists()


def test_refusals_in_one_line(cli: Cli) -> None:
    User.objects.create_user("ann")
    for words, code in (
        (("nobody", "--limit", "5"), Exit.NOT_FOUND),
        (("ann", "--limit", "0"), Exit.USAGE),
        (("ann", "--limit", "NaN"), Exit.USAGE),
        (("ann", "--limit", "x"), Exit.USAGE),
        (("ann", "--limit", "5", "--warn-at", "2"), Exit.USAGE),
        (("ann", "--month", "2026-13", "--limit", "5"), Exit.USAGE),
        (("--limit", "5"), Exit.USAGE),
        (("ann", "--remove"), Exit.NOT_FOUND),
    ):
        done = cli("budget", *words)
        assert done.code == code, words
        assert done.line, words
    assert not OwnerBudget.objects.exists()


def test_only_a_manager_sets_one(cli: Cli) -> None:
    cli("user", "add", "olga", "--role", "operator")
    cli("user", "add", "max", "--role", "manager")
    assert cli("budget", "olga", "--limit", "5", "--as", "olga").code == Exit.NOT_PERMITTED
    assert cli("budget", "olga", "--limit", "5", "--as", "max").code == Exit.FINE
    assert "olga, each month: at most $ 5" in cli("budget").out.decode()
