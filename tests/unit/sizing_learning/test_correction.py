"""A profile held against the present: which samples count, how long, and how far they may move it."""

import math
from collections.abc import Callable

import pytest

from reconciler.domain.observed import Trace
from reconciler.domain.profiles import Learning, PerformanceProfile
from reconciler.sizing.learning import why_outside
from reconciler.sizing.profile_checks import correct

Series = dict[str, tuple[float, ...]]
TraceOf = Callable[..., Trace]

PROFILE = PerformanceProfile(accelerator="A100", alpha_s=0.02, beta_s=0.0005, max_batch_size=32)
LEARNING = Learning(
    on="2026-01-31",
    samples=600,
    error=0.07,
    batch=(1.0, 64.0),
    input_tokens=(100.0, 400.0),
    output_tokens=(50.0, 200.0),
)


def at_speed(speed: float, running: tuple[float, ...]) -> Series:
    """Return what a replica reports that is so many times as fast as the profile."""
    return {
        "running": running,
        "itl": tuple((PROFILE.alpha_s + PROFILE.beta_s * batch) / speed for batch in running),
    }


@pytest.mark.parametrize(("speed", "factor"), [(0.9, 0.9), (1.0, 1.0), (1.1, 1.1), (0.2, 0.7), (5.0, 1.2)])
def test_the_factor_is_the_speed_within_bounds(trace_of: TraceOf, speed: float, factor: float) -> None:
    correction = correct([trace_of(at_speed(speed, (16.0, 20.0, 24.0, 28.0, 32.0)))], PROFILE)
    assert correction.factor == pytest.approx(factor)
    assert correction.samples == 5


def test_the_reason_says_what_was_seen(trace_of: TraceOf) -> None:
    running = (16.0, 20.0, 24.0, 28.0, 32.0)
    assert [correct([trace_of(at_speed(speed, running))], PROFILE).reason for speed in (0.9, 1.0)] == [
        "10 % slower than the profile says, by 5 samples with at least 16 requests running",
        "as fast as the profile says, by 5 samples with at least 16 requests running",
    ]


def test_low_load_says_nothing(trace_of: TraceOf) -> None:
    correction = correct([trace_of(at_speed(0.8, (15.0,) * 50))], PROFILE)
    assert (correction.factor, correction.samples) == (1.0, 0)
    assert correction.reason == "0 samples with at least 16 requests running, 5 are needed"


def test_a_lone_request_is_never_high_load(trace_of: TraceOf) -> None:
    small = PerformanceProfile(accelerator="A100", alpha_s=0.02, beta_s=0.0005, max_batch_size=2)
    assert correct([trace_of(at_speed(0.8, (1.0, 1.9) * 9))], small).samples == 0
    assert correct([trace_of(at_speed(0.8, (2.0,) * 9))], small).samples == 9


def test_four_samples_are_too_few(trace_of: TraceOf) -> None:
    assert correct([trace_of(at_speed(0.8, (30.0,) * 4))], PROFILE).factor == 1.0


def test_a_sample_weighs_half_of_one_that_is_a_quarter_of_an_hour_younger(trace_of: TraceOf) -> None:
    old = trace_of(at_speed(0.8, (30.0,) * 5), start_s=0.0, step_s=1e-9)
    new = trace_of(at_speed(1.1, (30.0,) * 5), pod="llama-1", start_s=900.0, step_s=1e-9)
    mean = math.exp((math.log(0.8) + 2 * math.log(1.1)) / 3)
    assert correct([old, new], PROFILE).factor == pytest.approx(mean)
    assert correct([new, old], PROFILE) == correct([old, new], PROFILE)


def test_a_long_silence_forgets_what_was_before_it(trace_of: TraceOf) -> None:
    gap = (math.nan,) * 600
    series = {
        name: old + gap + new
        for name, old, new in zip(
            ("running", "itl"), at_speed(0.8, (30.0,) * 60).values(), at_speed(1.1, (30.0,) * 5).values(), strict=True
        )
    }
    assert correct([trace_of(series)], PROFILE).factor == pytest.approx(1.1, rel=0.001)


