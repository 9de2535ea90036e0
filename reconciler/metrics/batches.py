"""Namespaces that are named together in one query."""

from collections.abc import Mapping

NAMED_NAMESPACES = 50
"""Up to so many namespaces are named in every selector; beyond, the matcher costs more than it keeps out."""


def batches_of(namespaces: Mapping[str, int], series_budget: int) -> list[list[str]]:
    """Namespaces to name together, by the replicas expected in them; one empty batch asks for all without a name."""
    batches: list[list[str]] = [[]]
    room = series_budget
    for name, replicas in sorted(namespaces.items()):
        expected = max(1, replicas)
        if expected > room and batches[-1]:
            batches.append([])
            room = series_budget
        batches[-1].append(name)
        room -= expected
    return [[]] if len(batches) == 1 and len(namespaces) > NAMED_NAMESPACES else batches
