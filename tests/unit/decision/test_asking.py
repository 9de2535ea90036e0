"""What more is asked of Prometheus than loads, and about whom."""

from dataclasses import replace
from typing import Any

from reconciler.decision.asking import ask_by_cluster
from reconciler.domain.declarations import Declaration, Form
from reconciler.domain.identity import Place
from reconciler.domain.saturation_settings import ZeroEntry


def needs(fleet: Any, **fields: Any) -> Any:
    declaration: Declaration = replace(fleet.declaration(), **fields)
    return ask_by_cluster(fleet.settings, declaration)["us-east"]


def test_given_profiles_ask_for_loads_alone(fleet: Any) -> None:
    fleet.add(replicas=4)
    assert (needs(fleet).saturation, needs(fleet).traced) == ({}, {})


def test_variants_that_saturation_sizes_are_asked_how_full_they_are(fleet: Any) -> None:
    fleet.add("a", replicas=4, form=Form.TARGET, runs_on="A100")
    fleet.add("b", replicas=2, namespace="other")
    assert (needs(fleet).saturation, needs(fleet).traced) == ({"llm": 4}, {})


def test_learned_profiles_are_asked_for_both(fleet: Any, make: Any) -> None:
    fleet.add(replicas=4, profiles=(make.learned("H100"),))
    assert (needs(fleet).saturation, needs(fleet).traced) == ({"llm": 4}, {"llm": 4})


def test_requests_are_counted_over_the_longest_retention(fleet: Any) -> None:
    fleet.add()
    entry = ZeroEntry(namespace="wva", key="default", place=Place(path="z.yaml"), is_enabled=True, retention_s=1800.0)
    assert needs(fleet, zero={"us-east": (entry,)}).retention_s == 1800.0
