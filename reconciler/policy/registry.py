"""Every kind of rule by its name, in the order of the documentation."""

from collections.abc import Mapping
from typing import Any

from reconciler.policy.expression_rules import CLAMP, DENY, HOLD, LABEL, REQUIRE_APPROVAL
from reconciler.policy.fleet_rules import ACCELERATORS, BUDGET, CHANGE_LIMIT, SPOT
from reconciler.policy.port import RuleKind
from reconciler.policy.replica_rules import AVAILABILITY, BOUNDS, COOLDOWN, DEADBAND, FREEZE, SCHEDULE, STEP
from reconciler.policy.review_rules import APPROVAL, AUTO_MERGE, LABELS, METRICS, REVIEWERS

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
