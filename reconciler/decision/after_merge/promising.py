"""What a proposed change promises: the forecast that its merge is held against later."""

import math

from reconciler.domain.measured.loads import Performance
from reconciler.domain.plan import Decision
from reconciler.domain.promises import Promise, PromisedLatency

DIGITS = 4
"""Of every number that is kept: what is left of them is noise, and differs from machine to machine."""


def promise_of(decision: Decision) -> Promise:
    """What is forecast of a change, with what was measured when it was."""
    load = decision.load
    return Promise(
        resource=str(decision.variant),
        unit=decision.unit,
        demand=_kept(decision.demand),
        capacity=_kept(decision.capacity_after),
        cost_per_hour=_kept(decision.cost_after_per_hour),
        arrival_rate_per_s=None if load is None else _kept(load.arrival_rate_per_s),
        input_tokens=None if load is None else _kept(load.input_tokens),
        output_tokens=None if load is None else _kept(load.output_tokens),
        latencies=tuple(
            PromisedLatency(
                name=slo.name,
                statistic=slo.statistic,
                target_s=slo.target_s,
                expected_s=_kept(slo.after_s),
                mean_s=_mean(slo.name, decision.expected),
                measured_s=_mean(slo.name, decision.observed),
            )
            for slo in decision.slos
        ),
        reverts=decision.reverts,
    )


def _mean(name: str, performance: Performance | None) -> float | None:
    return None if performance is None else _kept(performance.mean_s(name))


def _kept(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) or value < 0 else float(f"{value:.{DIGITS}g}")
