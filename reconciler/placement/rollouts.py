"""The way of a change after the merge: sync holds, disruption budgets, deployment of a status."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.workloads import DisruptionBudget
from reconciler.domain.written import DeliveryPlace, DocumentRef
from reconciler.errors import InputError
from reconciler.manifests.documents import Value, value_at
from reconciler.manifests.wording import quote
from reconciler.placement.deployers import Deployer
from reconciler.placement.fleet import Fleet
from reconciler.placement.objects import BuiltObject, SourceField
from reconciler.placement.places import own_kustomization
from reconciler.placement.repository import directory_of
from reconciler.resources.kubernetes.fields import selector_of

PROJECT: Final = "AppProject"


def find_sync_holds(fleet: Fleet, built: BuiltObject) -> Iterator[str]:
    """Warnings for the reviewer of a change of this object, each with its place."""
    deployer = fleet.deployer_of(built)
    if deployer is None:
        return
    if deployer.is_flux:
        suspended = deployer.spec.get("suspend")
        if suspended is not None and suspended.value is True:
            yield f"{deployer} is suspended ({suspended.place}): a merge waits until it is resumed"
        return
    windows = []
    project = _text(deployer.spec, "project") or "default"
    for each in fleet.of_kinds(built.key.cluster, (PROJECT,)):
        spec = each.source.get("spec")
        for window in spec.items("syncWindows") if each.key.name == project and spec is not None else ():
            if _is_for(window, deployer):
                kind, schedule, duration = (_text(window, key) for key in ("kind", "schedule", "duration"))
                zone = _text(window, "timeZone") or "UTC"
                windows.append(f"{kind or 'allow'} {quote(schedule)} {zone} for {duration or '?'} ({window.place})")
    if windows:
        yield f"a merge waits for the sync windows of {deployer}: {', '.join(windows)}"


def _is_for(window: SourceField, deployer: Deployer) -> bool:
    """Whether a window is for an Application: by any of its lists, or with `andOperator` by all of them."""
    destination = deployer.spec.get("destination")
    names = {
        "applications": (deployer.identity.name,),
        "namespaces": (_text(destination, "namespace"),),
        "clusters": (_text(destination, "name"), _text(destination, "server")),
    }
    fits = []
    for key, own in names.items():
        patterns = [each.value for each in window.below(key).members() if isinstance(each.value, str)]
        if patterns:
            fits.append(any(fnmatchcase(name, pattern) for pattern in patterns for name in own if name))
    is_and = value_at(window.value, ("andOperator",)) is True
    return bool(fits) and (all(fits) if is_and else any(fits))


def _text(source: SourceField | None, key: str) -> str:
    try:
        return "" if source is None else source.text(key)
    except InputError:
        return ""


KIND: Final = "PodDisruptionBudget"
_EMPTY_SELECTS_NONE: Final = "policy/v1beta1"
"""In this version an empty selector selects no pod; in `policy/v1` it selects all of the namespace."""
_PERCENT: Final = re.compile(r"(\d{1,9})%")
_MOST: Final = 10**9


def find_budgets(fleet: Fleet, built: BuiltObject, pod_labels: Mapping[str, str]) -> tuple[DisruptionBudget, ...]:
    """The budgets over the pods of an object, by name."""
    found = (
        _budget_of(each)
        for each in fleet.of_kinds(built.key.cluster, (KIND,))
        if each.key.namespace == built.key.namespace and _selects(each, pod_labels)
    )
    return tuple(sorted((each for each in found if each is not None), key=lambda each: each.name))


def why_not_rolled(built: BuiltObject, replicas: int | None, budgets: Sequence[DisruptionBudget]) -> Hold | None:
    """Why replacing all pods would leave fewer available than a budget wants; None if it would not.

    A rollout ignores budgets: its own setting limits how many pods it removes at once.
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
    """A PodDisruptionBudget; None where it has no readable amount, or two of them."""
    names = [name for name in ("minAvailable", "maxUnavailable") if built.value_at("spec", name) is not None]
    amount = _amount(built.value_at("spec", names[0])) if len(names) == 1 else None
    if amount is None or (amount[1] and amount[0] > 100):  # the API server rejects more
        return None
    name = names[0]
    return DisruptionBudget(
        name=built.key.name,
        place=built.place_of(("spec", name)),
        amount=amount[0],
        is_percent=amount[1],
        is_unavailable=name == "maxUnavailable",
    )


