"""Arrays, sparse matrices, and HiGHS through its own bindings: mixed-integer programmes and growing linear ones.

HiGHS runs in one thread with a limit on nodes, never on time: the same programme has the same answer on every machine.
scipy's interface to HiGHS takes no solution to start from, and no basis to go on from.
"""

from collections.abc import Sequence
from dataclasses import Field, fields
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from reconciler.domain.records import dataclass

if TYPE_CHECKING:
    from highspy import Highs
    from scipy.sparse import csr_array

    Matrix: TypeAlias = csr_array[np.float64, tuple[int, int]]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64] | npt.NDArray[np.int64]
Indices = npt.NDArray[np.int64] | npt.NDArray[np.int32] | npt.NDArray[np.signedinteger[Any]]


class Arrays:
    """A frozen dataclass of arrays, sparse matrices, tuples and other such dataclasses, all of one length."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def at(self, chosen: Integers | Flags) -> Self:
        """The entries of an index or a mask."""

        def taken(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(value[index] for index in np.arange(len(value))[chosen])
            return value.at(chosen) if isinstance(value, Arrays) else value[chosen]

        return type(self)(**{each.name: taken(getattr(self, each.name)) for each in fields(self)})

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """All entries of several."""

        def together(values: list[Any]) -> Any:
            if isinstance(values[0], Arrays):
                return values[0].joined(values)
            if isinstance(values[0], tuple):
                return tuple(chain.from_iterable(values))
            return np.concatenate(values) if isinstance(values[0], np.ndarray) else _stacked(values)

        return cls(**{each.name: together([getattr(part, each.name) for part in parts]) for each in fields(cls)})


def spread(sizes: Integers) -> tuple[Integers, Integers]:
    """The group of each member of groups of these sizes, and the member's place in it."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def by_rows(values: Numbers, columns: Indices, begins: Indices, shape: tuple[int, int]) -> "Matrix":
    """Row r holds `values[begins[r]:begins[r + 1]]` at these columns."""
    from scipy.sparse import csr_array

    return csr_array((values.astype(np.float64), columns, begins), shape=shape)


def by_cells(values: Numbers | Flags, rows: Indices, columns: Indices, shape: tuple[int, int]) -> "Matrix":
    """The values at their rows and columns; duplicates are added."""
    from scipy.sparse import csr_array

    return csr_array((values.astype(np.float64), (rows, columns)), shape=shape)


def _stacked(parts: Sequence["Matrix"]) -> "Matrix":
    from scipy.sparse import csr_array, vstack

    return csr_array(vstack(list(parts), format="csr"))


def sums(matrix: "Matrix") -> Floats:
    """The sum of each column."""
    return np.bincount(matrix.indices, matrix.data, minlength=matrix.shape[1]).astype(np.float64)


def owners(matrix: "Matrix") -> Integers:
    """The row of each stored value."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def plain(matrix: Any) -> "Matrix":
    """Any sparse result as a csr array."""
    from scipy.sparse import csr_array

    return csr_array(matrix)


def columns(matrix: "Matrix") -> tuple[Integers, Floats, Integers]:
    """By column: the rows and values stored in all of them, and where each begins, with the end."""
    turned = plain(matrix.T)
    return turned.indices.astype(np.int64), turned.data, turned.indptr.astype(np.int64)


_SPARING: dict[str, bool | int] = {
    "mip_allow_restart": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_rens": False,
    "mip_pool_soft_limit": 200,
    "mip_pool_age_limit": 3,
    "mip_lp_age_limit": 3,
}
"""Options for a search that is not thorough: restarts, heuristics that search programmes of their own, and cuts that no
longer bind took half of the time on the fleets of the benchmark and improved no plan."""

_BY_ROWS, _MINIMISE, _FEASIBLE, _DUAL, _PRIMAL = 2, 1, 2, 1, 4
"""HiGHS' numbers of matrix format, sense, solution status and simplex. New columns keep a basis primal feasible."""


class UnsolvableError(Exception):
    """Raised where a programme has no answer because the sizes of its numbers differ too much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Programme:
    """Minimise objective @ x subject to lower <= matrix @ x <= upper and least <= x <= most, whole where it says so."""

    objective: Floats
    matrix: "Matrix"
    lower: Floats
    upper: Floats
    least: Floats
    most: Floats
    is_whole: Flags

    @classmethod
    def of_switches(cls, objective: Floats, matrix: "Matrix", lower: Floats, upper: Floats) -> "Programme":
        """The programme whose columns are all 0 or 1."""
        count = len(objective)
        return cls(
            objective=objective,
            matrix=matrix,
            lower=lower,
            upper=upper,
            least=np.zeros(count),
            most=np.ones(count),
            is_whole=np.ones(count, dtype=np.bool_),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The columns (None if none were found) and a bound on every solution, infinite where there is no solution."""

    values: Floats | None
    bound: float


