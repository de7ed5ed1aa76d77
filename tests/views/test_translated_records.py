"""Texts that the product itself stored are told in the reader's language, and stay English for programs.

Issue: "all texts translatable (English first)". The language is the one of `test_translated`: each text in ⟦ ⟧, numbers
as German writes them. A line of a record that is shown as it was stored shows as English outside the brackets.
"""

import re
import shutil
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone, translation

from relays import live
from relays.core.lines import Pattern, pattern, recorded
from relays.management.commands.makemessages import lines
from relays.models import (
    AuditRun,
    Boundary,
    Channel,
    Check,
    Comparison,
    Delivery,
    Fact,
    GateChange,
    GateEpisode,
    GateState,
    Import,
    Layout,
    Leg,
    MaintenanceItem,
    Notice,
    PageFault,
    Promotion,
    Relay,
    RelayStatus,
    SourceFile,
    Tombstone,
    Verification,
    WouldBe,
)
from relays.notices import sending, words
from relays.reports.evidence import KINDS
from relays.reports.relay import TABS
from relays.reports.sentences import LEAST, told
from tests.reading import marked
from tests.tamper import unguarded
from tests.views.test_translated import MADE_UP, Texts, catalog
from tests.web_builders import make_gate, make_relay, make_user
from tests.whole_house import build, patterns

__all__ = ["catalog"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("xgettext") is None, reason="left out: gettext was not found; install it"),
]


def _sample(one: Pattern) -> str:
    values: dict[str, object] = {name: f"<{name}>" for name in one.names}
    values |= dict.fromkeys(one.counts, 12345)
    values |= {name: "waiting" for name in one.names if name.endswith("_word")}
    return one.text % values if values else one.text.replace("%%", "%")


def test_each_line_of_a_record_is_collected_and_known_again_in_its_text(catalog: Path) -> None:
    every = [pattern(text) for text in dict.fromkeys(lines())]
    assert len(every) >= 300
    assert len({(one.literals, one.counts) for one in every if one.names}) == sum(bool(one.names) for one in every)
    with translation.override(MADE_UP):
        for one in every:
            assert one.text == one.text.strip() and "{" not in one.text, one.text
            assert all(one.literals[1:-1]), f"{one.text}: where one value ends cannot be told"
            assert one.own >= LEAST or not one.names or any(name.endswith("_word") for name in one.names), one.text
            english = _sample(one)
            said = told(english)
            assert said.startswith("⟦") and said.endswith("⟧"), f"{english} is told as {said}"
            assert said.count("12.345") == len(re.findall(r"%\(\w+\)d", one.text)), said
            if any(name.endswith("_word") for name in one.names):
                assert "⟦waiting⟧" in said, said
    for one in every:
        assert told(_sample(one)) == _sample(one), "programs read what was stored"


def test_a_line_is_told_with_what_it_was_made_of_and_text_of_others_as_it_is(catalog: Path) -> None:
    with translation.override(MADE_UP):
        for english, said in (
            ("the start failed: no such repository", "⟦the start failed: ⟦no such repository⟧⟧"),
            ("gate 12 is approved, and nobody decided it", "⟦gate 12 is ⟦approved⟧, and nobody decided it⟧"),
            ("decision 12345 is missing: 12347 stands in its place",
             "⟦decision 12.345 is missing: 12.347 stands in its place⟧"),
            ("the relay saves $1,234.50 to $2.10 against compaction",
             "⟦the relay saves $1.234,50 to $2,10 against ⟦compaction⟧⟧"),
            ("/a/repo: no such folder; name a folder inside a git repository",
             "/a/repo: ⟦no such folder⟧; ⟦name a folder inside a git repository⟧"),
            ("RELAY_BATON_STALE: no such object", "RELAY_BATON_STALE: ⟦no such object⟧"),
            ("what an agent wrote, of its own", "what an agent wrote, of its own"),
            ("it is what it is", "it is what it is"),
            ("", ""),
        ):  # fmt: skip
            assert told(english) == said
            assert told(english) == said, "the second time as the first"


