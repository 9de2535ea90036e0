"""From fractional shares of configurations to one whole configuration for each model, within all shared rows.

A programme over many models splits few of them. In a large fleet only these and the nearest ties are chosen again. Else
configurations enter by their regret at the prices, more with each attempt, and a mixed-integer programme takes one for
each model. Once every configuration is in whose regret is at most the distance to the bound, the plan is proven. Models
with too many configurations enter with their replicas instead.
"""

from typing import TYPE_CHECKING

import numpy as np

from reconciler.domain.records import dataclass
from reconciler.optimizer.columns import (
    Columns,
    Generated,
    best_by_block,
    columns_of,
    fits,
    known_plan,
    room,
    unique,
)
from reconciler.optimizer.configurations import configurations_from, exchanged
from reconciler.optimizer.formulation import GAP, TOLERANCE, Formulation, part_of
from reconciler.optimizer.highs import Flags, Floats, Integers, Programme, by_cells, owners, plain, solve, sums
from reconciler.optimizer.mixed_integer import FleetProgramme
from reconciler.optimizer.pricing import Regrets

if TYPE_CHECKING:
    from reconciler.optimizer.highs import Matrix

NODES = 500

LARGEST = 20_000
"""Configurations that one programme may choose among."""

MANY = 300
"""A model with more configurations than this enters with its replicas."""

MOST_DIRECT = 200
"""Choices of all models together that may enter with their replicas: a programme with many proves little."""

SMALL = 2_000
"""Choices of a whole fleet that may enter with their replicas, where nothing else proves enough."""

MANY_BLOCKS, TIES = 3_000, (600, 2_400)
"""A fleet of more blocks is repaired: its split models and so many near ties are chosen again. For 10,000 models with
pools at 0.7 that takes 6.6 s, without it 12.3 s."""

CLOSE = 3e-4
"""How close to the bound, as a fraction, a repaired plan must be."""

_NEAREST = (150, 500, 2_000, 8_000, None)
"""Singles and pairs besides the best of each model, by attempt; None: all that may be in a better plan. For 300 models
with pools at 0.7 five attempts take 0.24 s, two (500 and all) 0.52 s."""

SHARING_EACH, SHARING_NEAREST, SHARING_ALL = 10, 200, 1_000
"""Where the question is who gets how much: configurations of least regret offered for each model, and of all models in
addition; and the number up to which all that may be in a better plan are offered."""

ATTEMPTS = 5
"""Rounds of exchanges: they take 1.4 s for 300 models by priority with weighted routers, lists alone take 6.9 s."""

SHARING_SMALL = 100
"""Choices of a fleet that enter with their replicas at last, where exchanges prove too little."""

_LOOSE = 5e-3
"""The gap of a programme whose plan is exchanged again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One configuration for each block, None where none was found, and a bound: infinite where nothing fits."""

    columns: Columns | None
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounded:
    """One configuration for each block, and the bound proven on any plan's value."""

    columns: Columns
    bound: float


def round_shares(formulation: Formulation, generated: Generated) -> Rounded | None:
    """The best plan found and what is proven of it; None where none was found within the limits."""
    columns = generated.columns
    if (np.isclose(generated.share, 0.0) | np.isclose(generated.share, 1.0)).all():
        whole = columns.at(best_by_block(formulation.blocks, columns.configurations.block, -generated.share))
        if fits(formulation, whole):
            return Rounded(columns=whole, bound=min(generated.bound, whole.value))
    regrets = Regrets(priced=formulation.priced(generated.prices), pairs=generated.pairs, least=generated.least)
    for ties in TIES if formulation.blocks > MANY_BLOCKS else ():
        repaired = _repaired(formulation, generated, regrets, ties)
        if repaired is not None:
            return repaired
    if formulation.sharing is not None and not formulation.has_many_replicas:
        shared = _share_out(formulation, generated, regrets)
        if shared.columns is not None:
            return Rounded(columns=shared.columns, bound=min(shared.bound, shared.columns.value))
    best = _among(formulation, generated, regrets)
    if best.columns is None:
        return None
    return Rounded(columns=best.columns, bound=min(best.bound, best.columns.value))


