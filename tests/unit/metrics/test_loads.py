"""What the answers of a run mean for models: loads, observations, spreads, queues, and the ways of having none."""

import json
import math
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from reconciler.domain.answers import Absence, HeldBody, NoAnswer
from reconciler.domain.identity import Source, Sourced, SourceKind
from reconciler.domain.observed import ArrivalSource, Load, Observation, Observed, UpstreamQueue
from reconciler.domain.profiles import ServiceClass
from reconciler.domain.settings import ClusterSettings, PrometheusSettings, Settings
from reconciler.metrics.loads import LARGEST_SPREAD, USUAL_SPREAD, WORTH, spread_of
from reconciler.metrics.observed import read_observed
from tests.unit.metrics.fleet import NOW_S, SETTINGS, Fleet, look, make_answer, make_variant

ASKED = (
    *("running", "waiting", "last_seen", "completions", "output_tokens", "input_tokens", "queue_growth", "itl"),
    *("wait", "ttft", "arrivals_endpoint_picker"),
)


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


def test_a_histogram_shows_how_far_prompts_differ() -> None:
    """Prompts of one bucket count as equal; series of another model, or without a valid bound, are ignored."""
    fleet = Fleet().model().pod(pod(0), completions=100.0)
    assert load(look(fleet, make_variant("llama"))).input_spread is None
    for bound, rate in (("500", 0.0), ("600", 100.0), ("+Inf", 100.0), ("many", 7.0), ("nan", 7.0)):
        fleet.add("input_buckets", rate, model_name="llama", le=bound)
        fleet.add("input_buckets", 3.0, model_name="other", le=bound)
    told = load(look(fleet, make_variant("llama"))).input_spread
    assert told == pytest.approx(1000 / 31_000, abs=0.01)


def test_a_busy_model_has_a_load_and_its_variant_an_observation() -> None:
    fleet = Fleet().model(growth=0.5)
    fleet.pod(pod(0), completions=3.0, running=4, waiting=1, itl=0.02, wait=0.1, ttft=0.3, age_s=20)
    fleet.pod(pod(1), completions=1.0, running=2, waiting=0, itl=0.04, wait=0.5, ttft=0.7, age_s=10)
    observed = look(fleet, make_variant("llama", replicas=2))
    assert load(observed) == Load(
        arrival_rate_per_s=4.5,
        output_tokens=180.0,
        input_tokens=512.0,
        window_s=300.0,
        arrivals_from=ArrivalSource.REPLICAS,
        completions_per_s=4.0,
    )
    variant = seen(observed, "llama")
    assert variant.performance.itl_s == pytest.approx(0.025)
    assert variant.performance.wait_s == pytest.approx(0.2)
    assert variant.performance.ttft_s == pytest.approx(0.4)
    assert (variant.num_running, variant.num_waiting, variant.replicas_reporting) == (6.0, 1.0, 2)
    assert (variant.arrival_rate_per_s, variant.absence) == (4.5, None)
    assert observed.failures == observed.warnings == ()


def test_a_queue_that_shrinks_takes_nothing_off_the_load() -> None:
    fleet = Fleet().model(growth=-2.0).pod(pod(0), completions=5.0)
    assert load(look(fleet, make_variant("llama"))).arrival_rate_per_s == 5.0


def test_the_endpoint_picker_counts_before_completions_do() -> None:
    fleet = Fleet().model(growth=2.0).pod(pod(0), completions=5.0)
    fleet.add("arrivals_endpoint_picker", 6.0, model_name="chat", target_model_name="llama")
    fleet.add("arrivals_endpoint_picker", 3.0, model_name="llama")
    fleet.add("arrivals_endpoint_picker", 99.0, model_name="llama", target_model_name="other")
    found = load(look(fleet, make_variant("llama")))
    assert (found.arrival_rate_per_s, found.arrivals_from) == (9.0, "endpoint picker")


