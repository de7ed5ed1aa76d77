"""The one place where tokens, verdicts, SHAs, numbers, money, ages and durations become text or markup.

Interface: "one colour and one shape per token category, the same on every page"; "money, tokens and durations are
formatted in one place". Every value that may come from an agent is escaped here; nothing is trusted as markup.
"""

import math
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal

from django import template
from django.templatetags.static import do_static, static
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from relays.core.sentences import Sentence
from relays.core.vocabulary import Category, Token, token
from relays.core.words import find
from relays.reports import sentences
from relays.reports.explained import FIGURES, explained
from relays.reports.figures import MINUS, places, whole

#: never a piece of a name: a path that holds a time stays as it is
_STAMP = re.compile(r"(?<![\w./-])2\d{3}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d\+00:00(?![\w./-])")
register = template.Library()
register.tag("static", do_static)  # these tags are built in everywhere, so no template has to load anything

NONE = "—"  # no value can exist; 0 is counted and none

#: which sets of words a verdict may come from; the first that has it explains it
JUDGED = ("pointer", "outcome", "memory", "assumption", "fault", "reconciled", "gate")

#: word -> (class, shape); words that are not here get a question mark, never a cross
VERDICTS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("holds", "verified", "passed", "fresh", "done", "true", "confirmed"), ("ver-holds", "check")),
    **dict.fromkeys(("use", "promoted", "preserved", "established", "page in"), ("ver-holds", "check")),
    **dict.fromkeys(("drifted", "dropped", "deny", "spent"), ("ver-violated", "cross")),
    **dict.fromkeys(("violated", "dangling", "refused", "invalid", "false", "failed"), ("ver-violated", "cross")),
    **dict.fromkeys(("not yet", "left_out", "left out"), ("ver-notyet", "notyet")),
    "stale": ("ver-stale", "diamond"),  # a claim that no longer matches, and what to do is known: amber, not crimson
    "held": ("ver-unknown", "bars"),
}


# ---- text ----------------------------------------------------------------


@register.filter
def told(said: Sentence | str) -> str:
    """A sentence of the rules in the reader's language; text of a record as it was recorded."""
    return sentences.told(said)


@register.filter
def told_each(lines: Sequence[str]) -> list[str]:
    """Lines of a record, each as `told` tells it."""
    return [sentences.told(str(line)) for line in lines]


@register.filter
def codes(text: object) -> SafeString:
    """Escaped text in which what stands between two backticks is code, as on a terminal: `relay clean`."""
    parts = str(text).split("`")
    if len(parts) % 2 == 0:
        return format_html("{}", str(text))
    return format_html_join(
        "",
        "{}",
        ((format_html('<code class="mono">{}</code>', part) if at % 2 else part,) for at, part in enumerate(parts)),
    )


@register.filter
def grouped(value: object) -> str:
    """`178612` -> `178,612`; no value -> `—`; a negative number gets a true minus sign."""
    if value is None or value == "":
        return NONE
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return str(value)
    return places(value, 1) if isinstance(value, float) else whole(value)


@register.filter
def short_tokens(value: object) -> str:
    """`120000` -> `120k`: for axes and column heads only."""
    if not isinstance(value, int | float):
        return NONE
    return f"{whole(round(value / 1000))}k" if abs(value) >= 1000 else str(round(value))


@register.filter
def money(value: object) -> str:
    """A decimal amount in the site's currency with two decimals; no value is `unpriced`, never 0."""
    if value is None or value == "":
        return _("unpriced")
    amount = Decimal(str(value))
    sign = MINUS if amount < 0 else ""
    if 0 < abs(amount) < Decimal("0.01"):
        return f"{sign}<${places(Decimal('0.01'), 2)}"
    return f"{sign}${places(abs(amount), 2)}"


@register.filter
def dollars(value: object) -> str:
    """Money for comparisons: like `money`, but with the decimals that a small amount needs, and `—` for no value."""
    if value is None or value == "":
        return NONE
    amount = Decimal(str(value))
    size = abs(amount)
    digits = 2 if size >= Decimal("0.1") or not size else 4 if size >= Decimal("0.001") else 6
    sign = MINUS if amount < 0 else ""
    return f"{sign}${places(size, digits)}"


