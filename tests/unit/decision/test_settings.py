"""Each layer of precedence, and what it displaced."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.domain.identity import SourceKind
from reconciler.domain.variant_settings import (
    ACCELERATOR,
    ENGINE,
    GROUP,
    HEADROOM,
    IGNORE,
    MAX_REPLICAS,
    MIN_REPLICAS,
    PAYBACK_S,
    START_DELAY_S,
    SYNC_DELAY_S,
)


def origins(sourced: Any) -> list[tuple[Any, SourceKind]]:
    return [
        (sourced.value, sourced.source.kind),
        *((lower.value, lower.source.kind) for lower in sourced.displaced),
    ]


def test_every_layer_displaces_the_ones_below(fleet: Any) -> None:
    fleet.default(minReplicas=2)
    fleet.model(minReplicas=3)
    fleet.override({"cluster": "us-*"}, line=80, minReplicas=4)
    fleet.override({"name": "ll*"}, line=81, minReplicas=5)
    fleet.add(min_replicas=8, annotations={"minReplicas": 7}, target_annotations={"minReplicas": 6})
    assert origins(fleet.variant().settings[MIN_REPLICAS]) == [
        (8, SourceKind.RESOURCE),
        (7, SourceKind.ANNOTATION),
        (6, SourceKind.ANNOTATION),
        (5, SourceKind.OVERRIDE),
        (4, SourceKind.OVERRIDE),
        (3, SourceKind.MODEL),
        (2, SourceKind.DEFAULT),
        (1, SourceKind.BUILT_IN),
    ]


def test_without_any_layer_the_built_in_values_hold(fleet: Any) -> None:
    fleet.set(defaults={})
    fleet.add()
    settings = fleet.variant().settings
    assert settings[ACCELERATOR].value == "choose"
    assert (settings[MIN_REPLICAS].value, settings[MAX_REPLICAS].value) == (1, None)
    assert (settings[GROUP].value, str(settings[GROUP].source)) == ("us-east/llm", "pullRequests.groupBy")
    assert (settings[IGNORE].value, settings[ENGINE].value, settings[HEADROOM].value) == (False, "auto", 0.2)
    assert settings[SYNC_DELAY_S].value == 180.0
    assert (settings[START_DELAY_S].value, settings[PAYBACK_S].value) == (300.0, 3600.0)
    assert settings[MIN_REPLICAS].source.kind is SourceKind.BUILT_IN


def test_each_source_knows_its_place(fleet: Any) -> None:
    fleet.override({"name": "llama"}, line=81, maxReplicas=4)
    fleet.add(target_annotations={"accelerator": "keep"}, annotations={"group": "mine"})
    settings = fleet.variant().settings
    assert str(settings[MAX_REPLICAS].source) == "reconciler.yaml:81"
    assert str(settings[GROUP].source) == "annotation, apps/llm/llama.yaml:9"
    assert str(settings[ACCELERATOR].source) == "annotation, apps/llm/llama.yaml:9"


def test_an_equal_value_below_is_not_displaced(fleet: Any) -> None:
    fleet.default(minReplicas=3)
    fleet.add(annotations={"minReplicas": 3})
    assert origins(fleet.variant().settings[MIN_REPLICAS]) == [(3, SourceKind.ANNOTATION), (1, SourceKind.BUILT_IN)]


def test_a_false_annotation_displaces_a_true_override(fleet: Any) -> None:
    fleet.override({"name": "*"}, ignore=True)
    fleet.add(annotations={"ignore": False})
    assert fleet.variant().settings[IGNORE].value is False
    assert fleet.variant().holds == ()


@pytest.mark.parametrize(
    ("match", "labels", "fits"),
    [
        ({"cluster": "us-east", "namespace": "l?m", "name": "*", "model": "meta/*"}, {}, True),
        ({"cluster": "eu-*"}, {}, False),
        ({"namespace": "ll"}, {}, False),
        ({"name": "llama", "model": "qwen*"}, {}, False),
        ({"model": "*8B*"}, {}, False),
        ({"path": "apps/**"}, {}, True),
        ({"path": "apps/*"}, {}, False),
        ({"path": "**/llama.yaml"}, {}, True),
        ({}, {"team": "search"}, True),
        ({}, {"team": "s*", "tier": "*"}, True),
        ({}, {"team": "ads"}, False),
    ],
)
def test_all_keys_of_an_overrides_match_must_fit(
    fleet: Any, match: dict[str, str], labels: dict[str, str], fits: bool
) -> None:
    fleet.override(match, maxReplicas=4)
    fleet.set(overrides=tuple(replace(each, labels=labels) for each in fleet.settings.overrides))
    fleet.add(labels={"team": "search"})
    assert (fleet.variant().settings[MAX_REPLICAS].value == 4) is fits


@pytest.mark.parametrize(
    ("group_by", "name"),
    [
        (("cluster", "namespace"), "us-east/llm"),
        ((), "all"),
        (("model",), "meta/llama-8b"),
        (("path",), "apps/llm"),
        (("cluster", "label:team"), "us-east/search"),
        (("label:owner",), "none"),
    ],
)
def test_groups_are_named_by_what_they_are_made_of(fleet: Any, group_by: tuple[str, ...], name: str) -> None:
    fleet.set(pull_requests=replace(fleet.settings.pull_requests, group_by=group_by))
    fleet.add(labels={"team": "search"})
    assert fleet.variant().settings[GROUP].value == name


def test_a_written_group_stands_alone(fleet: Any) -> None:
    fleet.override({"name": "llama"}, group="dev")
    fleet.add()
    assert fleet.plan().groups[0].name == "dev"


def test_served_names_are_configured_then_the_targets_then_the_model_id(fleet: Any) -> None:
    fleet.add()
    assert fleet.variant().served_names == ("meta/llama-8b",)
    fleet.workloads[0] = replace(fleet.workloads[0], served_names=("llama",))
    assert fleet.variant().served_names == ("llama",)
    fleet.model()
    fleet.set(models=(replace(fleet.settings.models[0], served_names=("chat", "chat-v2")),))
    assert fleet.variant().served_names == ("chat", "chat-v2")
