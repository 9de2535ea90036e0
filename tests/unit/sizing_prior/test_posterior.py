"""What is believed after an accelerator was tried: prior and hours weighted by their variances."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.domain.canaries import ENOUGH_HOURS, Measured
from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import Trace
from reconciler.domain.priors import Lengths, Prior
from reconciler.sizing.prior.datasheets import DATASHEETS
from reconciler.sizing.prior.estimate import Hardware, estimate
from reconciler.sizing.prior.posterior import HOURS_ALIKE, LEAST_NOISE, expected_gap_s, update
from reconciler.sizing.prior.shapes import SHAPES

NOW_S, STEP_S = 1_800_000_000.0, 600.0
CANARY = ResourceKey(cluster="prod", namespace="llm", kind="Deployment", name="llama-canary-h100")
INPUT, OUTPUT, BATCH = 1000.0, 200.0, 20.0


@pytest.fixture
def prior() -> Prior:
    lengths = Lengths(input_tokens=INPUT, output_tokens=OUTPUT)
    found = estimate("llama", SHAPES["llama-3.1-8b"], Hardware(name="H100", datasheet=DATASHEETS["H100"]), lengths)
    assert isinstance(found, Prior)
    return found


def reported(prior: Prior, hours: float, factor: float, **other: float) -> Trace:
    """One replica that was so many times as slow as the prior expects, until now."""
    count = round(hours * 3600 / STEP_S)
    whole = {"running": BATCH, "input_tokens": INPUT, "output_tokens": OUTPUT} | other
    series = {name: np.full(count, value) for name, value in whole.items()}
    expected = expected_gap_s(prior.profile, np.array([BATCH]), np.array([INPUT]), np.array([OUTPUT]))
    series["itl"] = np.full(count, float(expected[0]) * factor)
    start_s = NOW_S - (count - 1) * STEP_S
    return Trace(pod="a", variant=CANARY, start_s=start_s, step_s=STEP_S, series=series)


def believed(prior: Prior, hours: float, factor: float) -> Measured:
    return update(prior, [reported(prior, hours, factor)], NOW_S)


def varying(prior: Prior, factors: Sequence[float]) -> Measured:
    """After whole hours of the clock that were so many times as slow as the prior expects."""
    trace = reported(prior, len(factors), 1.0)
    itl = trace.series["itl"] * np.repeat(factors, round(3600 / STEP_S))
    start_s = NOW_S - len(factors) * 3600
    return update(prior, [replace(trace, start_s=start_s, series={**trace.series, "itl": itl})], NOW_S)


def test_without_measurements_the_prior_stands(prior: Prior) -> None:
    found = update(prior, [], NOW_S)
    assert (found.posterior, found.hours, found.is_enough, found.is_outside) == (prior, 0, False, False)


def test_prior_and_hours_are_weighted_by_their_variances(prior: Prior) -> None:
    """Three hours that all say 1.2 count as one point of the least noise."""
    found = believed(prior, 3, 1.2)
    weight, point = 1 / prior.deviation**2, math.ceil(found.hours / HOURS_ALIKE) / LEAST_NOISE**2
    center = math.log(1.2) * point / (weight + point)
    assert found.posterior.profile.alpha_s == pytest.approx(prior.profile.alpha_s * math.exp(center))
    assert found.posterior.deviation == pytest.approx(math.sqrt(1 / (weight + point) + LEAST_NOISE**2))
    assert found.shift == pytest.approx(1.2)


def test_more_hours_make_the_band_narrower_and_replace_the_prior(prior: Prior) -> None:
    few, many = believed(prior, 3, 1.5), believed(prior, 30, 1.5)
    assert prior.deviation > few.posterior.deviation > many.posterior.deviation >= LEAST_NOISE
    assert many.posterior.profile.beta_s == pytest.approx(1.5 * prior.profile.beta_s, rel=0.02)
    assert (few.is_enough, many.is_enough) == (False, True)
    assert many.hours >= ENOUGH_HOURS
    assert many.is_outside


@given(
    mean=st.floats(-1.5, 1.5),
    deviations=st.lists(st.floats(-1.5, 1.5), min_size=1, max_size=30),
    size=st.sampled_from([0.0, 0.05, 0.3, 1.0]),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_slow_edge_is_never_faster_than_the_measured_mean(
    prior: Prior, mean: float, deviations: list[float], size: float
) -> None:
    """A prior that is wrong cannot talk it down, however much hours differ."""
    found = varying(prior, [math.exp(mean + size * each) for each in deviations])
    assert found.hours == len(deviations)
    gap_s = float(expected_gap_s(prior.profile, np.array([BATCH]), np.array([INPUT]), np.array([OUTPUT]))[0])
    sized_s = found.profile.alpha_s + found.profile.beta_s * BATCH
    assert sized_s >= gap_s * found.shift * (1 - 1e-9)


def test_hours_that_differ_make_the_band_as_wide_as_they_are(prior: Prior) -> None:
    quiet, wide = (varying(prior, [math.exp(size * (-1) ** hour) for hour in range(30)]) for size in (0.01, 0.3))
    assert wide.shift == pytest.approx(quiet.shift)
    assert quiet.posterior.deviation < 0.05 < 0.3 < wide.posterior.deviation < 0.36


@pytest.mark.parametrize(
    ("shift", "size", "is_outside", "is_enough"),
    [(2.0, 0.02, True, True), (2.0, 0.4, True, False), (1.0, 0.4, False, True), (0.5, 0.4, True, False)],
)
def test_hours_that_contradict_the_prior_and_each_other_are_never_enough(
    prior: Prior, shift: float, size: float, *, is_outside: bool, is_enough: bool
) -> None:
    found = varying(prior, [shift * math.exp(size * (-1) ** hour) for hour in range(48)])
    assert (found.is_outside, found.is_enough, found.hours) == (is_outside, is_enough, 48)


def test_when_a_replica_last_reported_is_known_without_load(prior: Prior) -> None:
    trace = reported(prior, 10, 1.0, running=0.0)
    running = np.where(np.arange(60) < 48, 0.0, math.nan)
    found = update(prior, [replace(trace, series={**trace.series, "running": running})], NOW_S)
    assert (found.hours, found.seen_s) == (0, NOW_S - 12 * STEP_S)
    assert update(prior, [], NOW_S).seen_s is None


def test_it_is_sized_by_the_slow_edge_with_prompts_in_the_gaps(prior: Prior) -> None:
    found = believed(prior, 30, 1.0)
    slow = found.posterior.spread.high
    assert found.profile.prompt_s is None
    assert found.profile.alpha_s == pytest.approx(prior.profile.alpha_s * slow, rel=1e-6)
    gap_s = float(expected_gap_s(prior.profile, np.array([BATCH]), np.array([INPUT]), np.array([OUTPUT]))[0])
    assert found.profile.alpha_s + found.profile.beta_s * BATCH == pytest.approx(gap_s * slow, rel=1e-6)


def test_nothing_is_sure_beyond_four_times_the_largest_batch_that_was_seen(prior: Prior) -> None:
    learning = believed(prior, 30, 1.0).profile.learning
    assert learning is not None
    assert (learning.reach, learning.batch) == (80, (BATCH, BATCH))


def test_an_hour_that_hardly_served_says_nothing(prior: Prior) -> None:
    idle = replace(reported(prior, 30, 5.0), series={**reported(prior, 30, 5.0).series, "running": np.full(180, 0.01)})
    unknown = reported(prior, 30, 5.0, input_tokens=math.nan)
    assert update(prior, [idle, unknown], NOW_S).hours == 0


@given(loaded=st.lists(st.booleans(), min_size=40, max_size=200), seed=st.integers(0, 3))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_later_run_counts_no_hour_less(prior: Prior, loaded: list[bool], seed: int) -> None:
    """So what was decided after 24 hours is not undone by the next run, whenever load comes and however many serve."""
    pods = [[on or not (index + pod + seed) % 5 for index, on in enumerate(loaded)] for pod in range(2)]
    counts = []
    for end in range(1, len(loaded) + 1, 3):
        traces = [
            Trace(
                pod=str(pod),
                variant=CANARY,
                start_s=NOW_S + seed * STEP_S,
                step_s=STEP_S,
                series={
                    "running": np.array([BATCH if on else 0.0 for on in windows[:end]]),
                    "input_tokens": np.full(end, INPUT),
                    "output_tokens": np.full(end, OUTPUT),
                    "itl": np.full(end, 0.02),
                },
            )
            for pod, windows in enumerate(pods)
        ]
        counts.append(update(prior, traces, NOW_S + (seed + end) * STEP_S).hours)
    assert all(later >= sooner for sooner, later in pairwise(counts))
    assert counts[-1] <= math.ceil(len(loaded) / 6) + 1  # replicas side by side have one hour together
