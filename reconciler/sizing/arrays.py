"""The arrays that sizing many candidates, targets or samples at once is made of."""

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Integers: TypeAlias = NDArray[np.int64]


def align(*columns: ArrayLike) -> tuple[Floats, ...]:
    """Return the columns as float64 arrays of one shape (candidates,), broadcast against each other."""
    return tuple(
        np.ascontiguousarray(array)
        for array in np.broadcast_arrays(*(np.atleast_1d(np.asarray(each, dtype=np.float64)) for each in columns))
    )
