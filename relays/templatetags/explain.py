"""A figure that explains itself: its name as a link to its line in the docs, its sentence on hover and focus.

Without JavaScript the sentence is the link's title and the link leads to the docs; `tips.js` shows it on focus too, and
with the first tap of a finger. On a phone a row of a table is a card whose labels take the place of the heads: a label
leads to the same line as its head, which says the sentence for all of them (`label`).
"""

from functools import lru_cache

from django import template
from django.template.context import Context
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from relays.reports.explained import FIGURES, POLICY, explained
from relays.reports.explained_records import HEADS

register = template.Library()


@register.simple_tag
def explain(key: str, words: str = "", quiet: bool = False) -> SafeString:
    """The figure's name, or `words` where the page calls it otherwise. KeyError for one that nobody explained.

    `quiet`: without its dotted line until it is pointed at, where many stand close together.
    """
    one = explained(key)
    return format_html(
        '<a class="ex{}" href="{}#{}" title="{}">{}</a>',
        " ex-quiet" if quiet else "",
        reverse("doc", args=["figures"]),
        one.slug,
        one.sentence,
        words or one.name,
    )


@register.simple_tag
def explain_if(name: str) -> str:
    """A head that a report names, with its figure; a plain word as `at` stands as it is."""
    return explain(HEADS[name] or name, _(name)) if name in HEADS else _(name)


@register.simple_tag(takes_context=True)
def label(context: Context, key: str, words: str, more: str = "", row: int | None = None) -> SafeString:
    """A cell's label where its table is a card for each row; elsewhere its head says it and the label is not there.

    The first card's labels are stops of the keyboard, those after it say the same and are none. `more` follows the
    words. `row` counts from 0, where the loop is not the one over the rows. KeyError for what nobody explained.
    """
    first = not (context["forloop"]["counter0"] if row is None and "forloop" in context else row)
    return _label(get_language() or "", key, f"{words} {more}" if more else words, first)


@register.simple_tag(takes_context=True)
def label_if(context: Context, name: str, row: int) -> SafeString:
    """The label of a cell that a report names; a plain word as `at` stands as it is."""
    if name in HEADS:
        return label(context, HEADS[name] or name, _(name), row=row)
    return format_html('<span class="k" data-l="{}"></span>', _(name))


@lru_cache(maxsize=2048)
def _label(language: str, key: str, words: str, first: bool) -> SafeString:
    """Kept, since a table has it in each row. Its words are drawn from the attribute and are no text of the cell."""
    if key not in FIGURES:
        raise KeyError(key)
    return format_html(
        '<a class="k" href="{}#{}" aria-label="{}"{}></a>',
        reverse("doc", args=["figures"]),
        key.replace("_", "-"),
        words,
        "" if first else mark_safe(' tabindex="-1"'),
    )


@register.simple_tag
def sentence(key: str) -> SafeString:
    """The title of a link that leads elsewhere, as a head that sorts: the figure's sentence on hover and focus."""
    return format_html(' title="{}"', explained(key).sentence)


@register.simple_tag
def explain_mark(key: str, words: str) -> SafeString:
    """The way to the docs beside such a link: a small `?` that is seen where one points, moves the focus or touches."""
    one = explained(key)
    return format_html(
        ' <a class="ex ex-mark" href="{}#{}" title="{}" aria-label="{}">?</a>',
        reverse("doc", args=["figures"]),
        one.slug,
        one.sentence,
        _("What “%(name)s” means") % {"name": words},
    )


@register.simple_tag
def policy_key(key: str) -> SafeString:
    """A key of a policy, linked to its line in the docs; a key that is none (in an old policy) is plain text."""
    if key not in POLICY:
        return format_html('<span class="mono">{}</span>', key)
    return format_html(
        '<a class="ex ex-quiet mono" href="{}#{}" title="{}">{}</a>',
        reverse("doc", args=["policy"]),
        key,
        _(POLICY[key]),
        key,
    )
