"""What a budget leaves an hour: the rest of its day or month, by what was merged since it began."""

from calendar import monthrange
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from reconciler.domain.rules import BudgetRule, Period
from reconciler.policy.subjects import Subject

HOUR_S = 3600.0


def left_an_hour(asks: BudgetRule, members: Iterable[Subject], now_s: float) -> float | None:
    """What the members may cost an hour from now on; None where nobody knows what they cost until now.

    What was spent is replicas times their price of today, by Git's numbers as our merges tell them.
    """
    if asks.per is Period.HOUR:
        return asks.amount
    began_s, ends_s = period_of(asks.per, now_s)
    spent = 0.0
    for member in members:
        cost = _spent(member, began_s)
        if cost is None:
            return None
        spent += cost
    return max(asks.amount - spent, 0.0) / ((ends_s - now_s) / HOUR_S)


def period_of(per: Period, now_s: float) -> tuple[float, float]:
    """When the day or month of a moment begins and ends, by UTC."""
    day = datetime.fromtimestamp(now_s, tz=UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    first = day.replace(day=1) if per is Period.MONTH else day
    days = monthrange(day.year, day.month)[1] if per is Period.MONTH else 1
    return first.timestamp(), (first + timedelta(days=days)).timestamp()


def _spent(member: Subject, began_s: float) -> float | None:
    """What a variant cost since then."""
    replica_hours, until_s, replicas = 0.0, member.now_s, member.current.replicas
    for merge in reversed(member.merges):
        if merge.at_s <= began_s:
            break
        replica_hours += replicas * (until_s - merge.at_s) / HOUR_S
        until_s, replicas = merge.at_s, merge.replicas_before
    replica_hours += replicas * (until_s - began_s) / HOUR_S
    price = member.variant.current_cost_per_hour
    if not replica_hours:
        return 0.0
    return None if price is None else price * replica_hours
