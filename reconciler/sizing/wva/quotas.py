"""Quotas and the limiter of the first analyzer: who gets the devices that are left (wva.md 5.3, 5.5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.domain.identity import ResourceKey
from reconciler.sizing.saturation.variants import VariantFacts
from reconciler.sizing.wva.budgets import Devices

_UNLIMITED = -1
_ANY_NAMESPACE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """Devices granted, and in words what cut them (empty: nothing)."""

    devices: int
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Quota:
    """Devices of each type that may be used: by the cluster, or by each namespace.

    `namespaces` None is the cluster's quota. Its entry `default` gives every unlisted namespace a budget of its own;
    without it they have none. -1 is unlimited, 0 denies, an unlisted or unresolved type is denied. `used` counts
    by namespace ("" for the cluster) and type what is taken already, and grows with every grant. `types` are device
    types of accelerators named otherwise; `kind` names the limiter in words.
    """

    cluster: Devices = field(default_factory=dict)
    namespaces: Mapping[str, Devices] | None = None
    excluded: frozenset[str] = frozenset()
    used: dict[tuple[str, str], int] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    kind: str = "quota"

    def grant(self, namespace: str, accelerator: str, devices: int) -> Grants:
        """Grant as many of the devices as the quota leaves, and count them."""
        if namespace in self.excluded:
            return Grants(devices=devices)
        scope, quota = self._quota(namespace)
        accelerator = self.types.get(accelerator, accelerator)
        limit = quota.get(accelerator, 0) if accelerator else 0
        asked = max(devices, 0)
        used = self.used.get((scope, accelerator), 0)
        granted = asked if limit <= _UNLIMITED else min(asked, max(limit - used, 0))
        self.used[scope, accelerator] = used + granted
        return Grants(devices=granted, reason="" if granted == asked else self._words(namespace, accelerator))

    def give_back(self, namespace: str, accelerator: str, devices: int) -> None:
        """Undo a part of a grant that was of no use."""
        if namespace not in self.excluded:
            scope, _ = self._quota(namespace)
            accelerator = self.types.get(accelerator, accelerator)
            self.used[scope, accelerator] = max(self.used.get((scope, accelerator), 0) - devices, 0)

    def _quota(self, namespace: str) -> tuple[str, Devices]:
        if self.namespaces is None:
            return "", self.cluster
        return namespace, self.namespaces.get(namespace, self.namespaces.get(_ANY_NAMESPACE, {}))

    def _words(self, namespace: str, accelerator: str) -> str:
        kind = accelerator or "unresolved"
        if self.namespaces is None:
            return f"limited by {self.kind}[scope=cluster, type={kind}]"
        return f"limited by {self.kind}[scope=namespace, namespace={namespace}, type={kind}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedReplicas:
    """Replicas that a variant should have; `spare` is its model's spare capacity (the smaller, the sooner served)."""

    variant: VariantFacts
    replicas: int
    spare: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedTargets:
    """Replicas after the limiter, and in words who was limited by what."""

    replicas: Mapping[ResourceKey, int]
    limited: Mapping[ResourceKey, str]


def limit(wishes: Sequence[WantedReplicas], *quotas: Quota) -> LimitedTargets:
    """Return what the wishes for more replicas get: the most saturated model first, then the cheapest variant.

    Whole replicas only, and each quota must leave them; `minReplicas` is granted without devices, `maxReplicas` caps.
    Who wants no more keeps its wish. Who was granted less than it asked for is limited, whatever it has in the end.
    """
    replicas = {wish.variant.key: wish.variant.clamp(wish.replicas) for wish in wishes}
    limited: dict[ResourceKey, str] = {}
    for wish in sorted(wishes, key=lambda each: (each.spare, each.variant.cost, each.variant.key)):
        variant = wish.variant
        more = (replicas[variant.key] - variant.current_replicas) * variant.devices
        if more <= 0:
            continue
        grants = _grant(quotas, variant, more)
        added = grants.devices // variant.devices
        _give_back(quotas, variant, grants.devices - added * variant.devices)
        replicas[variant.key] = max(variant.current_replicas + added, variant.floor)
        if grants.reason:
            limited[variant.key] = grants.reason
    return LimitedTargets(replicas=replicas, limited=limited)


def _grant(quotas: Sequence[Quota], variant: VariantFacts, devices: int) -> Grants:
    """What every quota leaves; none counts what a later one denies."""
    granted, reasons = devices, []
    for position, quota in enumerate(quotas):
        grants = quota.grant(variant.key.namespace, variant.accelerator, granted)
        _give_back(quotas[:position], variant, granted - grants.devices)
        granted = grants.devices
        reasons += [grants.reason] if grants.reason else []
    return Grants(devices=granted, reason="; ".join(reasons))


def _give_back(quotas: Sequence[Quota], variant: VariantFacts, devices: int) -> None:
    for quota in quotas:
        quota.give_back(variant.key.namespace, variant.accelerator, devices)
