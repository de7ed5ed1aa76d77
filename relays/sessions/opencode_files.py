"""OpenCode's JSON: what `opencode export` prints, and the message files that versions before the database kept.

sessions.md, other agents: "legacy `storage/message/<ses>/*.json`; `opencode export <id>` = `{info,messages:[{info,
parts}]}`". Keys of calls are those of the database, so that a session that is read from both counts once.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from relays.core.meter import AnomalyKind, Extract
from relays.sessions import opencode_newer
from relays.sessions.fields import ident, rows, table
from relays.sessions.files import LINE_BYTES
from relays.sessions.jsonline import parse_whole
from relays.sessions.opencode_messages import Conversation, Copies, parsed
from relays.sessions.reader import Context

_OBJECT: Final = re.compile(rb"^\{", re.MULTILINE)
#: parts of one message that are read
_PARTS: Final = 10_000


class OpenCodeExport:
    """One exported session; see `relays.sessions.reader.DocumentReader`. Lines before the object are passed over."""

    def __init__(self, context: Context) -> None:
        self._stem = context.stem

    def read(self, path: Path) -> Extract:
        out = Extract()
        document = _document(path, out)
        if document is None:
            return out
        info = table(document.get("info"))
        talk = Conversation(info.get("id") or self._stem, out, Copies())
        talk.about(info.get("directory"), info.get("version"), info.get("parentID"))
        for number, entry in enumerate(map(table, rows(document.get("messages"))), 1):
            message = table(entry.get("info"))
            if message or "type" not in entry:
                talk.message(message, message.get("id"), map(table, rows(entry.get("parts"))), number)
            else:  # as 2.x keeps it
                opencode_newer.message(talk, out, str(entry["type"]), entry, entry.get("id"), number)
        talk.end()
        return out


class OpenCodeMessage:
    """One message file with its parts and its session's file beside it; see `relays.sessions.reader.DocumentReader`.

    The program writes a message's file again when the answer has ended: what its parts say is read with it.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def read(self, path: Path) -> Extract:
        out = Extract()
        message = _document(path, out)
        if message is None:
            return out
        session = ident(message.get("sessionID")) or path.parent.name
        name = ident(message.get("id")) or path.stem
        talk = Conversation(session, out, Copies())
        info = self._session(path)
        talk.about(info.get("directory"), info.get("version"), info.get("parentID"))
        # files are ordered by their paths, and messages by their names: each is line 1 of its own
        talk.message(message, name, self._parts(path, out), 1)
        talk.end()
        return out

    def _session(self, path: Path) -> Mapping[str, Any]:
        """What the session's own file says, {} where there is none: `session/<project>/<id>.json`, once `info/`."""
        storage = path.parent.parent.parent
        found = [storage / "info" / f"{path.parent.name}.json"]
        if (storage / "session").is_dir():
            found += sorted(folder / f"{path.parent.name}.json" for folder in (storage / "session").iterdir())
        for one in found:
            try:
                info = parse_whole(one.read_bytes()) if one.is_file() else None
            except OSError:
                continue
            if info is not None:
                return info
        return {}

    def _parts(self, path: Path, out: Extract) -> Iterator[Mapping[str, Any]]:
        """`part/<message>/*.json`, in versions before `part/<session>/<message>/*.json`, in their order."""
        if path.parent.parent.name != "message":
            return
        base = path.parent.parent.parent / "part"
        for folder in (base / path.stem, base / path.parent.name / path.stem):
            if not folder.is_dir():
                continue
            for file in sorted(folder.glob("*.json"))[:_PARTS]:
                try:
                    if file.stat().st_size <= LINE_BYTES:
                        yield parsed(file.read_bytes(), out, 1)
                        continue
                except OSError:
                    pass
                out.note(AnomalyKind.BROKEN_LINE, line=1, detail="part")


def _document(path: Path, out: Extract) -> dict[str, Any] | None:
    if path.stat().st_size > LINE_BYTES:
        out.note(AnomalyKind.HUGE_LINE, detail="document")
        return None
    raw = path.read_bytes()
    begins = _OBJECT.search(raw)
    found = parse_whole(raw[begins.start() :]) if begins else None
    if found is None:
        out.note(AnomalyKind.BROKEN_LINE, detail="document")
        out.record("broken document", len(raw))
    return found
