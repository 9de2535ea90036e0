"""Whose replica a series is."""

from typing import Any

import pytest

from reconciler.metrics.quantities import Name
from reconciler.metrics.queries import LabelNames
from reconciler.metrics.readings import MetricReadings, ObjectName, ReplicaSeries, attribution_of, read

POD = "llama-h100-7c9d8f6b5-x2x4z"


def name_of(variants: Any, readings: MetricReadings | None = None, *, pod: str = POD, **labels: str) -> str:
    series = ReplicaSeries(labels.get("namespace", "llm"), pod, labels.get("model", "llama"), labels.get("variant", ""))
    found = attribution_of(variants, readings or MetricReadings()).variant_of(series)
    return found.name if found else ""


def test_the_label_on_the_series_comes_first(make_variant: Any) -> None:
    variants = [make_variant("llama-h100"), make_variant("other")]
    assert name_of(variants, variant="other") == "other"


def test_then_the_label_on_the_pod(make_variant: Any) -> None:
    variants = [make_variant("llama-h100"), make_variant("other")]
    readings = MetricReadings(owners={Name.POD_LABELS: {ObjectName("llm", POD): "other"}})
    assert name_of(variants, readings) == "other"
    assert name_of(variants, readings, variant="unknown") == "other"
    assert name_of(variants, readings, namespace="elsewhere") == ""


def test_then_the_deployment_that_owns_the_replica_set(make_variant: Any) -> None:
    variants = [make_variant("llama-h100"), make_variant("other", target="served-by")]
    readings = MetricReadings(
        owners={
            Name.POD_OWNER: {ObjectName("llm", POD): "rs-1"},
            Name.REPLICASET_OWNER: {ObjectName("llm", "rs-1"): "served-by"},
        }
    )
    assert name_of(variants, readings) == "other"


def test_then_the_name_of_the_pod(make_variant: Any) -> None:
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
def test_a_pod_name_is_read_by_the_kind_of_its_target(
    make_variant: Any, kind: str, target: str, pod: str, matches: bool
) -> None:
    variants = [make_variant("v", target=target, kind=kind), make_variant("w", target="elsewhere")]
    assert name_of(variants, pod=pod) == ("v" if matches else "")


def test_the_longest_name_wins(make_variant: Any) -> None:
    variants = [
        make_variant("short", target="a", kind="LeaderWorkerSet"),
        make_variant("long", target="a-0", kind="StatefulSet"),
    ]
    assert name_of(variants, pod="a-0-1") == "long"


def test_the_model_decides_only_when_one_variant_serves_it(make_variant: Any) -> None:
    one, two = make_variant("one", served=["llama", "chat"]), make_variant("two")
    assert name_of([one], pod="anything") == "one"
    assert name_of([one, two], pod="anything") == ""
    assert name_of([one, two], pod="anything", model="chat") == "one"
    assert name_of([one], pod="anything", namespace="elsewhere") == ""


def test_a_target_that_two_variants_claim_decides_nothing(make_variant: Any) -> None:
    variants = [make_variant("a", target="llama-h100"), make_variant("b", target="llama-h100")]
    assert name_of(variants) == ""


def test_two_owners_of_one_pod_are_both_disbelieved(make_fleet: Any) -> None:
    fleet = make_fleet().add("pod_labels", 1.0, pod="p", label_llm_d_ai_variant="a")
    fleet.add("pod_labels", 1.0, pod="p", label_llm_d_ai_variant="b")
    readings = read(fleet.answers, LabelNames())
    assert readings.owner_of(Name.POD_LABELS, ObjectName("llm", "p")) == ""
