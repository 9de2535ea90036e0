"""Which engine a container runs, and how it was started."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain.workloads import LaunchSettings
from reconciler.resources.declaration import Declaration
from reconciler.resources.kubernetes.engines import find_engine, read_launch

Declare = Callable[..., Declaration]

SGLANG = LaunchSettings(engine="sglang", block_tokens=1)


@pytest.mark.parametrize(
    ("image", "words", "engine"),
    [
        ("vllm/vllm-openai:v0.11.0", [], "vllm"),
        ("registry.example.com:5000/mirror/vllm-openai@sha256:0123", [], "vllm"),
        ("vllm", [], "vllm"),
        ("ghcr.io/llm-d/llm-d:v0.3.0", [], "vllm"),
        ("ghcr.io/llm-d/llm-d-inference-sim:v0.5.0", [], "vllm"),
        ("ghcr.io/llm-d/llm-d-routing-sidecar:v0.3.0", [], ""),
        ("ghcr.io/vllm-project/semantic-router:1", [], ""),
        ("vllm/production-stack-router:vllm", [], ""),
        ("nvcr.io/nvidia/pytorch:25.01", ["vllm", "serve", "m"], "vllm"),
        ("python:3.12", ["python3", "-m", "vllm.entrypoints.openai.api_server"], "vllm"),
        ("python:3.12", ["/bin/sh", "-c", "exec /opt/venv/bin/vllm serve m --port 8000"], "vllm"),
        ("example.com/llm:1", ["--model=m", "--gpu-memory-utilization=0.8"], "vllm"),
        ("example.com/llm:1", ["--model=/models/vllm"], ""),
        ("lmsysorg/sglang:v0.5", [], "sglang"),
        ("vllm/vllm-openai:v1", ["python3", "-m", "sglang.launch_server"], "sglang"),
        ("a", ["sglang", "serve"], "sglang"),
        ("nvcr.io/nvidia/tritonserver:25.01-vllm-python-py3", [], "triton"),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.0", [], "trtllm"),
        ("a", ["trtllm-serve", "m"], "trtllm"),
        ("ghcr.io/huggingface/text-generation-inference:3.0", [], "tgi"),
        ("nginx:1.27", ["nginx"], ""),
        ("", [], ""),
    ],
)
def test_the_engine_is_told_by_command_image_or_flags(image: str, words: list[str], engine: str) -> None:
    assert find_engine(image, words) == engine


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        ([], {}),
        (["--max-num-seqs=64", "--max_num_batched_tokens", "4096"], {"max_num_seqs": 64, "max_batched_tokens": 4096}),
        (["--gpu_memory_utilization=.95", "-tp", "4"], {"memory_fraction": 0.95, "tensor_parallel": 4}),
        (["--max-model-len", "32768", "--block-size=32"], {"max_model_tokens": 32768, "block_tokens": 32}),
        (["--kv-cache-dtype", "fp8_e4m3"], {"kv_dtype": "fp8_e4m3"}),
        (["--num-gpu-blocks-override=512"], {"num_blocks_override": 512}),
        (["--no-enable-chunked-prefill"], {"is_chunked": False}),
        (["--enable-chunked-prefill=False"], {"is_chunked": False}),
        (["--enable-chunked-prefill", "--max-num-seqs", "8"], {"max_num_seqs": 8}),
        (["--max-num-seqs=8", "--max-num-seqs=9"], {"max_num_seqs": 9}),
        (
            ["sh", "-c", "vllm serve m \\\n  --max-num-seqs 8 --tensor-parallel-size=2; sleep 1"],
            {"max_num_seqs": 8, "tensor_parallel": 2},
        ),
        (
            ["sh", "-c", "VLLM_USE_V1=0 vllm serve m --max-num-seqs 8"],
            {"max_num_seqs": 8, "is_first_engine": True, "is_chunked": False},
        ),
        (["--max-num-seqs", "$(SEQS)", "--max-model-len=32k", "--gpu-memory-utilization=1.5"], {}),
        (["--max-num-seqs=0", "--block-size=-16", "--tensor-parallel-size=", "--gpu-memory-utilization=."], {}),
        (["--max-num-seqs=99999999999", "--kv-cache-dtype=${DTYPE}", "--max-num-seqs"], {}),
    ],
)
def test_flags_of_vllm_are_read_and_others_left_at_their_defaults(words: list[str], fields: dict[str, Any]) -> None:
    assert read_launch("vllm", words, {}) == LaunchSettings(**fields)


@pytest.mark.parametrize(
    ("variables", "words", "is_first", "is_chunked", "batched_tokens"),
    [
        ({"VLLM_USE_V1": "0"}, ["--max-model-len=16384"], True, False, 16384),
        ({"VLLM_USE_V1": "0"}, ["--enable-chunked-prefill"], True, True, 2048),
        ({"VLLM_USE_V1": "1"}, [], False, True, 8192),
    ],
)
def test_the_first_engine_of_vllm_batches_otherwise(
    variables: dict[str, str], words: list[str], is_first: bool, is_chunked: bool, batched_tokens: int
) -> None:
    launch = read_launch("vllm", words, variables)
    assert launch is not None
    assert (launch.is_first_engine, launch.is_chunked, launch.batched_tokens) == (is_first, is_chunked, batched_tokens)


@pytest.mark.parametrize(
    ("engine", "words", "step_tokens"),
    [
        ("vllm", ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 4}'], 5),
        ("vllm", ["--speculative_config={'num_speculative_tokens':3}"], 4),
        ("vllm", ["sh", "-c", """vllm serve m --speculative-config '{"num_speculative_tokens": 2}' --port 80"""], 3),
        ("vllm", ["--speculative-config.num_speculative_tokens=6"], 7),
        ("vllm", ["--num-speculative-tokens", "5"], 6),
        ("vllm", ["--speculative-config", '{"method": "ngram"}'], None),
        ("vllm", ["--max-num-seqs=8"], None),
        ("sglang", ["--speculative-num-draft-tokens", "4", "--speculative-num-steps=3"], 4),
        ("sglang", [], None),
    ],
)
def test_tokens_that_speculation_computes_are_read(engine: str, words: list[str], step_tokens: int | None) -> None:
    launch = read_launch(engine, words, {})
    assert launch is not None
    assert launch.step_tokens == step_tokens


def test_flags_of_sglang_are_read() -> None:
    words = (
        "--mem-fraction-static 0.85 --page-size=64 --max-running-requests 128 --max-total-tokens 100000 "
        "--chunked-prefill-size=4096 --max-prefill-tokens 16384 --context-length 32768 --tp-size 2 --kv-cache-dtype fp8"
    )
    assert read_launch("sglang", words.split(), {}) == LaunchSettings(
        engine="sglang",
        memory_fraction=0.85,
        block_tokens=64,
        kv_dtype="fp8",
        tensor_parallel=2,
        max_num_seqs=128,
        max_batched_tokens=4096,
        max_model_tokens=32768,
        total_kv_tokens_override=100000,
    )
    assert read_launch("sglang", [], {}) == SGLANG
    unchunked = read_launch("sglang", ["--chunked-prefill-size", "-1", "--max-prefill-tokens", "16384"], {})
    assert unchunked is not None
    assert (unchunked.is_chunked, unchunked.batched_tokens) == (False, 16384)


@pytest.mark.parametrize("engine", ["trtllm", "triton", "tgi", ""])
def test_other_engines_are_known_by_name_only(engine: str) -> None:
    assert read_launch(engine, ["--max-num-seqs=8"], {}) is None


DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: llama}
spec:
  template:
    spec:
      containers:
        - {name: warm-up, image: vllm/vllm-openai:v1, args: [--max-num-seqs=1]}
        - name: vllm
          image: vllm/vllm-openai:v1
          args: [--max-num-seqs=32]
          env:
            - {name: VLLM_USE_V1, value: "0"}
            - {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf, key: token}}}
          resources: {limits: {nvidia.com/gpu: 1}}
"""


