"""What saturation is told of a model: its variants, what their replicas report and did, its queue, its thresholds."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean

from reconciler.decision.engines.saturation.past import COARSE_S
from reconciler.decision.variant_states import is_counted
from reconciler.domain.identity import ModelKey
from reconciler.domain.measured.answers import NoAnswer
from reconciler.domain.measured.replicas import Trace, UpstreamQueue, role_of
from reconciler.domain.saturation_rules import SaturationRules, ZeroRules
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.domain.variant_settings import MAX_REPLICAS, MIN_REPLICAS
from reconciler.metrics.quantities import Name
from reconciler.sizing.saturation.answer import ModelReadings, ZeroRule
from reconciler.sizing.saturation.capacities import MeanLengths
from reconciler.sizing.saturation.replay import replay_bounds, replay_capacities
from reconciler.sizing.saturation.thresholds import layer_thresholds
from reconciler.sizing.saturation.variants import DEFAULT_COST, StoredCapacity, VariantFacts

ROLE_LABEL = "llm-d.ai/role"
NO_RULES = SaturationRules()
COUNTABLE_ENGINES = frozenset({"vllm", ""})


def read_model(
    snapshot: Snapshot, model: ModelKey, members: Sequence[Variant], *, corrects_history: bool
) -> ModelReadings:
    """What is known of one model at the time of the snapshot; `corrects_history` as in `replay_bounds`."""
    rules = snapshot.saturation.get(model, NO_RULES)
    layered = layer_thresholds(rules.layers)
    is_priced = all(member.current_cost_per_hour is not None for member in members)
    variants = [_facts(snapshot, member, is_priced=is_priced) for member in members]
    replicas = tuple(each for member in members for each in snapshot.observed.replicas.get(member.key, ()))
    told = (trace for member in members for trace in snapshot.observed.traces.get(member.key, ()))
    traces = [trace for trace in told if trace.step_s < COARSE_S]
    kv_tokens = {replica.pod: replica.kv_tokens for replica in replicas if replica.kv_tokens is not None}
    history = replay_bounds(traces, kv_tokens, variants, layered.thresholds, corrects_history=corrects_history)
    seen = replay_capacities(traces, kv_tokens, variants, layered.thresholds, history)
    full = layered.thresholds.kv_cache_usage.value
    return ModelReadings(
        model=model,
        variants=tuple(
            replace(state, stored=seen.get(state.key) or _remembered(snapshot, state, full)) for state in variants
        ),
        replicas=replicas,
        queue=snapshot.observed.queues.get(model, UpstreamQueue(num_waiting=None) if _is_asleep(members) else None),
        zero_rule=_zero_rule(snapshot, model, members),
        history=history,
        lengths_before=_lengths_in(traces) if corrects_history else None,
        layered=layered,
    )


def _lengths_in(traces: Iterable[Trace]) -> MeanLengths | None:
    """How long requests were in histories; None where these do not tell both lengths."""
    told: dict[Name, list[float]] = {Name.INPUT_TOKENS: [], Name.OUTPUT_TOKENS: []}
    for trace in traces:
        for name in told:
            told[name] += filter(math.isfinite, trace.series.get(name, ()))
    if not all(told.values()):
        return None
    inputs, outputs = (fmean(lengths) for lengths in told.values())
    return MeanLengths(input_tokens=inputs, output_tokens=outputs, prefix_hit_rate=0.0)


def _is_asleep(members: Iterable[Variant]) -> bool:
    return not any(member.current.replicas for member in members)


def _facts(snapshot: Snapshot, variant: Variant, *, is_priced: bool) -> VariantFacts:
    workload, settings = variant.workload, variant.settings
    current, ready = variant.current.replicas, snapshot.observed.ready.get(variant.key)
    cost = variant.current_cost_per_hour if is_priced else variant.relative_cost
    return VariantFacts(
        key=variant.key,
        accelerator=variant.current.accelerator,
        role=role_of(workload.template_labels.get(ROLE_LABEL) if workload is not None else None),
        cost=DEFAULT_COST if cost is None else cost,
        current_replicas=current,
        pending_replicas=max(current - ready, 0) if ready is not None and is_counted(variant) else 0,
        min_replicas=settings[MIN_REPLICAS].value,
        max_replicas=settings[MAX_REPLICAS].value,
        devices_per_replica=sum(workload.devices.values()) if workload is not None else 1,
        launch=workload.launch if workload is not None else None,
    )


def _zero_rule(snapshot: Snapshot, model: ModelKey, members: Iterable[Variant]) -> ZeroRule:
    """Upstream's precedence: what the model's saturation entry says, then its own map; else never to zero."""
    inline = snapshot.saturation.get(model, NO_RULES).scales_to_zero
    mapped = snapshot.zero.get(model, ZeroRules()).is_enabled
    requests = snapshot.observed.requests.get(model)
    engines = {member.workload.engine for member in members if member.workload is not None}
    return ZeroRule(
        is_enabled=bool(mapped if inline is None else inline),
        requests=requests if isinstance(requests, float) else None,
        reason=requests.reason if isinstance(requests, NoAnswer) else "",
        is_countable=engines <= COUNTABLE_ENGINES,
    )


def _remembered(snapshot: Snapshot, state: VariantFacts, full: float) -> StoredCapacity | None:
    """What a replica held when one was last seen, for variants that have been at zero for longer than a run looks."""
    stored = snapshot.observed.stored_kv_tokens.get(state.key)
    return None if stored is None else StoredCapacity(capacity_tokens=int(stored * full), total_kv_tokens=stored)
