"""Every head, key, figure and token of every page explains itself, or is a plain word for a reason that stands here.

Issue: "every token and figure explains itself on hover or focus, with the link to its page in the docs".
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from relays.core import readout
from relays.core.vocabulary import TOKENS
from relays.reports.evidence import KINDS
from relays.reports.explained import FIGURES, explained
from relays.reports.explained_records import HEADS
from relays.reports.relay import TABS
from relays.templatetags.words import VERDICTS, prov, st, ver
from tests.whole_house import World, build, patterns

#: why a head or key needs no sentence -> the words
PLAIN: dict[str, str] = {
    "a moment": "at, when, day, month, ended, started, last sign-in",
    "a person, or what somebody is called": "who, by, owner, name, set by, asked by, members, group",
    "a thing with a name of its own, as heads of class `data` are": (
        "model, agent, repository, folder, file, files, path, line, lines, tools, import, session"
    ),
    "says in words what stands in the row": (
        "what, what was said, why, detail, note, comment, more, kind, kind of record, means, on, to, texts, "
        "where, words"
    ),
    "leads somewhere, or is pressed": "leads to, what can be done, what to do, act",
}
WORDS = {word for words in PLAIN.values() for word in words.split(", ")}
#: pages that are the explanations themselves
DOCS = {"doc", "docs", "api_docs"}
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "path", "rect", "line", "use"}
MARKS = {"tok", "ver", "st", "prov", "word"}
LEFT_OUT = {"live", "sign_out", "healthz", "readyz"}


@dataclass(slots=True)
class Node:
    tag: str
    attrs: dict[str, str]
    up: "Node | None" = None
    inside: list["Node | str"] = field(default_factory=list)

    @property
    def classes(self) -> set[str]:
        return set(self.attrs.get("class", "").split())

    @property
    def text(self) -> str:
        return " ".join("".join(one if isinstance(one, str) else one.text for one in self.inside).split())

    def walk(self) -> Iterator["Node"]:
        yield self
        for one in self.inside:
            if isinstance(one, Node):
                yield from one.walk()

    def above(self) -> Iterator["Node"]:
        one = self.up
        while one is not None:
            yield one
            one = one.up


class Page(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.root = self.at = Node("", {})
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs}, self.at)
        self.at.inside.append(node)
        if tag not in VOID:
            self.at = node

    def handle_endtag(self, tag: str) -> None:
        ending = next((one for one in (self.at, *self.at.above()) if one.tag == tag), None)
        if ending is not None and ending.up is not None:
            self.at = ending.up

    def handle_data(self, data: str) -> None:
        self.at.inside.append(data)


def is_head(node: Node) -> bool:
    """A head of a table, a key of a list of facts, the name of a figure or of a computed verdict."""
    above = node.up.classes if node.up else set()
    return (
        node.tag in {"th", "dt"}
        or (node.tag == "span" and bool({"kpi", "cell"} & above) and not MARKS & node.classes)
        or (node.tag == "span" and "name" in node.classes and "data-panel" in _panel(node))
    )


def _panel(node: Node) -> dict[str, str]:
    return next((one.attrs for one in node.above() if one.tag == "section"), {})


def explains(node: Node) -> bool:
    """It says something on hover and focus, and leads to the docs. A count of tokens says which, and leads to them."""
    told = node.attrs.get("title") or node.attrs.get("data-source")
    target = node.attrs.get("href", "")
    counts = "tok" in node.classes and bool(set(re.findall(r"[A-Z_]{6,}", told or "")) & set(TOKENS))
    return node.tag == "a" and bool(told) and (counts or target.startswith(("/docs/", "/vocabulary/")))


def unexplained(html: str) -> Iterator[str]:
    for node in Page(html).root.walk():
        keys = any("keys" in one.classes for one in node.above()) or any(one.tag == "kbd" for one in node.walk())
        if is_head(node) and not keys:
            told = any(explains(one) for one in node.walk())
            plain = node.text in WORDS or (node.tag == "th" and "data" in node.classes)
            if node.text and not (told or plain or "visually-hidden" in inner_classes(node)):
                yield f"<{node.tag}> {node.text[:80]}"
        elif node.tag == "a" and "k" in node.classes:
            if not is_told_by_its_head(node):
                yield f"the label {node.attrs.get('aria-label', '')} has no head that says what it is"
            elif node.up and not node.up.text and len([one for one in node.up.inside if isinstance(one, Node)]) == 1:
                yield f"the label {node.attrs['aria-label']} stands over nothing"
        elif "data-l" in node.attrs and in_cards(node):
            head = head_of(node)
            if node.attrs["data-l"] not in WORDS and not (head and "data" in head.classes):
                yield f"the label {node.attrs['data-l']} is none that leads to what it means"
        elif MARKS & node.classes and not explains(node) and not any(explains(one) for one in node.walk()):
            yield f".{'.'.join(sorted(node.classes))} {node.text[:80]}"
        if node.tag in {"a", "button"} and any(one.tag in {"a", "button", "summary"} for one in node.above()):
            yield f"<{node.tag}> {node.text[:40]} stands inside another thing to press"


def table_of(node: Node) -> Node | None:
    return next((one for one in node.above() if one.tag == "table"), None)


def in_cards(node: Node) -> bool:
    """On a phone each row of its table is a card; the label of a cell stands where the head stood."""
    table = table_of(node)
    return table is not None and "t-cards" in table.classes


def is_told_by_its_head(node: Node) -> bool:
    """Once in a table stands what a column is; the labels of its cells lead where the head leads."""
    heads = (one for one in table_of(node).walk() if one.tag == "thead") if table_of(node) else ()
    told = [one for head in heads for one in head.walk() if explains(one)]
    return bool(node.attrs.get("aria-label")) and any(one.attrs["href"] == node.attrs["href"] for one in told)


def head_of(cell: Node) -> Node | None:
    """The head over a cell, where its table has one for each."""
    row, table = cell.up, table_of(cell)
    if row is None or table is None:
        return None
    heads = [one for one in table.walk() if one.tag == "th"]
    at = (
        [one for one in row.inside if isinstance(one, Node) and one.tag == "td"].index(cell) if cell.tag == "td" else -1
    )
    return heads[at] if 0 <= at < len(heads) else None


def inner_classes(node: Node) -> set[str]:
    """The classes of all that stands in it, where that is one element."""
    inside = [one for one in node.inside if isinstance(one, Node) or one.strip()]
    return inside[0].classes if len(inside) == 1 and isinstance(inside[0], Node) else set()


def addresses(world: World) -> Iterator[tuple[str, str]]:
    for name, words, route in patterns():
        if not name or name in LEFT_OUT | DOCS or route.startswith("/api/"):
            continue
        yield name, world.address(name, words)
    relay = world.address("relay", ("relay_id",))
    for tab in TABS:
        yield f"relay, {tab}", f"{relay}?tab={tab}"
    for kind in KINDS:
        yield f"relay, {kind}", f"{relay}?tab=evidence&of={kind}"
    yield "relay, log", f"{relay}?tab=log"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.django_db
def test_each_head_key_figure_and_token_of_each_page_explains_itself(tmp_path: Path) -> None:
    world = build(tmp_path)
    client = Client()
    client.force_login(world.users["admin"])
    left: set[str] = set()
    seen = 0
    for name, address in addresses(world):
        answer = client.get(address)
        if answer.status_code != 200 or answer.streaming or "html" not in answer.headers.get("Content-Type", ""):
            continue
        seen += 1
        left |= {f"{name}: {one}" for one in unexplained(answer.content.decode())}
    assert seen >= 40
    assert left == set(), "\n".join(sorted(left))


def test_the_walk_finds_what_does_not_explain_itself() -> None:
    bad = '<th>flow</th><dt><a href="/x/">pin</a></dt><span class="tok">WORD</span><a href="/"><a href="/">b</a></a>'
    assert len(list(unexplained(bad))) == 4
    card = '<table class="t-cards"><thead><tr><th>%s</th></tr></thead><tbody><tr><td%s>%s7</td></tr></tbody></table>'
    head = '<a class="ex" href="/docs/figures/#leg" title="One bounded session.">leg</a>'
    label = '<a class="k" href="/docs/figures/#leg" aria-label="leg"></a>'
    assert list(unexplained(card % (head, "", label))) == []
    assert (
        len(list(unexplained(card % ("at", "", label))))
        == len(list(unexplained(card % (head, ' data-l="leg"', ""))))
        == 1
    )
    assert list(unexplained(card % ("at", ' data-l="at"', ""))) == []
    good = '<th>at</th><th><a class="ex" href="/docs/figures/#leg" title="One">leg</a></th><dt><kbd>j</kbd></dt>'
    assert list(unexplained(good)) == []


def test_each_verdict_status_and_provenance_leads_to_its_meaning() -> None:
    for word in VERDICTS:
        assert 'href="/docs/figures/#verdict-' in ver(word) or 'href="/vocabulary/#' in ver(word), word
        assert 'title="' in ver(word)
    assert "<a" not in ver("<b>odd</b>") and "&lt;b&gt;" in ver("<b>odd</b>")
    assert st("parked").startswith('<a class="st st-parked" href="/vocabulary/#status-parked" title="A person must')
    assert "<a" not in st("nothing")
    assert explained("provenance").sentence in prov("OBSERVED") and 'data-source="usage"' in prov("ASSUMED", "usage")


def test_each_head_that_a_report_names_has_its_figure_or_is_a_plain_word() -> None:
    named: set[str] = set()
    for path in (Path(settings.BASE_DIR) / "relays/reports").glob("*.py"):
        named |= set(re.findall(r'Cell\(\s*"([^"]+)"', path.read_text("utf-8")))
    assert len(named) > 30
    assert named - WORDS - set(HEADS) == set()
    assert all((key or name) in FIGURES for name, key in HEADS.items())
    assert {one.name for one in fields(readout.Readout)} <= set(FIGURES)


def test_every_figure_says_a_sentence() -> None:
    assert all(sentence.endswith(".") and len(sentence) < 240 for _, sentence in FIGURES.values())
