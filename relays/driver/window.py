"""The window of a running leg: it follows the model that answers, where no policy says how large it is."""

from django.db import transaction

from relays.core import rotation, windows
from relays.core.policy import Policy
from relays.driver.changes import RELAYS, bump, topic
from relays.driver.claim import Claim
from relays.models import Leg


class Window:
    """Mark and ceiling of a leg are parts of its window, and move with it. `model`: the one that it follows."""

    def __init__(self, leg: Leg, claim: Claim) -> None:
        self.leg, self.claim = leg, claim
        self.model = leg.model

    def heard(self, model: str, policy: Policy) -> None:
        """A main call was answered by `model`. Raises LostClaim."""
        if model == self.model:
            return
        first, self.model = not self.model, model
        if policy.window_tokens is not None:
            return
        named = str(self.leg.relay.agent_args.get("model", ""))
        window = windows.follow(self.leg.window_tokens, model, first=first, named=named)
        if window == self.leg.window_tokens:
            return
        with transaction.atomic():
            self.claim.hold()
            Leg.objects.filter(pk=self.leg.pk).update(
                window_tokens=window,
                mark_tokens=rotation.mark_tokens(policy, window),
                ceiling_tokens=rotation.ceiling_tokens(policy, window),
            )
            bump(topic(self.leg.relay_id), RELAYS)
        self.leg.refresh_from_db()
