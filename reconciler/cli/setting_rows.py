"""Which variant a person means, and its effective settings as rows."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from reconciler.domain.identity import Sourced
from reconciler.domain.plan import Decision, Plan
from reconciler.domain.records import replace
from reconciler.domain.settings import SettingScalar
from reconciler.domain.snapshot import Variant
from reconciler.domain.variant_settings import ENGINE, HEADROOM, SETTING_DEFINITIONS, ValueKind
from reconciler.errors import ConfigurationError
from reconciler.metrics.queries import duration
from reconciler.report.explain import SettingRow

Value = TypeVar("Value")

_SPELLINGS: Mapping[ValueKind, Callable[[Any], str]] = {
    ValueKind.FLAG: lambda value: str(value).lower(),
    ValueKind.PERCENTAGE: lambda share: f"{share * 100:g}%",
    ValueKind.DELAY: duration,
}


def find_decision(plan: Plan, resource: str) -> Decision:
    """The decision that `[KIND:][CLUSTER/]NAMESPACE/NAME` means; ConfigurationError when none or several do."""
    kind, _, path = resource.rpartition(":")
    found = [
        each
        for each in plan.decisions
        if path in (each.variant.label, f"{each.variant.cluster}/{each.variant.label}")
        and kind.lower() in ("", each.variant.kind.lower())
    ]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(str(each.variant) for each in found)
        raise ConfigurationError(f"{resource}: several resources have this name: {names}; put CLUSTER/ or kind: first")
    import difflib

    known = sorted({each.variant.label for each in plan.decisions})
    near = difflib.get_close_matches(path, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(known[:10]) or 'none'}"
    raise ConfigurationError(f"{resource}: no such resource{hint}")


def setting_rows(variant: Variant, decision: Decision) -> Iterator[SettingRow]:
    """The effective values of a variant with their places and what they displaced."""
    if variant.service_class is not None:
        yield _row("serviceClass", variant.service_class, lambda each: each.name)
        chosen = variant.service_class.value
        for name, target in (("ttft", chosen.ttft), ("wait", chosen.wait), ("itl", chosen.itl)):
            if target is not None:
                yield SettingRow(
                    name=f"{name} {target.statistic}", value=_limit(target.limit_s), source=str(chosen.place or "")
                )
        if chosen.listed_ttft_s is not None:
            yield SettingRow(name="slo-ttft", value=_limit(chosen.listed_ttft_s), source=str(chosen.place or ""))
    yield from _variant_settings(variant, decision)
    yield SettingRow(
        name="current",
        value=variant.current.accelerator or "unknown",
        source=variant.accelerator_source or "nothing says",
    )
    yield from _option_rows(variant)
    if variant.workload is not None:
        for written in variant.workload.written_at:
            yield SettingRow(name="written at", value=str(written.place), source=variant.workload.key.kind)
        for link in variant.workload.considered:
            yield SettingRow(name="considered", value=link, source="")


def _variant_settings(variant: Variant, decision: Decision) -> Iterator[SettingRow]:
    """The variant settings and the priority; for the engine, what `auto` resolved to and why."""
    for setting in SETTING_DEFINITIONS:
        if not setting.is_explained:
            continue
        row = _row(setting.name, variant.settings[setting], partial(spell, setting.kind))
        if setting is ENGINE and decision.engine:
            row = replace(row, value=decision.engine, source=decision.engine_reason)
        yield row
        if setting is HEADROOM and variant.priority is not None:
            yield _row("priority", variant.priority)


def spell(kind: ValueKind, value: SettingScalar | None) -> str:
    """The value of a variant setting as a configuration file has it; `none` for no limit."""
    if value is None:
        return "none"
    return _SPELLINGS.get(kind, str)(value)


def _option_rows(variant: Variant) -> Iterator[SettingRow]:
    if variant.relative_cost is not None:
        words = f"{variant.relative_cost:g}, not money: it ranks the variants of one model"
        yield SettingRow(name="relative cost", value=words, source=str(variant.place))
    for option in variant.options:
        cost = "unknown" if option.cost_per_hour is None else f"{option.cost_per_hour:.2f} a replica and hour"
        yield SettingRow(name=f"cost {option.accelerator}", value=cost, source=str(option.cost_place or "nothing says"))
        times_s = option.profile.times_s.items()
        yield SettingRow(
            name=f"profile {option.accelerator}",
            value=", ".join(f"{name} {value * 1000:.6g}ms" for name, value in times_s if value is not None),
            source=str(option.profile.place or "") + ("" if option.profile.learning is None else ", learned"),
        )


def _row(name: str, sourced: Sourced[Value], words: Callable[[Value], str] = str) -> SettingRow:
    displaced = "; ".join(f"{words(lower.value)} ({lower.source})" for lower in sourced.displaced)
    return SettingRow(name=name, value=words(sourced.value), source=str(sourced.source), displaced=displaced)


def _limit(limit_s: float) -> str:
    return f"{limit_s * 1000:g}ms" if limit_s < 1 else f"{limit_s:g}s"
