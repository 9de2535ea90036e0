"""The kinds of values in a policy file, and windows of time that recur."""

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Self
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError
from pydantic import Field, PlainValidator, WithJsonSchema, field_validator, model_validator

from reconciler.domain.rules import Amount, Window
from reconciler.manifests.wording import describe
from reconciler.policy.port import KindSection
from reconciler.resources.validation import FRACTIONS, SECONDS, pattern_of, read_duration, read_percentage

# Windows of time that return: from each time that a cron expression names, in its zone, for so long. Daylight saving:
# a time that a clock leaps over counts at the end of the leap, one that it shows twice counts once (as Debian's cron
# has it), and a length is time that passes, whatever clocks show.

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


MAX_COUNT = 2**31 - 1


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT


def _amount(value: object) -> Amount:
    if isinstance(value, int) and _is_count(value):
        return Amount(replicas=value)
    if isinstance(value, str):
        return Amount(fraction=read_percentage(value))
    raise ValueError(f"expected a number of replicas, or a percentage like 50%, got {describe(value)}")


def _text(pattern: str, example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern}$", "examples": [example]})


def _duration(value: object) -> float:
    return read_duration(value, "30m")


_PERCENT = pattern_of(FRACTIONS)
_AMOUNT: dict[str, Any] = {
    "anyOf": [{"type": "integer", "minimum": 0, "maximum": MAX_COUNT}, {"type": "string", "pattern": f"^{_PERCENT}$"}]
}

Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
PositiveCount = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Priority = Annotated[int, Field(ge=-MAX_COUNT, le=MAX_COUNT)]
Money = Annotated[float, Field(ge=0, le=1e9)]
Glob = Annotated[str, Field(min_length=1, max_length=1000)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", description="a name like step-down")]
Account = Annotated[str, Field(pattern=r"^[^\s\x00-\x1f\x7f]{1,253}$", description="an account, or team:NAME")]
Accounts = Annotated[list[Account], Field(min_length=1, max_length=20)]
PullRequestLabel = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f,]{1,50}$", description="a label")]
PullRequestLabels = Annotated[list[PullRequestLabel], Field(min_length=1, max_length=20)]
Percentage = Annotated[float, PlainValidator(read_percentage), _text(_PERCENT, "20%")]
Duration = Annotated[float, PlainValidator(_duration), _text(pattern_of(SECONDS), "30m")]
ReplicasOrShare = Annotated[Amount, PlainValidator(_amount), WithJsonSchema(_AMOUNT)]


_LONGEST_S = 31 * 86400.0


class WindowSection(KindSection):
    """When a rule counts: a cron expression and how long, or two days."""

    cron: str | None = None
    """when it begins, like 0 18 * * 5: minute, hour, day, month, weekday"""
    lasts: Duration | None = Field(default=None, alias="for")
    """how long from then, like 62h; at most 31d"""
    begins: str | None = Field(default=None, alias="from")
    """the first day, like 2026-12-20"""
    until: str | None = None
    """the day after the last one, like 2027-01-04"""
    time_zone: str = "UTC"
    """a time zone like Europe/Berlin (= UTC)"""

    @field_validator("cron")
    @classmethod
    def _comes(cls, value: str | None) -> str | None:
        flaw = "" if value is None else find_cron_flaw(value)
        if flaw:
            raise ValueError(f"expected a cron expression like 0 18 * * 5, got {describe(value)}: {flaw}")
        return value

    @field_validator("begins", "until")
    @classmethod
    def _is_day(cls, value: str | None) -> str | None:
        try:
            if value is None or date.fromisoformat(value).isoformat() == value:
                return value
        except ValueError:
            pass
        raise ValueError(f"expected a day like 2026-12-20 in quotes, got {describe(value)}")

    @field_validator("time_zone")
    @classmethod
    def _is_zone(cls, value: str) -> str:
        if value not in available_timezones():
            raise ValueError(f"expected a time zone like Europe/Berlin, got {describe(value)}")
        return value

    @model_validator(mode="after")
    def _is_a_window(self) -> Self:
        recurs = (self.cron is not None, self.lasts is not None)
        once = (self.begins is not None, self.until is not None)
        if not (all(recurs) and not any(once)) and not (all(once) and not any(recurs)):
            raise ValueError("expected cron and for, or from and until")
        if self.lasts is not None and self.lasts > _LONGEST_S:
            raise ValueError("expected for of at most 31d")
        if self.begins is not None and self.until is not None and self.begins >= self.until:
            raise ValueError(f"expected from before until, got {self.begins} and {self.until}")
        return self

    def window(self) -> Window:
        """The same as a rule has it."""
        if self.cron is not None:
            return Window(cron=self.cron, lasts_s=self.lasts or 0.0, time_zone=self.time_zone)
        return Window(from_s=self._start_of(self.begins), until_s=self._start_of(self.until), time_zone=self.time_zone)

    def _start_of(self, day: str | None) -> float:
        midnight = datetime.fromisoformat(day or "1970-01-01").replace(tzinfo=ZoneInfo(self.time_zone))
        return midnight.timestamp()
