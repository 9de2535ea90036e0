"""PURE. Kthena: AutoscalingPolicy, AutoscalingPolicyBinding, Model, ModelBooster, ModelServing and ModelInfer.

Groups, versions and kinds do not tell the generations apart (kthena.md 1): the fields that are there do.
`tracked_targets` says what policies scale, of all that a commit declares.
"""

from reconciler.resources.kthena.bindings import read_binding
from reconciler.resources.kthena.models import read_booster, read_model
from reconciler.resources.kthena.policies import read_policy
from reconciler.resources.kthena.servings import read_serving
from reconciler.resources.kthena.tracked_targets import tracked_targets

__all__ = ["read_binding", "read_booster", "read_model", "read_policy", "read_serving", "tracked_targets"]
