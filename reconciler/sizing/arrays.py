"""The arrays that sizing many candidates, targets or samples at once is made of."""

from typing import Any, Self, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reconciler.domain.records import field_names

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Integers: TypeAlias = NDArray[np.int64]


def align(*columns: ArrayLike) -> tuple[Floats, ...]:
    """Return the columns as float64 arrays of one shape (candidates,), broadcast against each other."""
    return tuple(
        np.ascontiguousarray(array)
        for array in np.broadcast_arrays(*(np.atleast_1d(np.asarray(each, dtype=np.float64)) for each in columns))
    )


class CandidateRows:
    """A record of arrays with an element for each candidate; other records of that kind may be among them, or None."""

    __slots__ = ()

    def take(self, index: Integers | Bools) -> Self:
        """Return what belongs to the candidates that `index` selects."""
        kind: Any = type(self)
        return cast(Self, kind(**{name: _take(getattr(self, name), index) for name in field_names(self)}))


def _take(column: Any, index: Integers | Bools) -> Any:
    if column is None:
        return None
    return column.take(index) if isinstance(column, CandidateRows) else column[index]
