"""What saturation is told of a model: its variants, what their replicas report and did, its queue, its thresholds."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from reconciler.decision.variant_states import is_counted
from reconciler.domain.answers import NoAnswer
from reconciler.domain.declared.saturation_settings import SaturationRules, ZeroRules
from reconciler.domain.identity import ModelKey
from reconciler.domain.loads import Load
from reconciler.domain.replicas import ReplicaMetrics, Trace, UpstreamQueue, role_of
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.variant_settings import MAX_REPLICAS, MIN_REPLICAS
from reconciler.domain.variants import Variant
from reconciler.metrics import Name
from reconciler.sizing.saturation import (
    ModelReadings,
    StoredCapacity,
    ThroughputReadings,
    ThroughputSample,
    VariantFacts,
    ZeroRule,
    layer_thresholds,
    replay_bounds,
    replay_capacities,
)
from reconciler.sizing.saturation.variants import DEFAULT_COST

ROLE_LABEL = "llm-d.ai/role"
NO_RULES = SaturationRules()
COUNTABLE_ENGINES = frozenset({"vllm", ""})
THROUGHPUT = "throughput"


def read_model(
    snapshot: Snapshot, model: ModelKey, members: Sequence[Variant], *, corrects_history: bool
) -> ModelReadings:
    """What is known of one model at the time of the snapshot; `corrects_history` as in `replay_bounds`."""
    rules = snapshot.saturation.get(model, NO_RULES)
    layered = layer_thresholds(rules.layers)
    is_priced = all(member.current_cost_per_hour is not None for member in members)
    variants = [_facts(snapshot, member, is_priced=is_priced) for member in members]
    replicas = tuple(each for member in members for each in snapshot.views.replicas.get(member.key, ()))
    traces = [trace for member in members for trace in snapshot.views.traces.get(member.key, ())]
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
        queue=snapshot.views.queues.get(model, UpstreamQueue(num_waiting=None) if _is_asleep(members) else None),
        zero_rule=_zero_rule(snapshot, model, members),
        history=history,
        layered=layered,
        analyzers=rules.analyzers,
        throughput=_throughput(snapshot, model, traces, replicas) if wants_throughput(rules) else None,
    )


def wants_throughput(rules: SaturationRules) -> bool:
    """Whether upstream's throughput analyzer has a vote."""
    return any(each.name == THROUGHPUT and each.is_enabled for each in rules.analyzers)


def _is_asleep(members: Iterable[Variant]) -> bool:
    return not any(member.current.replicas for member in members)


def _facts(snapshot: Snapshot, variant: Variant, *, is_priced: bool) -> VariantFacts:
    workload, settings = variant.workload, variant.settings
    current, ready = variant.current.replicas, snapshot.views.ready.get(variant.key)
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
    requests = snapshot.views.requests.get(model)
    engines = {member.workload.engine for member in members if member.workload is not None}
    return ZeroRule(
        is_enabled=bool(mapped if inline is None else inline),
        requests=requests if isinstance(requests, float) else None,
        reason=requests.reason if isinstance(requests, NoAnswer) else "",
        is_countable=engines <= COUNTABLE_ENGINES,
    )


def _remembered(snapshot: Snapshot, state: VariantFacts, full: float) -> StoredCapacity | None:
    """What a replica held when one was last seen, for variants that have been at zero for longer than a run looks."""
    stored = snapshot.views.stored_kv_tokens.get(state.key)
    return None if stored is None else StoredCapacity(capacity_tokens=int(stored * full), total_kv_tokens=stored)


def _throughput(
    snapshot: Snapshot, model: ModelKey, traces: Sequence[Trace], replicas: Iterable[ReplicaMetrics]
) -> ThroughputReadings:
    """The last hour as upstream's analyzer would have sampled it; arrivals count only if something counts them."""
    load = snapshot.loads.get(model)
    is_counted_upstream = isinstance(load, Load) and not load.is_by_replicas
    now = {replica.pod: replica for replica in replicas}
    usage = {trace.pod: trace for trace in traces if Name.KV_CACHE_USAGE in trace.series}
    return ThroughputReadings(
        now_s=snapshot.now_s,
        samples=tuple(
            sample
            for trace in traces
            if Name.ITL in trace.series
            for sample in _samples(trace, usage.get(trace.pod), now.get(trace.pod))
        ),
        arrival_rate_per_s=load.arrival_rate_per_s if isinstance(load, Load) and is_counted_upstream else None,
        reason="" if is_counted_upstream else "no endpoint picker counts the arrivals",
    )


def _samples(trace: Trace, usage: Trace | None, replica: ReplicaMetrics | None) -> Iterator[ThroughputSample]:
    for index, itl_s in enumerate(trace.series[Name.ITL]):
        at_s = trace.start_s + index * trace.step_s
        output, completed = _at(trace, Name.OUTPUT_TOKENS, at_s), _at(trace, Name.COMPLETIONS, at_s)
        yield ThroughputSample(
            pod=trace.pod,
            variant=trace.variant,
            at_s=at_s,
            kv_cache_usage=None if usage is None else _at(usage, Name.KV_CACHE_USAGE, at_s),
            itl_s=itl_s,
            tokens_per_s=None if output is None or completed is None else output * completed,
            input_tokens=_at(trace, Name.INPUT_TOKENS, at_s),
            output_tokens=output,
            prefix_hit_rate=None if replica is None else replica.prefix_hit_rate,
            kv_tokens=None if replica is None else replica.kv_tokens,
        )


def _at(trace: Trace, name: Name, at_s: float) -> float | None:
    """The value of the grid's last point up to then; None where it is not known."""
    values: Mapping[str, tuple[float, ...]] = trace.series
    index = math.floor((at_s - trace.start_s) / trace.step_s + 1e-6)
    known = values.get(name, ())
    return known[index] if 0 <= index < len(known) and not math.isnan(known[index]) else None
