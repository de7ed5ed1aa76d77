"""What a form says against wrong input is translatable to its last word: what was typed, and names, alone stay.

Issue: "all texts translatable (English first)". In this language only the words of a text stand in brackets, never what
fills its places, so that an English word which an error is filled with shows.
"""

import ast
import inspect
import json
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import translation
from hypothesis import HealthCheck, given
from hypothesis import settings as bounds
from hypothesis import strategies as st

from relays.actions import decide, maintenance, people, reviewers, userfacts
from relays.actions import park as parking
from relays.actions.base import Actor, Refused
from relays.agents import base as agents
from relays.agents import registry
from relays.agents.scripted_worker import Flags
from relays.core import (
    baton,
    donewhen,
    limits,
    notation,
    notify,
    objective,
    policy,
    policyfile,
    policytable,
    region,
    remote,
    settling,
)
from relays.core.sentences import RuleError, Sentence
from relays.core.vocabulary import TOKENS
from relays.costs import against
from relays.reports import layout
from relays.reports.figures import STYLES
from relays.reports.notifications import EVENTS
from relays.reports.relay import TABS
from relays.reports.sentences import refused, told
from tests.views.test_translated import MADE_UP, SIGNS, WORD, made_up
from tests.views.wrong_input import WRONG, every, furnish

#: a place of a text that is filled
PLACE = re.compile(r"(%\(\w+\)[a-z]|%[a-z]|%%)")
OURS = re.compile("⟦[^⟦⟧]*⟧")
#: parts of a page that say what is wrong
SAYING = {"msg", "said", "bad-text", "warn-text", "c-stale"}
#: elements without an end
ALONE = {"meta", "link", "input", "br", "hr", "img"}
#: whose content is data as it was recorded
RECORDED = {"mono", "sha", "tok", "data", "json", "diff"}
slow = pytest.mark.slow
needs_gettext = pytest.mark.skipif(
    shutil.which("xgettext") is None, reason="left out: gettext was not found; install it"
)


def by_the_word(text: str) -> str:
    """Each run of a text's own words in brackets, its places outside."""
    return "".join(
        piece if PLACE.fullmatch(piece) or not piece.strip() else f"⟦{piece}⟧" for piece in PLACE.split(text)
    )


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with made_up(tmp_path_factory.mktemp("locale"), by_the_word) as folder:
        yield folder


class Said(HTMLParser):
    """What the parts of a page say that tell of something wrong, each as one text."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[tuple[str, bool, bool]] = [("", False, False)]
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ALONE:
            return
        told = dict(attrs)
        classes = set((told.get("class") or "").split())
        _tag, saying, data = self.inside[-1]
        if not saying and (classes & SAYING or told.get("role") == "alert"):
            saying = True
            self.texts.append("")
        self.inside.append((tag, saying, data or bool(classes & RECORDED) or tag in {"code", "svg", "pre"}))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Parts of drawings: they hold no text."""

    def handle_endtag(self, tag: str) -> None:
        while tag not in ALONE and len(self.inside) > 1 and self.inside.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        _tag, saying, as_it_is = self.inside[-1]
        if saying and not as_it_is:
            self.texts[-1] += f" {data} "


def english(text: str, data: list[str]) -> str:
    """What is left of a text without what is translated and what is data; "" where no word is."""
    left = SIGNS.sub(" ", OURS.sub(" ", text))
    for one in sorted(data, key=len, reverse=True):
        left = re.sub(rf"(?<!\w){re.escape(one)}(?!\w)", " ", left)
    left = " ".join(left.split())
    return left if WORD.search(left) else ""


def typed(fields: Mapping[str, Any]) -> list[str]:
    """What was typed, as it stands and as a text quotes it: whole, by its lines and words, and cut."""
    found: set[str] = set()
    for value in fields.values():
        for one in value if isinstance(value, list) else [str(value)]:
            parts = {one, *one.splitlines(), *re.split(r"[\s=,;]+", one), *re.split(r"[^\w.]+", one)}
            found |= {form for part in parts for cut in (part, part[:80], part[:60], part[:40], part[:20])
                      for form in (cut, repr(cut), repr(cut)[1:-1])}  # fmt: skip
    return [one for one in found if len(one) > 1]


