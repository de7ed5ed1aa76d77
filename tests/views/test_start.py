"""The page Start a relay: what it says of each field, what it suggests, what it makes and what it never makes."""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from relays.actions import policies
from relays.actions.base import Actor
from relays.models import Decision, Leg, Relay
from relays.reports import start as report
from tests import builders
from tests.actions.acts import everything
from tests.reading import marked, seen
from tests.web_builders import make_relay, make_user

pytestmark = pytest.mark.django_db
ClientOf = Callable[..., Client]

FILES = {
    ".relay/issues.jsonl": '{"number": 1, "title": "One", "state": "open"}\n',
    "Makefile": "test:\n\ttrue\n",
    "pyproject.toml": "[tool.pytest.ini_options]\n",
    "src/a.py": "a = 1\n",
    "src/b.py": "b = 1\n",
    "tests/test_a.py": "",
    "docs/index.md": "",
}


@pytest.fixture
def place(repo: Path) -> Path:
    builders.commit(repo, FILES, "Files")
    return repo


def form(place: object, **values: Any) -> dict[str, Any]:
    made = {
        "repo": str(place), "objective": "Close them.", "done_when": "issues:none open", "region": "src/**",
        "agent": "scripted", "form": "a" * 20, "do": "start",
    }  # fmt: skip
    return made | values


def test_the_form_starts_one_relay_however_often_it_is_sent(client_of: ClientOf, place: Path) -> None:
    client = client_of("operator")
    values = form(place, legs="5", sets="leg.turns=9\nmark.context=0.5", agent_args="items=2", mode="advise", spend="3")
    first = client.post("/start/", values)
    relay = Relay.objects.get()
    assert (first.status_code, first["Location"]) == (303, f"/relays/{relay.pk}/")
    assert client.post("/start/", values)["Location"] == first["Location"]
    assert Relay.objects.count() == Leg.objects.count() == 1
    assert (relay.region, relay.agent_args, relay.mode) == (["src/**"], {"items": "2"}, "advise")
    assert relay.policy["envelope"] | {"legs": 5, "spend": "3"} == relay.policy["envelope"]
    assert (relay.policy["leg"]["turns"], relay.policy["mark"]["context"]) == (9, 0.5)
    assert f"{relay.pk} is started in" in marked(client.get(first["Location"]))


def test_a_plan_and_a_try_and_a_stored_policy(client_of: ClientOf, place: Path) -> None:
    client, at = client_of("operator"), (timezone.now() + timedelta(days=2)).replace(second=0, microsecond=0)
    maker = Actor(make_user("mara", "operator"))
    policies.save(maker, "nightly", "[relay]\nceiling = 0.8\n")
    values = form(place, at=at.strftime("%Y-%m-%dT%H:%M"), try_one="1", policy="nightly@1")
    assert client.post("/start/", values).status_code == 303
    relay = Relay.objects.get()
    assert (relay.status, relay.next_at, relay.park) == ("waiting", at, "leg")
    assert (str(relay.policy_version), relay.policy["ceiling"]) == ("nightly@1", 0.8)
    assert "one leg, then it parks" in seen(client.get("/relays/"))


def test_a_check_says_what_each_field_means_and_makes_nothing(client_of: ClientOf, place: Path) -> None:
    holder = make_relay(repo=str(place))
    from relays.driver import leases

    holder.git_dir, holder.region = str(place.resolve() / ".git"), ["docs/**"]
    holder.save()
    leases.acquire(holder, ["docs/**"], timezone.now())
    before = everything()
    client = client_of("operator")
    said = seen(client.post("/start/", form(place, do="check")))
    assert "Machine-readable, 1 clause: the relay ends by itself when all hold." in said
    assert "issues:none open: does not hold yet (1 open: #1)" in said
    assert "Matches 2 files of 8; what lies outside is left alone. Nobody else holds it." in said
    assert "src/a.py" in said
    prose = seen(client.post("/start/", form(place, do="check", done_when="it reads well")))
    assert "Needs a person: 'it reads well'" in prose and "needs a limit of its envelope" in prose
    assert "envelope: a goal in prose needs at least one limit" in prose
    idle = seen(client.post("/start/", form(place, do="check", region="src/**\nnowhere/**")))
    assert "Matches 2 files of 8" in idle and "No file matches nowhere/** yet." in idle
    answer = client.post("/start/", form(place, do="check", region="**"))
    assert f'href="/relays/{holder.pk}/"' in marked(answer)
    held = seen(answer)
    assert f"COLLISION_RISK: {holder.pk} holds a region that could match" in held
    wrong = seen(client.post("/start/", form("/nowhere", do="check", region="../x", agent_args="x")))
    assert "no such folder" in wrong and "write it as name=value" in wrong and "'../x'" in wrong
    assert everything() == before


def test_suggestions_come_from_what_is_committed(place: Path) -> None:
    (place / "Cargo.toml").write_text("not committed")
    found = report.look(str(place))
    assert [one.value for one in report.suggest_done(found)] == [
        "issues:none open", 'cmd:"make test"', 'cmd:"python -m pytest -q"',
    ]  # fmt: skip
    assert [(one.value, one.why) for one in report.suggest_region(found)] == [
        ("src/**\ntests/**", "3 files"), ("src/**", "2 files"), ("docs/**", "1 file"), ("tests/**", "1 file"),
        ("**", "8 files"),
    ]  # fmt: skip


