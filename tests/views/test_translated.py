"""Every text of every page is translatable: in a language made of the catalog, nothing but data is left of English.

Issue: "all texts translatable (English first)". The language wraps each text in ⟦ ⟧ and writes numbers as German does,
so a text that no catalog has, and a number that a drawing needs as it is, both show.
"""

import json
import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from gettext import GNUTranslations
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import translation
from django.utils.translation import trans_real

from relays.actions import decide
from relays.actions.base import Actor, NotLegalNow
from relays.agents import readiness
from relays.agents.contained import Containment
from relays.core import donewhen, policy
from relays.core.coverage import Coverage, over_legs
from relays.core.faithful import ReadAgain, judge, stored
from relays.core.verdicts import LegErrors, rot
from relays.core.vocabulary import Category
from relays.costs.faithful import as_json
from relays.models import GateState, RelayStatus
from relays.reports.evidence import KINDS
from relays.reports.relay import TABS
from relays.reports.sentences import refused, told
from tests.reading import marked
from tests.web_builders import make_gate, make_relay, make_user
from tests.whole_house import World, build, patterns

pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("xgettext") is None, reason="left out: gettext was not found; install it"),
]
MADE_UP = "de"
#: whose content is data: as it was written by an agent, a program or a person, or a name of the product's own
DATA = {"mono", "sha", "json", "diff", "secret", "tok", "who", "brand", "data", "ev"}
TAGS = {"code", "pre", "kbd", "script", "style", "time"}
TOLD = ("aria-label", "title", "placeholder", "alt", "data-l")
#: signs and units that are the same everywhere
SIGNS = re.compile(
    r"\b([0-9a-f]{12,}|min|UTC|CSV|API|OpenAPI|SHA|MB|KB|MiB|GiB|WAL|bytes?|Relaysite|relaysite|Enter|Esc)\b"
)
BRACKETED = re.compile("⟦[^⟦⟧]*(?:⟦[^⟦⟧]*⟧[^⟦⟧]*)*⟧")
#: what Plotly fills in, and where a figure comes from: a word of its own in every language
FILLED = re.compile(r"<extra>(OBSERVED|SIMULATED)?</extra>|%\{[^}]*\}|</?br>")
WORD = re.compile(r"[^\W\d_]{2,}")


class Texts(HTMLParser):
    """What a person reads of a page outside the brackets and outside data, with the element it stands in."""

    hovered = 0  # texts of charts, of all pages

    def __init__(self, known: list[str]) -> None:
        super().__init__()
        self.known = known
        self.inside: list[tuple[str, bool]] = []
        self.depth = 0
        self.found: list[tuple[str, str]] = []
        self.drawing = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.drawing = tag == "script" and told.get("type") == "application/json"
        data = tag in TAGS or bool(DATA & set((told.get("class") or "").split())) or ("lang" in told and tag != "html")
        if tag == "option" and told.get("value") is None:
            data = True  # its text is its value
        above = self.inside[-1][1] if self.inside else False
        for name in TOLD:
            text = told.get(name) or ""
            if not (data or above):
                self.outside(BRACKETED.sub("", text), f"<{tag} {name}>")
        if tag not in {"meta", "link", "input", "br", "hr", "img", "use", "path", "line", "rect"}:
            self.inside.append((tag, data or above))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Parts of drawings: they hold no text."""

    def handle_endtag(self, tag: str) -> None:
        self.drawing = False
        while self.inside and self.inside.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.drawing:
            self.drawn(json.loads(data))
        outside = ""
        for char in data:
            self.depth += (char == "⟦") - (char == "⟧")
            outside += char if self.depth == 0 and char != "⟧" else " "
        if self.inside and not self.inside[-1][1]:
            self.outside(outside, f"<{self.inside[-1][0]}>")

    def drawn(self, part: object, name: str = "") -> None:
        """The words of a chart: on hover, beside its lines, at its axes."""
        for key, one in part.items() if isinstance(part, dict) else ():
            self.drawn(one, key)
        for one in part if isinstance(part, list) else ():
            self.drawn(one, name)
        if isinstance(part, str) and name in {"hovertemplate", "hovertext", "text", "ticktext"}:
            type(self).hovered += bool(WORD.search(FILLED.sub("", part)))
            self.outside(FILLED.sub(" ", BRACKETED.sub("", part)), f"chart {name}")

    def outside(self, text: str, where: str) -> None:
        for data in self.known:
            text = text.replace(data, "")
        if WORD.search(SIGNS.sub("", text)):
            self.found.append((where, " ".join(text.split())))


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The collected texts as a language of their own."""
    with made_up(tmp_path_factory.mktemp("locale"), "⟦{}⟧".format) as folder:
        yield folder


