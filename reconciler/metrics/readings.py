"""The answers of one cluster, decoded one at a time and folded into numbers by pod and by model."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from reconciler.domain.answers import Absence, Answer, NoAnswer, Sample
from reconciler.metrics.decoding import decode, is_usable, warnings_of
from reconciler.metrics.expressions import LabelNames
from reconciler.metrics.quantities import (
    ESSENTIAL,
    PICKER_MODEL,
    PICKER_TARGET_MODEL,
    POD_LABEL_OF_VARIANT,
    VARIANT_LABEL,
    Name,
)


class PodSeries(NamedTuple):
    """What one replica reports of one served model; `variant` is the label of that meaning, mostly empty."""

    namespace: str
    pod: str
    model: str
    variant: str


class Served(NamedTuple):
    """A model as metrics name it, in a namespace."""

    namespace: str
    model: str


class Named(NamedTuple):
    """A pod or ReplicaSet."""

    namespace: str
    name: str


NOTHING: Mapping[PodSeries, float] = {}


@dataclass(slots=True, kw_only=True)
class Readings:
    """One cluster's numbers by quantity; what could not be read is in `failed`, what was not asked is nowhere."""

    per_pod: dict[Name, dict[PodSeries, float]] = field(default_factory=dict)
    per_model: dict[Name, dict[Served, float]] = field(default_factory=dict)
    owners: dict[Name, dict[Named, str]] = field(default_factory=dict)
    failed: dict[Name, NoAnswer] = field(default_factory=dict)
    answered: set[Name] = field(default_factory=set)
    warnings: dict[str, None] = field(default_factory=dict)

    def of_pods(self, name: Name) -> Mapping[PodSeries, float]:
        """A quantity's values by pod, empty without an answer."""
        return self.per_pod.get(name, NOTHING)

    def of_model(self, name: Name, served: Served) -> float | None:
        """A quantity of one served model, None when there is no series."""
        return self.per_model.get(name, {}).get(served)

    def owner_of(self, name: Name, named: Named) -> str:
        """The owner that `name` (pod_labels, pod_owner, replicaset_owner) tells of a pod or ReplicaSet, or nothing."""
        return self.owners.get(name, {}).get(named, "")

    @property
    def obstacle(self) -> NoAnswer | None:
        """Why nothing about this cluster can be trusted, None when every essential quantity was answered."""
        for name in sorted(ESSENTIAL):
            if name in self.failed:
                return self.failed[name]
            if name not in self.answered:
                return NoAnswer(absence=Absence.FAILED, reason=f"Prometheus was not asked for {name}")
        return None


def read(answers: Sequence[Answer], names: LabelNames) -> Readings:
    """Every answer of one cluster; those to one quantity that was split are put together."""
    readings = Readings()
    for answer in answers:
        name = Name(answer.query.quantity) if answer.query.quantity in FOLDS else None
        if name is not None:
            _read_one(answer, name, names, readings)
    _total_by_model(readings)
    return readings


def total(values: Sequence[float]) -> float:
    """The sum, NaN as soon as one of the values cannot be reckoned with."""
    return math.fsum(values) if all(map(is_usable, values)) else math.nan


def _read_one(answer: Answer, name: Name, names: LabelNames, readings: Readings) -> None:
    samples = decode(answer)
    failed = samples if isinstance(samples, NoAnswer) else FOLDS[name](samples, name, names, readings)
    if failed:
        readings.failed.setdefault(name, failed)
    readings.answered.add(name)
    readings.warnings.update(dict.fromkeys(warnings_of(answer)))


def _fold_pods(samples: Sequence[Sample], name: Name, names: LabelNames, readings: Readings) -> NoAnswer | None:
    values = readings.per_pod.setdefault(name, {})
    for sample in samples:
        label = sample.labels.get
        series = PodSeries(
            label(names.namespace, ""), label(names.pod, ""), label(names.model, ""), label(VARIANT_LABEL, "")
        )
        if series in values:
            return _twice(name, f"pod {series.pod}")
        values[series] = sample.value
    return None


