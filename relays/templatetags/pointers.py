"""Pointers into durable stores as people read them: the kind, and what it names; a SHA is short and copies whole."""

import re

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from relays.templatetags.words import sha

register = template.Library()

_SHA = re.compile(r"([a-z][a-z-]{0,19}):([0-9a-f]{40}|[0-9a-f]{64})")


@register.simple_tag
def pointer(value: object) -> SafeString:
    """`commit:6f01d56c…` -> commit, and the SHA that one press copies; every other pointer, or text, as it stands."""
    text = str(value)
    found = _SHA.fullmatch(text)
    if found:
        return format_html('<span class="mono">{}</span> {}', found.group(1), sha(found.group(2)))
    return format_html('<span class="mono">{}</span>', text)
