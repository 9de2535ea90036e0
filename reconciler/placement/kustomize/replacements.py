"""Replacements copy a value from one object into others: which fields they fill in, not with what."""

from collections.abc import Iterator, Sequence

from reconciler.manifests.fields import Field
from reconciler.manifests.wording import quote
from reconciler.placement.kustomize.kustomization import Kustomization
from reconciler.placement.kustomize.patches import select
from reconciler.placement.kustomize.selectors import Selector
from reconciler.placement.objects import ObjectDraft, Obstacle
from reconciler.placement.origins import OriginKind, SourceField
from reconciler.placement.repository import ManifestRepository, resolve


def obstruct_replaced(
    repository: ManifestRepository, kustomization: Kustomization, drafts: Sequence[ObjectDraft]
) -> None:
    """Put an obstacle on every field that a replacement fills in; InputError for a file that is not there."""
    for replacement in _replacements(repository, kustomization):
        for target in replacement.items("targets"):
            chosen = target.get("select")
            selector = Selector() if chosen is None else Selector.read(chosen)
            paths = [_leading(each.as_text()) for each in target.items("fieldPaths")] or [("metadata", "name")]
            for draft in select(selector, drafts, target):
                reason = "a replacement fills it in from another object"
                draft.obstacles += [Obstacle(reason=reason, place=target.place, field=path) for path in paths]


def _replacements(repository: ManifestRepository, kustomization: Kustomization) -> Iterator[SourceField]:
    for entry in kustomization.replacements:
        if entry.get("path") is None:
            yield entry
            continue
        path = resolve(kustomization.directory, entry.text("path"))
        if path is None or not repository.has_file(path):
            raise entry.error(f"there is no file {quote(entry.text('path'))}")
        for document in repository.read(path):
            root = SourceField(document, (), OriginKind.PLAIN)
            if isinstance(document.value, list):
                yield from (root.below(index) for index in range(len(document.value)))
            elif document.value is not None:
                yield root


def _leading(text: str) -> Field:
    """The keys of a field path before the first that selects items, or needs quotes: all below may be filled in."""
    parts: list[str] = []
    for part in text.split("."):
        if not part or "[" in part or "]" in part or "*" in part or "\\" in part or part.isdigit():
            break
        parts.append(part)
    return tuple(parts)
