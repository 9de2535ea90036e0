"""The answer for one target, with everything that led to it."""

import math
from dataclasses import dataclass

from reconciler.domain.plan import Step
from reconciler.sizing.tracking.history import Target
from reconciler.sizing.tracking.replay import Tick
from reconciler.sizing.tracking.runs import Run
from reconciler.sizing.tracking.windows import Best


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
        stages = (
            _step("metrics", trail.simulated, trail.recommended, _because_of_votes(trail)),
            _step(window, trail.recommended, trail.stabilized, _because_of_window(trail)),
            _step("rate", trail.stabilized, trail.corrected, _because_of_rate(trail)),
            _step(last, trail.corrected, trail.desired, _because_of_rest(trail)),
        )
        moved = tuple(step for step in stages if step.before != step.after)
        return (
            *moved,
            *(
                _step("hold", trail.desired, sum(self.replicas or self.current or ()), reason)
                for reason in self.reasons
            ),
        )


def _because_of_votes(trail: Trail) -> str:
    return ", ".join(
        f"{vote.metric} {_text(vote.total)} at {vote.per_replica:g} a replica asks for {_text(vote.replicas)}"
        for vote in trail.votes
    )


def _because_of_window(trail: Trail) -> str:
    held = trail.held_down if trail.stabilized > trail.recommended else trail.held_up
    return f"recommended {_text(held)} within the stabilization window"


def _because_of_rate(trail: Trail) -> str:
    if trail.panic:
        return f"panic grows from {_text(trail.panic_past)} to {_text(trail.limit)} at most and never shrinks"
    shrinks = trail.stabilized < trail.simulated
    past = trail.down_past if shrinks else trail.up_past
    if trail.limit is None:
        return "bounds, or the count it has"
    return f"from {_text(past)} within the period to {trail.limit} at {'least' if shrinks else 'most'}"


def _because_of_rest(trail: Trail) -> str:
    return "something arrived within the grace period" if trail.idle_held else "the ratio of the roles"


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
