"""Status blocks and mappings that are inserted into manifests.

Formulas and defaults: rules/status.md.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from functools import lru_cache

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.plan import RATE, Decision, Evidence, Outcome
from reconciler.domain.records import dataclass, replace
from reconciler.domain.snapshot import Condition, StatusShape
from reconciler.domain.units import ms_from_seconds, per_minute_from_per_second
from reconciler.manifests.documents import Value
from reconciler.report.formatting import one_line

_STEP = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A key and the text of its value."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EntriesView:
    """What the templates of inserted mappings print."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorsView:
    """What the template of an order of flavors prints."""

    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEntryView:
    """What the template of a kustomization's count prints."""

    name: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a block of YAML: `indent` ends with a dash where an item begins, which may have no key.

    With `is_open` the value stands on the lines below; one that `is_number` stands without quotes.
    """

    indent: str
    key: str = ""
    value: str = ""
    is_open: bool = False
    is_number: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldsView:
    """What the template of nested fields prints."""

    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayPatchView:
    """What the template of a patch of ours prints: for whom it is, and its fields."""

    kind: str
    name: str
    verb: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchListView:
    """What the template of a kustomization's list of patches prints."""

    path: str


def lines_of(value: Value) -> tuple[Line, ...]:
    """The lines of a mapping or list of texts, mappings and lists; none of them may be empty."""
    return tuple(_lines(value, ""))


def _lines(value: Value, indent: str) -> Iterator[Line]:
    if isinstance(value, dict):
        for key, member in value.items():
            if isinstance(member, dict | list):
                yield Line(indent=indent, key=key, is_open=True)
                yield from _lines(member, indent + _STEP)
            else:
                yield Line(indent=indent, key=key, value=str(member), is_number=isinstance(member, int))
    elif isinstance(value, list):
        for item in value:
            first, *rest = _lines(item, indent + _STEP)
            yield replace(first, indent=f"{indent}- ")
            yield from rest
    else:
        yield Line(indent=indent, value=str(value))


def entries_view(entries: Mapping[str, str]) -> EntriesView:
    """The entries, sorted by key."""
    return EntriesView(entries=tuple(Entry(key=key, value=value) for key, value in sorted(entries.items())))


# Nothing is written that the resource's schema rejects; sources are the two API references of `llmd.ai/v1alpha1`.

ACCELERATOR_LENGTH = 2
"""minLength of desiredOptimizedAlloc.accelerator in every version."""

LEAST_REPLICAS: Mapping[StatusShape, int] = {StatusShape.FULL: 0, StatusShape.TTFT: 0, StatusShape.TARGET: 1}
"""Minimum of desiredOptimizedAlloc.numReplicas."""

TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})")


