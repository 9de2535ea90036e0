"""Every kind of rule by its name, in the order of the documentation."""

from collections.abc import Mapping
from typing import Any

from reconciler.policy.kinds.accelerators import ACCELERATORS
from reconciler.policy.kinds.approval import APPROVAL
from reconciler.policy.kinds.auto_merge import AUTO_MERGE
from reconciler.policy.kinds.availability import AVAILABILITY
from reconciler.policy.kinds.bounds import BOUNDS
from reconciler.policy.kinds.budget import BUDGET
from reconciler.policy.kinds.change_limit import CHANGE_LIMIT
from reconciler.policy.kinds.cooldown import COOLDOWN
from reconciler.policy.kinds.deadband import DEADBAND
from reconciler.policy.kinds.expressions import CLAMP, DENY, HOLD, LABEL, REQUIRE_APPROVAL
from reconciler.policy.kinds.freeze import FREEZE
from reconciler.policy.kinds.metrics import METRICS
from reconciler.policy.kinds.schedule import SCHEDULE
from reconciler.policy.kinds.spot import SPOT
from reconciler.policy.kinds.step import STEP
from reconciler.policy.kinds.telling import LABELS, REVIEWERS
from reconciler.policy.port import RuleKind

KINDS: Mapping[str, RuleKind[Any]] = {
    each.name: each
    for each in (
        BOUNDS,
        STEP,
        DEADBAND,
        COOLDOWN,
        FREEZE,
        SCHEDULE,
        BUDGET,
        CHANGE_LIMIT,
        ACCELERATORS,
        SPOT,
        AVAILABILITY,
        METRICS,
        APPROVAL,
        AUTO_MERGE,
        LABELS,
        REVIEWERS,
        DENY,
        HOLD,
        CLAMP,
        REQUIRE_APPROVAL,
        LABEL,
    )
}
