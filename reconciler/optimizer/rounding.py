"""From fractional shares of configurations to one whole configuration for each model."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reconciler.optimizer.columns import (
    Generated,
    Known,
    added,
    best_by_block,
    fits,
    known_of,
    known_plan,
    room,
    unique,
)
from reconciler.optimizer.configurations import configurations_from, exchanged
from reconciler.optimizer.formulation import GAP, TOLERANCE, Formulation, ProblemPart, part_of
from reconciler.optimizer.highs import Flags, Floats, Integers, Programme, by_cells, owners, plain, solve, sums
from reconciler.optimizer.mixed_integer import FleetProgramme
from reconciler.optimizer.pricing import Regrets

if TYPE_CHECKING:
    from reconciler.optimizer.highs import Matrix

# --- was reconciler/optimizer/fleet/choosing.py:
# One configuration for every block, by one mixed-integer programme. A block that has few configurations enters with
# them: that leaves the programme little to search. One that has too many (a large model whose variants cost nearly
# the same at the prices has thousands), or whose configurations nobody can enumerate, enters with the replicas
# themselves.

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


# --- was reconciler/optimizer/fleet/sharing.py:
# Who gets how much of what there is not enough of: one configuration a model, by exchanges. What a model runs costs
# next to nothing here, so most of what is near by its regret helps nobody else: a search among the nearest alone has
# left models with nothing that could have all. So what stands beside the nearest is what one exchange makes of the
# best plan; a programme takes the best of all models at once, again and again until it gains no more. As soon as all
# that may be in a better plan are few they enter together, and what comes out is proven.

EACH, BESIDE = 10, 200
"""Configurations of least regret that are offered: of each model, and beside these of all."""

FEW = 1_000
"""Configurations that enter together, where these are all that may be in a better plan."""

ATTEMPTS = 5

SMALL = 100
"""Choices of a fleet that enter with their replicas at last, where nothing else proves enough."""

_NEAR = 150
"""Singles and pairs beside the best of each model, of which the nearest are taken."""

_LOOSE = 5e-3
"""How exact a programme is whose plan is exchanged once more."""


def share_out(formulation: Formulation, generated: Generated, regrets: Regrets) -> Chosen | None:
    """The best plan found and what is proven of it; None where none was found."""
    best, bound = known_plan(formulation), generated.bound
    nobody = np.zeros(formulation.blocks, dtype=np.bool_)
    offered = nearest = _nearest(generated, _within(formulation, generated, regrets, best))
    least = np.bincount(formulation.block_of_row, regrets.least, minlength=formulation.blocks)
    for attempt in range(ATTEMPTS):
        before, best = best, cheaper(best, choose(formulation, offered, nobody, _LOOSE, best).known)
        if best is None:
            return None
        value = best.value
        if formulation.is_close(value, bound):
            break
        everything = _all_better(formulation, generated, regrets, value - bound)
        if everything is not None:
            chosen = choose(formulation, everything, nobody, GAP / 2, best)
            return Chosen(known=cheaper(best, chosen.known), bound=max(bound, min(chosen.bound, value)))
        if attempt and before is not None and before.value - value <= _LOOSE * abs(value):
            break
        near = added(nearest, known_of(formulation, exchanged(formulation, best.configurations)))
        regret = near.reduced(generated.prices) - least[near.configurations.block]
        is_better = regret <= (value - bound) * (1 + TOLERANCE)
        offered = near.at(is_better)
    if best is not None and len(formulation.choices.keys) <= SMALL and not formulation.is_close(value, bound):
        chosen = choose(formulation, best.at(np.zeros(0, dtype=np.int64)), ~nobody, GAP / 2, best)
        return Chosen(known=cheaper(best, chosen.known), bound=max(bound, min(chosen.bound, value)))
    return Chosen(known=best, bound=bound)


def _within(formulation: Formulation, generated: Generated, regrets: Regrets, best: Known | None) -> Known:
    """What is near by its regret, and in no case more than may be in a better plan."""
    near = regrets.beside(_NEAR)
    if best is not None and best.value - generated.bound < near.regret:
        near = regrets.within(best.value - generated.bound)
    listed = regrets.listed(near).configurations
    return unique(added(generated.known, known_of(formulation, listed)))


def _all_better(formulation: Formulation, generated: Generated, regrets: Regrets, missing: float) -> Known | None:
    """All that may be in a plan better by so much than the bound says; None where these are many."""
    listed = regrets.listed(regrets.within(missing))
    if not listed.is_complete.all() or len(listed.configurations) > FEW:
        return None
    return added(generated.known, known_of(formulation, listed.configurations))


def _nearest(generated: Generated, known: Known) -> Known:
    """Those of least regret."""
    reduced, block = known.reduced(generated.prices), known.configurations.block
    order = np.lexsort((reduced, block))
    first = np.searchsorted(block[order], block[order])
    rank, regret = np.empty(len(order), dtype=np.int64), np.empty(len(order))
    rank[order], regret[order] = np.arange(len(order)) - first, reduced[order] - reduced[order][first]
    is_near = rank < EACH
    is_near[np.argsort(regret, kind="stable")[:BESIDE]] = True
    return known.at(is_near)


# --- was reconciler/optimizer/fleet/rounding.py:
# From shares of configurations to one configuration a model, within everything that is shared. A large fleet's
# programme splits few models: these, and those that nearly prefer something else, are chosen anew while all others
# keep what the programme took for them. Where that proves too little configurations enter by their regret at the
# prices, ever more of them, and a mixed-integer programme takes one of each model. As soon as all those are in whose
# regret is at most what the plan misses the bound by, the plan is the optimum up to the programme's own gap, and that
# is proven. Models that have too many enter with their replicas instead.

LARGEST = 20_000
"""Configurations that one programme may choose among."""

MANY = 300
"""A model with more configurations than this enters with its replicas."""

MOST_DIRECT = 200
"""Choices of all models together that enter with their replicas: a programme of many proves little."""

FEW_DIRECT = 40
"""Of more than that a plan of listed configurations is tried first, unless the fleet is small."""

SMALLEST = 250
"""Choices of a whole fleet that is small: replicas of half of it prove as much as lists, sooner than both."""

SMALL_OF_ROUNDING = 2_000
"""Choices of a whole fleet that may enter with their replicas, where nothing else proves enough."""

MANY_BLOCKS = 3_000
"""A fleet of more blocks than this is large: its programme splits few of them."""

TIES = (600, 2_400)
"""Models beside the split ones that are chosen anew in a large fleet: those that nearly prefer something else."""

CLOSE = 3e-4
"""How close to the bound that must come, as a fraction, to be the plan."""

_BESIDE = (150, 500, 2_000, 8_000, None)
"""How many singles and pairs enter beside the best of each model, one attempt after the other; at last all that may
be in a better plan than the one known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounded:
    """One configuration a block, and the bound proven on any plan's value."""

    known: Known
    bound: float

    def is_close(self, formulation: Formulation) -> bool:
        """Whether what is proven is enough."""
        return formulation.is_close(self.known.value, self.bound)


