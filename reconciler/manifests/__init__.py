"""PURE. YAML bytes and positions: parse within caps, locate, replace, insert, prove. Knows no Kubernetes.

Read with `parse_documents`; write with `apply_edits`, which changes only the bytes of the wanted values and proves it.
"""

from reconciler.manifests.composer import Value
from reconciler.manifests.documents import Document, OpenFile, parse_documents, parse_readable
from reconciler.manifests.editing import append_documents, apply_edits, edit_file
from reconciler.manifests.edits import (
    AppendDocument,
    Edit,
    EditRefused,
    InsertBlock,
    InsertItem,
    PlainEdit,
    ReplaceBlock,
    SetEmbedded,
    SetScalar,
)
from reconciler.manifests.fields import Field, format_field

__all__ = [
    "AppendDocument",
    "Document",
    "Edit",
    "EditRefused",
    "Field",
    "InsertBlock",
    "InsertItem",
    "OpenFile",
    "PlainEdit",
    "ReplaceBlock",
    "SetEmbedded",
    "SetScalar",
    "Value",
    "append_documents",
    "apply_edits",
    "edit_file",
    "format_field",
    "parse_documents",
    "parse_readable",
]