def test_a_picker_that_most_requests_bypass_does_not_count() -> None:
    fleet = Fleet().model(growth=1.0).pod(pod(0), completions=5.0)
    fleet.add("arrivals_endpoint_picker", 0.5, model_name="llama")
    found = load(look(fleet, make_variant("llama")))
    assert (found.arrival_rate_per_s, found.arrivals_from) == (6.0, "completions and queue growth")


def test_a_configured_query_comes_first_with_either_spelling_of_labels() -> None:
    prometheus = PrometheusSettings(url="http://p", label_names={"namespace": "exported_namespace"})
    settings = Settings(clusters=(ClusterSettings(name="prod", prometheus=prometheus),))
    fleet = Fleet().model().pod(pod(0), completions=5.0)
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


def test_a_configured_query_that_fails_is_not_quietly_replaced() -> None:
    fleet = Fleet().model().pod(pod(0))
    fleet.rows["arrivals_configured"] = []
    fleet.failed["arrivals_configured"] = "http://p: 400 (parse error)"
    observed = look(fleet, make_variant("llama"))
    assert "parse error" in no_load(observed, Absence.FAILED)
    assert observed.failures == ("prod: http://p: 400 (parse error)",)


def test_a_configured_query_without_the_model_leaves_it_to_the_next() -> None:
    fleet = Fleet().model().pod(pod(0), completions=5.0)
    fleet.rows["arrivals_configured"] = [({"namespace": "llm", "model_name": "other"}, 1.0)]
    assert load(look(fleet, make_variant("llama"))).arrival_rate_per_s == 5.0


def test_an_idle_model_has_zero_load_although_its_lengths_are_nan() -> None:
    fleet = Fleet().model(output="NaN", input_="NaN").pod(pod(0), completions=0.0, running=0, itl="NaN")
    observed = look(fleet, make_variant("llama"))
    found = load(observed)
    assert (found.arrival_rate_per_s, found.output_tokens, found.input_tokens) == (0.0, 0.0, 0.0)
    variant = seen(observed, "llama")
    assert (variant.performance.itl_s, variant.arrival_rate_per_s, variant.absence) == (None, 0.0, None)


@pytest.mark.parametrize(("growth", "running"), [(0.5, 4), (0.0, 4)])
def test_requests_that_never_finish_are_not_zero_load(growth: float, running: float) -> None:
    fleet = Fleet().model(output="NaN", growth=growth).pod(pod(0), completions=0.0, running=running)
    assert "finished" in no_load(look(fleet, make_variant("llama")), Absence.NAN)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1", "0"])
def test_an_invalid_length_while_requests_arrive_is_no_load(value: str) -> None:
    fleet = Fleet().model(output=value).pod(pod(0))
    no_load(look(fleet, make_variant("llama")), Absence.NAN)


def test_an_unknown_input_length_is_none() -> None:
    fleet = Fleet().model(input_="NaN").pod(pod(0))
    assert load(look(fleet, make_variant("llama"))).input_tokens is None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-0.5"])
def test_completions_that_are_no_rate_are_no_load(value: str) -> None:
    fleet = Fleet().model().pod(pod(0), completions=value).pod(pod(1), completions=2.0)
    no_load(look(fleet, make_variant("llama")), Absence.NAN)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1"])
def test_running_requests_that_are_no_count_hold_the_variant(value: str) -> None:
    observed = look(Fleet().model().pod(pod(0), running=value), make_variant("llama"))
    assert absence(seen(observed, "llama")) is Absence.NAN
    no_load(observed, Absence.NAN)


def test_silence_for_11_minutes_is_stale_with_its_age() -> None:
    fleet = Fleet().model().pod(pod(0), running=None, completions=None, age_s=690.0)
    observed = look(fleet, make_variant("llama"))
    assert no_load(observed, Absence.STALE) == "metrics stale: last sample 11 min ago, limit 5m"
    assert absence(seen(observed, "llama")) is Absence.STALE


