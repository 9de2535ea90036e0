"""A model request by request: what a replica carries, and what the fluid makes of the same requests."""

import numpy as np
import pytest

from reconciler.simulation.fleet import Planned
from tests.bench.requests import PROFILES, OneModel, answer_requests, compare


def model(share: float, replicas: int, steps: int = 20) -> OneModel:
    alpha_s, beta_s, max_batch, tokens, itl_s = PROFILES[4]
    subject = OneModel(
        start_s=0.0,
        step_s=60.0,
        offered_per_s=np.zeros(steps),
        start_steps=np.zeros(steps, dtype=np.int64),
        alpha_s=alpha_s,
        beta_s=beta_s,
        max_batch=max_batch,
        tokens=tokens,
        itl_s=itl_s,
    )
    subject.offered_per_s[:] = share * replicas * subject.capacity_per_s
    return subject


@pytest.mark.parametrize(("share", "least", "most"), [(0.7, 1.0, 1.0), (1.25, 0.0, 0.05)])
def test_replicas_keep_targets_below_their_capacity_and_lose_them_beyond(
    share: float, least: float, most: float
) -> None:
    subject = model(share, 8)
    planned = Planned(np.full((1, 20), 8.0), subject.start_s, subject.step_s)
    found = answer_requests(subject, planned, 8, 1, warm_steps=5)
    assert least <= found.attainment <= most
    assert found.cost == pytest.approx(8 * 15 / 60)
    assert found.arrived_per_s.mean() == pytest.approx(subject.offered_per_s.mean(), rel=0.05)


@pytest.mark.parametrize(("number", "signal", "target", "apart"), [(4, "load", 0.8, 0.01), (2, "running", 0.6, 0.015)])
def test_under_an_autoscaler_the_fluid_is_near_the_requests(
    number: int, signal: str, target: float, apart: float
) -> None:
    found = compare(number, signal, target, 1.0)
    assert abs(found.cost) <= 2 * apart
    assert abs(found.kept - found.kept_as_fluid) <= apart