def test_reading_a_line_again_takes_no_more_than_its_length() -> None:
    one = pattern("%(a)s: %(b)s, and %(c)s; %(d)s of %(e)s lines")
    assert one.read("x: " * 400_000) is None
    assert one.read(recorded(one.text, a="a: b", b="c", c="d", d="e", e="f")) == {
        "a": "a", "b": "b: c", "c": "d", "d": "e", "e": "f",
    }  # fmt: skip


def _reader(role: str = "admin") -> Client:
    client = Client(headers={"accept-language": MADE_UP})
    client.force_login(make_user(f"one-{role}", role))
    return client


def test_what_a_verification_found_is_told_in_the_language_of_each_reader(catalog: Path) -> None:
    """The finding is kept in English: one who reads English, the command and rows of before have the same text."""
    client = _reader()
    make_gate(make_relay(), state=GateState.REFUSED)
    client.post(reverse("decisions_verify"))
    run = AuditRun.objects.get()
    assert run.ok is False and run.why[0].startswith("decision 1 is missing at the end: nobody started RLY-")
    shown = marked(client.get(reverse("decisions")))
    relay = Relay.objects.get()
    assert f"⟦decision 1 is missing at the end: ⟦nobody started {relay.pk}⟧⟧" in shown
    english = Client()
    english.force_login(User.objects.get(username="one-admin"))
    assert f"decision 1 is missing at the end: nobody started {relay.pk}" in marked(
        english.get(reverse("decisions"))
    ).replace("&#x27;", "'")


def test_what_is_refused_is_refused_in_the_language(catalog: Path) -> None:
    client = _reader("manager")
    strict = Client(headers={"accept-language": MADE_UP}, enforce_csrf_checks=True)
    for answer, status in (
        (client.get("/nowhere/"), 404),
        (client.get(reverse("needs_you"), {"part": "none"}), 404),
        (client.get(reverse("relays"), {"part": "none"}), 404),
        (client.get(reverse("decisions"), {"format": "none"}), 404),
        (client.get(reverse("gate", args=[999])), 404),
        (client.get(reverse("decisions"), {"format": "csv", "since": "soon"}), 400),
        (client.get(reverse("users")), 403),
        (strict.post(reverse("sign_in"), {}), 403),
    ):
        html = marked(answer)
        assert answer.status_code == status, answer.request
        assert f'<html lang="{MADE_UP}"' in html, answer.request
        assert [text for _where, text in read_bare(html)] == [], answer.request


def read_bare(html: str) -> list[tuple[str, str]]:
    texts = Texts(["one-manager", "/nowhere/", "'none'", "soon"])
    texts.feed(html)
    return texts.found


def test_a_page_that_may_listen_no_more_is_told_why_in_its_language(catalog: Path) -> None:
    user = make_user("one-viewer", "viewer")
    for language, said in ((MADE_UP, "⟦signed out: reload the page⟧"), ("en", "signed out: reload the page")):
        assert live.why_not(live.Viewer(user.pk, "gone", "", frozenset(), language)) == said


def test_a_notice_is_told_in_the_language_that_its_readers_chose_and_to_programs_in_english(catalog: Path) -> None:
    anna, bert = make_user("anna", "reviewer"), make_user("bert", "reviewer")
    gate = make_gate(make_relay(status=RelayStatus.PARKED))
    notice = Notice.objects.create(
        event=Notice.Event.GATE_OPENED, key="k", at=timezone.now(), relay=gate.relay, gate=gate,
        detail={"token": gate.token, "state": gate.state},
    )  # fmt: skip
    make = partial(words.of, notice)
    english = words.of(notice)
    Layout.objects.create(user=anna, language=MADE_UP)
    told_anna = words.in_language_of(["anna"], make)
    assert told_anna.title == f"⟦{gate.relay_id} waits for a person: {gate.token}⟧" and told_anna.url == english.url
    assert [text for text in told_anna.lines[1:] if not text.startswith("⟦")] == []
    for readers in (["anna", "bert"], ["bert"], []):
        assert words.in_language_of(readers, make) == english, "one message for many is told in one language"
    Layout.objects.create(user=bert, language=MADE_UP)
    assert words.in_language_of(["anna", "bert"], make) == told_anna