_REASONS_WITHOUT_METRICS: Mapping[HoldKind, str] = {
    HoldKind.METRICS_STALE: "MetricsStale",
    HoldKind.METRICS_FAILED: "PrometheusError",
}
_REASONS_OF_HOLDS: Mapping[HoldKind, str] = {
    **dict.fromkeys(
        (
            HoldKind.RESOURCE_UNREADABLE,
            HoldKind.RESOURCE_UNSUPPORTED,
            HoldKind.REFERENCE_MISSING,
            HoldKind.SCALE_TARGET_MISSING,
            HoldKind.SCALE_TARGET_UNREADABLE,
            HoldKind.REPLICAS_UNWRITTEN,
            HoldKind.REPLICAS_CONTESTED,
            HoldKind.SETTINGS_CONFLICT,
            HoldKind.RULES_CONFLICT,
            HoldKind.SERVICE_CLASS_MISSING,
            HoldKind.PROFILE_MISSING,
            HoldKind.METRIC_TARGETS_MISSING,
        ),
        "InvalidConfiguration",
    ),
    **dict.fromkeys(
        (HoldKind.SLO_UNATTAINABLE, HoldKind.CAPACITY_UNKNOWN, HoldKind.SEARCH_UNFINISHED), "OptimizationFailed"
    ),
}
"""Upstream's reason for what keeps a variant as it is; of any other it says that it was skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAllocation:
    """`currentAlloc`: numbers with two decimals, times in ms, arrivals per minute."""

    accelerator: str
    replicas: int
    max_batch: int
    cost: str
    itl_ms: str
    wait_ms: str
    ttft_ms: str
    arrivals_per_minute: str
    input_tokens: str
    output_tokens: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusView:
    """What the status templates print; `current` is None where one of its fields is not known: all are required.

    The times of the actuation are somebody else's, and stay as they are.
    """

    template: str
    current: CurrentAllocation | None
    last_run_time: str
    accelerator: str
    replicas: int
    is_applied: bool = False
    conditions: tuple[Condition, ...] = field(default=())
    last_attempt_time: str = ""
    last_success_time: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusOmission:
    """Why no status is written."""

    reason: str


def status_view(
    decision: Decision, *, now_s: float, previous: Iterable[Condition] = (), written: object = None
) -> StatusView | StatusOmission:
    """The status of one decision, `written` being the one in Git.

    `previous` are the conditions there: ours keep their time unless their status flips, those of others stay.
    """
    kept, shape = tuple(previous), decision.status_shape
    reason = why_no_status(decision, kept, written)
    if reason or shape is None:
        return StatusOmission(reason=reason)
    moment = rfc3339(now_s)
    return StatusView(
        template=f"manifests/variantautoscaling-status-{shape}.yaml.j2",
        current=_current(decision, shape),
        last_run_time=moment,
        accelerator=decision.desired.accelerator,
        replicas=decision.desired.replicas,
        is_applied=decision.is_applied is True,
        conditions=() if shape is StatusShape.FULL else _conditions(decision, moment, kept),
        last_attempt_time=_time_at(written, "actuation", "lastAttemptTime"),
        last_success_time=_time_at(written, "actuation", "lastSuccessTime"),
    )


def why_no_status(decision: Decision, previous: Sequence[Condition], written: object) -> str:
    """Why no status of a decision can be written; empty where one can."""
    shape, accelerator = decision.status_shape, decision.desired.accelerator
    if shape is None:
        return "its kind has no status of ours"
    if len(accelerator) < ACCELERATOR_LENGTH:
        return f'status.desiredOptimizedAlloc.accelerator: "{accelerator}" is under 2 characters'
    if decision.desired.replicas < LEAST_REPLICAS[shape]:
        return "status.desiredOptimizedAlloc.numReplicas: its schema has no 0"
    told = _at(written, "conditions")
    if isinstance(told, list) and len(told) != len(previous):
        return "status.conditions: one of them is no condition, and would be lost"
    return ""


def is_news(view: StatusView, decision: Decision, *, previous: Iterable[Condition], written: object) -> bool:
    """Whether a status says what the one in Git does not; only then it rides with the changes of others.

    A variant that stays as it is has news where a condition flips, or other numbers stand there, or the cluster runs
    them by now; a held one wherever its words differ, even where it had no status yet.
    """
    if written is not None:
        numbers = (
            _at(written, "desiredOptimizedAlloc", "accelerator"),
            _at(written, "desiredOptimizedAlloc", "numReplicas"),
        )
        applied = _at(written, "actuation", "applied")
        is_told = decision.is_applied is None or applied in (None, decision.is_applied)
        if numbers != (view.accelerator, view.replicas) or not is_told:
            return True
    if decision.outcome is Outcome.HELD:
        before = {each.type: each for each in previous}
        return any(_said(each) != _said(before.get(each.type)) for each in view.conditions)
    return any(flips(view, previous))


def flips(view: StatusView, previous: Iterable[Condition]) -> Iterator[tuple[Condition, Condition]]:
    """The conditions that stand in Git with another status, as there and as now; one that is new does not flip."""
    before = {each.type: each for each in previous}
    for each in view.conditions:
        if each.type in before and each.status != before[each.type].status:
            yield before[each.type], each


def _said(condition: Condition | None) -> tuple[str, str, str] | None:
    return None if condition is None else (condition.status, condition.reason, condition.message)


def _at(value: object, *path: str) -> object:
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _time_at(written: object, *path: str) -> str:
    found = _at(written, *path)
    return found if isinstance(found, str) and TIME.fullmatch(found) else ""


@lru_cache(maxsize=16)  # every status of a plan has the same time
def rfc3339(time_s: float) -> str:
    """Unix seconds as Kubernetes writes times: UTC, whole seconds."""
    return datetime.fromtimestamp(time_s, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unix_s(text: str) -> float:
    """The time that `rfc3339` wrote, in Unix seconds; ValueError for any other text."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()