def test_one_nonsensical_sample_in_ten_moves_the_factor_little(trace_of: TraceOf) -> None:
    series = at_speed(1.0, (30.0,) * 100)
    spoiled = tuple(10 * value if index % 10 == 5 else value for index, value in enumerate(series["itl"]))
    assert correct([trace_of({**series, "itl": spoiled})], PROFILE).factor == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("start_s", "step_s"), [(0.0, -60.0), (0.0, 0.0), (math.nan, 60.0), (math.inf, 60.0), (0.0, math.nan), (1e300, 1e9)]
)
def test_a_pod_whose_clock_does_not_run_forward_is_left_out(trace_of: TraceOf, start_s: float, step_s: float) -> None:
    wrong = trace_of(at_speed(0.8, (30.0,) * 9), start_s=start_s, step_s=step_s)
    alone = correct([wrong], PROFILE)
    assert (alone.factor, alone.samples) == (1.0, 0)
    assert alone.reason.endswith("; 1 of 1 pods left out, their clock does not run forward")
    right = trace_of(at_speed(1.1, (30.0,) * 9))
    assert correct([wrong, right], PROFILE).factor == pytest.approx(1.1)


def test_a_profile_without_numbers_is_not_compared(trace_of: TraceOf) -> None:
    broken = PerformanceProfile(accelerator="A100", alpha_s=math.nan, beta_s=0.0, max_batch_size=32)
    correction = correct([trace_of(at_speed(0.8, (30.0,) * 9))], broken)
    assert (correction.factor, correction.reason) == (1.0, "the profile has no usable parameters to compare with")


def test_no_traces_leave_the_profile_as_it_is() -> None:
    assert correct([], PROFILE).factor == 1.0


@pytest.mark.parametrize(
    ("input_tokens", "output_tokens"),
    [(75.0, 37.5), (500.0, 250.0), (200.0, 100.0), (None, 100.0), (0.0, 0.0)],
)
def test_a_load_near_what_was_seen_is_inside(input_tokens: float | None, output_tokens: float) -> None:
    assert why_outside(LEARNING, input_tokens=input_tokens, output_tokens=output_tokens) == ""


@pytest.mark.parametrize(
    ("input_tokens", "output_tokens", "why"),
    [
        (74.0, 100.0, "74 input tokens are outside of the 100 to 400 that the profile was learned from"),
        (501.0, 100.0, "501 input tokens are outside of the 100 to 400 that the profile was learned from"),
        (100.0, 251.0, "251 output tokens are outside of the 50 to 200 that the profile was learned from"),
        (math.nan, 100.0, "nan input tokens are outside of the 100 to 400 that the profile was learned from"),
        (math.inf, 100.0, "inf input tokens are outside of the 100 to 400 that the profile was learned from"),
        (-1.0, 100.0, "-1 input tokens are outside of the 100 to 400 that the profile was learned from"),
    ],
)
def test_a_load_far_from_what_was_seen_is_outside(input_tokens: float, output_tokens: float, why: str) -> None:
    assert why_outside(LEARNING, input_tokens=input_tokens, output_tokens=output_tokens) == why


def test_both_lengths_outside_are_both_named() -> None:
    assert why_outside(LEARNING, input_tokens=9000.0, output_tokens=9000.0).count("outside of") == 2


def test_lengths_that_were_never_seen_are_not_vouched_for() -> None:
    blind = Learning(
        on="2026-01-31",
        samples=600,
        error=0.07,
        batch=(1.0, 64.0),
        input_tokens=(0.0, 0.0),
        output_tokens=(50.0, 200.0),
    )
    assert why_outside(blind, input_tokens=300.0, output_tokens=100.0) == (
        "input tokens were not measured when the profile was learned, a request now has 300"
    )
    assert why_outside(blind, input_tokens=None, output_tokens=100.0) == ""
