"""Entries of `wva-model-scale-to-zero-config`: which models go to zero, and how long after their last request."""

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field

from reconciler.domain.identity import Finding, Severity
from reconciler.manifests.wording import quote
from reconciler.resources.kubernetes.quantities import parse_duration
from reconciler.resources.llmd.entries import ConfigMapEntry, EntryFields, UpstreamSettings, ZeroEntry, read_entries
from reconciler.resources.objects import KubernetesObject, Piece

ZERO_CONFIG_MAP = "wva-model-scale-to-zero-config"


class _ZeroFields(EntryFields):
    enable_scale_to_zero: Annotated[bool | None, Field(alias="enable_scale_to_zero")] = None
    retention_period: Annotated[str | None, Field(alias="retention_period")] = None


def read_zero(source: KubernetesObject, texts: Mapping[str, object]) -> Iterator[Piece]:
    """The valid entries of the ConfigMap, and what is wrong with the others."""
    entries: list[ZeroEntry] = []
    for entry in read_entries(source, texts, _ZeroFields):
        if isinstance(entry, Finding):
            yield entry
            continue
        written = entry.fields.retention_period
        retention_s = _parse_period(written) if written else None
        if written and retention_s is None:
            # Unlike another mistake this one leaves the rest of the entry in force.
            message = f"expected a duration above zero like 10m, got {quote(written)}: this period is left out"
            yield Finding(place=entry.text.locate(("retention_period",)), severity=Severity.WARNING, message=message)
        entries.append(_as_zero(entry, retention_s))
    yield UpstreamSettings(
        cluster=source.cluster, namespace=source.namespace, name=source.name, place=source.place, zero=tuple(entries)
    )


def _as_zero(entry: ConfigMapEntry[_ZeroFields], retention_s: float | None) -> ZeroEntry:
    return ZeroEntry(
        namespace=entry.text.source.namespace,
        key=entry.text.key,
        place=entry.place,
        model_id=entry.model_id,
        model_namespace=entry.namespace,
        is_enabled=entry.fields.enable_scale_to_zero,
        retention_s=retention_s,
    )


def _parse_period(text: str) -> float | None:
    try:
        seconds = parse_duration(text)
    except ValueError:
        return None
    return seconds if seconds > 0 else None
