"""The tour: on an empty database a real relay of the scripted worker drains a small backlog in a real repository."""

import json
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import Group, User

from relays.models import Relay
from relays.stores import gitrun

USER = "tour"
BACKLOG = (
    "Document the setting that names the database",
    "Give the import a progress line",
    "Say which file a parse error is in",
    "Round money once, at the end",
    "Retry the upload when the network drops",
    "Show times in the viewer's zone",
    "Refuse an empty name with a clear message",
    "Sort the list by the newest change",
    "Keep the scroll position after a refresh",
    "Cut a long title at a word",
    "Add a check for the clock of the host",
    "Name the owner on every report",
    "Make the export safe for spreadsheets",
    "Count a replayed event once",
    "Close the file when reading fails",
    "Explain why a button is disabled",
)


def repository() -> Path:
    """Make a fresh repository with the backlog as its issue file; never touches one that exists."""
    base = Path(settings.RELAY_VAR) / "tour"
    number = 1
    while (folder := base / f"backlog-{number}").exists():
        number += 1
    folder.mkdir(parents=True)
    (folder / ".relay").mkdir()
    rows = [{"number": n, "title": title, "state": "open"} for n, title in enumerate(BACKLOG, start=1)]
    (folder / ".relay" / "issues.jsonl").write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
    (folder / "README.md").write_text(
        "# Backlog of the tour\n\nA relay of the scripted worker closes the issues in `.relay/issues.jsonl`.\n",
        encoding="utf-8",
    )
    author = ["-c", "user.name=Relaysite tour", "-c", "user.email=tour@relaysite.invalid", "-c", "commit.gpgsign=false"]
    gitrun.run(["init", "--quiet", "--initial-branch=main"], cwd=folder)
    gitrun.run(["add", "--all"], cwd=folder)
    gitrun.run([*author, "commit", "--quiet", "-m", "Backlog of the tour"], cwd=folder)
    return folder


def user() -> User:
    """The owner of the tour: an operator who can never sign in."""
    found, made = User.objects.get_or_create(username=USER)
    if made:
        found.set_unusable_password()
        found.save(update_fields=["password"])
        found.groups.add(Group.objects.get_or_create(name="operator")[0])
    return found


def wanted() -> bool:
    """Only an empty database gets the tour; a second start never begins it anew."""
    return not Relay.objects.exists()
