"""PURE. `llmd.ai/v1alpha1` VariantAutoscaling: three forms of spec, three shapes of status, one domain type."""

from reconciler.resources.llmd.variant import read_variant

__all__ = ["read_variant"]
