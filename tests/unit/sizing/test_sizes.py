"""From a demand to replicas: rules that no published table shows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.sizing.queueing_chain import analyze
from reconciler.sizing.queueing_laws import Targets, decode_only
from tests.tools.decode_only_sizes import Demand, Profiles, Sizes, Terms, max_batch, replicas_for, size


def sized(
    *,
    alpha_s: float = 0.02,
    beta_s: float = 0.0005,
    max_batch_size: float = 32,
    rate_per_s: float = 3.0,
    output_tokens: float = 200,
    itl_s: float = 0.03,
    wait_s: float = 0.1,
    tokens_per_s: float = 0.0,
    override: float = 0,
    min_replicas: int = 1,
    accelerators: int = 1,
) -> Sizes:
    return size(
        Profiles(
            alpha_s=np.array([alpha_s]),
            beta_s=np.array([beta_s]),
            max_batch_size=np.array([float(max_batch_size)]),
            at_tokens=np.array([float(output_tokens or 1)]),
        ),
        Demand(arrival_rate_per_s=np.array([rate_per_s]), output_tokens=np.array([float(output_tokens)])),
        Targets(itl_s=np.array([itl_s]), wait_s=np.array([wait_s]), tokens_per_s=np.array([tokens_per_s])),
        Terms(
            max_batch_override=np.array([float(override)]),
            min_replicas=np.array([min_replicas]),
            accelerators_per_replica=np.array([accelerators]),
            cost_per_hour=np.array([2.5]),
        ),
    )


@settings(deadline=None)
@given(st.floats(0.01, 500.0), st.integers(1, 2000), st.floats(0.021, 0.06), st.floats(1e-3, 10.0))
def test_replicas_meet_the_targets_and_one_less_does_not(
    rate_per_s: float, output_tokens: int, itl_s: float, wait_s: float
) -> None:
    sizes = sized(rate_per_s=rate_per_s, output_tokens=output_tokens, itl_s=itl_s, wait_s=wait_s)
    if not sizes.feasible[0]:
        return
    assert sizes.itl_s[0] <= itl_s * (1 + 1e-8)
    assert sizes.wait_s[0] <= wait_s * (1 + 1e-6)
    fewer = int(sizes.replicas[0]) - 1
    if fewer and rate_per_s / fewer < sizes.capacity_per_s[0] * 1.01:
        curves = decode_only(alpha_s=0.02, beta_s=0.0005, output_tokens=output_tokens, max_batch=32)
        state = analyze(curves, np.array([rate_per_s / fewer]))
        over_the_edge = rate_per_s / fewer > curves.service_rate_per_s(32.0)[0] * 0.999
        assert state.itl_s[0] > itl_s or state.wait_s[0] > wait_s or over_the_edge


@pytest.mark.parametrize(("rate_per_s", "output_tokens"), [(0.0, 200), (3.0, 0)])
def test_no_load_keeps_the_fewest_replicas_whatever_the_targets(rate_per_s: float, output_tokens: float) -> None:
    sizes = sized(rate_per_s=rate_per_s, output_tokens=output_tokens, itl_s=1e-6, min_replicas=2, accelerators=4)

    assert sizes.feasible[0]
    assert sizes.replicas[0] == 2
    assert sizes.max_batch[0] == 32
    assert sizes.itl_s[0] == pytest.approx(0.0205)
    assert sizes.wait_s[0] == sizes.busy_probability[0] == sizes.capacity_per_s[0] == 0.0
    assert sizes.cost_per_hour[0] == 20.0


def test_no_load_may_need_no_replica() -> None:
    sizes = sized(rate_per_s=0.0, min_replicas=0)

    assert sizes.feasible[0]
    assert sizes.replicas[0] == 0
    assert sizes.cost_per_hour[0] == 0.0


def test_a_target_below_a_lone_requests_latency_has_no_size() -> None:
    sizes = sized(itl_s=0.020)

    assert not sizes.feasible[0]
    assert sizes.replicas[0] == 0
    assert sizes.cost_per_hour[0] == sizes.itl_s[0] == sizes.capacity_per_s[0] == 0.0


@pytest.mark.parametrize(
    ("rate_per_s", "output_tokens", "alpha_s", "beta_s"),
    [(-1.0, 200.0, 0.02, 0.0005), (3.0, -5.0, 0.02, 0.0005), (3.0, 200.0, 0.0, 0.0)],
)
def test_demand_or_profiles_that_make_no_sense_have_no_size(
    rate_per_s: float, output_tokens: float, alpha_s: float, beta_s: float
) -> None:
    sizes = sized(rate_per_s=rate_per_s, output_tokens=output_tokens, alpha_s=alpha_s, beta_s=beta_s)

    assert not sizes.feasible[0]
    assert sizes.max_batch[0] == sizes.replicas[0] == 0


def test_a_throughput_floor_takes_the_place_of_the_load() -> None:
    little, much = (sized(rate_per_s=rate, tokens_per_s=4000.0) for rate in (0.1, 100.0))

    assert little.replicas[0] == much.replicas[0]
    assert little.itl_s[0] == much.itl_s[0]
    assert little.replicas[0] == np.ceil(4000.0 / 200 / little.capacity_per_s[0])


def test_an_override_replaces_the_batch_of_the_profile() -> None:
    assert sized(override=8).max_batch[0] == 8
    assert sized(override=8, rate_per_s=0.0).max_batch[0] == 8


@pytest.mark.parametrize(
    ("at_tokens", "output_tokens", "expected"), [(512, 1024, 19), (512, 100000, 1), (128, 64, 76), (512, 513, 37)]
)
def test_the_batch_shrinks_with_the_length_of_requests(at_tokens: float, output_tokens: float, expected: int) -> None:
    profiles = Profiles(
        alpha_s=np.ones(1), beta_s=np.ones(1), max_batch_size=np.array([38.0]), at_tokens=np.array([float(at_tokens)])
    )
    assert max_batch(profiles, np.array([float(output_tokens)]), np.zeros(1))[0] == expected


@pytest.mark.parametrize(
    ("need", "expected"), [(3.0, 3), (3.0 + 1e-10, 3), (3.0 + 1e-6, 4), (1e-12, 1), (0.0, 0), (1e300, 2**53)]
)
def test_a_need_just_above_a_whole_number_is_that_number(need: float, expected: int) -> None:
    assert replicas_for(np.array([need]), np.ones(1), np.zeros(1, dtype=np.int64))[0] == expected
