"""Settings of autoscalers from text to numbers, and chosen ones back to text."""

from typing import Any

import pytest

from reconciler.decision.scaler_settings import declared_setting, is_sound, with_setting, written_setting
from reconciler.domain.identity import Place, ResourceKey
from reconciler.domain.metric_targets import DEFAULT_BEHAVIOR, MetricTarget, Policy, Rate
from reconciler.domain.metric_targets import Behavior as PolicyBehavior
from reconciler.domain.records import replace
from reconciler.domain.scalers import (
    Behavior,
    Controller,
    MetricSource,
    RatePolicy,
    ResolvedMetric,
    Scaler,
    ScalerMetric,
    ScalerSetting,
    Signal,
)
from reconciler.domain.written import DocumentRef, WrittenField

PLACE = Place(path="hpa.yaml", line=3)
DOCUMENT = DocumentRef(path="hpa.yaml", document=0)
RESOLVED = ResolvedMetric(promql="sum(a)", signal=Signal.RUNNING, source="")
SLOW = {"policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}], "stabilizationWindowSeconds": 600}


def scaler(
    text: str = "40", behavior: Any = None, *, field: str = "averageValue", kind: str = "HorizontalPodAutoscaler"
) -> Scaler:
    source = MetricSource.QUERY if field == "threshold" else MetricSource.PODS
    written = WrittenField(document=DOCUMENT, field=("spec", field), place=PLACE)
    target = float(text[:-1]) / 1000 if text.endswith("m") else float(text)
    return Scaler(
        key=ResourceKey(cluster="prod", namespace="llm", kind=kind, name="phi"),
        document=DOCUMENT,
        place=PLACE,
        hpa_name="phi",
        metrics=(ScalerMetric(source=source, target=target, text=text, written=written),),
        least=1,
        most=9,
        behavior=behavior,
    )


def chosen(given: Scaler, target: float, **down: Any) -> ScalerSetting:
    setting = declared_setting(given, RESOLVED)
    assert setting is not None
    behavior = setting.behavior
    if down:
        assert behavior is None or isinstance(behavior, Behavior)
        behavior = behavior or Behavior()
        behavior = replace(behavior, down=replace(behavior.down, **down))
    metric = replace(setting.metrics[0], target=target)
    return written_setting(given, replace(setting, metrics=(metric,), behavior=behavior))


def test_a_behavior_is_read_with_the_defaults_of_what_it_leaves_out() -> None:
    setting = declared_setting(scaler(behavior={"scaleDown": {**SLOW, "tolerance": "50m"}}), RESOLVED)
    assert setting is not None
    assert isinstance(setting.behavior, Behavior)
    assert (setting.behavior.down.window_s, setting.behavior.up.window_s) == (600.0, 0.0)
    assert setting.behavior.down.policies == (RatePolicy(value=10.0, period_s=60.0, is_percent=True),)
    assert (setting.tolerance_down, setting.tolerance_up) == (0.05, 0.1)


def test_without_a_behavior_there_is_none() -> None:
    setting = declared_setting(scaler(kind="ScaledObject"), RESOLVED)
    assert setting is not None
    assert (setting.behavior, setting.controller, setting.most) == (None, Controller.SCALED_OBJECT, 9.0)


@pytest.mark.parametrize(
    "down",
    [
        {"stabilizationWindowSeconds": 3601},
        {"stabilizationWindowSeconds": "300"},
        {"selectPolicy": "Fast"},
        {"selectPolicy": []},
        {"selectPolicy": {"Max": 1}},
        {"stabilizationWindowSeconds": -1},
        {"stabilizationWindowSeconds": 10**30},
        {"policies": {"type": "Pods", "value": 1, "periodSeconds": 60}},
        {"policies": [{"type": ["Pods"], "value": 1, "periodSeconds": 60}]},
        {"policies": []},
        {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 60}]},
        {"policies": [{"type": "Share", "value": 1, "periodSeconds": 60}]},
        {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1801}]},
        ["scaleDown"],
    ],
)
def test_what_kubernetes_refuses_is_not_simulated(down: Any) -> None:
    assert declared_setting(scaler(behavior={"scaleDown": down}), RESOLVED) is None


@pytest.mark.parametrize(
    ("text", "field", "target", "written"),
    [
        ("40", "averageValue", 52.0, "52"),
        ("40", "averageValue", 1.5, "1500m"),
        ("500m", "averageValue", 0.5, "500m"),
        ("500m", "averageValue", 0.75, "750m"),
        ("2.5", "threshold", 3.2, "3.2"),
        ("2.50", "threshold", 2.5, "2.50"),
        ("2.5", "threshold", 120.0, "120"),
        ("2.5", "threshold", 0.00012, "0.00012"),
    ],
)
def test_a_target_is_written_as_its_kind_has_it(text: str, field: str, target: float, written: str) -> None:
    assert chosen(scaler(text, field=field), target).target == written


