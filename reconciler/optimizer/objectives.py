"""What an objective makes of a candidate: a value that is linear in the replica count."""

from dataclasses import dataclass

from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Bounds, Candidate, Problem

# What leaving an accelerator costs, as a share of the cost before and after (published inferno, version 1).
_ACCELERATOR_PENALTY = 0.1


def transition_value(
    *,
    current_accelerator: str,
    current_replicas: int,
    current_cost_per_hour: float,
    accelerator: str,
    replicas: int,
    cost_per_hour: float,
) -> float:
    """Return the objective `inferno` of going from the current allocation to a candidate: less is better.

    It is the difference in cost per hour, plus a tenth of both costs when the accelerator changes; a variant that was
    never allocated has the current accelerator `""`, no replicas and no cost. A difference ranks the candidates of one
    variant, it is not a total.
    """
    if accelerator == current_accelerator and replicas == current_replicas:
        return 0.0
    difference = cost_per_hour - current_cost_per_hour
    if accelerator == current_accelerator:
        return difference
    return _ACCELERATOR_PENALTY * (current_cost_per_hour + cost_per_hour) + difference


def transition_line(
    *, current_accelerator: str, current_cost_per_hour: float, accelerator: str, replica_cost_per_hour: float
) -> tuple[float, float]:
    """Return fixed value and slope of `transition_value` over the candidate's replicas.

    Exact wherever something changes; staying put is on the line as well as long as a replica costs what it did.
    """
    penalty = 0.0 if accelerator == current_accelerator else _ACCELERATOR_PENALTY
    return (penalty - 1) * current_cost_per_hour, (penalty + 1) * replica_cost_per_hour


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueLine:
    """A candidate as the search sees it: value = fixed + slope * replicas, for lowest <= replicas <= highest.

    What changes costs besides: `start` for each replica more than runs now, `touch` for any change at all.
    `per_replica` is what a replica carries, in the requirement's unit; `highest` None is unbounded.
    """

    candidate: Candidate
    fixed: float
    slope: float
    per_replica: float
    lowest: int
    highest: int | None
    standing: int | None = None
    """Replicas that run on this accelerator now; None where the variant runs on another."""
    unchanged: int | None = None
    """The count that changes nothing about the variant: what stands here, or none where nothing runs at all."""
    start: float = 0.0
    touch: float = 0.0

    def value_at(self, replicas: int) -> float:
        """The objective's value of that many replicas."""
        started = max(replicas - (self.standing or 0), 0)
        touch = 0.0 if replicas == self.unchanged else self.touch
        return self.running_at(replicas) + self.start * started + touch

    def running_at(self, replicas: int) -> float:
        """The part of the value that grows with every replica: what changes cost is above it."""
        return self.fixed + self.slope * replicas

    def clamp(self, replicas: int) -> int:
        """The count within the bounds that is nearest to `replicas`."""
        least = max(replicas, self.lowest)
        return least if self.highest is None else min(least, self.highest)

    def at(self, replicas: int) -> Allocation:
        """The allocation of that many replicas."""
        return Allocation(accelerator=self.candidate.key.accelerator, replicas=replicas)


def line_of(problem: Problem, candidate: Candidate, per_replica: float, bounds: Bounds) -> ValueLine:
    """The candidate's line under the problem's objective.

    `cost`: what the replicas cost to run. `inferno`: the transition value, linear in the replicas of one accelerator.
    """
    fixed, slope = 0.0, candidate.weight
    variant = candidate.key.variant
    current = problem.current[variant]
    if problem.objective == "inferno":
        fixed, slope = transition_line(
            current_accelerator=current.accelerator,
            current_cost_per_hour=current.replicas * problem.current_weights.get(variant, 0.0),
            accelerator=candidate.key.accelerator,
            replica_cost_per_hour=candidate.weight,
        )
    is_here = current.accelerator == candidate.key.accelerator
    return ValueLine(
        candidate=candidate,
        fixed=fixed,
        slope=slope,
        per_replica=per_replica,
        lowest=bounds.minimum,
        highest=bounds.maximum,
        standing=current.replicas if is_here else None,
        unchanged=current.replicas if is_here or not current.replicas else None,
        start=0.0 if problem.objective == "inferno" else candidate.start_weight,
        touch=0.0 if problem.objective == "inferno" else problem.touch_weights.get(variant, 0.0),
    )
