"""An autoscaler's setting from text to numbers, and a chosen one back to text in the form that its file has."""

import math
import re
from collections.abc import Mapping
from decimal import Decimal

from reconciler.domain.metric_targets import DEFAULT_BEHAVIOR, LONGEST_WINDOW_S, Rate
from reconciler.domain.metric_targets import Behavior as PolicyBehavior
from reconciler.domain.metric_targets import Select as PolicySelect
from reconciler.domain.records import replace
from reconciler.domain.scalers import (
    DOWN,
    TOLERANCE,
    UP,
    AutoscalerSetting,
    Behavior,
    Controller,
    MetricKind,
    MetricSetting,
    MetricSource,
    RatePolicy,
    ResolvedMetric,
    Scaler,
    ScalerMetric,
    ScalerSetting,
    ScalingRules,
    Select,
)
from reconciler.domain.units import S_PER_MINUTE, seconds_from_duration
from reconciler.manifests.documents import mapping_of

_KINDS = {
    MetricSource.PODS: MetricKind.PODS,
    MetricSource.OBJECT: MetricKind.OBJECT_AVERAGE,
    MetricSource.EXTERNAL: MetricKind.EXTERNAL_AVERAGE,
    MetricSource.QUERY: MetricKind.EXTERNAL_AVERAGE,
}
_TARGET = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?(m|k|Ki|M|Mi)?")
_LONGEST_WINDOW_S, _LONGEST_PERIOD_S, _MOST_POLICIES = 3600, 1800, 10
"""What the API server takes of `stabilizationWindowSeconds` and `periodSeconds`."""
MOST = 2**31 - 1
"""Of replicas: a field of Kubernetes has no more."""
_RATE_FIELDS = frozenset({"instances", "percent", "period", "selectPolicy", "stabilizationWindow"})
_LONGEST_TEXT = 20
_IN_MINUTES = re.compile("[0-9.][mh](?!s)")
_RULES = frozenset({"stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance"})


def declared_setting(scaler: Scaler, metric: ResolvedMetric) -> AutoscalerSetting | None:
    """The numbers of an autoscaler with one metric; None where its behavior is not as the API server has it."""
    is_keda = scaler.hpa_name.startswith("keda-hpa-") or scaler.key.kind == "ScaledObject"
    written = scaler.metrics[0]
    behavior = _behavior_of(scaler)
    if written.target is None or (scaler.behavior is not None and behavior is None):
        return None
    rules = scaler.behavior or {}
    controller = Controller.SCALED_OBJECT if is_keda else Controller.HPA
    tolerances = _tolerance(rules.get("scaleUp")), _tolerance(rules.get("scaleDown"))
    if scaler.policy is not None:
        controller, tolerances = Controller.POLICY, (scaler.policy.tolerance, scaler.policy.tolerance)
    return AutoscalerSetting(
        controller=controller,
        metrics=(
            MetricSetting(
                kind=_KINDS[written.source],
                signal=metric.signal,
                target=written.target,
                is_whole=written.is_whole,
            ),
        ),
        least=float(scaler.least),
        most=float("inf") if scaler.most is None else float(scaler.most),
        behavior=behavior,
        tolerance_up=tolerances[0],
        tolerance_down=tolerances[1],
    )


def with_setting(scaler: Scaler, setting: ScalerSetting) -> Scaler:
    """The same autoscaler with another setting, as a sound text has it."""
    metric = scaler.metrics[0]
    metrics = (replace(metric, target=_amount(setting.target), text=setting.target),)
    found = replace(scaler, metrics=metrics, behavior=setting.behavior)
    return found if setting.least is None else replace(found, least=setting.least, most=setting.most)


