"""Everything that an import leaves in the tables, in a form that two ways of reading the same can be compared by."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model

from relays.models import (
    FullnessCount,
    PriceRow,
    Session,
    SessionAct,
    SessionAnomaly,
    SessionBoundary,
    SessionCall,
    SessionFile,
    SessionLeg,
    SessionTouch,
    SourceFile,
)

SAMPLES = Path(__file__).parents[1] / "samples"
#: differ from run to run and mean nothing: keys of rows, times of reading, places on the disk
LEFT_OUT = {"id", "read_at", "projected_at", "device", "inode", "mtime_ns", "price_id", "judged_at"}
NAMED = {"source_id": "source__path", "session_id": "session__sid"}


def snapshot() -> dict[str, list[str]]:
    """Model -> its rows as sorted texts."""
    models: list[type[Model]] = [
        SourceFile,
        Session,
        SessionFile,
        SessionCall,
        SessionBoundary,
        SessionAct,
        SessionTouch,
        SessionAnomaly,
        SessionLeg,
        FullnessCount,
        PriceRow,
    ]
    return {model.__name__: sorted(_texts(model)) for model in models}


def _texts(model: type[Model]) -> Iterable[str]:
    encoder = DjangoJSONEncoder(sort_keys=True)
    columns = [field.attname for field in model._meta.concrete_fields if field.attname not in LEFT_OUT]
    names = [NAMED.get(column, column) for column in columns]
    rows = model._default_manager.all()
    if model is PriceRow:  # of a price that a call had only until more of it was read, the row stays
        rows = rows.filter(pk__in=SessionCall.objects.exclude(price=None).values("price"))
    for row in rows.values(*names):
        yield encoder.encode(row)


def emptied() -> None:
    """No session and no file is known any more."""
    SourceFile.objects.all().delete()
    Session.objects.all().delete()
    PriceRow.objects.all().delete()


def copied(into: Path, *names: str) -> Path:
    """Samples (all of them without names) in a folder of the test, writable."""
    for path in sorted(SAMPLES.rglob("*.jsonl")):
        name = path.relative_to(SAMPLES)
        if not names or any(str(name).startswith(one) for one in names):
            target = into / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    return into


def sums() -> dict[str, Any]:
    """Of the calls that count: how many, and their tokens as the samples' right figures name them."""
    found = {"calls": 0, "input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0, "5m": 0, "1h": 0}
    for call in SessionCall.objects.filter(counts=True):
        found["calls"] += 1
        found["input_tokens"] += call.input_tokens
        found["cache_read_input_tokens"] += call.cache_read
        found["output_tokens"] += call.output_tokens
        found["5m"] += call.cache_write_5m
        found["1h"] += call.cache_write_1h
    return found
