"""The solvers by name.

`auto` decides each model alone where that fits into what they share (`separable`, exact), else all together by prices
(`columns`); `milp` is one program over all; `inferno-weighted` and `inferno-priority` reproduce what inferno decided
where devices are scarce, `inferno-optimal` is the optimum that these approach.
"""

from reconciler.domain.requirements import Solver
from reconciler.optimizer.fleet import COLUMNS, DIRECT, AutoSolver
from reconciler.optimizer.separable import SeparableSolver
from reconciler.upstream.inferno_solvers import OptimalSolver, PriorityGreedySolver, WeightedGreedySolver

SOLVERS: dict[str, Solver] = {
    solver.name: solver
    for solver in (
        *(AutoSolver(inferno=OptimalSolver()), SeparableSolver(), COLUMNS, DIRECT),
        *(WeightedGreedySolver(), PriorityGreedySolver(), OptimalSolver()),
    )
}
