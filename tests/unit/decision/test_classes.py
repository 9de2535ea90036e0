"""Which service class a variant has."""

from typing import Any

import pytest

from reconciler.domain.plan import Outcome
from reconciler.domain.profiles import SloTarget
from reconciler.resources.variants import ListedClass, SloClassRef

UPSTREAM = "service-classes-config"


@pytest.fixture
def lists(fleet: Any, make: Any) -> Any:
    """Lists a class for the model in a ConfigMap."""

    def listed(name: str, config_map: str = UPSTREAM, **fields: Any) -> None:
        place = make.place(f"classes/{len(fleet.listed_classes)}.yaml", 5)
        values: dict[str, Any] = {
            "namespace": "llm-d-system",
            "key": f"{name.lower()}.yaml",
            "model_id": "meta/llama-8b",
        }
        itl_s = fields.pop("itl_s", 0.03)
        service_class = make.service_class(name, itl_s=itl_s, place=place)
        fleet.listed_classes.append(
            ListedClass(config_map=config_map, service_class=service_class, **(values | fields))
        )

    return listed


def test_the_referenced_key_of_the_resources_namespace_comes_first(fleet: Any, lists: Any) -> None:
    lists("gold", config_map="slos", namespace="llm", key="llama")
    lists("silver", config_map="slos", namespace="other", key="llama")
    lists("bronze")
    fleet.add(slo_class_ref=SloClassRef(name="slos", key="llama"))
    found = fleet.variant().service_class
    assert found.value.name == "gold"
    assert [(lower.value.name, lower.source.kind) for lower in found.displaced] == [
        ("standard", "defaults"),
        ("bronze", "configmap"),
    ]


def test_else_the_class_of_that_name_that_lists_the_model(fleet: Any, lists: Any) -> None:
    lists("Premium")
    lists("Freemium")
    fleet.add(slo_class_ref=SloClassRef(name="premium", key="opt-125m"))
    assert fleet.variant().service_class.value.name == "Premium"


def test_a_configured_class_beats_a_listed_one_of_the_same_name(fleet: Any, make: Any, lists: Any) -> None:
    lists("premium")
    fleet.set(service_classes=(make.service_class("premium", itl_s=0.011),))
    fleet.default(serviceClass="premium")
    fleet.add()
    assert fleet.variant().service_class.value.itl.limit_s == 0.011


@pytest.fixture
def unset(fleet: Any) -> Any:
    """Nothing configures a class."""
    fleet.set(defaults={}, service_classes=())
    return fleet


def test_else_the_only_class_that_lists_the_model(unset: Any, lists: Any) -> None:
    lists("Premium")
    lists("Freemium", model_id="another")
    unset.add(slo_class_ref=SloClassRef(name="nowhere", key="x"))
    found = unset.variant().service_class
    assert (found.value.name, found.source.kind) == ("Premium", "configmap")


def test_two_classes_that_list_the_model_are_ambiguous(unset: Any, lists: Any) -> None:
    lists("Premium")
    lists("Freemium")
    unset.add()
    unset.offer(25.0)
    decision = unset.decision()
    assert decision.outcome is Outcome.HELD
    assert decision.hold.words == (
        "missing class: service-classes-config lists the model in Freemium, Premium; name one with sloClassRef"
    )


def test_two_copies_of_one_class_are_not_ambiguous(unset: Any, lists: Any) -> None:
    lists("Premium", namespace="a")
    lists("Premium", namespace="b")
    unset.add()
    assert unset.variant().service_class.value.name == "Premium"


def test_a_reference_to_nothing_is_a_missing_class(unset: Any) -> None:
    unset.add(slo_class_ref=SloClassRef(name="slos", key="llama"))
    unset.offer(25.0)
    decision = unset.decision()
    assert decision.outcome is Outcome.HELD
    assert decision.hold.words == (
        "missing class: sloClassRef names ConfigMap slos, key llama, which is not in Git, "
        "and no class lists meta/llama-8b"
    )


@pytest.mark.parametrize(("name", "key"), [("slos", "gold.yaml"), (UPSTREAM, "gold.yaml")])
def test_a_key_of_the_controllers_namespace_is_found(unset: Any, lists: Any, name: str, key: str) -> None:
    lists("silver")
    lists("gold", config_map=name)
    lists("bronze", config_map=name, namespace="somebody-elses")
    unset.add(slo_class_ref=SloClassRef(name=name, key=key))
    assert unset.variant().service_class.value.name == "gold"


def test_the_resources_own_namespace_goes_before_the_controllers(unset: Any, lists: Any) -> None:
    lists("silver")
    lists("gold", config_map="slos", key="k")
    lists("bronze", config_map="slos", key="k", namespace="llm")
    unset.add(slo_class_ref=SloClassRef(name="slos", key="k"))
    assert unset.variant().service_class.value.name == "bronze"


def test_a_namespace_that_is_nobodys_is_not_searched(unset: Any, lists: Any) -> None:
    lists("bronze", config_map="slos", key="k", namespace="somebody-elses")
    unset.add(slo_class_ref=SloClassRef(name="slos", key="k"))
    unset.offer(25.0)
    assert "which is not in Git" in unset.decision().hold.words


@pytest.mark.parametrize("model_id", ["another", ""])
def test_a_class_without_the_model_says_so(unset: Any, lists: Any, model_id: str) -> None:
    lists("gold", key="gold.yaml", model_id=model_id)
    unset.add(slo_class_ref=SloClassRef(name=UPSTREAM, key="gold.yaml"))
    unset.offer(25.0)
    assert unset.decision().hold.words == (
        "missing class: sloClassRef names ConfigMap service-classes-config, key gold.yaml (classes/0.yaml:5), "
        "which does not list meta/llama-8b, and no class does"
    )


def test_queueing_without_any_class_is_held(unset: Any) -> None:
    unset.add()
    unset.default(engine="queueing")
    unset.offer(25.0)
    assert unset.decision().hold.words == "queueing needs a service class"


def test_an_undefined_class_is_not_replaced_by_a_lower_layer(fleet: Any, lists: Any) -> None:
    lists("Premium")
    fleet.add(annotations={"serviceClass": "premum"})
    fleet.offer(25.0)
    decision = fleet.decision()
    assert decision.outcome is Outcome.HELD
    assert decision.hold.words == (
        'service class "premum" (annotation, apps/llm/llama.yaml:9) is not defined: add it under serviceClasses'
    )


def test_an_undefined_class_below_a_defined_one_does_not_matter(fleet: Any) -> None:
    fleet.default(serviceClass="premum")
    fleet.add(annotations={"serviceClass": "standard"})
    assert fleet.variant().service_class.value.name == "standard"


def test_a_percentile_of_itl_is_kept_and_shown(fleet: Any, make: Any) -> None:
    """Nineteen tokens of twenty may come from batches of nine at most, where the mean may come from more."""
    profile = make.profile("H100", batch=20, alpha_s=0.01, beta_s=0.001)
    targets = {"mean": SloTarget(limit_s=0.019), "p95": SloTarget(limit_s=0.019, percentile=95)}
    replicas: dict[str, int] = {}
    for statistic, target in targets.items():
        fleet.set(service_classes=(make.service_class(itl=target),))
        fleet.resources.clear()
        fleet.workloads.clear()
        fleet.add(profiles=(profile,))
        fleet.offer(25.0)
        decision = fleet.decision()
        assert [slo.statistic for slo in decision.slos] == [statistic]
        assert decision.slos[0].is_met_after
        replicas[statistic] = decision.desired.replicas
    assert replicas["p95"] > replicas["mean"]
