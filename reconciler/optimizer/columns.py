"""Column generation: prices of shared rows, found together with the configurations that matter."""

from dataclasses import dataclass, replace

import numpy as np

from reconciler.optimizer.configurations import Configurations, Worth, configurations_from, joined, worth
from reconciler.optimizer.enumeration import Pairs
from reconciler.optimizer.formulation import TOLERANCE, Formulation, part_of
from reconciler.optimizer.highs import Flags, Floats, GrowingProgramme, Integers, by_cells, plain, stacked, sums
from reconciler.optimizer.pricing import PriceAnswer, Pricing

ROUNDS = 60
"""Rounds of prices; fleets of 10,000 models needed four to six."""

GAP = 5e-5
"""Where the programme's value and the bound are this close, as a fraction, nobody knows better."""

EXCESS = 1e-6
"""Of a device, a budget's unit or a change: below it a shared row is kept."""

_FORGET = 0.1
"""Configurations dearer than a model's best by this fraction of its value leave the programme."""

SEARCHES = 3
"""How often the general search is asked, once rough answers know nothing better."""

MANY, SAMPLE = 3_000, 1_000
"""Fleets of more blocks than this begin with the prices of a sample of them."""

_DEARER = 100.0
_RAISES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Configurations with what they are worth."""

    configurations: Configurations
    worth: Worth

    def __len__(self) -> int:
        return len(self.configurations)

    @property
    def value(self) -> float:
        """What all are worth together."""
        return float(self.worth.value.sum())

    def at(self, chosen: Flags | Integers) -> "Known":
        """Those of an index or a mask."""
        return Known(
            configurations=self.configurations.at(chosen),
            worth=Worth(value=self.worth.value[chosen], use=self.worth.use[chosen]),
        )

    def reduced(self, prices: Floats) -> Floats:
        """What each is worth at the prices of what it uses."""
        value: Floats = self.worth.value + self.worth.use @ prices
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """The configurations that matter, the share that the programme takes of each, and the bound that `prices` prove.

    `excess` is by how much each shared row is exceeded even so: where it is not zero, no plan keeps all rows.
    `infeasible` are blocks without any configuration. `least` is what each row is worth at best at the prices.
    """

    known: Known
    share: Floats
    prices: Floats
    bound: float
    pairs: Pairs
    least: Floats
    excess: Floats
    infeasible: Integers


def generate(formulation: Formulation) -> Generated:
    """Configurations and prices until nobody knows better, or the rounds are over; the bound holds in either case.

    Raises UnsolvableError where a programme over these numbers has no answer.
    """
    pricing = Pricing(formulation)
    free = pricing.answer(np.zeros(len(formulation.shared)), is_rough=True)
    known = known_of(formulation, free.configurations)
    if free.is_rough and (len(free.infeasible) or fits(formulation, _best(formulation, known))):
        free = pricing.answer(np.zeros(len(formulation.shared)))
        known = known_of(formulation, free.configurations)
    proof = _Proof(prices=np.zeros(len(formulation.shared)), bound=free.bound, least=free.least)
    if len(free.infeasible) or fits(formulation, _best(formulation, known)):
        return _unpriced(formulation, pricing.pairs, known, free)
    penalty = np.full(len(formulation.shared), max(float(known.worth.value.max()), 1.0))
    known, proof = _begun(formulation, pricing, known, proof, penalty)
    before = known_plan(formulation)
    known = known if before is None else added(known, before)
    raises, value, searches = 0, np.inf, SEARCHES
    growing = _Growing(formulation, known, penalty)
    for _ in range(ROUNDS):
        programme = growing.solve()
        better, proof = _asked(formulation, pricing, programme, proof)
        better = _unknown(growing.known, better) if len(better) else better
        is_proven = programme.value - proof.bound <= GAP * abs(programme.value)
        is_done = not len(better) or is_proven
        is_exceeding = programme.excess.max(initial=0.0) > TOLERANCE
        if is_done and is_exceeding and raises < _RAISES:
            raises += 1
            growing.raise_penalty()
            better = better if before is None else added(better, before)
        elif is_done and searches and not is_proven:
            searches -= 1
            better, proof = _searched(formulation, pricing, programme, proof)
            better = _unknown(growing.known, better)
            if not len(better):
                break
        elif is_done:
            break
        # Without progress the prices are one of many: what another of them needs must not be forgotten for this one.
        is_nearer = programme.value < value - _least(np.array(programme.value))
        growing.learn(_matters(growing.known, programme) if is_nearer else None, better)
        value = programme.value
    else:
        programme = growing.solve()
    return Generated(
        known=growing.known,
        share=programme.share,
        prices=proof.prices,
        bound=proof.bound,
        pairs=pricing.pairs,
        least=proof.least,
        excess=programme.excess,
        infeasible=free.infeasible,
    )


def _sampled_prices(formulation: Formulation, free: Known) -> Floats:
    """Prices at which a sample of the blocks shares its part of everything: a start that is nearly right."""
    stride = -(-formulation.blocks // SAMPLE)
    is_sampled = np.arange(formulation.blocks) % stride == 0
    used, all_used = sums(free.at(is_sampled).worth.use), sums(free.worth.use)
    part = part_of(formulation, is_sampled[formulation.block_of_row]).formulation
    share = np.where(all_used > 0, used / np.where(all_used > 0, all_used, 1.0), 1 / stride)
    return generate(replace(part, shared=replace(part.shared, limits=part.shared.limits * share))).prices


def _searched(
    formulation: Formulation, pricing: Pricing, programme: "_ColumnProgramme", proof: "_Proof"
) -> tuple[Known, "_Proof"]:
    """What the general search finds better at the programme's own prices, and what it proves there."""
    answer = pricing.answer(programme.prices)
    if answer.bound >= proof.bound:
        proof = _Proof(prices=programme.prices, bound=answer.bound, least=answer.least)
    fresh = known_of(formulation, answer.configurations)
    worth_now = programme.worth_of_block[fresh.configurations.block]
    return fresh.at(fresh.reduced(programme.prices) < worth_now - _least(worth_now)), proof


