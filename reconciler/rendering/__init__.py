"""EDGE. What makes texts of views and objects of directories: Jinja2, sandboxed and strict, and the real Kustomize."""

from reconciler.rendering.filters import Filtered
from reconciler.rendering.kustomize import Kustomize, find_kustomize
from reconciler.rendering.renderer import Renderer
from reconciler.rendering.shipped import shipped_templates

__all__ = ["Filtered", "Kustomize", "Renderer", "find_kustomize", "shipped_templates"]
