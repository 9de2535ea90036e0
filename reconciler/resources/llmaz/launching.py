"""What a Playground's pods run: the backend's engine, its arguments and the model it serves."""

from collections.abc import Mapping
from dataclasses import replace

from reconciler.domain.declared.llmaz import MODEL_LABEL, BackendConfig, BackendRuntime, ModelClaim, RecommendedConfig
from reconciler.domain.declared.workloads import Workload
from reconciler.resources.kubernetes.engines import read_launch, tell_engine

DEFAULT_CONFIG, SPECULATIVE_CONFIG = "default", "speculative-decoding"
ENGINES: Mapping[str, str] = {"vllm": "vllm", "sglang": "sglang", "tgi": "tgi", "tensorrt-llm": "trtllm"}
"""The backends that llmaz brings along whose engines are known."""


def find_config(runtime: BackendRuntime, claim: ModelClaim, config_name: str = "") -> RecommendedConfig | None:
    """The recommended config that is used: the one named, else what the claim's models call for."""
    return runtime.find_config(config_name or (SPECULATIVE_CONFIG if claim.is_speculative else DEFAULT_CONFIG))


def run_backend(
    workload: Workload, claim: ModelClaim, backend: BackendConfig, runtime: BackendRuntime | None
) -> Workload:
    """The scale target with what its pods run; without the backend's runtime only what the Playground says of it.

    A Playground's arguments follow those of the recommended config; its resources replace them by name. The model
    is served under the OpenModel's name.
    """
    config = find_config(runtime, claim, backend.config_name) if runtime is not None else None
    args = (*(config.args if config else ()), *backend.args)
    variables = {each.name: each.value for each in (*(runtime.envs if runtime else ()), *backend.envs)}
    engine = ENGINES.get(backend.backend_name, "")
    if runtime is not None:
        engine = tell_engine(runtime.image, (*runtime.command, *args)) or engine
    return replace(
        workload,
        devices={**(config.devices if config else {}), **backend.devices},
        served_names=(claim.main.name,),
        engine=engine,
        launch=read_launch(engine, args, variables),
        template_labels={MODEL_LABEL: claim.main.name},
    )
