"""PURE. The kinds of the inference gateway, in its own groups and in the experimental one before them."""

from reconciler.resources.inference.gateway import read_inference_model, read_objective, read_pool, read_rewrite
from reconciler.resources.kinds import Family, Kind

_EXPERIMENTAL = "inference.networking.x-k8s.io"
_EXPERIMENTAL_VERSIONS = (f"{_EXPERIMENTAL}/v1alpha2", f"{_EXPERIMENTAL}/v1alpha1")
_ROUTED_VERSIONS = (f"{_EXPERIMENTAL}/v1alpha2", "llm-d.ai/v1alpha2")
_COMPARED = "the endpoint picker compares group and name"
_ANSWERED = "requests are counted under the name of the model that answers them"

INFERENCE = Family(
    kinds={
        "InferencePool": Kind(
            versions=("inference.networking.k8s.io/v1", *_EXPERIMENTAL_VERSIONS), read=read_pool, ours_alone=True
        ),
        "InferenceObjective": Kind(
            versions=_ROUTED_VERSIONS,
            read=read_objective,
            ours_alone=True,
            undecided=lambda _: {"poolRef.kind": _COMPARED},
        ),
        "InferenceModelRewrite": Kind(
            versions=_ROUTED_VERSIONS,
            read=read_rewrite,
            ours_alone=True,
            undecided=lambda _: {"poolRef.kind": _COMPARED, "rules": _ANSWERED},
        ),
        "InferenceModel": Kind(
            versions=_EXPERIMENTAL_VERSIONS,
            read=read_inference_model,
            ours_alone=True,
            undecided=lambda _: {
                "poolRef.kind": _COMPARED,
                "modelName": "a pool's priority is the highest of all its models",
                "targetModels": _ANSWERED,
            },
        ),
    }
)
