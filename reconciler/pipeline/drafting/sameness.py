"""Whether two versions of a file say the same but for what each run tells anew: statuses, and what delivers them."""

from collections.abc import Mapping

from reconciler.manifests.documents import parse_readable
from reconciler.report.status import CARRIER


def says_the_same(path: str, one: bytes, other: bytes) -> bool:
    """Whether nothing else differs; of what cannot be read nobody knows."""
    if one == other:
        return True
    (mine, my_errors), (theirs, their_errors) = (parse_readable(path, each) for each in (one, other))
    if my_errors or their_errors:
        return False
    return [_kept(each.value) for each in mine] == [_kept(each.value) for each in theirs]


def _kept(value: object) -> object:
    """A document without its status; of the carrier of statuses without what it carries, of its Job without a name."""
    if not isinstance(value, Mapping):
        return value
    kept = {key: each for key, each in value.items() if key != "status"}
    metadata, kind = kept.get("metadata"), kept.get("kind")
    if not isinstance(metadata, Mapping) or not str(metadata.get("name", "")).startswith(CARRIER):
        return kept
    if kind == "ConfigMap":
        kept.pop("data", None)
    if kind == "Job":
        kept["metadata"] = {key: each for key, each in metadata.items() if key != "name"}
    return kept
