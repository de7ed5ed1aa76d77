"""Django's `makemessages` for this house: what is a text here, what is not, and the closed tables of the rules.

The rules are pure and know no gettext, so their texts (meanings, fixes, labels) are read from their tables and written
into one file that is collected like any other and then removed.
"""

import ast
import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.core.management.commands import makemessages

from relays.core.advisory import Outcome as AdvisoryOutcome
from relays.core.assumptions import Action, Source
from relays.core.baselines import POLICIES
from relays.core.boundary import Step
from relays.core.donewhen import Truth
from relays.core.faithful import LABELS as FAITHFUL
from relays.core.objective import Reconciliation
from relays.core.pointers import Kind, Verdict
from relays.core.policytable import GROUPS
from relays.core.promotion import Outcome as PromotionOutcome
from relays.core.residency import FaultOutcome
from relays.core.shadow import Provenance
from relays.core.vocabulary import TOKENS, Category, Cause, Mode
from relays.core.words import GROUPS as WORDS
from relays.models import GateState, Import, LegState, Maintenance, MemoryOperation, RelayStatus, SourceFile
from relays.reports.evidence import KINDS
from relays.reports.policies import SOURCES, TIGHTEN
from relays.reports.relay import TABS
from relays.reports.roles import RIGHTS, TOKEN_ROLES
from relays.reports.rules import AXES
from relays.reports.sentences import CONTEXT
from relays.templatetags.words import VERDICTS

#: closed sets of words that pages show as they stand in the tables
SETS = (
    Cause, Mode, GateState, LegState, RelayStatus, Verdict, Kind, Step, Truth, Reconciliation, Action, Source,
    AdvisoryOutcome, PromotionOutcome, FaultOutcome, Provenance, Import.Status, Category, TABS, TOKEN_ROLES,
    ("cheaper", "dearer", "auto", "manual", "agent", "person", "driver", "stands", "revoked", "expired", "active",
     "waiting", "sending", "sent", "dead", "open", "closed"),
    RIGHTS, Maintenance.Kind,
    # acts that a refusal names
    ("park", "stop", "fact", "pin", "approve", "refuse", "reopen"),
    # steps that lean on assumptions, and the other ways in which work is carried over
    ("fact", "decision", "open question", "dead end", "ledger", "promotion"), POLICIES,
    MemoryOperation.Act, MemoryOperation.State, SourceFile.Status,
    ("turn", "bounded", "durable", "rotation", "stale", "decision", "applied", "none given", "unknown"),
)  # fmt: skip
#: never read for texts: what is not ours, not shown, or made
IGNORED = ["tests/*", "static/*", "var/*", ".venv/*", "relays/migrations/*"]
#: calls of ours whose text pages tell: sentences of the rules, heads of tables of records
NAMES = ("phrase", "FlagError", "Cell:1")
FILE = "relays/closed_texts_collected.py"


def closed_texts() -> Iterator[str]:
    """Every text of the closed tables that a page shows, once each."""
    found: dict[str, None] = dict.fromkeys(VERDICTS)
    for row in TOKENS.values():
        found |= dict.fromkeys((row.label, row.meaning, row.fix))
    for title, keys in GROUPS.items():
        found |= dict.fromkeys((title, *keys.values()))
    found |= dict.fromkeys((*TIGHTEN.values(), *SOURCES, *FAITHFUL.values(), *AXES.values()))
    for title, about in KINDS.values():
        found |= dict.fromkeys((title, about))
    for group in WORDS:
        found |= dict.fromkeys((group.title, group.about))
        for one in group.words:
            found |= dict.fromkeys((one.meaning, one.fix, one.value))
    for words in SETS:
        found |= dict.fromkeys(str(word).replace("_", " ") if words is not Cause else str(word) for word in words)
    return (text for text in found if text)


def lines() -> Iterator[str]:
    """Every line that goes into a record: the first argument of each call of `recorded`, wherever it stands."""
    for file in sorted(Path(settings.BASE_DIR, "relays").rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if "recorded(" in source else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "recorded":
                said = node.args[0] if node.args else None
                if isinstance(said, ast.Constant) and isinstance(said.value, str):
                    yield said.value


class Command(makemessages.Command):
    help = "Collects every text of the product for translators (make messages LANG=de)."
    xgettext_options = [*makemessages.Command.xgettext_options, *(f"--keyword={name}" for name in NAMES)]

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.set_defaults(ignore_patterns=IGNORED, no_wrap=True)

    def handle(self, *args: Any, **options: Any) -> None:
        missing = [name for name in ("xgettext", "msgmerge", "msguniq", "msgattrib") if shutil.which(name) is None]
        if missing:
            raise CommandError(
                f"makemessages: {', '.join(missing)} not found: install gettext 0.19 or newer (on Debian and Ubuntu: "
                "apt install gettext), then run it again"
            )
        file = Path(settings.BASE_DIR) / FILE
        texts = [f"_({text!r})\n" for text in closed_texts()]
        texts += [f"pgettext({CONTEXT!r}, {text!r})\n" for text in dict.fromkeys(lines())]
        head = "from django.utils.translation import gettext as _, pgettext\n"
        with Path(__file__).open() as mine:
            fcntl.flock(mine, fcntl.LOCK_EX)  # two at once would collect each other's file
            file.write_text(head + "".join(texts), encoding="utf-8")
            try:
                super().handle(*args, **options)
            finally:
                file.unlink()