def test_only_what_changes_of_a_behavior_is_written() -> None:
    assert chosen(scaler(), 52.0).behavior is None
    assert chosen(scaler(), 40.0, window_s=900.0).behavior == {"scaleDown": {"stabilizationWindowSeconds": 900}}
    kept = scaler(behavior={"scaleUp": {"selectPolicy": "Min"}, "scaleDown": SLOW})
    assert chosen(kept, 40.0, window_s=900.0).behavior == {
        "scaleUp": {"selectPolicy": "Min"},
        "scaleDown": {**SLOW, "stabilizationWindowSeconds": 900},
    }


@pytest.mark.parametrize(
    ("target", "behavior", "sound"),
    [
        ("40", None, True),
        ("1500m", {"scaleDown": SLOW}, True),
        ("-1", None, False),
        ("0", None, False),
        ("0.0m", None, False),
        ("40", {"scaleDown": {**SLOW, "window": "a: b"}}, False),
        ("40", {"scaleDown": {**SLOW, "tolerance": "1" * 2000}}, False),
        ("40", {"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60, "more": ""}]}}, False),
        ("${X}", None, False),
        ("40", {"scaleDown": {"stabilizationWindowSeconds": -1}}, False),
        ("40", {"other": {}}, False),
    ],
)
def test_a_setting_in_a_text_that_anybody_may_edit_is_checked(target: str, behavior: Any, sound: bool) -> None:
    assert is_sound(ScalerSetting(target=target, behavior=behavior)) is sound
    assert not is_sound(None)


@pytest.mark.parametrize(("target", "amount"), [("2k", 2000.0), ("0.5k", 500.0), ("1Ki", 1024.0), ("500m", 0.5)])
def test_a_target_with_a_unit_may_go_back(target: str, amount: float) -> None:
    """Git had it so before it was tuned, and an API server reads it."""
    setting = ScalerSetting(target=target)
    assert is_sound(setting)
    assert with_setting(scaler(), setting).metrics[0].target == amount


def test_a_maximum_without_a_minimum_is_no_setting() -> None:
    """None is ever written so, and its maximum would be checked against nothing."""
    assert not is_sound(ScalerSetting(target="40", most=10**12))


def policy(behavior: Any = None) -> Scaler:
    given = replace(scaler("30", behavior, field="targetValue", kind="AutoscalingPolicy"), hpa_name="")
    return replace(given, policy=Policy(metrics=(MetricTarget(name="load", per_replica=30.0),), tolerance_percent=20))


def rated(given: Scaler, **down: Any) -> ScalerSetting:
    setting = declared_setting(given, RESOLVED)
    assert setting is not None
    assert isinstance(setting.behavior, PolicyBehavior)
    return written_setting(
        given, replace(setting, behavior=replace(setting.behavior, down=replace(setting.behavior.down, **down)))
    )


def test_a_policy_of_kthena_has_its_own_behavior_and_tolerance() -> None:
    setting = declared_setting(policy({"scaleDown": {"percent": 50, "stabilizationWindow": "10m"}}), RESOLVED)
    assert setting is not None
    assert isinstance(setting.behavior, PolicyBehavior)
    assert (setting.controller, setting.tolerance_up, setting.tolerance_down) == (Controller.POLICY, 0.2, 0.2)
    assert setting.behavior.down == Rate(instances=1, percent=50, period_s=15.0, stabilization_s=600.0)
    bare = declared_setting(policy(), RESOLVED)
    assert bare is not None
    assert bare.behavior == DEFAULT_BEHAVIOR, "what its webhook fills in"


def test_the_way_down_of_a_policy_is_written_whole_where_it_is_not_there() -> None:
    """Its schema fills in other values inside of what is there than its webhook does for what is not."""
    assert rated(policy()).behavior is None
    assert rated(policy(), stabilization_s=900.0).behavior == {
        "scaleDown": {"instances": 0, "percent": 100, "period": "60s", "stabilizationWindow": "15m"}
    }
    own: dict[str, dict[str, Any]] = {
        "scaleUp": {"stablePolicy": {"instances": 2}},
        "scaleDown": {"percent": 50, "period": "1m"},
    }
    assert rated(policy(own), stabilization_s=900.0).behavior == {
        **own,
        "scaleDown": {**own["scaleDown"], "stabilizationWindow": "15m"},
    }


@pytest.mark.parametrize(
    ("written", "span_s", "text"),
    [
        ("5m", 900.0, "15m"),
        ("5m0s", 900.0, "15m"),
        ("0h5m", 900.0, "15m"),
        ("300s", 900.0, "900s"),
        ("300000ms", 900.0, "900s"),
        ("5m", 330.0, "330s"),
        ("5m", 0.0, "0s"),
        ("0", 900.0, "900s"),
    ],
)
def test_a_duration_is_written_as_the_file_writes_it(written: str, span_s: float, text: str) -> None:
    """In minutes where it has minutes, as long as these are whole."""
    behavior = rated(policy({"scaleDown": {"stabilizationWindow": written}}), stabilization_s=span_s).behavior
    assert behavior == {"scaleDown": {"stabilizationWindow": text}}


@pytest.mark.parametrize("written", ["5m", "300s", "5m0s", "0.5h"])
def test_a_duration_that_stays_is_neither_written_nor_told(written: str) -> None:
    own = policy({"scaleDown": {"stabilizationWindow": written, "period": "1m"}})
    down = declared_setting(own, RESOLVED)
    assert down is not None
    span_s = float(down.window_s)
    after = rated(own, percent=10, instances=1, stabilization_s=span_s, period_s=60.0)
    assert after.behavior == {"scaleDown": {"stabilizationWindow": written, "period": "1m", "percent": 10}}
    assert [(each.field, each.displaced, each.becomes) for each in own.setting.changes(after)] == [
        ("behavior.scaleDown.percent", "100 (the default)", "10")
    ]


def test_a_way_down_that_is_written_whole_tells_only_what_becomes_other() -> None:
    """Its window stands there then, and is what it was; so it is when that is taken back."""
    bare = policy()
    after = rated(bare, percent=10, instances=1)
    assert after.behavior is not None
    changed = ["behavior.scaleDown.instances", "behavior.scaleDown.percent"]
    assert [each.field for each in bare.setting.changes(after)] == changed
    back = after.changes(bare.setting)
    assert [(each.field, each.displaced, each.becomes) for each in back] == [
        ("behavior.scaleDown.instances", "1", "0 (the default)"),
        ("behavior.scaleDown.percent", "10", "100 (the default)"),
    ]
    in_seconds = {**after.behavior["scaleDown"], "stabilizationWindow": "300s"}  # type: ignore[dict-item]
    assert after.changes(replace(after, behavior={"scaleDown": in_seconds})) == ()


def test_a_key_without_a_value_is_as_none() -> None:
    own = policy({"scaleDown": None})
    assert [each.field for each in own.setting.changes(rated(own, stabilization_s=900.0))] == [
        "behavior.scaleDown.stabilizationWindow"
    ]


def test_what_a_schema_fills_in_is_told_where_a_way_down_is_there() -> None:
    """Within `scaleDown` it has a period of 15 s, and without one of 60 s."""
    own = policy({"scaleDown": {"percent": 50}})
    after = rated(own, percent=10, period_s=60.0)
    assert [(each.field, each.displaced, each.becomes) for each in own.setting.changes(after)] == [
        ("behavior.scaleDown.percent", "50", "10"),
        ("behavior.scaleDown.period", "15s (the default)", "60s"),
    ]


@pytest.mark.parametrize("window", ["", " ", "-5m", "-0s5", "soon", 300, None, [], {}, ["5m"], "9" * 400 + "s", "1e3s"])
def test_what_is_no_duration_is_not_simulated(window: Any) -> None:
    assert declared_setting(policy({"scaleDown": {"stabilizationWindow": window}}), RESOLVED) is None


@pytest.mark.parametrize(
    ("down", "sound"),
    [
        ({"percent": 10}, True),
        ({"stabilizationWindow": "30m", "selectPolicy": "And"}, True),
        ({"stabilizationWindow": "31m"}, False),
        ({"stabilizationWindow": "soon"}, False),
        ({"percent": -1}, False),
        ({"percent": 10, "more": 1}, False),
        ({"selectPolicy": "Max"}, False),
        ({"stabilizationWindowSeconds": 60}, False),
        ([], False),
    ],
)
def test_the_way_down_of_a_policy_is_checked(down: Any, sound: bool) -> None:
    setting = ScalerSetting(target="40", behavior={"scaleDown": down})
    assert is_sound(setting, of_policy=True) is sound
    assert (declared_setting(policy({"scaleDown": down}), RESOLVED) is not None) is sound
    if sound:
        assert not is_sound(setting), "an HPA has other fields"
