"""Sending one notice to one channel: a signed POST, or a service of Apprise. It answers with what came back."""

import contextlib
import http.client
import json
import logging
import re
import ssl
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.utils.translation import override

from relays.core import notify
from relays.core.lines import recorded
from relays.models import Channel, Delivery, Notice
from relays.notices import sealed, words
from relays.notices.guard import NotAllowed, outward

log = logging.getLogger(__name__)

CONNECT: Final = 5.0  # seconds for a connection, and between two bytes of an answer
WHOLE: Final = 12.0  # seconds for all of it
GRACE: Final = 0.5  # seconds that a thread whose connections were ended has to say so
ANSWER: Final = 300  # characters of an answer that are kept
_DRAWN: Final = 2000  # bytes of an answer that are read


@dataclass(frozen=True, slots=True)
class Answer:
    """`text`: what the receiver said, one line. `final`: trying again would be the same. `waited`: seconds."""

    sent: bool
    text: str
    final: bool = False
    waited: float = 0.0


def address_of(channel: Channel) -> str | None:
    """The channel's address; None where it cannot be known: the site's own is in NOTIFY_URLS no more, or what is
    stored was sealed under another SECRET_KEY."""
    if not channel.site:
        return sealed.opened(channel.url)
    named = (url for url in settings.NOTIFY_URLS if notify.digest(settings.SECRET_KEY, f"site {url}") == channel.key)
    return next(named, None)


def send(delivery: Delivery, notice: Notice, channel: Channel) -> Answer:
    """Send it now, within WHOLE seconds. Never raises for what a receiver, a name or a network does.

    A person reads it in their language, a program in English.
    """
    tell = partial(words.in_language_of, delivery.readers, lambda: words.of(notice))
    return _bounded(channel, lambda url: _webhook(url, channel, notice, delivery.pk), tell)


def send_together(readers: Sequence[str], notices: Sequence[Notice], channel: Channel) -> Answer:
    """One message of a service that people read, for many notices; otherwise as `send`."""
    return _bounded(channel, None, partial(words.in_language_of, readers, lambda: words.together(notices)))


def _bounded(
    channel: Channel, webhook: Callable[[str], Callable[[], Answer]] | None, tell: Callable[[], words.Words]
) -> Answer:
    """Send in a thread that is not waited for any longer than WHOLE: neither a name server that is silent, nor pauses
    that a service's client makes keep a worker. Its connections end then, so that it ends soon, too."""
    url = address_of(channel)
    if url is None:
        if channel.site:
            return Answer(False, recorded("it stands in NOTIFY_URLS no more"), final=True)
        return Answer(
            False,
            recorded("its address was stored under another SECRET_KEY: an admin removes it and adds it again"),
            final=True,
        )
    try:
        found = notify.parse(url)
    except notify.AddressError as error:
        return Answer(False, str(error), final=True)
    try:
        # what is said is read here: a thread has no connection to the database
        act = webhook(url) if webhook and found.kind == "webhook" else partial(_apprise, url, tell())
    except Exception as error:  # noqa: BLE001 - one that cannot be told keeps no other from its turn
        return _broken(error)
    answers: list[Answer] = []
    begun = time.monotonic()

    def run() -> None:
        answers.append(_guarded(act, url))

    thread = threading.Thread(target=run, name="notice", daemon=True)
    thread.start()
    thread.join(WHOLE + GRACE)
    answer = answers[0] if answers else Answer(False, recorded("no answer within %(n)d s", n=WHOLE))
    return replace(answer, waited=time.monotonic() - begun)


def _guarded(act: Callable[[], Answer], url: str) -> Answer:
    late = Answer(False, recorded("no answer within %(n)d s", n=WHOLE))
    try:
        with outward(private=settings.NOTIFY_PRIVATE, seconds=WHOLE) as leash:
            try:
                answer = act()
            except NotAllowed:
                raise
            except Exception:
                if leash.late.is_set():
                    return late
                raise
            if leash.late.is_set():  # what was read of an answer may be its beginning only
                return late
    except NotAllowed as error:
        return Answer(False, str(error), final=True)
    except TimeoutError:
        return late
    except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
        return Answer(False, _line(f"{type(error).__name__}: {error}", url))
    except Exception as error:  # noqa: BLE001 - whatever a service's client does; its words may hold the address
        return _broken(error)
    return replace(answer, text=_line(answer.text, url))


