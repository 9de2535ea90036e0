"""PURE. Custom resources and native objects -> domain: one module per API group, one registry.

The only validation of user input: every value that leaves here has been checked, and every complaint has its place.

`read_file` reads the documents of one file, `merge` folds the files of all clusters into a `Declaration`;
`KINDS` and `is_kustomization` say which documents are worth parsing.
"""

from reconciler.resources.folding import FileDeclaration, merge
from reconciler.resources.kustomize import is_kustomization
from reconciler.resources.registry import KINDS, read_file

__all__ = ["KINDS", "FileDeclaration", "is_kustomization", "merge", "read_file"]
