"""How long a roofline says that an engine's steps take, from a model's shape and an accelerator's data sheet.

The rules are in rules/prior.md.

A step makes a token for each request of a batch: it reads the weights that the batch touches and the keys and values of
every token so far, or computes two operations for each weight and token, whichever takes longer (Williams et al.,
"Roofline", 2009); tensor-parallel replicas add two all-reduces a layer. Of E experts a batch b touches
E (1 - (1 - k / E)^b) where routing is uniform and a token takes k.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from reconciler.domain.priors import Datasheet, ModelShape, Weights
from reconciler.domain.records import dataclass
from reconciler.sizing.arrays import Floats

_SCALED = 0.5625
"""Bytes of a four-bit weight with its scale, an eighth of a byte for each group of 16."""
_DENSE_BYTES = {
    Weights.BF16: 2.0,
    Weights.FP8: 1.0,
    Weights.INT8: 1.0,
    Weights.FP4: _SCALED,
    Weights.INT4: 0.53125,
    Weights.MXFP4: 2.0,
}
_EXPERT_BYTES = {**_DENSE_BYTES, Weights.MXFP4: 0.53125}
_UNQUANTIZED_BYTES = 2.0
"""Of the vocabulary's matrices and of what replicas exchange."""
_SMOOTHNESS = 4.0
"""Memory and compute overlap: their times' 4-norm is near the larger, and 1.19 times it where they are equal."""


class Efficiency(NamedTuple):
    """What is reached of a data sheet (0-1) in reading, computing and computing prompts, and seconds of overhead.

    `layer_s` is added for each layer, `step_s` for each step, `exchange_s` for each all-reduce.
    """

    memory: float
    compute: float
    prompt: float
    layer_s: float
    step_s: float
    exchange_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A replica of a model on `devices` of a data sheet, tensor-parallel; `kv_bytes` is of one cached number."""

    shape: ModelShape
    datasheet: Datasheet
    devices: int = 1
    kv_bytes: float = 2.0

    @property
    def weight_bytes(self) -> float:
        """Bytes of all weights."""
        dense, expert, vocabulary = _parameters(self.shape)
        experts = _expert_layers(self.shape) * self.shape.experts * expert
        weights = self.shape.weights
        return dense * _DENSE_BYTES[weights] + experts * _EXPERT_BYTES[weights] + 2 * vocabulary * _UNQUANTIZED_BYTES

    def cache_bytes(self, tokens: ArrayLike) -> Floats:
        """Bytes of the keys and values of a request of so many tokens, once."""
        shape = self.shape
        length = np.asarray(tokens, dtype=np.float64)
        if shape.latent_size:
            return shape.layers * shape.latent_size * self.kv_bytes * length
        full = shape.layers * shape.full_attention
        windowed = (shape.layers - full) * np.minimum(length, shape.window) if shape.window else 0.0
        return 2.0 * shape.kv_heads * shape.head_size * self.kv_bytes * (full * length + windowed)

    @property
    def cache_splits(self) -> int:
        """Into how many devices a request's cache is divided: a latent, and heads over their number, are copied."""
        return 1 if self.shape.latent_size else min(self.devices, self.shape.kv_heads)


class Terms(NamedTuple):
    """What a replica's steps are made of at a data sheet's rates: seconds and counts, arrays of one shape."""

    memory_s: Floats
    compute_s: Floats
    prompt_s: Floats
    """Computing one token of a prompt."""
    link_s: Floats
    """Bytes of a step's all-reduces over the links."""
    prompt_link_s: Floats
    exchanges: Floats
    layers: Floats


