"""PodDisruptionBudgets: how many pods of a scale target somebody wants available at any time."""

from collections.abc import Iterator, Mapping
from typing import Final

from reconciler.domain.identity import Place
from reconciler.placement.fleet import Fleet
from reconciler.placement.objects import BuiltObject

KIND: Final = "PodDisruptionBudget"


def find_budget(fleet: Fleet, built: BuiltObject, pod_labels: Mapping[str, str]) -> tuple[int, Place] | None:
    """The largest whole `minAvailable` over the pods of an object, and where it stands; None where none is over them.

    A share of the pods, and a `maxUnavailable`, are kept by any number of them.
    """
    found = list(_budgets(fleet, built, pod_labels))
    return max(found, key=lambda each: each[0], default=None)


def _budgets(fleet: Fleet, built: BuiltObject, pod_labels: Mapping[str, str]) -> Iterator[tuple[int, Place]]:
    for each in fleet.of_kinds(built.key.cluster, (KIND,)):
        least = each.value_at("spec", "minAvailable")
        if each.key.namespace != built.key.namespace or isinstance(least, bool) or not isinstance(least, int):
            continue
        if least > 0 and _selects(each, pod_labels):
            spec = each.source.get("spec")
            yield least, each.source.place if spec is None else spec.below("minAvailable").place


def _selects(budget: BuiltObject, pod_labels: Mapping[str, str]) -> bool:
    """Whether it selects pods with these labels; one with expressions is not followed, for it may mean others."""
    labels = budget.value_at("spec", "selector", "matchLabels")
    expressions = budget.value_at("spec", "selector", "matchExpressions")
    return (
        isinstance(labels, dict)
        and bool(labels)
        and not expressions
        and all(pod_labels.get(key) == value for key, value in labels.items())
    )
