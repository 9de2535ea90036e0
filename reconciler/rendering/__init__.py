"""EDGE. Jinja2, sandboxed and strict: turns views into the texts of pull requests, commits and inserted manifests."""

from reconciler.rendering.filters import Filtered
from reconciler.rendering.renderer import Renderer
from reconciler.rendering.shipped import shipped_templates

__all__ = ["Filtered", "Renderer", "shipped_templates"]
