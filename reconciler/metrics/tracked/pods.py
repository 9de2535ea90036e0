"""Whose a pod is: the backend whose labels it has, else, where labels are not exported, the one its name tells."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.domain.declared.tracking import LabelOperator, LabelRequirement, LabelSelector, TrackedBackend
from reconciler.domain.measured.answers import Answer, NoAnswer
from reconciler.metrics.queries.expressions import LabelNames, exported_label
from reconciler.metrics.reading.attribution import ANY_ROLE, LONGEST_NAME
from reconciler.metrics.reading.decoding import decode
from reconciler.metrics.reading.readings import ObjectName
from reconciler.resources.kinds import ROLE
from reconciler.resources.registry import KINDS

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLabels:
    """The labels of pods as kube-state-metrics exports them, and which it `exports` at all.

    A pod whose labels changed is in `changed`: nobody knows when.
    """

    of_pod: Mapping[ObjectName, Labels]
    exports: frozenset[str]
    changed: frozenset[ObjectName]
    failed: NoAnswer | None = None


def read_pod_labels(answers: Sequence[Answer], names: LabelNames) -> PodLabels:
    """The labels of every pod that was there within the time asked about."""
    of_pod: dict[ObjectName, Labels] = {}
    changed: set[ObjectName] = set()
    failed: NoAnswer | None = None
    for answer in answers:
        samples = decode(answer)
        if isinstance(samples, NoAnswer):
            failed = failed or samples
            continue
        for sample in samples:
            pod = ObjectName(sample.labels.get(names.namespace, ""), sample.labels.get(names.pod, ""))
            labels = {name: value for name, value in sample.labels.items() if name.startswith("label_")}
            if of_pod.setdefault(pod, labels) != labels:
                changed.add(pod)
    exports = frozenset(name for labels in of_pod.values() for name in labels)
    return PodLabels(of_pod=of_pod, exports=exports, changed=frozenset(changed), failed=failed)


def is_selected(requirements: Iterable[LabelRequirement], pod: ObjectName, known: PodLabels) -> bool | None:
    """Whether a pod has the labels that are asked for; None where nobody knows."""
    verdicts = [_holds(requirement, pod, known) for requirement in requirements]
    if False in verdicts:
        return False
    return None if None in verdicts else True


def _holds(requirement: LabelRequirement, pod: ObjectName, known: PodLabels) -> bool | None:
    label = exported_label(requirement.key)
    asks_absence = requirement.operator in (LabelOperator.NOT_IN, LabelOperator.DOES_NOT_EXIST)
    if pod in known.changed or (label not in known.exports and not asks_absence):
        return None
    value = known.of_pod.get(pod, {}).get(label)
    if requirement.operator is LabelOperator.EXISTS:
        return value is not None
    if requirement.operator is LabelOperator.DOES_NOT_EXIST:
        return value is None
    return (value in requirement.values) is (requirement.operator is LabelOperator.IN)


def unexported(requirements: Iterable[LabelRequirement], known: PodLabels) -> tuple[str, ...]:
    """The labels that no pod of the cluster is said to have."""
    return tuple(sorted({each.key for each in requirements if exported_label(each.key) not in known.exports}))


def find_pods(
    backends: Sequence[TrackedBackend], pods: Iterable[ObjectName], known: PodLabels
) -> list[list[ObjectName]]:
    """The pods of each backend, in order; a pod may count for several backends, where their labels overlap."""
    found: list[list[ObjectName]] = [[] for _ in backends]
    by_label, by_name = _ByLabel(backends), _ByName(backends)
    for pod in sorted(pods):
        named = set(by_name.find(pod))
        for index in sorted(named.union(by_label.find(pod, known))):
            selector = LabelSelector(match_labels=backends[index].pod_labels)
            verdict = is_selected(selector.requirements, pod, known)
            if verdict or (verdict is None and index in named):
                found[index].append(pod)
    return found


class _ByLabel:
    """Backends by the label value that fewest of them ask for: one look-up a label of a pod."""

    def __init__(self, backends: Sequence[TrackedBackend]) -> None:
        asked = [
            [
                (each.scale_target.namespace, exported_label(key), value)
                for key, value in sorted(each.pod_labels.items())
            ]
            for each in backends
        ]
        count = Counter(label for labels in asked for label in labels)
        self._backends: dict[tuple[str, str, str], list[int]] = {}
        for index, labels in enumerate(asked):
            if labels:
                self._backends.setdefault(min(labels, key=lambda label: (count[label], label)), []).append(index)

    def find(self, pod: ObjectName, known: PodLabels) -> Iterator[int]:
        for label, value in known.of_pod.get(pod, {}).items():
            yield from self._backends.get((pod.namespace, label, value), ())


class _ByName:
    """Backends by the name of their scale target, which begins the names of its pods; the longest one wins."""

    def __init__(self, backends: Sequence[TrackedBackend]) -> None:
        self._backends: dict[ObjectName, list[int]] = {}
        self._endings: list[re.Pattern[str] | None] = []
        for index, backend in enumerate(backends):
            target = backend.scale_target
            self._backends.setdefault(ObjectName(target.namespace, target.name), []).append(index)
            ending = KINDS[target.kind].pod_names if target.kind in KINDS else ""
            role = re.escape(target.part) if target.part else ANY_ROLE
            self._endings.append(re.compile(ending.replace(ROLE, role)) if ending else None)

    def find(self, pod: ObjectName) -> list[int]:
        end = pod.name.rfind("-") if len(pod.name) <= LONGEST_NAME else -1
        while end > 0:
            named = self._backends.get(ObjectName(pod.namespace, pod.name[:end]), ())
            found = [index for index in named if (ending := self._endings[index]) and ending.fullmatch(pod.name, end)]
            if found:
                return found
            end = pod.name.rfind("-", 0, end)
        return []
