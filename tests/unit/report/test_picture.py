"""The load of the last day beside capacities, as text: few points, few lines, and the same for the same plan."""

import dataclasses
import re
from collections.abc import Callable

import pytest

from reconciler.domain.plan import Decision, ExpectedLoad, Pages, Plan
from reconciler.rendering.renderer import Renderer
from reconciler.report.pull_request import pull_request_view

DAY_S, HOUR_S, MINUTE_S = 86400.0, 3600.0, 60.0
DRAWN = Pages(draws_mermaid=True)


@pytest.fixture
def drawn(renderer: Renderer, plan_of: Callable[..., Plan], decide: Callable[..., Decision]) -> Callable[..., str]:
    """The body of one change whose model had these loads, so long ago."""

    def draw(
        points: list[tuple[float, float]],
        pages: Pages = DRAWN,
        expected: ExpectedLoad | None = None,
        **fields: object,
    ) -> str:
        change = decide("llama", **({"capacity_before": 30.0, "capacity_after": 50.0} | fields))
        plan = dataclasses.replace(plan_of(change), histories={change.model: tuple(points)})
        if expected is not None:
            plan = dataclasses.replace(plan, expected={change.model: expected})
        return renderer.render("pull_request/body.md.j2", pull_request_view(plan, plan.groups[0], pages=pages))

    return draw


def day(step_s: float = 600.0) -> list[tuple[float, float]]:
    """A day whose load rises to 40 req/s, point by point."""
    number = int(DAY_S / step_s)
    return [(DAY_S - index * step_s, 10 + 30 * index / number) for index in range(1, number + 1)]


def lines_of(body: str) -> list[list[float]]:
    return [
        [float(value) for value in line.split(", ")] for line in re.findall(r"^  line \[(.*)\]$", body, re.MULTILINE)
    ]


def test_a_day_has_at_most_24_points_and_three_lines(drawn: Callable[..., str]) -> None:
    body = drawn(day())
    lines = lines_of(body)
    assert [len(line) for line in lines] == [24, 24, 24]
    assert lines[0][-1] == max(lines[0]) == pytest.approx(40, rel=0.01)
    assert (set(lines[1]), set(lines[2])) == ({30.0}, {50.0})
    assert 'x-axis "hours" -23 --> 0' in body
    assert 'title "Llama-3.1-8B-Instruct, req/s"' in body
    assert "load measured in the last 24 hours, the peak of each hour" in body
    assert "capacity, 30.0 req/s expected now, 50.0 req/s expected after this change" in body


def test_a_load_that_is_expected_is_the_fan_at_the_end(drawn: Callable[..., str]) -> None:
    expected = ExpectedLoad(
        since_s=1_800_000_600.0, until_s=1_800_001_800.0, per_s={0.25: 38.0, 0.75: 44.0, 0.9: 46.0, 0.99: 52.0}
    )
    body = drawn(day(), expected=expected)
    lines = lines_of(body)
    assert [len(line) for line in lines] == [24] * 6
    assert len({tuple(line[:-1]) for line in lines[:4]}) == 1
    assert [line[-1] for line in lines] == [38.0, 44.0, 46.0, 52.0, 30.0, 50.0]
    assert 'x-axis "hours" -22 --> 1' in body
    assert '"plotColorPalette": "#93c5fd, #93c5fd, #3b82f6, #dbeafe, #8a8a8a, #d97706"' in body
    assert (
        "the load expected between 08:10 and 08:30 UTC is half of the time 38.0 to 44.0, nine times in ten at most "
        "46.0, and once in a hundred above 52.0 req/s"
    ) in body


def test_a_short_history_is_drawn_as_far_as_it_goes(drawn: Callable[..., str]) -> None:
    body = drawn([(minute * MINUTE_S, 20.0) for minute in range(55, -1, -1)])
    assert 'x-axis "minutes" -55 --> 0' in body
    assert len(lines_of(body)[0]) == 12


def test_what_is_not_known_in_between_is_as_before(drawn: Callable[..., str]) -> None:
    (load, *_) = lines_of(drawn([(20 * HOUR_S, 7.0), (3 * HOUR_S, 5.0), (HOUR_S, 6.0), (0.0, 8.0)]))
    assert load == [7.0] * 17 + [5.0, 5.0, 6.0, 8.0]


def test_one_capacity_before_and_after_is_one_line(drawn: Callable[..., str]) -> None:
    assert len(lines_of(drawn(day(), capacity_after=30.0))) == 2


@pytest.mark.parametrize("points", [[], [(0.0, 5.0)], [(60.0, 4.0), (0.0, 5.0)]])
def test_too_little_is_not_drawn(drawn: Callable[..., str], points: list[tuple[float, float]]) -> None:
    assert "xychart" not in drawn(points)
    assert "measured in the last" not in drawn(points, Pages())


def test_what_is_not_counted_in_requests_is_not_drawn(drawn: Callable[..., str]) -> None:
    assert "xychart" not in drawn(day(), unit="tokens")


def test_where_no_chart_is_drawn_characters_stand_for_it(drawn: Callable[..., str]) -> None:
    body = drawn(day(), Pages())
    assert "mermaid" not in body
    assert re.search(r"`[▁▂▃▄▅▆▇█]{24}` is the load measured in the last 24 hours", body)
    assert "![" not in body
    assert "<img" not in body
