"""Sizing by metric targets: targets in, outcomes out, with checks of what was observed.

Formulas and defaults: rules/tracking.md.
"""

import math
from collections.abc import Iterator, Sequence

from reconciler.domain.metric_targets import LONGEST_WINDOW_S, Backend, Behavior, Rate
from reconciler.domain.plan import Step
from reconciler.domain.records import dataclass, replace
from reconciler.sizing.arrays import Floats
from reconciler.sizing.tracking_loads import (
    MOST_REPLICAS,
    Best,
    Target,
    TargetHistory,
    TrackingRule,
    distribute,
    is_share,
    keep_at_least,
    scaling_order,
)
from reconciler.sizing.tracking_replay import RolePair, Run, Tick, ratio_fault, read_clock, repair_pair, run_replay

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


def _faults_of_history(history: TargetHistory, ticks: int, backends: int) -> Iterator[str]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """What one metric asked for. `total` over all replicas and `replicas` are None where it was not read."""

    metric: str
    per_replica: float
    total: float | None
    replicas: int | None
    partial: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """The last tick of a replay: each value on the way from votes to `desired`, all in replicas of the whole target.

    `simulated` is the replay's own count before it, not the recorded one. `limit` None is no limit; it is the most
    that growing may reach, or the least that shrinking may. `down_past` and `up_past` are what the rates count from,
    `held_down` and `held_up` what the recommendation windows hold; None is an empty window.
    """

    simulated: int
    votes: tuple[Vote, ...]
    recommended: int
    panic: bool
    held_down: int | None
    held_up: int | None
    stabilized: int
    down_past: int | None
    up_past: int | None
    panic_past: int | None
    limit: int | None
    corrected: int
    idle_held: bool
    desired: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedOutcome:
    """What a rule decides for one target, by backend. `replicas` None holds everything as it is; `reasons` say why.

    `current` are the last recorded counts, None where unknown. `reasons` are also what slowed an answer that there
    is. `start` is the recorded count the replay began with, `covered_s` how long it ran without a gap and `needed_s`
    how long its windows need to forget the start. `depends_on_start` when they have not: always where a generation's
    windows refill themselves, else where beginning at the smallest or largest count would have ended elsewhere.
    """

    name: str
    rule: str
    replicas: tuple[int, ...] | None
    current: tuple[int, ...] | None
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()
    trail: Trail | None = None
    start: int | None = None
    covered_s: float = 0.0
    needed_s: float = 0.0
    depends_on_start: bool = False

    @property
    def total(self) -> int | None:
        """The replicas of all backends together, None where held."""
        return None if self.replicas is None else sum(self.replicas)

    def steps(self) -> tuple[Step, ...]:
        """Return the stages in the words that explain prints; those that changed nothing are left out."""
        if self.trail is None:
            return tuple(_step("hold", "", "", reason) for reason in self.reasons)
        trail = self.trail
        window, last = "panic" if trail.panic else "window", "idle timer" if trail.idle_held else "roles"
        held = trail.held_down if trail.stabilized > trail.recommended else trail.held_up
        stages = (
            _step(
                "metrics",
                trail.simulated,
                trail.recommended,
                ", ".join(
                    f"{vote.metric} {_text(vote.total)} at {vote.per_replica:g} a replica asks for "
                    f"{_text(vote.replicas)}"
                    for vote in trail.votes
                ),
            ),
            _step(
                window,
                trail.recommended,
                trail.stabilized,
                f"recommended {_text(held)} within the stabilization window",
            ),
            _step("rate", trail.stabilized, trail.corrected, _because_of_rate(trail)),
            _step(
                last,
                trail.corrected,
                trail.desired,
                "something arrived within the grace period" if trail.idle_held else "the ratio of the roles",
            ),
        )
        moved = tuple(step for step in stages if step.before != step.after)
        return (
            *moved,
            *(
                _step("hold", trail.desired, sum(self.replicas or self.current or ()), reason)
                for reason in self.reasons
            ),
        )


def _because_of_rate(trail: Trail) -> str:
    if trail.panic:
        return f"panic grows from {_text(trail.panic_past)} to {_text(trail.limit)} at most and never shrinks"
    shrinks = trail.stabilized < trail.simulated
    past = trail.down_past if shrinks else trail.up_past
    if trail.limit is None:
        return "bounds, or the count it has"
    return f"from {_text(past)} within the period to {trail.limit} at {'least' if shrinks else 'most'}"


