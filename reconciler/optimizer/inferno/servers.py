"""What inferno decides about: servers with finished offers, and devices counted by type."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One way to serve a server in full: so many replicas of an accelerator.

    `units` is what one replica takes of each type of device; `cost` and `value` are of all replicas together. The value
    is the objective: less is better, and it may be negative.
    """

    accelerator: str
    replicas: int
    units: Mapping[str, int]
    cost: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What asks for devices; of two priorities the smaller number goes first. Names are unique."""

    name: str
    priority: int
    offers: tuple[Offer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerGrant:
    """What a server gets: an offer in full, or by best effort some replicas of it at their share of cost and value."""

    offer: Offer
    replicas: int

    @property
    def is_full(self) -> bool:
        """Whether the server gets all that it needs."""
        return self.replicas == self.offer.replicas

    @property
    def cost(self) -> float:
        """The share of the offer's cost."""
        return self.offer.cost * self._share

    @property
    def value(self) -> float:
        """The share of the offer's value."""
        return self.offer.value * self._share

    @property
    def _share(self) -> float:
        return 1.0 if self.is_full else self.replicas / self.offer.replicas


Grants = Mapping[str, ServerGrant]
"""What each server gets, by its name; who gets nothing is not in it."""


class Stock:
    """What is left of each type; a type that is not listed has none. Lives for one call."""

    def __init__(self, capacities: Mapping[str, int]) -> None:
        self._left = dict(capacities)

    def fitting(self, offer: Offer) -> int:
        """How many of the offer's replicas still fit."""
        most = (self._left.get(name, 0) // units for name, units in offer.units.items() if units > 0)
        return max(min((*most, offer.replicas)), 0)

    def take(self, offer: Offer, replicas: int) -> None:
        """Hand out what that many replicas take."""
        for name, units in offer.units.items():
            self._left[name] = self._left.get(name, 0) - units * replicas


def by_value(offers: Iterable[Offer]) -> tuple[Offer, ...]:
    """The offers, that of least value first; of equal values the cheaper one, then the smaller, then by name."""
    return tuple(
        sorted(
            offers,
            key=lambda offer: (offer.value, offer.cost, offer.replicas * sum(offer.units.values()), offer.accelerator),
        )
    )
