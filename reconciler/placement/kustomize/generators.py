"""ConfigMaps and Secrets that Kustomize makes itself, or adds to: known by name, their content is not read.

The hash behind a generated name is left out: nothing here is called by it.
"""

from reconciler.manifests.composer import Value
from reconciler.manifests.wording import Field
from reconciler.placement.kustomize.patches import missing
from reconciler.placement.objects import ObjectDraft, ObjectIdentity, Obstacle
from reconciler.placement.origins import SourceField, SourceTrace

_UNREAD = "it is generated: its content is not read"
_MERGE, _REPLACE = "merge", "replace"


def generate(kind: str, entry: SourceField, drafts: list[ObjectDraft]) -> None:
    """Make what an entry says, or merge it into what is there; InputError where Kustomize fails."""
    identity = ObjectIdentity("", "v1", kind, entry.text("namespace"), entry.text("name"))
    behavior = entry.text("behavior")
    found = [draft for draft in drafts if draft.is_or_was(identity.effective)]
    if behavior not in {_MERGE, _REPLACE}:  # Kustomize takes any other word for `create`
        drafts.append(_made(identity, entry))
    elif len(found) == 1:
        _add(found[0], entry, replaces=behavior == _REPLACE)
    elif found:
        raise entry.error(f"expected one {identity} to {behavior}, got {len(found)}")
    else:
        drafts.append(_made(identity, entry))
        raise missing(entry, f"there is no {identity} to {behavior}")


def _made(identity: ObjectIdentity, entry: SourceField) -> ObjectDraft:
    metadata: dict[str, Value] = {"name": identity.name}
    if identity.namespace:
        metadata["namespace"] = identity.namespace
    fields: dict[str, Value] = {"apiVersion": "v1", "kind": identity.kind, "metadata": metadata}
    literals = _literals(entry)
    if literals:
        fields["data"] = literals
    obstacle = Obstacle(reason=_UNREAD, place=entry.place)
    return ObjectDraft(
        fields=fields, source=entry, trace=SourceTrace((entry,)), identity=identity, obstacles=[obstacle]
    )


def _add(draft: ObjectDraft, entry: SourceField, *, replaces: bool) -> None:
    """Literals are known by their keys; what comes from files may be any of the rest."""
    path: Field = ("data",)
    old = draft.value_at(*path)
    literals = _literals(entry)
    kept = old if isinstance(old, dict) and not replaces else {}
    if literals or replaces:
        draft.set(path, {**kept, **literals})
    is_all = replaces or any(entry.get(key) is not None for key in ("files", "envs", "env"))
    changed: list[Field] = [path] if is_all else [(*path, key) for key in literals]
    draft.obstacles += [Obstacle(reason=_UNREAD, place=entry.place, field=each) for each in changed]


def _literals(entry: SourceField) -> dict[str, Value]:
    pairs = (each.as_text().partition("=") for each in entry.items("literals"))
    return {key: value.strip("\"'") for key, _, value in pairs}
