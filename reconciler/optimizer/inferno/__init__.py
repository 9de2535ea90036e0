"""PURE. The limited modes of inferno as they were, and the optimum that they approach.

A server has a priority and finished offers (replicas of an accelerator, what they take of each type of device, their
value); capacities are counted by type. `weighted_greedy` and `priority_greedy` decide as the original did, `unlimited`
as it did where nothing is scarce; `exact_optimum` serves the most servers of each priority at the least value, with a
proof. The solvers pose the optimizer's problem to them.
"""

from reconciler.optimizer.inferno.best_effort import SaturationPolicy
from reconciler.optimizer.inferno.exact import Optimum, exact_optimum
from reconciler.optimizer.inferno.greedy import priority_greedy, unlimited, weighted_greedy
from reconciler.optimizer.inferno.servers import Grant, Grants, Offer, Server
from reconciler.optimizer.inferno.solvers import OptimalSolver, PriorityGreedySolver, WeightedGreedySolver

__all__ = [
    "Grant",
    "Grants",
    "Offer",
    "OptimalSolver",
    "Optimum",
    "PriorityGreedySolver",
    "SaturationPolicy",
    "Server",
    "WeightedGreedySolver",
    "exact_optimum",
    "priority_greedy",
    "unlimited",
    "weighted_greedy",
]
