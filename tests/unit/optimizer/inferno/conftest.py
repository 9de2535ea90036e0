"""Servers in short."""

from collections.abc import Callable

import pytest

from reconciler.upstream.inferno import Grants, Offer, Server

Listed = tuple[str, int, float]
"""An accelerator, replicas of it, and what they are worth."""


def server_of(name: str, *listed: Listed, priority: int = 1, units: int = 1) -> Server:
    """A server whose offers take `units` a replica of the type that is named as the accelerator."""
    return Server(
        name=name,
        priority=priority,
        offers=tuple(
            Offer(accelerator=accelerator, replicas=replicas, units={accelerator: units}, cost=abs(value), value=value)
            for accelerator, replicas, value in listed
        ),
    )


def in_short(grants: Grants) -> dict[str, str]:
    return {name: f"{grant.replicas} x {grant.offer.accelerator}" for name, grant in grants.items()}


@pytest.fixture
def server() -> Callable[..., Server]:
    """Makes a server."""
    return server_of


@pytest.fixture
def granted() -> Callable[[Grants], dict[str, str]]:
    """Grants as `{server: "3 x H100"}`."""
    return in_short