def _step(stage: str, before: int | str, after: int | str, reason: str) -> Step:
    return Step(stage=stage, before=str(before), after=str(after), reason=reason)


def _text(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.10g}"


def trail_of(tick: Tick, run: Run, column: int, target: Target, replicas: int) -> Trail:
    """Return each value on the way from votes to the desired count, `replicas` being those that really run.

    The replay may have been at zero before something arrived; what really runs then waits for its grace period.
    """
    past, correction = tick.past, tick.correction
    waits = bool(tick.waiting[column]) and int(tick.replicas[column]) == 0 and replicas > 0
    return Trail(
        simulated=int(tick.current[column]),
        votes=_votes(tick, run, column, target),
        recommended=int(tick.recommendation.replicas[column]),
        panic=bool(tick.panic[column]),
        held_down=_known(past.max_recommendation, column),
        held_up=_known(past.min_recommendation, column),
        stabilized=int(correction.stabilized[column]),
        down_past=_known(past.down_corrected, column),
        up_past=_known(past.min_corrected_stable, column),
        panic_past=_known(past.min_corrected_panic, column),
        limit=int(correction.limit[column]) if correction.limited[column] else None,
        corrected=int(correction.corrected[column]),
        idle_held=bool(tick.idle_held[column]) or waits,
        desired=1 if waits else int(tick.replicas[column]),
    )


def _votes(tick: Tick, run: Run, column: int, target: Target) -> tuple[Vote, ...]:
    readings = run.loads.at(-1)
    present = readings.present
    asked: list[Vote] = []
    for row, metric in enumerate(target.policy.metrics):
        vote = float(tick.recommendation.votes[row, column])
        asked.append(
            Vote(
                metric=metric.name,
                per_replica=metric.per_replica,
                total=float(readings.total[row, column]) if present[row, column] else None,
                replicas=None if math.isnan(vote) else int(vote),
                partial=bool(readings.partial[row, column]),
            )
        )
    return tuple(asked)


def _known(best: Best, column: int) -> int | None:
    return int(best.value[column]) if best.known[column] else None


def track(
    targets: Sequence[Target], ticks_s: Floats, rule: TrackingRule, pairs: Sequence[RolePair] = ()
) -> tuple[TrackedOutcome, ...]:
    """Return what `rule` decides for each target at the last tick, in their order; bad input is a reason, no error.

    `ticks_s`, shape (ticks,), is the one clock of all histories, every 15 s for upstream's answer. `pairs` name
    targets by index. Where the history is short, or a metric was missing within the longest window, a target does not
    shrink below its recorded count, in any mode; the trail shows what the rule by itself would do.
    """
    faults = [find_faults(target, ticks_s.size) for target in targets]
    faults = _with_pair_faults(faults, pairs)
    sound = [index for index, found in enumerate(faults) if not found]
    place = {index: column for column, index in enumerate(sound)}
    paired = [
        replace(pair, numerator=place[pair.numerator], denominator=place[pair.denominator])
        for pair in pairs
        if pair.numerator in place and pair.denominator in place
    ]
    run = run_replay([targets[index] for index in sound], read_clock(ticks_s), rule, paired)
    return tuple(
        _decide(run, place[index], target, rule) if index in place else _held(target, rule, found)
        for index, (target, found) in enumerate(zip(targets, faults, strict=True))
    )


def _with_pair_faults(faults: list[tuple[str, ...]], pairs: Sequence[RolePair]) -> list[tuple[str, ...]]:
    """Return the faults with those of pairs added: a role whose other role cannot be decided is held, too."""
    found = list(faults)
    seen: set[int] = set()
    for pair in pairs:
        roles = {index for index in (pair.numerator, pair.denominator) if 0 <= index < len(faults)}
        fault = ratio_fault(pair.ratio) if pair.ratio is not None else ""
        if len(roles) < 2 or roles & seen:
            fault = "a ratio needs two different roles, each in one ratio only"
        elif not fault and any(faults[index] for index in roles):
            fault = "the other role of the ratio cannot be decided"
        for index in roles:
            found[index] = (*found[index], fault) if fault else found[index]
        seen |= roles
    return found


