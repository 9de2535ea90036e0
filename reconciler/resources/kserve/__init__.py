"""PURE. The kinds of KServe: InferenceService and LLMInferenceService, with what they are based on."""

from collections.abc import Iterator, Mapping, Sequence

from reconciler.resources.kinds import Family, Kind, ServingKind
from reconciler.resources.kserve.names import GROUP, SETTINGS_CONFIG_MAP
from reconciler.resources.objects import KubernetesObject, Piece, of_kind

# The schemas are imported when an object of KServe is first met.
_LLM_VERSIONS = (f"{GROUP}/v1alpha2", f"{GROUP}/v1alpha1")


def _join(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """The workloads of KServe's services, what sets their replicas, and services that cannot be used."""
    if not any(type(piece).__module__.startswith(__name__) for piece in pieces):
        return
    from reconciler.resources.kserve.inference_services import (
        InferenceService,
        ModeSetting,
        Runtime,
        join_inference_services,
    )
    from reconciler.resources.kserve.llm_inference_services import LlmConfig, LlmService, join_services

    yield from join_services(of_kind(pieces, LlmService), of_kind(pieces, LlmConfig))
    services = of_kind(pieces, InferenceService)
    yield from join_inference_services(services, of_kind(pieces, Runtime), of_kind(pieces, ModeSetting))


def _read_inference_service(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.kserve.inference_services import read_inference_service

    return read_inference_service(source)


def _read_runtime(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.kserve.inference_services import read_runtime

    return read_runtime(source)


def _read_mode(source: KubernetesObject, entries: Mapping[str, object]) -> Iterator[Piece]:
    from reconciler.resources.kserve.inference_services import read_mode

    return read_mode(source, entries)


def _read_llm_service(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.kserve.llm_inference_services import read_llm_service

    return read_llm_service(source)


def _read_llm_config(source: KubernetesObject) -> Iterator[Piece]:
    from reconciler.resources.kserve.llm_inference_services import read_llm_config

    return read_llm_config(source)


KSERVE = Family(
    kinds={
        "InferenceService": Kind(
            versions=(f"{GROUP}/v1beta1",),
            retired=(f"{GROUP}/v1alpha2", f"{GROUP}/v1alpha1"),
            read=_read_inference_service,
            is_foreign=True,
            serving=ServingKind(
                replicas="`predictor.minReplicas`, and an equal `maxReplicas`",
                instance="a pod",
                accelerator="node selector or required affinity of the predictor or its runtime",
                bounds="`minReplicas` and `maxReplicas` where they differ",
                metrics="pods of Deployment NAME-predictor",
                tried_on=("kserve/kserve", "NVIDIA/nim-deploy", "vllm-project/semantic-router"),
            ),
        ),
        "LLMInferenceService": Kind(
            versions=_LLM_VERSIONS,
            read=_read_llm_service,
            ours_alone=True,
            is_foreign=True,
            serving=ServingKind(
                replicas="`spec.replicas`",
                instance="a pod, or a group of pods with `worker`",
                accelerator="node selector or required affinity of `template` or `worker`",
                bounds="`spec.scaling.minReplicas` and `maxReplicas`",
                metrics="pods of Deployment NAME-kserve or LeaderWorkerSet NAME-kserve-mn",
                tried_on=("kserve/kserve", "vllm-project/semantic-router"),
            ),
        ),
        "LLMInferenceServiceConfig": Kind(
            versions=_LLM_VERSIONS, read=_read_llm_config, ours_alone=True, holds_settings=True
        ),
        "ServingRuntime": Kind(versions=(f"{GROUP}/v1alpha1",), read=_read_runtime, holds_settings=True),
        "ClusterServingRuntime": Kind(
            versions=(f"{GROUP}/v1alpha1",), read=_read_runtime, is_namespaced=False, holds_settings=True
        ),
    },
    config_maps={SETTINGS_CONFIG_MAP: _read_mode},
    join=_join,
)
