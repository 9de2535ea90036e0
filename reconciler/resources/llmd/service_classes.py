"""Upstream's ConfigMaps of service classes and of accelerator costs."""

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Annotated

from pydantic import Field

from reconciler.domain.identity import Finding, Severity, finding_of
from reconciler.domain.profiles import ServiceClass, SloTarget
from reconciler.domain.units import cost_per_hour_from_cents, seconds_from_ms
from reconciler.errors import InputError
from reconciler.manifests.wording import describe
from reconciler.resources.kubernetes.fields import EmbeddedYaml, parse_embedded
from reconciler.resources.objects import KubernetesObject, Piece
from reconciler.resources.validation import Shape, validate
from reconciler.resources.variants import ListedClass, ListedCost

CLASSES_CONFIG_MAP = "service-classes-config"
_MARK = "slo-"
_WAIT_PERCENTILE = 95.0

_Slo = Annotated[float, Field(ge=0, le=1e9, description="a number")]


class _Entry(Shape):
    """The targets of one model; 0 is not set."""

    model: Annotated[str, Field(min_length=1)]
    itl_ms: Annotated[_Slo | None, Field(alias="slo-itl")] = None
    tpot_ms: Annotated[_Slo | None, Field(alias="slo-tpot")] = None
    ttw_ms: Annotated[_Slo | None, Field(alias="slo-ttw")] = None
    ttft_ms: Annotated[_Slo | None, Field(alias="slo-ttft")] = None
    tokens_per_s: Annotated[_Slo | None, Field(alias="slo-tps")] = None


class _Class(Shape):
    name: Annotated[str, Field(min_length=1, max_length=253)]
    priority: Annotated[int, Field(ge=-(10**9), le=10**9)] = 0
    entries: Annotated[list[_Entry], Field(alias="data")]


def read_classes(source: KubernetesObject, entries: Mapping[str, object]) -> Iterator[Piece]:
    """Every class of one ConfigMap, priority p turned into (largest p of the ConfigMap) - p.

    A ConfigMap of another name may hold anything: only what has the shape of a class is looked at there.
    """
    classes: list[tuple[EmbeddedYaml, _Class]] = []
    for key, value in entries.items():
        try:
            text = _parse_text(source, key, value)
        except InputError as error:
            if source.name == CLASSES_CONFIG_MAP:
                yield finding_of(error)
            continue
        validated = validate(_Class, text.document.value, locate=text.locate, unknown=Severity.WARNING)
        findings = [*validated.findings, *(_find_contradictions(text, validated.value) if validated.value else ())]
        yield from findings
        if validated.value is not None and not any(finding.severity is Severity.ERROR for finding in findings):
            classes.append((text, validated.value))
    largest = max((listed.priority for _, listed in classes), default=0)
    for text, listed in classes:
        yield from _list_models(text, listed, largest - listed.priority)


def _parse_text(source: KubernetesObject, key: str, value: object) -> EmbeddedYaml:
    """The YAML under one key; InputError when it is nothing that could be a class."""
    is_expected = source.name == CLASSES_CONFIG_MAP
    expected = "one service class in YAML"
    if is_expected or (isinstance(value, str) and _MARK in value):
        text = parse_embedded(source, key, value, expected)
        if is_expected or _has_class_shape(text.document.value):
            return text
    place = source.locate(("data", key))
    raise InputError(place.path, place.line, place.field, f"expected {expected}")


def _has_class_shape(value: object) -> bool:
    entries = value.get("data") if isinstance(value, dict) else None
    return isinstance(entries, list) and any(isinstance(entry, dict) and "model" in entry for entry in entries)


def _find_contradictions(text: EmbeddedYaml, listed: _Class) -> Iterator[Finding]:
    for index, entry in enumerate(listed.entries):
        pairs = (
            ("slo-itl", entry.itl_ms, "slo-tpot", entry.tpot_ms),
            ("slo-ttw", entry.ttw_ms, "slo-ttft", entry.ttft_ms),
        )
        for left_name, left, right_name, right in pairs:
            if left and right and left != right:
                message = f"{left_name} {left:g} contradicts {right_name} {right:g}, which means the same: remove one"
                yield Finding(place=text.locate(("data", index)), severity=Severity.ERROR, message=message)


def _list_models(text: EmbeddedYaml, listed: _Class, priority: int) -> Iterator[ListedClass]:
    if not listed.entries:
        nothing = ServiceClass(name=listed.name, priority=priority, place=text.locate(("data",)))
        yield _as_listed(text, "", nothing)
    for index, entry in enumerate(listed.entries):
        service_class = ServiceClass(
            name=listed.name,
            priority=priority,
            wait=_as_target(entry.ttw_ms, _WAIT_PERCENTILE),
            listed_ttft_s=seconds_from_ms(entry.ttft_ms) if entry.ttft_ms else None,
            itl=_as_target(entry.itl_ms or entry.tpot_ms, None),
            throughput_tokens_per_s=entry.tokens_per_s or None,
            place=text.locate(("data", index)),
        )
        yield _as_listed(text, entry.model, service_class)


def _as_listed(text: EmbeddedYaml, model_id: str, service_class: ServiceClass) -> ListedClass:
    return ListedClass(
        namespace=text.source.namespace,
        config_map=text.source.name,
        key=text.key,
        model_id=model_id,
        service_class=service_class,
    )


def _as_target(limit_ms: float | None, percentile: float | None) -> SloTarget | None:
    return SloTarget(limit_s=seconds_from_ms(limit_ms), percentile=percentile) if limit_ms else None


COSTS_CONFIG_MAP = "accelerator-unit-costs"
_LARGEST_COST = 1e9
_LONGEST_ENTRY = 4096


def read_costs(source: KubernetesObject, entries: Mapping[str, object]) -> Iterator[Piece]:
    """The price of every entry that can be read, and what is wrong with the others."""
    for accelerator, entry in entries.items():
        path = ("data", accelerator)
        try:
            cost_per_hour, device = _parse_cost(entry)
        except ValueError as error:
            yield source.complain(path, str(error))
            continue
        if not accelerator:
            yield source.complain(("data",), "expected the name of an accelerator as a key, found nothing")
            continue
        place = source.locate(path)
        yield ListedCost(
            accelerator=accelerator,
            cost_per_hour=cost_per_hour,
            device_label=device,
            place=place,
            namespace=source.namespace,
        )


def _parse_cost(entry: object) -> tuple[float, str]:
    """A JSON object `{device, cost}` has cents an hour; a bare number is currency units an hour, as it was first."""
    if not isinstance(entry, str):
        raise ValueError(f"expected text, {'found' if entry is None else 'got'} {describe(entry)}")  # noqa: TRY004
    try:
        value: object = json.loads(entry) if len(entry) <= _LONGEST_ENTRY else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return _parse_number(entry, "a JSON object with device and cost, or a number"), ""
    device, cost = value.get("device", ""), value.get("cost")
    if not isinstance(device, str):
        raise ValueError(f"expected a string in device, got {describe(device)}")  # noqa: TRY004
    return cost_per_hour_from_cents(_parse_number(cost, "a number of cents in cost")), device


def _parse_number(found: object, expected: str) -> float:
    try:
        number = float(found) if isinstance(found, str | int | float) and not isinstance(found, bool) else -1.0
    except (ValueError, OverflowError):
        number = -1.0
    if not isfinite(number) or not 0 <= number <= _LARGEST_COST:
        raise ValueError(f"expected {expected}, {'found' if found is None else 'got'} {describe(found)}")
    return number
