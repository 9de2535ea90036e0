"""One configuration for every block, by one mixed-integer programme.

A block that has few configurations enters with them: that leaves the programme little to search. One that has too many
(a large model whose variants cost nearly the same at the prices has thousands), or whose configurations nobody can
enumerate, enters with the replicas themselves.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reconciler.optimizer.fleet.configurations import configurations_from
from reconciler.optimizer.fleet.formulation import Formulation
from reconciler.optimizer.fleet.generation import Known, added, best_by_block, fits, known_of, room
from reconciler.optimizer.fleet.mixed_integer import INFEASIBLE, FleetProgramme
from reconciler.optimizer.fleet.parts import ProblemPart, part_of
from reconciler.optimizer.fleet.sparse import Flags, Floats, Integers, by_cells, owners, plain

if TYPE_CHECKING:
    from reconciler.optimizer.fleet.sparse import Matrix

NODES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """One configuration a block, None where none was found within the limits, and the bound proven on what was offered.

    The bound is infinite where no choice keeps what is shared.
    """

    known: Known | None
    bound: float


def choose(formulation: Formulation, listed: Known, direct: Flags, gap: float) -> Chosen:
    """The best configuration of each block together, within `gap` (a fraction), of those that are listed.

    `direct` blocks, of which none is listed, have any at all.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    part = part_of(formulation, direct[formulation.block_of_row])
    programme = FleetProgramme(part.formulation)
    count = len(listed)
    matrix, lower, upper = _rows(formulation, listed, programme, ~direct)
    answer = milp(
        np.concatenate([listed.worth.value, programme.objective]),
        integrality=np.concatenate([np.ones(count, dtype=np.int64), programme.integrality]),
        bounds=Bounds(
            np.concatenate([np.zeros(count), programme.lower]), np.concatenate([np.ones(count), programme.upper])
        ),
        constraints=[LinearConstraint(matrix, lower, upper)],
        options={"mip_rel_gap": gap, "node_limit": NODES},
    )
    proven = getattr(answer, "mip_dual_bound", None)
    bound = -np.inf if proven is None else float(proven)
    if answer.x is None:
        return Chosen(known=None, bound=np.inf if answer.status == INFEASIBLE else bound)
    chosen = _chosen(formulation, listed, part, answer.x)
    return Chosen(known=chosen if fits(formulation, chosen) else None, bound=bound)


def pick(offered: Known, limits: Floats, missing: float) -> Integers | None:
    """One configuration of each block that is offered, at most `missing` above the best; None where none was found."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    blocks, place = np.unique(offered.configurations.block, return_inverse=True)
    count = len(offered)
    once = by_cells(np.ones(count), place, np.arange(count), (len(blocks), count))
    least = offered.worth.value[best_by_block(len(blocks), place, offered.worth.value)].sum()
    answer = milp(
        offered.worth.value,
        integrality=np.ones(count, dtype=np.int64),
        bounds=Bounds(0, 1),
        constraints=[LinearConstraint(once, 1, 1), LinearConstraint(plain(offered.worth.use.T), -np.inf, limits)],
        options={"mip_rel_gap": missing / max(abs(float(least)), missing), "node_limit": NODES},
    )
    if answer.x is None:
        return None
    return best_by_block(len(blocks), place, -answer.x)


def _rows(
    formulation: Formulation, listed: Known, programme: FleetProgramme, is_listed: Flags
) -> tuple["Matrix", Floats, Floats]:
    """One configuration a block; the replicas' own rows; and what is shared by both, which stands last."""
    from scipy.sparse import block_array

    count, shared = len(listed), len(formulation.shared)
    own, lower, upper = programme.rows()
    block, use = listed.configurations.block, listed.worth.use
    once = by_cells(np.ones(count), block, np.arange(count), (formulation.blocks, count))
    within = by_cells(use.data, len(lower) - shared + use.indices, owners(use), (len(lower), count))
    # Its stubs know no blocks without a matrix.
    matrix = plain(block_array([[once, None], [within, own]]))  # type: ignore[arg-type]
    upper = np.concatenate([np.ones(formulation.blocks), upper[: len(upper) - shared], room(formulation)])
    return matrix, np.concatenate([is_listed, lower]), upper


def _chosen(formulation: Formulation, listed: Known, part: ProblemPart, values: Floats) -> Known:
    """What the programme's values stand for."""
    count = len(listed)
    blocks, place = np.unique(listed.configurations.block, return_inverse=True)
    best = listed.at(best_by_block(len(blocks), place, -values[:count]))
    if not len(part.choices):
        return best
    replicas = np.rint(values[count : count + len(part.choices)]).astype(np.int64)
    rest = np.setdiff1d(np.arange(formulation.blocks), blocks)
    free = configurations_from(formulation, part.choices, replicas, rest)
    return added(best, known_of(formulation, free))
