"""Text from outside on one line, without control, bidi or escape characters; names, columns, wrapped lines of it."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reconciler.domain.identity import ModelKey, ResourceKey

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
ELLIPSIS = "…"
LABEL_LENGTH = 90
TEXT_LENGTH = 400

# Cf holds bidi overrides, zero-width characters and tags: all of them make a reader see something else than is there.
_HIDDEN = frozenset({"Cc", "Cf", "Cs"})
GAP = "  "
LEAST_ROOM = 24
"""Cells below which a text beside something is not readable any more."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A heading and a cell a row; `right` aligns to the right."""

    heading: str
    cells: tuple[str, ...]
    right: bool = False

    @property
    def width(self) -> int:
        """Terminal cells of the widest entry."""
        return max(map(display_width, (self.heading, *self.cells)))

    def padded(self) -> tuple[str, ...]:
        """Heading and cells, all of one width; a heading stays on the left where the cells do."""
        width = self.width
        return tuple(pad(text, width, right=self.right) for text in (self.heading, *self.cells))


def lines_of(columns: Sequence[Column], *, indent: str = "") -> tuple[str, ...]:
    """The rows of the columns, heading first, without trailing space."""
    return tuple(
        (indent + GAP.join(cells)).rstrip() for cells in zip(*(each.padded() for each in columns), strict=True)
    )


def hung(head: str, text: str, *, width: int) -> tuple[str, ...]:
    """`head`, then `text` beside it in lines of at most `width` cells; in a narrow terminal the text goes below."""
    indent = display_width(head)
    if 0 < width < indent + LEAST_ROOM:
        return (head.rstrip(), *(f"     {line}" for line in _broken(text, width - 5)))
    first, *rest = wrapped(text, indent=indent, width=width)
    return ((head + first).rstrip(), *rest)


def wrapped(text: str, *, indent: int, width: int) -> tuple[str, ...]:
    """`text` in lines of at most `width` cells, all but the first indented; `width` 0 does not wrap."""
    lines = _broken(text, width - indent) if width > 0 else (text,)
    return (lines[0], *(" " * indent + line for line in lines[1:]))


def _broken(text: str, room: int) -> tuple[str, ...]:
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if display_width(longer) > room and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return tuple(lines)
