"""Our annotations, `reconciler.io/<setting>`: names, values, and what is wrong with them."""

from collections.abc import Callable, Mapping
from typing import Any

from reconciler.domain.identity import Finding
from reconciler.domain.records import dataclass
from reconciler.domain.settings import SettingScalar
from reconciler.domain.variant_settings import (
    IGNORE,
    MAX_REPLICAS,
    MIN_REPLICAS,
    SETTING_DEFINITIONS,
    SettingDefinition,
    ValueKind,
)
from reconciler.domain.workloads import Annotation
from reconciler.manifests.wording import join_words, quote
from reconciler.resources.objects import KubernetesObject
from reconciler.resources.validation import describe_unknown, read_delay, read_percentage

PREFIX = "reconciler.io/"
_MAX_TEXT = 253
_MAX_REPLICAS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class CheckedAnnotations:
    """The settings that an object's annotations state, by setting name, and what is wrong with the others."""

    settings: Mapping[str, Annotation]
    findings: tuple[Finding, ...]


def _parse_text(text: str) -> str:
    if not text or len(text) > _MAX_TEXT or not text.isprintable() or text != text.strip():
        raise ValueError(f"expected a name of 1 to {_MAX_TEXT} printable characters, got {quote(text)}")
    return text


def _parse_flag(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f'expected "true" or "false", got {quote(text)}')
    return text == "true"


def _parse_count(text: str, least: int) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 10 and least <= int(text) <= _MAX_REPLICAS:
        return int(text)
    raise ValueError(f"expected an integer of at least {least}, got {quote(text)}")


_PARSERS: Mapping[ValueKind, Callable[[str], SettingScalar]] = {
    ValueKind.FLAG: _parse_flag,
    ValueKind.COUNT: lambda text: _parse_count(text, 0),
    ValueKind.POSITIVE_COUNT: lambda text: _parse_count(text, 1),
    ValueKind.PERCENTAGE: read_percentage,
    ValueKind.DELAY: read_delay,
}
"""How an annotation's text is read, where it is not a name."""

_ANNOTATED = {each.annotation: each for each in SETTING_DEFINITIONS if each.annotation}
VARIANT_NAMES = tuple(name for name, each in _ANNOTATED.items() if not each.is_of_workloads)
WORKLOAD_NAMES = tuple(_ANNOTATED)
"""The annotations of what serves models: those of a variant, and whether it is to be one."""
NAMESPACE_NAMES = (IGNORE.annotation,)


def parse_annotation(setting: SettingDefinition[Any], text: str) -> SettingScalar:
    """The value of a setting that an annotation states; ValueError says what was expected."""
    if setting.kind is ValueKind.WORD:
        if text not in setting.choices:
            raise ValueError(f"expected {join_words(setting.choices)}, got {quote(text)}")
        return text
    return _PARSERS.get(setting.kind, _parse_text)(text)


def check_annotations(source: KubernetesObject, names: tuple[str, ...] = VARIANT_NAMES) -> CheckedAnnotations:
    """Read every annotation with our prefix; `names` are those that have a meaning on this kind of object."""
    settings: dict[str, Annotation] = {}
    findings: list[Finding] = []
    for annotation, text in source.annotations.items():
        if not annotation.startswith(PREFIX):
            continue
        path = ("metadata", "annotations", annotation)
        name = annotation.removeprefix(PREFIX)
        if name not in names:
            choices = join_words(names)
            message = f"{describe_unknown(name, names, 'annotation')} (after {PREFIX} stands {choices})"
            findings.append(source.complain(path, message))
            continue
        setting = _ANNOTATED[name]
        try:
            settings[setting.name] = Annotation(value=parse_annotation(setting, text), place=source.locate(path))
        except ValueError as error:
            findings.append(source.complain(path, str(error)))
    findings.extend(_check_bounds(source, settings))
    return CheckedAnnotations(settings, tuple(findings))


def _check_bounds(source: KubernetesObject, settings: Mapping[str, Annotation]) -> list[Finding]:
    lowest, highest = settings.get(MIN_REPLICAS.name), settings.get(MAX_REPLICAS.name)
    if lowest is None or highest is None or int(lowest.value) <= int(highest.value):
        return []
    message = f"expected at most {MAX_REPLICAS.annotation} ({highest.value}), got {lowest.value}"
    return [source.complain(("metadata", "annotations", PREFIX + MIN_REPLICAS.annotation), message)]
