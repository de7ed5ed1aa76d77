"""Pages as a person reads them: the white space between the lines of a template is no text of its page."""

import re
from html import unescape

from django.http import HttpResponse

#: stand in a line of text and begin none
INLINE = set(
    "a abbr b bdi bdo cite code data del dfn em i ins kbd label mark output q s samp small span strong sub sup time"
    " tspan u var wbr".split()
)
#: stand in a line as one thing, with an inside of their own
ATOMIC = set("button canvas img input meter progress select svg textarea".split())
#: what is in them is kept as it was sent
AS_SENT = set("pre script style textarea".split())
#: so it is in elements that the style sheet gives `white-space: pre-wrap`: of these classes, and the lines of a log
WRAPPED = r"(?:class=\"(?:[^\"]*\s)?(?:pre|cmd|chip)(?:\s[^\"]*)?\"|data-at=)"
#: nobody reads what is in them
UNREAD = set("script style template".split())

_BLANKS = re.compile(r"[ \t\r\n\f]+")  # a no-break space is text
_INSIDE = r"(?:\"[^\"]*\"|'[^']*'|[^'\">])*"
_TOKEN = re.compile(
    rf"<!--.*?-->|<![^>]*>|<(?P<kept>{'|'.join(AS_SENT)})\b{_INSIDE}>.*?</(?P=kept)>"
    rf"|<(?P<wrapped>p|code|button)\s(?:{_INSIDE}\s)?{WRAPPED}{_INSIDE}>.*?</(?P=wrapped)>|</?[a-z]{_INSIDE}>",
    re.DOTALL | re.IGNORECASE,
)
_TAG = re.compile(rf"<(?P<ends>/?)(?P<name>[a-z][\w-]*){_INSIDE}>", re.DOTALL | re.IGNORECASE)
_BETWEEN_ATTRIBUTES = re.compile(r"(\"[^\"]*\"|'[^']*')|[ \t\r\n\f]+(/?>$)?")


def marked(page: HttpResponse | str) -> str:
    """The HTML of a page with the white space that a browser leaves of it.

    Blanks of a text are one, and none is where a line of the page begins or ends: beside a block, also behind or
    before tags of inline elements, and inside a button. Attributes stand one blank apart; their values, and what is
    in `pre`, `textarea`, `script`, `style` and whatever else shows its lines, are kept as they were sent.
    """
    return "".join(text for _kind, text in _Layout(page).parts)


def seen(page: HttpResponse | str) -> str:
    """The text that a page shows, without tags: a line for each block that has any, fields and buttons a blank apart.

    What is hidden until somebody opens it is there too; what stands in attributes, scripts and styles is not.
    """
    shown = ""
    for kind, text in _Layout(page).parts:
        if kind == "text":
            shown += unescape(text)
        elif kind == "kept":
            shown += unescape(_TAG.sub("", text))
        elif kind == "block":
            shown += "\n"
        elif kind == "atom" and shown[-1:] not in {" ", "\n"}:
            shown += " "
    lines = (_BLANKS.sub(" ", line).strip(" ") for line in shown.split("\n"))
    return "\n".join(line for line in lines if line)


class _Layout:
    """The parts of a page in order, each with its kind.

    "text"; "kept" is text, with its markup, as it was sent; "unread"; and the tag of a "block", an "atom" or "inline".
    """

    def __init__(self, page: HttpResponse | str) -> None:
        self.parts: list[tuple[str, str]] = []
        self.fresh = True  # a blank here begins a line, or follows another blank
        self.loose = -1  # place of the blank that goes if the line ends here
        html = page if isinstance(page, str) else page.content.decode()
        read = 0
        for token in _TOKEN.finditer(html):
            self._text(html[read : token.start()])
            read = token.end()
            self._markup(token[0])
        self._text(html[read:])
        self._line_ends()

    def _text(self, text: str) -> None:
        text = _BLANKS.sub(" ", text)
        text = text.removeprefix(" ") if self.fresh else text
        if body := text.removesuffix(" "):
            self.parts.append(("text", body))
            self.loose = -1
        if text:
            self.fresh = text.endswith(" ")
        if text.endswith(" "):
            self.loose = len(self.parts)
            self.parts.append(("text", " "))

    def _markup(self, token: str) -> None:
        tag = _TAG.match(token)
        name = tag["name"].lower() if tag else ""
        if not tag or name in UNREAD:
            self.parts.append(("unread", token))
            return
        shown = _BETWEEN_ATTRIBUTES.sub(lambda found: found[1] or found[2] or " ", tag[0])
        rest = token[tag.end() :]  # of what is kept, to its end
        kind = "inline" if name in INLINE else "atom" if name in ATOMIC else "block"
        if kind == "block" or (kind == "atom" and tag["ends"]):
            self._line_ends()
        self.parts.append((kind, shown))
        if rest:
            ends = rest.rindex("</")
            self.parts += [("kept", rest[:ends]), (kind, rest[ends:])]
        if kind != "inline" or rest:
            self.loose = -1
            opens = kind == "atom" and not (rest or tag["ends"] or name in {"input", "img"})
            self.fresh = kind == "block" or opens

    def _line_ends(self) -> None:
        if self.loose >= 0:
            self.parts[self.loose] = ("text", "")
            self.loose = -1