def _choose(formulation: Formulation, listed: Columns, direct: Flags, gap: float, best: Columns | None) -> Plan:
    """The best configuration of each block together, within `gap` (a fraction), of those that are listed.

    `direct` blocks have none listed and enter with their replicas. The search starts from the best known plan.
    """
    part = part_of(formulation, direct[formulation.block_of_row])
    programme = FleetProgramme(part.formulation)
    start = None
    if best is not None:
        begun = best.at(~direct[best.configurations.block])
        listed = unique(Columns.joined([begun, listed]))
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
        return Plan(columns=None, bound=answer.bound)
    blocks, place = np.unique(listed.configurations.block, return_inverse=True)
    chosen = listed.at(best_by_block(len(blocks), place, -answer.values[:count]))
    if len(part.choices):
        replicas = np.rint(answer.values[count : count + len(part.choices)]).astype(np.int64)
        rest = np.setdiff1d(np.arange(formulation.blocks), blocks)
        free = configurations_from(formulation, part.choices, replicas, rest)
        chosen = Columns.joined([chosen, columns_of(formulation, free)])
    return Plan(columns=chosen if fits(formulation, chosen) else None, bound=answer.bound)


def _rows(
    formulation: Formulation, listed: Columns, programme: FleetProgramme, is_listed: Flags
) -> tuple["Matrix", Floats, Floats]:
    """One configuration for each block; the replicas' own rows; and the shared rows of both, which are last."""
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


def _cheaper(best: Columns | None, found: Columns | None) -> Columns | None:
    """The cheaper of two plans, the first of equals."""
    if best is None or found is None:
        return found if best is None else best
    return found if found.value < best.value else best


def _share_out(formulation: Formulation, generated: Generated, regrets: Regrets) -> Plan:
    """The best plan where the question is who gets how much, by exchanges between models.

    What a model runs costs next to nothing here, so most configurations of least regret help no other model. So the
    programme is also offered what one exchange makes of the best plan, until that gains no more.
    """
    best, bound = known_plan(formulation), generated.bound
    nobody = np.zeros(formulation.blocks, dtype=np.bool_)
    near = regrets.nearest(_NEAREST[0] or 0)
    if best is not None and best.value - bound < near.regret:
        near = regrets.within(best.value - bound)
    listed = columns_of(formulation, regrets.listed(near).configurations)
    offered = nearest = _nearest(generated, unique(Columns.joined([generated.columns, listed])))
    least = np.bincount(formulation.block_of_row, regrets.least, minlength=formulation.blocks)
    for attempt in range(ATTEMPTS):
        before, best = best, _cheaper(best, _choose(formulation, offered, nobody, _LOOSE, best).columns)
        if best is None:
            return Plan(columns=None, bound=bound)
        value = best.value
        if formulation.is_close(value, bound):
            break
        everything = regrets.listed(regrets.within(value - bound))
        if everything.is_complete.all() and len(everything.configurations) <= SHARING_ALL:
            listed = columns_of(formulation, everything.configurations)
            chosen = _choose(formulation, Columns.joined([generated.columns, listed]), nobody, GAP / 2, best)
            return Plan(columns=_cheaper(best, chosen.columns), bound=max(bound, min(chosen.bound, value)))
        if attempt and before is not None and before.value - value <= _LOOSE * abs(value):
            break
        exchanges = columns_of(formulation, exchanged(formulation, best.configurations))
        candidates = Columns.joined([nearest, exchanges])
        regret = candidates.reduced(generated.prices) - least[candidates.configurations.block]
        offered = candidates.at(regret <= (value - bound) * (1 + TOLERANCE))
    if best is not None and len(formulation.choices.keys) <= SHARING_SMALL and not formulation.is_close(value, bound):
        chosen = _choose(formulation, best.at(np.zeros(0, dtype=np.int64)), ~nobody, GAP / 2, best)
        return Plan(columns=_cheaper(best, chosen.columns), bound=max(bound, min(chosen.bound, value)))
    return Plan(columns=best, bound=bound)


def _nearest(generated: Generated, columns: Columns) -> Columns:
    """The columns of least regret: some of each block, and some of all."""
    reduced, block = columns.reduced(generated.prices), columns.configurations.block
    order = np.lexsort((reduced, block))
    first = np.searchsorted(block[order], block[order])
    rank, regret = np.empty(len(order), dtype=np.int64), np.empty(len(order))
    rank[order], regret[order] = np.arange(len(order)) - first, reduced[order] - reduced[order][first]
    is_near = rank < SHARING_EACH
    is_near[np.argsort(regret, kind="stable")[:SHARING_NEAREST]] = True
    return columns.at(is_near)


