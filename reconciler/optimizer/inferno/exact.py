"""The optimum that inferno's greedy modes approach: as many servers as can be, then the least value.

With x(s, o) = 1 where a server s gets its offer o, for one priority after the other:

    maximise   sum over the servers s of that priority of x(s, o)        this count is then held
    subject to sum over o of x(s, o)                          <= 1           for every server s
               sum over s, o of units * replicas * x(s, o)    <= capacity    for every type

and at last the sum of value * x(s, o) is minimised. Every step is an integer programme (HiGHS) with a node limit;
where it is reached the best answer so far stands, and the result says what is proven about it.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.domain.solutions import SolveStatus
from reconciler.optimizer.highs import Floats
from reconciler.optimizer.inferno.greedy import priority_greedy
from reconciler.optimizer.inferno.programme import OfferProgramme, minimise
from reconciler.optimizer.inferno.servers import Grants, Server

TOLERANCE = 1e-6
"""What HiGHS leaves open of a proven optimum: of a count absolute, of a value relative to it as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimum:
    """Who gets which offer, and what is proven of it; `served` counts the servers served of each priority.

    No answer serves more than `served_bound` (compared from the smallest priority number on), and none that serves as
    many as this one at every priority is worth less than `value_bound`.
    """

    grants: Grants
    served: Mapping[int, int]
    served_bound: Mapping[int, int]
    value: float
    value_bound: float
    status: SolveStatus


def exact_optimum(servers: Iterable[Server], capacities: Mapping[str, int]) -> Optimum:
    """Serve the most servers of the highest priority, then of the next, and so on; of such answers that of least value.

    Nobody is served in part. Never worse than `priority_greedy` under the policy None, where the search starts.
    """
    programme = OfferProgramme.of(servers, capacities)
    search = _ServerSearch(programme, priority_greedy(programme.servers, capacities))
    search.run()
    return search.optimum()


class _ServerSearch:
    """The state of one run, level by level; lives for one call."""

    def __init__(self, programme: OfferProgramme, start: Grants) -> None:
        self._programme = programme
        self._best = start
        self._held: dict[int, int] = {}
        self._served_bound = {level: len(programme.least_values(level)) for level in programme.levels}
        self._value_bound = -math.inf
        self._is_proven = True

    def run(self) -> None:
        for level in self._programme.levels:
            self._settle(level)
            if not self._is_proven:
                return
        self._settle_value()

    def optimum(self) -> Optimum:
        value = self._value(self._best)
        return Optimum(
            grants=self._best,
            served=self._programme.served(self._best),
            served_bound=self._served_bound,
            value=value,
            value_bound=min(max(self._value_bound, self._least_value()), value),
            status=SolveStatus.OPTIMAL if self._is_proven else SolveStatus.FEASIBLE,
        )

    def _settle(self, level: int) -> None:
        """Serve as many of this priority as can be while the counts above it are held."""
        if self._programme.served(self._best)[level] < self._served_bound[level]:
            answer = minimise(self._programme, -self._programme.membership(level), self._held)
            self._consider(answer.values)
            if math.isfinite(answer.bound):
                # Servers are whole: a bound of 3.2 is one of 3.
                most = math.floor(-answer.bound + TOLERANCE)
                self._served_bound[level] = min(self._served_bound[level], most)
        self._held[level] = self._programme.served(self._best)[level]
        self._is_proven = self._held[level] >= self._served_bound[level]

    def _settle_value(self) -> None:
        """Among the answers with the held counts, find that of least value."""
        self._value_bound = self._least_value()
        if not self._is_least():
            answer = minimise(self._programme, self._programme.values, self._held)
            self._consider(answer.values)
            # The best answer has these counts: that there be none is float noise, and proves nothing.
            if math.isfinite(answer.bound):
                self._value_bound = max(self._value_bound, answer.bound)
        self._is_proven = self._is_least()

    def _is_least(self) -> bool:
        value = self._value(self._best)
        return self._value_bound >= value - TOLERANCE * max(abs(value), 1.0)

    def _consider(self, chosen: Floats | None) -> None:
        """Keep an answer if it is better: by who is served, then by value."""
        grants = None if chosen is None else self._programme.grants(chosen)
        if grants is not None and self._rank(grants) < self._rank(self._best):
            self._best = grants

    def _rank(self, grants: Grants) -> tuple[list[int], float]:
        return [-count for count in self._programme.served(grants).values()], self._value(grants)

    def _value(self, grants: Grants) -> float:
        return math.fsum(grant.value for grant in grants.values())

    def _least_value(self) -> float:
        """What as many servers would be worth if each got its best offer, and at each priority the best were served."""
        served = self._programme.served(self._best)
        return math.fsum(value for level in served for value in self._programme.least_values(level)[: served[level]])
