"""EDGE. Pull requests: what every forge can do with them, and one module for each forge (github, local).

Beside that the texts by which a pull request remembers its decision: the hidden marker in its body and the trailer of
its commit. They are pure, and only here because nothing else reads or writes them.
"""

from reconciler.forge.marker import (
    Marker,
    MarkerState,
    body_digest,
    read_marker,
    withdrawn,
    write_marker,
)
from reconciler.forge.proposals import BranchTip, proposal_of
from reconciler.forge.pull_requests import NEUTRAL_IDENTITY, Forge, PullRequest, PullRequestState
from reconciler.forge.registry import ForgeToken, forge_for
from reconciler.forge.remotes import RepositoryAddress, parse_remote

__all__ = [
    "NEUTRAL_IDENTITY",
    "BranchTip",
    "Forge",
    "ForgeToken",
    "Marker",
    "MarkerState",
    "PullRequest",
    "PullRequestState",
    "RepositoryAddress",
    "body_digest",
    "forge_for",
    "parse_remote",
    "proposal_of",
    "read_marker",
    "withdrawn",
    "write_marker",
]
