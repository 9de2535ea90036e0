"""PURE. Requirements, candidates, inventory and prices in; an allocation with its proof out.

A solver is found by name: `auto` decides each model alone where that fits into what they share (`separable`, exact),
else all together by prices (`columns`); `milp` is one programme over all; `inferno-weighted` and `inferno-priority`
reproduce what inferno decided where devices are scarce, `inferno-optimal` is the optimum that these approach.
"""

from reconciler.domain.solutions import Solver
from reconciler.optimizer.fleet import COLUMNS, DIRECT, AutoSolver
from reconciler.optimizer.inferno.solvers import OptimalSolver, PriorityGreedySolver, WeightedGreedySolver
from reconciler.optimizer.separable import SeparableSolver

SOLVERS: dict[str, Solver] = {
    solver.name: solver
    for solver in (
        *(AutoSolver(), SeparableSolver(), COLUMNS, DIRECT),
        *(WeightedGreedySolver(), PriorityGreedySolver(), OptimalSolver()),
    )
}