def terms(replica: Replica, batch: ArrayLike, input_tokens: ArrayLike, output_tokens: ArrayLike) -> Terms:
    """Terms of a step of `batch` requests halfway through their output; arrays of one shape, lengths in tokens."""
    shape, sheet, devices = replica.shape, replica.datasheet, replica.devices
    size, prompt, output = np.broadcast_arrays(
        *(np.asarray(each, dtype=np.float64) for each in (batch, input_tokens, output_tokens))
    )
    dense, expert, vocabulary = _parameters(shape)
    layers = _expert_layers(shape)
    touched = np.zeros_like(size)
    if shape.experts:
        touched = shape.experts * (1.0 - (1.0 - shape.experts_per_token / shape.experts) ** size)
    weights = (
        dense * _DENSE_BYTES[shape.weights]
        + layers * touched * expert * _EXPERT_BYTES[shape.weights]
        + vocabulary * _UNQUANTIZED_BYTES
    )
    cache = size * replica.cache_bytes(prompt + output / 2) / replica.cache_splits
    active = dense + layers * shape.experts_per_token * expert
    rate = _rate(sheet, shape.weights) * devices
    attended = 2.0 * shape.layers * shape.heads * (160 if shape.latent_size else shape.head_size) * prompt
    exchanges = 2.0 * shape.layers if devices > 1 else 0.0
    sent_s = exchanges * shape.hidden_size * _UNQUANTIZED_BYTES * 2.0 * (devices - 1) / devices / sheet.link_bytes_per_s
    return Terms(
        memory_s=(weights / devices + cache) / sheet.bandwidth_bytes_per_s,
        compute_s=2.0 * (active + vocabulary) * size / rate,
        prompt_s=(2.0 * active + attended) / rate,
        link_s=sent_s * size,
        prompt_link_s=np.full_like(size, sent_s),
        exchanges=np.full_like(size, exchanges),
        layers=np.full_like(size, shape.layers),
    )


_LINK = 0.7
"""What is reached of a link's rate."""


def step_s(parts: Terms, efficiency: Efficiency) -> Floats:
    """Seconds of a step that computes no prompt."""
    memory, compute = parts.memory_s / efficiency.memory, parts.compute_s / efficiency.compute
    longer: Floats = (memory**_SMOOTHNESS + compute**_SMOOTHNESS) ** (1.0 / _SMOOTHNESS)
    overhead = efficiency.step_s + efficiency.layer_s * parts.layers + efficiency.exchange_s * parts.exchanges
    step: Floats = longer + overhead + parts.link_s / _LINK
    return step


def prompt_s(parts: Terms, efficiency: Efficiency) -> Floats:
    """Seconds that each token of a prompt takes."""
    return parts.prompt_s / efficiency.prompt + parts.prompt_link_s / _LINK


def gap_s(
    parts: Terms, efficiency: Efficiency, batch: ArrayLike, input_tokens: ArrayLike, output_tokens: ArrayLike
) -> Floats:
    """Seconds between tokens of a request where `batch` of them come and go: steps, and prompts of the newcomers."""
    newcomers: Floats = np.multiply(batch, input_tokens) / np.asarray(output_tokens)
    gap: Floats = step_s(parts, efficiency) + newcomers * prompt_s(parts, efficiency)
    return gap


def largest_batch(replica: Replica, tokens: float, utilization: float = 0.9, most: int = 256) -> int:
    """How many requests of `tokens` fit into the memory that weights leave; 0 where the weights do not fit."""
    free = utilization * replica.datasheet.memory_bytes * replica.devices - replica.weight_bytes
    copies = replica.devices / replica.cache_splits
    fitting = free / (float(replica.cache_bytes(tokens)) * copies) if free > 0 else 0.0
    return int(min(fitting, most))


def _expert_layers(shape: ModelShape) -> int:
    return shape.layers - shape.dense_layers if shape.experts else 0


def _parameters(shape: ModelShape) -> tuple[float, float, float]:
    """Weights that every token uses, those of one expert in one layer, and those of a matrix of the vocabulary."""
    hidden = shape.hidden_size
    if shape.latent_size:
        queries = shape.query_latent_size or hidden
        attention = (
            hidden * queries * (queries != hidden)
            + queries * shape.heads * shape.head_size
            + hidden * shape.latent_size
            + (shape.latent_size - 64) * shape.heads * 256
            + shape.heads * 128 * hidden
        )
    else:
        attention = hidden * shape.head_size * 2 * (shape.heads + shape.kv_heads)
    with_experts = _expert_layers(shape)
    dense_layers = shape.layers - with_experts
    inner = dense_layers * shape.intermediate_size + with_experts * shape.shared_experts * shape.expert_size
    dense = shape.layers * attention + 3 * hidden * inner
    return float(dense), 3.0 * hidden * shape.expert_size, float(shape.vocabulary * hidden)


def _rate(sheet: Datasheet, weights: Weights) -> float:
    """Operations a second in the format that a device computes with: formats it lacks are computed in a wider one."""
    if weights is Weights.FP4:
        return sheet.fp4_flops or sheet.fp8_flops or sheet.bf16_flops
    return (weights is Weights.FP8 and sheet.fp8_flops) or sheet.bf16_flops
