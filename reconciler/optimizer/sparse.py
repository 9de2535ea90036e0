"""Sparse matrices of floats, with one type: what the optimizer needs of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Matrix: TypeAlias = csr_array[np.float64, tuple[int, int]]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64] | npt.NDArray[np.int64]
Indices = npt.NDArray[np.int64] | npt.NDArray[np.int32] | npt.NDArray[np.signedinteger[Any]]


def by_rows(values: Numbers, columns: Indices, begins: Indices, shape: tuple[int, int]) -> "Matrix":
    """Row r holds `values[begins[r]:begins[r + 1]]` at these columns."""
    from scipy.sparse import csr_array

    return csr_array((values.astype(np.float64), columns, begins), shape=shape)


def by_cells(values: Numbers, rows: Indices, columns: Indices, shape: tuple[int, int]) -> "Matrix":
    """The values at their rows and columns; what is given twice is added."""
    from scipy.sparse import csr_array

    return csr_array((values.astype(np.float64), (rows, columns)), shape=shape)


def stacked(parts: Sequence["Matrix"]) -> "Matrix":
    """One under the other."""
    from scipy.sparse import csr_array, vstack

    return csr_array(vstack(list(parts), format="csr"))


def sums(matrix: "Matrix") -> Floats:
    """The sum of each column."""
    return np.bincount(matrix.indices, matrix.data, minlength=matrix.shape[1]).astype(np.float64)


def owners(matrix: "Matrix") -> Integers:
    """The row of each stored value."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def plain(matrix: Any) -> "Matrix":
    """Any sparse result in the one form."""
    from scipy.sparse import csr_array

    return csr_array(matrix)


def columns(matrix: "Matrix") -> tuple[Integers, Floats, Integers]:
    """By column: the rows and values stored in all of them, and where each begins, with the end."""
    turned = plain(matrix.T)
    return turned.indices.astype(np.int64), turned.data, turned.indptr.astype(np.int64)
