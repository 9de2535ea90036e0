"""What holds a variant: each reason is told, and nothing changes."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.answers import Absence
from reconciler.domain.holds import BrokenResource, Hold, HoldKind
from reconciler.domain.observed import Observation, Performance
from reconciler.domain.plan import Outcome, VerdictKind
from reconciler.domain.snapshot import Form
from reconciler.domain.workloads import ReplicaOwner
from reconciler.resources.variants import IgnoredNamespace

PRODUCT = "nvidia.com/gpu.product"


def assert_held(fleet: Any, kind: HoldKind, reason: str, name: str = "llama") -> None:
    """Held as it stands, with the kind, and the reason in decision, verdict and steps; no change in its group."""
    decision = fleet.decision(name)
    assert decision.outcome is Outcome.HELD
    assert (decision.hold.kind, decision.hold.words) == (kind, reason)
    assert decision.verdict.kind is VerdictKind.HOLD
    assert decision.desired == decision.current
    assert decision.cost_after_per_hour == decision.cost_before_per_hour
    assert [step.reason for step in decision.steps if step.stage == "hold"] == [reason]
    assert not fleet.plan().groups[0].changes


@pytest.mark.parametrize("absence", list(Absence))
def test_a_load_that_is_not_known_is_not_zero(fleet: Any, absence: Absence) -> None:
    fleet.add(replicas=3)
    fleet.lack(absence, f"metrics {absence}: look here")
    assert_held(fleet, HoldKind(f"metrics-{absence.lower()}"), f"metrics {absence}: look here")
    assert not fleet.decision().metrics_available


@pytest.mark.parametrize("absence", list(Absence))
def test_a_variant_that_does_not_report_is_held(fleet: Any, make: Any, absence: Absence) -> None:
    key = fleet.add(replicas=9)
    fleet.offer(25.0)
    fleet.observations[key] = Observation(performance=Performance(), absence=make.no_answer(absence, "say so"))
    assert_held(fleet, HoldKind(f"metrics-{absence.lower()}"), "say so")


def test_a_model_that_was_not_asked_about_is_held(fleet: Any) -> None:
    fleet.add(replicas=9)
    assert_held(fleet, HoldKind.METRICS_MISSING, "no metrics were asked for")


def test_an_slo_that_no_accelerator_attains_holds(fleet: Any, make: Any) -> None:
    fleet.set(service_classes=(make.service_class(itl_s=0.005),))
    fleet.add(replicas=9)
    fleet.offer(25.0)
    assert_held(
        fleet,
        HoldKind.SLO_UNATTAINABLE,
        "SLO unattainable: H100: even a lone request takes ITL 10 ms, the target is 5 ms",
    )


def test_an_unknown_accelerator_holds(fleet: Any, make: Any) -> None:
    fleet.add(runs_on="", profiles=(make.profile("H100"), make.profile("L4")), replicas=9)
    fleet.default(engine="queueing")
    fleet.offer(25.0)
    assert_held(
        fleet,
        HoldKind.ACCELERATOR_UNKNOWN,
        "accelerator unknown: no node selector, affinity or label inference.optimization/acceleratorName "
        "says what it runs on",
    )


def test_a_scale_target_that_is_not_in_git_holds(fleet: Any) -> None:
    fleet.add(has_workload=False)
    fleet.offer(25.0)
    assert_held(fleet, HoldKind.SCALE_TARGET_MISSING, "scale target Deployment llm/llama is not in Git")


def test_a_scale_target_that_cannot_be_read_tells_why(fleet: Any, make: Any) -> None:
    fleet.add(has_workload=False)
    fleet.broken.append(
        BrokenResource(
            key=make.key("llama", "Deployment"), place=make.place("a.yaml", 4), reason="declared again at b.yaml:4"
        )
    )
    fleet.offer(25.0)
    (variant,) = fleet.variants()
    words, place = "declared again at b.yaml:4 (a.yaml:4)", make.place("a.yaml", 4)
    assert variant.hold == Hold(kind=HoldKind.SCALE_TARGET_UNREADABLE, words=words, place=place)


def test_a_scale_target_without_replicas_holds(fleet: Any) -> None:
    fleet.add(replicas=None)
    fleet.offer(25.0)
    assert_held(
        fleet,
        HoldKind.REPLICAS_UNWRITTEN,
        "Deployment llm/llama has no spec.replicas (apps/llm/llama.yaml:20): "
        "write the live count there, and use no autoscaler with it",
    )


def test_a_templated_scale_target_holds(fleet: Any) -> None:
    fleet.add(workload={"templated": "spec.replicas"})
    fleet.offer(25.0)
    assert_held(fleet, HoldKind.NOT_WRITABLE, "spec.replicas is filled in by a template (apps/llm/llama.yaml:20)")


@pytest.mark.parametrize(
    ("owner", "namespace"),
    [("HorizontalPodAutoscaler llama", "llm"), ("ScaledObject llama", "llm"), ("kustomization", "")],
)
def test_another_owner_of_the_replicas_holds(fleet: Any, make: Any, owner: str, namespace: str) -> None:
    fleet.owners.append(
        ReplicaOwner(
            cluster="us-east",
            namespace=namespace,
            owner=owner,
            target_kind="Deployment",
            target_name="llama",
            place=make.place("apps/hpa.yaml", 9),
        )
    )
    fleet.add()
    fleet.offer(25.0)
    assert_held(fleet, HoldKind.OWNED_BY_ANOTHER, f"replicas are owned by {owner} (apps/hpa.yaml:9)")


def test_an_owner_in_another_namespace_or_of_another_target_holds_nothing(fleet: Any, make: Any) -> None:
    for namespace, target in (("other", "llama"), ("llm", "qwen")):
        fleet.owners.append(
            ReplicaOwner(
                cluster="us-east",
                namespace=namespace,
                owner="HorizontalPodAutoscaler",
                target_kind="Deployment",
                target_name=target,
                place=make.place("apps/hpa.yaml", 9),
            )
        )
    fleet.add()
    fleet.offer(25.0)
    assert fleet.desired() == {"llama": "3 x H100"}


def test_two_resources_that_claim_one_target_hold_each_other(fleet: Any) -> None:
    fleet.add("llama", replicas=9)
    fleet.add("twin", target_name="llama", has_workload=False)
    fleet.offer(25.0)
    reason = "2 resources claim Deployment llm/llama: one number needs one writer"
    assert_held(fleet, HoldKind.REPLICAS_CONTESTED, reason, "llama")
    assert_held(fleet, HoldKind.REPLICAS_CONTESTED, reason, "twin")


def test_a_file_that_two_clusters_reach_holds(fleet: Any) -> None:
    fleet.shared_paths = frozenset({"apps/llm/llama.yaml"})
    fleet.add()
    fleet.offer(25.0)
    assert_held(fleet, HoldKind.NOT_WRITABLE, "apps/llm/llama.yaml is used by two clusters: a change would reach both")


@pytest.mark.parametrize("where", ["annotations", "target_annotations"])
def test_ignore_holds(fleet: Any, where: str) -> None:
    fleet.add(replicas=9, **{where: {"ignore": True}})
    fleet.offer(25.0)
    assert_held(fleet, HoldKind.IGNORED, "ignored: annotation, apps/llm/llama.yaml:9")


def test_an_ignored_namespace_holds_all_in_it(fleet: Any, make: Any) -> None:
    fleet.ignored_namespaces.append(
        IgnoredNamespace(cluster="us-east", name="llm", place=make.place("namespaces.yaml", 2))
    )
    fleet.add(replicas=9)
    fleet.add("elsewhere", namespace="other", replicas=9)
    fleet.offer(25.0)
    fleet.offer(25.0, namespace="other")
    assert fleet.desired() == {"llama": "[9 x H100]", "elsewhere": "3 x H100"}
    (llama,) = (each for each in fleet.plan().decisions if each.variant.name == "llama")
    assert llama.hold.words == "ignored: its namespace is annotated reconciler.io/ignore (namespaces.yaml:2)"


def test_bounds_that_contradict_each_other_hold(fleet: Any) -> None:
    fleet.add(max_replicas=2, annotations={"minReplicas": 5})
    fleet.offer(25.0)
    decision = fleet.decision()
    assert decision.outcome is Outcome.HELD
    assert decision.hold.kind is HoldKind.SETTINGS_CONFLICT
    assert decision.hold.words.startswith("minReplicas 5 (annotation, apps/llm/llama.yaml:9) is above maxReplicas 2")


def test_a_profile_with_prefill_and_prompts_of_unknown_length_holds(fleet: Any, make: Any) -> None:
    key = fleet.add(replicas=9, profiles=(make.profile("H100", gamma_s=0.015, delta_s=1e-6),))
    fleet.loads[fleet.variant().model] = make.load(25.0, input_tokens=None)
    words = "no series has the input tokens of its requests, which a profile with prefill needs"
    assert_held(fleet, HoldKind.PROMPTS_UNKNOWN, words, key.name)


def test_queueing_without_a_profile_holds(fleet: Any) -> None:
    fleet.add(replicas=9, form=Form.TARGET, annotations={"sizing.engine": "queueing"})
    fleet.resources[0] = replace(fleet.resources[0], profiles=())
    fleet.offer(25.0)
    assert_held(
        fleet,
        HoldKind.PROFILE_MISSING,
        "queueing needs a profile: give one under models[].profiles, or learn it by fit",
    )


def test_an_unsupported_resource_tells_why(fleet: Any) -> None:
    words = "scales a StatefulSet: not available yet"
    fleet.add(unsupported=Hold(kind=HoldKind.RESOURCE_UNSUPPORTED, words=words))
    fleet.offer(25.0)
    assert_held(fleet, HoldKind.RESOURCE_UNSUPPORTED, words)


def test_a_resource_that_cannot_be_read_is_shown_and_held(fleet: Any, make: Any) -> None:
    fleet.broken.append(
        BrokenResource(
            key=make.key("broken"), place=make.place("broken.yaml", 12), reason="spec.variantCost: expected a number"
        )
    )
    decision = fleet.decision("broken")
    assert (decision.outcome, decision.group) == (Outcome.HELD, "us-east/llm")
    assert (decision.hold.words, decision.place) == ("spec.variantCost: expected a number", "broken.yaml:12")
    assert (decision.hold.kind, str(decision.hold.place)) == (HoldKind.RESOURCE_UNREADABLE, "broken.yaml:12")


def test_each_of_two_declarations_of_one_resource_tells_the_other(fleet: Any, make: Any) -> None:
    for here, there in (("a.yaml", "b.yaml"), ("b.yaml", "a.yaml")):
        reason = f"declared again at {there}:1"
        fleet.broken.append(BrokenResource(key=make.key("twice"), place=make.place(here), reason=reason))
    told = [(each.place, each.hold.words, each.verdict.reason) for each in fleet.plan().decisions]
    assert told == [(f"{here}.yaml:1", *[f"declared again at {there}.yaml:1"] * 2) for here, there in ("ab", "ba")]


def test_a_resource_that_cannot_be_read_takes_no_total_away(fleet: Any, make: Any) -> None:
    fleet.add()
    fleet.offer(25.0)
    fleet.broken.append(BrokenResource(key=make.key("broken"), place=make.place("b.yaml"), reason="broken"))
    plan = fleet.plan()
    assert plan.totals.cost_after_per_hour == 18.0
    assert "cost of 1 of 2 variants unknown" in plan.assumptions


def test_replicas_that_nobody_counts_cost_an_unknown_amount(fleet: Any) -> None:
    fleet.add(replicas=None)
    fleet.add("counted", model_id="qwen")
    fleet.offer(25.0)
    fleet.offer(25.0, "qwen")
    assert fleet.decision().cost_before_per_hour is None
    assert fleet.plan().totals.cost_before_per_hour == 18.0
