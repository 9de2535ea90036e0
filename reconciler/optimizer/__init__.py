"""PURE. Requirements, candidates, inventory and prices in; an allocation with its proof out.

A solver is found by name; `separable` is exact where models share nothing but a namespace, `inferno-weighted` and
`inferno-priority` reproduce what inferno decided where devices are scarce.
"""

from reconciler.domain.solutions import Solver
from reconciler.optimizer.inferno.solvers import PriorityGreedySolver, WeightedGreedySolver
from reconciler.optimizer.separable import SeparableSolver

SOLVERS: dict[str, Solver] = {
    solver.name: solver for solver in (SeparableSolver(), WeightedGreedySolver(), PriorityGreedySolver())
}
