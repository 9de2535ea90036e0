"""What upstream's second cycle is told beside what saturation is: its analyzers, and what one of them would sample."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields

from reconciler.domain.measured.loads import Load
from reconciler.domain.measured.replicas import ReplicaMetrics, Trace
from reconciler.domain.saturation_rules import SaturationRules
from reconciler.domain.snapshot import Snapshot
from reconciler.metrics.quantities import Name
from reconciler.sizing.saturation.answer import ModelReadings
from reconciler.sizing.wva.latency_windows import ThroughputSample
from reconciler.sizing.wva.throughput import ThroughputReadings
from reconciler.sizing.wva.votes import UpstreamReadings

THROUGHPUT = "throughput"


def wants_throughput(rules: SaturationRules) -> bool:
    """Whether upstream's throughput analyzer has a vote."""
    return any(each.name == THROUGHPUT and each.is_enabled for each in rules.analyzers)


def read_upstream(snapshot: Snapshot, readings: ModelReadings) -> UpstreamReadings:
    """The readings with the analyzers of the model's ConfigMap, and samples where `throughput` has a vote."""
    rules = snapshot.saturation.get(readings.model, SaturationRules())
    return UpstreamReadings(
        **{each.name: getattr(readings, each.name) for each in fields(readings)},
        analyzers=rules.analyzers,
        throughput=_throughput(snapshot, readings) if wants_throughput(rules) else None,
    )


def _throughput(snapshot: Snapshot, readings: ModelReadings) -> ThroughputReadings:
    """The last hour as upstream's analyzer would have sampled it; arrivals count only if something counts them."""
    load = snapshot.observed.loads.get(readings.model)
    is_counted_upstream = isinstance(load, Load) and not load.is_by_replicas
    now = {replica.pod: replica for replica in readings.replicas}
    traces = [trace for variant in readings.variants for trace in snapshot.observed.traces.get(variant.key, ())]
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
