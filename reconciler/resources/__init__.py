"""PURE. Custom resources and native objects -> domain: one module per API group, one registry.

The only validation of user input: every value that leaves here has been checked, and every complaint has its place.

`read_file` reads the documents of one file, `read_object` an object that was built, `merge` folds the files of all
clusters into a `Declaration`; `KINDS` says which documents are worth parsing.
"""

from reconciler.resources.folding import FileDeclaration, merge
from reconciler.resources.objects import KubernetesObject
from reconciler.resources.registry import KINDS, count_written, is_read, names_kind, read_file, read_object

__all__ = [
    "KINDS",
    "FileDeclaration",
    "KubernetesObject",
    "count_written",
    "is_read",
    "merge",
    "names_kind",
    "read_file",
    "read_object",
]