#: names that stand for themselves in every language: keys, words that a key takes, tokens, arguments, marks of ours
NAMES = [
    *policy.KEYS, *(word for words in policytable.CHOICES.values() for word in words), *map(str, TOKENS),
    *registry.names(), *notify.APPRISE, "https", "relay", "baseline", "envelope", "UTC", "argv", "env", "reconnect",
    "memory", "time", "file_size", "program", "model", "config", "mode", "issues:none open", "closed",
    *("commit", "issue", "file", "no-file", "ledger", "cmd"), "overload", "network", "sign_in", "own", "user",
    *layout.DENSITIES, *layout.PANELS, *layout.THEMES, *layout.languages(), *STYLES, *TABS, *EVENTS, *Flags._fields,
    "baton.x", "since", "until", "Africa/Abidjan", "Africa/Accra",
]  # fmt: skip


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=40), st.sampled_from(WRONG),
    st.lists(st.text(max_size=5), max_size=3), st.dictionaries(st.text(max_size=8), st.integers(), max_size=2),
    st.just({"turns": "x"}), st.just({"zzz": 1}),
)  # fmt: skip


@slow
@needs_gettext
@pytest.mark.django_db
@pytest.mark.timeout(900)
def test_no_form_answers_wrong_input_in_english(catalog: Path, tmp_path: Path) -> None:
    house = furnish(tmp_path)
    client = Client(headers={"accept-language": MADE_UP})
    client.force_login(house.users["admin"])
    left, missed, seen = [], [], 0
    for case in every(house):
        address = reverse(case.at, args=case.words)
        answer = client.post(address, case.fields, follow=True)
        page = Said()
        page.feed(answer.content.decode())
        said = " | ".join(" ".join(text.split()) for text in page.texts)
        seen += 1
        shown = f"{case.at} {shown_fields(case.fields)} -> {answer.status_code} {said[:400]}"
        if not said or case.says not in said:
            missed.append(f"{case.says!r}: {shown}")
        known = [*NAMES, *typed(case.fields), *map(str, case.words), *house.known]
        left += [f"{rest}: {shown}" for text in page.texts if (rest := english(text, known))]
    assert seen > 250
    assert missed == [], "\n".join(missed)
    assert left == [], "\n".join(left)


@slow
@needs_gettext
@pytest.mark.django_db
def test_no_address_with_wrong_parameters_is_answered_in_english(catalog: Path, tmp_path: Path) -> None:
    house = furnish(tmp_path)
    client = Client(headers={"accept-language": MADE_UP})
    client.force_login(house.users["admin"])
    asked = [("decisions", (), {"since": "soon"}), ("fleet_cost", (), {"since": "soon", "until": "later"})]
    asked += [("relay_cost", (house.relay.pk,), {name: wrong}) for name in against.CHOICES
              for wrong in ("soon", "1.5", "0", "0.0", "9" * 20)]  # fmt: skip
    left, said = [], ""
    for at, words, fields in asked:
        page = Said()
        page.feed(client.get(reverse(at, args=words), fields).content.decode())
        known = [*NAMES, *typed(fields), *house.known]
        left += [f"{at} {fields}: {rest}" for text in page.texts if (rest := english(text, known))]
        said += " ".join(page.texts)
    assert all(text in said for text in ("is no number", "is no whole number", "is more than all", "is no day"))
    assert left == []


@slow
@needs_gettext
@pytest.mark.django_db
def test_who_may_not_is_told_in_their_language(catalog: Path, tmp_path: Path) -> None:
    """Also the page of a refusal, whose status alone decides what stands on it."""
    house = furnish(tmp_path)
    client = Client(headers={"accept-language": MADE_UP})
    client.force_login(house.users["manager"])
    with translation.override(MADE_UP):
        for act, what in (
            (lambda actor: parking.park(actor, house.running.pk), "park"),
            (lambda actor: userfacts.add_fact(actor, house.running.pk, "so"), "fact"),
            (lambda actor: decide.approve(actor, house.gate.pk, seen="", comment="so"), "approve"),
            (lambda actor: people.make(actor, "newone", "admin"), "make a user"),
            (lambda actor: maintenance.park_all(actor, comment="so"), "park all"),
            (lambda actor: reviewers.change_group(actor, "night", add=["ann"]), "group"),
        ):
            with pytest.raises(Refused) as error:
                act(Actor(house.users["manager"]))
            known = [*house.known, "night"]
            assert what in str(error.value) and english(str(error.value), known) == "", str(error.value)
    for case in every(house):
        answer = client.post(reverse(case.at, args=case.words), case.fields, follow=True)
        if answer.status_code == 403:
            page = Said()
            page.feed(answer.content.decode())
            assert [
                rest for text in page.texts if (rest := english(text, [*NAMES, "manager-one", *typed(case.fields)]))
            ] == []


@slow
@needs_gettext
@bounds(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from([*policy.KEYS, "leg", "baseline.a", "baseline.a b", "ceilling", "baton"]), ANYTHING)
def test_whatever_a_key_is_given_is_refused_in_the_language(catalog: Path, key: str, value: object) -> None:
    for wrong, why in policytable.problems({key: value}).items():
        assert isinstance(why, Sentence) and wrong
        with translation.override(MADE_UP):
            assert english(told(why, typed=True), [*NAMES, *typed({"value": value}), repr(value)]) == "", why


