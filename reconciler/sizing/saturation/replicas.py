"""What replicas report, and what of it can be believed."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.replicas import LARGEST_COUNT, ReplicaMetrics, UpstreamQueue

_FRACTIONS = frozenset({"kv_cache_usage", "prefix_hit_rate"})
_JUDGED = {"kv_cache_usage": "KV cache usage", "num_waiting": "waiting requests"}
_NAMES = ("pod", "variant", "instance", "reasons")
_QUANTITIES = tuple(each.name for each in fields(ReplicaMetrics) if each.name not in _NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """Replicas whose every number is a number, one each, sorted; `findings` says what was wrong with the rest."""

    replicas: tuple[ReplicaMetrics, ...]
    by_variant: Mapping[ResourceKey, tuple[ReplicaMetrics, ...]]
    findings: tuple[str, ...] = ()

    def of(self, variant: ResourceKey) -> tuple[ReplicaMetrics, ...]:
        """Those of one variant."""
        return self.by_variant.get(variant, ())

    def by_pod(self, variant: ResourceKey) -> Mapping[str, tuple[ReplicaMetrics, ...]]:
        """Those of one variant, the instances of each pod together, sorted by pod."""
        pods: defaultdict[str, list[ReplicaMetrics]] = defaultdict(list)
        for replica in self.of(variant):
            pods[replica.pod].append(replica)
        return {pod: tuple(instances) for pod, instances in sorted(pods.items())}

    def of_all(self, variants: Collection[ResourceKey]) -> tuple[ReplicaMetrics, ...]:
        """Those of several variants."""
        return tuple(replica for replica in self.replicas if replica.variant in variants)


def screen(replicas: Iterable[ReplicaMetrics], variants: Collection[ResourceKey]) -> Screened:
    """Return what can be believed of the replicas of these variants, whatever their order.

    A negative, infinite or NaN number becomes None with a reason. A pod that reports twice counts once, with the
    larger of each number; one that claims two variants, or an unknown one, counts for none.
    """
    findings: list[str] = []
    seen: defaultdict[tuple[str, str], list[ReplicaMetrics]] = defaultdict(list)
    for replica in replicas:
        seen[replica.pod, replica.instance].append(_cleaned(replica))
    kept = []
    for _, reports in sorted(seen.items()):
        claimed = sorted({report.variant for report in reports})
        if len(claimed) > 1:
            findings.append(f"{reports[0].label} reports for {len(claimed)} variants: it counts for none")
        elif claimed[0] not in variants:
            findings.append(f"{reports[0].label} belongs to no variant of this model")
        else:
            kept.append(_merged(reports))
            if len(reports) > 1:
                findings.append(f"{reports[0].label} reports {len(reports)} times: the larger numbers count")
    findings.extend(f"{replica.label}: {reason}" for replica in kept for _, reason in sorted(replica.reasons.items()))
    return Screened(replicas=tuple(kept), by_variant=_by_variant(kept), findings=tuple(findings))


def find_lacking(screened: Screened, variants: Iterable[ResourceKey]) -> dict[ResourceKey, str]:
    """In words, which of the two metrics that saturation is judged by no replica of a variant reports, and why.

    A variant of which no replica reports anything is not among them: that is another finding.
    """
    lacking: dict[ResourceKey, str] = {}
    for variant in variants:
        replicas = screened.of(variant)
        for name, words in _JUDGED.items():
            if replicas and all(getattr(each, name) is None for each in replicas):
                why = next((each.reasons[name] for each in replicas if name in each.reasons), "")
                lacking.setdefault(variant, f"no replica reports its {words}" + (f": {why}" if why else ""))
    return lacking


def number_fault(value: float, *, is_fraction: bool = False) -> str:
    """Return in words what is wrong with a measured number; empty when nothing is."""
    if not math.isfinite(value):
        return f"{value} is not a number"
    if value < 0:
        return f"{value:g} is negative"
    if is_fraction and value > 1:
        return f"{value:g} is not a fraction from 0 to 1"
    return f"{value:g} is too large to be counted" if value > LARGEST_COUNT else ""


def _by_variant(replicas: Iterable[ReplicaMetrics]) -> Mapping[ResourceKey, tuple[ReplicaMetrics, ...]]:
    grouped: defaultdict[ResourceKey, list[ReplicaMetrics]] = defaultdict(list)
    for replica in replicas:
        grouped[replica.variant].append(replica)
    return {variant: tuple(own) for variant, own in grouped.items()}


def _cleaned(replica: ReplicaMetrics) -> ReplicaMetrics:
    faults: dict[str, str] = {}
    for name in _QUANTITIES:
        value: float | None = getattr(replica, name)
        fault = "" if value is None else number_fault(value, is_fraction=name in _FRACTIONS)
        if fault:
            faults[name] = f"{name} {fault}"
    if not faults:
        return replica
    sound: dict[str, Any] = {name: None if name in faults else getattr(replica, name) for name in _QUANTITIES}
    return replace(replica, **sound, reasons={**replica.reasons, **faults})


def _merged(reports: list[ReplicaMetrics]) -> ReplicaMetrics:
    if len(reports) == 1:
        return reports[0]
    larger: dict[str, Any] = {name: _largest([getattr(report, name) for report in reports]) for name in _QUANTITIES}
    missing = {name for name, value in larger.items() if value is None}
    reasons = {name: why for report in reports for name, why in sorted(report.reasons.items()) if name in missing}
    return replace(reports[0], **larger, reasons=reasons)


def _largest(values: list[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def screen_queue(queue: UpstreamQueue) -> UpstreamQueue:
    """Return the same queue without the numbers that are none, with the reason."""
    numbers = {"queued requests": queue.num_waiting, "queued bytes": queue.waiting_bytes}
    said = ((name, number_fault(value)) for name, value in numbers.items() if value is not None)
    faults = tuple(f"{name}: {fault}" for name, fault in said if fault)
    if not faults:
        return queue
    sound = [
        value if value is not None and not number_fault(value) else None
        for value in (queue.num_waiting, queue.waiting_bytes)
    ]
    return UpstreamQueue(num_waiting=sound[0], waiting_bytes=sound[1], reason="; ".join(faults))