def _fold_models(samples: Sequence[Sample], name: Name, names: LabelNames, readings: Readings) -> NoAnswer | None:
    values = readings.per_model.setdefault(name, {})
    for sample in samples:
        served = Served(sample.labels.get(names.namespace, ""), sample.labels.get(names.model, ""))
        if served in values:
            return _twice(name, f"model {served.model}")
        values[served] = sample.value
    return None


def _fold_picker(samples: Sequence[Sample], name: Name, names: LabelNames, readings: Readings) -> None:
    # requests land on the target model; clients may ask for it under several names, so those add up
    _add_up(
        readings.per_model.setdefault(name, {}),
        samples,
        lambda labels: Served(
            labels.get(names.namespace, ""), labels.get(PICKER_TARGET_MODEL) or labels.get(PICKER_MODEL, "")
        ),
    )


def _fold_configured(samples: Sequence[Sample], name: Name, names: LabelNames, readings: Readings) -> None:
    # a query that a person wrote may carry our label names instead of the server's, and labels beyond them
    plain = LabelNames()
    _add_up(
        readings.per_model.setdefault(name, {}),
        samples,
        lambda labels: Served(
            labels.get(names.namespace) or labels.get(plain.namespace, ""),
            labels.get(names.model) or labels.get(plain.model) or labels.get("model", ""),
        ),
    )


def _add_up(
    values: dict[Served, float], samples: Sequence[Sample], served_of: Callable[[Mapping[str, str]], Served]
) -> None:
    for sample in samples:
        served = served_of(sample.labels)
        values[served] = total((values.get(served, 0.0), sample.value))


def _fold_pod_labels(samples: Sequence[Sample], name: Name, names: LabelNames, readings: Readings) -> None:
    _fold_owners(samples, readings.owners.setdefault(name, {}), names, names.pod, POD_LABEL_OF_VARIANT)


def _fold_pod_owner(samples: Sequence[Sample], name: Name, names: LabelNames, readings: Readings) -> None:
    _fold_owners(samples, readings.owners.setdefault(name, {}), names, names.pod, "owner_name")


def _fold_replicaset_owner(samples: Sequence[Sample], name: Name, names: LabelNames, readings: Readings) -> None:
    _fold_owners(samples, readings.owners.setdefault(name, {}), names, "replicaset", "owner_name")


def _fold_owners(
    samples: Sequence[Sample], owners: dict[Named, str], names: LabelNames, owned: str, owner: str
) -> None:
    for sample in samples:
        named = Named(sample.labels.get(names.namespace, ""), sample.labels.get(owned, ""))
        found = sample.labels.get(owner, "")
        # two owners of one pod contradict each other: neither is believed
        owners[named] = found if owners.get(named, found) == found else ""


def _twice(name: Name, whose: str) -> NoAnswer:
    return NoAnswer(absence=Absence.FAILED, reason=f"the answer to {name} has two values for {whose}")


def _total_by_model(readings: Readings) -> None:
    """Completions, running and waiting by model: they are asked by pod and needed as both."""
    for name in (Name.COMPLETIONS, Name.RUNNING, Name.WAITING):
        gathered: dict[Served, list[float]] = {}
        for series, value in readings.of_pods(name).items():
            gathered.setdefault(Served(series.namespace, series.model), []).append(value)
        readings.per_model[name] = {served: total(values) for served, values in gathered.items()}


Fold = Callable[[Sequence[Sample], Name, LabelNames, Readings], NoAnswer | None]

FOLDS: Mapping[str, Fold] = {
    Name.RUNNING: _fold_pods,
    Name.WAITING: _fold_pods,
    Name.LAST_SEEN: _fold_pods,
    Name.COMPLETIONS: _fold_pods,
    Name.ITL: _fold_pods,
    Name.WAIT: _fold_pods,
    Name.TTFT: _fold_pods,
    Name.OUTPUT_TOKENS: _fold_models,
    Name.INPUT_TOKENS: _fold_models,
    Name.QUEUE_GROWTH: _fold_models,
    Name.ARRIVALS_ENDPOINT_PICKER: _fold_picker,
    Name.ARRIVALS_CONFIGURED: _fold_configured,
    Name.POD_LABELS: _fold_pod_labels,
    Name.POD_OWNER: _fold_pod_owner,
    Name.REPLICASET_OWNER: _fold_replicaset_owner,
}
