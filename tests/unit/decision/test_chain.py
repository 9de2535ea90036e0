"""What stands behind a decision: inputs with the quantities they were asked as, thresholds, values in between."""

from dataclasses import replace
from typing import Any

from reconciler.decision.decide import decide
from reconciler.decision.explanation import asked_queries
from reconciler.domain.answers import Absence
from reconciler.domain.identity import Figure
from reconciler.domain.inventory import DevicePool, Holder, Inventory, Measured
from reconciler.domain.snapshot import Form

LAB = Holder(namespace="lab", pods=1, devices=10)


def chain(fleet: Any, **fields: Any) -> tuple[Any, Any, tuple[Figure, ...]]:
    snapshot = replace(fleet.snapshot(), **fields)
    plan = decide(snapshot)
    (decision,) = plan.decisions
    return snapshot, decision, plan.figures[decision.variant]


def value_of(figures: tuple[Figure, ...], name: str) -> Any:
    return next(figure.value for figure in figures if figure.name == name)


def test_a_queue_rests_on_arrivals_and_lengths(fleet: Any) -> None:
    fleet.add()
    fleet.offer(25.0)
    _, _, figures = chain(fleet)
    assert (value_of(figures, "arrivals"), value_of(figures, "output tokens")) == (25.0, 100.0)
    assert figures[0].queries == ("arrivals_endpoint_picker",)


def test_what_is_missing_says_why(fleet: Any) -> None:
    fleet.add()
    fleet.lack(Absence.MISSING, "no series counts its requests")
    _, _, figures = chain(fleet)
    assert (figures[0].value, figures[0].reason) == (None, "no series counts its requests")


def test_saturation_rests_on_replicas_and_thresholds(fleet: Any) -> None:
    fleet.add(replicas=2, form=Form.TARGET, runs_on="A100")
    fleet.fill(".95/20, .95/20", total_kv_tokens=12500.0, input_tokens=100.0, output_tokens=100.0)
    _, _, figures = chain(fleet)
    assert value_of(figures, "KV cache usage") == 0.95
    assert value_of(figures, "scale_up") == 0.85
    assert value_of(figures, "capacity of a replica") == 10_000


def test_figures_of_other_variants_stand_in_their_own_chain(fleet: Any) -> None:
    for name in ("a", "b"):
        fleet.add(name, replicas=1, form=Form.TARGET, runs_on="A100")
        fleet.fill(".50/0", name, total_kv_tokens=12500.0)
    plan = decide(fleet.snapshot())
    first, _ = plan.decisions
    assert {figure.subject for figure in plan.figures[first.variant]} & {"llm/b", "b-0"} == set()


def test_the_queries_are_those_that_the_figures_name(fleet: Any) -> None:
    fleet.add()
    fleet.offer(25.0)
    asked = {"arrivals_endpoint_picker": "sum(a)", "output_tokens": "sum(b)", "kv_cache_usage": "sum(c)"}
    fleet.observed = replace(fleet.observed, queries={"us-east": asked})
    snapshot, decision, figures = chain(fleet)
    assert asked_queries(snapshot, decision, figures) == {
        "arrivals_endpoint_picker": ("sum(a)",),
        "output_tokens": ("sum(b)",),
    }


def test_the_pools_of_everything_that_it_may_run_on_are_shown(fleet: Any, make: Any) -> None:
    fleet.add(profiles=(make.profile("H100"), make.profile("A100")))
    fleet.offer(25.0)
    place = make.place("reconciler.yaml", 7)
    measured = Measured(devices=70, allocatable=70, reason="9 nodes", taken=10, holders=(LAB,))
    pools = [
        DevicePool(
            cluster="us-east", device="H100", names=("h",), configured=64, reserve=4, places=(place,), measured=measured
        ),
        DevicePool(cluster="us-east", device="A100", measured=Measured(reason="no series", taken_reason="down")),
        DevicePool(cluster="us-east", device="L4", measured=Measured(devices=1, taken=0, reason="1 node")),
    ]
    _, _, figures = chain(fleet, inventory=Inventory(pools={(each.cluster, each.device): each for each in pools}))
    shown = {(each.subject, each.name): (each.value, each.reason, str(each.source or "")) for each in figures}
    assert {key: row for key, row in shown.items() if key[0].startswith("us-east/")} == {
        ("us-east/h", "devices"): (64, "measured: 70, 9 nodes", "reconciler.yaml:7"),
        ("us-east/h", "reserve"): (4, "", "reconciler.yaml:7"),
        ("us-east/h", "held by others"): (10, "lab 10 in 1 pod; 6 of them beyond what is configured", ""),
        ("us-east/h", "ours to plan"): (56, "", ""),
        ("us-east/A100", "devices"): (None, "no series", ""),
        ("us-east/A100", "held by others"): (None, "down", ""),
        ("us-east/A100", "ours to plan"): ("unlimited", "", ""),
    }
    assert {query for each in figures for query in each.queries} >= {"nodes", "device_requests"}


def test_a_resource_that_cannot_be_read_has_no_chain(fleet: Any, make: Any) -> None:
    fleet.add()
    fleet.offer(25.0)
    figures = decide(fleet.snapshot()).figures
    assert (len(figures), make.key("gone") in figures) == (1, False)
