"""Servers and offers as an integer programme: a column is an offer of a server, 1 where the server gets it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from reconciler.optimizer.highs import Answer, Floats, Programme, solve
from reconciler.optimizer.inferno.servers import Grants, Offer, Server, ServerGrant, Stock, by_value

NODE_LIMIT = 2_000
"""Of every integer programme; systems of the published size need a handful of nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferColumn:
    """An offer of a server that fits on its own."""

    server: Server
    offer: Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferProgramme:
    """The columns of all servers, in the order of priority, name and value."""

    servers: tuple[Server, ...]
    columns: tuple[OfferColumn, ...]
    capacities: Mapping[str, int]

    @classmethod
    def of(cls, servers: Iterable[Server], capacities: Mapping[str, int]) -> "OfferProgramme":
        """The programme of the servers that have offers."""
        entered = sorted((each for each in servers if each.offers), key=lambda each: (each.priority, each.name))
        stock = Stock(capacities)
        columns = (OfferColumn(server=server, offer=offer) for server in entered for offer in by_value(server.offers))
        return cls(
            servers=tuple(entered),
            columns=tuple(each for each in columns if stock.fitting(each.offer) == each.offer.replicas),
            capacities=capacities,
        )

    @property
    def levels(self) -> tuple[int, ...]:
        """The priorities, the highest first: the smallest number."""
        return tuple(sorted({server.priority for server in self.servers}))

    @property
    def values(self) -> Floats:
        """The value of each column, shape (columns,)."""
        return np.array([column.offer.value for column in self.columns], dtype=np.float64)

    def membership(self, level: int) -> Floats:
        """1 for each column of a server of that priority, shape (columns,)."""
        return np.array([float(column.server.priority == level) for column in self.columns])

    def least_values(self, level: int) -> list[float]:
        """The value of the best column of each server of that priority that has any, the least first."""
        best: dict[str, float] = {}
        for column in self.columns:
            if column.server.priority == level:
                best.setdefault(column.server.name, column.offer.value)
        return sorted(best.values())

    def served(self, grants: Grants) -> dict[int, int]:
        """How many servers of each priority get anything."""
        counts = Counter(server.priority for server in self.servers if server.name in grants)
        return {level: counts[level] for level in self.levels}

    def grants(self, chosen: Floats) -> Grants | None:
        """What the chosen columns give; None where rounding broke a limit."""
        stock, grants = Stock(self.capacities), dict[str, ServerGrant]()
        for index in np.flatnonzero(chosen > 0.5):
            name, offer = self.columns[index].server.name, self.columns[index].offer
            if name in grants or stock.fitting(offer) < offer.replicas:
                return None
            stock.take(offer, offer.replicas)
            grants[name] = ServerGrant(offer=offer, replicas=offer.replicas)
        return dict(sorted(grants.items()))


def minimise(programme: OfferProgramme, objective: Floats, held: Mapping[int, int]) -> Answer:
    """The columns of least objective, with as many servers served as `held` says of some priorities."""
    from scipy.sparse import csr_array

    rows = _rows(programme, held)
    factors = np.array([factor for row in rows for factor in row.factors], dtype=np.float64)
    columns = np.array([column for row in rows for column in row.columns], dtype=np.int64)
    starts = np.cumsum([0, *(len(row.columns) for row in rows)], dtype=np.int64)
    matrix = csr_array((factors, columns, starts), shape=(len(rows), len(objective)), dtype=np.float64)
    lower, upper = np.array([row.least for row in rows]), np.array([row.most for row in rows])
    return solve(Programme.of_switches(objective, matrix, lower, upper), gap=0.0, nodes=NODE_LIMIT)


@dataclass(slots=True, kw_only=True)
class _Row:
    """least <= sum of factor * column <= most."""

    least: float
    most: float
    columns: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)

    def add(self, column: int, factor: float) -> None:
        self.columns.append(column)
        self.factors.append(factor)


def _rows(programme: OfferProgramme, held: Mapping[int, int]) -> list[_Row]:
    """One offer a server, no more than there is of each type, and the counts that are held."""
    of_level = {level: _Row(least=float(count), most=float(count)) for level, count in held.items()}
    of_server: dict[str, _Row] = {}
    of_type: dict[str, _Row] = {}
    for index, column in enumerate(programme.columns):
        of_server.setdefault(column.server.name, _Row(least=0.0, most=1.0)).add(index, 1.0)
        if column.server.priority in of_level:
            of_level[column.server.priority].add(index, 1.0)
        for name, units in column.offer.units.items():
            most = float(max(programme.capacities.get(name, 0), 0))
            row = of_type.setdefault(name, _Row(least=0.0, most=most))
            row.add(index, float(units * column.offer.replicas))
    return [*of_server.values(), *of_type.values(), *of_level.values()]