def test_hostile_files_suggest_nothing_and_break_nothing(repo: Path) -> None:
    builders.commit(
        repo,
        {"package.json": "[" * 5000, "pyproject.toml": "][", "Makefile": "tester:\n", "dos.toml": "]["},
        "Hostile",
    )
    found = report.look(str(repo))
    assert report.suggest_done(found) == ()
    assert "not valid TOML" in found.table_problem


def test_a_suggestion_fills_its_field_without_javascript(client_of: ClientOf, place: Path) -> None:
    client = client_of("operator")
    page = marked(client.post("/start/", form(place, do="", use_region="tests/**")))
    assert re.search(r'<textarea[^>]*name="region"[^>]*>src/\*\*\ntests/\*\*</textarea>', page)
    page = marked(client.post("/start/", form(place, do="", use_region="**")))
    assert re.search(r'<textarea[^>]*name="region"[^>]*>\*\*</textarea>', page)
    page = marked(client.post("/start/", form(place, do="", use_done='cmd:"make test"')))
    assert 'value="cmd:&quot;make test&quot;"' in page
    chips = re.findall(r'<button class="chip mono".*?>(.*?)</button>', page, re.DOTALL)
    assert 'issues:none open<span class="u">it has an issue file</span>' in chips, "white space in them is shown"
    assert not Relay.objects.exists()


def test_a_refusal_keeps_everything_that_was_typed(client_of: ClientOf, place: Path) -> None:
    client = client_of("operator")
    values = form(place, objective="<b>Close</b> them", sets="leg.trns=4", at="2001-01-01T00:00", legs="7", watch="1")
    answer = client.post("/start/", values)
    page = marked(answer)
    assert answer.status_code == 400 and "Nothing was started" in page
    for kept in (
        "&lt;b&gt;Close&lt;/b&gt; them",
        "leg.trns=4",
        "2001-01-01T00:00",
        'value="7"',
        "did you mean leg.turns",
    ):
        assert kept in page, kept
    assert re.search(r'name="watch" value="1" checked', page) and f'value="{"a" * 20}"' in page
    assert "2 fields are marked below." in page, "the time, too"
    late = client.post("/start/", form(place, at="2001-01-01T00:00"))
    assert late.status_code == 400
    assert re.search(r'id="said-at"[^>]*><p class="bad-text">--at 2001', marked(late)), "at its field"
    assert not Decision.objects.exists()


def test_a_held_region_is_a_conflict(client_of: ClientOf, place: Path) -> None:
    client = client_of("operator")
    assert client.post("/start/", form(place)).status_code == 303
    answer = client.post("/start/", form(place, form="b" * 20))
    assert answer.status_code == 409 and "COLLISION_RISK" in marked(answer)
    assert client.post("/start/", form(place, form="", region="docs/**")).status_code == 400
    assert Relay.objects.count() == 1


def test_a_dry_run_shows_the_first_prompt_and_its_size(client_of: ClientOf, place: Path) -> None:
    before = everything()
    page = marked(client_of("operator").post("/start/", form(place, do="dry")))
    said = seen(page)
    assert "You are one leg of a relay." in page and "Close them." in page
    assert re.search(r"^first prompt\n\d[\d,]* bytes", said, re.MULTILINE)
    assert "made of\npreamble, objective_pin" in said and "budget\nturns=none" in said
    assert everything() == before


@pytest.mark.parametrize(("role", "code"), [("operator", 200), ("admin", 200), ("reviewer", 403), ("manager", 403)])
def test_who_may_start(role: str, code: int, client_of: ClientOf, place: Path) -> None:
    client = client_of(role)
    assert client.get("/start/").status_code == code
    assert client.post("/start/", form(place)).status_code == (303 if code == 200 else 403)
    assert Relay.objects.exists() == (code == 200)


def test_an_address_fills_in_fields_or_another_relay(client_of: ClientOf, place: Path) -> None:
    client = client_of("operator")
    page = marked(client.get("/start/", {"repo": str(place), "objective": "So <so>", "sets": "ceiling=0.1"}))
    assert "So &lt;so&gt;" in page and "ceiling=0.1" not in page and "Matches" not in page
    assert "its Makefile has a target test" in page
    client.post("/start/", form(place))
    page = marked(client.get("/start/", {"like": Relay.objects.get().pk}))
    assert "Close them." in page and 'value="issues:none open"' in page
    assert client.get("/start/?like=RLY-1").status_code == 404


@pytest.mark.slow
@pytest.mark.parametrize(
    "field", ["repo", "objective", "done_when", "region", "agent", "agent_args", "sets", "at", "legs"]
)
def test_nothing_that_is_typed_breaks_the_page(field: str, client_of: ClientOf, place: Path) -> None:
    client = client_of("operator")
    for value in (
        "\x00",
        "\ud800".encode("utf-8", "surrogatepass"),
        "<script>alert(1)</script>",
        "x" * 20_000,
        "=",
        "‮",
    ):
        for do in ("check", "dry", "start"):
            answer = client.post("/start/", form(place, **{field: value, "do": do, "form": ""}))
            assert answer.status_code in (200, 400), (field, value, do)
            assert b"<script>alert" not in answer.content
    assert not Relay.objects.exists()
