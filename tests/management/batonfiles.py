"""Baton files for tests of the command line."""

import hashlib
import json
from pathlib import Path
from typing import Any

SHA = "a" * 40


def baton(relay_id: str = "RLY-20261130-0001", sha: str = SHA, **values: Any) -> dict[str, Any]:
    pin_id, text = "pin-orders", "Close the open issues"
    return {
        "schema": "fak.relay.baton.v1",
        "relay_id": relay_id,
        "leg": 0,
        "parent_trace": "trace-0",
        "objective": {
            "pin_id": pin_id,
            "text": text,
            "digest": hashlib.sha256(f"{pin_id}\0{text}".encode()).hexdigest(),
        },
        "done_when": "issues:none open",
        "progress_cursor": {"start_sha": sha, "held_region": ["**"]},
        "next_action": "Take the lowest open issue.",
        "open_questions": [],
        "artifacts": [],
        "do_not_rederive": [],
        "tombstone": {"reason": "RELAY_ROTATED", "at_sha": sha},
        **values,
    }


def write(folder: Path, value: Any, name: str = "baton.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path