@pytest.mark.parametrize(("age_s", "is_fresh"), [(300.0, True), (301.0, False)])
def test_the_limit_of_5_minutes_is_still_fresh(age_s: float, is_fresh: bool) -> None:
    observed = look(Fleet().model().pod(pod(0), age_s=age_s), make_variant("llama"))
    assert (absence(seen(observed, "llama")) is None) == is_fresh


def test_replicas_that_stopped_a_minute_ago_are_missing() -> None:
    fleet = Fleet().model().pod(pod(0), running=None, age_s=60.0)
    assert "stopped reporting 60 s ago" in no_load(look(fleet, make_variant("llama")), Absence.MISSING)


def test_no_series_at_all_is_missing_and_never_zero() -> None:
    reason = no_load(look(Fleet(), make_variant("llama")), Absence.MISSING)
    assert 'no series for model "llama" in namespace llm' in reason


@pytest.mark.parametrize("name", ["completions", "output_tokens", "queue_growth"])
def test_half_the_series_of_a_model_are_no_load(name: str) -> None:
    fleet = Fleet().model().pod(pod(0))
    fleet.rows[name] = []
    no_load(look(fleet, make_variant("llama")), Absence.MISSING)


@pytest.mark.parametrize("name", ["running", "last_seen", "completions", "output_tokens"])
def test_an_essential_query_that_failed_or_is_missing_holds_the_whole_cluster(name: str) -> None:
    fleet = Fleet().model().pod(pod(0))
    fleet.failed[name] = "http://p: 503"
    observed = look(fleet, make_variant("llama"), make_variant("other", model_id="other", replicas=0))
    assert {absence(one) for one in observed.observations.values()} == {Absence.FAILED}
    assert all(isinstance(one, NoAnswer) for one in observed.loads.values())
    assert observed.failures == ("prod: http://p: 503",)
    fleet.missing.add(name)
    assert "was not queried" in no_load(look(fleet, make_variant("llama")), Absence.FAILED)


def test_another_query_that_failed_is_reported_and_holds_nothing_else() -> None:
    fleet = Fleet().model().pod(pod(0))
    fleet.failed = {"itl": "http://p: 422", "pod_owner": "http://p: 503"}
    observed = look(fleet, make_variant("llama"))
    assert load(observed).arrival_rate_per_s == 1.0
    assert observed.failures == ("prod: http://p: 422 (and 1 more)",)


def test_queue_growth_that_failed_leaves_no_load_to_completions_alone() -> None:
    fleet = Fleet().model().pod(pod(0))
    fleet.failed["queue_growth"] = "http://p: 503"
    no_load(look(fleet, make_variant("llama")), Absence.FAILED)


def test_one_silent_variant_holds_the_whole_model() -> None:
    fleet = Fleet().model().pod(pod(0, "a"))
    observed = look(fleet, make_variant("a"), make_variant("b", replicas=2))
    assert no_load(observed, Absence.MISSING).startswith("b: no series")
    assert absence(seen(observed, "a")) is None
    assert absence(seen(observed, "b")) is Absence.MISSING


def test_a_variant_at_zero_replicas_may_be_silent() -> None:
    fleet = Fleet().model().pod(pod(0, "a"))
    observed = look(fleet, make_variant("a"), make_variant("b", replicas=0))
    assert load(observed).arrival_rate_per_s == 1.0
    assert absence(seen(observed, "b")) is None
    assert seen(observed, "b").replicas_reporting == 0
    assert seen(observed, "a").arrival_rate_per_s == 1.0
    assert seen(observed, "b").arrival_rate_per_s == 0.0


def test_a_model_at_zero_replicas_is_known_only_to_the_picker() -> None:
    fleet = Fleet()
    assert "no replica" in no_load(look(fleet, make_variant("llama", replicas=0)), Absence.MISSING)
    fleet.add("arrivals_endpoint_picker", 0.0, model_name="llama")
    assert load(look(fleet, make_variant("llama", replicas=0))).arrival_rate_per_s == 0.0


