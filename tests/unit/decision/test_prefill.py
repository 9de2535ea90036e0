"""Profiles with gamma and delta: the time to first token is a target, not only the wait before it."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.profiles import SloTarget

PREFILL = {"alpha_s": 0.007, "beta_s": 0.00005, "gamma_s": 0.015, "delta_s": 3e-7}


@pytest.fixture
def prefilled(fleet: Any, make: Any) -> Any:
    """One model of 512 input and 180 output tokens, whose first token takes 15 ms and more."""
    fleet.set(service_classes=(make.service_class(itl_s=0.024, ttft=SloTarget(limit_s=0.5, percentile=95.0)),))
    fleet.add(profiles=(make.profile("H100", batch=256, **PREFILL),))
    fleet.loads[fleet.variant().model] = make.load(200.0, input_tokens=512.0, output_tokens=180.0)
    return fleet


def test_the_target_is_shown_as_a_time_to_first_token(prefilled: Any) -> None:
    decision = prefilled.decision()
    assert [(slo.name, slo.statistic) for slo in decision.slos] == [("ttft", "p95"), ("itl", "mean")]
    ttft = decision.slos[0]
    assert ttft.after_s is not None
    assert 0.015 < ttft.after_s <= 0.5
    assert decision.expected is not None
    assert decision.expected.ttft_s is not None


def test_without_prefill_the_same_target_limits_the_wait(fleet: Any, make: Any) -> None:
    fleet.set(service_classes=(make.service_class(itl_s=0.024, ttft=SloTarget(limit_s=0.5, percentile=95.0)),))
    fleet.add(profiles=(make.profile("H100"),))
    fleet.offer(25.0)
    assert [(slo.name, slo.statistic) for slo in fleet.decision().slos] == [("wait", "p95"), ("itl", "mean")]


@pytest.mark.parametrize(
    ("gamma_s", "shown"), [(None, ("wait", "p95", 0.5)), (0.015, ("ttft", "mean", 0.5))], ids=["early", "late"]
)
def test_upstreams_ttft_is_a_wait_before_and_a_mean_with_prefill(
    fleet: Any, make: Any, gamma_s: float | None, shown: tuple[str, str, float]
) -> None:
    fleet.set(service_classes=(replace(make.service_class(), listed_ttft_s=0.5),))
    fleet.add(profiles=(make.profile("H100", gamma_s=gamma_s),))
    fleet.offer(25.0)
    slo = fleet.decision().slos[0]
    assert (slo.name, slo.statistic, slo.target_s) == shown


def test_a_prompt_that_takes_longer_than_the_target_is_unattainable(prefilled: Any, make: Any) -> None:
    prefilled.set(service_classes=(make.service_class(ttft=SloTarget(limit_s=0.01)),))
    reason = prefilled.decision().hold.words
    assert reason.startswith("SLO unattainable: H100: even a lone prompt of 512 tokens takes 15.15 ms")


def test_laws_stand_side_by_side_in_one_plan(prefilled: Any) -> None:
    prefilled.add("other", model_id="qwen")
    prefilled.offer(25.0, "qwen")
    assert prefilled.desired()["other"] == "4 x H100"
    assert prefilled.decision("llama").desired.replicas >= 1


def test_a_move_between_laws_compares_what_both_know(prefilled: Any, make: Any) -> None:
    profiles = (make.profile("H100", batch=256, **PREFILL), make.profile("L4", batch=256, alpha_s=0.01))
    prefilled.resources[0] = replace(prefilled.resources[0], profiles=profiles)
    decision = prefilled.decision()
    assert decision.desired.accelerator == "L4"
    assert [(slo.name, slo.before_s is not None, slo.after_s is not None) for slo in decision.slos] == [
        ("wait", True, True),
        ("itl", True, True),
    ]


def test_prompts_that_differ_more_need_more(fleet: Any, make: Any) -> None:
    """Long prompts: who has one waits for it, and so do those behind him."""
    fleet.set(service_classes=(make.service_class(itl_s=0.2, ttft=SloTarget(limit_s=3.0, percentile=95.0)),))
    fleet.add(profiles=(make.profile("H100", batch=256, alpha_s=0.009, beta_s=0.0001, prompt_s=5e-5),))

    def needed(spread: float | None) -> int:
        fleet.loads[fleet.variant().model] = make.load(
            10.0, input_tokens=11_000.0, output_tokens=400.0, input_spread=spread
        )
        replicas: int = fleet.decision().desired.replicas
        return replicas

    assert needed(None) == needed(1.0)
    assert needed(0.1) < needed(1.0) < needed(2.0)