def test_the_container_with_the_devices_says_how_its_engine_was_started(declare: Declare) -> None:
    (workload,) = declare(DEPLOYMENT).workloads
    assert workload.engine == "vllm"
    assert workload.launch == LaunchSettings(max_num_seqs=32, is_first_engine=True, is_chunked=False)


def test_where_it_runs_no_engine_the_first_container_with_one_is_asked(declare: Declare) -> None:
    text = DEPLOYMENT.replace("image: vllm/vllm-openai:v1\n", "image: pause\n").replace(
        "          args: [--max-num-seqs=32]\n", ""
    )
    (workload,) = declare(text).workloads
    assert workload.launch == LaunchSettings(max_num_seqs=1)


@pytest.mark.parametrize("field", ["image: 5", "image: [a]", "env: {a: b}", "env: [5, {name: a}]", "image: "])
def test_an_engine_that_cannot_be_told_breaks_no_deployment(declare: Declare, field: str) -> None:
    head = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n"
    declaration = declare(f"{head}spec:\n  template:\n    spec:\n      containers:\n      - {field}\n")
    assert declaration.findings == ()
    assert (declaration.workloads[0].engine, declaration.workloads[0].launch) == ("", None)


@given(
    st.lists(st.text(max_size=12) | st.sampled_from(["--max-num-seqs", "--block-size=", "-tp", "a --b 'c"]), max_size=6)
)
def test_any_command_line_is_read_to_something(words: list[str]) -> None:
    for engine in ("vllm", "sglang"):
        launch = read_launch(engine, words, {})
        assert launch is not None
        assert min(launch.sizes) >= 0
        assert 0 < launch.memory_fraction <= 1


def test_a_giant_script_is_split_at_blanks() -> None:
    words = ["sh", "-c", "echo 'a b'; " * 10_000 + "vllm serve m --max-num-seqs=8"]
    assert read_launch("vllm", words, {}) == LaunchSettings(max_num_seqs=8)
