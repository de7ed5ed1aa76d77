"""Sending one notice to one channel: a signed POST, or a service of Apprise. It answers with what came back."""

import contextlib
import http.client
import json
import re
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.utils.translation import gettext as _

from relays.core import notify
from relays.models import Channel, Delivery, Notice
from relays.notices import words
from relays.notices.guard import NotAllowed, outward
from relays.reports.sentences import refused, told

CONNECT: Final = 5.0  # seconds for a connection, and between two bytes of an answer
WHOLE: Final = 12.0  # seconds for all of it
ANSWER: Final = 300  # characters of an answer that are kept
_DRAWN: Final = 2000  # bytes of an answer that are read


@dataclass(frozen=True, slots=True)
class Answer:
    """`text`: what the receiver said, one line. `final`: trying again would be the same."""

    sent: bool
    text: str
    final: bool = False


def address_of(channel: Channel) -> str | None:
    """The channel's address; of the site's own the one in NOTIFY_URLS, None where it stands there no more."""
    if not channel.site:
        return channel.url
    return next((url for url in settings.NOTIFY_URLS if notify.digest(f"site {url}") == channel.key), None)


def send(delivery: Delivery, notice: Notice, channel: Channel) -> Answer:
    """Send it now, within WHOLE seconds. Never raises for what a receiver, a name or a network does."""
    url = address_of(channel)
    if url is None:
        return Answer(False, _("it stands in NOTIFY_URLS no more"), final=True)
    try:
        found = notify.parse(url)
    except notify.AddressError as error:
        return Answer(False, refused(error), final=True)
    try:
        with outward(private=settings.NOTIFY_PRIVATE):
            if found.kind == "webhook":
                answer = _webhook(url, channel, notice, delivery.pk)
            else:
                answer = _apprise(url, notice)
    except NotAllowed as error:
        return Answer(False, told(error.said), final=True)
    except TimeoutError:
        return Answer(False, _("no answer within %(n)d s") % {"n": WHOLE})
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Answer(False, _line(f"{type(error).__name__}: {error}", url))
    return Answer(answer.sent, _line(answer.text, url), answer.final)


def _webhook(url: str, channel: Channel, notice: Notice, number: int) -> Answer:
    body = json.dumps(words.payload(notice, number), ensure_ascii=False, separators=(",", ":"), default=str).encode()
    stamp = int(time.time())
    secret = notify.secret_of(settings.SECRET_KEY, channel.salt)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Relaysite",
        "Relaysite-Event": notice.event,
        "Relaysite-Delivery": str(number),
        "Relaysite-Timestamp": str(stamp),
        "Relaysite-Signature": notify.signature(secret, stamp, body),
    }
    parts = urlsplit(url)
    host = parts.hostname or ""
    link: http.client.HTTPConnection
    if parts.scheme == "https":
        link = http.client.HTTPSConnection(host, parts.port, timeout=CONNECT, context=ssl.create_default_context())
    else:
        link = http.client.HTTPConnection(host, parts.port, timeout=CONNECT)
    late, opened = threading.Event(), list[socket.socket]()

    def end() -> None:
        # an answer that comes one byte at a time would keep a worker for ever; to close it would not end who reads it
        late.set()
        for one in opened:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(one, socket.SHUT_RDWR)

    timer = threading.Timer(WHOLE, end)
    timer.daemon = True
    timer.start()
    try:
        link.connect()
        opened.append(link.sock)
        if not late.is_set():
            link.request("POST", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), body, headers)
            response = link.getresponse()
            said = response.read(_DRAWN).decode("utf-8", "replace")
    except (OSError, ValueError, AttributeError, http.client.HTTPException) as error:
        if late.is_set():
            raise TimeoutError from error
        raise
    finally:
        timer.cancel()
        link.close()
    if late.is_set():
        raise TimeoutError
    text = f"HTTP {response.status} {response.reason}".strip() + (f": {said}" if said.strip() else "")
    if 200 <= response.status < 300:
        return Answer(True, text)
    if 300 <= response.status < 400:
        return Answer(False, _("%(answer)s (redirects are not followed: name the address that it leads to)") % {
            "answer": f"HTTP {response.status}"
        })  # fmt: skip
    return Answer(False, text, final=response.status == http.client.GONE)


def _apprise(url: str, notice: Notice) -> Answer:
    try:
        import apprise  # half a second: only who sends one pays for it
    except ImportError:
        return Answer(False, _("Apprise is not installed: install requirements.txt"), final=True)
    said_of = words.of(notice)
    asset = apprise.AppriseAsset(
        app_id="Relaysite", app_desc="Relaysite", app_url=settings.PUBLIC_URL, http_redirects=False, async_mode=False
    )
    one = apprise.Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
    if one is None:
        return Answer(False, _("Apprise does not understand this address: look at its page of that service"), True)
    one.redirects = False
    one.socket_connect_timeout, one.socket_read_timeout = CONNECT, WHOLE - CONNECT
    kind = apprise.NotifyType.WARNING if said_of.urgent else apprise.NotifyType.INFO
    with apprise.LogCapture(level=apprise.logging.INFO) as log:  # type: ignore[no-untyped-call]
        sent = one.notify(body=said_of.text, title=said_of.title, notify_type=kind)
        said = " ".join(log.getvalue().split())
    if sent:
        return Answer(True, said or _("sent"))
    return Answer(False, said or _("the service refused it and did not say why"))


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
