"""A figure that explains itself: its name as a link to its line in the docs, its sentence on hover and focus.

Without JavaScript the sentence is the link's title and the link leads to the docs; `tips.js` shows it on focus too.
"""

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from relays.reports.explained import POLICY, explained
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