def test_what_a_receiver_answered_is_kept_in_english_and_told_in_the_language(catalog: Path) -> None:
    client = _reader()
    channel = Channel.objects.create(
        name="team", kind="webhook", key="k", salt="s", shown="https://…", site=True, created_at=timezone.now()
    )
    notice = Notice.objects.create(event=Notice.Event.TEST, key="t", at=timezone.now(), spread_at=timezone.now())
    row = Delivery.objects.create(notice=notice, channel=channel, readers=[], not_before=timezone.now())
    with translation.override(MADE_UP):
        answer = sending.send(row, notice, channel)
    assert answer.text == "it stands in NOTIFY_URLS no more"
    Delivery.objects.filter(pk=row.pk).update(answer=answer.text, state="dead", done_at=timezone.now())
    assert "⟦it stands in NOTIFY_URLS no more⟧" in marked(client.get(reverse("notifications")))


LINE = "the start failed: no such repository"
#: where lines of records are kept
KEPT = (
    (Check, "evidence"), (Comparison, "why"), (Comparison, "verdict_why"), (Comparison, "forecast_why"),
    (Boundary, "hold_detail"), (Delivery, "answer"), (Fact, "evidence"), (GateChange, "why"), (GateEpisode, "items"),
    (GateEpisode, "error"), (GateEpisode, "closed_why"), (Import, "error"), (Leg, "start_error"),
    (MaintenanceItem, "why"), (PageFault, "reason"), (Promotion, "reason"), (Relay, "status_why"), (Relay, "findings"),
    (SourceFile, "error"), (Tombstone, "note"), (Verification, "evidence"), (WouldBe, "why_none"),
)  # fmt: skip


class Shown(HTMLParser):
    """Every text that a page shows, whatever it is taken for: also what stands where data stands."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = []
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in {"meta", "link", "input", "br", "hr", "img", "use", "path", "line", "rect"}:
            self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not {"script", "style", "pre", "textarea", "code"} & set(self.inside):
            self.found.append(" ".join(data.split()))


def test_no_page_shows_a_line_of_a_record_as_it_was_stored(catalog: Path, tmp_path: Path) -> None:
    world = build(tmp_path)
    with unguarded():
        for model, field in KEPT:
            model.objects.update(**{field: [LINE] if field in {"hold_detail", "items", "findings"} else LINE})
    every = [pattern(text) for text in dict.fromkeys(lines())]
    whole = {one.text for one in every if not one.names and " " in one.text}
    parts = [one for one in every if one.names and one.own >= 12 and not one.text.startswith("%(")]
    client = Client(headers={"accept-language": MADE_UP})
    client.force_login(world.users["admin"])
    left, told_here = set(), 0
    for name, arguments, route in patterns():
        if route.startswith("/api/") or name in {"live", "sign_out", "doc"}:
            continue
        places = [world.address(name, arguments)]
        places += [f"{places[0]}?tab={tab}" for tab in TABS] if name == "relay" else []
        places += [f"{places[0]}?tab=evidence&of={kind}" for kind in KINDS] if name == "relay" else []
        for place in places:
            answer = client.get(place)
            if not answer.headers.get("Content-Type", "").startswith("text/html") or answer.streaming:
                continue
            page = Shown()
            page.feed(marked(answer))
            for text in page.found:
                told_here += "⟦the start failed: ⟦no such repository⟧⟧" in text
                if text in whole or LINE in text or any(one.read(text) is not None for one in parts):
                    left.add(f"{place}: {text[:160]}")
    assert told_here >= 30, "records of the house are told"
    assert not left, "\n".join(sorted(left))
