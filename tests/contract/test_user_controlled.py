"""Mission: "What remains user-controlled is the actual objective, explicit facts, budget limits, pins, layout
preferences, and any approval to promote or delete durable memory": each has a verb and a place."""

from pathlib import Path

import pytest
from django.test import Client

from relays.management.commands.relay import parser_for
from tests.reading import marked
from tests.report_builders import Story
from tests.web_builders import make_user

pytestmark = pytest.mark.django_db

#: what stays a person's -> verb, its option, and the field or button of the page
THEIRS = {
    "the actual objective": ("restate", "--objective", "relay", 'name="objective" form="act-restate"'),
    "explicit facts": ("fact", "--add", "relay", 'form="act-facts" name="do" value="fact"'),
    "pins": ("pin", "--add", "relay", 'form="act-facts" name="do" value="pin"'),
    "budget limits": ("restate", "--set", "relay", 'name="sets" form="act-restate"'),
    "layout preferences": ("layout", "--density", "layout", 'name="density"'),
    "approval to promote durable memory": ("approve", "--seen", "promotion", 'name="decision" value="approve"'),
    "approval to delete durable memory": ("approve", "--seen", "deletion", 'name="decision" value="approve"'),
    "refusing either": ("refuse", "--seen", "deletion", 'name="decision" value="refuse"'),
}


def test_what_remains_user_controlled_has_a_verb_and_a_place(tmp_path: Path) -> None:
    story = Story(tmp_path / "repo")
    story.leg(turns=2)
    promotion = story.park("AMBIGUOUS_MEMORY_PROMOTION", items=["memory:port"], blocks="promotion to memory")
    deletion = story.park("DESTRUCTIVE_MEMORY_OPERATION", items=["delete memory:port"])
    client = Client()
    client.force_login(make_user("", "admin"))
    places = {
        "relay": f"/relays/{story.relay.pk}/",
        "layout": "/layout/",
        "promotion": f"/gates/{promotion.pk}/",
        "deletion": f"/gates/{deletion.pk}/",
    }
    pages = {name: marked(client.get(address)) for name, address in places.items()}
    for what, (verb, option, page, field) in THEIRS.items():
        assert option in parser_for(verb).format_help(), what
        assert field in pages[page], what
    assert "Let it be remembered" in pages["promotion"]
    assert "Allow it" in pages["deletion"]
