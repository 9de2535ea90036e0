"""Nothing shrinks while it is not known what the last hour needed, or what is measured contradicts itself."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reconciler.domain.answers import Absence, NoAnswer
from reconciler.domain.history import LoadHistory
from reconciler.domain.identity import ModelKey
from reconciler.domain.observed import Observation, Performance, Trace
from reconciler.domain.plan import Outcome
from reconciler.domain.profiles import SloTarget
from reconciler.domain.snapshot import Form
from tests.histories import arrays, load_history
from tests.unit.decision.conftest import CLUSTER, MODEL, NAMESPACE, NOW_S, key

HOUR = [20.0] * 61
MODEL_KEY = ModelKey(cluster=CLUSTER, namespace=NAMESPACE, model_id=MODEL)
KV: dict[str, Any] = {"total_kv_tokens": 12500.0, "input_tokens": 100.0, "output_tokens": 100.0}


@pytest.fixture
def queue(fleet: Any) -> Any:
    """Twenty requests a second take three of five replicas, and always did."""
    fleet.add(replicas=5)
    fleet.offer(20.0)
    fleet.remember(*HOUR)
    return fleet


@pytest.fixture
def full(fleet: Any) -> Any:
    """Four replicas that were 10 % full for an hour, and could be one."""
    fleet.set(defaults={}, service_classes=())
    fleet.add(replicas=4, form=Form.TARGET)
    fleet.resources[-1] = replace(fleet.resources[-1], profiles=())
    fleet.fill(".10/0, .10/0, .10/0, .10/0", **KV)
    remember(fleet, [0.10] * 241)
    return fleet


def remember(
    fleet: Any, usage: Sequence[float], waiting: float = 0.0, step_s: float = 15.0, tokens: float = 100.0
) -> None:
    """How full all replicas were until now."""
    count = len(usage)
    series = {
        "kv_cache_usage": tuple(usage),
        "num_waiting": (waiting,) * count,
        "input_tokens": (tokens,) * count,
        "output_tokens": (100.0,) * count,
    }
    start_s = NOW_S - step_s * (count - 1)
    traces = tuple(
        Trace(pod=f"llama-{index}", variant=key("llama"), start_s=start_s, step_s=step_s, series=arrays(series))
        for index in range(4)
    )
    fleet.observed = replace(fleet.observed, traces={key("llama"): traces})


def usual(fleet: Any, outputs: float, rate_per_s: float = 20.0, inputs: float = 100.0) -> None:
    """Every ten minutes of the last day, all alike."""
    count = 145
    fleet.observed = replace(
        fleet.observed,
        usual={
            MODEL_KEY: load_history(
                (rate_per_s,) * count,
                last_s=NOW_S,
                step_s=600.0,
                output_tokens=(outputs,) * count,
                input_tokens=(inputs,) * count,
            )
        },
    )


def vary(fleet: Any, *factors: float) -> None:
    """What is usual is in turn so many times as long."""
    day = fleet.observed.usual[MODEL_KEY]
    lengths = {
        name: getattr(day, name) * np.resize(factors, len(day.times_s)) for name in ("output_tokens", "input_tokens")
    }
    fleet.observed = replace(fleet.observed, usual={MODEL_KEY: replace(day, **lengths)})


def lengthen(fleet: Any, outputs: Sequence[float], inputs: Sequence[float] = ()) -> None:
    fleet.past[MODEL_KEY] = replace(
        fleet.past[MODEL_KEY], output_tokens=np.array(outputs), input_tokens=np.array(inputs or [100.0] * len(outputs))
    )


def told(fleet: Any) -> tuple[int, str, str]:
    """Replicas, and the kind and the words of what keeps them."""
    decision = fleet.decision()
    hold = decision.hold or decision.waiting
    return decision.desired.replicas, str(hold.kind) if hold else "", hold.words if hold else ""


def test_a_calm_hour_that_is_wholly_known_lets_replicas_go(queue: Any) -> None:
    assert told(queue) == (3, "", "")


@pytest.mark.parametrize(("ttft_s", "expected"), [(0.25, (4, "")), (0.31, (4, "")), (3.95, (5, "target-missed"))])
def test_no_replica_goes_while_a_mean_is_above_a_target(queue: Any, make: Any, ttft_s: float, expected: object) -> None:
    queue.set(service_classes=(make.service_class(ttft=SloTarget(limit_s=0.3, percentile=95.0)),))
    queue.observations[key("llama")] = Observation(performance=Performance(ttft_s=ttft_s), replicas_reporting=5)

    assert told(queue)[:2] == expected


def spread(fleet: Any, *per_s: float, seconds: float = 3600.0) -> None:
    """What each replica finished."""
    count = round(seconds / 60) + 1
    traces = tuple(
        Trace(
            pod=f"llama-{index}",
            variant=key("llama"),
            start_s=NOW_S - seconds,
            step_s=60.0,
            series=arrays({"completions": (rate,) * count}),
        )
        for index, rate in enumerate(per_s)
    )
    fleet.observed = replace(fleet.observed, traces={key("llama"): traces})


@pytest.mark.parametrize(
    ("per_s", "seconds", "expected"),
    [
        pytest.param((4.0, 4.0, 4.0, 4.0, 4.0), 3600.0, 3, id="evenly"),
        pytest.param((4.3, 4.3, 3.8, 3.8, 3.8), 3600.0, 3, id="within the headroom"),
        pytest.param((7.0, 7.0, 2.0, 2.0, 2.0), 3600.0, 4, id="two carry most"),
        pytest.param((7.0, 7.0, 2.0, 2.0, 2.0), 900.0, 3, id="not for long"),
        pytest.param((4.0,), 3600.0, 3, id="one alone"),
    ],
)
def test_the_fullest_replica_decides_how_many_are_needed(
    queue: Any, per_s: tuple[float, ...], seconds: float, expected: int
) -> None:
    spread(queue, *per_s, seconds=seconds)
    decision = queue.decision()

    assert decision.desired.replicas == expected
    steps = [step.reason for step in decision.steps if step.stage == "demand"]
    assert ("2 of 5 replicas carry 70 % of the load" in steps[0]) is (expected == 4)


def test_an_hour_that_could_not_be_asked_for_keeps_all(queue: Any) -> None:
    queue.past[MODEL_KEY] = NoAnswer(absence=Absence.FAILED, reason="http://p: 503")
    assert told(queue)[:2] == (5, "history-missing")
    assert told(queue)[2] == (
        "what arrived before is not known: http://p: 503: "
        "nothing is scaled down until the whole of the last 1h is known"
    )
    assert queue.decision().outcome is Outcome.UNCHANGED


@pytest.mark.parametrize("minutes", [6, 12, 50])
def test_a_young_past_keeps_all(queue: Any, minutes: int) -> None:
    queue.remember(*[20.0] * minutes)
    assert told(queue)[:2] == (5, "history-missing")
    assert f"how much arrived {minutes - 1}m ago is not known" in told(queue)[2]


@pytest.mark.parametrize("at", [12, 30, 54])
def test_a_gap_keeps_all_until_it_is_older_than_payback(queue: Any, at: int) -> None:
    rates = list(HOUR)
    rates[-at - 1 : -at + 1] = [math.nan] * 2
    queue.remember(*rates)
    assert told(queue)[:2] == (5, "history-missing")
    queue.default(payback=at * 60.0 - 180.0)
    assert told(queue)[1] == ""


def test_growth_needs_no_past(queue: Any) -> None:
    queue.past[MODEL_KEY] = NoAnswer(absence=Absence.FAILED, reason="http://p: 503")
    queue.offer(60.0)
    assert told(queue) == (7, "", "")


def test_who_needs_all_that_it_has_is_told_of_no_past(queue: Any) -> None:
    queue.remember(20.0)
    queue.offer(45.0)
    assert told(queue) == (5, "", "")


def test_an_idle_model_of_unknown_past_stays(queue: Any) -> None:
    queue.remember(0.0, 0.0)
    queue.offer(0.0)
    assert told(queue)[:2] == (5, "history-missing")


@pytest.mark.parametrize("minutes", [20, 70, 180])
def test_requests_that_fail_for_longer_than_payback_are_still_changed(queue: Any, minutes: int) -> None:
    usual(queue, 100.0)
    day = queue.observed.usual[MODEL_KEY]
    failing = minutes // 10 + 1
    outputs = np.array([*day.output_tokens[:-failing], *[1.0] * failing])
    queue.observed = replace(queue.observed, usual={MODEL_KEY: replace(day, output_tokens=outputs)})
    queue.offer(20.0, output_tokens=1.0)
    assert told(queue)[:2] == (5, "lengths-changed")


def test_answers_of_one_token_all_day_are_usual(queue: Any) -> None:
    usual(queue, 1.0)
    queue.offer(20.0, output_tokens=1.0)
    assert told(queue)[1] == ""


def test_requests_of_unknown_length_wake_one_replica(fleet: Any) -> None:
    fleet.add(replicas=0)
    fleet.offer(20.0, output_tokens=0.0, input_tokens=None)
    assert told(fleet)[:2] == (1, "")
    assert any("their lengths are not known: one replica wakes" in step.reason for step in fleet.decision().steps)
    fleet.offer(20.0)
    assert told(fleet) == (3, "", "")


def test_another_accelerator_is_no_way_around(fleet: Any, make: Any) -> None:
    fleet.price(H100=6.0, A100=1.0)
    fleet.add(replicas=3, profiles=(make.profile("H100"), make.profile("A100", batch=20)))
    fleet.offer(14.0)
    fleet.remember(14.0)
    assert fleet.desired() == {"llama": "3 x H100"}
    fleet.remember(*[14.0] * 61)
    assert fleet.desired() == {"llama": "1 x A100"}


@pytest.mark.parametrize(("sized_by", "replicas"), [("queue", 5), ("full", 4)])
def test_an_answer_that_may_lack_a_part_keeps_all(sized_by: str, replicas: int, request: pytest.FixtureRequest) -> None:
    fleet = request.getfixturevalue(sized_by)
    fleet.observed = replace(fleet.observed, incomplete={CLUSTER: "No StoreAPIs matched"})
    assert told(fleet)[:2] == (replicas, "load-partial")
    assert "No StoreAPIs matched" in told(fleet)[2]


def test_short_requests_of_some_minutes_are_no_small_load(queue: Any) -> None:
    queue.set_replicas("llama", 8)
    queue.remember(*[75.0] * 61)
    queue.offer(75.0, output_tokens=33.0)
    lengthen(queue, [100.0] * 55 + [33.0] * 6)
    assert told(queue) == (8, "", "")
    (step,) = [each for each in queue.decision().steps if each.stage == "allocation"]
    assert step.reason.startswith("kept: 22")
    lengthen(queue, [33.0] * 61)
    assert told(queue) == (3, "", "")


def test_long_requests_of_then_count_as_more_of_now(queue: Any) -> None:
    lengthen(queue, [100.0] * 30 + [190.0] + [100.0] * 30)
    assert told(queue) == (4, "", "")


def test_lengths_that_nobody_knows_keep_all(queue: Any) -> None:
    lengthen(queue, [math.nan] * 61)
    assert told(queue)[:2] == (5, "history-missing")
    lengthen(queue, [math.nan] * 55 + [100.0] * 6)
    assert "how long outputs were 6m ago is not known" in told(queue)[2]
    lengthen(queue, [100.0] * 20 + [math.nan] * 41)
    assert told(queue) == (3, "", "")


def test_requests_shorter_than_ever_keep_all_and_are_told(queue: Any) -> None:
    usual(queue, 100.0)
    assert told(queue) == (3, "", "")
    queue.offer(20.0, output_tokens=1.0)
    lengthen(queue, [1.0] * 61)
    assert told(queue)[:2] == (5, "lengths-changed")
    assert "outputs of 1 tokens are shorter than any of the last day, 100 " in told(queue)[2]


def test_prompts_shorter_than_ever_keep_all(queue: Any) -> None:
    usual(queue, 100.0, inputs=4000.0)
    assert told(queue)[:2] == (5, "lengths-changed")


def test_who_is_always_answered_with_one_token_may_shrink(queue: Any) -> None:
    usual(queue, 1.0)
    queue.offer(20.0, output_tokens=1.0)
    lengthen(queue, [1.0] * 61)
    assert told(queue)[0] < 5


def test_requests_that_are_shorter_by_a_third_are_another_day(queue: Any) -> None:
    usual(queue, 150.0)
    assert told(queue) == (3, "", "")


def test_a_few_requests_may_be_short_by_chance(queue: Any) -> None:
    """Of three a window, their mean is a quarter of the usual one now and then; of a thousand it never is."""
    usual(queue, 100.0, rate_per_s=0.01)
    queue.offer(0.01, output_tokens=25.0)
    queue.remember(*[0.01] * 61)
    assert told(queue)[1] == "lengths-changed"  # no two requests ever differed
    vary(queue, 0.5, 1.5)
    assert told(queue) == (1, "", "")
    usual(queue, 100.0)
    queue.offer(20.0, output_tokens=25.0)
    queue.remember(*[20.0] * 61)
    vary(queue, 0.99, 1.01)
    assert told(queue)[1] == "lengths-changed"


def test_saturation_lets_replicas_go_after_a_calm_hour(full: Any) -> None:
    assert told(full) == (1, "", "")


@pytest.mark.parametrize("unit", ["tokens", "replicas"])
def test_saturation_keeps_what_the_last_hour_needed(full: Any, unit: str) -> None:
    if unit == "replicas":
        full.fill(".10/0, .10/0, .10/0, .10/0")
    remember(full, [0.60] * 220 + [0.10] * 21)
    decision = full.decision()
    assert (decision.desired.replicas, decision.unit) == (4, unit)
    (step,) = [each for each in decision.steps if each.stage == "allocation"]
    assert step.reason.startswith("kept: ")
    assert "were worked on 5m ago" in step.reason


def test_what_waited_counts_with_its_lengths(full: Any) -> None:
    remember(full, [0.10] * 241, waiting=4.0)
    assert told(full)[0] == 1
    remember(full, [0.10] * 241, waiting=4.0, tokens=1000.0)
    assert told(full)[0] == 3


def test_saturation_forgets_after_payback(full: Any) -> None:
    remember(full, [0.60] * 120 + [0.10] * 121)
    assert told(full)[0] == 4
    full.default(payback=25 * 60.0)
    assert told(full)[0] == 1


def test_a_payback_of_hours_is_looked_at_in_coarser_steps(full: Any) -> None:
    full.default(payback=4 * 3600.0)
    assert told(full)[:2] == (4, "history-missing")
    remember(full, [0.10] * 49, step_s=300.0)
    assert told(full)[:2] == (1, "")
    remember(full, [0.10] * 5 + [0.60] + [0.10] * 43, step_s=300.0)
    assert told(full)[0] == 4


@pytest.mark.parametrize("known", [24, 48, 200])
def test_saturation_without_the_whole_of_payback_keeps_all(full: Any, known: int) -> None:
    remember(full, [math.nan] * (241 - known) + [0.10] * known)
    assert told(full)[:2] == (4, "history-missing")


def test_a_scrape_that_failed_is_no_gap(full: Any) -> None:
    remember(full, [0.10] * 100 + [math.nan] * 4 + [0.10] * 137)
    assert told(full) == (1, "", "")


def test_saturation_whose_history_was_refused_keeps_all(full: Any) -> None:
    full.observed = replace(full.observed, lost={CLUSTER: NoAnswer(absence=Absence.FAILED, reason="422")})
    assert told(full)[:2] == (4, "history-missing")
    full.observed = replace(full.observed, lost={}, traces={key("llama"): ()})
    assert told(full)[:2] == (4, "history-missing")


def test_reproductions_keep_their_own_rules(full: Any) -> None:
    full.default(engine="wva-v1")
    full.observed = replace(full.observed, traces={key("llama"): ()}, incomplete={CLUSTER: "partial"})
    assert told(full)[1] == ""


@pytest.mark.parametrize(("usage", "running", "is_held"), [(0.0, 8.0, True), (0.001, 20.0, True), (0.1, 8.0, False)])
def test_a_cache_that_does_not_show_what_runs_keeps_all(full: Any, usage: float, running: float, is_held: bool) -> None:
    remember(full, [usage] * 241)
    full.fill(", ".join([f"{usage}/0"] * 4), **KV, num_running=running)
    assert told(full)[:2] == ((4, "gauges-contradict") if is_held else (1, ""))


def test_a_cache_is_empty_where_nothing_runs(full: Any) -> None:
    remember(full, [0.0] * 241)
    full.fill("0/0, 0/0, 0/0, 0/0", **KV, num_running=0.0)
    assert told(full)[:2] == (1, "")


def test_a_silence_that_other_days_do_not_know_is_told(queue: Any) -> None:
    queue.remember(*[0.0] * 61)
    queue.offer(0.0)
    assert queue.decision().caution == ""
    usual(queue, 100.0, rate_per_s=40.0)
    decision = queue.decision()
    assert decision.desired.replicas == 1
    assert decision.caution == (
        "llm/llama: no requests arrive, but 40 req/s did at this hour yesterday: this looks like an outage"
    )
    assert decision.caution in queue.plan().notes


def test_a_silence_between_few_requests_is_none(queue: Any) -> None:
    """Of one that comes every ten minutes none is missed within an hour and a half of silence, of one a minute many."""
    queue.remember(*[0.0] * 61)
    queue.offer(0.0)
    usual(queue, 100.0, rate_per_s=1 / 600)
    assert queue.decision().caution == ""
    usual(queue, 100.0, rate_per_s=1 / 60)
    assert "this looks like an outage" in queue.decision().caution


def test_a_count_that_nobody_schedules_is_held(queue: Any) -> None:
    queue.offer(300_000.0)
    assert told(queue) == (
        5,
        "count-implausible",
        "llm/llama would need 30031 replicas, more than 1000: what is measured must be wrong",
    )
    assert queue.decision().outcome is Outcome.HELD


def test_a_pool_that_is_counted_limits_before(queue: Any) -> None:
    queue.offer(300_000.0)
    queue.stock(H100=64)
    assert told(queue)[0] == 64


def test_past_arrivals_without_lengths_weigh_as_they_are(queue: Any) -> None:
    assert isinstance(queue.past[MODEL_KEY], LoadHistory)
    assert len(queue.past[MODEL_KEY].output_tokens) == 0
    assert told(queue)[0] == 3
