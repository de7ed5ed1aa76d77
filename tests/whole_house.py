"""A house with one of everything, and the address of every page in it, for the tests that walk all pages.

An address of the URL conf whose arguments are not known here fails the walk by name: whoever adds a page adds its
argument to `World.arguments`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from relays.actions import policies, tokens
from relays.actions.base import Actor
from relays.models import Channel, Delivery, Maintenance, Notice, Subscription
from tests import cost_builders as costs
from tests import session_builders as sessions
from tests import web_builders as web
from tests.report_builders import Story

ROLES = ("operator", "reviewer", "manager", "admin")


@dataclass(slots=True)
class World:
    """Its relays, gates, sessions, and who is in it; `users` has one of each role, and `norole`."""

    users: dict[str, User] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    #: name of an address -> arguments, where a word means something else there
    own: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: name of an address -> fields of its form, where an empty one is refused before who presses it is
    forms: dict[str, dict[str, str]] = field(default_factory=dict)

    def address(self, name: str, words: tuple[str, ...]) -> str:
        """The address of that name with something real in it."""
        known = {**self.arguments, **self.own.get(name, {})}
        missing = [word for word in words if word not in known]
        assert not missing, f"{name} wants {', '.join(missing)}: name it in tests/whole_house.py"
        return reverse(name, kwargs={word: known[word] for word in words})


def build(folder: Path) -> World:
    """Everything that has a page: rows are made through the models, the relay's work is a real repository."""
    world = World()
    for role in ROLES:
        world.users[role] = web.make_user(f"{role}-one", role, password="words-of-the-house")
    world.users["norole"] = web.make_user("norole-one", password="words-of-the-house")
    owner = world.users["operator"]
    story = Story(folder / "repo", owner=owner, policy={})
    story.leg()
    story.leg(holds=("TREE_DIRTY_UNPARKED", "HYSTERESIS"))
    story.leg(peak=90_000)
    story.leg(peak=178_612, reason="RELAY_PARKED_UNSAFE", cause="ceiling", made=False)
    gate = story.park()
    running = web.make_relay(owner=owner, objective="Move the call sites to Decimal")
    web.make_leg(running, 0, resident=[24_000, 80_000, 121_000], reason="RELAY_ROTATED")
    web.make_leg(running, 1, resident=[24_000, 60_000, 74_210])
    for relay in web.make_fleet(6):
        assert relay.pk
    younger = web.make_gate(web.make_relay(owner=owner, status="parked"), "DONE_UNCONFIRMED")
    assert younger.pk
    session, source = sessions.make_story()
    sessions.add_anomaly(source, "unknown_type", session, detail="frobnicate", count=3)
    sessions.add_fullness(session, 12, 60, 4)
    job = sessions.make_import(owner, "/home/ann/.claude/projects")
    costs.make_comparison(story.relay)
    costs.make_comparison(session, verdict="dearer", saving=Decimal("-1.20"))
    for leg in story.legs:
        costs.make_day(leg)
    costs.make_day(session)
    costs.make_backtest(session)
    costs.make_budget(owner)
    token = _token(owner)
    policy = policies.save(Actor(owner), "nightly", "[relay]\nno_progress_legs = 2\n", comment="Nights are long")
    policy = policies.save(Actor(owner), "nightly", "[relay]\nceiling = 0.7\n")
    channel = Channel.objects.create(
        name="The night shift", kind="webhook", url="https://127.0.0.1:9/", shown="https://127.0.0.1:9/…", key="c" * 64,
        salt="0" * 64, made_by=world.users["admin"], created_at=timezone.now(),
    )  # fmt: skip
    heard = Subscription.objects.create(
        user=owner, channel=channel, scope="mine", events=["gate_opened"], created_at=timezone.now()
    )
    notice = Notice.objects.create(event="gate_opened", key="gate:1", relay=story.relay, at=timezone.now())
    told = Delivery.objects.create(
        notice=notice, channel=channel, state="dead", attempts=5, not_before=timezone.now(), answer="503 from there"
    )
    drain = Maintenance.objects.create(
        kind="park_all", status="running", asked_by=world.users["admin"], comment="A new disk", asked_at=timezone.now()
    )
    world.arguments = {
        "name": policy.name,
        "number": policy.number,
        "slug": "figures",
        "act": "link",
        "relay_id": story.relay.pk,
        "n": 1,
        "pk": gate.pk,
        "secret": "not-a-secret",
        "source": source.pk,
    }
    world.own = {
        **dict.fromkeys(("session", "session_texts", "session_promote", "session_cost", "session_calls"),
                        {"pk": session.pk}),
        **dict.fromkeys(("import_cancel", "import_resume"), {"pk": job.pk}),
        "token_revoke": {"pk": token},
        **dict.fromkeys(("channel_secret", "channel_remove", "channel_test"), {"pk": channel.pk}),
        "unsubscribe": {"pk": heard.pk},
        "notice_again": {"pk": told.pk},
        "user_act": {"pk": world.users["norole"].pk},
        **dict.fromkeys(("maintenance_act", "maintenance_confirm", "maintenance_cancel"), {"pk": drain.pk}),
    }  # fmt: skip
    world.forms = {
        "budgets": {"owner": owner.username, "limit": "100"},
        "gate_reviewers": {"comment": "They know it better", "group": ""},
    }
    return world


def _token(owner: User) -> int:
    made = tokens.add(Actor(owner), name="ci", role="operator", days=30)
    return int(made.token.pk)


def patterns() -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Every named address of the URL conf: its name, the words of its arguments, its route; without the API's own."""

    def walk(found: list[URLPattern | URLResolver], prefix: str) -> Iterator[tuple[str, tuple[str, ...], str]]:
        for one in found:
            route = prefix + str(one.pattern)
            if isinstance(one, URLResolver):
                yield from walk(one.url_patterns, route)
            else:
                yield one.name or "", tuple(one.pattern.converters), route

    yield from walk(get_resolver().url_patterns, "/")
