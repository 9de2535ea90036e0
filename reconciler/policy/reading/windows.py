"""Windows of time in a policy file."""

from datetime import date, datetime
from typing import Self
from zoneinfo import ZoneInfo, available_timezones

from pydantic import Field, field_validator, model_validator

from reconciler.domain.rules import Window
from reconciler.manifests.wording import describe
from reconciler.policy.port import KindSection
from reconciler.policy.reading.values import Duration
from reconciler.policy.windows import find_cron_flaw

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