def written_setting(scaler: Scaler, chosen: AutoscalerSetting) -> ScalerSetting:
    """A chosen setting as it is written: what it leaves as it is keeps its text, defaults stay unwritten."""
    metric, behavior = scaler.metrics[0], dict(scaler.behavior or {})
    target = float(chosen.metrics[0].target)
    text = metric.text if target == metric.target else _target(target, is_quantity=_is_quantity(metric))
    before = _behavior_of(scaler)
    if isinstance(chosen.behavior, PolicyBehavior) and isinstance(before, PolicyBehavior):
        if chosen.behavior.down != before.down:
            behavior["scaleDown"] = _changed_rate(behavior.get("scaleDown"), before.down, chosen.behavior.down)
    elif not isinstance(before, PolicyBehavior) and isinstance(chosen.behavior, Behavior) and chosen.behavior != before:
        was = before or Behavior()
        for key, old, new in (("scaleUp", was.up, chosen.behavior.up), ("scaleDown", was.down, chosen.behavior.down)):
            if old != new:
                behavior[key] = {**mapping_of(behavior.get(key)), **_changed(old, new)}
    for key, wanted in (("scaleUp", chosen.tolerance_up), ("scaleDown", chosen.tolerance_down)):
        if scaler.policy is None and wanted != _tolerance(behavior.get(key)):
            behavior[key] = {**mapping_of(behavior.get(key)), "tolerance": f"{float(wanted):g}"}
    most = None if math.isinf(chosen.most) else round(float(chosen.most))
    return ScalerSetting(target=text, behavior=behavior or None, least=round(float(chosen.least)), most=most)


def has_tolerance(scaler: Scaler) -> bool:
    """Whether its cluster knows tolerances: where none is written, an API server may drop the field without a word."""
    return any("tolerance" in mapping_of(each) for each in (scaler.behavior or {}).values())


def is_sound(setting: ScalerSetting | None, *, of_policy: bool = False) -> bool:
    """Whether a setting that a pull request's text names is one, of an AutoscalingPolicy or of another autoscaler.

    Anybody may have edited it.
    """
    if setting is None or _TARGET.fullmatch(setting.target) is None or not _amount(setting.target) > 0:
        return False
    if setting.least is None and setting.most is not None:
        return False
    if setting.least is not None and not 0 <= setting.least <= (MOST if setting.most is None else setting.most) <= MOST:
        return False
    behavior = setting.behavior
    if of_policy:
        down = None if behavior is None else behavior.get("scaleDown")
        return down is None or _rate(down) is not None
    return behavior is None or (behavior.keys() <= {"scaleUp", "scaleDown"} and _behavior(behavior) is not None)


def _amount(target: str) -> float:
    from reconciler.resources.kubernetes.fields import read_quantity  # its schemas take time to make

    return read_quantity(target)


def _is_quantity(metric: ScalerMetric) -> bool:
    """Whether its target is a Quantity; a threshold of KEDA is a number."""
    return metric.written is None or metric.written.field[-1] != "threshold"


def _behavior_of(scaler: Scaler) -> Behavior | PolicyBehavior | None:
    """What it does as it is written; None where nothing is, or where it cannot be read."""
    if scaler.policy is None:
        return None if scaler.behavior is None else _behavior(scaler.behavior)
    down = (scaler.behavior or {}).get("scaleDown")
    rate = DEFAULT_BEHAVIOR.down if down is None else _rate(down)
    return None if rate is None else replace(scaler.policy.behavior, down=rate)


def _rate(written: object) -> Rate | None:
    """Read `scaleDown` of an AutoscalingPolicy, with the schema's defaults for what is missing; None if invalid."""
    if not isinstance(written, Mapping) or not written.keys() <= _RATE_FIELDS:
        return None
    instances, percent = written.get("instances", 1), written.get("percent", 100)
    texts = (str(written.get("period", "15s")), str(written.get("stabilizationWindow", "5m")))
    if not (_is_count(instances, 0, MOST) and _is_count(percent, 0, 1000)) or max(map(len, texts)) > _LONGEST_TEXT:
        return None
    period_s, window_s = map(seconds_from_duration, texts)
    try:
        select = PolicySelect(str(written.get("selectPolicy", PolicySelect.OR)))
    except ValueError:
        return None
    if period_s is None or window_s is None or not all(0 <= each <= LONGEST_WINDOW_S for each in (period_s, window_s)):
        return None
    return Rate(
        instances=int(str(instances)),
        percent=int(str(percent)),
        period_s=period_s,
        stabilization_s=window_s,
        select=select,
    )


