#!/usr/bin/env python
"""The command line of the project; `python manage.py relay --help` lists the verbs of the product."""

import os
import sys


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "relaysite.settings")
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.core.management import execute_from_command_line
    except ModuleNotFoundError:
        sys.stderr.write(f"Django is not installed for {sys.executable}: run `make run` once, then .venv/bin/python\n")
        return 2

    if sys.argv[1:2] == ["relay"] and sys.argv[2:3] in (["mcp"], ["agent"]):
        # an agent inside its leg: the site's settings are not read there, and nothing is written
        from relays.management.commands.relay import run

        return run(sys.argv[2:])
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        # a malformed setting is bad input: one line, never a traceback
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
