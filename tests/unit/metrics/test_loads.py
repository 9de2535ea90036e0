"""What the answers of a run mean: loads, observations, and the ways of having none."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from reconciler.domain.answers import Absence, NoAnswer
from reconciler.domain.observed import ArrivalSource, Load, Observation, Observed
from reconciler.domain.settings import ClusterSettings, PrometheusSettings, Settings
from reconciler.metrics.observed import read_observed

ASKED = (
    *("running", "waiting", "last_seen", "completions", "output_tokens", "input_tokens", "queue_growth", "itl"),
    *("wait", "ttft", "arrivals_endpoint_picker"),
)


@pytest.fixture
def look(now_s: float, settings: Settings) -> Any:
    """Read a fleet as one variant's or several variants' cluster."""

    def run(fleet: Any, *variants: Any, settings: Settings = settings) -> Observed:
        return read_observed(variants, fleet.answers, now_s, settings)

    return run


def pod(index: int, name: str = "llama") -> str:
    return f"{name}-7c9d8f6b5-{'bcdfghjklm'[index]}x4zz"


def load(observed: Observed) -> Load:
    (found,) = observed.loads.values()
    assert isinstance(found, Load), found
    return found


def no_load(observed: Observed, absence: Absence) -> str:
    (found,) = observed.loads.values()
    assert isinstance(found, NoAnswer), found
    assert found.absence is absence, found
    return found.reason


def seen(observed: Observed, name: str) -> Observation:
    return next(observation for key, observation in observed.observations.items() if key.name == name)


def absence(observation: Observation) -> Absence | None:
    return observation.absence.absence if observation.absence else None


def test_a_histogram_tells_how_far_prompts_differ(make_variant: Any, make_fleet: Any, look: Any) -> None:
    """All of one bucket are as good as alike; what is told of another model, or under no bound, says nothing."""
    fleet = make_fleet().model().pod(pod(0), completions=100.0)
    assert load(look(fleet, make_variant("llama"))).input_spread is None
    for bound, rate in (("500", 0.0), ("600", 100.0), ("+Inf", 100.0), ("many", 7.0), ("nan", 7.0)):
        fleet.add("input_buckets", rate, model_name="llama", le=bound)
        fleet.add("input_buckets", 3.0, model_name="other", le=bound)
    told = load(look(fleet, make_variant("llama"))).input_spread
    assert told == pytest.approx(1000 / 31_000, abs=0.01)


def test_a_busy_model_has_a_load_and_its_variant_an_observation(make_variant: Any, make_fleet: Any, look: Any) -> None:
    fleet = make_fleet().model(growth=0.5)
    fleet.pod(pod(0), completions=3.0, running=4, waiting=1, itl=0.02, wait=0.1, ttft=0.3, age_s=20)
    fleet.pod(pod(1), completions=1.0, running=2, waiting=0, itl=0.04, wait=0.5, ttft=0.7, age_s=10)
    observed = look(fleet, make_variant("llama", replicas=2))
    assert load(observed) == Load(
        arrival_rate_per_s=4.5,
        output_tokens=180.0,
        input_tokens=512.0,
        window_s=300.0,
        arrivals_from=ArrivalSource.REPLICAS,
    )
    variant = seen(observed, "llama")
    assert variant.performance.itl_s == pytest.approx(0.025)
    assert variant.performance.wait_s == pytest.approx(0.2)
    assert variant.performance.ttft_s == pytest.approx(0.4)
    assert (variant.num_running, variant.num_waiting, variant.replicas_reporting) == (6.0, 1.0, 2)
    assert (variant.arrival_rate_per_s, variant.absence) == (4.5, None)
    assert observed.failures == observed.warnings == ()


def test_a_queue_that_shrinks_takes_nothing_off_the_load(make_variant: Any, make_fleet: Any, look: Any) -> None:
    fleet = make_fleet().model(growth=-2.0).pod(pod(0), completions=5.0)
    assert load(look(fleet, make_variant("llama"))).arrival_rate_per_s == 5.0


def test_the_endpoint_picker_counts_before_completions_do(make_variant: Any, make_fleet: Any, look: Any) -> None:
    fleet = make_fleet().model(growth=2.0).pod(pod(0), completions=5.0)
    fleet.add("arrivals_endpoint_picker", 6.0, model_name="chat", target_model_name="llama")
    fleet.add("arrivals_endpoint_picker", 3.0, model_name="llama")
    fleet.add("arrivals_endpoint_picker", 99.0, model_name="llama", target_model_name="other")
    found = load(look(fleet, make_variant("llama")))
    assert (found.arrival_rate_per_s, found.arrivals_from) == (9.0, "endpoint picker")


def test_a_picker_that_most_requests_pass_by_is_not_believed(make_variant: Any, make_fleet: Any, look: Any) -> None:
    fleet = make_fleet().model(growth=1.0).pod(pod(0), completions=5.0)
    fleet.add("arrivals_endpoint_picker", 0.5, model_name="llama")
    found = load(look(fleet, make_variant("llama")))
    assert (found.arrival_rate_per_s, found.arrivals_from) == (6.0, "completions and queue growth")


def test_a_configured_query_comes_first_with_either_spelling_of_labels(
    make_variant: Any, make_fleet: Any, look: Any
) -> None:
    prometheus = PrometheusSettings(url="http://p", label_names={"namespace": "exported_namespace"})
    settings = Settings(clusters=(ClusterSettings(name="prod", prometheus=prometheus),))
    fleet = make_fleet().model().pod(pod(0), completions=5.0)
    for rows in fleet.rows.values():
        rows[:] = [
            ({**labels, "exported_namespace": "llm", "namespace": "monitoring"}, value) for labels, value in rows
        ]
    fleet.rows["arrivals_configured"] = [
        ({"namespace": "llm", "model_name": "llama", "status": "200"}, 7.0),
        ({"exported_namespace": "llm", "model_name": "llama", "status": "500"}, 1.0),
    ]
    found = load(look(fleet, make_variant("llama"), settings=settings))
    assert (found.arrival_rate_per_s, found.arrivals_from) == (8.0, "configured query arrivalRate")


def test_a_configured_query_that_fails_is_not_quietly_replaced(make_variant: Any, make_fleet: Any, look: Any) -> None:
    fleet = make_fleet().model().pod(pod(0))
    fleet.rows["arrivals_configured"] = []
    fleet.failed["arrivals_configured"] = "http://p: 400 (parse error)"
    observed = look(fleet, make_variant("llama"))
    assert "parse error" in no_load(observed, Absence.FAILED)
    assert observed.failures == ("prod: http://p: 400 (parse error)",)


def test_a_configured_query_without_the_model_leaves_it_to_the_next(
    make_variant: Any, make_fleet: Any, look: Any
) -> None:
    fleet = make_fleet().model().pod(pod(0), completions=5.0)
    fleet.rows["arrivals_configured"] = [({"namespace": "llm", "model_name": "other"}, 1.0)]
    assert load(look(fleet, make_variant("llama"))).arrival_rate_per_s == 5.0


def test_an_idle_model_has_zero_load_although_its_lengths_are_nan(
    make_variant: Any, make_fleet: Any, look: Any
) -> None:
    fleet = make_fleet().model(output="NaN", input_="NaN").pod(pod(0), completions=0.0, running=0, itl="NaN")
    observed = look(fleet, make_variant("llama"))
    found = load(observed)
    assert (found.arrival_rate_per_s, found.output_tokens, found.input_tokens) == (0.0, 0.0, 0.0)
    variant = seen(observed, "llama")
    assert (variant.performance.itl_s, variant.arrival_rate_per_s, variant.absence) == (None, 0.0, None)


@pytest.mark.parametrize(("growth", "running"), [(0.5, 4), (0.0, 4)])
def test_requests_that_never_finish_are_not_zero_load(
    make_variant: Any, make_fleet: Any, look: Any, growth: float, running: float
) -> None:
    fleet = make_fleet().model(output="NaN", growth=growth).pod(pod(0), completions=0.0, running=running)
    assert "finished" in no_load(look(fleet, make_variant("llama")), Absence.NAN)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1", "0"])
def test_a_length_that_is_none_while_requests_arrive_is_no_load(
    make_variant: Any, make_fleet: Any, look: Any, value: str
) -> None:
    fleet = make_fleet().model(output=value).pod(pod(0))
    no_load(look(fleet, make_variant("llama")), Absence.NAN)


def test_an_input_length_that_is_not_known_is_none(make_variant: Any, make_fleet: Any, look: Any) -> None:
    fleet = make_fleet().model(input_="NaN").pod(pod(0))
    assert load(look(fleet, make_variant("llama"))).input_tokens is None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-0.5"])
def test_completions_that_are_no_rate_are_no_load(make_variant: Any, make_fleet: Any, look: Any, value: str) -> None:
    fleet = make_fleet().model().pod(pod(0), completions=value).pod(pod(1), completions=2.0)
    no_load(look(fleet, make_variant("llama")), Absence.NAN)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1"])
def test_running_requests_that_are_no_count_hold_the_variant(
    make_variant: Any, make_fleet: Any, look: Any, value: str
) -> None:
    observed = look(make_fleet().model().pod(pod(0), running=value), make_variant("llama"))
    assert absence(seen(observed, "llama")) is Absence.NAN
    no_load(observed, Absence.NAN)


def test_silence_for_11_minutes_is_stale_with_its_age(make_variant: Any, make_fleet: Any, look: Any) -> None:
    fleet = make_fleet().model().pod(pod(0), running=None, completions=None, age_s=690.0)
    observed = look(fleet, make_variant("llama"))
    assert no_load(observed, Absence.STALE) == "metrics stale: last sample 11 min ago, limit 5m"
    assert absence(seen(observed, "llama")) is Absence.STALE


@pytest.mark.parametrize(("age_s", "is_fresh"), [(300.0, True), (301.0, False)])
def test_the_limit_of_5_minutes_is_still_fresh(
    make_variant: Any, make_fleet: Any, look: Any, age_s: float, is_fresh: bool
) -> None:
    observed = look(make_fleet().model().pod(pod(0), age_s=age_s), make_variant("llama"))
    assert (absence(seen(observed, "llama")) is None) == is_fresh


def test_replicas_that_stopped_a_minute_ago_are_missing(make_variant: Any, make_fleet: Any, look: Any) -> None:
    fleet = make_fleet().model().pod(pod(0), running=None, age_s=60.0)
    assert "stopped reporting 60 s ago" in no_load(look(fleet, make_variant("llama")), Absence.MISSING)


def test_no_series_at_all_is_missing_and_never_zero(make_variant: Any, make_fleet: Any, look: Any) -> None:
    reason = no_load(look(make_fleet(), make_variant("llama")), Absence.MISSING)
    assert 'no series for model "llama" in namespace llm' in reason


@pytest.mark.parametrize("name", ["completions", "output_tokens", "queue_growth"])
def test_half_the_series_of_a_model_are_no_load(make_variant: Any, make_fleet: Any, look: Any, name: str) -> None:
    fleet = make_fleet().model().pod(pod(0))
    fleet.rows[name] = []
    no_load(look(fleet, make_variant("llama")), Absence.MISSING)


@pytest.mark.parametrize("name", ["running", "last_seen", "completions", "output_tokens"])
def test_an_essential_question_that_failed_or_was_not_asked_holds_the_whole_cluster(
    make_variant: Any, make_fleet: Any, look: Any, name: str
) -> None:
    fleet = make_fleet().model().pod(pod(0))
    fleet.failed[name] = "http://p: 503"
    observed = look(fleet, make_variant("llama"), make_variant("other", model_id="other", replicas=0))
    assert {absence(one) for one in observed.observations.values()} == {Absence.FAILED}
    assert all(isinstance(one, NoAnswer) for one in observed.loads.values())
    assert observed.failures == ("prod: http://p: 503",)
    fleet.missing.add(name)
    assert "was not asked" in no_load(look(fleet, make_variant("llama")), Absence.FAILED)


def test_another_question_that_failed_is_told_and_holds_nothing_else(
    make_variant: Any, make_fleet: Any, look: Any
) -> None:
    fleet = make_fleet().model().pod(pod(0))
    fleet.failed = {"itl": "http://p: 422", "pod_owner": "http://p: 503"}
    observed = look(fleet, make_variant("llama"))
    assert load(observed).arrival_rate_per_s == 1.0
    assert observed.failures == ("prod: http://p: 422 (and 1 more)",)


def test_queue_growth_that_failed_leaves_no_load_to_completions_alone(
    make_variant: Any, make_fleet: Any, look: Any
) -> None:
    fleet = make_fleet().model().pod(pod(0))
    fleet.failed["queue_growth"] = "http://p: 503"
    no_load(look(fleet, make_variant("llama")), Absence.FAILED)


def test_one_silent_variant_holds_the_whole_model(make_variant: Any, make_fleet: Any, look: Any) -> None:
    fleet = make_fleet().model().pod(pod(0, "a"))
    observed = look(fleet, make_variant("a"), make_variant("b", replicas=2))
    assert no_load(observed, Absence.MISSING).startswith("b: no series")
    assert absence(seen(observed, "a")) is None
    assert absence(seen(observed, "b")) is Absence.MISSING


def test_a_variant_at_zero_replicas_may_be_silent(make_variant: Any, make_fleet: Any, look: Any) -> None:
    fleet = make_fleet().model().pod(pod(0, "a"))
    observed = look(fleet, make_variant("a"), make_variant("b", replicas=0))
    assert load(observed).arrival_rate_per_s == 1.0
    assert absence(seen(observed, "b")) is None
    assert seen(observed, "b").replicas_reporting == 0
    assert seen(observed, "a").arrival_rate_per_s == 1.0
    assert seen(observed, "b").arrival_rate_per_s == 0.0


def test_a_model_at_zero_replicas_is_known_only_to_the_picker(make_variant: Any, make_fleet: Any, look: Any) -> None:
    fleet = make_fleet()
    assert "no replica" in no_load(look(fleet, make_variant("llama", replicas=0)), Absence.MISSING)
    fleet.add("arrivals_endpoint_picker", 0.0, model_name="llama")
    assert load(look(fleet, make_variant("llama", replicas=0))).arrival_rate_per_s == 0.0


def test_unattributed_pods_hold_every_variant_of_the_model_with_their_share(
    make_variant: Any, make_fleet: Any, look: Any
) -> None:
    fleet = make_fleet().model()
    for index in range(7):
        fleet.pod(pod(index, "a"))
    for index in range(3):
        fleet.pod(f"stranger-{index}")
    observed = look(fleet, make_variant("a", replicas=7), make_variant("b", replicas=0))
    for name in ("a", "b"):
        found = seen(observed, name).absence
        assert found
        assert found.absence is Absence.UNATTRIBUTED
        assert "3 of 10 pods (30 %)" in found.reason
    assert load(observed).arrival_rate_per_s == 10.0


def test_replicas_that_report_another_name_hold_their_model(make_variant: Any, make_fleet: Any, look: Any) -> None:
    fleet = make_fleet().model("llama-8b").pod(pod(0), model="llama-8b")
    reason = no_load(look(fleet, make_variant("llama")), Absence.MISSING)
    assert (
        reason
        == 'replicas of llama report model "llama-8b", which is not one of its served names: set models[].servedNames'
    )


def test_lengths_of_several_served_names_are_weighted_by_what_finished(
    make_variant: Any, make_fleet: Any, look: Any
) -> None:
    fleet = make_fleet().model("x", output=100.0).model("y", output=200.0)
    fleet.pod(pod(0, "a"), model="x", completions=3.0).pod(pod(0, "b"), model="y", completions=1.0)
    observed = look(fleet, make_variant("a", served=["x"]), make_variant("b", served=["y"]))
    assert load(observed).output_tokens == pytest.approx(125.0)
    assert load(observed).arrival_rate_per_s == 4.0
    assert seen(observed, "a").arrival_rate_per_s == 3.0


def test_where_routes_split_a_load_each_variant_has_its_share_of_the_whole(
    make_variant: Any, make_fleet: Any, look: Any
) -> None:
    fleet = make_fleet().model().pod(pod(0, "big"), completions=6.0).pod(pod(0, "small"), completions=4.0)
    split = look(
        fleet, *(make_variant(name, role=name, share=share) for name, share in (("big", 0.75), ("small", 0.25)))
    )
    assert {key.role: found.arrival_rate_per_s for key, found in split.loads.items()} == {"big": 7.5, "small": 2.5}
    assert {found.output_tokens for found in split.loads.values()} == {180.0}
    unrouted = look(
        fleet, *(make_variant(name, role=name, share=share) for name, share in (("big", 1.0), ("small", 0.0)))
    )
    assert [found.arrival_rate_per_s for found in unrouted.loads.values()] == [10.0, 0.0]
    assert [found.output_tokens for found in unrouted.loads.values()] == [180.0, 0.0]


def test_a_silent_variant_hides_a_part_of_every_share(make_variant: Any, make_fleet: Any, look: Any) -> None:
    fleet = make_fleet().model().pod(pod(0, "big"), completions=6.0)
    observed = look(fleet, *(make_variant(name, role=name, share=0.5) for name in ("big", "small")))
    assert all(isinstance(found, NoAnswer) and "small: " in found.reason for found in observed.loads.values())


def test_a_name_that_two_models_claim_is_nobodys_load(make_variant: Any, make_fleet: Any, look: Any) -> None:
    fleet = make_fleet().model("x").pod(pod(0, "a"), model="x").pod(pod(0, "b"), model="x")
    observed = look(fleet, make_variant("a", model_id="a", served=["x"]), make_variant("b", model_id="b", served=["x"]))
    assert {one.absence for one in observed.loads.values() if isinstance(one, NoAnswer)} == {Absence.UNATTRIBUTED}
    assert len(observed.loads) == 2


def test_clusters_are_read_apart(make_variant: Any, make_fleet: Any, now_s: float, settings: Settings) -> None:
    ours, theirs = make_fleet().model().pod(pod(0)), make_fleet("eu").model().pod(pod(0), completions=9.0)
    theirs.failed["running"] = "http://eu: 503"
    variants = [make_variant("llama"), make_variant("llama", cluster="eu")]
    observed = read_observed(variants, [*ours.answers, *theirs.answers], now_s, settings)
    first, second = (observed.loads[variant.model] for variant in variants)
    assert isinstance(first, Load)
    assert isinstance(second, NoAnswer)
    assert observed.failures == ("eu: http://eu: 503",)


def test_a_cluster_without_prometheus_is_missing_with_what_to_do(
    make_variant: Any, now_s: float, settings: Settings
) -> None:
    observed = read_observed([make_variant("llama", cluster="eu")], [], now_s, settings)
    assert "has no Prometheus: give --prometheus" in no_load(observed, Absence.MISSING)
    observed = read_observed([make_variant("llama")], [], now_s, settings)
    assert "was not asked" in no_load(observed, Absence.FAILED)


def test_warnings_of_prometheus_are_told_once_with_their_cluster(
    make_variant: Any, make_fleet: Any, make_answer: Any, now_s: float, settings: Settings
) -> None:
    fleet = make_fleet().model().pod(pod(0))
    answers = [make_answer("itl", warnings=["partial"]), make_answer("ttft", warnings=["partial"]), *fleet.answers]
    answers = [one for one in answers if one.query.quantity not in ("itl", "ttft") or b"partial" in one.body.read()]
    observed = read_observed([make_variant("llama")], answers, now_s, settings)
    assert observed.warnings == ("prod: partial",)


def test_split_answers_are_put_together_and_a_part_that_failed_fails_the_whole(
    make_variant: Any, make_fleet: Any, now_s: float, settings: Settings
) -> None:
    first, second = make_fleet().model().pod(pod(0)), make_fleet(namespace="b").model().pod(pod(0), completions=2.0)
    variants = [make_variant("llama"), make_variant("llama", namespace="b")]
    observed = read_observed(variants, [*first.answers, *second.answers], now_s, settings)
    rates = [one.arrival_rate_per_s for one in observed.loads.values() if isinstance(one, Load)]
    assert rates == [1.0, 2.0]
    second.failed["running"] = "down"
    observed = read_observed(variants, [*first.answers, *second.answers], now_s, settings)
    assert all(isinstance(one, NoAnswer) for one in observed.loads.values())


def test_one_pod_with_two_values_is_no_answer(make_variant: Any, make_fleet: Any, look: Any) -> None:
    fleet = make_fleet().model().pod(pod(0))
    labels, value = fleet.rows["running"][0]
    fleet.rows["running"].append(({**labels, "extra": "1"}, value))
    assert "two values" in no_load(look(fleet, make_variant("llama")), Absence.FAILED)


def test_unknown_quantities_of_a_newer_recording_are_ignored(
    make_variant: Any, make_fleet: Any, make_answer: Any, now_s: float, settings: Settings
) -> None:
    answers = [make_answer("from_the_future", body=b"?"), *make_fleet().model().pod(pod(0)).answers]
    assert load(read_observed([make_variant("llama")], answers, now_s, settings)).arrival_rate_per_s == 1.0


def test_the_same_answers_in_another_order_mean_the_same(
    make_variant: Any, make_fleet: Any, now_s: float, settings: Settings
) -> None:
    fleet = make_fleet().model(growth=0.3)
    for index in range(9):
        fleet.pod(pod(index), completions=0.1 * index, itl=0.01 * index + 0.001)
    variants = [make_variant("llama", replicas=9)]
    turned = [replace(one, body=type(one.body)(content=_turned(one.body.read()))) for one in reversed(fleet.answers)]
    assert read_observed(variants, fleet.answers, now_s, settings) == read_observed(variants, turned, now_s, settings)


values = st.sampled_from(["NaN", "+Inf", "-Inf", "-1", "0", "5", "1e308", "-1e308", "1e-320"])


@given(st.dictionaries(st.sampled_from(ASKED), values))
@hypothesis_settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_whatever_numbers_come_a_load_is_finite_or_has_a_reason(
    make_variant: Any, make_fleet: Any, now_s: float, settings: Settings, told: dict[str, str]
) -> None:
    fleet = make_fleet().model("x").model("y").add("arrivals_endpoint_picker", 9.0, model_name="x")
    fleet.pod(pod(0, "a"), model="x", itl=1, wait=1, ttft=1).pod(pod(0, "b"), model="y", itl=1, wait=1, ttft=1)
    for name, value in told.items():
        fleet.rows[name][:] = [(labels, value) for labels, _ in fleet.rows[name]]
    variants = [make_variant("a", served=["x"]), make_variant("b", served=["y"])]
    observed = read_observed(variants, fleet.answers, now_s, settings)
    for found in observed.loads.values():
        assert found.reason if isinstance(found, NoAnswer) else 0 <= found.arrival_rate_per_s < 1e13
        assert isinstance(found, NoAnswer) or found.arrival_rate_per_s == 0 or 0 < found.output_tokens < 1e13
    for one in observed.observations.values():
        for number in (one.performance.itl_s, one.num_running, one.arrival_rate_per_s):
            assert number is None or 0 <= number < 1e13


def _turned(body: bytes) -> bytes:
    document = json.loads(body)
    document["data"]["result"].reverse()
    return json.dumps(document).encode()
