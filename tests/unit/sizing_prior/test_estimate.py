"""Priors of a model on an accelerator: what scales with what, what is carried over, and what is refused."""

import json
import re

import pytest

from reconciler.domain.priors import Datasheet, Lengths, ModelShape, Prior, Refusal, Weights
from reconciler.domain.profiles import Learning, PerformanceProfile
from reconciler.domain.records import replace
from reconciler.sizing.prior.datasheets import DATASHEETS
from reconciler.sizing.prior.estimate import Hardware, Known, estimate
from reconciler.sizing.prior.roofline import Replica, largest_batch, terms
from reconciler.sizing.prior.shapes import SHAPES, find_shape, read_shape

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
LLAMA, MIXTRAL, DEEPSEEK = SHAPES["llama-3.1-8b"], SHAPES["mixtral-8x7b"], SHAPES["deepseek-r1"]
LENGTHS = Lengths(input_tokens=1000.0, output_tokens=200.0)


def on(device: str, devices: int = 1, **other: float) -> Hardware:
    return Hardware(name=device, datasheet=DATASHEETS[device], devices=devices, **other)


def prior(shape: ModelShape = LLAMA, hardware: Hardware | None = None, known: tuple[Known, ...] = ()) -> Prior:
    found = estimate(MODEL, shape, hardware or on("H100"), LENGTHS, known)
    assert isinstance(found, Prior), found
    return found


def refusal(shape: ModelShape, hardware: Hardware, known: tuple[Known, ...] = ()) -> str:
    found = estimate(MODEL, shape, hardware, LENGTHS, known)
    assert isinstance(found, Refusal), found
    return found.reason


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("llama-3.1-8b", 8.03),
        ("llama-3.1-70b", 70.6),
        ("qwen3-32b", 32.8),
        ("mixtral-8x7b", 46.7),
        ("gpt-oss-120b", 116.8),
        ("qwen3-235b-a22b", 235.1),
        ("deepseek-r1", 671.0),
        ("kimi-k2.5", 1026.0),
    ],
)
def test_shapes_have_as_many_weights_as_their_models_publish(name: str, billions: float) -> None:
    replica = Replica(shape=replace(SHAPES[name], weights=Weights.BF16), datasheet=DATASHEETS["H100"])
    assert replica.weight_bytes / 2e9 == pytest.approx(billions, rel=0.02)


def test_a_step_reads_the_weights_and_the_cache_of_every_request() -> None:
    replica = Replica(shape=LLAMA, datasheet=DATASHEETS["H100"])
    alone, sixteen = (float(terms(replica, batch, 1000, 200).memory_s) for batch in (1, 16))
    cache_bytes = 2 * 8 * 128 * 2 * 32 * 1100
    assert (sixteen - alone) * 3.35e12 == pytest.approx(15 * cache_bytes)


def test_a_batch_touches_experts_until_all_are_read() -> None:
    replica = Replica(shape=MIXTRAL, datasheet=DATASHEETS["H100"], devices=4)
    one, two, many = (float(terms(replica, batch, 0, 1).memory_s) for batch in (1, 2, 512))
    expert = 32 * 3 * 4096 * 14336 * 2 / 4 / 3.35e12
    assert two - one == pytest.approx(1.5 * expert, rel=0.01)  # 2 of 8, then 3.5
    assert many - one == pytest.approx(6 * expert, rel=0.01)


def test_a_latent_cache_is_copied_to_every_device_and_heads_are_divided() -> None:
    divided = Replica(shape=LLAMA, datasheet=DATASHEETS["H100"], devices=4)
    copied = Replica(shape=DEEPSEEK, datasheet=DATASHEETS["H200"], devices=8)
    assert (divided.cache_splits, copied.cache_splits) == (4, 1)
    assert float(copied.cache_bytes(1)) == 61 * 576 * 2


def test_what_memory_leaves_bounds_the_batch() -> None:
    replica = Replica(shape=LLAMA, datasheet=DATASHEETS["A100-40GB"])
    free = 0.9 * 40e9 - replica.weight_bytes
    assert largest_batch(replica, 1200) == int(free / (2 * 8 * 128 * 2 * 32 * 1200))
    assert largest_batch(Replica(shape=SHAPES["llama-3.1-70b"], datasheet=DATASHEETS["H100"]), 1200) == 0
    assert refusal(SHAPES["llama-3.1-70b"], on("H100")).startswith("does not fit: 141 GB of weights")


def test_a_profile_elsewhere_is_carried_over_and_narrows_the_band() -> None:
    alone, there = prior(), prior(hardware=on("A100"))
    slower = replace(there.profile, alpha_s=there.profile.alpha_s * 1.3, beta_s=there.profile.beta_s * 1.3)
    known = Known(hardware=on("A100"), profile=slower)
    carried = prior(known=(known,))
    assert carried.carried_from == "A100"
    assert carried.deviation < alone.deviation
    assert carried.itl_s.median == pytest.approx(alone.itl_s.median * 1.3, rel=0.03)
    assert carried.slower(carried.spread.high).alpha_s > carried.profile.alpha_s
    assert carried.itl_s.low < carried.itl_s.median < carried.itl_s.high


def test_the_nearest_profile_is_carried_and_only_over_what_was_seen() -> None:
    base = prior(hardware=on("H200")).profile
    learning = Learning(
        on="2026-11-20", samples=90, error=0.01, batch=(4, 32), input_tokens=(1000, 1000), output_tokens=(200, 200)
    )
    near = Known(hardware=on("H200"), profile=replace(base, learning=learning, max_batch_size=32))
    far = Known(hardware=on("A100", devices=4), profile=replace(base, alpha_s=base.alpha_s * 2))
    speculative = Known(hardware=on("A100"), profile=replace(base, tokens_per_step=2.0))
    assert prior(known=(far, speculative, near)).carried_from == "H200"
    assert prior(known=(speculative,)).carried_from is None


