"""Hold: why something stays as it is, or changes later than it could."""

from dataclasses import dataclass
from enum import StrEnum

from reconciler.domain.answers import Absence, NoAnswer
from reconciler.domain.identity import Place, ResourceKey


class HoldKind(StrEnum):
    """What keeps a change from being proposed; `.github/docs/holds.md` says of each what to do."""

    IGNORED = "ignored"
    RESOURCE_UNREADABLE = "resource-unreadable"
    RESOURCE_UNSUPPORTED = "resource-unsupported"
    REFERENCE_MISSING = "reference-missing"
    SCALE_TARGET_MISSING = "scale-target-missing"
    SCALE_TARGET_UNREADABLE = "scale-target-unreadable"
    REPLICAS_UNWRITTEN = "replicas-unwritten"
    REPLICAS_CONTESTED = "replicas-contested"
    OWNED_BY_ANOTHER = "owned-by-another"
    NOT_WRITABLE = "not-writable"
    DRIFTED = "drifted"
    SETTINGS_CONFLICT = "settings-conflict"
    RULES_CONFLICT = "rules-conflict"
    RULE = "rule"
    RULE_UNREADABLE = "rule-unreadable"
    REFUSED = "refused"
    SERVICE_CLASS_MISSING = "service-class-missing"
    SLO_UNATTAINABLE = "slo-unattainable"
    PROFILE_MISSING = "profile-missing"
    PROFILE_CONTRADICTED = "profile-contradicted"
    PRICE_MISSING = "price-missing"
    ACCELERATOR_UNKNOWN = "accelerator-unknown"
    ACCELERATOR_UNAVAILABLE = "accelerator-unavailable"
    METRICS_MISSING = "metrics-missing"
    METRICS_STALE = "metrics-stale"
    METRICS_NAN = "metrics-nan"
    METRICS_FAILED = "metrics-failed"
    METRICS_UNATTRIBUTED = "metrics-unattributed"
    METRICS_CONTRADICTORY = "metrics-contradictory"
    LOAD_PARTIAL = "load-partial"
    HISTORY_MISSING = "history-missing"
    LENGTHS_CHANGED = "lengths-changed"
    GAUGES_CONTRADICT = "gauges-contradict"
    COUNT_IMPLAUSIBLE = "count-implausible"
    PROMPTS_UNKNOWN = "prompts-unknown"
    CAPACITY_UNKNOWN = "capacity-unknown"
    METRIC_TARGETS_MISSING = "metric-targets-missing"
    METRIC_TARGETS_UNDECIDED = "metric-targets-undecided"
    SEARCH_UNFINISHED = "search-unfinished"
    GROWTH_UNPROVEN = "growth-unproven"
    WAITING_FOR_REPLICAS = "waiting-for-replicas"
    WAITING_FOR_MERGE = "waiting-for-merge"
    WAITING_FOR_DEVICES = "waiting-for-devices"
    DECLINED = "declined"
    PUT_BACK = "put-back"
    PROMISE_BROKEN = "promise-broken"

    @property
    def is_missing_data(self) -> bool:
        """Whether something was not seen: that may hold or slow a change, never reverse it."""
        return self in _MISSING_DATA

    @property
    def is_without_metrics(self) -> bool:
        """Whether what an engine looks at was not there."""
        return self in _WITHOUT_METRICS

    @property
    def keeps_proposals(self) -> bool:
        """Whether an open pull request stays as it is meanwhile: merging it may be what ends the hold."""
        return self.is_missing_data or self in _KEEPING_PROPOSALS


_WITHOUT_METRICS = frozenset(
    {
        HoldKind.METRICS_MISSING,
        HoldKind.METRICS_STALE,
        HoldKind.METRICS_NAN,
        HoldKind.METRICS_FAILED,
        HoldKind.METRICS_UNATTRIBUTED,
    }
)
_MISSING_DATA = _WITHOUT_METRICS | {
    HoldKind.RESOURCE_UNREADABLE,
    HoldKind.METRICS_CONTRADICTORY,
    HoldKind.LOAD_PARTIAL,
    HoldKind.HISTORY_MISSING,
}

_KEEPING_PROPOSALS = (
    HoldKind.DRIFTED,
    HoldKind.GROWTH_UNPROVEN,
    HoldKind.RULE,
    HoldKind.RULE_UNREADABLE,
)

_OF_ABSENCES = {
    Absence.MISSING: HoldKind.METRICS_MISSING,
    Absence.STALE: HoldKind.METRICS_STALE,
    Absence.NAN: HoldKind.METRICS_NAN,
    Absence.FAILED: HoldKind.METRICS_FAILED,
    Absence.UNATTRIBUTED: HoldKind.METRICS_UNATTRIBUTED,
    Absence.CONTRADICTORY: HoldKind.METRICS_CONTRADICTORY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Why something stays as it is: the kind for programs, one line of words for people, and where its cause stands.

    `place` is None where the cause is in no file, or in the resource itself.
    """

    kind: HoldKind
    words: str
    place: Place | None = None

    def __str__(self) -> str:
        return self.words


NOT_ASKED = Hold(kind=HoldKind.METRICS_MISSING, words="no metrics were asked for")
"""Why a variant that nobody asked Prometheus about stays as it is."""


def hold_of(absence: NoAnswer) -> Hold:
    """The hold that the lack of an answer amounts to."""
    return Hold(kind=_OF_ABSENCES[absence.absence], words=absence.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenResource:
    """A resource that cannot be used, and why: shown as held, its scale target counted as it stands."""

    key: ResourceKey
    place: Place
    reason: str

    @property
    def hold(self) -> Hold:
        """Why nothing can be decided about it."""
        return Hold(kind=HoldKind.RESOURCE_UNREADABLE, words=self.reason, place=self.place)
