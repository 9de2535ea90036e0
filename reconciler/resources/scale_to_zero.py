"""Entries of `wva-model-scale-to-zero-config`: which models go to zero, and how long after their last request."""

import re
from collections.abc import Iterator, Mapping

from reconciler.domain.findings import Finding, Severity
from reconciler.domain.saturation_settings import ZeroEntry
from reconciler.resources.entries import Entry, EntryFields, read_entries
from reconciler.resources.objects import KubernetesObject, Piece, UpstreamSettings
from reconciler.resources.wording import quote

ZERO_CONFIG_MAP = "wva-model-scale-to-zero-config"

# Go's durations, as upstream parses them; twelve digits are 30000 years.
_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)(ns|us|µs|μs|ms|s|m|h)")
_DURATION = re.compile(f"(?:{_PART.pattern}){{1,8}}")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class _ZeroFields(EntryFields):
    enable_scale_to_zero: bool | None = None
    retention_period: str | None = None


def read_zero(source: KubernetesObject, texts: Mapping[str, object]) -> Iterator[Piece]:
    """The valid entries of the ConfigMap, and what is wrong with the others."""
    entries: list[ZeroEntry] = []
    for entry in read_entries(source, texts, _ZeroFields):
        if isinstance(entry, Finding):
            yield entry
            continue
        written = entry.fields.retention_period
        retention_s = _parse_duration(written) if written else None
        if written and retention_s is None:
            # Unlike another mistake this one leaves the rest of the entry in force.
            message = f"expected a duration above zero like 10m, got {quote(written)}: this period is left out"
            yield Finding(place=entry.text.locate(("retention_period",)), severity=Severity.WARNING, message=message)
        entries.append(_as_zero(entry, retention_s))
    yield UpstreamSettings(
        cluster=source.cluster, namespace=source.namespace, name=source.name, place=source.place, zero=tuple(entries)
    )


def _as_zero(entry: Entry[_ZeroFields], retention_s: float | None) -> ZeroEntry:
    return ZeroEntry(
        namespace=entry.text.source.namespace,
        key=entry.text.key,
        place=entry.place,
        model_id=entry.model_id,
        model_namespace=entry.namespace,
        is_enabled=entry.fields.enable_scale_to_zero,
        retention_s=retention_s,
    )


def _parse_duration(text: str) -> float | None:
    if not _DURATION.fullmatch(text):
        return None
    seconds = sum(float(amount) * _SECONDS[unit] for amount, unit in _PART.findall(text))
    return seconds if seconds > 0 else None
