"""PodDisruptionBudgets over the pods of a scale target, and whether a rollout takes more of them than they allow."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.workloads import DisruptionBudget
from reconciler.manifests.composer import Value
from reconciler.placement.fleet import Fleet
from reconciler.placement.objects import BuiltObject
from reconciler.resources.kubernetes.fields import selector_of

KIND: Final = "PodDisruptionBudget"
EMPTY_IS_NOBODY: Final = "policy/v1beta1"
"""There an empty selector selects no pod; since `policy/v1` it selects all of the namespace."""
PERCENT: Final = re.compile(r"(\d{1,9})%")
MOST: Final = 10**9


def find_budgets(fleet: Fleet, built: BuiltObject, pod_labels: Mapping[str, str]) -> tuple[DisruptionBudget, ...]:
    """The budgets over the pods of an object, by name."""
    found = (
        _budget_of(each)
        for each in fleet.of_kinds(built.key.cluster, (KIND,))
        if each.key.namespace == built.key.namespace and _selects(each, pod_labels)
    )
    return tuple(sorted((each for each in found if each is not None), key=lambda each: each.name))


def why_not_rolled(built: BuiltObject, replicas: int | None, budgets: Sequence[DisruptionBudget]) -> Hold | None:
    """Why replacing all pods would leave fewer available than a budget wants; None where it does not.

    A rollout asks no budget: what it may take away at once is its own setting.
    """
    taken = None if replicas is None or not budgets else _taken_at_once(built, replicas)
    if taken is None or replicas is None:
        return None
    strictest = max(budgets, key=lambda each: (each.keeps(replicas), each.name))
    kept = strictest.keeps(replicas)
    if taken == 0 or replicas - taken >= kept:
        return None
    words = (
        f"a rollout may take {taken} of {replicas} replicas at once, and {KIND} {strictest.name} ({strictest.place}) "
        f"wants {kept} available"
    )
    return Hold(kind=HoldKind.ACCELERATOR_UNAVAILABLE, words=words, place=strictest.place)


def _budget_of(built: BuiltObject) -> DisruptionBudget | None:
    """What a budget asks for; None where it asks for nothing that could be read, or for both at once."""
    asked = {
        name: each for name in ("minAvailable", "maxUnavailable") if (each := built.value_at("spec", name)) is not None
    }
    if len(asked) != 1:
        return None
    ((name, value),) = asked.items()
    amount = _amount(value)
    if amount is None or (amount[1] and amount[0] > 100):  # the API server refuses more
        return None
    return DisruptionBudget(
        name=built.key.name,
        place=built.place_of(("spec", name)),
        amount=amount[0],
        is_percent=amount[1],
        is_unavailable=name == "maxUnavailable",
    )


def _selects(budget: BuiltObject, pod_labels: Mapping[str, str]) -> bool:
    selector = selector_of(budget.value_at("spec", "selector"))
    if selector is None or (not selector.requirements and budget.api_version == EMPTY_IS_NOBODY):
        return False
    return selector.matches(pod_labels)


def _amount(value: Value) -> tuple[int, bool] | None:
    """A count, or a percentage and True."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value, False) if 0 <= value <= MOST else None
    match = PERCENT.fullmatch(value) if isinstance(value, str) else None
    return None if match is None else (int(match[1]), True)


def _taken_at_once(built: BuiltObject, replicas: int) -> int | None:
    """How many of its replicas an object's rollout takes away at once; None where nobody knows."""
    if built.key.kind == "Deployment":
        if built.value_at("spec", "strategy", "type") == "Recreate":
            return replicas
        rolling = ("spec", "strategy", "rollingUpdate")
        taken = _share(built, (*rolling, "maxUnavailable"), replicas, usual=(25, True), is_up=False)
        added = _share(built, (*rolling, "maxSurge"), replicas, usual=(25, True), is_up=True)
        return taken or (0 if added else min(replicas, 1))
    if built.key.kind == "StatefulSet":
        strategy = built.value_at("spec", "updateStrategy", "type")
        path = ("spec", "updateStrategy", "rollingUpdate", "maxUnavailable")
        return 0 if strategy == "OnDelete" else max(_share(built, path, replicas, usual=(1, False), is_up=True), 1)
    if built.key.kind == "LeaderWorkerSet":
        rolling = ("spec", "rolloutStrategy", "rollingUpdateConfiguration")
        taken = _share(built, (*rolling, "maxUnavailable"), replicas, usual=(1, False), is_up=False)
        added = _share(built, (*rolling, "maxSurge"), replicas, usual=(0, False), is_up=True)
        return taken or (0 if added else min(replicas, 1))
    return None


def _share(built: BuiltObject, path: tuple[str, ...], replicas: int, *, usual: tuple[int, bool], is_up: bool) -> int:
    amount, is_percent = _amount(built.value_at(*path)) or usual
    if not is_percent:
        return min(amount, replicas)
    share = amount * replicas / 100
    return min(math.ceil(share) if is_up else math.floor(share), replicas)
