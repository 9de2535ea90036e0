"""Transformer configurations: which fields of custom kinds hold names and counts. Other settings are not followed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from reconciler.manifests.composer import Value
from reconciler.manifests.wording import Field, quote
from reconciler.placement.kustomize.kustomization import Kustomization
from reconciler.placement.objects import ObjectIdentity
from reconciler.placement.origins import OriginKind, SourceField
from reconciler.placement.paths import resolve
from reconciler.placement.repository import ManifestRepository

_FOLLOWED: Final = frozenset({"nameReference", "replicas", "images"})
# Only for `$(NAME)`, which is told where it stands.
_HARMLESS: Final = frozenset({"varReference"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRule:
    """A field of a kind; lists on the way are walked through. An empty group, version or kind fits all."""

    path: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""
    creates: bool = False

    def fits(self, identity: ObjectIdentity) -> bool:
        """Whether an object of that name is meant."""
        return all(
            not wanted or wanted == found
            for wanted, found in (
                (self.group, identity.group),
                (self.version, identity.version),
                (self.kind, identity.kind),
            )
        )

    def expand(self, value: Value) -> Iterator[Field]:
        """The places of the field in an object: one, or one for each item of a list on the way."""
        yield from _expand(value, self.path, creates=self.creates)


def _expand(value: Value, parts: tuple[str, ...], *, creates: bool) -> Iterator[Field]:
    if not parts:
        yield ()
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from ((index, *rest) for rest in _expand(item, parts, creates=creates))
    elif isinstance(value, dict) and (parts[0] in value or creates):
        yield from ((parts[0], *rest) for rest in _expand(value.get(parts[0], {}), parts[1:], creates=creates))


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What configurations add to Kustomize's own: fields that name objects of a kind, hold counts, or hold images."""

    name_references: tuple[tuple[str, FieldRule], ...] = ()
    replicas: tuple[FieldRule, ...] = ()
    images: tuple[FieldRule, ...] = ()

    def __or__(self, other: "Configuration") -> "Configuration":
        """Both: what a base adds holds for those who gather it."""
        return Configuration(
            name_references=tuple(dict.fromkeys((*self.name_references, *other.name_references))),
            replicas=tuple(dict.fromkeys((*self.replicas, *other.replicas))),
            images=tuple(dict.fromkeys((*self.images, *other.images))),
        )


def read_configurations(
    repository: ManifestRepository, kustomization: Kustomization
) -> tuple[Configuration, list[tuple[SourceField, FieldRule | None]]]:
    """What a kustomization's configurations say, and the rules in them that are not followed, None for all objects.

    InputError for a file that is not there or makes no sense.
    """
    whole = Configuration()
    unfollowed: list[tuple[SourceField, FieldRule | None]] = []
    for entry in kustomization.configurations:
        path = resolve(kustomization.directory, entry.as_text())
        if path is None or not repository.has_file(path):
            raise entry.error(f"there is no file {quote(entry.as_text())}")
        for document in repository.read(path):
            source = SourceField(document, (), OriginKind.PLAIN)
            for key in source.mapping():
                unfollowed += () if key in _FOLLOWED | _HARMLESS else _unfollowed(source.below(key))
            whole |= Configuration(
                name_references=tuple(_references(source)),
                replicas=tuple(_rule(each) for each in source.items("replicas")),
                images=tuple(_rule(each) for each in source.items("images")),
            )
    return whole, unfollowed


def _unfollowed(source: SourceField) -> Iterator[tuple[SourceField, FieldRule | None]]:
    value = source.value
    if not isinstance(value, list):
        yield source, None
        return
    for index in range(len(value)):
        yield source.below(index), _rule(source.below(index))


def _references(source: SourceField) -> Iterator[tuple[str, FieldRule]]:
    for reference in source.items("nameReference"):
        for rule in reference.items("fieldSpecs"):
            yield reference.text("kind"), _rule(rule)


def _rule(source: SourceField) -> FieldRule:
    return FieldRule(
        path=tuple(part.removesuffix("[]") for part in source.text("path").split("/") if part),
        group=source.text("group"),
        version=source.text("version"),
        kind=source.text("kind"),
        creates=source.flag("create"),
    )
