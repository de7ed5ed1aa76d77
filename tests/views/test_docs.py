"""The docs: each token, figure, key, setting and verb is explained; hints are seen once; figures explain themselves."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from relays.core.policy import KEYS
from relays.core.vocabulary import TOKENS
from relays.management.commands.relay import VERBS
from relays.models import Layout
from relays.reports import docs, explained
from relays.templatetags.explain import explain
from tests.reading import marked

ClientOf = Callable[..., Client]
ROOT = Path(settings.BASE_DIR)


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_each_key_of_a_policy_is_explained_with_its_default() -> None:
    assert tuple(explained.POLICY) == KEYS
    rows = {row.name: row for row in explained.policy_rows()}
    assert rows["mark.context"].default == "0.6" and rows["tool_limit"].default == "15m"
    assert rows["leg.turns"].default == "—" and all(row.meaning for row in rows.values())


def test_each_setting_is_explained_here_and_in_the_readme() -> None:
    named = set(re.findall(r'env\.\w+\(\s*"([A-Z_]+)"', read("relaysite/settings.py")))
    assert set(explained.SETTINGS) == named
    readme = read("README.md")
    assert [name for name in sorted(named) if f"| `{name}` |" not in readme] == []


def test_each_verb_is_on_the_page_of_the_command_line() -> None:
    told = dict(re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", read("templates/relays/docs/en/commands.md"), re.M))
    assert told == VERBS


def test_every_figure_that_a_template_names_is_explained_and_every_page_has_its_text() -> None:
    named = set()
    for path in (ROOT / "templates").rglob("*.html"):
        named |= set(re.findall(r'{%\s*explain "([a-z_]+)"', path.read_text(encoding="utf-8")))
    assert named <= set(explained.FIGURES)
    assert {path.stem for path in (ROOT / docs.FOLDER / "en").glob("*.md")} == set(docs.PAGES)
    with pytest.raises(KeyError):
        explain("nothing")


def test_links_of_the_texts_lead_somewhere(client_of: ClientOf) -> None:
    client = client_of("admin")
    for slug in docs.PAGES:
        page = client.get(f"/docs/{slug}/")
        assert page.status_code == 200, slug
        for link in re.findall(r"<article.*?</article>", marked(page), re.S):
            for address in re.findall(r'href="(/[^"#]*)', link):
                assert client.get(address).status_code == 200, f"{slug}: {address}"
    assert client.get("/docs/nothing/").status_code == 404
    figures = marked(client.get("/docs/figures/"))
    assert all(f'id="{key.replace("_", "-")}"' in figures for key in explained.FIGURES)
    tokens = marked(client.get("/docs/tokens/"))
    assert all(f'id="{token}"' in tokens for token in TOKENS)


def test_a_figure_links_to_its_line() -> None:
    told = explain("break_even")
    assert told.startswith('<a class="ex" href="/docs/figures/#break-even" title="How many tokens')


@pytest.mark.django_db
def test_the_hints_are_seen_until_they_are_skipped_and_never_again(client_of: ClientOf) -> None:
    client, other = client_of("operator"), client_of("manager")
    assert marked(client.get("/")).count("data-points=") == 3
    assert 'id="hints"' not in marked(client.get("/cost/"))
    answer = client.post("/layout/hints/", {"next": "/relays/?q=x"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/relays/?q=x")
    assert client.post("/layout/hints/", {"next": "//evil.example/"}).headers["Location"] == "/"
    for address in ("/", "/relays/"):
        assert 'id="hints"' not in marked(client.get(address))
        assert 'id="hints"' in marked(other.get(address))
    assert Layout.objects.get().density == "roomy", "nothing else was chosen by it"
