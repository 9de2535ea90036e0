"""PURE. Kthena: AutoscalingPolicy, AutoscalingPolicyBinding, Model, ModelBooster, ModelServing and ModelInfer.

Groups, versions and kinds do not tell the generations apart (kthena.md 1): the fields that are there do.
`tracked_targets` says what policies scale, of all that a commit declares.
"""
