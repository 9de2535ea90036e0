"""From shares of configurations to one configuration a model, within everything that is shared.

Configurations enter by their regret at the prices, ever more of them, and a mixed-integer programme takes one of each
model. As soon as all those are in whose regret is at most what the plan misses the bound by, the plan is the optimum
up to the programme's own gap, and that is proven.
"""

from dataclasses import dataclass

import numpy as np

from reconciler.optimizer.fleet.configurations import Configurations, worth
from reconciler.optimizer.fleet.formulation import Formulation
from reconciler.optimizer.fleet.generation import Generated, Known, added, best_by_block, fits, room
from reconciler.optimizer.fleet.pairs import Pairs
from reconciler.optimizer.fleet.regrets import Regrets
from reconciler.optimizer.fleet.sparse import Integers, by_cells

GAP = 1e-3
"""A plan proven to be this close to the optimum, as a fraction, is good enough."""

LARGEST = 40_000
"""Configurations that one programme may choose among; HiGHS needs some ten seconds for so many."""

_BESIDE = (500, 2_000, 8_000, None)
"""How many singles and pairs enter beside the best of each model, one attempt after the other; at last all that may
be in a better plan than the one known."""

_NODES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounded:
    """One configuration a block, its value, and the bound proven on any plan's value."""

    configurations: Configurations
    value: float
    bound: float


def round_shares(formulation: Formulation, generated: Generated) -> Rounded | None:
    """The best plan found and what is proven of it; None where none was found within the limits."""
    whole = _whole(formulation, generated)
    if whole is not None:
        return whole
    regrets = Regrets.of(formulation, Pairs(formulation), generated.prices)
    best, bound = None, generated.bound
    for beside in _BESIDE:
        missing = np.inf if best is None else best.value - generated.bound
        regret = missing if beside is None else min(regrets.within(formulation.blocks + beside), missing)
        if not np.isfinite(regret):
            break
        known = _everything(formulation, generated, regrets, regret)
        offered = _cheapest(formulation, generated, known)
        chosen, proven = _choose(formulation, offered)
        if regrets.is_complete and len(offered) == len(known):
            bound = max(bound, min(proven, generated.bound + regret))
        value = np.inf if chosen is None else float(offered.worth.value[chosen].sum())
        if chosen is not None and (best is None or value < best.value):
            best = Rounded(configurations=offered.configurations.at(chosen), value=value, bound=bound)
        is_good = best is not None and best.value - bound <= GAP * abs(best.value)
        if is_good or len(known) > LARGEST or regret == missing:
            break
    return None if best is None else Rounded(configurations=best.configurations, value=best.value, bound=bound)


def _whole(formulation: Formulation, generated: Generated) -> Rounded | None:
    """The programme's own plan, where it splits no model: its value is reached."""
    if not (np.isclose(generated.share, 0.0) | np.isclose(generated.share, 1.0)).all():
        return None
    known = generated.known
    chosen = known.at(best_by_block(formulation.blocks, known.configurations.block, -generated.share))
    if not fits(formulation, chosen):
        return None
    value = float(chosen.worth.value.sum())
    return Rounded(configurations=chosen.configurations, value=value, bound=min(generated.bound, value))


def _everything(formulation: Formulation, generated: Generated, regrets: Regrets, regret: float) -> Known:
    """What the prices were found with, and all that is regretted by at most `regret`."""
    fresh = regrets.configurations(regret)
    return _unique(added(generated.known, Known(configurations=fresh, worth=worth(formulation, fresh))))


def _unique(known: Known) -> Known:
    """Each configuration once: irrational weights give different counts different marks."""
    counts = known.configurations.counts
    weights = np.sqrt(np.arange(2.0, counts.shape[1] + 2))
    mark = counts @ weights
    keys = np.stack([known.configurations.block, np.round(known.worth.value, 9), np.round(mark, 9)], axis=1)
    return known.at(np.sort(np.unique(keys, axis=0, return_index=True)[1]))


def _cheapest(formulation: Formulation, generated: Generated, known: Known) -> Known:
    """Those of least regret, where there are more than one programme can take."""
    if len(known) <= LARGEST:
        return known
    reduced = known.reduced(generated.prices)
    block = known.configurations.block
    regret = reduced - reduced[best_by_block(formulation.blocks, block, reduced)][block]
    return known.at(np.sort(np.argsort(regret, kind="stable")[:LARGEST]))


def _choose(formulation: Formulation, known: Known) -> tuple[Integers | None, float]:
    """The best configuration of each block together, as indices, and the bound that was proven for these."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    count = len(known)
    once = by_cells(np.ones(count), known.configurations.block, np.arange(count), (formulation.blocks, count))
    answer = milp(
        known.worth.value,
        integrality=np.ones(count, dtype=np.int64),
        bounds=Bounds(0.0, 1.0),
        constraints=[LinearConstraint(once, 1.0, 1.0), LinearConstraint(known.worth.use.T, -np.inf, room(formulation))],
        options={"mip_rel_gap": GAP / 2, "node_limit": _NODES},
    )
    proven = getattr(answer, "mip_dual_bound", None)
    bound = -np.inf if proven is None else float(proven)
    if answer.x is None:
        return None, np.inf if answer.status == _INFEASIBLE else bound
    chosen = best_by_block(formulation.blocks, known.configurations.block, -answer.x)
    return (chosen if fits(formulation, known.at(chosen)) else None), bound


_INFEASIBLE = 2
