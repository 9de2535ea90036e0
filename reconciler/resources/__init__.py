"""PURE. Custom resources and native objects -> domain: one folder per system, one registry.

The only validation of user input: every value that leaves here has been checked, and every complaint has its place.

`read_file` reads the documents of one file, `read_object` an object that was built, `merge` folds the files of all
clusters into a `Declaration`; `KINDS` is what is known of each kind, and of `KIND_WORDS` one stands in every document
that is worth parsing.
"""

from reconciler.resources.folding import FileDeclaration, merge
from reconciler.resources.objects import KubernetesObject
from reconciler.resources.reading import count_written, is_read, names_kind, read_file, read_object
from reconciler.resources.registry import AUTOSCALERS, KIND_WORDS, KINDS

__all__ = [
    "AUTOSCALERS",
    "KINDS",
    "KIND_WORDS",
    "FileDeclaration",
    "KubernetesObject",
    "count_written",
    "is_read",
    "merge",
    "names_kind",
    "read_file",
    "read_object",
]
