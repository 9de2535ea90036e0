"""What a service class asks under a queueing law: the same words mean other limits where prefill is modelled."""

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.domain.observed import Performance
from reconciler.domain.plan import SloProjection
from reconciler.domain.profiles import PREFILL_DECODE, SERIAL_PREFILL, ServiceClass, SloTarget
from reconciler.sizing.queueing_laws import tail_factor

LISTED_WAIT_PERCENTILE = 95.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LawTargets:
    """The limits of one class under one law.

    `is_prefill_known` is whether the law models prefill: without, a time to first token is nothing but the wait.
    """

    is_prefill_known: bool
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
    is_prefill_known = law in (PREFILL_DECODE, SERIAL_PREFILL)
    if is_prefill_known:
        listed = None if listed_s is None else SloTarget(limit_s=listed_s)
        waits, ttft = (service_class.wait,), service_class.ttft or listed
    else:
        listed = None if listed_s is None else SloTarget(limit_s=listed_s, percentile=LISTED_WAIT_PERCENTILE)
        waits, ttft = (service_class.wait, listed), service_class.ttft
    known = [target for target in waits if target is not None]
    return LawTargets(
        is_prefill_known=is_prefill_known,
        waits=tuple(known) if len(known) < 2 else tuple(dict.fromkeys(known)),
        ttft=ttft,
        itl=service_class.itl,
        tokens_per_s=service_class.throughput_tokens_per_s or 0.0,
    )


def slo_projections(
    targets: LawTargets, before: Performance | None, after: Performance | None
) -> tuple[SloProjection, ...]:
    """Each target beside what is expected, in the target's own statistic."""
    return tuple(
        SloProjection(
            name=name,
            statistic=target.statistic,
            target_s=target.limit_s,
            before_s=_expected(target, targets, before),
            after_s=_expected(target, targets, after),
        )
        for name, target in _named(targets)
    )


def _named(targets: LawTargets) -> Iterator[tuple[str, SloTarget]]:
    for target in targets.waits:
        yield "wait", target
    if targets.ttft is not None:
        yield "ttft" if targets.is_prefill_known else "wait", targets.ttft
    if targets.itl is not None:
        yield "itl", targets.itl


def _expected(target: SloTarget, targets: LawTargets, performance: Performance | None) -> float | None:
    """What is expected in the target's statistic; upstream's waits keep their tail, -ln(1 - p) times the mean."""
    if performance is None:
        return None
    if target is targets.itl:
        return performance.itl_s if target.percentile is None else performance.itl_percentile_s
    if target is targets.ttft:
        if target.percentile is not None:
            return performance.ttft_percentile_s
        return performance.ttft_s if targets.is_prefill_known else performance.wait_s
    return None if performance.wait_s is None else performance.wait_s * tail_factor(target.percentile)
