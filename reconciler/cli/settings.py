"""Which variant a person means, and its effective settings as rows."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from reconciler.domain.identity import ResourceKey
from reconciler.domain.plan import Decision, Plan
from reconciler.domain.provenance import Sourced
from reconciler.domain.service_classes import SloTarget
from reconciler.domain.variants import Variant
from reconciler.errors import ConfigurationError
from reconciler.report.explain import SettingRow

Value = TypeVar("Value")


def find_decision(plan: Plan, resource: str) -> Decision:
    """The decision that `[KIND:][CLUSTER/]NAMESPACE/NAME` means; ConfigurationError when none or several do."""
    kind, _, path = resource.rpartition(":")
    found = [each for each in plan.decisions if _is_meant(each.variant, kind, path)]
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


def _is_meant(key: ResourceKey, kind: str, path: str) -> bool:
    return path in (key.label, f"{key.cluster}/{key.label}") and kind.lower() in ("", key.kind.lower())


def setting_rows(variant: Variant) -> Iterator[SettingRow]:
    """The effective values of a variant with their places and what they displaced."""
    settings = variant.settings
    if variant.service_class is not None:
        yield _row("serviceClass", variant.service_class, lambda each: each.name)
        chosen = variant.service_class.value
        for name, target in (("ttft", chosen.ttft), ("wait", chosen.wait), ("itl", chosen.itl)):
            if target is not None:
                yield SettingRow(
                    name=f"{name} {target.statistic}", value=_limit(target), source=str(chosen.place or "")
                )
    yield _row("accelerator", settings.accelerator)
    yield _row("minReplicas", settings.min_replicas)
    yield _row("maxReplicas", settings.max_replicas, lambda most: "none" if most is None else str(most))
    yield _engine_row(variant)
    yield _row("sizing.headroom", settings.headroom, lambda share: f"{share * 100:g}%")
    yield _row("group", settings.group)
    yield SettingRow(
        name="current",
        value=variant.current.accelerator or "unknown",
        source=variant.accelerator_source or "nothing says",
    )
    yield from _option_rows(variant)
    if variant.workload is not None:
        place = variant.workload.replicas_place or variant.workload.place
        yield SettingRow(name="written at", value=str(place), source=variant.workload.key.kind)


def _engine_row(variant: Variant) -> SettingRow:
    """What `auto` comes to: the queueing engine wherever a profile is given."""
    row = _row("sizing.engine", variant.settings.engine)
    if row.value != "auto" or not variant.options:
        return row
    return replace(row, value="queueing", source=f"auto: profile given at {variant.options[0].profile.place}")


def _option_rows(variant: Variant) -> Iterator[SettingRow]:
    for option in variant.options:
        cost = "unknown" if option.cost_per_hour is None else f"{option.cost_per_hour:.2f} a replica and hour"
        yield SettingRow(name=f"cost {option.accelerator}", value=cost, source=str(option.cost_place or "nothing says"))
        yield SettingRow(
            name=f"profile {option.accelerator}",
            value=f"alpha {option.profile.alpha_s * 1000:g}ms, beta {option.profile.beta_s * 1000:g}ms",
            source=str(option.profile.place or ""),
        )


def _row(name: str, sourced: Sourced[Value], words: Callable[[Value], str] = str) -> SettingRow:
    displaced = "; ".join(f"{words(lower.value)} ({lower.source})" for lower in sourced.displaced)
    return SettingRow(name=name, value=words(sourced.value), source=str(sourced.source), displaced=displaced)


def _limit(target: SloTarget) -> str:
    return f"{target.limit_s * 1000:g}ms" if target.limit_s < 1 else f"{target.limit_s:g}s"
