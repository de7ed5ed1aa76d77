"""Addresses that notices go to: the allow-list, what a page may show of one, where a connection may go."""

import hashlib
import hmac

import pytest

from relays.core import notify


@pytest.mark.parametrize(
    ("url", "kind", "shown"),
    [
        ("https://hooks.example.org/a/b?c=d", "webhook", "https://hooks.example.org/…"),
        ("http://hooks.example.org:8080", "webhook", "http://hooks.example.org:8080/…"),
        ("slack://TokenA/TokenB/TokenC/#team", "apprise", "slack://…"),
        ("mailtos://user:pass@example.org?to=ops@example.org", "apprise", "mailtos://…"),
    ],
)
def test_an_address_is_a_webhook_or_a_service_and_shows_no_secret(url: str, kind: str, shown: str) -> None:
    found = notify.parse(url)
    assert (found.kind, found.shown) == (kind, shown)


@pytest.mark.parametrize(
    "url",
    [
        *["", "x", "https://", "https://user:pw@host/", "https://host/#part", "https://[::1", "https://host:99999/"],
        *["file:///etc/passwd", "gopher://host", "json://host/", "xml://host", "form://h", "syslog://", "dbus://"],
        *["https://host/\nX: y", "https://host/ a", "https://h\N{LATIN SMALL LETTER O WITH DIAERESIS}st/"],
        *["slack://A/B/C?redirect=yes", "gotify://h/t?verify=no", "https://host/" + "a" * 2000],
        *["ntfys://h/t?verif%79=no", "ntfys://h/t?a=b&VERIFY=no", "mailtos://u:p@h?x=1&pgppub=/etc/passwd"],
        *["workflows://h/w/s/?template=/etc/passwd", "ntfys://h/t?attac%68=/etc/passwd", "mailtos://u@h?%70gp=sign"],
    ],
)
def test_whatever_else_is_refused_and_the_refusal_tells_no_secret(url: str) -> None:
    with pytest.raises(notify.AddressError) as refusal:
        notify.parse(url)
    assert "pw" not in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"])
def test_a_public_address_is_allowed(text: str) -> None:
    assert notify.allowed_address(text, False)


@pytest.mark.parametrize(
    "text",
    [
        *["127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "::1", "fd00::1", "100.64.0.1"],
        *["::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"],
    ],
)
def test_an_address_of_this_host_or_a_private_network_needs_the_setting(text: str) -> None:
    assert not notify.allowed_address(text, False)


@pytest.mark.parametrize("text", ["127.0.0.1", "10.1.2.3", "::1", "fd00::1", "::ffff:10.0.0.1"])
def test_the_setting_allows_private_networks(text: str) -> None:
    assert notify.allowed_address(text, True)


@pytest.mark.parametrize(
    "text",
    ["169.254.169.254", "fe80::1%eth0", "224.0.0.1", "0.0.0.0", "::", "255.255.255.255", "240.0.0.1", "name", ""],  # noqa: S104
)
def test_link_local_multicast_and_what_is_no_address_are_never_allowed(text: str) -> None:
    assert not notify.allowed_address(text, True)


@pytest.mark.parametrize(
    "text",
    [
        *["64:ff9b:1::7f00:1", "64:ff9b:1::a9fe:a9fe", "::ffff:0:127.0.0.1", "::ffff:0:169.254.169.254"],
        *["::127.0.0.1", "::169.254.169.254", "fec0::1", "100::1", "4000::1"],
    ],
)
def test_an_address_in_another_dress_is_never_taken_for_a_public_one(text: str) -> None:
    assert not notify.allowed_address(text, False) and not notify.allowed_address(text, True)


def test_the_signature_is_an_hmac_over_the_timestamp_and_the_body() -> None:
    secret = notify.secret_of("k" * 40, "salt")
    assert secret != notify.secret_of("k" * 40, "other") and len(secret) == 64
    wanted = hmac.new(secret.encode(), b'1700000000.{"a":1}', hashlib.sha256).hexdigest()
    assert notify.signature(secret, 1_700_000_000, b'{"a":1}') == f"v1={wanted}"