def _asked(
    formulation: Formulation, pricing: Pricing, programme: "_ColumnProgramme", proof: "_Proof"
) -> tuple[Known, "_Proof"]:
    """What models would rather run at the programme's prices, and the better proof.

    They are asked half way from the prices that prove most, for the programme's own swing; where nobody knows better
    there, at its own.
    """
    for prices in ((proof.prices + programme.prices) / 2, programme.prices):
        answer = pricing.answer(prices, is_rough=True)
        if answer.bound >= proof.bound:
            proof = _Proof(prices=prices, bound=answer.bound, least=answer.least)
        fresh = known_of(formulation, answer.configurations)
        worth_now = programme.worth_of_block[fresh.configurations.block]
        better = fresh.at(fresh.reduced(programme.prices) < worth_now - _least(worth_now))
        if len(better):
            break
    return better, proof


def _matters(known: Known, programme: "_ColumnProgramme") -> Flags:
    """Configurations that the programme takes, or might at prices a little different."""
    best = programme.worth_of_block[known.configurations.block]
    result: Flags = (known.reduced(programme.prices) <= best + _FORGET * np.abs(best)) | (programme.share > 0)
    return result


def _least(value: Floats) -> Floats:
    """What counts as better: more than float noise."""
    return TOLERANCE * np.maximum(np.abs(value), 1.0)


def known_of(formulation: Formulation, configurations: Configurations) -> Known:
    """Configurations with what they are worth under the formulation's own costs."""
    return Known(configurations=configurations, worth=worth(formulation, configurations))


def known_plan(formulation: Formulation) -> Known | None:
    """The plan that is known to keep all rows, as configurations; None where there is none."""
    counts = formulation.known_counts
    if counts is None:
        return None
    choices, blocks = np.arange(len(counts)), np.arange(formulation.blocks)
    known = known_of(formulation, configurations_from(formulation, choices, counts, blocks))
    return known if fits(formulation, known) else None


def added(known: Known, fresh: Known) -> Known:
    """Both; what is in both is there twice."""
    return Known(
        configurations=joined([known.configurations, fresh.configurations]),
        worth=Worth(
            value=np.concatenate([known.worth.value, fresh.worth.value]),
            use=stacked([known.worth.use, fresh.worth.use]),
        ),
    )


def unique(known: Known) -> Known:
    """Each configuration once, the first of each."""
    return known.at(_first_places(known))


def _unknown(known: Known, fresh: Known) -> Known:
    """Those that are not known: to the programme's tolerance a known one may look better than what it took."""
    places = _first_places(added(known, fresh))
    return fresh.at(places[places >= len(known)] - len(known))


def _first_places(known: Known) -> Integers:
    """Where each configuration stands first: irrational weights give different counts different marks."""
    counts = known.configurations.counts
    mark = counts @ np.sqrt(np.arange(2.0, counts.shape[1] + 2))
    keys = np.stack([known.configurations.block, np.round(known.worth.value, 9), np.round(mark, 9)], axis=1)
    return np.sort(np.unique(keys, axis=0, return_index=True)[1]).astype(np.int64)