@register.filter
def signed_percent(value: object) -> str:
    """How much more or less: `+27 %`, `−8.4 %`; no value -> `—`."""
    if not isinstance(value, int | float | Decimal):
        return NONE
    part = Decimal(str(value)) * 100
    return f"{MINUS if part < 0 else '+'}{places(abs(part), 0 if abs(part) >= 10 else 1)} %"


@register.filter
def duration(value: object) -> str:
    """A `timedelta` or seconds in one unit: `40 s`, `43 min`, `3.2 h`, `4 d`; no value -> `—`."""
    if value is None or value == "":
        return NONE
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(str(value))
    sign, seconds = (MINUS if seconds < 0 else ""), abs(seconds)
    if seconds < 60:
        return f"{sign}{int(seconds)} s"
    if seconds < 3600:
        return f"{sign}{int(seconds // 60)} min"
    if seconds < 48 * 3600:
        return f"{sign}{places(math.floor(seconds / 360) / 10, 1)} h"
    return f"{sign}{int(seconds // 86400)} d"


@register.filter
def age(value: object) -> str:
    """How long ago a moment was, in one unit; a moment ahead (clocks differ) counts as now."""
    if not isinstance(value, datetime):
        return NONE
    return duration(max(timezone.now() - value, timedelta(0)))


@register.filter
def exact(value: object) -> str:
    """The exact time in the viewer's zone, else the fleet's, and which: `2026-11-30 11:19:05 Europe/Berlin`."""
    if not isinstance(value, datetime):
        return ""
    return f"{timezone.localtime(value):%Y-%m-%d %H:%M:%S} {timezone.get_current_timezone_name()}"


@register.filter
def timed(text: str) -> str:
    """A line in which each whole time that a record writes for programs is the viewer's, as `exact` says it."""

    def at(found: re.Match[str]) -> str:
        try:
            return exact(datetime.fromisoformat(found[0]))
        except ValueError:  # no day of the calendar
            return found[0]

    return _STAMP.sub(at, text)


@register.filter
def percent(value: object) -> str:
    """A share 0…1 as `96.8 %`; a share below 1 never rounds up to 100 %; no value -> `—`.

    Rounded, not cut off: an error of 4.18 % is no 4.1 %, here as on the command line.
    """
    if not isinstance(value, int | float | Decimal):
        return NONE
    share = Decimal(str(value))
    tenths = int((share * 1000).quantize(Decimal(1), ROUND_HALF_UP))
    if share < 1:
        tenths = min(tenths, 999)
    return f"{tenths // 10} %" if tenths % 10 == 0 else f"{places(tenths / 10, 1)} %"


@register.filter
def initials(value: object) -> str:
    """Two letters for the round sign of a person."""
    words = [word for word in str(value).replace(".", " ").replace("_", " ").replace("-", " ").split() if word]
    if not words:
        return "?"
    return (words[0][0] + words[1][0] if len(words) > 1 else words[0][:2]).upper()


# ---- marks ---------------------------------------------------------------


@register.simple_tag
def icon(name: str, label: str = "") -> SafeString:
    """One icon of the sprite (`static/relays/icons.svg`); with a label it is an image, else decoration."""
    sprite = static("relays/icons.svg")
    if label:
        return format_html(
            '<svg class="icon" viewBox="0 0 24 24" role="img" aria-label="{}"><use href="{}#{}"/></svg>',
            label,
            sprite,
            name,
        )
    return format_html(
        '<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><use href="{}#{}"/></svg>', sprite, name
    )


@register.simple_tag
def shape(name: str) -> SafeString:
    """One of the shapes ring, disc, diamond, octagon, bars, dashed, check, cross, notyet, query."""
    return format_html(
        '<svg class="sh" viewBox="0 0 12 12" aria-hidden="true"><use href="{}#sh-{}"/></svg>',
        static("relays/icons.svg"),
        name,
    )


def _meaning(word: Token) -> str:
    return _("%(meaning)s. Fix: %(fix)s") % {"meaning": capfirst(_(word.meaning)), "fix": _(word.fix)}


