"""Rules that no plan can keep together, named as the fewest that are enough; their models are held.

What is looked at are bounds, ratios and what is pinned against pools, budgets and limits, without any demand: that
demand does not fit is no conflict, it is scarcity.
"""

from dataclasses import dataclass, replace

import numpy as np

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.requirements import Problem
from reconciler.domain.solutions import Conflict
from reconciler.optimizer.fleet.formulation import Formulation, formulate
from reconciler.optimizer.fleet.generation import generate
from reconciler.optimizer.fleet.sparse import Flags, Floats, Integers

EXCESS = 1e-6
"""Of a device, a budget's unit or a change: below it a shared row is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A problem whose rules some plan keeps, as arrays, and what was held to get there."""

    formulation: Formulation
    conflicts: tuple[Conflict, ...]


def settle(problem: Problem) -> Settled:
    """The problem with the models of every conflict held, so that a plan exists that keeps all rules.

    What must serve while the change is under way gives way where not even that fits: it runs, so the inventory is
    wrong about it or the cluster will be.
    """
    conflicts: list[Conflict] = []
    while True:
        formulation = formulate(problem)
        generated = generate(_without(formulation, demand=True, near=True))
        if not len(generated.infeasible) and generated.excess.max(initial=0.0) <= EXCESS:
            break
        conflict, held = (
            _of_blocks(formulation, generated.infeasible)
            if len(generated.infeasible)
            else _of_shared(formulation, generated.excess > EXCESS)
        )
        conflicts.append(conflict)
        problem = replace(problem, pinned={**problem.pinned, **{key: problem.current[key] for key in held}})
    if formulation.rows.near.any():
        generated = generate(_without(formulation, demand=True, near=False))
        if len(generated.infeasible) or generated.excess.max(initial=0.0) > EXCESS:
            formulation = _without(formulation, demand=False, near=True)
    return Settled(formulation=formulation, conflicts=tuple(conflicts))


def _without(formulation: Formulation, *, demand: bool, near: bool) -> Formulation:
    rows = formulation.rows
    if demand:
        rows = replace(rows, must=np.zeros_like(rows.must), amounts=rows.amounts[:, :0], prices=rows.prices[:, :0])
    if near:
        rows = replace(rows, near=np.zeros_like(rows.near))
    return replace(formulation, rows=rows)


def _of_blocks(formulation: Formulation, blocks: Integers) -> tuple[Conflict, tuple[ResourceKey, ...]]:
    """Models that have no configuration even alone: their own bounds and ratios contradict each other."""
    is_meant: Flags = np.isin(formulation.block_of_row, blocks)
    keys = _variants_of(formulation, is_meant)
    rules = [f"{_bounds_words(formulation.problem, key)} of {key.label}" for key in keys]
    rules += [
        f"the ratio of {ratio.over or 'one role'} to {ratio.under or 'another'} of {ratio.model.model_id}"
        for ratio in formulation.problem.ratios
        if ratio.model in _models(formulation, is_meant)
    ]
    return Conflict(rules=tuple(rules), models=_models(formulation, is_meant)), keys


def _bounds_words(problem: Problem, key: ResourceKey) -> str:
    bounds = problem.bounds[key]
    most = "" if bounds.maximum is None else f" and maxReplicas {bounds.maximum}"
    return f"minReplicas {bounds.minimum}{most}"


def _of_shared(formulation: Formulation, exceeded: Flags) -> tuple[Conflict, tuple[ResourceKey, ...]]:
    """The fewest variants whose bounds alone exceed what the rows have for them: the largest, until it is enough."""
    needed = _needed(formulation, exceeded)
    limit = float(formulation.shared.limits[exceeded].sum())
    order = np.argsort(-needed, kind="stable")
    order = order[needed[order] > 0]
    enough = int(np.searchsorted(np.cumsum(needed[order]), limit + EXCESS, side="right")) + 1
    # Where no bound alone says why, as where a ratio asks for more, whoever is there is held.
    chosen = np.sort(order[:enough]) if len(order) else np.arange(len(needed))
    keys = tuple(formulation.variants.keys[index] for index in chosen)
    rules = [
        f"{_bounds_words(formulation.problem, key)} of {key.label} (takes {needed[index]:g})"
        for index, key in zip(chosen, keys, strict=True)
    ]
    rules += [
        f"{name} with {left:g} left for them"
        for name, left, is_exceeded in zip(formulation.shared.names, formulation.shared.limits, exceeded, strict=True)
        if is_exceeded
    ]
    is_meant: Flags = np.isin(np.arange(len(formulation.rows.requirements)), formulation.variants.row[chosen])
    return Conflict(rules=tuple(rules), models=_models(formulation, is_meant)), _variants_of(formulation, is_meant)


def _needed(formulation: Formulation, exceeded: Flags) -> Floats:
    """By variant the least that its bounds take of the exceeded rows, over its choices."""
    choices, variants, shared = formulation.choices, formulation.variants, formulation.shared
    weights = exceeded.astype(np.float64)
    started = np.maximum(choices.lowest - choices.standing, 0)
    taken = (weights @ shared.use) * choices.lowest + (weights @ shared.use_starting) * started
    least = np.full(len(variants.keys), np.inf)
    np.minimum.at(least, choices.variant, taken)
    is_admitted = choices.is_standing & (choices.lowest <= choices.standing) & (choices.standing <= choices.highest)
    may_stay = np.bincount(choices.variant, is_admitted, minlength=len(variants.keys)) > 0
    is_changed = np.where(variants.was_active, ~may_stay, variants.is_forced)
    needed: Floats = np.where(variants.is_forced, least, 0.0) + (weights @ shared.use_touching) * is_changed
    return needed


def _variants_of(formulation: Formulation, rows: Flags) -> tuple[ResourceKey, ...]:
    return tuple(
        key for key, is_meant in zip(formulation.variants.keys, rows[formulation.variants.row], strict=True) if is_meant
    )


def _models(formulation: Formulation, rows: Flags) -> tuple[ModelKey, ...]:
    named = zip(formulation.rows.requirements, rows, strict=True)
    return tuple(dict.fromkeys(each.model for each, is_meant in named if is_meant))
