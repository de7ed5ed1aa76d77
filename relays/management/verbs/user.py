"""`user add NAME --role R [--link]`: makes a user with a role, and a one-time sign-in link."""

import argparse
import os
from pathlib import Path

from django.conf import settings

from relays.access import make_sign_in_link
from relays.actions import people
from relays.management.cli import Exit, emit
from relays.reports.roles import ROLES, roles_of

LINK_MINUTES = 60


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("act", choices=["add"], metavar="add")
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--role", required=True, metavar="R", help=" or ".join(ROLES))
    parser.add_argument("--link", action="store_true", help="print a sign-in link")


def _address() -> str:
    """Where the house is: what PUBLIC_URL says, else where `serve` last was, whatever its port."""
    if os.environ.get("PUBLIC_URL"):
        return str(settings.PUBLIC_URL)
    try:
        served = (Path(settings.RELAY_VAR) / "serve.lock").read_text(encoding="utf-8").partition(",")[0]
    except (OSError, UnicodeDecodeError):
        served = ""
    return served if served.startswith("http") else str(settings.PUBLIC_URL)


def run(options: argparse.Namespace) -> int:
    user = people.add(options.name, options.role)
    data: dict[str, object] = {"user": user.get_username(), "roles": list(roles_of(user))}
    words = f"{user.get_username()}: {', '.join(roles_of(user))}"
    if options.link:
        data["link"] = _address() + make_sign_in_link(user, LINK_MINUTES)
        words += f"\n{data['link']}\n(once, within {LINK_MINUTES} minutes)"
    emit(data, options.json, words)
    return Exit.FINE
