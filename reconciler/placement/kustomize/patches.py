"""What patches do to the objects that a kustomization gathered, and which fields its replacements fill in."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from reconciler.errors import InputError
from reconciler.manifests.documents import Document, parse_documents
from reconciler.manifests.wording import Field, quote
from reconciler.placement.kustomize.json_patches import apply_operations
from reconciler.placement.kustomize.kustomization import Kustomization, PatchRule
from reconciler.placement.kustomize.selectors import Selector, Unclear
from reconciler.placement.kustomize.strategic import merge_strategic
from reconciler.placement.objects import ObjectDraft, ObjectIdentity, Obstacle, identify
from reconciler.placement.origins import Embedding, OriginKind, SourceField
from reconciler.placement.paths import resolve
from reconciler.placement.repository import ManifestRepository


class MissingTargetError(InputError):
    """Raised when a patch or a count names an object that is not among those it may change."""


def apply_patch(repository: ManifestRepository, rule: PatchRule, drafts: list[ObjectDraft]) -> None:
    """Apply one patch to the objects it is for; deleted ones leave the list. InputError where Kustomize fails."""
    for content in _read(repository, rule):
        if isinstance(content.value, list):
            for draft in _targets_of_operations(rule, drafts):
                _operate(draft, content)
        elif content.value is not None:
            for draft in _targets_of_merge(rule, content, drafts):
                if not _merge(draft, content, rule):
                    drafts.remove(draft)


def _operate(draft: ObjectDraft, content: SourceField) -> None:
    """Operations may change names, too."""
    before = draft.identity
    apply_operations(draft, content)
    draft.become(identify(draft.fields), before)


def _merge(draft: ObjectDraft, content: SourceField, rule: PatchRule) -> bool:
    """Merging keeps names and kinds unless the patch may change them."""
    before, version = draft.identity, draft.value_at("apiVersion")
    stays = merge_strategic(draft, content)
    after = identify(draft.fields)
    kept = replace(before, name=before.name if rule.keeps_name else after.name)
    if not rule.keeps_kind:
        kept = replace(kept, group=after.group, version=after.version, kind=after.kind)
    elif kept != after:
        draft.fields = {**draft.fields, "apiVersion": version, "kind": kept.kind}
    draft.become(kept, before)
    return stays


def _read(repository: ManifestRepository, rule: PatchRule) -> Iterator[SourceField]:
    """Every document of a patch, as the root that its rules are read from."""
    kind = rule.source.kind
    if rule.inline is not None:
        embedding = Embedding(document=rule.inline.document, field=rule.inline.field)
        for document in parse_inline(rule.inline):
            yield SourceField(document, (), kind, embedding)
        return
    path = resolve(rule.directory, rule.path)
    if not rule.path or path is None or not repository.has_file(path):
        raise rule.source.error(f"there is no file {quote(rule.path)} with a patch")
    for document in repository.read(path):
        yield SourceField(document, (), kind)


def parse_inline(source: SourceField) -> tuple[Document, ...]:
    """The documents in a text field, their lines counted in the file that holds it."""
    text = source.as_text()
    place = source.place
    try:
        documents = parse_documents(place.path, text.encode(errors="replace"))
    except InputError as error:
        raise InputError(place.path, place.line, place.field, error.message) from error
    # A literal block begins on the line below its key; on its key's line the text is one line long.
    offset = place.line if "\n" in text.strip() or text.endswith("\n") else place.line - 1
    return tuple(
        replace(document, first_line=document.first_line + offset, line_offset=document.line_offset + offset)
        for document in documents
    )


def _targets_of_operations(rule: PatchRule, drafts: Sequence[ObjectDraft]) -> list[ObjectDraft]:
    if rule.target is None:
        raise rule.source.error("a patch of operations needs a target")
    return select(rule.target, drafts, rule.source)


def _targets_of_merge(rule: PatchRule, content: SourceField, drafts: Sequence[ObjectDraft]) -> list[ObjectDraft]:
    identity = identify(content.mapping())
    if not identity.kind or not identity.name:
        raise content.error("expected kind and metadata.name in a strategic merge patch")
    if rule.target is not None:
        return select(rule.target, drafts, rule.source)
    return [find_one(identity, drafts, content)]


def select(selector: Selector, drafts: Sequence[ObjectDraft], source: SourceField) -> list[ObjectDraft]:
    """The objects that a selector means; where that cannot be told, an obstacle on the object."""
    chosen: list[ObjectDraft] = []
    for draft in drafts:
        try:
            if selector.selects(draft):
                chosen.append(draft)
        except Unclear as unclear:
            draft.obstacles.append(Obstacle(reason=f"a patch may change it: {unclear}", place=source.place))
    return chosen


def find_one(identity: ObjectIdentity, drafts: Sequence[ObjectDraft], source: SourceField) -> ObjectDraft:
    """The one object that is called so now or was before; InputError for none or several."""
    wanted = identity.effective
    found = [draft for draft in drafts if draft.is_or_was(wanted)]
    if not found:
        raise missing(source, f"there is no {wanted} to patch")
    if len(found) > 1:
        raise source.error(f"expected one {wanted} to patch, got {len(found)}")
    return found[0]


def missing(source: SourceField, message: str) -> MissingTargetError:
    """What is wrong when an object is not there."""
    place = source.place
    return MissingTargetError(place.path, place.line, place.field, message)


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
