"""What Prometheus reports of models, variants, replicas and devices, or why there is no value."""

import math
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING

from reconciler.domain.answers import NoAnswer
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.records import dataclass

if TYPE_CHECKING:  # commands that read no metrics start without numpy
    from reconciler.domain.history import DemandHistory, Floats, LoadHistory

LARGEST_COUNT = 2.0**53
"""Largest whole number that float64 counts exactly: sums of tokens stay finite and exact below it."""
MOST_KV_TOKENS = 1e12
"""No KV cache holds that many tokens: a larger number is a broken one."""

USUAL_CHURN = 0.05
"""Of many replicas: one of them is always being started again."""


def is_usual_churn(missing: int, asked: int) -> bool:
    """Whether no more replicas are away than always are of so many that are asked for; among few none ever is."""
    return missing <= USUAL_CHURN * asked


class Role(StrEnum):
    """The share of the work that a variant's replicas do."""

    BOTH = "both"
    PREFILL = "prefill"
    DECODE = "decode"


def role_of(label: str | None) -> Role:
    """Return the role that a pod label `llm-d.ai/role` means: anything unknown is `both`."""
    return {"prefill": Role.PREFILL, "decode": Role.DECODE}.get(label or "", Role.BOTH)


def kv_cache_tokens(total: float | None, num_blocks: float | None, block_tokens: float | None) -> float | None:
    """Tokens that a KV cache holds, from a total or from its blocks; None when unknown or implausible."""
    if total is None and num_blocks is not None and block_tokens is not None:
        total = num_blocks * block_tokens
    return total if total is not None and 0 < total < MOST_KV_TOKENS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaMetrics:
    """What one instance of an engine reports; a data-parallel rank is an instance of its pod.

    `kv_cache_usage` (0-1) and `num_waiting` are maxima of a minute, the token lengths means of five, `num_running` is
    what its whole pod has now. None is not known, and `reasons` says per field why.
    """

    pod: str
    variant: ResourceKey
    instance: str = ""
    kv_cache_usage: float | None = None
    num_waiting: float | None = None
    num_running: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    num_blocks: float | None = None
    block_tokens: float | None = None
    total_kv_tokens: float | None = None
    prefix_hit_rate: float | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def kv_tokens(self) -> float | None:
        """Tokens that the KV cache holds; None when the engine does not say, or says nothing sensible."""
        return kv_cache_tokens(self.total_kv_tokens, self.num_blocks, self.block_tokens)

    @property
    def label(self) -> str:
        """The pod, with its instance where it has several."""
        return f"{self.pod}/{self.instance}" if self.instance else self.pod


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamQueue:
    """Requests of a model that wait before any replica has them (endpoint picker, flow control); None: not known."""

    num_waiting: float | None = None
    waiting_bytes: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiveReplicas:
    """How many replicas a scale target asks for in its cluster: `counts` at `start_s` and every `step_s` from there.

    Times are Unix seconds, `counts` has the shape (moments,). NaN is unknown: no recent sample, or two that differ.
    """

    start_s: float
    step_s: float
    counts: "Floats"

    @property
    def newest(self) -> float | None:
        """The last count; None when it is not known."""
        return None if not len(self.counts) or math.isnan(self.counts[-1]) else float(self.counts[-1])

    def first_at(self, since_s: float, until_s: float, least: float, most: float = math.inf) -> float | None:
        """The first moment after `since_s` and until `until_s` (Unix seconds) with a count of `least` to `most`."""
        first = math.floor((since_s - self.start_s) / self.step_s) + 1
        last = math.floor((until_s - self.start_s) / self.step_s) + 1
        counts = self.counts[max(first, 0) : max(last, 0)]
        found = ((counts >= least) & (counts <= most)).nonzero()[0]
        return float(self.start_s + (max(first, 0) + found[0]) * self.step_s) if len(found) else None

    def at(self, at_s: float) -> float | None:
        """The count of the last moment that is not after `at_s`; None where that is not known."""
        index = math.floor((at_s - self.start_s) / self.step_s)
        count = float(self.counts[index]) if 0 <= index < len(self.counts) else math.nan
        return None if math.isnan(count) else count

    def since(self, at_s: float) -> "Floats":
        """All counts from the last moment that is not after `at_s`; none when there is no such moment."""
        first = math.floor((at_s - self.start_s) / self.step_s)
        return self.counts[first if first >= 0 else len(self.counts) :]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """One replica's numbers: element i of every series was true at `start_s + i * step_s`; NaN is not known.

    `series` maps a quantity's canonical name (`kv_cache_usage`, `itl`) to its values, all of one shape (moments,).
    `instance` is the data-parallel rank where a pod has several: each has its own trace.
    """

    pod: str
    variant: ResourceKey
    start_s: float
    step_s: float
    series: "Mapping[str, Floats]" = field(default_factory=dict)
    instance: str = ""


