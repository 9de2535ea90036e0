"""Live replicas that stay away from Git: somebody whom Git does not show sets them, or nobody applies Git.

The age of the newest commit stands for that of the number, which may be older: while a repository is committed to all
the time this notices less. Only a commit that is pushed long after it was made looks older than it is: until it is
applied its number may be held, no longer.
"""

import math
from collections.abc import Iterator

from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.measured.answers import NoAnswer
from reconciler.domain.measured.replicas import LiveReplicas
from reconciler.domain.provenance import Figure
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.variant_settings import SYNC_DELAY_S
from reconciler.domain.variants import Variant
from reconciler.metrics.quantities.kubernetes import LIVE_WINDOW_S
from reconciler.metrics.quantities.quantity import Name
from reconciler.metrics.queries.expressions import duration
from reconciler.metrics.reading.live import watched_target


def drift_of(snapshot: Snapshot, variant: Variant) -> Hold | None:
    """Why nothing may be proposed for a variant whose live replicas stay away from Git; None where they do not.

    Away is another number at every sample of the last sync delay; one that is not known is not away.
    """
    live, workload = snapshot.observed.live.get(variant.key), variant.workload
    if workload is None or not isinstance(live, LiveReplicas) or not _is_synced(snapshot, variant):
        return None
    delay = variant.settings[SYNC_DELAY_S]
    counts = live.since(snapshot.now_s - delay.value)
    if not counts or any(math.isnan(count) or count == workload.replicas for count in counts):
        return None
    place = workload.written_at[0].place
    words = (
        f"spec.replicas of {workload.key.kind} {workload.key.label} is {counts[-1]:g} in the cluster and "
        f"{workload.replicas} in Git ({place}), for longer than the sync delay of "
        f"{duration(delay.value)} ({delay.source}): something that Git does not show sets it, or nobody applies Git; "
        "stop that and write the live count into Git, or put its owner there (an HPA or ScaledObject, "
        "with whenAutoscaled: bounds), or set ignore"
    )
    return Hold(kind=HoldKind.DRIFTED, words=words, place=place)


def live_figures(snapshot: Snapshot, variant: Variant) -> Iterator[Figure]:
    """The two numbers that are held against each other; none where that was not asked for."""
    live, workload = snapshot.observed.live.get(variant.key), variant.workload
    if live is None or workload is None or watched_target(variant) is None:
        return
    newest, reason = (None, live.reason) if isinstance(live, NoAnswer) else (live.newest, "")
    if newest is None:
        reason = reason or "not told lately, or by several and differently"
    queries = (str(Name.LIVE_REPLICAS),)
    age = "" if _is_synced(snapshot, variant) else ", in a commit too new to be sure that it was applied"
    place = f"{workload.written_at[0].place}{age}"
    for name, value, words, asked in (
        ("replicas in the cluster", newest, reason, queries),
        ("replicas in Git", workload.replicas, place, ()),
    ):
        yield Figure(subject=workload.key.label, name=name, value=value, unit="", reason=words, queries=asked)


def _is_synced(snapshot: Snapshot, variant: Variant) -> bool:
    """Whether the commit had its sync delay, and metrics the time to show what came of it."""
    if snapshot.committed_s is None:
        return False
    return snapshot.now_s - snapshot.committed_s > variant.settings[SYNC_DELAY_S].value + LIVE_WINDOW_S