def round_shares(formulation: Formulation, generated: Generated) -> Rounded | None:
    """The best plan found and what is proven of it; None where none was found within the limits."""
    whole = _whole(formulation, generated)
    if whole is not None:
        return whole
    regrets = Regrets(priced=formulation.priced(generated.prices), pairs=generated.pairs, least=generated.least)
    for ties in TIES if formulation.blocks > MANY_BLOCKS else ():
        repaired = _repaired(formulation, generated, regrets, ties)
        if repaired is not None:
            return repaired
    if formulation.sharing is not None and not formulation.has_many_replicas:
        shared = share_out(formulation, generated, regrets)
        if shared is not None:
            return _better(None, shared.known, shared.bound)
    asking = _Asking(formulation, generated)
    best = _among(formulation, generated, regrets, asking)
    if (best is None or not best.is_close(formulation)) and len(formulation.choices.keys) <= SMALL_OF_ROUNDING:
        nothing, everyone = generated.known.at(np.zeros(0, dtype=np.int64)), np.ones(formulation.blocks, dtype=np.bool_)
        chosen, _ = asking.answer(nothing, everyone, _known(best))
        proven = generated.bound if best is None else best.bound
        best = _better(best, chosen.known, max(proven, chosen.bound))
    return best


def _among(formulation: Formulation, generated: Generated, regrets: Regrets, asking: "_Asking") -> Rounded | None:
    """The best plan of ever more configurations beside the best of each model, until enough is proven."""
    start = known_plan(formulation)
    best, bound = _better(None, start, generated.bound), generated.bound
    for beside in _BESIDE:
        missing = np.inf if best is None else best.known.value - generated.bound
        near = None if beside is None else regrets.beside(beside)
        if near is None or near.regret > missing:
            if not np.isfinite(missing):
                break
            near = regrets.within(missing)
        everything = regrets.listed(near)
        known = unique(added(generated.known, known_of(formulation, everything.configurations)))
        direct = _direct(formulation, known, everything.is_complete)
        # Of more than a programme can take those of least regret are all alike, and seldom fit together.
        few = FEW_DIRECT if len(formulation.choices.keys) > SMALLEST else SMALLEST // 2
        if len(known) <= LARGEST and direct[formulation.block_of_row[formulation.choices.row]].sum() > few:
            best = _of_listed(formulation, generated, known, best)
            if best is not None and best.known.value - best.bound <= GAP / 2 * abs(best.known.value):
                break
        listed = known.at(~direct[known.configurations.block])
        chosen, within = asking.answer(listed, direct, _known(best))
        if (everything.is_complete | direct).all():
            bound = max(bound, min(chosen.bound, generated.bound + min(near.regret, within)))
        best = _better(best, chosen.known, bound)
        if best is None and len(formulation.choices.keys) <= SMALLEST:
            break  # all replicas of a small fleet say sooner than longer lists whether anything fits
        if (best is not None and best.is_close(formulation)) or len(listed) > LARGEST or near.regret == missing:
            break
    return best


