"""Who gets how much of what there is not enough of: one configuration a model, by exchanges.

What a model runs costs next to nothing here, so most of what is near by its regret helps nobody else: a search among
the nearest alone has left models with nothing that could have all. So what stands beside the nearest is what one
exchange makes of the best plan; a programme takes the best of all models at once, again and again until it gains no
more. As soon as all that may be in a better plan are few they enter together, and what comes out is proven.
"""

import numpy as np

from reconciler.optimizer.fleet.choosing import Chosen, cheaper, choose
from reconciler.optimizer.fleet.exchanges import exchanged
from reconciler.optimizer.fleet.formulation import GAP, TOLERANCE, Formulation
from reconciler.optimizer.fleet.generation import Generated, Known, added, known_of, known_plan, unique
from reconciler.optimizer.fleet.regrets import Regrets

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
