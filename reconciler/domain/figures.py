"""Figures: the numbers between what was measured and what was decided, as `explain` prints them."""

from dataclasses import dataclass

from reconciler.domain.provenance import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number on the way to an answer, as `explain` prints it; None is not known, for `reason`.

    `queries` names the quantities that Prometheus was asked for it.
    """

    subject: str
    name: str
    value: float | str | None
    unit: str = ""
    source: Source | None = None
    reason: str = ""
    queries: tuple[str, ...] = ()