def _selects(budget: BuiltObject, pod_labels: Mapping[str, str]) -> bool:
    selector = selector_of(budget.value_at("spec", "selector"))
    if selector is None or (not selector.requirements and budget.api_version == _EMPTY_SELECTS_NONE):
        return False
    return selector.matches(pod_labels)


def _amount(value: Value) -> tuple[int, bool] | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return (value, False) if 0 <= value <= _MOST else None
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    return None if match is None else (int(match[1]), True)


def _taken_at_once(built: BuiltObject, replicas: int) -> int | None:
    """How many of its replicas an object's rollout removes at once; None if unknown."""
    if built.key.kind == "StatefulSet":
        strategy = built.value_at("spec", "updateStrategy", "type")
        path = ("spec", "updateStrategy", "rollingUpdate", "maxUnavailable")
        return 0 if strategy == "OnDelete" else max(_share(built, path, replicas, usual=(1, False), is_up=True), 1)
    if built.key.kind == "Deployment" and built.value_at("spec", "strategy", "type") == "Recreate":
        return replicas
    # the field of the strategy, and its default maxUnavailable and maxSurge
    rolling, *usual = {
        "Deployment": (("spec", "strategy", "rollingUpdate"), (25, True), (25, True)),
        "LeaderWorkerSet": (("spec", "rolloutStrategy", "rollingUpdateConfiguration"), (1, False), (0, False)),
    }.get(built.key.kind, ((), (0, False), (0, False)))
    if not rolling:
        return None
    taken = _share(built, (*rolling, "maxUnavailable"), replicas, usual=usual[0], is_up=False)
    added = _share(built, (*rolling, "maxSurge"), replicas, usual=usual[1], is_up=True)
    return taken or (0 if added else min(replicas, 1))


def _share(built: BuiltObject, path: tuple[str, ...], replicas: int, *, usual: tuple[int, bool], is_up: bool) -> int:
    amount, is_percent = _amount(built.value_at(*path)) or usual
    if not is_percent:
        return min(amount, replicas)
    share = amount * replicas / 100
    return min(math.ceil(share) if is_up else math.floor(share), replicas)


def find_delivery(fleet: Fleet, built: BuiltObject) -> DeliveryPlace:
    """The place of the manifests that deploy an object's status, or why there is none."""
    deployer = fleet.deployer_of(built)
    if deployer is None:
        return DeliveryPlace(reason=f"no Application and no Flux Kustomization in Git deploys {built.root}")
    document = own_kustomization(fleet, built.root)
    if document is None:
        return DeliveryPlace(reason=f"{built.root} has no kustomization of its own")
    if deployer.is_flux and not deployer.spec.flag("wait"):
        return DeliveryPlace(reason=f"{deployer} does not wait until all is healthy: set spec.wait: true")
    listed = value_at(document.value, ("resources",))
    reference = deployer.spec.get("sourceRef") if deployer.is_flux else None
    own = deployer.spec.document
    return DeliveryPlace(
        directory=directory_of(document.path),
        kustomization=document.path,
        kustomization_document=document.index,
        resources=tuple(str(each) for each in listed) if isinstance(listed, list) else (),
        deployer=DocumentRef(path=own.path, document=own.index),
        deployer_name=deployer.identity.name,
        deployer_namespace=deployer.identity.namespace,
        source_name="" if reference is None else reference.text("name"),
        is_flux=deployer.is_flux,
    )
