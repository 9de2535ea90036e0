"""YAML inside a ConfigMap's value: parsed within caps, each of its fields with its own line of the file."""

from dataclasses import dataclass

from reconciler.domain.identity import Place
from reconciler.errors import InputError
from reconciler.manifests.documents import Document, parse_documents
from reconciler.manifests.wording import describe, name_field
from reconciler.resources.objects import KubernetesObject


@dataclass(frozen=True, slots=True)
class EmbeddedYaml:
    """The one document in a ConfigMap's value, and where its lines are in the file."""

    source: KubernetesObject
    key: str
    document: Document
    has_lines: bool

    def locate(self, path: tuple[str | int, ...]) -> Place:
        """The field's own line in a block of text, else the line of the ConfigMap's key."""
        place = self.source.locate(("data", self.key))
        line = place.line + self.document.line_of(path) if self.has_lines else place.line
        return Place(path=place.path, line=line, field=name_field(("data", self.key, *path)))


def parse_embedded(source: KubernetesObject, key: str, value: object, expected: str) -> EmbeddedYaml:
    """The document under one key; InputError at the key's line when there is not exactly one."""
    place = source.locate(("data", key))
    if not isinstance(value, str):
        raise InputError(place.path, place.line, place.field, f"expected text, got {describe(value)}")
    try:
        documents = parse_documents(place.path, value.encode(errors="replace"))
    except InputError as error:
        raise InputError(place.path, place.line, place.field, error.message) from error
    if len(documents) != 1:
        raise InputError(place.path, place.line, place.field, f"expected {expected}")
    return EmbeddedYaml(source, key, documents[0], _stands_in_block(source, place))


def _stands_in_block(source: KubernetesObject, place: Place) -> bool:
    """Whether the text's lines are lines of the file: one in quotes, folded or from elsewhere has none of its own."""
    return place.path == source.document.path and source.document.is_literal_at(place.line)
