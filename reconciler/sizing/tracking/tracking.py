"""Targets in, outcomes out: a replay of what was observed, guarded against what was not."""

from collections.abc import Sequence
from dataclasses import replace

from reconciler.sizing.arrays import Floats
from reconciler.sizing.tracking.checks import find_faults, find_oddities
from reconciler.sizing.tracking.groups import distribute, is_share, keep_at_least, scaling_order
from reconciler.sizing.tracking.history import Target, TrackingRule
from reconciler.sizing.tracking.outcome import TrackedOutcome, trail_of
from reconciler.sizing.tracking.replay import RolePair, repair_pair
from reconciler.sizing.tracking.roles import ratio_fault
from reconciler.sizing.tracking.runs import Run, read_clock, run_replay
from reconciler.sizing.tracking.windows import MOST_REPLICAS


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
    notes = (
        *run.clock_notes,
        *find_oddities(target),
        *_notes_of_shares(target),
        *_notes_of_readings(run, column),
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
        return _guarded(run, column, target, current, desired)
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


def _guarded(
    run: Run, column: int, target: Target, current: tuple[int, ...], desired: int
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the split of `desired`, kept from shrinking where history is missing, and why."""
    split = _split(target, desired)
    floor = [min(now, backend.max_replicas) for now, backend in zip(current, target.backends, strict=True)]
    behavior = target.policy.behavior
    needed_s = max(behavior.warm_up_s, target.grace_s if run.rule.waits_until_idle and desired == 0 else 0.0)
    reasons = run.doubts(column, behavior.longest_window_s, needed_s)
    if not reasons or all(wanted >= least for wanted, least in zip(split, floor, strict=True)):
        return split, ()
    return keep_at_least(split, floor), reasons


def _split(target: Target, total: int) -> tuple[int, ...]:
    # Up to 100 percent every batch is ranked by the cost of one replica: the same split, in one block a backend.
    order = scaling_order(target.backends, max(target.cost_expansion_percent, 100))
    return distribute(target.backends, order, min(total, MOST_REPLICAS))


def _notes_of_shares(target: Target) -> tuple[str, ...]:
    return tuple(
        f"{metric.name} is averaged over backends, while its target is compared with a total: ask for its sum"
        for metric in target.policy.metrics
        if target.is_group and is_share(metric.name) and metric.name in target.history.external
    )


def _notes_of_readings(run: Run, column: int) -> tuple[str, ...]:
    count = int(run.loads.unusable[column])
    return (f"{count} readings were negative or infinite and count as missing",) if count else ()


def _notes_of_start(run: Run, column: int) -> tuple[str, ...]:
    if not run.course.remembers_start[column]:
        return ()
    start, rule = int(run.start[column]), run.rule.name
    return (f"begun with the {start} replicas recorded first: the windows of {rule} never forget them",)
