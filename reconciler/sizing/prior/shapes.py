"""Shapes of models: common open ones, any `config.json`."""

import re
from collections.abc import Mapping

from reconciler.domain.priors import ModelShape, Weights
from reconciler.domain.records import replace

_SOURCE = "its config.json, entered by hand 2026-11"
_COMPARED: Mapping[str, tuple[str, ...]] = {
    "the copy in ai-dynamo/aiconfigurator at 095f58a": (
        *("llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "qwen3-8b", "qwen3-32b", "qwen3-30b-a3b"),
        *("qwen3-235b-a22b", "mixtral-8x7b", "mixtral-8x22b", "minimax-m2.5", "gpt-oss-20b", "gpt-oss-120b"),
        *("deepseek-v3", "deepseek-r1", "kimi-k2.5"),
    ),
    "the copy in citsjtu2020/LLM-Prof at 8434c8d": (
        *("llama-3.2-3b", "qwen2.5-7b", "qwen2.5-14b", "qwen2.5-32b", "qwen3-14b"),
    ),
    "models.py (all but the vocabulary) in jychen21/Habana-LLM-Viewer at 26f1707": (
        *("llama-2-7b", "llama-2-13b", "llama-2-70b"),
    ),
}
"""Of `SHAPES`: every size that a roofline takes, and the format of the weights, is the same in a second source."""
_COMPARED_WITH = {name: source for source, names in _COMPARED.items() for name in names}


def _dense(layers: int, hidden: int, heads: int, kv_heads: int, inner: int, words: int, head: int = 128) -> ModelShape:
    return ModelShape(
        layers=layers,
        hidden_size=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_size=head,
        intermediate_size=inner,
        vocabulary=words,
        source=_SOURCE,
    )


def _experts(
    layers: int, hidden: int, heads: int, kv_heads: int, experts: tuple[int, int, int], words: int, head: int = 128
) -> ModelShape:
    """Of `experts`: how many there are in a layer, how many of them a token takes, and their inner size."""
    many, taken, size = experts
    shape = _dense(layers, hidden, heads, kv_heads, 0, words, head)
    return replace(shape, experts=many, experts_per_token=taken, expert_size=size)


def _latent(
    layers: int, hidden: int, heads: int, experts: tuple[int, int], dense_layers: int, words: int
) -> ModelShape:
    """DeepSeek's layers: a latent of 512 and 64 rotary dimensions, queries through a latent, one shared expert."""
    many, inner = experts
    return replace(
        _experts(layers, hidden, heads, heads, (many, 8, 2048), words, 192),
        intermediate_size=inner,
        shared_experts=1,
        dense_layers=dense_layers,
        latent_size=576,
        query_latent_size=1536,
    )


_ENTERED: Mapping[str, ModelShape] = {
    "llama-2-7b": _dense(32, 4096, 32, 32, 11008, 32000),
    "llama-2-13b": _dense(40, 5120, 40, 40, 13824, 32000),
    "llama-2-70b": _dense(80, 8192, 64, 8, 28672, 32000),
    "llama-3-8b": _dense(32, 4096, 32, 8, 14336, 128256),
    "llama-3-70b": _dense(80, 8192, 64, 8, 28672, 128256),
    "llama-3.1-8b": _dense(32, 4096, 32, 8, 14336, 128256),
    "llama-3.1-70b": _dense(80, 8192, 64, 8, 28672, 128256),
    "llama-3.1-405b": _dense(126, 16384, 128, 8, 53248, 128256),
    "llama-3.2-1b": _dense(16, 2048, 32, 8, 8192, 128256, 64),
    "llama-3.2-3b": _dense(28, 3072, 24, 8, 8192, 128256),
    "llama-3.3-70b": _dense(80, 8192, 64, 8, 28672, 128256),
    "mistral-7b": _dense(32, 4096, 32, 8, 14336, 32768),
    "mistral-nemo": _dense(40, 5120, 32, 8, 14336, 131072),
    "mistral-small-24b": _dense(40, 5120, 32, 8, 32768, 131072),
    "mistral-large": _dense(88, 12288, 96, 8, 28672, 32768),
    "qwen2-7b": _dense(28, 3584, 28, 4, 18944, 152064),
    "qwen2-72b": _dense(80, 8192, 64, 8, 29568, 152064),
    "qwen2.5-7b": _dense(28, 3584, 28, 4, 18944, 152064),
    "qwen2.5-14b": _dense(48, 5120, 40, 8, 13824, 152064),
    "qwen2.5-32b": _dense(64, 5120, 40, 8, 27648, 152064),
    "qwen2.5-72b": _dense(80, 8192, 64, 8, 29568, 152064),
    "qwen3-8b": _dense(36, 4096, 32, 8, 12288, 151936),
    "qwen3-14b": _dense(40, 5120, 40, 8, 17408, 151936),
    "qwen3-32b": _dense(64, 5120, 64, 8, 25600, 151936),
    "phi-4": _dense(40, 5120, 40, 10, 17920, 100352),
    "mixtral-8x7b": _experts(32, 4096, 32, 8, (8, 2, 14336), 32000),
    "mixtral-8x22b": _experts(56, 6144, 48, 8, (8, 2, 16384), 32000),
    "qwen3-30b-a3b": _experts(48, 2048, 32, 4, (128, 8, 768), 151936),
    "qwen3-235b-a22b": _experts(94, 4096, 64, 4, (128, 8, 1536), 151936),
    "minimax-m2.5": replace(_experts(62, 3072, 48, 8, (256, 8, 1536), 200064), weights=Weights.FP8),
    "gpt-oss-20b": replace(
        _experts(24, 2880, 64, 8, (32, 4, 2880), 201088, 64), full_attention=0.5, window=128, weights=Weights.MXFP4
    ),
    "gpt-oss-120b": replace(
        _experts(36, 2880, 64, 8, (128, 4, 2880), 201088, 64), full_attention=0.5, window=128, weights=Weights.MXFP4
    ),
    "deepseek-v3": replace(_latent(61, 7168, 128, (256, 18432), 3, 129280), weights=Weights.FP8),
    "deepseek-r1": replace(_latent(61, 7168, 128, (256, 18432), 3, 129280), weights=Weights.FP8),
    "kimi-k2.5": replace(_latent(61, 7168, 64, (384, 18432), 1, 163840), weights=Weights.INT4),
}
SHAPES: Mapping[str, ModelShape] = {
    name: replace(each, source=f"its config.json, compared 2026-11 with {_COMPARED_WITH[name]}")
    if name in _COMPARED_WITH
    else each
    for name, each in _ENTERED.items()
}
"""By the family's name as model ids spell it, in lower case."""

_FORMATS = (
    (r"(?:nv|mx)?fp4", Weights.FP4),
    (r"fp8(?:-dynamic)?|w8a8-fp8", Weights.FP8),
    (r"w8a8|w8a16|int8|gptq-int8", Weights.INT8),
    (r"awq|gptq|int4|w4a16|gptq-int4", Weights.INT4),
)
"""Endings of model ids and the format that they mean."""
_VARIANTS = r"(?:-v0\.\d|-hf|-base|-instruct|-it|-chat|-\d{4}|-thinking)*"
"""What may stand behind a family's name and changes no size."""


_WITHOUT_ATTENTION = ("full_attention_interval", "ssm_state_size", "linear_num_value_heads", "index_topk")
"""Sizes of state-space, linear-attention and sparse-attention layers."""


def find_shape(model_id: str) -> ModelShape | None:
    """The shipped shape that a model's id names, with the format that its ending names; None for any other id.

    A fine-tuned model with a name of its own is not recognised: a similar name is no proof of the same sizes.
    """
    name = model_id.rpartition("/")[2].lower().removeprefix("meta-")
    for ending, weights in _FORMATS:
        stem, found = re.subn(rf"-(?:{ending})$", "", name)
        if found:
            shape = _named(stem)
            return shape and replace(shape, weights=weights)
    return _named(name)


def _named(name: str) -> ModelShape | None:
    stem = re.sub(rf"{_VARIANTS}$", "", name)
    return SHAPES.get(stem)


def read_shape(config: Mapping[str, object], source: str = "", weights: Weights | None = None) -> ModelShape:
    """The shape in a model's `config.json`, in the format that somebody wrote, if any.

    Raises ValueError naming a size that is missing or not whole.
    """
    text = config.get("text_config")
    sizes: Mapping[str, object] = text if isinstance(text, Mapping) else config

    def size(*names: str, default: int | None = None, least: int = 0) -> int:
        for name in names:
            value = sizes.get(name)
            if value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 10**8:
                raise ValueError(f"expected a whole number of at least {least} for {name}")
            return value
        if default is None:
            raise ValueError(f"expected {names[0]}")
        return default

    hidden, heads = size("hidden_size", "n_embd", least=1), size("num_attention_heads", "n_head", least=1)
    layers = size("num_hidden_layers", "n_layer", least=1)
    for name in _WITHOUT_ATTENTION:
        if name in sizes:
            raise ValueError(f"a model with {name} has layers other than attention, which no measurement covers")
    latent = size("kv_lora_rank", default=0)
    experts = size("num_experts", "n_routed_experts", "num_local_experts", default=0)
    taken = size("num_experts_per_tok", default=1 if experts else 0, least=1 if experts else 0)
    dense_layers = size("first_k_dense_replace", default=0) if experts else 0
    if taken > max(experts, 1) or dense_layers > layers:
        raise ValueError("expected no more num_experts_per_tok than experts, nor first_k_dense_replace than layers")
    inner = size("intermediate_size", default=0)
    window = size("sliding_window", default=0)
    kinds = sizes.get("layer_types")
    full = 1.0
    if window and isinstance(kinds, list) and kinds:
        full = sum(kind == "full_attention" for kind in kinds) / len(kinds)
    return ModelShape(
        layers=layers,
        hidden_size=hidden,
        heads=heads,
        kv_heads=size("num_key_value_heads", default=heads, least=1),
        head_size=size("head_dim", "qk_head_dim", default=max(hidden // heads, 1), least=1) if not latent else 192,
        intermediate_size=inner,
        vocabulary=size("vocab_size", least=1),
        experts=experts,
        experts_per_token=taken if experts else 0,
        expert_size=size("moe_intermediate_size", default=inner) if experts else 0,
        shared_experts=size("n_shared_experts", default=0),
        dense_layers=dense_layers,
        latent_size=latent + size("qk_rope_head_dim", default=0) if latent else 0,
        query_latent_size=size("q_lora_rank", default=0),
        full_attention=full,
        window=window if full < 1.0 else 0,
        weights=weights or _format_of(config.get("quantization_config") or sizes.get("quantization_config")),
        source=source,
    )


def _format_of(quantization: object) -> Weights:
    if not isinstance(quantization, Mapping):
        return Weights.BF16
    method = str(quantization.get("quant_method", "")).lower()
    spelled = f"{method} {quantization.get('quant_algo', '')} {quantization.get('format', '')}".lower()
    if "mxfp4" in spelled:
        return Weights.MXFP4
    if "fp4" in spelled:
        return Weights.FP4
    if "fp8" in spelled or "float-quantized" in spelled:
        return Weights.FP8
    if method in ("awq", "gptq") or "pack-quantized" in spelled:
        return Weights.INT8 if quantization.get("bits") == 8 else Weights.INT4
    if "int-quantized" in spelled:
        return Weights.INT8
    raise ValueError(f"the quantization {method or 'without a quant_method'} is not known: give shape.weights")
