"""What is pending for a watch, asked of its stores: "no open issue in scope, no open question; unknown is not idle"."""

from collections.abc import Sequence

from relays.core import baton as batons
from relays.core import donewhen, watch
from relays.core.donewhen import DoneVerdict, Truth
from relays.core.lines import recorded
from relays.driver import budgets
from relays.models import Baton, Relay
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores


def of(relay: Relay, stores: Stores, questions: Sequence[str] = ()) -> watch.Pending:
    """What is pending at the stores' tip; `questions`: of a leg that runs, beside those of the current baton."""
    current = Baton.objects.filter(relay=relay, current=True).values_list("text", flat=True).first()
    carried = batons.read(current, budgets.policy_of(relay).baton).baton if current else None
    if current and carried is None:
        return watch.Pending(unknown=recorded("the current baton does not read, so its open questions are not known"))
    asked = (*(carried.open_questions if carried else ()), *questions)
    try:
        truth, evidence = stores.issues.none_open()
        states = stores.issues.states()
        # a relay without an issue file has nothing filed, so nothing open; a file that does not read cannot tell
        problem = evidence if stores.issues.exists and truth is Truth.UNKNOWN else ""
    except StoreUnavailable as error:
        states, problem = {}, error.evidence
    return watch.pending(donewhen.parse(relay.done_when), states, problem, asked)


def quiet(relay: Relay, stores: Stores | None, done: DoneVerdict | None, questions: Sequence[str]) -> bool | None:
    """Whether a watch whose invariant holds has nothing pending; None where that is not asked."""
    if not relay.watch or stores is None or done is None or done.truth is not Truth.TRUE:
        return None
    return of(relay, stores, questions).quiet


def verdict(relay: Relay, stores: Stores, done: DoneVerdict) -> DoneVerdict:
    """The ladder's step 8: for a watch, true only where it may be idle; for any other relay done_when as it stands."""
    return watch.verdict(done, of(relay, stores)) if relay.watch and done.truth is Truth.TRUE else done
