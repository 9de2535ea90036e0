"""Which pull request a change is in: the name of its group, and the head branch that depends on nothing else."""

import hashlib
import re

from reconciler.domain.identity import ResourceKey
from reconciler.domain.settings import Settings

_SLUG_LIMIT = 60


def head_branch(prefix: str, group: str) -> str:
    """`prefix` + the group's name made safe and cut at 60 + `-` + the first 8 hex digits of its sha256."""
    slug = re.sub(r"[^a-z0-9-]+", "-", group.lower())[:_SLUG_LIMIT]
    return f"{prefix}{slug}-{hashlib.sha256(group.encode()).hexdigest()[:8]}"


def group_of_broken(key: ResourceKey, settings: Settings) -> str:
    """The group that its key suggests, of a resource that could not be read."""
    subject = {"cluster": key.cluster, "namespace": key.namespace}
    return "/".join(subject.get(name, "none") for name in settings.pull_requests.group_by) or "all"
