"""What saturation is told beyond the present: what replicas did, what they held, what upstream would have sampled."""

import math
from dataclasses import replace
from typing import Any

import pytest

from reconciler.decision.engines.saturation import read_model
from reconciler.decision.engines.wva import read_upstream
from reconciler.domain.identity import Source, SourceKind
from reconciler.domain.observed import ArrivalSource, Observation, Performance, Trace
from reconciler.domain.settings import AnalyzerSettings, SaturationRules, ThresholdLayer, ZeroRules
from reconciler.domain.snapshot import Form
from reconciler.domain.variant_settings import Engine
from tests.histories import arrays

SIZED: dict[str, Any] = {"total_kv_tokens": 12500.0, "input_tokens": 100.0, "output_tokens": 600.0}


@pytest.fixture
def full(fleet: Any) -> Any:
    """Two replicas without profile, of which one had a full queue a while ago."""
    fleet.set(defaults={}, service_classes=())
    fleet.add(replicas=2, form=Form.TARGET)
    fleet.resources[-1] = replace(fleet.resources[-1], profiles=())
    fleet.fill(".30/0, .30/0", **SIZED)
    return fleet


def trace(fleet: Any, pod: str, step_s: float = 15.0, **series: list[float]) -> Trace:
    return Trace(
        pod=pod,
        variant=fleet.variant().key,
        start_s=fleet.now_s - 60.0,
        step_s=step_s,
        series=arrays(series),
    )


def with_traces(fleet: Any, *traces: Trace) -> None:
    fleet.observed = replace(fleet.observed, traces={fleet.variant().key: traces})


def readings(fleet: Any, engine: Engine = Engine.SATURATION) -> Any:
    return read_model(
        fleet.snapshot(), fleet.variant().model, fleet.variants(), corrects_history=engine is Engine.SATURATION
    )


def upstream(fleet: Any) -> Any:
    return read_upstream(fleet.snapshot(), readings(fleet, Engine.WVA_V2))


def test_what_a_full_queue_showed_is_remembered(full: Any) -> None:
    busy = trace(
        full, "llama-0", kv_cache_usage=[0.5, 0.6, 0.3], num_waiting=[9.0, 8.0, 0.0], output_tokens=[600.0] * 3
    )
    with_traces(full, busy)
    (remembered,) = readings(full, Engine.WVA_V2).history.values()
    assert remembered == (6250.0, 7500.0)


def test_what_was_exceeded_later_is_forgotten_by_us_and_kept_by_upstream(full: Any) -> None:
    ramp = trace(
        full, "llama-0", kv_cache_usage=[0.2, 0.6, 0.6], num_waiting=[9.0, 8.0, 8.0], output_tokens=[600.0] * 3
    )
    with_traces(full, ramp)
    (ours,), (upstreams,) = (readings(full, each).history.values() for each in (Engine.SATURATION, Engine.WVA_V2))
    assert 2500.0 not in ours
    assert 2500.0 in upstreams


def test_histories_that_are_unknown_remember_nothing(full: Any) -> None:
    with_traces(full, trace(full, "llama-0", kv_cache_usage=[math.nan] * 3, num_waiting=[math.nan] * 3))
    assert readings(full).history == {}


def test_a_variant_that_was_last_seen_yesterday_still_holds_what_it_held(full: Any) -> None:
    key = full.variant().key
    full.replicas.clear()
    full.observed = replace(full.observed, stored_kv_tokens={key: 10_000.0})
    (state,) = readings(full).variants
    assert (state.stored.capacity_tokens, state.stored.total_kv_tokens) == (8000, 10_000.0)


def rules(*analyzers: AnalyzerSettings) -> SaturationRules:
    layer = ThresholdLayer(source=Source(kind=SourceKind.CONFIG_MAP), kv_cache_usage=0.8)
    return SaturationRules(layers=(layer,), analyzers=analyzers)


def test_upstreams_throughput_analyzer_hears_samples_when_it_has_a_vote(full: Any) -> None:
    model = full.variant().model
    with_traces(
        full,
        trace(full, "llama-0", kv_cache_usage=[0.1, 0.2, 0.3, 0.4, 0.5], num_waiting=[0.0] * 5),
        trace(full, "llama-0", 60.0, itl=[0.02, 0.03], output_tokens=[600.0] * 2, completions=[0.5, 1.0]),
    )
    assert upstream(full).throughput is None
    full.saturation[model] = rules(AnalyzerSettings(name="throughput"))
    first, last = upstream(full).throughput.samples
    assert (first.kv_cache_usage, first.itl_s, first.tokens_per_s) == (0.1, 0.02, 300.0)
    assert (last.kv_cache_usage, last.itl_s, last.tokens_per_s) == (0.5, 0.03, 600.0)


def test_arrivals_that_replicas_count_are_none_to_upstream(full: Any, make: Any) -> None:
    full.saturation[full.variant().model] = rules(AnalyzerSettings(name="throughput"))
    full.loads[full.variant().model] = make.load(4.0, arrivals_from=ArrivalSource.REPLICAS)
    assert upstream(full).throughput.arrival_rate_per_s is None
    full.loads[full.variant().model] = make.load(4.0)
    assert upstream(full).throughput.arrival_rate_per_s == 4.0


@pytest.mark.parametrize(("inline", "mapped", "goes"), [(None, True, True), (False, True, False), (True, None, True)])
def test_the_models_own_entry_decides_about_zero_before_the_map(
    full: Any, inline: bool | None, mapped: bool | None, goes: bool
) -> None:
    model = full.variant().model
    full.saturation[model] = replace(rules(), scales_to_zero=inline)
    snapshot = replace(full.snapshot(), zero={model: ZeroRules(is_enabled=mapped)})
    assert read_model(snapshot, model, full.variants(), corrects_history=True).zero_rule.is_enabled is goes


@pytest.mark.parametrize(
    ("arriving", "completing", "running", "waits", "expected"),
    [
        pytest.param(10.0, 10.0, 4.0, [9.0] * 9, (10.0, 10.0), id="what arrives is finished"),
        pytest.param(10.5, 10.0, 4.0, [9.0] * 9, (10.0, 10.0), id="a difference by chance"),
        pytest.param(30.0, 10.0, 4.0, [9.0] * 9, (30.0, 10.0), id="a surge that the gateway counts"),
        pytest.param(10.0, 10.0, 4.0, [300.0 * each for each in range(9)], (30.0, 10.0), id="a surge in the queue"),
        pytest.param(30.0, 10.0, 4.0, [9.0], (30.0, 10.0), id="a queue without a past"),
        pytest.param(30.0, 1.0, 120.0, [9.0] * 9, (30.0, 20.0), id="long requests that have only begun"),
    ],
)
def test_what_arrives_is_held_against_what_replicas_finish(
    full: Any, arriving: float, completing: float, running: float, waits: list[float], expected: tuple[float, float]
) -> None:
    with_traces(full, trace(full, "llama-0", num_waiting=waits, kv_cache_usage=[0.5] * len(waits)))
    full.offer(arriving, output_tokens=600.0)
    (model,) = full.loads
    full.loads[model] = replace(full.loads[model], completions_per_s=completing)
    seen = Observation(performance=Performance(itl_s=0.01), num_running=running, replicas_reporting=2)
    full.observations[full.variant().key] = seen
    flow = readings(full).flow
    assert (flow.arriving, flow.finished) == pytest.approx(expected)
