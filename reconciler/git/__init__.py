"""EDGE. The only door to git: one commit read as bytes, one commit written, branches pushed with a lease.

No work tree is ever made, so no symbolic link, hook, filter or newline conversion of a repository takes part.
`open_directory` reads a repository where it lies; `clone_base` makes a private clone that may also be pushed from.
"""

from reconciler.git.clone import Clone, clone_base
from reconciler.git.commits import CommitRecord
from reconciler.git.creating import create_bare
from reconciler.git.credentials import GitToken
from reconciler.git.refs import ObjectId, check_branch_name, check_object_id, is_branch_name, is_object_id
from reconciler.git.remotes import Remote, open_remote
from reconciler.git.repository import Repository, is_bare, open_directory, origin_url
from reconciler.git.trees import EntryKind, TreeEntry

__all__ = [
    "Clone",
    "CommitRecord",
    "EntryKind",
    "GitToken",
    "ObjectId",
    "Remote",
    "Repository",
    "TreeEntry",
    "check_branch_name",
    "check_object_id",
    "clone_base",
    "create_bare",
    "is_bare",
    "is_branch_name",
    "is_object_id",
    "open_directory",
    "open_remote",
    "origin_url",
]
