"""What replicas report for saturation: variants, pods, thresholds, tokens, compute bounds."""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import fields
from enum import StrEnum
from statistics import fmean
from typing import Any

from reconciler.domain.identity import Displaced, Figure, ResourceKey, Source, Sourced, SourceKind
from reconciler.domain.observed import LARGEST_COUNT, ReplicaMetrics, Role, UpstreamQueue, is_usual_churn
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import ThresholdLayer
from reconciler.domain.workloads import LaunchSettings

# What a variant costs when its author says nothing (rules/saturation.md#thresholds).
DEFAULT_COST = 10.0
# No fleet comes near: a larger count is a broken number, and sums of such counts would still be exact.
MOST_REPLICAS = 1_000_000
_MOST_TOKENS = 2**40


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCapacity:
    """What a replica of a variant held when it was last seen.

    `capacity_tokens` is its effective capacity, `total_kv_tokens` its whole KV cache. Without a live record only the
    launch settings speak.
    """

    capacity_tokens: float | None = None
    total_kv_tokens: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantFacts:
    """A variant as Git and the cluster know it; counts are replicas (groups, where a replica is a group of pods).

    `desired_replicas` is the previous answer (0: none), `cost` that of one replica, in any unit that ranks the
    variants of one model. `max_replicas` None is unbounded.
    """

    key: ResourceKey
    accelerator: str = ""
    role: Role = Role.BOTH
    cost: float = DEFAULT_COST
    current_replicas: int = 0
    desired_replicas: int = 0
    pending_replicas: int = 0
    min_replicas: int | None = None
    max_replicas: int | None = None
    devices_per_replica: int = 1
    launch: LaunchSettings | None = None
    stored: StoredCapacity | None = None

    @property
    def name(self) -> str:
        """What ties are broken by."""
        return self.key.name

    @property
    def ready_replicas(self) -> int:
        """Replicas that serve already."""
        return max(self.current_replicas - self.pending_replicas, 0)

    @property
    def devices(self) -> int:
        """Devices that one replica takes: at least one."""
        return max(self.devices_per_replica, 1)

    @property
    def floor(self) -> int:
        """The fewest replicas allowed; 0 when nothing is said."""
        return max(self.min_replicas or 0, 0)

    def clamp(self, replicas: int) -> int:
        """That many replicas, within the bounds; a maximum of 0 is none."""
        raised = max(replicas, self.floor)
        return min(raised, self.max_replicas) if self.max_replicas else raised

    def headroom(self, replicas: int) -> float:
        """How many replicas may be added to that many: infinite without a maximum."""
        return max(self.max_replicas - replicas, 0) if self.max_replicas else math.inf


def by_role(variants: Iterable[VariantFacts]) -> Mapping[Role, tuple[VariantFacts, ...]]:
    """Return the variants of each role that is played, each group sorted by key."""
    ordered = sorted(variants, key=lambda variant: variant.key)
    return {role: group for role in sorted(Role) if (group := tuple(each for each in ordered if each.role is role))}


def obstacle_of(variant: VariantFacts) -> str:
    """Return in words why a variant's own numbers cannot be used; empty when they can."""
    counts = {
        "current replicas": variant.current_replicas,
        "desired replicas": variant.desired_replicas,
        "pending replicas": variant.pending_replicas,
        "minReplicas": variant.min_replicas or 0,
        "maxReplicas": variant.max_replicas or 0,
        "devices per replica": variant.devices_per_replica,
    }
    for name, count in counts.items():
        if not 0 <= count <= MOST_REPLICAS:
            return f"{name} is {count}, expected 0 to {MOST_REPLICAS}"
    if variant.launch is not None and not all(0 <= size <= _MOST_TOKENS for size in variant.launch.sizes):
        return "a launch setting is negative or too large to be counted"
    if not (math.isfinite(variant.cost) and variant.cost >= 0):
        return f"cost is {variant.cost}, expected a number of 0 or more"
    if variant.max_replicas and variant.floor > variant.max_replicas:
        return f"minReplicas {variant.floor} is above maxReplicas {variant.max_replicas}"
    return ""


