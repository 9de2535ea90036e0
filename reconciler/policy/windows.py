"""Windows of time that return: from each time that a cron expression names, in its zone, for so long.

Daylight saving: a time that a clock leaps over counts at the end of the leap, one that it shows twice counts once (as
Debian's cron has it), and a length is time that passes, whatever clocks show.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from reconciler.domain.rules import Window

_SEARCHED_FROM = datetime(2024, 1, 1, tzinfo=UTC)
"""Any day will do: the search covers fifty years."""


def find_cron_flaw(expression: str) -> str:
    """What is wrong with a cron expression; empty where it names times that come."""
    try:
        next(CronSim(expression, _SEARCHED_FROM))
    except CronSimError as error:
        return str(error)
    except StopIteration:
        return "it never comes"
    return ""


def told_until(window: Window, now_s: float) -> str | None:
    """When a window closes that is open, by the clocks of its zone; None for one that is closed."""
    until_s = open_until(window, now_s)
    if until_s is None:
        return None
    until = datetime.fromtimestamp(until_s, tz=ZoneInfo(window.time_zone))
    return f"until {until:%Y-%m-%d %H:%M} ({window.time_zone})"


@lru_cache(maxsize=4096)
def open_until(window: Window, now_s: float) -> float | None:
    """When a window closes that is open (Unix seconds); None for one that is closed."""
    if not window.cron:
        return window.until_s if window.from_s <= now_s < window.until_s else None
    # Asked in the middle of an hour that comes twice, cron would name its times again.
    searched_from = datetime.fromtimestamp(now_s, tz=UTC) - timedelta(seconds=window.lasts_s)
    latest_s = 0.0
    for moment in CronSim(window.cron, searched_from.astimezone(ZoneInfo(window.time_zone))):
        if moment.timestamp() > now_s:
            break
        latest_s = moment.timestamp()
    return latest_s + window.lasts_s if now_s < latest_s + window.lasts_s else None
