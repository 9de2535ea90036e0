"""The origins that the operator names by naming a Git remote: they decide where a secret may go."""

import re

from reconciler.http.addresses import origin_of

_SCP_LIKE = re.compile(r"[A-Za-z0-9._-]+@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):(?!//).+")
_SSH = re.compile(r"ssh://(?:[A-Za-z0-9._-]+@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*)(?::[0-9]+)?/.*")
_API_HOSTS = {"github.com": "api.github.com"}


def origins_of_remote(remote: str) -> frozenset[str]:
    """The origins that naming a Git remote names: its own, and its forge's API; none for a directory.

    A remote reached by ssh names the https origin of its host.
    """
    ssh = _SCP_LIKE.fullmatch(remote) or _SSH.fullmatch(remote)
    try:
        origin = origin_of(f"https://{ssh['host']}" if ssh else remote)
    except ValueError:
        return frozenset()
    scheme, _, authority = origin.partition("://")
    return frozenset({origin, f"{scheme}://{_API_HOSTS.get(authority, authority)}"})
