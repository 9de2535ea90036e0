"""Where whoever reads a pull request finds what it speaks of: files, queries, documentation, the recording."""

from collections.abc import Mapping
from dataclasses import dataclass, field

HOME = "inference-reconciler/reconciler"
"""Where the project is published: code, action and image."""
DOCUMENTATION = f"https://github.com/{HOME}/blob/main/.github/docs"
RULES = f"https://github.com/{HOME}/blob/main/policies/README.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """What a text may link, and what its reader can see; the default links no file and draws with characters.

    `files_at` is the address of the base commit's files, to which a path is added; `commit_at` that of the commit.
    `recording` is the name of the file that the run was recorded in.
    """

    files_at: str = ""
    commit_at: str = ""
    draws_mermaid: bool = False
    recording: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPrometheus:
    """Where people open a cluster's Prometheus, and the PromQL by quantity that was asked of it."""

    address: str
    queries: Mapping[str, str] = field(default_factory=dict)
