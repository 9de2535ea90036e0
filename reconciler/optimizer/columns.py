"""Column generation: prices of shared rows, found together with the configurations that matter.

A linear programme chooses among the configurations known so far and puts a price on every shared row. At these prices
each model looks for a better configuration, until no model finds one. Then the programme's value is the best that
fractions of configurations reach, and no plan is better.
"""

import numpy as np

from reconciler.domain.records import dataclass, replace
from reconciler.optimizer.configurations import Configurations, Worth, configurations_from, worth
from reconciler.optimizer.enumeration import Pairs
from reconciler.optimizer.formulation import TOLERANCE, Formulation, part_of
from reconciler.optimizer.highs import Arrays, Flags, Floats, GrowingProgramme, Integers, by_cells, plain, sums
from reconciler.optimizer.pricing import PricedBest, Pricing

ROUNDS = 60
"""Rounds of prices; fleets of 10,000 models needed four to six."""

GAP = 5e-5
"""The gap between the programme's value and the bound at which the search for columns ends."""

EXCESS = 1e-6
"""By how much of a device, a budget or a change a kept shared row may be exceeded."""

_FORGET = 0.1
"""Columns dearer than a model's best by this fraction of its value leave the programme."""

SEARCHES = 3
"""How often the general search runs once rough prices find nothing better."""

MANY, SAMPLE = 3_000, 1_000
"""Fleets of more blocks start from the prices of a sample: 6.6 s for 10,000 models with pools at 0.7, else 9.5 s."""

