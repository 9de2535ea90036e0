"""Growth needs proof: while replicas that were asked for do not serve, more of them would not either."""

import math
from collections.abc import Mapping

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.observed import ResourceQuota
from reconciler.domain.measured.replicas import is_usual_churn
from reconciler.domain.snapshot import Snapshot, Variant


def why_unproven(snapshot: Snapshot, variant: Variant, waits_s: float) -> Hold | None:
    """Why nothing may be added to a variant's model: replicas that Git asks for do not report; None where all do.

    Nor longer than `waits_s` after the newest commit, which may have asked for them, unless they find no node. What an
    autoscaler runs it adds by itself.
    """
    observation, asked = snapshot.observed.observations.get(variant.key), variant.current.replicas
    if observation is None or observation.absence is not None or variant.is_autoscaled:
        return None
    missing = asked - observation.replicas_reporting
    unschedulable = snapshot.observed.unschedulable.get(variant.key, 0)
    is_usual = is_usual_churn(missing, asked) or not _is_awaited(snapshot, waits_s)
    if missing <= 0 or waits_s == 0 or (is_usual and not unschedulable):
        return None
    pending = f", {unschedulable} find no node" if unschedulable else ""
    words = (
        f"{observation.replicas_reporting} of {asked} replicas of {variant.key.label} report{pending}: "
        "nothing is added until those that Git asks for do"
    )
    return Hold(kind=HoldKind.GROWTH_UNPROVEN, words=words)


def _is_awaited(snapshot: Snapshot, waits_s: float) -> bool:
    age_s = math.nan if snapshot.committed_s is None else snapshot.now_s - snapshot.committed_s
    return math.isinf(waits_s) or 0 <= age_s < waits_s


def room_in_quotas(
    snapshot: Snapshot, key: ResourceKey, devices_per_replica: Mapping[str, int]
) -> tuple[int, ResourceQuota] | None:
    """How many more replicas the quotas of a namespace admit, and the one that binds; None where none does."""
    quotas = snapshot.observed.quotas.get((key.cluster, key.namespace), ())
    rooms = [
        (max(int(quota.left // devices_per_replica[quota.resource]), 0), quota)
        for quota in quotas
        if devices_per_replica.get(quota.resource)
    ]
    return min(rooms, key=lambda each: (each[0], each[1].name), default=None)
