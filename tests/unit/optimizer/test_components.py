"""Which blocks are joined by shared rows, against the components that scipy finds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from reconciler.optimizer.fleet import _first_in_reach

BLOCKS, ROWS = 12, 8


@given(st.lists(st.tuples(st.integers(0, BLOCKS - 1), st.integers(0, ROWS - 1)), max_size=30))
def test_blocks_are_joined_as_in_a_graph(uses: list[tuple[int, int]]) -> None:
    users, rows = np.array(uses, dtype=np.int64).reshape(-1, 2).T
    size = BLOCKS + ROWS
    graph = csr_array((np.ones(len(uses)), (users, BLOCKS + rows)), shape=(size, size))
    label = connected_components(graph, directed=False)[1][:BLOCKS]

    found = _first_in_reach(users, BLOCKS, rows, ROWS)

    assert found.tolist() == [label.tolist().index(each) for each in label]


def test_a_long_chain_is_one_component() -> None:
    links = np.arange(200)
    users, rows = np.concatenate([links, links + 1]), np.concatenate([links, links])

    assert not _first_in_reach(users, 201, rows, 200).any()
