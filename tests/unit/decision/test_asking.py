"""What more is asked of Prometheus than loads, and about whom."""

from dataclasses import replace
from typing import Any

from reconciler.decision.questions import ask_by_cluster
from reconciler.domain.snapshot import Form
from reconciler.manifests.documents import parse_documents
from reconciler.resources.declaration import Declaration, merge
from reconciler.resources.reading import read_file
from reconciler.snapshot.variants import declared_variants

ZERO = b"""apiVersion: v1
kind: ConfigMap
metadata: {name: wva-model-scale-to-zero-config, namespace: wva}
data: {default: "{enable_scale_to_zero: true, retention_period: 30m}"}
"""


def needs(fleet: Any, **fields: Any) -> Any:
    declaration: Declaration = replace(fleet.declaration(), **fields)
    return ask_by_cluster(declared_variants(fleet.settings, declaration), declaration)["us-east"]


def test_what_profiles_expect_is_held_against_what_replicas_did(fleet: Any) -> None:
    fleet.add(replicas=4)
    assert (needs(fleet).saturation, needs(fleet).traced) == ({"llm": 4}, {"llm": 4})


def test_variants_that_saturation_sizes_are_asked_how_full_they_are(fleet: Any) -> None:
    fleet.add("a", replicas=4, form=Form.TARGET, runs_on="A100")
    assert (needs(fleet).saturation, needs(fleet).traced) == ({"llm": 4}, {})


def test_requests_are_counted_over_the_longest_retention(fleet: Any) -> None:
    fleet.add()
    zero = merge([read_file("us-east", "z.yaml", parse_documents("z.yaml", ZERO))]).zero
    assert needs(fleet, zero=zero).retention_s == 1800.0


def test_the_past_is_asked_of_models_that_a_queue_sizes_over_the_longest_payback(fleet: Any) -> None:
    fleet.add("a", model_id="one", replicas=4)
    fleet.add("b", model_id="one", replicas=2)
    fleet.add("c", model_id="two", namespace="other")
    fleet.add("d", model_id="three", namespace="elsewhere", form=Form.TARGET, runs_on="A100")
    fleet.override({"name": "b"}, payback=7200.0)
    assert (needs(fleet).past, needs(fleet).payback_s) == ({"llm": 1, "other": 1}, 7200.0)


def test_a_day_is_asked_of_all_replicas_that_follow_payback(fleet: Any) -> None:
    fleet.add("a", model_id="one", replicas=4)
    fleet.add("b", model_id="two", replicas=2, form=Form.TARGET, runs_on="A100")
    fleet.add("c", model_id="three", replicas=7, namespace="other", form=Form.TARGET, runs_on="A100")
    fleet.override({"name": "c"}, engine="wva-v1", payback=7200.0)
    fleet.override({"name": "b"}, payback=5400.0)
    assert (needs(fleet).usual, needs(fleet).payback_s) == ({"llm": 6}, 5400.0)