class _Asking:
    """Asks for the best plan of listed configurations and direct blocks, and the same thing only once in a row."""

    def __init__(self, formulation: Formulation, generated: Generated) -> None:
        self._formulation, self._generated = formulation, generated
        self._direct: Flags | None = None
        self._listed = -1
        self._answer = Chosen(known=None, bound=-np.inf), np.inf

    def answer(self, listed: Known, direct: Flags, best: Known | None) -> tuple[Chosen, float]:
        """The best plan, and the regret up to which all that was listed was offered; the search begins with `best`."""
        if self._direct is None or len(listed) != self._listed or (direct != self._direct).any():
            self._listed, self._direct = len(listed), direct
            offered, within = _cheapest(self._formulation, self._generated, listed)
            self._answer = choose(self._formulation, offered, direct, GAP / 2, best), within
        return self._answer


def _of_listed(formulation: Formulation, generated: Generated, known: Known, best: Rounded | None) -> Rounded | None:
    """The best plan of listed configurations alone: found sooner than one of replicas, though it proves nothing new."""
    offered, _ = _cheapest(formulation, generated, known)
    nobody = np.zeros(formulation.blocks, dtype=np.bool_)
    chosen = choose(formulation, offered, nobody, CLOSE / 2, _known(best))
    return _better(best, chosen.known, generated.bound)


def _known(best: Rounded | None) -> Known | None:
    return None if best is None else best.known


def _better(best: Rounded | None, fresh: Known | None, bound: float) -> Rounded | None:
    """The better of two plans, with the bound proven by now."""
    known = cheaper(_known(best), fresh)
    return None if known is None else Rounded(known=known, bound=min(bound, known.value))


def _direct(formulation: Formulation, known: Known, is_complete: Flags) -> Flags:
    """Blocks that enter with their replicas: whose configurations cannot be listed, or are too many to list."""
    count = np.bincount(known.configurations.block, minlength=formulation.blocks).astype(np.float64)
    count[~is_complete] = np.inf
    order = np.argsort(-count, kind="stable")
    choices = np.bincount(formulation.block_of_row[formulation.choices.row], minlength=formulation.blocks)
    found = np.zeros(formulation.blocks, dtype=np.bool_)
    found[order] = (count[order] > MANY) & (np.cumsum(choices[order]) <= MOST_DIRECT)
    return found


def _whole(formulation: Formulation, generated: Generated) -> Rounded | None:
    """The programme's own plan, where it splits no model: its value is reached."""
    if not (np.isclose(generated.share, 0.0) | np.isclose(generated.share, 1.0)).all():
        return None
    known = generated.known
    chosen = known.at(best_by_block(formulation.blocks, known.configurations.block, -generated.share))
    if not fits(formulation, chosen):
        return None
    return Rounded(known=chosen, bound=min(generated.bound, chosen.value))


def _repaired(formulation: Formulation, generated: Generated, regrets: Regrets, ties: int) -> Rounded | None:
    """The programme's plan with the split models and the nearest ties chosen anew; None where that is not close."""
    blocks = formulation.blocks
    near = known_of(formulation, regrets.listed(regrets.beside(2 * ties)).configurations)
    known = added(generated.known, near)
    block = known.configurations.block
    share = np.concatenate([generated.share, np.zeros(len(near))])
    taken = best_by_block(blocks, block, -share)
    reduced = known.reduced(generated.prices)
    regret = reduced - np.minimum.reduceat(reduced[np.argsort(block, kind="stable")], _begins(block, blocks))[block]
    regret[taken] = np.inf
    nearest = np.full(blocks, np.inf)
    np.minimum.at(nearest, block, regret)
    nearest[share[taken] < 1 - TOLERANCE] = -1.0
    is_open = np.zeros(blocks, dtype=np.bool_)
    is_open[np.argsort(nearest, kind="stable")[: ties + int((nearest < 0).sum())]] = True
    kept, offered = known.at(taken[~is_open]), known.at(is_open[block])
    left = room(formulation) - sums(kept.worth.use)
    chosen = pick(offered, left, CLOSE / 3 * abs(generated.bound))
    if chosen is None:
        return None
    plan = added(kept, offered.at(chosen))
    plan = plan.at(np.argsort(plan.configurations.block, kind="stable"))
    if plan.value - generated.bound > CLOSE * abs(plan.value) or not fits(formulation, plan):
        return None
    return Rounded(known=plan, bound=min(generated.bound, plan.value))


def _begins(block: Integers, blocks: int) -> Integers:
    return np.searchsorted(np.sort(block, kind="stable"), np.arange(blocks)).astype(np.int64)


def _cheapest(formulation: Formulation, generated: Generated, known: Known) -> tuple[Known, float]:
    """As many as one programme can take, those of least regret, and the regret up to which these are all."""
    if len(known) <= LARGEST:
        return known, np.inf
    reduced, block = known.reduced(generated.prices), known.configurations.block
    least = np.full(formulation.blocks, np.inf)
    np.minimum.at(least, block, reduced)
    regret = reduced - least[block]
    order = np.argsort(regret, kind="stable")
    return known.at(np.sort(order[:LARGEST])), float(regret[order[LARGEST]]) * (1 - TOLERANCE)