def best_by_block(blocks: int, block: Integers, value: Floats) -> Integers:
    """The first configuration of least value of each block; every block must have one."""
    order = np.lexsort((value, block))
    starts = np.searchsorted(block[order], np.arange(blocks))
    return order[starts]


def _best(formulation: Formulation, known: Known) -> Known:
    """The best configuration of each block, whatever it uses."""
    return known.at(best_by_block(formulation.blocks, known.configurations.block, known.worth.value))


def fits(formulation: Formulation, chosen: Known) -> bool:
    """Whether configurations together keep all shared rows."""
    return bool((sums(chosen.worth.use) <= room(formulation)).all())


def room(formulation: Formulation) -> Floats:
    """The limits of shared rows, with what float noise may add."""
    limits = formulation.shared.limits
    result: Floats = limits + TOLERANCE * np.maximum(np.abs(limits), 1.0)
    return result


def _unpriced(formulation: Formulation, pairs: Pairs, known: Known, free: PriceAnswer) -> Generated:
    """Nothing that is shared binds: the best of each block alone is the best of all."""
    share = np.zeros(len(known))
    if not len(free.infeasible):
        share[best_by_block(formulation.blocks, known.configurations.block, known.worth.value)] = 1.0
    nothing = np.zeros(len(formulation.shared))
    return Generated(
        known=known,
        share=share,
        prices=nothing,
        bound=free.bound,
        pairs=pairs,
        least=free.least,
        excess=nothing,
        infeasible=free.infeasible,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proof:
    """The prices that prove most, the bound that they prove, and what each row is worth at best at them."""

    prices: Floats
    bound: float
    least: Floats


def _begun(
    formulation: Formulation, pricing: Pricing, known: Known, proof: _Proof, penalty: Floats
) -> tuple[Known, _Proof]:
    """What is worth knowing before the first programme: answers at prices that are nearly right, or very dear."""
    if formulation.blocks <= MANY:
        scarce = pricing.answer(penalty, is_rough=True)
        return added(known, known_of(formulation, scarce.configurations)), proof
    prices = _sampled_prices(formulation, _best(formulation, known))
    usual = pricing.answer(prices, is_rough=True)
    if usual.bound > proof.bound:
        proof = _Proof(prices=prices, bound=usual.bound, least=usual.least)
    return known_of(formulation, usual.configurations), proof


@dataclass(frozen=True, slots=True, kw_only=True)
class _ColumnProgramme:
    value: float
    share: Floats
    excess: Floats
    prices: Floats
    worth_of_block: Floats


class _Growing:
    """The linear programme over the known configurations; exceeding a shared row costs a penalty a unit."""

    def __init__(self, formulation: Formulation, known: Known, penalty: Floats) -> None:
        self.known = known
        self._shared, self._blocks, self._penalty = len(formulation.shared), formulation.blocks, penalty
        once = np.ones(self._blocks)
        self._programme = GrowingProgramme(
            np.concatenate([np.full(self._shared, -np.inf), once]), np.concatenate([formulation.shared.limits, once])
        )
        every = np.arange(self._shared)
        excess = by_cells(-np.ones(self._shared), every, every, (self._shared, self._shared + self._blocks))
        self._programme.add(penalty, excess)
        self._add(known)

    def _add(self, fresh: Known) -> None:
        from scipy.sparse import hstack

        count = len(fresh)
        once = by_cells(np.ones(count), np.arange(count), fresh.configurations.block, (count, self._blocks))
        self._programme.add(fresh.worth.value, plain(hstack([fresh.worth.use, once])))

    def learn(self, is_kept: Flags | None, fresh: Known) -> None:
        """Forget what is not kept, and know more."""
        if is_kept is not None:
            self._programme.keep(np.concatenate([np.ones(self._shared, dtype=np.bool_), is_kept]))
            self.known = self.known.at(is_kept)
        self._add(fresh)
        self.known = added(self.known, fresh)

    def raise_penalty(self) -> None:
        self._penalty = self._penalty * _DEARER
        self._programme.cost(np.arange(self._shared), self._penalty)

    def solve(self) -> _ColumnProgramme:
        answer = self._programme.solve()
        return _ColumnProgramme(
            value=answer.value,
            share=answer.columns[self._shared :],
            excess=answer.columns[: self._shared],
            prices=np.maximum(-answer.rows[: self._shared], 0.0),
            worth_of_block=answer.rows[self._shared :],
        )
