"""PURE. Sizing by metric targets: the replicas at which every replica sees what its policy says, as Kthena tracks it.

`track` goes from targets and their history to outcomes. It runs the autoscaler's own loop over the history, tick by
tick and for all targets at once (`replay`), so that nothing is remembered between runs. `Rule` says whose loop:
`TRACKING` is ours, `KTHENA_V0_CORRECTED`, `KTHENA_V0` and `KTHENA_V1` reproduce upstream's generations. Inside the
loop a tick is `recommend`, a test for panic, `correct` against five windows, and for roles a ratio.

Readings come from elsewhere: `recent_quantile` makes one number of a pod's histogram, `read_pods` adds up pods.

Struct of arrays inside: the last axis of every array is targets. Percents are whole numbers, because the rule
truncates them in integers; times are seconds outside, whole milliseconds inside.
"""

from reconciler.sizing.tracking.groups import Block, aggregate_external, distribute, scaling_order
from reconciler.sizing.tracking.histograms import Histogram, Measured, quantile_since, recent_quantile
from reconciler.sizing.tracking.history import History, PodSeries, Target
from reconciler.sizing.tracking.outcome import Outcome, Trail, Vote
from reconciler.sizing.tracking.policy import (
    DEFAULT_BEHAVIOR,
    Backend,
    Behavior,
    MetricTarget,
    Panic,
    Policy,
    Rate,
    Select,
    sync_period_s,
    warm_up_s,
)
from reconciler.sizing.tracking.readings import PodReading, PodSum, read_external, read_pods
from reconciler.sizing.tracking.replay import RolePair
from reconciler.sizing.tracking.roles import RatioRange, RoleBounds, RoleCounts, repair_exactly, repair_upstream
from reconciler.sizing.tracking.rules import KTHENA_V0, KTHENA_V0_CORRECTED, KTHENA_V1, TRACKING, Rule
from reconciler.sizing.tracking.tracking import track

__all__ = [
    "DEFAULT_BEHAVIOR",
    "KTHENA_V0",
    "KTHENA_V0_CORRECTED",
    "KTHENA_V1",
    "TRACKING",
    "Backend",
    "Behavior",
    "Block",
    "Histogram",
    "History",
    "Measured",
    "MetricTarget",
    "Outcome",
    "Panic",
    "PodReading",
    "PodSeries",
    "PodSum",
    "Policy",
    "Rate",
    "RatioRange",
    "RoleBounds",
    "RoleCounts",
    "RolePair",
    "Rule",
    "Select",
    "Target",
    "Trail",
    "Vote",
    "aggregate_external",
    "distribute",
    "quantile_since",
    "read_external",
    "read_pods",
    "recent_quantile",
    "repair_exactly",
    "repair_upstream",
    "scaling_order",
    "sync_period_s",
    "track",
    "warm_up_s",
]
