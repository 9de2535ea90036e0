"""GitHub's own OpenAPI description of its API.

It comes from the npm package `@octokit/openapi` (`tests/tools/fetch_openapi.sh`), or from the file that
RECONCILER_GITHUB_OPENAPI names. Without it nothing is checked.
"""

import functools
import json
import os
from pathlib import Path

from tests.servers.contract import Contract

PACKAGED = Path(".tools", "node_modules", "@octokit", "openapi", "generated", "api.github.com.json")


def find_description() -> Path | None:
    """Where the description is on this machine; None when it is not."""
    named = os.environ.get("RECONCILER_GITHUB_OPENAPI", "")
    path = Path(named) if named else Path(__file__).parents[2] / PACKAGED
    return path if path.is_file() else None


@functools.cache
def load_contract(path: Path) -> Contract:
    """The contract in a description; read once in each process."""
    return Contract(json.loads(path.read_bytes()))