def _broken(error: Exception) -> Answer:
    """Logged without its words, which may hold an address."""
    where = "".join(traceback.format_tb(error.__traceback__))
    log.error("a notice could not be sent: %s, at\n%s", type(error).__name__, where)
    return Answer(False, recorded("%(error)s: it could not be sent; see the worker's log", error=type(error).__name__))


class _Said(logging.Handler):
    """What a service's client says in this thread; another's may be at it beside."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.thread, self.lines = threading.get_ident(), list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self.thread:
            self.lines.append(record.getMessage())


def _webhook(url: str, channel: Channel, notice: Notice, number: int) -> Callable[[], Answer]:
    with override(settings.LANGUAGE_CODE):
        said = words.payload(notice, number)
    body = json.dumps(said, ensure_ascii=False, separators=(",", ":"), default=str).encode()
    secret = notify.secret_of(settings.SECRET_KEY, channel.salt)
    event = str(notice.event)

    def act() -> Answer:
        stamp = int(time.time())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Relaysite",
            "Relaysite-Event": event,
            "Relaysite-Delivery": str(number),
            "Relaysite-Timestamp": str(stamp),
            "Relaysite-Signature": notify.signature(secret, stamp, body),
        }
        return _post(url, body, headers)

    return act


def _post(url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
    parts = urlsplit(url)
    host = parts.hostname or ""
    link: http.client.HTTPConnection
    if parts.scheme == "https":
        link = http.client.HTTPSConnection(host, parts.port, timeout=CONNECT, context=ssl.create_default_context())
    else:
        link = http.client.HTTPConnection(host, parts.port, timeout=CONNECT)
    with contextlib.closing(link):
        link.request("POST", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), body, dict(headers))
        response = link.getresponse()
        said = response.read(_DRAWN).decode("utf-8", "replace")
    text = f"HTTP {response.status} {response.reason}".strip() + (f": {said}" if said.strip() else "")
    if 200 <= response.status < 300:
        return Answer(True, text)
    if 300 <= response.status < 400:
        return Answer(False, recorded(
            "%(answer)s (redirects are not followed: name the address that it leads to)",
            answer=f"HTTP {response.status}",
        ))  # fmt: skip
    return Answer(False, text, final=response.status == http.client.GONE)


def _apprise(url: str, message: words.Words) -> Answer:
    try:
        import apprise  # half a second: only who sends one pays for it
        from apprise.conversion.format import convert_between
    except ImportError:
        return Answer(False, recorded("Apprise is not installed: install requirements.txt"), final=True)
    asset = apprise.AppriseAsset(
        app_id="Relaysite", app_desc="Relaysite", app_url=settings.PUBLIC_URL, http_redirects=False, async_mode=False
    )
    one = apprise.Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
    if one is None:
        return Answer(
            False, recorded("Apprise does not understand this address: look at its page of that service"), True
        )
    one.redirects = False
    one.socket_connect_timeout, one.socket_read_timeout = CONNECT, CONNECT
    kind = apprise.NotifyType.WARNING if message.urgent else apprise.NotifyType.INFO
    # what is said is plain text: a service that reads markup gets it escaped, so that no objective makes a link, breaks
    # the message or calls a room. Not by Apprise's own notify, which hands the work to a pool of threads
    form = one.resolve_format(apprise.NotifyFormat.TEXT)
    escaped: Callable[[str], str] = partial(convert_between, apprise.NotifyFormat.TEXT, form)
    body, title = escaped(message.plain), escaped(message.title) if one.title_maxlen <= 0 else message.title
    heard, client = _Said(), logging.getLogger("apprise")
    client.addHandler(heard)
    try:
        sent = one.notify(body=body, title=title, notify_type=kind, body_format=form)
    finally:
        client.removeHandler(heard)
    said = " ".join(" ".join(heard.lines).split())
    if sent:
        return Answer(True, said or recorded("sent"))
    return Answer(False, said or recorded("the service refused it and did not say why"))


def _line(text: str, url: str) -> str:
    """One printable line without what is secret in the address."""
    parts = urlsplit(url) if "[" not in url else None
    pieces = re.split(r"[/?&=:@]", url.partition("://")[2])
    host = (parts.hostname or "") if parts else ""
    for piece in sorted({url, *pieces, *map(unquote, pieces)}, key=len, reverse=True):
        if len(piece) > 5 and piece.lower() != host:
            text = text.replace(piece, "…")
    line = " ".join(text.split())
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in line)[:ANSWER]
