"""What was noticed about a relay that holds nothing up: one line each, shown on its page.

Rules: "Commits by others are shown as foreign; a commit outside the region is a finding, not progress."
"""

from collections.abc import Sequence
from typing import Final

from relays.models import Relay
from relays.stores.gitrun import plain

KEPT: Final = 200  # lines of one relay; the newest stay
CHARS: Final = 300  # of one line


def put(relay_pk: str, prefix: str, lines: Sequence[str]) -> None:
    """Replace the findings that begin with `prefix` by these lines, each behind it. Call inside a transaction."""
    relay = Relay.objects.select_for_update().only("findings").get(pk=relay_pk)
    others = [line for line in relay.findings if not line.startswith(prefix)]
    mine = [plain(f"{prefix}{line}")[:CHARS] for line in lines]
    after = [*others, *mine][-KEPT:]
    if after != relay.findings:
        Relay.objects.filter(pk=relay_pk).update(findings=after)
