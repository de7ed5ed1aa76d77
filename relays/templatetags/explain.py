"""A figure that explains itself: its name as a link to its line in the docs, its sentence on hover and focus.

Without JavaScript the sentence is the link's title and the link leads to the docs; `tips.js` shows it on focus too.
"""

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from relays.reports.explained import explained

register = template.Library()


@register.simple_tag
def explain(key: str, words: str = "") -> SafeString:
    """The figure's name, or `words` where the page calls it otherwise. KeyError for one that nobody explained."""
    one = explained(key)
    return format_html(
        '<a class="ex" href="{}#{}" title="{}">{}</a>',
        reverse("doc", args=["figures"]),
        one.slug,
        one.sentence,
        words or one.name,
    )