@contextmanager
def made_up(folder: Path, wrap: Callable[[str], str]) -> Iterator[Path]:
    """A language in which each collected text is what `wrap` makes of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "LOCALE_PATHS", [folder])
        patch.setattr(settings, "LANGUAGES", [("en", "English"), (MADE_UP, "⟦ ⟧")])
        call_command("makemessages", locale=[MADE_UP], verbosity=0)
        place = folder / MADE_UP / "LC_MESSAGES"
        english = subprocess.run(["msgen", str(place / "django.po")], capture_output=True, check=True).stdout
        plain = place / "english.mo"
        subprocess.run(["msgfmt", "--use-fuzzy", "-o", str(plain), "-"], input=english, check=True)
        with plain.open("rb") as file:
            _write(place / "django.mo", GNUTranslations(file)._catalog, wrap)  # type: ignore[attr-defined]
        _forget()
        yield folder
    _forget()


def _forget() -> None:
    trans_real._translations = {}
    trans_real._default = None
    trans_real.get_languages.cache_clear()
    trans_real._get_supported_language_variant.cache_clear()
    trans_real.translation_catalog_exists.cache_clear()


def _write(path: Path, english: dict[object, str], wrap: Callable[[str], str]) -> None:
    """A compiled catalog in which every text is wrapped."""
    texts: dict[str, str] = {
        "": "Content-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=2; plural=(n != 1);\n"
    }
    for key, text in english.items():
        if isinstance(key, str) and key:
            texts[key] = wrap(text)
        elif isinstance(key, tuple) and key[1] == 0:
            many = english[(key[0], 1)]
            texts[f"{key[0]}\0{many}"] = f"{wrap(text)}\0{wrap(many)}"
    keys = sorted(texts, key=lambda one: one.encode())
    ids = b"".join(key.encode() + b"\0" for key in keys)
    strings = b"".join(texts[key].encode() + b"\0" for key in keys)
    tables, at = [b"", b""], [28 + 16 * len(keys), 28 + 16 * len(keys) + len(ids)]
    for key in keys:
        for which, text in enumerate((key, texts[key])):
            size = len(text.encode())
            tables[which] += struct.pack("<II", size, at[which])
            at[which] += size + 1
    head = struct.pack("<Iiiiiii", 0x950412DE, 0, len(keys), 28, 28 + 8 * len(keys), 0, 0)
    path.write_bytes(head + tables[0] + tables[1] + ids + strings)


def test_nothing_but_data_is_left_of_english(catalog: Path, tmp_path: Path) -> None:
    world = build(tmp_path)
    left: list[str] = []
    seen = 0
    for role in ("admin", "manager", ""):
        client = Client(headers={"accept-language": MADE_UP})
        if role:
            client.force_login(world.users[role])
        for name, words, route in patterns():
            if (
                route.startswith("/api/")
                or name in {"live", "sign_out"}
                or (not role and not name.startswith("sign_in"))
            ):
                continue
            places = [world.address(name, words)]
            if name == "relay":
                places += [f"{places[0]}?tab={tab}" for tab in TABS]
                places += [f"{places[0]}?tab=evidence&of={kind}" for kind in KINDS]
            for place in places:
                answer = client.get(place)
                if not answer.headers.get("Content-Type", "").startswith("text/html") or answer.streaming:
                    continue
                html = marked(answer)
                if answer.status_code == 200:
                    seen += 1
                    assert f'<html lang="{MADE_UP}"' in html and "⟦" in html, name
                left += [f"{place}: {where} {text[:120]}" for where, text in read(html, world)]
    assert seen >= 20 and Texts.hovered >= 20, Texts.hovered
    assert left == [], "\n".join(sorted(set(left)))


def read(html: str, world: World) -> list[tuple[str, str]]:
    """The texts of a page that are neither translated nor data."""
    texts = Texts(known(world))
    texts.feed(html)
    return texts.found


def known(world: World) -> list[str]:
    """Data of the house that pages show as running text: names and objectives."""
    from relays.models import Relay, Session

    found = {user.username for user in world.users.values()}
    found |= {str(category) for category in Category}
    for relay in Relay.objects.select_related("owner"):
        found |= {
            relay.objective,
            relay.pk,
            relay.owner.username,
            relay.repo,
            relay.branch,
            relay.agent,
            relay.done_when,
        }
    for session in Session.objects.all():
        found |= {session.agent, session.sid, session.sid[:13], *map(str, session.model_names)}
        found |= {Path(session.cwd).name, session.branch}
    found |= {"acme/orders", "scripted-1", "repo", "The night shift", "Nights are long", "A new disk", "nightly"}
    #: what the legs of the story wrote
    found |= {
        "may the dump be replaced?",
        "2 dirty paths: src/orders.py, notes.txt",
        "Close the next issue.",
        "127.0.0.1",
    }
    #: what the health page finds of this machine
    found |= {str(settings.RELAY_VAR), connection.vendor, *map(str, Containment)}
    found |= {one.program for one in readiness.everyone()}
    #: names of parts of the window
    found |= {"preamble, objective_pin, baton"}
    found |= {f"Close issue {n}" for n in range(1, 9)}
    return sorted((one for one in found if len(one) > 1), key=len, reverse=True)


def test_the_language_is_the_catalogs(catalog: Path) -> None:
    with translation.override(MADE_UP):
        assert translation.gettext("Sign in") == "⟦Sign in⟧"
        assert translation.ngettext("%(number)s rotation", "%(number)s rotations", 2) == "⟦%(number)s rotations⟧"
        assert translation.gettext("a soft mark was crossed") == "⟦a soft mark was crossed⟧", "of the rules' own table"


def test_a_sentence_of_the_rules_is_told_in_the_language_and_stays_english_for_programs(catalog: Path) -> None:
    found = rot([LegErrors(number, 400, 4, {1: (200, 2), 6: (200, 2)}) for number in range(4)])
    english = "later legs are not worse beyond chance: 8/800 early, 8/800 late; 8/800 below 20 % full, 8/800 above"
    with translation.override(MADE_UP):
        assert found.what == english, "programs read one language"
        assert told(found.said) == (
            "⟦later legs are not worse beyond chance: ⟦8/800 early, 8/800 late; ⟦8/800 below 20 % full, 8/800 above⟧⟧⟧"
        )
        assert told(over_legs([Coverage(12345, 12345)]).said) == (
            "⟦all that was durably made is reached: 12.345, legs: 1⟧"
        )
        assert told("as an agent wrote it") == "as an agent wrote it"
    assert told(found.said) == english


def test_a_refusal_is_told_in_the_language_and_on_the_command_line_in_english(catalog: Path) -> None:
    admin = make_user("one-admin", "admin")
    client = Client(headers={"accept-language": MADE_UP})
    client.force_login(admin)
    page = marked(client.post(reverse("users"), {"name": "one-admin", "role": "viewer"}))
    assert "⟦user one-admin: there is one of that name; give them a role in the list⟧" in page
    gate, actor = make_gate(make_relay(status=RelayStatus.PARKED), state=GateState.REFUSED), Actor(admin)
    with translation.override(MADE_UP), pytest.raises(NotLegalNow, match="^⟦.* it is ⟦refused⟧, not waiting; .*⟧$"):
        decide.approve(actor, gate.pk, seen="", comment="go on")
    with pytest.raises(NotLegalNow, match="^approve [0-9]+: it is refused, not waiting; look at `relay status RLY-"):
        decide.approve(actor, gate.pk, seen="", comment="go on")


def test_an_error_of_the_rules_is_told_in_the_language_where_a_form_shows_it(catalog: Path) -> None:
    admin = make_user("one-admin", "admin")
    client = Client(headers={"accept-language": MADE_UP})
    client.force_login(admin)
    page = marked(client.post(reverse("start"), {"do": "check", "done_when": "it reads well"}))
    assert "⟦it is none of the clauses that a store can answer⟧" in page
    with translation.override(MADE_UP):
        for asked, said in (
            (lambda: donewhen.parse(" "), "⟦done_when is empty⟧"),
            (
                lambda: policy.parse_set("turns"),
                "⟦policy key turns: ⟦write it as key=value, for example leg.turns=40⟧⟧",
            ),
        ):
            with pytest.raises(ValueError) as raised:
                asked()
            assert refused(raised.value) == said
    assert str(raised.value) == "policy key turns: write it as key=value, for example leg.turns=40"
    file = (catalog / MADE_UP / "LC_MESSAGES" / "django.po").read_text()
    assert "size} bytes long" not in file, "what is filled by Python is no text for a translator"


def test_a_stored_line_is_told_in_the_language_only_where_its_numbers_still_say_it(catalog: Path) -> None:
    kept = as_json(judge([ReadAgain(9, 9)] * 2, []))
    said = (
        "⟦⟦2 of 5 compactions⟧, ⟦⟦0 of 5 rotations with what was read again⟧, ⟦0 of 5 rotations with their coverage⟧⟧⟧"
    )
    with translation.override(MADE_UP):
        assert told(stored(kept)) == said
        assert told(stored(kept | {"what": "words of another day"})) == "words of another day"
        assert told(stored({"what": "words alone"})) == "words alone"
    assert str(stored(kept)) == kept["what"]
