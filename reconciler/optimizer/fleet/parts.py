"""A formulation of some rows of another, as if the others did not exist."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from reconciler.optimizer.fleet.formulation import Choices, Formulation, RatioRows, Rows, Variants
from reconciler.optimizer.sparse import Flags, Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemPart:
    """Some rows of a formulation, with all that is shared for themselves, and which of its choices they have."""

    formulation: Formulation
    choices: Integers


def part_of(formulation: Formulation, rows: Flags) -> ProblemPart:
    """The rows of a mask; whole blocks, for a ratio needs both its sides."""
    choices, variants = rows[formulation.choices.row], rows[formulation.variants.row]
    row_index, variant_index = np.cumsum(rows) - 1, np.cumsum(variants) - 1
    kept_choices = _taken(formulation.choices, choices)
    kept_variants = _taken(formulation.variants, variants)
    ratios, shared = formulation.ratios, formulation.shared
    is_kept = rows[ratios.greater] if len(ratios.factor) else np.zeros(0, dtype=np.bool_)
    part = replace(
        formulation,
        known_counts=None,
        choices=replace(
            Choices(**kept_choices),
            row=row_index[formulation.choices.row[choices]],
            variant=variant_index[formulation.choices.variant[choices]],
        ),
        variants=replace(Variants(**kept_variants), row=row_index[formulation.variants.row[variants]]),
        rows=Rows(**_taken(formulation.rows, rows)),
        shared=replace(
            shared,
            use=shared.use[:, choices],
            use_touching=shared.use_touching[:, variants],
        ),
        ratios=RatioRows(
            greater=row_index[ratios.greater[is_kept]],
            smaller=row_index[ratios.smaller[is_kept]],
            factor=ratios.factor[is_kept],
        ),
    )
    return ProblemPart(formulation=part, choices=np.flatnonzero(choices))


def _taken(arrays: Choices | Variants | Rows, mask: Flags) -> dict[str, Any]:
    """The masked fields, each an array or a tuple along the same axis."""
    taken: dict[str, Any] = {}
    for each in fields(arrays):
        value = getattr(arrays, each.name)
        taken[each.name] = (
            tuple(item for item, is_kept in zip(value, mask, strict=True) if is_kept)
            if isinstance(value, tuple)
            else value[mask]
        )
    return taken
