"""How long the optimizer takes over whole fleets, and how good its plans are; `measure` asserts nothing.

Every instance is solved once in a process of its own, imports and warm-up excluded. `python -m tests.bench.optimizer
'{"models": 300, "pools_at": 0.7, "seed": 2}'` solves one and prints what came of it as JSON. Seconds of the processor
stand beside: a busy machine stretches those on the clock far more.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import TypeVar

from reconciler.decision.decide import SOLVERS
from reconciler.domain.requirements import Problem, Requirement, Solution
from reconciler.optimizer.formulation import formulate
from reconciler.optimizer.planning import FleetPlan, covered_by, plan_by_columns, plan_greedily
from reconciler.pipeline.process import paused_collector
from tests.bench.problems import Instance, draw
from tests.bench.processes import run_python
from tests.bench.table import Cell, table

SEEDS = (1, 2, 3)
AUTO, DIRECT = "auto", "milp"
WARM_UP = Instance(models=5, pools_at=0.7)
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Instances of one kind, solved by one solver."""

    instance: Instance
    seeds: tuple[int, ...] = SEEDS
    solver: str = AUTO

    @property
    def name(self) -> str:
        return f"{self.instance}" if self.solver == AUTO else f"{self.instance}, {self.solver}"


CASES = (
    Case(instance=Instance(models=1_000, pools_at=1.5)),
    Case(instance=Instance(models=10_000, pools_at=1.5)),
    Case(instance=Instance(models=1_000, pools_at=1.5, budgets_at=0.95)),
    Case(instance=Instance(models=1_000, pools_at=0.85)),
    Case(instance=Instance(models=1_000, pools_at=0.7)),
    Case(instance=Instance(models=300, pools_at=0.7)),
    Case(instance=Instance(models=100, pools_at=0.7)),
    Case(instance=Instance(models=10_000, pools_at=0.7)),
    Case(instance=Instance(models=100, pools_at=0.7, is_priced=False)),
    Case(instance=Instance(models=300, pools_at=0.7, is_priced=False)),
    Case(instance=Instance(models=1_000, pools_at=0.7, is_priced=False)),
    Case(instance=Instance(models=30, pools_at=0.7)),
    Case(instance=Instance(models=30, pools_at=0.7, is_routed=True)),
    Case(instance=Instance(models=30, pools_at=0.7, is_priced=False)),
    Case(instance=Instance(models=30, pools_at=0.85, is_priced=False)),
    Case(instance=Instance(models=30, pools_at=0.7, is_priced=False, times=100.0)),
    Case(instance=Instance(models=30, pools_at=0.85, is_priced=False, times=100.0)),
    Case(instance=Instance(models=30, pools_at=0.7, is_priced=False, is_routed=True)),
    Case(instance=Instance(models=30, pools_at=0.85, is_priced=False, is_routed=True)),
    Case(instance=Instance(models=30, pools_at=0.7, is_priced=False, is_routed=True, times=100.0)),
    Case(instance=Instance(models=300, pools_at=0.7, is_priced=False, is_routed=True)),
    Case(instance=Instance(models=1_000, pools_at=1.5, is_routed=True)),
    Case(instance=Instance(models=100, pools_at=0.7), seeds=(1,), solver=DIRECT),
    Case(instance=Instance(models=300, pools_at=0.7), seeds=(1,), solver=DIRECT),
    Case(instance=Instance(models=1_000, pools_at=1.5), seeds=(1,), solver=DIRECT),
    Case(instance=Instance(models=100, pools_at=0.7, is_priced=False), seeds=(1,), solver=DIRECT),
)
FEW_CASES = (
    Case(instance=Instance(models=1_000, pools_at=1.5)),
    Case(instance=Instance(models=1_000, pools_at=0.7)),
    Case(instance=Instance(models=100, pools_at=0.7)),
    Case(instance=Instance(models=300, pools_at=0.7, is_priced=False), seeds=(1,)),
    Case(instance=Instance(models=100, pools_at=0.7), seeds=(1,), solver=DIRECT),
)
"""What is measured without being asked for more: half a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """One instance and what came of it; `covered` and `greedy_covered` are shares of the demand, by rising priority.

    `plan_s` is what it takes to a plan and its proof, from the arrays on, None where no plan covers everything; the
    rest of `solve_s` is the check of the plan and what is shown beside it. `value` is money an hour, with what starts
    cost and demand that is not met; `greedy_value` None: the usual rule finds no plan that keeps all rows.
    """

    seed: int
    models: int
    variants: int
    pools: int
    budgets: int
    rows: int
    binding: int
    formulate_s: float
    plan_s: float | None
    solve_s: float
    solve_processor_s: float
    greedy_s: float
    value: float
    bound: float
    gap: float
    greedy_value: float | None
    short: int
    covered: tuple[float, ...]
    greedy_covered: tuple[float, ...] | None
    load: float
    peak_mib: float = 0.0

    @property
    def greedy_over(self) -> float | None:
        """What the usual rule costs beyond the plan, as a fraction of the plan."""
        return None if self.greedy_value is None else self.greedy_value / self.value - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """All seeds of a case."""

    name: str
    is_priced: bool
    solved: tuple[Solved, ...]


def measure(cases: Sequence[Case] = CASES) -> list[Measured]:
    """Solve all instances; the largest takes minutes."""
    return [measure_case(case) for case in cases]


def measure_case(case: Case) -> Measured:
    """Solve the instances of a case."""
    return Measured(
        name=case.name,
        is_priced=case.instance.is_priced,
        solved=tuple(_run(replace(case.instance, seed=seed), case.solver) for seed in case.seeds),
    )


def summary_of(measured: Measured) -> dict[str, float]:
    """The slowest seed, the widest gap, and what the usual rule costs beyond the plan where it finds one."""
    solved = measured.solved
    overs = [each.greedy_over for each in solved if each.greedy_over is not None]
    usual = {"usual rule, %": round(100 * median(overs), 1)} if overs and measured.is_priced else {}
    slowest_s = max(each.solve_processor_s for each in solved)
    return {"slowest, s": round(slowest_s, 3), "gap, %": round(100 * max(each.gap for each in solved), 4), **usual}


def _run(instance: Instance, solver: str) -> Solved:
    spent = run_python("tests.bench.optimizer", json.dumps(asdict(instance)), solver)
    answer = json.loads(spent.output.splitlines()[-1])  # HiGHS prints lines of its own on some programmes
    return Solved(**{**answer, "peak_mib": spent.peak_mib})


def solve(instance: Instance, solver: str) -> Solved:
    """One instance, in this process; the collector is off, as in a run."""
    problem = draw(instance)
    SOLVERS[solver].solve(draw(WARM_UP))
    with paused_collector():
        return _solve(problem, solver, instance.seed)


def _solve(problem: Problem, solver: str, seed: int) -> Solved:
    load = os.getloadavg()[0]
    formulation, formulate_s, _ = _timed(lambda: formulate(problem))
    planned, plan_s, _ = _timed(lambda: plan_by_columns(formulation))
    solution, solve_s, solve_processor_s = _timed(lambda: SOLVERS[solver].solve(problem))
    greedy, greedy_s, _ = _timed(lambda: plan_greedily(formulation))
    carried = [_carried(requirement, solution) for requirement in problem.requirements]
    greedily = None if greedy is None else covered_by(formulation, greedy).tolist()
    return Solved(
        seed=seed,
        models=len(problem.requirements),
        variants=len(problem.candidates),
        pools=len(problem.pools),
        budgets=len(problem.budgets),
        rows=len(formulation.shared),
        binding=sum((each.price or 0.0) > 0 for each in solution.shared),
        formulate_s=formulate_s,
        plan_s=plan_s if isinstance(planned, FleetPlan) else None,
        solve_s=solve_s,
        solve_processor_s=solve_processor_s,
        greedy_s=greedy_s,
        value=solution.value,
        bound=solution.lower_bound,
        gap=solution.gap,
        greedy_value=solution.greedy_value,
        short=len(solution.shortfalls),
        covered=_by_priority(problem.requirements, carried),
        greedy_covered=None if greedily is None else _by_priority(formulation.rows.requirements, greedily),
        load=load,
    )


def _timed(act: Callable[[], Made]) -> tuple[Made, float, float]:
    """What came of it, seconds on the clock and of the processor."""
    started, processor = time.perf_counter(), time.process_time()
    made = act()
    return made, time.perf_counter() - started, time.process_time() - processor


def _carried(requirement: Requirement, solution: Solution) -> float:
    return sum(
        each * solution.allocations[key.variant].replicas
        for key, each in requirement.per_replica.items()
        if solution.allocations[key.variant].accelerator == key.accelerator
    )


def _by_priority(requirements: Sequence[Requirement], carried: Sequence[float]) -> tuple[float, ...]:
    """The covered share of the demand of each priority, from the lowest."""
    wanted: dict[int, float] = {}
    covered: dict[int, float] = {}
    for requirement, each in zip(requirements, carried, strict=True):
        rank = requirement.priority
        wanted[rank] = wanted.get(rank, 0.0) + requirement.amount
        covered[rank] = covered.get(rank, 0.0) + min(each, requirement.amount)
    return tuple(covered[rank] / wanted[rank] for rank in sorted(wanted))


def sections(measured: Sequence[Measured]) -> Iterator[str]:
    """What is printed: all instances, then the median and the worst of each kind."""
    both = [(each, solved) for each in measured for solved in each.solved]
    yield "Fleets: models, and pools in shares of the need; seconds\n" + table(
        (
            *("", "seed", "variants", "pools", "budgets", "shared rows", "that bind"),
            *("formulate", "plan", "seconds in all", "of the processor", "MiB", "load"),
        ),
        [(each.name, *_costs(solved)) for each, solved in both],
    )
    yield "Their plans: money an hour, with what starts cost and demand that is not met\n" + table(
        (
            *("", "seed", "plan", "proven bound", "gap, %", "greedy", "over the plan, %", "its seconds"),
            *("models short", "covered by rising class, %", "by the greedy rule, %"),
        ),
        [(each.name, *_gains(solved, is_priced=each.is_priced)) for each, solved in both],
    )
    yield "Fleets in one row: median and worst of the seeds\n" + table(
        ("", "seeds", "seconds", "worst", "of the processor", "worst", "gap, %", "worst", "greedy over, %", "worst"),
        [_in_one_row(each) for each in measured],
    )


def _costs(solved: Solved) -> tuple[Cell, ...]:
    return (
        *(solved.seed, solved.variants, solved.pools, solved.budgets, solved.rows, solved.binding),
        *(solved.formulate_s, "-" if solved.plan_s is None else solved.plan_s),
        *(solved.solve_s, solved.solve_processor_s, round(solved.peak_mib), f"{solved.load:.1f}"),
    )


def _gains(solved: Solved, *, is_priced: bool) -> tuple[Cell, ...]:
    return (
        *(solved.seed, f"{solved.value:,.1f}", f"{solved.bound:,.1f}", f"{solved.gap:.4%}".rstrip("%")),
        "none" if solved.greedy_value is None else f"{solved.greedy_value:,.1f}",
        _over([solved], max) if is_priced else "-",  # covers something else, so its cost says nothing
        *(solved.greedy_s, solved.short, _percents(solved.covered), _percents(solved.greedy_covered or ())),
    )


def _in_one_row(measured: Measured) -> tuple[Cell, ...]:
    solved = measured.solved

    def both(number: Callable[[Solved], float]) -> tuple[float, float]:
        numbers = [number(each) for each in solved]
        return median(numbers), max(numbers)

    return (
        *(measured.name, len(solved)),
        *both(lambda each: each.solve_s),
        *both(lambda each: each.solve_processor_s),
        *both(lambda each: 100 * each.gap),
        *((_over(solved, median), _over(solved, max)) if measured.is_priced else ("-", "-")),
    )


def _over(solved: Sequence[Solved], choose: Callable[[list[float]], float]) -> str:
    overs = [each.greedy_over for each in solved if each.greedy_over is not None]
    return f"{100 * choose(overs):.1f}" if overs else "none"


def _percents(shares: Sequence[float]) -> str:
    return " / ".join(f"{100 * share:.1f}" for share in shares) or "none"


def main(arguments: Sequence[str]) -> None:
    """Measure all, or the one instance that is named."""
    if not arguments:
        print("\n\n".join(sections(measure())))
        return
    named: Mapping[str, object] = json.loads(arguments[0])
    solver = arguments[1] if len(arguments) > 1 else AUTO
    print(json.dumps(asdict(solve(Instance(**named), solver))))  # type: ignore[arg-type] # typed by whoever asks


if __name__ == "__main__":
    main(sys.argv[1:])
