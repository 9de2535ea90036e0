"""The row of one variant, the same in a terminal, a pull request and a commit."""

from collections.abc import Iterable, Iterator

from reconciler.domain.holds import Hold
from reconciler.domain.observed import Performance
from reconciler.domain.plan import RATE, Decision, Fullness, SloProjection, Verdict, VerdictKind
from reconciler.domain.records import dataclass
from reconciler.report.formatting import (
    UNKNOWN,
    Shift,
    apart,
    cost_change,
    duration,
    durations,
    one_line,
    quantity,
    shift,
)

MET, MISSED = "✅", "⚠️"
ROUNDING = 1e-6
MORE, FEWER, MOVED, SAME = "▲", "▼", "⇄", "•"
MARKS = {VerdictKind.NEEDS_APPROVAL: "✋", VerdictKind.CLAMP: "✂"}
QUANTITIES = {"itl": "ITL", "ttft": "TTFT", "wait": "wait"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SloRow:
    """What a change is judged by: `TTFT p95` or `full`, before and after, the limit, ✅ or ⚠ (empty: unknown).

    `value` is what is expected without and with the change. `measured` is the mean that Prometheus says now;
    `expected` a `statistic` (empty: the same); `without` what is expected if nothing changes, where that is too much.
    They are empty where they are not known, or say nothing.
    """

    target: str
    value: Shift
    limit: str
    mark: str
    name: str = ""
    measured: str = ""
    statistic: str = ""
    expected: str = ""
    without: str = ""

    @property
    def is_expected(self) -> bool:
        """Whether anything is known of what is expected."""
        return self.expected != UNKNOWN

    def __str__(self) -> str:
        return f"{self.target} {self.value} ({self.limit})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """One variant that changes; costs are bare numbers, their unit is said once for all rows.

    `is_bound`: the replicas are the lower bound of an autoscaler.
    """

    symbol: str
    mark: str
    variant: str
    is_bound: bool
    replicas: Shift
    accelerator: Shift
    load: str
    demand: str
    capacity: str
    unit: str
    slo: SloRow | None
    cost: str
    verdict: str

    @property
    def shows_load(self) -> bool:
        """Whether demand and capacity are known."""
        return UNKNOWN not in (self.demand, self.capacity)

    @property
    def count(self) -> str:
        """`3 → 5`, or `at least 3 → 5`."""
        return f"at least {self.replicas}" if self.is_bound else str(self.replicas)

    @property
    def allocation(self) -> str:
        """`3 → 5 H100`, or `7 A100 → 4 H100`."""
        if not self.accelerator.before:
            return f"{self.count} {self.accelerator}"
        before = f"{self.replicas.before or self.replicas.after} {self.accelerator.before}"
        return f"{before} → {self.replicas.after} {self.accelerator.after}"

    @property
    def coverage(self) -> str:
        """`46.2 → 53.0 req/s`: demand and the capacity that meets it."""
        return f"{self.demand} → {self.capacity} {self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRow:
    """Variants that stay as they are, or wait, for one reason; `kind` and `place` are of the first one's hold."""

    variants: tuple[str, ...]
    reason: str
    kind: str = ""
    place: str = ""


def change_row(decision: Decision, label: str, *, marked: bool = True, is_alone: bool = False) -> ChangeRow:
    """The row of one change of replicas or accelerators; `marked` puts the verdict's sign next to the name.

    `is_alone`: no other variant serves its model, so that the model's measured load is its own.
    """
    slo = decision.worst_slo
    return ChangeRow(
        symbol=symbol_of(decision),
        mark="".join(_marks(decision.verdict)) if marked else "",
        variant=label,
        is_bound=bool(decision.bounds_of),
        replicas=shift(str(decision.current.replicas), str(decision.desired.replicas)),
        accelerator=shift(_accelerator(decision.current.accelerator), _accelerator(decision.desired.accelerator)),
        load=_measured_load(decision, is_alone=is_alone),
        demand=quantity(decision.demand, decision.unit),
        capacity=quantity(decision.capacity_after, decision.unit),
        unit=decision.unit,
        slo=slo_row(slo, decision) if slo else fullness_row(decision.fullness),
        cost=cost_change(decision.cost_before_per_hour, decision.cost_after_per_hour),
        verdict=verdict_text(decision.verdict),
    )


def slo_row(slo: SloProjection, decision: Decision) -> SloRow:
    """The row of one target."""
    measured_s = measured(slo.name, decision.observed)
    return SloRow(
        target=slo_name(slo),
        value=durations(slo.before_s, slo.after_s),
        limit=duration(slo.target_s),
        mark={True: MET, False: MISSED, None: ""}[slo.is_met_after and not is_short(decision)],
        measured="" if measured_s is None else apart(measured_s, slo.target_s),
        name=QUANTITIES.get(slo.name, slo.name),
        statistic="" if slo.statistic == "mean" and measured_s is not None else slo.statistic,
        expected=apart(slo.after_s, slo.target_s),
        without=apart(slo.before_s, slo.target_s) if slo.is_met_before is False else "",
    )


def measured(name: str, observed: Performance | None) -> float | None:
    """The measured mean of a latency in seconds; None where it is unknown."""
    return None if observed is None else observed.mean_s(name)


def is_short(decision: Decision) -> bool:
    """Whether what is asked of a variant is more than its replicas carry after the change."""
    demand, capacity = decision.demand, decision.capacity_after
    return demand is not None and capacity is not None and demand > capacity * (1 + ROUNDING)


def _measured_load(decision: Decision, *, is_alone: bool) -> str:
    if not is_alone or decision.load is None or decision.unit != RATE:
        return ""
    return quantity(decision.load.arrival_rate_per_s, RATE)


def fullness_row(fullness: Fullness | None) -> SloRow | None:
    """How full replicas are, where no latency is promised; None where that is not known either."""
    if fullness is None or fullness.after is None:
        return None
    return SloRow(
        target="full",
        value=shift(_percent(fullness.before), _percent(fullness.after)),
        limit=_percent(fullness.limit),
        mark=MET if fullness.after <= fullness.limit else MISSED,
    )


def _percent(fraction: float | None) -> str:
    return UNKNOWN if fraction is None else f"{fraction * 100:.0f} %"


def slo_name(slo: SloProjection) -> str:
    """`TTFT p95`, `wait p95`, `ITL`: a mean is what people expect without a word."""
    name = QUANTITIES.get(slo.name, slo.name)
    return name if slo.statistic == "mean" else f"{name} {slo.statistic}"


def symbol_of(decision: Decision) -> str:
    """⇄ for another accelerator, ▲ for more replicas, ▼ for fewer."""
    if decision.is_accelerator_change:
        return MOVED
    difference = decision.desired.replicas - decision.current.replicas
    return MORE if difference > 0 else FEWER if difference < 0 else SAME


def _marks(verdict: Verdict) -> Iterator[str]:
    yield MARKS.get(verdict.kind, "")
    if verdict.approval and verdict.awaits_approval:
        yield MARKS[VerdictKind.NEEDS_APPROVAL]


def verdict_text(verdict: Verdict) -> str:
    """`needs approval: accelerator-change`; without a rule the kind alone."""
    words = f"{verdict.kind}: {verdict.rule}" if verdict.rule else str(verdict.kind)
    approval = (
        f"; {VerdictKind.NEEDS_APPROVAL}: {verdict.approval}" if verdict.approval and verdict.awaits_approval else ""
    )
    return one_line(f"{words}{approval}", limit=90)


def hold_rows(holds: Iterable[tuple[str, Hold | None]]) -> tuple[HoldRow, ...]:
    """Labels of variants by the reason of their hold, in the order in which the reasons first occur."""
    reasons: dict[str, list[tuple[str, Hold]]] = {}
    for label, hold in holds:
        if hold is not None:
            reasons.setdefault(one_line(hold.words), []).append((label, hold))
    return tuple(
        HoldRow(
            variants=tuple(label for label, _ in found),
            reason=reason,
            kind=str(found[0][1].kind),
            place="" if found[0][1].place is None else str(found[0][1].place),
        )
        for reason, found in reasons.items()
    )


def by_urgency(changes: Iterable[Decision]) -> tuple[Decision, ...]:
    """What matters most first: targets missed now or still missed afterwards, then moves; by money among these."""
    return tuple(sorted(changes, key=_urgency))


def _urgency(change: Decision) -> tuple[bool, bool, float]:
    before, after = change.cost_before_per_hour, change.cost_after_per_hour
    amount = abs(after - before) if before is not None and after is not None else 0.0
    return not misses(change), not change.is_accelerator_change, -amount


def misses(decision: Decision) -> bool:
    """Whether a target is missed, or replicas are too full, before or after the change."""
    is_late = any(slo.is_met_before is False or slo.is_met_after is False for slo in decision.slos)
    is_full = decision.fullness is not None and decision.fullness.is_overfull
    return is_late or is_full or is_measured_late(decision) or (lacks_now(decision) and _grows(decision))


def lacks_now(decision: Decision) -> bool:
    """Whether what is asked of a variant is more than its replicas carry before the change."""
    demand, capacity = decision.demand, decision.capacity_before
    return demand is not None and capacity is not None and demand > capacity * (1 + ROUNDING)


def is_measured_late(decision: Decision) -> bool:
    """Whether a measured mean is above a target already."""
    values = ((measured(slo.name, decision.observed), slo.target_s) for slo in decision.slos)
    return any(value is not None and value > target for value, target in values)


def _grows(decision: Decision) -> bool:
    return decision.desired.replicas > decision.current.replicas


def _accelerator(name: str) -> str:
    return one_line(name, limit=60) if name else UNKNOWN