def test_a_model_at_zero_that_requests_arrive_for_has_the_lengths_of_models_like_it() -> None:
    fleet = Fleet().add("arrivals_endpoint_picker", 20.0, model_name="asleep")
    asleep = make_variant("asleep", model_id="asleep", replicas=0)
    alone = load(look(fleet, asleep))
    assert (alone.arrival_rate_per_s, alone.has_lengths, alone.lengths_from) == (20.0, False, "")

    others = []
    for name, outputs in (("a", 100.0), ("b", 300.0), ("c", 900.0)):
        fleet.model(name, output=outputs, input_=outputs / 2).pod(pod(0, name), model=name)
        others.append(make_variant(name, model_id=name))
    found = look(fleet, asleep, *others).loads[asleep.model]
    assert isinstance(found, Load)
    assert (found.output_tokens, found.input_tokens) == (300.0, 150.0)
    assert found.lengths_from == "the median of the models of cluster prod"

    batch = Sourced(value=ServiceClass(name="batch"), source=Source(kind=SourceKind.DEFAULT))
    alike = [replace(each, service_class=batch) for each in (asleep, others[2])]
    found = look(fleet, *alike, *others[:2]).loads[asleep.model]
    assert isinstance(found, Load)
    assert (found.output_tokens, found.lengths_from) == (900.0, "the median of service class batch")


def test_unattributed_pods_hold_every_variant_of_the_model_with_their_share() -> None:
    fleet = Fleet().model()
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


def test_replicas_that_report_another_name_hold_their_model() -> None:
    fleet = Fleet().model("llama-8b").pod(pod(0), model="llama-8b")
    reason = no_load(look(fleet, make_variant("llama")), Absence.MISSING)
    assert (
        reason
        == 'replicas of llama report model "llama-8b", which is not one of its served names: set models[].servedNames'
    )


def test_lengths_of_several_served_names_are_weighted_by_what_finished() -> None:
    fleet = Fleet().model("x", output=100.0).model("y", output=200.0)
    fleet.pod(pod(0, "a"), model="x", completions=3.0).pod(pod(0, "b"), model="y", completions=1.0)
    observed = look(fleet, make_variant("a", served=["x"]), make_variant("b", served=["y"]))
    assert load(observed).output_tokens == pytest.approx(125.0)
    assert load(observed).arrival_rate_per_s == 4.0
    assert seen(observed, "a").arrival_rate_per_s == 3.0


def test_where_routes_split_a_load_each_variant_has_its_share_of_the_whole() -> None:
    fleet = Fleet().model().pod(pod(0, "big"), completions=6.0).pod(pod(0, "small"), completions=4.0)
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


def test_a_silent_variant_hides_a_part_of_every_share() -> None:
    fleet = Fleet().model().pod(pod(0, "big"), completions=6.0)
    observed = look(fleet, *(make_variant(name, role=name, share=0.5) for name in ("big", "small")))
    assert all(isinstance(found, NoAnswer) and "small: " in found.reason for found in observed.loads.values())


def test_a_name_that_two_models_claim_is_no_load_of_either() -> None:
    fleet = Fleet().model("x").pod(pod(0, "a"), model="x").pod(pod(0, "b"), model="x")
    observed = look(fleet, make_variant("a", model_id="a", served=["x"]), make_variant("b", model_id="b", served=["x"]))
    assert {one.absence for one in observed.loads.values() if isinstance(one, NoAnswer)} == {Absence.UNATTRIBUTED}
    assert len(observed.loads) == 2


