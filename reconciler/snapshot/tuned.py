"""Which autoscalers are tuned, and what each goes by as a query."""

from collections.abc import Iterable

from reconciler.domain.holds import NOT_ASKED, Hold
from reconciler.domain.identity import ResourceKey
from reconciler.domain.scalers import AdapterRule, Scaler, TunedScaler
from reconciler.domain.settings import Settings
from reconciler.domain.snapshot import Variant
from reconciler.metrics.scaler_metrics import pods_named, resolve
from reconciler.resources.declaration import Declaration
from reconciler.resources.kinds import ROLE
from reconciler.resources.registry import KINDS


def tuned_scalers(
    settings: Settings, variants: Iterable[Variant], declaration: Declaration
) -> dict[ResourceKey, TunedScaler]:
    """The autoscalers of the variants that are to be tuned, by variant."""
    return {
        variant.key: _tuned(variant, variant.scaler, settings, declaration.adapter_rules)
        for variant in variants
        if variant.scaler is not None
    }


def _tuned(variant: Variant, scaler: Scaler, settings: Settings, rules: Iterable[AdapterRule]) -> TunedScaler:
    cluster, workload = variant.key.cluster, variant.workload
    prometheus = next((each.prometheus for each in settings.clusters if each.name == cluster), None)
    if scaler.bounds_only:
        return TunedScaler(scaler=scaler)
    if scaler.unwritable is not None:
        return TunedScaler(scaler=scaler, hold=scaler.unwritable)
    if prometheus is None or workload is None:
        return TunedScaler(scaler=scaler, hold=NOT_ASKED)
    target = workload.becomes or workload.key
    ending = KINDS[target.kind].pod_names.replace(ROLE, ".*") if target.kind in KINDS else ""
    pods = pods_named(target.namespace, target.name, ending or "-.*")
    found = resolve(scaler, pods, (each for each in rules if each.cluster == cluster), prometheus)
    return TunedScaler(scaler=scaler, **({"hold": found} if isinstance(found, Hold) else {"metric": found}))
