"""Addresses that notices go to: which kinds there are, and what of one a page may show.

An address that a person types is a door into the net: only schemes of this list are taken, and whoever opens a
connection to one judges the resolved network address again (`relays.notices.guard`).
"""

import hashlib
import hmac
import ipaddress
import re
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import unquote_plus, urlsplit

from relays.core.sentences import RuleError, phrase

LONGEST: Final = 2000
WEBHOOK: Final = frozenset({"https", "http"})
#: services of Apprise. Those that run a program of the host, write to its files or post to any address are left out
APPRISE: Final = frozenset(
    "bark barks betterstack dingtalk discord feishu gchat googlechat gotify gotifys ilert incidentio lark mailgun "
    "mailto mailtos matrix matrixs mmost mmosts nctalk nctalks ntfy ntfys o365 opsgenie pagerduty pagertree pbul pover "
    "prowl pushdeer rocket rockets sendgrid signal signals signl4 slack smtp2go spike splunk squadcast tgram threema "
    "twilio victorops webex wecombot workflow workflows wxteams zoom zulip".split()
)
#: options of Apprise that would weaken what the guard promises, or that name a file of this host to read or keep
_REFUSED_OPTIONS: Final = frozenset(("redirect", "verify", "attach", "template", "pgp", "pgppub", "pgpprv", "wkd"))
#: where IPv6 addresses of the public are; an IPv4 address that is written as one of another range is none of them
_PUBLIC_6: Final = ipaddress.ip_network("2000::/3")
_PRIVATE_6: Final = ipaddress.ip_network("fc00::/7")


class AddressError(RuleError):
    """One line that says what is wrong with an address; it holds nothing of a secret."""


@dataclass(frozen=True, slots=True)
class Address:
    """`shown`: what of it may be read by anybody, its scheme and host."""

    kind: Literal["webhook", "apprise"]
    scheme: str
    host: str
    shown: str


def parse(url: str) -> Address:
    """Judge an address. Raises AddressError."""
    if not url or len(url) > LONGEST or not url.isascii() or not url.isprintable() or " " in url:
        raise AddressError(
            phrase(
                "an address is one line of 1 to %(longest)s printable ASCII characters without blanks", longest=LONGEST
            )
        )
    scheme, sign, _rest = url.partition("://")
    scheme = scheme.lower()
    if not sign or (scheme not in WEBHOOK and scheme not in APPRISE):
        raise AddressError(
            phrase(
                "scheme %(scheme)s is not allowed: take https, or one of %(apprise)s",
                scheme=repr(scheme[:20]),
                apprise=", ".join(sorted(APPRISE)),
            )
        )
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
        port = parts.port
    except ValueError as error:
        if scheme in APPRISE:  # tokens of a service need not look like a host
            return Address("apprise", scheme, "", f"{scheme}://…")
        raise AddressError(phrase("its host or port cannot be read: write https://host/path")) from error
    if scheme in APPRISE:
        if refused := sorted(_options(url) & _REFUSED_OPTIONS):
            raise AddressError(phrase("the option %(refused)s is not allowed", refused=refused[0]))
        return Address("apprise", scheme, host, f"{scheme}://…")
    if not host or parts.username or parts.password or parts.fragment:
        raise AddressError(phrase("a webhook is https://host[:port]/path, without a name, a password or a #"))
    return Address("webhook", scheme, host, f"{scheme}://{host}{f':{port}' if port else ''}/…"[:200])


def _options(url: str) -> set[str]:
    """The names of an address's options as Apprise reads them, of each `?` that it may take for the first."""
    pairs = re.split(r"[?&;]", url)[1:]
    return {unquote_plus(pair.partition("=")[0]).strip().lower() for pair in pairs}


def digest(site_key: str, url: str) -> str:
    """By what an address is known again; without the site's key nobody can try addresses against it."""
    text = f"relaysite.channel:{url}".encode("utf-8", "surrogatepass")
    return hmac.new(site_key.encode(), text, hashlib.sha256).hexdigest()


def allowed_address(text: str, private: bool) -> bool:
    """Whether a connection may go to a resolved network address.

    Public ones may; those of this host and of private networks only where the site allows them; link-local (the
    address of cloud metadata is one), multicast, unspecified and reserved ones never.
    """
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo[1] if found.teredo else None)
        if inner is None and found in ipaddress.ip_network("64:ff9b::/96"):
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            return allowed_address(str(inner), private)
        if found not in _PUBLIC_6 and not found.is_loopback and found not in _PRIVATE_6:
            return False
    if found.is_link_local or found.is_multicast or found.is_unspecified or (found.version == 4 and found.is_reserved):
        return False
    if found.is_loopback or found.is_private:
        return private
    return found.is_global


def secret_of(site_key: str, salt: str) -> str:
    """A webhook's secret: derived, so that no table holds it."""
    return hmac.new(site_key.encode(), f"relaysite.webhook:{salt}".encode(), hashlib.sha256).hexdigest()


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """`v1=` and the HMAC-SHA256 of `<timestamp>.<body>`: what the header `Relaysite-Signature` holds."""
    signed = f"{timestamp}.".encode() + body
    return f"v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"