def test_clusters_are_read_apart() -> None:
    ours, theirs = Fleet().model().pod(pod(0)), Fleet("eu").model().pod(pod(0), completions=9.0)
    theirs.failed["running"] = "http://eu: 503"
    variants = [make_variant("llama"), make_variant("llama", cluster="eu")]
    observed = read_observed(variants, [*ours.answers, *theirs.answers], NOW_S, SETTINGS)
    first, second = (observed.loads[variant.model] for variant in variants)
    assert isinstance(first, Load)
    assert isinstance(second, NoAnswer)
    assert observed.failures == ("eu: http://eu: 503",)


def test_a_cluster_without_prometheus_is_missing_with_what_to_do() -> None:
    observed = read_observed([make_variant("llama", cluster="eu")], [], NOW_S, SETTINGS)
    assert "has no Prometheus: give --prometheus" in no_load(observed, Absence.MISSING)
    observed = read_observed([make_variant("llama")], [], NOW_S, SETTINGS)
    assert "was not queried" in no_load(observed, Absence.FAILED)


def test_warnings_of_prometheus_are_reported_once_with_their_cluster() -> None:
    fleet = Fleet().model().pod(pod(0))
    answers = [make_answer("itl", warnings=["partial"]), make_answer("ttft", warnings=["partial"]), *fleet.answers]
    answers = [one for one in answers if one.query.quantity not in ("itl", "ttft") or b"partial" in one.body.read()]
    observed = read_observed([make_variant("llama")], answers, NOW_S, SETTINGS)
    assert observed.warnings == ("prod: partial",)


def test_split_answers_are_put_together_and_a_part_that_failed_fails_the_whole() -> None:
    first, second = Fleet().model().pod(pod(0)), Fleet(namespace="b").model().pod(pod(0), completions=2.0)
    variants = [make_variant("llama"), make_variant("llama", namespace="b")]
    observed = read_observed(variants, [*first.answers, *second.answers], NOW_S, SETTINGS)
    rates = [one.arrival_rate_per_s for one in observed.loads.values() if isinstance(one, Load)]
    assert rates == [1.0, 2.0]
    second.failed["running"] = "down"
    observed = read_observed(variants, [*first.answers, *second.answers], NOW_S, SETTINGS)
    assert all(isinstance(one, NoAnswer) for one in observed.loads.values())


def test_one_pod_with_two_values_is_no_answer() -> None:
    fleet = Fleet().model().pod(pod(0))
    labels, value = fleet.rows["running"][0]
    fleet.rows["running"].append(({**labels, "extra": "1"}, value))
    assert "two values" in no_load(look(fleet, make_variant("llama")), Absence.FAILED)


def test_unknown_quantities_of_a_newer_recording_are_ignored() -> None:
    answers = [make_answer("from_the_future", body=b"?"), *Fleet().model().pod(pod(0)).answers]
    assert load(read_observed([make_variant("llama")], answers, NOW_S, SETTINGS)).arrival_rate_per_s == 1.0


def test_the_same_answers_in_another_order_mean_the_same() -> None:
    fleet = Fleet().model(growth=0.3)
    for index in range(9):
        fleet.pod(pod(index), completions=0.1 * index, itl=0.01 * index + 0.001)
    variants = [make_variant("llama", replicas=9)]
    turned = [replace(one, body=HeldBody(content=_turned(one.body.read()))) for one in reversed(fleet.answers)]
    assert read_observed(variants, fleet.answers, NOW_S, SETTINGS) == read_observed(variants, turned, NOW_S, SETTINGS)


values = st.sampled_from(["NaN", "+Inf", "-Inf", "-1", "0", "5", "1e308", "-1e308", "1e-320"])


@given(st.dictionaries(st.sampled_from(ASKED), values))
@hypothesis_settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_load_of_any_numbers_is_finite_or_has_a_reason(told: dict[str, str]) -> None:
    fleet = Fleet().model("x").model("y").add("arrivals_endpoint_picker", 9.0, model_name="x")
    fleet.pod(pod(0, "a"), model="x", itl=1, wait=1, ttft=1).pod(pod(0, "b"), model="y", itl=1, wait=1, ttft=1)
    for name, value in told.items():
        fleet.rows[name][:] = [(labels, value) for labels, _ in fleet.rows[name]]
    variants = [make_variant("a", served=["x"]), make_variant("b", served=["y"])]
    observed = read_observed(variants, fleet.answers, NOW_S, SETTINGS)
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