def _among(formulation: Formulation, generated: Generated, regrets: Regrets) -> Plan:
    """The best plan of more and more configurations until enough is proven; at last of all replicas of small fleets."""
    best, bound = known_plan(formulation), generated.bound
    asked: tuple[int, Flags] | None = None
    chosen, within = Plan(columns=None, bound=-np.inf), np.inf

    def is_enough() -> bool:
        return best is not None and formulation.is_close(best.value, min(bound, best.value))

    for nearest in _NEAREST:
        missing = np.inf if best is None else best.value - generated.bound
        near = None if nearest is None else regrets.nearest(nearest)
        if near is None or near.regret > missing:
            if not np.isfinite(missing):
                break
            near = regrets.within(missing)
        everything = regrets.listed(near)
        found = columns_of(formulation, everything.configurations)
        columns = unique(Columns.joined([generated.columns, found]))
        direct = _direct(formulation, columns, everything.is_complete)
        listed = columns.at(~direct[columns.configurations.block])
        if asked is None or len(listed) != asked[0] or (direct != asked[1]).any():
            asked = len(listed), direct
            offered, within = _cheapest(formulation, generated, listed)
            chosen = _choose(formulation, offered, direct, GAP / 2, best)
        if (everything.is_complete | direct).all():
            bound = max(bound, min(chosen.bound, generated.bound + min(near.regret, within)))
        best = _cheaper(best, chosen.columns)
        if is_enough() or len(listed) > LARGEST or near.regret == missing:
            break
    everyone = np.ones(formulation.blocks, dtype=np.bool_)
    if not is_enough() and len(formulation.choices.keys) <= SMALL:
        if asked is None or asked[0] or not asked[1].all():
            chosen = _choose(formulation, generated.columns.at(np.zeros(0, dtype=np.int64)), everyone, GAP / 2, best)
        proven = generated.bound if best is None else min(bound, best.value)
        best, bound = _cheaper(best, chosen.columns), max(proven, chosen.bound)
    return Plan(columns=best, bound=bound)


def _direct(formulation: Formulation, columns: Columns, is_complete: Flags) -> Flags:
    """Blocks that enter with their replicas: whose configurations cannot be listed, or are too many."""
    count = np.bincount(columns.configurations.block, minlength=formulation.blocks).astype(np.float64)
    count[~is_complete] = np.inf
    order = np.argsort(-count, kind="stable")
    choices = np.bincount(formulation.block_of_row[formulation.choices.row], minlength=formulation.blocks)
    found = np.zeros(formulation.blocks, dtype=np.bool_)
    found[order] = (count[order] > MANY) & (np.cumsum(choices[order]) <= MOST_DIRECT)
    return found


def _repaired(formulation: Formulation, generated: Generated, regrets: Regrets, ties: int) -> Rounded | None:
    """The programme's plan with split models and near ties chosen again; None where that is not close to the bound."""
    blocks = formulation.blocks
    near = columns_of(formulation, regrets.listed(regrets.nearest(2 * ties)).configurations)
    columns = Columns.joined([generated.columns, near])
    block = columns.configurations.block
    share = np.concatenate([generated.share, np.zeros(len(near))])
    taken = best_by_block(blocks, block, -share)
    regret = _regret(columns, generated.prices, blocks)
    regret[taken] = np.inf
    nearest = np.full(blocks, np.inf)
    np.minimum.at(nearest, block, regret)
    nearest[share[taken] < 1 - TOLERANCE] = -1.0
    is_open = np.zeros(blocks, dtype=np.bool_)
    is_open[np.argsort(nearest, kind="stable")[: ties + int((nearest < 0).sum())]] = True
    kept, offered = columns.at(taken[~is_open]), columns.at(is_open[block])
    left = room(formulation) - sums(kept.worth.use)
    chosen = pick(offered, left, CLOSE / 3 * abs(generated.bound))
    if chosen is None:
        return None
    plan = Columns.joined([kept, offered.at(chosen)])
    plan = plan.at(np.argsort(plan.configurations.block, kind="stable"))
    if plan.value - generated.bound > CLOSE * abs(plan.value) or not fits(formulation, plan):
        return None
    return Rounded(columns=plan, bound=min(generated.bound, plan.value))


def pick(offered: Columns, limits: Floats, missing: float) -> Integers | None:
    """One configuration of each offered block, at most `missing` above the best; None where none was found."""
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


def _regret(columns: Columns, prices: Floats, blocks: int) -> Floats:
    reduced, block = columns.reduced(prices), columns.configurations.block
    least = np.full(blocks, np.inf)
    np.minimum.at(least, block, reduced)
    regret: Floats = reduced - least[block]
    return regret


def _cheapest(formulation: Formulation, generated: Generated, columns: Columns) -> tuple[Columns, float]:
    """As many columns of least regret as one programme can take, and the regret up to which these are all."""
    if len(columns) <= LARGEST:
        return columns, np.inf
    regret = _regret(columns, generated.prices, formulation.blocks)
    order = np.argsort(regret, kind="stable")
    return columns.at(np.sort(order[:LARGEST])), float(regret[order[LARGEST]]) * (1 - TOLERANCE)
