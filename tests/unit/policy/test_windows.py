"""Windows open when their cron says so in their zone, in the nights too in which clocks are set."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from reconciler.domain.rules import Window
from reconciler.policy.values import find_cron_flaw, open_until

BERLIN = "Europe/Berlin"


def at(text: str, zone: str = BERLIN, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def is_open(cron: str, hours: float, now_s: float, zone: str = BERLIN) -> bool:
    return open_until(Window(cron=cron, lasts_s=hours * 3600, time_zone=zone), now_s) is not None


def test_a_window_opens_on_the_minute_and_closes_when_its_time_is_over() -> None:
    for text, expected in (("07:59:59", False), ("08:00:00", True), ("09:59:59", True), ("10:00:00", False)):
        assert is_open("0 8 * * 1", 2, at(f"2026-11-23T{text}")) is expected, text


def test_the_zone_counts() -> None:
    moment = at("2026-11-23T08:30")
    assert is_open("0 8 * * 1", 1, moment)
    assert not is_open("0 8 * * 1", 1, moment, "UTC")


def test_windows_that_overlap_close_when_the_last_one_does() -> None:
    window = Window(cron="0 * * * *", lasts_s=5400.0)
    assert open_until(window, at("2026-11-23T08:10", "UTC")) == at("2026-11-23T09:30", "UTC")


def test_a_time_that_the_clock_leaps_over_counts_at_the_end_of_the_leap() -> None:
    # On 2026-03-29 it is 03:00 right after 01:59:59.
    assert not is_open("30 2 * * *", 1, at("2026-03-29T01:59"))
    assert is_open("30 2 * * *", 1, at("2026-03-29T03:10"))
    assert not is_open("30 2 * * *", 1, at("2026-03-29T04:31"))
    # A length is time that passes: two hours from 01:00 end at 04:00 on the clock.
    assert is_open("0 1 * * *", 2, at("2026-03-29T03:59"))
    assert not is_open("0 1 * * *", 2, at("2026-03-29T04:00"))


def test_a_time_that_the_clock_shows_twice_counts_once() -> None:
    # On 2026-10-25 02:00 to 02:59 come twice.
    first, second = at("2026-10-25T02:30"), at("2026-10-25T02:30", fold=1)
    assert second - first == 3600
    assert is_open("30 2 * * *", 0.5, first)
    assert not is_open("30 2 * * *", 0.5, second)
    # Two hours from 01:30 end at the second 02:30.
    assert is_open("30 1 * * *", 2, second - 1)
    assert not is_open("30 1 * * *", 2, second)


@pytest.mark.parametrize("cron", ["0 0 30 2 *", "61 * * * *", "* * * *", "", "every day", "0 0 31 4 *"])
def test_what_never_comes_is_wrong(cron: str) -> None:
    assert find_cron_flaw(cron)


def test_what_comes_is_right() -> None:
    assert not find_cron_flaw("0 18 * * 5")
    assert not find_cron_flaw("*/5 8-18 1,15 * MON-FRI")
    assert not find_cron_flaw("0 0 29 2 *")
