"""What makes a target unusable: each fault in the words that tell a person what to change."""

import math
from collections.abc import Iterator

from reconciler.domain.metric_targets import LONGEST_WINDOW_S, Backend, Behavior, Rate
from reconciler.sizing.arrays import Floats
from reconciler.sizing.tracking.history import History, Target

# The limits of the resource's own schema and webhook.
_MOST_REPLICAS = 1_000_000
_MOST_PERCENT = 1_000
_MOST_WHOLE = 2**31 - 1


def find_faults(target: Target, ticks: int) -> tuple[str, ...]:
    """Return why nothing can be decided for a target whose history should have that many ticks; empty when it can."""
    return (
        *_faults_of_metrics(target),
        *_outside("tolerance percent", target.policy.tolerance_percent, 100),
        *_faults_of_behavior(target.policy.behavior),
        *_faults_of_backends(target),
        *_faults_of_history(target.history, ticks, len(target.backends)),
    )


def find_oddities(target: Target) -> tuple[str, ...]:
    """Return what is allowed and yet will not do what its author wants."""
    return tuple(_oddities(target.policy.behavior))


def _faults_of_metrics(target: Target) -> Iterator[str]:
    metrics = target.policy.metrics
    if not metrics and not target.is_fixed:
        yield "the policy names no metric"
    names = [metric.name for metric in metrics]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"metric {name} is named twice"
    for metric in metrics:
        if not (math.isfinite(metric.per_replica) and metric.per_replica > 0):
            yield f"metric {metric.name}: the target must be above 0 and finite, got {metric.per_replica}"


def _faults_of_behavior(behavior: Behavior) -> Iterator[str]:
    yield from _faults_of_rate("scale down", behavior.down)
    yield from _faults_of_rate("scale up", behavior.up)
    panic = behavior.panic
    yield from _outside("panic percent", panic.percent, _MOST_PERCENT)
    yield from _outside("panic period", panic.period_s, LONGEST_WINDOW_S)
    yield from _outside("panic hold", panic.hold_s, LONGEST_WINDOW_S)
    yield from _outside("panic threshold percent", panic.threshold_percent or 0, _MOST_PERCENT)


def _faults_of_rate(where: str, rate: Rate) -> Iterator[str]:
    yield from _outside(f"{where} instances", rate.instances, _MOST_WHOLE)
    yield from _outside(f"{where} percent", rate.percent, _MOST_PERCENT)
    yield from _outside(f"{where} period", rate.period_s, LONGEST_WINDOW_S)
    yield from _outside(f"{where} stabilization window", rate.stabilization_s, LONGEST_WINDOW_S)


def _faults_of_backends(target: Target) -> Iterator[str]:
    if not target.backends:
        yield "there is nothing to scale"
    for backend in target.backends:
        yield from _faults_of_backend(backend)
    yield from _outside("cost expansion percent", target.cost_expansion_percent, _MOST_WHOLE)


def _faults_of_backend(backend: Backend) -> Iterator[str]:
    yield from _outside(f"{backend.name}: min replicas", backend.min_replicas, _MOST_REPLICAS)
    yield from _outside(f"{backend.name}: max replicas", backend.max_replicas, _MOST_REPLICAS, least=1)
    yield from _outside(f"{backend.name}: cost", backend.cost, _MOST_WHOLE)
    yield from _outside(
        f"{backend.name}: scale to zero grace period", backend.scale_to_zero_grace_s or 0, LONGEST_WINDOW_S
    )
    if backend.min_replicas > backend.max_replicas:
        yield f"{backend.name}: min replicas {backend.min_replicas} is above max replicas {backend.max_replicas}"


def _faults_of_history(history: History, ticks: int, backends: int) -> Iterator[str]:
    series: dict[str, Floats] = {"replicas": history.replicas, "unready": history.unready}
    for name, pods in history.pods.items():
        series |= {name: pods.total, f"{name} (reporting)": pods.reporting, f"{name} (missing)": pods.missing}
    series |= {f"{name} (external)": values for name, values in history.external.items()}
    for name, values in series.items():
        if values.shape != (ticks, backends):
            yield f"history of {name} has shape {values.shape}, expected {(ticks, backends)}"
    arrivals = history.arrivals_per_s
    if arrivals is not None and arrivals.shape != (ticks,):
        yield f"history of arrivals has shape {arrivals.shape}, expected {(ticks,)}"


def _outside(what: str, value: float, most: float, least: float = 0) -> Iterator[str]:
    if not least <= value <= most:  # also true of NaN
        yield f"{what} must be from {least:g} to {most:g}, got {value:g}"


def _oddities(behavior: Behavior) -> Iterator[str]:
    for where, rate in (("scale down", behavior.down), ("scale up", behavior.up)):
        if rate.select.value == "And" and rate.period_s > 0:
            if min(rate.instances, rate.percent) == 0:
                yield f"{where} can never move: And takes the tighter of {rate.instances} and {rate.percent} %"
            elif rate.percent < 100:
                stalls = math.ceil(100 / rate.percent)
                yield f"{where} does not move below {stalls} replicas: {rate.percent} % of fewer is less than one"
    if behavior.panic.hold_s > 0 and behavior.panic.threshold_percent is None:
        yield "panic is never entered: no threshold"
    if behavior.warm_up_s > LONGEST_WINDOW_S * 2:
        yield f"windows and panic hold need {behavior.warm_up_s:g} s of history"
