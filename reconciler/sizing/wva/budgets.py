"""Devices that may still be taken: per cluster, and per namespace where namespaces have pools (wva.md 5.2, 5.5)."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.sizing.saturation.variants import VariantFacts

Devices = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Replicas added to one variant."""

    variant: VariantFacts
    replicas: int

    @property
    def devices(self) -> int:
        """The devices they take."""
        return self.replicas * self.variant.devices


class DeviceBudget:
    """What is free of each accelerator type, and less of it after each `take`.

    A negative number is unlimited, a type that is not listed has none. A namespace with a pool gets what its pool
    lists, and no more of it than the cluster has where that lists it too; None for the cluster is no limit there.
    `types` are device types of accelerators named otherwise.
    """

    def __init__(
        self,
        cluster: Devices | None,
        namespaces: Mapping[str, Devices] | None = None,
        *,
        types: Mapping[str, str] | None = None,
    ) -> None:
        self._types = types or {}
        self._cluster = None if cluster is None else _numbers(cluster)
        self._namespaces = {name: _numbers(pool) for name, pool in (namespaces or {}).items()}

    @classmethod
    def unlimited(cls) -> "DeviceBudget":
        """A budget that admits everything."""
        return cls(None)

    @property
    def is_empty(self) -> bool:
        """Whether no device is left anywhere in the cluster."""
        return self._cluster is not None and not any(free > 0 for free in self._cluster.values())

    def free(self, accelerator: str, namespace: str) -> float:
        """Devices of a type that a namespace may still take; infinite without a limit."""
        kind = self._type(accelerator)
        return min((pool.get(kind, 0.0) for pool in self._pools(kind, namespace)), default=math.inf)

    def room(self, variant: VariantFacts) -> float:
        """Whole replicas of a variant that still fit."""
        return self.free(variant.accelerator, variant.key.namespace) // variant.devices

    def excess(self, grants: Iterable[Grant]) -> float:
        """How many times what is free the grants take together, where they take most of it; above 1 they do not fit."""
        asked: dict[tuple[str, str], int] = {}
        for grant in grants:
            place = self._type(grant.variant.accelerator), grant.variant.key.namespace
            asked[place] = asked.get(place, 0) + grant.devices
        wanted = ((devices, self.free(*place)) for place, devices in asked.items() if devices)
        return max((devices / free if free > 0 else math.inf for devices, free in wanted), default=0.0)

    def take(self, grants: Iterable[Grant]) -> None:
        """Take the grants' devices out of every pool they come from."""
        for grant in grants:
            kind = self._type(grant.variant.accelerator)
            for pool in self._pools(kind, grant.variant.key.namespace):
                pool[kind] = pool.get(kind, 0.0) - grant.devices

    def _type(self, accelerator: str) -> str:
        return self._types.get(accelerator, accelerator)

    def _pools(self, kind: str, namespace: str) -> list[dict[str, float]]:
        """What a namespace takes a type from."""
        own = self._namespaces.get(namespace)
        if self._cluster is None:
            return [] if own is None else [own]
        if own is None:
            return [self._cluster]
        return [self._cluster, own] if kind in self._cluster else [own]


def _numbers(devices: Devices) -> dict[str, float]:
    return {name: math.inf if count < 0 else float(count) for name, count in devices.items()}
