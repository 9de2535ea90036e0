"""Hold: why something stays as it is, or changes later than it could."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from reconciler.domain.answers import Absence, NoAnswer
from reconciler.domain.identity import Place, ResourceKey
from reconciler.domain.records import dataclass


class HoldKind(StrEnum):
    """What keeps a change from being proposed; `CURES` and `.github/docs/holds.md` say what to do."""

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
    TARGET_MISSED = "target-missed"
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
    POOL_FULL = "pool-full"
    DECLINED = "declined"
    PUT_BACK = "put-back"
    PROMISE_BROKEN = "promise-broken"
    AUTOSCALER_METRIC = "autoscaler-metric"
    AUTOSCALER_NOT_REPRODUCED = "autoscaler-not-reproduced"
    AUTOSCALER_CHANGED = "autoscaler-changed"

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
    """Why something stays as it is: the kind for programs, one line of words for people, and the place of its cause.

    `place` is None where the cause is in no file, or in the resource itself. `is_daily`: only the one run a day that
    looks at its autoscaler can say so, and what is compared from run to run leaves it out.
    """

    kind: HoldKind
    words: str
    place: Place | None = None
    is_daily: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True, kw_only=True)
class Cure:
    """What to do about a kind of hold.

    `is_needed` is false where it is a choice, or ends without help. `is_failure`: nothing works until it is done.
    `is_in_settings`: it is done in reconciler.yaml, not at the place of the cause.
    """

    words: str
    is_needed: bool = True
    is_failure: bool = False
    is_in_settings: bool = False


CURES: Mapping[HoldKind, Cure] = {
    HoldKind.IGNORED: Cure(words="remove the annotation or setting that it names", is_needed=False),
    HoldKind.RESOURCE_UNREADABLE: Cure(
        words="fix the resource here; `reconciler validate` lists everything that is wrong with it", is_failure=True
    ),
    HoldKind.RESOURCE_UNSUPPORTED: Cure(words="annotate it with reconciler.io/ignore, or use what is supported"),
    HoldKind.REFERENCE_MISSING: Cure(words="commit what it names, or correct the name here", is_failure=True),
    HoldKind.SCALE_TARGET_MISSING: Cure(
        words="commit it, correct scaleTargetRef here, or set helmValues in reconciler.yaml", is_failure=True
    ),
    HoldKind.SCALE_TARGET_UNREADABLE: Cure(words="fix the scale target here", is_failure=True),
    HoldKind.REPLICAS_UNWRITTEN: Cure(words="write the number that runs now as spec.replicas here"),
    HoldKind.REPLICAS_CONTESTED: Cure(words="delete all of them but one", is_failure=True),
    HoldKind.OWNED_BY_ANOTHER: Cure(
        words="delete the owner in the commit that writes the live count into Git, or set whenAutoscaled: bounds in "
        "reconciler.yaml"
    ),
    HoldKind.NOT_WRITABLE: Cure(
        words="give the number a field of its own: `replicas:` in the overlay's kustomization, or a marker comment "
        "`# reconciler.io/replicas` after it"
    ),
    HoldKind.DRIFTED: Cure(
        words="find out what writes them (kubectl get deployment -o yaml --show-managed-fields), stop it, and write "
        "the live count into Git here"
    ),
    HoldKind.SETTINGS_CONFLICT: Cure(words="change one of the two, or remove the annotation", is_failure=True),
    HoldKind.RULES_CONFLICT: Cure(words="relax one of the rules it names", is_failure=True),
    HoldKind.RULE: Cure(words="wait, or change the rule that it names", is_needed=False),
    HoldKind.RULE_UNREADABLE: Cure(
        words="fix the rule here: `reconciler validate` says what is wrong with it", is_failure=True
    ),
    HoldKind.REFUSED: Cure(words="change the rule that it names", is_needed=False),
    HoldKind.SERVICE_CLASS_MISSING: Cure(words="define it, or correct its name here"),
    HoldKind.SLO_UNATTAINABLE: Cure(
        words="relax its service class, or give a faster accelerator a profile under models[].profiles in "
        "reconciler.yaml",
        is_in_settings=True,
    ),
    HoldKind.PROFILE_MISSING: Cure(
        words="write what `reconciler fit` learns to .reconciler/profiles.yaml (--write), and name that file under "
        "extends in reconciler.yaml",
        is_in_settings=True,
    ),
    HoldKind.PROFILE_CONTRADICTED: Cure(
        words="learn it again: reconciler fit --write .reconciler/profiles.yaml, and remove the old one from "
        "models[].profiles in reconciler.yaml",
        is_in_settings=True,
    ),
    HoldKind.PRICE_MISSING: Cure(words="set accelerators[].costPerHour in reconciler.yaml", is_in_settings=True),
    HoldKind.ACCELERATOR_UNKNOWN: Cure(
        words="write a node selector such as nvidia.com/gpu.product into the pod template, or the label "
        "inference.optimization/acceleratorName on the resource"
    ),
    HoldKind.ACCELERATOR_UNAVAILABLE: Cure(
        words="set the pool's devices under clusters[].pools, or allow another accelerator in reconciler.yaml",
        is_in_settings=True,
    ),
    HoldKind.METRICS_MISSING: Cure(words="let Prometheus scrape its pods (PodMonitor), or set models[].servedNames"),
    HoldKind.METRICS_STALE: Cure(words="check the scrape of its pods, and whether remote write lags"),
    HoldKind.METRICS_NAN: Cure(words="restart the replica that it names, and update its engine"),
    HoldKind.METRICS_FAILED: Cure(words="see the check of its Prometheus"),
    HoldKind.METRICS_UNATTRIBUTED: Cure(
        words="set matchLabels in reconciler.yaml and the label in the pod template (kube-state-metrics exports it "
        "with --metric-labels-allowlist=pods=[llm-d.ai/variant])"
    ),
    HoldKind.METRICS_CONTRADICTORY: Cure(
        words="set matchLabels under clusters[].prometheus where a server holds several clusters; else wait until "
        "the deployment has finished"
    ),
    HoldKind.LOAD_PARTIAL: Cure(words="let Prometheus scrape every replica"),
    HoldKind.HISTORY_MISSING: Cure(words="wait, or let Prometheus keep more (--storage.tsdb.retention.time)"),
    HoldKind.LENGTHS_CHANGED: Cure(words="check what its replicas answer; after a day it is taken as normal"),
    HoldKind.GAUGES_CONTRADICT: Cure(words="update the engine: its metrics cannot both be true"),
    HoldKind.TARGET_MISSED: Cure(words="check how requests are routed to replicas, or change the target"),
    HoldKind.COUNT_IMPLAUSIBLE: Cure(words="check what counts its requests, and how often it is scraped"),
    HoldKind.PROMPTS_UNKNOWN: Cure(
        words="keep the histogram of prompt tokens in the scrape, or give a profile without gamma"
    ),
    HoldKind.CAPACITY_UNKNOWN: Cure(words="fix the variant that it names"),
    HoldKind.METRIC_TARGETS_MISSING: Cure(
        words="give its policy metrics, or set another sizing.engine in reconciler.yaml"
    ),
    HoldKind.METRIC_TARGETS_UNDECIDED: Cure(words="let Prometheus have the metrics that its targets name"),
    HoldKind.SEARCH_UNFINISHED: Cure(words="plan fewer variants at once: --cluster NAME, one run each"),
    HoldKind.GROWTH_UNPROVEN: Cure(words="check its pending pods and quotas, and whether all pods are scraped"),
    HoldKind.WAITING_FOR_REPLICAS: Cure(words="nothing: a later run continues", is_needed=False),
    HoldKind.WAITING_FOR_MERGE: Cure(words="merge the other pull request", is_needed=False),
    HoldKind.WAITING_FOR_DEVICES: Cure(
        words="merge the other pull request, or give the pool a spare device", is_needed=False
    ),
    HoldKind.POOL_FULL: Cure(words="nothing; or give the pool more devices", is_needed=False),
    HoldKind.DECLINED: Cure(words="nothing; or reopen the pull request, or revert the revert", is_needed=False),
    HoldKind.PUT_BACK: Cure(
        words="nothing: it comes at the time that it names; or merge some, or raise the limit", is_needed=False
    ),
    HoldKind.PROMISE_BROKEN: Cure(words="find out why the change that it names missed its target"),
    HoldKind.AUTOSCALER_METRIC: Cure(
        words="give the metric an averageValue, commit the adapter's rules, or set prometheus.autoscalerMetrics in "
        "reconciler.yaml"
    ),
    HoldKind.AUTOSCALER_NOT_REPRODUCED: Cure(
        words="look at both series: is the query the one that the autoscaler asks, and does nothing else set replicas?"
    ),
    HoldKind.AUTOSCALER_CHANGED: Cure(words="nothing: it comes at the time that it names", is_needed=False),
}
"""What to do about each kind of hold; the page on holds has the same words."""
NOT_ASKED = Hold(kind=HoldKind.METRICS_MISSING, words="no metrics were asked for")
"""The hold of a variant that was not looked up in Prometheus."""


def hold_of(absence: NoAnswer) -> Hold:
    """The hold that the lack of an answer amounts to."""
    return Hold(kind=_OF_ABSENCES[absence.absence], words=absence.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenResource:
    """A resource that cannot be used, and why: it is held, and its scale target keeps its replicas."""

    key: ResourceKey
    place: Place
    reason: str

    @property
    def hold(self) -> Hold:
        """Why nothing can be decided about it."""
        return Hold(kind=HoldKind.RESOURCE_UNREADABLE, words=self.reason, place=self.place)
