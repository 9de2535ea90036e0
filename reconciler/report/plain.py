"""Names and text from outside on one line: no control, bidi or escape characters, cut to a length."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

from reconciler.domain.identity import ModelKey, ResourceKey

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
ELLIPSIS = "…"
LABEL_LENGTH = 90
TEXT_LENGTH = 400

# Cf holds bidi overrides, zero-width characters and tags: all of them make a reader see something else than is there.
_HIDDEN = frozenset({"Cc", "Cf", "Cs"})


def one_line(text: str, *, limit: int = TEXT_LENGTH) -> str:
    """`text` on one line of at most `limit` characters; what a reader cannot see is shown as the replacement character.

    White space of any kind and length becomes one space, so that nothing can start a line of its own.
    """
    words = " ".join(text[: 4 * limit].split())
    if _is_plain(words) and len(text) <= limit:
        return words
    seen = "".join(REPLACEMENT if unicodedata.category(char) in _HIDDEN else char for char in words)
    was_cut = len(seen) > limit or len(text) > 4 * limit
    return seen[: limit - 1].rstrip() + ELLIPSIS if was_cut else seen


def display_width(text: str) -> int:
    """How many terminal cells `text` takes: wide and full-width characters two, combining ones none."""
    return len(text) if _is_plain(text) else sum(_cells(char) for char in text)


def pad(text: str, width: int, *, right: bool = False) -> str:
    """`text` filled with spaces to `width` terminal cells; `right` aligns it to the right."""
    fill = " " * max(0, width - display_width(text))
    return fill + text if right else text + fill


def _is_plain(text: str) -> bool:
    """Whether no character needs a look of its own, as in nearly every text: printable ASCII."""
    return text.isascii() and text.isprintable()


def _cells(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def labels_of(keys: Iterable[ResourceKey]) -> Mapping[ResourceKey, str]:
    """`[KIND:][CLUSTER/]NAMESPACE/NAME`: the cluster when there are several, the kind where two share a name."""
    unique = sorted(set(keys))
    several = len({key.cluster for key in unique}) > 1
    paths = {key: f"{key.cluster}/{key.label}" if several else key.label for key in unique}
    return _with_kinds(paths)


def short_labels_of(keys: Iterable[ResourceKey]) -> Mapping[ResourceKey, str]:
    """The same without the namespace where all share one; for a text whose title already says it."""
    unique = sorted(set(keys))
    if len({(key.cluster, key.namespace) for key in unique}) > 1:
        return labels_of(unique)
    return _with_kinds({key: key.label.removeprefix(f"{key.namespace}/") for key in unique})


def model_name(model: ModelKey) -> str:
    """The last part of a model's id, which is how people call it: `Llama-3.1-8B-Instruct`."""
    return one_line(model.model_id.rstrip("/").rpartition("/")[2] or model.model_id, limit=LABEL_LENGTH)


def _with_kinds(paths: Mapping[ResourceKey, str]) -> Mapping[ResourceKey, str]:
    uses = Counter(paths.values())
    return {
        key: one_line(f"{key.kind.lower()}:{path}" if uses[path] > 1 else path, limit=LABEL_LENGTH)
        for key, path in paths.items()
    }
