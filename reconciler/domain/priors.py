"""Priors: what a model would probably do on an accelerator that it never ran on, and how sure that is."""

import math
from enum import StrEnum

from reconciler.domain.identity import Finding, ModelKey, Place
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.records import dataclass, replace

BAND_COVERAGE = 0.9
"""The share of measurements that a band is calibrated to hold."""
BAND_DEVIATIONS = 1.6448536269514722
"""Standard deviations to either side of the median that hold `BAND_COVERAGE` of a normal distribution."""


GENERATIONS = ("ampere", "hopper", "blackwell")
"""Of accelerators with measured points."""


class Weights(StrEnum):
    """Number formats of weights; `mxfp4` has experts of four bits and all else in 16."""

    BF16 = "bf16"
    FP8 = "fp8"
    INT8 = "int8"
    FP4 = "fp4"
    INT4 = "int4"
    MXFP4 = "mxfp4"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """The sizes of a transformer, named as in a `config.json`, and the format of its weights.

    `experts` 0 is a dense model. `latent_size` is the width of a compressed key-value cache (multi-head latent
    attention), 0 without one. Of the layers the share `full_attention` (0-1) attends to all tokens, the others to the
    last `window`. `source` says where the sizes are from.
    """

    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate_size: int
    vocabulary: int
    experts: int = 0
    experts_per_token: int = 0
    expert_size: int = 0
    shared_experts: int = 0
    dense_layers: int = 0
    latent_size: int = 0
    query_latent_size: int = 0
    full_attention: float = 1.0
    window: int = 0
    weights: Weights = Weights.BF16
    source: str = ""
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Datasheet:
    """What a vendor promises of one device: memory, and dense (not sparse) rates; None where it has no such units.

    `link_bytes_per_s` is what a device sends to the others of a replica, in one direction. `source` names the data
    sheet and its date.
    """

    device: str
    vendor: str
    generation: str
    memory_bytes: float
    bandwidth_bytes_per_s: float
    bf16_flops: float
    fp8_flops: float | None = None
    fp4_flops: float | None = None
    link_bytes_per_s: float
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A lognormal belief: its median and `deviation`, the standard deviation of its logarithm."""

    median: float
    deviation: float

    @property
    def low(self) -> float:
        """The edge that 5 % lie below."""
        return self.median * math.exp(-BAND_DEVIATIONS * self.deviation)

    @property
    def high(self) -> float:
        """The edge that 5 % lie above."""
        return self.median * math.exp(BAND_DEVIATIONS * self.deviation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Mean tokens of a request."""

    input_tokens: float
    output_tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What one replica of a model would probably do on an accelerator: `profile` has the medians.

    `itl_s` and `throughput_tokens_per_s` (of output) are at `batch`, the largest that fits into memory and, at the slow
    edge, into the target of the gap between tokens. `carried_from` is the accelerator whose profile corrects the
    roofline, None without one. `evidence` says what the band is calibrated with, `narrower` what would make it
    narrower. `clusters` are those that it is of, where others differ; empty for all.
    """

    model_id: str
    accelerator: str
    profile: PerformanceProfile
    batch: int
    deviation: float
    itl_s: Band
    throughput_tokens_per_s: Band
    cost_per_hour: float | None = None
    carried_from: str | None = None
    evidence: str
    narrower: str
    clusters: tuple[str, ...] = ()

    @property
    def cost_per_million_tokens(self) -> Band | None:
        """What a million output tokens cost at that batch; None without a price."""
        if self.cost_per_hour is None:
            return None
        cost = self.cost_per_hour / 3600.0 / self.throughput_tokens_per_s.median * 1e6
        return Band(median=cost, deviation=self.deviation)

    @property
    def spread(self) -> Band:
        """How many times its median a time may be."""
        return Band(median=1.0, deviation=self.deviation)

    def slower(self, factor: float) -> PerformanceProfile:
        """The profile with all times multiplied."""
        profile = self.profile
        return replace(
            profile,
            alpha_s=profile.alpha_s * factor,
            beta_s=profile.beta_s * factor,
            prompt_s=profile.prompt_s and profile.prompt_s * factor,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """An accelerator that a model never ran on and that is probably cheaper: what to try, never what to move to.

    `replicas` of it carry the demand at the slow edge of the band. `planned_cost_per_hour` is of the model in the plan,
    `saves_per_hour` what would be saved at the slow edge, the median and the fast edge. `obstacle` says why no canary
    of it can be written.
    """

    model: ModelKey
    accelerator: str
    replicas: int
    replica_cost_per_hour: float
    planned_cost_per_hour: float
    saves_per_hour: tuple[float, float, float]
    evidence: str
    obstacle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A model and an accelerator that nothing is said of in `clusters` (empty: in any), and why."""

    model_id: str
    accelerator: str
    reason: str
    clusters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Priors:
    """All that was asked of one model: `priors`, the cheapest per token first and those without a price last."""

    model_id: str
    shape: ModelShape | None
    lengths: Lengths
    itl_target_s: float | None
    currency: str
    priors: tuple[Prior, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    findings: tuple[Finding, ...] = ()