def _held(target: Target, rule: TrackingRule, reasons: Sequence[str]) -> TrackedOutcome:
    return TrackedOutcome(name=target.name, rule=rule.name, replicas=None, current=None, reasons=tuple(reasons))


def _decide(run: Run, column: int, target: Target, rule: TrackingRule) -> TrackedOutcome:
    current = run.recorded(column)
    count = int(run.loads.unusable[column])
    notes = (
        *run.clock_notes,
        *find_oddities(target),
        *(
            tuple(
                f"{metric.name} is averaged over backends, while its target is compared with a total: ask for its sum"
                for metric in target.policy.metrics
                if target.is_group and is_share(metric.name) and metric.name in target.history.external
            )
        ),
        *((f"{count} readings were negative or infinite and count as missing",) if count else ()),
        *_notes_of_start(run, column),
    )
    if current is None or run.last is None:
        return replace(_held(target, rule, ["how many replicas run was never recorded"]), notes=notes)
    trail = trail_of(run.last, run, column, target, sum(current))
    replicas, reasons = _answer(run, column, target, current, trail.desired)
    return TrackedOutcome(
        name=target.name,
        rule=rule.name,
        replicas=replicas,
        current=current,
        reasons=reasons,
        notes=notes,
        trail=None if run.last.skipped[column] else trail,
        start=int(run.start[column]),
        covered_s=run.covered_s(column),
        needed_s=target.policy.behavior.warm_up_s,
        depends_on_start=bool(run.depends_on_start[column]),
    )


def _answer(
    run: Run, column: int, target: Target, current: tuple[int, ...], desired: int
) -> tuple[tuple[int, ...] | None, tuple[str, ...]]:
    """Return the replicas, or None to hold them, and why; a count outside its bounds needs no metric to come back."""
    unknown = _unknown(run, column, target, sum(current))
    bounded = min(max(sum(current), target.minimum), target.maximum)
    if not unknown:
        # The split of `desired`, kept from shrinking where history is missing, and why.
        split = _split(target, desired)
        floor = [min(now, backend.max_replicas) for now, backend in zip(current, target.backends, strict=True)]
        behavior = target.policy.behavior
        needed_s = max(behavior.warm_up_s, target.grace_s if run.rule.waits_until_idle and desired == 0 else 0.0)
        reasons = run.doubts(column, behavior.longest_window_s, needed_s)
        if not reasons or all(wanted >= least for wanted, least in zip(split, floor, strict=True)):
            return split, ()
        return keep_at_least(split, floor), reasons
    return (_split(target, bounded) if bounded != sum(current) else None), unknown


def _unknown(run: Run, column: int, target: Target, replicas: int) -> tuple[str, ...]:
    """Return why nothing is known now, empty when something is."""
    if run.last is None or not run.last.skipped[column]:
        return _unmet_ratio(run, column)
    names = ", ".join(metric.name for metric in target.policy.metrics)
    if replicas == 0 and not set(target.history.external) & {metric.name for metric in target.policy.metrics}:
        return (f"at zero replicas no pod reports {names}: only a metric from elsewhere can wake it",)
    partner = any(column in (pair.numerator, pair.denominator) for pair in run.pairs)
    if partner and not run.last.recommendation.skipped[column]:
        return ("the other role has no metrics now, and roles move together",)
    return (f"no metric could be read now: {names}",)


def _unmet_ratio(run: Run, column: int) -> tuple[str, ...]:
    for pair in run.pairs:
        if run.last is not None and column in (pair.numerator, pair.denominator):
            corrected = run.last.correction.corrected
            counts = int(corrected[pair.numerator]), int(corrected[pair.denominator])
            reason = repair_pair(pair, run.course.aims, counts, run.rule).reason
            return (reason,) if reason else ()
    return ()


def _split(target: Target, total: int) -> tuple[int, ...]:
    # Up to 100 percent every batch is ranked by the cost of one replica: the same split, in one block a backend.
    order = scaling_order(target.backends, max(target.cost_expansion_percent, 100))
    return distribute(target.backends, order, min(total, MOST_REPLICAS))


def _notes_of_start(run: Run, column: int) -> tuple[str, ...]:
    if not run.course.remembers_start[column]:
        return ()
    start, rule = int(run.start[column]), run.rule.name
    return (f"begun with the {start} replicas recorded first: the windows of {rule} never forget them",)
