"""The solver for models that share no limit: each one alone, exactly."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reconciler.domain.allocations import Allocation
from reconciler.domain.identity import ResourceKey
from reconciler.domain.requirements import Candidate, CandidateKey, Problem, Requirement
from reconciler.domain.solutions import Shortfall, Solution, SolveStatus
from reconciler.optimizer.cover import VALUE_TOLERANCE, Choice, Cover, Rank, cheapest_cover
from reconciler.optimizer.lines import Line, line_of


class SeparableSolver:
    """Exact per model: the cheapest replicas over its variants' candidates that cover its demand."""

    name = "separable"

    def solve(self, problem: Problem) -> Solution:
        """An allocation of every variant that has a candidate, is pinned, or has a finished answer.

        A model whose bounds forbid covering its demand gets as much as they admit, and a shortfall that says so.
        """
        offers = _offers_by_variant(problem.candidates)
        tally = _Tally(allocations=dict(problem.pinned))
        for requirement in sorted(problem.requirements, key=lambda each: each.model):
            if requirement.fixed is not None:
                tally.take_fixed(problem, requirement.fixed)
            else:
                _solve_model(problem, requirement, offers, tally)
        return tally.solution()


@dataclass(slots=True)
class _Tally:
    """Collects the models' answers into one solution."""

    allocations: dict[ResourceKey, Allocation]
    reasons: dict[ResourceKey, str] = field(default_factory=dict)
    shortfalls: list[Shortfall] = field(default_factory=list)
    value: float = 0.0
    lower_bound: float = 0.0

    def take_fixed(self, problem: Problem, fixed: Mapping[ResourceKey, int]) -> None:
        for variant, replicas in sorted(fixed.items()):
            if variant not in problem.pinned:
                self.allocations[variant] = Allocation(
                    accelerator=problem.current[variant].accelerator, replicas=replicas
                )

    def take_cover(self, requirement: Requirement, cover: Cover, demand: float, considered: int) -> None:
        self.value += cover.value
        self.lower_bound += cover.lower_bound
        for choice in cover.choices:
            variant = choice.line.candidate.key.variant
            self.allocations[variant] = choice.line.at(choice.replicas)
            self.reasons[variant] = _words(choice, demand, considered, alone=len(cover.choices) == 1)
        if not cover.is_covering:
            self.shortfalls.append(_shortfall(requirement, cover, demand))

    def solution(self) -> Solution:
        is_optimal = self.value - self.lower_bound <= VALUE_TOLERANCE * max(abs(self.value), 1.0)
        return Solution(
            allocations=self.allocations,
            status=SolveStatus.OPTIMAL if is_optimal else SolveStatus.FEASIBLE,
            value=self.value,
            lower_bound=self.lower_bound,
            shortfalls=tuple(self.shortfalls),
            reasons=self.reasons,
        )


def _solve_model(
    problem: Problem,
    requirement: Requirement,
    offers: Mapping[ResourceKey, tuple[Candidate, ...]],
    tally: _Tally,
) -> None:
    variants = sorted({key.variant for key in requirement.per_replica})
    free = [variant for variant in variants if variant not in problem.pinned and variant in offers]
    if not free:
        return
    carried = sum(_carried_by_pinned(problem, requirement, variant) for variant in variants)
    demand = max(requirement.amount - carried, 0.0)
    lines = [_lines(problem, requirement, offers[variant]) for variant in free]
    cover = cheapest_cover(lines, demand, _rank_for(problem))
    tally.take_cover(requirement, cover, demand, considered=sum(len(each) for each in lines))


def _carried_by_pinned(problem: Problem, requirement: Requirement, variant: ResourceKey) -> float:
    pinned = problem.pinned.get(variant)
    if pinned is None:
        return 0.0
    key = CandidateKey(variant=variant, accelerator=pinned.accelerator)
    return requirement.per_replica.get(key, 0.0) * pinned.replicas


def _lines(problem: Problem, requirement: Requirement, candidates: Iterable[Candidate]) -> tuple[Line, ...]:
    """The candidates' lines; of an in-order variant only the first candidate's."""
    ranked = sorted(candidates, key=lambda candidate: (candidate.order, candidate.key))
    if ranked[0].key.variant in problem.in_order:
        ranked = ranked[:1]
    return tuple(
        line_of(
            problem,
            candidate,
            requirement.per_replica[candidate.key],
            problem.bounds[candidate.key.variant],
        )
        for candidate in ranked
    )


def _rank_for(problem: Problem) -> Rank:
    def rank(choice: Choice) -> tuple[int, ...]:
        """What changes least, then the smallest, then the resource's own order."""
        current = problem.current[choice.line.candidate.key.variant]
        allocation = choice.line.at(choice.replicas)
        return (
            int(allocation.accelerator != current.accelerator),
            int(allocation != current),
            choice.replicas,
            choice.line.candidate.order,
        )

    return rank


def _offers_by_variant(candidates: Iterable[Candidate]) -> dict[ResourceKey, tuple[Candidate, ...]]:
    offers: defaultdict[ResourceKey, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        offers[candidate.key.variant].append(candidate)
    return {variant: tuple(group) for variant, group in offers.items()}


def _words(choice: Choice, demand: float, considered: int, *, alone: bool) -> str:
    among = f"cheapest of {considered} candidates" if considered > 1 else "the only candidate"
    if not alone:
        return f"{among}, together with the model's other variants"
    if choice.replicas == choice.line.lowest:
        return f"{among}: the lower bound {choice.line.lowest} carries {demand:.4g} req/s"
    return f"{among}: ceil({demand:.4g} / {choice.line.per_replica:.4g})"


def _shortfall(requirement: Requirement, cover: Cover, demand: float) -> Shortfall:
    limits = ", ".join(
        f"maxReplicas {choice.line.highest} of {choice.line.candidate.key.variant.label}" for choice in cover.choices
    )
    return Shortfall(
        model=requirement.model,
        covered=sum(choice.carried for choice in cover.choices),
        wanted=demand,
        reason=f"{limits} carries less than the demand",
    )
