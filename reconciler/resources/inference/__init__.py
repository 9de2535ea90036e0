"""PURE. The inference gateway: pools, objectives, models and rewrites, and how important they make a scale target."""

from reconciler.resources.inference.objectives import read_inference_model, read_objective
from reconciler.resources.inference.pools import read_pool
from reconciler.resources.inference.priorities import Priorities, list_pod_labels
from reconciler.resources.inference.rewrites import read_rewrite

__all__ = [
    "Priorities",
    "list_pod_labels",
    "read_inference_model",
    "read_objective",
    "read_pool",
    "read_rewrite",
]
