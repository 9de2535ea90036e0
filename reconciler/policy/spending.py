"""What a budget leaves an hour: the rest of its day or month, by what was spent since it began."""

from calendar import monthrange
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from reconciler.domain.measured.replicas import LiveReplicas
from reconciler.domain.rules import BudgetRule, Period
from reconciler.domain.written_counts import WrittenCounts
from reconciler.policy.subjects import Subject

HOUR_S = 3600.0


def left_an_hour(asks: BudgetRule, members: Iterable[Subject], now_s: float) -> float | str:
    """What the members may cost an hour from now on; words where nobody knows what they cost until now.

    What was spent is replicas times their price of today.
    """
    if asks.per is Period.HOUR:
        return asks.amount
    began_s, ends_s = period_of(asks.per, now_s)
    spent = 0.0
    for member in members:
        hours, price = replica_hours(member.written, member.live, began_s, now_s), member.variant.current_cost_per_hour
        name = member.variant.key.label
        if hours is None:
            began = datetime.fromtimestamp(began_s, tz=UTC)
            return f"neither Git's history nor Prometheus tells what ran of {name} since {began:%Y-%m-%d}"
        if hours and price is None:
            return f"nobody knows what {name} costs"
        spent += hours * (price or 0.0)
    return max(asks.amount - spent, 0.0) / ((ends_s - now_s) / HOUR_S)


def period_of(per: Period, now_s: float) -> tuple[float, float]:
    """When the day or month of a moment begins and ends, by UTC."""
    day = datetime.fromtimestamp(now_s, tz=UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    first = day.replace(day=1) if per is Period.MONTH else day
    days = monthrange(day.year, day.month)[1] if per is Period.MONTH else 1
    return first.timestamp(), (first + timedelta(days=days)).timestamp()


def replica_hours(
    written: WrittenCounts | None, live: LiveReplicas | None, began_s: float, now_s: float
) -> float | None:
    """How many replicas ran for how long: what the cluster told, else what Git said; None where neither is known."""
    moments = {began_s, now_s}
    if written is not None:
        moments.update(at_s for at_s, _ in written.counts)
    if live is not None:
        moments.update(live.start_s + index * live.step_s for index in range(len(live.counts) + 1))
    ordered = sorted(at_s for at_s in moments if began_s <= at_s <= now_s)
    total_s = 0.0
    for start_s, end_s in pairwise(ordered):
        count = None if live is None else live.at(start_s)
        if count is None and written is not None:
            count = written.at(start_s)
        if count is None:
            return None
        total_s += count * (end_s - start_s)
    return total_s / HOUR_S
