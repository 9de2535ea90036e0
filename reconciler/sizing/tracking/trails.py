"""The last tick of a run, read out for one target."""

import math

from reconciler.sizing.tracking.counts import NEVER_MS
from reconciler.sizing.tracking.history import Target
from reconciler.sizing.tracking.outcome import Trail, Vote
from reconciler.sizing.tracking.replay import Tick
from reconciler.sizing.tracking.runs import Run
from reconciler.sizing.tracking.windows import Best


def trail_of(tick: Tick, run: Run, column: int, target: Target, replicas: int) -> Trail:
    """Return each value on the way from votes to the desired count, `replicas` being those that really run.

    The replay may have been at zero before something arrived; what really runs then waits for its grace period.
    """
    past, correction = tick.past, tick.correction
    waits = bool(tick.waiting[column]) and int(tick.replicas[column]) == 0 and replicas > 0
    ends_ms = int(tick.panic_ends_ms[column])
    return Trail(
        simulated=int(tick.current[column]),
        votes=_votes(tick, run, column, target),
        recommended=int(tick.recommendation.replicas[column]),
        panic=bool(tick.panic[column]),
        panic_ends_s=None if ends_ms == NEVER_MS else ends_ms / 1000,
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
