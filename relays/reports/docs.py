"""The pages `/docs/`: short texts from Markdown files beside the templates, and tables that come from the code."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.conf import settings
from django.utils.translation import get_language, gettext_noop
from markdown import markdown

FOLDER = Path("templates/relays/docs")
#: address -> title, and the table of the code that stands under the text ("" = none)
PAGES: dict[str, tuple[str, str]] = {
    "first-steps": (gettext_noop("First steps"), ""),
    "ideas": (gettext_noop("How a relay works"), ""),
    "deciding": (gettext_noop("When a relay waits for you"), ""),
    "figures": (gettext_noop("Words and figures"), "figures"),
    "tokens": (gettext_noop("Tokens"), "tokens"),
    "policy": (gettext_noop("Policy keys"), "policy"),
    "commands": (gettext_noop("The command line"), ""),
    "agents": (gettext_noop("Agents"), ""),
    "people": (gettext_noop("People, roles and approvals"), ""),
    "settings": (gettext_noop("Settings of the site"), "settings"),
}


@dataclass(frozen=True, slots=True)
class Text:
    """A page's text as HTML of ours; `language`: the one that it is there in."""

    html: str
    language: str


def text_of(slug: str) -> Text:
    """In the reader's language where somebody wrote it, else in English. KeyError for a page that there is not."""
    PAGES[slug]
    wanted = (get_language() or "en").lower()
    for language in (wanted, wanted.partition("-")[0], "en"):
        path = Path(settings.BASE_DIR) / FOLDER / language / f"{slug}.md"
        if path.is_file():
            return Text(_html(path, path.stat().st_mtime_ns), language)
    raise KeyError(slug)


@cache
def _html(path: Path, _changed: int) -> str:
    return str(markdown(path.read_text(encoding="utf-8"), extensions=["tables", "fenced_code", "toc"]))
