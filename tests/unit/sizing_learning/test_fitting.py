"""What is learned from replicas that obey the law: its parameters, or a reason in words."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from reconciler.domain.observed import Trace
from reconciler.domain.profiles import PerformanceProfile
from reconciler.sizing.arrays import Floats
from reconciler.sizing.learning import Fit, Unfit, fit_profile
from reconciler.sizing.learning_lines import Samples, samples_of

Series = dict[str, tuple[float, ...]]
Play = Callable[..., Series]
Disturb = Callable[..., Series]
TraceOf = Callable[..., Trace]


def truth_of(alpha_ms: float, beta_ms: float, gamma_ms: float, delta_ms: float, batch: int) -> PerformanceProfile:
    return PerformanceProfile(
        accelerator="A100",
        alpha_s=alpha_ms / 1000,
        beta_s=beta_ms / 1000,
        gamma_s=gamma_ms / 1000,
        delta_s=delta_ms / 1000,
        max_batch_size=batch,
    )


# Published parameters, with lengths at which all four matter: who never prefills long prompts never learns delta.
PUBLISHED = {
    "H100, published demo": (truth_of(6.958, 0.042, 20.0, 0.0005, 256), {"input_tokens": 256, "output_tokens": 2000}),
    "H100": (truth_of(7.47, 0.044, 15.415, 0.000337, 256), {"input_tokens": 400, "output_tokens": 2000}),
    "A100": (truth_of(20.58, 0.41, 5.2, 0.1, 32), {"input_tokens": 8, "output_tokens": 150}),
    "L40S": (truth_of(22.619, 0.181, 226.19, 0.018, 64), {"input_tokens": 400, "output_tokens": 500}),
    "A100, llama_13b": (truth_of(20.13, 0.87, 161.04, 0.0271875, 32), {"input_tokens": 300, "output_tokens": 300}),
}
SHAPES = {"diurnal": {"least": 0.05, "most": 0.9}, "saturated": {"least": 0.05, "most": 1.15}}
L40S, L40S_LENGTHS = PUBLISHED["L40S"]


def law_samples(running: Floats, itl_s: Floats | None = None) -> Samples:
    """Return samples that follow the L40S to the letter, nobody waiting."""
    prompt = 100.0 + 50.0 * np.sin(np.arange(running.size))
    prefill_s = (L40S.gamma_s or 0.0) + (L40S.delta_s or 0.0) * prompt * (running + 1)
    return Samples(
        itl_s=L40S.alpha_s + L40S.beta_s * running if itl_s is None else itl_s,
        ttft_s=prefill_s + 0.01,
        wait_s=np.full(running.size, 0.01),
        num_running=running,
        num_waiting=np.zeros(running.size),
        input_tokens=prompt,
        output_tokens=np.full(running.size, 200.0),
        kv_cache_usage=np.full(running.size, np.nan),
        completions=np.full(running.size, np.nan),
        prefix_hit_rate=np.full(running.size, np.nan),
    )


def learned(samples: Samples) -> Fit:
    fit = fit_profile(samples)
    assert isinstance(fit, Fit), fit.reason
    return fit


def refused(samples: Samples) -> str:
    fit = fit_profile(samples)
    assert isinstance(fit, Unfit)
    return fit.reason


@pytest.fixture(scope="session")
def busy_days(play: Play) -> Series:
    return play(L40S, **SHAPES["saturated"], **L40S_LENGTHS)


@pytest.mark.parametrize("noisy", [("itl", "ttft", "wait"), ()], ids=["noisy latencies", "noise everywhere"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_parameters_are_recovered_within_five_percent(
    play: Play, disturb: Disturb, trace_of: TraceOf, name: str, shape: str, noisy: tuple[str, ...]
) -> None:
    truth, lengths = PUBLISHED[name]
    series = play(truth, **SHAPES[shape], **lengths)
    readings = [disturb(series, seed=seed, names=noisy) for seed in range(3)]
    fit = learned(samples_of([trace_of(reading) for reading in readings]))
    assert fit.alpha_s == pytest.approx(truth.alpha_s, rel=0.05)
    assert fit.beta_s == pytest.approx(truth.beta_s, rel=0.05)
    assert fit.gamma_s == pytest.approx(truth.gamma_s, rel=0.05)
    assert fit.delta_s == pytest.approx(truth.delta_s, rel=0.05)
    assert 0.05 < fit.error < 0.09
    if shape == "saturated":
        assert fit.is_full_batch_seen
        assert fit.max_batch_size == pytest.approx(truth.max_batch_size, rel=0.05)


def spoil(series: Series, names: tuple[str, ...], every: int, factor: float) -> Series:
    """Multiply every so-manieth value, at different places for each name."""
    return {
        name: tuple(value * factor if (index + names.index(name)) % every == 0 else value for index, value in indexed)
        if name in names
        else values
        for name, values in series.items()
        for indexed in [list(enumerate(values))]
    }


def without(series: Series, *names: str) -> Series:
    return {name: values for name, values in series.items() if name not in names}


def close_to(truth: PerformanceProfile, fit: Fit, rel: float) -> bool:
    learned_s = (fit.alpha_s, fit.beta_s, fit.gamma_s or 0.0, fit.delta_s or 0.0)
    return learned_s == pytest.approx((truth.alpha_s, truth.beta_s, truth.gamma_s, truth.delta_s), rel=rel)


def test_samples_without_noise_give_the_parameters_themselves() -> None:
    running = np.linspace(1.0, 63.0, 200)
    fit = learned(law_samples(running))
    assert close_to(L40S, fit, rel=1e-9)
    assert (fit.samples, fit.reach) == (200, 62)
    assert fit.error < 1e-12


def test_one_latency_in_ten_may_be_ten_times_too_large(busy_days: Series, disturb: Disturb, trace_of: TraceOf) -> None:
    noisy = spoil(disturb(busy_days), ("itl", "ttft", "wait"), every=10, factor=10.0)
    assert close_to(L40S, learned(samples_of([trace_of(noisy)])), rel=0.07)


def test_one_latency_in_ten_may_be_ten_times_too_small(busy_days: Series, disturb: Disturb, trace_of: TraceOf) -> None:
    noisy = spoil(disturb(busy_days), ("itl", "ttft"), every=10, factor=0.1)
    assert close_to(L40S, learned(samples_of([trace_of(noisy)])), rel=0.07)


def test_one_batch_in_ten_may_be_read_ten_times_too_large(busy_days: Series, trace_of: TraceOf) -> None:
    fit = learned(samples_of([trace_of(spoil(busy_days, ("running",), every=10, factor=10.0))]))
    assert close_to(L40S, fit, rel=0.05)
    assert fit.max_batch_size == 64


def test_a_slow_start_of_a_replica_is_not_held_against_it(busy_days: Series, trace_of: TraceOf) -> None:
    slow = {
        name: tuple(
            value * (30 / (1 + index) if index < 30 and name in {"itl", "ttft"} else 1) for index, value in each
        )
        for name, values in busy_days.items()
        for each in [list(enumerate(values))]
    }
    assert close_to(L40S, learned(samples_of([trace_of(slow)])), rel=0.03)


def test_gaps_in_every_series_only_cost_samples(busy_days: Series, disturb: Disturb, trace_of: TraceOf) -> None:
    gaps = {
        name: tuple(math.nan if index * math.sqrt(prime) % 1 < 0.3 else value for index, value in enumerate(values))
        for (name, values), prime in zip(disturb(busy_days).items(), (2, 3, 5, 7, 11, 13, 17), strict=True)
    }
    fit = learned(samples_of([trace_of(gaps)]))
    assert fit.samples < 0.6 * len(busy_days["itl"])
    assert close_to(L40S, fit, rel=0.08)


def test_history_without_first_tokens_teaches_decode_only(busy_days: Series, trace_of: TraceOf) -> None:
    fit = learned(samples_of([trace_of(without(busy_days, "ttft", "wait"))]))
    assert (fit.gamma_s, fit.delta_s, fit.prefill_error) == (None, None, None)
    assert fit.profile("L40S", "2026-01-01").law == "decode_only"
    assert "prefill is not learned: 0 of 600 samples show time to first token" in fit.notes[1]
    assert fit.alpha_s == pytest.approx(L40S.alpha_s, rel=0.02)


def test_without_waiting_times_prefill_is_learned_where_nobody_waited(busy_days: Series, trace_of: TraceOf) -> None:
    fit = learned(samples_of([trace_of(without(busy_days, "wait"))]))
    assert close_to(L40S, fit, rel=0.03)
    assert learned(samples_of([trace_of(without(busy_days, "wait", "waiting"))])).gamma_s is None


def test_a_queue_that_hides_prefill_leaves_it_out(busy_days: Series, trace_of: TraceOf) -> None:
    wait, ttft = (tuple(times * each for each in busy_days["ttft"]) for times in (9, 10))
    fit = learned(samples_of([trace_of({**busy_days, "wait": wait, "ttft": ttft})]))
    assert fit.gamma_s is None
    assert fit.notes[1].startswith("prefill is not learned: 0 of 600 samples show time to first token without waiting")


def test_prompts_and_batches_that_never_vary_leave_prefill_out(busy_days: Series, trace_of: TraceOf) -> None:
    crowd = [batch > 50 for batch in busy_days["running"]]
    ttft = tuple(value if full else math.nan for value, full in zip(busy_days["ttft"], crowd, strict=True))
    fit = learned(samples_of([trace_of({**busy_days, "ttft": ttft, "wait": (0.0,) * len(ttft)})]))
    assert (fit.gamma_s, fit.delta_s) == (None, None)
    assert "prefill is not learned: input tokens times requests running are too alike" in fit.notes[1]


def test_prefill_that_does_not_grow_is_an_answer(busy_days: Series, trace_of: TraceOf) -> None:
    ttft = tuple(0.2 - 0.0001 * batch for batch in busy_days["running"])
    fit = learned(samples_of([trace_of({**busy_days, "ttft": ttft, "wait": (0.0,) * len(ttft)})]))
    assert fit.gamma_s == pytest.approx(0.197, abs=0.003)
    assert fit.delta_s == 0
    assert "time to first token does not grow with prompt and batch, delta is 0" in fit.notes


def test_one_level_of_load_teaches_nothing(play: Play, disturb: Disturb, trace_of: TraceOf) -> None:
    steady = play(L40S, least=0.5, most=0.5, windows=200, **L40S_LENGTHS)
    for series in (steady, disturb(steady)):
        assert "too alike to tell how inter-token latency grows" in refused(samples_of([trace_of(series)]))


def test_an_idle_history_teaches_nothing(play: Play, trace_of: TraceOf) -> None:
    idle = play(L40S, least=0.0, most=0.002, windows=200, **L40S_LENGTHS)
    assert "samples show inter-token latency and requests running, at least 30" in refused(samples_of([trace_of(idle)]))


def test_no_history_teaches_nothing() -> None:
    assert refused(samples_of([])).startswith("0 of 0 samples")


def test_a_replica_that_does_not_follow_the_law_is_refused() -> None:
    running = np.linspace(1.0, 63.0, 200)
    wild = law_samples(running, itl_s=np.where(np.arange(200) % 2, 0.01, 0.1))
    assert "does not follow a line" in refused(wild)


def test_noise_that_drowns_the_slope_is_refused() -> None:
    running = np.geomspace(25.0, 64.0, 31)
    noise = 1 + 0.3 * np.sin(np.arange(31) * 2.4)
    assert "too noisy for so few samples" in refused(law_samples(running, itl_s=0.02 * noise))


def test_latency_that_does_not_grow_is_an_answer_with_a_note() -> None:
    fit = learned(law_samples(np.linspace(1.0, 63.0, 200), itl_s=np.linspace(0.021, 0.020, 200)))
    assert fit.beta_s == 0
    assert "inter-token latency does not grow with the batch, beta is 0" in fit.notes


def test_where_nothing_waited_and_no_limit_is_known_what_was_seen_is_sure(play: Play, trace_of: TraceOf) -> None:
    series = play(L40S, least=0.05, most=0.5, **L40S_LENGTHS)
    fit = learned(samples_of([trace_of(series)]))
    assert not fit.is_full_batch_seen
    assert fit.reach <= max(series["running"])
    assert fit.reach < fit.max_batch_size, "the engine may hold more, so that batch is not said to be full"
    assert fit.notes[0].endswith(f": {fit.reach} is sure")


def test_nonsense_of_one_reading_is_no_largest_batch() -> None:
    running = np.concatenate([np.linspace(1.0, 40.0, 199), [1e6]])
    assert learned(law_samples(running)).reach <= 40


def test_the_full_batch_is_not_lifted_by_noise(busy_days: Series, disturb: Disturb, trace_of: TraceOf) -> None:
    noisy = samples_of([trace_of(disturb(busy_days, noise=0.2))])
    assert np.nanmax(noisy.num_running) > 90
    assert learned(noisy).max_batch_size == pytest.approx(64, rel=0.05)


def test_ranges_are_what_was_seen(busy_days: Series, trace_of: TraceOf) -> None:
    fit = learned(samples_of([trace_of(busy_days)]))
    assert fit.batch == pytest.approx((1.5, 64), abs=0.5)
    low, high = fit.input_tokens
    assert 200 < low < 400 < high < 600
    blind = learned(samples_of([trace_of(without(busy_days, "input_tokens", "output_tokens"))]))
    assert (blind.input_tokens, blind.output_tokens) == ((0, 0), (0, 0))
    assert sum("were not measured" in note for note in blind.notes) == 2


def test_a_fit_becomes_a_profile_that_says_how_it_was_learned(busy_days: Series, trace_of: TraceOf) -> None:
    fit = learned(samples_of([trace_of(busy_days)]))
    profile = fit.profile("2xL40S", "2026-01-31")
    assert (profile.accelerator, profile.law, profile.max_batch_size) == ("2xL40S", "prefill_decode", 64)
    assert profile.alpha_s == fit.alpha_s
    assert profile.learning is not None
    assert (profile.learning.on, profile.learning.samples) == ("2026-01-31", fit.samples)
    assert profile.learning.batch == fit.batch


def test_samples_are_the_traces_one_after_the_other(trace_of: TraceOf) -> None:
    samples = samples_of([trace_of({"itl": (0.1, 0.2), "running": (3.0,)}), trace_of({"ttft": (0.5,)})])
    np.testing.assert_array_equal(samples.itl_s, [0.1, 0.2, math.nan])
    np.testing.assert_array_equal(samples.num_running, [3.0, math.nan, math.nan])
    np.testing.assert_array_equal(samples.ttft_s, [math.nan, math.nan, 0.5])
    assert samples.output_tokens.shape == (3,)