def solve(
    programme: Programme, *, gap: float, nodes: int, start: Floats | None = None, is_thorough: bool = False
) -> Answer:
    """The best columns within `gap` (a fraction) in at most `nodes` nodes of the search.

    `start` is a known solution.
    """
    from highspy import HighsModelStatus, HighsStatus

    highs = _quiet()
    highs.setOptionValue("mip_rel_gap", gap)
    highs.setOptionValue("mip_max_nodes", nodes)
    for name, value in () if is_thorough else _SPARING.items():
        highs.setOptionValue(name, value)
    matrix, width = programme.matrix, len(programme.objective)
    passed = highs.passModel(
        width,
        len(programme.lower),
        matrix.nnz,
        _BY_ROWS,
        _MINIMISE,
        0.0,
        programme.objective,
        programme.least,
        programme.most,
        programme.lower,
        programme.upper,
        matrix.indptr.astype(np.int32),
        matrix.indices.astype(np.int32),
        matrix.data,
        programme.is_whole.astype(np.int32),
    )
    if start is not None:
        highs.setSolution(width, np.arange(width, dtype=np.int32), start)
    if passed == HighsStatus.kError or highs.run() == HighsStatus.kError:
        return Answer(values=None, bound=-np.inf)
    status, info = highs.getModelStatus(), highs.getInfo()
    if status == HighsModelStatus.kInfeasible:
        return Answer(values=None, bound=np.inf)
    # Without any integer it is a linear programme, whose value is its bound.
    bound = info.mip_dual_bound if programme.is_whole.any() else info.objective_function_value
    is_proven = programme.is_whole.any() or status == HighsModelStatus.kOptimal
    is_found = info.primal_solution_status == _FEASIBLE
    values = np.array(highs.getSolution().col_value) if is_found else None
    return Answer(values=values, bound=float(bound) if is_proven and np.isfinite(bound) else -np.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAnswer:
    """The value, the columns, and by row what one more of its limit is worth (at most 0 where it is an upper one)."""

    value: float
    columns: Floats
    rows: Floats


class GrowingProgramme:
    """A linear programme with fixed rows and changing columns (x >= 0); each solve starts from the last basis."""

    def __init__(self, lower: Floats, upper: Floats) -> None:
        self._highs = _quiet()
        starts, columns = np.zeros(len(lower), dtype=np.int32), np.zeros(0, dtype=np.int32)
        self._highs.addRows(len(lower), lower, upper, 0, starts, columns, np.zeros(0))

    def add(self, objective: Floats, columns: "Matrix") -> None:
        """Append columns (columns x rows)."""
        count = len(objective)
        self._highs.addCols(
            count,
            objective,
            np.zeros(count),
            np.full(count, np.inf),
            columns.nnz,
            columns.indptr[:-1].astype(np.int32),
            columns.indices.astype(np.int32),
            columns.data,
        )

    def keep(self, is_kept: Flags) -> None:
        """Delete all other columns."""
        gone = np.flatnonzero(~is_kept).astype(np.int32)
        self._highs.deleteCols(len(gone), gone)

    def cost(self, columns: Integers, objective: Floats) -> None:
        """Change the objective of some columns."""
        self._highs.changeColsCost(len(columns), columns.astype(np.int32), objective)

    def solve(self) -> LinearAnswer:
        """The best columns; raises UnsolvableError where a solve without a basis fails too."""
        from highspy import HighsModelStatus

        self._highs.run()
        if self._highs.getModelStatus() != HighsModelStatus.kOptimal:
            self._highs.clearSolver()
            self._highs.setOptionValue("simplex_strategy", _DUAL)
            self._highs.run()
        status = self._highs.getModelStatus()
        if status != HighsModelStatus.kOptimal:
            raise UnsolvableError(self._highs.modelStatusToString(status))
        self._highs.setOptionValue("simplex_strategy", _PRIMAL)
        solution = self._highs.getSolution()
        return LinearAnswer(
            value=self._highs.getInfo().objective_function_value,
            columns=np.array(solution.col_value),
            rows=np.array(solution.row_dual),
        )


@cache
def _quiet_class() -> "type[Highs]":
    from highspy import Highs

    class Quiet(Highs):
        """One that is silent before 1.16 prints its name, as that gets ready for callbacks."""

        def enableCallbacks(self) -> None:  # noqa: N802 - the name is HiGHS'
            self.silent()
            super().enableCallbacks()  # type: ignore[no-untyped-call]  # HiGHS states no types

    return Quiet


def _quiet() -> "Highs":
    highs = _quiet_class()()
    highs.silent()
    highs.setOptionValue("threads", 1)
    return highs