_FRACTIONS = frozenset({"kv_cache_usage", "prefix_hit_rate"})
_JUDGED = {"kv_cache_usage": "KV cache usage", "num_waiting": "waiting requests"}
_NAMES = ("pod", "variant", "instance", "reasons")
_QUANTITIES = tuple(each.name for each in fields(ReplicaMetrics) if each.name not in _NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """Replicas whose every number is a number, one each, sorted; `findings` says what was wrong with the rest."""

    replicas: tuple[ReplicaMetrics, ...]
    by_variant: Mapping[ResourceKey, tuple[ReplicaMetrics, ...]]
    findings: tuple[str, ...] = ()

    def of(self, variant: ResourceKey) -> tuple[ReplicaMetrics, ...]:
        """Those of one variant."""
        return self.by_variant.get(variant, ())

    def by_pod(self, variant: ResourceKey) -> Mapping[str, tuple[ReplicaMetrics, ...]]:
        """Those of one variant, the instances of each pod together, sorted by pod."""
        pods: defaultdict[str, list[ReplicaMetrics]] = defaultdict(list)
        for replica in self.of(variant):
            pods[replica.pod].append(replica)
        return {pod: tuple(instances) for pod, instances in sorted(pods.items())}

    def of_all(self, variants: Collection[ResourceKey]) -> tuple[ReplicaMetrics, ...]:
        """Those of several variants."""
        return tuple(replica for replica in self.replicas if replica.variant in variants)


def screen(replicas: Iterable[ReplicaMetrics], variants: Collection[ResourceKey]) -> Screened:
    """Return what can be believed of the replicas of these variants, whatever their order.

    A negative, infinite or NaN number becomes None with a reason. A pod that reports twice counts once, with the
    larger of each number; one that claims two variants, or an unknown one, counts for none.
    """
    findings: list[str] = []
    seen: defaultdict[tuple[str, str], list[ReplicaMetrics]] = defaultdict(list)
    for replica in replicas:
        seen[replica.pod, replica.instance].append(_cleaned(replica))
    kept = []
    for _, reports in sorted(seen.items()):
        claimed = sorted({report.variant for report in reports})
        if len(claimed) > 1:
            findings.append(f"{reports[0].label} reports for {len(claimed)} variants: it counts for none")
        elif claimed[0] not in variants:
            findings.append(f"{reports[0].label} belongs to no variant of this model")
        else:
            kept.append(_merged(reports))
            if len(reports) > 1:
                findings.append(f"{reports[0].label} reports {len(reports)} times: the larger numbers count")
    findings.extend(f"{replica.label}: {reason}" for replica in kept for _, reason in sorted(replica.reasons.items()))
    return Screened(replicas=tuple(kept), by_variant=_by_variant(kept), findings=tuple(findings))


def find_lacking(screened: Screened, variants: Iterable[ResourceKey]) -> dict[ResourceKey, str]:
    """In words, which of the two metrics that saturation is judged by no replica of a variant reports, and why.

    A variant of which no replica reports anything is not among them: that is another finding.
    """
    lacking: dict[ResourceKey, str] = {}
    for variant in variants:
        replicas = screened.of(variant)
        for name, words in _JUDGED.items():
            if replicas and all(getattr(each, name) is None for each in replicas):
                why = next((each.reasons[name] for each in replicas if name in each.reasons), "")
                lacking.setdefault(variant, f"no replica reports its {words}" + (f": {why}" if why else ""))
    return lacking


def number_fault(value: float, *, is_fraction: bool = False) -> str:
    """Return in words what is wrong with a measured number; empty when nothing is."""
    if not math.isfinite(value):
        return f"{value} is not a number"
    if value < 0:
        return f"{value:g} is negative"
    if is_fraction and value > 1:
        return f"{value:g} is not a fraction from 0 to 1"
    return f"{value:g} is too large to be counted" if value > LARGEST_COUNT else ""


def _by_variant(replicas: Iterable[ReplicaMetrics]) -> Mapping[ResourceKey, tuple[ReplicaMetrics, ...]]:
    grouped: defaultdict[ResourceKey, list[ReplicaMetrics]] = defaultdict(list)
    for replica in replicas:
        grouped[replica.variant].append(replica)
    return {variant: tuple(own) for variant, own in grouped.items()}


def _cleaned(replica: ReplicaMetrics) -> ReplicaMetrics:
    faults: dict[str, str] = {}
    for name in _QUANTITIES:
        value: float | None = getattr(replica, name)
        fault = "" if value is None else number_fault(value, is_fraction=name in _FRACTIONS)
        if fault:
            faults[name] = f"{name} {fault}"
    if not faults:
        return replica
    sound: dict[str, Any] = {name: None if name in faults else getattr(replica, name) for name in _QUANTITIES}
    return replace(replica, **sound, reasons={**replica.reasons, **faults})


def _merged(reports: list[ReplicaMetrics]) -> ReplicaMetrics:
    if len(reports) == 1:
        return reports[0]
    larger: dict[str, Any] = {
        name: max((value for value in [getattr(report, name) for report in reports] if value is not None), default=None)
        for name in _QUANTITIES
    }
    missing = {name for name, value in larger.items() if value is None}
    reasons = {name: why for report in reports for name, why in sorted(report.reasons.items()) if name in missing}
    return replace(reports[0], **larger, reasons=reasons)


def screen_queue(queue: UpstreamQueue) -> UpstreamQueue:
    """Return the same queue without the numbers that are none, with the reason."""
    numbers = {"queued requests": queue.num_waiting, "queued bytes": queue.waiting_bytes}
    said = ((name, number_fault(value)) for name, value in numbers.items() if value is not None)
    faults = tuple(f"{name}: {fault}" for name, fault in said if fault)
    if not faults:
        return queue
    sound = [
        value if value is not None and not number_fault(value) else None
        for value in (queue.num_waiting, queue.waiting_bytes)
    ]
    return UpstreamQueue(num_waiting=sound[0], waiting_bytes=sound[1], reason="; ".join(faults))


PERCENT_UNITS = {
    "kv_cache_usage": "fraction",
    "num_waiting": "requests",
    "kv_spare": "fraction",
    "waiting_spare": "requests",
}
TOKEN_UNITS = {
    "kv_cache_usage": "fraction",
    "num_waiting": "requests",
    "scale_up": "fraction",
    "scale_down": "fraction",
}
# rules/saturation.md#thresholds
BUILT_IN = ThresholdLayer(
    source=Source(kind=SourceKind.BUILT_IN),
    kv_cache_usage=0.80,
    num_waiting=5.0,
    kv_spare=0.10,
    waiting_spare=3.0,
    scale_up=0.85,
    scale_down=0.70,
    priority=1.0,
)
_SHARES = frozenset({"kv_cache_usage", "kv_spare", "scale_up", "scale_down"})
_ABOVE_ZERO = frozenset({"kv_cache_usage", "scale_up", "scale_down"})
_SETTINGS = tuple(each.name for each in fields(ThresholdLayer) if each.name != "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """When a replica is saturated, and when a model has too little or too much, each with its source.

    A replica is saturated from `kv_cache_usage` (0-1) or `num_waiting` (requests) on. `percent` asks for more below
    a mean spare of `kv_spare` (0-1) or `waiting_spare` (requests); `tokens` above the utilization `scale_up`, and
    for less below `scale_down` (both 0-1). `priority` weighs a model when devices are scarce.
    """

    kv_cache_usage: Sourced[float]
    num_waiting: Sourced[float]
    kv_spare: Sourced[float]
    waiting_spare: Sourced[float]
    scale_up: Sourced[float]
    scale_down: Sourced[float]
    priority: Sourced[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayeredThresholds:
    """The effective thresholds, and in words which layers were left out."""

    thresholds: Thresholds
    findings: tuple[str, ...] = ()


def layer_thresholds(layers: Iterable[ThresholdLayer] = ()) -> LayeredThresholds:
    """Return the thresholds that hold under `layers`, highest first, over the built-in ones.

    A layer with a value out of range is left out as a whole; a pair of `scale_down` and `scale_up` that is inverted
    once joined falls back to the built-in pair.
    """
    findings: list[str] = []
    sound = []
    for layer in layers:
        fault = _fault(layer)
        if fault:
            findings.append(f"{layer.source}: {fault}: these thresholds are left out")
        else:
            sound.append(layer)
    effective = {name: _effective(name, [*sound, BUILT_IN]) for name in _SETTINGS}
    # Layers that are sound alone can contradict each other: such a pair is the built-in one.
    for low, high, is_strict in (("scale_down", "scale_up", True), ("kv_spare", "kv_cache_usage", False)):
        below, above = effective[low].value, effective[high].value
        if below > above or (is_strict and below == above):
            findings.append(f"{low} {below:g} is not below {high} {above:g}: both are the built-in ones")
            effective[low], effective[high] = _effective(low, [BUILT_IN]), _effective(high, [BUILT_IN])
    return LayeredThresholds(thresholds=Thresholds(**effective), findings=tuple(findings))


def _effective(name: str, layers: list[ThresholdLayer]) -> Sourced[float]:
    said = [
        Displaced(value=float(value), source=layer.source)
        for layer in layers
        if (value := getattr(layer, name)) is not None
    ]
    return Sourced(value=said[0].value, source=said[0].source, displaced=tuple(said[1:]))


def _fault(layer: ThresholdLayer) -> str:
    for name in _SETTINGS:
        value: float | None = getattr(layer, name)
        if value is None:
            continue
        low, high = (0.0, 1.0) if name in _SHARES else (0.0, math.inf)
        if not (math.isfinite(value) and low <= value <= high) or (value == 0 and name in _ABOVE_ZERO):
            least = "more than 0" if name in _ABOVE_ZERO else "at least 0"
            return f"{name} is {value:g}, expected {least}{' and at most 1' if name in _SHARES else ''}"
    if layer.kv_spare is not None and layer.kv_cache_usage is not None and layer.kv_spare > layer.kv_cache_usage:
        return f"kv_spare {layer.kv_spare:g} is above kv_cache_usage {layer.kv_cache_usage:g}"
    return ""


def threshold_figures(thresholds: Thresholds, units: Mapping[str, str]) -> tuple[Figure, ...]:
    """Return the thresholds of these names, each with its unit and source."""
    return tuple(_threshold(name, unit, getattr(thresholds, name)) for name, unit in units.items())


def _threshold(name: str, unit: str, sourced: Sourced[float]) -> Figure:
    return Figure(subject="threshold", name=name, value=sourced.value, unit=unit, source=sourced.source)


BUCKETS = ("short", "medium", "long")
UNKNOWN_BUCKET = "unknown"
BUCKET_LIMITS_TOKENS = (100.0, 500.0)
"""The mean output from which a workload is no longer short, and no longer medium."""
REMEMBERED = 10
"""The rolling mean's window."""
PLATEAU = 1.1
"""Readings of one plateau differ by less: only what is exceeded by more was no bound."""


class Origin(StrEnum):
    """Where a replica's capacity comes from; the first that applies."""

    STORED = "P0-store"
    OBSERVED = "P1-obs"
    HISTORY = "P2-hist"
    DERIVED = "P3-k2"
    MEMORY = "P4-k1"
    NO_DATA = "no-data"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class WorkloadKey:
    """What an observed compute bound of a model holds for: a device type, its count, and outputs of like length."""

    accelerator: str
    devices: int
    bucket: str


BoundHistory = Mapping[WorkloadKey, tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeBound:
    """A compute bound in tokens with its origin."""

    tokens: float
    origin: Origin


def workload_of(variant: VariantFacts, output_tokens: float | None) -> WorkloadKey:
    """Return the key under which observed bounds of a variant are remembered."""
    bucket = BUCKETS[bisect_right(BUCKET_LIMITS_TOKENS, output_tokens or 0.0)]
    return WorkloadKey(accelerator=variant.accelerator, devices=variant.devices, bucket=bucket)


def remembered_bound(history: BoundHistory, key: WorkloadKey) -> float:
    """Return the mean of what is remembered, 0 when nothing sensible is."""
    values = [value for value in history.get(key, ()) if math.isfinite(value) and value >= 0]
    return fmean(values[-REMEMBERED:]) if values else 0.0


def forget_exceeded(history: BoundHistory, key: WorkloadKey, in_use_tokens: float) -> BoundHistory:
    """Return the history without the bounds of a key that a replica has exceeded by far: they were none.

    A queue fills while a replica warms up, long before the replica does; upstream never forgets what it saw then.
    """
    remembered = history.get(key, ())
    kept = tuple(value for value in remembered if not value * PLATEAU < in_use_tokens)
    return history if len(kept) == len(remembered) else {**history, key: kept}


def derived_bound(launch: LaunchSettings, *, input_tokens: float, output_tokens: float) -> int:
    """Return the tokens of as many requests as are decoded together in a steady state; 0 when it does not apply.

    N = min(B * O / (I + O), S) requests, each holding I + O/2 tokens on average.
    """
    if output_tokens <= 0 or input_tokens < 0:
        return 0
    together = min(launch.batched_tokens * output_tokens / (input_tokens + output_tokens), launch.max_num_seqs)
    return max(int(together * (input_tokens + output_tokens / 2)), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaTokens:
    """A replica in tokens: `capacity_tokens` is the smaller of the memory and the compute bound.

    `waiting_tokens` is what its queue will need. None for a bound: the replica did not say, a record speaks for it.
    """

    replica: ReplicaMetrics
    in_use_tokens: float
    waiting_tokens: float
    capacity_tokens: float
    compute_bound_tokens: float | None
    origin: Origin

    @property
    def demand_tokens(self) -> float:
        """Tokens in use and waiting together."""
        return self.in_use_tokens + self.waiting_tokens


def replica_tokens(
    replica: ReplicaMetrics,
    variant: VariantFacts,
    thresholds: Thresholds,
    history: BoundHistory,
    *,
    corrects_history: bool = False,
) -> ReplicaTokens | None:
    """Return a replica in tokens; None when neither it nor a record says how many it holds.

    What is missing reads as 0, which is upstream's reading. With `corrects_history` a replica can hold what it holds
    and what others held, even while its queue fills first; upstream never corrects a bound upward.
    """
    waiting = waiting_tokens(replica, variant.role)
    total = replica.kv_tokens
    if total is None:
        return _from_record(replica, variant, thresholds, waiting)
    in_use = tokens_in_use(replica.kv_cache_usage or 0.0, total)
    memory = float(int(total * thresholds.kv_cache_usage.value))
    compute = _compute_bound(replica, variant, thresholds, history, in_use=in_use, memory=memory)
    bound = compute.tokens
    if corrects_history and compute.origin in (Origin.OBSERVED, Origin.HISTORY):
        bound = max(in_use, remembered_bound(history, workload_of(variant, replica.output_tokens)))
    return ReplicaTokens(
        replica=replica,
        in_use_tokens=in_use,
        waiting_tokens=waiting,
        capacity_tokens=float(int(min(memory, bound))),
        compute_bound_tokens=bound,
        origin=compute.origin,
    )


def tokens_in_use(kv_cache_usage: float, kv_tokens: float) -> float:
    """Return the tokens that a share of a KV cache is."""
    return float(min(max(round(kv_cache_usage * kv_tokens), 0), kv_tokens))


def waiting_tokens(replica: ReplicaMetrics, role: Role) -> float:
    """Return the tokens that a replica's queue will hold: inputs, and outputs where it decodes."""
    length = (replica.input_tokens or 0.0) + (0.0 if role is Role.PREFILL else replica.output_tokens or 0.0)
    tokens = (replica.num_waiting or 0.0) * length
    return float(int(tokens)) if math.isfinite(tokens) and tokens > 0 else 0.0


def _from_record(
    replica: ReplicaMetrics, variant: VariantFacts, thresholds: Thresholds, waiting: float
) -> ReplicaTokens | None:
    stored = variant.stored.total_kv_tokens if variant.stored is not None else None
    if stored is None or stored <= 0 or number_fault(stored):
        return None
    capacity = float(int(stored * thresholds.kv_cache_usage.value))
    return ReplicaTokens(
        replica=replica,
        in_use_tokens=float(int((replica.kv_cache_usage or 0.0) * capacity)),
        waiting_tokens=waiting,
        capacity_tokens=capacity,
        compute_bound_tokens=None,
        origin=Origin.STORED,
    )


def _compute_bound(
    replica: ReplicaMetrics,
    variant: VariantFacts,
    thresholds: Thresholds,
    history: BoundHistory,
    *,
    in_use: float,
    memory: float,
) -> ComputeBound:
    key = workload_of(variant, replica.output_tokens)
    if (replica.num_waiting or 0.0) >= int(thresholds.num_waiting.value) and in_use > 0:
        return ComputeBound(tokens=in_use, origin=Origin.OBSERVED)
    remembered = remembered_bound(history, key)
    if remembered > 0:
        return ComputeBound(tokens=remembered, origin=Origin.HISTORY)
    if variant.launch is not None and replica.output_tokens:
        derived = derived_bound(
            variant.launch, input_tokens=replica.input_tokens or 0.0, output_tokens=replica.output_tokens
        )
        if derived > 0:
            return ComputeBound(tokens=derived, origin=Origin.DERIVED)
    return ComputeBound(tokens=memory, origin=Origin.MEMORY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """Pods of a variant, sorted: those that say all, those that say some, and how many say nothing.

    `words` are the doubts about all of them: none about those few of many that are always being started again.
    """

    judged: tuple[str, ...]
    doubtful: tuple[str, ...]
    silent: int
    words: tuple[str, ...]


def sort_pods(variant: VariantFacts, screened: Screened, clear: Set[str] | None = None) -> Pods:
    """Return a variant's pods sorted; where `clear` is given, those of which every instance is among it say all."""
    judged: list[str] = []
    doubtful: list[str] = []
    for pod, instances in screened.by_pod(variant.key).items():
        if all(each.kv_cache_usage is None and each.num_waiting is None for each in instances):
            # It may be new or dying: it is silent, as far as replicas should be serving.
            continue
        is_whole = all(each.kv_cache_usage is not None and each.num_waiting is not None for each in instances)
        is_clear = clear is None or all(each.label in clear for each in instances)
        (judged if is_whole and is_clear else doubtful).append(pod)
    silent = max(variant.ready_replicas - len(judged) - len(doubtful), 0)
    words = [f"{pod} does not report all that its load is judged by" for pod in doubtful]
    if not is_usual_churn(silent, variant.ready_replicas):
        words.append(f"{silent} of {variant.ready_replicas} replicas of {variant.key.label} report nothing")
    return Pods(judged=tuple(judged), doubtful=tuple(doubtful), silent=silent, words=tuple(words))


def clear_labels(variant: VariantFacts, tokens: Sequence[ReplicaTokens], screened: Screened) -> Set[str]:
    """Return the replicas whose demand and capacity are known: a record is a guess.

    Of one in which requests wait its own lengths must be known, for what waits will need as much; of one that works and
    finished nothing lately, those of the others will do.
    """
    reported = {each.label: each for each in screened.of(variant.key)}

    def is_clear(token: ReplicaTokens) -> bool:
        replica = reported[token.replica.label]
        is_idle = replica.kv_cache_usage == 0 and replica.num_waiting == 0
        lengths = replica if replica.num_waiting else token.replica
        has_lengths = lengths.input_tokens is not None and lengths.output_tokens is not None
        return token.origin is not Origin.STORED and (is_idle or has_lengths)

    return {token.replica.label for token in tokens if is_clear(token)}
