"""What to do about each kind of hold, and how grave it is; None: nothing, it is a choice or passes by itself."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.domain.holds import HoldKind
from reconciler.domain.reported.checkup import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Cure:
    """What to do; `is_in_settings` says that it is done in reconciler.yaml rather than at the place of the cause."""

    words: str
    level: Level = Level.WARN
    is_in_settings: bool = False


def _must(words: str) -> Cure:
    return Cure(words=words, level=Level.FAIL)


def _set(words: str) -> Cure:
    return Cure(words=f"{words} in reconciler.yaml", is_in_settings=True)


CURES: Mapping[HoldKind, Cure | None] = {
    HoldKind.IGNORED: None,
    HoldKind.DECLINED: None,
    HoldKind.PUT_BACK: None,
    HoldKind.RULE: None,
    HoldKind.REFUSED: None,
    HoldKind.WAITING_FOR_REPLICAS: None,
    HoldKind.WAITING_FOR_MERGE: None,
    HoldKind.WAITING_FOR_DEVICES: None,
    HoldKind.RULE_UNREADABLE: _must("mend the rule here: `reconciler validate` says what is wrong with it"),
    HoldKind.RESOURCE_UNREADABLE: _must(
        "mend the resource here; `reconciler validate` shows all that is wrong with it"
    ),
    HoldKind.RESOURCE_UNSUPPORTED: Cure(words="annotate it reconciler.io/ignore, or use what is supported"),
    HoldKind.REFERENCE_MISSING: _must("commit what it names, or correct the name here"),
    HoldKind.SCALE_TARGET_MISSING: _must(
        "commit it, correct scaleTargetRef here, or set helmValues in reconciler.yaml"
    ),
    HoldKind.SCALE_TARGET_UNREADABLE: _must("mend the scale target here"),
    HoldKind.REPLICAS_UNWRITTEN: Cure(words="write the number that runs now as spec.replicas here"),
    HoldKind.REPLICAS_CONTESTED: _must("delete all resources for it but one"),
    HoldKind.OWNED_BY_ANOTHER: Cure(
        words="delete the owner in the commit that writes the live count into Git, or set whenAutoscaled: bounds in "
        "reconciler.yaml"
    ),
    HoldKind.NOT_WRITABLE: Cure(
        words="give the number a place of its own: `replicas:` of the overlay's kustomization, or a marker comment "
        "`# reconciler.io/replicas` behind it"
    ),
    HoldKind.DRIFTED: Cure(
        words="find who writes them (kubectl get deployment -o yaml --show-managed-fields), end that, and write the "
        "live count into Git here"
    ),
    HoldKind.PROMISE_BROKEN: Cure(words="find out why the change it names missed its target; it returns by itself"),
    HoldKind.SETTINGS_CONFLICT: _must("change one of the two"),
    HoldKind.RULES_CONFLICT: _must("relax one of the rules it names"),
    HoldKind.SERVICE_CLASS_MISSING: Cure(words="define it, or correct its name here"),
    HoldKind.SLO_UNATTAINABLE: _set(
        "relax its service class, or give a faster accelerator a profile under models[].profiles"
    ),
    HoldKind.PROFILE_MISSING: _set(
        "write what `reconciler fit` learns to .reconciler/profiles.yaml (--write), and name that file under extends"
    ),
    HoldKind.PROFILE_CONTRADICTED: _set(
        "learn it again: reconciler fit --write .reconciler/profiles.yaml, and take the old one out of "
        "models[].profiles"
    ),
    HoldKind.PRICE_MISSING: _set("set accelerators[].costPerHour"),
    HoldKind.ACCELERATOR_UNKNOWN: Cure(
        words="write a node selector such as nvidia.com/gpu.product into the pod template, or the label "
        "inference.optimization/acceleratorName on the resource"
    ),
    HoldKind.ACCELERATOR_UNAVAILABLE: _set(
        "set the pool's devices under clusters[].pools, or allow another accelerator"
    ),
    HoldKind.METRICS_MISSING: Cure(words="let Prometheus scrape its pods (PodMonitor), or set models[].servedNames"),
    HoldKind.METRICS_STALE: Cure(words="look at the scrape of its pods, and at remote write that lags"),
    HoldKind.METRICS_NAN: Cure(words="restart the replica that it names, and update its engine"),
    HoldKind.METRICS_FAILED: Cure(words="see what is said of its Prometheus"),
    HoldKind.METRICS_UNATTRIBUTED: Cure(
        words="matchLabels stand in reconciler.yaml, the label in the pod template "
        "(kube-state-metrics tells it with --metric-labels-allowlist=pods=[llm-d.ai/variant])"
    ),
    HoldKind.METRICS_CONTRADICTORY: Cure(
        words="set matchLabels under clusters[].prometheus where a server holds several clusters; else wait until the "
        "deployment ended"
    ),
    HoldKind.LOAD_PARTIAL: Cure(words="let Prometheus scrape every replica"),
    HoldKind.HISTORY_MISSING: Cure(words="wait, or let Prometheus keep more (--storage.tsdb.retention.time)"),
    HoldKind.LENGTHS_CHANGED: Cure(words="look at what its replicas answer; after a day it is the rule"),
    HoldKind.GAUGES_CONTRADICT: Cure(words="update the engine: its metrics cannot both be true"),
    HoldKind.COUNT_IMPLAUSIBLE: Cure(words="look at who counts its requests, and how often they are scraped"),
    HoldKind.PROMPTS_UNKNOWN: Cure(
        words="keep the histogram of prompt tokens in the scrape, or give a profile without gamma"
    ),
    HoldKind.CAPACITY_UNKNOWN: Cure(words="mend the variant that it names"),
    HoldKind.METRIC_TARGETS_MISSING: Cure(
        words="give its policy metrics, or set another sizing.engine in reconciler.yaml"
    ),
    HoldKind.METRIC_TARGETS_UNDECIDED: Cure(words="let Prometheus have what its metric targets name"),
    HoldKind.SEARCH_UNFINISHED: Cure(words="plan fewer variants at once: --cluster NAME, one run each"),
    HoldKind.GROWTH_UNPROVEN: Cure(words="look at its pending pods and at quotas, or at what of it is not scraped"),
}
