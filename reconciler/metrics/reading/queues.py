"""What waits before an endpoint picker: its series may lack a namespace, and in old versions a model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.domain.identity import ModelKey
from reconciler.domain.measured.replicas import UpstreamQueue
from reconciler.domain.snapshot import Variant
from reconciler.metrics.quantities.quantity import Name
from reconciler.metrics.reading.attribution import served_by
from reconciler.metrics.reading.decoding import is_usable, printable
from reconciler.metrics.reading.readings import MetricReadings, Served

ModelName = tuple[str, str]
"""Namespace and id of a model, whatever its role: prefill and decode wait in one queue."""


@dataclass(slots=True, kw_only=True)
class _Part:
    """The sum of a model's series, or why it is not known."""

    value: float = 0.0
    reason: str = ""


Meant = Mapping[Served, frozenset[ModelName]]
"""Models that a series may be about, by its namespace and model label; a series may lack either."""


def queues_of(variants: Sequence[Variant], readings: MetricReadings) -> dict[ModelKey, UpstreamQueue]:
    """The queue of each model that a picker tells of; a reason for all when the picker could not be asked."""
    keys = sorted({variant.model for variant in variants})
    if Name.FLOW_CONTROL_QUEUE_SIZE in readings.failed:
        failed = UpstreamQueue(reason=readings.failed[Name.FLOW_CONTROL_QUEUE_SIZE].reason)
        return dict.fromkeys(keys, failed)
    names = _names(variants)
    sizes = _parts(Name.FLOW_CONTROL_QUEUE_SIZE, names, readings)
    lengths = _parts(Name.FLOW_CONTROL_QUEUE_BYTES, names, readings)
    unread = readings.failed.get(Name.FLOW_CONTROL_QUEUE_BYTES)
    unread_part = _Part(reason=unread.reason) if unread else None
    shares = {variant.model: variant.share for variant in variants if variant.share is not None}
    return {
        key: _queue(sizes.get(_model_name(key)), lengths.get(_model_name(key)) or unread_part, shares.get(key, 1.0))
        for key in keys
        if _model_name(key) in sizes or _model_name(key) in lengths
    }


def _queue(size: _Part | None, length: _Part | None, share: float) -> UpstreamQueue:
    parts = [part for part in (size, length) if part]
    return UpstreamQueue(
        num_waiting=size.value * share if size and not size.reason else None,
        waiting_bytes=length.value * share if length and not length.reason else None,
        reason="; ".join(dict.fromkeys(part.reason for part in parts if part.reason)),
    )


def _parts(name: Name, names: Meant, readings: MetricReadings) -> dict[ModelName, _Part]:
    parts: dict[ModelName, _Part] = {}
    for series, value in sorted(readings.per_model.get(name, {}).items()):
        meant = names.get(series, frozenset())
        reason = _why_unknown(name, series, value, meant)
        for model in meant:
            part = parts.setdefault(model, _Part())
            part.reason = part.reason or reason
            part.value += 0.0 if reason else value
    return parts


def _why_unknown(name: Name, series: Served, value: float, meant: frozenset[ModelName]) -> str:
    if not is_usable(value):
        return f"the endpoint picker reports {value} as {name}"
    if len(meant) < 2 or value == 0:
        return ""  # where nothing waits, nothing waits for any of them
    lacks = "namespace" if series.model else "model"
    whose = " and ".join(printable(f"{namespace}/{model}") for namespace, model in sorted(meant))
    return f"the endpoint picker's queue names no {lacks}: it may be that of {whose}, so it counts for none"


def _names(variants: Sequence[Variant]) -> Meant:
    models: dict[Served, set[ModelName]] = {}
    for variant in variants:
        for served in served_by(variant):
            for alike in _less_and_less(served):
                models.setdefault(alike, set()).add(_model_name(variant.model))
    return {served: frozenset(found) for served, found in models.items()}


def _less_and_less(served: Served) -> Iterator[Served]:
    yield served
    yield served._replace(namespace="")
    yield served._replace(model="")
    yield Served("", "")


def _model_name(key: ModelKey) -> ModelName:
    return key.namespace, key.model_id
