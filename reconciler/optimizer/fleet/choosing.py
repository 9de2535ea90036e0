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
from reconciler.optimizer.fleet.generation import Known, added, best_by_block, fits, known_of, room, unique
from reconciler.optimizer.fleet.mixed_integer import FleetProgramme
from reconciler.optimizer.fleet.parts import ProblemPart, part_of
from reconciler.optimizer.highs import Programme, solve
from reconciler.optimizer.sparse import Flags, Floats, Integers, by_cells, owners, plain, sums

if TYPE_CHECKING:
    from reconciler.optimizer.sparse import Matrix

NODES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """One configuration a block, None where none was found within the limits, and the bound proven on what was offered.

    The bound is infinite where no choice keeps what is shared.
    """

    known: Known | None
    bound: float


def choose(formulation: Formulation, listed: Known, direct: Flags, gap: float, best: Known | None) -> Chosen:
    """The best configuration of each block together, within `gap` (a fraction), of those that are listed.

    `direct` blocks, of which none is listed, have any at all. The search begins with the best plan that is known.
    """
    part = part_of(formulation, direct[formulation.block_of_row])
    programme = FleetProgramme(part.formulation)
    start = None
    if best is not None:
        begun = best.at(~direct[best.configurations.block])
        listed = unique(added(begun, listed))
        counts = sums(best.configurations.counts)[part.choices].astype(np.int64)
        start = np.concatenate([np.arange(len(listed)) < len(begun), programme.values(counts)])
    count = len(listed)
    matrix, lower, upper = _rows(formulation, listed, programme, ~direct)
    answer = solve(
        Programme(
            objective=np.concatenate([listed.worth.value, programme.objective]),
            matrix=matrix,
            lower=lower,
            upper=upper,
            least=np.concatenate([np.zeros(count), programme.lower]),
            most=np.concatenate([np.ones(count), programme.upper]),
            is_whole=np.concatenate([np.ones(count, dtype=np.bool_), programme.integrality > 0]),
        ),
        gap=gap,
        nodes=NODES,
        start=start,
    )
    if answer.values is None:
        return Chosen(known=None, bound=answer.bound)
    chosen = _chosen(formulation, listed, part, answer.values)
    return Chosen(known=chosen if fits(formulation, chosen) else None, bound=answer.bound)


def cheaper(best: Known | None, found: Known | None) -> Known | None:
    """The better of two plans, the first of equals."""
    if best is None or found is None:
        return found if best is None else best
    return found if found.value < best.value else best


def pick(offered: Known, limits: Floats, missing: float) -> Integers | None:
    """One configuration of each block that is offered, at most `missing` above the best; None where none was found."""
    from scipy.sparse import vstack

    blocks, place = np.unique(offered.configurations.block, return_inverse=True)
    count = len(offered)
    once = by_cells(np.ones(count), place, np.arange(count), (len(blocks), count))
    least = offered.worth.value[best_by_block(len(blocks), place, offered.worth.value)].sum()
    answer = solve(
        Programme.of_switches(
            offered.worth.value,
            plain(vstack([once, offered.worth.use.T])),
            np.concatenate([np.ones(len(blocks)), np.full(len(limits), -np.inf)]),
            np.concatenate([np.ones(len(blocks)), limits]),
        ),
        gap=missing / max(abs(float(least)), missing),
        nodes=NODES,
    )
    return None if answer.values is None else best_by_block(len(blocks), place, -answer.values)


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
    return matrix, np.concatenate([is_listed.astype(np.float64), lower]), upper


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
