"""A person appends to a relay's intent ledger from the command line."""

from collections.abc import Sequence
from pathlib import Path

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from relays.actions.base import Actor, NotLegalNow, Usage, need, relay_or_refuse
from relays.core.pointers import Answer, Pointer, PointerError, Verdict, one_line, parse_pointer
from relays.driver import places
from relays.driver.changes import bump, ring, topic
from relays.models import LedgerRow, Outbox, Relay
from relays.reports.sentences import told
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.git import GitStore

NOTE_BYTES = 500
MOST_REFS = 64


def append(actor: Actor, relay_id: str, refs: Sequence[str], note: str = "") -> LedgerRow:
    """One append-only row `<relay>.<leg>.c<n>`, its references judged now and kept with their verdicts.

    A reference that does not resolve is kept as what it is: it counts for nothing until it does. Raises Refused.
    """
    need(actor, "operate", _("ledger add"))
    relay = relay_or_refuse(relay_id)
    if relay.final:
        raise NotLegalNow(
            _("ledger add: %(relay)s is %(status)s: its ledger is closed; start a new relay")
            % {"relay": relay.pk, "status": _(relay.status)}
        )
    if not 0 < len(refs) <= MOST_REFS:
        raise Usage(
            _("ledger add: %(n)s references; give between 1 and %(most)s with --ref kind:ref")
            % {"n": len(refs), "most": MOST_REFS}
        )
    pointers: list[Pointer] = []
    for ref in refs:
        try:
            pointers.append(parse_pointer(ref))
        except PointerError as error:
            raise Usage(
                _("ledger add: --ref %(ref)s: %(why)s; write it as kind:ref or #n")
                % {"ref": repr(ref), "why": told(error.why)}
            ) from error
    answers = _judge(relay, pointers)
    leg = relay.legs.order_by("-number").first()
    head = f"{relay.pk}.{leg.number if leg else 0}.c"
    now = timezone.now()
    while True:
        taken = LedgerRow.objects.filter(relay=relay, pk__startswith=head).values_list("pk", flat=True)
        number = 1 + max((int(pk.removeprefix(head)) for pk in taken), default=0)
        try:
            with transaction.atomic():
                row = LedgerRow.objects.create(
                    id=f"{head}{number}",
                    relay=relay,
                    leg=leg,
                    refs=[str(pointer) for pointer in pointers],
                    note=one_line(note, NOTE_BYTES),
                    verdicts=[str(answers[pointer].verdict) for pointer in pointers],
                    by="person",
                    at=now,
                )
                Outbox.objects.get_or_create(
                    kind=Outbox.Kind.LEDGER_REF, target=row.pk, defaults={"relay": relay, "not_before": now}
                )
                bump(topic(relay.pk))
                ring(relay.pk)
        except IntegrityError:
            if LedgerRow.objects.filter(pk=f"{head}{number}").exists():
                continue  # another row took the number
            raise
        return row


def _judge(relay: Relay, pointers: Sequence[Pointer]) -> dict[Pointer, Answer]:
    try:
        git = GitStore(Path(relay.git_dir), places.shield(), exact=True)
        stores = Stores(git, git.tip(relay.branch), relay.memory_root, relay.pk, branch=relay.branch)
        return stores.resolve(pointers)
    except StoreUnavailable as error:
        return dict.fromkeys(pointers, Answer(Verdict.UNKNOWN, error.evidence))
