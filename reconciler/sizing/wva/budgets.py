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

    A negative number is unlimited, a type that is not listed has none. A namespace with a pool gets no more than its
    pool holds; None for the cluster is no limit there. `types` are device types of accelerators named otherwise.
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
        return min((pool.get(kind, 0.0) for pool in self._pools(namespace)), default=math.inf)

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
            for pool in self._pools(grant.variant.key.namespace):
                kind = self._type(grant.variant.accelerator)
                pool[kind] = pool.get(kind, 0.0) - grant.devices

    def _type(self, accelerator: str) -> str:
        return self._types.get(accelerator, accelerator)

    def _pools(self, namespace: str) -> list[dict[str, float]]:
        pools = [] if self._cluster is None else [self._cluster]
        return [*pools, self._namespaces[namespace]] if namespace in self._namespaces else pools


def _numbers(devices: Devices) -> dict[str, float]:
    return {name: math.inf if count < 0 else float(count) for name, count in devices.items()}
