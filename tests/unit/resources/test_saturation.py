"""Upstream's saturation and scale-to-zero ConfigMaps: what is read, and what holds for which model."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from reconciler.domain.identity import ModelKey, SourceKind
from reconciler.domain.settings import AnalyzerSettings, LimiterSettings, SaturationRules, ZeroRules
from reconciler.resources.declaration import Declaration
from reconciler.resources.llmd.saturation import SaturationEntry, entries_for, saturation_for, zero_for

Declare = Callable[..., Declaration]

OPTED_IN = """---
apiVersion: v1
kind: Namespace
metadata: {name: team-a, labels: {wva.llmd.ai/config-enabled: "true"}}
"""


def config_map(
    entries: Mapping[str, str], namespace: str = "wva-system", name: str = "wva-saturation-scaling-config"
) -> str:
    data = "".join(
        f"  {key}: |\n" + "".join(f"    {line}\n" for line in text.split("\n")) for key, text in entries.items()
    )
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\ndata:\n{data}"


def zero_map(entries: Mapping[str, str], namespace: str = "wva-system") -> str:
    return config_map(entries, namespace, "wva-model-scale-to-zero-config")


def read(declare: Declare, text: str) -> dict[str, SaturationEntry]:
    declaration = declare(text)
    assert declaration.findings == ()
    return {entry.text.key: entry for entry in declaration.saturation["prod"]}


def rules_of(entry: SaturationEntry) -> SaturationRules:
    """What holds where there is no other entry."""
    model = ModelKey(cluster="prod", namespace=entry.model_namespace or "llm", model_id=entry.model_id or "any")
    return saturation_for([entry], frozenset(), model)


def rules(declaration: Declaration, namespace: str = "llm", model_id: str = "llama") -> SaturationRules:
    entries, opted_in = declaration.saturation.get("prod", ()), declaration.opted_in_namespaces
    return saturation_for(entries, opted_in, ModelKey(cluster="prod", namespace=namespace, model_id=model_id))


def zero(declaration: Declaration, namespace: str = "llm", model_id: str = "llama") -> ZeroRules:
    entries, opted_in = declaration.zero.get("prod", ()), declaration.opted_in_namespaces
    return zero_for(entries, opted_in, ModelKey(cluster="prod", namespace=namespace, model_id=model_id))


FULL = """model_id: meta-llama/Llama-3.1-8B
namespace: llm
kvCacheThreshold: 0.75
queueLengthThreshold: 3
kvSpareTrigger: 0.15
queueSpareTrigger: 5
scaleUpThreshold: 0.9
scaleDownBoundary: 0.6
priority: 2.5
enableLimiter: true
enableRescale: false
analyzerName: saturation
analyzers:
  - {name: saturation, score: 0, scaleUpThreshold: 0.95}
  - {type: throughput, name: second, enabled: false, score: 0.5, parameters: {scaleDownBoundary: 0.4, window: 20}}
