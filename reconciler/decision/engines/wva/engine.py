"""The engines `wva-v1` and `wva-v2`: what llm-d's workload variant autoscaler decides, its flaws included."""

from collections.abc import Sequence

from reconciler.decision.engines.saturation.engine import SaturationEngine
from reconciler.decision.engines.saturation.readings import NO_RULES
from reconciler.decision.engines.wva.limits import budget_for, quotas_for
from reconciler.decision.engines.wva.readings import read_upstream, wants_throughput
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.variant_settings import Engine
from reconciler.sizing.saturation.answer import ModelReadings, SaturationAnswer
from reconciler.sizing.wva.reproduction import reproduce_percent, reproduce_tokens


def _size_v1(snapshot: Snapshot, models: Sequence[ModelReadings]) -> Sequence[SaturationAnswer]:
    rules = [snapshot.saturation.get(readings.model, NO_RULES) for readings in models]
    return reproduce_percent(models, *quotas_for(snapshot, models, rules))


def _size_v2(snapshot: Snapshot, models: Sequence[ModelReadings]) -> Sequence[SaturationAnswer]:
    rules = [snapshot.saturation.get(readings.model, NO_RULES) for readings in models]
    budget = budget_for(snapshot, models, rules)
    return reproduce_tokens(
        [read_upstream(snapshot, each) for each in models], budget, rescales=any(each.rescales for each in rules)
    )


WVA_V1 = SaturationEngine(name=Engine.WVA_V1, size_cluster=_size_v1)
WVA_V2 = SaturationEngine(name=Engine.WVA_V2, size_cluster=_size_v2, wants_traces=wants_throughput)
