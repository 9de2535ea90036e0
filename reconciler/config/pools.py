"""Pools of devices in a configuration file: how many there are of a type, and what of them is never planned."""

from collections.abc import Collection, Iterator
from typing import Self

from pydantic import model_validator

from reconciler.config.layers import PlacedValue
from reconciler.config.section import ConfigSection
from reconciler.config.values import Count, DeviceCount, Money, Name
from reconciler.domain.identity import Finding, Severity
from reconciler.domain.settings import ON_DEMAND
from reconciler.manifests.wording import describe
from reconciler.resources.validation import describe_unknown


class PoolEntry(ConfigSection):
    """Devices of one type in a cluster; several pools of a type count together."""

    name: Name
    """a name"""
    device: Name
    """the name of a device type"""
    devices: DeviceCount
    """a whole number of devices, or measured: what the nodes offer, by Prometheus"""
    reserve: Count = 0
    """a whole number of devices that are never planned (= 0)"""
    tier: Name = ON_DEMAND
    """a word like reserved or spot (= on-demand)"""
    cost_per_hour: Money | None = None
    """a plain number, the price of an hour of one device here (= the accelerator's)"""

    @model_validator(mode="after")
    def _has_what_it_reserves(self) -> Self:
        if self.devices is not None and self.reserve > self.devices:
            raise ValueError(f"expected reserve of at most devices, got {self.reserve} and {self.devices}")
        return self


def refuse_contradicting_pools(pools: list[PoolEntry]) -> list[PoolEntry]:
    """Of one device type: what is measured is all of it, and which device a replica gets nobody knows."""
    first: dict[str, PoolEntry] = {}
    prices: dict[str, tuple[str, float]] = {}
    for pool in pools:
        other = first.setdefault(pool.device, pool)
        if other is not pool and (pool.devices is None or other.devices is None):
            raise ValueError(
                f"expected numbers of devices, or measured in one pool alone, got both for {describe(pool.device)}: "
                f"what is measured is all of it ({other.name}, {pool.name})"
            )
        if pool.cost_per_hour is None:
            continue
        name, price = prices.setdefault(pool.device, (pool.name, pool.cost_per_hour))
        if price != pool.cost_per_hour:
            raise ValueError(
                f"expected one costPerHour for {describe(pool.device)}, got {price:g} in {name} and "
                f"{pool.cost_per_hour:g} in {pool.name}: pools of one device type count together"
            )
    return pools


def find_unknown_devices(clusters: PlacedValue, known: Collection[str]) -> Iterator[Finding]:
    """Pools of a device type that is none of `known`, and those named like another one, at their lines."""
    for cluster in clusters.items:
        for pool in cluster.at("pools").items:
            name, device = pool.at("name"), pool.at("device")
            if name.plain in known and name.plain != device.plain:
                message = f"expected a name that is no other device type, got {describe(name.plain)}"
                yield Finding(place=name.place, severity=Severity.ERROR, message=message)
            if device.plain in known:
                continue
            advice = f" {describe(device.plain)}: list it under accelerators"
            message = describe_unknown(str(device.plain), sorted(known), "device type", advice=advice)
            yield Finding(place=device.place, severity=Severity.ERROR, message=message)
