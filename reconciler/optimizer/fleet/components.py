"""Parts of a fleet that share nothing with each other: each is decided as if the others did not exist."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from reconciler.domain.requirements import Problem
from reconciler.domain.solutions import Solution, SolveStatus
from reconciler.optimizer.device_use import NOTHING
from reconciler.optimizer.fleet.formulating import members
from reconciler.optimizer.fleet.formulation import Formulation
from reconciler.optimizer.fleet.proof import coverages, sensitivity, shared_uses
from reconciler.optimizer.sparse import Integers, by_cells, owners


def components(formulation: Formulation) -> list[Problem]:
    """The problem by what its models share, in the order of the models; those that share nothing are one together."""
    label = _labels(formulation)
    if label.max(initial=0) == 0:
        return [formulation.problem]
    order = dict.fromkeys(label[formulation.block_of_row].tolist())
    return [_part(formulation, label, each) for each in order]


def _labels(formulation: Formulation) -> Integers:
    """By block its component, from 0: blocks are joined by the shared rows that any of their choices uses.

    Or that they use now: where rules contradict each other a model stays where it is.
    """
    label = _joined_by(formulation, [])
    return label if label.max(initial=0) == 0 else _joined_by(formulation, list(_standing(formulation)))


def _standing(formulation: Formulation) -> Iterator[tuple[int, int]]:
    """The blocks with the pools that they take anything of now."""
    problem = formulation.problem
    rows = {name: row for row, name in enumerate(formulation.shared.names)}
    for requirement, block in zip(formulation.rows.requirements, formulation.block_of_row.tolist(), strict=True):
        for key in members(requirement):
            taken = problem.current_devices.get(key, NOTHING) if problem.current[key].replicas else NOTHING
            yield from ((block, rows[name]) for name in taken if name in rows)


def _joined_by(formulation: Formulation, more: Sequence[tuple[int, int]]) -> Integers:
    """The components by what choices use, and by `more` pairs of a block and a shared row."""
    from scipy.sparse.csgraph import connected_components

    shared, blocks = formulation.shared, formulation.blocks
    standing = np.array(more, dtype=np.int64).reshape(-1, 2)
    of_choice = formulation.block_of_row[formulation.choices.row]
    of_variant = formulation.block_of_row[formulation.variants.row]
    rows = np.concatenate([owners(shared.use), owners(shared.use_touching), standing[:, 1]])
    users = np.concatenate([of_choice[shared.use.indices], of_variant[shared.use_touching.indices], standing[:, 0]])
    size = blocks + len(shared)
    joined = by_cells(np.ones(len(rows)), users, blocks + rows, (size, size))
    label = connected_components(joined, directed=False)[1][:blocks]
    is_alone = np.bincount(users, minlength=blocks) == 0
    label[is_alone] = label.max(initial=0) + 1
    return np.unique(label, return_inverse=True)[1].astype(np.int64)


def _part(formulation: Formulation, label: Integers, component: int) -> Problem:
    """What is decided in one component; all that is pinned goes on to take what it takes."""
    problem, shared = formulation.problem, formulation.shared
    of_row, of_choice = label[formulation.block_of_row], label[formulation.block_of_row[formulation.choices.row]]
    of_variant = label[formulation.block_of_row[formulation.variants.row]]
    models = {each.model for each, own in zip(formulation.rows.requirements, of_row, strict=True) if own == component}
    variants = {key for key, own in zip(formulation.variants.keys, of_variant, strict=True) if own == component}
    used = {shared.names[row] for row in owners(shared.use)[of_choice[shared.use.indices] == component]}
    touched = of_variant[shared.use_touching.indices] == component
    used |= {shared.names[row] for row in owners(shared.use_touching)[touched]}
    return replace(
        problem,
        requirements=tuple(each for each in problem.requirements if each.model in models),
        candidates=tuple(each for each in problem.candidates if each.key.variant in variants),
        pools=tuple(each for each in problem.pools if each.name in used),
        budgets=tuple(each for each in problem.budgets if each.name in used),
        change_limits=tuple(each for each in problem.change_limits if each.name in used),
    )


def joined(problem: Problem, solutions: Sequence[Solution]) -> Solution:
    """The solution of the whole problem from those of its components."""
    allocations = {key: each for solution in solutions for key, each in solution.allocations.items()}
    prices = {use.name: use.price for solution in solutions for use in solution.shared}
    scarce = {each.model: each.competes_for for solution in solutions for each in solution.coverages}
    short = {each.model: each for solution in solutions for each in solution.shortfalls}
    usual = [each.greedy_value for each in solutions if each.greedy_value is not None]
    is_optimal = all(each.status is SolveStatus.OPTIMAL for each in solutions)
    return Solution(
        allocations=allocations,
        status=SolveStatus.OPTIMAL if is_optimal else SolveStatus.FEASIBLE,
        value=sum(each.value for each in solutions),
        lower_bound=sum(each.lower_bound for each in solutions),
        shortfalls=tuple(short[each.model] for each in problem.requirements if each.model in short),
        reasons={key: words for each in solutions for key, words in each.reasons.items()},
        solver=solutions[0].solver,
        shared=shared_uses(problem, allocations, prices),
        conflicts=tuple(conflict for each in solutions for conflict in each.conflicts),
        greedy_value=sum(usual) if len(usual) == len(solutions) else None,
        sensitivity=sensitivity(problem, allocations),
        coverages=coverages(problem, allocations, scarce),
    )
