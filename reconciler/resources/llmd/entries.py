"""Entries of upstream's per-model ConfigMaps: a small YAML document per key, for one model or for all.

Upstream leaves an entry that it cannot read out and goes on: every complaint here is a warning, and says so.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from pydantic import Field

from reconciler.domain.identity import Finding, Place, Severity
from reconciler.errors import InputError
from reconciler.manifests.wording import quote
from reconciler.resources.kubernetes.embedded import EmbeddedYaml, parse_embedded
from reconciler.resources.objects import KubernetesObject
from reconciler.resources.validation import Shape, validate

_DEFAULT = "default"
_LEFT_OUT = "this entry is left out"


class EntryFields(Shape):
    """What names the model of an entry; older versions have it in the key, as `{modelID}#{namespace}`."""

    model_id: Annotated[str | None, Field(alias="model_id")] = None
    namespace: Annotated[str | None, Field(alias="namespace")] = None


Fields = TypeVar("Fields", bound=EntryFields)


@dataclass(frozen=True, slots=True)
class ConfigMapEntry(Generic[Fields]):
    """An entry that can be read; `model_id` empty holds for every model, `namespace` empty in any namespace."""

    text: EmbeddedYaml
    fields: Fields
    model_id: str = ""
    namespace: str = ""

    @property
    def place(self) -> Place:
        """The entry's key."""
        return self.text.source.locate(("data", self.text.key))

    def reject(self, path: tuple[str | int, ...], message: str) -> Finding:
        """A warning about one of its fields, because of which it is left out."""
        return _reject(self.text.locate(path), message)


def read_entries(
    source: KubernetesObject, texts: Mapping[str, object], model: type[Fields]
) -> Iterator[ConfigMapEntry[Fields] | Finding]:
    """Every entry that can be read, in the order of the keys, and what is wrong with the others.

    Of two for one model the first key has it, as upstream.
    """
    first_keys: dict[tuple[str, str], str] = {}
    for key in sorted(texts):
        for found in _read_entry(source, key, texts[key], model):
            if isinstance(found, ConfigMapEntry):
                first = first_keys.setdefault((found.model_id, found.namespace), key)
                if first != key:
                    yield _reject(found.place, f"{quote(first)} is for the same model")
                    continue
            yield found


def _read_entry(
    source: KubernetesObject, key: str, value: object, model: type[Fields]
) -> Iterator[ConfigMapEntry[Fields] | Finding]:
    try:
        text = parse_embedded(source, key, value, "one mapping in YAML")
    except InputError as error:
        yield _reject(Place(path=error.path, line=error.line, field=error.field), error.message)
        return
    validated = validate(
        model, text.document.value, locate=text.locate, unknown=Severity.WARNING, severity=Severity.WARNING
    )
    for finding in validated.findings:
        # Without a value something other than an unknown field is wrong, and all that is wrong is worth telling.
        yield finding if validated.value is not None else _reject(finding.place, finding.message)
    if validated.value is not None:
        yield from _name_model(ConfigMapEntry(text, validated.value))


def _name_model(entry: ConfigMapEntry[Fields]) -> Iterator[ConfigMapEntry[Fields] | Finding]:
    key, fields = entry.text.key, entry.fields
    if key == _DEFAULT:
        yield entry
        return
    model_id, _, namespace = key.rpartition("#")
    model_id, namespace = (fields.model_id, fields.namespace or "") if fields.model_id else (model_id, namespace)
    if model_id:
        yield ConfigMapEntry(entry.text, fields, model_id, namespace)
    else:
        yield entry.reject((), f"expected model_id, or the key {_DEFAULT}, found neither")


def _reject(place: Place, message: str) -> Finding:
    return Finding(place=place, severity=Severity.WARNING, message=f"{message}: {_LEFT_OUT}")
