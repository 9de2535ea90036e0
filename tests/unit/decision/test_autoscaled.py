"""Scale targets whose replicas another autoscaler moves: held, or its bounds are what is proposed."""

from typing import Any

import pytest

from reconciler.domain.plan import Outcome
from reconciler.domain.snapshot import Form
from reconciler.domain.variant_settings import WHEN_AUTOSCALED
from reconciler.domain.workloads import ReplicaOwner
from reconciler.domain.written import DocumentRef, WrittenField


def own(fleet: Any, make: Any, least: int, most: int | None, owner: str = "HorizontalPodAutoscaler phi") -> None:
    document, place = DocumentRef(path="hpa.yaml", document=0), make.place("hpa.yaml", 9)
    fields = tuple(
        WrittenField(
            document=document,
            field=("spec", name),
            place=place,
            is_ceiling=name == "maxReplicas",
            written=value,
            value=value,
        )
        for name, value in (("minReplicas", least), ("maxReplicas", most))
    )
    fleet.owners.append(
        ReplicaOwner(
            cluster="us-east",
            namespace="llm",
            owner=owner,
            target_kind="Deployment",
            target_name="llama",
            place=place,
            least=least,
            makes_autoscaler=owner.startswith("ScaledObject "),
            fields=fields,
        )
    )


def test_another_owner_holds_unless_somebody_says_otherwise(fleet: Any, make: Any) -> None:
    fleet.add(replicas=3)
    own(fleet, make, 2, 6)
    fleet.offer(25.0)
    assert fleet.decision().hold.words == "replicas are owned by HorizontalPodAutoscaler phi (hpa.yaml:9)"


def test_with_bounds_the_lower_one_carries_the_load(fleet: Any, make: Any) -> None:
    fleet.add(replicas=3)
    fleet.default(whenAutoscaled="bounds")
    own(fleet, make, 1, 6)
    fleet.offer(25.0)
    decision = fleet.decision()
    assert (decision.outcome, decision.current.replicas, decision.desired.replicas) == (Outcome.CHANGE, 1, 3)
    assert [each.field[-1] for each in fleet.variant().workload.written_at] == ["minReplicas", "maxReplicas"]
    assert decision.bounds_of == "HorizontalPodAutoscaler phi"


@pytest.mark.parametrize(("most", "places"), [(2, 2), (3, 1)])
def test_only_the_places_that_get_the_number_are_told(fleet: Any, make: Any, most: int, places: int) -> None:
    fleet.add(replicas=3)
    fleet.default(whenAutoscaled="bounds")
    own(fleet, make, 1, most)
    fleet.offer(25.0)
    assert len(fleet.decision().written_at) == places


def test_a_target_without_replicas_of_its_own_is_what_its_bounds_say(fleet: Any, make: Any) -> None:
    fleet.add(replicas=None)
    fleet.default(whenAutoscaled="bounds")
    own(fleet, make, 4, 6)
    fleet.offer(25.0)
    assert fleet.desired() == {"llama": "3 x H100"}


def test_an_owner_without_bounds_holds_whatever_is_said(fleet: Any, make: Any) -> None:
    fleet.add(replicas=3)
    fleet.default(whenAutoscaled="bounds")
    fleet.owners.append(
        ReplicaOwner(
            cluster="us-east",
            namespace="llm",
            owner="kustomization",
            target_kind="Deployment",
            target_name="llama",
            place=make.place("kustomization.yaml", 3),
        )
    )
    fleet.offer(25.0)
    assert fleet.decision().hold.words == "replicas are owned by kustomization (kustomization.yaml:3)"


@pytest.mark.parametrize("first", ["HorizontalPodAutoscaler phi", "ScaledObject phi"])
def test_of_two_autoscalers_the_scaled_object_counts(fleet: Any, make: Any, first: str) -> None:
    fleet.add(replicas=3)
    others = {"HorizontalPodAutoscaler phi", "ScaledObject phi"} - {first}
    for name in (first, *others):
        own(fleet, make, 2, 6, name)
    fleet.offer(25.0)
    assert "ScaledObject phi" in fleet.decision().hold.words


def test_an_annotated_autoscaler_is_asked_for_its_bounds(fleet: Any, make: Any) -> None:
    fleet.add(form=Form.ANNOTATED, replicas=None)
    own(fleet, make, 1, 6)
    fleet.offer(25.0)
    assert fleet.desired() == {"llama": "3 x H100"}
    assert fleet.variant().settings[WHEN_AUTOSCALED].value == "bounds"
