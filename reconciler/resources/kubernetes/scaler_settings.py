"""What autoscalers scale by, and how fast: of an HPA, of a ScaledObject, and of resources that make one of these.

Fields that are missing, of another type or filled in later are not read: such a metric has no target, and no setting of
its autoscaler is proposed.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil

from reconciler.domain.identity import Place
from reconciler.domain.metric_targets import MetricSource as PolicySource
from reconciler.domain.metric_targets import PodMetric, Policy, PrometheusMetric
from reconciler.domain.records import replace
from reconciler.domain.scalers import BehaviorAnnotations, MetricSource, Scaler, ScalerMetric
from reconciler.domain.written import FieldPath, WrittenField
from reconciler.manifests.documents import mapping_of
from reconciler.resources.kubernetes.fields import read_quantity
from reconciler.resources.objects import KubernetesObject
from reconciler.resources.validation import is_templated

_KEDA_BEHAVIOR: FieldPath = ("spec", "advanced", "horizontalPodAutoscalerConfig", "behavior")
_V2 = ("autoscaling/v2", "autoscaling/v2beta2")
_SHOWN_BY_UPSTREAM = "wva_desired_replicas"
_METRIC_KEYS = {"Pods": "pods", "Object": "object", "External": "external"}
_AIBRIX = "autoscaling.aibrix.ai/"
_DURATION = re.compile("(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?")
_RESOURCES = ("Resource", "ContainerResource", "cpu", "memory")


def hpa_scaler(source: KubernetesObject, least: int, most: int | None) -> Scaler:
    """The settings of a HorizontalPodAutoscaler."""
    spec = mapping_of(source.fields.get("spec"))
    is_read = source.fields.get("apiVersion") in _V2
    metrics = tuple(
        _hpa_metric(source, ("spec", "metrics", index), mapping_of(each))
        for index, each in enumerate(_list(spec.get("metrics")) if is_read else ())
    )
    return _scaler(
        source,
        hpa_name=source.name,
        metrics=metrics,
        bounds=(least, most),
        behavior_path=("spec", "behavior"),
        bounds_only="" if is_read else f"metrics of {source.fields.get('apiVersion')} are not read: use autoscaling/v2",
    )


def keda_scaler(
    source: KubernetesObject,
    least: int,
    most: int | None,
    *,
    spec_path: FieldPath = ("spec",),
    behavior_path: FieldPath = _KEDA_BEHAVIOR,
    hpa_name: str = "",
) -> Scaler:
    """The settings of a ScaledObject, or of a spec elsewhere that becomes one."""
    spec = mapping_of(_at(source.fields, spec_path))
    advanced = mapping_of(spec.get("advanced"))
    given = mapping_of(advanced.get("horizontalPodAutoscalerConfig")).get("name")
    triggers = _list(spec.get("triggers"))
    modifiers = mapping_of(advanced.get("scalingModifiers"))
    return _scaler(
        source,
        hpa_name=hpa_name or (given if isinstance(given, str) else f"keda-hpa-{source.name}"),
        metrics=tuple(
            _trigger(source, (*spec_path, "triggers", index), mapping_of(each)) for index, each in enumerate(triggers)
        ),
        bounds=(least, most),
        behavior_path=behavior_path,
        bounds_only="scalingModifiers make one metric of its triggers" if modifiers.get("formula") else "",
    )


def kserve_scaler(source: KubernetesObject, hpa_name: str, path: FieldPath, least: int, most: int | None) -> Scaler:
    """The settings in `autoScaling` at `path` of an InferenceService, of which KServe makes an autoscaler."""
    spec = mapping_of(_at(source.fields, path))
    metrics = tuple(
        _kserve_metric(source, (*path, "metrics", index), mapping_of(each))
        for index, each in enumerate(_list(spec.get("metrics")))
    )
    return _scaler(
        source,
        hpa_name=hpa_name,
        metrics=metrics,
        bounds=(least, most),
        behavior_path=(*path, "behavior"),
        bounds_only="" if metrics else "it scales by CPU, KServe's default",
    )


def aibrix_scaler(source: KubernetesObject, least: int, most: int | None) -> Scaler:
    """The settings of a PodAutoscaler, of which AIBrix makes an HPA where its strategy is that."""
    names = BehaviorAnnotations(window=f"{_AIBRIX}scale-down-cooldown-window", factor=f"{_AIBRIX}max-scale-down-rate")
    spec = mapping_of(source.fields.get("spec"))
    strategy = spec.get("scalingStrategy")
    metrics = tuple(
        _aibrix_metric(source, ("spec", "metricsSources", index), mapping_of(each))
        for index, each in enumerate(_list(spec.get("metricsSources")))
    )
    behavior = _aibrix_behavior(source.annotations)
    reason = (
        "" if strategy == "HPA" else f"AIBrix's own strategy {_text(strategy) or 'is not written and'} is not simulated"
    )
    reason = reason or ("" if behavior else "an annotation of its way to scale cannot be read")
    found = _scaler(
        source,
        hpa_name=f"{source.name}-hpa",
        metrics=metrics,
        bounds=(least, most),
        behavior_path=("metadata", "annotations", names.window),
        bounds_only=reason,
    )
    return replace(found, behavior=behavior, annotations=names)


def policy_scaler(
    source: KubernetesObject, policy: Policy, sources: Mapping[str, PolicySource], least: int, most: int
) -> Scaler:
    """The settings of an AutoscalingPolicy of Kthena with one target."""
    metrics = list(_policy_metrics(source, policy, sources))
    found = _scaler(
        source,
        hpa_name="",
        metrics=tuple(metrics),
        bounds=(least, most),
        behavior_path=("spec", "behavior"),
        bounds_only="",
    )
    return replace(found, policy=policy)


def _policy_metrics(
    source: KubernetesObject, policy: Policy, sources: Mapping[str, PolicySource]
) -> Iterator[ScalerMetric]:
    """Its metrics: a query of its own is a total, and so is what Kthena adds up over the pods that it scrapes."""
    written = _list(mapping_of(source.fields.get("spec")).get("metrics"))
    for index, (target, each) in enumerate(zip(policy.metrics, written, strict=True)):
        read = sources.get(target.name) or PodMetric(name=target.name)
        if isinstance(read, PrometheusMetric):
            metric = ScalerMetric(source=MetricSource.QUERY, name=target.name, query=read.query)
        elif read.selector.requirements:
            yield ScalerMetric(source=MetricSource.OTHER, name=f"{read.name} of pods that a selector picks")
            continue
        else:
            metric = ScalerMetric(source=MetricSource.PODS, name=read.name)
        value = mapping_of(each).get("targetValue")
        yield _written(source, ("spec", "metrics", index, "targetValue"), value, metric)


def _aibrix_metric(source: KubernetesObject, path: FieldPath, entry: Mapping[str, object]) -> ScalerMetric:
    """A metric of pods of the custom metrics API; AIBrix rounds its target up."""
    name = _text(entry.get("targetMetric"))
    if name.lower() in _RESOURCES:
        return ScalerMetric(source=MetricSource.RESOURCE, name=name)
    metric = ScalerMetric(source=MetricSource.PODS, name=name, is_whole=True)
    read = _written(source, (*path, "targetValue"), entry.get("targetValue"), metric)
    return replace(read, target=None if read.target is None else float(ceil(read.target)))


def _aibrix_behavior(annotations: Mapping[str, str]) -> dict[str, object] | None:
    """The behavior that AIBrix writes into its HPA; None where it would refuse an annotation."""
    try:
        up, down = (float(annotations.get(f"{_AIBRIX}max-scale-{way}-rate", "2")) for way in ("up", "down"))
        windows_s = [
            _seconds(annotations.get(f"{_AIBRIX}scale-{way}-cooldown-window", default))
            for way, default in (("up", "0s"), ("down", "300s"))
        ]
        percent = int((up - 1.0) * 100), int((1.0 - 1.0 / down) * 100)
    except (ValueError, ArithmeticError):
        return None
    return {
        key: {
            "stabilizationWindowSeconds": window_s,
            "selectPolicy": select,
            "policies": [{"type": "Percent", "value": value if value >= 0 else 100, "periodSeconds": 60}],
        }
        for key, window_s, select, value in zip(
            ("scaleUp", "scaleDown"), windows_s, ("Max", "Min"), percent, strict=True
        )
    }


def _seconds(text: str) -> int:
    """Whole seconds of a duration as Go writes it, such as 300s or 1h30m; ValueError for another."""
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        raise ValueError(text)
    return sum(int(each or 0) * unit_s for each, unit_s in zip(found.groups(), (3600, 60, 1), strict=True))


def _scaler(
    source: KubernetesObject,
    *,
    hpa_name: str,
    metrics: tuple[ScalerMetric, ...],
    bounds: tuple[int, int | None],
    behavior_path: FieldPath,
    bounds_only: str,
) -> Scaler:
    behavior = _at(source.fields, behavior_path)
    return Scaler(
        key=source.key,
        document=source.ref,
        place=source.place,
        hpa_name=hpa_name,
        metrics=metrics,
        least=bounds[0],
        most=bounds[1],
        behavior=behavior if isinstance(behavior, Mapping) and behavior else None,
        behavior_path=behavior_path,
        bounds_only=bounds_only or next(_why_bounds_only(metrics), ""),
    )


def _why_bounds_only(metrics: Sequence[ScalerMetric]) -> Iterator[str]:
    for metric in metrics:
        if metric.source is MetricSource.RESOURCE:
            yield f"it scales by {metric.name or 'a resource'}, which says little of requests"
        elif metric.source is MetricSource.OTHER:
            yield f"it scales by {metric.label}, which is no metric of Prometheus"
        elif _SHOWN_BY_UPSTREAM in metric.name or _SHOWN_BY_UPSTREAM in metric.query:
            yield f"{_SHOWN_BY_UPSTREAM} is another autoscaler's answer"
    if not metrics:
        yield "no metric is written, so it scales by CPU"
    if len(metrics) > 1:
        yield f"it scales by {len(metrics)} metrics: which of them binds when is not reproduced"


def _hpa_metric(source: KubernetesObject, path: FieldPath, entry: Mapping[str, object]) -> ScalerMetric:
    kind = str(entry.get("type"))
    key = _METRIC_KEYS.get(kind)
    if key is None:
        name = mapping_of(entry.get("resource") or entry.get("containerResource")).get("name")
        is_resource = kind in _RESOURCES
        return ScalerMetric(
            source=MetricSource.RESOURCE if is_resource else MetricSource.OTHER,
            name=name if isinstance(name, str) else kind,
        )
    body = mapping_of(entry.get(key))
    metric, described = mapping_of(body.get("metric")), mapping_of(body.get("describedObject"))
    selector = mapping_of(mapping_of(metric.get("selector")).get("matchLabels"))
    return _with_target(
        source,
        (*path, key, "target"),
        mapping_of(body.get("target")),
        ScalerMetric(
            source=MetricSource(kind),
            name=_text(metric.get("name")),
            selector={each: str(value) for each, value in selector.items()},
            object_kind=_text(described.get("kind")),
            object_name=_text(described.get("name")),
        ),
    )


def _with_target(
    source: KubernetesObject, path: FieldPath, target: Mapping[str, object], metric: ScalerMetric
) -> ScalerMetric:
    """The metric with its target: `averageValue` is of one replica, `value` of all together."""
    key = "averageValue" if "averageValue" in target else "value"
    return _written(source, (*path, key), target.get(key), replace(metric, is_per_replica=key == "averageValue"))


def _written(source: KubernetesObject, path: FieldPath, value: object, metric: ScalerMetric) -> ScalerMetric:
    if not isinstance(value, int | float | str) or isinstance(value, bool) or is_templated(value):
        return metric
    try:
        amount = read_quantity(value)
    except ValueError:
        return metric
    place: Place = source.locate(path)
    written = WrittenField(document=source.ref, field=path, place=place)
    return replace(metric, target=amount if amount > 0 else None, text=str(value), written=written)


def _trigger(source: KubernetesObject, path: FieldPath, entry: Mapping[str, object]) -> ScalerMetric:
    kind, metadata = str(entry.get("type")), mapping_of(entry.get("metadata"))
    if kind in _RESOURCES:
        return ScalerMetric(source=MetricSource.RESOURCE, name=kind)
    query = _text(metadata.get("query"))
    if kind != "prometheus" or not query:
        return ScalerMetric(source=MetricSource.OTHER, name=f"trigger {kind}")
    is_average = entry.get("metricType") in (None, "AverageValue")
    name = _text(entry.get("name")) or _text(metadata.get("metricName"))
    metric = ScalerMetric(source=MetricSource.QUERY, name=name, query=query, is_per_replica=is_average)
    return _written(source, (*path, "metadata", "threshold"), metadata.get("threshold"), metric)


def _kserve_metric(source: KubernetesObject, path: FieldPath, entry: Mapping[str, object]) -> ScalerMetric:
    """KServe's own kinds: `External` has a query, `PodMetric` the name of a metric of pods."""
    kind = str(entry.get("type"))
    keys: dict[str, tuple[str, Callable[[Mapping[str, object]], ScalerMetric]]] = {
        "External": ("external", _kserve_query),
        "PodMetric": ("podmetric", _kserve_pod_metric),
    }
    if kind not in keys:
        return ScalerMetric(source=MetricSource.RESOURCE if kind == "Resource" else MetricSource.OTHER, name=kind)
    key, read = keys[kind]
    body = mapping_of(entry.get(key))
    return _with_target(
        source, (*path, key, "target"), mapping_of(body.get("target")), read(mapping_of(body.get("metric")))
    )


def _kserve_query(metric: Mapping[str, object]) -> ScalerMetric:
    query, is_prometheus = _text(metric.get("query")), metric.get("backend") == "prometheus"
    if not query or not is_prometheus:
        return ScalerMetric(source=MetricSource.OTHER, name=f"backend {metric.get('backend')}")
    return ScalerMetric(source=MetricSource.QUERY, query=query)


def _kserve_pod_metric(metric: Mapping[str, object]) -> ScalerMetric:
    names = [_text(each) for each in _list(metric.get("metricNames"))]
    query = _text(metric.get("query"))
    if len(names) != 1 and not query:
        return ScalerMetric(source=MetricSource.OTHER, name="several metrics of pods")
    if query:
        return ScalerMetric(source=MetricSource.QUERY, query=query)
    return ScalerMetric(source=MetricSource.PODS, name=names[0])


def _at(fields: object, path: FieldPath) -> object:
    for part in path:
        fields = fields.get(part) if isinstance(fields, Mapping) else None
    return fields


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _text(value: object) -> str:
    return value if isinstance(value, str) and not is_templated(value) else ""
