"""The file that a policy stands in: a `[relay]` table in TOML, bounded before it is read.

Mission: "Data, not code. Rotation policy lives in dos.toml/Envelope, not scattered constants." A repository's file is
untrusted; what its keys may say is the policy's own to judge.
"""

import tomllib

from relays.core import notation
from relays.core.policy import PolicyError
from relays.core.sentences import phrase

LARGEST_FILE = 64 * 1024  # characters of a `dos.toml` or policy file
LONGEST_LINE = 4096  # characters of one line of it


def parse_toml_relay_table(text: str, *, alone: bool = False) -> dict[str, object]:
    """The `[relay]` table of a `dos.toml` or policy file; empty where there is none. The text may be hostile.

    `alone`: the file is nothing but that table, so that a table by another name is a mistake and not somebody else's.
    """
    if len(text) > LARGEST_FILE:
        raise PolicyError("relay", phrase("the file is longer than %(most)s characters", most=LARGEST_FILE))
    if len(max(text.split("\n"), key=len)) > LONGEST_LINE:
        # a dotted key stands on one line, and reading it takes time in the square of its length
        raise PolicyError("relay", phrase("the file has a line of more than %(most)s characters", most=LONGEST_LINE))
    try:
        whole = tomllib.loads(text)
    except RecursionError:
        raise PolicyError("relay", phrase("the file is nested too deeply")) from None
    except ValueError as problem:  # no TOML, or a number of absurd length
        raise PolicyError(
            "relay", phrase("the file is not valid TOML: %(problem)s", problem=notation.why(problem))
        ) from None
    if alone and (others := sorted(set(whole) - {"relay"})):
        raise PolicyError(others[0], phrase("stands outside the one table of a policy file, [relay]"))
    if alone and "relay" not in whole:
        raise PolicyError("relay", phrase("the file has no [relay] table"))
    table = whole.get("relay", {})
    if not isinstance(table, dict):
        raise PolicyError("relay", phrase("must be a table of keys"))
    return table
