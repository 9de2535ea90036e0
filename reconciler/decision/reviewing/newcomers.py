"""Variants that only a head has: nobody has measured them, so what is said holds for any load."""

from collections.abc import Iterable, Iterator, Sequence

from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.reported.review import AllocationRemark, Objection
from reconciler.domain.service_classes import SloTarget
from reconciler.domain.snapshot import Variant


def judge_newcomer(variant: Variant, known: Sequence[Variant]) -> AllocationRemark:
    """What is known of a new variant: its price, whose load it shares, and what its profile can keep."""
    profile = next((each.profile for each in variant.options if each.accelerator == variant.current.accelerator), None)
    target = variant.service_class.value.itl if variant.service_class is not None else None
    is_missed = profile is not None and target is not None and itl_s(profile, 1) > target.limit_s
    objection = Objection.SLO if is_missed else Objection.NONE
    price, target_key = variant.current_cost_per_hour, variant.workload.key if variant.workload is not None else None
    is_running = any(each.workload is not None and each.workload.key == target_key for each in known)
    cost = 0.0 if is_running else None if price is None else price * variant.current.replicas
    return AllocationRemark(
        variant=variant.key,
        before=None,
        after=variant.current,
        objection=Objection.HOLD if variant.hold is not None else objection,
        path=variant.place.path,
        line=variant.place.line,
        added_cost_per_hour=cost,
        facts=tuple(_facts(variant, known, profile, target)),
    )


def itl_s(profile: PerformanceProfile, batch: int) -> float:
    """The mean time between tokens of so many requests at once, prompts left out: no load is faster."""
    return profile.alpha_s + profile.beta_s * batch


def _facts(
    variant: Variant, known: Iterable[Variant], profile: PerformanceProfile | None, target: SloTarget | None
) -> Iterator[str]:
    if variant.hold is not None:
        yield f"it is held: {variant.hold.words}"
    beside = sorted(each.key.label for each in known if each.model == variant.model)
    if beside:
        yield f"it shares the load of {beside[0]}" + (f" and {len(beside) - 1} more" if beside[1:] else "")
    else:
        yield "nobody knows its load before it runs"
    if profile is None or target is None:
        return
    limit = f"its target of {1000 * target.limit_s:g} ms between tokens"
    if itl_s(profile, 1) > target.limit_s:
        yield f"by its profile a single request takes {1000 * itl_s(profile, 1):.3g} ms a token: it never keeps {limit}"
    elif itl_s(profile, profile.max_batch_size) <= target.limit_s:
        yield f"by its profile a full replica ({profile.max_batch_size} requests at once) keeps {limit}"
    else:
        most = int((target.limit_s - profile.alpha_s) / profile.beta_s)
        yield f"by its profile a replica keeps {limit} up to {most} requests at once"
