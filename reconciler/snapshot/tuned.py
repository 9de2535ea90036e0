"""What an autoscaler that is tuned goes by, as a query."""

from collections.abc import Iterable, Mapping

from reconciler.domain.answers import Absence, NoAnswer
from reconciler.domain.holds import NOT_ASKED, Hold
from reconciler.domain.identity import ResourceKey
from reconciler.domain.scalers import AdapterRule, Scaler, ScalerHistory, TunedScaler
from reconciler.domain.settings import PrometheusSettings
from reconciler.domain.workloads import Workload
from reconciler.resources.kinds import ROLE
from reconciler.resources.registry import KINDS


def of_this_query(
    scaled: Mapping[ResourceKey, ScalerHistory | NoAnswer],
    tuned: Mapping[ResourceKey, TunedScaler],
    base: Mapping[ResourceKey, TunedScaler],
) -> dict[ResourceKey, ScalerHistory | NoAnswer]:
    """What autoscalers did, but not of those that a change gives another query: that was not asked."""
    words = "this change gives its autoscaler another query, which was not asked: it is tuned once that is merged"
    return {
        key: NoAnswer(Absence.MISSING, words) if key in base and tuned[key].metric != base[key].metric else each
        for key, each in scaled.items()
    }


def tuned_scaler(
    scaler: Scaler, workload: Workload | None, prometheus: PrometheusSettings | None, rules: Iterable[AdapterRule]
) -> TunedScaler:
    """An autoscaler that is to be tuned, with its metric as a query, or why there is none."""
    if scaler.bounds_only:
        return TunedScaler(scaler=scaler)
    if scaler.unwritable is not None:
        return TunedScaler(scaler=scaler, hold=scaler.unwritable)
    if prometheus is None or workload is None:
        return TunedScaler(scaler=scaler, hold=NOT_ASKED)
    # It brings numpy, and `validate` mostly meets no such autoscaler.
    from reconciler.metrics.scaler_metrics import GROUP_PODS, pods_named, resolve

    target = workload.becomes or workload.key
    ending = KINDS[target.kind].pod_names.replace(ROLE, ".*") if target.kind in KINDS else ""
    if scaler.policy is not None:  # Kthena scrapes the first pod of each role
        ending = f"{GROUP_PODS}-0"
    pods = pods_named(target.namespace, target.name, ending or "-.*")
    found = resolve(scaler, pods, (each for each in rules if each.cluster == target.cluster), prometheus)
    return TunedScaler(scaler=scaler, **({"hold": found} if isinstance(found, Hold) else {"metric": found}))