class ArrivalSource(StrEnum):
    """Who counted a model's arrivals, as every output names it."""

    CONFIGURED = "configured query arrivalRate"
    ENDPOINT_PICKER = "endpoint picker"
    REPLICAS = "completions and queue growth"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A model's arrivals and mean token lengths over the last `window_s` seconds.

    `input_spread` is the variance of the prompts' lengths over their squared mean, None without a histogram.
    Where nothing arrived, lengths are those of what came before; 0 when there are none. So they are where no replica
    runs, and then `lengths_from` says whose requests they are; empty where they were measured. `alternatives` are those
    of the query for finished requests that has its series, as its series number them. `completions_per_s` is what
    replicas finish, None where no series counts it.
    """

    arrival_rate_per_s: float
    output_tokens: float
    input_tokens: float | None
    window_s: float
    arrivals_from: ArrivalSource
    input_spread: float | None = None
    lengths_from: str = ""
    alternatives: tuple[str, ...] = ()
    completions_per_s: float | None = None

    @property
    def has_lengths(self) -> bool:
        """Whether the lengths of requests are known, which capacities need."""
        return self.output_tokens > 0

    @property
    def is_by_replicas(self) -> bool:
        """Whether the load of a replica that does not report is missing."""
        return self.arrivals_from is ArrivalSource.REPLICAS


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """What a law expects, or Prometheus observed, of a variant at a load; None is not known.

    `itl_s`, `wait_s` and `ttft_s` are means; `itl_percentile_s` and `ttft_percentile_s` are at the percentiles that the
    service class asks for (waiting alone under a law that knows no prefill), None where it asks for means.
    """

    itl_s: float | None = None
    wait_s: float | None = None
    ttft_s: float | None = None
    utilization: float | None = None
    itl_percentile_s: float | None = None
    ttft_percentile_s: float | None = None

    def mean_s(self, name: str) -> float | None:
        """The mean of a latency by its name: itl, ttft or wait."""
        return {"itl": self.itl_s, "ttft": self.ttft_s, "wait": self.wait_s}.get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What Prometheus says of one variant: its replicas' metrics, attributed to it.

    `absence` says why it must not be trusted.
    """

    performance: Performance
    arrival_rate_per_s: float | None = None
    num_running: float | None = None
    num_waiting: float | None = None
    replicas_reporting: int = 0
    age_s: float | None = field(default=None, compare=False)
    """How long ago its newest sample was taken."""
    absence: NoAnswer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode:
    """A node of the last hour: what it offers by resource, as that is exported; None is a number that is none.

    `labels` are those that were asked for, as they are exported; `is_changed`: one of them had two values within ten
    minutes. `closed` says why nothing new goes there. `is_silent`: no sample for ten minutes.
    """

    name: str
    offers: Mapping[str, int | None] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    is_changed: bool = False
    closed: str = ""
    is_silent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a pod on a node asks for of a resource; None is a number that is none. Without a variant it is others'."""

    namespace: str
    node: str
    resource: str
    devices: int | None
    variant: ResourceKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceQuota:
    """A ResourceQuota on the devices that pods of a namespace ask for, and how many of them it leaves."""

    name: str
    resource: str
    left: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesSeen:
    """All nodes of a cluster and all that pods hold there, or why that is not known."""

    nodes: tuple[ClusterNode, ...] | NoAnswer
    holdings: tuple[Holding, ...] | NoAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The values of every model, variant and replica in a run's answers; no key where there is no answer."""

    loads: Mapping[ModelKey, Load | NoAnswer] = field(default_factory=dict)
    observations: Mapping[ResourceKey, Observation] = field(default_factory=dict)
    """Each variant's latencies and requests as its replicas report them."""
    past: "Mapping[ModelKey, LoadHistory | NoAnswer]" = field(default_factory=dict)
    """What arrived before, as the source of the model's load counted it."""
    usual: "Mapping[ModelKey, LoadHistory]" = field(default_factory=dict)
    """What a whole day was like."""
    demand: "tuple[DemandHistory, ...]" = ()
    """What arrived over two weeks, by cluster."""
    fine: "tuple[DemandHistory, ...]" = ()
    """The same minute by minute, of models whose autoscaler is tuned."""
    demand_lost: Mapping[str, NoAnswer] = field(default_factory=dict)
    """By cluster, why that is not known, or not wholly."""
    incomplete: Mapping[str, str] = field(default_factory=dict)
    """By cluster, why its answers may lack a part of what there is."""
    lost: Mapping[str, NoAnswer] = field(default_factory=dict)
    """By cluster, why the histories of replicas that were asked for are not whole."""
    replicas: Mapping[ResourceKey, tuple[ReplicaMetrics, ...]] = field(default_factory=dict)
    """How full each replica is that reports now."""
    queues: Mapping[ModelKey, UpstreamQueue] = field(default_factory=dict)
    """What waits before an endpoint picker."""
    ready: Mapping[ResourceKey, int] = field(default_factory=dict)
    """Replicas that Kubernetes calls ready."""
    unschedulable: Mapping[ResourceKey, int] = field(default_factory=dict)
    """Pods of a variant that find no node."""
    quotas: Mapping[tuple[str, str], tuple[ResourceQuota, ...]] = field(default_factory=dict)
    """By cluster and namespace, what quotas leave of devices."""
    requests: Mapping[ModelKey, float | NoAnswer] = field(default_factory=dict)
    """Requests finished within the retention period, which decides about zero replicas."""
    stored_kv_tokens: Mapping[ResourceKey, float] = field(default_factory=dict)
    """Tokens that a replica of the variant held within the last day."""
    traces: Mapping[ResourceKey, tuple[Trace, ...]] = field(default_factory=dict)
    """Histories of the last hour, one of each replica and grid; a variant that was not queried has no key."""
    live: Mapping[ResourceKey, LiveReplicas | NoAnswer] = field(default_factory=dict)
    """Replicas that scale targets ask for in their cluster."""
    merged: Mapping[ResourceKey, LiveReplicas] = field(default_factory=dict)
    """The same around our merges of the days before today."""
    ran: Mapping[ResourceKey, LiveReplicas] = field(default_factory=dict)
    """The same over the days that a backtest replays, also where an autoscaler sets them."""
    started: Mapping[ResourceKey, LiveReplicas] = field(default_factory=dict)
    """Replicas that were ready then."""
    devices: Mapping[str, DevicesSeen] = field(default_factory=dict)
    """By cluster, what nodes offer and pods hold."""
    queries: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Cluster -> quantity -> the PromQL that was asked, the first of several."""
    failures: tuple[str, ...] = ()
    """One sentence for each cluster where something failed outside: the next run may succeed."""
    refusals: tuple[str, ...] = ()
    """One sentence for each cluster that cannot be queried until an address or a credential changes."""
    warnings: tuple[str, ...] = ()
    """What Prometheus itself warned of, in its words."""
