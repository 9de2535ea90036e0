"""PURE. The limited modes of inferno as they were, and the optimum that they approach.

A server has a priority and finished offers (replicas of an accelerator, what they take of each type of device, their
value); capacities are counted by type. `weighted_greedy` and `priority_greedy` decide as the original did, `unlimited`
as it did where nothing is scarce; `exact_optimum` serves the most servers of each priority at the least value, with a
proof.

No setting reaches the limited modes: their plans shut down what serves because devices are missing, which a pull
request must never propose, and the optimizer has priorities of its own. They are kept, in this one package, as the peer
that a replay of recorded demand compares with.
"""