def _changed_rate(written: object, old: Rate, new: Rate) -> dict[str, object]:
    """The way down as it is to be written: whole where it is not there, as its schema fills in other values."""
    there = mapping_of(written)
    values: dict[str, object] = {
        "instances": new.instances,
        "percent": new.percent,
        "period": _length(new.period_s, like=str(there.get("period", "60s"))),
        "stabilizationWindow": _length(new.stabilization_s, like=str(there.get("stabilizationWindow", "5m"))),
    }
    if not isinstance(written, Mapping):
        return values
    was = (old.instances, old.percent, old.period_s, old.stabilization_s)
    now = (new.instances, new.percent, new.period_s, new.stabilization_s)
    changed = {key: value for (key, value), a, b in zip(values.items(), was, now, strict=True) if a != b}
    return {**written, **changed}


def _length(span_s: float, *, like: str) -> str:
    """A duration as Go writes it: in minutes where another is written so and these are whole, else in seconds."""
    is_in_minutes = _IN_MINUTES.search(like) is not None and span_s % S_PER_MINUTE == 0 < span_s
    return f"{span_s / S_PER_MINUTE:g}m" if is_in_minutes else f"{span_s:g}s"


def _changed(old: ScalingRules, new: ScalingRules) -> dict[str, object]:
    found: dict[str, object] = {}
    if new.window_s != old.window_s:
        found["stabilizationWindowSeconds"] = round(float(new.window_s))
    if new.policies != old.policies:
        found["policies"] = [
            {
                "type": "Percent" if each.is_percent else "Pods",
                "value": round(float(each.value)),
                "periodSeconds": round(each.period_s),
            }
            for each in new.policies
        ]
    if new.select is not old.select:
        found["selectPolicy"] = str(new.select)
    return found


def _target(value: float, *, is_quantity: bool) -> str:
    """A number as a Quantity (`1500m`), or as KEDA reads a threshold (`1.5`); whole ones are whole."""
    exact = Decimal(repr(value))
    if exact == exact.to_integral_value():
        return str(int(exact))
    if is_quantity:
        return f"{max(round(exact * 1000), 1)}m"
    return format(exact.normalize(), "f")


def _behavior(written: Mapping[str, object]) -> Behavior | None:
    up, down = _rules(written.get("scaleUp"), UP), _rules(written.get("scaleDown"), DOWN)
    return None if up is None or down is None else Behavior(up=up, down=down)


def _rules(written: object, default: ScalingRules) -> ScalingRules | None:
    """One direction with the API server's defaults for what is missing; None where it refuses what is there."""
    if written is None:
        return default
    if not isinstance(written, Mapping) or not written.keys() <= _RULES or len(str(written.get("tolerance"))) > 20:
        return None
    window_s, select, policies = (
        written.get(key) for key in ("stabilizationWindowSeconds", "selectPolicy", "policies")
    )
    found = default
    if window_s is not None:
        if not _is_count(window_s, 0, _LONGEST_WINDOW_S):
            return None
        found = replace(found, window_s=float(str(window_s)))
    if select is not None:
        if not isinstance(select, str) or select not in set(Select):
            return None
        found = replace(found, select=Select(select))
    if policies is not None:
        read = [_policy(each) for each in policies] if isinstance(policies, list) else []
        known = tuple(each for each in read if each is not None)
        if not known or len(known) < len(read) or len(read) > _MOST_POLICIES:
            return None
        found = replace(found, policies=known)
    return found


def _policy(written: object) -> RatePolicy | None:
    if not isinstance(written, Mapping) or written.get("type") not in ("Pods", "Percent") or len(written) > 3:
        return None
    value, period_s = written.get("value"), written.get("periodSeconds")
    if not _is_count(value, 1, MOST) or not _is_count(period_s, 1, _LONGEST_PERIOD_S):
        return None
    return RatePolicy(
        value=float(str(value)), period_s=float(str(period_s)), is_percent=written.get("type") == "Percent"
    )


def _is_count(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _tolerance(written: object) -> float:
    """What a direction allows (a Quantity, as plain or in thousandths), else the controller's default."""
    value = mapping_of(written).get("tolerance")
    text = str(value)
    try:
        found = float(text[:-1]) / 1000 if text.endswith("m") else float(text)
    except ValueError:
        return TOLERANCE
    return found if 0 <= found < 1 else TOLERANCE