# -- how far prompts differ, read off the buckets of a histogram

WINDOW_S = 300.0
BOUNDS = [float(digit * 10**power) for power in range(6) for digit in (1, 2, 5)]
"""As vLLM has them."""


def buckets_of(lengths: list[float], per_s: float) -> dict[float, float]:
    each = per_s / len(lengths)
    return {bound: each * sum(length <= bound for length in lengths) for bound in (*BOUNDS, math.inf)}


@pytest.mark.parametrize("true", [0.05, 0.3, 1.0, 4.0])
def test_the_spread_of_many_requests_is_theirs(true: float) -> None:
    draw, variance = random.Random(1), math.log(1 + true)  # noqa: S311 - the same requests in every run
    lengths = [2000 * draw.lognormvariate(-variance / 2, math.sqrt(variance)) for _ in range(20_000)]
    assert spread_of(buckets_of(lengths, per_s=1e4), WINDOW_S) == pytest.approx(true, rel=0.15, abs=0.07)


def test_few_requests_say_little() -> None:
    """A measured spread near zero counts half when its requests weigh as much as the expectation."""
    even = buckets_of([150.0 + index / 100 for index in range(100)], per_s=WORTH / WINDOW_S)
    assert spread_of(even, WINDOW_S) == pytest.approx(USUAL_SPREAD / 2, rel=0.1)
    few = {bound: rate / 100 for bound, rate in even.items()}
    assert spread_of(few, WINDOW_S) == pytest.approx(USUAL_SPREAD, rel=0.02)


@pytest.mark.parametrize(
    "buckets",
    [
        {},
        {100.0: 1.0},
        {math.inf: 1.0},
        {100.0: 0.0, math.inf: 0.0},
        {100.0: 2.0, 200.0: 1.0, math.inf: 2.0},
        {100.0: 1.0, math.inf: math.inf},
        {1e200: 1.0, math.inf: 2.0},
        {math.nan: 1.0},
        {-5.0: 1.0},
    ],
)
def test_buckets_that_contradict_each_other_have_no_spread(buckets: dict[float, float]) -> None:
    assert spread_of(buckets, WINDOW_S) is None


def test_a_spread_has_an_upper_limit() -> None:
    lone = {1.0: 1e6 - 1, 1e6: 1e6, math.inf: 1e6}
    assert spread_of(lone, WINDOW_S) == pytest.approx(LARGEST_SPREAD, rel=0.01)


# -- what waits before an endpoint picker, whose series may name no namespace

SIZE, BYTES = "flow_control_queue_size", "flow_control_queue_bytes"


def queues(fleet: Any, *variants: Any) -> dict[str, UpstreamQueue]:
    """The queues by namespace, model and role of what a fleet answers."""
    observed = read_observed(variants, fleet.answers, NOW_S, SETTINGS)
    return {f"{key.namespace}/{key.model_id}{key.role}": queue for key, queue in observed.queues.items()}


def picked(fleet: Any, value: float | str, name: str = SIZE, namespace: str = "", **labels: str) -> Any:
    fleet.rows.setdefault(name, []).append(({**labels, **({"namespace": namespace} if namespace else {})}, value))
    return fleet


def test_a_queue_without_a_namespace_is_that_of_the_only_model_of_its_name() -> None:
    fleet = picked(Fleet(), 4.0, model_name="chat", target_model_name="llama")
    picked(fleet, 2.0, model_name="llama", target_model_name="")
    picked(fleet, 99.0, model_name="llama", target_model_name="other")
    picked(fleet, 6000.0, BYTES, model_name="llama")
    found = queues(fleet, make_variant("a"), make_variant("b", model_id="qwen"))
    assert found == {"llm/llama": UpstreamQueue(num_waiting=6.0, waiting_bytes=6000.0)}