def _current(decision: Decision, shape: StatusShape) -> CurrentAllocation | None:
    observed, load = decision.observed, decision.load
    if shape is StatusShape.TARGET or not decision.metrics_available or observed is None or load is None:
        return None
    if not decision.current.accelerator or decision.max_batch_size is None:
        return None
    current = CurrentAllocation(
        accelerator=decision.current.accelerator,
        replicas=decision.current.replicas,
        max_batch=decision.max_batch_size,
        cost=_decimal(decision.cost_before_per_hour),
        itl_ms=_decimal(_ms(observed.itl_s)),
        wait_ms=_decimal(_ms(observed.wait_s)),
        ttft_ms=_decimal(_ms(observed.ttft_s)),
        arrivals_per_minute=_decimal(per_minute_from_per_second(load.arrival_rate_per_s)),
        input_tokens=_decimal(load.input_tokens),
        output_tokens=_decimal(load.output_tokens),
    )
    return current if all(_required(current, shape)) else None


def _required(current: CurrentAllocation, shape: StatusShape) -> tuple[str, ...]:
    both = (current.cost, current.itl_ms, current.arrivals_per_minute, current.output_tokens)
    if shape is StatusShape.TTFT:
        return (*both, current.ttft_ms, current.input_tokens)
    return (*both, current.wait_ms)


def _conditions(decision: Decision, moment: str, previous: Sequence[Condition]) -> tuple[Condition, ...]:
    """Ours in the places where they stand, or behind all others."""
    before = {condition.type: condition for condition in previous}
    ours = {
        kind: Condition(
            type=kind,
            status=status,
            reason=reason,
            message=message,
            last_transition_time=_transition_time(before.get(kind), status, moment),
            observed_generation=before[kind].observed_generation if kind in before else None,
        )
        for kind, status, reason, message in (_metrics_condition(decision), _optimization_condition(decision))
    }
    stayed = [ours.pop(each.type, each) for each in previous]
    return (*stayed, *ours.values())


_AVAILABLE: Mapping[Evidence | None, str] = {
    Evidence.SATURATION: "Saturation metrics data is available for scaling decisions",
    Evidence.QUEUE: "Queue metrics data is available for scaling decisions, KV cache usage is not",
    Evidence.PENDING: "Queue metrics data is available for scaling decisions",
    Evidence.LOAD: "Load metrics data is available for scaling decisions",
    None: "Metrics data is available for scaling decisions",
}
"""The first is upstream's, which knows no other engine than saturation."""


def _metrics_condition(decision: Decision) -> tuple[str, str, str, str]:
    kind = "MetricsAvailable"
    if _is_from_zero(decision):
        return kind, "True", "ScaleFromZero", "Scaled from zero due to pending requests"
    if decision.metrics_available:
        return kind, "True", "MetricsAvailable", _AVAILABLE[decision.evidence]
    reason = _REASONS_WITHOUT_METRICS.get(decision.hold.kind) if decision.hold is not None else None
    if reason is not None:
        return kind, "False", reason, one_line(str(decision.hold))
    message = "No saturation metrics available - pods may not be ready or metrics not yet scraped"
    return kind, "False", "MetricsUnavailable", message


def _optimization_condition(decision: Decision) -> tuple[str, str, str, str]:
    kind, is_early = "OptimizationReady", decision.status_shape is StatusShape.TTFT
    kept = decision.hold or decision.waiting
    # What replicas were measured to do keeps every one of them, whatever a profile expects.
    overrides = (HoldKind.PROFILE_CONTRADICTED, *([HoldKind.TARGET_MISSED] if decision.unit == RATE else ()))
    if decision.metrics_available and kept is not None and kept.kind in overrides:
        reason = "CapacitySafetyOverride" if is_early else "SaturationSafetyOverride"
        return kind, "True", reason, one_line(f"saturation safety override: {kept}")
    if decision.outcome is Outcome.HELD:
        reason = _reason_of(decision.hold) if decision.metrics_available else "MetricsUnavailable"
        return kind, "False", reason, one_line(str(decision.hold or "held"))
    if decision.outcome is Outcome.UNCHANGED:
        return kind, "True", "OptimizationSucceeded", "Optimization loop ran (no scaling change needed)"
    words = f"decision: {_direction(decision)} (target: {decision.desired.replicas} replicas)"
    if _is_from_zero(decision):
        return kind, "True", "ScaleFromZeroMode", f"scalefromzero {words}"
    if decision.unit != RATE:  # its latency is not known: sized by how full replicas are
        return kind, "True", "CapacityOnlyMode" if is_early else "SaturationOnlyMode", f"saturation-only {words}"
    return kind, "True", "OptimizationSucceeded", f"model-based {words}"


