"""The engines `kthena-v0` and `kthena-v1`: metric targets as the releases follow them that read their generation."""

from reconciler.decision.engines.tracking.engine import TrackingEngine
from reconciler.domain.metric_targets import Generation
from reconciler.domain.variant_settings import Engine
from reconciler.sizing.tracking.history import KTHENA_V0 as V0
from reconciler.sizing.tracking.history import KTHENA_V0_CORRECTED as V0_CORRECTED
from reconciler.sizing.tracking.history import KTHENA_V1 as V1
from reconciler.sizing.tracking.history import TrackingRule


def _v0(generation: Generation) -> TrackingRule:
    return V0_CORRECTED if generation in (Generation.G1, Generation.G2) else V0


def _v1(_generation: Generation) -> TrackingRule:
    return V1


KTHENA_V0 = TrackingEngine(name=Engine.KTHENA_V0, rule_of=_v0)
KTHENA_V1 = TrackingEngine(name=Engine.KTHENA_V1, rule_of=_v1)