def test_a_profile_that_no_engine_reaches_is_no_ground_to_build_on() -> None:
    wrong = PerformanceProfile(accelerator="A100", alpha_s=0.0008, beta_s=0.0, max_batch_size=64)
    assert "are the shape and its weights (bf16) right?" in refusal(
        LLAMA, on("H100"), (Known(hardware=on("A100"), profile=wrong),)
    )


@pytest.mark.parametrize(
    ("shape", "hardware", "reason"),
    [
        (LLAMA, on("MI300X"), "no measured points of amd accelerators"),
        (LLAMA, on("L40S"), "no measured points of dense models on ada accelerators (L40S)"),
        (LLAMA, on("GB200"), "too few measured points of GB200"),
        (replace(LLAMA, weights=Weights.INT4), on("H100"), "no measured points of dense models with int4 weights"),
        (replace(LLAMA, weights=Weights.FP8), on("A100"), "no measured points of dense models with fp8 weights"),
        (LLAMA, on("H100", devices=8), "no measured points of more than 4 devices a replica"),
        (MIXTRAL, on("A100", devices=4), "no measured points of mixture of experts models on ampere accelerators"),
        (SHAPES["gpt-oss-120b"], on("H100"), "no measured points of mixture of experts models with mxfp4 weights"),
        (LLAMA, Hardware(name="new", datasheet=None), "no data sheet: give accelerators[].datasheet"),
    ],
)
def test_what_measured_points_do_not_cover_is_refused(shape: ModelShape, hardware: Hardware, reason: str) -> None:
    assert refusal(shape, hardware).startswith(reason)


def test_a_target_bounds_the_batch() -> None:
    free = estimate(MODEL, LLAMA, on("H100"), LENGTHS)
    bound = estimate(MODEL, LLAMA, on("H100"), LENGTHS, itl_target_s=0.015)
    assert isinstance(free, Prior)
    assert isinstance(bound, Prior)
    assert bound.batch < free.batch
    assert bound.itl_s.high <= 0.015
    below = estimate(MODEL, LLAMA, on("H100"), LENGTHS, itl_target_s=bound.itl_s.high - 1e-9)
    assert isinstance(below, Prior)
    assert below.batch == bound.batch - 1


def test_a_target_that_a_lone_request_misses_is_no_batch_of_one() -> None:
    refused = estimate(MODEL, LLAMA, on("H100"), LENGTHS, itl_target_s=0.001)
    assert isinstance(refused, Refusal)
    assert refused.reason.startswith("a lone request might wait ")


@pytest.mark.parametrize(
    ("model", "name", "weights"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b", Weights.BF16),
        ("meta-llama/Meta-Llama-3-70B", "llama-3-70b", Weights.BF16),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8-dynamic", "llama-3.1-70b", Weights.FP8),
        ("Qwen/Qwen2.5-14B-Instruct-AWQ", "qwen2.5-14b", Weights.INT4),
        ("nvidia/Qwen3-32B-NVFP4", "qwen3-32b", Weights.FP4),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b", Weights.BF16),
        ("openai/gpt-oss-20b", "gpt-oss-20b", Weights.MXFP4),
    ],
)
def test_a_model_is_known_by_its_id(model: str, name: str, weights: Weights) -> None:
    assert find_shape(model) == replace(SHAPES[name], weights=weights)


def test_a_similar_name_is_no_proof_of_the_same_sizes() -> None:
    assert find_shape("acme/llama-3.1-8b-pruned") is None


def test_a_shape_is_read_from_config_json() -> None:
    config = {
        "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32,
        "intermediate_size": 14336, "vocab_size": 128256,
    }  # fmt: skip
    assert read_shape(config, LLAMA.source) == LLAMA
    quantized = {**config, "quantization_config": {"quant_method": "fp8"}}
    assert read_shape(quantized).weights is Weights.FP8
    nested = {"text_config": config, "quantization_config": {"quant_method": "awq", "bits": 4}}
    assert read_shape(nested).weights is Weights.INT4


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"hidden_size": None}, "expected hidden_size"),
        ({"num_hidden_layers": "32"}, "expected a whole number of at least 1 for num_hidden_layers"),
        ({"num_attention_heads": 0}, "of at least 1 for num_attention_heads"),
        ({"num_key_value_heads": 0}, "of at least 1 for num_key_value_heads"),
        ({"num_hidden_layers": 0}, "of at least 1 for num_hidden_layers"),
        ({"head_dim": 0}, "of at least 1 for head_dim"),
        ({"num_experts": 4, "num_experts_per_tok": 5}, "no more num_experts_per_tok than experts"),
        ({"num_experts": 4, "first_k_dense_replace": 9}, "nor first_k_dense_replace than layers"),
        ({"vocab_size": True}, "expected a whole number of at least 1 for vocab_size"),
        ({"full_attention_interval": 4}, "layers other than attention"),
        ({"quantization_config": {"quant_method": "new"}}, "give shape.weights"),
    ],
)
def test_a_config_json_that_is_not_understood_says_what_is_wrong(change: dict[str, object], reason: str) -> None:
    config = json.loads(
        '{"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 9, "intermediate_size": 8}'
    )
    with pytest.raises(ValueError, match=reason):
        read_shape({**config, **change})


@pytest.mark.parametrize("each", [*SHAPES.values(), *DATASHEETS.values()], ids=lambda each: each.source)
def test_shipped_numbers_say_where_they_are_from_and_when(each: ModelShape | Datasheet) -> None:
    assert re.search(r"\b20[0-9]{2}-[01][0-9]\b", each.source)
