"""PURE. Requirements, candidates, inventory and prices in; an allocation with its proof out.

A solver is found by name; `separable` is exact where models share nothing but a namespace.
"""

from reconciler.domain.solutions import Solver
from reconciler.optimizer.separable import SeparableSolver

SOLVERS: dict[str, Solver] = {solver.name: solver for solver in (SeparableSolver(),)}
