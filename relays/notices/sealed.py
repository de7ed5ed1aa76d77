"""Addresses as the database keeps them: an address of Apprise often holds a password, so none lies there in clear.

Sealed with Fernet under a key that is derived from SECRET_KEY: a copy of the database alone opens none, and another
SECRET_KEY opens none any more.
"""

import base64
import hmac
from typing import Final

from django.conf import settings

MARK: Final = "sealed:1:"


def seal(url: str) -> str:
    from cryptography.fernet import Fernet  # not a module of every process: few write or read an address

    return MARK + Fernet(_key()).encrypt(url.encode()).decode()


def opened(kept: str) -> str | None:
    """The address; None where it was sealed under another SECRET_KEY, or was changed since."""
    from cryptography.fernet import Fernet, InvalidToken

    try:
        return Fernet(_key()).decrypt(kept.removeprefix(MARK).encode()).decode()
    except (InvalidToken, ValueError):
        return None


def _key() -> bytes:
    derived = hmac.new(settings.SECRET_KEY.encode(), b"relaysite.channel.address", "sha256").digest()
    return base64.urlsafe_b64encode(derived)