@given(st.dictionaries(st.sampled_from(sorted(policy.Policy.model_fields)), ANYTHING, max_size=4))
def test_every_kind_of_error_that_the_policy_can_produce_has_words_of_ours(table: dict[str, object]) -> None:
    """Through the one place that reads pydantic's errors: the last resort, for kinds without words, is never used."""
    try:
        policy.from_snapshot(table)
    except policy.PolicyError as error:
        assert "does not take this value" not in error.why


def test_what_readers_of_a_text_say_is_known_to_the_last_text() -> None:
    """Of the Python that runs: a newer one with other words fails here, and gets its row."""
    rows = {said.text for said in notation.SAID}
    for text in sorted(reader_texts()):
        why = notation.why(ValueError(f"{text} (at line 1, column 2)"))
        assert why == f"{text} (at line 1, column 2)"
        said = why.values["why"]
        assert isinstance(said, Sentence) and said.text in rows, text


def reader_texts() -> set[str]:
    """Each message that tomllib, json and shlex raise, its places filled."""
    found = set()
    for module in (tomllib._parser, tomllib._re, json.decoder, shlex):  # type: ignore[attr-defined]
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {
                "suffixed_err", "JSONDecodeError", "TOMLDecodeError",
            } | ({"ValueError"} if module is shlex else set()):  # fmt: skip
                said = next((one for one in node.args if isinstance(one, ast.Constant | ast.JoinedStr)), None)
                text = "".join(getattr(part, "value", "") if isinstance(part, ast.Constant) else "'x'"
                               for part in getattr(said, "values", [said]) if part is not None)  # fmt: skip
                if re.search("[a-z]{3}", text.replace("'x'", "")) and not text.startswith("'x' (at"):
                    found.add(text)
    assert len(found) > 25
    return found


def test_an_error_of_the_rules_that_a_form_shows_carries_its_sentence() -> None:
    """Who adds one that is made of a plain text fails the type check, and who adds another class fails here."""
    modules = (
        baton,
        donewhen,
        limits,
        notify,
        objective,
        policy,
        policyfile,
        region,
        remote,
        settling,
        agents,
        registry,
    )
    for module in modules:
        own = [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == module.__name__]
        for one in own:
            assert not issubclass(one, Exception) or issubclass(one, RuleError), one
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            plain = isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
            assert not plain or getattr(node.exc.func, "id", "") != "ValueError", (module, node.lineno)  # type: ignore


#: speak to the command line alone, which speaks English
COMMAND_LINE = {"adopt.py", "adoption.py", "hooks.py"}
#: calls whose text translators get
COLLECTED = {"_", "ngettext", "gettext", "phrase"}
ENGLISH = re.compile(r"[a-z]{2,} [a-z]{2,}")


def test_no_refusal_of_an_act_or_a_page_is_made_of_a_text_that_is_not_collected() -> None:
    left = []
    for folder in ("actions", "views"):
        for file in sorted(Path(settings.BASE_DIR, "relays", folder).glob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())) if file.name not in COMMAND_LINE else ():
                refuses = isinstance(node, ast.Raise) or (
                    isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"need", "check_comment"}
                )
                if refuses:
                    left += [f"{file.name}:{node.lineno} {text!r}" for text in bare(node) if ENGLISH.search(text)]
    assert left == []


def test_no_text_hides_in_a_text_that_is_put_together() -> None:
    """What collects the texts does not look into an f-string."""
    hidden = []
    for file in sorted(Path(settings.BASE_DIR, "relays").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            for part in ast.walk(node) if isinstance(node, ast.JoinedStr) else ():
                name = getattr(getattr(part, "func", None), "id", "")
                if isinstance(part, ast.Call) and name in COLLECTED and isinstance(part.args[0], ast.Constant):
                    hidden.append(f"{file.name}:{part.lineno} {part.args[0].value!r}")
    assert hidden == []


def bare(node: ast.AST) -> Iterator[str]:
    """The texts below a node that stand in no call that is collected."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in COLLECTED:
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for below in ast.iter_child_nodes(node):
        yield from bare(below)


def test_in_english_an_error_says_on_a_page_what_it_says_on_the_command_line() -> None:
    for wrong in ("envelope.turns", "ceiling=7", "leg.turns=99999999999999999", "zzz=1", "leg.turnz=1"):
        with pytest.raises(policy.PolicyError) as error:
            policy.build({}, None, {}, [wrong])
        assert refused(error.value) == str(error.value) and json.dumps(error.value.why) == json.dumps(
            str(error.value.why)
        )


def shown_fields(fields: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={str(value)[:30]!r}" for name, value in list(fields.items())[:8])
