"""What the answers of a survey say: which metrics there are, which labels lack, which models report."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reconciler.domain.measured.answers import Answer, NoAnswer, Sample
from reconciler.metrics.queries.expressions import LabelNames
from reconciler.metrics.queries.survey import HAS, LABELS, LACKS, METRICS, MODELS, OLDEST
from reconciler.metrics.reading.decoding import decode
from reconciler.metrics.reading.readings import Served


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What one Prometheus has now; a question without an answer found nothing.

    `metrics` are known metrics with their series, `lacking` the labels that series of replicas do without and
    `exported` those that stand in their place, each with the series that do; `models` report. `reaches_back` says
    whether there is anything as old as what a run asks for.
    """

    metrics: Mapping[str, int] = field(default_factory=dict)
    lacking: Mapping[str, int] = field(default_factory=dict)
    exported: Mapping[str, int] = field(default_factory=dict)
    models: frozenset[Served] = frozenset()
    reaches_back: bool = False


def read_survey(answers: Iterable[Answer], names: LabelNames) -> Survey:
    """The survey of one cluster, whose labels are spelled as `names`."""
    found = {answer.query.quantity: _samples(answer) for answer in answers}
    labels = found.get(LABELS, ())
    return Survey(
        metrics=_counted(found.get(METRICS, ()), "__name__"),
        lacking=_counted(labels, LACKS),
        exported=_counted(labels, HAS),
        models=frozenset(
            Served(sample.labels.get(names.namespace, ""), sample.labels.get(names.model, ""))
            for sample in found.get(MODELS, ())
        ),
        reaches_back=bool(found.get(OLDEST)),
    )


def _samples(answer: Answer) -> tuple[Sample, ...]:
    decoded = decode(answer)
    return () if isinstance(decoded, NoAnswer) else decoded


def _counted(samples: Iterable[Sample], label: str) -> dict[str, int]:
    return {sample.labels[label]: int(sample.value) for sample in samples if label in sample.labels}
