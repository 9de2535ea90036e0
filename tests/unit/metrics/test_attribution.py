"""Whose a series is, also where it names no model."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.answers import Absence, NoAnswer
from reconciler.domain.observed import Load, Observed
from reconciler.metrics.quantities import Name
from reconciler.metrics.queries import LabelNames
from reconciler.metrics.readings import MetricReadings, ObjectName, ReplicaSeries, attribution_of, read
from tests.unit.metrics.fleet import Fleet, look, make_variant

POD = "llama-h100-7c9d8f6b5-x2x4z"


def name_of(variants: Any, readings: MetricReadings | None = None, *, pod: str = POD, **labels: str) -> str:
    series = ReplicaSeries(labels.get("namespace", "llm"), pod, labels.get("model", "llama"), labels.get("variant", ""))
    found = attribution_of(variants, readings or MetricReadings()).variant_of(series)
    return found.name if found else ""


def test_the_label_on_the_series_comes_first() -> None:
    variants = [make_variant("llama-h100"), make_variant("other")]
    assert name_of(variants, variant="other") == "other"


def test_then_the_label_on_the_pod() -> None:
    variants = [make_variant("llama-h100"), make_variant("other")]
    readings = MetricReadings(owners={Name.POD_LABELS: {ObjectName("llm", POD): "other"}})
    assert name_of(variants, readings) == "other"
    assert name_of(variants, readings, variant="unknown") == "other"
    assert name_of(variants, readings, namespace="elsewhere") == ""


def test_then_the_deployment_that_owns_the_replica_set() -> None:
    variants = [make_variant("llama-h100"), make_variant("other", target="served-by")]
    readings = MetricReadings(
        owners={
            Name.POD_OWNER: {ObjectName("llm", POD): "rs-1"},
            Name.REPLICASET_OWNER: {ObjectName("llm", "rs-1"): "served-by"},
        }
    )
    assert name_of(variants, readings) == "other"


def test_then_the_name_of_the_pod() -> None:
    assert name_of([make_variant("a", target="llama-h100"), make_variant("b", target="llama")]) == "a"


@pytest.mark.parametrize(
    ("kind", "target", "pod", "matches"),
    [
        ("Deployment", "a", "a-7c9d8f6b5-x2x4z", True),
        ("Deployment", "a", "a-7c9d8f-x2x4z", True),
        ("Deployment", "a", "a-7c9d8-x2x4z", False),  # a hash has at least six characters here
        ("Deployment", "a", "a-7c9d8f6b5-aeiou", False),  # and no vowels
        ("Deployment", "a", "a-b-7c9d8f6b5-x2x4z", False),
        ("Deployment", "a", "a-0", False),
        ("StatefulSet", "a", "a-12", True),
        ("StatefulSet", "a", "a-7c9d8f6b5-x2x4z", False),
        ("LeaderWorkerSet", "a", "a-0", True),
        ("LeaderWorkerSet", "a", "a-0-1", True),
        ("LeaderWorkerSet", "a-0", "a-0-1", False),  # group 0, worker 1 of `a`, which is not there
    ],
)
def test_a_pod_name_is_read_by_the_kind_of_its_target(kind: str, target: str, pod: str, matches: bool) -> None:
    variants = [make_variant("v", target=target, kind=kind), make_variant("w", target="elsewhere")]
    assert name_of(variants, pod=pod) == ("v" if matches else "")


def test_the_longest_name_wins() -> None:
    variants = [
        make_variant("short", target="a", kind="LeaderWorkerSet"),
        make_variant("long", target="a-0", kind="StatefulSet"),
    ]
    assert name_of(variants, pod="a-0-1") == "long"


def test_the_model_decides_only_when_one_variant_serves_it() -> None:
    one, two = make_variant("one", served=["llama", "chat"]), make_variant("two")
    assert name_of([one], pod="anything") == "one"
    assert name_of([one, two], pod="anything") == ""
    assert name_of([one, two], pod="anything", model="chat") == "one"
    assert name_of([one], pod="anything", namespace="elsewhere") == ""


def test_a_target_that_two_variants_claim_decides_nothing() -> None:
    variants = [make_variant("a", target="llama-h100"), make_variant("b", target="llama-h100")]
    assert name_of(variants) == ""


def test_two_owners_of_one_pod_are_both_ignored() -> None:
    fleet = Fleet().add("pod_labels", 1.0, pod="p", label_llm_d_ai_variant="a")
    fleet.add("pod_labels", 1.0, pod="p", label_llm_d_ai_variant="b")
    readings = read(fleet.answers, LabelNames())
    assert readings.owner_of(Name.POD_LABELS, ObjectName("llm", "p")) == ""


# -- tGI and Triton name no model that anybody asks for: their series count for the variant whose pods they are of

UNNAMED = ""


def pod(name: str, index: int = 0) -> str:
    return f"{name}-7c9d8f6b5-{'bcdfghjklm'[index]}x4zz"


def load(observed: Observed, model_id: str = "llama") -> Load:
    found = next(load for key, load in observed.loads.items() if key.model_id == model_id)
    assert isinstance(found, Load), found
    return found


def test_series_without_a_model_count_for_the_variant_of_their_pod() -> None:
    fleet = Fleet().pod(pod("a"), model=UNNAMED, completions=2.0, output_tokens=100, queue_growth=0.5, itl=0.02)
    fleet.pod(pod("b"), model=UNNAMED, completions=3.0, output_tokens=300, queue_growth=0.0, itl=0.05)
    observed = look(fleet, make_variant("a", served=["chat", "x"]), make_variant("b", model_id="qwen"))
    assert (load(observed).arrival_rate_per_s, load(observed).output_tokens) == (2.5, 100.0)
    assert (load(observed, "qwen").arrival_rate_per_s, load(observed, "qwen").output_tokens) == (3.0, 300.0)
    seen = {key.name: each for key, each in observed.observations.items()}
    assert (seen["a"].performance.itl_s, seen["a"].performance.ttft_s, seen["a"].absence) == (0.02, None, None)
    assert (seen["a"].replicas_reporting, seen["b"].arrival_rate_per_s) == (1, 3.0)


@pytest.mark.parametrize(("made", "is_known"), [("Deployment", False), ("LeaderWorkerSet", True)])
def test_more_pods_than_git_asks_for_are_doubted_where_a_controller_makes_a_deployment(
    made: str, *, is_known: bool
) -> None:
    declared = make_variant("a", kind="InferenceService")
    assert declared.workload is not None
    becomes = replace(declared.workload.key, kind=made)
    variant = replace(declared, workload=replace(declared.workload, becomes=becomes))
    names = [pod("a", index) if made == "Deployment" else f"a-{index}" for index in range(4)]
    fleet = Fleet().model()
    for name in names:
        fleet.pod(name)
    absence = look(fleet, variant).observations[variant.key].absence
    assert (absence is None) == is_known, absence


def test_one_model_on_engines_that_name_it_and_do_not_is_one_load() -> None:
    fleet = Fleet().pod(pod("a"), completions=3.0, output_tokens=100, queue_growth=0)
    fleet.pod(pod("b"), model=UNNAMED, completions=1.0, output_tokens=200, queue_growth=0)
    observed = look(fleet, make_variant("a"), make_variant("b"))
    assert (load(observed).arrival_rate_per_s, load(observed).output_tokens) == (4.0, 125.0)


def test_a_series_with_and_one_without_a_model_label_count_once() -> None:
    fleet = Fleet().model().pod(pod("a"), completions=3.0).pod(pod("a"), model=UNNAMED, completions=99.0)
    assert load(look(fleet, make_variant("a"))).arrival_rate_per_s == 3.0


def test_unowned_pods_without_a_model_hold_variants_they_might_belong_to() -> None:
    fleet = Fleet().model().pod(pod("named"), model="llama")
    fleet.pod(pod("a"), model=UNNAMED, output_tokens=100, queue_growth=0).pod("stranger", model=UNNAMED)
    variants = [make_variant("named"), make_variant("a", model_id="qwen")]
    observed = look(fleet, *variants)
    assert load(observed).arrival_rate_per_s == 1.0
    held = observed.loads[variants[1].model]
    assert isinstance(held, NoAnswer)
    assert held.absence is Absence.UNATTRIBUTED
    assert held.reason == (
        "no variant in Git has the pods that report no model, as TGI and Triton do (1 seen): "
        "label them llm-d.ai/variant, or scrape kube-state-metrics"
    )
    assert observed.observations[variants[1].key].absence == held


def test_pods_known_to_be_of_another_deployment_hold_nothing() -> None:
    fleet = Fleet().pod(pod("a"), model=UNNAMED, output_tokens=100, queue_growth=0).pod("other", model=UNNAMED)
    fleet.add("pod_owner", 1, pod="other", owner_name="rs").add("replicaset_owner", 1, replicaset="rs", owner_name="x")
    observed = look(fleet, make_variant("a"))
    assert load(observed).arrival_rate_per_s == 1.0
    assert [each.absence for each in observed.observations.values()] == [None]


def test_the_reason_of_a_silent_variant_names_pods_that_may_be_its_own() -> None:
    observed = look(Fleet().pod("tgi", model=UNNAMED), make_variant("a"))
    (found,) = observed.loads.values()
    assert isinstance(found, NoAnswer)
    assert found.absence is Absence.MISSING
    assert found.reason.startswith('no series for model "llama" in namespace llm: no variant in Git has the pods')


def test_an_engine_that_counts_no_tokens_has_no_load_instead_of_zero_tokens() -> None:
    fleet = Fleet().pod(pod("a"), model=UNNAMED, completions=2.0, queue_growth=0.0)
    (found,) = look(fleet, make_variant("a")).loads.values()
    assert isinstance(found, NoAnswer)
    assert (found.absence, "no series reports output tokens" in found.reason) == (Absence.MISSING, True)


def test_lengths_are_weighted_by_what_each_replica_finished_and_idle_ones_left_out() -> None:
    fleet = Fleet().pod(pod("a"), completions=3.0, output_tokens=100, input_tokens=10, queue_growth=0)
    fleet.pod(pod("a", 1), completions=1.0, output_tokens=200, input_tokens=50, queue_growth=0)
    fleet.pod(pod("a", 2), completions=0.0, output_tokens="NaN", input_tokens="NaN", queue_growth=0)
    found = load(look(fleet, make_variant("a", replicas=3)))
    assert (found.output_tokens, found.input_tokens) == (125.0, 20.0)


def test_growth_of_replicas_is_added_before_its_sign_matters() -> None:
    fleet = Fleet().pod(pod("a"), completions=1.0, output_tokens=1, queue_growth=2.0)
    fleet.pod(pod("a", 1), completions=1.0, output_tokens=1, queue_growth=-0.5)
    assert load(look(fleet, make_variant("a", replicas=2))).arrival_rate_per_s == 3.5


def test_an_older_recording_with_lengths_by_model_reads_as_before() -> None:
    fleet = Fleet().of_older_recording("x", output=100.0, input_=10.0, growth=1.0)
    fleet.of_older_recording("y", output=200.0, input_=50.0)
    fleet.pod(pod("a"), model="x", completions=3.0).pod(pod("a", 1), model="y", completions=1.0)
    found = load(look(fleet, make_variant("a", served=["x", "y"], replicas=2)))
    assert (found.output_tokens, found.input_tokens, found.arrival_rate_per_s) == (125.0, 20.0, 5.0)
