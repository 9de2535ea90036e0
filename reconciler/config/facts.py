"""What a configuration file states as facts: clusters, accelerators, service classes, performance profiles."""

# pydantic copies a default for each instance; ruff knows this of direct subclasses only.
# ruff: noqa: RUF012

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from reconciler.config.connections import PrometheusSection
from reconciler.config.pools import PoolEntry, refuse_contradicting_pools
from reconciler.config.section import ConfigSection
from reconciler.config.values import (
    ClusterName,
    Count,
    Day,
    LabelKey,
    Latency,
    LatencyOrNone,
    Money,
    Name,
    NotYet,
    Percentage,
    Percentile,
    PositiveCount,
    Priority,
    Range,
    RelativePath,
    ResourceName,
    Text,
)
from reconciler.manifests.wording import describe


class PathsSection(ConfigSection):
    """Which files of the repository describe a cluster."""

    include: Annotated[list[RelativePath], Field(min_length=1)] = ["**"]
    """a list of globs from the repository's root (= all files)"""
    exclude: list[RelativePath] = []
    """a list of globs of files to leave out (= none)"""


class ClusterEntry(ConfigSection):
    """A cluster: the files that describe it and its Prometheus."""

    name: ClusterName
    """a name; groups and head branches carry it"""
    paths: PathsSection = PathsSection()
    """{include: [GLOB], exclude: [GLOB]}"""
    prometheus: PrometheusSection | None = None
    """{url: URL} and how to connect to it (= none: nothing can be measured)"""
    pools: Annotated[list[PoolEntry], AfterValidator(refuse_contradicting_pools)] = []
    """a list of pools of devices (= one per device type, as measured; else unlimited)"""


class AcceleratorEntry(ConfigSection):
    """A device type with its count, and its price."""

    name: Name
    """a name like H100 or 2xH100"""
    device: Name | None = None
    """the name of the device type (= name)"""
    devices: PositiveCount = 1
    """a whole number of devices (= 1)"""
    resource: ResourceName = "nvidia.com/gpu"
    """the resource that containers ask for (= nvidia.com/gpu)"""
    node_selector: dict[LabelKey, Text] = {}
    """node labels that it is recognised by, and that are written when the choice changes (= none)"""
    label_value: Name | None = None
    """the value of label inference.optimization/acceleratorName (= name)"""
    aliases: list[Name] = []
    """a list of other names: ConfigMap keys, flavors, instance types (= none beside the built-in)"""
    cost_per_hour: Money | None = None
    """a plain number, the price of an hour of all its devices (= unknown)"""


class ServiceClassEntry(ConfigSection):
    """What a class of requests was promised."""

    name: Name
    """a name"""
    priority: Priority = 0
    """a whole number; higher goes first (= 0)"""
    ttft: Latency | None = None
    """a duration like 500ms, from arrival to the first token (= no target)"""
    ttft_percentile: Percentile = 95.0
    """a number between 0 and 100, or mean (= 95)"""
    itl: Latency | None = None
    """a duration like 24ms, between output tokens (= no target)"""
    itl_percentile: Percentile = None
    """a number between 0 and 100, or mean (= mean)"""
    attainment: NotYet = None
    unserved_cost_per_1000_requests: Annotated[Money | None, Field(alias="unservedCostPer1000Requests")] = None
    """a plain number, what 1000 requests that are not served cost: capacity dearer than that is not planned (= none)"""

    @model_validator(mode="after")
    def _has_limits_for_percentiles(self) -> Self:
        for name, limit in (("ttft", self.ttft), ("itl", self.itl)):
            if limit is None and f"{name}_percentile" in self.model_fields_set:
                raise ValueError(f"expected {name} beside {name}Percentile")
        return self


class LearnedSection(ConfigSection):
    """How a profile was learned, as `reconciler fit --write` notes it: outside of its ranges it is a guess."""

    date: Day
    """a day like 2026-11-20"""
    samples: Count
    """a whole number of moments that were seen"""
    error: Percentage
    """a percentage like 4.1%, the median error of the iteration time"""
    batch: Range
    """a list of two numbers, the smallest and the largest batch that was seen"""
    input_tokens: Range
    """a list of two numbers, the fewest and the most input tokens of a request"""
    output_tokens: Range
    """a list of two numbers, the fewest and the most output tokens of a request"""
    reach: PositiveCount | None = None
    """a whole number, the largest batch up to which the iteration time is sure (= the largest that was seen)"""


class ProfileEntry(ConfigSection):
    """How fast one replica runs on an accelerator: iteration alpha + beta * batch; prefill gamma + delta * tokens.

    With prefillPerToken prompts are computed one after the other instead, as engines with chunked prefill do.
    """

    accelerator: Name
    """the name of an accelerator"""
    alpha: LatencyOrNone
    """a duration like 6.958ms, of an iteration apart from its batch"""
    beta: LatencyOrNone
    """a duration like 0.042ms, per request of the batch"""
    gamma: LatencyOrNone | None = None
    """a duration like 15.4ms, of a prefill apart from its tokens (= no prefill law)"""
    delta: LatencyOrNone | None = None
    """a duration like 0.00034ms, per input token and request of the batch (= no prefill law)"""
    prefill_per_token: LatencyOrNone | None = None
    """a duration like 0.045ms, that a prompt token adds to its iteration: prompts come one after the other (= no)"""
    max_batched_tokens: PositiveCount | None = None
    """a whole number of tokens that an iteration computes at most (= 8192)"""
    max_batch_size: PositiveCount
    """a whole number of requests that run at once"""
    learned: LearnedSection | None = None
    """a mapping of date, samples, error, batch, inputTokens and outputTokens (= somebody gave the profile)"""

    @model_validator(mode="after")
    def _has_a_whole_law(self) -> Self:
        if (self.gamma is None) != (self.delta is None):
            raise ValueError("expected both gamma and delta, or neither")
        if self.prefill_per_token is not None and self.gamma is not None:
            raise ValueError("expected gamma and delta, or prefillPerToken, not both")
        if self.max_batched_tokens is not None and self.prefill_per_token is None:
            raise ValueError("expected prefillPerToken beside maxBatchedTokens")
        if self.alpha == 0 and self.beta == 0:
            raise ValueError("expected alpha or beta above 0, got 0 for both")
        return self


def refuse_shared_aliases(accelerators: list[AcceleratorEntry]) -> list[AcceleratorEntry]:
    """Of accelerators: an alias on two of them would mean either."""
    owners = {accelerator.name.lower(): accelerator.name for accelerator in accelerators}
    for accelerator in accelerators:
        for alias in accelerator.aliases:
            owner = owners.setdefault(alias.lower(), accelerator.name)
            if owner != accelerator.name:
                raise ValueError(f"expected alias {describe(alias)} on one accelerator: {owner} has it too")
    return accelerators
