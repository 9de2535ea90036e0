"""What a service class asks under a queueing law: the same words mean other limits where prefill is modelled."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from reconciler.domain.allocations import Performance
from reconciler.domain.plan import SloProjection
from reconciler.domain.service_classes import ServiceClass, SloTarget
from reconciler.sizing.queueing import tail_factor

PREFILL_DECODE = "prefill_decode"
LISTED_WAIT_PERCENTILE = 95.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LawTargets:
    """The limits of one class under one law; `ttft` is None under a law that knows no prefill."""

    waits: tuple[SloTarget, ...]
    ttft: SloTarget | None
    itl: SloTarget | None
    tokens_per_s: float


def targets_under(law: str, service_class: ServiceClass) -> LawTargets:
    """The class's targets as `law` can keep them.

    Without prefill a time to first token is limited as far as it is waiting. Upstream's `slo-ttft` is the 95th
    percentile of the wait there, and the mean time to first token where prefill is modelled (inferno.md 2.2, 2.5).
    """
    listed_s = service_class.listed_ttft_s
    waits: tuple[SloTarget | None, ...]
    if law == PREFILL_DECODE:
        listed = None if listed_s is None else SloTarget(limit_s=listed_s)
        waits, ttft = (service_class.wait,), service_class.ttft or listed
    else:
        listed = None if listed_s is None else SloTarget(limit_s=listed_s, percentile=LISTED_WAIT_PERCENTILE)
        waits, ttft = (service_class.wait, service_class.ttft, listed), None
    return LawTargets(
        waits=_distinct(waits),
        ttft=ttft,
        itl=service_class.itl,
        tokens_per_s=service_class.throughput_tokens_per_s or 0.0,
    )


def _distinct(targets: Iterable[SloTarget | None]) -> tuple[SloTarget, ...]:
    known = [target for target in targets if target is not None]
    return tuple(known) if len(known) < 2 else tuple(dict.fromkeys(known))


def slo_projections(
    targets: LawTargets, before: Performance | None, after: Performance | None
) -> tuple[SloProjection, ...]:
    """Each target beside what is expected, in the target's own statistic."""
    return tuple(
        SloProjection(
            name=name,
            statistic=target.statistic,
            target_s=target.limit_s,
            before_s=_expected(name, target, before),
            after_s=_expected(name, target, after),
        )
        for name, target in _named(targets)
    )


def _named(targets: LawTargets) -> Iterator[tuple[str, SloTarget]]:
    for target in targets.waits:
        yield "wait", target
    if targets.ttft is not None:
        yield "ttft", targets.ttft
    if targets.itl is not None:
        yield "itl", targets.itl


def _expected(name: str, target: SloTarget, performance: Performance | None) -> float | None:
    """The expected mean as the target's percentile, by the exponential tail of the wait it was converted with."""
    if performance is None:
        return None
    if name == "itl":
        return performance.itl_s
    wait_s, ttft_s = performance.wait_s, performance.ttft_s
    if wait_s is None or (name == "ttft" and ttft_s is None):
        return None
    tail_s = wait_s * tail_factor(target.percentile)
    if name == "wait" or math.isinf(wait_s):
        return tail_s
    return tail_s + (ttft_s or 0.0) - wait_s
