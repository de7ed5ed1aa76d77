"""The agents' side of the query tool: one request to the leg's supervisor over `RELAY_SOCKET`, one answer.

Nothing but the leg's own socket and token is needed or known here: no database, no setting, no secret of the site.
"""

import json
import os
import socket
import time
from collections.abc import Mapping
from typing import Any, Final

from relays.core.querytool import QueryRefused, request_line

TIMEOUT: Final = 120.0  # seconds for one answer
ANSWER_BYTES: Final = 1024 * 1024
ENDED: Final = (
    "the line is closed: the leg has ended, and its token has expired with it (or, while it runs, too many programs "
    "hold the line). Only a program that a running leg started can use the query tool"
)


def ask(verb: str, arguments: Mapping[str, Any], env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The answer of one verb. Raises QueryRefused, in words, where there is none."""
    around = os.environ if env is None else env
    path, token = around.get("RELAY_SOCKET", ""), around.get("RELAY_TOKEN", "")
    if not path or not token:
        missing = " and ".join(name for name in ("RELAY_SOCKET", "RELAY_TOKEN") if not around.get(name))
        raise QueryRefused(f"{missing} not set: the query tool works only inside a leg, whose environment has both")
    raw = _exchange(path, request_line(token, verb, arguments))
    try:
        said = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise QueryRefused("the answer of the leg's supervisor cannot be read; ask again") from error
    if not isinstance(said, dict) or said.get("ok") is not True:
        raise QueryRefused(str(said.get("refused", "no answer")) if isinstance(said, dict) else "no answer")
    answer = said.get("answer")
    return answer if isinstance(answer, dict) else {}


def _exchange(path: str, line: bytes) -> bytes:
    deadline = time.monotonic() + TIMEOUT
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as way:
            way.settimeout(TIMEOUT)
            way.connect(path)
            way.sendall(line + b"\n")
            held = bytearray()
            while b"\n" not in held:
                way.settimeout(max(0.1, deadline - time.monotonic()))
                data = way.recv(65536)
                if not data or len(held) > ANSWER_BYTES:
                    raise QueryRefused(ENDED if not held else "the answer was cut off; ask again")
                held += data
    except TimeoutError as error:
        raise QueryRefused(f"the leg's supervisor did not answer within {TIMEOUT:.0f} s; ask again") from error
    except (FileNotFoundError, ConnectionError) as error:
        raise QueryRefused(ENDED) from error
    except OSError as error:
        raise QueryRefused(f"RELAY_SOCKET cannot be reached: {error.strerror or error}") from error
    return bytes(held).partition(b"\n")[0]