_DEARER, _RAISES = 100.0, 3
"""The penalty of exceeding a shared row grows by this factor, so many times at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns(Arrays):
    """Configurations with their worth: columns of the programme, or a plan where there is one for each block."""

    configurations: Configurations
    worth: Worth

    def __len__(self) -> int:
        return len(self.configurations)

    @property
    def value(self) -> float:
        """The value of all together."""
        return float(self.worth.value.sum())

    def reduced(self, prices: Floats) -> Floats:
        """The value of each with what it uses at these prices."""
        value: Floats = self.worth.value + self.worth.use @ prices
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """The columns that matter, the share that the programme takes of each, and the bound that `prices` prove.

    `excess` is by how much each shared row is exceeded at least: where it is not zero, no plan keeps all rows.
    `infeasible` are blocks without any configuration. `least` is the best value of each row at the prices.
    """

    columns: Columns
    share: Floats
    prices: Floats
    bound: float
    pairs: Pairs
    least: Floats
    excess: Floats
    infeasible: Integers


def generate(formulation: Formulation) -> Generated:
    """Columns and prices until no model finds a better configuration, or the rounds are over; the bound always holds.

    Raises UnsolvableError where a programme over these numbers has no answer.
    """
    pricing, nothing = Pricing(formulation), np.zeros(len(formulation.shared))
    free = pricing.best_at(nothing, is_rough=True)
    columns = columns_of(formulation, free.configurations)
    if free.is_rough and (len(free.infeasible) or fits(formulation, _best(formulation, columns))):
        free = pricing.best_at(nothing)
        columns = columns_of(formulation, free.configurations)
    if len(free.infeasible) or fits(formulation, _best(formulation, columns)):
        return _unpriced(formulation, pricing.pairs, columns, free)
    search = _Search(formulation, pricing, nothing, free)
    penalty = np.full(len(nothing), max(float(columns.worth.value.max()), 1.0))
    if formulation.blocks <= MANY:
        scarce = pricing.best_at(penalty, is_rough=True)
        columns = Columns.joined([columns, columns_of(formulation, scarce.configurations)])
    else:
        prices = _sampled_prices(formulation, _best(formulation, columns))
        usual = pricing.best_at(prices, is_rough=True)
        if usual.bound > search.proof.bound:
            search.prices, search.proof = prices, usual
        columns = columns_of(formulation, usual.configurations)
    before = known_plan(formulation)
    raises, value, searches = 0, np.inf, SEARCHES
    growing = _Growing(formulation, columns if before is None else Columns.joined([columns, before]), penalty)
    for _ in range(ROUNDS):
        programme = growing.solve()
        # First half way to the prices that prove most, because the programme's own prices swing.
        better = search.improving(programme, (search.prices + programme.prices) / 2, is_rough=True)
        better = better if len(better) else search.improving(programme, programme.prices, is_rough=True)
        better = _without_known(growing.columns, better) if len(better) else better
        is_proven = programme.value - search.proof.bound <= GAP * abs(programme.value)
        is_done = not len(better) or is_proven
        if is_done and programme.excess.max(initial=0.0) > TOLERANCE and raises < _RAISES:
            raises += 1
            growing.raise_penalty()
            better = better if before is None else Columns.joined([better, before])
        elif is_done and searches and not is_proven:
            searches -= 1
            better = _without_known(growing.columns, search.improving(programme, programme.prices))
            if not len(better):
                break
        elif is_done:
            break
        # Without progress these prices are one choice of many: keep the columns that others of them need.
        is_nearer = programme.value < value - _noise(np.array(programme.value))
        growing.learn(_matters(growing.columns, programme) if is_nearer else None, better)
        value = programme.value
    else:
        programme = growing.solve()
    return Generated(
        columns=growing.columns,
        share=programme.share,
        prices=search.prices,
        bound=search.proof.bound,
        pairs=pricing.pairs,
        least=search.proof.least,
        excess=programme.excess,
        infeasible=free.infeasible,
    )


def _sampled_prices(formulation: Formulation, free: Columns) -> Floats:
    """Prices at which a sample of the blocks shares its part of every row: close to those of all."""
    stride = -(-formulation.blocks // SAMPLE)
    is_sampled = np.arange(formulation.blocks) % stride == 0
    used, all_used = sums(free.at(is_sampled).worth.use), sums(free.worth.use)
    part = part_of(formulation, is_sampled[formulation.block_of_row]).formulation
    share = np.where(all_used > 0, used / np.where(all_used > 0, all_used, 1.0), 1 / stride)
    return generate(replace(part, shared=replace(part.shared, limits=part.shared.limits * share))).prices


class _Search:
    """The prices that prove most so far, and what they prove."""

    def __init__(self, formulation: Formulation, pricing: Pricing, prices: Floats, proof: PricedBest) -> None:
        self._formulation, self._pricing = formulation, pricing
        self.prices, self.proof = prices, proof

    def improving(self, programme: "_Programme", prices: Floats, *, is_rough: bool = False) -> Columns:
        """The columns that improve the programme, of those that models choose at `prices`."""
        best = self._pricing.best_at(prices, is_rough=is_rough)
        if best.bound >= self.proof.bound:
            self.prices, self.proof = prices, best
        fresh = columns_of(self._formulation, best.configurations)
        worth_now = programme.worth_of_block[fresh.configurations.block]
        return fresh.at(fresh.reduced(programme.prices) < worth_now - _noise(worth_now))


def _matters(columns: Columns, programme: "_Programme") -> Flags:
    """Whether the programme takes a column, or might at slightly different prices."""
    best = programme.worth_of_block[columns.configurations.block]
    result: Flags = (columns.reduced(programme.prices) <= best + _FORGET * np.abs(best)) | (programme.share > 0)
    return result


def _noise(value: Floats) -> Floats:
    return TOLERANCE * np.maximum(np.abs(value), 1.0)


def columns_of(formulation: Formulation, configurations: Configurations) -> Columns:
    """Configurations with their worth under the formulation's own costs."""
    return Columns(configurations=configurations, worth=worth(formulation, configurations))


def whole_plan(formulation: Formulation, counts: Integers) -> Columns:
    """A plan (replicas by choice) as the configuration of each block."""
    choices, blocks = np.arange(len(counts)), np.arange(formulation.blocks)
    return columns_of(formulation, configurations_from(formulation, choices, counts, blocks))


def known_plan(formulation: Formulation) -> Columns | None:
    """The known plan as configurations; None without one, or where it breaks a shared row."""
    if formulation.known_counts is None:
        return None
    known = whole_plan(formulation, formulation.known_counts)
    return known if fits(formulation, known) else None


def unique(columns: Columns) -> Columns:
    """Each configuration once, the first of each."""
    return columns.at(_first_places(columns))


