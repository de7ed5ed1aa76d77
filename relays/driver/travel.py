"""The record of a relay that travels with its repository: written when its outbox is carried out."""

from datetime import datetime

from pydantic import ValidationError

from relays.agents import tree
from relays.core import travel
from relays.driver import userfacts
from relays.models import OPEN_GATES, GateEpisode, Outbox, Relay
from relays.stores import travel as travel_store
from relays.stores.base import StoreUnavailable
from relays.stores.git import GitStore

GATES = 16
ITEMS = 64


def target(relay_id: str) -> str:
    """What the outbox calls the record of that relay."""
    return f"{relay_id}.state"


def owe(relay_id: str, now: datetime) -> None:
    """The record is to be written anew, inside the caller's transaction; one row a relay, however often it is owed."""
    Outbox.objects.update_or_create(
        kind=Outbox.Kind.LEDGER_REF,
        target=target(relay_id),
        defaults={"relay_id": relay_id, "not_before": now, "attempts": 0, "done_at": None, "error": ""},
    )


def write(relay_id: str, store: GitStore) -> None:
    """Write what the relay's row says now. Raises StoreUnavailable."""
    try:
        record = of(Relay.objects.get(pk=relay_id))
    except ValidationError as error:
        why = error.errors(include_url=False, include_input=False)[0]
        raise StoreUnavailable(f"no record can be made of it: {why['loc']}: {why['msg']}") from error
    travel_store.write_record(store, record)


def of(relay: Relay) -> travel.Record:
    """The relay as its row stands now.

    The agent's arguments travel only where they name no program; secrets never stand in a repository.
    """
    spent = relay.spent
    gates = GateEpisode.objects.filter(relay=relay, state__in=OPEN_GATES).order_by("opened_at", "pk")[:GATES]
    harmless = relay.agent in travel.HARMLESS_AGENTS
    record = travel.Record(
        form=travel.FORM,
        relay=relay.pk,
        status=str(relay.status),  # type: ignore[arg-type]  # one of the seven, by constraint
        branch=relay.branch,
        start_sha=relay.start_sha,
        agent=relay.agent,
        agent_args={str(key): str(value) for key, value in relay.agent_args.items()} if harmless else {},
        watch=relay.watch,
        policy=relay.policy,
        spent=travel.SpentRecord(
            turns=spent.turns,
            output_tokens=spent.output_tokens,
            spend=f"{spent.spend:f}",
            unpriced_calls=spent.unpriced_calls,
            wall=spent.wall.total_seconds(),
            legs=spent.legs,
            queries=spent.queries,
        ),
        user_facts=list(userfacts.pointers(relay.pk)),
        gates=[
            travel.GateRecord(token=gate.token, items=[_line(item) for item in gate.items[:ITEMS]]) for gate in gates
        ],
    )
    host = tree.this_process()[3] if record.goes_on_by_itself else ""
    return record.model_copy(update={"host": _line(host)})


def _line(text: object) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in str(text))[:500]
