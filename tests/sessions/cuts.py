"""Reading a file's bytes in one go or in parts with the state through JSON between them, and merging the parts."""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from relays.core.meter import About, Extract
from relays.sessions.reader import FORMS, Context

SAMPLES = Path(__file__).parent.parent / "samples"


def lines(*records: Any) -> bytes:
    """JSON lines; a bytes value stands for itself."""
    return b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in records)


def read(form: str, content: bytes, cuts: Iterable[int] = (), path: str = "folder/file.jsonl") -> Extract:
    """All lines of `content`, taken and carried over at each line number of `cuts`."""
    context, stops = Context(Path(path)), set(cuts)
    reader = FORMS[form].make(context)
    takes = []
    for number, raw in enumerate(content.split(b"\n")[:-1], 1):
        reader.line(number, raw)
        if number in stops:
            takes.append(reader.take())
            reader = FORMS[form].make(context, json.loads(json.dumps(reader.state())))
    takes.append(reader.take())
    return merge(takes)


def merge(takes: Sequence[Extract]) -> Extract:
    """What the intake does with takes of one file: rows by their keys, counts added, later facts winning."""
    whole = Extract()
    for take in takes:
        for call in take.calls.values():
            whole.saw(call)
        for key, boundary in take.compactions.items():
            known = whole.compactions.setdefault(key, boundary)
            known.declared_pre = max(filter(None, (known.declared_pre, boundary.declared_pre)), default=None)
            known.declared_post = max(filter(None, (known.declared_post, boundary.declared_post)), default=None)
        for key, act in take.acts.items():
            whole.acts.setdefault(key, act)
        for touch, line in take.touches.items():
            whole.touches.setdefault(touch, line)
        for session, about in take.about.items():
            whole.about[session] = _newer(whole.about.get(session), about)
        for anomaly in take.anomalies.values():
            whole.note(anomaly.kind, anomaly.session, anomaly.line, anomaly.detail, anomaly.count)
        for kind, (count, size) in take.records.items():
            entry = whole.records.setdefault(kind, [0, 0])
            entry[0] += count
            entry[1] += size
    return whole


def _newer(known: About | None, about: About) -> About:
    if known is None:
        return about
    values = {
        field.name: getattr(about, field.name) or getattr(known, field.name) for field in dataclasses.fields(About)
    }
    values["first_at"] = min(filter(None, (known.first_at, about.first_at)), default="")
    values["last_at"] = max(known.last_at, about.last_at)
    return About(**values)