@register.simple_tag
def tok(value: str, quiet: bool = False, count: int | None = None) -> str:
    """A token as shape, colour and word, linked to its fix; an unknown word is shown as text and links nowhere.

    `quiet`: a normal `RELAY_ROTATED` in a table keeps its disc, its word goes grey; what is no normal end is never
    quiet. `count`: `×22` after it.
    """
    if not value:
        return ""
    word = token(str(value))
    times = format_html(' <span class="u">×{}</span>', grouped(count)) if count else ""
    if not word.known:
        return format_html(
            '<span class="tok tok-unknown" title="{}">{}{}</span>{}',
            _(word.meaning),
            shape("dashed"),
            word.value[:80],
            times,
        )
    try:
        target = f"{reverse('vocabulary')}#{word.value}"
    except NoReverseMatch:
        target = f"#{word.value}"
    return format_html(
        '<a class="tok tok-{}" href="{}" title="{}">{}{}</a>{}',
        "quiet" if quiet and word.category is Category.TRUE_DRAIN else word.tone,
        target,
        _meaning(word),
        shape(word.shape),
        word.value,
        times,
    )


@register.simple_tag
def says(value: str) -> SafeString:
    """The title of a token's link that a template draws by itself: meaning and fix, as `tok` says them."""
    return format_html(' title="{}"', _meaning(token(str(value))))


@register.simple_tag
def word(group: str, value: object) -> str:
    """A cause, state or disposition, linked to its line of the page Vocabulary; what is in no set is plain text."""
    text = str(value or "")
    found = find(group, text)
    if found is None:
        return text[:80]
    says = _("%(meaning)s. Fix: %(fix)s") if found.fix and found.fix != "none" else "%(meaning)s."
    title = says % {"meaning": capfirst(_(found.meaning)), "fix": _(found.fix) if found.fix else ""}
    target = f"{reverse('vocabulary')}#{found.anchor}"
    return format_html('<a class="word" href="{}" title="{}">{}</a>', target, title, _(found.value))


@register.simple_tag
def ver(verdict: object, text: str = "") -> SafeString:
    """A verdict with its own mark: check, crimson cross, dashed ring for `not yet`, question mark for `unknown`.

    It links to what its word means: among the words of the vocabulary, else among the figures of the docs.
    """
    word = str(verdict).replace("_", " ") if verdict not in (None, "") else "not yet"
    tone, mark = VERDICTS.get(word, ("ver-unknown", "query"))
    shown = _(str(text or word[:80]))
    spelt = (word, word.replace(" ", "_"))
    found = next((one for group in JUDGED for way in spelt if (one := find(group, way))), None)
    key = f"verdict_{word.replace(' ', '_')}"
    if found is not None:
        address, says = f"{reverse('vocabulary')}#{found.anchor}", _(found.meaning)
    elif key in FIGURES:
        figure = explained(key)
        address, says = f"{reverse('doc', args=['figures'])}#{figure.slug}", figure.sentence
    else:
        return format_html('<span class="ver {}">{}{}</span>', tone, shape(mark), shown)
    return format_html('<a class="ver {}" href="{}" title="{}">{}{}</a>', tone, address, says, shape(mark), shown)


@register.simple_tag
def sha(value: str, length: int = 8) -> str:
    """A SHA or digest, shortened; one press copies all of it."""
    if not value:
        return NONE
    full = str(value)
    return format_html(
        '<button class="sha" type="button" data-copy="{}" title="{}" aria-label="{}">{}{}</button>',
        full,
        full,
        _("Copy %(value)s") % {"value": full},
        full[:length],
        icon("copy"),
    )


@register.simple_tag
def num(value: object, unit: str = "") -> SafeString:
    """A grouped number with its unit small and grey after it."""
    if unit and value is not None and value != "":
        return format_html('<span class="num">{} <span class="u">{}</span></span>', grouped(value), unit)
    return format_html('<span class="num">{}</span>', grouped(value))


@register.simple_tag
def cost(total: object, unpriced_calls: int = 0) -> SafeString:
    """Money that says what it misses: `unpriced`, or the total with `partial: n calls unpriced`."""
    amount = Decimal(str(total or 0))
    if unpriced_calls and not amount:
        none = ngettext("%(n)s call has no price", "%(n)s calls have no price", unpriced_calls)
        return format_html(
            '<span class="dim" title="{}">{}</span>', none % {"n": grouped(unpriced_calls)}, _("unpriced")
        )
    if unpriced_calls:
        part = ngettext("partial: %(n)s call unpriced", "partial: %(n)s calls unpriced", unpriced_calls)
        return format_html('{} <span class="u">{}</span>', money(amount), part % {"n": grouped(unpriced_calls)})
    return format_html("{}", money(amount))


@register.simple_tag
def when(moment: datetime | None) -> str:
    """An age (`43 min`) with the exact time on hover and focus."""
    if moment is None:
        return NONE
    return format_html(
        '<time class="age" datetime="{}" title="{}" tabindex="0">{}</time>',
        moment.isoformat(),
        exact(moment),
        age(moment),
    )