def _is_from_zero(decision: Decision) -> bool:
    """Whether requests that wait start the first replica; upstream has reasons for it since the target form."""
    is_started = decision.evidence is Evidence.PENDING and decision.outcome is Outcome.CHANGE
    return is_started and decision.desired.replicas > 0 and decision.status_shape is StatusShape.TARGET


def _reason_of(hold: Hold | None) -> str:
    return "SkippedProcessing" if hold is None else _REASONS_OF_HOLDS.get(hold.kind, "SkippedProcessing")


def _direction(decision: Decision) -> str:
    difference = decision.desired.replicas - decision.current.replicas
    if difference == 0:
        return "accelerator change"
    return "scale-up decision" if difference > 0 else "scale-down decision"


def _transition_time(before: Condition | None, status: str, moment: str) -> str:
    if before is None or before.status != status or not TIME.fullmatch(before.last_transition_time):
        return moment
    return before.last_transition_time


def _ms(value_s: float | None) -> float | None:
    return None if value_s is None else ms_from_seconds(value_s)


def _decimal(value: float | None) -> str:
    """Two decimals as `^\\d+(\\.\\d+)?$` wants them; empty when there is no such number."""
    if value is None or not math.isfinite(value) or value < 0:
        return ""
    return f"{abs(value):.2f}"


_MEASURED = re.compile(
    rb"\b(?:last(?:Run|Transition|Attempt|Success)Time|(?:itl|wait|ttft)Average|arrivalRate|avg[A-Z][A-Za-z]+|message"
    rb"|reconciler\.io/measured)"
    rb'(?:\\")?: \\?"[^"\\\n]*'
)
_APPLYING_JOB = re.compile(rb"(reconciler-status-[0-9a-f]{8})-[0-9a-f]{8}\b")


def without_measured(content: bytes) -> bytes:
    """A manifest with 0 for each number in it that another run measures anew: of its statuses, and of a canary."""
    zeroed = _MEASURED.sub(lambda found: re.sub(rb"\d+(?:\.\d+)?", b"0", found[0]), content)
    return _APPLYING_JOB.sub(rb"\1", zeroed)


# The manifests that deliver statuses to a cluster.

KUBECTL = "registry.k8s.io/kubectl:v1.34.1"
"""The first that can apply a subresource without a flag of its own is 1.32."""


CARRIER = "reconciler-status-"
"""How the names of all objects that deliver a status begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredStatus:
    """A status of one resource, as the manifest that kubectl applies: JSON, which is YAML too."""

    resource: str
    file: str
    manifest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusDeliveryView:
    """The carrier, its Job and the rights of that Job; a hook of Argo CD where `is_hook`."""

    name: str
    target_namespace: str
    job: str
    statuses: tuple[DeliveredStatus, ...]
    is_hook: bool
    image: str = KUBECTL


@dataclass(frozen=True, slots=True, kw_only=True)
class FluxDeliveryView:
    """The Flux Kustomization that applies the carrier once the one it waits for is healthy."""

    name: str
    home_namespace: str
    path: str
    awaited: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceEntryView:
    """The entry by which a kustomization lists a file of ours."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyView:
    """The first line of a canary's manifest: what it is a copy of, and what it tries."""

    original: str
    accelerator: str


def delivered_status(
    *, api_version: str, kind: str, name: str, namespace: str, status: Mapping[str, object]
) -> DeliveredStatus:
    """One status with what identifies its resource."""
    manifest = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "status": status,
    }
    return DeliveredStatus(resource=name, file=f"{name}.json", manifest=json.dumps(manifest, sort_keys=True))


def delivery_view(
    group: str, directory: str, namespace: str, statuses: tuple[DeliveredStatus, ...], *, is_flux: bool
) -> StatusDeliveryView:
    """The carrier of a group in one directory and namespace.

    A hook is replaced by name. A Job that Flux applies cannot change, so its name says what it applies.
    """
    name = carrier_name(group, directory, namespace)
    view = StatusDeliveryView(name=name, target_namespace=namespace, job=name, statuses=statuses, is_hook=not is_flux)
    contents = (each.manifest for each in statuses)
    return replace(view, job=f"{name}-{_digest(*contents, KUBECTL)}") if is_flux else view


def carrier_name(group: str, directory: str, namespace: str) -> str:
    """What all objects are called that deliver the statuses of a group in one directory and namespace."""
    return f"{CARRIER}{_digest(group, directory, namespace)}"


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:8]
