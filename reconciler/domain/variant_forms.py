"""The forms in which a variant is declared, and the status that its resource has."""

from dataclasses import dataclass, field
from enum import StrEnum


class Form(StrEnum):
    """The three shapes of a VariantAutoscaling, distinguished by their fields; and what else declares a variant.

    ANNOTATED is a HorizontalPodAutoscaler or ScaledObject with upstream's annotations, TRACKED a workload that a policy
    with metric targets scales, BACKEND one of Kthena's backends without a policy, FLAVORS what serves an OpenModel.
    """

    PROFILE = "profile"
    TARGET = "target"
    NAME = "name"
    ANNOTATED = "annotated"
    TRACKED = "tracked"
    BACKEND = "backend"
    FLAVORS = "flavors"


class StatusShape(StrEnum):
    """Which status a VariantAutoscaling's own version has.

    FULL: currentAlloc with waitAverage, desiredOptimizedAlloc, actuation. TTFT: the same with ttftAverage and
    conditions. TARGET: desiredOptimizedAlloc, actuation, conditions. NONE: a status that is not ours to write.
    """

    FULL = "full"
    TTFT = "ttft"
    TARGET = "target"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A Kubernetes condition as written in Git."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str
    observed_generation: int | None = field(default=None, compare=False)