@register.simple_tag
def clock(moment: datetime | None) -> str:
    """The time of day of a moment in the viewer's zone, with its date on another day."""
    if moment is None:
        return NONE
    local = timezone.localtime(moment)
    text = f"{local:%H:%M:%S}" if local.date() == timezone.localdate() else f"{local:%Y-%m-%d %H:%M}"
    return format_html(
        '<time class="clock" datetime="{}" title="{}" tabindex="0">{}</time>', moment.isoformat(), exact(moment), text
    )


@register.simple_tag
def prov(word: str, source: str = "") -> SafeString:
    """Provenance as an underline: solid OBSERVED, dashed SIMULATED, dotted ASSUMED; its source on hover and focus.

    It links to what the three words mean; where no source is named, that is what hover and focus say.
    """
    tone = {"OBSERVED": "", "SIMULATED": " prov-sim", "ASSUMED": " prov-ass"}.get(word.upper(), " prov-ass")
    shown, one = _(word.upper()), explained("provenance")
    address = f"{reverse('doc', args=['figures'])}#{one.slug}"
    if source:
        return format_html(
            '<a class="prov{}" href="{}" data-source="{}">{}<span class="visually-hidden">: {}</span></a>',
            tone,
            address,
            source,
            shown,
            source,
        )
    return format_html('<a class="prov{}" href="{}" title="{}">{}</a>', tone, address, one.sentence, shown)


@register.simple_tag
def st(status: str) -> SafeString:
    """A relay's status, linked to what it means; parked is the one that a person looks for."""
    mark = shape("octagon") if status == "parked" else ""
    found = find("status", str(status))
    if found is None:
        return format_html('<span class="st st-{}">{}{}</span>', status, mark, _(status))
    return format_html(
        '<a class="st st-{}" href="{}#{}" title="{}">{}{}</a>',
        status,
        reverse("vocabulary"),
        found.anchor,
        capfirst(_(found.meaning)),
        mark,
        _(status),
    )


# ---- small drawings, made on the server: they need no script -----------------


@register.simple_tag
def meter(now: int, mark: int, ceiling: int, window: int = 0) -> SafeString:
    """Resident tokens now against soft mark and ceiling, on a scale of the window."""
    scale = max(window, ceiling, now, 1)
    width = min(now / scale, 1) * 100
    tone = "over" if ceiling and now >= ceiling else "fg"
    ticks = format_html_join(
        "",
        '<rect class="{}" x="{}" width=".8" height="8"/>',
        ((css, f"{min(at / scale, 1) * 100 - 0.4:.1f}") for css, at in (("mk", mark), ("ce", ceiling)) if at),
    )
    said = _("%(now)s of %(ceiling)s ceiling") if ceiling else _("%(now)s tokens")
    says = said % {"now": grouped(now), "ceiling": grouped(ceiling)}
    return format_html(
        '<svg class="meter" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="bg" width="100" height="8" rx="1"/><rect class="{}" width="{}" height="8" rx="1"/>{}</svg>',
        says,
        tone,
        f"{width:.1f}",
        ticks,
    )


@register.simple_tag
def spark(points: Sequence[int], top: int = 0) -> SafeString:
    """A sparkline of resident tokens, oldest first; the dashed line is `top` (the ceiling)."""
    if len(points) < 2:
        return format_html('<span class="dim">{}</span>', _("no calls yet") if not points else _("one call yet"))
    high = max(top, *points, 1)
    step = 200 / (len(points) - 1)
    path = " ".join(
        f"{'L' if at else 'M'}{at * step:.1f} {30 - max(value, 0) / high * 28:.1f}" for at, value in enumerate(points)
    )
    y = f"{30 - top / high * 28:.1f}"
    line = format_html('<line x1="0" x2="200" y1="{}" y2="{}"/>', y, y) if top else ""
    says = _("resident tokens of the last %(n)s calls, from %(low)s to %(high)s") % {
        "n": len(points),
        "low": grouped(min(points)),
        "high": grouped(max(points)),
    }
    return format_html(
        '<svg class="spark" viewBox="0 0 200 32" preserveAspectRatio="none" role="img" aria-label="{}">'
        '{}<path d="{}"/></svg>',
        says,
        line,
        path,
    )