def _without_known(known: Columns, fresh: Columns) -> Columns:
    """The fresh columns that are not known: within the programme's tolerance a known one may look better."""
    places = _first_places(Columns.joined([known, fresh]))
    return fresh.at(places[places >= len(known)] - len(known))


def _first_places(columns: Columns) -> Integers:
    """The first place of each configuration: irrational weights give different counts different marks."""
    counts = columns.configurations.counts
    mark = counts @ np.sqrt(np.arange(2.0, counts.shape[1] + 2))
    keys = np.stack([columns.configurations.block, np.round(columns.worth.value, 9), np.round(mark, 9)], axis=1)
    return np.sort(np.unique(keys, axis=0, return_index=True)[1]).astype(np.int64)


def best_by_block(blocks: int, block: Integers, value: Floats) -> Integers:
    """The first configuration of least value of each block; every block must have one."""
    order = np.lexsort((value, block))
    return order[np.searchsorted(block[order], np.arange(blocks))]


def _best(formulation: Formulation, columns: Columns) -> Columns:
    """The best configuration of each block, whatever it uses."""
    return columns.at(best_by_block(formulation.blocks, columns.configurations.block, columns.worth.value))


def fits(formulation: Formulation, chosen: Columns) -> bool:
    """Whether configurations together keep all shared rows."""
    return bool((sums(chosen.worth.use) <= room(formulation)).all())


def room(formulation: Formulation) -> Floats:
    """The limits of shared rows, with room for float noise."""
    limits = formulation.shared.limits
    result: Floats = limits + TOLERANCE * np.maximum(np.abs(limits), 1.0)
    return result


def _unpriced(formulation: Formulation, pairs: Pairs, columns: Columns, free: PricedBest) -> Generated:
    """No shared row binds: the best of each block alone is the best of all."""
    share = np.zeros(len(columns))
    if not len(free.infeasible):
        share[best_by_block(formulation.blocks, columns.configurations.block, columns.worth.value)] = 1.0
    nothing = np.zeros(len(formulation.shared))
    return Generated(
        columns=columns,
        share=share,
        prices=nothing,
        bound=free.bound,
        pairs=pairs,
        least=free.least,
        excess=nothing,
        infeasible=free.infeasible,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Programme:
    """What the linear programme answers; `worth_of_block` is what one more configuration of a block may cost."""

    value: float
    share: Floats
    excess: Floats
    prices: Floats
    worth_of_block: Floats


class _Growing:
    """The linear programme over the known columns; exceeding a shared row costs a penalty a unit."""

    def __init__(self, formulation: Formulation, columns: Columns, penalty: Floats) -> None:
        self.columns = columns
        self._shared, self._blocks, self._penalty = len(formulation.shared), formulation.blocks, penalty
        once = np.ones(self._blocks)
        self._programme = GrowingProgramme(
            np.concatenate([np.full(self._shared, -np.inf), once]), np.concatenate([formulation.shared.limits, once])
        )
        every = np.arange(self._shared)
        excess = by_cells(-np.ones(self._shared), every, every, (self._shared, self._shared + self._blocks))
        self._programme.add(penalty, excess)
        self._add(columns)

    def _add(self, fresh: Columns) -> None:
        from scipy.sparse import hstack

        count = len(fresh)
        once = by_cells(np.ones(count), np.arange(count), fresh.configurations.block, (count, self._blocks))
        self._programme.add(fresh.worth.value, plain(hstack([fresh.worth.use, once])))

    def learn(self, is_kept: Flags | None, fresh: Columns) -> None:
        """Drop the columns that are not kept, and add fresh ones."""
        if is_kept is not None:
            self._programme.keep(np.concatenate([np.ones(self._shared, dtype=np.bool_), is_kept]))
            self.columns = self.columns.at(is_kept)
        self._add(fresh)
        self.columns = Columns.joined([self.columns, fresh])

    def raise_penalty(self) -> None:
        self._penalty = self._penalty * _DEARER
        self._programme.cost(np.arange(self._shared), self._penalty)

    def solve(self) -> _Programme:
        answer = self._programme.solve()
        return _Programme(
            value=answer.value,
            share=answer.columns[self._shared :],
            excess=answer.columns[: self._shared],
            prices=np.maximum(-answer.rows[: self._shared], 0.0),
            worth_of_block=answer.rows[self._shared :],
        )
