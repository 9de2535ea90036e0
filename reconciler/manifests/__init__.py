"""PURE. YAML bytes and positions: parse within caps and locate. Knows no Kubernetes."""

from reconciler.manifests.composer import Value
from reconciler.manifests.documents import Document, parse_documents, parse_readable
from reconciler.manifests.fields import Field, format_field

__all__ = ["Document", "Field", "Value", "format_field", "parse_documents", "parse_readable"]