def test_two_namespaces_with_one_model_name_have_no_queue_and_a_reason() -> None:
    variants = [make_variant("a"), make_variant("a", namespace="other")]
    found = queues(picked(Fleet(), 4.0, model_name="llama"), *variants)
    assert [found["llm/llama"].num_waiting, found["other/llama"].num_waiting] == [None, None]
    assert found["llm/llama"].reason == (
        "the endpoint picker's queue names no namespace: it may be that of llm/llama and other/llama, "
        "so it counts for none"
    )
    named = picked(Fleet(), 4.0, namespace="other", model_name="llama")
    assert queues(named, *variants) == {"other/llama": UpstreamQueue(num_waiting=4.0)}


def test_where_routes_split_a_load_each_variant_has_its_share_of_the_queue() -> None:
    fleet = picked(picked(Fleet(), 8.0, model_name="llama"), 4000.0, BYTES, model_name="llama")
    found = queues(fleet, make_variant("a", role="a", share=0.75), make_variant("b", role="b", share=0.25))
    assert found == {
        "llm/llamaa": UpstreamQueue(num_waiting=6.0, waiting_bytes=3000.0),
        "llm/llamab": UpstreamQueue(num_waiting=2.0, waiting_bytes=1000.0),
    }


def test_where_nothing_waits_it_waits_for_no_model() -> None:
    variants = [make_variant("a"), make_variant("a", namespace="other")]
    found = queues(picked(Fleet(), 0.0, model_name="llama"), *variants)
    assert set(found.values()) == {UpstreamQueue(num_waiting=0.0)}


def test_an_old_picker_names_no_model() -> None:
    fleet = picked(Fleet(), 4.0, namespace="llm")
    assert queues(fleet, make_variant("a")) == {"llm/llama": UpstreamQueue(num_waiting=4.0)}
    found = queues(fleet, make_variant("a"), make_variant("b", model_id="qwen"))
    assert "names no model" in found["llm/qwen"].reason
    assert found["llm/qwen"].num_waiting is None


def test_prefill_and_decode_wait_in_one_queue() -> None:
    roles = [make_variant("a", role="prefill"), make_variant("b", role="decode")]
    found = queues(picked(Fleet(), 4.0, model_name="llama"), *roles)
    assert found == dict.fromkeys(("llm/llamadecode", "llm/llamaprefill"), UpstreamQueue(num_waiting=4.0))


def test_a_picker_that_could_not_be_queried_is_not_an_empty_queue() -> None:
    fleet = picked(picked(Fleet(), 4.0, model_name="llama"), 9.0, BYTES, model_name="llama")
    fleet.failed[BYTES] = "http://p: 503"
    assert queues(fleet, make_variant("a")) == {"llm/llama": UpstreamQueue(num_waiting=4.0, reason="http://p: 503")}
    fleet.failed[SIZE] = "http://p: 422"
    assert queues(fleet, make_variant("a")) == {"llm/llama": UpstreamQueue(reason="http://p: 422")}


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1"])
def test_a_queue_that_is_no_count_is_unknown(value: str) -> None:
    fleet = picked(picked(Fleet(), value, model_name="llama"), 2.0, model_name="x", target_model_name="llama")
    (found,) = queues(fleet, make_variant("a")).values()
    assert found.num_waiting is None
    assert "the endpoint picker reports nan" in found.reason


def test_without_a_picker_there_is_no_queue() -> None:
    fleet = Fleet()
    fleet.rows[SIZE] = fleet.rows[BYTES] = []
    assert queues(fleet, make_variant("a")) == {}
    assert queues(picked(fleet, 4.0, namespace="gateway", model_name="llama"), make_variant("a")) == {}
