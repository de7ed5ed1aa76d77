"""One module per aggregate; constraints and indexes, no behaviour beyond properties."""

from relays.models.audit import AuditRun
from relays.models.baton import Baton, Check, Verification
from relays.models.comparison import (
    BackTest,
    Comparison,
    CostDue,
    CostState,
    DayCost,
    LearnedParameter,
    OwnerBudget,
    OwnerMonth,
    StoredWork,
)
from relays.models.counted import Counted
from relays.models.evidence import Assumption, Call, CommandResult, Event, Fact, PageFault, Promotion
from relays.models.gate import NEXT_LEG, OPEN_GATES, Decision, GateChange, GateEpisode, GateState
from relays.models.hook import HookEvent, HookFollow, HookTally
from relays.models.ledger import LedgerRow
from relays.models.leg import (
    LIVE_STATES,
    OPEN_STATES,
    Boundary,
    Leg,
    LegState,
    ResetTransaction,
    Tombstone,
    WouldBe,
)
from relays.models.live import Heartbeat, Outbox, Pulse, SignInLink, Topic
from relays.models.maintenance import Maintenance, MaintenanceItem
from relays.models.notice import Channel, Delivery, Notice, Subscription
from relays.models.person import Layout
from relays.models.policy import PolicyVersion
from relays.models.push import Push, PushState
from relays.models.querytool import MemoryOperation, ToolUse
from relays.models.relay import FINAL_STATUSES, DriverClaim, RegionLease, Relay, RelayStatus, Repository, Request
from relays.models.reviewers import ReviewerGroup
from relays.models.session import (
    FullnessCount,
    Import,
    ImportedFile,
    PriceRow,
    Session,
    SessionAct,
    SessionAnomaly,
    SessionBoundary,
    SessionCall,
    SessionFile,
    SessionLeg,
    SessionText,
    SessionTouch,
    SourceFile,
)
from relays.models.token import ApiToken

__all__ = [
    "FINAL_STATUSES",
    "LIVE_STATES",
    "NEXT_LEG",
    "OPEN_GATES",
    "OPEN_STATES",
    "ApiToken",
    "Assumption",
    "AuditRun",
    "BackTest",
    "Baton",
    "Boundary",
    "Call",
    "Channel",
    "Check",
    "CommandResult",
    "Comparison",
    "CostDue",
    "CostState",
    "Counted",
    "DayCost",
    "Decision",
    "Delivery",
    "DriverClaim",
    "Event",
    "Fact",
    "FullnessCount",
    "GateChange",
    "GateEpisode",
    "GateState",
    "Heartbeat",
    "HookEvent",
    "HookFollow",
    "HookTally",
    "Import",
    "ImportedFile",
    "Layout",
    "LearnedParameter",
    "LedgerRow",
    "Leg",
    "LegState",
    "Maintenance",
    "MaintenanceItem",
    "Outbox",
    "MemoryOperation",
    "Notice",
    "OwnerBudget",
    "OwnerMonth",
    "PageFault",
    "PolicyVersion",
    "PriceRow",
    "Promotion",
    "Pulse",
    "RegionLease",
    "Push",
    "PushState",
    "Relay",
    "RelayStatus",
    "Repository",
    "Request",
    "ResetTransaction",
    "ReviewerGroup",
    "Session",
    "SessionAct",
    "SessionAnomaly",
    "SessionBoundary",
    "SessionCall",
    "SessionFile",
    "SessionLeg",
    "SessionText",
    "SessionTouch",
    "SignInLink",
    "SourceFile",
    "StoredWork",
    "Subscription",
    "Tombstone",
    "ToolUse",
    "Topic",
    "Verification",
    "WouldBe",
]