scaleToZero: {enabled: true}
limiters:
  - {type: gpu-inventory}
  - {name: total, type: quota, scope: cluster, quotas: {H100: 8, L4: -1}}
  - {name: teams, type: quota, scope: namespace, namespaceQuotas: {default: {H100: 2}, b: {H100: 0}}, exclude: [c]}"""


def test_an_entry_is_carried_over_field_by_field(declare: Declare) -> None:
    entry = read(declare, config_map({"any-key": FULL}))["any-key"]
    assert (entry.model_id, entry.model_namespace) == ("meta-llama/Llama-3.1-8B", "llm")
    assert (entry.namespace, entry.text.source.name) == ("wva-system", "wva-saturation-scaling-config")
    assert (entry.place.line, entry.place.field) == (5, "data.any-key")
    found = rules_of(entry)
    (layer,) = found.layers
    assert str(layer.source) == "ConfigMap wva-saturation-scaling-config, a.yaml:5"
    assert layer.source.kind is SourceKind.CONFIG_MAP
    assert (layer.kv_cache_usage, layer.num_waiting, layer.kv_spare, layer.waiting_spare) == (0.75, 3, 0.15, 5)
    assert (layer.scale_up, layer.scale_down, layer.priority) == (0.9, 0.6, 2.5)
    assert (found.is_limited, entry.fields.enable_rescale, found.scales_to_zero) == (True, False, True)
    assert found.analyzers == (
        AnalyzerSettings(name="saturation", scale_up=0.95),
        AnalyzerSettings(name="throughput", is_enabled=False, score=0.5, scale_down=0.4),
    )
    limited = rules_of(replace(entry, model_id="", model_namespace=""))
    assert limited.limiters == (
        LimiterSettings(name="", kind="gpu-inventory"),
        LimiterSettings(name="total", kind="quota", scope="cluster", quotas={"H100": 8, "L4": -1}),
        LimiterSettings(
            name="teams",
            kind="quota",
            scope="namespace",
            namespace_quotas={"default": {"H100": 2}, "b": {"H100": 0}},
            excluded=frozenset({"c"}),
        ),
    )


@pytest.mark.parametrize(
    "name", ["wva-saturation-scaling-config", "saturation-scaling-config", "capacity-scaling-config"]
)
def test_the_config_map_is_known_by_all_its_names(declare: Declare, name: str) -> None:
    entry = read(declare, config_map({"default": "kvCacheThreshold: 0.7"}, name=name))["default"]
    assert rules_of(entry).layers[0].kv_cache_usage == 0.7


@pytest.mark.parametrize(
    ("text", "analyzer"),
    [
        ("kvCacheThreshold: 0.8", "percent"),
        ("analyzers: []", "percent"),
        ("analyzerName: ''", "percent"),
        ("analyzerName: saturation", "tokens"),
        ("analyzers: [{name: throughput}]", "tokens"),
    ],
)
def test_the_default_entry_selects_the_analyzer(declare: Declare, text: str, analyzer: str) -> None:
    declaration = declare(config_map({"default": text, "m": "model_id: llama\nanalyzerName: saturation"}))
    assert rules(declaration).analyzer == analyzer


def test_zero_is_read_as_not_written(declare: Declare) -> None:
    entry = read(declare, config_map({"default": "kvCacheThreshold: 0\npriority: 0.0"}))["default"]
    (layer,) = rules_of(entry).layers
    assert (layer.kv_cache_usage, layer.priority) == (None, None)


def test_a_key_may_name_the_model_and_its_namespace(declare: Declare) -> None:
    text = config_map({"default": "priority: 1"}) + '  "org/m#1#llm": "priority: 3"\n'
    entry = read(declare, text)["org/m#1#llm"]
    assert (entry.model_id, entry.model_namespace, rules_of(entry).layers[0].priority) == ("org/m#1", "llm", 3)


ENTRIES = {
    "default": "kvCacheThreshold: 0.7\nenableRescale: true\nlimiters: [{type: inventory}]\nanalyzerName: saturation",
    "a": "model_id: llama\nqueueLengthThreshold: 9\nkvCacheThreshold: 0.9",
    "b": "model_id: llama\nnamespace: llm\nkvCacheThreshold: 0.6\nenableLimiter: true",
    "c": "model_id: other\nnamespace: llm\nkvCacheThreshold: 0.1\nenableRescale: true",
}


@pytest.mark.parametrize(
    ("namespace", "model_id", "keys"),
    [("llm", "llama", "b a default"), ("dev", "llama", "a default"), ("llm", "qwen", "default")],
)
def test_the_nearest_entry_comes_first(declare: Declare, namespace: str, model_id: str, keys: str) -> None:
    entries = declare(config_map(ENTRIES)).saturation["prod"]
    held = entries_for(entries, frozenset(), ModelKey(cluster="prod", namespace=namespace, model_id=model_id))
    assert [entry.text.key for entry in held] == keys.split()


def test_entries_are_laid_over_one_another_field_by_field(declare: Declare) -> None:
    found = rules(declare(config_map(ENTRIES)))
    assert [layer.kv_cache_usage for layer in found.layers] == [0.6, 0.9, 0.7]
    assert (found.analyzer, found.is_limited, found.rescales, found.scales_to_zero) == ("tokens", True, True, None)
    assert [limiter.kind for limiter in found.limiters] == ["gpu-inventory"]
    assert rules(declare(config_map({"c": ENTRIES["c"]})), model_id="other").rescales is False


def test_a_namespace_that_is_opted_in_has_its_own_config_map_instead(declare: Declare) -> None:
    files = {
        "global.yaml": config_map(ENTRIES),
        "local.yaml": config_map({"default": "queueLengthThreshold: 2\nlimiters: [{type: inventory}]"}, "team-a"),
        "namespace.yaml": OPTED_IN,
    }
    declaration = declare(files)
    assert declaration.findings == ()
    local = rules(declaration, namespace="team-a")
    assert [(layer.num_waiting, layer.kv_cache_usage) for layer in local.layers] == [(2, None)]
    assert (local.analyzer, local.rescales) == ("tokens", False), "upstream selects the analyzer for all at once"
    assert len(rules(declaration, namespace="team-b").layers) == 2


def test_a_namespace_that_is_opted_in_without_a_config_map_has_the_global_one(declare: Declare) -> None:
    assert len(rules(declare(config_map(ENTRIES) + OPTED_IN), namespace="team-a").layers) == 2


def test_of_two_global_config_maps_the_first_by_path_is_used_and_the_other_told(declare: Declare) -> None:
    files = {
        "b.yaml": config_map({"default": "priority: 2"}, "wva-b"),
        "a.yaml": config_map({"default": "priority: 1"}, "wva-a"),
        "c.yaml": config_map({"default": "priority: 1"}, "wva-c"),
    }
    declaration = declare(files)
    assert [layer.priority for layer in rules(declaration).layers] == [1]
    (finding,) = declaration.findings
    assert str(finding) == (
        "b.yaml:1: warning: metadata.name: ConfigMap wva-b/wva-saturation-scaling-config differs from "
        "wva-a/wva-saturation-scaling-config at a.yaml:1, which is used: keep one, or label the namespace of the other "
        "wva.llmd.ai/config-enabled"
    )


def test_clusters_have_config_maps_of_their_own(declare: Declare) -> None:
    assert declare(config_map(ENTRIES), cluster="eu").saturation.keys() == {"eu"}


def test_nothing_said_is_nothing_selected(declare: Declare) -> None:
    assert rules(declare("{}")) == SaturationRules()
    assert zero(declare("{}")) == ZeroRules(is_enabled=None, retention_s=600)


ZERO = {
    "default": "retention_period: 1h30m",
    "a": "model_id: llama\nenable_scale_to_zero: true",
    "b": "model_id: qwen\nenable_scale_to_zero: false\nretention_period: 1.5m",
}


@pytest.mark.parametrize(
    ("model_id", "is_enabled", "retention_s"), [("llama", True, 5400), ("qwen", False, 90), ("phi", None, 5400)]
)
def test_scaling_to_zero_is_laid_over_field_by_field(
    declare: Declare, model_id: str, is_enabled: bool | None, retention_s: float
) -> None:
    declaration = declare(zero_map(ZERO))
    assert declaration.findings == ()
    found = zero(declaration, model_id=model_id)
    assert (found.is_enabled, found.retention_s) == (is_enabled, retention_s)
    assert (found.place is None) == (is_enabled is None)


def test_scaling_to_zero_has_local_config_maps_too(declare: Declare) -> None:
    declaration = declare({"a.yaml": zero_map(ZERO), "b.yaml": zero_map({"default": ""}, "team-a") + OPTED_IN})
    assert zero(declaration, namespace="team-a").is_enabled is True, "one without a valid entry replaces nothing"


def test_marks_on_namespaces_are_read(declare: Declare) -> None:
    text = 'apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {wva.llmd.ai/config-enabled: "yes"}}\n'
    declaration = declare(text)
    assert declaration.opted_in_namespaces == frozenset()
    assert declare(OPTED_IN).opted_in_namespaces == {("prod", "team-a")}
